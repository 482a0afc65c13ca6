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
from codesign.mapping.nest import FloatArray, IntArray

READ, FILL, UPDATE, WIDTH, HOP = 0, 1, 2, 3, 4


class Hardware(NamedTuple):
    """Architecture and keep sets. L levels, T tensors, B boundaries, J limited ports, F fan-outs = L.

    Attributes:
        kept: ``L x T`` boundary of a tensor kept at a level, -1 bypassed or outermost.
        above: ``(L + 1) x T`` nearest level outside that keeps the tensor.
        pair: ``L x T x 5`` pJ per element read, filled, updated; words per element; pJ per element and hop.
        hops: ``L x 2`` hops per word sent: constant part, part per copy.
        shares: ``L`` 1 where equal words are read once.
        port: ``L x 2`` number of the read and write port, -1 unlimited.
        bandwidth: ``L x 2``.
        n_ports: J.
        axes: ``T x A x D`` coefficients, all 0 on axes that plain dimensions move.
        plain: ``T x D``.
        bounds: ``D``.
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
    plain: IntArray
    bounds: FloatArray
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


class Running(NamedTuple):
    """Sums while descending from the outermost fan-out inwards; index m is what holds outside fan-out m.

    Attributes:
        instances: ``L + 1``.
        sent: ``(L + 1) x T`` distinct copies between the nearest level out that keeps the tensor and here.
        network: ``(L + 1) x T`` pJ per word entering here, of the networks since that level.
        left: ``(L + 1) x T`` words of a tensor one instance is responsible for, plain dimensions only.
        rest: ``(L + 1) x D`` bound of each dimension over the spatial factors outside.
        share: ``L + 1`` output words one instance is responsible for.
        energy: ``L + 1`` lower bound of the part fixed so far.
        cycles: ``(L + 1) x J`` the same of every port.
    """

    instances: FloatArray
    sent: FloatArray
    network: FloatArray
    left: FloatArray
    rest: FloatArray
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


def make_running(n_levels: int, n_tensors: int, n_dims: int, n_ports: int) -> Running:
    """Room for the sums."""
    n = n_levels + 1
    return Running(
        np.ones(n), np.ones((n, n_tensors)), np.zeros((n, n_tensors)), np.ones((n, n_tensors)), np.ones((n, n_dims)),
        np.ones(n), np.zeros(n), np.zeros((n, n_ports)),
    )  # fmt: skip


def make_coefficients(n_boundaries: int, n_ports: int) -> Coefficients:
    """Room for one profile's coefficients."""
    return Coefficients(
        np.zeros(n_boundaries), np.zeros(n_boundaries), np.zeros((n_ports, n_boundaries)), np.zeros(1),
        np.zeros(n_ports),
    )  # fmt: skip


@njit
def reset(hardware: Hardware, running: Running) -> None:
    """What holds at the outermost level."""
    n_tensors, n_dims = hardware.plain.shape
    running.instances[0] = 1.0
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
def fewest_words(t: int, m: int, hardware: Hardware, running: Running) -> float:
    """Fewest words of tensor t that can enter an instance of level m (bound K1 in docs/exact-mapper.md)."""
    words = running.left[m, t]
    for a in range(hardware.axes.shape[1]):
        length, moved = 1.0, False
        for d in range(hardware.axes.shape[2]):
            if hardware.axes[t, a, d] > 0.0:
                moved = True
                length += running.rest[m, d] - 1.0
        if moved:
            words *= length
    return words  # type: ignore[no-any-return]


@njit
def descend(
    m: int, option: int, hardware: Hardware, options: Options, running: Running, result: Coefficients, record: bool
) -> None:
    """Cross fan-out m with an option: update the sums of index m + 1, and write its boundaries to `result`."""
    n_levels, n_tensors = hardware.kept.shape
    children = options.children[option]
    instances = running.instances[m]
    running.instances[m + 1] = instances * children
    running.energy[m + 1] = running.energy[m]
    for j in range(hardware.n_ports):
        running.cycles[m + 1, j] = running.cycles[m, j]
    for d in range(hardware.bounds.shape[0]):
        running.rest[m + 1, d] = running.rest[m, d] / options.factor[option, d]
    running.share[m + 1] = running.share[m] / options.share[option, n_tensors - 1]
    for t in range(n_tensors):
        distinct = options.distinct[option, t] if hardware.shares[m] == 1 else children
        network = running.network[m, t]
        if hardware.pair[m, t, HOP] > 0.0:
            hops = hardware.hops[m, 0] + hardware.hops[m, 1] * children / distinct
            network += instances * hops * hardware.pair[m, t, HOP]
        running.network[m + 1, t] = network * distinct
        running.sent[m + 1, t] = running.sent[m, t] * distinct
        running.left[m + 1, t] = running.left[m, t] / options.plain_share[option, t]
        if m + 1 == n_levels or hardware.kept[m + 1, t] >= 0:
            _enter(m + 1, t, hardware, running, result, record)


@njit
def _enter(v: int, t: int, hardware: Hardware, running: Running, result: Coefficients, record: bool) -> None:
    """Account for the boundary of tensor t at level v (the MACs when v is the number of levels)."""
    n_levels, n_tensors = hardware.kept.shape
    above = hardware.above[v, t]
    is_output = t == n_tensors - 1
    at_macs = v == n_levels
    outside = running.instances[above]
    price = outside * running.sent[v, t] * hardware.pair[above, t, READ] + running.network[v, t]
    if is_output:
        price += outside * running.sent[v, t] * hardware.pair[above, t, UPDATE]
    if at_macs:
        words = hardware.macs / running.instances[v]
    else:
        words = fewest_words(t, v, hardware, running)
        price += running.instances[v] * hardware.pair[v, t, FILL]
    fixed = 0.0
    if is_output:  # first visits bring no partial sum, and the parent's first read of each is not charged (rule O3)
        fixed -= running.share[above] * outside * hardware.pair[above, t, READ]
        if not at_macs:
            fixed -= running.share[v] * running.instances[v] * hardware.pair[v, t, FILL]
    running.energy[v] += price * words + fixed
    b = -1 if at_macs else hardware.kept[v, t]
    if record:
        if b >= 0:
            result.price[b] = price
            result.fewest[b] = words
            result.constant[0] += fixed
        else:
            result.constant[0] += price * words + fixed
    read, write = hardware.port[above, 0], hardware.port[above, 1]
    if read >= 0:
        rate = hardware.pair[above, t, WIDTH] / hardware.bandwidth[above, 0]
        first = rate * running.share[above] if is_output else 0.0
        _demand(read, b, rate * running.sent[v, t], words, -first, v, running, result, record)
    if write >= 0 and is_output:
        rate = hardware.pair[above, t, WIDTH] / hardware.bandwidth[above, 1]
        _demand(write, b, rate * running.sent[v, t], words, 0.0, v, running, result, record)
    if not at_macs and hardware.port[v, 1] >= 0:
        rate = hardware.pair[v, t, WIDTH] / hardware.bandwidth[v, 1]
        first = rate * running.share[v] if is_output else 0.0
        _demand(hardware.port[v, 1], b, rate, words, -first, v, running, result, record)
    running.sent[v, t] = 1.0
    running.network[v, t] = 0.0


@njit
def _demand(
    j: int, b: int, rate: float, words: float, fixed: float, v: int, running: Running, result: Coefficients,
    record: bool,
) -> None:  # fmt: skip
    """Add ``rate * words + fixed`` cycles to port j."""
    running.cycles[v, j] += rate * words + fixed
    if record:
        if b >= 0:
            result.demand[j, b] += rate
            result.constant_cycles[j] += fixed
        else:
            result.constant_cycles[j] += rate * words + fixed


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
        descend(m, choice[m], hardware, options, running, result, True)
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
    n_levels = hardware.kept.shape[0]
    digit = options.first[:n_levels].copy()
    reset(hardware, running)
    m = 0
    for i in range(energy.shape[0]):
        for k in range(m, n_levels):
            descend(k, digit[k], hardware, options, running, result, False)
        energy[i] = running.energy[n_levels]
        cycles[i] = _cycle_bound(hardware, running)
        m = n_levels - 1
        while m >= 0:
            digit[m] += 1
            if digit[m] < options.first[m + 1]:
                break
            digit[m] = options.first[m]
            m -= 1
        m = max(m, 0)
