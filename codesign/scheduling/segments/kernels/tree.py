"""What follows from the shape of a tree: stages, links on chip, cores, and sums over nodes (rules M4, M5, M29 to M32).

Nodes stand in preorder, so that a parent comes before its children; leaves are numbered in the same order. Node 0 is the root.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.core.kernel_library import FloatArray, IntArray
from codesign.scheduling.segments.kernels.fabric import Fabric, crowding_cycles, dram_cycles, filled_cycles, link_cycles

LEAF, SPACE, TIME = 0, 1, 2

MOST_CROWDED = 0.75
"""Most by which words of one child of a space cut hold up those of another (rule M33)."""


class Tree(NamedTuple):
    """A tree as arrays of one entry for each node.

    Attributes:
        kind: `LEAF`, `SPACE` or `TIME`.
        parent: Node above; -1 for the root.
        first: First child; -1 for a leaf.
        next: Next child of the same parent; -1 for the last.
        batch: Samples of a run.
        groups: Runs of the children in a run of a cut; 1 for a leaf.
        leaf_first: First leaf below.
        leaf_past: One past the last.
        layer: Layer of a leaf; -1 for a cut.
        stage: Pipeline stage of a child of a space cut.
        stages: Largest stage of a space cut's children.
        unit_time: Cycles of a sample on one core of each kind, ideal, nodes x kinds.
        core_first: First core by number.
        core_past: One past the last.
    """

    kind: IntArray
    parent: IntArray
    first: IntArray
    next: IntArray
    batch: IntArray
    groups: IntArray
    leaf_first: IntArray
    leaf_past: IntArray
    layer: IntArray
    stage: IntArray
    stages: IntArray
    unit_time: FloatArray
    core_first: IntArray
    core_past: IntArray


class Edges(NamedTuple):
    """Who reads whom: the producers of each layer, those of its input first, then those of its batched weight.

    Attributes:
        start: Where the edges of a layer begin.
        weight_start: Where those of its weight begin.
        producer: Layer that each edge comes from.
    """

    start: IntArray
    weight_start: IntArray
    producer: IntArray


@njit
def _reads(tree: Tree, edges: Edges, leaf_of: IntArray, layer_of: IntArray, child: int, other: int) -> bool:
    """Whether any layer below `child` reads one below `other`."""
    for leaf in range(tree.leaf_first[child], tree.leaf_past[child]):
        layer = layer_of[leaf]
        for e in range(edges.start[layer], edges.start[layer + 1]):
            if tree.leaf_first[other] <= leaf_of[edges.producer[e]] < tree.leaf_past[other]:
                return True
    return False


@njit
def find_stages(tree: Tree, edges: Edges, leaf_of: IntArray, layer_of: IntArray) -> None:
    """Stages of all space cuts and unit times of all nodes (rules M4, M5)."""
    for node in range(tree.kind.shape[0] - 1, -1, -1):
        if tree.kind[node] == LEAF:
            continue
        stages = 0
        tree.unit_time[node] = 0.0
        child = tree.first[node]
        while child >= 0:
            for kind in range(tree.unit_time.shape[1]):
                tree.unit_time[node, kind] += tree.unit_time[child, kind]
            if tree.kind[node] == SPACE:
                stage = 0
                other = tree.first[node]
                while other != child:
                    if tree.stage[other] >= stage and _reads(tree, edges, leaf_of, layer_of, child, other):
                        stage = tree.stage[other] + 1
                    other = tree.next[other]
                tree.stage[child] = stage
                stages = max(stages, stage)
            child = tree.next[child]
        tree.stages[node] = stages
        if tree.kind[node] == SPACE:
            groups = tree.groups[node]
            for kind in range(tree.unit_time.shape[1]):
                tree.unit_time[node, kind] = tree.unit_time[node, kind] * (groups + stages) / groups


@njit
def through_dram(tree: Tree, child: int, producer_leaf: int) -> bool:
    """Whether what a leaf's branch reads from a leaf outside it goes through DRAM (rule M5).

    Args:
        tree: The tree.
        child: The consumer's leaf.
        producer_leaf: Number of the producer's leaf.
    """
    above = tree.parent[child]
    while not tree.leaf_first[above] <= producer_leaf < tree.leaf_past[above]:
        child = above
        above = tree.parent[above]
    source, distance = -1, 0
    other = tree.first[above]
    while other != child:
        if tree.leaf_first[other] <= producer_leaf < tree.leaf_past[other]:
            source = other
        if source >= 0:
            distance += 1
        other = tree.next[other]
    if source < 0:
        return True
    if tree.kind[above] == SPACE:
        return tree.stage[child] > tree.stage[source] + 1  # type: ignore[no-any-return]
    return above == 0 or distance > 1


@njit
def link_layers(
    tree: Tree, edges: Edges, leaf_of: IntArray, node_of: IntArray, on_chip: IntArray, stored: IntArray
) -> bool:
    """Which edges stay on chip and which outputs are written to DRAM (rule M5).

    Args:
        tree: The tree, with stages.
        edges: Who reads whom.
        leaf_of: Leaf number of each layer.
        node_of: Node of each layer's leaf.
        on_chip: Receives 1 for an edge between cores.
        stored: Receives 1 for a layer that writes back.

    Returns:
        Whether every producer comes before its consumers.
    """
    good = True
    read = np.zeros(stored.shape[0], np.int64)
    stored[:] = 0
    for layer in range(stored.shape[0]):
        for e in range(edges.start[layer], edges.start[layer + 1]):
            producer = edges.producer[e]
            read[producer] = 1
            if leaf_of[producer] >= leaf_of[layer]:
                good = False
                continue
            far = through_dram(tree, node_of[layer], leaf_of[producer])
            on_chip[e] = 0 if far else 1
            if far:
                stored[producer] = 1
    for layer in range(stored.shape[0]):
        if read[layer] == 0:
            stored[layer] = 1
    return good


@njit
def share_cores(work: FloatArray, cores: int, given: IntArray) -> float:
    """Give the children of a space cut their cores (rule M5a).

    Args:
        work: Unit time of each child.
        cores: To give.
        given: Receives how many each gets.

    Returns:
        Share of core time that is used when all children run; 0 where a child gets no core.
    """
    n = work.shape[0]
    if n > cores:
        return 0.0
    fixed, taken = np.zeros(n, np.int64), np.zeros(n, np.int64)
    left_work = 0.0
    for i in range(n):
        left_work += work[i]
    total, left = left_work, cores
    while left_work > 0.0:
        spare = left
        for i in range(n):
            if fixed[i] == 0:
                given[i] = int(work[i] / left_work * left)
                spare -= given[i]
        if spare == 0:
            break
        left_before, work_before = left, left_work
        taken[:] = fixed
        for _ in range(spare):
            chosen, least = -1, 2.0
            for i in range(n):
                if taken[i] == 0:
                    share = given[i] / (work[i] / work_before * left_before)
                    if share < least:
                        chosen, least = i, share
            if chosen < 0:
                break
            taken[chosen] = 1
            given[chosen] += 1
            left -= given[chosen]
            left_work -= work[chosen]
        fixed[:] = taken
    slowest = 0.0
    for i in range(n):
        if given[i] == 0:
            return 0.0
        slowest = max(slowest, work[i] / given[i])
    return total / (cores * slowest) if slowest > 0.0 else 1.0


@njit
def _needed(unit_time: FloatArray, kind_start: IntArray, first: int, past: int, time: float) -> int:
    """Cores from `first` on that do a sample within a time, each at the pace of its kind; more than there are where none suffice."""
    pace, core = 0.0, first
    for kind in range(unit_time.shape[0]):
        end = min(past, kind_start[kind + 1])
        if core >= end:
            continue
        each = 1.0 / max(unit_time[kind], 1e-12)
        missing = int(np.ceil(max(0.0, 1.0 / time - pace) / each - 1e-9))
        if core == first:
            missing = max(missing, 1)
        if core + missing <= end:
            return core + missing - first
        pace += (end - core) * each
        core = end
    return past - first + 1


@njit
def _handed_out(
    unit_times: FloatArray,
    sequence: IntArray,
    kind_start: IntArray,
    first: int,
    past: int,
    time: float,
    given: IntArray,
) -> bool:
    """Whether cores handed out in a sequence, as few as each child needs to end within a time, suffice."""
    at = first
    for i in sequence:
        given[i] = _needed(unit_times[i], kind_start, at, past, time)
        at += given[i]
        if at > past:
            return False
    given[sequence[sequence.shape[0] - 1]] += past - at
    return True


@njit
def share_kinds(
    unit_times: FloatArray, kind_start: IntArray, first: int, past: int, sequence: IntArray, given: IntArray
) -> bool:
    """Give the children of a space cut cores of several kinds (rule M122).

    Children whose work the first of the kinds does best, as against the last, come first. In this sequence each receives as few
    cores as it needs to end within the least time in which all can; what is left over is the last child's.

    Args:
        unit_times: Unit time of each child on a core of each kind, n x kinds.
        kind_start: Where the cores of each kind begin.
        first: First core to give.
        past: One past the last.
        sequence: Receives the children in the order in which they receive cores.
        given: Receives how many each gets.

    Returns:
        Whether every child has a core.
    """
    n, kinds = unit_times.shape
    if n > past - first:
        return False
    low, high = 0, kinds - 1
    while kind_start[low + 1] <= first:
        low += 1
    while kind_start[high] >= past:
        high -= 1
    for i in range(n):
        mine = unit_times[i, low] / max(unit_times[i, high], 1e-12)
        at = i
        while at > 0:
            other = sequence[at - 1]
            if unit_times[other, low] / max(unit_times[other, high], 1e-12) <= mine:
                break
            sequence[at] = other
            at -= 1
        sequence[at] = i
    longest = unit_times.max() * n
    least = 0.0
    if longest <= 0.0:
        longest = 1.0
    while not _handed_out(unit_times, sequence[:n], kind_start, first, past, longest, given):
        longest *= 2.0
        if longest > 1e30:
            return False
    for _ in range(40):
        middle = 0.5 * (least + longest)
        if _handed_out(unit_times, sequence[:n], kind_start, first, past, middle, given):
            longest = middle
        else:
            least = middle
    return _handed_out(unit_times, sequence[:n], kind_start, first, past, longest, given)


@njit
def assign_cores(tree: Tree, kind_start: IntArray, least_use: float) -> int:
    """Core ranges of all nodes (rules M3, M5a, M122).

    Args:
        tree: With unit times.
        kind_start: Where the cores of each kind begin, and how many there are.
        least_use: Share of core time that a space cut of equal cores must use.

    Returns:
        -1, or the first cut that cannot be given cores.
    """
    kinds = tree.unit_time.shape[1]
    cores = int(kind_start[kinds])
    tree.core_first[0], tree.core_past[0] = 0, cores
    work, given = np.empty((cores + 1, kinds)), np.zeros(cores + 1, np.int64)
    sequence = np.arange(cores + 1)
    children = np.zeros(cores + 1, np.int64)
    for node in range(tree.kind.shape[0]):
        if tree.kind[node] == LEAF:
            continue
        first, past, n = tree.core_first[node], tree.core_past[node], 0
        child = tree.first[node]
        while child >= 0:
            tree.core_first[child], tree.core_past[child] = first, past
            if tree.kind[node] == SPACE:
                if n >= past - first:
                    return node
                work[n] = tree.unit_time[child]
                children[n] = child
            n += 1
            child = tree.next[child]
        if tree.kind[node] == TIME:
            continue
        given[:n] = 0
        mixed = False
        for kind in range(1, kinds):
            mixed = mixed or first < kind_start[kind] < past
        if mixed:
            if not share_kinds(work[:n], kind_start, first, past, sequence, given):
                return node
        else:
            kind = 0
            while kind_start[kind + 1] <= first:
                kind += 1
            for i in range(n):
                sequence[i] = i
            if share_cores(work[:n, kind], past - first, given) < max(least_use, 1e-12):
                return node
        for i in range(n):
            child = children[sequence[i]]
            tree.core_first[child] = first
            first += given[sequence[i]]
            tree.core_past[child] = first
    return -1


@njit
def _buffers_in_time(tree: Tree, node: int, segment: bool, usage: IntArray) -> None:
    """Needs of a time cut: the next child's inputs arrive while one runs (rule M32)."""
    mine = usage[node]
    once = tree.groups[node] == 1
    shift = segment and once
    child = tree.first[node]
    start = child
    while child >= 0:
        use, after = usage[child], tree.next[child]
        for s in range(mine.shape[1]):
            need = use[0, s] + (use[2, s] if shift else 0)
            if after >= 0:
                need += usage[after, 1, s] + (usage[after, 2, s] if shift else 0)
            elif not once:
                need += usage[start, 1, s]
            mine[0, s] = max(mine[0, s], need)
            if not segment:
                mine[1, s] += use[1, s]
            if not shift:
                mine[2, s] += use[2, s]
        child = after
    if not segment:
        mine[1] *= tree.groups[node]


@njit
def _buffers_in_space(tree: Tree, node: int, segment: bool, usage: IntArray) -> None:
    """Needs of a space cut: inputs of the next group arrive while one runs (rule M32)."""
    mine = usage[node]
    child = tree.first[node]
    while child >= 0:
        use = usage[child]
        for s in range(mine.shape[1]):
            mine[0, s] += use[0, s] + (use[1, s] if tree.groups[node] > 1 else 0)
            mine[2, s] += use[2, s]
            if not segment:
                mine[1, s] += use[1, s]
        child = tree.next[child]
    mine[1] *= tree.groups[node]


@njit
def _crowded(alone: int, slowed: int, slowdown: float) -> int:
    """Time of a node whose words take so many times as long, between its time and that with a slowdown of two."""
    return alone + int((slowed - alone) * (slowdown - 1.0))


@njit
def _time_in_steps(
    fabric: Fabric, tree: Tree, node: int, counters: IntArray, times: IntArray, slowed: IntArray, clock_ghz: float
) -> None:
    """Time of a space cut step by step, as it is and with all words taking twice as long (rule M33).

    A step lasts as long as its longest child or all its words together. A child's words take longer by the share of the step
    in which others' words pass where its own do. The row of the cut's own counter is overwritten.
    """
    groups, stages, together = tree.groups[node], tree.stages[node], counters[node]
    times[node], slowed[node], step = 0, 0, 0
    while step < groups + stages:
        count = groups - step if stages <= step < groups else 1
        together[:] = 0
        running, child = 0, tree.first[node]
        while child >= 0:
            if tree.stage[child] <= step < tree.stage[child] + groups:
                together[:] += counters[child]
                running += 1
            child = tree.next[child]
        for slowdown in range(1, 3):
            kept = times if slowdown == 1 else slowed
            least = int(filled_cycles(fabric, together, slowdown) / clock_ghz)
            longest, child = least, tree.first[node]
            while child >= 0:
                if tree.stage[child] <= step < tree.stage[child] + groups:
                    longest = max(longest, kept[child])
                child = tree.next[child]
            time, child = longest, tree.first[node]
            while child >= 0 and running > 1:
                if tree.stage[child] <= step < tree.stage[child] + groups:
                    others = crowding_cycles(fabric, counters[child], together) / clock_ghz * slowdown
                    share = min(MOST_CROWDED, others / max(longest, 1))
                    time = max(time, _crowded(times[child], slowed[child], slowdown * (1.0 + share)))
                child = tree.next[child]
            kept[node] += count * time
        step += count


@njit
def add_up(
    fabric: Fabric,
    tree: Tree,
    counters: IntArray,
    energies: FloatArray,
    times: IntArray,
    slowed: IntArray,
    usage: IntArray,
    clock_ghz: float,
    links_count: bool,
    lane_pj: float,
) -> None:
    """Sum all cuts from the leaves upwards (rules M29 to M32).

    Args:
        fabric: The network.
        tree: With stages.
        counters: Counter of each node; leaves are filled.
        energies: Total and parts of each node, pJ; leaves are filled.
        times: Time of each node; leaves are filled.
        slowed: The same with all words taking twice as long; it counts where words bound every step (rule M33).
        usage: Bytes of each node and site; leaves are filled.
        clock_ghz: Cycles of a nanosecond; times are truncated.
        links_count: Whether links bound the time of a segment.
        lane_pj: Energy of all serial lanes in a unit of time, paid by segments that are cuts.
    """
    for node in range(tree.kind.shape[0] - 1, -1, -1):
        if tree.kind[node] == LEAF:
            continue
        segment = tree.parent[node] == 0
        groups, time, crowded = tree.groups[node], 0, 0
        stepped = fabric.fill > 0 and tree.kind[node] == SPACE
        if stepped:
            _time_in_steps(fabric, tree, node, counters, times, slowed, clock_ghz)
        counters[node] = 0
        energies[node] = 0.0
        usage[node] = 0
        child = tree.first[node]
        while child >= 0:
            counters[node] += counters[child]
            energies[node] += energies[child]
            time = max(time, times[child]) if tree.kind[node] == SPACE else time + times[child]
            crowded += slowed[child]
            child = tree.next[child]
        counters[node] *= groups
        energies[node] *= float(groups)
        if not stepped:
            times[node] = time * (groups + tree.stages[node] if tree.kind[node] == SPACE else groups)
            slowed[node] = crowded * groups
        if node > 0:
            if tree.kind[node] == SPACE:
                _buffers_in_space(tree, node, segment, usage)
            else:
                _buffers_in_time(tree, node, segment, usage)
        if segment:
            moved = dram_cycles(fabric, counters[node])
            if links_count:
                moved = max(moved, link_cycles(fabric, counters[node]))
            times[node] = max(times[node], int(moved / clock_ghz))
            energies[node, 0] += times[node] * lane_pj
