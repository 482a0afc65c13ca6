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
    steps: list[tuple[int, ...]]
    ways: list[int]
    tiles: dict[int, list[int]]  # by operation the steps at which it runs
    loads: dict[int, list[Operation]]
    stores: dict[int, dict[int, float]]  # by operation and tile, when it has arrived
    tile_of: dict[int, int]
    last_end: dict[int, float]
    free: dict[int, float] = field(default_factory=dict)  # by resource
    finish: list[float] = field(default_factory=list)  # by step
    times: list[tuple[float, float]] = field(default_factory=list)
    phase_end: float = 0.0


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
    for r, hold in held:
        walk.free[r] = start + hold
    return Operation(start, start + cycles, start + cycles)


def in_force(walk: Walk, k: int, step: int) -> int:
    """The tile of a load at a step; -1 before the first."""
    return bisect_right(walk.tiles[k], step) - 1


def next_step(walk: Walk, k: int) -> int | None:
    done = len(walk.loads[k])
    return walk.tiles[k][done] if done < len(walk.tiles[k]) else None


def may_issue(walk: Walk, k: int, step: int) -> bool:
    plan, mine = walk.plan, next_step(walk, k)
    if mine is None or len(walk.loads[k]) > max(in_force(walk, k, step), 0) + plan.depth[k] - 1:
        return False
    if plan.in_flight and mine >= step + plan.in_flight:
        return False
    j = int(plan.source[k])
    if j >= 0 and len(walk.loads[j]) <= in_force(walk, j, mine):
        return False
    for other in range(len(plan.kind)):
        theirs = next_step(walk, other) if plan.kind[other] == LOAD and other != k else None
        if theirs is not None and plan.resource[other, 0] == plan.resource[k, 0] and (theirs, other) < (mine, k):
            return False
    return True


def issue(walk: Walk, k: int) -> None:
    plan, q, mine = walk.plan, len(walk.loads[k]), next_step(walk, k)
    assert mine is not None
    ready = 0.0
    if q >= plan.depth[k]:
        ready = walk.loads[k][q - plan.depth[k]].used - plan.early[k]
    if plan.in_flight and mine >= plan.in_flight:
        ready = max(ready, walk.finish[mine - plan.in_flight])
    j = int(plan.source[k])
    tile = in_force(walk, j, mine) if j >= 0 else -1
    if j >= 0 and tile >= 0:
        ready = max(ready, walk.loads[j][tile].end + plan.latency[j])
    if plan.barrier[k]:
        ready = max(ready, walk.phase_end)
    at = k, walk.steps[mine][plan.phase_loop], walk.ways[mine]
    done = occupy(walk, k, ready, plan.duration[at], list(plan.share[at]))
    walk.loads[k].append(done)
    walk.last_end[k] = done.end
    walk.times.append((done.start, done.end))
    if j >= 0 and tile >= 0:
        walk.loads[j][tile].used = max(walk.loads[j][tile].used, done.end)


def hold_until(walk: Walk, k: int, work: Operation, least: float) -> None:
    """An operation that ends no sooner keeps its own resource until then."""
    if least > work.end:
        work.end = least
        own = int(walk.plan.resource[k, 0])
        walk.free[own] = max(walk.free[own], least)
    walk.times.append((work.start, work.end))
    walk.last_end[k] = work.end


def compute(walk: Walk, step: int) -> tuple[float, float]:
    """The computing of a step: when its results are there, and when the last one began."""
    plan, done, began = walk.plan, 0.0, 0.0
    n, at = len(plan.kind), (walk.steps[step][plan.phase_loop], walk.ways[step])
    for c in range(n):
        if plan.kind[c] != COMPUTE or not plan.active[c, *at]:
            continue
        ready = least = 0.0
        loads = [(k, in_force(walk, k, step)) for k in range(n) if plan.needs[c, k] and plan.kind[k] == LOAD]
        used = [(k, walk.loads[k][tile]) for k, tile in loads if tile >= 0]
        for k, load in used:
            least = max(least, load.end + plan.latency[k])
            ready = max(ready, (load.start if plan.stream[k] else load.end) + plan.latency[k])
        for k in range(n):
            if plan.needs[c, k] and plan.kind[k] == STORE and plan.source[k] < 0:
                ready = max(ready, walk.stores[k].get(walk.tile_of[k] - int(plan.depth[k]), 0.0))
        work = occupy(walk, c, ready, plan.duration[c, *at], list(plan.share[c, *at]))
        hold_until(walk, c, work, least)
        done, began = max(done, work.end + plan.latency[c]), work.start
        for _, load in used:
            load.used = max(load.used, work.end)
    return done, began


def store(walk: Walk, phase: int, leave: int, done: float, began: float) -> float:
    """What leaves after a step: when the last of it has arrived."""
    plan, last = walk.plan, done
    for k in range(len(plan.kind)):
        if plan.kind[k] != STORE or not plan.active[k, phase, leave]:
            continue
        j = int(plan.source[k])
        ready = least = done if j < 0 else walk.last_end[j] + plan.latency[j]
        if j < 0:
            ready = max(ready - plan.ahead[k, phase], began)
        for outer in range(len(plan.kind)):
            if plan.kind[outer] == STORE and plan.source[outer] == k:
                ready = max(ready, walk.stores[outer].get(walk.tile_of[outer] - int(plan.depth[outer]), 0.0))
        work = occupy(walk, k, ready, plan.duration[k, phase, leave], list(plan.share[k, phase, leave]))
        hold_until(walk, k, work, least)
        walk.stores[k][walk.tile_of[k]] = work.end + plan.latency[k]
        last = max(last, work.end + plan.latency[k])
    return last


def walk_plan(plan: Plan) -> tuple[float, list[tuple[float, float]]]:
    """Cycles of the run, and start and end of every operation in order of issue."""
    steps, n = positions(plan), len(plan.kind)
    ways = [0, *(way_between(a, b) for a, b in itertools.pairwise(steps))]
    tiles = {k: [s for s, at in enumerate(steps) if runs_at(plan, k, at, ways[s])] for k in range(n)}
    every = range(n)
    walk = Walk(
        plan, steps, ways, tiles, {k: [] for k in every}, {k: {} for k in every}, dict.fromkeys(every, -1), dict.fromkeys(every, 0.0)
    )  # fmt: skip
    for s, at in enumerate(steps):
        phase = at[plan.phase_loop]
        for k in every:
            if plan.kind[k] == STORE and (plan.by_step[k] or plan.active[k, phase, ways[s]] or s == 0):
                walk.tile_of[k] += 1
        progress = True
        while progress:
            progress = False
            for k in every:
                if plan.kind[k] == LOAD and may_issue(walk, k, s):
                    issue(walk, k)
                    progress = True
        done, began = compute(walk, s)
        leave = way_between(at, steps[s + 1]) if s + 1 < len(steps) else 0
        walk.finish.append(store(walk, phase, leave, done, began))
        if leave == plan.phase_loop + 1:
            walk.phase_end = walk.finish[-1]
    total = max(walk.last_end[k] + (plan.latency[k] if plan.kind[k] == STORE else 0.0) for k in every)
    return total, walk.times
