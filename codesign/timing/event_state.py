"""What the event engine remembers: times of resources and tiles, counters of processes, how they spent the run.

Shapes as in `codesign.timing.event_plan.Plan`; a ring of D places keeps the last tiles of a process and the last steps.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit, njit_inline
from codesign.mapping.nest import FloatArray, IntArray
from codesign.timing.event_plan import LOAD, Plan
from codesign.timing.look_ahead import advance

END, BEGIN, RELEASE = 0, 1, 2
"""Times of a tile: its operation's end and start, and the end of its last use."""

ISSUED, IN_FORCE, PASSED, ENTERED, OVER = 0, 1, 2, 3, 4
"""Counters of a process: tiles issued, the tile in force, tiles of its source that the look-ahead has passed, how the
look-ahead's position was reached, whether it has ended."""

STEP, ENTER = 0, 1
SIMULATED, JUMPS, NOTED = 0, 1, 2


class State(NamedTuple):
    """The engine between two operations.

    Attributes:
        free: ``R`` time from which each resource is free.
        tile: ``K x D x 3`` columns `END`, `BEGIN`, `RELEASE`.
        finish: ``D`` end of each step, its stores included.
        last: ``K`` end of the last operation.
        phase_end: ``1`` end of the phase before.
        earliest: ``S`` earliest start since the state of each loop was kept.
        counter: ``K x 5`` columns `ISSUED` to `OVER`.
        where: ``K x S`` position of each LOAD's look-ahead.
        deepest: ``K x P`` innermost loop whose advance makes a LOAD or its source run: the look-ahead counts the tiles of both.
        at: ``S`` iteration of each loop.
        number: ``2`` columns `STEP` and `ENTER`: the number of the step, and how it was entered.
        busy: ``K x M`` cycles for which each resource was held.
        stalled: ``K x (K + 1 + R)`` cycles in which the resource of k stood still because of j: j < K its data, K a free
            slot, K + 1 + r resource r.
        runs: ``K`` operations.
        work: ``3`` columns `SIMULATED`, `JUMPS`, `NOTED` (rows of the timeline).
    """

    free: FloatArray
    tile: FloatArray
    finish: FloatArray
    last: FloatArray
    phase_end: FloatArray
    earliest: FloatArray
    counter: IntArray
    where: IntArray
    deepest: IntArray
    at: IntArray
    number: IntArray
    busy: FloatArray
    stalled: FloatArray
    runs: IntArray
    work: IntArray


@njit
def first_state(plan: Plan) -> State:
    """The state before the first step: every look-ahead stands where its process first runs."""
    n, n_loops = plan.kind.shape[0], plan.factors.shape[1]
    ring = max(2, plan.in_flight + 2)
    for k in range(n):
        ring = max(ring, plan.depth[k] + 2)
    state = State(
        np.zeros(plan.resources),
        np.zeros((n, ring, 3)),
        np.zeros(ring),
        np.zeros(n),
        np.zeros(1),
        np.zeros(n_loops),
        np.zeros((n, 5), np.int64),
        np.zeros((n, n_loops), np.int64),
        np.zeros((n, plan.factors.shape[0]), np.int64),
        np.zeros(n_loops, np.int64),
        np.zeros(2, np.int64),
        np.zeros(plan.resource.shape),
        np.zeros((n, n + 1 + plan.resources)),
        np.zeros(n, np.int64),
        np.zeros(3, np.int64),
    )
    for loop in range(n_loops):
        state.earliest[loop] = np.inf
    for k in range(n):
        _place_look_ahead(plan, state, k)
    return state


@njit_inline
def _place_look_ahead(plan: Plan, state: State, k: int) -> None:
    """Set the counters of process k, and the look-ahead of a LOAD to the first position at which it runs."""
    j = plan.source[k]
    for p in range(plan.factors.shape[0]):
        state.deepest[k, p] = -1
        for loop in range(plan.factors.shape[1]):
            if plan.active[k, p, loop + 1] == 1 or (j >= 0 and plan.active[j, p, loop + 1] == 1):
                state.deepest[k, p] = loop
    state.counter[k, IN_FORCE] = -1
    state.counter[k, PASSED] = 0 if j >= 0 and plan.active[j, 0, 0] == 1 and plan.revisit[j] == 0 else -1
    if plan.kind[k] == LOAD and (plan.active[k, 0, 0] == 0 or plan.revisit[k] != 0):
        look_ahead(plan, state, k)


@njit_inline
def look_ahead(plan: Plan, state: State, k: int) -> None:
    """Move the look-ahead of LOAD k to the next position at which it runs."""
    passed, entered = advance(plan, state.where, state.deepest, k)
    state.counter[k, PASSED] += passed
    if entered > 0:
        state.counter[k, ENTERED] = entered
    else:
        state.counter[k, OVER] = 1


@njit_inline
def occupy(
    plan: Plan, state: State, k: int, phase: int, way: int, ready: float, cause: int, cycles: float
) -> tuple[float, float]:
    """Take the resources of process k at the earliest time after `ready` (E3, E4); returns start and end."""
    own = state.free[plan.resource[k, 0]]
    start = max(ready, own)
    for side in range(1, plan.resource.shape[1]):
        r = plan.resource[k, side]
        if r >= 0 and state.free[r] > start:
            start, cause = state.free[r], plan.kind.shape[0] + 1 + r
    if start > own:
        state.stalled[k, cause] += start - own
    held = plan.share[k, phase, way, 0]
    held = cycles if held < 0.0 else held
    state.free[plan.resource[k, 0]] = start + held
    state.busy[k, 0] += held
    for side in range(1, plan.resource.shape[1]):
        r = plan.resource[k, side]
        if r >= 0:
            state.free[r] = start + plan.share[k, phase, way, side]
            state.busy[k, side] += plan.share[k, phase, way, side]
    state.runs[k] += 1
    return start, start + cycles


@njit_inline
def end_no_earlier(plan: Plan, state: State, k: int, end: float, least: float, cause: int) -> float:
    """The end of an operation that waits for data to its last cycle: `end`, or `least` where that is later."""
    if least <= end:
        return end
    state.stalled[k, cause] += least - end
    own = plan.resource[k, 0]
    state.free[own] = max(state.free[own], least)
    return least


@njit_inline
def note_operation(state: State, events: FloatArray, k: int, start: float, end: float, step: int) -> None:
    """Count an operation of process k, and write it on the timeline while there is room."""
    state.last[k] = end
    for loop in range(state.earliest.shape[0]):
        state.earliest[loop] = min(state.earliest[loop], start)
    state.work[SIMULATED] += 1
    row = state.work[NOTED]
    if row < events.shape[0]:
        events[row, 0], events[row, 1], events[row, 2], events[row, 3] = k, start, end, step
        state.work[NOTED] = row + 1
