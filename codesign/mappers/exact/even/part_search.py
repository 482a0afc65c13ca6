"""A part of a profile searched by the program."""

import math
from dataclasses import replace
from typing import final

import numpy as np

from codesign.core.goals import Objective
from codesign.mappers.exact.even.branch_and_bound import bound_both, sought_by
from codesign.mappers.exact.even.profile import EvenProfile, KeepSets
from codesign.mappers.exact.even.profile_queue import FOUND, Part
from codesign.mappers.exact.even.screen import Screen
from codesign.mappers.exact.even.shared_problem import EvenProblem
from codesign.mappers.exact.incumbent import Incumbent
from codesign.mappers.exact.problem.instance import LevelRules
from codesign.mapping.nest import FloatArray

_CELLS_A_PROFILE = 20_000
"""Cells of the dynamic program that take as long as making a profile ready."""


@final
class PartSearch:
    """The search of a part of a profile by the program.

    Args:
        problem: Whose profile.
        screen: Says which states of the program can lead to something better.
        part: The part.
        best: What is to be beaten, and takes what is found: an incumbent of its own, see `Incumbent.apart`.
    """

    def __init__(self, problem: EvenProblem, screen: Screen, part: Part, best: Incumbent) -> None:
        self.problem, self.part, self.best = problem, part, best
        row, cap = np.array(part.row), math.inf
        self.profile = EvenProfile(self.problem, row)
        if best.goal.objective is not Objective.LATENCY:
            cap = float(best.goal.dearest_useful(np.array(part.cycles), best.to_beat))
        self.live = screen.live(row, problem.weights(1.0), cap, self.profile.program)
        self.restricted = self._restriction()

    def run(self) -> Part:
        """The part with its bounds raised; what the program finds is scored."""
        goal, part = self.best.goal, self.part
        main = sought_by(goal, self.problem, float(self.profile.price[0, :, :-1].max(initial=0.0)))
        least = self._run(main)
        if math.isinf(least):
            return replace(part, value=math.inf)
        if goal.objective is not Objective.LATENCY:
            part = replace(part, energy=max(part.energy, least))
        part = self._valued(part)
        if (goal.trades or goal.timed) and self.problem.n_ports and self.best.beaten_by(part.value):
            figures = part.energy, part.cycles, part.value
            quickest, value = bound_both(self._least, range(self.problem.n_ports), *figures, self.best)
            part = replace(part, cycles=quickest, value=value)
            if self.best.overdue:
                return part
            if self.best.beaten_by(part.value):
                self._run(main)
        if self.best.beaten_by(part.value):
            part = replace(part, stage=FOUND, found=self._offer())
        return part

    def _run(self, weight: FloatArray) -> float:
        value = self.profile.run(weight, self.restricted, self.live)
        self.best.count(_CELLS_A_PROFILE + float(self.live.sum()) * self.profile.lattice.n_tiles)
        return value

    def _valued(self, part: Part) -> Part:
        return replace(part, value=max(part.value, self.best.goal.value(part.energy, part.cycles)))

    def _offer(self) -> KeepSets:
        """Score the mapping that the program found, if it obeys all constraints; returns what it keeps where."""
        found, rules = self.profile.trace(), self.problem.instance.rules
        if self.best.may_score and all(map(_obeys, found.loops, rules)):
            self.best.offer(self.profile.nest(found.keep, found.loops))
        return found.keep

    def _least(self, energy: float, cycles: float, port: int) -> float:
        """Least weighted sum of energy and the cycles of a port; its nest is scored if both count."""
        value = self._run(self.problem.weights(energy, cycles, port))
        if energy and math.isfinite(value):
            self._offer()
        return value

    def _restriction(self) -> FloatArray | None:
        """``L x 2**T`` infinite where a level would keep what the part does not let it, or not what it must."""
        if not self.part.fixed:
            return None
        masks = np.arange(1 << self.problem.instance.n_tensors)
        table = np.zeros((self.problem.instance.n_levels, len(masks)))
        for v, t, kept in self.part.fixed:
            table[v, (masks >> t & 1) != kept] = np.inf
        return table


def _obeys(loops: dict[int, int], rules: LevelRules) -> bool:
    """Whether the temporal loops of a level have the factors and the order that are fixed."""
    innermost = [d for d in rules.ordered if d in loops]
    return list(loops)[: len(innermost)] == innermost and all(loops.get(d, 1) == f for d, f in rules.fixed)
