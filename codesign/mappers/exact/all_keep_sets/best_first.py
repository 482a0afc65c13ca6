"""Free keep sets: profiles in the order of their bounds, each with all its keep sets at once.

A profile here is one vector of spatial factors for each fan-out. Its bound gets sharper in steps: sums over chains of
keeping levels, for all profiles that are alike (bound B3) and for the profile itself; the pruned program, for a block of
profiles at a time; then, for the one of the least bound, the exact program. The last one gives a mapping too, which
mostly costs what the bound says. Where it does not (a port slows it down, a chain was counted on, an order or a factor is
fixed) its keep sets are searched on their own, and the profile goes on without them.
"""

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from codesign.core.goals import Objective
from codesign.core.in_order import InOrder
from codesign.mappers.exact.all_keep_sets.part_search import PartSearch, Searched
from codesign.mappers.exact.all_keep_sets.profile_queue import CHAINS, FOUND, SCREENED, Part, ProfileQueue, Rows
from codesign.mappers.exact.all_keep_sets.screen import Screen
from codesign.mappers.exact.all_keep_sets.shared_problem import expand
from codesign.mappers.exact.free_keep_sets import FreeKeep
from codesign.mappers.exact.incumbent import TOLERANCE, Goal, Incumbent
from codesign.mappers.exact.one_keep_set.branch_and_bound import bound_values, open_profile, search_profile
from codesign.mappers.exact.one_keep_set.fixed_keep_set import FixedKeep, KeepSets
from codesign.mappers.exact.problem.instance import Instance
from codesign.mapping.constraints import Keep
from codesign.mapping.nest import FloatArray, IntArray

_CELLS_BOUNDED = 200
"""The same of bounding a profile in closed form."""

_WARM = 64
"""Keep sets whose arrays over all tiles stay in memory."""

_COARSE_AT_A_TIME = 1024
"""Coarse profiles opened at a time once there is a good incumbent."""

_FEWEST_AT_A_TIME, _MOST_AT_A_TIME = 16, 512
"""Profiles the pruned program bounds at a time: few before there is a good incumbent, then many."""

_TESTED_ENOUGH, _WORTH_TESTING = 64, 0.02
"""A port that drops a smaller share of so many profiles is left to the program itself."""


def can_search(instance: Instance, goal: Goal) -> bool:
    """Whether the program over all keep sets covers the problem: at most one tensor slides, in a way that is followed."""
    if goal.objective == Objective.LATENCY or math.isfinite(goal.latency_limit):
        return False
    sliding = [t for t, axes in enumerate(instance.sliding_axes) if axes]
    return len(sliding) <= 1 and not any(instance.bounded_only(t) for t in sliding)


class JointSearch:
    """Searches all profiles and keep sets of an instance for least energy or energy-delay product.

    Args:
        free: Bounds of coarse profiles.
        best: The incumbent, improved in place.
        threads: Profiles to bound at a time; compiled code runs beside compiled code.
    """

    def __init__(self, free: FreeKeep, best: Incumbent, threads: int = 1) -> None:
        self.free, self.best, self.threads = free, best, threads
        self.queue = ProfileQueue(free, best, threads)
        self.problem = self.queue.problem
        self._screen = Screen(self.problem)
        self._programs = PartSearch(self.problem, self._screen)
        self._block, self._tried = _FEWEST_AT_A_TIME, math.inf
        self._opened = self._block
        self._tested = np.zeros((2, 1 + self.problem.n_ports if best.goal.trades else 1))
        self._unsearched = math.inf
        self._searched: set[tuple[KeepSets, tuple[int, ...]]] = set()
        self._warm: OrderedDict[KeepSets, FixedKeep] = OrderedDict()

    def run(self) -> float:
        """Search; returns a lower bound on what was not searched (infinite if nothing)."""
        best, queue = self.best, self.queue
        best.ask(at_once=True)
        with InOrder(self.threads) as tasks:
            while True:
                while not tasks.full and best.beaten_by(queue.bound) and (best.nest is None or not best.late):
                    self._begin(tasks)
                if not tasks.settle():
                    break
        return min(self._unsearched, queue.bound) if best.beaten_by(queue.bound) else self._unsearched

    def _begin(self, tasks: InOrder) -> None:
        """Go on with what has the least bound."""
        best, queue = self.best, self.queue
        if queue.coarse_bound <= queue.least:
            few = self._block < _MOST_AT_A_TIME
            self._opened = min(2 * self._opened if few else _COARSE_AT_A_TIME, _COARSE_AT_A_TIME // self.threads)
            vectors = queue.open(self._opened)
            best.count(_CELLS_BOUNDED * len(vectors), 0)
            if few:
                queue.push_rows(queue.bounded(vectors, best.to_beat), CHAINS)
            else:
                self._screen_some(tasks, partial(queue.bounded, vectors, best.to_beat))
        elif queue.first.stage == CHAINS:
            self._opened = self._block
            parts = self._take(-(-self._block // self.threads), CHAINS)
            self._block = min(2 * self._block, _MOST_AT_A_TIME)
            self._screen_some(tasks, partial(Rows.of_parts, parts))
        elif queue.first.stage == FOUND:
            self._divide(queue.pop())
        else:
            tasks.give(partial(self._programs.search, queue.pop(), best.apart()), self._taken_in)

    def _take(self, most: int, stage: int) -> list[Part]:
        """The first parts that wait, while they are at this stage."""
        parts: list[Part] = []
        while len(parts) < most and self.best.beaten_by(self.queue.least) and self.queue.first.stage == stage:
            parts.append(self.queue.pop())
        return parts

    # ---- many profiles at a time ---------------------------------------------------------------

    def _screen_some(self, tasks: InOrder, rows: Callable[[], Rows]) -> None:
        """Bound profiles by the pruned program."""
        tasks.give(partial(self._screened, rows, self._weights(), self.best.to_beat), self._sift)

    def _sift(self, found: tuple[Rows, FloatArray, float]) -> None:
        """Take in profiles that `_screened` left; one better than all before is searched at once."""
        left, tested, cells = found
        self.best.count(cells, 0)
        self._tested += tested
        passed = list(left.parts(SCREENED))
        promising = min(passed, key=lambda part: part.value, default=None)
        for part in passed:
            if part is not promising or part.value >= self._tried:
                self.queue.push(part)
        if promising is not None and promising.value < self._tried:  # likely a better incumbent
            self._tried = promising.value
            self._taken_in(self._programs.search(promising, self.best.apart()))

    def _weights(self) -> list[int]:
        """What to bound, first what drops most profiles: energy (0), or energy and the cycles of port j (1 + j) weighed together.

        What drops few is left out. A port that is not busy makes its sum worse than the energy alone.
        """
        dropped = self._tested[0] / np.maximum(1.0, self._tested[1])
        order = np.argsort(-dropped, kind="stable").tolist()
        return [
            w for w in order if w == order[0] or self._tested[1, w] < _TESTED_ENOUGH or dropped[w] >= _WORTH_TESTING
        ]

    def _screened(
        self, share: Callable[[], Rows], weights: list[int], to_beat: float
    ) -> tuple[Rows, FloatArray, float]:
        """The profiles that the pruned program leaves, how many each weight dropped of how many, and the cells looked at."""
        rows, goal = share(), self.best.goal
        tested, cells = np.zeros_like(self._tested), 0.0
        for w in weights:
            weight = np.tile(self._programs.energy_only, (len(rows), 1))
            if w == 0:
                caps = goal.dearest_useful(rows.cycles, to_beat)
            else:
                weight[:, w] = goal.cycle_pj or rows.energy / rows.cycles
                caps = np.full(len(rows), to_beat) if goal.cycle_pj else to_beat / rows.cycles + rows.energy
            least, looked = self._screen.bound(rows.vectors, weight, caps)
            cells += looked
            left = np.flatnonzero(np.isfinite(least))
            tested[0, w], tested[1, w] = len(rows) - len(left), len(rows)
            if w == 0:
                value = bound_values(goal, least, rows.cycles)
            else:
                # energy + weight x cycles >= least: the product is least at the ends of that line, where it is the same
                value = least if goal.cycle_pj else (least - rows.energy) * rows.cycles
            rows = replace(rows, value=np.maximum(rows.value, value * (1.0 - TOLERANCE))).of(left)
        return rows, tested, cells

    def _taken_in(self, found: Searched) -> None:
        """What the search of a part found."""
        self.best.merge(found.best)
        self.queue.push(found.part)

    # ---- keep sets one by one ------------------------------------------------------------------

    def _divide(self, part: Part) -> None:
        """Search one keep set of the part; the others go back, split by the first decision in which they differ."""
        keep = part.found
        fixed = self._fixed(keep)
        choice = self._choice(fixed, part.row)
        if (keep, tuple(choice)) not in self._searched:  # its options stand for several vectors, all searched at once
            self._searched.add((keep, tuple(choice)))
            profile, energy, quickest = open_profile(fixed, choice)
            least = self.best.goal.value(energy, quickest)
            self._unsearched = min(self._unsearched, search_profile(profile, least, self.best))
        taken = {(v, t) for v, t, _ in part.fixed}
        decided = part.fixed
        for v, row in enumerate(self.problem.decisions):
            for t, decision in enumerate(row):
                if decision is Keep.FREE and (v, t) not in taken:
                    self.queue.push(replace(part, stage=SCREENED, fixed=(*decided, (v, t, not keep[v][t]))))
                    decided = (*decided, (v, t, keep[v][t]))

    def _fixed(self, keep: KeepSets) -> FixedKeep:
        """A keep set's problem."""
        fixed = self._warm.get(keep) or FixedKeep(self.problem.instance, keep, self.free.bases, self.free.room)
        self._warm[keep] = fixed
        self._warm.move_to_end(keep)
        if len(self._warm) > _WARM:
            self._warm.popitem(last=False)
        return fixed

    def _choice(self, fixed: FixedKeep, row: tuple[int, ...]) -> IntArray:
        """The options of a keep set's fan-outs that these vectors belong to."""
        choice = []
        for m, options in enumerate(fixed.fanouts):
            mine, i = self.problem.vectors[m], row[m]
            theirs = expand(options, self.problem.instance.lattice.divisors)
            same = (theirs.factors == mine.factors[i]).all(axis=1)
            alike = [
                int(o)
                for o, tiles, s in zip(theirs.option, theirs.tiles, same, strict=True)
                if s and tiles == mine.tiles[i]
            ]
            choice.append(alike[0])
        return np.array(choice, np.int64) + fixed.options.first[:-1]
