"""A loop unit: tiles of a convolution or matrix product run one after another from main memory through caches.

The unit loads the inputs and the weights of every tile again, executes it on a weight-stationary array, and stores its
results after the last reduction tile. Requests go through two caches with random replacement. The physics is in
`experiments.models.pieces` and `experiments.models.cache`; what waits for what is a plan of the event engine; the constants
are those of a timing table.

* L1: Loops over tiles are those outside the first buffer. Two contexts hold a tile from its load to its store.
* L2: A tile of a convolution reads ``(columns stride + R - 1)(rows stride + S - 1)`` pixels, clipped to the image;
  what is clipped is written as zeros.
* L3: A block of weights meets each output row in pieces of at most 16 pixels: 16 cycles after a change of weights,
  else the piece, at least 4. At most 5 pieces are in flight, 33 cycles to retirement.
* L4: Inputs and weights of every tile are loaded again. A request brings 64 bytes of a row.
* L5: A request takes its hit cycles; a line that misses takes those of the last-level cache or of DRAM.
* L6: A share ``h = exp(-(1 - h) d / Z)`` of lines is still in a cache of Z bytes after d other bytes. Rows narrower
  than their stride share sets only with tiles of the same slot.
* L7: A row of 16 results takes its store cycles; a line that misses is fetched and written back.
* L8: A convolution executes after its tile's last load and stores after execution, slower while results leave. A
  matrix product overlaps the three.
"""

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from codesign.core.checks import check_least
from codesign.core.errors import UserError
from codesign.mapping.mapping import Mapping, Spatial, Storage, Temporal
from codesign.mapping.nest import FloatArray
from codesign.timing.engine import COMPLETE, run
from codesign.timing.table import Timing
from experiments.models.cache import LINE_BYTES, Footprint, ReuseTracker
from experiments.models.pieces import StationaryArray
from experiments.models.plan import Kind, NamedPlan, Process, make_plan

DIMS = ("n", "k", "c", "p", "q", "r", "s")
_DEFAULT_ORDER = ("c", "r", "s", "k", "p", "q", "n")
"""Dimensions that no loop of the mapping names, innermost first."""

OPERATION_LIMIT = 20_000_000
_NO_EVENTS = np.zeros((0, 4))
_INPUT, _WEIGHT = 0, 1


class TileWork(NamedTuple):
    """What tiles do, one entry a tile (``T``).

    Attributes:
        execute: ``T`` cycles of the array.
        fixed: ``T`` load cycles that hang on no constant: padding and old results written as zeros or bias.
        requests: ``T x 2`` 64-byte-wide requests for inputs and weights.
        width: ``T x 2`` bytes a request brings, at most 64.
        lines: ``T x 2`` cache lines they touch.
        hits: ``T x 2 x 2`` share of hits, by tensor and cache.
        results: ``T`` rows of results stored; negative where none are.
        result_lines: ``T`` cache lines they touch.
        result_hits: ``T x 2``.
        blocks: ``T`` blocks of the reduction in a tile.
        matrix: Whether it is a matrix product.
    """

    execute: FloatArray
    fixed: FloatArray
    requests: FloatArray
    width: FloatArray
    lines: FloatArray
    hits: FloatArray
    results: FloatArray
    result_lines: FloatArray
    result_hits: FloatArray
    blocks: FloatArray
    matrix: bool


@dataclass(frozen=True)
class LoopNest:
    """Tiles of a layer.

    Args:
        size: Bounds by dimension: n, k (output channels), c (input channels), p (columns), q (rows), r, s (filter).
        tile: Extents of a tile.
        order: Loops over tiles, outermost first.
        stride: Of the window.
    """

    size: dict[str, int]
    tile: dict[str, int]
    order: tuple[str, ...]
    stride: int = 1

    def __post_init__(self) -> None:
        for name, values in (("size", self.size), ("tile", self.tile)):
            for d in DIMS:
                if values.get(d, 0) < 1:
                    raise UserError(f"`{name}` of dimension {d!r} must be >= 1, got {values.get(d)}", where="loop nest")
        check_least(1, where="loop nest", stride=self.stride)

    @property
    def matrix(self) -> bool:
        """Whether the layer is a matrix product: one row, no window."""
        return self.size["q"] == self.size["r"] == self.size["s"] == 1

    def counts(self) -> dict[str, int]:
        """Tiles along each dimension."""
        return {d: -(-self.size[d] // self.tile[d]) for d in DIMS}


def nest_of_mapping(bounds: dict[str, int], mapping: Mapping, stride: int, side: int) -> LoopNest:
    """The tiles of a mapping: every loop inside the outermost buffer's storage makes the tile.

    Matrix products run whole blocks of the array's side, rounded down to it.
    """
    outer: list[Temporal] = []
    for node in mapping.nodes:
        if isinstance(node, Storage) and node.level != mapping.storage[0].level:
            break
        if isinstance(node, Spatial):
            break
        if isinstance(node, Temporal):
            outer.append(node)
    size = {d: bounds.get(d, 1) for d in DIMS}
    tile = {d: size[d] // math.prod(n.factor for n in outer if n.dim == d) for d in DIMS}
    named = [n.dim for n in outer]
    order = [*reversed([d for d in _DEFAULT_ORDER if d not in named]), *named]
    nest = LoopNest(size, tile, tuple(dict.fromkeys(order)), stride)
    if nest.matrix:
        rounded = {d: max(1, tile[d] // side) * side for d in ("c", "k", "p")}
        tile = tile | {d: min(rounded[d], -(-size[d] // side) * side) for d in rounded}
        nest = LoopNest(size, tile, nest.order, stride)
    return nest


class _Shape(NamedTuple):
    """A tile by its size: cycles, rows, lines."""

    execute: float
    zeros: float
    rows: tuple[float, float]
    widths: tuple[int, int]
    results: float
    out_rows: float


def _shape(nest: LoopNest, extent: dict[str, int], array: StationaryArray) -> _Shape:
    """One tile: output pixels, rows of inputs and weights, cycles of the array (rules L2, L3)."""
    side = array.side
    k, c = extent["k"], extent["c"]
    k_blocks, c_blocks = -(-k // side), -(-c // side)
    if nest.matrix:
        rows = extent["p"]
        cycles = side * k_blocks * c_blocks * -(-rows // side)
        return _Shape(cycles, 0.0, (rows, c), (c, k), rows * k_blocks, rows)
    columns, rows, stride = extent["p"], extent["q"], nest.stride
    in_rows, in_columns = rows * stride + extent["s"] - 1, columns * stride + extent["r"] - 1
    limit = nest.size["p"] * stride
    pixels = min(in_rows, limit) * min(in_columns, limit)
    zeros = (in_rows * in_columns - pixels) * -(-c // LINE_BYTES)
    blocks = k_blocks * c_blocks * extent["s"] * extent["r"]
    execute = blocks * array.block_cycles(columns, rows)
    weights = extent["s"] * extent["r"] * c
    return _Shape(execute, float(zeros), (pixels, weights), (c, k), rows * columns * k_blocks, rows * columns)


def _row_lines(width: int, stride: int) -> float:
    """Cache lines of a row of `width` bytes in rows `stride` bytes long."""
    return -(-width // LINE_BYTES) if stride >= LINE_BYTES else stride / LINE_BYTES


def tile_work(nest: LoopNest, timing: Timing) -> TileWork:
    """Everything about the tiles that hangs on no fitted constant (rules L1-L6)."""
    array = StationaryArray(
        int(timing.constant("array_side")),
        int(timing.constant("shortest_piece_cycles")),
        int(timing.constant("pieces_in_flight")),
        int(timing.constant("retire_cycles")),
    )
    size, tile, counts = nest.size, nest.tile, nest.counts()
    tracker = ReuseTracker((timing.constant("l2_bytes"), timing.constant("llc_bytes")), _whole_bytes(nest))
    total = math.prod(counts.values())
    work = TileWork(
        execute=np.zeros(total),
        fixed=np.zeros(total),
        requests=np.zeros((total, 2)),
        width=np.zeros((total, 2)),
        lines=np.zeros((total, 2)),
        hits=np.zeros((total, 2, 2)),
        results=np.zeros(total),
        result_lines=np.zeros(total),
        result_hits=np.zeros((total, 2)),
        blocks=np.full(total, float(max(1, tile["c"] // array.side))),
        matrix=nest.matrix,
    )
    shapes: dict[tuple[int, ...], _Shape] = {}
    channels = (size["c"], size["k"])
    per_line = tuple(max(1, LINE_BYTES // tile[d]) if size[d] >= LINE_BYTES else 1 for d in ("c", "k"))
    for i, index in enumerate(itertools.product(*(range(counts[d]) for d in nest.order))):
        at = dict(zip(nest.order, index, strict=True))
        extent = {d: min(tile[d], size[d] - at[d] * tile[d]) for d in DIMS}
        key = tuple(extent.values())
        if key not in shapes:
            shapes[key] = _shape(nest, extent, array)
        shape = shapes[key]
        group = (at["c"] // per_line[_INPUT], at["k"] // per_line[_WEIGHT])
        ids = (
            ("input", at["p"], at["q"], group[_INPUT], at["r"], at["s"], at["n"]),
            ("weight", group[_WEIGHT], at["c"], at["r"], at["s"]),
        )
        for t in (_INPUT, _WEIGHT):
            rows, width, stride = shape.rows[t], shape.widths[t], channels[t]
            work.requests[i, t] = rows * -(-width // LINE_BYTES)
            work.width[i, t] = min(width, LINE_BYTES)
            work.lines[i, t] = rows * _row_lines(width, stride)
            start = (group[t] * per_line[t]) * tile["c" if t == _INPUT else "k"]
            work.hits[i, t] = tracker.touch(ids[t], Footprint.of_rows(rows, width, stride, start))
        first = not (at["c"] or at["r"] or at["s"])
        last = all(at[d] == counts[d] - 1 for d in "crs")
        work.execute[i] = shape.execute
        work.fixed[i] = shape.zeros + (shape.results if first and not nest.matrix else 0.0)
        work.results[i] = shape.results if last else -1.0
        if last:
            work.result_lines[i] = shape.out_rows * _row_lines(shape.widths[1], channels[1])
            place = Footprint.of_rows(shape.out_rows, shape.widths[1], channels[1], group[1] * per_line[1] * tile["k"])
            work.result_hits[i] = tracker.touch(("output", at["p"], at["q"], group[1]), place)
    return work


def _whole_bytes(nest: LoopNest) -> float:
    """Bytes of all tensors: the run before has touched them once (rule L6)."""
    s = nest.size
    rows = 1 if nest.matrix else max(1, s["q"] * nest.stride)
    inputs = s["p"] * nest.stride * rows * s["c"]
    return float(s["n"] * (inputs + s["p"] * s["q"] * s["k"]) + s["r"] * s["s"] * s["c"] * s["k"])


def load_cycles(work: TileWork, timing: Timing) -> FloatArray:
    """Cycles to load each tile (rule L5)."""
    llc, dram = timing.constant("llc_line_cycles"), timing.constant("dram_line_cycles")
    total = work.fixed.copy()
    for t, name in ((_INPUT, "input_hit_cycles"), (_WEIGHT, "weight_hit_cycles")):
        base = work.requests[:, t] * timing.constant(name) * work.width[:, t] / LINE_BYTES
        near, far = work.hits[:, t, 0], work.hits[:, t, 1]
        missed = far * np.maximum(base, work.lines[:, t] * llc) + (1 - far) * np.maximum(base, work.lines[:, t] * dram)
        total += near * base + (1 - near) * missed
    return total


def store_cycles(work: TileWork, timing: Timing) -> FloatArray:
    """Cycles to store the results of each tile; negative where there are none (rule L7)."""
    near, far = work.result_hits[:, 0], work.result_hits[:, 1]
    line = far * timing.constant("llc_line_cycles") + (1 - far) * timing.constant("store_miss_cycles")
    cycles = work.results * timing.constant("store_row_cycles") + (1 - near) * work.result_lines * line
    return np.where(work.results < 0, -1.0, cycles)


def loop_plan(work: TileWork, timing: Timing) -> NamedPlan:
    """The tiles as a plan: commands, loads, execution, stores, with the contexts that hold them (rules L1, L8)."""
    every = {(0, 0): 0.0, (0, 2): 0.0}
    issue = np.full(len(work.execute), timing.issue_cycles)
    issue[0] = 0.0
    processes = [
        Process("issue", Kind.LOAD, ("host",), every, depth=timing.command_queue, listed=issue),
        Process(
            "load", Kind.LOAD, ("load port",), every, depth=timing.steps_in_flight or 2, source="issue",
            stream=work.matrix, listed=load_cycles(work, timing),
        ),
        Process(
            "execute", Kind.COMPUTE, ("array",), every, needs=("load", "issue"), listed=work.execute,
            stretch={} if work.matrix else {"store": timing.constant("accumulator_share")},
        ),
        Process(
            "store", Kind.STORE, ("store port",), every, depth=timing.steps_in_flight or 2,
            listed=store_cycles(work, timing), listed_ahead=work.execute / work.blocks if work.matrix else None,
        ),
    ]  # fmt: skip
    return make_plan([[1, len(work.execute)]], 0, processes, in_flight=timing.steps_in_flight or 0)


def run_cycles(work: TileWork, timing: Timing) -> float:
    """Cycles of a run besides its tiles."""
    return timing.constant("matrix_run_cycles" if work.matrix else "convolution_run_cycles")


def loop_cycles(work: TileWork, timing: Timing) -> float:
    """Cycles of a whole run."""
    status, cycles, *_ = run(loop_plan(work, timing).plan, False, OPERATION_LIMIT, _NO_EVENTS)
    if status != COMPLETE:
        raise UserError(f"the run has more than {OPERATION_LIMIT} operations", where="loop nest")
    return cycles + run_cycles(work, timing)
