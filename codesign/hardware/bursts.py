"""When the bursts of a transfer are asked for and when their data move: rule K1 as a recurrence.

An engine asks for one burst a cycle while fewer than N are under way. The memory serves bursts in order, each from `latency` cycles after its
request on. A read's chunk moves in the cycle of its beat; a write's chunk is read from the scratchpad one cycle before.

By tag the memory serves the burst read whose first beat is ready first (`ask`, `wait_for`). Whoever waits for a command then needs all requests that come
before its end, also those of later commands. So commands are asked for as far ahead as is known, and served when somebody waits.
"""

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from codesign.core.jit import njit
from codesign.hardware.layout import Box
from codesign.hardware.memory_timing import SPREAD_PERIOD, MemoryTiming
from codesign.hardware.parameters import PARTIAL_BYTES, WORD_BYTES, Parameters

IntArray = npt.NDArray[np.int64]

LONG_AGO = -(1 << 40)
READY, END, COUNT, ASKED = range(4)
"""Fields of an engine's state: the first cycle in which it takes a command, the last in which data moved, bursts so far, the last request."""

OVER, SERVED, BEAT, COMMAND, BUSY = range(4, 9)
"""More of them by tag: bursts that are over and that the memory has served, cycles of its last beat and of the last command's end, cycles at a command.
`END` is then the cycle in which the last burst was over."""

FIRST, CHUNKS, MOVED, LEFT, OWNER, TAKEN = range(6)
"""Fields of an entry by tag: when its first beat is ready, cycles to its last chunk, the cycle of that (-1: not yet), that in which it was over, the command
whose last burst it is (-1: none), the cycle in which that was taken."""

FIELDS = 6
UNDER_WAY, LATENCY, BEATS, ALONE, ENTRIES, REQUESTS, BY_TAG, SPAN, LONGER = range(9)
"""Constants of an engine: bursts under way at most, cycles from a request to its first beat, and from one beat to the next.

Then whether it takes a command only when the one before has ended. Then bursts that the engine alone allows, and that the memory allows (0: any
number), and whether reads are answered in any order. From `LONGER` on what drawn latencies add: `SPAN` requests read, and as many written."""


@njit
def _run_bursts(
    run: int,
    phase: int,
    bus: int,
    burst: int,
    line: int,
    element: int,
    wide: bool,
    beat_cycles: int,
    whole: bool,
    out: IntArray,
) -> None:
    """One contiguous run: by burst, cycles of a read from its first chunk to its last, chunks of its first beat, cycles of a write after its first beat."""
    k = 0
    while run > 0:
        beats = min((run + bus - 1) // bus, burst // bus)
        read, first, later = -1, 0, 0
        for beat in range(beats):
            rest, count = min(run, bus), 0
            run -= rest
            while rest > 0:
                room = line if whole else line - phase % WORD_BYTES
                if wide:
                    n = min(rest // element, room // PARTIAL_BYTES)
                    rest -= n * element
                    phase += n * PARTIAL_BYTES
                else:
                    n = min(rest, room)
                    rest -= n
                    phase += n
                count += 1
            if beat == 0:
                first = count
                read += count
            else:
                later += max(count, beat_cycles)
                read += count + beat_cycles - 1
        out[k, 0], out[k, 1], out[k, 2] = read, first, later
        k += 1


@lru_cache(maxsize=4096)
def _bursts_of_run(
    run: int, phase: int, bus: int, burst: int, line: int, element: int, wide: bool, beat_cycles: int, whole: bool
) -> IntArray:
    out = np.zeros((-(-run // burst), 3), np.int64)
    _run_bursts(run, phase, bus, burst, line, element, wide, beat_cycles, whole, out)
    return out


def bursts_of(p: Parameters, box: Box, at: int, element_bytes: int, wide: bool, memory: MemoryTiming) -> IntArray:
    """The bursts of a box in their order, see `_run_bursts`.

    Args:
        p: The machine.
        box: Runs and the loops around them.
        at: Scratchpad address of its first byte.
        element_bytes: Width of an element in DRAM.
        wide: Elements take 4 bytes on chip.
        memory: What answers.
    """
    shape = (p.bus_bytes, p.burst_bytes, p.line_bytes, element_bytes, wide, memory.beat_cycles, p.halved_banks)
    if p.halved_banks:  # every line has room for all its bytes
        return np.tile(_bursts_of_run(box.run_bytes, 0, *shape), (math.prod(bound for bound, _, _ in box.loops), 1))
    starts = np.zeros(1, np.int64)
    for bound, _, chip in box.loops:
        starts = (starts[None, :] + (np.arange(bound) * chip)[:, None]).ravel()
    phases = (starts + at) % WORD_BYTES
    known, place = np.unique(phases, return_inverse=True)
    tables = np.stack([_bursts_of_run(box.run_bytes, int(phase), *shape) for phase in known])
    found: IntArray = tables[place].reshape(-1, 3)
    return found


@lru_cache(maxsize=64)
def engine_timing(p: Parameters, memory: MemoryTiming) -> IntArray:
    """Constants of the DMA engines of a machine beside a memory, in the order of their names above."""
    span = SPREAD_PERIOD if memory.spread_cycles else 1
    longer = [memory.longer(kind, k) for kind in (0, 1) for k in range(span)]
    under_way, alone = memory.under_way(p.outstanding), p.outstanding == 1
    told = (under_way, memory.latency_cycles, memory.beat_cycles, alone, p.outstanding, memory.requests, p.by_tag, span)
    return np.array([*told, *longer], np.int64)


def engine_state(engine: IntArray, by_tag: bool = False) -> tuple[IntArray, IntArray]:
    """State of an engine that has done nothing yet, and its ring: ends of bursts, or by tag entries and then the cycles of the memory's last beats."""
    state = [0, LONG_AGO, 0, LONG_AGO]
    if not by_tag:
        return np.array(state, np.int64), np.full(engine[UNDER_WAY], LONG_AGO, np.int64)
    room = FIELDS * engine[ENTRIES] + engine[REQUESTS]
    return np.array([*state, 0, 0, LONG_AGO, LONG_AGO, 0], np.int64), np.full(room, LONG_AGO, np.int64)


@njit
def move(bursts: IntArray, store: bool, engine: IntArray, accepted: int, state: IntArray, ring: IntArray) -> int:
    """A command taken in cycle `accepted`: the cycle in which its last data move; the engine's state follows."""
    n, beat_cycles, span = engine[UNDER_WAY], engine[BEATS], engine[SPAN]
    longer = LONGER + (span if store else 0)
    asked, end, count = accepted, state[END], state[COUNT]
    for i in range(bursts.shape[0]):
        asked = max(asked, ring[count % n]) + 1
        latency = engine[LATENCY] + engine[longer + count % span]
        if store:
            first = max(end, asked + 1) + bursts[i, 1]
            end = max(max(first, asked + latency), end + beat_cycles) + bursts[i, 2]
        else:
            end = max(asked + latency, end + beat_cycles) + bursts[i, 0]
        ring[count % n] = end
        count += 1
    state[READY] = end + 1 if engine[ALONE] else asked + 1
    state[END], state[COUNT], state[ASKED] = end, count, asked
    return int(end)


@njit
def ask(
    bursts: IntArray, owner: int, engine: IntArray, accepted: int, state: IntArray, ring: IntArray, ends: IntArray
) -> None:
    """A load taken in cycle `accepted` by a machine with answers by tag: its requests; `ends[owner]` will be the cycle in which it is over."""
    n, requests = engine[ENTRIES], engine[REQUESTS]
    asked, ends[owner] = accepted, -1
    for i in range(bursts.shape[0]):
        count = state[COUNT]
        while state[OVER] <= count - n:  # no request comes before one is over
            _serve(engine, state, ring, ends)
        at = count % n * FIELDS
        asked = max(asked, ring[at + LEFT])
        if requests > 0:
            while state[SERVED] <= count - requests:
                _serve(engine, state, ring, ends)
            asked = max(asked, ring[n * FIELDS + count % requests])
        asked += 1
        ring[at + FIRST] = asked + engine[LATENCY] + engine[LONGER + count % engine[SPAN]]
        ring[at + CHUNKS], ring[at + MOVED], ring[at + TAKEN] = bursts[i, 0], -1, accepted
        ring[at + OWNER] = owner if i == bursts.shape[0] - 1 else -1
        state[COUNT] = count + 1
    state[READY], state[ASKED] = asked + 1, asked
    if engine[ALONE]:
        state[READY] = wait_for(owner, engine, state, ring, ends) + 1


@njit
def wait_for(owner: int, engine: IntArray, state: IntArray, ring: IntArray, ends: IntArray) -> int:
    """The cycle in which a load is over, when every request that comes before is known."""
    while ends[owner] < 0:
        _serve(engine, state, ring, ends)
    return int(ends[owner])


@njit
def _serve(engine: IntArray, state: IntArray, ring: IntArray, ends: IntArray) -> None:
    """The memory's next burst, and what is over with it: the oldest ones that have their data, one a cycle."""
    n, best = engine[ENTRIES], -1
    for k in range(state[OVER], state[COUNT]):
        at = k % n * FIELDS
        if ring[at + MOVED] < 0 and (best < 0 or ring[at + FIRST] < ring[best + FIRST]):
            best = at
    end = max(ring[best + FIRST], state[BEAT] + engine[BEATS]) + ring[best + CHUNKS]
    ring[best + MOVED], state[BEAT] = end, end
    if engine[REQUESTS] > 0:
        ring[n * FIELDS + state[SERVED] % engine[REQUESTS]] = end
    state[SERVED] += 1
    while state[OVER] < state[COUNT]:
        at = state[OVER] % n * FIELDS
        if ring[at + MOVED] < 0:
            break
        left = max(ring[at + MOVED], state[END] + 1)
        ring[at + LEFT], state[END] = left, left
        state[OVER] += 1
        owner = ring[at + OWNER]
        if owner >= 0:
            ends[owner] = left
            state[BUSY] += left - max(state[COMMAND], ring[at + TAKEN])
            state[COMMAND] = left
