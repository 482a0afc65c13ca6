"""When the array feeds, multiplies and gives results: rules K3 and K4 as a recurrence over its commands."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from codesign.core.jit import njit
from codesign.hardware.lanes import Emissions
from codesign.hardware.parameters import Parameters
from codesign.hardware.words import EMIT_CYCLES

IntArray = npt.NDArray[np.int64]

_RING = 512
COUNT, HEAD, PACE, WENT, IDLE, APART, BESIDE, ADDS = range(8)
"""Fields of the array's state; the last three: whether old sums have their own port, lines of operand B fed beside A's, lines of a drain that add."""

_LIVE = 128
"""Drains at the end of a command whose lines may still be under way in a later one."""


def feed_cycles(p: Parameters, windows: Sequence[int]) -> int:
    """Lines that an iteration takes turns with: of both operands where they are fed one after the other, else of the one with more (K3)."""
    streamed = [n for n, port in zip(windows, "AB", strict=False) if port not in p.local]
    return max(streamed) if p.feeds_both else sum(streamed)


def array_state(p: Parameters, windows: Sequence[int], emissions: Emissions) -> tuple[IntArray, IntArray]:
    """An array that has done nothing yet, and the ring of its emissions: their first cycles, then the lines of a drain that add to others."""
    state, ring = np.zeros(8, np.int64), np.zeros(_RING + len(emissions.lines), np.int64)
    state[WENT], state[APART] = -9, p.overlaps
    if p.feeds_both:
        ring[_RING:] = [not line.head for line in emissions.lines]
        state[BESIDE], state[ADDS] = windows[1], ring[_RING:].sum()
    return state, ring


@njit
def _stalled(ring: IntArray, state: IntArray, lines: int, f: int) -> bool:
    """Whether the array's read port serves an emission in that cycle; cycles are asked for in order."""
    while state[HEAD] < state[COUNT] and ring[state[HEAD] % _RING] + lines <= f:
        state[HEAD] += 1
    return bool(state[HEAD] < state[COUNT] and ring[state[HEAD] % _RING] <= f)


@njit
def _go(ring: IntArray, state: IntArray, lines: int, hop: int, emits: bool, f: int) -> None:
    state[WENT] = f
    if emits:
        ring[state[COUNT] % _RING] = f + EMIT_CYCLES + hop
        state[COUNT] += 1
        state[PACE] = f + lines


@njit
def command(
    ring: IntArray,
    state: IntArray,
    accepted: int,
    items: int,
    reads: int,
    goes: bool,
    emits: bool,
    lines: int,
    hop: int,
) -> None:
    """A command of so many items, each of so many reads and, if it goes, one multiplication or drained word (K3)."""
    if state[APART]:
        _command_apart(ring, state, accepted, items, reads, goes, emits, lines, hop)
        return
    f = accepted + 1
    for _ in range(items):
        for i in range(reads):
            final = goes and i == reads - 1
            while _stalled(ring, state, lines, f) or (final and f < state[PACE]):
                f += 1
            if final:
                _go(ring, state, lines, hop, emits, f)
            f += 1
        if reads == 0:
            f = max(f, state[PACE])
            _go(ring, state, lines, hop, emits, f)
            f += 1
    state[IDLE] = f


@njit
def _command_apart(
    ring: IntArray,
    state: IntArray,
    accepted: int,
    items: int,
    reads: int,
    goes: bool,
    emits: bool,
    lines: int,
    hop: int,
) -> None:
    """The same where no feed stands still: items follow each other as fast as their reads, or their results, allow."""
    if not goes:
        state[IDLE] = accepted + 1 + items * reads
        return
    begins, done, free = (
        accepted,
        0,
        state[PACE] if emits else 0,
    )  # a run beside lines that leave does not wait for them
    if state[ADDS] > 0 and not emits and state[COUNT] > 0:
        begins, done = _beside_drains(ring, state, accepted, items, reads, lines)
        if done == items:
            state[WENT], state[IDLE] = begins, begins + 1
            return
    first = max(begins + max(reads, 1), free)
    apart = max(max(reads, 1), lines if emits else 1)
    last = first + (items - done - 1) * apart
    if emits:
        live = min(items - 1, _LIVE)
        state[COUNT] += items - 1 - live
        for i in range(live):
            ring[state[COUNT] % _RING] = last - (live - i) * apart + EMIT_CYCLES + hop
            state[COUNT] += 1
    _go(ring, state, lines, hop, emits, last)
    state[IDLE] = last + 1


@njit
def _beside_drains(
    ring: IntArray, state: IntArray, accepted: int, items: int, reads: int, lines: int
) -> tuple[int, int]:
    """Iterations while drained lines leave: operand B stands still where such a line adds. Returns the last `go` and how many went."""
    f, done, oldest = accepted + 1, 0, max(state[HEAD], state[COUNT] - _LIVE - 1)
    ends = ring[(state[COUNT] - 1) % _RING] + lines
    while done < items and f < ends:
        for i in range(max(reads, 1)):
            waits = True
            while waits:
                while oldest < state[COUNT] and ring[oldest % _RING] + lines <= f:
                    oldest += 1
                line = f - ring[oldest % _RING] if oldest < state[COUNT] else -1
                waits = i < state[BESIDE] and line >= 0 and ring[_RING + line] > 0
                if waits:
                    f += 1
            f += 1
        done += 1
    state[HEAD] = oldest
    return f - 1, done


@njit
def quiet(state: IntArray, ring: IntArray, lines: int) -> int:
    """First cycle in which every result given so far is written (K4)."""
    if state[COUNT] == 0:
        return 0
    return int(ring[(state[COUNT] - 1) % _RING] + lines + 1)
