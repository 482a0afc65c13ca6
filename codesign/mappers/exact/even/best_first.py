"""Profiles in the order of their bounds, each with all its keep sets at once (D10).

A profile is one vector of spatial factors for each fan-out. Its bound gets sharper in steps: sums over chains of keeping
levels, for all profiles that are alike (bound B3) and for the profile itself; the pruned program, for a block of profiles
at a time; then, for the one of the least bound, the exact program. The last one gives a mapping too, which mostly costs
what the bound says. Where it does not (a port slows it down, a chain was counted on, an order or a factor is fixed) its
keep set is searched on its own, and the profile goes on without it.
"""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import islice, pairwise, product

import numpy as np

from codesign.core.goals import Objective
from codesign.mappers.exact.even.branch_and_bound import FixedProfile, search_profile, trade
from codesign.mappers.exact.even.profile import EvenProfile, KeepSets, LevelLoops, build_nest
from codesign.mappers.exact.even.profile_queue import CHAINS, Part, ProfileQueue, Rows, bound_values
from codesign.mappers.exact.even.screen import Screen
from codesign.mappers.exact.incumbent import TOLERANCE, Incumbent, whole_cycles
from codesign.mappers.exact.problem.instance import Instance, LevelRules
from codesign.mapping.constraints import Keep
from codesign.mapping.nest import FloatArray, IntArray

_CELLS_A_PROFILE = 20_000
"""Cells of the dynamic program that take as long as making a profile ready."""

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

SCREENED, FOUND = CHAINS + 1, CHAINS + 2
"""Stages of a part: the pruned program has bounded it; the program itself has, and the mapping found was scored."""


def search_even(instance: Instance, best: Incumbent, threads: int = 1) -> float:
    """Search every profile and keep set; returns a lower bound on what was not searched (infinite if nothing).

    Args:
        instance: The problem.
        best: The incumbent, improved in place.
        threads: Profiles to bound at a time.
    """
    search = EvenSearch(instance, best, threads)
    if search.free and not search.timed:
        best.ask(at_once=True)
    return search.run()


class EvenSearch:
    """Searches all profiles and keep sets of an instance.

    Args:
        instance: The problem.
        best: The incumbent, improved in place.
        threads: Profiles to bound at a time; compiled code runs beside compiled code.
    """

    def __init__(self, instance: Instance, best: Incumbent, threads: int = 1) -> None:
        self.best, self.threads = best, threads
        self.queue = ProfileQueue(instance, best, threads)
        self.problem = self.queue.problem
        self.by_latency = best.goal.objective is Objective.LATENCY
        self.timed = self.by_latency or math.isfinite(best.goal.latency_limit)
        decisions = self.problem.decisions
        self.free = [(v, t) for v, row in enumerate(decisions) for t, k in enumerate(row) if k is Keep.FREE]
        self.energy_only = np.zeros(1 + self.problem.n_ports)
        self.energy_only[0] = 1.0
        self._screen = Screen(self.problem)
        self._block, self._tried = _FEWEST_AT_A_TIME, math.inf
        weights = 1 + self.problem.n_ports if best.goal.trades or self.timed else 1
        self._tested = np.zeros((2, weights))
        self._unsearched = math.inf

    def run(self) -> float:
        """Search; returns a lower bound on what was not searched (infinite if nothing)."""
        best, queue = self.best, self.queue
        with ThreadPoolExecutor(self.threads) as pool:
            while best.beaten_by(queue.bound):
                best.ask()
                if best.late and best.nest is not None:
                    return min(self._unsearched, queue.bound)
                if queue.coarse_bound <= queue.least:
                    few = self._block < _MOST_AT_A_TIME
                    vectors = queue.open(self._block if few else _COARSE_AT_A_TIME)
                    best.count(_CELLS_BOUNDED * len(vectors), 0)
                    if few:
                        queue.push_rows(queue.bounded(vectors), CHAINS)
                    else:
                        self._sift(pool, [partial(queue.bounded, v) for v in np.array_split(vectors, self.threads)])
                elif queue.first.stage == CHAINS and best.nest is None:
                    self._search(pool, self._take(1, CHAINS))
                elif queue.first.stage == CHAINS:
                    parts = self._take(self._block, CHAINS)
                    self._block, n = min(2 * self._block, _MOST_AT_A_TIME), min(self.threads, len(parts))
                    self._sift(pool, [partial(Rows.of_parts, parts[i::n]) for i in range(n)])
                elif queue.first.stage == FOUND:
                    self._divide(queue.pop())
                else:
                    self._search(pool, self._take(self.threads, SCREENED))
        return self._unsearched

    def _take(self, most: int, stage: int) -> list[Part]:
        """The first parts that wait, while they are at this stage."""
        parts: list[Part] = []
        while len(parts) < most and self.best.beaten_by(self.queue.least) and self.queue.first.stage == stage:
            parts.append(self.queue.pop())
        return parts

    # ---- many profiles at a time ---------------------------------------------------------------

    def _sift(self, pool: ThreadPoolExecutor, shares: list[Callable[[], Rows]]) -> None:
        """Bound profiles by the pruned program; one better than all before is searched at once.

        Args:
            pool: The threads.
            shares: Each gives what one of them is to bound.
        """
        task = partial(self._screened, weights=self._weights())
        found = map(task, shares) if len(shares) == 1 else pool.map(task, shares)
        passed: list[Part] = []
        for left, tested, cells in found:
            self.best.count(cells, 0)
            self._tested += tested
            passed += left.parts(SCREENED)
        promising = min(passed, key=lambda part: part.value, default=None)
        for part in passed:
            if part is not promising or part.value >= self._tried:
                self.queue.push(part)
        if promising is not None and promising.value < self._tried:  # likely a better incumbent
            self._tried = promising.value
            self._search(pool, [promising])

    def _weights(self) -> list[int]:
        """What to bound, first what drops most profiles: energy (0), or the cycles of port j (1 + j), weighed with energy if both count.

        What drops few is left out. A port that is not busy makes its sum worse than the energy alone.
        """
        dropped = self._tested[0] / np.maximum(1.0, self._tested[1])
        order = [int(w) for w in np.argsort(-dropped, kind="stable") if w > 0 or not self.by_latency]
        return [
            w for w in order if w == order[0] or self._tested[1, w] < _TESTED_ENOUGH or dropped[w] >= _WORTH_TESTING
        ]

    def _screened(self, share: Callable[[], Rows], weights: list[int]) -> tuple[Rows, FloatArray, float]:
        """The profiles that the pruned program leaves, how many each weight dropped of how many, and the cells looked at."""
        rows, goal, to_beat = share(), self.best.goal, self.best.to_beat
        tested, cells = np.zeros_like(self._tested), 0.0
        for w in weights:
            weight = np.tile(self.energy_only, (len(rows), 1))
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
                value = bound_values(goal, least, rows.cycles)
            elif goal.trades:
                # energy + weight x cycles >= least: the product is least at the ends of that line, where it is the same
                value = least if goal.cycle_pj else (least - rows.energy) * rows.cycles
            else:
                rows = replace(rows, cycles=np.maximum(rows.cycles, np.ceil(least * (1.0 - TOLERANCE))))
                value = bound_values(goal, rows.energy, rows.cycles)
            rows = replace(rows, value=np.maximum(rows.value, value * (1.0 - TOLERANCE))).of(left)
        return rows, tested, cells

    def _search(self, pool: ThreadPoolExecutor, parts: list[Part]) -> None:
        """Run the program itself for some parts, or go on with their keep sets where few may win."""
        parts = [part for part in parts if not self._few_left(part)]
        bounded = map(self._bounded, parts) if len(parts) == 1 else pool.map(self._bounded, parts)
        for part, profile, live, energy in bounded:
            self._sharpen(part, profile, live, energy)

    # ---- programs ------------------------------------------------------------------------------

    def _main(self, profile: EvenProfile) -> FloatArray:
        """What a mapping is sought by: energy, or for latency the cycles of all ports."""
        if not self.by_latency or not self.problem.n_ports:
            return self.energy_only
        weight = np.ones_like(self.energy_only)
        weight[0] = 1e-6 / max(1e-30, float(profile.price[0, :, :-1].max(initial=0.0)))
        return weight

    def _bounded(self, part: Part) -> tuple[Part, EvenProfile, IntArray, float]:
        """A part, its profile, the states that can lead to something better, and the least sum; changes nothing."""
        profile = EvenProfile(self.problem, np.array(part.row))
        cap = math.inf
        if not self.by_latency:
            cap = float(self.best.goal.dearest_useful(np.array(part.cycles), self.best.to_beat))
        live = self._screen.live(np.array(part.row), self.energy_only, cap, profile.program())
        return part, profile, live, profile.run(self._main(profile), self._restriction(part), live)

    def _sharpen(self, part: Part, profile: EvenProfile, live: IntArray, least: float) -> None:
        """Search a part, given what `_bounded` found."""
        self._count(profile, live)
        if math.isinf(least):
            return
        if not self.by_latency:
            part = replace(part, energy=max(part.energy, least))
        part = self._valued(part)
        restricted = self._restriction(part)
        if (self.best.goal.trades or self.timed) and self.problem.n_ports and self.best.beaten_by(part.value):
            part = self._trade(part, profile, live, restricted)
            if self.best.beaten_by(part.value):
                self._run(profile, self._main(profile), live, restricted)
        if self.best.beaten_by(part.value):
            keep = self._offer(profile)
            self.queue.push(replace(part, stage=FOUND, found=keep))

    def _run(self, profile: EvenProfile, weight: FloatArray, live: IntArray, restricted: FloatArray | None) -> float:
        value = profile.run(weight, restricted, live)
        self._count(profile, live)
        return value

    def _count(self, profile: EvenProfile, live: IntArray) -> None:
        self.best.count(_CELLS_A_PROFILE + float(live.sum()) * profile.lattice.n_tiles)

    def _valued(self, part: Part) -> Part:
        return replace(part, value=max(part.value, self.best.goal.value(part.energy, part.cycles)))

    def _offer(self, profile: EvenProfile) -> KeepSets:
        """Score the mapping that the program found, if it obeys all constraints; returns what it keeps where."""
        found = profile.trace()
        instance = self.problem.instance
        if all(_obeys(level, rules) for level, rules in zip(found.levels, instance.rules, strict=True)):
            self.best.offer(*build_nest(instance, found.keep, found.levels))
        return found.keep

    def _trade(self, part: Part, profile: EvenProfile, live: IntArray, restricted: FloatArray | None) -> Part:
        """Bounds on the cycles, and on energy and cycles together (bound B6), over all keep sets of a part."""
        quickest, slowest = part.cycles, -1
        for j in range(self.problem.n_ports):
            weight = np.zeros_like(self.energy_only)
            weight[1 + j] = 1.0
            cycles = whole_cycles(self._run(profile, weight, live, restricted))
            if cycles > quickest:
                quickest, slowest = cycles, j
        part = self._valued(replace(part, cycles=quickest))

        def least(weight: float, j: int) -> float:
            """Of energy and the cycles of a port weighed together; its nest is scored."""
            weights = self.energy_only.copy()
            weights[1 + j] = weight
            both = self._run(profile, weights, live, restricted)
            if math.isfinite(both):
                self._offer(profile)
            return both

        for j in range(self.problem.n_ports) if slowest < 0 else (slowest,):
            if self.best.beaten_by(part.value):
                value = trade(partial(least, j=j), part.energy, part.cycles, self.best)
                part = replace(part, value=max(part.value, value))
        return part

    # ---- keep sets one by one ------------------------------------------------------------------

    def _restriction(self, part: Part) -> FloatArray | None:
        """``L x 2**T`` infinite where a level would keep what the part does not let it, or not what it must."""
        if not part.fixed:
            return None
        masks = np.arange(1 << self.problem.instance.n_tensors)
        table = np.zeros((self.problem.instance.n_levels, len(masks)))
        for v, t, kept in part.fixed:
            table[v, (masks >> t & 1) != kept] = np.inf
        return table

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


def _obeys(loops: LevelLoops, rules: LevelRules) -> bool:
    """Whether the temporal loops of a level have the factors and the order that are fixed."""
    factors, looped = dict(loops.temporal), [d for d, _ in loops.temporal]
    innermost = [d for d in rules.ordered if d in factors]
    return looped[: len(innermost)] == innermost and all(factors.get(d, 1) == f for d, f in rules.fixed)
