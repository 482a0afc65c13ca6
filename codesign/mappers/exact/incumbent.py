"""What is minimised, and the best mapping found so far."""

import math
import time
from dataclasses import dataclass

from codesign.cost.kernel import VALID, Kernel, score
from codesign.mappers.base import Objective
from codesign.mapping.nest import Nest

TOLERANCE = 1e-11
"""Relative; two sums of the same figures in another order differ by less, two mappings that matter by more."""


@dataclass(frozen=True)
class Goal:
    """What is minimised, and how slow a mapping may be.

    Args:
        objective: Energy, latency or their product.
        latency_limit: Most cycles allowed.
    """

    objective: Objective
    latency_limit: float = math.inf

    def value(self, energy: float, cycles: float) -> float:
        """The figure to minimise; infinite beyond the latency limit."""
        if cycles > self.latency_limit:
            return math.inf
        if self.objective is Objective.ENERGY:
            return energy
        return cycles if self.objective is Objective.LATENCY else energy * cycles

    def slowest_useful(self, energy: float, incumbent: float) -> float:
        """Cycles at which a mapping of at least this energy no longer beats the incumbent."""
        if self.objective is Objective.ENERGY:
            return self.latency_limit
        limit = incumbent - 1.0 if self.objective is Objective.LATENCY else incumbent / energy
        return min(self.latency_limit, limit)


@dataclass
class Incumbent:
    """The best mapping found and how much work was done; the one mutable thing of a search.

    Args:
        kernel: Scores mappings.
        goal: What is minimised.
        deadline: Value of `time.perf_counter` at which to stop.
    """

    kernel: Kernel
    goal: Goal
    deadline: float = math.inf
    value: float = math.inf
    energy: float = math.inf
    cycles: float = math.inf
    nest: tuple[Nest, int] | None = None
    evaluated: int = 0
    programs: int = 0

    def offer(self, nest: Nest, count: int) -> tuple[float, float]:
        """Score a mapping and keep it if it is the best; returns its energy and cycles."""
        status, energy, cycles = score(self.kernel, nest, count)
        self.evaluated += 1
        if status != VALID:
            raise AssertionError("the exact mapper built a mapping that does not fit")
        value = self.goal.value(energy, cycles)
        if math.isfinite(value) and (value, energy, cycles) < (self.value, self.energy, self.cycles):
            self.value, self.energy, self.cycles = value, energy, cycles
            self.nest = (Nest(nest.loops.copy(), nest.position.copy()), count)
        return energy, cycles

    def beaten_by(self, bound: float) -> bool:
        """Whether something with this lower bound could still be better."""
        return bound < self.value * (1.0 - TOLERANCE) if math.isfinite(self.value) else bound < math.inf

    @property
    def late(self) -> bool:
        """Whether time is up."""
        return time.perf_counter() >= self.deadline
