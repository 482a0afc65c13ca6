"""Tiles of layers on cores that are architectures: each mapped by the exact mapper, once for a kind and a shape (rule M125)."""

from typing import final

import numpy as np

from codesign.arch.core_kinds import own_architecture
from codesign.arch.many_core import CoreKind
from codesign.core.goals import Budget, Objective, Proof
from codesign.core.kernel_library import FloatArray
from codesign.mappers.exact.mapper import ExactMapper
from codesign.mapping.constraints import MappingProblem
from codesign.scheduling.segments.kernels import core_mapper
from codesign.workloads.computation import Computation
from codesign.workloads.operators import conv2d

Sizes = tuple[int, ...]
"""Of a tile in the order of `core_mapper.Tile`."""


def computation_of(tile: Sizes) -> Computation:
    """A tile as the exact mapper takes it."""
    c, k, r, s, h, w, stride_h, stride_w, b, groups = tile
    return conv2d(
        N=b, K=groups * k, C=groups * c, P=h, Q=w, R=r, S=s, G=groups,
        stride=(stride_h, stride_w), bits=8, partial_bits=24,
    )  # fmt: skip


@final
class MappedCores:
    """What the exact mapper found for tiles, for all searches of one process.

    Attributes:
        unproven: Tiles whose mapping is not proven to be the best.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[CoreKind, Sizes], FloatArray] = {}
        self.unproven = 0

    def figures(self, kind: CoreKind, tile: Sizes) -> FloatArray:
        """Energy, cycles and parts of a tile; the last entry is energy x cycles, negative where there is no mapping."""
        found = self._found.get((kind, tile))
        if found is None:
            found = self._found[kind, tile] = self._map(kind, tile)
        return found

    def _map(self, kind: CoreKind, tile: Sizes) -> FloatArray:
        problem = MappingProblem(computation_of(tile), own_architecture(kind))
        result = ExactMapper().map(problem, Objective.EDP, budget=Budget(), seed=0)
        found = np.zeros(core_mapper.FIGURES + 1)
        if result.cost is None:
            found[core_mapper.FIGURES] = -1.0
            return found
        self.unproven += result.proof is not Proof.OPTIMAL
        cost, links = result.cost, sum(level.network_pj for level in result.cost.levels)
        found[core_mapper.ENERGY], found[core_mapper.CYCLES] = cost.energy_pj, float(cost.latency_cycles)
        found[core_mapper.BIG_BUFFER] = cost.levels[0].energy_pj
        found[core_mapper.SMALL_BUFFERS] = sum(level.energy_pj for level in cost.levels[1:])
        found[core_mapper.BUS], found[core_mapper.MAC] = links, cost.mac_energy_pj
        found[core_mapper.FIGURES] = cost.energy_pj * float(cost.latency_cycles)
        return found


MAPPED = MappedCores()
"""Shared by all evaluators: figures follow from kind and tile alone."""
