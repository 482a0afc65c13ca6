"""The one place that holds the formulas: access counts, energy and cycles of one mapping.

Allocation-free compiled functions. The rules (C, R, S, T, O, L, N numbers in the comments) are written down
in docs/reference/cost-model.md; they restate what was measured of Timeloop v3.0.3 (Parashar et al., ISPASS 2019) as
closed forms, so no iteration is walked.

Arrays are packed into few, and handed to the helpers one by one: unpacking a tuple of arrays costs atomic
reference counts, which dominated when every helper took the whole tuple.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit, njit_plain
from codesign.cost.arrays import Problem
from codesign.cost.mesh import (
    DOWN,
    NODES,
    ON,
    PARENTS,
    UP,
    WIDTH,
    MeshArrays,
    add_loads,
    busiest,
    clear,
    list_children,
    transfer_flits,
)
from codesign.cost.peers import peer_words
from codesign.mapping.nest import BYPASSED, DIM, FACTOR, KIND, LEVEL, SPATIAL_X, TEMPORAL, FloatArray, IntArray, Nest

TILE, READS, FILLS, UPDATES, GIVEN = 0, 1, 2, 3, 4
VALID, OVER_CAPACITY, OVER_MESH = 0, 1, 2

# columns of the packed arrays
_AXIS, _STEP = 0, 1
_AXES, _ENTANGLED, _WORDS = 0, 1, 2
_READ, _FILL, _UPDATE, _WIDTH, _HOP = 0, 1, 2, 3, 4
_CAPACITY, _FAN_X, _FAN_Y, _SHARES, _PEERS, _ONE_PORT = 0, 1, 2, 3, 4, 5
_READ_BANDWIDTH, _WRITE_BANDWIDTH, _HOPS, _HOPS_PER_COPY = 0, 1, 2, 3
_BEFORE, _NEAREST, _MARKED, _STEP_SIZE = 0, 1, 2, 3
START, STOP, CHILDREN, INSTANCES, SHARE = 0, 1, 2, 3, 4
NETWORK, CYCLES, MESH = 0, 1, 2

_ROUNDED = 1.0 - 1e-12
"""Cycles of one port are rounded up after the rounding of sums is taken off."""


class Kernel(NamedTuple):
    """A problem packed for scoring, and the space scoring writes to. One per thread, made by `make_kernel`.

    Attributes:
        bounds: ``D``.
        terms: ``K x 2`` (dimension, coefficient) of every term of every axis.
        first_term: ``T x (A + 1)`` where the terms of each axis start.
        motion: ``T x D x 2`` axis a dimension moves the tensor along (-1 none), coefficient.
        coef: ``T x A x D``.
        tensor: ``T x 3`` number of axes, 1 if a dimension stands on two axes, words of the whole tensor.
        element_bits: ``L x T``.
        pair: ``L x T x 5`` pJ per element read, filled, updated; words per element; pJ per element and hop.
        level_int: ``L x 6`` capacity in bits, fan-out x, y, 1 if equal words are shared, 1 if peers forward, 1 if reads and
            writes take turns on one port.
        level: ``L x 4`` read and write bandwidth in words per cycle (0 unlimited), hops: constant, per copy.
        macs: multiply-accumulates.
        mac_energy: pJ.
        reuse: value of `codesign.cost.arrays.Reuse`.
        inner: ``(N + 2) x D`` product of the factors of loops i.. of each dimension, where a tensor is stored at i.
        outside: ``(N + 1) x 4`` product of the temporal factors outside loop i, the innermost of those loops (-1 none),
            1 where a tensor is stored, size of one step of loop i along its dimension.
        use: ``L x 5`` first and past-the-last spatial loop, children in use per instance, instances in use, output
            words one instance is responsible for.
        extent: ``L x T x A`` tile extents.
        counts: ``L x T x 5`` tile words, reads, fills, updates of one instance; words peers gave each other, of all.
        spent: ``L x 3`` energy of the network below the level in pJ, cycles in which its ports are busy, and the busiest link of
            its mesh.
        shift: ``A`` how far the inner loops have moved the tile when a loop steps.
        offsets: room to enumerate the children of one fan-out.
        meshes: 1 where some fan-out is a mesh.
        mesh: its arrays.
    """

    bounds: IntArray
    terms: IntArray
    first_term: IntArray
    motion: IntArray
    coef: IntArray
    tensor: IntArray
    element_bits: IntArray
    pair: FloatArray
    level_int: IntArray
    level: FloatArray
    macs: int
    mac_energy: float
    reuse: int
    inner: IntArray
    outside: IntArray
    use: IntArray
    extent: IntArray
    counts: IntArray
    spent: FloatArray
    shift: IntArray
    offsets: IntArray
    meshes: int
    mesh: MeshArrays


def make_kernel(problem: Problem, max_loops: int) -> Kernel:
    """Pack a problem, with room for nests of up to `max_loops` loops."""
    n_tensors, n_axes, n_dims = problem.coef.shape
    n_levels = problem.fanout.shape[0]
    columns = (problem.capacity_bits, *problem.fanout.T, problem.shares, problem.peers, problem.one_port)
    return Kernel(
        bounds=problem.bounds,
        terms=problem.terms,
        first_term=problem.first_term,
        motion=np.ascontiguousarray(np.stack([problem.axis_of, problem.step_of], axis=-1)),
        coef=problem.coef,
        tensor=np.ascontiguousarray(np.stack([problem.axes, problem.entangled, problem.tensor_words], axis=-1)),
        element_bits=problem.element_bits,
        pair=np.ascontiguousarray(
            np.concatenate([problem.energy, problem.words[..., None], problem.hop_energy[..., None]], axis=-1)
        ),
        level_int=np.ascontiguousarray(np.stack(columns, axis=-1)),
        level=np.ascontiguousarray(np.concatenate([problem.bandwidth, problem.hops], axis=-1)),
        macs=problem.macs,
        mac_energy=problem.mac_energy,
        reuse=problem.reuse,
        inner=np.ones((max_loops + 2, n_dims), np.int64),
        outside=np.ones((max_loops + 1, 4), np.int64),
        use=np.ones((n_levels, 5), np.int64),
        extent=np.zeros((n_levels, n_tensors, n_axes), np.int64),
        counts=np.zeros((n_levels, n_tensors, 5), np.int64),
        spent=np.zeros((n_levels, 3)),
        shift=np.zeros(n_axes, np.int64),
        offsets=np.zeros(int(problem.fanout.prod(axis=1).max()), np.int64),
        meshes=int(problem.mesh.level[:, ON].any()),
        mesh=problem.mesh._replace(  # the tables are shared, the scratch is not
            load=np.zeros_like(problem.mesh.load),
            mark=np.zeros_like(problem.mesh.mark),
            child=np.zeros_like(problem.mesh.child),
            role=np.zeros_like(problem.mesh.role),
        ),
    )


@njit_plain
def _scan_loops(
    loops: IntArray,
    count: int,
    position: IntArray,
    level_int: IntArray,
    inner: IntArray,
    outside: IntArray,
    use: IntArray,
) -> int:
    """Fill `inner`, `outside`, `use`; returns `OVER_MESH` + 4 * level when a fan-out is too small."""
    n_dims = inner.shape[1]
    for v in range(use.shape[0]):
        use[v, START] = 0
        use[v, STOP] = 0
    temporal, latest = 1, -1
    for i in range(count):
        outside[i, _BEFORE] = temporal
        outside[i, _NEAREST] = latest
        outside[i, _MARKED] = 0
        if loops[i, KIND] == TEMPORAL:
            temporal *= loops[i, FACTOR]
            latest = i
        else:
            v = loops[i, LEVEL]
            if use[v, STOP] == 0:
                use[v, START] = i
            use[v, STOP] = i + 1
    outside[count, _BEFORE] = temporal
    outside[count, _NEAREST] = latest
    instances = 1
    for v in range(use.shape[0]):
        use[v, INSTANCES] = instances
        used_x, used_y = 1, 1
        for i in range(use[v, START], use[v, STOP]):
            if loops[i, KIND] == SPATIAL_X:
                used_x *= loops[i, FACTOR]
            else:
                used_y *= loops[i, FACTOR]
        if used_x > level_int[v, _FAN_X] or used_y > level_int[v, _FAN_Y]:
            return OVER_MESH + 4 * v
        use[v, CHILDREN] = used_x * used_y
        instances *= used_x * used_y
        for t in range(position.shape[1]):
            if position[v, t] != BYPASSED:
                outside[position[v, t], _MARKED] = 1
    # row `count + 1` runs along; rows of `inner` are only kept where a tensor is stored
    size = inner.shape[0] - 1
    for d in range(n_dims):
        inner[size, d] = 1
        inner[count, d] = 1
    for i in range(count - 1, -1, -1):
        d = loops[i, DIM]
        outside[i, _STEP_SIZE] = inner[size, d]
        inner[size, d] *= loops[i, FACTOR]
        if outside[i, _MARKED] == 1:
            for e in range(n_dims):
                inner[i, e] = inner[size, e]
    return VALID


@njit_plain
def _fill_tiles(
    position: IntArray,
    terms: IntArray,
    first_term: IntArray,
    tensor: IntArray,
    element_bits: IntArray,
    level_int: IntArray,
    inner: IntArray,
    extent: IntArray,
    counts: IntArray,
) -> int:
    """Tile of every kept tensor (rule C1); returns `OVER_CAPACITY` + 4 * level when they do not fit (rule C2)."""
    for v in range(position.shape[0]):
        bits = 0
        for t in range(position.shape[1]):
            place = position[v, t]
            if place == BYPASSED:
                continue
            words = 1
            for a in range(tensor[t, _AXES]):
                length = 1
                for k in range(first_term[t, a], first_term[t, a + 1]):
                    length += terms[k, 1] * (inner[place, terms[k, 0]] - 1)
                extent[v, t, a] = length
                words *= length
            counts[v, t, TILE] = words
            bits += words * element_bits[v, t]
        if bits > level_int[v, _CAPACITY]:
            return OVER_CAPACITY + 4 * v
    return VALID


@njit_plain
def _gcd(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a


@njit
def _enumerate_distinct(
    loops: IntArray,
    start: int,
    stop: int,
    t: int,
    bounds: IntArray,
    terms: IntArray,
    first_term: IntArray,
    motion: IntArray,
    coef: IntArray,
    outside: IntArray,
    offsets: IntArray,
) -> int:
    """Different offset vectors among a level's children by listing them (rule S2)."""
    count = 1
    offsets[0] = 0
    for i in range(start, stop):
        d = loops[i, DIM]
        if motion[t, d, _AXIS] < 0:
            continue
        # a vector as one number: axis a counts in units of the product of the inner axes' extents in the tensor
        step = 0
        unit = 1
        for a in range(coef.shape[1]):
            step += unit * coef[t, a, d] * outside[i, _STEP_SIZE]
            reach = 1
            for k in range(first_term[t, a], first_term[t, a + 1]):
                reach += terms[k, 1] * (bounds[terms[k, 0]] - 1)
            unit *= reach
        factor = loops[i, FACTOR]
        for f in range(1, factor):
            for c in range(count):
                offsets[f * count + c] = offsets[c] + f * step
        count *= factor
    part = offsets[:count]
    part.sort()
    unique = 1
    for i in range(1, count):
        if part[i] != part[i - 1]:
            unique += 1
    return unique


@njit_plain
def _sums(f1: int, s1: int, f2: int, s2: int) -> int:
    """Different sums of one of f1 multiples of s1 and one of f2 multiples of s2: the row-stationary diagonal (rule S3)."""
    g = _gcd(s1, s2)
    return f1 * f2 - max(0, f1 - s2 // g) * max(0, f2 - s1 // g)


@njit_plain
def _distinct_along(loops: IntArray, i: int, start: int, stop: int, t: int, motion: IntArray, outside: IntArray) -> int:
    """Different offsets along the axis that loop i moves, 1 when an earlier loop stands for it, 0 when not in closed form.

    Loops over one dimension act as one: the outer steps by as much as the inner covers.
    """
    d1, d2 = loops[i, DIM], -1
    axis = motion[t, d1, _AXIS]
    for j in range(start, i):
        if motion[t, loops[j, DIM], _AXIS] == axis:
            return 1
    f1, step1, f2, step2 = loops[i, FACTOR], outside[i, _STEP_SIZE], 1, 1
    for j in range(i + 1, stop):
        d = loops[j, DIM]
        if d == d1:
            f1 *= loops[j, FACTOR]
            step1 = outside[j, _STEP_SIZE]
        elif motion[t, d, _AXIS] == axis:
            if d2 >= 0 and d != d2:
                return 0
            d2 = d
            f2 *= loops[j, FACTOR]
            step2 = outside[j, _STEP_SIZE]
    if d2 < 0:
        return f1  # type: ignore[no-any-return]
    return _sums(f1, motion[t, d1, _STEP] * step1, f2, motion[t, d2, _STEP] * step2)


@njit_plain
def _words_in(
    loops: IntArray,
    v: int,
    t: int,
    last: int,
    motion: IntArray,
    reuse: int,
    outside: IntArray,
    extent: IntArray,
    full: int,
) -> int:
    """Words that enter one instance over the whole run (rules R1-R3).

    The temporal loops outside the storage node are taken from inner (`last`) to outer. Loop i makes
    N_i = (f_i - 1) * prod_{j<i} f_j steps, each moving the tile by the vector
    T_i = v_i - (what the inner loops had moved it), v_i = coefficient * step.
    A step with the translation of the innermost loop keeps the overlap, any other fetches the whole tile.

    Here every dimension moves one axis. The inner loops' shift is >= 0 on every axis, so a later loop can
    repeat the innermost translation only while the shift lies on that loop's own axis.
    """
    d = loops[last, DIM]
    factor = loops[last, FACTOR]
    axis = motion[t, d, _AXIS]
    step = motion[t, d, _STEP] * outside[last, _STEP_SIZE]
    delta = 0
    if axis >= 0:
        delta = full - full // extent[v, t, axis] * max(0, extent[v, t, axis] - step)
    total = full + (factor - 1) * outside[last, _BEFORE] * delta
    shift = step if reuse == 0 else step * (factor - 1)
    i = outside[last, _NEAREST]
    while i >= 0:
        d = loops[i, DIM]
        factor = loops[i, FACTOR]
        moved = motion[t, d, _AXIS]
        travel = motion[t, d, _STEP] * outside[i, _STEP_SIZE]
        same = moved == axis and travel - shift == step
        if moved >= 0 and axis >= 0 and moved != axis:
            # a second axis has moved: from here outwards nothing repeats the innermost translation
            return total + (outside[i, _BEFORE] * factor - 1) * full  # type: ignore[no-any-return]
        total += (factor - 1) * outside[i, _BEFORE] * (delta if same else full)
        if moved >= 0:
            axis = moved
            shift += travel if reuse == 0 else travel * (factor - 1)
        i = outside[i, _NEAREST]
    return total  # type: ignore[no-any-return]


@njit_plain
def _words_in_general(
    loops: IntArray,
    v: int,
    t: int,
    last: int,
    axes: int,
    coef: IntArray,
    reuse: int,
    outside: IntArray,
    extent: IntArray,
    full: int,
    shift: IntArray,
) -> int:
    """`_words_in` for tensors with a dimension on two axes, and for reuse of whatever is resident (rule R4)."""
    total = full
    delta = 0
    for a in range(axes):
        shift[a] = 0
    i = last
    while i >= 0:
        d = loops[i, DIM]
        factor = loops[i, FACTOR]
        overlap = 1
        same = True
        travels = False
        for a in range(axes):
            travel = coef[t, a, d] * outside[i, _STEP_SIZE]
            translation = travel - shift[a]
            travels = travels or translation != 0
            same = same and translation == coef[t, a, loops[last, DIM]] * outside[last, _STEP_SIZE]
            overlap *= max(0, extent[v, t, a] - abs(translation))
            shift[a] += travel if reuse == 0 else travel * (factor - 1)
        if i == last:
            delta = full - overlap
        moved = full - overlap if reuse == 2 else (delta if same else full)
        if reuse == 3:
            moved = full if travels else 0
        total += (factor - 1) * outside[i, _BEFORE] * moved
        i = outside[i, _NEAREST]
    return total


@njit_plain
def _fill_shares(loops: IntArray, output: int, motion: IntArray, tensor: IntArray, use: IntArray) -> None:
    """Output words one instance of each level is responsible for over the run (rule O3)."""
    words = tensor[output, _WORDS]
    for v in range(use.shape[0]):
        use[v, SHARE] = words
        for i in range(use[v, START], use[v, STOP]):
            if motion[output, loops[i, DIM], _AXIS] >= 0:
                words //= loops[i, FACTOR]


@njit_plain
def _throttled_cycles(
    position: IntArray,
    pair: FloatArray,
    level_int: IntArray,
    level: FloatArray,
    use: IntArray,
    counts: IntArray,
    spent: FloatArray,
    compute_cycles: int,
) -> float:
    """The slowest of computing and every level's ports: sums run over the tensors in their order (rules L2 to L4)."""
    worst = float(compute_cycles)
    for v in range(position.shape[0]):
        spent[v, CYCLES] = 0.0
        if level[v, _READ_BANDWIDTH] == 0.0 and level[v, _WRITE_BANDWIDTH] == 0.0:
            continue
        read_rate, write_rate = 0.0, 0.0
        for t in range(position.shape[1]):
            if position[v, t] == BYPASSED:
                continue
            reads = counts[v, t, READS] + counts[v, t, GIVEN] / use[v, INSTANCES]
            writes = counts[v, t, UPDATES] + counts[v, t, FILLS]
            read_rate += pair[v, t, _WIDTH] * reads / compute_cycles
            write_rate += pair[v, t, _WIDTH] * writes / compute_cycles
        if level_int[v, _ONE_PORT] == 1:
            busy = 0.0
            if level[v, _READ_BANDWIDTH] > 0.0:
                busy += read_rate * compute_cycles / level[v, _READ_BANDWIDTH]
            if level[v, _WRITE_BANDWIDTH] > 0.0:
                busy += write_rate * compute_cycles / level[v, _WRITE_BANDWIDTH]
            spent[v, CYCLES] = np.ceil(busy * _ROUNDED)
        else:
            slowdown = np.inf
            if level[v, _READ_BANDWIDTH] > 0.0 and read_rate > 0.0:
                slowdown = min(slowdown, level[v, _READ_BANDWIDTH] / read_rate)
            if level[v, _WRITE_BANDWIDTH] > 0.0 and write_rate > 0.0:
                slowdown = min(slowdown, level[v, _WRITE_BANDWIDTH] / write_rate)
            spent[v, CYCLES] = np.ceil(compute_cycles / slowdown)
        worst = max(worst, spent[v, CYCLES])
    return worst


@njit_plain
def _distinct_children(
    loops: IntArray,
    m: int,
    t: int,
    bounds: IntArray,
    terms: IntArray,
    first_term: IntArray,
    motion: IntArray,
    coef: IntArray,
    tensor: IntArray,
    level_int: IntArray,
    outside: IntArray,
    use: IntArray,
    offsets: IntArray,
) -> int:
    """Children in use of one instance of level m whose tiles of a tensor differ (rules S1-S4)."""
    distinct = use[m, CHILDREN]
    if distinct == 1 or level_int[m, _SHARES] == 0:
        return distinct  # type: ignore[no-any-return]
    start, stop = use[m, START], use[m, STOP]
    distinct = 0 if tensor[t, _ENTANGLED] == 1 else 1
    for i in range(start, stop):
        if motion[t, loops[i, DIM], _AXIS] >= 0:
            distinct *= _distinct_along(loops, i, start, stop, t, motion, outside)
    if distinct == 0:
        return _enumerate_distinct(loops, start, stop, t, bounds, terms, first_term, motion, coef, outside, offsets)
    return distinct


@njit_plain
def _count_tensor(
    loops: IntArray,
    position: IntArray,
    t: int,
    compute_cycles: int,
    bounds: IntArray,
    terms: IntArray,
    first_term: IntArray,
    motion: IntArray,
    coef: IntArray,
    tensor: IntArray,
    pair: FloatArray,
    level_int: IntArray,
    level: FloatArray,
    reuse: int,
    outside: IntArray,
    use: IntArray,
    extent: IntArray,
    counts: IntArray,
    spent: FloatArray,
    shift: IntArray,
    offsets: IntArray,
) -> float:
    """Counts of one tensor at every level; returns the energy of its accesses and transfers (rules T, O, N)."""
    n_levels, n_tensors = position.shape
    is_output = t == n_tensors - 1
    energy = 0.0
    outermost = 0
    while position[outermost, t] == BYPASSED:
        outermost += 1
    below = compute_cycles  # a MAC takes one word a cycle and remembers nothing (rule T1)
    inner_level = n_levels
    for v in range(n_levels - 1, outermost - 1, -1):
        place = position[v, t]
        if place == BYPASSED:
            continue
        traffic = below
        for m in range(inner_level - 1, v - 1, -1):
            distinct = _distinct_children(
                loops, m, t, bounds, terms, first_term, motion, coef, tensor, level_int, outside, use, offsets
            )
            traffic *= distinct
            if level_int[m, _PEERS] == 1 and m == v and inner_level == v + 1 < n_levels and not is_output:
                traffic, given = peer_words(
                    loops, use[m, START], use[m, STOP], t, outside[position[inner_level, t], _NEAREST],
                    tensor[t, _AXES], coef, reuse, outside, extent, inner_level, counts[inner_level, t, TILE],
                )  # fmt: skip
                given *= use[m, INSTANCES]
                counts[inner_level, t, GIVEN] = given
                energy += given * (pair[inner_level, t, _READ] + pair[m, t, _HOP])
                spent[m, NETWORK] += given * pair[m, t, _HOP]
            if pair[m, t, _HOP] > 0.0:
                hops = level[m, _HOPS] + level[m, _HOPS_PER_COPY] * use[m, CHILDREN] / distinct
                network = traffic * use[m, INSTANCES] * hops * pair[m, t, _HOP]
                spent[m, NETWORK] += network
                energy += network
        words = counts[v, t, TILE]
        last = outside[place, _NEAREST]
        if last >= 0:
            if tensor[t, _ENTANGLED] == 1 or reuse >= 2:
                words = _words_in_general(
                    loops, v, t, last, tensor[t, _AXES], coef, reuse, outside, extent, words, shift
                )
            else:
                words = _words_in(loops, v, t, last, motion, reuse, outside, extent, words)
        reads, fills, updates = traffic, words, 0
        if is_output:
            share = use[v, SHARE]
            reads, fills, updates = traffic - share, words - share, traffic
        if v == outermost:
            fills = 0
        counts[v, t, GIVEN] = 0
        counts[v, t, READS] = reads
        counts[v, t, FILLS] = fills
        counts[v, t, UPDATES] = updates
        accesses = reads * pair[v, t, _READ] + fills * pair[v, t, _FILL] + updates * pair[v, t, _UPDATE]
        energy += accesses * use[v, INSTANCES]
        below = words
        inner_level = v
    return energy


@njit_plain
def crossing(position: IntArray, m: int, t: int) -> tuple[int, int]:
    """The levels between which tensor t crosses the fan-out of level m: outer (-1: none), inner (``L``: the MACs)."""
    outer, inner = -1, position.shape[0]
    for v in range(position.shape[0]):
        if position[v, t] != BYPASSED:
            if v <= m:
                outer = v
            else:
                inner = v
                break
    return outer, inner


@njit_plain
def _mesh_traffic(
    m: int, loops: IntArray, position: IntArray, compute_cycles: int, bounds: IntArray, terms: IntArray,
    first_term: IntArray, motion: IntArray, coef: IntArray, tensor: IntArray, pair: FloatArray, level_int: IntArray,
    outside: IntArray, use: IntArray, counts: IntArray, spent: FloatArray, offsets: IntArray, mesh: IntArray,
    bits: IntArray, unit: IntArray, load: FloatArray, mark: IntArray, child: IntArray, role: IntArray, turns: IntArray,
    extent: IntArray, reuse: int,
) -> float:  # fmt: skip
    """Count the flits of the mesh below level m, set `spent`'s cycles of it, and return its energy (rules N5-N9)."""
    n_tensors = position.shape[1]
    token, energy = 0, 0.0
    most_down, most_up = 0.0, 0.0
    for together in range(2):  # first tensors that take turns, then those that stream side by side
        clear(load, mark)
        for t in range(n_tensors):
            outer, inner = crossing(position, m, t)
            if outer < 0 or turns[inner] == together:
                continue
            is_output = t == n_tensors - 1
            down, up, tile = 1.0 * compute_cycles, 0.0, 0.0
            if inner < position.shape[0]:
                down = 1.0 * counts[inner, t, FILLS]
                if is_output:
                    up = down + use[inner, SHARE]
                if together == 0 and _moves_whole(loops, position, t, inner, coef, tensor, outside, extent, reuse):
                    tile = 1.0 * counts[inner, t, TILE]
            elif is_output:
                down, up = 0.0, 1.0 * compute_cycles
            for between in range(m + 1, inner):
                distinct = _distinct_children(
                    loops, between, t, bounds, terms, first_term, motion, coef, tensor, level_int, outside, use, offsets
                )
                down *= distinct
                up *= distinct
                tile *= distinct
            total = list_children(loops, use[m, START], use[m, STOP], t, mesh[m, WIDTH], coef, unit, outside, child)
            flits_down = transfer_flits(mesh[m], down, tile, bits[m, t])
            flits_up = transfer_flits(mesh[m], up, tile, bits[m, t])
            token, links_down, links_up = add_loads(
                mesh[m], child, total, flits_down, flits_up, not is_output, load, mark, role, token
            )
            # pJ of a hop stand for an element; every parent moves its part of it
            energy += (links_down * down + links_up * up) / mesh[m, PARENTS] * pair[m, t, _HOP] * use[m, INSTANCES]
            if together == 0:
                most_down += busiest(load[DOWN], mesh[m, NODES])
                most_up += busiest(load[UP], mesh[m, NODES])
                clear(load, mark)
        if together == 1:
            most_down += busiest(load[DOWN], mesh[m, NODES])
            most_up += busiest(load[UP], mesh[m, NODES])
    spent[m, MESH] = np.ceil(max(most_down, most_up) * _ROUNDED)
    return energy


@njit_plain
def _moves_whole(
    loops: IntArray, position: IntArray, t: int, v: int, coef: IntArray, tensor: IntArray, outside: IntArray,
    extent: IntArray, reuse: int,
) -> bool:  # fmt: skip
    """Whether every transfer to level v brings a whole tile (R1-R3).

    It does where the innermost loop outside the tile moves it beyond itself, or not at all: then every other step is another
    translation.
    """
    if reuse == 2:
        return False
    i = outside[position[v, t], _NEAREST]
    if i < 0:
        return True
    overlap, full = 1, 1
    for a in range(tensor[t, _AXES]):
        overlap *= max(0, extent[v, t, a] - abs(coef[t, a, loops[i, DIM]] * outside[i, _STEP_SIZE]))
        full *= extent[v, t, a]
    return overlap in (0, full)


@njit_plain
def score(kernel: Kernel, nest: Nest, count: int) -> tuple[int, float, float]:
    """Score one mapping.

    Args:
        kernel: The packed problem; its scratch part is overwritten and afterwards holds the counts.
        nest: The mapping; only its first `count` loops are read.
        count: Number of loops.

    Returns:
        (status, energy_pj, latency_cycles). Status is `VALID`, or `OVER_CAPACITY` or `OVER_MESH` plus
        4 times the level; energy and cycles are then infinite.
    """
    loops, position = nest.loops, nest.position
    bounds, terms, first_term, motion = kernel.bounds, kernel.terms, kernel.first_term, kernel.motion
    coef, tensor, level_int, level, pair = kernel.coef, kernel.tensor, kernel.level_int, kernel.level, kernel.pair
    inner, outside, use, offsets = kernel.inner, kernel.outside, kernel.use, kernel.offsets
    extent, counts, spent, shift = kernel.extent, kernel.counts, kernel.spent, kernel.shift
    status = _scan_loops(loops, count, position, level_int, inner, outside, use)
    if status == VALID:
        status = _fill_tiles(position, terms, first_term, tensor, kernel.element_bits, level_int, inner, extent, counts)
    if status != VALID:
        return status, np.inf, np.inf
    used = 1
    for v in range(position.shape[0]):
        used *= use[v, CHILDREN]
        spent[v, NETWORK] = 0.0
    _fill_shares(loops, position.shape[1] - 1, motion, tensor, use)
    compute_cycles = kernel.macs // used
    energy = kernel.macs * kernel.mac_energy
    for t in range(position.shape[1]):
        energy += _count_tensor(
            loops, position, t, compute_cycles, bounds, terms, first_term, motion, coef, tensor, pair, level_int,
            level, kernel.reuse, outside, use, extent, counts, spent, shift, offsets,
        )  # fmt: skip
    cycles = _throttled_cycles(position, pair, level_int, level, use, counts, spent, compute_cycles)
    if kernel.meshes == 1:
        for m in range(position.shape[0]):
            spent[m, MESH] = 0.0
            if kernel.mesh.level[m, ON] == 1:
                network = _mesh_traffic(
                    m, loops, position, compute_cycles, bounds, terms, first_term, motion, coef, tensor, pair, level_int,
                    outside, use, counts, spent, offsets, kernel.mesh.level, kernel.mesh.bits, kernel.mesh.unit,
                    kernel.mesh.load, kernel.mesh.mark, kernel.mesh.child, kernel.mesh.role, kernel.mesh.turns,
                    extent, kernel.reuse,
                )  # fmt: skip
                energy += network
                spent[m, NETWORK] += network
                cycles = max(cycles, spent[m, MESH])
    return VALID, energy, cycles
