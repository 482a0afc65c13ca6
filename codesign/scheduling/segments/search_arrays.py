"""A network on a system in the form of the search's kernels, and the memory that they work in."""

from itertools import permutations

import numpy as np

from codesign.core.errors import UserError
from codesign.core.factors import divisors
from codesign.core.kernel_library import IntArray
from codesign.scheduling.segments.evaluate import Evaluator
from codesign.scheduling.segments.exact_tiles import EXACT_ENTRIES
from codesign.scheduling.segments.kernels import core_mapper, fabric
from codesign.scheduling.segments.kernels import tree as tree_kernels
from codesign.scheduling.segments.kernels.machine import PLACE, RANKS, Caches, Problem, Scratch, Tokens

MOST_EDGES = 60
"""Producers of one layer that the search can tell apart."""

SLOT_BYTES = 96 * 2**20
"""Memory for placed leaves."""

EDGE_BYTES = 16 * 2**20
"""Memory for words between placed leaves."""

SEGMENT_ENTRIES = 2**17
"""Segments whose costs are kept."""


def partitions(cores: int) -> tuple[IntArray, IntArray]:
    """All ways to write 1 to `cores` as products of four numbers: where each number's begin, and the rows."""
    start: list[int] = [0, 0]
    rows: list[tuple[int, int, int, int]] = []
    for n in range(1, cores + 1):
        for a in divisors(n):
            for b in divisors(n // a):
                rows.extend((a, b, c, n // a // b // c) for c in divisors(n // a // b))
        start.append(len(rows))
    return np.array(start, np.int64), np.array(rows, np.int64)


def layer_kin(evaluator: Evaluator) -> IntArray:
    """First layer of equal shape, and first one whose producers have equal channels too, layers x 2."""
    table, layers = evaluator.table, evaluator.network.layers
    shaped: dict[bytes, int] = {}
    fed: dict[tuple[object, ...], int] = {}
    kin = np.empty((len(layers), 2), np.int64)
    for i, layer in enumerate(layers):
        row = table[i].tobytes()
        widths = (tuple(layers[p].K for p in read) for read in (layer.inputs, layer.weight_inputs))
        kin[i] = shaped.setdefault(row, i), fed.setdefault((row, *widths), i)
    return kin


def problem_arrays(evaluator: Evaluator, batch: int, least_use: float) -> Problem:
    """A network on a system in the kernels' form.

    Raises:
        UserError: A layer reads too many others.
    """
    system, network, table = evaluator.system, evaluator.network, evaluator.table
    for layer in network.layers:
        if len(layer.inputs) + len(layer.weight_inputs) > MOST_EDGES:
            raise UserError(
                f"layer {layer.name!r} reads {len(layer.producers)} layers, at most {MOST_EDGES} are searched"
            )
    readers = network.readers()
    reader_start = np.cumsum([0, *map(len, readers)]).astype(np.int64)
    reader = np.array([*(i for found in readers for i in found), 0], np.int64)
    start, rows = partitions(system.cores)
    big = [[core.big.bytes, core.output_reserve_bytes] for core in evaluator.records]
    mapped = [int(kind.architecture is not None) for kind in evaluator.core_kinds]
    exact = EXACT_ENTRIES if any(mapped) else 1
    return Problem(
        evaluator.fabric,
        evaluator.cores,
        evaluator.kind_start,
        evaluator.site_kind,
        np.zeros(exact, np.int64),
        np.zeros((exact, core_mapper.FIGURES + 1)),
        np.array(mapped, np.int64),
        table,
        layer_kin(evaluator),
        evaluator.edges,
        reader_start,
        reader,
        evaluator.unit_times,
        evaluator.unit_pj,
        start,
        rows,
        np.array(list(permutations(range(4))), np.int64),
        np.array(divisors(batch), np.int64),
        evaluator.prices,
        np.array(big, np.int64),
        evaluator.capacity,
        evaluator.reserve,
        int(evaluator.semantics.leaf_links),
        least_use,
    )


def make_caches(problem: Problem) -> Caches:
    """Empty caches; what is not used takes no memory."""
    layers, batches = len(problem.table), len(problem.batches)
    rows = layers * len(problem.limits)
    cores = problem.fabric.width * problem.fabric.height
    sites = (problem.fabric.width + 2) * problem.fabric.height
    counter = fabric.counter_size(problem.fabric)
    slot = 8 * (3 * cores * 8 + 3 * (cores + 1) + 3 * cores + counter + 3 * sites + 8)
    slots = min(max(2 * layers, SLOT_BYTES // slot), 2**14)
    return Caches(
        np.full((rows, batches, cores + 1, RANKS), -2, np.int64),
        np.zeros((rows, batches, len(problem.parts)), np.int64),
        np.zeros((rows, batches, len(problem.parts), core_mapper.FIGURES + 1)),
        np.zeros(slots, np.int64),
        np.zeros(slots, np.int64),
        np.zeros((slots, PLACE + 1), np.int64),
        np.zeros((slots, 3, cores, 8), np.int64),
        np.zeros((slots, 3, cores + 1), np.int64),
        np.zeros((slots, 3, cores), np.int64),
        np.zeros((slots, counter), np.int64),
        np.zeros((slots, 3)),
        np.zeros((slots, 3, sites), np.int64),
        np.zeros(SEGMENT_ENTRIES, np.int64),
        np.zeros((SEGMENT_ENTRIES, 2)),
        np.zeros(4, np.int64),
    )


def make_tokens(layers: int) -> Tokens:
    """Room for a tree as tokens."""
    room = 3 * layers + 8
    columns = [np.zeros(room, np.int64) for _ in range(5)]
    return Tokens._make([*columns, np.zeros(1, np.int64)])


def make_scratch(problem: Problem) -> Scratch:
    """Room for what an evaluation computes."""
    layers = len(problem.table)
    nodes = 3 * layers + 10
    sites = (problem.fabric.width + 2) * problem.fabric.height
    names = [name for name in tree_kernels.Tree._fields if name != "unit_time"]
    tree = tree_kernels.Tree(
        unit_time=np.zeros((nodes, len(problem.limits))), **{name: np.zeros(nodes, np.int64) for name in names}
    )
    counter = fabric.counter_size(problem.fabric)
    edges = EDGE_BYTES // (8 * counter)
    row = [np.zeros(layers + 1, np.int64) for _ in range(7)]
    row[4][:] = -1
    return Scratch._make(
        [
            tree,
            np.zeros((nodes, counter), np.int64),
            np.zeros((nodes, 1)),
            np.zeros(nodes, np.int64),
            np.zeros(nodes, np.int64),
            np.zeros((nodes, 3, sites), np.int64),
            *row,
            np.zeros(nodes, np.int64),
            np.zeros(nodes, np.int64),
            np.zeros(edges, np.int64),
            np.zeros((edges, counter), np.int64),
        ]
    )
