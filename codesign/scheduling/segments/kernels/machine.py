"""What the compiled search works on: the problem, its caches, and a tree as a row of tokens."""

from typing import NamedTuple

from codesign.core.kernel_library import FloatArray, IntArray
from codesign.scheduling.segments.kernels.core_mapper import Cores
from codesign.scheduling.segments.kernels.fabric import Fabric
from codesign.scheduling.segments.kernels.tree import Edges, Tree

RANKS = 16
"""Partitions kept for each layer, batch and number of cores."""

ORDERS = 24
"""Permutations of the four dimensions."""

LEVELS = 7
"""Ways to weigh a kind of cores against its pace for a layer (rule M123)."""

SUBSETS = 6
"""Ways to choose the kinds that do a layer: by their pace, all, or one of up to four by number (rule M123)."""

CHOICES = 2**20
"""More than there are choices of a leaf."""


class Problem(NamedTuple):
    """A network on a system, for the search.

    Attributes:
        fabric: The network between cores.
        cores: All kinds of cores.
        kind_start: Where the cores of each kind begin, and how many there are.
        site_kind: Kind of the core at each site.
        exact_keys: Keys of tiles whose figures the exact mapper has found, 0 for none (rule M125).
        exact_figures: Their figures.
        mapped: 1 for each kind that is mapped by the exact mapper.
        table: Rows of all layers.
        kin: First layer of equal shape, and first one whose producers have equal channels too, layers x 2.
        edges: Who reads whom.
        reader_start: Where the readers of each layer begin in `reader`.
        reader: Layers that read.
        unit_times: Of each layer on a core of each kind, layers x kinds.
        unit_pj: Energy of a sample of each on a core of each kind, for tiles that are not mapped yet (rule M125).
        part_start: Where the partitions into n parts begin, n from 0.
        parts: Partitions, m x 4.
        orders: Permutations of the dimensions, 24 x 4.
        batches: Divisors of the whole batch, rising.
        prices: pJ of a word-hop, of one between dies, of a DRAM word; pJ of all serial lanes in a unit of time; GHz;
            pitches of an average way.
        limits: Bytes of the buffer of a core of each kind, and those kept for outputs, kinds x 2.
        capacity: Bytes of the buffer at each site.
        reserve: Bytes kept for outputs at each site.
        leaf_links: 1 where links bound the time of every layer.
        least_use: Share of core time that a space cut must use.
    """

    fabric: Fabric
    cores: Cores
    kind_start: IntArray
    site_kind: IntArray
    exact_keys: IntArray
    exact_figures: FloatArray
    mapped: IntArray
    table: IntArray
    kin: IntArray
    edges: Edges
    reader_start: IntArray
    reader: IntArray
    unit_times: FloatArray
    unit_pj: FloatArray
    part_start: IntArray
    parts: IntArray
    orders: IntArray
    batches: IntArray
    prices: FloatArray
    limits: IntArray
    capacity: IntArray
    reserve: IntArray
    leaf_links: int
    least_use: float


HOP_PJ, DIE_HOP_PJ, DRAM_PJ, LANE_PJ, CLOCK, WAY = 0, 1, 2, 3, 4, 5
CAPACITY, RESERVE = 0, 1
SHAPED, FED = 0, 1
"""Columns of `Problem.kin`."""


class Caches(NamedTuple):
    """What has been computed once.

    Attributes:
        ranked: Best partitions of each shape, batch and number of cores, kinds x layers rows x batches x cores + 1 x `RANKS`; -1
            ends, -2 in the first place is not yet known.
        core_known: 1 where `core_figures` is, 2 where there is no mapping, kinds x layers rows x batches x partitions. Layers of
            equal shape share the rows of the first.
        core_figures: Of one core's tile.
        leaf_keys: Key of each slot of placed leaves; 0 is empty.
        leaf_stamps: Evaluation that used a slot last.
        leaf_counts: Numbers of tiles and groups, and a key of all that the layout depends on.
        leaf_boxes: Ranges of tiles, input groups, weight groups, slots x 3 x cores x 8.
        leaf_starts: Of the groups, slots x 3 x cores + 1.
        leaf_sites: slots x 3 x cores.
        leaf_counters: Words that do not come from other cores.
        leaf_figures: Energy without words, cycles, feasible.
        leaf_usage: Bytes on each site, slots x 3 x sites.
        segment_keys: Key of each segment seen.
        segment_costs: Its energy and time; the time is negative where it is no scheme.
        counts: Segments evaluated, segments asked for, leaves placed, evaluation stamp.
    """

    ranked: IntArray
    core_known: IntArray
    core_figures: FloatArray
    leaf_keys: IntArray
    leaf_stamps: IntArray
    leaf_counts: IntArray
    leaf_boxes: IntArray
    leaf_starts: IntArray
    leaf_sites: IntArray
    leaf_counters: IntArray
    leaf_figures: FloatArray
    leaf_usage: IntArray
    segment_keys: IntArray
    segment_costs: FloatArray
    counts: IntArray


EVALUATED, ASKED, PLACED, STAMP = 0, 1, 2, 3

TILES, INPUTS, WEIGHTS, PLACE = 0, 1, 2, 3
"""Parts of a layout in a slot; behind their numbers in `Caches.leaf_counts` stands the key."""


class Tokens(NamedTuple):
    """A tree in preorder, token by token.

    Attributes:
        kind: See `tree.Tree`.
        layer: Of a leaf.
        groups: Runs of the children in a run of a cut.
        choice: Weights of kinds, partition and order of a leaf: ((weights x 6 + kinds) x 16 + rank) x 24 +
            permutation.
        size: Tokens of the subtree, the node's own included.
        length: Number of tokens, one entry.
    """

    kind: IntArray
    layer: IntArray
    groups: IntArray
    choice: IntArray
    size: IntArray
    length: IntArray


class Scratch(NamedTuple):
    """Room for the evaluation of a segment.

    Attributes:
        tree: Its arrays.
        counters: Of each node.
        energies: Of each node, one column.
        times: Of each node.
        slowed: With all words taking twice as long (rule M33).
        usage: Of each node.
        slots: Slot of each leaf.
        chip: Edges of each leaf that stay on chip, as bits.
        stored: 1 for each leaf that writes back.
        leaf_batch: Samples of a run of each leaf.
        leaf_of: Leaf of each layer of the segment; -1 for layers outside.
        layer_of: Layer of each leaf.
        segment_of: First token of the segment of each layer.
        parent: Of each token.
        batch: Of each token.
        edge_keys: Key of two layouts and of an edge between their layers.
        edge_counters: Words of that edge.
    """

    tree: Tree
    counters: IntArray
    energies: FloatArray
    times: IntArray
    slowed: IntArray
    usage: IntArray
    slots: IntArray
    chip: IntArray
    stored: IntArray
    leaf_batch: IntArray
    leaf_of: IntArray
    layer_of: IntArray
    segment_of: IntArray
    parent: IntArray
    batch: IntArray
    edge_keys: IntArray
    edge_counters: IntArray


class Workspace(NamedTuple):
    """What every evaluation of a search works with.

    Calls take its parts as they stand (``f(work.problem)``): a kernel packs a variable anew for every call.

    Attributes:
        problem: Network and system.
        caches: What is known.
        scratch: Room.
        goal: Exponents of energy and time.
    """

    problem: Problem
    caches: Caches
    scratch: Scratch
    goal: FloatArray
