"""The cost of a tree for the search: segments one by one, each looked up where it was seen before (rules M29 to M32)."""

import math

import numpy as np

from codesign.core.jit import njit, njit_apart
from codesign.core.kernel_library import FloatArray, IntArray
from codesign.scheduling.segments.kernels import layout
from codesign.scheduling.segments.kernels.fabric import (
    DIE_HOPS,
    DRAM,
    HOPS,
    OWN,
    SET,
    Fabric,
    dram_cycles,
    filled_cycles,
    link_cycles,
    recount_hops,
)
from codesign.scheduling.segments.kernels.machine import (
    ASKED,
    CHOICES,
    CLOCK,
    DIE_HOP_PJ,
    DRAM_PJ,
    EVALUATED,
    HOP_PJ,
    INPUTS,
    LANE_PJ,
    PLACE,
    STAMP,
    TILES,
    WEIGHTS,
    Caches,
    Problem,
    Tokens,
    Workspace,
)
from codesign.scheduling.segments.kernels.placed_leaf import place_leaf, slot_groups
from codesign.scheduling.segments.kernels.tile_figures import mix, whole_batch
from codesign.scheduling.segments.kernels.traffic import between_layers
from codesign.scheduling.segments.kernels.tree import (
    LEAF,
    SPACE,
    TIME,
    Tree,
    add_up,
    assign_cores,
    find_stages,
    through_dram,
)


@njit
def first_nodes(tree: Tree, n: int) -> Tree:
    """The first n nodes of a tree's arrays."""
    return Tree(
        tree.kind[:n],
        tree.parent[:n],
        tree.first[:n],
        tree.next[:n],
        tree.batch[:n],
        tree.groups[:n],
        tree.leaf_first[:n],
        tree.leaf_past[:n],
        tree.layer[:n],
        tree.stage[:n],
        tree.stages[:n],
        tree.unit_time[:n],
        tree.core_first[:n],
        tree.core_past[:n],
    )


@njit
def build_segment(work: Workspace, tokens: Tokens, start: int) -> Tree:
    """Arrays of a segment below a root of its own; sets leaf numbers too."""
    scratch, size = work.scratch, tokens.size[start]
    tree = scratch.tree
    tree.kind[0], tree.parent[0], tree.first[0], tree.next[0] = TIME, -1, 1, -1
    tree.batch[0], tree.groups[0], tree.stage[0] = scratch.batch[start], 1, 0
    tree.leaf_first[0] = 0
    leaf = 0
    for i in range(size):
        node, at = i + 1, start + i
        tree.kind[node], tree.layer[node] = tokens.kind[at], tokens.layer[at]
        tree.groups[node], tree.batch[node] = tokens.groups[at], scratch.batch[at]
        tree.parent[node] = 0 if i == 0 else scratch.parent[at] - start + 1
        tree.leaf_first[node], tree.stage[node], tree.stages[node] = leaf, 0, 0
        tree.first[node] = -1
        if tokens.kind[at] == LEAF:
            layer = tokens.layer[at]
            tree.unit_time[node] = work.problem.unit_times[layer]
            scratch.leaf_of[layer], scratch.layer_of[leaf] = leaf, layer
            leaf += 1
        else:
            tree.first[node] = node + 1
        after = at + tokens.size[at]
        last = i == 0 or after >= scratch.parent[at] + tokens.size[scratch.parent[at]]
        tree.next[node] = -1 if last else after - start + 1
    tree.leaf_past[0] = leaf
    for i in range(size, 0, -1):
        tree.leaf_past[i] = tree.leaf_first[i] + 1
        child = tree.first[i]
        while child >= 0:
            tree.leaf_past[i] = tree.leaf_past[child]
            child = tree.next[child]
    return first_nodes(tree, size + 1)


@njit
def needed_later(work: Workspace, layer: int, segment: int) -> int:
    """1 if a layer of a segment is read elsewhere, or by nobody."""
    problem = work.problem
    first, past = problem.reader_start[layer], problem.reader_start[layer + 1]
    if first == past:
        return 1
    for r in range(first, past):
        if work.scratch.segment_of[problem.reader[r]] != segment:
            return 1
    return 0


@njit
def segment_key(work: Workspace, tokens: Tokens, start: int) -> int:
    """A key of all that the cost of a segment depends on."""
    key = mix(tokens.size[start], work.scratch.batch[start])
    for at in range(start, start + tokens.size[start]):
        if tokens.kind[at] == LEAF:
            layer = tokens.layer[at]
            later = needed_later(work, layer, start)
            key = mix(key, (layer * CHOICES + tokens.choice[at]) * 4 + later)
        else:
            key = mix(key, ((tokens.groups[at] * 4096 + tokens.size[at]) * 2 + tokens.kind[at] - SPACE) * 4 + 2)
    return key


@njit
def _link(work: Workspace, tree: Tree, segment: int) -> bool:
    """Edges of the segment's leaves that stay on chip, as bits; and who writes back. False where an order is wrong."""
    problem, scratch = work.problem, work.scratch
    chip, stored = scratch.chip, scratch.stored
    for leaf in range(tree.leaf_past[0]):
        stored[leaf] = needed_later(work, scratch.layer_of[leaf], segment)
    for node in range(tree.kind.shape[0]):
        if tree.kind[node] != LEAF:
            continue
        leaf, layer = tree.leaf_first[node], tree.layer[node]
        chip[leaf] = 0
        start = problem.edges.start[layer]
        for e in range(start, problem.edges.start[layer + 1]):
            producer = problem.edges.producer[e]
            if scratch.segment_of[producer] != segment:
                continue
            if scratch.leaf_of[producer] >= leaf:
                return False
            if through_dram(tree, node, scratch.leaf_of[producer]):
                stored[scratch.leaf_of[producer]] = 1
            else:
                chip[leaf] |= 1 << (e - start)
    return True


@njit
def add_on_chip(work: Workspace, layer: int, mine: int, batch: int, bits: int, counter: IntArray) -> None:
    """Add the words that a layer in a slot receives from other cores; those of an edge are found once for two layouts."""
    problem, caches, scratch = work.problem, work.caches, work.scratch
    shape = problem.table[layer]
    start, middle, past = problem.edges.start[layer], problem.edges.weight_start[layer], problem.edges.start[layer + 1]
    wraps = shape[layout.OUT_K] if shape[layout.TYPE] == layout.ELTWISE else 0
    shift = shape[layout.EXTERNAL_C]
    for e in range(start, past):
        if e == middle:
            shift = 0
        if e < middle and wraps > 0 and shift == wraps:
            shift = 0
        producer = problem.edges.producer[e]
        if (bits >> (e - start)) & 1 == 1:
            leaf = scratch.leaf_of[producer]
            made = scratch.slots[leaf]
            key = mix(mix(caches.leaf_counts[made, PLACE], caches.leaf_counts[mine, PLACE]), e - start)
            at = (key & 0x7FFFFFFFFFFF) % scratch.edge_keys.shape[0]
            words = scratch.edge_counters[at]
            if scratch.edge_keys[at] != key:
                scratch.edge_keys[at] = key
                words[:] = 0
                tiles = slot_groups(work.caches, made, TILES)
                groups = slot_groups(work.caches, mine, INPUTS if e < middle else WEIGHTS)
                between_layers(work.problem.fabric, words, tiles, groups, shift, scratch.leaf_batch[leaf], batch)
            counter[:] += words
        shift += problem.table[producer, layout.OUT_K]


@njit
def _fits(problem: Problem, tree: Tree, usage: IntArray) -> bool:
    """Whether all cuts of a segment fit the cores' buffers (rule M32)."""
    capacity = problem.capacity
    for node in range(1, tree.kind.shape[0]):
        if tree.kind[node] == LEAF:
            continue
        for s in range(usage.shape[2]):
            if usage[node, 0, s] + usage[node, 2, s] > capacity[s]:
                return False
            if tree.kind[node] == SPACE and usage[node, 1, s] > capacity[s]:
                return False
    return True


@njit
def words_pj(counter: IntArray, prices: FloatArray) -> float:
    """Energy of words on links and of DRAM words."""
    return counter[HOPS] * prices[HOP_PJ] + counter[DIE_HOPS] * prices[DIE_HOP_PJ] + counter[DRAM] * prices[DRAM_PJ]  # type: ignore[no-any-return]


@njit
def leaf_times(fabric: Fabric, counter: IntArray, cycles: int, links: bool, clock_ghz: float) -> tuple[int, int]:
    """Time of a run of a layer, and that with all its words taking twice as long (rule M33).

    Args:
        fabric: The network.
        counter: Words of the run.
        cycles: Of the slowest core.
        links: Whether links bound the time.
        clock_ghz: Cycles of a nanosecond; times are truncated.
    """
    time = max(cycles, dram_cycles(fabric, counter))
    if links:
        time = max(time, link_cycles(fabric, counter))
    slowed = time
    if fabric.fill > 0:
        time = max(time, filled_cycles(fabric, counter, 1))
        slowed = max(slowed, filled_cycles(fabric, counter, 2))
    return int(time / clock_ghz), int(slowed / clock_ghz)


@njit
def leaf_cost(problem: Problem, caches: Caches, slot: int, counter: IntArray, alone: bool) -> tuple[float, int, int]:
    """Energy of a leaf whose counter is complete, its time, and that with all words taking twice as long."""
    if problem.fabric.counting == OWN:
        recount_hops(problem.fabric, counter)
    links = problem.leaf_links == 1 or (problem.fabric.counting == SET and alone)
    cycles = int(caches.leaf_figures[slot, 1])
    time, slowed = leaf_times(problem.fabric, counter, cycles, links, problem.prices[CLOCK])
    return caches.leaf_figures[slot, 0] + words_pj(counter, problem.prices), time, slowed


@njit_apart
def evaluate_segment(work: Workspace, tokens: Tokens, start: int) -> tuple[bool, float, float]:
    """Whether a segment is a scheme, its energy and its time."""
    problem, caches, scratch = work.problem, work.caches, work.scratch
    caches.counts[EVALUATED] += 1
    caches.counts[STAMP] += 1
    tree = build_segment(work, tokens, start)
    find_stages(tree, problem.edges, scratch.leaf_of, scratch.layer_of)
    if assign_cores(tree, problem.kind_start, problem.least_use) >= 0:
        return False, 0.0, 0.0
    if not _link(work, tree, start):
        return False, 0.0, 0.0
    chip, stored, n = scratch.chip, scratch.stored, tree.kind.shape[0]
    for node in range(1, n):
        if tree.kind[node] != LEAF:
            continue
        leaf, layer, batch = tree.leaf_first[node], tree.layer[node], tree.batch[node]
        first, choice = tree.core_first[node], tokens.choice[start + node - 1]
        cores = tree.core_past[node] - first
        slot = place_leaf(work.problem, work.caches, layer, batch, first, cores, choice, chip[leaf], stored[leaf])
        if slot < 0 or caches.leaf_figures[slot, 2] == 0.0:
            return False, 0.0, 0.0
        scratch.slots[leaf] = slot
        scratch.leaf_batch[leaf] = batch
        scratch.usage[node] = caches.leaf_usage[slot]
        scratch.counters[node] = caches.leaf_counters[slot]
        if chip[leaf] != 0:
            add_on_chip(work, layer, slot, batch, chip[leaf], scratch.counters[node])
        found = leaf_cost(work.problem, work.caches, slot, scratch.counters[node], tree.parent[node] == 0)
        scratch.energies[node, 0], scratch.times[node], scratch.slowed[node] = found
    add_up(
        work.problem.fabric,
        tree,
        scratch.counters[:n],
        scratch.energies[:n],
        scratch.times[:n],
        scratch.slowed[:n],
        scratch.usage[:n],
        problem.prices[CLOCK],
        True,
        problem.prices[LANE_PJ],
    )
    if not _fits(work.problem, tree, scratch.usage[:n]):
        return False, 0.0, 0.0
    return True, scratch.energies[1, 0], float(scratch.times[1])


@njit
def number_nodes(work: Workspace, tokens: Tokens) -> bool:
    """Parents and batches of all tokens, segments of all layers; False where a batch does not divide."""
    scratch = work.scratch
    scratch.parent[0], scratch.batch[0] = -1, whole_batch(work.problem)
    segment = 0
    for at in range(1, tokens.length[0]):
        above = at - 1
        while above + tokens.size[above] <= at:
            above = scratch.parent[above]
        scratch.parent[at] = above
        whole, groups = scratch.batch[above], tokens.groups[above]
        if whole % groups != 0:
            return False
        scratch.batch[at] = whole // groups
        if above == 0:
            segment = at
        if tokens.kind[at] == LEAF:
            scratch.segment_of[tokens.layer[at]] = segment
            scratch.leaf_of[tokens.layer[at]] = -1
    return True


@njit
def _in_order(work: Workspace) -> bool:
    """Whether no layer reads one of a later segment."""
    problem, scratch = work.problem, work.scratch
    for layer in range(problem.table.shape[0]):
        mine = scratch.segment_of[layer]
        for e in range(problem.edges.start[layer], problem.edges.start[layer + 1]):
            if scratch.segment_of[problem.edges.producer[e]] > mine:
                return False
    return True


@njit
def segment_cost(work: Workspace, tokens: Tokens, start: int) -> tuple[bool, float, float]:
    """Cost of a segment, looked up or found; its time is that of one run."""
    caches = work.caches
    caches.counts[ASKED] += 1
    key = segment_key(work, tokens, start)
    at = (key & 0x7FFFFFFFFFFF) % caches.segment_keys.shape[0]
    if caches.segment_keys[at] != key:
        good, energy, time = evaluate_segment(work, tokens, start)
        for token in range(start, start + tokens.size[start]):
            if tokens.kind[token] == LEAF:
                work.scratch.leaf_of[tokens.layer[token]] = -1
        caches.segment_keys[at] = key
        caches.segment_costs[at, 0] = energy
        caches.segment_costs[at, 1] = time if good else -1.0
    return caches.segment_costs[at, 1] >= 0.0, caches.segment_costs[at, 0], caches.segment_costs[at, 1]


@njit
def tree_cost(work: Workspace, tokens: Tokens) -> tuple[bool, float, float]:
    """Whether a tree is a scheme, its energy (pJ) and its time, of the whole batch."""
    if not number_nodes(work, tokens) or not _in_order(work):
        return False, 0.0, 0.0
    energy, time = 0.0, 0.0
    at = 1
    while at < tokens.length[0]:
        good, e, t = segment_cost(work, tokens, at)
        if not good:
            return False, 0.0, 0.0
        energy += e
        time += t
        at += tokens.size[at]
    return True, energy * tokens.groups[0], time * tokens.groups[0]


@njit
def tree_value(work: Workspace, tokens: Tokens) -> float:
    """Logarithm of the goal of a tree, energy^a x time^b; infinite where it is no scheme."""
    good, energy, time = tree_cost(work, tokens)
    if not good:
        return np.inf
    return work.goal[0] * math.log(energy) + work.goal[1] * math.log(max(time, 1.0))  # type: ignore[no-any-return]
