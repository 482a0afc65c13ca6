"""The formulas for imperfect factors: loops whose last iteration is shorter, fan-outs with idle children in the last pass.

The factors of a dimension may multiply to more than its bound. The nest is then walked as it stands and whatever starts at or
beyond the bound is left out, as in Ruby (Horeni et al., ISPASS 2022). So along each dimension every tile of one size is whole
but the last one, and all counts are sums over two sizes. The rules are I1 to I9 of docs/reference/cost-model.md;
`tests/property/imperfect_walk.py` walks them. Perfect nests are left to `codesign.cost.kernel.score`, which calls this.
"""

import numpy as np

from codesign.arch.architecture import Architecture, Links
from codesign.core.errors import UserError
from codesign.core.jit import njit, njit_apart
from codesign.cost.arrays import Reuse
from codesign.cost.columns import (
    AXES,
    AXIS,
    CHILDREN,
    CYCLES,
    FILL,
    FILLS,
    HOP,
    HOPS,
    HOPS_PER_COPY,
    NEAREST,
    NETWORK,
    ONE_PORT,
    READ,
    READ_BANDWIDTH,
    READS,
    ROUNDED,
    SHARES,
    START,
    STEP_SIZE,
    STOP,
    UPDATE,
    UPDATES,
    WORD_WIDTH,
    WRITE_BANDWIDTH,
)
from codesign.cost.packed import VALID, Kernel
from codesign.cost.sharing import distinct_along
from codesign.cost.walk import fill_tiles, mac_count, scan_loops
from codesign.mapping.nest import BYPASSED, DIM, FACTOR, KIND, LEVEL, TEMPORAL, IntArray, Nest
from codesign.workloads.computation import Computation

_WHOLE_TILES = 3

BEFORE_LAST, LAST, FIRST, LAST_IS_FIRST, COVERED = 0, 1, 2, 3, 4
"""Columns of `Kernel.along`. Whole tiles before the last tile; size of the last tile; of the tiles at which the innermost temporal loop stands at its first iteration,
those before the last tile; 1 if the last tile is one of them. Product of all factors."""


def refuse_imperfect(computation: Computation, architecture: Architecture, reuse: Reuse) -> None:
    """Refuse what the rules for imperfect factors do not cover.

    Raises:
        UserError: Links `peer` or `mesh`, a dimension on two axes of a tensor, hardware that knows zeros, or reuse `resident`.
    """
    where = f"architecture {architecture.name!r}"
    for level in architecture.levels:
        if level.fanout.links in (Links.PEER, Links.MESH):
            raise UserError(
                f"imperfect factors are not counted on links {level.fanout.links.value!r} (level {level.name!r})",
                where=where,
                hint="take perfect factors or padding (--pad), or links multicast, systolic or none",
            )
    for tensor in computation.tensors:
        named = [dim for axis in tensor.axes for dim, _ in axis.terms]
        if len(set(named)) < len(named):
            raise UserError(
                f"imperfect factors are not counted where one dimension stands on two axes of {tensor.name!r}",
                where=str(computation),
                hint="take perfect factors or padding (--pad)",
            )
    if reuse is Reuse.RESIDENT:
        raise UserError(
            "imperfect factors are not counted under the reuse rule 'resident'", hint="take timeloop or walk"
        )
    from codesign.cost.sparse.bounds import is_rescaled

    if is_rescaled(computation, architecture):
        raise UserError(
            "imperfect factors are not counted where zeros or mixed precision change accesses",
            where=where,
            hint="take perfect factors or padding (--pad)",
        )


@njit
def _tiles(
    kernel: Kernel, loops: IntArray, place: int, d: int, last: int, first_level: int, sharing: int
) -> tuple[int, int, int, int]:
    """Tiles along one dimension, counted over the loops outside a place that are walked.

    Spatial loops from level `sharing` on whose links share equal words are at their first iteration.

    Returns:
        Whole tiles before the last tile, size of the last tile; of the tiles at which the innermost temporal loop stands at its
        first iteration, those before the last tile, and 1 if the last tile is one of them.
    """
    outside, level_int = kernel.outside, kernel.level_int
    before, rest = 0, kernel.bounds[d]
    zeros, zero_last = 0, 1
    nearest = outside[place, NEAREST]
    for i in range(place):
        if loops[i, DIM] != d:
            continue
        step, factor = outside[i, STEP_SIZE], loops[i, FACTOR]
        if loops[i, KIND] == TEMPORAL:
            walked = i <= last
        else:
            m = loops[i, LEVEL]
            walked = m >= first_level and not (m >= sharing and level_int[m, SHARES] == 1)
        if not walked:
            rest = min(rest, step)
            continue
        done = (rest - 1) // step  # iterations of the last tile before its last one
        if i == nearest:
            zeros, zero_last = before, 1
            if done > 0:
                zeros, zero_last = before + 1, 0
        elif i > nearest:
            zeros *= factor
            if zero_last == 1:
                zeros += done
        before = before * factor + done
        rest -= done * step
    if nearest < 0:
        zeros, zero_last = before, 1
    return before, rest, zeros, zero_last


@njit
def _list_tiles(kernel: Kernel, loops: IntArray, place: int, last: int, first_level: int) -> None:
    """Fill `along` with the tiles of every dimension at a place, whatever the links share."""
    along, n_levels = kernel.along, kernel.level_int.shape[0]
    for d in range(along.shape[0]):
        before, end, zeros, zero_last = _tiles(kernel, loops, place, d, last, first_level, n_levels)
        along[d, BEFORE_LAST] = before
        along[d, LAST] = end
        along[d, FIRST] = zeros
        along[d, LAST_IS_FIRST] = zero_last


@njit
def _whole_along(kernel: Kernel, t: int, a: int, place: int, moving: int) -> int:
    """Words along one axis of the listed tiles; of dimension `moving` (-1: none) those at its loop's first iteration."""
    along = kernel.along
    number, total = 1, 0
    for k in range(kernel.first_term[t, a], kernel.first_term[t, a + 1]):
        d, c = kernel.terms[k, 0], kernel.terms[k, 1]
        tiles = along[d, BEFORE_LAST] + 1
        words = along[d, BEFORE_LAST] * kernel.inner[place, d] + along[d, LAST]
        if d == moving:
            tiles = along[d, FIRST] + along[d, LAST_IS_FIRST]
            words = along[d, FIRST] * kernel.inner[place, d] + along[d, LAST_IS_FIRST] * along[d, LAST]
        total = total * tiles + c * (words - tiles) * number
        number *= tiles
    return number + total


@njit
def _new_along(kernel: Kernel, t: int, a: int, place: int, moving: int) -> int:
    """Words along one axis that enter with every tile when the innermost temporal loop, over dimension `moving`, slides it (rule I5)."""
    along = kernel.along
    inner, terms = kernel.inner, kernel.terms
    first, past = kernel.first_term[t, a], kernel.first_term[t, a + 1]
    coefficient, size, rest = 0, inner[place, moving], along[moving, LAST]
    later, later_last = along[moving, BEFORE_LAST] - along[moving, FIRST], 1 - along[moving, LAST_IS_FIRST]
    for k in range(first, past):
        if terms[k, 0] == moving:
            coefficient = terms[k, 1]
    words = _whole_along(kernel, t, a, place, moving)
    travel = coefficient * kernel.outside[kernel.outside[place, NEAREST], STEP_SIZE]
    for mask in range(1 << (past - first)):
        weight, base, skip = 1, 1, False
        for k in range(first, past):
            d, c = terms[k, 0], terms[k, 1]
            cut = (mask >> (k - first)) & 1
            if d == moving:
                skip = cut == 1
                continue
            weight *= 1 if cut == 1 else along[d, BEFORE_LAST]
            base += c * ((along[d, LAST] if cut == 1 else inner[place, d]) - 1)
        if skip or weight == 0:
            continue
        held = base + coefficient * (size - 1)
        whole, short = held, base + coefficient * (rest - 1)
        words += weight * later * (whole - max(0, min(whole, held - travel)))
        words += weight * later_last * (short - max(0, min(short, held - travel)))
    return words


@njit
def _moved(kernel: Kernel, loops: IntArray, t: int, place: int, keeps: bool) -> int:
    """Product over the axes of the words that enter, summed over the listed tiles, before tensors wait or are shared (rules I4, I5)."""
    product = 1
    nearest = kernel.outside[place, NEAREST]
    sliding = kernel.motion[t, loops[nearest, DIM], AXIS] if nearest >= 0 and keeps else -1
    for a in range(kernel.tensor[t, AXES]):
        if a == sliding:
            product *= _new_along(kernel, t, a, place, loops[nearest, DIM])
        else:
            product *= _whole_along(kernel, t, a, place, -1)
    return product


@njit
def _visits(kernel: Kernel, t: int) -> int:
    """How often each listed tile is asked for: iterations of the loops over dimensions that do not index the tensor."""
    motion, along = kernel.motion, kernel.along
    product = 1
    for d in range(along.shape[0]):
        if motion[t, d, AXIS] < 0:
            product *= along[d, BEFORE_LAST] + 1
    return product


@njit
def _shared_visits(
    kernel: Kernel, loops: IntArray, t: int, place: int, last: int, first_level: int, sharing: int
) -> int:
    """`_visits` where levels from `sharing` on read equal words once."""
    product = 1
    for d in range(kernel.bounds.shape[0]):
        if kernel.motion[t, d, AXIS] < 0:
            product *= _tiles(kernel, loops, place, d, last, first_level, sharing)[0] + 1
    return product


@njit
def _diagonal(kernel: Kernel, loops: IntArray, m: int, t: int) -> tuple[int, int]:
    """Children of a fan-out that differ along its diagonals, and all of them: two dimensions without a remainder on one axis (rule I7)."""
    motion, use, bounds = kernel.motion, kernel.use, kernel.bounds
    covered = kernel.inner[kernel.inner.shape[0] - 1]
    distinct, every = 1, 1
    for i in range(use[m, START], use[m, STOP]):
        axis = motion[t, loops[i, DIM], AXIS]
        if axis < 0:
            continue
        product, alone, perfect = 1, True, True
        for j in range(use[m, START], use[m, STOP]):
            d = loops[j, DIM]
            if motion[t, d, AXIS] == axis:
                product *= loops[j, FACTOR]
                alone = alone and d == loops[i, DIM]
                perfect = perfect and covered[d] == bounds[d]
        differ = distinct_along(kernel, loops, m, t, i)
        if perfect and not alone and differ > 1:  # else of one loop, of an earlier one, or of more than two dimensions
            distinct, every = distinct * differ, every * product
    return distinct, every


@njit
def _send_down(
    kernel: Kernel, loops: IntArray, t: int, at: tuple[int, int], ends: tuple[int, int], amounts: tuple[int, int], energy: float
) -> tuple[int, int, int, float]:  # fmt: skip
    """Cross the fan-outs between a child and its parent outwards (rules I6, I7).

    Args:
        at: The tensor's place at the child and the innermost loop outside that moves it.
        ends: Levels of the parent and the child.
        amounts: Words that enter all children, and those of one visit.

    Returns:
        Words the parents read; children of the fan-outs that differ along diagonals, and all of them; pJ so far.
    """
    parent, child = ends
    received, moved = amounts
    distinct, every = 1, 1
    for m in range(child - 1, parent - 1, -1):
        sent = received
        if kernel.use[m, CHILDREN] > 1:
            if kernel.level_int[m, SHARES] == 1:
                some, all_of_them = _diagonal(kernel, loops, m, t)
                distinct, every = distinct * some, every * all_of_them
            sent = moved * _shared_visits(kernel, loops, t, at[0], at[1], 0, m)
            sent = sent // every * distinct
        hop = kernel.pair[m, t, HOP]
        if hop > 0.0:
            network = (sent * kernel.level[m, HOPS] + received * kernel.level[m, HOPS_PER_COPY]) * hop
            kernel.spent[m, NETWORK] += network
            energy += network
        received = sent
    return received, distinct, every, energy


@njit
def _at_child(kernel: Kernel, nest: Nest, t: int, v: int, count: int) -> tuple[int, int]:
    """Where a tensor stands at a level, or at the MACs, and the innermost loop outside that moves it."""
    if v == nest.position.shape[0]:
        return count, count
    last = -1
    for i in range(nest.position[v, t]):
        if nest.loops[i, KIND] == TEMPORAL and kernel.motion[t, nest.loops[i, DIM], AXIS] >= 0:
            last = i
    return nest.position[v, t], last


@njit
def _next_out(position: IntArray, t: int, v: int) -> int:
    """The next level outside v that keeps a tensor, -1 if none."""
    u = v - 1
    while u >= 0 and position[u, t] == BYPASSED:
        u -= 1
    return u


@njit
def _count_tensor(kernel: Kernel, nest: Nest, count: int, t: int) -> float:
    """Totals of one tensor at every level, and what the busiest instances read and write; returns the energy."""
    busy, loops = kernel.busy, nest.loops
    pair, level, counts = kernel.pair, kernel.level, kernel.counts
    n_levels, n_tensors = nest.position.shape
    is_output = t == n_tensors - 1
    energy = 0.0
    v = n_levels  # the child; the innermost one is the MACs
    u = _next_out(nest.position, t, v)
    share, share_one = 0, 0
    while u >= 0:
        place, last = _at_child(kernel, nest, t, v, count)
        keeps = v < n_levels and kernel.reuse != _WHOLE_TILES
        _list_tiles(kernel, loops, place, last, 0)
        moved = _moved(kernel, loops, t, place, keeps)
        received = moved * _visits(kernel, t)
        if v < n_levels:
            counts[v, t, FILLS] = received - share
            energy += counts[v, t, FILLS] * pair[v, t, FILL]
            if level[v, WRITE_BANDWIDTH] > 0.0:
                _list_tiles(kernel, loops, place, last, v)  # those of one instance
                one = _moved(kernel, loops, t, place, keeps) * _visits(kernel, t)
                busy[v, 1] += pair[v, t, WORD_WIDTH] * (one - share_one)
        received, distinct, every, energy = _send_down(
            kernel, loops, t, (place, last), (u, v), (received, moved), energy
        )
        if is_output:
            share, share_one = _share(kernel, loops, t, nest.position[u, t], u)
        counts[u, t, READS] = received - share
        counts[u, t, UPDATES] = received if is_output else 0
        counts[u, t, FILLS] = 0
        energy += counts[u, t, READS] * pair[u, t, READ] + counts[u, t, UPDATES] * pair[u, t, UPDATE]
        if level[u, READ_BANDWIDTH] > 0.0 or level[u, WRITE_BANDWIDTH] > 0.0:
            if u > 0:
                _list_tiles(kernel, loops, place, last, u)
                moved = _moved(kernel, loops, t, place, keeps)
            one = moved * _shared_visits(kernel, loops, t, place, last, u, u)
            one = one // every * distinct
            busy[u, 0] += pair[u, t, WORD_WIDTH] * (one - share_one)
            busy[u, 1] += pair[u, t, WORD_WIDTH] * (one if is_output else 0)
        v = u
        u = _next_out(nest.position, t, u)
    return energy


@njit
def _share(kernel: Kernel, loops: IntArray, t: int, place: int, v: int) -> tuple[int, int]:
    """Output words that the instances of a level ever hold: of all, and of the one with the most (rule O3)."""
    n_levels = kernel.level_int.shape[0]
    total = _shared_visits(kernel, loops, t, place, -1, 0, n_levels)
    one = 1
    for d in range(kernel.bounds.shape[0]):
        if kernel.motion[t, d, AXIS] >= 0:
            total *= kernel.bounds[d]
            before, end, _, _ = _tiles(kernel, loops, place, d, place, v, n_levels)
            one *= before * kernel.inner[place, d] + end
    return total, one


@njit
def _slowest(kernel: Kernel, compute_cycles: int) -> float:
    """The slowest of computing and every level's ports at the busiest instance (rules I8, L2 to L4)."""
    level, spent, busy = kernel.level, kernel.spent, kernel.busy
    worst = float(compute_cycles)
    for v in range(level.shape[0]):
        spent[v, CYCLES] = 0.0
        reading, writing = 0.0, 0.0
        if level[v, READ_BANDWIDTH] > 0.0:
            reading = busy[v, 0] / level[v, READ_BANDWIDTH]
        if level[v, WRITE_BANDWIDTH] > 0.0:
            writing = busy[v, 1] / level[v, WRITE_BANDWIDTH]
        cycles = reading + writing if kernel.level_int[v, ONE_PORT] == 1 else max(reading, writing)
        spent[v, CYCLES] = np.ceil(cycles * ROUNDED)
        worst = max(worst, spent[v, CYCLES])
    return worst


@njit_apart
def score_imperfect(kernel: Kernel, nest: Nest, count: int) -> tuple[int, float, float]:
    """Score one mapping whose factors may multiply to more than the bounds.

    Args:
        kernel: The packed problem; afterwards its `counts` hold totals over all instances.
        nest: The mapping; only its first `count` loops are read. Its outermost loop over each dimension has as many
            iterations as the bound needs (rule I1).
        count: Number of loops.

    Returns:
        (status, energy_pj, latency_cycles), as `codesign.cost.kernel.score`.
    """
    n_levels = nest.position.shape[0]
    status = scan_loops(kernel, nest, count)
    if status == VALID:
        status = fill_tiles(kernel, nest.position)
    if status != VALID:
        return status, np.inf, np.inf
    for v in range(n_levels):
        kernel.spent[v, NETWORK] = 0.0
        kernel.busy[v, 0] = 0.0
        kernel.busy[v, 1] = 0.0
    energy = mac_count(kernel) * kernel.mac_energy
    for t in range(nest.position.shape[1]):
        energy += _count_tensor(kernel, nest, count, t)
    cycles = _slowest(kernel, compute_steps(kernel, nest, count))
    return VALID, energy, cycles


@njit
def is_perfect(kernel: Kernel, nest: Nest, count: int) -> bool:
    """Whether the factors of every dimension multiply to its bound."""
    along, perfect = kernel.along, True
    for d in range(along.shape[0]):
        along[d, COVERED] = 1
    for i in range(count):
        along[nest.loops[i, DIM], COVERED] *= nest.loops[i, FACTOR]
    for d in range(along.shape[0]):
        perfect = perfect and along[d, COVERED] == kernel.bounds[d]
    return perfect


@njit
def compute_steps(kernel: Kernel, nest: Nest, count: int) -> int:
    """Steps in which some MAC works (rule I3), of the nest scored last."""
    n_levels = nest.position.shape[0]
    steps = 1
    for d in range(kernel.bounds.shape[0]):
        steps *= _tiles(kernel, nest.loops, count, d, count, n_levels, n_levels)[0] + 1
    return steps
