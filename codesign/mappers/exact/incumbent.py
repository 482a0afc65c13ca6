"""What is minimised, and the best mapping found so far."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from codesign.core import clock
from codesign.core.goals import Objective
from codesign.cost.kernel import score
from codesign.cost.packed import VALID, Kernel
from codesign.mapping.nest import FloatArray, Nest

Figure = TypeVar("Figure", float, FloatArray)

TOLERANCE = 1e-11
"""Relative; two sums of the same figures in another order differ by less, two mappings that matter by more."""

_WORTH_ASKING = 5e6
"""Cells of the dynamic program that take as long as the second opinion; a search that ends sooner needs none."""


def whole_cycles(cycles: Figure) -> Figure:
    """Cycles rounded up, forgiving the rounding of sums."""
    whole: Figure = np.ceil(cycles * (1.0 - TOLERANCE))
    return whole


@dataclass(frozen=True)
class Goal:
    """What is minimised, and how slow a mapping may be.

    Args:
        objective: Energy, latency or their product.
        latency_limit: Most cycles allowed.
        cycle_pj: With energy: what every cycle counts beside it.
    """

    objective: Objective
    latency_limit: float = math.inf
    cycle_pj: float = 0.0

    @property
    def energy_alone(self) -> bool:
        """Whether cycles do not matter."""
        return self.objective == Objective.ENERGY and not self.cycle_pj and math.isinf(self.latency_limit)

    @property
    def timed(self) -> bool:
        """Whether cycles are limited or minimised."""
        return self.objective is Objective.LATENCY or math.isfinite(self.latency_limit)

    @property
    def trades(self) -> bool:
        """Whether energy and cycles both count."""
        return self.objective == Objective.EDP or self.cycle_pj > 0.0

    def value(self, energy: Figure, cycles: Figure) -> Figure:
        """The figure to minimise; infinite beyond the latency limit."""
        if self.objective == Objective.ENERGY:
            value = energy + self.cycle_pj * cycles if self.cycle_pj else energy
        else:
            value = cycles if self.objective == Objective.LATENCY else energy * cycles
        if math.isinf(self.latency_limit):
            return value
        return np.where(cycles > self.latency_limit, np.inf, value)[()]  # type: ignore[return-value]

    def slowest_useful(self, energy: float, incumbent: float) -> float:
        """Cycles at which a mapping of at least this energy no longer beats the incumbent."""
        if self.objective == Objective.ENERGY:
            return (
                min(self.latency_limit, (incumbent - energy) / self.cycle_pj) if self.cycle_pj else self.latency_limit
            )
        limit = incumbent - 1.0 if self.objective == Objective.LATENCY else incumbent / energy
        return min(self.latency_limit, limit)

    def dearest_useful(self, cycles: Figure, incumbent: float) -> Figure:
        """Energies at which mappings of at least these cycles no longer beat the incumbent; not for latency."""
        if self.objective == Objective.ENERGY:
            return incumbent - self.cycle_pj * cycles
        return incumbent / cycles


@dataclass
class Incumbent:
    """The best mapping found and how much work was done; the one mutable thing of a search.

    Args:
        deadline: Value of `clock.wall_seconds` at which to stop.
        effort: Cells of the dynamic program to fill at most.
        scored: Mappings to score at most.
        second_opinion: Finds a good mapping quickly, with so many scored at most and by a deadline, and says how many it scored;
            asked once, when proving takes longer.
        tolerance: Relative; what could be better by no more than this is left out.
    """

    kernel: Kernel
    goal: Goal
    deadline: float = math.inf
    effort: float = math.inf
    scored: float = math.inf
    second_opinion: Callable[[float, float], tuple[Nest | None, int]] | None = None
    tolerance: float = TOLERANCE
    value: float = math.inf
    energy: float = math.inf
    cycles: float = math.inf
    nest: Nest | None = None
    evaluated: int = 0
    spent: float = 0.0

    def offer(self, nest: Nest) -> tuple[float, float]:
        """Score a mapping and keep it if it is the best; returns its energy and cycles."""
        status, energy, cycles = score(self.kernel, nest, len(nest.loops))
        self.evaluated += 1
        if status != VALID:
            raise AssertionError("the exact mapper built a mapping that does not fit")
        value = self.goal.value(energy, cycles)
        if math.isfinite(value) and (value, energy, cycles) < (self.value, self.energy, self.cycles):
            self.value, self.energy, self.cycles = value, energy, cycles
            self.nest = Nest(nest.loops.copy(), nest.position.copy())
        return energy, cycles

    def take(self, nest: Nest | None, scored: int) -> None:
        """Take in a mapping that others have found and scored among so many, if they found one."""
        self.evaluated += scored
        if nest is not None:
            self.evaluated -= 1  # it is scored again here
            self.offer(nest)

    def apart(self) -> "Incumbent":
        """What a search beside this one has to beat; what it finds is taken in by `merge`."""
        limits, left = (self.value, self.energy, self.cycles), self.scored - self.evaluated
        return Incumbent(self.kernel, self.goal, self.deadline, math.inf, left, None, self.tolerance, *limits)

    def merge(self, other: "Incumbent") -> None:
        """Take in what a search beside this one found, and its work."""
        self.evaluated += other.evaluated
        self.count(other.spent)
        found = other.value, other.energy, other.cycles
        if other.nest is not None and found < (self.value, self.energy, self.cycles):
            (self.value, self.energy, self.cycles), self.nest = found, other.nest

    def count(self, cells: float) -> None:
        """Note work done, in cells of the program filled."""
        self.spent += cells

    def ask(self, at_once: bool = False) -> None:
        """Get the second opinion if that is due, or at once."""
        if self.second_opinion is not None and (at_once or self.spent >= _WORTH_ASKING):
            found, self.second_opinion = self.second_opinion(self.scored - self.evaluated, self.deadline), None
            self.take(*found)

    def beaten_by(self, bound: float) -> bool:
        """Whether something with this lower bound could still be better."""
        return bound < self.to_beat

    @property
    def to_beat(self) -> float:
        """What something must stay below to be better."""
        return self.value * (1.0 - self.tolerance)

    @property
    def floor(self) -> float:
        """What nothing left out as no better is below; infinite where only mappings that cannot matter were left out."""
        return self.value * (1.0 - self.tolerance) if self.tolerance > TOLERANCE else math.inf

    @property
    def overdue(self) -> bool:
        """Whether there is a mapping, and time is used up."""
        return math.isfinite(self.value) and clock.wall_seconds() >= self.deadline

    @property
    def late(self) -> bool:
        """Whether time, effort or evaluations are used up."""
        return self.spent >= self.effort or not self.may_score or clock.wall_seconds() >= self.deadline

    @property
    def may_score(self) -> bool:
        """Whether another mapping may be scored."""
        return self.evaluated < self.scored

    @property
    def stopped(self) -> bool:
        """Whether the search ends here. Without a mapping it goes on until evaluations are used up, once annealing found none."""
        if not self.late:
            return False
        if self.nest is None:
            self.ask(at_once=True)
        return self.nest is not None or not self.may_score
