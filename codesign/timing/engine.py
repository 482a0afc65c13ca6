"""The event engine: operations in program order on resources, buffers of finite depth, steady states skipped exactly.

A *plan* is a loop nest of steps and a list of *processes*. A process is one kind of operation: tiles of one tensor moved
over one boundary, the work of the array, the issue of commands. Each operation holds one or two resources (ports, the
array) from its start to its end, and starts at the latest of what it waits for (rules E1-E9 in docs/explanation/timing.md).
All rules are maxima and sums, so a state that repeats up to a shift in time repeats for ever: `run` then jumps over
whole iterations and multiplies what happened in one period (`codesign.timing.steady_state`).
"""

from codesign.core.jit import njit, njit_inline
from codesign.mapping.nest import FloatArray, IntArray
from codesign.timing.event_plan import COMPUTE, LOAD, NOTHING, STORE, Plan
from codesign.timing.event_state import (
    BEGIN,
    END,
    ENTER,
    ENTERED,
    IN_FORCE,
    ISSUED,
    OVER,
    PASSED,
    RELEASE,
    SIMULATED,
    STEP,
    State,
    end_no_earlier,
    first_state,
    look_ahead,
    note_operation,
    occupy,
)
from codesign.timing.look_ahead import compare, revisited, step_of
from codesign.timing.steady_state import may_repeat, nothing_kept, skip_periods

COMPLETE, CUT_SHORT = 0, 1


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
    state = first_state(plan)
    kept = nothing_kept(plan, state)
    status = COMPLETE
    while True:
        phase = state.at[plan.phase_loop]
        bring_into_force(plan, state, phase)
        run_loads(plan, state, events)
        start, done = run_array(plan, state, events, phase)
        leave = way_out(plan, state, phase)
        run_stores(plan, state, events, phase, leave, start, done)
        if leave == 0:
            break
        if state.work[SIMULATED] > max_operations:
            status = CUT_SHORT
            break
        loop = leave - 1
        for inner in range(loop + 1, state.at.shape[0]):
            state.at[inner] = 0
            kept.at[inner] = -1
        state.at[loop] += 1
        state.number[STEP] += 1
        state.number[ENTER] = leave
        if skip and may_repeat(plan, loop, phase):
            skip_periods(plan, state, kept, loop, plan.factors[phase, loop])
    cycles = 0.0
    for k in range(plan.kind.shape[0]):
        cycles = max(cycles, state.last[k] + (plan.latency[k] if plan.kind[k] == STORE else 0.0))
    return status, cycles, state.busy, state.stalled, state.runs, state.work


@njit_inline
def bring_into_force(plan: Plan, state: State, phase: int) -> None:
    """The tiles that come into force with this step (E5, E7); old partial sums only where their tile was there before (E8)."""
    enter = state.number[ENTER]
    for k in range(plan.kind.shape[0]):
        new = plan.active[k, phase, enter] == 1
        if plan.kind[k] == LOAD:
            new = new and (plan.revisit[k] == 0 or revisited(state.at, plan.revisit[k]))
        elif plan.kind[k] == STORE:
            new = new or plan.by_step[k] == 1 or enter == 0
        else:
            new = False
        if new:
            state.counter[k, IN_FORCE] += 1


@njit_inline
def run_loads(plan: Plan, state: State, events: FloatArray) -> None:
    """All loads that find a slot, in step order on each resource (E4)."""
    progress = True
    while progress:
        progress = False
        for k in range(plan.kind.shape[0]):
            if may_load(plan, state, k):
                load_next(plan, state, events, k)
                progress = True


@njit_inline
def may_load(plan: Plan, state: State, k: int) -> bool:
    """Whether LOAD k has a slot, its source's tile is issued, and no load before it on its resource is left (E4, E5, E9)."""
    counter = state.counter
    if plan.kind[k] != LOAD or counter[k, OVER] == 1:
        return False
    if counter[k, ISSUED] > max(counter[k, IN_FORCE], 0) + plan.depth[k] - 1:
        return False
    if plan.in_flight > 0:
        step = step_of(plan.factors, plan.phase_loop, state.where, k)
        if step >= state.number[STEP] + plan.in_flight:
            return False
    j = plan.source[k]
    if j >= 0 and counter[j, ISSUED] <= counter[k, PASSED]:
        return False
    for other in range(plan.kind.shape[0]):
        if other == k or plan.kind[other] != LOAD or counter[other, OVER] == 1:
            continue
        if plan.resource[other, 0] == plan.resource[k, 0]:
            order = compare(state.where, other, k)
            if order < 0 or (order == 0 and other < k):
                return False
    return True


@njit_inline
def load_next(plan: Plan, state: State, events: FloatArray, k: int) -> None:
    """One load: its operation, then its look-ahead."""
    q, j, ring = state.counter[k, ISSUED], plan.source[k], state.finish.shape[0]
    phase, way, listed = state.where[k, plan.phase_loop], state.counter[k, ENTERED], plan.explicit[k]
    step = step_of(plan.factors, plan.phase_loop, state.where, k)
    ready, cause = _load_ready(plan, state, k, q, step)
    cycles = plan.durations[listed + q] if listed >= 0 else plan.duration[k, phase, way]
    start, end = occupy(plan, state, k, phase, way, ready, cause, cycles)
    if listed >= 0 and plan.aheads[listed + q] > 0.0:
        state.free[plan.resource[k, 0]] -= plan.aheads[listed + q]
        state.busy[k, 0] -= plan.aheads[listed + q]
    note_operation(state, events, k, start, end, step)
    state.tile[k, q % ring, BEGIN] = start
    state.tile[k, q % ring, END] = end
    state.tile[k, q % ring, RELEASE] = end
    if j >= 0:
        place = state.counter[k, PASSED] % ring
        state.tile[j, place, RELEASE] = max(state.tile[j, place, RELEASE], end)
    state.counter[k, ISSUED] = q + 1
    look_ahead(plan, state, k)


@njit_inline
def _load_ready(plan: Plan, state: State, k: int, q: int, step: int) -> tuple[float, int]:
    """When tile q of LOAD k may start, and what it waits for last: its source's tile, or a slot (``K``; E5, E9)."""
    slot, j, ring = plan.kind.shape[0], plan.source[k], state.finish.shape[0]
    ready, cause = 0.0, slot
    if q >= plan.depth[k]:
        ready = state.tile[k, (q - plan.depth[k]) % ring, RELEASE] - plan.early[k]
    if plan.in_flight > 0 and step >= plan.in_flight:
        ready = max(ready, state.finish[(step - plan.in_flight) % ring])
    if j >= 0:
        arrives = state.tile[j, state.counter[k, PASSED] % ring, END] + plan.latency[j]
        if arrives > ready:
            ready, cause = arrives, j
    if plan.barrier[k] == 1 and state.phase_end[0] > ready:
        ready, cause = state.phase_end[0], slot
    return ready, cause


@njit_inline
def run_array(plan: Plan, state: State, events: FloatArray, phase: int) -> tuple[float, float]:
    """The work of the array on entering a step (E6); the start of the last operation, the end of all with their latency."""
    begun, done = 0.0, 0.0
    for c in range(plan.kind.shape[0]):
        if plan.kind[c] != COMPUTE or plan.active[c, phase, state.number[ENTER]] == 0:
            continue
        if plan.explicit[c] >= 0 and plan.durations[plan.explicit[c] + state.number[STEP]] < 0.0:
            continue
        begun, end = _compute(plan, state, events, phase, c)
        done = max(done, end + plan.latency[c])
    return begun, done


@njit_inline
def _compute(plan: Plan, state: State, events: FloatArray, phase: int, c: int) -> tuple[float, float]:
    """One operation of the array; returns start and end."""
    way, step, ring = state.number[ENTER], state.number[STEP], state.finish.shape[0]
    ready, cause, least, last = _data_ready(plan, state, c)
    cycles = plan.durations[plan.explicit[c] + step] if plan.explicit[c] >= 0 else plan.duration[c, phase, way]
    start, end = occupy(plan, state, c, phase, way, ready, cause, cycles)
    own = plan.resource[c, 0]
    for k in range(plan.kind.shape[0]):
        if plan.stretch[c, k] > 0.0:
            slower = plan.stretch[c, k] * max(0.0, min(end, state.last[k]) - start)
            end += slower
            state.stalled[c, k] += slower
            state.free[own] = max(state.free[own], end)
    end = end_no_earlier(plan, state, c, end, least, last)
    note_operation(state, events, c, start, end, step)
    for k in range(plan.kind.shape[0]):
        if plan.needs[c, k] == 1 and plan.kind[k] == LOAD and state.counter[k, IN_FORCE] >= 0:
            place = state.counter[k, IN_FORCE] % ring
            state.tile[k, place, RELEASE] = max(state.tile[k, place, RELEASE], end)
    return start, end


@njit_inline
def _data_ready(plan: Plan, state: State, c: int) -> tuple[float, int, float, int]:
    """When the array may start and what it waits for last; when it may end at the earliest, and for whose data."""
    slot, ring = plan.kind.shape[0], state.finish.shape[0]
    ready, cause, least, last = 0.0, slot, 0.0, slot
    for k in range(plan.kind.shape[0]):
        if plan.needs[c, k] == 0:
            continue
        tile = state.counter[k, IN_FORCE]
        if plan.kind[k] == LOAD and tile >= 0:
            arrives = state.tile[k, tile % ring, END] + plan.latency[k]
            if arrives > least:
                least, last = arrives, k
            if plan.stream[k] == 1:
                arrives = state.tile[k, tile % ring, BEGIN] + plan.latency[k]
            if arrives > ready:
                ready, cause = arrives, k
        elif plan.kind[k] == STORE and plan.source[k] == NOTHING and tile >= plan.depth[k]:
            free = state.tile[k, (tile - plan.depth[k]) % ring, RELEASE]
            if free > ready:
                ready, cause = free, slot
    return ready, cause, least, last


@njit_inline
def way_out(plan: Plan, state: State, phase: int) -> int:
    """How the step is left: 1 + the loop that advances next, 0 at the end of the run."""
    for loop in range(state.at.shape[0] - 1, -1, -1):
        if state.at[loop] + 1 < plan.factors[phase, loop]:
            return loop + 1
    return 0


@njit_inline
def run_stores(plan: Plan, state: State, events: FloatArray, phase: int, leave: int, begun: float, done: float) -> None:
    """The stores on leaving a step (E7); `begun` and `done` say when the array's work began and was there."""
    step, ring = state.number[STEP], state.finish.shape[0]
    finish = done
    for k in range(plan.kind.shape[0]):
        if plan.kind[k] != STORE:
            continue
        if plan.active[k, phase, leave] == 0:
            if plan.by_step[k] == 1:
                state.tile[k, state.counter[k, IN_FORCE] % ring, RELEASE] = 0.0
            continue
        if plan.explicit[k] >= 0 and plan.durations[plan.explicit[k] + step] < 0.0:
            continue
        finish = max(finish, _store(plan, state, events, phase, leave, k, begun, done))
    state.finish[step % ring] = finish
    if leave == plan.phase_loop + 1:
        state.phase_end[0] = finish


@njit_inline
def _store(
    plan: Plan, state: State, events: FloatArray, phase: int, leave: int, k: int, begun: float, done: float
) -> float:
    """One store; returns when its data are there."""
    step, listed, ring = state.number[STEP], plan.explicit[k], state.finish.shape[0]
    least, cause = _result_ready(plan, state, k, done)
    ready = least
    if plan.source[k] < 0:
        ready = max(least - (plan.aheads[listed + step] if listed >= 0 else plan.ahead[k, phase]), begun)
    waits_for = cause
    for outer in range(plan.kind.shape[0]):  # a slot of the level it goes to
        tile = state.counter[outer, IN_FORCE]
        if plan.kind[outer] == STORE and plan.source[outer] == k and tile >= plan.depth[outer]:
            free = state.tile[outer, (tile - plan.depth[outer]) % ring, RELEASE]
            if free > ready:
                ready, waits_for = free, plan.kind.shape[0]
    cycles = plan.durations[listed + step] if listed >= 0 else plan.duration[k, phase, leave]
    start, end = occupy(plan, state, k, phase, leave, ready, waits_for, cycles)
    end = end_no_earlier(plan, state, k, end, least, waits_for)
    note_operation(state, events, k, start, end, step)
    state.tile[k, state.counter[k, IN_FORCE] % ring, RELEASE] = end + plan.latency[k]
    return end + plan.latency[k]  # type: ignore[no-any-return]


@njit_inline
def _result_ready(plan: Plan, state: State, k: int, done: float) -> tuple[float, int]:
    """When the data of STORE k are there, and who makes them: the store before it, or the array."""
    j = plan.source[k]
    if j >= 0:
        return state.last[j] + plan.latency[j], j
    maker = plan.kind.shape[0]
    for c in range(plan.kind.shape[0]):
        if plan.kind[c] == COMPUTE:
            maker = c
    return done, maker
