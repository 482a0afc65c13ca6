"""What words cost in one profile whose spatial factors are all known, and bounds in closed form; compiled.

For fixed spatial factors energy and every port's cycles are linear in the words that cross each boundary (D1): a tensor kept
at a level, with the next level out that keeps it. The words at the MACs are the compute cycles (rule T1); partial sums
never brought in the first time are paid once (rule O3).
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit, njit_apart
from codesign.cost.columns import FILL, HOP, READ, UPDATE, WORD_WIDTH
from codesign.mappers.exact.problem.instance import Instance
from codesign.mappers.exact.problem.lattice import INF
from codesign.mapping.nest import FloatArray, IntArray


class Hardware(NamedTuple):
    """Architecture and computation for compiled code. L levels, T tensors, A axes, D dimensions.

    Attributes:
        pair: ``L x T x 5`` pJ per element read, filled, updated; words per element; pJ per element and hop.
        hops: ``L x 2`` hops per word sent: constant part, part per copy.
        shares: ``L`` 1 where equal words are read once.
        port: ``L x 2`` number of the read and write port, the same where they take turns on one, -1 unlimited.
        bandwidth: ``L x 2``.
        axes: ``T x A x D`` coefficients, all 0 on axes that plain dimensions move.
        strided: ``T x A x 3``, see `codesign.mappers.exact.problem.instance.Instance.strided`.
        plain: ``T x D``.
        relevant: ``T x D``.
        bounds: ``D``.
        output_words: words of the output.
        macs: multiply-accumulates.
        mac_energy: pJ.
    """

    pair: FloatArray
    hops: FloatArray
    shares: IntArray
    port: IntArray
    bandwidth: FloatArray
    axes: FloatArray
    strided: IntArray
    plain: IntArray
    relevant: IntArray
    bounds: FloatArray
    output_words: float
    macs: float
    mac_energy: float


def make_hardware(instance: Instance) -> Hardware:
    """The arrays of an instance. Ports that take turns on one are one (rule L4)."""
    problem = instance.problem
    port, n_ports = np.full((instance.n_levels, 2), -1, np.int64), 0
    for v, (reads, writes) in enumerate(problem.bandwidth > 0.0):
        if reads:
            port[v, 0], n_ports = n_ports, n_ports + 1
        if writes and reads and problem.one_port[v]:
            port[v, 1] = port[v, 0]
        elif writes:
            port[v, 1], n_ports = n_ports, n_ports + 1
    axes = instance.coef * ~instance.plain[:, None, :]
    axes[problem.entangled == 1] = 0  # boxes of such tensors overlap in ways no product bounds
    pair = np.concatenate([problem.energy, problem.words[..., None], problem.hop_energy[..., None]], axis=-1)
    return Hardware(
        np.ascontiguousarray(pair), problem.hops, problem.shares, port, problem.bandwidth, axes.astype(np.float64),
        instance.strided, instance.plain.astype(np.int64), instance.relevant.astype(np.int64),
        np.array(instance.lattice.bounds, np.float64), float(problem.tensor_words[-1]), float(problem.macs),
        float(problem.mac_energy),
    )  # fmt: skip


@njit
def axis_length(length: float, step: int, p: float, r: float, all_p: float, all_r: float) -> float:
    """Different words along a strided axis, at least: whole windows, or a fair share of all of it."""
    length = max(length, (step * (all_p - 1.0) + all_r) * p * r / (all_p * all_r))
    return max(length, step * (p - 1.0) + all_r) if r == all_r else length


@njit
def fewest_words(t: int, m: int, hardware: Hardware, left: FloatArray, rest: FloatArray) -> float:
    """Fewest words of tensor t that can enter an instance of level m (bound B1 in docs/explanation/exact-mapper.md)."""
    axes, strided, bounds = hardware.axes, hardware.strided, hardware.bounds
    words = left[m, t]
    for a in range(axes.shape[1]):
        length, moved = 1.0, False
        for d in range(axes.shape[2]):
            if axes[t, a, d] > 0.0:
                moved = True
                length += rest[m, d] - 1.0
        p, r, step = strided[t, a, 0], strided[t, a, 1], strided[t, a, 2]
        if p >= 0:
            length = axis_length(length, step, rest[m, p], rest[m, r], bounds[p], bounds[r])
        if moved:
            words *= length
    return words  # type: ignore[no-any-return]


@njit_apart
def price_pairs(
    hardware: Hardware,
    children: FloatArray,
    share: FloatArray,
    distinct: FloatArray,
    price: FloatArray,
    fixed: FloatArray,
) -> None:
    """What a word between two levels that keep a tensor costs, and what is paid once.

    Args:
        children: ``L`` children of every fan-out in use.
        share: ``L x T`` product of the factors that index each tensor.
        distinct: ``L x T`` different words the children take at a time.
        price: ``(1 + J) x T x (L + 1) x L`` energy, then cycles of every port, of a word that enters an inner level (L: the
            MACs) from an outer one; overwritten.
        fixed: The same of what does not depend on the number of words (rule O3); overwritten.
    """
    pair, n_levels, n_tensors = hardware.pair, share.shape[0], share.shape[1]
    output = n_tensors - 1
    instances, own = np.ones(n_levels + 1), np.ones(n_levels + 1)
    own[0] = hardware.output_words
    for m in range(n_levels):
        instances[m + 1] = instances[m] * children[m]
        own[m + 1] = own[m] / share[m, output]
    price[:] = 0.0
    fixed[:] = 0.0
    for t in range(n_tensors):
        for p in range(n_levels):
            below, copies = 0.0, 1.0
            for m in range(p, n_levels):
                if pair[m, t, HOP] > 0.0:
                    hops = hardware.hops[m, 0] + hardware.hops[m, 1] * children[m] / distinct[m, t]
                    below += instances[m] * hops * pair[m, t, HOP]
                below *= distinct[m, t]
                copies *= distinct[m, t]
                v = m + 1
                at_macs = v == n_levels
                cost = instances[p] * copies * pair[p, t, READ] + below
                if not at_macs:
                    cost += instances[v] * pair[v, t, FILL]
                once = 0.0
                if t == output:
                    cost += instances[p] * copies * pair[p, t, UPDATE]
                    once = -own[p] * instances[p] * pair[p, t, READ]
                    if not at_macs:
                        once -= own[v] * instances[v] * pair[v, t, FILL]
                price[0, t, v, p], fixed[0, t, v, p] = cost, once
                for side in range(3):  # the parent's reads, the parent's updates, the fills here
                    level = v if side == 2 else p
                    if (side == 1 and t != output) or (side == 2 and at_macs):
                        continue
                    j = hardware.port[level, min(side, 1)]
                    if j < 0:
                        continue
                    width = pair[level, t, WORD_WIDTH] / hardware.bandwidth[level, min(side, 1)]
                    price[1 + j, t, v, p] += width if side == 2 else width * copies
                    if t == output and side != 1:
                        fixed[1 + j, t, v, p] -= width * own[level]


@njit
def cheapest_chains(
    price: FloatArray, fixed: FloatArray, fewest: FloatArray, passes: IntArray, keeps: IntArray
) -> float:
    """Least sum over tensors of a chain of keeping levels, each boundary carrying its fewest words (bound B1).

    Args:
        price: ``T x (L + 1) x L`` what a word costs that enters a level from a parent; the MACs are last.
        fixed: ``T x (L + 1) x L`` costs of a boundary whatever its words.
        fewest: ``T x (L + 1)`` fewest words that can enter each level; the MACs' last.
        passes: ``L x T`` 1 where a level may leave a tensor to others.
        keeps: ``L x T`` 1 where it may keep it.
    """
    n_tensors, n_levels = fewest.shape[0], price.shape[2]
    best = np.empty(n_levels + 1)
    total = 0.0
    for t in range(n_tensors):
        best[0] = 0.0
        for v in range(1, n_levels + 1):
            best[v] = INF
            if v < n_levels and keeps[v, t] == 0:
                continue
            for p in range(v - 1, -1, -1):
                best[v] = min(best[v], best[p] + price[t, v, p] * fewest[t, v] + fixed[t, v, p])
                if passes[p, t] == 0:
                    break
        total += float(best[n_levels])
    return total


@njit
def bound_factors(
    rows: IntArray,
    factors: FloatArray,
    distinct: FloatArray,
    hardware: Hardware,
    passes: IntArray,
    keeps: IntArray,
    out: FloatArray,
) -> None:
    """Closed-form bounds of profiles given by one vector for each fan-out: energy, then the cycles of every port.

    Args:
        rows: ``P x L`` number of the vector of every fan-out.
        factors: ``V x D`` spatial factors of all vectors.
        distinct: ``V x T`` different words of the children.
        out: ``P x (1 + J)``, overwritten; infinite energy where the factors do not divide the bounds.
    """
    n_levels, n_tensors, n_dims = rows.shape[1], hardware.relevant.shape[0], factors.shape[1]
    children, share = np.empty(n_levels), np.empty((n_levels, n_tensors))
    apart, fewest = np.empty((n_levels, n_tensors)), np.empty((n_tensors, n_levels + 1))
    rest, left = np.empty((n_levels + 1, n_dims)), np.ones((n_levels + 1, n_tensors))
    price = np.empty((out.shape[1], n_tensors, n_levels + 1, n_levels))
    fixed = np.empty_like(price)
    for i in range(rows.shape[0]):
        if not spread(rows[i], factors, distinct, hardware, children, share, apart, rest, left):
            out[i] = INF
            continue
        price_pairs(hardware, children, share, apart, price, fixed)
        count_fewest(hardware, children, rest, left, fewest)
        for w in range(out.shape[1]):
            out[i, w] = cheapest_chains(price[w], fixed[w], fewest, passes, keeps)
        out[i, 0] += hardware.macs * hardware.mac_energy


@njit
def bound_coarse(
    rows: IntArray, alike: FloatArray, fewest_of_all: FloatArray, hardware: Hardware, passes: IntArray, keeps: IntArray,
    out: FloatArray,
) -> None:  # fmt: skip
    """`bound_factors` of profiles of which only products are known (bound B3).

    Args:
        rows: ``P x L`` row of `alike` for every fan-out.
        alike: Children, then for each tensor the factors that index it, then its different words.
        fewest_of_all: ``T`` words of the whole tensors that must move at least.
    """
    n_levels, n_tensors = rows.shape[1], fewest_of_all.shape[0]
    children, share = np.empty(n_levels), np.empty((n_levels, n_tensors))
    apart, fewest = np.empty((n_levels, n_tensors)), np.empty((n_tensors, n_levels + 1))
    price = np.empty((out.shape[1], n_tensors, n_levels + 1, n_levels))
    fixed = np.empty_like(price)
    for i in range(rows.shape[0]):
        for m in range(n_levels):
            row = alike[rows[i, m]]
            children[m] = row[0]
            for t in range(n_tensors):
                share[m, t], apart[m, t] = row[1 + t], row[1 + n_tensors + t]
        for t in range(n_tensors):
            words = fewest_of_all[t]
            for v in range(1, n_levels):
                words /= share[v - 1, t]
                fewest[t, v] = words
            fewest[t, n_levels] = hardware.macs / children.prod()
        price_pairs(hardware, children, share, apart, price, fixed)
        for w in range(out.shape[1]):
            out[i, w] = cheapest_chains(price[w], fixed[w], fewest, passes, keeps)
        out[i, 0] += hardware.macs * hardware.mac_energy


@njit_apart
def spread(
    row: IntArray,
    factors: FloatArray,
    distinct: FloatArray,
    hardware: Hardware,
    children: FloatArray,
    share: FloatArray,
    apart: FloatArray,
    rest: FloatArray,
    left: FloatArray,
) -> bool:
    """Write what a profile's vectors make of every fan-out; False if they do not divide the bounds."""
    n_levels, n_tensors = share.shape
    rest[0] = hardware.bounds
    for t in range(n_tensors):
        left[0, t] = 1.0
        for d in range(rest.shape[1]):
            if hardware.plain[t, d] == 1:
                left[0, t] *= hardware.bounds[d]
    for m in range(n_levels):
        children[m] = 1.0
        share[m] = 1.0
        left[m + 1] = left[m]
        for d in range(rest.shape[1]):
            f = factors[row[m], d]
            rest[m + 1, d] = rest[m, d] / f
            if rest[m + 1, d] != np.floor(rest[m + 1, d]):
                return False
            children[m] *= f
            for t in range(n_tensors):
                if hardware.relevant[t, d] == 1:
                    share[m, t] *= f
                if hardware.plain[t, d] == 1:
                    left[m + 1, t] /= f
        for t in range(n_tensors):
            apart[m, t] = distinct[row[m], t] if hardware.shares[m] == 1 else children[m]
    return True


@njit
def count_fewest(
    hardware: Hardware, children: FloatArray, rest: FloatArray, left: FloatArray, fewest: FloatArray
) -> None:
    """Fewest words of every tensor that can enter an instance of every level (bound B1), and those of the MACs."""
    n_levels = children.shape[0]
    for t in range(fewest.shape[0]):
        for v in range(1, n_levels):
            fewest[t, v] = fewest_words(t, v, hardware, left, rest)
        fewest[t, n_levels] = hardware.macs / children.prod()


@njit
def price_profile(
    numbers: IntArray,
    factors: FloatArray,
    distinct: FloatArray,
    hardware: Hardware,
    inside: FloatArray,
    price: FloatArray,
    fixed: FloatArray,
    fewest: FloatArray,
) -> None:
    """`price_pairs`, `count_fewest` and the product of the spatial factors from each level inwards, of one profile."""
    n_levels, n_dims, n_tensors = inside.shape[0], inside.shape[1], hardware.relevant.shape[0]
    children, share, apart = np.empty(n_levels), np.empty((n_levels, n_tensors)), np.empty((n_levels, n_tensors))
    rest, left = np.empty((n_levels + 1, n_dims)), np.ones((n_levels + 1, n_tensors))
    spread(numbers, factors, distinct, hardware, children, share, apart, rest, left)
    price_pairs(hardware, children, share, apart, price, fixed)
    count_fewest(hardware, children, rest, left, fewest)
    for v in range(n_levels - 1, -1, -1):
        for d in range(n_dims):
            inside[v, d] = factors[numbers[v], d] * (inside[v + 1, d] if v + 1 < n_levels else 1.0)


@njit
def weigh(weight: FloatArray, price: FloatArray, fixed: FloatArray, total: FloatArray, once: FloatArray) -> None:
    """Weighted sums over energy and ports (``1 + J``) of `price` and `fixed`, see `price_pairs`."""
    total[:] = 0.0
    once[:] = 0.0
    for w in range(weight.shape[0]):
        if weight[w] != 0.0:
            for t in range(total.shape[0]):
                for v in range(total.shape[1]):
                    for p in range(total.shape[2]):
                        total[t, v, p] += weight[w] * price[w, t, v, p]
                        once[t, v, p] += weight[w] * fixed[w, t, v, p]
