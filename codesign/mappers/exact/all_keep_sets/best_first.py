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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np

from codesign.core.goals import Objective
from codesign.mappers.exact.all_keep_sets.joint_profile import JointProfile
from codesign.mappers.exact.all_keep_sets.profile_queue import CHAINS, Part, ProfileQueue, Rows
from codesign.mappers.exact.all_keep_sets.screen import Screen
from codesign.mappers.exact.all_keep_sets.shared_problem import expand
from codesign.mappers.exact.free_keep_sets import FreeKeep
from codesign.mappers.exact.incumbent import TOLERANCE, Goal, Incumbent, whole_cycles
from codesign.mappers.exact.one_keep_set.branch_and_bound import bound_values, open_profile, search_profile
from codesign.mappers.exact.one_keep_set.fixed_keep_set import FixedKeep, KeepSets
from codesign.mappers.exact.one_keep_set.reconstruct import LevelLoops, build_nest
from codesign.mappers.exact.problem.boundary_states import LevelRules
from codesign.mappers.exact.problem.instance import Instance
from codesign.mapping.constraints import Keep
from codesign.mapping.nest import FloatArray, IntArray

_CELLS_A_PROFILE = 20_000
"""Cells of the dynamic program that take as long as making a profile ready."""

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

SCREENED, FOUND = CHAINS + 1, CHAINS + 2
"""Stages of a part: the pruned program has bounded it; the program itself has, and the mapping found was scored."""


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
        self.energy_only = np.zeros(1 + self.problem.n_ports)
        self.energy_only[0] = 1.0
        self._screen = Screen(self.problem)
        self._block, self._tried = _FEWEST_AT_A_TIME, math.inf
        self._tested = np.zeros((2, 1 + self.problem.n_ports if best.goal.trades else 1))
        self._unsearched = math.inf
        self._searched: set[tuple[KeepSets, tuple[int, ...]]] = set()
        self._warm: OrderedDict[KeepSets, FixedKeep] = OrderedDict()

    def run(self) -> float:
        """Search; returns a lower bound on what was not searched (infinite if nothing)."""
        best, queue = self.best, self.queue
        best.ask(at_once=True)
        with ThreadPoolExecutor(self.threads) as pool:
            while best.beaten_by(queue.bound):
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
        """What to bound, first what drops most profiles: energy (0), or energy and the cycles of port j (1 + j) weighed together.

        What drops few is left out. A port that is not busy makes its sum worse than the energy alone.
        """
        dropped = self._tested[0] / np.maximum(1.0, self._tested[1])
        order = np.argsort(-dropped, kind="stable").tolist()
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

    def _search(self, pool: ThreadPoolExecutor, parts: list[Part]) -> None:
        """Run the program itself for some parts."""
        bounded = map(self._bounded, parts) if len(parts) == 1 else pool.map(self._bounded, parts)
        for part, profile, live, energy in bounded:
            self._sharpen(part, profile, live, energy)

    # ---- programs ------------------------------------------------------------------------------

    def _bounded(self, part: Part) -> tuple[Part, JointProfile, IntArray, float]:
        """A part, its profile, the states that can lead to something better, and the bound on its energy; changes nothing."""
        profile = JointProfile(self.problem, np.array(part.row))
        cap = float(self.best.goal.dearest_useful(np.array(part.cycles), self.best.to_beat))
        live = self._screen.live(np.array(part.row), self.energy_only, cap, profile.program())
        return part, profile, live, profile.run(self.energy_only, self._restriction(part), live)

    def _sharpen(self, part: Part, profile: JointProfile, live: IntArray, energy: float) -> None:
        """Search a part, given what `_bounded` found."""
        self._count(profile, live)
        part = self._valued(replace(part, energy=max(part.energy, energy)))
        restricted = self._restriction(part)
        if self.best.goal.trades and self.problem.n_ports and self.best.beaten_by(part.value):
            part = self._trade(part, profile, live, restricted)
            if self.best.beaten_by(part.value):
                self._run(profile, self.energy_only, live, restricted)
        if self.best.beaten_by(part.value):
            keep = self._offer(profile)
            self.queue.push(replace(part, stage=FOUND, found=keep))

    def _run(self, profile: JointProfile, weight: FloatArray, live: IntArray, restricted: FloatArray | None) -> float:
        value = profile.run(weight, restricted, live)
        self._count(profile, live)
        return value

    def _count(self, profile: JointProfile, live: IntArray) -> None:
        self.best.count(_CELLS_A_PROFILE + float(live.sum()) * profile.exact.lattice.n_tiles)

    def _valued(self, part: Part) -> Part:
        return replace(part, value=max(part.value, self.best.goal.value(part.energy, part.cycles)))

    def _offer(self, profile: JointProfile) -> KeepSets:
        """Score the mapping that the program found, if it obeys all constraints; returns what it keeps where."""
        loops, keep = profile.trace()
        instance = self.problem.instance
        if all(_obeys(level, rules) for level, rules in zip(loops, instance.rules, strict=True)):
            self.best.offer(*build_nest(instance, keep, loops))
        return keep

    def _trade(self, part: Part, profile: JointProfile, live: IntArray, restricted: FloatArray | None) -> Part:
        """Bounds on the cycles, and on energy and cycles together (bound B6), over all keep sets of a part."""
        quickest, slowest = part.cycles, -1
        for j in range(self.problem.n_ports):
            weight = np.zeros_like(self.energy_only)
            weight[1 + j] = 1.0
            cycles = whole_cycles(self._run(profile, weight, live, restricted))
            if cycles > quickest:
                quickest, slowest = cycles, j
        part = self._valued(replace(part, cycles=quickest))
        for j in range(self.problem.n_ports) if slowest < 0 else (slowest,):
            if not self.best.beaten_by(part.value):
                return part
            price = self.best.goal.cycle_pj or part.energy / part.cycles
            weight = self.energy_only.copy()
            weight[1 + j] = price
            both = self._run(profile, weight, live, restricted) * (1.0 - TOLERANCE)
            if math.isinf(both):  # nothing of the part can win
                return replace(part, value=math.inf)
            self._offer(profile)
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


def _obeys(loops: LevelLoops, rules: LevelRules) -> bool:
    """Whether the temporal loops of a level have the factors and the order that are fixed."""
    factors, looped = dict(loops.temporal), [d for d, _ in loops.temporal]
    innermost = [d for d in rules.ordered if d in factors]
    return looped[: len(innermost)] == innermost and all(factors.get(d, 1) == f for d, f in rules.fixed)
