"""How much a word across each boundary costs under a spatial profile, and closed-form lower bounds.

For fixed spatial factors energy and every level's bandwidth demand are linear in the words that cross each
boundary (a tensor kept at a level below the outermost, together with the next level out that keeps it):

    energy = constant + sum_b price_b * words_b,      cycles_j = constant_j + sum_b demand_jb * words_b.

The words of the boundary at the MACs are the compute cycles (rule T1), partial sums never brought in the first
time are constants (rule O3). With the fewest words any mapping of the profile can have, the same sums are bounds.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.cost.columns import FILL, HOP, READ, UPDATE, WORD_WIDTH
from codesign.mapping.nest import FloatArray, IntArray


class Hardware(NamedTuple):
    """Architecture and keep sets. L levels, T tensors, B boundaries, J limited ports, F fan-outs = L.

    Attributes:
        kept: ``L x T`` boundary of a tensor kept at a level, -1 bypassed or outermost.
        above: ``(L + 1) x T`` nearest level outside that keeps the tensor.
        pair: ``L x T x 5`` pJ per element read, filled, updated; words per element; pJ per element and hop.
        hops: ``L x 2`` hops per word sent: constant part, part per copy.
        shares: ``L`` 1 where equal words are read once.
        port: ``L x 2`` number of the read and write port, the same where they take turns on one, -1 unlimited.
        bandwidth: ``L x 2``.
        n_ports: J.
        axes: ``T x A x D`` coefficients, all 0 on axes that plain dimensions move.
        strided: ``T x A x 3``, see `codesign.mappers.exact.problem.instance.Instance.strided`.
        plain: ``T x D``.
        bounds: ``D``.
        kind_bounds: ``C`` product of the bounds of each kind of dimension.
        output_words: words of the output.
        macs: multiply-accumulates.
        mac_energy: pJ.
    """

    kept: IntArray
    above: IntArray
    pair: FloatArray
    hops: FloatArray
    shares: IntArray
    port: IntArray
    bandwidth: FloatArray
    n_ports: int
    axes: FloatArray
    strided: IntArray
    plain: IntArray
    bounds: FloatArray
    kind_bounds: FloatArray
    output_words: float
    macs: float
    mac_energy: float


class Options(NamedTuple):
    """Options of all fan-outs, concatenated: ``first[m] .. first[m + 1] - 1`` are those of fan-out m."""

    first: IntArray
    children: FloatArray
    share: FloatArray
    plain_share: FloatArray
    distinct: FloatArray
    factor: FloatArray
    by_kind: FloatArray


class Running(NamedTuple):
    """Sums while descending from the outermost fan-out inwards; index m is what holds outside fan-out m.

    Attributes:
        instances: ``L + 1``.
        sent: ``(L + 1) x T`` distinct copies between the nearest level out that keeps the tensor and here.
        network: ``(L + 1) x T`` pJ per word entering here, of the networks since that level.
        left: ``(L + 1) x T`` words of a tensor one instance is responsible for, plain dimensions only.
        rest: ``(L + 1) x D`` bound of each dimension over the spatial factors outside.
        kinds: ``(L + 1) x C`` iterations left of each kind of dimension.
        share: ``L + 1`` output words one instance is responsible for.
        energy: ``L + 1`` lower bound of the part fixed so far.
        cycles: ``(L + 1) x J`` the same of every port.
    """

    instances: FloatArray
    sent: FloatArray
    network: FloatArray
    left: FloatArray
    rest: FloatArray
    kinds: FloatArray
    share: FloatArray
    energy: FloatArray
    cycles: FloatArray


class Coefficients(NamedTuple):
    """One profile: ``price`` and ``fewest`` words per boundary ``B``, ``demand`` ``J x B``; constants."""

    price: FloatArray
    fewest: FloatArray
    demand: FloatArray
    constant: FloatArray
    constant_cycles: FloatArray


def make_running(n_levels: int, n_tensors: int, n_dims: int, n_kinds: int, n_ports: int) -> Running:
    """Room for the sums that are kept while boundaries are priced."""
    n = n_levels + 1
    return Running(
        np.ones(n),
        np.ones((n, n_tensors)),
        np.zeros((n, n_tensors)),
        np.ones((n, n_tensors)),
        np.ones((n, n_dims)),
        np.ones((n, n_kinds)),
        np.ones(n),
        np.zeros(n),
        np.zeros((n, n_ports)),
    )


def make_coefficients(n_boundaries: int, n_ports: int) -> Coefficients:
    """Room for one profile's coefficients."""
    return Coefficients(
        np.zeros(n_boundaries),
        np.zeros(n_boundaries),
        np.zeros((n_ports, n_boundaries)),
        np.zeros(1),
        np.zeros(n_ports),
    )


@njit
def reset(hardware: Hardware, running: Running) -> None:
    """What holds at the outermost level."""
    n_tensors, n_dims = hardware.plain.shape
    running.instances[0] = 1.0
    running.kinds[0] = hardware.kind_bounds
    running.energy[0] = hardware.macs * hardware.mac_energy
    running.cycles[0, :] = 0.0
    running.share[0] = hardware.output_words
    for t in range(n_tensors):
        running.sent[0, t] = 1.0
        running.network[0, t] = 0.0
        running.left[0, t] = 1.0
        for d in range(n_dims):
            if hardware.plain[t, d] == 1:
                running.left[0, t] *= hardware.bounds[d]
    for d in range(n_dims):
        running.rest[0, d] = hardware.bounds[d]


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


@njit
def _descend(
    m: int, option: int, record: bool, hardware: Hardware, options: Options, running: Running, result: Coefficients
) -> None:
    """Cross fan-out m with an option: update the sums of index m + 1, and with `record` write its boundaries."""
    v = m + 1
    running.instances[v] = running.instances[m] * options.children[option]
    running.energy[v] = running.energy[m]
    for j in range(running.cycles.shape[1]):
        running.cycles[v, j] = running.cycles[m, j]
    for d in range(running.rest.shape[1]):
        running.rest[v, d] = running.rest[m, d] / options.factor[option, d]
    for c in range(running.kinds.shape[1]):
        running.kinds[v, c] = running.kinds[m, c] / options.by_kind[option, c]
        if running.kinds[v, c] != np.floor(running.kinds[v, c]):
            running.energy[v] = np.inf  # more children than iterations, or a factor that does not divide
    n_tensors = hardware.kept.shape[1]
    running.share[v] = running.share[m] / options.share[option, n_tensors - 1]
    for t in range(n_tensors):
        _cross_tensor(m, t, option, record, hardware, options, running, result)


@njit
def _cross_tensor(
    m: int,
    t: int,
    option: int,
    record: bool,
    hardware: Hardware,
    options: Options,
    running: Running,
    result: Coefficients,
) -> None:
    """`_descend` for one tensor: what a word costs so far, and its boundary at the next level or at the MACs."""
    instances, sent, network, share = running.instances, running.sent, running.network, running.share
    pair = hardware.pair
    v, at_macs, output = m + 1, m + 1 == hardware.kept.shape[0], t == hardware.kept.shape[1] - 1
    children = options.children[option]
    distinct = options.distinct[option, t] if hardware.shares[m] == 1 else children
    below = network[m, t]
    if pair[m, t, HOP] > 0.0:
        hops = hardware.hops[m, 0] + hardware.hops[m, 1] * children / distinct
        below += instances[m] * hops * pair[m, t, HOP]
    below *= distinct
    copies = sent[m, t] * distinct
    running.left[v, t] = running.left[m, t] / options.plain_share[option, t]
    network[v, t], sent[v, t] = below, copies
    if not at_macs and hardware.kept[v, t] < 0:
        return
    network[v, t], sent[v, t] = 0.0, 1.0
    # the boundary of tensor t at level v, or at the MACs
    parent = hardware.above[v, t]
    outside = instances[parent]
    cost = outside * copies * pair[parent, t, READ] + below
    words = hardware.macs / instances[v] if at_macs else fewest_words(t, v, hardware, running.left, running.rest)
    fixed = 0.0
    if not at_macs:
        cost += instances[v] * pair[v, t, FILL]
    if output:  # first visits bring no partial sum, and the parent does not read one (rule O3)
        cost += outside * copies * pair[parent, t, UPDATE]
        fixed = -share[parent] * outside * pair[parent, t, READ]
        if not at_macs:
            fixed -= share[v] * instances[v] * pair[v, t, FILL]
    running.energy[v] += cost * words + fixed
    b = -1 if at_macs else hardware.kept[v, t]
    if record:
        result.constant[0] += fixed
        if b >= 0:
            result.price[b], result.fewest[b] = cost, words
        else:
            result.constant[0] += cost * words
    _charge_ports(v, t, b, copies, words, record, hardware, running, result)


@njit
def _charge_ports(
    v: int, t: int, b: int, copies: float, words: float, record: bool, hardware: Hardware, running: Running,
    result: Coefficients,
) -> None:  # fmt: skip
    """Cycles of the ports on both sides of boundary b (-1: none) of tensor t at level v, ``L`` the MACs."""
    parent, at_macs, output = hardware.above[v, t], v == hardware.kept.shape[0], t == hardware.kept.shape[1] - 1
    for side in range(3):  # the parent's reads, the parent's updates, the fills here
        level = v if side == 2 else parent
        if (side == 1 and not output) or (side == 2 and at_macs):
            continue
        j = hardware.port[level, min(side, 1)]
        if j < 0:
            continue
        width = hardware.pair[level, t, WORD_WIDTH] / hardware.bandwidth[level, min(side, 1)]
        rate = width if side == 2 else width * copies
        first = width * running.share[level] if output and side != 1 else 0.0
        running.cycles[v, j] += rate * words - first
        if record:
            result.constant_cycles[j] -= first
            if b >= 0:
                result.demand[j, b] += rate
            else:
                result.constant_cycles[j] += rate * words


@njit
def profile_coefficients(
    choice: IntArray, hardware: Hardware, options: Options, running: Running, result: Coefficients
) -> tuple[float, float]:
    """Write the coefficients of one profile; returns its bounds on energy and on cycles."""
    n_levels = hardware.kept.shape[0]
    result.constant[0] = hardware.macs * hardware.mac_energy
    result.constant_cycles[:] = 0.0
    result.demand[:] = 0.0
    reset(hardware, running)
    for m in range(n_levels):
        _descend(m, choice[m], True, hardware, options, running, result)
    return running.energy[n_levels], _cycle_bound(hardware, running)  # type: ignore[return-value]


@njit
def _cycle_bound(hardware: Hardware, running: Running) -> float:
    n_levels = hardware.kept.shape[0]
    cycles = hardware.macs / running.instances[n_levels]
    for j in range(hardware.n_ports):
        cycles = max(cycles, running.cycles[n_levels, j])
    return cycles  # type: ignore[return-value]


@njit
def bound_profiles(
    hardware: Hardware, options: Options, running: Running, result: Coefficients, energy: FloatArray, cycles: FloatArray
) -> None:
    """Bounds of every profile, numbered like the digits of an odometer whose last digit is the innermost fan-out."""
    first, n_levels = options.first, hardware.kept.shape[0]
    digit = first[:n_levels].copy()
    reset(hardware, running)
    m = 0
    for i in range(energy.shape[0]):
        for k in range(m, n_levels):
            _descend(k, digit[k], False, hardware, options, running, result)
        energy[i] = running.energy[n_levels]
        cycles[i] = _cycle_bound(hardware, running)
        m = n_levels - 1
        while m >= 0:
            digit[m] += 1
            if digit[m] < first[m + 1]:
                break
            digit[m] = first[m]
            m -= 1
        m = max(m, 0)
