"""What words cost in one profile whose spatial factors are all known, and bounds in closed form; compiled.

For fixed spatial factors energy and every port's cycles are linear in the words that cross each boundary (D1): a tensor kept
at a level, with the next level out that keeps it. The words at the MACs are the compute cycles (rule T1); partial sums
never brought in the first time are paid once (rule O3).
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit, njit_apart
from codesign.cost.columns import FILL, HOP, READ, UPDATE, WORD_WIDTH
from codesign.mappers.exact.even.fill_states import Decisions
from codesign.mappers.exact.problem.instance import Instance
from codesign.mappers.exact.problem.lattice import INF
from codesign.mappers.exact.problem.spatial import Vectors
from codesign.mapping.constraints import Keep
from codesign.mapping.nest import FloatArray, IntArray


class Arrays(NamedTuple):
    """An instance with its decisions for compiled code. L levels, T tensors, A axes, D dimensions, V spatial vectors.

    Attributes:
        pair: ``L x T x 5`` pJ per element read, filled, updated; words per element; pJ per element and hop.
        hops: ``L x 2`` hops per word sent: constant part, part per copy.
        shares: ``L`` 1 where equal words are read once.
        port: ``L x 2`` number of the read and write port, the same where they take turns on one, -1 unlimited.
        bandwidth: ``L x 2``.
        bits: ``L x T`` of an element.
        capacity: ``L`` bits.
        passes: ``L x T`` 1 where a level may leave a tensor to others.
        keeps: ``L x T`` 1 where it may keep it.
        factors: ``V x D`` spatial factors of the vectors of all fan-outs, one fan-out after another.
        distinct: ``V x T`` different words of the children.
        coef: ``T x A x D`` coefficients.
        slides: ``T x A x D`` 1 where the window of an axis overlaps the one before when the dimension moves it.
        axes: ``T x A x D`` as `coef`, but of plain dimensions only where a tensor has one dimension on two axes.
        strided: ``T x A x 3``, see `codesign.mappers.exact.problem.instance.Instance.strided`.
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
    bits: IntArray
    capacity: IntArray
    passes: IntArray
    keeps: IntArray
    factors: FloatArray
    distinct: FloatArray
    coef: FloatArray
    slides: IntArray
    axes: FloatArray
    strided: IntArray
    relevant: IntArray
    bounds: FloatArray
    output_words: float
    macs: float
    mac_energy: float


def make_arrays(instance: Instance, decisions: Decisions, vectors: tuple[Vectors, ...]) -> Arrays:
    """The arrays of an instance, with the vectors of every fan-out. Ports that take turns on one are one (rule L4)."""
    problem = instance.problem
    port, n_ports = np.full((instance.n_levels, 2), -1, np.int64), 0
    for v, (reads, writes) in enumerate(problem.bandwidth > 0.0):
        if reads:
            port[v, 0], n_ports = n_ports, n_ports + 1
        if writes and reads and problem.one_port[v]:
            port[v, 1] = port[v, 0]
        elif writes:
            port[v, 1], n_ports = n_ports, n_ports + 1
    bounded = instance.plain | (problem.entangled == 0)[:, None]  # boxes of others overlap in ways no product bounds
    pair = np.concatenate([problem.energy, problem.words[..., None], problem.hop_energy[..., None]], axis=-1)
    moved = [[tuple(np.flatnonzero(axis).tolist()) for axis in table] for table in instance.coef]
    slides = np.array(
        [[axis in found for axis in row] for row, found in zip(moved, instance.sliding_axes, strict=True)]
    )
    return Arrays(
        np.ascontiguousarray(pair), problem.hops, problem.shares, port, problem.bandwidth,
        problem.element_bits, problem.capacity_bits,
        np.array([[k is not Keep.YES for k in row] for row in decisions], np.int64),
        np.array([[k is not Keep.NO for k in row] for row in decisions], np.int64),
        np.concatenate([v.factors for v in vectors]), np.concatenate([v.distinct for v in vectors]),
        instance.coef.astype(np.float64), (slides[..., None] & (instance.coef > 0)).astype(np.int64),
        (instance.coef * bounded[:, None]).astype(np.float64), instance.strided, instance.relevant.astype(np.int64),
        np.array(instance.lattice.bounds, np.float64), float(problem.tensor_words[-1]), float(problem.macs),
        float(problem.mac_energy),
    )  # fmt: skip


class Fans(NamedTuple):
    """What the vectors of a profile make of every fan-out.

    Attributes:
        children: ``L`` children in use.
        share: ``L x T`` product of the factors that index each tensor.
        distinct: ``L x T`` different words the children take at a time.
        rest: ``(L + 1) x D`` bounds over the factors of the fan-outs outside each level, the MACs last.
    """

    children: FloatArray
    share: FloatArray
    distinct: FloatArray
    rest: FloatArray


class Pairs(NamedTuple):
    """What words cost between two levels that keep a tensor, and how many there are at least.

    Attributes:
        price: ``(1 + J) x T x (L + 1) x L`` energy, then cycles of every port, of a word that enters an inner level (L: the
            MACs) from an outer one.
        fixed: The same of what does not depend on the number of words (rule O3).
        fewest: ``T x (L + 1)`` fewest words that can enter an instance of a level (bound B1); the MACs last.
    """

    price: FloatArray
    fixed: FloatArray
    fewest: FloatArray


@njit
def room_for_pairs(kinds: int, arrays: Arrays) -> tuple[Fans, Pairs]:
    """Room for `price_profile`, with so many prices of a word."""
    n_levels, (n_tensors, n_dims) = arrays.shares.shape[0], arrays.relevant.shape
    levels, pair = (n_levels, n_tensors), (kinds, n_tensors, n_levels + 1, n_levels)
    return (
        Fans(np.empty(n_levels), np.empty(levels), np.empty(levels), np.empty((n_levels + 1, n_dims))),
        Pairs(np.empty(pair), np.empty(pair), np.empty((n_tensors, n_levels + 1))),
    )  # fmt: skip


@njit
def axis_length(t: int, a: int, rest: FloatArray, arrays: Arrays) -> float:
    """Different words along an axis of a tensor whose dimensions have these sizes, at least (bound B1)."""
    axis, length = arrays.axes[t, a], 1.0
    for d in range(axis.shape[0]):
        if axis[d] > 0.0:
            length += rest[d] - 1.0
    p, r, step = arrays.strided[t, a, 0], arrays.strided[t, a, 1], arrays.strided[t, a, 2]
    if p >= 0:  # whole windows, or a fair share of all of it
        all_p, all_r = arrays.bounds[p], arrays.bounds[r]
        length = max(length, (step * (all_p - 1.0) + all_r) * rest[p] * rest[r] / (all_p * all_r))
        if rest[r] == all_r:
            length = max(length, step * (rest[p] - 1.0) + all_r)
    return length


@njit
def fewest_words(t: int, rest: FloatArray, arrays: Arrays) -> float:
    """Fewest words of a tensor that can enter an instance with what is left of the bounds there (bound B1)."""
    words = 1.0
    for a in range(arrays.axes.shape[1]):
        words *= axis_length(t, a, rest, arrays)
    return words


@njit_apart
def price_pairs(arrays: Arrays, fans: Fans, pairs: Pairs) -> None:
    """Write the prices of a profile, and what is paid once."""
    children, share, distinct, price, fixed = fans.children, fans.share, fans.distinct, pairs.price, pairs.fixed
    pair, n_levels, n_tensors = arrays.pair, share.shape[0], share.shape[1]
    output = n_tensors - 1
    instances, own = np.ones(n_levels + 1), np.ones(n_levels + 1)
    own[0] = arrays.output_words
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
                    hops = arrays.hops[m, 0] + arrays.hops[m, 1] * children[m] / distinct[m, t]
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
                    j = arrays.port[level, min(side, 1)]
                    if j < 0:
                        continue
                    width = pair[level, t, WORD_WIDTH] / arrays.bandwidth[level, min(side, 1)]
                    price[1 + j, t, v, p] += width if side == 2 else width * copies
                    if t == output and side != 1:
                        fixed[1 + j, t, v, p] -= width * own[level]


@njit
def least_beyond(
    t: int, price: FloatArray, fixed: FloatArray, fewest: FloatArray, arrays: Arrays, beyond: FloatArray
) -> None:
    """Least cost of a tensor outside every level, by a chain of keeping levels, each boundary carrying its fewest words (B1).

    Args:
        price: ``T x (L + 1) x L`` of a word, as one row of `Pairs`.
        fixed: Likewise.
        fewest: ``T x (L + 1)``.
        beyond: ``L + 1``, overwritten; infinite for a level that does not keep the tensor. The MACs come last.
    """
    n_levels = price.shape[2]
    beyond[0] = 0.0
    for v in range(1, n_levels + 1):
        beyond[v] = INF
        if v < n_levels and arrays.keeps[v, t] == 0:
            continue
        for p in range(v - 1, -1, -1):
            beyond[v] = min(beyond[v], beyond[p] + price[t, v, p] * fewest[t, v] + fixed[t, v, p])
            if arrays.passes[p, t] == 0:
                break


@njit
def _bound(pairs: Pairs, arrays: Arrays, out: FloatArray) -> None:
    """Write ``1 + J`` least sums over the tensors: energy, the MACs' included, and the cycles of every port."""
    beyond = np.empty(pairs.fewest.shape[1])
    for w in range(out.shape[0]):
        out[w] = 0.0
        for t in range(pairs.fewest.shape[0]):
            least_beyond(t, pairs.price[w], pairs.fixed[w], pairs.fewest, arrays, beyond)
            out[w] += float(beyond[beyond.shape[0] - 1])
    out[0] += arrays.macs * arrays.mac_energy


@njit
def bound_factors(rows: IntArray, arrays: Arrays, out: FloatArray) -> None:
    """Closed-form bounds of profiles given by one vector for each fan-out: energy, then the cycles of every port.

    Args:
        rows: ``P x L`` number of the vector of every fan-out.
        out: ``P x (1 + J)``, overwritten; infinite where the factors do not divide the bounds.
    """
    fans, pairs = room_for_pairs(out.shape[1], arrays)
    for i in range(rows.shape[0]):
        if price_profile(rows[i], arrays, fans, pairs):
            _bound(pairs, arrays, out[i])
        else:
            out[i] = INF


@njit
def bound_coarse(rows: IntArray, alike: FloatArray, arrays: Arrays, out: FloatArray) -> None:
    """`bound_factors` of profiles of which only products are known (bound B3).

    Args:
        rows: ``P x L`` row of `alike` for every fan-out.
        alike: Children, then for each tensor the factors that index it, then its different words.
    """
    n_levels, n_tensors = rows.shape[1], arrays.relevant.shape[0]
    fans, pairs = room_for_pairs(out.shape[1], arrays)
    whole = np.empty(n_tensors)
    for t in range(n_tensors):
        whole[t] = fewest_words(t, arrays.bounds, arrays)
    for i in range(rows.shape[0]):
        for m in range(n_levels):
            row = alike[rows[i, m]]
            fans.children[m] = row[0]
            for t in range(n_tensors):
                fans.share[m, t], fans.distinct[m, t] = row[1 + t], row[1 + n_tensors + t]
        for t in range(n_tensors):
            words = whole[t]
            for v in range(1, n_levels):
                words /= fans.share[v - 1, t]
                pairs.fewest[t, v] = words
            pairs.fewest[t, n_levels] = arrays.macs / fans.children.prod()
        price_pairs(arrays, fans, pairs)
        _bound(pairs, arrays, out[i])


@njit_apart
def spread(row: IntArray, arrays: Arrays, fans: Fans) -> bool:
    """Write what a profile's vectors make of every fan-out; False if they do not divide the bounds."""
    children, share, rest = fans.children, fans.share, fans.rest
    n_levels, n_tensors = share.shape
    rest[0] = arrays.bounds
    for m in range(n_levels):
        children[m] = 1.0
        share[m] = 1.0
        for d in range(rest.shape[1]):
            f = arrays.factors[row[m], d]
            rest[m + 1, d] = rest[m, d] / f
            if rest[m + 1, d] != np.floor(rest[m + 1, d]):
                return False
            children[m] *= f
            for t in range(n_tensors):
                if arrays.relevant[t, d] == 1:
                    share[m, t] *= f
        for t in range(n_tensors):
            fans.distinct[m, t] = arrays.distinct[row[m], t] if arrays.shares[m] == 1 else children[m]
    return True


@njit
def price_profile(row: IntArray, arrays: Arrays, fans: Fans, pairs: Pairs) -> bool:
    """Write what words cost in a profile, and how many there are at least; False if its vectors do not divide the bounds."""
    if not spread(row, arrays, fans):
        return False
    price_pairs(arrays, fans, pairs)
    n_levels = row.shape[0]
    for t in range(pairs.fewest.shape[0]):
        for v in range(1, n_levels):
            pairs.fewest[t, v] = fewest_words(t, fans.rest[v], arrays)
        pairs.fewest[t, n_levels] = arrays.macs / fans.children.prod()
    return True


@njit
def weigh(weight: FloatArray, pairs: Pairs, total: FloatArray, once: FloatArray) -> None:
    """Weighted sums over energy and ports (``1 + J``) of what words cost."""
    total[:] = 0.0
    once[:] = 0.0
    for w in range(weight.shape[0]):
        if weight[w] != 0.0:
            for t in range(total.shape[0]):
                for v in range(total.shape[1]):
                    for p in range(total.shape[2]):
                        total[t, v, p] += weight[w] * pairs.price[w, t, v, p]
                        once[t, v, p] += weight[w] * pairs.fixed[w, t, v, p]
