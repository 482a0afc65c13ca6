"""Shortened runs: stretches that resemble an earlier one are counted, not run; no run falls below (rule E13).

Every time of the event engine is a maximum of sums of earlier times. So where the same operations follow, and all they wait
for is at least c cycles later than it was, all that they bring about is at least c cycles later too. A stretch is run once;
where its like begins, its end is put down at once, c cycles after the end that is kept. c is the least shift of what the
stretch waited for. A state that is only too early stays a lower bound of the true one, so the argument holds
for stretches inside stretches, and for one that was itself shortened.

The result equals the run's cycles where every such stretch is a copy of the one kept. The engine jumps over periods of a loop
that repeat exactly (`codesign.timing.steady_state`); this also jumps from one iteration of an outer loop to the next.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit, njit_inline
from codesign.mapping.nest import IntArray
from codesign.timing.engine import bring_into_force, load_next, may_load, run_array, run_stores, way_out
from codesign.timing.event_plan import COMPUTE, LOAD, STORE, Plan
from codesign.timing.event_state import (
    ENTER,
    ENTERED,
    IN_FORCE,
    ISSUED,
    OVER,
    PASSED,
    SIMULATED,
    STEP,
    State,
    first_state,
)
from codesign.timing.kept_passes import (
    WHOLE,
    Issues,
    Stretches,
    begin_stretch,
    end_stretch,
    first_other,
    is_alike,
    is_same_place,
    least_shift,
    no_stretches,
)
from codesign.timing.look_ahead import advance
from codesign.timing.steady_state import newest_tile

OPERATIONS = 200_000
"""Operations after which a shortened run is given up."""


class _Ahead(NamedTuple):
    """Where look-aheads stand at the end of a stretch: ``K x S`` positions, ``K x 5`` counters, and the last operations."""

    where: IntArray
    counter: IntArray
    issues: Issues


@njit
def shortened_cycles(plan: Plan) -> tuple[float, int]:
    """Cycles that no run of a plan of one phase, without limit of steps in flight, falls below, and operations simulated.

    0 cycles where more than `OPERATIONS` would have to be simulated.
    """
    state = first_state(plan)
    kept, events, array = no_stretches(plan, state), np.zeros((0, 4)), 0
    issues = Issues(np.zeros(state.where.shape, np.int64), np.zeros(plan.kind.shape[0], np.int64))
    for k in range(plan.kind.shape[0]):
        if plan.kind[k] == COMPUTE:
            array = k
    while True:
        bring_into_force(plan, state, 0)
        progress = True
        while progress:
            progress = False
            for k in range(plan.kind.shape[0]):
                if may_load(plan, state, k):
                    _note_issue(state, issues, k)
                    load_next(plan, state, events, k)
                    progress = True
        begun, done = run_array(plan, state, events, 0)
        leave = way_out(plan, state, 0)
        run_stores(plan, state, events, 0, leave, begun, done)
        if leave == 0 or state.work[SIMULATED] > OPERATIONS:
            break
        loop = leave - 1
        while loop >= 0:
            loop = _enter(plan, state, kept, issues, loop, array)
    cycles = 0.0
    for k in range(plan.kind.shape[0]):
        cycles = max(cycles, state.last[k] + (plan.latency[k] if plan.kind[k] == STORE else 0.0))
    return (cycles if leave == 0 else 0.0), state.work[SIMULATED]


@njit_inline
def _note_issue(state: State, issues: Issues, k: int) -> None:
    """Note where LOAD k stands before it runs."""
    for loop in range(state.at.shape[0]):
        issues.where[k, loop] = state.where[k, loop]
    issues.passed[k] = state.counter[k, PASSED]


@njit
def _enter(plan: Plan, state: State, kept: Stretches, issues: Issues, loop: int, array: int) -> int:
    """Advance a loop; returns the loop that advances next where a stretch is jumped over, else -1."""
    for other in range(loop + 1, state.at.shape[0]):
        state.at[other] = 0
    state.at[loop] += 1
    state.number[STEP] += 1
    state.number[ENTER] = loop + 1
    if state.at[loop] == plan.factors[0, loop] - 1 and kept.pending[loop] >= 0:
        end_stretch(plan, state, kept, loop, issues)
    inner = _next_inside(plan, loop)
    if inner < 0:
        return -1
    slot = loop * state.at.shape[0] + _way_on(plan, state, loop)
    if not _jump(plan, state, kept, issues, slot, inner, array):
        begin_stretch(state, kept, slot, inner)
        return -1
    state.at[inner] = plan.factors[0, inner] - 2
    state.number[STEP] -= 1
    return inner


@njit
def _next_inside(plan: Plan, loop: int) -> int:
    """The next loop inside with more than one iteration; -1 for none."""
    for inner in range(loop + 1, plan.factors.shape[1]):
        if plan.factors[0, inner] > 1:
            return inner
    return -1


@njit
def _way_on(plan: Plan, state: State, loop: int) -> int:
    """The loop that advances after this iteration of a loop; 0 at the end of the run."""
    for other in range(loop, 0, -1):
        if state.at[other] + 1 < plan.factors[0, other]:
            return other
    return 0


@njit
def _jump(plan: Plan, state: State, kept: Stretches, issues: Issues, slot: int, inner: int, array: int) -> bool:
    """Put down the end of the stretch of a slot, where the run is at the begin of its like; returns whether it is."""
    if kept.status[slot] != WHOLE or not is_same_place(plan, state, kept, slot, inner):
        return False
    shift = least_shift(plan, state, kept, slot, array)
    if shift <= 0.0 or shift == np.inf:
        return False
    ahead = _Ahead(state.where.copy(), state.counter.copy(), Issues(issues.where.copy(), issues.passed.copy()))
    if not _move_ahead(plan, state, kept, slot, inner, ahead):
        return False
    _put_times(plan, state, kept, slot, ahead.counter, shift)
    for k in range(plan.kind.shape[0]):
        for column in range(state.counter.shape[1]):
            state.counter[k, column] = ahead.counter[k, column]
        issues.passed[k] = ahead.issues.passed[k]
        for loop in range(state.at.shape[0]):
            state.where[k, loop], issues.where[k, loop] = ahead.where[k, loop], ahead.issues.where[k, loop]
    state.number[STEP] += kept.step[slot, 1] - kept.step[slot, 0]
    for loop in range(state.at.shape[0]):
        state.earliest[loop] = min(state.earliest[loop], kept.low[slot] + shift)
    return True


@njit
def _move_ahead(plan: Plan, state: State, kept: Stretches, slot: int, inner: int, ahead: _Ahead) -> bool:
    """Move all look-aheads over a stretch; returns whether they stand at its end as those kept do."""
    first, second, counter = kept.moment.counter[2 * slot], kept.moment.counter[2 * slot + 1], ahead.counter
    at, was_at = state.at.copy(), kept.at[slot].copy()
    at[inner] = was_at[inner] = plan.factors[0, inner] - 1
    for k in range(plan.kind.shape[0]):
        counter[k, IN_FORCE] += second[k, IN_FORCE] - first[k, IN_FORCE]
        moved = second[k, ISSUED] - first[k, ISSUED]
        if plan.kind[k] != LOAD or moved == 0:
            continue
        if first_other(kept.issued[slot], kept.at[slot], k, inner) < 0:
            for loop in range(at.shape[0]):
                ahead.where[k, loop] = at[loop] if loop < inner else kept.issued[slot, k, loop]
        for loop in range(at.shape[0]):
            ahead.issues.where[k, loop] = ahead.where[k, loop]
        counter[k, ISSUED] += moved
        counter[k, PASSED] += kept.passed[slot, k] - first[k, PASSED]
        ahead.issues.passed[k] = counter[k, PASSED]
        passed, entered = advance(plan, ahead.where, state.deepest, k)
        counter[k, PASSED] += passed
        counter[k, OVER] = 0 if entered > 0 else 1
        if counter[k, OVER] != second[k, OVER]:
            return False
        if entered > 0:
            counter[k, ENTERED] = entered
            if entered != second[k, ENTERED] or not is_alike(
                ahead.where, at, kept.moment.where[2 * slot + 1], was_at, k, inner
            ):
                return False
    return True


@njit
def _put_times(plan: Plan, state: State, kept: Stretches, slot: int, counter: IntArray, shift: float) -> None:
    """Times at the end of a stretch: those that it changed are the kept ones and the shift, the others stay."""
    for r in range(state.free.shape[0]):
        if kept.moment.free[2 * slot + 1, r] != kept.moment.free[2 * slot, r]:
            state.free[r] = kept.moment.free[2 * slot + 1, r] + shift
    ring, old = state.tile.shape[1], state.tile.copy()
    for k in range(plan.kind.shape[0]):
        if kept.moment.last[2 * slot + 1, k] != kept.moment.last[2 * slot, k]:
            state.last[k] = kept.moment.last[2 * slot + 1, k] + shift
        state.runs[k] += kept.moment.runs[2 * slot + 1, k] - kept.moment.runs[2 * slot, k]
        now, then = newest_tile(plan, state.counter, k), newest_tile(plan, counter, k)
        behind = then - newest_tile(plan, kept.moment.counter[2 * slot + 1], k)
        for age in range(min(ring, then + 1)):
            tile = then - age
            place, number = tile % ring, tile - behind
            for part in range(3):
                value = kept.moment.tile[2 * slot + 1, k, number % ring, part] if number >= 0 else 0.0
                before = kept.moment.tile[2 * slot, k, number % ring, part] if number >= 0 else 0.0
                if tile <= now and value == before:
                    value = old[k, place, part]
                elif value != 0.0:
                    value += shift
                state.tile[k, place, part] = value
