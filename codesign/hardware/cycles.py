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
from codesign.core.jit import njit
from codesign.hardware.array_cycles import APART, IDLE, WENT, array_state, command, feed_cycles, quiet
from codesign.hardware.bench import HardwareError
from codesign.hardware.bursts import END, READY, bursts_of, engine_state, engine_timing, move
from codesign.hardware.layout import Layout, LayoutKind
from codesign.hardware.memory_timing import PLAIN_MEMORY, MemoryTiming
from codesign.hardware.nest_loops import PORTS
from codesign.hardware.nest_plan import NestPlan, box_of, layouts_of
from codesign.hardware.parameters import Parameters
from codesign.hardware.streams import FENCE, STORE, CommandShape, CoreImage
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


def nest_cycles(plan: NestPlan, layouts: dict[str, Layout], *, memory: MemoryTiming = PLAIN_MEMORY) -> int:
    """Busy cycles of a plan on its machine (K1 to K6)."""
    return nest_times(plan, layouts, memory=memory).cycles


def best_plan(
    computation: Computation,
    architecture: Architecture,
    mapping: Mapping,
    p: Parameters,
    *,
    memory: MemoryTiming = PLAIN_MEMORY,
) -> NestPlan:
    """The mapping with the layout that takes the fewest cycles, see `best_timed_plan`."""
    return best_timed_plan(computation, architecture, mapping, p, memory=memory)[0]


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
    times = nest_times(best, layouts_of(best), memory=memory)
    kinds = [] if len(mapping.layouts) == len(PORTS) else [LayoutKind.BLOCKED]
    kinds = [*kinds, LayoutKind.GROUPED] if p.fills_wide else kinds
    for kind in kinds if p.overlaps else []:
        try:
            plan = best.in_layout(kind)
            if kind is LayoutKind.GROUPED and max(plan.groups.values()) == 1:
                continue  # a blocked one
            found = nest_times(plan, layouts_of(plan), memory=memory)
        except UserError:  # more loops than the machine's nests have, or no room for groups
            continue
        if found.cycles < times.cycles or (found.cycles == times.cycles and kind is LayoutKind.BLOCKED):
            best, times = plan, found
    return best, times


def nest_times(plan: NestPlan, layouts: dict[str, Layout], *, memory: MemoryTiming = PLAIN_MEMORY) -> NestTimes:
    """The same with what its parts spend.

    Args:
        plan: A mapping shared out on a machine.
        layouts: Of the tensors in DRAM, by port.
        memory: What answers the machine.
    """
    p, n_seq = plan.p, plan.n_seq
    parts, spans = (
        [],
        np.zeros((4, 2, 2), np.int64),
    )  # bursts of loads by tensor and half, then of stores; where they stand
    for t, port in enumerate((*PORTS, "O")):
        box, size = box_of(plan, port, layouts[port]), layouts[port].element_bytes
        for h in range(2):
            at = plan.halves[port][h % len(plan.halves[port])]
            parts.append(bursts_of(p, box, at, size, port == "O", memory))
            spans[t, h, 1] = len(parts[-1])
    ends = np.cumsum(spans[:, :, 1].ravel()).reshape(4, 2)
    spans[:, :, 0], spans[:, :, 1] = ends - spans[:, :, 1], ends
    engine = engine_timing(p, memory)
    (reader, read_ring), (writer, write_ring) = engine_state(engine), engine_state(engine)
    inner = [x.factor for x in plan.loops[n_seq:]]
    lines = len(plan.emissions.lines)
    windows = [len(plan.windows["A"]), len(plan.windows["B"]), lines]
    words = [math.prod(plan.tile(q, plan.loc(q), local=True)) // plan.groups[q] if q in p.local else 0 for q in PORTS]
    state = array_state(p, windows, plan.emissions)
    found = _walk(
        np.array([x.factor for x in plan.loops[:n_seq]], np.int64), plan.n_loads,
        np.array([plan.changes(q, plan.sp(q), 0, n_seq) for q in PORTS], np.bool_).reshape(3, n_seq),
        np.array([plan.changes(q, plan.loc(q), 0, n_seq) for q in PORTS], np.bool_).reshape(3, n_seq),
        np.array([any(plan.move("O", i)) for i in range(n_seq)], np.bool_),
        np.array([len(plan.halves[q]) for q in PORTS], np.int64),
        np.concatenate(parts), spans, engine.numbers, reader, read_ring, writer, write_ring, np.array(words, np.int64), np.array(windows, np.int64), math.prod(inner), feed_cycles(p, windows),
        np.array([q in p.local for q in PORTS], np.bool_), p.column_cycles, *state, _beside(plan),
    )  # fmt: skip
    return NestTimes(*(int(v) for v in found))


def queue_cycles(core: CoreImage, *, memory: MemoryTiming = PLAIN_MEMORY) -> int:
    """Busy cycles of a core's program (K5).

    Args:
        core: The program's streams.
        memory: What answers the machine.
    """
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
        self.engines = [engine_state(self.timing), engine_state(self.timing)]  # reader, writer
        self.bursts = [bursts_of(self.p, *transfer[:4], memory) for transfer in core.transfers]
        self.clock, self.position, self.done = [0, 0], [0, 0], [0, 0]
        self.signals: tuple[list[int], list[int]] = ([], [])
        self.stored: list[int] = []
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
        moved = max(int(state[END]) for state, _ in self.engines)
        return max(*self.clock, moved, self.ended) + 1

    def _take(self, q: int, what: str, value: int, signal: int) -> bool:
        """One word, or several register writes; False where it must wait for the other queue."""
        if what in ("wait", "wait stores"):
            others = self.stored if what == "wait stores" else self.signals[1 - q]
            if len(others) < value:
                return False
            self.clock[q] = max(self.clock[q], others[value - 1]) + 1
        elif what == "writes":
            self.clock[q] += value
        elif what == "held":
            ready = int(self.engines[signal == STORE][0][READY]) if self.p.overlaps else 0
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

    def _transfer(self, data: int, signal: bool) -> None:
        """A launch of a DMA engine."""
        stores = data & 3 == STORE
        (state, ring), other = self.engines[stores], self.engines[not stores][0]
        now = self.clock[1]
        if self.p.overlaps:
            now = max(now, int(state[READY]))
            if data & FENCE:
                now = max(now, int(other[END]) + 1)
        end = move(self.bursts[self.done[1]], stores, self.timing.numbers, now, state, ring)
        self.done[1] += 1
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


@njit
def _advance(count: IntArray, bounds: IntArray, n: int) -> int:
    """Step a nest of `n` loops; the loop that advanced, -1 after the last iteration."""
    for i in range(n - 1, -1, -1):
        count[i] += 1
        if count[i] < bounds[i]:
            return i
        count[i] = 0
    return -1


@njit
def _begins(sums: npt.NDArray[np.bool_], count: IntArray, n: int) -> bool:
    """Whether sums begin here: every loop that reduces is at its first iteration."""
    begins = True
    for i in range(n):
        begins = begins and (sums[i] or count[i] == 0)
    return begins


@njit
def _load_next(
    bounds: IntArray, n_loads: int, moves: npt.NDArray[np.bool_], sums: npt.NDArray[np.bool_], halves: IntArray,
    bursts: IntArray, spans: IntArray, engine: IntArray, reader: IntArray, read_ring: IntArray, freed: IntArray, loaded: IntArray, taken: IntArray, count: IntArray, moved: npt.NDArray[np.bool_], clock: IntArray,
) -> None:  # fmt: skip
    """One iteration of the loader (K2).

    `clock` holds the cycle it is in, the last cycle in which old sums arrived, and how long the reader was at work.
    """
    begins = _begins(sums, count, n_loads)
    for t in range(3):
        if moved[t]:
            k = taken[t]
            at = clock[0]
            if k >= halves[t]:
                at = max(at, freed[t, (k - halves[t]) % 4] + 1)
            fetches = t < 2 or not begins
            if fetches:
                at = max(at, reader[READY])
                before, half = max(reader[END], at), k % halves[t]
                end = move(bursts[spans[t, half, 0] : spans[t, half, 1]], False, engine, at, reader, read_ring)
                loaded[t, k % 4] = end
                clock[2] += end - before
                if t == 2:
                    clock[1] = end + 1
            else:
                at = max(at, clock[1])
                loaded[t, k % 4] = at
            taken[t] += 1
            clock[0] = at
        clock[0] += 1
    advanced = _advance(count, bounds, n_loads)
    clock[0] += 1
    for t in range(3):
        moved[t] = advanced >= 0 and moves[t, advanced]


@njit
def _walk(
    bounds: IntArray, n_loads: int, moves: npt.NDArray[np.bool_], local_moves: npt.NDArray[np.bool_], sums: npt.NDArray[np.bool_],
    halves: IntArray, bursts: IntArray, spans: IntArray, engine: IntArray, reader: IntArray, read_ring: IntArray,
    writer: IntArray, write_ring: IntArray, words: IntArray, windows: IntArray, steps: int, feed: int,
    local: npt.NDArray[np.bool_], hop: int, state: IntArray, ring: IntArray, beside: IntArray,
) -> IntArray:  # fmt: skip
    """Sequencer, loader, array and writer together; see the module. Returns the fields of `NestTimes`."""
    spent = np.zeros(7, np.int64)
    n, lines = bounds.shape[0], windows[2]
    freed, loaded, taken, used = (
        np.zeros((3, 4), np.int64),
        np.zeros((3, 4), np.int64),
        np.zeros(3, np.int64),
        np.zeros(3, np.int64),
    )
    count, load_count, clock = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(3, np.int64)
    moved, refill, load_moved = np.ones(3, np.bool_), np.ones(3, np.bool_), np.ones(3, np.bool_)
    waiting_until, now, stored, filled = -1, 0, 0, 0
    while True:
        begins = _begins(sums, count, n)
        for t in range(3):
            if moved[t]:
                while taken[t] <= used[t]:
                    _load_next(
                        bounds,
                        n_loads,
                        moves,
                        sums,
                        halves,
                        bursts,
                        spans,
                        engine,
                        reader,
                        read_ring,
                        freed,
                        loaded,
                        taken,
                        load_count,
                        load_moved,
                        clock,
                    )
                spent[4] += max(0, loaded[t, used[t] % 4] + 1 - max(now, state[IDLE]))
                now = max(now, loaded[t, used[t] % 4] + 1)
        spent[6] += 1
        now += 0 if state[APART] else 1  # a machine that overlaps hands its first command over at once
        advanced = -1
        for i in range(n - 1, -1, -1):
            if count[i] + 1 < bounds[i]:
                advanced = i
                break
        leaves = advanced < 0 or local_moves[2, advanced]
        for kind in range(5):
            if kind < 3 and not (local[kind] and refill[kind]):
                continue
            if (kind == 2 and begins) or (kind == 4 and not (local[2] and leaves)):
                continue
            if kind < 2 and beside[0]:
                now = max(now, filled)
                if not beside[1 + kind]:
                    now = max(now, state[IDLE])
                filled = now + 1 + words[kind] * windows[kind]
                now += 1
                continue
            now = max(now, state[IDLE] - state[APART])  # it takes one in the last cycle of another
            if kind < 4:
                now = max(now, filled)
            if kind < 3 and local[2]:
                now = max(now, state[WENT] + 2)
            if kind == 2:
                now = max(now, quiet(state, ring, lines))
            if kind < 3:
                command(ring, state, now, words[kind], windows[kind], False, False, lines, hop)
            elif kind == 3:
                command(ring, state, now, steps, feed, True, not local[2], lines, hop)
            else:
                command(ring, state, now, words[2], 0, True, True, lines, hop)
            spent[3] += state[IDLE] - now
            now += 1
        ends_any = False
        for t in range(3):
            if advanced < 0 or moves[t, advanced]:
                ends_any = True
        if ends_any:
            now = max(now, state[IDLE])
        if advanced < 0 or moves[2, advanced]:
            written = quiet(state, ring, lines)
            left = max(now if state[APART] else max(now, written), waiting_until + 1)
            spent[5] += left - now
            now = left
            waiting_until = max(max(now + 1, writer[READY]), written)  # the cycle in which the writer takes it
            before, half = max(writer[END], waiting_until), used[2] % halves[2]
            stored = move(
                bursts[spans[3, half, 0] : spans[3, half, 1]], True, engine, waiting_until, writer, write_ring
            )
            spent[2] += stored - before
            freed[2, used[2] % 4] = stored
        for t in range(3):
            moved[t] = advanced < 0 or moves[t, advanced]
            refill[t] = advanced >= 0 and local_moves[t, advanced]
            if moved[t]:
                if t < 2:
                    freed[t, used[t] % 4] = now
                used[t] += 1
        if advanced < 0:
            spent[0], spent[1] = max(stored, clock[0] - 1) + 1, clock[2]
            return spent
        _advance(count, bounds, n)
        now += 1
