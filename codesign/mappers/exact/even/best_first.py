"""Profiles in the order of their bounds, each with all its keep sets at once (D10).

A profile is one vector of spatial factors for each fan-out. Its bound gets sharper in steps: sums over chains of keeping
levels, for all profiles that are alike (bound B3) and for the profile itself; the pruned program, for a block of profiles
at a time; then, for the one of the least bound, the exact program. The last one gives a mapping too, which mostly costs
what the bound says. Where it does not (a port slows it down, a chain was counted on, an order or a factor is fixed) its
keep set is searched on its own, and the profile goes on without it.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice, pairwise, product
from threading import local

import numpy as np

from codesign.core.goals import Objective
from codesign.core.in_order import InOrder
from codesign.cost.packed import make_kernel
from codesign.mappers.exact.even.branch_and_bound import FixedProfile, search_profile
from codesign.mappers.exact.even.part_search import PartSearch
from codesign.mappers.exact.even.profile import EvenProfile
from codesign.mappers.exact.even.profile_queue import (
    CHAINS,
    FOUND,
    SCREENED,
    Part,
    ProfileQueue,
    Rows,
    worth_deciding,
)
from codesign.mappers.exact.even.screen import Screen
from codesign.mappers.exact.incumbent import TOLERANCE, Incumbent, whole_cycles
from codesign.mappers.exact.problem.instance import Instance
from codesign.mapping.constraints import Keep
from codesign.mapping.nest import FloatArray, IntArray

_CELLS_BOUNDED = 200
"""The same of bounding a profile in closed form."""

_COARSE_AT_A_TIME = 1024
"""Coarse profiles opened at a time once there is a good incumbent."""

_FEWEST_AT_A_TIME, _MOST_AT_A_TIME = 16, 512
"""Profiles the pruned program bounds at a time: few before there is a good incumbent, then many."""

_TESTED_ENOUGH, _WORTH_TESTING = 64, 0.02
"""A port that drops a smaller share of so many profiles is left to the program itself."""

_FEW_LEFT = 8
"""Keep sets of a profile that are searched one by one at once; each takes a few runs of the program."""

OPENED = -1
"""Kind of a block that is first bounded in closed form; other blocks are of a stage."""

_PROMISING = 2
"""Profiles of a block that are searched at once, as they are likely to give a better incumbent."""

_TOGETHER, _CELLS_A_TASK = 8, 1e6
"""Searches of a task at most, and cells that are worth one."""

_SHARES, _CELLS_A_SHARE, _CELLS_A_ROW = 8, 1e7, 1e4
"""Shares of a block for each thread at most, so that none waits long for the last; cells that are worth a share; of a profile beside its tiles."""

Screened = tuple[Rows, FloatArray, float]
"""Profiles that the pruned program left, how many each weight dropped of how many, and the cells looked at."""


def search_even(instance: Instance, best: Incumbent, threads: int = 1) -> float:
    """Search every profile and keep set, `threads` profiles at a time; returns a lower bound on what was not searched (infinite if nothing)."""
    free = any(k is Keep.FREE for row in worth_deciding(instance) for k in row)
    with InOrder(threads if math.isinf(best.scored) else 1) as tasks:  # what one may score depends on the others
        if free and not best.goal.timed:
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
        self.by_latency, self.timed = best.goal.objective is Objective.LATENCY, best.goal.timed
        self._own = local()
        self._block, self._tried = _FEWEST_AT_A_TIME, math.inf
        self._opened = self._block
        weights = 1 + self.problem.n_ports if best.goal.trades or self.timed else 1
        self._tested = np.zeros((2, weights))
        self._cost, self._calm = {CHAINS: math.inf, OPENED: math.inf}, False
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
            few = self._block < _MOST_AT_A_TIME
            self._opened = min(2 * self._opened, _COARSE_AT_A_TIME) if few else _COARSE_AT_A_TIME
            vectors = queue.open(self._opened)
            best.count(_CELLS_BOUNDED * len(vectors))
            if few:
                queue.push_rows(queue.bounded(vectors, best.to_beat), CHAINS)
            else:
                bounded = partial(queue.bounded, to_beat=best.to_beat)
                self._screen_some(OPENED, len(vectors), lambda some: bounded(vectors[some]))
        elif queue.first.stage == CHAINS and best.nest is None:
            self._take_in(self._search([queue.pop()], best.apart()))
        elif queue.first.stage == CHAINS:
            self._opened = self._block
            rows = Rows.of_parts(self._take(self._block, CHAINS))
            self._screen_some(CHAINS, len(rows), rows.of)
            self._block = min(2 * self._block, _MOST_AT_A_TIME)
        elif queue.first.stage == FOUND:
            self._divide(queue.pop())
        else:
            parts = [part for part in self._take(self._together, SCREENED) if not self._few_left(part)]
            if parts:
                self.tasks.give(partial(self._search, parts, best.apart()), self._take_in_several)

    def _take(self, most: int, stage: int) -> list[Part]:
        """The first parts that wait, while they are at this stage."""
        parts: list[Part] = []
        while len(parts) < most and self.best.beaten_by(self.queue.least) and self.queue.first.stage == stage:
            parts.append(self.queue.pop())
        return parts

    def _search(self, parts: list[Part], best: Incumbent) -> tuple[list[Part], Incumbent]:
        """Some parts searched one after the other, and the incumbent that has taken what was found. Once it is overdue they stay as they are."""
        if not hasattr(self._own, "kernel"):  # space to score mappings in, one for each thread
            self._own.kernel = make_kernel(self.problem.instance.problem, self.problem.instance.most_loops)
        best.kernel = self._own.kernel
        searched = [p if best.overdue else PartSearch(self.problem, self._screen, p, best).run() for p in parts]
        return searched, best

    def _take_in(self, found: tuple[list[Part], Incumbent]) -> None:
        """What `_search` found."""
        parts, best = found
        self.best.merge(best)
        for part in parts:
            self.queue.push(part)

    def _take_in_several(self, found: tuple[list[Part], Incumbent]) -> None:
        """What `_search` found of a task; short searches are given several at a time, as handing over takes time too."""
        self._take_in(found)
        if self.tasks.threads > 1:
            self._together = int(max(1, min(_TOGETHER, _CELLS_A_TASK * len(found[0]) / max(1.0, found[1].spent))))

    # ---- many profiles at a time ---------------------------------------------------------------

    def _screen_some(self, kind: int, number: int, rows: Callable[[IntArray], Rows]) -> None:
        """Bound a block of profiles by the pruned program, its shares side by side; `rows` gives those with some numbers."""
        tasks, found, worth = self.tasks, list[Screened](), number * self._cost[kind] / _CELLS_A_SHARE
        parts = 1 if tasks.threads == 1 else int(max(1, min(number, worth, _SHARES * tasks.threads)))
        screened = partial(self._screened, weights=self._weights(), to_beat=self.best.to_beat)
        for n, share in enumerate(np.array_split(np.arange(number), parts), 1):
            last = (kind, number) if n == parts else None
            tasks.give(partial(lambda some: screened(rows(some)), share), partial(self._gather, found, last))
        while (parts >= _SHARES or not self._calm) and tasks.settle():  # what these find may spare what comes next
            pass

    def _gather(self, found: list[Screened], last: tuple[int, int] | None, share: Screened) -> None:
        """Take in what was found of a share; with the last, of a block of so many of a kind, the block is sifted."""
        found.append(share)
        if last is not None:
            cells = sum(looked + _CELLS_A_ROW * tested[1].max() for _, tested, looked in found)
            self._cost[last[0]] = cells / max(1, last[1])
            self._sift(found)

    def _sift(self, found: list[Screened]) -> None:
        """Take in the profiles of a block that are left; one better than all before is searched at once."""
        passed = list[Part]()
        for left, tested, cells in found:
            self.best.count(cells)
            self._tested += tested
            passed += left.parts(SCREENED)
        self._calm = not passed
        passed.sort(key=lambda part: part.value)
        promising = [part for part in passed[:_PROMISING] if part.value < self._tried]
        for part in passed[len(promising) :]:
            self.queue.push(part)
        if promising:  # likely a better incumbent
            self._tried = promising[0].value
            threads = self.tasks.threads
            for n in range(0, len(promising), threads):
                several = [part for part in promising[n : n + threads] if not self._few_left(part)]
                for found_apart in self.tasks.each(lambda part: self._search([part], self.best.apart()), several):
                    self._take_in(found_apart)

    def _weights(self) -> list[int]:
        """What to bound, first what drops most profiles: energy (0), or the cycles of port j (1 + j), weighed with energy if both count.

        What drops few is left out. A port that is not busy makes its sum worse than the energy alone.
        """
        dropped = self._tested[0] / np.maximum(1.0, self._tested[1])
        order = [int(w) for w in np.argsort(-dropped, kind="stable") if w > 0 or not self.by_latency]
        return [
            w for w in order if w == order[0] or self._tested[1, w] < _TESTED_ENOUGH or dropped[w] >= _WORTH_TESTING
        ]

    def _screened(self, rows: Rows, weights: list[int], to_beat: float) -> Screened:
        """Bound some profiles."""
        goal = self.best.goal
        tested, cells = np.zeros_like(self._tested), 0.0
        for w in weights:
            if self.best.overdue:
                break
            weight = np.tile(self.problem.weights(1.0), (len(rows), 1))
            if w == 0:
                caps = goal.dearest_useful(rows.cycles, to_beat)
            elif goal.trades:
                weight[:, w] = goal.cycle_pj or rows.energy / rows.cycles
                caps = np.full(len(rows), to_beat) if goal.cycle_pj else to_beat / rows.cycles + rows.energy
            else:
                weight[:, 0], weight[:, w] = 0.0, 1.0
                slowest = min(goal.latency_limit + 0.5, to_beat if self.by_latency else math.inf)
                caps = np.full(len(rows), slowest * (1.0 + TOLERANCE))
            least, looked = self._screen.bound(rows.vectors, weight, caps)
            cells += looked
            left = np.flatnonzero(np.isfinite(least))
            tested[0, w], tested[1, w] = len(rows) - len(left), len(rows)
            if w == 0:
                value = goal.value(least, rows.cycles)
            elif goal.trades:
                # energy + weight x cycles >= least: the product is least at the ends of that line, where it is the same
                value = least if goal.cycle_pj else (least - rows.energy) * rows.cycles
            else:
                rows = replace(rows, cycles=np.maximum(rows.cycles, whole_cycles(least)))
                value = goal.value(rows.energy, rows.cycles)
            rows = replace(rows, value=np.maximum(rows.value, value * (1.0 - TOLERANCE))).of(left)
        return rows, tested, cells

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
        cycles = np.maximum(part.cycles, whole_cycles(total[1:].max(axis=0, initial=0.0)))
        values = self.best.goal.value(energy, cycles)
        sets = [len(kept) for kept in chains]
        for i in np.flatnonzero(values < self.best.to_beat).tolist():
            which = np.unravel_index(i, sets)
            keep = tuple(zip(*(kept[int(k)] for kept, k in zip(chains, which, strict=True)), strict=True))
            decided = tuple((v, t, kept) for v, row in enumerate(keep) for t, kept in enumerate(row))
            bounds = float(energy[i]), float(cycles[i]), float(values[i])
            yield Part(part.row, FOUND, *bounds, fixed=decided, found=keep)
