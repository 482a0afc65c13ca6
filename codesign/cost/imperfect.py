"""The formulas for imperfect factors: loops whose last iteration is shorter, fan-outs with idle children in the last pass.

The factors of a dimension may multiply to more than its bound. The nest is then walked as it stands and whatever starts at or
beyond the bound is left out, as in Ruby (Horeni et al., ISPASS 2022). So along each dimension every tile of one size is whole
but the last one, and all counts are sums over two sizes. The rules are I1 to I9 of docs/reference/cost-model.md;
`codesign.cost.imperfect_interpreter` walks them. Perfect nests are left to `codesign.cost.kernel.score`.
"""

from typing import NamedTuple

import numpy as np

from codesign.arch.architecture import Architecture, Links
from codesign.core.errors import UserError
from codesign.core.jit import njit
from codesign.cost.arrays import Reuse
from codesign.cost.columns import (
    AXES,
    AXIS,
    CAPACITY,
    CHILDREN,
    CYCLES,
    FAN_X,
    FAN_Y,
    FILL,
    FILLS,
    HOP,
    HOPS,
    HOPS_PER_COPY,
    INSTANCES,
    NEAREST,
    NETWORK,
    ONE_PORT,
    READ,
    READ_BANDWIDTH,
    READS,
    ROUNDED,
    SHARES,
    START,
    STEP,
    STEP_SIZE,
    STOP,
    TILE,
    UPDATE,
    UPDATES,
    WORD_WIDTH,
    WRITE_BANDWIDTH,
)
from codesign.cost.kernel import OVER_CAPACITY, OVER_MESH, VALID, Kernel, score
from codesign.mapping.nest import BYPASSED, DIM, FACTOR, KIND, LEVEL, SPATIAL_X, TEMPORAL, FloatArray, IntArray, Nest
from codesign.workloads.computation import Computation

_WHOLE_TILES = 3


class ImperfectKernel(NamedTuple):
    """A packed problem with what imperfect nests need besides.

    Attributes:
        base: The problem; after a call of `score_imperfect` its `counts` hold totals over all instances.
        busy: ``L x 2`` words that the busiest instance of a level reads and writes, as fractions of its words.
        covered: ``D`` product of the factors of a dimension.
    """

    base: Kernel
    busy: FloatArray
    covered: IntArray


def make_imperfect(kernel: Kernel) -> ImperfectKernel:
    """Room for imperfect nests beside a packed problem."""
    n_levels, n_dims = kernel.level.shape[0], kernel.bounds.shape[0]
    return ImperfectKernel(kernel, np.zeros((n_levels, 2)), np.ones(n_dims, np.int64))


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
def _scan(
    loops: IntArray, count: int, position: IntArray, bounds: IntArray, level_int: IntArray, inner: IntArray,
    outside: IntArray, use: IntArray, covered: IntArray,
) -> int:  # fmt: skip
    """Fill `inner` (tile sizes, at most the bound), `outside`, `use`; `OVER_MESH` + 4 * level where a fan-out is too small."""
    for v in range(use.shape[0]):
        use[v, START] = 0
        use[v, STOP] = 0
    latest = -1
    for i in range(count):
        outside[i, NEAREST] = latest
        if loops[i, KIND] == TEMPORAL:
            latest = i
        else:
            v = loops[i, LEVEL]
            if use[v, STOP] == 0:
                use[v, START] = i
            use[v, STOP] = i + 1
    outside[count, NEAREST] = latest
    instances = 1
    for v in range(use.shape[0]):
        use[v, INSTANCES] = instances
        used_x, used_y = 1, 1
        for i in range(use[v, START], use[v, STOP]):
            if loops[i, KIND] == SPATIAL_X:
                used_x *= loops[i, FACTOR]
            else:
                used_y *= loops[i, FACTOR]
        if used_x > level_int[v, FAN_X] or used_y > level_int[v, FAN_Y]:
            return OVER_MESH + 4 * v
        use[v, CHILDREN] = used_x * used_y
        instances *= used_x * used_y
    for d in range(bounds.shape[0]):
        covered[d] = 1
        inner[count, d] = 1
    for i in range(count - 1, -1, -1):
        d = loops[i, DIM]
        outside[i, STEP_SIZE] = covered[d]
        covered[d] *= loops[i, FACTOR]
        for e in range(bounds.shape[0]):
            inner[i, e] = min(covered[e], bounds[e])
    return VALID


@njit
def _fill_tiles(
    position: IntArray, terms: IntArray, first_term: IntArray, tensor: IntArray, element_bits: IntArray,
    level_int: IntArray, inner: IntArray, counts: IntArray,
) -> int:  # fmt: skip
    """Tile of every kept tensor, a whole one (rule I2); returns `OVER_CAPACITY` + 4 * level where they do not fit."""
    for v in range(position.shape[0]):
        bits = 0
        for t in range(position.shape[1]):
            place = position[v, t]
            if place == BYPASSED:
                continue
            words = 1
            for a in range(tensor[t, AXES]):
                length = 1
                for k in range(first_term[t, a], first_term[t, a + 1]):
                    length += terms[k, 1] * (inner[place, terms[k, 0]] - 1)
                words *= length
            counts[v, t, TILE] = words
            bits += words * element_bits[v, t]
        if bits > level_int[v, CAPACITY]:
            return OVER_CAPACITY + 4 * v
    return VALID


@njit
def _tiles(
    loops: IntArray, place: int, d: int, bound: int, outside: IntArray, level_int: IntArray,
    last: int, first_level: int, sharing: int,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Tiles along one dimension at a place of the nest, counted over the loops outside it.

    Temporal loops further in than `last` are at their first iteration. So are spatial loops of levels outside `first_level`,
    and those from level `sharing` on whose links share equal words.

    Returns:
        Whole tiles before the last tile, size of the last tile; of the tiles at which the innermost temporal loop stands at its
        first iteration, those before the last tile, and 1 if the last tile is one of them.
    """
    before, rest = 0, bound
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
def _new_along(
    loops: IntArray, place: int, t: int, a: int, moving: int, bounds: IntArray, terms: IntArray, first_term: IntArray,
    outside: IntArray, level_int: IntArray, inner: IntArray, last: int, first_level: int,
) -> int:  # fmt: skip
    """Words along one axis that enter with every tile when the innermost temporal loop, over dimension `moving`, slides it (rule I5)."""
    first, past = first_term[t, a], first_term[t, a + 1]
    whole_n, whole_sum, coefficient = 1, 0, 0
    size = inner[place, moving]
    later, later_last, rest = 0, 0, 0
    for k in range(first, past):
        d, c = terms[k, 0], terms[k, 1]
        before, end, zeros, zero_last = _tiles(
            loops, place, d, bounds[d], outside, level_int, last, first_level, level_int.shape[0]
        )
        number, total = before + 1, before * inner[place, d] + end
        if d == moving:
            coefficient, rest = c, end
            later, later_last = before - zeros, 1 - zero_last
            number, total = zeros + zero_last, zeros * size + zero_last * end
        whole_sum = whole_sum * number + c * (total - number) * whole_n
        whole_n *= number
    words = whole_n + whole_sum
    travel = coefficient * outside[outside[place, NEAREST], STEP_SIZE]
    for mask in range(1 << (past - first)):
        weight, base, skip = 1, 1, False
        for k in range(first, past):
            d, c = terms[k, 0], terms[k, 1]
            cut = (mask >> (k - first)) & 1
            if d == moving:
                skip = cut == 1
                continue
            before, end, _, _ = _tiles(
                loops, place, d, bounds[d], outside, level_int, last, first_level, level_int.shape[0]
            )
            weight *= 1 if cut == 1 else before
            base += c * ((end if cut == 1 else inner[place, d]) - 1)
        if skip or weight == 0:
            continue
        held = base + coefficient * (size - 1)
        whole, short = held, base + coefficient * (rest - 1)
        words += weight * later * (whole - max(0, min(whole, held - travel)))
        words += weight * later_last * (short - max(0, min(short, held - travel)))
    return words


@njit
def _moved(
    loops: IntArray, place: int, t: int, keeps: bool, bounds: IntArray, terms: IntArray, first_term: IntArray,
    motion: IntArray, tensor: IntArray, outside: IntArray, level_int: IntArray, inner: IntArray, last: int, first_level: int,
) -> int:  # fmt: skip
    """Product over the axes of the words that enter, summed over all tiles, before tensors wait or are shared (rules I4, I5)."""
    product = 1
    nearest = outside[place, NEAREST]
    sliding = motion[t, loops[nearest, DIM], AXIS] if nearest >= 0 and keeps else -1
    for a in range(tensor[t, AXES]):
        if a == sliding:
            product *= _new_along(
                loops, place, t, a, loops[nearest, DIM], bounds, terms, first_term, outside, level_int, inner, last,
                first_level,
            )  # fmt: skip
            continue
        number, total = 1, 0
        for k in range(first_term[t, a], first_term[t, a + 1]):
            d, c = terms[k, 0], terms[k, 1]
            before, end, _, _ = _tiles(
                loops, place, d, bounds[d], outside, level_int, last, first_level, level_int.shape[0]
            )
            along = before + 1
            total = total * along + c * (before * inner[place, d] + end - along) * number
            number *= along
        product *= number + total
    return product


@njit
def _visits(
    loops: IntArray, place: int, t: int, bounds: IntArray, motion: IntArray, outside: IntArray, level_int: IntArray,
    last: int, first_level: int, sharing: int,
) -> int:  # fmt: skip
    """How often each tile is asked for: iterations of the loops over dimensions that do not index the tensor."""
    product = 1
    for d in range(bounds.shape[0]):
        if motion[t, d, AXIS] < 0:
            before, _, _, _ = _tiles(loops, place, d, bounds[d], outside, level_int, last, first_level, sharing)
            product *= before + 1
    return product


@njit
def _diagonal(
    loops: IntArray, m: int, t: int, bounds: IntArray, motion: IntArray, outside: IntArray, use: IntArray, covered: IntArray
) -> tuple[int, int]:  # fmt: skip
    """Children of a fan-out that differ along its diagonals, and all of them: two dimensions without a remainder on one axis (rule I7)."""
    distinct, every = 1, 1
    for i in range(use[m, START], use[m, STOP]):
        d1, axis = loops[i, DIM], motion[t, loops[i, DIM], AXIS]
        if axis < 0:
            continue
        seen, d2, more = False, -1, False
        perfect = covered[d1] == bounds[d1]
        f1, f2, step1, step2 = 1, 1, 1, 1
        for j in range(use[m, START], use[m, STOP]):
            d = loops[j, DIM]
            if motion[t, d, AXIS] != axis:
                continue
            seen = seen or j < i
            perfect = perfect and covered[d] == bounds[d]
            if d == d1:
                f1 *= loops[j, FACTOR]
                step1 = motion[t, d, STEP] * outside[j, STEP_SIZE]
            else:
                more = more or (d2 >= 0 and d != d2)
                d2 = d
                f2 *= loops[j, FACTOR]
                step2 = motion[t, d, STEP] * outside[j, STEP_SIZE]
        if seen or d2 < 0 or more or not perfect:
            continue
        a, b = step1, step2
        while b:
            a, b = b, a % b
        distinct *= f1 * f2 - max(0, f1 - step2 // a) * max(0, f2 - step1 // a)
        every *= f1 * f2
    return distinct, every


@njit
def _count_tensor(
    loops: IntArray, count: int, position: IntArray, t: int, bounds: IntArray, terms: IntArray, first_term: IntArray,
    motion: IntArray, tensor: IntArray, pair: FloatArray, level_int: IntArray, level: FloatArray, reuse: int,
    inner: IntArray, outside: IntArray, use: IntArray, counts: IntArray, spent: FloatArray, busy: FloatArray,
    covered: IntArray,
) -> float:  # fmt: skip
    """Totals of one tensor at every level, and what the busiest instances read and write; returns the energy."""
    n_levels, n_tensors = position.shape
    is_output = t == n_tensors - 1
    energy = 0.0
    u, v = -1, n_levels  # parent and child; the innermost child is the MACs
    for x in range(n_levels):
        if position[x, t] != BYPASSED:
            u = x
    share, share_one = 0, 0
    while u >= 0:
        at_macs = v == n_levels
        place = count if at_macs else position[v, t]
        last = count if at_macs else -1
        if not at_macs:
            for i in range(place):
                if loops[i, KIND] == TEMPORAL and motion[t, loops[i, DIM], AXIS] >= 0:
                    last = i
        keeps = not at_macs and reuse != _WHOLE_TILES
        moved = _moved(
            loops, place, t, keeps, bounds, terms, first_term, motion, tensor, outside, level_int, inner, last, 0
        )
        received = moved * _visits(loops, place, t, bounds, motion, outside, level_int, last, 0, n_levels)
        if not at_macs:
            counts[v, t, FILLS] = received - share
            energy += counts[v, t, FILLS] * pair[v, t, FILL]
            if level[v, WRITE_BANDWIDTH] > 0.0:
                one = _moved(
                    loops,
                    place,
                    t,
                    keeps,
                    bounds,
                    terms,
                    first_term,
                    motion,
                    tensor,
                    outside,
                    level_int,
                    inner,
                    last,
                    v,
                ) * _visits(loops, place, t, bounds, motion, outside, level_int, last, v, n_levels)
                busy[v, 1] += pair[v, t, WORD_WIDTH] * (one - share_one)
        distinct, every = 1, 1
        for m in range(v - 1, u - 1, -1):
            sent = received
            if use[m, CHILDREN] > 1:
                if level_int[m, SHARES] == 1:
                    some, all_of_them = _diagonal(loops, m, t, bounds, motion, outside, use, covered)
                    distinct, every = distinct * some, every * all_of_them
                sent = moved * _visits(loops, place, t, bounds, motion, outside, level_int, last, 0, m)
                sent = sent // every * distinct
            if pair[m, t, HOP] > 0.0:
                network = (sent * level[m, HOPS] + received * level[m, HOPS_PER_COPY]) * pair[m, t, HOP]
                spent[m, NETWORK] += network
                energy += network
            received = sent
        if is_output:
            share, share_one = _share(loops, position[u, t], u, t, bounds, motion, outside, level_int, inner)
        counts[u, t, READS] = received - share
        counts[u, t, UPDATES] = received if is_output else 0
        counts[u, t, FILLS] = 0
        energy += counts[u, t, READS] * pair[u, t, READ] + counts[u, t, UPDATES] * pair[u, t, UPDATE]
        if level[u, READ_BANDWIDTH] > 0.0 or level[u, WRITE_BANDWIDTH] > 0.0:
            one = _moved(
                loops, place, t, keeps, bounds, terms, first_term, motion, tensor, outside, level_int, inner, last, u
            ) * _visits(loops, place, t, bounds, motion, outside, level_int, last, u, u)
            one = one // every * distinct
            busy[u, 0] += pair[u, t, WORD_WIDTH] * (one - share_one)
            busy[u, 1] += pair[u, t, WORD_WIDTH] * (one if is_output else 0)
        v = u
        u -= 1
        while u >= 0 and position[u, t] == BYPASSED:
            u -= 1
    return energy


@njit
def _share(
    loops: IntArray, place: int, v: int, t: int, bounds: IntArray, motion: IntArray, outside: IntArray, level_int: IntArray,
    inner: IntArray,
) -> tuple[int, int]:  # fmt: skip
    """Output words that the instances of a level ever hold: of all, and of the one with the most (rule O3)."""
    total = _visits(loops, place, t, bounds, motion, outside, level_int, -1, 0, level_int.shape[0])
    one = 1
    for d in range(bounds.shape[0]):
        if motion[t, d, AXIS] >= 0:
            total *= bounds[d]
            before, end, _, _ = _tiles(loops, place, d, bounds[d], outside, level_int, place, v, level_int.shape[0])
            one *= before * inner[place, d] + end
    return total, one


@njit
def _slowest(compute_cycles: int, level_int: IntArray, level: FloatArray, spent: FloatArray, busy: FloatArray) -> float:
    """The slowest of computing and every level's ports at the busiest instance (rules I8, L2 to L4)."""
    worst = float(compute_cycles)
    for v in range(level.shape[0]):
        spent[v, CYCLES] = 0.0
        reading, writing = 0.0, 0.0
        if level[v, READ_BANDWIDTH] > 0.0:
            reading = busy[v, 0] / level[v, READ_BANDWIDTH]
        if level[v, WRITE_BANDWIDTH] > 0.0:
            writing = busy[v, 1] / level[v, WRITE_BANDWIDTH]
        cycles = reading + writing if level_int[v, ONE_PORT] == 1 else max(reading, writing)
        spent[v, CYCLES] = np.ceil(cycles * ROUNDED)
        worst = max(worst, spent[v, CYCLES])
    return worst


@njit
def score_imperfect(imperfect: ImperfectKernel, nest: Nest, count: int) -> tuple[int, float, float]:
    """Score one mapping whose factors may multiply to more than the bounds.

    Args:
        imperfect: The packed problem; afterwards its `counts` hold totals over all instances.
        nest: The mapping; only its first `count` loops are read. Its outermost loop over each dimension has as many
            iterations as the bound needs (rule I1).
        count: Number of loops.

    Returns:
        (status, energy_pj, latency_cycles), as `codesign.cost.kernel.score`.
    """
    kernel, busy, covered = imperfect.base, imperfect.busy, imperfect.covered
    loops, position = nest.loops, nest.position
    bounds, terms, first_term, motion = kernel.bounds, kernel.terms, kernel.first_term, kernel.motion
    tensor, level_int, level, pair = kernel.tensor, kernel.level_int, kernel.level, kernel.pair
    inner, outside, use, counts, spent = kernel.inner, kernel.outside, kernel.use, kernel.counts, kernel.spent
    status = _scan(loops, count, position, bounds, level_int, inner, outside, use, covered)
    if status == VALID:
        status = _fill_tiles(position, terms, first_term, tensor, kernel.element_bits, level_int, inner, counts)
    if status != VALID:
        return status, np.inf, np.inf
    n_levels = position.shape[0]
    for v in range(n_levels):
        spent[v, NETWORK] = 0.0
        busy[v, 0] = 0.0
        busy[v, 1] = 0.0
    compute_cycles = 1
    for d in range(bounds.shape[0]):
        before, _, _, _ = _tiles(loops, count, d, bounds[d], outside, level_int, count, n_levels, n_levels)
        compute_cycles *= before + 1
    energy = kernel.macs * kernel.mac_energy
    for t in range(position.shape[1]):
        energy += _count_tensor(
            loops, count, position, t, bounds, terms, first_term, motion, tensor, pair, level_int, level, kernel.reuse,
            inner, outside, use, counts, spent, busy, covered,
        )  # fmt: skip
    cycles = _slowest(compute_cycles, level_int, level, spent, busy)
    return VALID, energy, cycles


@njit
def is_perfect(kernel: Kernel, nest: Nest, count: int, covered: IntArray) -> bool:
    """Whether the factors of every dimension multiply to its bound."""
    for d in range(covered.shape[0]):
        covered[d] = 1
    for i in range(count):
        covered[nest.loops[i, DIM]] *= nest.loops[i, FACTOR]
    perfect = True
    for d in range(covered.shape[0]):
        perfect = perfect and covered[d] == kernel.bounds[d]
    return perfect


@njit
def score_any(imperfect: ImperfectKernel, nest: Nest, count: int) -> tuple[int, float, float]:
    """Score a mapping: a perfect one by `codesign.cost.kernel.score`, another one by `score_imperfect`."""
    if is_perfect(imperfect.base, nest, count, imperfect.covered):
        return score(imperfect.base, nest, count)
    return score_imperfect(imperfect, nest, count)


@njit
def compute_steps(imperfect: ImperfectKernel, nest: Nest, count: int) -> int:
    """Steps in which some MAC works (rule I3), of the nest scored last."""
    kernel = imperfect.base
    n_levels = nest.position.shape[0]
    steps = 1
    for d in range(kernel.bounds.shape[0]):
        before, _, _, _ = _tiles(
            nest.loops, count, d, kernel.bounds[d], kernel.outside, kernel.level_int, count, n_levels, n_levels
        )
        steps *= before + 1
    return steps
