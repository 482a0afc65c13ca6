"""The exact uneven mapper of one operator: profiles and keep sets in the order of their bounds (U13, docs/explanation/exact-mapper.md)."""

import heapq
import itertools
import math
from dataclasses import dataclass, replace

import numpy as np

from codesign.core import clock
from codesign.core.labels.program import sweep_limit
from codesign.core.labels.sweep import Array
from codesign.mappers.uneven.levels import Case, Placed
from codesign.mappers.uneven.profiles import profiles, settled
from codesign.mappers.uneven.space import Space
from codesign.mapping.looptree import Factors, Goal, Machine, Operator

TIE = 1e-10
"""Relative difference below which two values are one (rounding of sums)."""


@dataclass(frozen=True)
class Found:
    """The best mapping of one operator.

    Args:
        value: Objective.
        energy: Without leakage.
        seconds: Latency.
        bound: What no mapping of the space is below.
        case: Profile and keep sets; none if nothing fits.
        placed: Nodes, outermost first.
    """

    value: float
    energy: float
    seconds: float
    bound: float
    case: Case | None
    placed: tuple[Placed, ...]

    @property
    def proven(self) -> bool:
        """Whether the value is the optimum."""
        return self.bound >= self.value * (1 - 1e-9)


def solve(
    operator: Operator,
    machine: Machine,
    goal: Goal,
    factors: Factors | None = None,
    time_limit: float = math.inf,
    slowest: float = math.inf,
) -> Found:
    """The mapping of least `goal` with its proof, none slower than `slowest`; after `time_limit` CPU seconds the best so far and its bound."""
    found = []
    for profile in profiles(operator, machine, factors or Factors()):
        space = Space(operator, machine, profile)
        found += [Case(space, keeps, slowest, free_energy=goal is Goal.LATENCY) for keeps in machine.keeps]
    return search(found, goal, time_limit)


def search(cases_given: list[Case], goal: Goal, time_limit: float = math.inf) -> Found:
    """The best mapping of several cases, profiles and keep sets of one operator; after `time_limit` CPU seconds the best so far and its bound."""
    stop = clock.cpu_seconds() + time_limit
    queue = [(_begun(case, goal), 0, number, case) for number, case in enumerate(cases_given)]
    heapq.heapify(queue)
    cases = len(queue)
    best: tuple[float, Array, Case, list[Placed]] | None = None
    bound = math.inf
    while queue:
        low, stage, number, case = heapq.heappop(queue)
        top = best[0] if best else math.inf
        if low >= top * (1 - TIE):
            bound = top
            break
        if clock.cpu_seconds() > stop:
            bound = min(low, top)
            break
        if stage == 0:
            case.prepare()
            heapq.heappush(queue, (max(low, case.bound(goal)), 1, number, case))
            continue
        if math.isinf(low):
            break
        limit = sweep_limit(low, stage - 1, top * (1 - TIE))
        answer = case.solve(goal, limit)
        if answer is None:
            if limit < top * (1 - TIE):
                heapq.heappush(queue, (limit, stage + 1, number, case))
            continue
        _, placed = answer
        charges = case.charges_of(placed)
        value = case.value(goal, charges)
        reached = case.worth(goal, charges[case.watch], case.floor())
        if value > reached * (1 + TIE):
            worst = max((i for i in range(1, charges.size) if i not in case.watch), key=lambda i: charges[i])
            case.watch = [*case.watch, worst]
            heapq.heappush(queue, (max(reached, case.bound(goal)), 1, number, case))
        elif case.space.profile.relaxed:
            for child in _settle(case, placed):
                heapq.heappush(queue, (max(value, _begun(child, goal)), 0, cases, child))
                cases += 1
            continue
        if not case.space.profile.relaxed and value < (best[0] if best else math.inf):
            best = (value, charges, case, placed)
    else:
        bound = best[0] if best else math.inf
    if best is None:
        return Found(math.inf, math.inf, math.inf, bound, None, ())
    value, charges, case, placed = best
    seconds = max(case.space.compute_seconds, *charges[1:], 0.0)
    energy = float(case.charged(placed)[0])
    return Found(value, energy, float(seconds), min(bound, value), case, tuple(placed))


def _begun(case: Case, goal: Goal) -> float:
    """The first bound of a case; for latency the slowest port is watched from the start."""
    bound = case.quick(goal)
    if goal is Goal.LATENCY and case.least.size > 1:
        case.watch = [0, 1 + int(np.argmax(case.least[1:]))]
    return bound


def _settle(case: Case, placed: list[Placed]) -> list[Case]:
    """Cases that a relaxed one stands for: the one that the nest found obeys, else those of its worst dimension (U14)."""
    space, profile = case.space, case.space.profile
    worst, most = profile.relaxed[0], 0.0
    tiles: list[tuple[str, int]] = []
    whole: list[str] = []
    for dim in profile.relaxed:
        line, at = space.lines[dim], space.live.index(dim) if dim in space.live else -1
        used = sorted(
            {int(np.unravel_index(p.hold, space.shape)[at]) for p in placed if dim not in p.node.operand.dims}
            if at >= 0
            else ()
        )
        chain = sorted({int(np.unravel_index(p.hold, space.shape)[at]) for p in placed} if at >= 0 else ())
        sizes = [round(line.tiles[e]) for e in chain if e < len(line.tiles) - 1]
        outer = sizes[-1] if sizes else 0
        count = line.steps[line.tiles.index(float(outer))] if outer else 1.0
        lost = 0.0
        for small, large in itertools.pairwise(sizes):
            lost += 1.0 if large % small else 0.0
        for e in used:
            if e < len(line.tiles) - 1:
                lost += count * outer / line.tiles[e] / line.steps[e] - 1
        lost += (count * outer / line.steps[0] if outer else 1.0) - 1
        factor = profile.factor(dim, 0, space.n + 1)
        if not outer and space.operator.bounds[dim] % factor:
            lost += 1.0
        if lost > most:
            worst, most = dim, lost
        if outer and count * outer * factor != space.operator.bounds[dim]:
            tiles.append((dim, outer))
        else:
            whole.append(dim)
    followers = settled(space.operator, profile, worst)
    if most == 0.0:
        exact = replace(profile, relaxed=(), tiles=(*profile.tiles, *tiles))
        followers = [exact, *followers]
    return [
        Case(Space(space.operator, space.machine, p), case.keeps, case.slowest, free_energy=case.free_energy)
        for p in followers
    ]
