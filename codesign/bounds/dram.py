"""The least that crosses the DRAM interface, by what the chip holds: exact searches in which only DRAM has a price (rule LB5)."""

import math
from collections.abc import Sequence
from typing import final

import numpy as np
from numpy.typing import NDArray

from codesign.arch.architecture import AccessEnergy, Architecture, Arithmetic, StorageLevel
from codesign.bounds.layer import LayerFacts
from codesign.core.goals import Budget, Objective, Proof
from codesign.core.kept import kept
from codesign.mappers.exact import ExactMapper
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.mapping import Mapping
from codesign.workloads.computation import Computation, Tensor

Floats = NDArray[np.float64]

EFFORT = 2e8
"""Cells one search may fill; a search stopped there still gives its proven bound."""

POOL_STEPS_PER_OCTAVE = 4
"""Private memories taken together are rounded up to steps of this many per doubling, so that few sizes are searched."""

_FREE = AccessEnergy(0.0, 0.0, 0.0)


def least_objective(
    computation: Computation,
    architecture: Architecture,
    objective: Objective = Objective.ENERGY,
    start: Mapping | None = None,
    tolerance: float = 0.0,
    cycle_pj: float = 0.0,
) -> tuple[float, Mapping | None]:
    """The least objective of any even mapping in pJ and cycles, or a proven lower bound of it; and the mapping.

    The mapping has the least, or nearly where the proof was stopped. The value is infinite where nothing fits. Annealing,
    which takes a third of the time of most searches here, is left out.

    Args:
        computation: A layer.
        architecture: The machine on which the layer runs.
        objective: What is minimised.
        start: A mapping that may be good, to begin with.
        tolerance: Relative; the bound may be that much below the least.
        cycle_pj: With the energy: added for every cycle.
    """
    mapper = ExactMapper(effort=EFFORT, start=start, annealed=False, tolerance=tolerance, cycle_pj=cycle_pj)
    found = mapper.map(MappingProblem(computation, architecture), objective, budget=Budget(), seed=0)
    if found.cost is None:
        return math.inf if found.proof is Proof.OPTIMAL else 0.0, None
    value = objective.of(found.cost) + cycle_pj * float(found.cost.latency_cycles)
    return (0.0 if found.gap is None else value / (1.0 + found.gap)), found.mapping


def keeps(level: StorageLevel, tensor: Tensor) -> bool:
    """Whether a level holds a tensor: every level keeps what it may keep."""
    return tensor.name in level.keep or tensor.role.value in level.keep


def pooled(architecture: Architecture, computation: Computation) -> Architecture:
    """DRAM and, for each tensor, its outermost memory on chip, all its instances as one; no array, nothing else has a price.

    Tiles of all children together are one tile of the pool, so what crosses the DRAM interface here is a lower bound for the real machine.
    """
    outer = architecture.levels[0]
    dram = StorageLevel(
        outer.name, outer.kind, None, outer.word_bits, outer.one_element_per_word, outer.keep, energy=_FREE
    )
    left = {t.name for t in computation.tensors}
    levels = [dram]
    for level, instances in zip(architecture.levels[1:], architecture.instances[1:], strict=True):
        first = {t.name for t in computation.tensors if t.name in left and keeps(level, t)}
        if first:
            left -= first
            levels.append(_pool(level, instances, frozenset(first)))
    if left:  # no memory on chip: words come at least once, as for a memory without limit
        levels.append(StorageLevel("Unlimited", word_bits=1, keep=frozenset(left), energy=_FREE))
    return Architecture("pooled", tuple(levels), Arithmetic(bits=1, energy_pj=0.0))


def _pool(level: StorageLevel, instances: int, keep: frozenset[str]) -> StorageLevel:
    capacity = level.capacity_bytes
    if capacity is not None and instances > 1:
        steps = math.ceil(POOL_STEPS_PER_OCTAVE * math.log2(capacity * instances) - 1e-9)
        capacity = math.ceil(2.0 ** (steps / POOL_STEPS_PER_OCTAVE))
    return StorageLevel(
        level.name, level.kind, capacity, level.word_bits, level.one_element_per_word, keep, energy=_FREE
    )


def leaves_holes(architecture: Architecture, computation: Computation) -> bool:
    """Whether children may take parts of a tensor without the words between, which one tile of a pool would hold (C1).

    Steps of more than one word leave such holes. One outermost instance holds them too, several need not.
    """
    for tensor in computation.tensors:
        steps = [c for axis in tensor.axes for d, c in axis.terms if computation.sizes[d] > 1]
        if max(steps, default=1) > 1:
            outermost = next((k for k, v in enumerate(architecture.levels) if k and keeps(v, tensor)), None)
            if outermost is None or architecture.instances[outermost] > 1:
                return True
    return False


@final
class DramTables:
    """Least port words moved and read, by layer, for any memory on chip; every distinct memory is searched once.

    Args:
        layers: The computations.
    """

    def __init__(self, layers: Sequence[LayerFacts]) -> None:
        self._layers = layers
        self._enough: dict[tuple[int, object], list[Floats]] = {}
        self._written: dict[tuple[int, bool], Floats] = {}

    def least(self, architecture: Architecture) -> Floats:
        """Port words moved, and port words read, of every layer: ``layers x 2``; infinite where nothing fits."""
        return np.array([self._of_layer(k, architecture) for k in range(len(self._layers))], dtype=np.float64)

    def _of_layer(self, k: int, architecture: Architecture) -> tuple[float, float]:
        facts = self._layers[k]
        if leaves_holes(architecture, facts.computation):
            read, written = self.compulsory(facts, architecture.levels[0])
            return read + written, read
        return self._search(k, pooled(architecture, facts.computation))

    @kept
    def _search(self, k: int, relaxed: Architecture) -> tuple[float, float]:
        compulsory = self.compulsory(self._layers[k], relaxed.levels[0])
        shape = tuple((v.word_bits, v.one_element_per_word, v.keep) for v in relaxed.levels)
        sizes = np.array([math.inf if v.capacity_bytes is None else v.capacity_bytes for v in relaxed.levels])
        enough = self._enough.setdefault((k, shape), [])
        if any((size <= sizes).all() for size in enough):  # a smaller memory needs every word but once
            return sum(compulsory), compulsory[0]

        def least(energy: AccessEnergy) -> float:
            priced = relaxed.with_level(relaxed.levels[0].name, energy=energy)
            return least_objective(self._layers[k].computation, priced)[0]

        moved = max(least(AccessEnergy(1.0, 1.0, 1.0)), sum(compulsory))
        if moved <= sum(compulsory) * (1.0 + 1e-12):
            enough.append(sizes)
            return moved, compulsory[0]
        return moved, max(least(AccessEnergy(1.0, 0.0, 0.0)), compulsory[0])

    def written(self, dram: StorageLevel) -> Floats:
        """Port words that each layer writes at the least: ``layers``."""
        key = dram.word_bits, dram.one_element_per_word
        if key not in self._written:
            self._written[key] = np.array([self.compulsory(facts, dram)[1] for facts in self._layers])
        return self._written[key]

    @staticmethod
    def compulsory(facts: LayerFacts, dram: StorageLevel) -> tuple[float, float]:
        """Port words read and written by anything that computes the layer: every word used once."""
        words = [
            w * dram.element_bits(t.bits) / dram.word_bits for w, t in zip(facts.words, facts.tensors, strict=True)
        ]
        return float(sum(words[:-1])), float(words[-1])
