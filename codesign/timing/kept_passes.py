"""Stretches of a run that are kept, to be counted again where the run comes to a like place (rule E13).

A *stretch* begins at an advance of a loop, and ends where the next loop inside begins its last iteration. Its *slot* is
named by that loop and by the loop that advances after its iteration, so a stretch is compared with its like.

Shapes as in `codesign.timing.event_plan.Plan`; W slots.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.mapping.nest import FloatArray, IntArray
from codesign.timing.event_plan import LOAD, STORE, Plan
from codesign.timing.event_state import END, ENTERED, IN_FORCE, ISSUED, OVER, PASSED, RELEASE, State
from codesign.timing.steady_state import Moments, keep_moment, newest_tile, no_moments

BEGUN, WHOLE = 1, 2
"""Of a slot; 0: it is empty."""


class Issues(NamedTuple):
    """The last operation of each LOAD, before its look-ahead moved on.

    Attributes:
        where: ``K x S`` its position.
        passed: ``K`` the tile of its source that it read.
    """

    where: IntArray
    passed: IntArray


class Stretches(NamedTuple):
    """The stretches kept.

    Attributes:
        status: ``W`` 0, `BEGUN` or `WHOLE`.
        low: ``W`` earliest start of an operation in it.
        at: ``W x S`` iteration of each loop at its begin.
        step: ``W x 2`` numbers of the steps.
        moment: Begin and end of slot w at ``2 w`` and ``2 w + 1``.
        issued: ``W x K x S`` position of each LOAD's last operation at the end.
        passed: ``W x K`` the tile of its source that it read.
        pending: ``S`` slot that ends when this loop begins its last iteration; -1 for none.
    """

    status: IntArray
    low: FloatArray
    at: IntArray
    step: IntArray
    moment: Moments
    issued: IntArray
    passed: IntArray
    pending: IntArray


@njit
def no_stretches(plan: Plan, state: State) -> Stretches:
    """Room for the stretches; none is kept."""
    loops, n = state.at.shape[0], plan.kind.shape[0]
    slots = loops * loops
    return Stretches(
        np.zeros(slots, np.int64),
        np.zeros(slots),
        np.zeros((slots, loops), np.int64),
        np.zeros((slots, 2), np.int64),
        no_moments(plan, state, 2 * slots),
        np.zeros((slots, n, loops), np.int64),
        np.zeros((slots, n), np.int64),
        np.full(loops, -1, np.int64),
    )


@njit
def begin_stretch(state: State, kept: Stretches, slot: int, inner: int) -> None:
    """Begin a stretch, in place of what its slot held; it ends when loop `inner` begins its last iteration."""
    kept.status[slot] = BEGUN
    keep_moment(state, kept.moment, 2 * slot)
    for loop in range(state.at.shape[0]):
        kept.at[slot, loop] = state.at[loop]
    kept.step[slot, 0] = state.number[0]
    kept.pending[inner] = slot
    state.earliest[inner] = np.inf


@njit
def end_stretch(plan: Plan, state: State, kept: Stretches, inner: int, issues: Issues) -> None:
    """End the stretch that is pending for loop `inner`; one in which a LOAD went on outside it is dropped."""
    slot = kept.pending[inner]
    kept.pending[inner] = -1
    kept.status[slot], kept.low[slot] = WHOLE, state.earliest[inner]
    keep_moment(state, kept.moment, 2 * slot + 1)
    kept.step[slot, 1] = state.number[0]
    for k in range(plan.kind.shape[0]):
        kept.passed[slot, k] = issues.passed[k]
        for loop in range(state.at.shape[0]):
            kept.issued[slot, k, loop] = issues.where[k, loop]
        if plan.kind[k] != LOAD:
            continue
        moved = kept.moment.counter[2 * slot + 1, k, ISSUED] - kept.moment.counter[2 * slot, k, ISSUED]
        if moved > 0 and first_other(kept.issued[slot], kept.at[slot], k, inner) >= 0:
            waited_outside = first_other(kept.moment.where[2 * slot], kept.at[slot], k, inner) >= 0
            if moved > 1 or not waited_outside:
                kept.status[slot] = 0


@njit
def first_other(where: IntArray, at: IntArray, k: int, inner: int) -> int:
    """The outermost loop outside `inner` in which position ``where[k]`` is not that of the step; -1 where there is none."""
    for loop in range(inner):
        if where[k, loop] != at[loop]:
            return loop
    return -1


@njit
def is_alike(where: IntArray, at: IntArray, was: IntArray, was_at: IntArray, k: int, inner: int) -> bool:
    """Whether ``where[k]`` lies to step `at` as ``was[k]`` lies to `was_at`."""
    other = first_other(where, at, k, inner)
    if other != first_other(was, was_at, k, inner):
        return False
    if other >= 0 and where[k, other] - at[other] != was[k, other] - was_at[other]:
        return False
    for loop in range(inner if other < 0 else other + 1, at.shape[0]):
        if where[k, loop] != was[k, loop]:
            return False
    return True


@njit
def is_same_place(plan: Plan, state: State, kept: Stretches, slot: int, inner: int) -> bool:
    """Whether the operations from here on are those of the stretch: the same loads stand ready, in the same order."""
    for k in range(plan.kind.shape[0]):
        for loop in range(inner):
            if (plan.revisit[k] >> loop) & 1 == 1 and (state.at[loop] > 0) != (kept.at[slot, loop] > 0):
                return False
        if plan.kind[k] == LOAD and not _is_same_load(plan, state, kept, slot, inner, k):
            return False
    return True


@njit
def _is_same_load(plan: Plan, state: State, kept: Stretches, slot: int, inner: int, k: int) -> bool:
    """Whether LOAD k is as far ahead of the step and behind its source, and its look-ahead stands at a like position."""
    now, was, j = state.counter, kept.moment.counter[2 * slot], plan.source[k]
    if now[k, OVER] != was[k, OVER] or (now[k, IN_FORCE] < 0) != (was[k, IN_FORCE] < 0):
        return False
    if now[k, ISSUED] - was[k, ISSUED] != now[k, IN_FORCE] - was[k, IN_FORCE]:
        return False
    if now[k, OVER] == 1:
        return True
    if j >= 0 and now[k, PASSED] - was[k, PASSED] != now[j, ISSUED] - was[j, ISSUED]:
        return False
    if now[k, ENTERED] != was[k, ENTERED]:
        return False
    return is_alike(state.where, state.at, kept.moment.where[2 * slot], kept.at[slot], k, inner)


@njit
def _ran(kept: Stretches, slot: int, k: int) -> bool:
    """Whether process k had an operation in a stretch."""
    return bool(kept.moment.runs[2 * slot + 1, k] > kept.moment.runs[2 * slot, k])


@njit
def _is_awaited(plan: Plan, kept: Stretches, slot: int, array: int, k: int, tile: int) -> bool:
    """Whether an operation of a stretch may have waited for the arrival of a tile."""
    if plan.kind[k] != LOAD:
        return False
    if plan.needs[array, k] == 1 and tile <= kept.moment.counter[2 * slot + 1, k, IN_FORCE]:
        return True
    for i in range(plan.kind.shape[0]):
        reads = plan.kind[i] == LOAD and plan.source[i] == k and _ran(kept, slot, i)
        if reads and tile <= kept.passed[slot, i]:
            return True
    return False


@njit
def _is_slot_awaited(plan: Plan, kept: Stretches, slot: int, k: int, tile: int) -> bool:
    """Whether an operation of a stretch may have waited until the buffer of a tile was free."""
    after = tile + plan.depth[k]
    if plan.kind[k] == LOAD:
        return bool(after < kept.moment.counter[2 * slot + 1, k, ISSUED])
    return bool(after <= kept.moment.counter[2 * slot + 1, k, IN_FORCE])


@njit
def least_shift(plan: Plan, state: State, kept: Stretches, slot: int, array: int) -> float:
    """The least time by which what the stretch waited for is later now; what was over before its first start held up nothing."""
    low = kept.low[slot]
    least = _least_shift_of_resources(plan, state, kept, slot)
    ring = state.tile.shape[1]
    for k in range(plan.kind.shape[0]):
        now, before = newest_tile(plan, state.counter, k), newest_tile(plan, kept.moment.counter[2 * slot], k)
        for age in range(min(ring, before + 1)):
            tile = before - age
            place, then = (now - age) % ring, tile % ring
            was = kept.moment.tile[2 * slot, k, then, END]
            if was + plan.latency[k] >= low and _is_awaited(plan, kept, slot, array, k, tile):
                least = min(least, state.tile[k, place, END] - was)
            was = kept.moment.tile[2 * slot, k, then, RELEASE]
            if was >= low and _is_slot_awaited(plan, kept, slot, k, tile):
                least = min(least, state.tile[k, place, RELEASE] - was)
    return least


@njit
def _least_shift_of_resources(plan: Plan, state: State, kept: Stretches, slot: int) -> float:
    """The same of resources that were used, and of stores that others follow."""
    least, low = np.inf, kept.low[slot]
    for k in range(plan.kind.shape[0]):
        if not _ran(kept, slot, k):
            continue
        for side in range(plan.resource.shape[1]):
            r = plan.resource[k, side]
            if r >= 0 and kept.moment.free[2 * slot, r] >= low:
                least = min(least, state.free[r] - kept.moment.free[2 * slot, r])
        j = plan.source[k]
        if plan.kind[k] == STORE and j >= 0 and kept.moment.last[2 * slot, j] + plan.latency[j] >= low:
            least = min(least, state.last[j] - kept.moment.last[2 * slot, j])
    return least
