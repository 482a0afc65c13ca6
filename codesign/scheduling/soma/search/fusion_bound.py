"""What no SoMa schedule of a network can beat, whatever it fuses (rules B1-B5).

* B1, DRAM traffic: Weights and constants cross once, external inputs once for each reader, results once. Data between
  two layers may stay: tile by tile, if the weights of both fit at once; whole, if it fits beside the weights of
  either.
* B2, Cover: A layer's tiles cover all of its output if nobody in its fine-grained group reads it. Else they cover
  what readers need, the least over all numbers of tiles: of the reader that needs least in the published model, of
  the one that needs most under `whole_outputs`.
* B3, Tiles: All tile shapes are priced by the template; tiles needed times cycles, and times energy, the least of
  each. Beyond 400,000 shapes, and on other machines, the largest layers count their arithmetic alone.
* B4: Latency is at least the channel's time for B1, and at least the tiles' cycles after the first weights and before
  the last store. Energy is at least that of B3 and of B1's bytes.
* B5: The objective grows with both, so its value at both bounds is below every schedule.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from codesign.core.goals import Objective
from codesign.scheduling.soma.evaluator import Problem
from codesign.scheduling.soma.kernels.tile_cost import least_tiles
from codesign.scheduling.soma.model.hardware import SomaHardware
from codesign.scheduling.soma.model.layer_graph import (
    IFMAP_EDGE,
    WEIGHT_BYTES,
    WEIGHT_EDGE,
    WHOLE_EDGE,
    Layer,
    LayerType,
)
from codesign.scheduling.soma.model.rules import CHANNEL_CLAMP, WHOLE_OUTPUTS

MOST_SHAPES = 400_000
"""Tile shapes of a network that are priced one by one; beyond it the largest layers count arithmetic alone."""


@dataclass(frozen=True)
class FusionBound:
    """Lower bounds over all encodings of a network, each for itself.

    Args:
        dram_bytes: Over the channel.
        compute_cycles: Of all tiles.
        latency_cycles: Of the whole.
        energy_pj: Of the whole.
    """

    dram_bytes: int
    compute_cycles: float
    latency_cycles: int
    energy_pj: float

    def gap(self, objective: Objective, energy_pj: float, latency_cycles: float) -> float:
        """Relative distance of a schedule's objective from what no schedule is below (B5); negative: the bound is wrong."""
        return objective.score(energy_pj, latency_cycles) / objective.score(self.energy_pj, self.latency_cycles) - 1


def fusion_bound(problem: Problem) -> FusionBound:
    """The bound of a network on a machine."""
    return _Bound(problem).result()


def leaving_edges(problem: Problem) -> frozenset[tuple[int, int]]:
    """Pairs (producer, reader) whose data the bound sends through DRAM, because no group holds both (B1)."""
    bound = _Bound(problem)
    return frozenset(
        (i, user)
        for i in range(len(bound.layers))
        for user, _ in problem.graph.readers[i]
        if not bound.may_stay(i, user)
    )


@dataclass
class _Bound:
    problem: Problem

    def result(self) -> FusionBound:
        least = self._least_tiles()
        compute, tiles_pj = sum(c for c, _ in least), sum(e for _, e in least)
        moved = self._dram_bytes()
        bandwidth = self.problem.hardware.dram_bytes_per_cycle
        # One element at least is stored after the last tile.
        latency = max(compute + (self._first_bytes() + 1) / bandwidth, moved / bandwidth)
        energy = tiles_pj + moved * self.problem.hardware.dram_pj_per_byte
        return FusionBound(moved, compute, math.ceil(latency * (1 - 1e-12)), energy)

    @property
    def layers(self) -> tuple[Layer, ...]:
        return self.problem.graph.layers

    # ------------------------------------------------------------------ cover

    @cached_property
    def cover(self) -> list[tuple[int, int]]:
        """Rows and columns of each layer that its tiles cover at least; 0 where only the model itself could say (B2)."""
        found = [(0, 0)] * len(self.layers)
        mended = bool(self.problem.options.flags & WHOLE_OUTPUTS)
        for i in reversed(self.problem.graph.topological):
            layer = self.layers[i]
            needs = [self._needed(i, user, edge, found[user]) for user, edge in self.problem.graph.readers[i]]
            needs = [(min(h, layer.H), min(w, layer.W)) for h, w in needs] or [(layer.H, layer.W)]
            if mended:  # all readers are inside the group, or the whole output is made
                found[i] = max(needs, key=lambda need: need[0] * need[1])
            else:
                found[i] = min(h for h, _ in needs), min(w for _, w in needs)
        return found

    def _needed(self, source: int, user: int, edge: int, cover: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of `source` that all tiles of `user` in the same fine-grained group need together at least."""
        layer, reader = self.layers[source], self.layers[user]
        if edge == WHOLE_EDGE:
            return layer.H, layer.W
        if 0 in cover:
            return 0, 0
        if edge == WEIGHT_EDGE:
            whole = reader.K >= layer.K and reader.C // reader.groups >= layer.H and reader.R * reader.S >= layer.W
            return (layer.H, layer.W) if whole else (0, 0)
        if reader.type is LayerType.FC:
            return (layer.H, layer.W) if reader.R >= layer.H and reader.S >= layer.W else (0, 0)
        if reader.type is LayerType.TRANSPOSE:
            seen = (reader.K, *cover)
            if seen[reader.order.index(0)] < layer.K:
                return 0, 0
            return seen[reader.order.index(1)], seen[reader.order.index(2)]
        if reader.type is LayerType.UPSAMPLE:
            return -(-cover[0] * reader.in_h // reader.H), -(-cover[1] * reader.in_w // reader.W)
        if reader.type in (LayerType.CONV, LayerType.GROUP_CONV, LayerType.POOL):
            return self._windows(reader, cover)
        return cover

    def _windows(self, layer: Layer, cover: tuple[int, int]) -> tuple[int, int]:
        """Input rows and columns of all tiles of a sliding window at least: the least over the number of tiles."""
        span_h, span_w = layer.span
        return (
            _least_window(cover[0], span_h, layer.stride_h, layer.pad_h, layer.in_h),
            _least_window(cover[1], span_w, layer.stride_w, layer.pad_w, layer.in_w),
        )

    # ------------------------------------------------------------------ traffic

    def _volume(self, i: int) -> int:
        """Elements of a layer's output that are computed at least, of the whole batch."""
        rows, columns = self.cover[i]
        return self.problem.batch * self.layers[i].K * rows * columns

    def _read(self, i: int) -> tuple[int, int]:
        """Input rows and columns of a layer that are loaded at least if it reads from outside."""
        layer = self.layers[i]
        if 0 in self.cover[i]:
            return 0, 0
        if layer.type in (LayerType.CONV, LayerType.GROUP_CONV, LayerType.POOL):
            return self._windows(layer, self.cover[i])
        if layer.type in (LayerType.TRANSPOSE, LayerType.UPSAMPLE, LayerType.FC):
            return 0, 0
        return self.cover[i]

    def _dram_bytes(self) -> int:
        """Weights once, what comes from outside, results, and intermediates that fit no group (B1)."""
        graph, batch = self.problem.graph, self.problem.batch
        start, _, channels, whole = graph.externals
        total = 0
        for i in range(len(self.layers)):
            total += int(graph.table[i, WEIGHT_BYTES])
            rows, columns = self._read(i)
            for e in range(int(start[i]), int(start[i + 1])):
                total += batch * (int(whole[e]) if whole[e] > 0 else int(channels[e]) * rows * columns)
            if not self.problem.graph.readers[i]:
                total += self._volume(i)
                continue
            leaving = [(user, edge) for user, edge in self.problem.graph.readers[i] if not self.may_stay(i, user)]
            if leaving:
                total += self._volume(i)
            for user, edge in leaving:
                h, w = self._needed(i, user, edge, self.cover[user])
                total += batch * self.layers[i].K * h * w
        return total

    def may_stay(self, source: int, user: int) -> bool:
        """Whether the data between two layers fits the buffer in some group: tile by tile, or whole (B1)."""
        table, limit = self.problem.graph.table, self.problem.limit_bytes
        first, second = int(table[source, WEIGHT_BYTES]), int(table[user, WEIGHT_BYTES])
        return first + second <= limit or self._volume(source) + max(first, second) <= limit

    def _first_bytes(self) -> int:
        """Bytes that are loaded before the first tile starts at least: the weights of some layer without producers."""
        table = self.problem.graph.table
        return min(int(table[i, WEIGHT_BYTES]) for i, layer in enumerate(self.layers) if not layer.prevs)

    # ------------------------------------------------------------------ tiles

    def _least_tiles(self) -> list[tuple[float, float]]:
        """Least cycles and least pJ of every layer's tiles (B3)."""
        same: dict[Any, tuple[float, float]] = {}
        keys = [
            (tuple(self.problem.graph.table[i].tolist()), self.cover[i], self._priced(i))
            for i in range(len(self.layers))
        ]
        shapes = {key: self.layers[i].H * self.layers[i].W for i, key in enumerate(keys) if key[-1]}
        room = MOST_SHAPES
        for key, size in sorted(shapes.items(), key=lambda item: item[1]):
            divisors = sum(self.problem.batch % b == 0 for b in range(1, self.problem.batch + 1))
            room -= size * divisors
            i = keys.index(key)
            same[key] = self._all_shapes(i) if room >= 0 else self._ideal(i)
        return [same[key] if key[-1] else self._ideal(i) for i, key in enumerate(keys)]

    def _priced(self, i: int) -> bool:
        """Whether all tile shapes of a layer can be listed: the template prices them, and no tile has more channels than the layer."""
        if not isinstance(self.problem.hardware, SomaHardware) or 0 in self.cover[i]:
            return False
        if self.problem.options.flags & CHANNEL_CLAMP:
            return True
        layer = self.layers[i]
        return all(
            edge == IFMAP_EDGE and self.layers[user].C == layer.K and self.layers[user].in_h <= layer.H
            for user, edge in self.problem.graph.readers[i]
        )

    def _all_shapes(self, i: int) -> tuple[float, float]:
        problem, layer = self.problem, self.layers[i]
        assert isinstance(problem.hardware, SomaHardware)  # `_priced` asks
        rows, columns = self.cover[i]
        machine = problem.hardware
        flags = problem.options.flags
        cycles, energy = least_tiles(
            problem.graph.table[i], problem.batch, layer.K, layer.H, layer.W, rows, columns, machine.integers(), machine.reals(), flags
        )  # fmt: skip
        return (cycles, energy) if cycles >= 0 else self._ideal(i)

    def _ideal(self, i: int) -> tuple[float, float]:
        """Cycles of fully busy units; energy of the arithmetic where the template prices it."""
        problem, layer = self.problem, self.layers[i]
        rows, columns = self.cover[i]
        ops = problem.batch * layer.ops * rows * columns / (layer.H * layer.W)
        units = problem.hardware.macs if layer.is_matrix else problem.hardware.vector_unit_lanes
        machine = problem.hardware
        each = 0.0
        if isinstance(machine, SomaHardware):
            each = machine.mac_pj if layer.is_matrix else machine.vector_op_pj
        return ops / units, ops * each


def _least_window(cover: int, span: int, stride: int, pad: int, limit: int) -> int:
    """Least rows of all tiles together: `n` tiles of at least ``ceil(cover / n)`` outputs each, for every n."""
    return min(n * max(min((-(-cover // n) - 1) * stride + span - pad, limit), 0) for n in range(1, cover + 1))
