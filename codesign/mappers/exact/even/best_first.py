"""Profiles in the order of their bounds, each with all its keep sets at once (D10).

A profile is one vector of spatial factors for each fan-out. Its bound gets sharper in steps: sums over chains of keeping
levels, for all profiles that are alike (bound B3) and for the profile itself; the pruned program, for a block of profiles
at a time; then, for the one of the least bound, the exact program. The last one gives a mapping too, which mostly costs
what the bound says. Where it does not (a port slows it down, a chain was counted on, an order or a factor is fixed) its
keep set is searched on its own, and the profile goes on without it.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice, pairwise, product

import numpy as np

from codesign.core.in_order import InOrder
from codesign.mappers.exact.even.branch_and_bound import FixedProfile, search_profile
from codesign.mappers.exact.even.part_search import PartSearch, Searched, is_timed
from codesign.mappers.exact.even.profile import EvenProfile
from codesign.mappers.exact.even.profile_queue import (
    CHAINS,
    FOUND,
    SCREENED,
    Part,
    ProfileQueue,
    Rows,
    bound_values,
    worth_deciding,
)
from codesign.mappers.exact.even.screen import Screen
from codesign.mappers.exact.incumbent import TOLERANCE, Incumbent
from codesign.mappers.exact.problem.instance import Instance
from codesign.mapping.constraints import Keep

_CELLS_BOUNDED = 200
"""The same of bounding a profile in closed form."""

_COARSE_AT_A_TIME = 1024
"""Coarse profiles opened at a time once there is a good incumbent."""

_FEWEST_AT_A_TIME, _MOST_AT_A_TIME = 16, 1024
"""Profiles the pruned program bounds at a time: few before there is a good incumbent, then many."""

_FEW_LEFT = 8
"""Keep sets of a profile that are searched one by one at once; each takes a few runs of the program."""

_TOGETHER, _CELLS_A_TASK = 8, 1e6
"""Searches of a task at most, and cells that are worth one."""

_SHARES, _CELLS_A_SHARE, _CELLS_A_ROW = 8, 1e7, 1e4
"""Shares of a block for each thread at most, so that none waits long for the last; cells that are worth a share; of a profile beside its tiles."""

Screened = tuple[Rows, float]
"""Profiles that the pruned program left, and the cells looked at."""


def search_even(instance: Instance, best: Incumbent, threads: int = 1) -> float:
    """Search every profile and keep set, `threads` profiles at a time; returns a lower bound on what was not searched (infinite if nothing)."""
    free = any(k is Keep.FREE for row in worth_deciding(instance) for k in row)
    with InOrder(threads if math.isinf(best.scored) else 1) as tasks:  # what one may score depends on the others
        if free and not is_timed(best.goal):
            tasks.give(partial(best.ask, at_once=True), lambda _: None)
        search = EvenSearch(instance, best, tasks)
        tasks.settle()
        return search.run()


class EvenSearch:
    """Searches all profiles and keep sets of an instance, several profiles bounded at a time: compiled code runs beside compiled code."""

    def __init__(self, instance: Instance, best: Incumbent, tasks: InOrder | None = None) -> None:
        self.best, self.tasks = best, tasks or InOrder(1)
        self.queue = ProfileQueue(instance, best, self.tasks)
        self.problem = self.queue.problem
        decisions = self.problem.decisions
        self.free = [(v, t) for v, row in enumerate(decisions) for t, k in enumerate(row) if k is Keep.FREE]
        self._screen = Screen(self.problem)
        self._programs = PartSearch(self.problem, self._screen, best.goal)
        self.by_latency, self.timed = self._programs.by_latency, self._programs.timed
        self._block = self._opened = _FEWEST_AT_A_TIME
        self._cost, self._tried, self._calm = math.inf, math.inf, False
        self._together = 1
        self._unsearched = math.inf

    def run(self) -> float:
        """Search; returns a lower bound on what was not searched (infinite if nothing)."""
        best, queue, tasks = self.best, self.queue, self.tasks
        while True:
            while not tasks.full and best.beaten_by(queue.bound) and not best.stopped:
                best.ask()
                self._begin()
            if not tasks.settle():
                break
        return min(self._unsearched, queue.bound) if best.beaten_by(queue.bound) else self._unsearched

    def _begin(self) -> None:
        """Go on with what has the least bound."""
        best, queue = self.best, self.queue
        if queue.coarse_bound <= queue.least:
            vectors = queue.open(self._opened)
            self._opened = min(2 * self._opened, _COARSE_AT_A_TIME)
            best.count(_CELLS_BOUNDED * len(vectors))
            queue.push_rows(queue.bounded(vectors, best.to_beat), CHAINS)
        elif queue.first.stage == CHAINS and best.nest is None:
            self._all_taken_in([self._programs.search(queue.pop(), best.apart())])
        elif queue.first.stage == CHAINS:
            self._opened = self._block
            self._screen_some(Rows.of_parts(self._take(self._block, CHAINS)))
            self._block = min(2 * self._block, _MOST_AT_A_TIME)
        elif queue.first.stage == FOUND:
            self._divide(queue.pop())
        else:
            parts = [part for part in self._take(self._together, SCREENED) if not self._few_left(part)]
            if parts:
                self.tasks.give(partial(self._searched, parts, best.apart()), self._all_taken_in)

    def _take(self, most: int, stage: int) -> list[Part]:
        """The first parts that wait, while they are at this stage."""
        parts: list[Part] = []
        while len(parts) < most and self.best.beaten_by(self.queue.least) and self.queue.first.stage == stage:
            parts.append(self.queue.pop())
        return parts

    def _searched(self, parts: list[Part], best: Incumbent) -> list[Searched]:
        """What searches of some parts, one after the other, find."""
        return [self._programs.search(part, best) for part in parts]

    def _all_taken_in(self, found: list[Searched]) -> None:
        """What `_searched` found; short searches are given several at a time, as handing over takes time too."""
        best = found[0].best
        self.best.merge(best)
        for searched in found:
            self.queue.push(searched.part)
        if self.tasks.threads > 1:
            self._together = int(max(1, min(_TOGETHER, _CELLS_A_TASK * len(found) / max(1.0, best.spent))))

    # ---- many profiles at a time ---------------------------------------------------------------

    def _screen_some(self, rows: Rows) -> None:
        """Bound a block of profiles by the pruned program, its shares side by side."""
        tasks, found, worth = self.tasks, list[Screened](), len(rows) * self._cost / _CELLS_A_SHARE
        parts = 1 if tasks.threads == 1 else int(max(1, min(len(rows), worth, _SHARES * tasks.threads)))
        screened = partial(self._screened, to_beat=self.best.to_beat)
        for n, share in enumerate(np.array_split(np.arange(len(rows)), parts), 1):
            of_all = len(rows) if n == parts else 0
            tasks.give(partial(screened, rows.of(share)), partial(self._gather, found, of_all))
        while (parts >= _SHARES or not self._calm) and tasks.settle():  # what these find may spare what comes next
            pass

    def _gather(self, found: list[Screened], of_all: int, share: Screened) -> None:
        """Take in a share; with the last, of a block of so many profiles, one better than all before is searched at once."""
        found.append(share)
        if not of_all:
            return
        cells = sum(looked for _, looked in found)
        self.best.count(cells)
        passed = sorted((part for left, _ in found for part in left.parts(SCREENED)), key=lambda part: part.value)
        self._cost, self._calm = _CELLS_A_ROW + cells / of_all, not passed
        if passed and passed[0].value < self._tried:  # likely a better incumbent
            self._tried = passed[0].value
            self._all_taken_in([self._programs.search(passed.pop(0), self.best.apart())])
        for part in passed:
            self.queue.push(part)

    def _screened(self, rows: Rows, to_beat: float) -> Screened:
        """Bound some profiles by their energy, then by the cycles of their slowest port, weighed with energy if both count."""
        goal, cells = self.best.goal, 0.0
        if not self.by_latency and not self.best.overdue:
            weight = np.tile(self._programs.energy_only, (len(rows), 1))
            least, cells = self._screen.bound(rows.vectors, weight, goal.dearest_useful(rows.cycles, to_beat))
            rows = rows.above(bound_values(goal, least, rows.cycles))
        if not (goal.trades or self.timed) or not self.problem.n_ports or self.best.overdue:
            return rows, cells
        weight = np.zeros((len(rows), 1 + self.problem.n_ports))
        slowest = np.arange(len(rows)), 1 + self.problem.bounds(rows.vectors)[:, 1:].argmax(axis=1)
        if goal.trades:  # the product is least at the ends of the line energy + weight x cycles, where it is the same
            weight[:, 0], weight[slowest] = 1.0, goal.cycle_pj or rows.energy / rows.cycles
            caps = np.full(len(rows), to_beat) if goal.cycle_pj else to_beat / rows.cycles + rows.energy
        else:
            weight[slowest] = 1.0
            limit = min(goal.latency_limit + 0.5, to_beat if self.by_latency else math.inf)
            caps = np.full(len(rows), limit * (1.0 + TOLERANCE))
        least, looked = self._screen.bound(rows.vectors, weight, caps)
        if goal.trades:
            return rows.above(least if goal.cycle_pj else (least - rows.energy) * rows.cycles), cells + looked
        rows = replace(rows, cycles=np.maximum(rows.cycles, np.ceil(least * (1.0 - TOLERANCE))))
        return rows.above(bound_values(goal, rows.energy, rows.cycles)), cells + looked

    # ---- keep sets one by one ------------------------------------------------------------------

    def _divide(self, part: Part) -> None:
        """Search one keep set of the part; the others go back, split by the first decision in which they differ.

        Where cycles are limited or minimised all keep sets go back one by one, each with the least cycles of its own ports.
        """
        keep = part.found
        profile = EvenProfile(self.problem, np.array(part.row))
        if self.timed and self.free and not part.fixed:
            for other in self._alone(part, profile):
                self.queue.push(other)
            return
        fixed = FixedProfile(profile, keep)
        self._unsearched = min(self._unsearched, search_profile(fixed, part.value, part.cycles, self.best))
        taken, decided = {(v, t) for v, t, _ in part.fixed}, part.fixed
        for v, t in self.free:
            if (v, t) not in taken:
                self.queue.push(replace(part, stage=SCREENED, fixed=(*decided, (v, t, not keep[v][t]))))
                decided = (*decided, (v, t, keep[v][t]))

    def _few_left(self, part: Part) -> bool:
        """Whether few keep sets of a part may win where cycles are limited or minimised (B7); they go into the queue."""
        if not self.timed or part.fixed or not self.free or self.best.nest is None:
            return False
        others = list(islice(self._alone(part, EvenProfile(self.problem, np.array(part.row))), _FEW_LEFT + 1))
        for other in others if len(others) <= _FEW_LEFT else ():
            self.queue.push(other)
        return len(others) <= _FEW_LEFT

    def _alone(self, part: Part, profile: EvenProfile) -> Iterator[Part]:
        """Every keep set of a part that may win, by the fewest words of its boundaries (B1)."""
        choices = {Keep.YES: (True,), Keep.NO: (False,), Keep.FREE: (True, False)}
        n_levels, columns = len(self.problem.decisions), list(zip(*self.problem.decisions, strict=True))
        chains = [list(product(*(choices[k] for k in column))) for column in columns]
        total = np.zeros((len(profile.price), 1))
        for t, kept in enumerate(chains):
            each = np.zeros((len(profile.price), len(kept)))
            for i, chain in enumerate(kept):
                for p, v in pairwise([*np.flatnonzero(chain).tolist(), n_levels]):
                    each[:, i] += profile.price[:, t, v, p] * profile.fewest[t, v] + profile.fixed[:, t, v, p]
            total = (total[:, :, None] + each[:, None, :]).reshape(len(total), -1)
        energy = np.maximum(part.energy, total[0] + profile.constant)
        cycles = np.maximum(part.cycles, np.ceil(total[1:].max(axis=0, initial=0.0) * (1.0 - TOLERANCE)))
        values = bound_values(self.best.goal, energy, cycles)
        sets = [len(kept) for kept in chains]
        for i in np.flatnonzero(values < self.best.to_beat).tolist():
            which = np.unravel_index(i, sets)
            keep = tuple(zip(*(kept[int(k)] for kept, k in zip(chains, which, strict=True)), strict=True))
            decided = tuple((v, t, kept) for v, row in enumerate(keep) for t, kept in enumerate(row))
            bounds = float(energy[i]), float(cycles[i]), float(values[i])
            yield Part(part.row, FOUND, *bounds, fixed=decided, found=keep)
