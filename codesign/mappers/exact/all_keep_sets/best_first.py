"""Free keep sets: profiles in the order of their bounds, each with all its keep sets at once.

A profile here is one vector of spatial factors for each fan-out. Its bound gets sharper in steps, and only the profile
of the least bound is taken a step further: sums over chains of keeping levels, for all profiles that are alike (bound
B3) and for the profile itself; a quick program over all keep sets; the exact one. The last one gives a mapping too, which
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
from codesign.mappers.exact.all_keep_sets.profile_queue import CHAINS, Part, ProfileQueue
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

_WARM = 64
"""Keep sets whose arrays over all tiles stay in memory."""

FOLDED, EXACT = CHAINS + 1, CHAINS + 2
"""How the bound of a part was found: by the quick program, or by the exact one."""


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
        folds = len(self.problem.folds) < free.instance.n_dims
        self._quick = folds and any(Keep.FREE in row for row in self.problem.decisions)
        self._unsearched = math.inf
        self._searched: set[tuple[KeepSets, tuple[int, ...]]] = set()
        self._warm: OrderedDict[KeepSets, FixedKeep] = OrderedDict()

    def run(self) -> float:
        """Search; returns a lower bound on what was not searched (infinite if nothing)."""
        best = self.best
        best.ask(at_once=True)
        with ThreadPoolExecutor(self.threads) as pool:
            while best.beaten_by(self.queue.bound):
                if best.late and best.nest is not None:
                    return min(self._unsearched, self.queue.bound)
                parts = self.queue.next_parts()
                bounded = map(self._bounded, parts) if len(parts) == 1 else pool.map(self._bounded, parts)
                for part, profile, energy in bounded:
                    self._sharpen(part, profile, energy)
        return self._unsearched

    # ---- programs ------------------------------------------------------------------------------

    def _bounded(self, part: Part) -> tuple[Part, JointProfile, float]:
        """A part, its profile with the program of its next step run, and the bound on its energy; changes nothing else."""
        profile = JointProfile(self.problem, np.array(part.row))
        if part.stage == CHAINS and self._quick:
            return part, profile, profile.bound(self.energy_only)
        return part, profile, profile.run(self.energy_only, self._restriction(part))

    def _sharpen(self, part: Part, profile: JointProfile, energy: float) -> None:
        """Take a part one step further, given what `_bounded` found."""
        self.best.count(_CELLS_A_PROFILE + profile.filled.table.size)
        stage = FOLDED if part.stage == CHAINS and self._quick else EXACT
        part = self._valued(replace(part, stage=stage, energy=max(part.energy, energy)))
        if stage == FOLDED:
            self.queue.push(part)
            return
        restricted = self._restriction(part)
        if self.best.goal.trades and self.problem.n_ports and self.best.beaten_by(part.value):
            part = self._trade(part, profile, restricted)
            if self.best.beaten_by(part.value):
                self._run(profile, self.energy_only, restricted)
        if self.best.beaten_by(part.value):
            keep = self._offer(profile)
            if self.best.beaten_by(part.value):
                self._divide(part, keep)

    def _run(self, profile: JointProfile, weight: FloatArray, restricted: FloatArray | None) -> float:
        value = profile.run(weight, restricted)
        self.best.count(_CELLS_A_PROFILE + profile.filled.table.size)
        return value

    def _valued(self, part: Part) -> Part:
        return replace(part, value=max(part.value, self.best.goal.value(part.energy, part.cycles)))

    def _offer(self, profile: JointProfile) -> KeepSets:
        """Score the mapping that the program found, if it obeys all constraints; returns what it keeps where."""
        loops, keep = profile.trace()
        instance = self.problem.instance
        if all(_obeys(level, rules) for level, rules in zip(loops, instance.rules, strict=True)):
            self.best.offer(*build_nest(instance, keep, loops))
        return keep

    def _trade(self, part: Part, profile: JointProfile, restricted: FloatArray | None) -> Part:
        """Bounds on the cycles, and on energy and cycles together (bound B6), over all keep sets of a part."""
        quickest, slowest = part.cycles, -1
        for j in range(self.problem.n_ports):
            weight = np.zeros_like(self.energy_only)
            weight[1 + j] = 1.0
            cycles = whole_cycles(self._run(profile, weight, restricted))
            if cycles > quickest:
                quickest, slowest = cycles, j
        part = self._valued(replace(part, cycles=quickest))
        for j in range(self.problem.n_ports) if slowest < 0 else (slowest,):
            if not self.best.beaten_by(part.value):
                return part
            price = self.best.goal.cycle_pj or part.energy / part.cycles
            weight = self.energy_only.copy()
            weight[1 + j] = price
            both = self._run(profile, weight, restricted) * (1.0 - TOLERANCE)
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
                    self.queue.push(replace(part, stage=FOLDED, fixed=(*decided, (v, t, not keep[v][t]))))
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
