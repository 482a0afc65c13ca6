"""A complete search for addresses that builds every instance from the bottom up, compiled.

Time is cut into sections between the starts and ends of buffers; over each section the placed buffers form a
skyline. In a *valley* (a run of sections at one height, higher on both sides) the only buffers that can lie directly
on the ground are those that fit between its walls, so for one section of it the alternatives are complete: one of
these buffers lies there, or nothing does and the ground rises to the next possible height. The search

- takes the section first that has few alternatives and at which the search has failed often, in earlier attempts too;
- raises every section to the lowest place any remaining buffer could take over it, and gives up when the remaining
  buffers over some section, stacked by lowest possible offset, exceed the capacity;
- tries one of several identical buffers only, and no alternative to a buffer that nothing remaining overlaps;
- solves parts that no remaining buffer connects one by one, so that the failure of one does not undo the others.

Any solution can be pressed down until every buffer rests on another or on the ground, and such a solution is built
by this search; exhausting it proves that there is none. The weight of past failures is that of constraint solvers
(Boussemart et al., ECAI 2004). The ideas of canonical (pressed-down) solutions, of section
floors, and of decomposition are those of minimalloc (Moffitt, ISMM 2023); branching on a section of a valley is ours.
"""

import numpy as np

from codesign.core.jit import njit
from codesign.core.kernel_library import stable_order

SOLVED = 1
EXHAUSTED = 0
STOPPED = -1
_NEVER = 1 << 60
_DEEPEST = 6000
"""Recursion past this depth is given up: the native stack holds about ten times as much."""

Instance = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Per buffer (length n): first section, section after the last, size, position of an identical earlier buffer or -1,
rank (lower ranks are tried first)."""
State = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Per buffer the depth it was placed at (-1: not yet) and its offset; per section the ground, the remaining load, and
how often the search failed there."""


@njit
def _put(buffer: int, depth: int, bottom: int, instance: Instance, state: State) -> bool:
    """Place a buffer on the ground; whether other buffers stay in some section of its."""
    lower, upper, size = instance[0], instance[1], instance[2]
    placed, offset, ground, load, _ = state
    placed[buffer], offset[buffer], covered = depth, bottom, False
    for s in range(lower[buffer], upper[buffer]):
        ground[s] = bottom + size[buffer]
        load[s] -= size[buffer]
        covered = covered or load[s] > 0
    return covered


@njit
def _take_out(waiting: np.ndarray, depth: int, instance: Instance, state: State) -> None:
    """Take out what was placed at this depth or below it; the ground is not restored."""
    lower, upper, size = instance[0], instance[1], instance[2]
    placed, _, _, load, _ = state
    for other in waiting:
        if placed[other] >= depth:
            placed[other] = -1
            load[lower[other] : upper[other]] += size[other]


@njit
def search(
    first: int, last: int, depth: int, capacity: int, instance: Instance, state: State, nodes: np.ndarray
) -> int:
    """Place the remaining buffers that live within the sections ``first <= s < last``.

    Args:
        first: First section.
        last: Section after the last; no remaining buffer crosses either end.
        depth: Depth of the recursion.
        capacity: Height of the memory.
        instance: The buffers.
        state: What is placed; changed in place, restored unless solved.
        nodes: Two entries, nodes used and nodes allowed; the first is advanced.

    Returns:
        SOLVED, EXHAUSTED or STOPPED.
    """
    _, _, ground, load, _ = state
    nodes[0] += 1
    if nodes[0] > nodes[1] or depth > _DEEPEST:
        return STOPPED
    before = ground[first:last].copy()
    waiting = _waiting(first, last, instance, state)
    if waiting.size == 0:
        return SOLVED
    lowest = np.empty(waiting.size, np.int64)
    if not _raise_ground(first, last, capacity, waiting, lowest, instance, state):
        ground[first:last] = before
        return EXHAUSTED
    section = _choose_section(first, last, capacity, waiting, lowest, instance, state)
    bottom = ground[section]
    slack = capacity - bottom - load[section]
    raised = ground[first:last].copy()
    for buffer in _alternatives(section, waiting, lowest, instance, state):
        covered = _put(buffer, depth, bottom, instance, state)
        outcome = SOLVED
        for start, end in _parts(first, last, waiting, instance, state):
            outcome = search(start, end, depth + 1, capacity, instance, state, nodes)
            if outcome != SOLVED:
                break
        if outcome != EXHAUSTED:
            return outcome
        _take_out(waiting, depth, instance, state)
        ground[first:last] = raised
        if not covered:
            slack = 0
            break
    if slack > 0:
        height = _next_height(section, bottom, waiting, lowest, instance)
        if height + load[section] <= capacity:
            ground[section] = height
            outcome = search(first, last, depth + 1, capacity, instance, state, nodes)
            if outcome != EXHAUSTED:
                return outcome
    ground[first:last] = before
    return EXHAUSTED


@njit
def _waiting(first: int, last: int, instance: Instance, state: State) -> np.ndarray:
    """The buffers not yet placed that live within the sections."""
    lower, upper = instance[0], instance[1]
    placed = state[0]
    found = np.empty(placed.size, np.int64)
    count = 0
    for buffer in range(placed.size):
        if placed[buffer] < 0 and lower[buffer] >= first and upper[buffer] <= last:
            found[count] = buffer
            count += 1
    return found[:count]


@njit
def _raise_ground(
    first: int,
    last: int,
    capacity: int,
    waiting: np.ndarray,
    lowest: np.ndarray,
    instance: Instance,
    state: State,
) -> bool:
    """Fill `lowest`, the least offset of each waiting buffer, and raise the ground to it; False when all cannot fit."""
    lower, upper, size = instance[0], instance[1], instance[2]
    ground, strife = state[2], state[4]
    level = np.full(last - first, _NEVER, np.int64)
    for i in range(waiting.size):
        buffer = waiting[i]
        height = 0
        for s in range(lower[buffer], upper[buffer]):
            height = max(height, ground[s])
        if height + size[buffer] > capacity:
            for s in range(lower[buffer], upper[buffer]):
                strife[s] += ground[s] == height
            return False
        lowest[i] = height
        for s in range(lower[buffer] - first, upper[buffer] - first):
            level[s] = min(level[s], height)
    # Over one section the buffers lie one on another, none below its lowest offset.
    top = np.zeros(last - first, np.int64)
    for i in stable_order(lowest):
        buffer = waiting[i]
        for s in range(lower[buffer] - first, upper[buffer] - first):
            top[s] = max(top[s], lowest[i]) + size[buffer]
            if top[s] > capacity:
                strife[first + s] += 1
                return False
    ground[first:last] = level
    return True


@njit
def _choose_section(
    first: int,
    last: int,
    capacity: int,
    waiting: np.ndarray,
    lowest: np.ndarray,
    instance: Instance,
    state: State,
) -> int:
    """The section of some valley to branch on."""
    lower, upper = instance[0], instance[1]
    ground, load, strife = state[2], state[3], state[4]
    choices = np.zeros(last - first, np.int64)
    for i in range(waiting.size):
        for s in range(lower[waiting[i]], upper[waiting[i]]):
            if ground[s] == lowest[i]:
                choices[s - first] += 1
    best = -1
    best_key = _NEVER
    start = first
    while start < last:
        end = start
        while end < last and ground[end] == ground[start]:
            end += 1
        left_wall = start == first or ground[start - 1] > ground[start]
        right_wall = end == last or ground[end] > ground[start]
        if ground[start] < _NEVER and left_wall and right_wall:
            for s in range(start, end):
                alternatives = 2 * choices[s - first] + (ground[s] + load[s] < capacity)
                key = alternatives * (1 << 40) // (1 + strife[s])
                if key < best_key:
                    best_key = key
                    best = s
        start = end
    return best


@njit
def _alternatives(
    section: int, waiting: np.ndarray, lowest: np.ndarray, instance: Instance, state: State
) -> np.ndarray:
    """The waiting buffers that can lie on the ground of the section, by rank; one of several identical ones."""
    lower, upper, _, twin, rank = instance
    placed, ground = state[0], state[2]
    found = np.empty(waiting.size, np.int64)
    count = 0
    for i in range(waiting.size):
        buffer = waiting[i]
        if lowest[i] != ground[section] or not lower[buffer] <= section < upper[buffer]:
            continue
        other = twin[buffer]
        while other >= 0 and placed[other] >= 0:
            other = twin[other]
        if other < 0:
            place = count
            while place > 0 and rank[found[place - 1]] > rank[buffer]:
                found[place] = found[place - 1]
                place -= 1
            found[place] = buffer
            count += 1
    return found[:count]


@njit
def _next_height(section: int, bottom: int, waiting: np.ndarray, lowest: np.ndarray, instance: Instance) -> int:
    """How high the next buffer over the section lies at least, when none of them lies on the ground."""
    lower, upper, size = instance[0], instance[1], instance[2]
    height = _NEVER
    for i in range(waiting.size):
        buffer = waiting[i]
        if not lower[buffer] <= section < upper[buffer]:
            continue
        if lowest[i] > bottom:
            height = min(height, lowest[i])
            continue
        # It must rest on something that is beside the section.
        for j in range(waiting.size):
            other = waiting[j]
            beside = section < lower[other] or section >= upper[other]
            if beside and lower[other] < upper[buffer] and lower[buffer] < upper[other]:
                height = min(height, lowest[j] + size[other])
    return height


@njit
def _parts(first: int, last: int, waiting: np.ndarray, instance: Instance, state: State) -> np.ndarray:
    """The runs of sections, parts x 2 (first, after the last), that the buffers still waiting connect."""
    lower, upper = instance[0], instance[1]
    placed, load = state[0], state[3]
    change = np.zeros(last - first + 1, np.int64)
    for buffer in waiting:
        if placed[buffer] < 0:
            change[lower[buffer] + 1 - first] += 1
            change[upper[buffer] - first] -= 1
    found = np.empty((last - first, 2), np.int64)
    count = 0
    crossing = 0
    start = first
    for s in range(first + 1, last + 1):
        crossing += change[s - first]
        if crossing == 0:
            if load[start] > 0:
                found[count, 0] = start
                found[count, 1] = s
                count += 1
            start = s
    return found[:count]
