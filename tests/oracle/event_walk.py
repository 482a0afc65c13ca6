"""The event engine by brute force: every operation written down with everything it waits for, no state skipped.

Steps are enumerated, operations are entries of lists, buffers are looked up by tile number. Nothing is shared with
`codesign.timing.engine` but the arrays of a plan.
"""

import itertools
from bisect import bisect_right
from dataclasses import dataclass, field

from codesign.timing.event_plan import COMPUTE, LOAD, STORE, Plan


@dataclass
class Operation:
    start: float = 0.0
    end: float = 0.0
    used: float = 0.0  # LOAD: when its last user was done


@dataclass
class Walk:
    plan: Plan
    free: dict[int, float] = field(default_factory=dict)
    loads: dict[int, list[Operation]] = field(default_factory=dict)
    busy: dict[int, float] = field(default_factory=dict)
    last: float = 0.0


def positions(plan: Plan) -> list[tuple[int, ...]]:
    """All steps in order."""
    p, outer = plan.phase_loop, range(plan.factors.shape[1])
    found = []
    for before in itertools.product(*(range(plan.factors[0, loop]) for loop in outer if loop < p)):
        for phase in range(plan.factors.shape[0]):
            inner = (range(plan.factors[phase, loop]) for loop in outer if loop > p)
            found += [(*before, phase, *after) for after in itertools.product(*inner)]
    return found


def way_between(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """Outermost loop that differs, plus one."""
    return next(loop for loop in range(len(a)) if a[loop] != b[loop]) + 1


def runs_at(plan: Plan, k: int, position: tuple[int, ...], way: int) -> bool:
    mask = int(plan.revisit[k])
    seen = any((mask >> loop) & 1 and position[loop] > 0 for loop in range(len(position)))
    return bool(plan.active[k, position[plan.phase_loop], way]) and (mask == 0 or seen)


def occupy(walk: Walk, k: int, ready: float, cycles: float, share: list[float]) -> Operation:
    held = [
        (int(r), cycles if i == 0 and share[0] < 0 else share[i]) for i, r in enumerate(walk.plan.resource[k]) if r >= 0
    ]
    start = max([ready, *(walk.free.get(r, 0.0) for r, _ in held)])
    for i, (r, hold) in enumerate(held):
        walk.free[r] = start + hold
        walk.busy[k, i] = walk.busy.get((k, i), 0.0) + hold  # type: ignore[call-overload,index]
    return Operation(start, start + cycles, start + cycles)


def walk_plan(plan: Plan) -> tuple[float, list[tuple[float, float]]]:
    """Cycles of the run, and start and end of every operation in order of issue."""
    steps = positions(plan)
    ways = [0, *(way_between(a, b) for a, b in itertools.pairwise(steps))]
    n = len(plan.kind)
    tiles = {k: [s for s, at in enumerate(steps) if runs_at(plan, k, at, ways[s])] for k in range(n)}
    walk = Walk(plan)
    walk.loads = {k: [] for k in range(n)}
    times: list[tuple[float, float]] = []
    finish: list[float] = []
    stores: dict[int, dict[int, float]] = {k: {} for k in range(n)}
    tile_of = dict.fromkeys(range(n), -1)
    last_end = dict.fromkeys(range(n), 0.0)
    phase_end = 0.0

    def in_force(k: int, step: int) -> int:
        return bisect_right(tiles[k], step) - 1

    def next_step(k: int) -> int | None:
        done = len(walk.loads[k])
        return tiles[k][done] if done < len(tiles[k]) else None

    def may_issue(k: int, step: int) -> bool:
        mine = next_step(k)
        if mine is None or len(walk.loads[k]) > max(in_force(k, step), 0) + plan.depth[k] - 1:
            return False
        if plan.in_flight and mine >= step + plan.in_flight:
            return False
        j = int(plan.source[k])
        if j >= 0 and len(walk.loads[j]) <= in_force(j, mine):
            return False
        for other in range(n):
            theirs = next_step(other) if plan.kind[other] == LOAD and other != k else None
            if theirs is not None and plan.resource[other, 0] == plan.resource[k, 0] and (theirs, other) < (mine, k):
                return False
        return True

    def issue(k: int) -> None:
        q, mine = len(walk.loads[k]), next_step(k)
        assert mine is not None
        ready = 0.0
        if q >= plan.depth[k]:
            ready = walk.loads[k][q - plan.depth[k]].used - plan.early[k]
        if plan.in_flight and mine >= plan.in_flight:
            ready = max(ready, finish[mine - plan.in_flight])
        j = int(plan.source[k])
        tile = in_force(j, mine) if j >= 0 else -1
        if j >= 0 and tile >= 0:
            ready = max(ready, walk.loads[j][tile].end + plan.latency[j])
        if plan.barrier[k]:
            ready = max(ready, phase_end)
        phase = steps[mine][plan.phase_loop]
        done = occupy(walk, k, ready, plan.duration[k, phase, ways[mine]], list(plan.share[k, phase, ways[mine]]))
        walk.loads[k].append(done)
        last_end[k] = done.end
        times.append((done.start, done.end))
        if j >= 0 and tile >= 0:
            walk.loads[j][tile].used = max(walk.loads[j][tile].used, done.end)

    for s, at in enumerate(steps):
        phase = at[plan.phase_loop]
        for k in range(n):
            if plan.kind[k] == STORE and (plan.by_step[k] or plan.active[k, phase, ways[s]] or s == 0):
                tile_of[k] += 1
        progress = True
        while progress:
            progress = False
            for k in range(n):
                if plan.kind[k] == LOAD and may_issue(k, s):
                    issue(k)
                    progress = True
        done = began = 0.0
        for c in range(n):
            if plan.kind[c] != COMPUTE or not plan.active[c, phase, ways[s]]:
                continue
            ready = least = 0.0
            for k in range(n):
                if not plan.needs[c, k]:
                    continue
                if plan.kind[k] == LOAD and in_force(k, s) >= 0:
                    load = walk.loads[k][in_force(k, s)]
                    least = max(least, load.end + plan.latency[k])
                    ready = max(ready, (load.start if plan.stream[k] else load.end) + plan.latency[k])
                elif plan.kind[k] == STORE and plan.source[k] < 0:
                    ready = max(ready, stores[k].get(tile_of[k] - int(plan.depth[k]), 0.0))
            work = occupy(walk, c, ready, plan.duration[c, phase, ways[s]], list(plan.share[c, phase, ways[s]]))
            times.append((work.start, work.end))
            if least > work.end:
                work.end = least
                own = int(plan.resource[c, 0])
                walk.free[own] = max(walk.free[own], least)
                times[-1] = (work.start, least)
            last_end[c] = work.end
            done, began = max(done, work.end + plan.latency[c]), work.start
            for k in range(n):
                if plan.needs[c, k] and plan.kind[k] == LOAD and in_force(k, s) >= 0:
                    load = walk.loads[k][in_force(k, s)]
                    load.used = max(load.used, work.end)
        leave = way_between(at, steps[s + 1]) if s + 1 < len(steps) else 0
        last = done
        for k in range(n):
            if plan.kind[k] != STORE or not plan.active[k, phase, leave]:
                continue
            j = int(plan.source[k])
            ready = least = done if j < 0 else last_end[j] + plan.latency[j]
            if j < 0:
                ready = max(ready - plan.ahead[k, phase], began)
            for outer in range(n):
                if plan.kind[outer] == STORE and plan.source[outer] == k:
                    ready = max(ready, stores[outer].get(tile_of[outer] - int(plan.depth[outer]), 0.0))
            work = occupy(walk, k, ready, plan.duration[k, phase, leave], list(plan.share[k, phase, leave]))
            if least > work.end:
                work.end = least
                own = int(plan.resource[k, 0])
                walk.free[own] = max(walk.free[own], least)
            times.append((work.start, work.end))
            last_end[k] = work.end
            stores[k][tile_of[k]] = work.end + plan.latency[k]
            last = max(last, work.end + plan.latency[k])
        finish.append(last)
        if leave == plan.phase_loop + 1:
            phase_end = last
    total = max(last_end[k] + (plan.latency[k] if plan.kind[k] == STORE else 0.0) for k in range(n))
    return total, times
