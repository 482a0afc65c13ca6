"""The one place that holds the formulas: access counts, energy and cycles of one mapping.

Compiled functions that allocate nothing. The rules (C, R, S, T, O, L, N numbers in the comments) are written down
in docs/reference/cost-model.md; they restate what was measured of Timeloop v3.0.3 (Parashar et al., ISPASS 2019) as
closed forms, so no iteration is walked. The walk over loops and fan-outs and the tiles are those of `codesign.cost.walk`, for nests
with a remainder too; what such a nest counts differs (`codesign.cost.imperfect`).
"""

import numpy as np

from codesign.core.jit import njit, njit_apart
from codesign.cost.columns import (
    AXIS,
    CHILDREN,
    CYCLES,
    ENTANGLED,
    FILL,
    FILLS,
    GIVEN,
    HOP,
    HOPS,
    HOPS_PER_COPY,
    INSTANCES,
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
    STOP,
    TILE,
    UPDATE,
    UPDATES,
    WORD_WIDTH,
    WORDS,
    WRITE_BANDWIDTH,
)
from codesign.cost.imperfect import is_perfect, score_imperfect
from codesign.cost.mesh import ON
from codesign.cost.mesh_traffic import mesh_traffic
from codesign.cost.packed import VALID, Kernel
from codesign.cost.peers import peer_words
from codesign.cost.sharing import distinct_children
from codesign.cost.tile_words import words_in, words_in_general
from codesign.cost.walk import fill_tiles, mac_count, scan_loops
from codesign.mapping.nest import BYPASSED, DIM, FACTOR, IntArray, Nest


@njit
def _fill_shares(kernel: Kernel, loops: IntArray, output: int) -> None:
    """Output words one instance of each level is responsible for over the run (rule O3)."""
    use, motion = kernel.use, kernel.motion
    words = kernel.tensor[output, WORDS]
    for v in range(use.shape[0]):
        use[v, SHARE] = words
        for i in range(use[v, START], use[v, STOP]):
            if motion[output, loops[i, DIM], AXIS] >= 0:
                words //= loops[i, FACTOR]


@njit
def _throttled_cycles(kernel: Kernel, position: IntArray, compute_cycles: int) -> float:
    """The slowest of computing and every level's ports: sums run over the tensors in their order (rules L2 to L4)."""
    pair, level, counts, use, spent = kernel.pair, kernel.level, kernel.counts, kernel.use, kernel.spent
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
        if kernel.level_int[v, ONE_PORT] == 1:
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
def _send(
    kernel: Kernel, nest: Nest, m: int, t: int, inner_level: int, traffic: int, energy: float
) -> tuple[int, float]:
    """Cross one fan-out outwards (rules S1-S4, N1-N4): words that one instance of level m sends or passes on; pJ so far.

    A child takes `traffic` words; `inner_level` is the next level further in that keeps the tensor, or the MACs.
    """
    pair, use = kernel.pair, kernel.use
    n_levels, n_tensors = nest.position.shape
    distinct = distinct_children(kernel, nest.loops, m, t)
    traffic *= distinct
    forwards = kernel.level_int[m, PEERS] == 1 and inner_level == m + 1 < n_levels and t < n_tensors - 1
    if forwards and nest.position[m, t] != BYPASSED:
        traffic, given = peer_words(kernel, nest, m, t)
        given *= use[m, INSTANCES]
        kernel.counts[inner_level, t, GIVEN] = given
        energy += given * (pair[inner_level, t, READ] + pair[m, t, HOP])
        kernel.spent[m, NETWORK] += given * pair[m, t, HOP]
    if pair[m, t, HOP] > 0.0:
        hops = kernel.level[m, HOPS] + kernel.level[m, HOPS_PER_COPY] * use[m, CHILDREN] / distinct
        network = traffic * use[m, INSTANCES] * hops * pair[m, t, HOP]
        kernel.spent[m, NETWORK] += network
        energy += network
    return traffic, energy


@njit
def _count_tensor(kernel: Kernel, nest: Nest, t: int, compute_cycles: int) -> float:
    """Counts of one tensor at every level; returns the energy of its accesses and transfers (rules T, O, N)."""
    position, pair, counts = nest.position, kernel.pair, kernel.counts
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
            traffic, energy = _send(kernel, nest, m, t, inner_level, traffic, energy)
        words = counts[v, t, TILE]
        if kernel.outside[place, NEAREST] >= 0:
            if kernel.tensor[t, ENTANGLED] == 1 or kernel.reuse >= 2:
                words = words_in_general(kernel, nest, v, t)
            else:
                words = words_in(kernel, nest, v, t)
        reads, fills, updates = traffic, words, 0
        if is_output:
            share = kernel.use[v, SHARE]
            reads, fills, updates = traffic - share, words - share, traffic
        if v == outermost:
            fills = 0
        counts[v, t, GIVEN] = 0
        counts[v, t, READS] = reads
        counts[v, t, FILLS] = fills
        counts[v, t, UPDATES] = updates
        accesses = reads * pair[v, t, READ] + fills * pair[v, t, FILL] + updates * pair[v, t, UPDATE]
        energy += accesses * kernel.use[v, INSTANCES]
        below = words
        inner_level = v
    return energy


@njit_apart
def score(kernel: Kernel, nest: Nest, count: int) -> tuple[int, float, float]:
    """Score one mapping; by `codesign.cost.imperfect.score_imperfect` where the kernel allows such nests and the factors leave a remainder.

    Args:
        kernel: The packed problem; its scratch part is overwritten and afterwards holds the counts.
        nest: The mapping; only its first `count` loops are read.
        count: Number of loops.

    Returns:
        (status, energy_pj, latency_cycles). Status is `VALID`, or `OVER_CAPACITY` or `OVER_MESH` plus
        4 times the level; energy and cycles are then infinite.
    """
    if kernel.imperfect == 1 and not is_perfect(kernel, nest, count):
        return score_imperfect(kernel, nest, count)
    status = scan_loops(kernel, nest, count)
    if status == VALID:
        status = fill_tiles(kernel, nest.position)
    if status != VALID:
        return status, np.inf, np.inf
    n_levels, n_tensors = nest.position.shape
    used = 1
    for v in range(n_levels):
        used *= kernel.use[v, CHILDREN]
        kernel.spent[v, NETWORK] = 0.0
    _fill_shares(kernel, nest.loops, n_tensors - 1)
    macs = mac_count(kernel)
    compute_cycles, energy = macs // used, macs * kernel.mac_energy
    for t in range(n_tensors):
        energy += _count_tensor(kernel, nest, t, compute_cycles)
    cycles = _throttled_cycles(kernel, nest.position, compute_cycles)
    if kernel.meshes == 1:
        for m in range(n_levels):
            kernel.spent[m, MESH] = 0.0
            if kernel.mesh.level[m, ON] == 1:
                network = mesh_traffic(kernel, nest, m, compute_cycles)
                energy += network
                kernel.spent[m, NETWORK] += network
                cycles = max(cycles, kernel.spent[m, MESH])
    return VALID, energy, cycles
