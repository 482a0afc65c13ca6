"""The one place that holds the formulas: access counts, energy and cycles of one mapping.

Allocation-free compiled functions on the arrays of `codesign.cost.arrays`. The rules (R, S, O, L, N
numbers in the comments) are written down in docs/cost-model.md; they restate what was measured of
Timeloop v3.0.3 (Parashar et al., ISPASS 2019) as closed forms, so no iteration is walked.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.cost.arrays import (
    BYPASSED,
    SPATIAL_X,
    SPATIAL_Y,
    TEMPORAL,
    UNBOUNDED,
    FloatArray,
    IntArray,
    Nest,
    Problem,
)

TILE, READS, FILLS, UPDATES = 0, 1, 2, 3
VALID, OVER_CAPACITY, OVER_MESH = 0, 1, 2


class Scratch(NamedTuple):
    """Space the kernel writes to; one per thread, made by `make_scratch`.

    Attributes:
        inner: ``(N + 1) x D`` product of the factors of loops i.. of each dimension.
        span: ``L x 2`` first and past-the-last loop of each level's fan-out.
        instances: ``L`` instances in use.
        counts: ``L x T x 4`` tile words, reads, fills, updates; totals over instances (tile: of one).
        network: ``L`` energy of each fan-out's interconnect in pJ.
        extent: ``A`` tile extents.
        shift: ``A`` sum of the inner loops' shifts.
        last: ``A`` shift of the innermost loop.
        offsets: room to enumerate the children of one fan-out.
        forwarded: ``L x T`` words that children took from their neighbours.
        cycles: ``L`` cycles each level's bandwidth needs.
    """

    inner: IntArray
    span: IntArray
    instances: IntArray
    counts: IntArray
    network: FloatArray
    extent: IntArray
    shift: IntArray
    last: IntArray
    offsets: IntArray
    forwarded: IntArray
    cycles: FloatArray


def make_scratch(problem: Problem, max_loops: int, max_children: int) -> Scratch:
    """Room for nests of up to `max_loops` loops and fan-outs of up to `max_children`."""
    n_tensors, n_axes, n_dims = problem.coef.shape
    n_levels = problem.fanout.shape[0]
    return Scratch(
        inner=np.ones((max_loops + 1, n_dims), np.int64),
        span=np.zeros((n_levels, 2), np.int64),
        instances=np.ones(n_levels, np.int64),
        counts=np.zeros((n_levels, n_tensors, 4), np.int64),
        network=np.zeros(n_levels),
        extent=np.zeros(n_axes, np.int64),
        shift=np.zeros(n_axes, np.int64),
        last=np.zeros(n_axes, np.int64),
        offsets=np.zeros(max_children, np.int64),
        forwarded=np.zeros((n_levels, n_tensors), np.int64),
        cycles=np.zeros(n_levels),
    )


@njit
def _gcd(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a


@njit
def _count_unique(values: IntArray, count: int) -> int:
    part = values[:count]
    part.sort()
    unique = 1
    for i in range(1, count):
        if part[i] != part[i - 1]:
            unique += 1
    return unique


@njit
def _enumerate_distinct(problem: Problem, nest: Nest, scratch: Scratch, level: int, t: int, axis: int) -> int:
    """Different offset vectors among a level's children by listing them; one axis, or all when `axis` is -1 (S2)."""
    count = 1
    scratch.offsets[0] = 0
    first_axis = 0 if axis < 0 else axis
    past_axis = problem.axes[t] if axis < 0 else axis + 1
    for i in range(scratch.span[level, 0], scratch.span[level, 1]):
        d = nest.dim[i]
        if problem.relevant[t, d] == 0:
            continue
        # a vector as one number: axis a counts in units of the product of the inner axes' tensor extents
        step = 0
        unit = 1
        for a in range(first_axis, past_axis):
            step += unit * problem.coef[t, a, d] * scratch.inner[i + 1, d]
            reach = 1
            for e in range(problem.bounds.shape[0]):
                reach += problem.coef[t, a, e] * (problem.bounds[e] - 1)
            unit *= reach
        factor = nest.factor[i]
        for f in range(1, factor):
            for c in range(count):
                scratch.offsets[f * count + c] = scratch.offsets[c] + f * step
        count *= factor
    return _count_unique(scratch.offsets, count)


@njit
def _distinct_children(problem: Problem, nest: Nest, scratch: Scratch, level: int, t: int) -> int:
    """Number of different tiles of a tensor among the children of one fan-out (rules S1-S3)."""
    start, stop = scratch.span[level, 0], scratch.span[level, 1]
    if problem.shares[level] == 0:
        total = 1
        for i in range(start, stop):
            total *= nest.factor[i]
        return total
    if stop == start:
        return 1
    if problem.entangled[t] == 1:
        return _enumerate_distinct(problem, nest, scratch, level, t, -1)
    distinct = 1
    for a in range(problem.axes[t]):
        terms = 0
        f1, s1, f2, s2 = 1, 0, 1, 0
        for i in range(start, stop):
            c = problem.coef[t, a, nest.dim[i]]
            if c == 0:
                continue
            terms += 1
            if terms == 1:
                f1, s1 = nest.factor[i], c * scratch.inner[i + 1, nest.dim[i]]
            else:
                f2, s2 = nest.factor[i], c * scratch.inner[i + 1, nest.dim[i]]
        if terms == 1:
            distinct *= f1
        elif terms == 2:
            g = _gcd(s1, s2)
            distinct *= f1 * f2 - max(0, f1 - s2 // g) * max(0, f2 - s1 // g)
        elif terms > 2:
            distinct *= _enumerate_distinct(problem, nest, scratch, level, t, a)
    return distinct


@njit
def _words_in(problem: Problem, nest: Nest, scratch: Scratch, position: int, t: int, full: int) -> int:
    """Words that enter one instance over the whole run (rules R1-R4); `scratch.extent` holds its tile.

    The temporal loops outside the instance's storage node are taken from inner to outer. Loop i makes
    N_i = (f_i - 1) * prod_{j<i} f_j steps, each moving the tile by the vector
    T_i = v_i - sum_{j>i} (what the inner loops had moved it), v_i = coefficient * step.
    """
    axes = problem.axes[t]
    inner_most = position - 1
    while inner_most >= 0 and nest.kind[inner_most] != TEMPORAL:
        inner_most -= 1
    if inner_most < 0:
        return full
    outer = 1
    for j in range(inner_most):
        if nest.kind[j] == TEMPORAL:
            outer *= nest.factor[j]
    d = nest.dim[inner_most]
    overlap = 1
    moved = False
    for a in range(axes):
        v = problem.coef[t, a, d] * scratch.inner[inner_most + 1, d]
        scratch.last[a] = v
        travel = v if problem.reuse == 0 else v * (nest.factor[inner_most] - 1)
        scratch.shift[a] = travel
        moved = moved or v != 0
        overlap *= max(0, scratch.extent[a] - v)
    delta = full - overlap if moved else 0
    total = int(full + (nest.factor[inner_most] - 1) * outer * delta)
    for i in range(inner_most - 1, -1, -1):
        if nest.kind[i] != TEMPORAL:
            continue
        factor = nest.factor[i]
        outer //= factor
        steps = (factor - 1) * outer
        d = nest.dim[i]
        same = True
        overlap = 1
        for a in range(axes):
            v = problem.coef[t, a, d] * scratch.inner[i + 1, d]
            translation = v - scratch.shift[a]
            if translation != scratch.last[a]:
                same = False
            overlap *= max(0, scratch.extent[a] - abs(translation))
            scratch.shift[a] += v if problem.reuse == 0 else v * (factor - 1)
        if problem.reuse == 2:
            total += steps * (full - overlap)
        elif same:
            total += steps * delta
        else:
            total += steps * full
    return total


@njit
def _scan_loops(problem: Problem, nest: Nest, scratch: Scratch, count: int) -> int:
    """Fill `inner`, `span` and `instances`; returns `OVER_MESH` + 4 * level when a fan-out is too small."""
    n_dims = problem.bounds.shape[0]
    n_levels = problem.fanout.shape[0]
    for d in range(n_dims):
        scratch.inner[count, d] = 1
    for v in range(n_levels):
        scratch.span[v, 0] = 0
        scratch.span[v, 1] = 0
    for i in range(count - 1, -1, -1):
        for d in range(n_dims):
            scratch.inner[i, d] = scratch.inner[i + 1, d]
        scratch.inner[i, nest.dim[i]] *= nest.factor[i]
        if nest.kind[i] != TEMPORAL:
            v = nest.level[i]
            if scratch.span[v, 1] == 0:
                scratch.span[v, 1] = i + 1
            scratch.span[v, 0] = i
    instances = 1
    for v in range(n_levels):
        scratch.instances[v] = instances
        used_x, used_y = 1, 1
        for i in range(scratch.span[v, 0], scratch.span[v, 1]):
            if nest.kind[i] == SPATIAL_X:
                used_x *= nest.factor[i]
            elif nest.kind[i] == SPATIAL_Y:
                used_y *= nest.factor[i]
        if used_x > problem.fanout[v, 0] or used_y > problem.fanout[v, 1]:
            return OVER_MESH + 4 * v
        instances *= used_x * used_y
    return VALID


@njit
def _fill_tiles(problem: Problem, nest: Nest, scratch: Scratch) -> int:
    """Tile words of every kept tensor (rule C1); returns `OVER_CAPACITY` + 4 * level when they do not fit (rule C2)."""
    n_levels, n_tensors = nest.position.shape
    n_dims = problem.bounds.shape[0]
    for v in range(n_levels):
        bits = 0
        for t in range(n_tensors):
            position = nest.position[v, t]
            if position == BYPASSED:
                continue
            words = 1
            for a in range(problem.axes[t]):
                extent = 1
                for d in range(n_dims):
                    c = problem.coef[t, a, d]
                    if c != 0:
                        extent += c * (scratch.inner[position, d] - 1)
                words *= extent
            scratch.counts[v, t, TILE] = words
            bits += words * problem.element_bits[v, t]
        if problem.capacity_bits[v] < UNBOUNDED and bits > problem.capacity_bits[v]:
            return OVER_CAPACITY + 4 * v
    return VALID


@njit
def _set_extent(problem: Problem, scratch: Scratch, position: int, t: int) -> None:
    for a in range(problem.axes[t]):
        extent = 1
        for d in range(problem.bounds.shape[0]):
            c = problem.coef[t, a, d]
            if c != 0:
                extent += c * (scratch.inner[position, d] - 1)
        scratch.extent[a] = extent


@njit
def _share_words(problem: Problem, nest: Nest, scratch: Scratch, level: int, output: int) -> int:
    """Output words one instance is responsible for over the run (rule O3)."""
    words = int(problem.tensor_words[output])
    for m in range(level):
        for i in range(scratch.span[m, 0], scratch.span[m, 1]):
            if problem.relevant[output, nest.dim[i]] == 1:
                words //= nest.factor[i]
    return words


@njit
def _count_tensor(problem: Problem, nest: Nest, scratch: Scratch, count: int, t: int) -> float:
    """Reads, fills and updates of one tensor at every level, words sent; returns energy in pJ (rules T1-T4, O1-O4)."""
    n_levels, n_tensors = nest.position.shape
    is_output = t == n_tensors - 1
    used = 1
    for i in range(count):
        if nest.kind[i] != TEMPORAL:
            used *= nest.factor[i]
    below = problem.macs // used  # the MAC takes one word a cycle and remembers nothing (rule T1)
    inner_level = n_levels
    energy = 0.0
    for v in range(n_levels - 1, -1, -1):
        position = nest.position[v, t]
        if position == BYPASSED:
            continue
        traffic = below
        for m in range(inner_level - 1, v - 1, -1):
            distinct = _distinct_children(problem, nest, scratch, m, t)
            traffic *= distinct
            children = 1
            for i in range(scratch.span[m, 0], scratch.span[m, 1]):
                children *= nest.factor[i]
            hops = problem.hops[m, 0] + problem.hops[m, 1] * children / distinct
            network = traffic * scratch.instances[m] * hops * problem.hop_energy[m, t]
            scratch.network[m] += network
            energy += network
        outermost = True
        for m in range(v):
            if nest.position[m, t] != BYPASSED:
                outermost = False
                break
        full = scratch.counts[v, t, TILE]
        words = full
        if not outermost:
            _set_extent(problem, scratch, position, t)
            words = _words_in(problem, nest, scratch, position, t, full)
        instances = scratch.instances[v]
        if is_output:
            share = _share_words(problem, nest, scratch, v, t)
            reads = traffic - share
            fills = 0 if outermost else words - share
            updates = traffic
        else:
            reads = traffic
            fills = 0 if outermost else words
            updates = 0
        scratch.counts[v, t, READS] = reads * instances
        scratch.counts[v, t, FILLS] = fills * instances
        scratch.counts[v, t, UPDATES] = updates * instances
        energy += (
            reads * problem.energy[v, t, 0] + fills * problem.energy[v, t, 1] + updates * problem.energy[v, t, 2]
        ) * instances
        below = words
        inner_level = v
    return energy


@njit
def _throttled_cycles(problem: Problem, nest: Nest, scratch: Scratch, compute_cycles: int) -> float:
    """Cycles with every level's bandwidth obeyed: rates are summed per tensor, in this order (rule L2)."""
    worst = float(compute_cycles)
    for v in range(nest.position.shape[0]):
        read_rate, write_rate = 0.0, 0.0
        scratch.cycles[v] = compute_cycles
        if problem.bandwidth[v, 0] == 0.0 and problem.bandwidth[v, 1] == 0.0:
            continue
        instances = scratch.instances[v]
        for t in range(nest.position.shape[1]):
            if nest.position[v, t] == BYPASSED:
                continue
            reads = scratch.counts[v, t, READS] // instances
            writes = (scratch.counts[v, t, UPDATES] + scratch.counts[v, t, FILLS]) // instances
            read_rate += problem.words[v, t] * reads / compute_cycles
            write_rate += problem.words[v, t] * writes / compute_cycles
        slowdown = 1.0
        if problem.bandwidth[v, 0] > 0.0 and read_rate > 0.0:
            slowdown = min(slowdown, problem.bandwidth[v, 0] / read_rate)
        if problem.bandwidth[v, 1] > 0.0 and write_rate > 0.0:
            slowdown = min(slowdown, problem.bandwidth[v, 1] / write_rate)
        scratch.cycles[v] = np.ceil(compute_cycles / slowdown)
        worst = max(worst, scratch.cycles[v])
    return worst


@njit
def score(problem: Problem, nest: Nest, count: int, scratch: Scratch) -> tuple[int, float, float]:
    """Score one mapping.

    Args:
        problem: Computation and architecture.
        nest: The mapping; only its first `count` loops are read.
        count: Number of loops.
        scratch: Overwritten; afterwards holds the counts.

    Returns:
        (status, energy_pj, latency_cycles). Status is `VALID`, or `OVER_CAPACITY` or `OVER_MESH` plus
        4 times the level; energy and cycles are then infinite.
    """
    status = _scan_loops(problem, nest, scratch, count)
    if status == VALID:
        status = _fill_tiles(problem, nest, scratch)
    if status != VALID:
        return status, np.inf, np.inf
    energy = problem.macs * problem.mac_energy
    scratch.network[:] = 0.0
    for t in range(nest.position.shape[1]):
        energy += _count_tensor(problem, nest, scratch, count, t)
    used = 1
    for i in range(count):
        if nest.kind[i] != TEMPORAL:
            used *= nest.factor[i]
    cycles = _throttled_cycles(problem, nest, scratch, problem.macs // used)
    return VALID, energy, cycles
