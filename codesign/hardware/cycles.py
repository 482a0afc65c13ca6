"""Cycles of a machine of loop nests, from its pipeline depths alone.

A recurrence over the sequencer's iterations: when tiles have arrived, when the array takes a command, when a half is free again.
Every constant is a number of registers in the generated hardware; rules K1 to K6 of docs/explanation/hardware.md.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from codesign.arch.architecture import Architecture
from codesign.core.errors import UserError
from codesign.hardware.array_cycles import IDLE, WENT, array_state, command, feed_cycles, quiet
from codesign.hardware.bench import HardwareError
from codesign.hardware.bursts import END, READY, ask, bursts_of, engine_state, engine_timing, move, wait_for
from codesign.hardware.layout import LayoutKind
from codesign.hardware.memory_timing import PLAIN_MEMORY, MemoryTiming
from codesign.hardware.nest_plan import NestPlan
from codesign.hardware.nest_walk import ArrayWork, Memory, walk
from codesign.hardware.parameters import PORTS, Parameters
from codesign.hardware.streams import CommandShape, CoreImage
from codesign.hardware.words import FENCE_BIT, DmaCommand
from codesign.mapping.mapping import Mapping
from codesign.workloads.computation import Computation

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class NestTimes:
    """What the recurrence says of a run.

    Args:
        cycles: From the start to the last byte stored.
        reader_busy, writer_busy: Cycles in which a DMA engine is at a command.
        array_busy: Cycles in which the array is at a command.
        tile_wait: Cycles in which the array stands still for want of tiles.
        leave_wait: Cycles in which it stands still until results have left.
        steps: Its iterations.
    """

    cycles: int
    reader_busy: int
    writer_busy: int
    array_busy: int
    tile_wait: int
    leave_wait: int
    steps: int


def best_timed_plan(
    computation: Computation,
    architecture: Architecture,
    mapping: Mapping,
    p: Parameters,
    *,
    memory: MemoryTiming = PLAIN_MEMORY,
) -> tuple[NestPlan, NestTimes]:
    """The mapping with the layout that takes the fewest cycles, and its times; a machine with one burst under way has plain layouts.

    Raises:
        UserError: A mapping that the family does not run, with the rule.
    """
    best = NestPlan(computation, architecture, mapping, p)
    times = nest_times(best, memory=memory)
    kinds = [] if len(mapping.layouts) == len(PORTS) else [LayoutKind.BLOCKED]
    kinds = [*kinds, LayoutKind.GROUPED] if p.fills_wide else kinds
    kinds = [*kinds, LayoutKind.PARTLY] if p.fills_wide and best.groups_partly else kinds
    for kind in kinds if p.overlaps else []:
        try:
            plan = best.in_layout(kind)
            if kind in (LayoutKind.GROUPED, LayoutKind.PARTLY) and max(plan.groups.values()) == 1:
                continue  # a blocked one does as well
            found = nest_times(plan, memory=memory)
        except UserError:  # more loops than the machine's nests have, or no room for groups
            continue
        if found.cycles < times.cycles or (found.cycles == times.cycles and kind is LayoutKind.BLOCKED):
            best, times = plan, found
    places = {q: len(best.halves[q]) for q in PORTS}
    if places["O"] == 1 and max(places.values()) > 1:  # results may be worth the room that other tiles have twice
        plan = best.in_layout(best.layout, results_first=True)
        if len(plan.halves["O"]) > 1 and (found := nest_times(plan, memory=memory)).cycles < times.cycles:
            best, times = plan, found
    return best, times


def nest_times(plan: NestPlan, *, memory: MemoryTiming = PLAIN_MEMORY) -> NestTimes:
    """Cycles of a plan on its machine, and what its parts spend (K1 to K6)."""
    p, n_seq = plan.p, plan.n_seq
    parts, spans, count = [], np.zeros((4, p.most_places, 2), np.int64), 0
    for t, port in enumerate(PORTS):
        box, size = plan.box(port), plan.tensors[port].bits // 8
        for h, at in enumerate(plan.halves[port]):
            if h and p.halved_banks:  # lines are whole from any byte on
                spans[t, h] = spans[t, 0]
                continue
            parts.append(bursts_of(p, box, at, size, port == "O", memory))
            spans[t, h] = count, count + len(parts[-1])
            count += len(parts[-1])
    spans[3] = spans[2]  # results leave as they come
    engine = engine_timing(p, memory)
    (reader, read_ring), (writer, write_ring) = engine_state(engine, p.by_tag), engine_state(engine)
    inner = [x.factor for x in plan.loops[n_seq:]]
    lines = len(plan.emissions.lines)
    windows = [plan.lines("A"), plan.lines("B"), lines]
    words = [math.prod(n for n, _, _ in plan.grouped_words(q)) if q in p.local else 0 for q in PORTS]
    state = array_state(p, windows, plan.emissions)
    halves = np.array([len(plan.halves[q]) for q in PORTS], np.int64)
    memories = Memory(halves, np.concatenate(parts), spans, engine, reader, read_ring, writer, write_ring)
    local = np.array([q in p.local for q in PORTS], np.bool_)
    counts = (np.array(words, np.int64), np.array(windows, np.int64), math.prod(inner), feed_cycles(p, windows))
    found = walk(plan.nest, memories, ArrayWork(*counts, local, p.column_cycles, _beside(plan), *state))
    return NestTimes(*(int(v) for v in found))


def queue_cycles(core: CoreImage, *, memory: MemoryTiming = PLAIN_MEMORY) -> int:
    """Busy cycles of a core's program (K5)."""
    return _Queues(core, memory).run()


def _beside(plan: NestPlan) -> IntArray:
    """Whether local memories fill while the array multiplies, and whether operands A and B have two local halves (K6)."""
    two = [len(plan.local_halves[q]) > 1 for q in "AB"] if plan.p.fills_beside else [False, False]
    return np.array([plan.p.fills_beside, *two], np.int64)


class _Queues:
    """Two clocks, one a queue, that wait for each other, and the two DMA engines."""

    def __init__(self, core: CoreImage, memory: MemoryTiming) -> None:
        image = core.image
        self.core, self.p, self.lines = core, image.parameters, len(image.emissions.lines)
        windows = [len(image.windows["A"]), len(image.windows["B"])]
        self.reads = {0: windows[0], 1: windows[1], 2: self.lines, 3: feed_cycles(self.p, windows), 4: 0}
        self.state, self.ring = array_state(self.p, windows, image.emissions)
        self.timing = engine_timing(self.p, memory)
        self.engines = [engine_state(self.timing, self.p.by_tag), engine_state(self.timing)]  # reader, writer
        self.late = self.p.by_tag and self.p.overlaps  # when loads are over is found when somebody waits
        self.ends = np.full(sum(not t[4] for t in core.transfers), -1, np.int64)  # of loads, where answers come by tag
        self.bursts = [bursts_of(self.p, *transfer[:4], memory) for transfer in core.transfers]
        self.clock, self.position, self.done = [0, 0], [0, 0], [0, 0]
        self.signals: tuple[list[int], list[int]] = ([], [])
        self.stored: list[int] = []
        self.loads = 0
        self.ended = 0  # the cycle in which the queue sees that the array's last command is over

    def run(self) -> int:
        """All cycles."""
        queues = (self.core.array, self.core.dma)
        while any(at < len(queue) for at, queue in zip(self.position, queues, strict=True)):
            progress = False
            for q in (0, 1):
                while self.position[q] < len(queues[q]) and self._take(q, *queues[q][self.position[q]]):
                    self.position[q] += 1
                    progress = True
            if not progress:
                raise HardwareError("the two queues wait for each other")
        if self.late:
            self._over(self.loads - 1)
        moved = max(int(state[END]) for state, _ in self.engines)
        return max(*self.clock, moved, self.ended) + 1

    def _take(self, q: int, what: str, value: int, signal: int) -> bool:
        """One word, or several register writes; False where it must wait for the other queue."""
        if what in ("wait", "wait stores"):
            others = self.stored if what == "wait stores" else self.signals[1 - q]
            if q == 0 and self.late and what == "wait":  # what is asked for before the load is over must be known
                while self.position[1] < len(self.core.dma) and self._take(1, *self.core.dma[self.position[1]]):
                    self.position[1] += 1
                if len(others) >= value:
                    others[value - 1] = self._over(value - 1) + 1
            if len(others) < value:
                return False
            self.clock[q] = max(self.clock[q], others[value - 1]) + 1
        elif what == "writes":
            self.clock[q] += value
        elif what == "held":
            ready = int(self.engines[signal == DmaCommand.STORE][0][READY]) if self.p.overlaps else 0
            self.clock[q] = max(self.clock[q], ready) + value
        elif q == 1:
            self._transfer(value, bool(signal))
        else:
            shape = self.core.shapes[self.done[0]]
            now = max(self.clock[0], self.ended)
            now, end = _array_launch(self.p, shape, self.reads, self.lines, now, bool(signal), self.ring, self.state)
            self.done[0] += 1
            self.ended = end if self.p.overlaps else 0
            self.clock[0] = (now if self.p.overlaps else end) + 1
            if signal:
                self.signals[0].append(end + 1)
        return True

    def _over(self, load: int) -> int:
        """When a load is over, by tag, in the order of the queue; nothing for -1."""
        return wait_for(load, self.timing, *self.engines[0], self.ends) if load >= 0 else 0

    def _transfer(self, data: int, signal: bool) -> None:
        """A launch of a DMA engine."""
        stores = data & 3 == DmaCommand.STORE
        (state, ring), other = self.engines[stores], self.engines[not stores][0]
        now = self.clock[1]
        if self.p.overlaps:
            now = max(now, int(state[READY]))
            if data >> FENCE_BIT & 1:
                if stores and self.late:
                    self._over(self.loads - 1)
                now = max(now, int(other[END]) + 1)
        bursts, numbers = self.bursts[self.done[1]], self.timing
        self.done[1] += 1
        if self.p.by_tag and not stores:
            ask(bursts, self.loads, numbers, now, state, ring, self.ends)
            self.loads += 1
            end = 0 if self.late else self._over(self.loads - 1)
        else:
            end = move(bursts, stores, numbers, now, state, ring)
        if self.p.overlaps:
            self.clock[1] = now + 1
            (self.stored if stores else self.signals[1]).append(end + 1)
            return
        self.clock[1] = end + 1
        if signal:
            self.signals[1].append(end + 1)


def _array_launch(
    p: Parameters,
    shape: CommandShape,
    reads: dict[int, int],
    lines: int,
    now: int,
    signal: bool,
    ring: IntArray,
    state: IntArray,
) -> tuple[int, int]:
    """The cycle in which the array takes a command, and the one in which the queue sees that it is over."""
    kind = shape.kind
    now = max(now, int(state[IDLE]))
    if kind < 3 and "O" in p.local:
        now = max(now, int(state[WENT]) + 2)
    if kind == 2:
        now = max(now, quiet(state, ring, lines))
    goes = kind >= 3
    emits = kind == 4 or (kind == 3 and "O" not in p.local)
    command(ring, state, now, shape.items, reads[kind], goes, emits, lines, p.column_cycles)
    end = max(now + 1, int(state[IDLE]))
    return now, max(end, quiet(state, ring, lines)) if signal else end
