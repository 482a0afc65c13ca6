"""Place buffers within a capacity: first fit where that does, else a complete search with restarts."""

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from codesign.core import clock
from codesign.core.checks import check_least
from codesign.core.errors import UserError
from codesign.scheduling.allocation.buffers import Allocation, AllocationStatus, Buffer, height, peak_load
from codesign.scheduling.allocation.firstfit import first_fit, natural_orders, neighbours

RESTART_NODES = 500
"""Unit of the restarts; attempts are allowed 1, 1, 2, 1, 1, 2, 4, ... times as many nodes (Luby et al., 1993)."""
NOISE = (0.1, 0.3)
"""Spreads of the ranks, relative, in turn."""
MEMORY = (8, 10)
"""Share of its count of failures that a section keeps from one attempt to the next, as a fraction."""


def allocate(buffers: Sequence[Buffer], capacity: int, *, time_limit_s: float = 60.0, seed: int = 0) -> Allocation:
    """An address for every buffer, or the proof that there is none.

    Args:
        buffers: What to place.
        capacity: Units of memory.
        time_limit_s: Wall-clock seconds for the search.
        seed: Of the restarts.

    Returns:
        FEASIBLE with offsets, INFEASIBLE when proven, UNKNOWN when the time ran out.

    Raises:
        UserError: The capacity is not positive, or a single buffer exceeds it.
    """
    check_least(1, capacity=capacity)
    for buffer in buffers:
        if buffer.size > capacity:
            raise UserError(
                f"buffer {buffer.name!r} of size {buffer.size} is larger than the capacity {capacity}",
                hint="raise the capacity or split the buffer",
            )
    if peak_load(buffers)[0] > capacity:
        return Allocation(AllocationStatus.INFEASIBLE, None, "peak load above capacity")
    beside = neighbours(buffers)
    for name, order in natural_orders(buffers):
        offsets = first_fit(buffers, order, beside)
        if height(buffers, offsets) <= capacity:
            return Allocation(AllocationStatus.FEASIBLE, tuple(offsets), f"first fit, {name}")
    return _search(buffers, capacity, time_limit_s, seed)


def _search(buffers: Sequence[Buffer], capacity: int, time_limit_s: float, seed: int) -> Allocation:
    from codesign.scheduling.allocation import skyline

    unit = math.gcd(*(b.size for b in buffers))
    lower, upper, size, sections = _sections(buffers, unit)
    load = np.zeros(sections, np.int64)
    for a, b, s in zip(lower, upper, size, strict=True):
        load[a:b] += s
    twin = _twins(lower, upper, size)
    strife = np.zeros(sections, np.int64)
    started = clock.wall_seconds()
    nodes = 0
    for rank, allowed in _attempts(lower, upper, size, load, seed):
        if clock.wall_seconds() - started > time_limit_s:
            break
        placed, offset = np.full(len(buffers), -1, np.int64), np.zeros(len(buffers), np.int64)
        state = (placed, offset, np.zeros(sections, np.int64), load.copy(), strife)
        counter = np.array([0, allowed], np.int64)
        outcome = skyline.search(0, sections, 0, capacity // unit, (lower, upper, size, twin, rank), state, counter)
        nodes += int(counter[0])
        if outcome == skyline.SOLVED:
            offsets = tuple(int(o) * unit for o in offset)
            return Allocation(AllocationStatus.FEASIBLE, offsets, "skyline search", nodes)
        if outcome == skyline.EXHAUSTED:
            return Allocation(AllocationStatus.INFEASIBLE, None, "skyline search exhausted", nodes)
        strife *= MEMORY[0]
        strife //= MEMORY[1]
    return Allocation(AllocationStatus.UNKNOWN, None, "skyline search out of time", nodes)


def _sections(buffers: Sequence[Buffer], unit: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Lifetimes in sections between events, sizes in units, and the number of sections."""
    events = sorted({b.lower for b in buffers} | {b.upper for b in buffers})
    number = {time: section for section, time in enumerate(events)}
    return (
        np.array([number[b.lower] for b in buffers], np.int64),
        np.array([number[b.upper] for b in buffers], np.int64),
        np.array([b.size // unit for b in buffers], np.int64),
        len(events) - 1,
    )


def _twins(lower: np.ndarray, upper: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Per buffer the last earlier one with the same lifetime and size, or -1."""
    last: dict[tuple[int, int, int], int] = {}
    twin = np.full(lower.size, -1, np.int64)
    for position in range(lower.size):
        key = (int(lower[position]), int(upper[position]), int(size[position]))
        twin[position] = last.get(key, -1)
        last[key] = position
    return twin


def _attempts(
    lower: np.ndarray, upper: np.ndarray, size: np.ndarray, load: np.ndarray, seed: int
) -> Iterator[tuple[np.ndarray, int]]:
    """Ranks and nodes allowed of each attempt, without end: by area at first, then by a random rule with noise."""
    rng = np.random.default_rng(seed)
    width = upper - lower
    crowd = np.array([load[a:b].max() for a, b in zip(lower, upper, strict=True)], np.float64)
    area = (size * width).astype(np.float64)
    keys = (area, width + size / (size.max() + 1), size + width / (width.max() + 1), crowd * width, crowd * area)
    for attempt in itertools.count():
        key = keys[int(rng.integers(len(keys)))] if attempt else area
        noise = NOISE[attempt % len(NOISE)] * rng.random(key.size) if attempt else 0.0
        rank = np.argsort(np.argsort(-key * (1.0 + noise), kind="stable"), kind="stable")
        yield rank.astype(np.int64), RESTART_NODES * _luby(attempt + 1)


def _luby(position: int) -> int:
    """The term of the restart sequence 1, 1, 2, 1, 1, 2, 4, 1, ... at `position`, from 1.

    >>> [_luby(i) for i in range(1, 8)]
    [1, 1, 2, 1, 1, 2, 4]
    """
    length = position.bit_length()
    if position == (1 << length) - 1:
        return 1 << length - 1
    return _luby(position - (1 << length - 1) + 1)
