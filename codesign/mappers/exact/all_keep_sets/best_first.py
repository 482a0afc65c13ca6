"""Free keep sets: profiles in the order of their bounds, each with all its keep sets at once.

A profile here is one vector of spatial factors for each fan-out. Its bound gets sharper in steps: sums over chains of
keeping levels, for all profiles that are alike (bound B3) and for the profile itself; the pruned program, for a block of
profiles at a time; then, for the one of the least bound, the exact program. The last one gives a mapping too, which
mostly costs what the bound says. Where it does not (a port slows it down, a chain was counted on, an order or a factor is
fixed) its keep sets are searched on their own, and the profile goes on without them.
"""

import math
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from codesign.core.goals import Objective
from codesign.mappers.exact.all_keep_sets.joint_profile import JointProfile
from codesign.mappers.exact.all_keep_sets.profile_queue import CHAINS, Part, ProfileQueue, Rows
from codesign.mappers.exact.all_keep_sets.screen import Screen
from codesign.mappers.exact.all_keep_sets.shared_problem import expand
from codesign.mappers.exact.free_keep_sets import FreeKeep
from codesign.mappers.exact.incumbent import TOLERANCE, Goal, Incumbent, whole_cycles
from codesign.mappers.exact.one_keep_set.branch_and_bound import open_profile, search_profile
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

_BLOCK_FIRST, _BLOCK_LATER = 8, 512
"""Coarse profiles opened at a time: few before there is a good incumbent, then many."""

SCREENED = CHAINS + 1
"""Stage of a part whose bound the pruned program found."""


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
        self._block, self._tried = _BLOCK_FIRST, math.inf
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
                    self._open(pool)
                    if queue.least >= self._tried:
                        continue
                    self._tried = queue.least  # the best seen yet: likely a better incumbent
                self._search(pool)
        return self._unsearched

    def _open(self, pool: ThreadPoolExecutor) -> None:
        """Bound the profiles that the next coarse ones stand for, in closed form and by the pruned program."""
        rows = self.queue.open(self._block)
        self._block = _BLOCK_LATER
        shares = [
            rows.of(share) for share in np.array_split(np.arange(len(rows)), min(self.threads, max(1, len(rows))))
        ]
        found = map(self._screened, shares) if len(shares) == 1 else pool.map(self._screened, shares)
        for share, (left, cells) in zip(shares, found, strict=True):
            self.best.count(_CELLS_BOUNDED * len(share) + cells, 0)
            self.queue.push_rows(left, SCREENED)

    def _screened(self, rows: Rows) -> tuple[Rows, float]:
        """The profiles that the pruned program leaves, and the cells it looked at; changes nothing else."""
        goal, to_beat = self.best.goal, self.best.to_beat
        caps = np.array([goal.dearest_useful(c, to_beat) for c in np.ceil(rows.cycles * (1.0 - TOLERANCE))])
        least, cells = self._screen.bound(rows.vectors, self.energy_only, caps)
        rows = Rows(rows.vectors, np.maximum(rows.energy, least), rows.cycles).of(np.flatnonzero(np.isfinite(least)))
        for j in range(self.problem.n_ports if goal.trades else 0):
            weight = np.zeros_like(self.energy_only)
            weight[1 + j] = 1.0
            caps = np.array([goal.slowest_useful(e, to_beat) for e in rows.energy])
            least, looked = self._screen.bound(rows.vectors, weight, caps)
            cells += looked
            rows = Rows(rows.vectors, rows.energy, np.maximum(rows.cycles, least))
            rows = rows.of(np.flatnonzero(np.isfinite(least)))
        return rows, cells

    def _search(self, pool: ThreadPoolExecutor) -> None:
        """Take the first parts a step further, as many as there are threads; one that is searched already is divided."""
        first = self.queue.pop()
        if first.found is not None:
            self._divide(first, first.found)
            return
        parts = [first]
        while len(parts) < self.threads and self.best.beaten_by(self.queue.least) and self.queue.first.found is None:
            parts.append(self.queue.pop())
        bounded = map(self._bounded, parts) if len(parts) == 1 else pool.map(self._bounded, parts)
        for part, profile, live, energy in bounded:
            self._sharpen(part, profile, live, energy)

    # ---- programs ------------------------------------------------------------------------------

    def _bounded(self, part: Part) -> tuple[Part, JointProfile, IntArray, float]:
        """A part, its profile, the states that can lead to something better, and the bound on its energy; changes nothing."""
        profile = JointProfile(self.problem, np.array(part.row))
        cap = self.best.goal.dearest_useful(part.cycles, self.best.to_beat)
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
            self.queue.push(replace(part, found=keep))

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

    def _divide(self, part: Part, keep: KeepSets) -> None:
        """Search one keep set of the part; the others go back, split by the first decision in which they differ."""
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
                    self.queue.push(replace(part, found=None, fixed=(*decided, (v, t, not keep[v][t]))))
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
