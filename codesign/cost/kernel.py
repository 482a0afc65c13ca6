"""The one place that holds the formulas: access counts, energy and cycles of one mapping.

Allocation-free compiled functions. The rules (C, R, S, T, O, L, N numbers in the comments) are written down
in docs/reference/cost-model.md; they restate what was measured of Timeloop v3.0.3 (Parashar et al., ISPASS 2019) as
closed forms, so no iteration is walked.

Arrays are packed into few, and handed to the helpers one by one: unpacking a tuple of arrays costs atomic
reference counts, which dominated when every helper took the whole tuple.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit, njit_apart
from codesign.cost.arrays import Problem
from codesign.cost.columns import (
    AXES,
    AXIS,
    BEFORE,
    CAPACITY,
    CHILDREN,
    CYCLES,
    ENTANGLED,
    FAN_X,
    FAN_Y,
    FILL,
    FILLS,
    GIVEN,
    HOP,
    HOPS,
    HOPS_PER_COPY,
    INSTANCES,
    MARKED,
    MESH,
    NEAREST,
    NETWORK,
    ONE_PORT,
    PEERS,
    READ,
    READ_BANDWIDTH,
    READS,
    ROUNDED,
    SHARE,
    START,
    STEP_SIZE,
    STOP,
    TILE,
    UPDATE,
    UPDATES,
    WORD_WIDTH,
    WORDS,
    WRITE_BANDWIDTH,
)
from codesign.cost.mesh import ON, MeshArrays
from codesign.cost.mesh_traffic import mesh_traffic
from codesign.cost.peers import peer_words
from codesign.cost.sharing import distinct_children
from codesign.cost.tile_words import words_in, words_in_general
from codesign.mapping.nest import BYPASSED, DIM, FACTOR, KIND, LEVEL, SPATIAL_X, TEMPORAL, FloatArray, IntArray, Nest

VALID, OVER_CAPACITY, OVER_MESH = 0, 1, 2


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


@njit
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
        outside[i, BEFORE] = temporal
        outside[i, NEAREST] = latest
        outside[i, MARKED] = 0
        if loops[i, KIND] == TEMPORAL:
            temporal *= loops[i, FACTOR]
            latest = i
        else:
            v = loops[i, LEVEL]
            if use[v, STOP] == 0:
                use[v, START] = i
            use[v, STOP] = i + 1
    outside[count, BEFORE] = temporal
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
        for t in range(position.shape[1]):
            if position[v, t] != BYPASSED:
                outside[position[v, t], MARKED] = 1
    # row `count + 1` runs along; rows of `inner` are only kept where a tensor is stored
    size = inner.shape[0] - 1
    for d in range(n_dims):
        inner[size, d] = 1
        inner[count, d] = 1
    for i in range(count - 1, -1, -1):
        d = loops[i, DIM]
        outside[i, STEP_SIZE] = inner[size, d]
        inner[size, d] *= loops[i, FACTOR]
        if outside[i, MARKED] == 1:
            for e in range(n_dims):
                inner[i, e] = inner[size, e]
    return VALID


@njit
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
            for a in range(tensor[t, AXES]):
                length = 1
                for k in range(first_term[t, a], first_term[t, a + 1]):
                    length += terms[k, 1] * (inner[place, terms[k, 0]] - 1)
                extent[v, t, a] = length
                words *= length
            counts[v, t, TILE] = words
            bits += words * element_bits[v, t]
        if bits > level_int[v, CAPACITY]:
            return OVER_CAPACITY + 4 * v
    return VALID


@njit
def _fill_shares(loops: IntArray, output: int, motion: IntArray, tensor: IntArray, use: IntArray) -> None:
    """Output words one instance of each level is responsible for over the run (rule O3)."""
    words = tensor[output, WORDS]
    for v in range(use.shape[0]):
        use[v, SHARE] = words
        for i in range(use[v, START], use[v, STOP]):
            if motion[output, loops[i, DIM], AXIS] >= 0:
                words //= loops[i, FACTOR]


@njit
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
        if level[v, READ_BANDWIDTH] == 0.0 and level[v, WRITE_BANDWIDTH] == 0.0:
            continue
        read_rate, write_rate = 0.0, 0.0
        for t in range(position.shape[1]):
            if position[v, t] == BYPASSED:
                continue
            reads = counts[v, t, READS] + counts[v, t, GIVEN] / use[v, INSTANCES]
            writes = counts[v, t, UPDATES] + counts[v, t, FILLS]
            read_rate += pair[v, t, WORD_WIDTH] * reads / compute_cycles
            write_rate += pair[v, t, WORD_WIDTH] * writes / compute_cycles
        if level_int[v, ONE_PORT] == 1:
            busy = 0.0
            if level[v, READ_BANDWIDTH] > 0.0:
                busy += read_rate * compute_cycles / level[v, READ_BANDWIDTH]
            if level[v, WRITE_BANDWIDTH] > 0.0:
                busy += write_rate * compute_cycles / level[v, WRITE_BANDWIDTH]
            spent[v, CYCLES] = np.ceil(busy * ROUNDED)
        else:
            slowdown = np.inf
            if level[v, READ_BANDWIDTH] > 0.0 and read_rate > 0.0:
                slowdown = min(slowdown, level[v, READ_BANDWIDTH] / read_rate)
            if level[v, WRITE_BANDWIDTH] > 0.0 and write_rate > 0.0:
                slowdown = min(slowdown, level[v, WRITE_BANDWIDTH] / write_rate)
            spent[v, CYCLES] = np.ceil(compute_cycles / slowdown)
        worst = max(worst, spent[v, CYCLES])
    return worst


@njit
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
            distinct = distinct_children(
                loops, m, t, bounds, terms, first_term, motion, coef, tensor, level_int, outside, use, offsets
            )
            traffic *= distinct
            if level_int[m, PEERS] == 1 and m == v and inner_level == v + 1 < n_levels and not is_output:
                traffic, given = peer_words(
                    loops, use[m, START], use[m, STOP], t, outside[position[inner_level, t], NEAREST],
                    tensor[t, AXES], coef, reuse, outside, extent, inner_level, counts[inner_level, t, TILE],
                )  # fmt: skip
                given *= use[m, INSTANCES]
                counts[inner_level, t, GIVEN] = given
                energy += given * (pair[inner_level, t, READ] + pair[m, t, HOP])
                spent[m, NETWORK] += given * pair[m, t, HOP]
            if pair[m, t, HOP] > 0.0:
                hops = level[m, HOPS] + level[m, HOPS_PER_COPY] * use[m, CHILDREN] / distinct
                network = traffic * use[m, INSTANCES] * hops * pair[m, t, HOP]
                spent[m, NETWORK] += network
                energy += network
        words = counts[v, t, TILE]
        last = outside[place, NEAREST]
        if last >= 0:
            if tensor[t, ENTANGLED] == 1 or reuse >= 2:
                words = words_in_general(loops, v, t, last, tensor[t, AXES], coef, reuse, outside, extent, words, shift)
            else:
                words = words_in(loops, v, t, last, motion, reuse, outside, extent, words)
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
        accesses = reads * pair[v, t, READ] + fills * pair[v, t, FILL] + updates * pair[v, t, UPDATE]
        energy += accesses * use[v, INSTANCES]
        below = words
        inner_level = v
    return energy


@njit_apart
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
                network = mesh_traffic(
                    m, loops, position, compute_cycles, bounds, terms, first_term, motion, coef, tensor, pair, level_int,
                    outside, use, counts, spent, offsets, kernel.mesh.level, kernel.mesh.bits, kernel.mesh.unit,
                    kernel.mesh.load, kernel.mesh.mark, kernel.mesh.child, kernel.mesh.role, kernel.mesh.turns,
                    extent, kernel.reuse,
                )  # fmt: skip
                energy += network
                spent[m, NETWORK] += network
                cycles = max(cycles, spent[m, MESH])
    return VALID, energy, cycles
