"""Parts of profiles searched by the program; several at a time, each on a thread of its own."""

import math
from dataclasses import replace
from functools import partial
from threading import local
from typing import final

import numpy as np

from codesign.core.goals import Objective
from codesign.cost.packed import Kernel, make_kernel
from codesign.mappers.exact.even.branch_and_bound import sought_by, trade
from codesign.mappers.exact.even.profile import EvenProfile, KeepSets, LevelLoops, build_nest
from codesign.mappers.exact.even.profile_queue import FOUND, Part
from codesign.mappers.exact.even.screen import Screen
from codesign.mappers.exact.even.shared_problem import EvenProblem
from codesign.mappers.exact.incumbent import Goal, Incumbent, whole_cycles
from codesign.mappers.exact.problem.instance import LevelRules
from codesign.mapping.nest import FloatArray

_CELLS_A_PROFILE = 20_000
"""Cells of the dynamic program that take as long as making a profile ready."""


def is_timed(goal: Goal) -> bool:
    """Whether cycles are limited or minimised."""
    return goal.objective is Objective.LATENCY or math.isfinite(goal.latency_limit)


@final
class PartSearch:
    """Runs the program for parts of profiles.

    Args:
        problem: Whose profiles.
        screen: Says which states of the program can lead to something better.
        goal: What is minimised.
    """

    def __init__(self, problem: EvenProblem, screen: Screen, goal: Goal) -> None:
        self.problem, self.screen, self.goal = problem, screen, goal
        self.by_latency = goal.objective is Objective.LATENCY
        self.timed = is_timed(goal)
        self.energy_only = np.zeros(1 + problem.n_ports)
        self.energy_only[0] = 1.0
        self._own = local()

    def search(self, part: Part, best: Incumbent) -> Part:
        """The part with its bounds raised; nothing that is given is changed but the incumbent. Once that is overdue the part comes back as it is.

        Args:
            part: Of a profile.
            best: What is to be beaten, and takes what is found: an incumbent of its own, see `Incumbent.apart`.
        """
        if best.overdue:
            return part
        best.kernel = self._kernel()
        return _Search(self, part, best).run()

    def _kernel(self) -> Kernel:
        """Scratch space to score mappings in, one for each thread."""
        found: Kernel | None = getattr(self._own, "kernel", None)
        if found is None:
            instance = self.problem.instance
            found = self._own.kernel = make_kernel(instance.problem, instance.most_loops)
        return found


class _Search:
    """The search of one part.

    Args:
        owner: What all searches share.
        part: The part.
        best: Improved in place.
    """

    def __init__(self, owner: PartSearch, part: Part, best: Incumbent) -> None:
        self.owner, self.problem, self.part, self.best = owner, owner.problem, part, best
        row, cap = np.array(part.row), math.inf
        self.profile = EvenProfile(self.problem, row)
        if not owner.by_latency:
            cap = float(best.goal.dearest_useful(np.array(part.cycles), best.to_beat))
        self.live = owner.screen.live(row, owner.energy_only, cap, self.profile.program)
        self.restricted = self._restriction()

    def run(self) -> Part:
        """Bound the part, and score what the program finds."""
        owner, part = self.owner, self.part
        main = sought_by(owner.goal, self.problem.n_ports, float(self.profile.price[0, :, :-1].max(initial=0.0)))
        least = self._run(main)
        if math.isinf(least):
            return replace(part, value=math.inf)
        if not owner.by_latency:
            part = replace(part, energy=max(part.energy, least))
        part = self._valued(part)
        if (owner.goal.trades or owner.timed) and self.problem.n_ports and self.best.beaten_by(part.value):
            part = self._trade(part)
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
        found, instance = self.profile.trace(), self.problem.instance
        if self.best.may_score and all(
            _obeys(level, rules) for level, rules in zip(found.levels, instance.rules, strict=True)
        ):
            self.best.offer(*build_nest(instance, found.keep, found.levels))
        return found.keep

    def _trade(self, part: Part) -> Part:
        """Bounds on the cycles, and on energy and cycles together (bound B6), over all keep sets of the part."""
        quickest, slowest = part.cycles, -1
        for j in range(self.problem.n_ports):
            if self.best.overdue:
                break
            weight = np.zeros_like(self.owner.energy_only)
            weight[1 + j] = 1.0
            cycles = whole_cycles(self._run(weight))
            if cycles > quickest:
                quickest, slowest = cycles, j
        part = self._valued(replace(part, cycles=quickest))
        for j in range(self.problem.n_ports) if slowest < 0 else (slowest,):
            if self.best.beaten_by(part.value):
                value = trade(partial(self._weighed, port=j), part.energy, part.cycles, self.best)
                part = replace(part, value=max(part.value, value))
        return part

    def _weighed(self, weight: float, port: int) -> float:
        """Least of energy and the cycles of a port weighed together; its nest is scored."""
        weights = self.owner.energy_only.copy()
        weights[1 + port] = weight
        both = self._run(weights)
        if math.isfinite(both):
            self._offer()
        return both

    def _restriction(self) -> FloatArray | None:
        """``L x 2**T`` infinite where a level would keep what the part does not let it, or not what it must."""
        if not self.part.fixed:
            return None
        masks = np.arange(1 << self.problem.instance.n_tensors)
        table = np.zeros((self.problem.instance.n_levels, len(masks)))
        for v, t, kept in self.part.fixed:
            table[v, (masks >> t & 1) != kept] = np.inf
        return table


def _obeys(loops: LevelLoops, rules: LevelRules) -> bool:
    """Whether the temporal loops of a level have the factors and the order that are fixed."""
    factors, looped = dict(loops.temporal), [d for d, _ in loops.temporal]
    innermost = [d for d in rules.ordered if d in factors]
    return looped[: len(innermost)] == innermost and all(factors.get(d, 1) == f for d, f in rules.fixed)
