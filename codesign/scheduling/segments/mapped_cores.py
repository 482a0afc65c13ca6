"""Tiles of layers on cores that are architectures: each mapped by the exact mapper, once for a kind and a shape (rule M125)."""

from functools import cache

import numpy as np

from codesign.arch.core_kinds import own_architecture
from codesign.arch.many_core import CoreKind
from codesign.core.goals import Budget, Objective
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


@cache
def mapped_figures(kind: CoreKind, tile: Sizes) -> FloatArray:
    """Energy, cycles and parts of a tile by the exact mapper, once for all searches of a process; not to be written to.

    The last entry is energy x cycles, negative where there is no mapping.
    """
    problem = MappingProblem(computation_of(tile), own_architecture(kind))
    cost = ExactMapper().map(problem, Objective.EDP, budget=Budget(), seed=0).cost
    found = np.zeros(core_mapper.FIGURES + 1)
    if cost is None:
        found[core_mapper.FIGURES] = -1.0
        return found
    found[core_mapper.ENERGY], found[core_mapper.CYCLES] = cost.energy_pj, float(cost.latency_cycles)
    found[core_mapper.BIG_BUFFER] = cost.levels[0].energy_pj
    found[core_mapper.SMALL_BUFFERS] = sum(level.energy_pj for level in cost.levels[1:])
    found[core_mapper.BUS] = sum(level.network_pj for level in cost.levels)
    found[core_mapper.MAC] = cost.mac_energy_pj
    found[core_mapper.FIGURES] = cost.energy_pj * float(cost.latency_cycles)
    return found
