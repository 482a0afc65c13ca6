"""States of the event engine that repeat up to a shift in time are jumped over, exactly.

All rules of the engine are maxima and sums, so a state that repeats up to a shift repeats for ever. The state is kept at
iterations 1, 2, 4, 8 ... of each loop and compared at every later one (R. Brent, 1980), so a period of any length is found.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit, njit_inline
from codesign.mapping.nest import FloatArray, IntArray
from codesign.timing.event_plan import LOAD, Plan
from codesign.timing.event_state import ENTERED, IN_FORCE, ISSUED, JUMPS, OVER, PASSED, STEP, State

_LEAST_ITERATIONS = 4


class Moments(NamedTuple):
    """What decides what happens next, at some moments: attributes as in `State`, with an axis of moments in front."""

    free: FloatArray
    tile: FloatArray
    last: FloatArray
    counter: IntArray
    where: IntArray
    runs: IntArray


@njit
def no_moments(plan: Plan, state: State, count: int) -> Moments:
    """Room for so many moments."""
    loops, n, ring = state.at.shape[0], plan.kind.shape[0], state.finish.shape[0]
    return Moments(
        np.zeros((count, plan.resources)),
        np.zeros((count, n, ring, 3)),
        np.zeros((count, n)),
        np.zeros((count, n, state.counter.shape[1]), np.int64),
        np.zeros((count, n, loops), np.int64),
        np.zeros((count, n), np.int64),
    )


@njit
def keep_moment(state: State, kept: Moments, moment: int) -> None:
    """Keep the state as one of the moments."""
    for r in range(state.free.shape[0]):
        kept.free[moment, r] = state.free[r]
    for k in range(state.last.shape[0]):
        kept.last[moment, k], kept.runs[moment, k] = state.last[k], state.runs[k]
        for place in range(state.tile.shape[1]):
            for part in range(3):
                kept.tile[moment, k, place, part] = state.tile[k, place, part]
        for column in range(state.counter.shape[1]):
            kept.counter[moment, k, column] = state.counter[k, column]
        for other in range(state.where.shape[1]):
            kept.where[moment, k, other] = state.where[k, other]


class Kept(NamedTuple):
    """The state kept for each loop; attributes as in `State`, with an axis of loops in front.

    Attributes:
        at: ``S`` iteration at which it was kept; -1: none is kept.
        step: ``S`` its step.
        moment: By loop, what decides what happens next.
    """

    at: IntArray
    step: IntArray
    moment: Moments
    finish: FloatArray
    phase_end: FloatArray
    busy: FloatArray
    stalled: FloatArray


@njit
def nothing_kept(plan: Plan, state: State) -> Kept:
    """Room for the states; none is kept."""
    loops, n, ring = plan.factors.shape[1], plan.kind.shape[0], state.finish.shape[0]
    return Kept(
        np.full(loops, -1, np.int64),
        np.zeros(loops, np.int64),
        no_moments(plan, state, loops),
        np.zeros((loops, ring)),
        np.zeros((loops, 1)),
        np.zeros((loops, n, state.busy.shape[1])),
        np.zeros((loops, n, state.stalled.shape[1])),
    )


@njit_inline
def may_repeat(plan: Plan, loop: int, phase: int) -> bool:
    """Whether periods of a loop can be skipped: cycles listed step by step need not repeat, nor do phases."""
    if loop == plan.phase_loop or plan.factors[phase, loop] < _LEAST_ITERATIONS:
        return False
    for k in range(plan.kind.shape[0]):
        if plan.explicit[k] >= 0:
            return False
    return True


@njit_inline
def skip_periods(plan: Plan, state: State, kept: Kept, loop: int, iterations: int) -> None:
    """After an advance of `loop`: jump where the state is the one kept up to a shift; else perhaps keep it."""
    i = state.at[loop]
    if kept.at[loop] >= 1:
        delta = _shift_since(state, kept, loop)
        left = _periods_left(plan, state, kept, loop, iterations, delta)
        if left > 0:
            _jump(plan, state, kept, loop, left, delta)
            return
    if i >= 1 and (i & (i - 1)) == 0:
        _keep(state, kept, loop)


@njit
def _keep(state: State, kept: Kept, loop: int) -> None:
    """Keep the state for a loop."""
    kept.at[loop], kept.step[loop], kept.phase_end[loop, 0] = state.at[loop], state.number[STEP], state.phase_end[0]
    keep_moment(state, kept.moment, loop)
    for place in range(state.finish.shape[0]):
        kept.finish[loop, place] = state.finish[place]
    for k in range(state.last.shape[0]):
        for side in range(state.busy.shape[1]):
            kept.busy[loop, k, side] = state.busy[k, side]
        for j in range(state.stalled.shape[1]):
            kept.stalled[loop, k, j] = state.stalled[k, j]
    state.earliest[loop] = np.inf


@njit_inline
def _alike(now: float, was: float, delta: float, low: float) -> bool:
    """Moved with time, or left alone and too old to hold anything up."""
    return now - was == delta or (now == was and now <= low)


@njit_inline
def _shift_since(state: State, kept: Kept, loop: int) -> float:
    """The time that has passed since a state was kept, by the resource that moved most."""
    delta = 0.0
    for r in range(state.free.shape[0]):
        delta = max(delta, state.free[r] - kept.moment.free[loop, r])
    return delta


@njit_inline
def _periods_left(plan: Plan, state: State, kept: Kept, loop: int, iterations: int, delta: float) -> int:
    """Whole periods that are left of a loop; 0 where the state is another."""
    low, period = state.earliest[loop], state.at[loop] - kept.at[loop]
    if delta <= 0.0 or not _alike(state.phase_end[0], kept.phase_end[loop, 0], delta, low):
        return 0
    for r in range(state.free.shape[0]):
        if not _alike(state.free[r], kept.moment.free[loop, r], delta, low):
            return 0
    left = (iterations - 1 - state.at[loop]) // period
    for k in range(plan.kind.shape[0]):
        if not _same_counters(plan, state, kept, loop, k, period) or not _same_times(
            plan, state, kept, loop, k, delta, low
        ):
            return 0
        if plan.kind[k] == LOAD and state.counter[k, ISSUED] != kept.moment.counter[loop, k, ISSUED]:
            left = min(left, (iterations - 1 - state.where[k, loop]) // period)
    return left if _same_finishes(plan, state, kept, loop, delta, low) else 0


@njit_inline
def _same_counters(plan: Plan, state: State, kept: Kept, loop: int, k: int, period: int) -> bool:
    """Whether the look-ahead of a process stands as it stood, one period on where it has moved."""
    for column in (OVER, ENTERED):
        if state.counter[k, column] != kept.moment.counter[loop, k, column]:
            return False
    moved = state.counter[k, ISSUED] - kept.moment.counter[loop, k, ISSUED]
    for other in range(state.where.shape[1]):
        change = state.where[k, other] - kept.moment.where[loop, k, other]
        if change != (period if other == loop and moved != 0 and plan.kind[k] == LOAD else 0):
            return False
    in_force = state.counter[k, IN_FORCE] - kept.moment.counter[loop, k, IN_FORCE]
    return bool(plan.kind[k] != LOAD or in_force == moved)


@njit_inline
def newest_tile(plan: Plan, counter: IntArray, k: int) -> int:
    """The newest tile of a process that has times."""
    return counter[k, ISSUED] - 1 if plan.kind[k] == LOAD else counter[k, IN_FORCE]  # type: ignore[no-any-return]


@njit_inline
def _same_times(plan: Plan, state: State, kept: Kept, loop: int, k: int, delta: float, low: float) -> bool:
    """Whether the times of a process's tiles that can still hold something up are as they were."""
    ring = state.finish.shape[0]
    if not _alike(state.last[k], kept.moment.last[loop, k], delta, low):
        return False
    now, was = newest_tile(plan, state.counter, k), newest_tile(plan, kept.moment.counter[loop], k)
    for _ in range(min(ring, plan.depth[k] + 1)):
        if now < 0 or was < 0:
            break
        for part in range(3):
            if not _alike(state.tile[k, now % ring, part], kept.moment.tile[loop, k, was % ring, part], delta, low):
                return False
        now, was = now - 1, was - 1
    return True


@njit_inline
def _same_finishes(plan: Plan, state: State, kept: Kept, loop: int, delta: float, low: float) -> bool:
    """The same of the ends of the steps that limit the ones in flight."""
    ring = state.finish.shape[0]
    for age in range(min(ring, plan.in_flight + 1) if plan.in_flight > 0 else 0):
        now, was = state.number[STEP] - 1 - age, kept.step[loop] - 1 - age
        if now >= 0 and was >= 0 and not _alike(state.finish[now % ring], kept.finish[loop, was % ring], delta, low):
            return False
    return True


@njit
def _jump(plan: Plan, state: State, kept: Kept, loop: int, left: int, delta: float) -> None:
    """Move every time and counter over `left` periods, and multiply what happened in one."""
    shift = delta * left
    for r in range(state.free.shape[0]):
        if state.free[r] != kept.moment.free[loop, r]:
            state.free[r] += shift
    if state.phase_end[0] != kept.phase_end[loop, 0]:
        state.phase_end[0] += shift
    old = state.tile.copy()
    for k in range(plan.kind.shape[0]):
        _turn_tiles(plan, state, kept, old, loop, k, left, shift)
        _multiply(plan, state, kept, loop, k, left)
    steps = left * (state.number[STEP] - kept.step[loop])
    _turn_finishes(state, state.finish.copy(), steps, shift)
    state.at[loop] += left * (state.at[loop] - kept.at[loop])
    state.number[STEP] += steps
    state.work[JUMPS] += 1
    for other in range(loop, kept.at.shape[0]):
        kept.at[other] = -1


@njit
def _turn_tiles(
    plan: Plan, state: State, kept: Kept, old: FloatArray, loop: int, k: int, left: int, shift: float
) -> None:
    """Places of the ring turn with their counters; `old` are the times before."""
    ring, newest = state.finish.shape[0], newest_tile(plan, state.counter, k)
    moved = newest - newest_tile(plan, kept.moment.counter[loop], k)
    for age in range(min(ring, newest + 1)):
        now = newest - age
        for part in range(3):
            value = old[k, now % ring, part]
            # a place whose counter stands still keeps its time unless users moved it (its release)
            before = kept.moment.tile[loop, k, (now - moved) % ring, part] if now - moved >= 0 else value
            state.tile[k, (now + left * moved) % ring, part] = value if value == before else value + shift
    if state.last[k] != kept.moment.last[loop, k]:
        state.last[k] += shift


@njit
def _multiply(plan: Plan, state: State, kept: Kept, loop: int, k: int, left: int) -> None:
    """Counters, and what resources did, go on as in the last period."""
    if plan.kind[k] == LOAD and state.counter[k, ISSUED] > kept.moment.counter[loop, k, ISSUED]:
        state.where[k, loop] += left * (state.at[loop] - kept.at[loop])
    for column in (PASSED, ISSUED, IN_FORCE):
        state.counter[k, column] += left * (state.counter[k, column] - kept.moment.counter[loop, k, column])
    for side in range(state.busy.shape[1]):
        state.busy[k, side] += left * (state.busy[k, side] - kept.busy[loop, k, side])
    for j in range(state.stalled.shape[1]):
        state.stalled[k, j] += left * (state.stalled[k, j] - kept.stalled[loop, k, j])
    state.runs[k] += left * (state.runs[k] - kept.moment.runs[loop, k])


@njit
def _turn_finishes(state: State, old: FloatArray, steps: int, shift: float) -> None:
    """The same of the ends of steps."""
    ring = state.finish.shape[0]
    for age in range(min(ring, state.number[STEP])):
        now = state.number[STEP] - 1 - age
        state.finish[(now + steps) % ring] = old[now % ring] + shift
