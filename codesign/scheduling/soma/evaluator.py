"""What an encoding costs: tiles, tensors, buffer occupancy, timing, energy, bounds; and why an invalid one cannot run."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from codesign.arch.technology_files import provenance_of
from codesign.core.checks import check_least, check_whole
from codesign.core.errors import UserError
from codesign.core.json_types import JsonObject
from codesign.core.kernel_library import IntArray
from codesign.scheduling.soma.kernels import decode as kf
from codesign.scheduling.soma.kernels import tile_cost as kt
from codesign.scheduling.soma.kernels import timing as tm
from codesign.scheduling.soma.kernels.records import Groups, Inputs, Net, Scheme
from codesign.scheduling.soma.model.layer_graph import LayerGraph
from codesign.scheduling.soma.model.mapped_tiles import MappedPlatform, Platform, TilePrice
from codesign.scheduling.soma.model.notation import STATUS_BY_CODE, DramScheme, Encoding, FusionScheme, Status
from codesign.scheduling.soma.model.rules import MAPPED_TILES, ModelOptions

KIND, LAYER, TILE, SOURCE, BYTES, START, END, USE = range(8)

BoolArray = npt.NDArray[np.bool_]


class TensorKind(IntEnum):
    """What a tensor is; names as in the reference data."""

    IFM = kf.LOAD_IFMAP
    WGT = kf.LOAD_WEIGHT
    OFM_DRAM = kf.STORE
    OFM_LOCAL = kf.LOCAL


@dataclass(frozen=True)
class Problem:
    """What is scheduled on what, and how it is scored.

    Args:
        graph: The network.
        batch: Samples processed together.
        hardware: The accelerator.
        options: Which model.
        buffer_bytes: Limit on the global buffer's occupancy; None: its capacity.
    """

    graph: LayerGraph
    batch: int
    hardware: Platform
    options: ModelOptions
    buffer_bytes: int | None = None

    def __post_init__(self) -> None:
        check_whole(batch=self.batch)
        check_least(1, capacity=self.buffer_bytes)

    @property
    def limit_bytes(self) -> int:
        """Bytes the buffer may hold."""
        return self.hardware.gbuf.capacity_bytes if self.buffer_bytes is None else self.buffer_bytes

    @property
    def flags(self) -> int:
        """What the compiled code is told of the model: its switches, and whether a mapper prices the tiles."""
        return self.options.flags | (MAPPED_TILES if isinstance(self.hardware, MappedPlatform) else 0)

    @cached_property
    def net(self) -> Net:
        """Network and accelerator as the compiled code reads them."""
        graph, hardware = self.graph, self.hardware
        edges = graph.producers, graph.consumers, graph.externals
        return Net(graph.table, *edges, graph.kinds, hardware.integers(), hardware.reals())

    def tile_price(self, layer: int, shape: Sequence[int]) -> TilePrice:
        """Cost of the tile ``(b, k, h, w)`` of a layer."""
        row = self.graph.table[layer]
        if isinstance(self.hardware, MappedPlatform) and self.graph.layers[layer].is_matrix:
            return self.hardware.tile_price(row, shape)
        result = np.zeros(kt.N_COST)
        b, k, h, w = (int(v) for v in shape[:4])
        kt.tile_cost(row, b, k, h, w, self.net.ints, self.net.reals, self.options.flags, result)
        cycles, energy, gbuf, local, bus, op = result.tolist()
        return int(cycles), energy, gbuf, local, bus, op

    @property
    def ideal_engine_cycles(self) -> float:
        """Cycles if every unit were always busy: matrix operations over MACs plus vector operations over lanes."""
        matrix = sum(layer.ops for layer in self.graph.layers if layer.is_matrix)
        vector = sum(layer.ops for layer in self.graph.layers if not layer.is_matrix)
        return self.batch * (matrix / self.hardware.macs + vector / self.hardware.vector_unit_lanes)


@dataclass(frozen=True)
class LayerTiles:
    """Tiles of one layer under a scheme."""

    layer: int
    group: int
    fine_group: int
    tiles: int
    shape: tuple[int, int, int, int]
    first: int
    last: int
    cycles: int
    energy_pj: float
    gbuf_pj: float
    local_pj: float
    bus_pj: float
    op_pj: float


@dataclass(frozen=True)
class Invalid:
    """A scheme that cannot run: the reason with its place, and the bytes of buffer it would need when that is the reason."""

    status: Status
    reason: str
    demand_bytes: int | None = None


@dataclass(frozen=True, eq=False)
class Parsed:
    """Tiles and tensors of a fusion scheme.

    Args:
        problem: What was parsed for.
        fusion: The scheme.
        layers: Tiles of each layer in computing order.
        tile_layer: ``T`` layer id of each position.
        tile_index: ``T`` tile number within the layer.
        tile_cycles: ``T`` cycles of each position.
        tensors: ``n x 8`` rows kind, layer, tile, source, bytes, start, end, use; defaults of the living durations.
    """

    problem: Problem
    fusion: FusionScheme
    layers: tuple[LayerTiles, ...]
    tile_layer: IntArray
    tile_index: IntArray
    tile_cycles: IntArray
    tensors: IntArray

    @cached_property
    def dram_ids(self) -> IntArray:
        """Numbers of the tensors that cross the DRAM channel."""
        return np.flatnonzero(self.tensors[:, KIND] != kf.LOCAL).astype(np.int64)

    @cached_property
    def is_store(self) -> BoolArray:
        """``n``: whether a tensor is stored."""
        return np.equal(self.tensors[:, KIND], kf.STORE)

    @cached_property
    def is_load(self) -> BoolArray:
        """``n``: whether a tensor is loaded."""
        kinds = self.tensors[:, KIND]
        return np.equal(kinds, kf.LOAD_IFMAP) | np.equal(kinds, kf.LOAD_WEIGHT)

    @cached_property
    def default_order(self) -> IntArray:
        """Double-buffer DRAM order: by start, weights first, by end, loads before stores, by number."""
        rows = self.tensors[self.dram_ids]
        keys = (rows[:, KIND] == kf.STORE, rows[:, END], rows[:, KIND] != kf.LOAD_WEIGHT, rows[:, START])
        return self.dram_ids[np.lexsort(keys)]

    @cached_property
    def transfer_cycles(self) -> IntArray:
        """``n`` channel cycles of each tensor (0 for local ones)."""
        cycles = -(-self.tensors[:, BYTES] // self.problem.hardware.dram_bytes_per_cycle)
        return np.where(self.tensors[:, KIND] == kf.LOCAL, 0, cycles)

    @cached_property
    def dram_bytes(self) -> dict[str, int]:
        """Bytes over the DRAM channel by kind, and the total."""
        kinds, size = self.tensors[:, KIND], self.tensors[:, BYTES]
        parts = {
            "weights": int(size[kinds == kf.LOAD_WEIGHT].sum()),
            "ifmaps": int(size[kinds == kf.LOAD_IFMAP].sum()),
            "ofmaps": int(size[kinds == kf.STORE].sum()),
        }
        return {**parts, "total": sum(parts.values())}

    @cached_property
    def energy_pj(self) -> float:
        """Energy of all tiles and all DRAM traffic; the DRAM attributes do not change it."""
        tiles = sum(layer.tiles * layer.energy_pj for layer in self.layers)
        return tiles + self.dram_bytes["total"] * self.problem.hardware.dram_pj_per_byte

    @cached_property
    def energy_by_part_pj(self) -> dict[str, float]:
        """Energy by where it is spent: ``dram``, ``gbuf``, ``local`` (buffers of the PEs), ``bus`` between them, ``op`` (arithmetic)."""
        return {
            "dram": self.dram_bytes["total"] * self.problem.hardware.dram_pj_per_byte,
            "gbuf": sum(layer.tiles * layer.gbuf_pj for layer in self.layers),
            "local": sum(layer.tiles * layer.local_pj for layer in self.layers),
            "bus": sum(layer.tiles * layer.bus_pj for layer in self.layers),
            "op": sum(layer.tiles * layer.op_pj for layer in self.layers),
        }

    @property
    def compute_cycles(self) -> int:
        """Cycles of all tiles."""
        return int(self.tile_cycles.sum())

    @property
    def channel_cycles(self) -> int:
        """Cycles of all transfers."""
        return int(self.transfer_cycles.sum())

    @property
    def bound_cycles(self) -> int:
        """No-stall bound: the busier of the compute engine and the DRAM channel."""
        return max(self.compute_cycles, self.channel_cycles)


@dataclass(frozen=True, eq=False)
class Schedule:
    """An encoding that runs, with its timeline.

    Args:
        parsed: Tiles and tensors.
        start: ``n`` start of the living duration of every tensor.
        end: ``n`` end of it.
        order: ``D`` DRAM order.
        latency_cycles: Cycles of the whole batch.
        tile_start: ``T`` start cycle of each position.
        transfer_start: ``n`` start cycle of each DRAM tensor's transfer (0 for local ones).
        usage_bytes: ``T+1`` bytes in the buffer at positions -1..T-1.
    """

    parsed: Parsed
    start: IntArray
    end: IntArray
    order: IntArray
    latency_cycles: int
    tile_start: IntArray
    transfer_start: IntArray
    usage_bytes: IntArray

    @property
    def energy_pj(self) -> float:
        """Energy of the whole batch."""
        return self.parsed.energy_pj

    @property
    def edp(self) -> float:
        """Energy times latency, pJ cycles."""
        return self.energy_pj * self.latency_cycles

    @property
    def peak_buffer_bytes(self) -> int:
        """Largest occupancy of the global buffer."""
        return int(self.usage_bytes.max())

    @property
    def utilisation(self) -> float:
        """Share of the latency that fully busy units would need (vector work counts at the vector unit's rate)."""
        return self.parsed.problem.ideal_engine_cycles / self.latency_cycles

    @property
    def tile_runs(self) -> list[tuple[int, int, int, int]]:
        """Start cycle, layer, tile and cycles of every position."""
        parsed = self.parsed
        rows = np.stack([self.tile_start, parsed.tile_layer, parsed.tile_index, parsed.tile_cycles], axis=1)
        return [(start, layer, tile, cycles) for start, layer, tile, cycles in rows.tolist()]

    @property
    def provenance(self) -> JsonObject:
        """Where energies come from: the architecture's technology, or the template's constants, which its file gives."""
        hardware = self.parsed.problem.hardware
        return provenance_of(hardware.architecture.technology if isinstance(hardware, MappedPlatform) else None)

    def encoding(self, name: str = "scheme") -> Encoding:
        """All six attributes of this schedule."""
        rows = self.parsed.tensors
        edits = []
        for t in self.parsed.dram_ids.tolist():
            start = int(self.start[t]) if self.start[t] != rows[t, START] else None
            end = int(self.end[t]) if self.end[t] != rows[t, END] else None
            if start is not None or end is not None:
                edits.append((t, start, end))
        return Encoding(self.parsed.fusion, DramScheme(tuple(self.order.tolist()), tuple(edits)), name)


def parse(problem: Problem, fusion: FusionScheme) -> Parsed | Invalid:
    """Tiles and tensors of a fusion scheme, or why there are none.

    Raises:
        UserError: The scheme orders another number of layers.
    """
    graph = problem.graph
    if len(fusion.order) != len(graph.layers):
        raise UserError(
            f"the scheme orders {len(fusion.order)} layers, network {graph.name!r} has {len(graph.layers)}",
            hint="it was made for another network",
        )
    scheme, net, flags = scheme_arrays(fusion), problem.net, problem.options.flags
    groups, inputs = group_arrays(graph), input_arrays(graph)
    code, total, first = kf.lay_out(problem.batch, flags, net, scheme, groups)
    if code == kf.BAD_ORDER:
        return Invalid(STATUS_BY_CODE[code], _order_fault(graph, scheme.place))
    if code != kf.OK:
        names = ", ".join(graph.layers[i].name for i in fusion.order[first : groups.flg_end[first]][:4])
        reason = f"{scheme.tiles[first]} tiles are too many for the group of {names} (batch {problem.batch})"
        return Invalid(STATUS_BY_CODE[code], reason)
    layers = _layer_tiles(problem, fusion, scheme.shape, groups)
    if isinstance(layers, Invalid):
        return layers
    tensors = np.zeros((sum(kf.list_inputs(net, scheme, flags, groups, inputs)), 8), np.int64)
    kf.list_tensors(net, scheme, groups, inputs, tensors)
    positions = np.zeros((3, total), np.int64)
    for i, entry in enumerate(layers):
        where = slice(entry.first, entry.last + 1, int(groups.step[i]))
        positions[0, where] = entry.layer
        positions[1, where] = np.arange(entry.tiles)
        positions[2, where] = entry.cycles
    return Parsed(problem, fusion, layers, positions[0], positions[1], positions[2], tensors)


def scheme_arrays(fusion: FusionScheme) -> Scheme:
    """The arrays of a scheme, shapes and costs still empty."""
    order, cut, tiles = fusion.arrays()
    n = len(order)
    place = np.empty_like(order)
    place[order] = np.arange(n)
    return Scheme(order, cut, tiles, place, np.zeros((n, 6), np.int64), np.zeros(n, np.int64), np.zeros(n))


def group_arrays(graph: LayerGraph) -> Groups:
    """Room for the groups of a scheme."""
    return Groups(*(np.zeros(len(graph.layers), np.int64) for _ in Groups._fields))


def input_arrays(graph: LayerGraph) -> Inputs:
    """Room for what tiles read from DRAM."""
    size = len(graph.producers[1]) + len(graph.externals[1]) + 1
    return Inputs(np.zeros(len(graph.layers) + 1, np.int64), np.zeros(size, np.int64), np.zeros(size, np.int64))


def _order_fault(graph: LayerGraph, place: IntArray) -> str:
    for index, layer in enumerate(graph.layers):
        for producer in layer.prevs:
            if place[producer] > place[index]:
                return f"layer {layer.name!r} comes before its producer {graph.layers[producer].name!r}"
    return "a layer comes before its producer"


def _layer_tiles(
    problem: Problem, fusion: FusionScheme, shape: IntArray, groups: Groups
) -> tuple[LayerTiles, ...] | Invalid:
    layers: list[LayerTiles] = []
    fine = -1
    for i, layer in enumerate(fusion.order):
        b, c, h, w = (int(v) for v in shape[layer, :4])
        price = problem.tile_price(layer, (b, c, h, w))
        if price[0] < 0:
            name = problem.graph.layers[layer].name
            return Invalid(
                Status.NO_INTRA_CORE_MAPPING,
                f"no part of tile {b}x{c}x{h}x{w} of {name!r} fits the buffers of the PE array",
            )
        fine += i == 0 or groups.flg_end[i] != groups.flg_end[i - 1]
        begin, count = int(groups.first[i]), int(groups.n_tiles[i])
        last = begin + (count - 1) * int(groups.step[i])
        layers.append(LayerTiles(layer, int(groups.lg_of[i]), int(fine), count, (b, c, h, w), begin, last, *price))
    return tuple(layers)


def evaluate(problem: Problem, encoding: Encoding) -> Schedule | Invalid:
    """Parse and run an encoding.

    Raises:
        UserError: The encoding is of another network or names tensors that are not DRAM tensors.
    """
    parsed = parse(problem, encoding.fusion)
    return parsed if isinstance(parsed, Invalid) else run(parsed, encoding.dram)


def run(parsed: Parsed, dram: DramScheme) -> Schedule | Invalid:
    """The schedule of parsed tiles under DRAM attributes.

    Raises:
        UserError: `dram` names tensors that are not DRAM tensors, or not all of them.
    """
    start, end = parsed.tensors[:, START].copy(), parsed.tensors[:, END].copy()
    _apply_durations(parsed, dram, start, end)
    order = parsed.default_order
    if dram.order is not None:
        order = np.array(dram.order, np.int64)
        if sorted(order.tolist()) != parsed.dram_ids.tolist():
            raise UserError(
                f"`order` must name each of the {len(parsed.dram_ids)} DRAM tensors once, got {len(order)} numbers",
                hint="tensors are numbered layer by layer: inputs, weights, outputs; local tensors have no place in the order",
            )
    return schedule(parsed, start, end, order)


def _apply_durations(parsed: Parsed, dram: DramScheme, start: IntArray, end: IntArray) -> None:
    total = len(parsed.tile_layer)
    for tensor, new_start, new_end in dram.durations:
        if not 0 <= tensor < len(parsed.tensors):
            raise UserError(f"edit of tensor {tensor}: the scheme has tensors 0..{len(parsed.tensors) - 1}")
        if new_start is not None:
            if not -1 <= new_start < total:
                raise UserError(f"`start` of tensor {tensor} must lie in -1..{total - 1}, got {new_start}")
            start[tensor] = new_start
        if new_end is not None:
            if not 0 <= new_end <= total:
                raise UserError(f"`end` of tensor {tensor} must lie in 0..{total}, got {new_end}")
            end[tensor] = new_end


def schedule(parsed: Parsed, start: IntArray, end: IntArray, order: IntArray) -> Schedule | Invalid:
    """The schedule with these living durations (``n`` each) and this DRAM order, or why it cannot run."""
    rows = parsed.tensors
    usage = np.zeros(len(parsed.tile_layer) + 1, np.int64)
    peak = tm.buffer_usage(rows[:, BYTES], start, end, usage)
    limit = parsed.problem.limit_bytes
    if peak > limit:
        place = int(usage.argmax()) - 1
        where = _position_name(parsed, place)
        reason = f"the buffer would hold {peak} bytes at position {place} ({where}), limit {limit}"
        return Invalid(Status.BUFFER_OVERFLOW, reason, peak)
    kind, tiles = rows[:, KIND], len(usage)
    clocks = tm.Clocks(np.zeros(tiles, np.int64), np.zeros(tiles, np.int64), np.zeros(len(rows), np.int64))
    latency = tm.time_order(parsed.tile_cycles, kind, rows[:, USE], parsed.transfer_cycles, start, end, order, clocks)
    code = kf.OK if latency >= 0 else kf.BAD_TENSOR_ORDER
    if code == kf.OK and parsed.problem.options.store_before_load:
        scratch = np.zeros(len(parsed.layers), np.int64)
        code = tm.stored_before_loaded(order, kind, rows[:, LAYER], rows[:, SOURCE], scratch)
    if code != kf.OK:
        return Invalid(STATUS_BY_CODE[code], _REASONS[code])
    tile_start = clocks.tile_end[:-1] - parsed.tile_cycles
    return Schedule(parsed, start, end, order, int(latency), tile_start, clocks.transfer_start, usage)


_REASONS = {
    kf.BAD_TENSOR_ORDER: "a tile needs a DRAM tensor that, in this order and with these living durations, cannot be transferred in time",
    kf.LOAD_BEFORE_STORE: "a tensor is loaded before its producer has stored all of it",
}


def _position_name(parsed: Parsed, position: int) -> str:
    if position < 0:
        return "before the first tile"
    layer = parsed.problem.graph.layers[int(parsed.tile_layer[position])].name
    return f"layer {layer!r} tile {int(parsed.tile_index[position])}"
