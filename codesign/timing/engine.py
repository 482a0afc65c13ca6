"""The event engine: operations in program order on resources, buffers of finite depth, steady states skipped exactly.

A *plan* is a loop nest of steps and a list of *processes*. A process is one kind of operation: tiles of one tensor moved
over one boundary, the work of the array, the issue of commands. Each operation holds one or two resources (ports, the
array) from its start to its end, and starts at the latest of what it waits for (rules E1-E9 in docs/explanation/timing.md).
All rules are maxima and sums, so a state that repeats up to a shift in time repeats for ever: `run` then jumps over
whole iterations and multiplies what happened in one period.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.mapping.nest import FloatArray, IntArray

LOAD, COMPUTE, STORE = 0, 1, 2
"""Kinds: runs ahead of the step as far as buffers allow; runs on entering a step; runs on leaving a step."""

NOTHING = -1
COMPLETE, CUT_SHORT = 0, 1


class Plan(NamedTuple):
    """What the engine runs.

    Shapes: S loops of the step nest, outermost first; P phases (the values of loop `phase_loop`; inner loops may differ
    from phase to phase); K processes; R resources; A = S + 1 ways to enter or leave a step: 0 is the start (the end)
    of the run, ``1 + l`` an advance of loop l.

    Attributes:
        factors: ``P x S`` iterations of each loop in each phase.
        phase_loop: Index of the loop over phases.
        kind: ``K`` `LOAD`, `COMPUTE` or `STORE`.
        resource: ``K x M`` resources held, the own one first; `NOTHING` for none.
        depth: ``K`` tiles a LOAD may hold (its buffer slots); for a STORE the tiles of output that may be unfinished.
        by_step: ``K`` STORE: 1 where slots alternate at every step, not at every tile.
        source: ``K`` LOAD: the LOAD whose tile it reads; STORE: the STORE before it (inner level); `NOTHING` for none.
        early: ``K`` cycles before the end of its last use at which the slot of a tile is free again.
        latency: ``K`` cycles after the end of the operation until its data can be used.
        stream: ``K`` LOAD: 1 where its users may start with it, and end no earlier than it does.
        revisit: ``K`` LOAD: bit set of loops; it runs only where one of them is past its first iteration (0: always).
        active: ``K x P x A`` 1 where it runs on entering (STORE: on leaving) a step this way.
        duration: ``K x P x A`` cycles from start to end.
        share: ``K x P x A x M`` cycles for which each resource is held; a negative first entry is the whole operation.
        ahead: ``K x P`` STORE: cycles before the end of the array's work at which it may start.
        needs: ``K x K`` 1 where COMPUTE k waits for the tile of LOAD j that is in force.
        explicit: ``K`` first entry in `durations` of a process whose cycles are listed step by step; `NOTHING` for none.
        durations: Those lists; a negative entry of a COMPUTE or STORE is a step at which it does not run.
        aheads: Beside `durations`, in place of `ahead`; of a LOAD, cycles before its end at which its own resource is free.
        stretch: ``K x K`` share by which COMPUTE k is slowed while operations of STORE j run beside it.
        in_flight: Steps that may be unfinished at a time (loads started, results not stored); 0 is no limit.
        barrier: ``K`` LOAD: 1 where its first tile of a phase waits for everything stored in the phase before.
        resources: number of resources.
    """

    factors: IntArray
    phase_loop: int
    kind: IntArray
    resource: IntArray
    depth: IntArray
    by_step: IntArray
    source: IntArray
    early: FloatArray
    latency: FloatArray
    stream: IntArray
    revisit: IntArray
    active: IntArray
    duration: FloatArray
    share: FloatArray
    ahead: FloatArray
    needs: IntArray
    explicit: IntArray
    durations: FloatArray
    aheads: FloatArray
    stretch: FloatArray
    in_flight: int
    barrier: IntArray
    resources: int


@njit
def run(
    plan: Plan, skip: bool, max_operations: int, events: FloatArray
) -> tuple[int, float, FloatArray, FloatArray, IntArray, IntArray]:
    """Run a plan.

    Args:
        plan: See `Plan`.
        skip: Whether repeating states are jumped over.
        max_operations: Stop after this many simulated operations.
        events: ``E x 4`` room for a timeline: process, start, end, step; filled from the front, rows left over stay.

    Returns:
        (status, cycles, busy ``K x M``, stalled ``K x (K + 1 + R)``, counts ``K``, work ``3``). ``stalled[k, j]`` are cycles in
        which the resource of k stood still before an operation of k because of j: j < K its data, K a free slot, K + 1 + r
        resource r. ``work``: operations simulated, jumps, events written.
    """
    factors, kind, resource, depth = plan.factors, plan.kind, plan.resource, plan.depth
    by_step, source, early, latency = plan.by_step, plan.source, plan.early, plan.latency
    stream, revisit, active, duration = plan.stream, plan.revisit, plan.active, plan.duration
    ahead, needs, explicit, durations, share = plan.ahead, plan.needs, plan.explicit, plan.durations, plan.share
    in_flight, barrier, phase_loop = plan.in_flight, plan.barrier, plan.phase_loop
    n_phases, n_loops = factors.shape
    n = kind.shape[0]
    ring = 2
    for k in range(n):
        ring = max(ring, depth[k] + 2)
    ring = max(ring, in_flight + 2)
    # ---- state: times (floats), then counters (integers) -----------------------------------------------------------
    # times: free per resource | end, begin, release per process and ring place | finish of steps | last end per process
    o_end = plan.resources
    o_begin = o_end + n * ring
    o_release = o_begin + n * ring
    o_finish = o_release + n * ring
    o_last = o_finish + ring
    o_phase = o_last + n
    size = o_phase + 1
    time = np.zeros(size)
    # counters: tiles issued, tile in force, tiles of the source passed by the look-ahead, stores done | step
    issued = np.zeros(n, np.int64)
    force = np.full(n, -1, np.int64)
    passed = np.full(n, -1, np.int64)
    where = np.zeros((n, n_loops), np.int64)  # look-ahead position of each LOAD
    entered = np.zeros(n, np.int64)  # how that position was reached
    over = np.zeros(n, np.int64)
    index = np.zeros(n_loops, np.int64)
    busy = np.zeros(resource.shape)
    stalled = np.zeros((n, n + 1 + plan.resources))
    counts = np.zeros(n, np.int64)
    work = np.zeros(3, np.int64)
    step = 0
    # innermost loop whose advance makes a LOAD or its source run, per phase: the look-ahead counts the tiles of both
    deepest = np.full((n, n_phases), -1, np.int64)
    for k in range(n):
        for p in range(n_phases):
            for loop in range(n_loops):
                if active[k, p, loop + 1] == 1 or (source[k] >= 0 and active[source[k], p, loop + 1] == 1):
                    deepest[k, p] = loop
    for k in range(n):  # the first position at which a LOAD runs
        if source[k] >= 0 and active[source[k], 0, 0] == 1 and revisit[source[k]] == 0:
            passed[k] = 0
        if kind[k] == LOAD and (active[k, 0, 0] == 0 or revisit[k] != 0):
            over[k] = _advance(factors, phase_loop, where, entered, k, active, revisit, deepest, source, passed)
    # ---- snapshots for the search of repeating states (Brent: kept at iterations 1, 2, 4, 8 ...) ----------------------
    snap_time = np.zeros((n_loops, size))
    snap_at = np.full(n_loops, -1, np.int64)
    snap_issued = np.zeros((n_loops, n), np.int64)
    snap_force = np.zeros((n_loops, n), np.int64)
    snap_passed = np.zeros((n_loops, n), np.int64)
    snap_where = np.zeros((n_loops, n, n_loops), np.int64)
    snap_entered = np.zeros((n_loops, n), np.int64)
    snap_over = np.zeros((n_loops, n), np.int64)
    snap_busy = np.zeros((n_loops, n, resource.shape[1]))
    snap_stalled = np.zeros((n_loops, n, n + 1 + plan.resources))
    snap_counts = np.zeros((n_loops, n), np.int64)
    snap_step = np.zeros(n_loops, np.int64)
    earliest = np.full(n_loops, np.inf)  # earliest start since the snapshot of each loop
    listed = False
    for k in range(n):
        listed = listed or explicit[k] >= 0
    enter = 0
    status = COMPLETE
    while True:
        phase = index[phase_loop]
        # ---- tiles that come into force with this step ---------------------------------------------------------------
        for k in range(n):
            if kind[k] == LOAD and active[k, phase, enter] == 1:
                if revisit[k] == 0 or _revisited(index, revisit[k]):
                    force[k] += 1
            elif kind[k] == STORE and (by_step[k] == 1 or active[k, phase, enter] == 1 or enter == 0):
                force[k] += 1
        # ---- loads, in step order on each resource ---------------------------------------------------------------------
        progress = True
        while progress:
            progress = False
            for k in range(n):
                if kind[k] != LOAD or over[k] == 1 or issued[k] > max(force[k], 0) + depth[k] - 1:
                    continue
                if in_flight > 0 and _steps(factors, phase_loop, where[k]) >= step + in_flight:
                    continue
                j = source[k]
                if j >= 0 and issued[j] <= passed[k]:
                    continue
                blocked = False
                for other in range(n):
                    if other != k and kind[other] == LOAD and over[other] == 0 and resource[other, 0] == resource[k, 0]:
                        order = _compare(where[other], where[k])
                        blocked = blocked or order < 0 or (order == 0 and other < k)
                if blocked:
                    continue
                q = issued[k]
                at = where[k, phase_loop]
                cycles = durations[explicit[k] + q] if explicit[k] >= 0 else duration[k, at, entered[k]]
                ready, cause = 0.0, n
                if q >= depth[k]:
                    ready, cause = time[o_release + k * ring + (q - depth[k]) % ring] - early[k], n
                if in_flight > 0:
                    ahead_step = _steps(factors, phase_loop, where[k])
                    if ahead_step >= in_flight and time[o_finish + (ahead_step - in_flight) % ring] > ready:
                        ready, cause = time[o_finish + (ahead_step - in_flight) % ring], n
                if j >= 0 and time[o_end + j * ring + passed[k] % ring] + latency[j] > ready:
                    ready, cause = time[o_end + j * ring + passed[k] % ring] + latency[j], j
                if barrier[k] == 1 and time[o_phase] > ready:
                    ready, cause = time[o_phase], n
                start, end = _occupy(
                    time, resource, k, ready, cause, cycles, share[k, at, entered[k]], busy, stalled, counts
                )
                if explicit[k] >= 0 and plan.aheads[explicit[k] + q] > 0.0:
                    time[resource[k, 0]] -= plan.aheads[explicit[k] + q]
                    busy[k, 0] -= plan.aheads[explicit[k] + q]
                _note(events, work, k, start, end, _steps(factors, phase_loop, where[k]))
                for loop in range(n_loops):
                    earliest[loop] = min(earliest[loop], start)
                time[o_begin + k * ring + q % ring] = start
                time[o_end + k * ring + q % ring] = end
                time[o_release + k * ring + q % ring] = end
                time[o_last + k] = end
                if j >= 0:
                    place = o_release + j * ring + passed[k] % ring
                    time[place] = max(time[place], end)
                issued[k] += 1
                over[k] = _advance(factors, phase_loop, where, entered, k, active, revisit, deepest, source, passed)
                progress = True
        # ---- the array ---------------------------------------------------------------------------------------------------
        done, work_start = 0.0, 0.0
        for c in range(n):
            if kind[c] != COMPUTE or active[c, phase, enter] == 0:
                continue
            if explicit[c] >= 0 and durations[explicit[c] + step] < 0.0:
                continue
            ready, cause, least, last = 0.0, n, 0.0, n
            for k in range(n):
                if needs[c, k] == 1 and kind[k] == LOAD and force[k] >= 0:
                    place = k * ring + force[k] % ring
                    arrives = time[o_end + place] + latency[k]
                    if arrives > least:
                        least, last = arrives, k
                    if stream[k] == 1:
                        arrives = time[o_begin + place] + latency[k]
                    if arrives > ready:
                        ready, cause = arrives, k
                elif needs[c, k] == 1 and kind[k] == STORE and source[k] == NOTHING and force[k] >= depth[k]:
                    free = time[o_release + k * ring + (force[k] - depth[k]) % ring]
                    if free > ready:
                        ready, cause = free, n
            cycles = durations[explicit[c] + step] if explicit[c] >= 0 else duration[c, phase, enter]
            start, end = _occupy(time, resource, c, ready, cause, cycles, share[c, phase, enter], busy, stalled, counts)
            for k in range(n):
                if plan.stretch[c, k] > 0.0:
                    slower = plan.stretch[c, k] * max(0.0, min(end, time[o_last + k]) - start)
                    end += slower
                    stalled[c, k] += slower
                    time[resource[c, 0]] = max(time[resource[c, 0]], end)
            if least > end:
                stalled[c, last] += least - end
                end = least
                time[resource[c, 0]] = max(time[resource[c, 0]], end)
            _note(events, work, c, start, end, step)
            for loop in range(n_loops):
                earliest[loop] = min(earliest[loop], start)
            time[o_last + c] = end
            done = max(done, end + latency[c])
            work_start = start
            for k in range(n):
                if needs[c, k] == 1 and kind[k] == LOAD and force[k] >= 0:
                    place = o_release + k * ring + force[k] % ring
                    time[place] = max(time[place], end)
        # ---- the way out of the step ---------------------------------------------------------------------------------------
        leave = 0
        for loop in range(n_loops - 1, -1, -1):
            if index[loop] + 1 < factors[phase, loop]:
                leave = loop + 1
                break
        finish = done
        for k in range(n):
            if kind[k] != STORE:
                continue
            if active[k, phase, leave] == 0:
                if by_step[k] == 1:
                    time[o_release + k * ring + force[k] % ring] = 0.0
                continue
            if explicit[k] >= 0 and durations[explicit[k] + step] < 0.0:
                continue
            j = source[k]
            ready = done if j < 0 else time[o_last + j] + latency[j]
            least = ready
            if j < 0:
                early_start = plan.aheads[explicit[k] + step] if explicit[k] >= 0 else ahead[k, phase]
                ready = max(ready - early_start, work_start)
            cause = n
            if j >= 0:
                cause = j
            else:
                for c in range(n):
                    if kind[c] == COMPUTE:
                        cause = c
            for outer in range(n):  # a slot of the level it goes to
                if kind[outer] == STORE and source[outer] == k and force[outer] >= depth[outer]:
                    free = time[o_release + outer * ring + (force[outer] - depth[outer]) % ring]
                    if free > ready:
                        ready, cause = free, n
            cycles = durations[explicit[k] + step] if explicit[k] >= 0 else duration[k, phase, leave]
            start, end = _occupy(time, resource, k, ready, cause, cycles, share[k, phase, leave], busy, stalled, counts)
            if least > end:
                stalled[k, cause] += least - end
                end = least
                time[resource[k, 0]] = max(time[resource[k, 0]], end)
            _note(events, work, k, start, end, step)
            for loop in range(n_loops):
                earliest[loop] = min(earliest[loop], start)
            time[o_last + k] = end
            time[o_release + k * ring + force[k] % ring] = end + latency[k]
            finish = max(finish, end + latency[k])
        time[o_finish + step % ring] = finish
        if leave == phase_loop + 1:
            time[o_phase] = finish
        if leave == 0:
            break
        if work[0] > max_operations:
            status = CUT_SHORT
            break
        loop = leave - 1
        for inner in range(loop + 1, n_loops):
            index[inner] = 0
            snap_at[inner] = -1
        index[loop] += 1
        enter = leave
        step += 1
        if not skip or listed or loop == phase_loop or factors[phase, loop] < 4:
            continue
        # ---- has this state, up to a shift, been seen at an earlier iteration of this loop? ---------------------------------
        i = index[loop]
        if snap_at[loop] >= 1:
            period = i - snap_at[loop]
            delta = 0.0
            for r in range(plan.resources):
                delta = max(delta, time[r] - snap_time[loop, r])
            low = earliest[loop]
            same = delta > 0.0
            shift = step - snap_step[loop]
            for r in range(plan.resources):
                same = same and _alike(time[r], snap_time[loop, r], delta, low)
            left = (factors[phase, loop] - 1 - i) // period
            for k in range(n):
                if not same:
                    break
                moved = issued[k] - snap_issued[loop, k]
                same = same and over[k] == snap_over[loop, k] and entered[k] == snap_entered[loop, k]
                still = moved == 0
                for other in range(n_loops):
                    change = where[k, other] - snap_where[loop, k, other]
                    if other == loop and not still and kind[k] == LOAD:
                        same = same and change == period
                        left = min(left, (factors[phase, loop] - 1 - where[k, loop]) // period)
                    else:
                        same = same and change == 0
                same = same and _alike(time[o_last + k], snap_time[loop, o_last + k], delta, low)
                moved_force = force[k] - snap_force[loop, k]
                for age in range(ring):
                    if kind[k] == LOAD:
                        now, was = issued[k] - 1 - age, snap_issued[loop, k] - 1 - age
                    else:
                        now, was = force[k] - age, snap_force[loop, k] - age
                    if now < 0 or was < 0 or age >= depth[k] + 1:
                        break
                    for part in range(3):
                        base = o_end + part * n * ring + k * ring
                        same = same and _alike(time[base + now % ring], snap_time[loop, base + was % ring], delta, low)
                if kind[k] == LOAD:
                    same = same and moved_force == moved
            same = same and _alike(time[o_phase], snap_time[loop, o_phase], delta, low)
            for age in range(min(ring, in_flight + 1) if in_flight > 0 else 0):
                if step - 1 - age >= 0 and snap_step[loop] - 1 - age >= 0:
                    a = time[o_finish + (step - 1 - age) % ring]
                    b = snap_time[loop, o_finish + (snap_step[loop] - 1 - age) % ring]
                    same = same and _alike(a, b, delta, low)
            if same and left > 0:
                _jump(
                    time, snap_time[loop], delta * left, low, left, ring, o_end, o_finish, n, plan.resources, kind,
                    issued, snap_issued[loop], force, snap_force[loop], passed, snap_passed[loop], where, loop, period,
                    step, shift,
                )  # fmt: skip
                for k in range(n):
                    for side in range(resource.shape[1]):
                        busy[k, side] += left * (busy[k, side] - snap_busy[loop, k, side])
                    counts[k] += left * (counts[k] - snap_counts[loop, k])
                    for j in range(stalled.shape[1]):
                        stalled[k, j] += left * (stalled[k, j] - snap_stalled[loop, k, j])
                index[loop] += left * period
                step += left * shift
                work[1] += 1
                for other in range(n_loops):
                    snap_at[other] = -1 if other >= loop else snap_at[other]
                continue
        if i >= 1 and (i & (i - 1)) == 0:
            snap_at[loop] = i
            snap_time[loop] = time
            snap_issued[loop] = issued
            snap_force[loop] = force
            snap_passed[loop] = passed
            snap_where[loop] = where
            snap_entered[loop] = entered
            snap_over[loop] = over
            snap_busy[loop] = busy
            snap_stalled[loop] = stalled
            snap_counts[loop] = counts
            snap_step[loop] = step
            earliest[loop] = np.inf
    cycles = 0.0
    for k in range(n):
        cycles = max(cycles, time[o_last + k] + (latency[k] if kind[k] == STORE else 0.0))
    return status, cycles, busy, stalled, counts, work


@njit
def _alike(now: float, was: float, delta: float, low: float) -> bool:
    """Moved with time, or left alone and too old to hold anything up."""
    return now - was == delta or (now == was and now <= low)


@njit
def _jump(
    time: FloatArray, was: FloatArray, shift_time: float, low: float, left: int, ring: int, o_end: int, o_finish: int, n: int,
    resources: int, kind: IntArray, issued: IntArray, snap_issued: IntArray, force: IntArray, snap_force: IntArray,
    passed: IntArray, snap_passed: IntArray, where: IntArray, loop: int, period: int, step: int, shift: int,
) -> None:  # fmt: skip
    """Move every time and counter over `left` periods; ring places turn with their counters."""
    old = time.copy()
    for r in range(resources):
        if old[r] != was[r]:
            time[r] = old[r] + shift_time
    if old[-1] != was[-1]:
        time[-1] = old[-1] + shift_time
    for k in range(n):
        moved = issued[k] - snap_issued[k] if kind[k] == LOAD else force[k] - snap_force[k]
        newest = issued[k] - 1 if kind[k] == LOAD else force[k]
        for part in range(3):
            base = o_end + part * n * ring + k * ring
            for age in range(ring):
                now = newest - age
                if now < 0:
                    break
                value = old[base + now % ring]
                # a place whose counter stands still keeps its time unless users moved it (its release)
                before = was[base + (now - moved) % ring] if now - moved >= 0 else value
                time[base + (now + left * moved) % ring] = value if value == before else value + shift_time
        place = o_finish + ring + k
        if old[place] != was[place]:
            time[place] = old[place] + shift_time
        if kind[k] == LOAD and moved > 0:
            where[k, loop] += left * period
        passed[k] += left * (passed[k] - snap_passed[k])
        issued[k] += left * (issued[k] - snap_issued[k])
        force[k] += left * (force[k] - snap_force[k])
    for age in range(ring):
        now = step - 1 - age
        if now < 0:
            break
        time[o_finish + (now + left * shift) % ring] = old[o_finish + now % ring] + shift_time


@njit
def _occupy(
    time: FloatArray, resource: IntArray, k: int, ready: float, cause: int, cycles: float, share: FloatArray,
    busy: FloatArray, stalled: FloatArray, counts: IntArray,
) -> tuple[float, float]:  # fmt: skip
    """Take the resources of process k at the earliest time after `ready`; returns start and end."""
    own = time[resource[k, 0]]
    start = max(ready, own)
    for side in range(1, resource.shape[1]):
        if resource[k, side] >= 0 and time[resource[k, side]] > start:
            start, cause = time[resource[k, side]], stalled.shape[0] + 1 + resource[k, side]
    if start > own:
        stalled[k, cause] += start - own
    end = start + cycles
    held = cycles if share[0] < 0.0 else share[0]
    time[resource[k, 0]] = start + held
    busy[k, 0] += held
    for side in range(1, resource.shape[1]):
        if resource[k, side] >= 0:
            time[resource[k, side]] = start + share[side]
            busy[k, side] += share[side]
    counts[k] += 1
    return start, end


@njit
def _note(events: FloatArray, work: IntArray, k: int, start: float, end: float, step: int) -> None:
    work[0] += 1
    if work[2] < events.shape[0]:
        row = work[2]
        events[row, 0] = k
        events[row, 1] = start
        events[row, 2] = end
        events[row, 3] = step
        work[2] += 1


@njit
def _revisited(index: IntArray, mask: int) -> bool:
    for loop in range(index.shape[0]):
        if (mask >> loop) & 1 == 1 and index[loop] > 0:
            return True
    return False


@njit
def _compare(a: IntArray, b: IntArray) -> int:
    """-1, 0 or 1 as position a comes before, with or after position b."""
    for loop in range(a.shape[0]):
        if a[loop] != b[loop]:
            return -1 if a[loop] < b[loop] else 1
    return 0


@njit
def _steps(factors: IntArray, phase_loop: int, where: IntArray) -> int:
    """Number of the step at a position."""
    n_phases, n_loops = factors.shape
    per_phase_total = 0
    mine = 0
    for p in range(n_phases):
        inner = 1
        for loop in range(phase_loop + 1, n_loops):
            inner *= factors[p, loop]
        if p < where[phase_loop]:
            mine += inner
        per_phase_total += inner
    inside = 0
    for loop in range(phase_loop + 1, n_loops):
        inside = inside * factors[where[phase_loop], loop] + where[loop]
    outside = 0
    for loop in range(phase_loop):
        outside = outside * factors[0, loop] + where[loop]
    return outside * per_phase_total + mine + inside


@njit
def _advance(
    factors: IntArray, phase_loop: int, where: IntArray, entered: IntArray, k: int, active: IntArray, revisit: IntArray,
    deepest: IntArray, source: IntArray, passed: IntArray,
) -> int:  # fmt: skip
    """Move the look-ahead of LOAD k to the next position where it runs; returns 1 when there is none."""
    n_loops = factors.shape[1]
    position = where[k]
    while True:
        phase = position[phase_loop]
        # advances inside the deepest loop that matters change nothing for k, nor for the tile it reads
        loop = max(deepest[k, phase], phase_loop)
        for inner in range(loop + 1, n_loops):
            position[inner] = 0
        while loop >= 0 and position[loop] + 1 >= factors[phase, loop]:
            position[loop] = 0
            loop -= 1
        if loop < 0:
            return 1
        position[loop] += 1
        for inner in range(loop + 1, n_loops):
            position[inner] = 0
        phase = position[phase_loop]
        j = source[k]
        if j >= 0 and active[j, phase, loop + 1] == 1 and (revisit[j] == 0 or _revisited(position, revisit[j])):
            passed[k] += 1
        if active[k, phase, loop + 1] == 1 and (revisit[k] == 0 or _revisited(position, revisit[k])):
            entered[k] = loop + 1
            return 0
