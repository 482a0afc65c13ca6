"""Intra-core costs from this project's own mappers and cost kernel, for any architecture.

The architecture is split at its outermost on-chip level: that level is the global buffer whose contents the scheduler plans, the level
above it is the DRAM channel, and what lies below, buffer ports included, runs one tile at a time. A tile is a computation of its own,
mapped on the architecture without its DRAM; the buffer's capacity is the scheduler's concern, so there the tile always fits.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import final

import numpy as np
import numpy.typing as npt

from codesign.arch.architecture import Architecture, LevelKind, StorageLevel
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.core.kernel_library import IntArray
from codesign.mappers.protocol import Mapper
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.mapping import Mapping
from codesign.scheduling.soma.model import hardware as hw
from codesign.scheduling.soma.model import layer_graph as nw
from codesign.scheduling.soma.model.hardware import Memory, SomaHardware
from codesign.workloads.computation import Computation
from codesign.workloads.operators import conv2d

TilePrice = tuple[int, float, float, float, float, float]
"""Cycles (-1: no mapping), pJ in all, of the global buffer, of the levels below, of the interconnect, of the arithmetic."""

NO_PRICE: TilePrice = (-1, 0.0, 0.0, 0.0, 0.0, 0.0)
UNLIMITED_BYTES_PER_CYCLE = 1 << 40
ELEMENT_BITS = 8
"""Width of an element: the model counts one byte each."""


def tile_computation(row: IntArray, b: int, k: int, h: int, w: int) -> Computation:
    """The tile ``b x k x h x w`` of a matrix layer as one (grouped) convolution.

    Products of two activations count every sample as a group of its own, because weights differ from sample to sample.
    """
    groups, channels, kernels = 1, int(row[nw.C]), k
    if row[nw.TYPE] == nw.LayerType.GROUP_CONV:
        groups, channels, kernels = -(-k // int(row[nw.KG])), int(row[nw.CG]), int(row[nw.KG])
    if row[nw.DYNAMIC]:
        groups, b = groups * b, 1
    dilation = [
        (int(row[span]) - 1) // max(int(row[taps]) - 1, 1) or 1 for span, taps in ((nw.SPAN_H, nw.R), (nw.SPAN_W, nw.S))
    ]
    return conv2d(
        N=b, K=groups * kernels, C=groups * channels, P=h, Q=w, R=int(row[nw.R]), S=int(row[nw.S]), G=groups,
        stride=(int(row[nw.SH]), int(row[nw.SW])), dilation=(dilation[0], dilation[1]), bits=ELEMENT_BITS, partial_bits=24,
    )  # fmt: skip


@final
@dataclass(frozen=True)
class MappedPlatform:
    """Any architecture of this project as the scheduler sees it; tiles are priced by a mapper.

    Args:
        architecture: DRAM first, the global buffer second, then at least one level of the core; energies filled in.
        mapper: Finds the mapping of every tile.
        budget: Of each tile's mapping search.
        objective: What each tile's mapping minimises.
        seed: Of stochastic mappers.
        prices: What was priced so far, by computation.
        mappings: And how it is mapped.

    Raises:
        UserError: The architecture has no DRAM or no core below its buffer, or lacks a size, a bandwidth or an energy.
    """

    architecture: Architecture
    mapper: Mapper
    budget: Budget = field(default_factory=lambda: Budget(evaluations=2000))
    objective: Objective = Objective.EDP
    seed: int = 0
    prices: dict[Computation, TilePrice] = field(default_factory=dict, compare=False, repr=False)
    mappings: dict[Computation, Mapping] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        where = f"architecture {self.architecture.name!r}"
        levels = self.architecture.levels
        if len(levels) < 3 or levels[0].kind is not LevelKind.DRAM or levels[1].kind is LevelKind.DRAM:
            names = ", ".join(f"{level.name} ({level.kind.value})" for level in levels)
            raise UserError(f"expected a DRAM level, a global buffer and levels below it, got {names}", where=where)
        if levels[1].capacity_bytes is None:
            raise UserError(f"the global buffer {levels[1].name!r} needs a capacity", where=where)
        if levels[0].words_per_cycle[0] is None:
            raise UserError(f"the level {levels[0].name!r} needs a read bandwidth", where=where)
        if self.architecture.mac.energy_pj is None or any(level.energy is None for level in levels):
            raise UserError("a level or the MAC has no energy", where=where, hint="name a technology")
        if self.architecture.mac.bits != ELEMENT_BITS:
            raise UserError(
                f"this scheduler counts elements of {ELEMENT_BITS} bits, the MACs take {self.architecture.mac.bits}",
                where=where,
                hint=f"give `mac: {{bits: {ELEMENT_BITS}}}`, or use --scheduler cosma or codesign map --network, which take any width",
            )

    @property
    def name(self) -> str:
        """The architecture's name."""
        return self.architecture.name

    @property
    def gbuf(self) -> Memory:
        """The level below DRAM as the global buffer that the scheduler plans."""
        level = self.architecture.levels[1]
        energy = level.energy
        assert energy is not None and level.capacity_bytes is not None  # checked when made
        per_word = level.word_bits / 8
        return Memory(int(level.capacity_bytes), energy.read_pj / per_word, energy.update_pj / per_word)

    @property
    def dram_bytes_per_cycle(self) -> int:
        """Bandwidth of DRAM in whole bytes per cycle, at least one."""
        level = self.architecture.levels[0]
        return max(_bytes_per_cycle(level), 1)

    @property
    def dram_pj_per_byte(self) -> float:
        """Mean of a byte read and a byte written."""
        level = self.architecture.levels[0]
        assert level.energy is not None  # checked when made
        return (level.energy.read_pj + level.energy.update_pj) / 2 / (level.word_bits / 8)

    @property
    def macs(self) -> int:
        """Multipliers of the whole machine."""
        return self.architecture.mac_units

    @property
    def vector_unit_lanes(self) -> int:
        """A vector unit as wide as the longer side of the MAC array (rule E6 of docs/reference/evaluation.md)."""
        return max(self.architecture.mesh)

    @property
    def pe_dim(self) -> int:
        """Side of the square of children below the global buffer, the array that a tiling rule fills."""
        return max(math.isqrt(self.architecture.levels[1].fanout.size), 1)

    @property
    def vector_lanes(self) -> int:
        """Input channels a child reduces per cycle, of a nearly square split of its multipliers."""
        return max(math.isqrt(self.macs // self.pe_dim**2), 1)

    @property
    def kernel_lanes(self) -> int:
        """Output channels a child computes per cycle."""
        return max(self.macs // self.pe_dim**2 // self.vector_lanes, 1)

    @cached_property
    def core(self) -> Architecture:
        """The architecture from the global buffer inwards, the buffer unbounded."""
        _dram, buffer, *inner = self.architecture.levels
        outer = replace(buffer, capacity_bytes=None, keep=frozenset({"input", "weight", "output"}))
        return replace(self.architecture, levels=(outer, *inner))

    def integers(self) -> npt.NDArray[np.int64]:
        """What the compiled scheduler reads (`hardware.N_INTS` entries); those of the PE are 0, a mapper knows them."""
        values = np.zeros(hw.N_INTS, np.int64)
        values[hw.GBUF_BW] = _bytes_per_cycle(self.architecture.levels[1])
        values[hw.VECTOR_UNIT] = self.vector_unit_lanes
        values[hw.DRAM_BW] = self.dram_bytes_per_cycle
        return values

    def reals(self) -> npt.NDArray[np.float64]:
        """Energies the compiled scheduler reads (`hardware.N_REALS` entries); those of the PE are 0, a mapper knows them."""
        values = np.zeros(hw.N_REALS)
        values[hw.E_MAC] = values[hw.E_VECTOR] = self.architecture.mac.energy_pj or 0.0
        values[hw.E_DRAM] = self.dram_pj_per_byte
        values[hw.E_GBUF_R], values[hw.E_GBUF_W] = self.gbuf.read_pj_per_byte, self.gbuf.write_pj_per_byte
        return values

    def tile_price(self, row: IntArray, shape: Sequence[int]) -> TilePrice:
        """Cost of the tile ``(b, k, h, w)`` of the matrix layer with this row of `LayerGraph.table`; each computation is mapped once."""
        b, k, h, w = (int(v) for v in shape[:4])
        computation = tile_computation(row, b, k, h, w)
        if computation not in self.prices:
            self.prices[computation] = self._map(computation)
        return self.prices[computation]

    def tile_mapping(self, computation: Computation) -> Mapping:
        """How a tile that has a price is mapped; priced elsewhere (another process), it is mapped again, from the same seed."""
        if computation not in self.mappings:
            self._map(computation)
        return self.mappings[computation]

    def _map(self, computation: Computation) -> TilePrice:
        problem = MappingProblem(computation, self.core)
        result = self.mapper.map(problem, self.objective, budget=self.budget, seed=self.seed)
        cost = result.cost
        if cost is None or result.mapping is None:
            return NO_PRICE
        self.mappings[computation] = result.mapping
        below = sum(level.energy_pj for level in cost.levels[1:])
        links = sum(level.network_pj for level in cost.levels)
        return cost.latency_cycles, cost.energy_pj, cost.levels[0].energy_pj, below, links, cost.mac_energy_pj


Platform = SomaHardware | MappedPlatform
"""What the scheduler reads of an accelerator: the published template, or any architecture behind a mapper."""


def _bytes_per_cycle(level: StorageLevel) -> int:
    words, _ = level.words_per_cycle
    return UNLIMITED_BYTES_PER_CYCLE if words is None else max(round(words * level.word_bits / 8), 1)
