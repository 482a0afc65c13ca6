"""Parts of profiles searched by the program over all keep sets; several at a time, each on a thread of its own."""

import math
from dataclasses import dataclass, replace
from threading import local
from typing import final

import numpy as np

from codesign.cost.packed import Kernel, make_kernel
from codesign.mappers.exact.all_keep_sets.joint_profile import JointProfile
from codesign.mappers.exact.all_keep_sets.profile_queue import FOUND, Part
from codesign.mappers.exact.all_keep_sets.screen import Screen
from codesign.mappers.exact.all_keep_sets.shared_problem import JointProblem
from codesign.mappers.exact.incumbent import TOLERANCE, Incumbent, whole_cycles
from codesign.mappers.exact.one_keep_set.fixed_keep_set import KeepSets
from codesign.mappers.exact.one_keep_set.reconstruct import LevelLoops, build_nest
from codesign.mappers.exact.problem.boundary_states import LevelRules
from codesign.mapping.nest import FloatArray

_CELLS_A_PROFILE = 20_000
"""Cells of the dynamic program that take as long as making a profile ready."""


@dataclass(frozen=True)
class Searched:
    """What the search of a part found.

    Attributes:
        part: The part with its bounds raised.
        best: What was found, and the work done; to be taken in by the incumbent of the whole search.
    """

    part: Part
    best: Incumbent


@final
class PartSearch:
    """Runs the program over all keep sets.

    Args:
        problem: Whose profiles.
        screen: Says which states of the program can lead to something better.
    """

    def __init__(self, problem: JointProblem, screen: Screen) -> None:
        self.problem, self.screen = problem, screen
        self.energy_only = np.zeros(1 + problem.n_ports)
        self.energy_only[0] = 1.0
        self._own = local()

    def search(self, part: Part, best: Incumbent) -> Searched:
        """Search a part; nothing that is given is changed.

        Args:
            part: Of a profile.
            best: What is to be beaten: an incumbent of its own, see `Incumbent.apart`.
        """
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
        self.problem, self.part, self.best, self.energy_only = owner.problem, part, best, owner.energy_only
        row = np.array(part.row)
        self.profile = JointProfile(self.problem, row)
        cap = float(best.goal.dearest_useful(np.array(part.cycles), best.to_beat))
        self.live = owner.screen.live(row, self.energy_only, cap, self.profile.program)
        self.restricted = self._restriction()

    def run(self) -> Searched:
        """Bound the part, and score what the program finds."""
        part = self.part
        part = self._valued(replace(part, energy=max(part.energy, self._run(self.energy_only))))
        if self.best.goal.trades and self.problem.n_ports and self.best.beaten_by(part.value):
            part = self._trade(part)
            if self.best.beaten_by(part.value):
                self._run(self.energy_only)
        if self.best.beaten_by(part.value):
            part = replace(part, stage=FOUND, found=self._offer())
        return Searched(part, self.best)

    def _run(self, weight: FloatArray) -> float:
        value = self.profile.run(weight, self.restricted, self.live)
        self.best.count(_CELLS_A_PROFILE + float(self.live.sum()) * self.profile.exact.lattice.n_tiles)
        return value

    def _valued(self, part: Part) -> Part:
        return replace(part, value=max(part.value, self.best.goal.value(part.energy, part.cycles)))

    def _offer(self) -> KeepSets:
        """Score the mapping that the program found, if it obeys all constraints; returns what it keeps where."""
        loops, keep = self.profile.trace()
        instance = self.problem.instance
        if all(_obeys(level, rules) for level, rules in zip(loops, instance.rules, strict=True)):
            self.best.offer(*build_nest(instance, keep, loops))
        return keep

    def _trade(self, part: Part) -> Part:
        """Bounds on the cycles, and on energy and cycles together (bound B6), over all keep sets of the part."""
        quickest, slowest = part.cycles, -1
        for j in range(self.problem.n_ports):
            weight = np.zeros_like(self.energy_only)
            weight[1 + j] = 1.0
            cycles = whole_cycles(self._run(weight))
            if cycles > quickest:
                quickest, slowest = cycles, j
        part = self._valued(replace(part, cycles=quickest))
        for j in range(self.problem.n_ports) if slowest < 0 else (slowest,):
            if not self.best.beaten_by(part.value):
                return part
            price = self.best.goal.cycle_pj or part.energy / part.cycles
            weight = self.energy_only.copy()
            weight[1 + j] = price
            both = self._run(weight) * (1.0 - TOLERANCE)
            if math.isinf(both):  # nothing of the part can win
                return replace(part, value=math.inf)
            self._offer()
            if self.best.goal.cycle_pj:
                part = replace(part, value=max(part.value, both))
            elif both > part.energy + price * part.cycles:
                # energy + price x cycles >= both: the product is least at an end of that line
                ends = (
                    part.energy * whole_cycles((both - part.energy) / price),
                    (both - price * part.cycles) * part.cycles,
                )
                part = replace(part, value=max(part.value, min(ends)))
        return part

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
