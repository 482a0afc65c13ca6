"""When the bursts of a transfer are asked for and when their data move: rule K1 as a recurrence.

An engine asks for one burst a cycle while fewer than N are under way. The memory serves bursts in order, each from `latency` cycles after its
request on. A read's chunk moves in the cycle of its beat; a write's chunk is read from the scratchpad one cycle before.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from codesign.core.jit import njit
from codesign.hardware.layout import Box
from codesign.hardware.memory_timing import MemoryTiming
from codesign.hardware.parameters import PARTIAL_BYTES, WORD_BYTES, Parameters

IntArray = npt.NDArray[np.int64]

LONG_AGO = -(1 << 40)
READY, END, COUNT, ASKED = range(4)
"""Fields of an engine's state: the first cycle in which it takes a command, the last in which data moved, bursts so far, the last request."""


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


@dataclass(frozen=True)
class EngineTiming:
    """What a DMA engine and its memory need to know.

    Args:
        under_way: Bursts at most.
        latency: Cycles from a request to its first beat.
        beat_cycles: From one beat to the next.
        alone: The engine takes a command only when the one before has ended.
    """

    under_way: int
    latency: int
    beat_cycles: int
    alone: bool

    @property
    def numbers(self) -> IntArray:
        """The same as an array, for compiled code."""
        return np.array([self.under_way, self.latency, self.beat_cycles, self.alone], np.int64)


def engine_timing(p: Parameters, memory: MemoryTiming) -> EngineTiming:
    """Of a machine beside a memory."""
    n = memory.under_way(p.outstanding)
    return EngineTiming(n, memory.latency_cycles, memory.beat_cycles, p.outstanding == 1)


def engine_state(engine: EngineTiming) -> tuple[IntArray, IntArray]:
    """State and ring of ends of an engine that has done nothing yet."""
    return np.array([0, LONG_AGO, 0, LONG_AGO], np.int64), np.full(engine.under_way, LONG_AGO, np.int64)


@njit
def move(bursts: IntArray, store: bool, engine: IntArray, accepted: int, state: IntArray, ring: IntArray) -> int:
    """A command taken in cycle `accepted`: the cycle in which its last data move; the engine's state follows."""
    n, latency, beat_cycles = engine[0], engine[1], engine[2]
    asked, end, count = accepted, state[END], state[COUNT]
    for i in range(bursts.shape[0]):
        asked = max(asked, ring[count % n]) + 1
        if store:
            first = max(end, asked + 1) + bursts[i, 1]
            end = max(max(first, asked + latency), end + beat_cycles) + bursts[i, 2]
        else:
            end = max(asked + latency, end + beat_cycles) + bursts[i, 0]
        ring[count % n] = end
        count += 1
    state[READY] = end + 1 if engine[3] else asked + 1
    state[END], state[COUNT], state[ASKED] = end, count, asked
    return int(end)


def transfer_cycles(
    p: Parameters, box: Box, at: int, element_bytes: int, *, wide: bool, store: bool, memory: MemoryTiming
) -> int:
    """Cycles of moving a box on an engine that is at rest, its command included (K1)."""
    engine = engine_timing(p, memory)
    state, ring = engine_state(engine)
    return move(bursts_of(p, box, at, element_bytes, wide, memory), store, engine.numbers, 0, state, ring)
