"""The cost of a tree of segments on a system of many cores, row by row (docs/explanation/many-cores.md)."""

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from codesign.arch.core_kinds import kind_counts, kinds_of, record_of
from codesign.arch.many_core import ManyCore
from codesign.core.errors import UserError, unknown_name
from codesign.core.kernel_library import FloatArray, IntArray
from codesign.cost.cost import Infeasible
from codesign.scheduling.segments.kernels import core_mapper, fabric, segment_cost, traffic
from codesign.scheduling.segments.kernels import tree as tree_kernels
from codesign.scheduling.segments.kernels.layout import Groups, Layout
from codesign.scheduling.segments.kernels.machine import CLOCK, LANE_PJ
from codesign.scheduling.segments.kernels.tile_figures import NEVER
from codesign.scheduling.segments.layers import LayerKind, SegmentNetwork, unit_time
from codesign.scheduling.segments.layouts import layout_of
from codesign.scheduling.segments.mapped_cores import mapped_figures
from codesign.scheduling.segments.segment_tree import (
    DIMENSIONS,
    Cut,
    CutKind,
    Leaf,
    check_tree,
    leaf_nodes,
    leaf_places,
    leaves,
    tree_arrays,
    walk,
)
from codesign.scheduling.segments.system_arrays import (
    core_tile,
    cores_arrays,
    fabric_arrays,
    site_kinds,
    system_prices,
    tile_sizes,
)

PARTS = ("big_buffer", "small_buffers", "bus", "mac")
"""Parts of the energy that are not words on the way."""


@final
@dataclass(frozen=True)
class Semantics:
    """Whose rules an evaluation follows.

    Args:
        counting: `fabric.SET`, `fabric.GEMINI` or `fabric.OWN`.
        drop_shifted: Keep the underflow that drops concatenated inputs (rule M20).
        groups_as_given: Keep groups as they were recorded, by position in a list, rather than by need (rule M9).
        forget_drams: Take producers of earlier segments from all DRAMs, wherever they were written (rule M25).
        links_bound: Links bound the time of segments.
        leaf_links: Links bound the time of every layer.
        steps: Words of all that runs together bound the time of every step (rule M33).
    """

    counting: int
    drop_shifted: bool = False
    groups_as_given: bool = False
    forget_drams: bool = False
    links_bound: bool = True
    leaf_links: bool = False
    steps: bool = False


SET_RULES = Semantics(fabric.SET, drop_shifted=True, groups_as_given=True)
GEMINI_RULES = Semantics(fabric.GEMINI, drop_shifted=True, groups_as_given=True, forget_drams=True, leaf_links=True)
GEMINI_START_RULES = replace(GEMINI_RULES, links_bound=False, leaf_links=False)
OWN_RULES = Semantics(fabric.OWN, leaf_links=True)
MESH_RULES = replace(OWN_RULES, steps=True)

SEMANTICS = {"set": SET_RULES, "gemini": GEMINI_RULES, "own": OWN_RULES, "mesh": MESH_RULES}
"""By the names of the command line."""


@final
@dataclass(frozen=True)
class Row:
    """Figures of one run of a node.

    Attributes:
        layer: Number of the layer; None for a cut.
        time: Cycles, or nanoseconds where the clock is not 1 GHz.
        energy_pj: Of everything.
        parts_pj: Of `PARTS`.
        counter: All counts (see `kernels.fabric`).
        moved_cycles: Cycles that DRAM, and links where they count, need.
        usage_bytes: Needs while running, of inputs and of weights, 3 x sites.
        core: Figures of one core's tile, with kinds of cores of all and the cycles of the slowest; None for a cut.
    """

    layer: int | None
    time: int
    energy_pj: float
    parts_pj: tuple[float, ...]
    counter: IntArray
    moved_cycles: int
    usage_bytes: IntArray
    core: FloatArray | None

    @property
    def dram_words(self) -> int:
        """Words over the DRAM interface."""
        return int(self.counter[fabric.DRAM])

    @property
    def hops(self) -> int:
        """Words times links, those between dies apart."""
        return int(self.counter[fabric.HOPS])

    @property
    def die_hops(self) -> int:
        """Words times links between dies."""
        return int(self.counter[fabric.DIE_HOPS])


@final
@dataclass(frozen=True)
class Evaluation:
    """A tree with its figures.

    Attributes:
        root: The tree.
        arrays: Its shape with stages and cores.
        rows: Of every node, in preorder; the first is the whole.
        on_chip: 1 for each edge of the network that stays on chip.
        stored: 1 for each layer that writes back.
    """

    root: Cut
    arrays: tree_kernels.Tree
    rows: tuple[Row, ...]
    on_chip: IntArray
    stored: IntArray

    @property
    def edp(self) -> float:
        """Energy times time of the whole batch, pJ x cycles."""
        return self.rows[0].energy_pj * self.rows[0].time


@final
class Evaluator:
    """Evaluates trees of one network on one system.

    Args:
        system: The cores and what joins them.
        network: The layers.
        semantics: Whose rules hold.
        core_figures: Figures of one core for each layer, where another program's core mapper is not known.

    Raises:
        UserError: A recorded program's rules for a network other than a mesh with X-Y routing.
    """

    def __init__(
        self,
        system: ManyCore,
        network: SegmentNetwork,
        semantics: Semantics,
        core_figures: dict[int, FloatArray] | None = None,
    ) -> None:
        if semantics.counting != fabric.OWN and not system.network.is_plain:
            raise UserError(
                f"the rules of SET and Gemini know a mesh with X-Y routing alone, got a {system.network.topology} routed by "
                f"{system.network.way!r}",
                where=f"system {system.name!r}",
                hint="`--mode own`",
            )
        self.system, self.network, self.semantics = system, network, semantics
        self.core_kinds = kinds_of(system)
        self.kinds = len(self.core_kinds)
        if self.kinds > 1 and (semantics.counting != fabric.OWN or core_figures is not None):
            raise UserError("the recorded programs know equal cores alone", where=f"system {system.name!r}")
        self.records = tuple(record_of(kind) for kind in self.core_kinds)
        self.cores = cores_arrays(self.records)
        self.fabric = fabric_arrays(system, semantics.counting, semantics.drop_shifted, semantics.steps)
        self.prices = system_prices(system)
        self.table, self.edges = network.table(), network.edges()
        self.kind_start = np.cumsum([0, *kind_counts(system)]).astype(np.int64)
        self.site_kind = site_kinds(system)
        self.capacity = np.array([core.big.bytes for core in self.records], np.int64)[self.site_kind]
        self.reserve = np.array([core.output_reserve_bytes for core in self.records], np.int64)[self.site_kind]
        self._given = core_figures
        self._figures: dict[tuple[int, int, tuple[int, ...]], FloatArray] = {}
        units = [[self._unit(layer, kind) for kind in range(self.kinds)] for layer in range(len(network.layers))]
        self.unit_times: FloatArray = np.array(units)[:, :, 0]
        self.unit_pj: FloatArray = np.array(units)[:, :, 1]

    def _unit(self, number: int, kind: int) -> tuple[float, float]:
        """Cycles and pJ of a sample of a layer on one core: ideal on equal cores (rule M4), else by a tile (rule M122).

        The tile is half the channels, rows and columns of one sample.
        """
        layer, core = self.network.layers[number], self.records[kind]
        if self.kinds == 1:
            return unit_time(layer, core.vector, core.lanes, core.macs, core.vector_unit_macs), 0.0
        sizes = [(n + 1) // 2 for n in (layer.K, layer.H, layer.W)]
        share = float(np.prod(sizes)) / (layer.K * layer.H * layer.W)
        figures = self.figures_on(kind, number, tuple(tile_sizes(layer, sizes[0], 1, sizes[1], sizes[2])))
        if figures is None:
            return NEVER, 0.0
        return float(figures[core_mapper.CYCLES]) / share, float(figures[core_mapper.ENERGY]) / share

    def evaluate(self, root: Cut) -> Evaluation:
        """Figures of a tree.

        Raises:
            UserError: It is no tree of the network, or a cut has fewer cores than children.
        """
        check_tree(root, self.network)
        shape = self.shape(root)
        leaf_of, node_of, _ = leaf_places(shape, len(self.network.layers))
        on_chip = np.zeros(len(self.edges.producer), np.int64)
        stored = np.zeros(len(self.network.layers), np.int64)
        tree_kernels.link_layers(shape, self.edges, leaf_of, node_of, on_chip, stored)
        self._check_parts(shape, root)
        return self._figures_of(root, shape, on_chip, stored)

    def shape(self, root: Cut) -> tree_kernels.Tree:
        """A tree in the kernels' form, with stages and cores.

        Raises:
            UserError: A cut has fewer cores than children.
        """
        shape = tree_arrays(root, self.unit_times)
        leaf_of, _, layer_of = leaf_places(shape, len(self.network.layers))
        tree_kernels.find_stages(shape, self.edges, leaf_of, layer_of)
        if any(leaf.given is not None for leaf in leaves(root)):
            return shape
        failed = tree_kernels.assign_cores(shape, self.kind_start, 0.0)
        if failed >= 0:
            raise UserError(
                f"cut number {failed} (in preorder) has too few cores for its children",
                where="tree",
                hint="cut it in time",
            )
        if self.kinds > 1:
            self._choose_cores(shape, root)
        return shape

    def _choose_cores(self, shape: tree_kernels.Tree, root: Cut) -> None:
        """Layers that name a kind run on its cores alone (rule M123)."""
        names = [kind.name for kind in self.core_kinds]
        for node, leaf in leaf_nodes(root):
            if not leaf.kind:
                continue
            if leaf.kind not in names:
                raise unknown_name("kind of core", leaf.kind, names, where=f"system {self.system.name!r}")
            start, past = self.kind_start[names.index(leaf.kind)], self.kind_start[names.index(leaf.kind) + 1]
            first = max(int(start), int(shape.core_first[node]))
            shape.core_past[node] = min(int(past), int(shape.core_past[node]))
            shape.core_first[node] = first
            if shape.core_past[node] <= first:
                name = self.network.layers[leaf.layer].name
                raise UserError(f"the tree gives layer {name!r} no core of kind {leaf.kind!r}", where="tree")

    def _check_parts(self, shape: tree_kernels.Tree, root: Cut) -> None:
        drams = len(self.system.memories.ports)
        for node, leaf in leaf_nodes(root):
            cores = int(shape.core_past[node] - shape.core_first[node])
            if leaf.given is None and leaf.cores != cores:
                name = self.network.layers[leaf.layer].name
                raise UserError(
                    f"layer {name!r} is cut into {leaf.cores} parts on {cores} cores", where="tree", hint="`parts`"
                )
            self._check_sizes(leaf)
            if max(leaf.drams) >= drams:
                name = self.network.layers[leaf.layer].name
                raise UserError(
                    f"layer {name!r} names DRAM {max(leaf.drams)}, system {self.system.name!r} has {drams}, the first of them 0",
                    where="tree",
                    hint="`drams`; negative for all",
                )

    def _check_sizes(self, leaf: Leaf) -> None:
        """Sizes of parts add up to those of the layer (rule M123)."""
        layer = self.network.layers[leaf.layer]
        wholes = (layer.K, leaf.batch, layer.H, layer.W)
        for name, whole, parts, sizes in zip(DIMENSIONS, wholes, leaf.parts, leaf.sizes, strict=True):
            if not sizes:
                continue
            if len(sizes) != parts or min(sizes) < 0 or sum(sizes) != whole:
                raise UserError(
                    f"layer {layer.name!r} has {whole} along {name}, its parts are {list(sizes)}",
                    where="tree",
                    hint="sizes of at least 0 that add up, or the number of equal parts",
                )
            if self.kinds == 1:
                raise UserError(f"layer {layer.name!r} is cut into unequal parts on equal cores", where="tree")

    def _figures_of(self, root: Cut, shape: tree_kernels.Tree, on_chip: IntArray, stored: IntArray) -> Evaluation:
        n = len(shape.kind)
        counters = np.zeros((n, fabric.counter_size(self.fabric)), np.int64)
        energies, times, slowed = np.zeros((n, 1 + len(PARTS))), np.zeros(n, np.int64), np.zeros(n, np.int64)
        usage = np.zeros((n, 3, self.system.grid.places), np.int64)
        cores: dict[int, FloatArray] = {}
        run = _Run(self, root, shape, on_chip, stored)
        for node, leaf in leaf_nodes(root):
            core = run.leaf(leaf, node, counters[node], energies[node], usage[node])
            links = self.semantics.leaf_links or (shape.parent[node] == 0 and self.semantics.counting == fabric.SET)
            times[node], slowed[node] = segment_cost.leaf_times(
                self.fabric, counters[node], int(core[core_mapper.CYCLES]), bool(links), self.prices[CLOCK]
            )
            cores[node] = core
        tree_kernels.add_up(
            self.fabric,
            shape,
            counters,
            energies,
            times,
            slowed,
            usage,
            self.prices[CLOCK],
            self.semantics.links_bound,
            self.prices[LANE_PJ],
        )
        rows = []
        for i, below in enumerate(walk(root)):
            moved = self.moved_cycles(counters[i])
            layer = below.layer if isinstance(below, Leaf) else None
            energy = float(energies[i, 0])
            parts = tuple(float(e) for e in energies[i, 1:])
            rows.append(Row(layer, int(times[i]), energy, parts, counters[i], moved, usage[i], cores.get(i)))
        return Evaluation(root, shape, tuple(rows), on_chip, stored)

    def moved_cycles(self, counter: IntArray) -> int:
        """Cycles of the busiest DRAM, and of the busiest link where links count."""
        cycles = fabric.dram_cycles(self.fabric, counter)
        return max(cycles, fabric.link_cycles(self.fabric, counter)) if self.semantics.links_bound else cycles

    def overflow(self, found: Evaluation) -> Infeasible | None:
        """The first core of a tree whose buffer overflows, or None (rule M32).

        A layer and a cut need what they hold while running and their weights; a cut in space its next inputs too. The root
        is not checked: its children are loaded one by one.
        """
        segment = 0
        for i, (node, row) in enumerate(zip(walk(found.root), found.rows, strict=True)):
            if i == 0:
                continue
            segment += found.arrays.parent[i] == 0
            need = row.usage_bytes[0] + row.usage_bytes[2]
            if isinstance(node, Cut) and node.kind is CutKind.SPACE:
                need = np.maximum(need, row.usage_bytes[1])
            site = int(np.argmax(need - self.capacity))
            limit = int(self.capacity[site])
            if need[site] > limit:
                x, y = divmod(site, self.system.height)
                what = (
                    f"{node.kind.name.lower()} cut" if isinstance(node, Cut) else self.network.layers[node.layer].name
                )
                kind = f" of kind {self.core_kinds[self.site_kind[site]].name!r}" if self.kinds > 1 else ""
                detail = f"core ({x - 1}, {y}){kind} in segment {segment}, {what}"
                return Infeasible("buffer of a core", float(need[site]), float(limit), "bytes", detail)
        return None

    def core_figures(self, leaf: Leaf) -> FloatArray:
        """Energy, cycles and parts of one core's tile; all pieces of a tile together (rules M11 to M16, M27).

        Raises:
            UserError: The small buffers cannot hold any part of it.
        """
        if self._given is not None:
            return self._given[leaf.layer]
        layer = self.network.layers[leaf.layer]
        tile = tuple(core_tile(layer, leaf.parts, leaf.batch, leaf.fetch))
        found = self.figures_on(0, leaf.layer, tile)
        if found is None:
            raise UserError(f"the buffers of a core cannot hold any part of layer {layer.name!r}", where="tree")
        return found * (float(np.prod(leaf.fetch[:4])) if leaf.fetch else 1.0)

    def figures_on(self, kind: int, number: int, tile: tuple[int, ...]) -> FloatArray | None:
        """Energy, cycles and parts of a tile of a layer on a kind of cores, an architecture's by the exact mapper (rule M125).

        Args:
            kind: Number of the kind.
            number: Of the layer.
            tile: Sizes in the order of `core_mapper.Tile`.

        Returns:
            The figures; None where the core cannot do it.
        """
        found = self._figures.get((kind, number, tile))
        if found is None:
            layer, core = self.network.layers[number], core_mapper.core_of(self.cores, kind)
            found = self._figures[kind, number, tile] = np.zeros(core_mapper.FIGURES + 1)
            if not layer.computes:
                work = tile[1] * tile[4] * tile[5] * layer.operands * layer.R * layer.S * tile[8]
                core_mapper.map_vector_work(core, work, found)
            elif self.core_kinds[kind].architecture is not None:
                found[:] = mapped_figures(self.core_kinds[kind], tile)
            else:
                core_mapper.map_convolution(core, core_mapper.Tile(*tile), found)
        return None if found[core_mapper.FIGURES] < 0.0 else found[: core_mapper.FIGURES]

    def tiles_with_work(self, place: Layout) -> list[tuple[int, tuple[int, int, int, int]]]:
        """Kind of the core, and channels, samples, rows and columns, of each tile of a layout that is not empty."""
        n = int(place.tiles.number[0])
        kinds = self.site_kind[place.tiles.sites[:n]].tolist()
        sizes = np.diff(place.tiles.ranges[:n].reshape(n, 4, 2))[..., 0].tolist()
        return [(kind, (k, b, h, w)) for kind, (k, b, h, w) in zip(kinds, sizes, strict=True) if k * b * h * w]

    def own_figures(self, leaf: Leaf, place: Layout) -> FloatArray:
        """Energy and its parts of all cores of a layer, each charged its own tile, and the cycles of the slowest (rule M124)."""
        total = np.zeros(core_mapper.FIGURES)
        cycles = 0.0
        layer = self.network.layers[leaf.layer]
        for kind, sizes in self.tiles_with_work(place):
            figures = self.figures_on(kind, leaf.layer, tuple(tile_sizes(layer, *sizes)))
            if figures is None:
                name = self.core_kinds[kind].name
                raise UserError(f"a core of kind {name!r} cannot hold any part of layer {layer.name!r}", where="tree")
            total += figures
            cycles = max(cycles, float(figures[core_mapper.CYCLES]))
        total[core_mapper.CYCLES] = cycles
        return total


@final
class _Run:
    """One evaluation: the layouts of the leaves done so far, for those that read them."""

    def __init__(
        self, evaluator: Evaluator, root: Cut, shape: tree_kernels.Tree, on_chip: IntArray, stored: IntArray
    ) -> None:
        self.of, self.root, self.shape, self.on_chip, self.stored = evaluator, root, shape, on_chip, stored
        self.layouts: dict[int, Layout] = {}
        self.leaves: dict[int, tuple[Leaf, int]] = {}

    def leaf(self, leaf: Leaf, node: int, counter: IntArray, energies: FloatArray, usage: IntArray) -> FloatArray:
        """Fill the figures of a leaf, its time apart; returns those of one core."""
        of, row = self.of, self.of.table[leaf.layer]
        first = int(self.shape.core_first[node])
        place = layout_of(of.fabric, row, leaf, first, of.semantics.groups_as_given, of.kinds)
        self.layouts[leaf.layer], self.leaves[leaf.layer] = place, (leaf, node)
        fetch = np.array(leaf.fetch or (0,) * 6, np.int64)
        self._traffic(leaf, node, place, counter, int(fetch[5]))
        if of.semantics.counting == fabric.OWN:
            fabric.recount_hops(of.fabric, counter)
        traffic.buffer_use(row, place, fetch, of.reserve, usage)
        runs = self.root.batch // leaf.batch
        if of.kinds == 1:
            core, used = of.core_figures(leaf), int(place.tiles.number[0])
            big = of.cores.pj[0, core_mapper.BIG]
            filling = traffic.filling_energy(row, place, leaf.batch, runs, fetch, big)
        else:
            core, used = of.own_figures(leaf, place), 1
            filling = traffic.filling_by_kind(row, place, runs, of.cores, of.site_kind)
        energies[0] = core[0] * used + filling + segment_cost.words_pj(counter, of.prices)
        energies[1:] = core[2:] * used
        energies[1] += filling
        return core

    def _traffic(self, leaf: Leaf, node: int, place: Layout, counter: IntArray, fetches: int) -> None:
        of, layer = self.of, self.of.network.layers[leaf.layer]
        edge = int(of.edges.start[leaf.layer])
        if layer.weight_inputs:
            shift = 0
            for i, producer in enumerate(layer.weight_inputs):
                self._from(leaf, node, producer, edge + len(layer.inputs) + i, place.weights, shift, counter)
                shift += of.network.layers[producer].K
        else:
            runs = self.root.batch // leaf.batch
            traffic.stored_weights(of.fabric, counter, place.weights, leaf.drams[1], runs, fetches)
        later = counter if fetches <= 1 else np.zeros_like(counter)
        wraps = layer.K if layer.kind is LayerKind.ELTWISE else 0
        shift = layer.external_c
        traffic.channels_from_dram(of.fabric, later, place.inputs, 0, shift, leaf.drams[0])
        shift = 0 if wraps and shift == wraps else shift
        for i, producer in enumerate(layer.inputs):
            self._from(leaf, node, producer, edge + i, place.inputs, shift, later)
            shift += of.network.layers[producer].K
            shift = 0 if wraps and shift == wraps else shift
        if self.stored[leaf.layer]:
            traffic.written_outputs(of.fabric, later, place.tiles, leaf.drams[2])
        if fetches > 1:
            if of.semantics.counting != fabric.OWN:
                traffic.scale_links(later, fetches)
            counter += later

    def _from(
        self, leaf: Leaf, node: int, producer: int, edge: int, groups: Groups, shift: int, counter: IntArray
    ) -> None:
        """Words of one producer, from its cores or from DRAM."""
        of = self.of
        source, source_node = self.leaves[producer]
        if self.on_chip[edge]:
            tiles = self.layouts[producer].tiles
            traffic.between_layers(of.fabric, counter, tiles, groups, shift, source.batch, leaf.batch)
            return
        same = self.shape.parent[source_node] == self.shape.parent[node]
        dram = source.drams[2] if same or not of.semantics.forget_drams else fabric.ALL_DRAMS
        past = shift + of.network.layers[producer].K
        traffic.channels_from_dram(of.fabric, counter, groups, shift, past, dram)
