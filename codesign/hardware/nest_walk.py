"""The recurrence over the sequencer's iterations: when tiles come, when the array takes a command, when places are free again; compiled."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from codesign.core.jit import njit
from codesign.hardware.array_cycles import APART, IDLE, WENT, command, quiet
from codesign.hardware.bursts import (
    BUSY,
    BY_TAG,
    END,
    READY,
    ask,
    move,
    wait_for,
)

IntArray = npt.NDArray[np.int64]

_KEPT = 16
"""Tiles of a port whose times are kept: more than it has places."""


class Nest(NamedTuple):
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


class Memory(NamedTuple):
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


class ArrayWork(NamedTuple):
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
def _load_tile(t: int, nest: Nest, memory: Memory, at_hand: _Progress) -> None:
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
def _step_loader(nest: Nest, at_hand: _Progress) -> bool:
    """To the next iteration of the loader; whether there is one."""
    advanced = _advance(at_hand.loops, nest.bounds, nest.loads)
    at_hand.clock[0] += 1
    for t in range(3):
        at_hand.moved[t] = advanced >= 0 and nest.moves[t, advanced]
    return bool(advanced >= 0)


@njit
def _load_next(nest: Nest, memory: Memory, at_hand: _Progress) -> None:
    """One iteration of the loader (K2)."""
    for t in range(3):
        if at_hand.moved[t]:
            _load_tile(t, nest, memory, at_hand)
        at_hand.clock[0] += 1
    _step_loader(nest, at_hand)


@njit
def _load_ahead(nest: Nest, memory: Memory, at_hand: _Progress) -> None:
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
def _next_loop(nest: Nest, count: IntArray) -> int:
    """The loop that steps after this iteration, -1 after the last."""
    for i in range(nest.bounds.shape[0] - 1, -1, -1):
        if count[i] + 1 < nest.bounds[i]:
            return i
    return -1


@njit
def _tiles_come(
    nest: Nest, memory: Memory, array: ArrayWork, at_hand: _Progress, moved: npt.NDArray[np.bool_], now: int, spent: IntArray
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
    array: ArrayWork, begins: bool, leaves: bool, refill: npt.NDArray[np.bool_], now: int, filled: int, spent: IntArray
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
    memory: Memory, array: ArrayWork, at_hand: _Progress, now: int, waiting_until: int, spent: IntArray
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
def walk(nest: Nest, memory: Memory, array: ArrayWork) -> IntArray:
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
