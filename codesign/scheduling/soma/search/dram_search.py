"""Search over the DRAM attributes of fixed tiles: greedy prefetch, annealing, and a lower bound that says how far from optimal."""

from dataclasses import dataclass

import numpy as np

from codesign.core.kernel_library import IntArray
from codesign.core.rng import make_state
from codesign.scheduling.soma.evaluator import (
    BYTES,
    END,
    KIND,
    LAYER,
    SOURCE,
    START,
    USE,
    Invalid,
    Parsed,
    Schedule,
    schedule,
)
from codesign.scheduling.soma.kernels import decode as kf
from codesign.scheduling.soma.kernels import dram_anneal as kd
from codesign.scheduling.soma.kernels import fusion_anneal as ka
from codesign.scheduling.soma.kernels.fusion_anneal import Cooling
from codesign.scheduling.soma.kernels.prefetch import prefetch
from codesign.scheduling.soma.kernels.records import Channel, Extent, Loads, Stores
from codesign.scheduling.soma.kernels.timing import Clocks

START_TEMPERATURE = 0.1
"""Of the annealing, relative to the distance from the no-stall bound."""


@dataclass(frozen=True)
class DramResult:
    """The best schedule of a chain and how it was found."""

    schedule: Schedule
    evaluations: int
    moves: dict[str, tuple[int, ...]]


def last_store_of(parsed: Parsed) -> IntArray:
    """Per layer the number of its last stored tensor, -1 when it stores none."""
    rows = parsed.tensors
    last = np.full(len(parsed.layers), -1, np.int64)
    stores = np.flatnonzero(parsed.is_store)
    last[rows[stores, LAYER]] = stores
    return last


def earliest_ends(parsed: Parsed) -> IntArray:
    """``n``: smallest end of the living duration of each store (local consumers keep the default)."""
    graph = parsed.problem.graph
    group = {entry.layer: entry.group for entry in parsed.layers}
    local = np.array([any(group[u] == group[i] for u, _ in users) for i, users in enumerate(graph.readers)])
    rows = parsed.tensors
    return np.where(local[rows[:, LAYER]], rows[:, END], rows[:, USE] + 1)


def least_held(parsed: Parsed) -> IntArray:
    """``T``: bytes held at each position when loads are held from their use and stores to their earliest end."""
    rows = parsed.tensors
    start = np.where(parsed.is_load, rows[:, USE], rows[:, START])
    end = np.where(parsed.is_store, earliest_ends(parsed), rows[:, END])
    return _usage(parsed, start, end)[1:-1]


def greedy(parsed: Parsed) -> Schedule | Invalid:
    """The schedule of the greedy prefetch rule (`kernels.prefetch.prefetch`), falling back to the double-buffer defaults."""
    rows = parsed.tensors
    kinds = rows[:, KIND]
    load_ids = np.flatnonzero(parsed.is_load)
    load_ids = load_ids[np.lexsort((load_ids, kinds[load_ids] != kf.LOAD_WEIGHT, rows[load_ids, USE]))]
    store_ids = np.flatnonzero(parsed.is_store)
    store_ids = store_ids[np.argsort(rows[store_ids, USE], kind="stable")]
    T = len(parsed.tile_layer)
    base_start = rows[:, START].copy()
    base_start[load_ids] = rows[load_ids, USE]
    usage = _usage(parsed, base_start, rows[:, END])
    cycles = parsed.transfer_cycles
    position = {int(t): j for j, t in enumerate(store_ids)}
    last = last_store_of(parsed)
    source = rows[load_ids, SOURCE]
    dep = np.array(
        [
            position[int(last[s])] if k == kf.LOAD_IFMAP and s >= 0 else -1
            for s, k in zip(source, kinds[load_ids], strict=True)
        ],
        np.int64,
    )
    by_load, by_store = rows[load_ids], rows[store_ids]
    weight = (by_load[:, KIND] == kf.LOAD_WEIGHT).astype(np.int64)
    loads = Loads(by_load[:, USE].copy(), by_load[:, BYTES].copy(), cycles[load_ids], dep, weight)
    stores = Stores(by_store[:, USE].copy(), by_store[:, BYTES].copy(), cycles[store_ids], by_store[:, END].copy())
    limit = parsed.problem.limit_bytes
    if usage.max() <= limit:
        ready, must, starts = np.zeros(T + 2, np.int64), np.zeros(T + 2, np.int64), np.zeros(len(load_ids), np.int64)
        sequence = np.zeros(len(load_ids) + len(store_ids), np.int64)
        channel = Channel(parsed.tile_cycles, usage, loads, stores, ready, must, starts, sequence)
        if prefetch(Extent(T, len(load_ids), len(store_ids), int(limit)), channel) >= 0:
            start, end = rows[:, START].copy(), rows[:, END].copy()
            start[load_ids] = starts
            end[store_ids] = stores.end
            order = np.array([load_ids[k] if k >= 0 else store_ids[-1 - k] for k in sequence.tolist()], np.int64)
            return schedule(parsed, start, end, order)
    return schedule(parsed, rows[:, START].copy(), rows[:, END].copy(), parsed.default_order)


def _usage(parsed: Parsed, start: IntArray, end: IntArray) -> IntArray:
    """``T + 2``: bytes held at positions -1..T-1 (and a spare entry)."""
    T = len(parsed.tile_layer)
    change = np.zeros(T + 2, np.int64)
    np.add.at(change, start + 1, parsed.tensors[:, BYTES])
    np.add.at(change, np.minimum(end, T) + 1, -parsed.tensors[:, BYTES])
    return np.cumsum(change)


def _compress(owner: IntArray, ids: IntArray, count: int) -> tuple[IntArray, IntArray]:
    by_owner = ids[np.argsort(owner, kind="stable")]
    starts = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=count))]).astype(np.int64)
    return starts, by_owner.astype(np.int64)


class DramChain:
    """One annealing chain over order and living durations of one DRAM channel; call `advance` until its budget is spent."""

    def __init__(self, begin: Schedule, *, seed: int) -> None:
        parsed = begin.parsed
        rows = parsed.tensors
        self._parsed, self._ids = parsed, parsed.dram_ids
        ids = self._ids
        compact = np.full(len(rows), -1, np.int64)
        compact[ids] = np.arange(len(ids))
        kinds, layers = rows[ids, KIND], rows[ids, LAYER]
        source = np.where(kinds == kf.LOAD_IFMAP, rows[ids, SOURCE], -1)
        count = len(parsed.problem.graph.layers)
        stores = np.flatnonzero(kinds == kf.STORE)
        loads = np.flatnonzero(source >= 0)
        last_position = np.zeros(count, np.int64)
        np.maximum.at(last_position, layers[stores], rows[ids[stores], USE])
        earliest = np.where(source >= 0, last_position[np.maximum(source, 0)], 0)
        self._is_store = kinds == kf.STORE
        self._transfers = kd.Transfers(
            kinds.copy(),
            rows[ids, USE].copy(),
            rows[ids, BYTES].copy(),
            parsed.transfer_cycles[ids],
            layers.copy(),
            source,
            np.where(self._is_store, earliest_ends(parsed)[ids], earliest),
            _compress(layers[stores], stores, count),
            _compress(source[loads], loads, count),
        )
        order = compact[begin.order]
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        life = np.where(self._is_store, begin.end[ids], begin.start[ids])
        usage = begin.usage_bytes.copy()
        clocks = Clocks(np.zeros_like(usage), np.zeros_like(usage), np.zeros_like(life))
        self._state = kd.State(order, rank, life, usage, clocks)
        self._best = (order.copy(), life.copy())
        self._values = np.array([begin.latency_cycles, begin.latency_cycles], np.int64)
        self._limits = (int(parsed.problem.limit_bytes), int(parsed.bound_cycles))
        weights = np.cumsum(rows[ids, BYTES] / max(rows[ids, BYTES].sum(), 1))
        weights[-1] = 2.0
        self._weights = weights
        self._stats = np.zeros((kd.N_DRAM_MOVES, ka.N_STATS), np.int64)
        self._random = make_state(seed, 2)
        self._restarted = False

    @property
    def latency_cycles(self) -> int:
        """Best latency so far."""
        return int(self._values[1])

    def advance(self, begin: float, stop: float, rounds: int) -> None:
        """Run `rounds` proposals while progress goes from `begin` to `stop`; at 0.9 restart from the best, once."""
        if begin >= 0.9 and not self._restarted:
            self._restarted = True
            self._restore()
        kd.anneal_dram(
            self._parsed.tile_cycles, self._transfers, self._state, self._best, self._values, self._limits, self._weights,
            self._stats, self._random, Cooling(float(begin), float(stop), START_TEMPERATURE), rounds,
        )  # fmt: skip

    def _restore(self) -> None:
        state = self._state
        state.order[:], state.life[:] = self._best
        state.rank[state.order] = np.arange(len(state.order))
        self._values[0] = self._values[1]
        state.usage[:] = _usage(self._parsed, *self._full())[:-1]

    def _full(self) -> tuple[IntArray, IntArray]:
        rows = self._parsed.tensors
        start, end = rows[:, START].copy(), rows[:, END].copy()
        start[self._ids[~self._is_store]] = self._best[1][~self._is_store]
        end[self._ids[self._is_store]] = self._best[1][self._is_store]
        return start, end

    def result(self) -> DramResult:
        """The best schedule found, timed by the evaluator."""
        start, end = self._full()
        found = schedule(self._parsed, start, end, self._ids[self._best[0]])
        if isinstance(found, Invalid):
            raise RuntimeError(f"the search returned a schedule the evaluator refuses: {found.reason}")
        moves = {n: tuple(row) for n, row in zip(kd.DRAM_MOVE_NAMES, self._stats.tolist(), strict=True) if row[0]}
        return DramResult(found, int(self._stats[:, ka.TRIED].sum()), moves)
