"""Cycles of a machine of loop nests, from its pipeline depths alone.

A recurrence over the sequencer's iterations: when tiles have arrived, when the array takes a command, when a half is free again.
Every constant is a number of registers in the generated hardware; rules K1 to K6 of docs/explanation/hardware.md.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from codesign.arch.architecture import Architecture
from codesign.core.errors import UserError
from codesign.core.jit import njit
from codesign.hardware.array_cycles import APART, IDLE, WENT, array_state, command, feed_cycles, quiet
from codesign.hardware.bench import HardwareError
from codesign.hardware.bursts import (
    BUSY,
    BY_TAG,
    END,
    READY,
    ask,
    bursts_of,
    engine_state,
    engine_timing,
    move,
    wait_for,
)
from codesign.hardware.layout import LayoutKind
from codesign.hardware.memory_timing import PLAIN_MEMORY, MemoryTiming
from codesign.hardware.nest_loops import PORTS
from codesign.hardware.nest_plan import NestPlan, box_of
from codesign.hardware.parameters import Parameters
from codesign.hardware.streams import FENCE, STORE, CommandShape, CoreImage
from codesign.mapping.mapping import Mapping
from codesign.workloads.computation import Computation

IntArray = npt.NDArray[np.int64]

_KEPT = 16
"""Tiles of a port whose times are kept: more than it has places."""


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


def nest_cycles(plan: NestPlan, *, memory: MemoryTiming = PLAIN_MEMORY) -> int:
    """Busy cycles of a plan on its machine (K1 to K6)."""
    return nest_times(plan, memory=memory).cycles


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
    nest = _nest_of(best)
    times = _times(best, nest, memory)
    kinds = [] if len(mapping.layouts) == len(PORTS) else [LayoutKind.BLOCKED]
    kinds = [*kinds, LayoutKind.GROUPED] if p.fills_wide else kinds
    kinds = [*kinds, LayoutKind.PARTLY] if p.fills_wide and best.groups_partly else kinds
    for kind in kinds if p.overlaps else []:
        try:
            plan = best.in_layout(kind)
            if kind in (LayoutKind.GROUPED, LayoutKind.PARTLY) and max(plan.groups.values()) == 1:
                continue  # a blocked one does as well
            found = _times(plan, nest, memory)
        except UserError:  # more loops than the machine's nests have, or no room for groups
            continue
        if found.cycles < times.cycles or (found.cycles == times.cycles and kind is LayoutKind.BLOCKED):
            best, times = plan, found
    places = {q: len(best.halves[q]) for q in PORTS}
    if places["O"] == 1 and max(places.values()) > 1:  # results may be worth the room that other tiles have twice
        plan = best.in_layout(best.layout, results_first=True)
        if len(plan.halves["O"]) > 1 and (found := _times(plan, nest, memory)).cycles < times.cycles:
            best, times = plan, found
    return best, times


def nest_times(plan: NestPlan, *, memory: MemoryTiming = PLAIN_MEMORY) -> NestTimes:
    """The same with what its parts spend.

    Args:
        plan: A mapping shared out on a machine.
        memory: What answers the machine.
    """
    return _times(plan, _nest_of(plan), memory)


def _times(plan: NestPlan, nest: "_Nest", memory: MemoryTiming) -> NestTimes:
    p, n_seq = plan.p, plan.n_seq
    parts, spans, count = [], np.zeros((4, p.most_places, 2), np.int64), 0
    for t, port in enumerate(PORTS):
        box, size = box_of(plan, port), plan.tensors[port].bits // 8
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
    memories = _Memory(halves, np.concatenate(parts), spans, engine.numbers, reader, read_ring, writer, write_ring)
    local = np.array([q in p.local for q in PORTS], np.bool_)
    counts = (np.array(words, np.int64), np.array(windows, np.int64), math.prod(inner), feed_cycles(p, windows))
    found = _walk(nest, memories, _Array(*counts, local, p.column_cycles, _beside(plan), *state))
    return NestTimes(*(int(v) for v in found))


def _nest_of(plan: NestPlan) -> "_Nest":
    """The sequencer's loops, the same in every layout."""
    n_seq = plan.n_seq
    return _Nest(
        np.array([x.factor for x in plan.loops[:n_seq]], np.int64),
        plan.n_loads,
        np.array([plan.changes(q, plan.sp(q), 0, n_seq) for q in PORTS], np.bool_).reshape(3, n_seq),
        np.array([plan.changes(q, plan.loc(q), 0, n_seq) for q in PORTS], np.bool_).reshape(3, n_seq),
        np.array([any(plan.move("O", i)) for i in range(n_seq)], np.bool_),
    )


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

    def _over(self, load: int) -> int:
        """When a load is over, by tag, in the order of the queue; nothing for -1."""
        return wait_for(load, self.timing.numbers, *self.engines[0], self.ends) if load >= 0 else 0

    def _transfer(self, data: int, signal: bool) -> None:
        """A launch of a DMA engine."""
        stores = data & 3 == STORE
        (state, ring), other = self.engines[stores], self.engines[not stores][0]
        now = self.clock[1]
        if self.p.overlaps:
            now = max(now, int(state[READY]))
            if data & FENCE:
                if stores and self.late:
                    self._over(self.loads - 1)
                now = max(now, int(other[END]) + 1)
        bursts, numbers = self.bursts[self.done[1]], self.timing.numbers
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


class _Nest(NamedTuple):
    """The loops of the sequencer. Shapes: ``n`` loops; ports A, B, O.

    Attributes:
        bounds: ``n``.
        loads: How many of the outermost loops the loader runs through.
        moves: ``3 x n`` whether a step of a loop moves the tile of a port.
        local_moves: ``3 x n`` the same for local tiles.
        sums: ``n`` whether a loop does not reduce.
    """

    bounds: IntArray
    loads: int
    moves: npt.NDArray[np.bool_]
    local_moves: npt.NDArray[np.bool_]
    sums: npt.NDArray[np.bool_]


class _Memory(NamedTuple):
    """Bursts of the tiles, and both DMA engines.

    Attributes:
        halves: ``3`` places of each port's tile.
        bursts: Of all tiles, one after another.
        spans: ``4 x P x 2`` where those of a tile begin and end: loads by port and place, then stores.
        engine: Constants, as in `dma_cycles`.
        reader: State of the engine that reads.
        read_ring: Its bursts under way.
        writer: State of the engine that writes.
        write_ring: Its bursts under way.
    """

    halves: IntArray
    bursts: IntArray
    spans: IntArray
    engine: IntArray
    reader: IntArray
    read_ring: IntArray
    writer: IntArray
    write_ring: IntArray


class _Array(NamedTuple):
    """What the commands of the array are made of, and how far it is.

    Attributes:
        words: ``3`` items of a fill or drain of each port.
        windows: ``3`` reads of an item of A and of B, and lines of an item of O.
        steps: Items of a run.
        feed: Reads of each.
        local: ``3`` which ports have local tiles.
        hop: Cycles to the last column.
        beside: Whether local memories fill beside the array; whether A and B have two local halves.
        state: As in `array_cycles`.
        ring: As in `array_cycles`.
    """

    words: IntArray
    windows: IntArray
    steps: int
    feed: int
    local: npt.NDArray[np.bool_]
    hop: int
    beside: IntArray
    state: IntArray
    ring: IntArray


class _Progress(NamedTuple):
    """How far loads and tiles are; the last 16 of each port's tiles are kept.

    Attributes:
        freed: ``3 x 16`` cycle in which the place of a tile was free again.
        loaded: ``3 * 16`` cycle in which a tile had come; by tag -1 until somebody waits for it.
        taken: ``3`` tiles loaded.
        used: ``3`` tiles that are over.
        loops: Iterations of the loops of the loader.
        moved: ``3`` whether the loader's last step moved the tile.
        clock: The loader's cycle; the last one in which old sums arrived; how long the reader was at work; by tag the place in `loaded` of the last
            old sums, -1 for none, and the tensor that the loader is at, 3 where its loops step, -1 at their end.
    """

    freed: IntArray
    loaded: IntArray
    taken: IntArray
    used: IntArray
    loops: IntArray
    moved: npt.NDArray[np.bool_]
    clock: IntArray


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
def _load_tile(t: int, nest: _Nest, memory: _Memory, at_hand: _Progress) -> None:
    """The loader takes a place for the next tile of a port, and hands it to the reader (K2)."""
    clock, reader, loaded, k = at_hand.clock, memory.reader, at_hand.loaded, at_hand.taken[t]
    at, half, kept = clock[0], k % memory.halves[t], t * _KEPT + k % _KEPT
    if k >= memory.halves[t]:
        at = max(at, at_hand.freed[t, (k - memory.halves[t]) % _KEPT] + 1)
    if t < 2 or not _begins(nest.sums, at_hand.loops, nest.loads):
        at = max(at, reader[READY])
        mine = memory.bursts[memory.spans[t, half, 0] : memory.spans[t, half, 1]]
        if memory.engine[BY_TAG]:
            ask(mine, kept, memory.engine, at, reader, memory.read_ring, loaded)
            if t == 2:
                clock[3] = kept
        else:
            before = max(reader[END], at)
            end = move(mine, False, memory.engine, at, reader, memory.read_ring)
            loaded[kept] = end
            clock[2] += end - before
            if t == 2:
                clock[1] = end + 1
    else:
        if clock[3] >= 0:  # the loader stands meanwhile, so nothing else is asked for
            clock[1] = wait_for(clock[3], memory.engine, reader, memory.read_ring, loaded) + 1
        at = max(at, clock[1])
        loaded[kept] = at
    at_hand.taken[t] += 1
    clock[0] = at


@njit
def _step_loader(nest: _Nest, at_hand: _Progress) -> bool:
    """To the next iteration of the loader; whether there is one."""
    advanced = _advance(at_hand.loops, nest.bounds, nest.loads)
    at_hand.clock[0] += 1
    for t in range(3):
        at_hand.moved[t] = advanced >= 0 and nest.moves[t, advanced]
    return bool(advanced >= 0)


@njit
def _load_next(nest: _Nest, memory: _Memory, at_hand: _Progress) -> None:
    """One iteration of the loader (K2)."""
    for t in range(3):
        if at_hand.moved[t]:
            _load_tile(t, nest, memory, at_hand)
        at_hand.clock[0] += 1
    _step_loader(nest, at_hand)


@njit
def _load_ahead(nest: _Nest, memory: _Memory, at_hand: _Progress) -> None:
    """The loader as far as it is known when places are free. A place that is freed later is asked for after all that is waited for now."""
    clock = at_hand.clock
    while clock[4] >= 0:
        t = clock[4]
        if t == 3:
            clock[4] = 0 if _step_loader(nest, at_hand) else -1
            continue
        if at_hand.moved[t]:
            if at_hand.used[t] <= at_hand.taken[t] - memory.halves[t]:
                return
            _load_tile(t, nest, memory, at_hand)
        clock[0] += 1
        clock[4] += 1


@njit
def _next_loop(nest: _Nest, count: IntArray) -> int:
    """The loop that steps after this iteration, -1 after the last."""
    for i in range(nest.bounds.shape[0] - 1, -1, -1):
        if count[i] + 1 < nest.bounds[i]:
            return i
    return -1


@njit
def _tiles_come(
    nest: _Nest, memory: _Memory, array: _Array, at_hand: _Progress, moved: npt.NDArray[np.bool_], now: int, spent: IntArray
) -> int:  # fmt: skip
    """The cycle in which all tiles of an iteration are there."""
    by_tag = memory.engine[BY_TAG] > 0
    if by_tag:
        _load_ahead(nest, memory, at_hand)
    for t in range(3):
        if moved[t]:
            while not by_tag and at_hand.taken[t] <= at_hand.used[t]:
                _load_next(nest, memory, at_hand)
            kept = t * _KEPT + at_hand.used[t] % _KEPT
            if by_tag:
                wait_for(kept, memory.engine, memory.reader, memory.read_ring, at_hand.loaded)
            there = at_hand.loaded[kept] + 1
            spent[4] += max(0, there - max(now, array.state[IDLE]))
            now = max(now, there)
    return now


@njit
def _commands(
    array: _Array, begins: bool, leaves: bool, refill: npt.NDArray[np.bool_], now: int, filled: int, spent: IntArray
) -> tuple[int, int]:
    """Fills, preload, run and drain of an iteration; the cycle after them, and the one in which fills beside the array are over (K6)."""
    words, windows, local, state, ring, lines = (
        array.words,
        array.windows,
        array.local,
        array.state,
        array.ring,
        array.windows[2],
    )
    for kind in range(5):
        if kind < 3 and not (local[kind] and refill[kind]):
            continue
        if (kind == 2 and begins) or (kind == 4 and not (local[2] and leaves)):
            continue
        if kind < 2 and array.beside[0]:
            now = max(now, filled)
            if not array.beside[1 + kind]:
                now = max(now, state[IDLE] - 1)
            filled = now + words[kind] * windows[kind]  # in its last cycle another begins
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
            command(ring, state, now, words[kind], windows[kind], False, False, lines, array.hop)
        elif kind == 3:
            command(ring, state, now, array.steps, array.feed, True, not local[2], lines, array.hop)
        else:
            command(ring, state, now, words[2], 0, True, True, lines, array.hop)
        spent[3] += state[IDLE] - now
        now += 1
    return now, filled


@njit
def _store(
    memory: _Memory, array: _Array, at_hand: _Progress, now: int, waiting_until: int, spent: IntArray
) -> tuple[int, int]:
    """Hand a tile of results to the writer; the cycle of the sequencer, and the one in which the writer takes it."""
    writer, state = memory.writer, array.state
    written = quiet(state, array.ring, array.windows[2])
    left = max(now if state[APART] else max(now, written), waiting_until + 1)
    spent[5] += left - now
    taken = max(max(left + 1, writer[READY]), written)
    before, half = max(writer[END], taken), at_hand.used[2] % memory.halves[2]
    mine = memory.bursts[memory.spans[3, half, 0] : memory.spans[3, half, 1]]
    stored = move(mine, True, memory.engine, taken, writer, memory.write_ring)
    spent[2] += stored - before
    at_hand.freed[2, at_hand.used[2] % _KEPT] = stored
    return left, taken


@njit
def _walk(nest: _Nest, memory: _Memory, array: _Array) -> IntArray:
    """Sequencer, loader, array and writer together; see the module. Returns the fields of `NestTimes`."""
    spent, n = np.zeros(7, np.int64), nest.bounds.shape[0]
    at_hand = _Progress(
        np.zeros((3, _KEPT), np.int64), np.zeros(3 * _KEPT, np.int64), np.zeros(3, np.int64), np.zeros(3, np.int64),
        np.zeros(n, np.int64), np.ones(3, np.bool_), np.zeros(5, np.int64),
    )  # fmt: skip
    at_hand.clock[3] = -1
    count, moved, refill = np.zeros(n, np.int64), np.ones(3, np.bool_), np.ones(3, np.bool_)
    state = array.state
    waiting_until, now, stored, filled = -1, 0, 0, 0
    while True:
        begins = _begins(nest.sums, count, n)
        now = _tiles_come(nest, memory, array, at_hand, moved, now, spent)
        spent[6] += 1
        now += 0 if state[APART] else 1  # a machine that overlaps hands its first command over at once
        advanced = _next_loop(nest, count)
        leaves = advanced < 0 or nest.local_moves[2, advanced]
        now, filled = _commands(array, begins, leaves, refill, now, filled, spent)
        for t in range(3):
            moved[t] = advanced < 0 or nest.moves[t, advanced]
            refill[t] = advanced >= 0 and nest.local_moves[t, advanced]
        if moved[0] or moved[1] or moved[2]:
            now = max(now, state[IDLE])
        if moved[2]:
            now, waiting_until = _store(memory, array, at_hand, now, waiting_until, spent)
            stored = at_hand.freed[2, at_hand.used[2] % _KEPT]
        for t in range(3):
            if moved[t]:
                if t < 2:
                    at_hand.freed[t, at_hand.used[t] % _KEPT] = now
                at_hand.used[t] += 1
        if advanced < 0:
            busy = memory.reader[BUSY] if memory.engine[BY_TAG] else at_hand.clock[2]
            spent[0], spent[1] = max(stored, at_hand.clock[0] - 1) + 1, busy
            return spent
        _advance(count, nest.bounds, n)
        if not state[APART] or moved[0] or moved[1] or moved[2]:
            now += 1  # where no tile ends a machine that overlaps goes on in the cycle of its last command
