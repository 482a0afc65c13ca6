"""Free keep sets: profiles in the order of their bounds, each with all its keep sets at once.

A profile here is one vector of spatial factors for each fan-out. Its bound gets sharper in steps: sums over chains of
keeping levels, for all profiles that are alike (bound B3) and for the profile itself; the pruned program, for a block of
profiles at a time; then, for the one of the least bound, the exact program. The last one gives a mapping too, which
mostly costs what the bound says. Where it does not (a port slows it down, a chain was counted on, an order or a factor is
fixed) its keep sets are searched on their own, and the profile goes on without them.
"""

import heapq
import math
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np

from codesign.core.goals import Objective
from codesign.mappers.exact.all_keep_sets.fill_states import Decisions
from codesign.mappers.exact.all_keep_sets.joint_profile import JointProfile
from codesign.mappers.exact.all_keep_sets.mirrored_profiles import Mirror
from codesign.mappers.exact.all_keep_sets.screen import Screen
from codesign.mappers.exact.all_keep_sets.shared_problem import JointProblem, expand
from codesign.mappers.exact.free_keep_sets import FreeKeep
from codesign.mappers.exact.incumbent import TOLERANCE, Goal, Incumbent, whole_cycles
from codesign.mappers.exact.one_keep_set.branch_and_bound import bound_values, open_profile, search_profile
from codesign.mappers.exact.one_keep_set.fixed_keep_set import FixedKeep, KeepSets
from codesign.mappers.exact.one_keep_set.reconstruct import LevelLoops, build_nest
from codesign.mappers.exact.problem.boundary_states import LevelRules
from codesign.mappers.exact.problem.instance import Instance
from codesign.mappers.exact.problem.spatial import options_of
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


@dataclass(frozen=True)
class Part:
    """Some keep sets of a profile.

    Attributes:
        row: Vector of every fan-out.
        energy: Bound on its energy.
        cycles: Bound on its cycles.
        value: Bound on what is minimised.
        fixed: Decisions taken, as (level, tensor, kept).
        found: What the nest keeps that the exact program found; None before it has run.
    """

    row: tuple[int, ...]
    energy: float
    cycles: float
    value: float
    fixed: tuple[tuple[int, int, bool], ...] = ()
    found: KeepSets | None = None


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
        self.free, self.best, self.threads, instance = free, best, threads, free.instance
        self.problem = JointProblem(instance, _worth_deciding(instance), free.bases)
        self.energy_only = np.zeros(1 + self.problem.n_ports)
        self.energy_only[0] = 1.0
        values = free.values(())
        order = np.flatnonzero(np.isfinite(values))
        self._coarse = order[np.argsort(values[order], kind="stable")]
        self._values, self._at = values[self._coarse], 0
        self._waiting: list[tuple[float, float, int, Part]] = []
        self._ticket = 0
        self._screen = Screen(self.problem)
        self._block, self._tried = _BLOCK_FIRST, math.inf
        self._unsearched = math.inf
        self._searched: set[tuple[KeepSets, tuple[int, ...]]] = set()
        self._warm: OrderedDict[KeepSets, FixedKeep] = OrderedDict()

    @property
    def bound(self) -> float:
        """Lower bound on everything not searched yet; infinite when nothing is left."""
        return min(self._coarse_bound, self._waiting[0][0]) if self._waiting else self._coarse_bound

    def run(self) -> float:
        """Search; returns a lower bound on what was not searched (infinite if nothing)."""
        best = self.best
        best.ask(at_once=True)
        with ThreadPoolExecutor(self.threads) as pool:
            while best.beaten_by(self.bound):
                if best.late and best.nest is not None:
                    return min(self._unsearched, self.bound)
                if self._coarse_bound <= (self._waiting[0][0] if self._waiting else math.inf):
                    self._open(pool)
                    if not self._waiting or self._waiting[0][0] >= self._tried:
                        continue
                    self._tried = self._waiting[0][0]  # the best seen yet: likely a better incumbent
                if self._waiting[0][-1].found is not None:
                    self._divide(heapq.heappop(self._waiting)[-1])
                    continue
                parts = self._next_parts()
                bounded = map(self._bounded, parts) if len(parts) == 1 else pool.map(self._bounded, parts)
                for part, profile, live, energy in bounded:
                    self._sharpen(part, profile, live, energy)
        return self._unsearched

    @property
    def _coarse_bound(self) -> float:
        """Least bound of the coarse profiles not opened yet."""
        return float(self._values[self._at]) if self._at < len(self._values) else math.inf

    def _next_parts(self) -> list[Part]:
        """The parts of the least bounds for the exact program, as many as there are threads."""
        parts: list[Part] = []
        while self._waiting and len(parts) < self.threads and self._waiting[0][-1].found is None:
            parts.append(heapq.heappop(self._waiting)[-1])
        return parts

    def _push(self, part: Part) -> None:
        if self.best.beaten_by(part.value):
            self._ticket += 1
            heapq.heappush(self._waiting, (part.value, part.energy, self._ticket, part))

    # ---- many profiles at a time ---------------------------------------------------------------

    def _open(self, pool: ThreadPoolExecutor) -> None:
        """Bound every profile that the next coarse ones stand for, in closed form and by the pruned program."""
        stop = self._at + int(np.searchsorted(self._values[self._at : self._at + self._block], self.best.to_beat))
        chosen: list[tuple[int, ...]] = []
        for column in self.free.tables.index[:, self._coarse[self._at : stop]].T:
            chosen.extend(product(*[self._fine[m][i] for m, i in enumerate(column)]))
        self._at, self._block = stop, _BLOCK_LATER
        rows = np.array(chosen, np.int64).reshape(-1, self.problem.instance.n_levels)
        rows = rows[self._mirror.canonical(rows)]
        bounds = self.problem.bounds(rows)
        children = self.problem.children_of(rows)
        cycles = np.maximum(bounds[:, 1:].max(axis=1, initial=0.0), self.problem.all_kept.hardware.macs / children)
        values = bound_values(self.best.goal, bounds[:, 0], cycles)
        keep = np.flatnonzero(values < self.best.to_beat)
        shares = np.array_split(keep, self.threads) if len(keep) >= self.threads else [keep]
        tasks = [(rows[share], bounds[share, 0], np.ceil(cycles[share] * (1.0 - TOLERANCE))) for share in shares]
        found = map(self._screened, tasks) if len(tasks) == 1 else pool.map(self._screened, tasks)
        for share, (parts, cells) in zip(shares, found, strict=True):
            self.best.count(_CELLS_BOUNDED * len(share) + cells, 0)
            for part in parts:
                self._push(part)

    def _screened(self, task: tuple[IntArray, FloatArray, FloatArray]) -> tuple[list[Part], float]:
        """The profiles that the pruned program leaves, and the cells it looked at; changes nothing else."""
        rows, energy, cycles = task
        goal, to_beat, cells = self.best.goal, self.best.to_beat, 0.0

        def sharpen(weight: FloatArray, cap: FloatArray, known: FloatArray) -> None:
            """Replace the known bounds by sharper ones and leave out what is not below the cap."""
            nonlocal rows, energy, cycles, cells
            least, looked = self._screen.bound(rows, weight, cap)
            cells += looked
            np.maximum(known, least, out=known)
            left = np.isfinite(least)
            rows, energy, cycles = rows[left], energy[left], cycles[left]

        caps = [goal.dearest_useful(c, to_beat) for c in cycles]
        sharpen(self.energy_only, np.array(caps), energy)
        for j in range(self.problem.n_ports if goal.trades else 0):
            weight = np.zeros_like(self.energy_only)
            weight[1 + j] = 1.0
            caps = [goal.slowest_useful(e, to_beat) for e in energy]
            sharpen(weight, np.array(caps), cycles)
        parts = []
        for row, e, c in zip(rows.tolist(), energy.tolist(), cycles.tolist(), strict=True):
            c = whole_cycles(c)
            parts.append(Part(tuple(row), e, c, goal.value(e, c)))
        return parts, cells

    @cached_property
    def _fine(self) -> list[list[list[int]]]:
        """For every fan-out, the vectors that each of its coarse rows stands for."""
        found = []
        for m, vectors in enumerate(self.problem.vectors):
            alike = self.free.tables.fine_of(m, options_of(self.problem.instance, m, self.problem.kept_inside(m)))
            found.append([np.flatnonzero(np.isin(vectors.option, options)).tolist() for options in alike])
        return found

    @cached_property
    def _mirror(self) -> "Mirror":
        return Mirror(self.problem)

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
            self._push(replace(part, found=keep))

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
        assert keep is not None
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
                    self._push(replace(part, found=None, fixed=(*decided, (v, t, not keep[v][t]))))
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


def _worth_deciding(instance: Instance) -> Decisions:
    """The decisions of an instance; a level that cannot hold a single element of a tensor does not keep it."""
    problem = instance.problem
    fits = problem.element_bits <= problem.capacity_bits[:, None]
    return tuple(
        tuple(Keep.NO if k is Keep.FREE and not fits[v, t] else k for t, k in enumerate(row))
        for v, row in enumerate(instance.decisions)
    )
