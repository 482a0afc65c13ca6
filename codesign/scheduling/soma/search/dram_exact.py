"""The DRAM attributes of fixed tiles by constraint programming: a better schedule, or a proof of how far from optimal one is.

For fixed fusion attributes SoMa's second stage is a scheduling problem on one engine and one channel. The model has the start times of tiles and
transfers, and the position from which each load, and up to which each store, holds buffer:

* tiles run in sequence, transfers do not overlap;
* a load ends before the tile that first uses it starts, and starts after the tile before its holding position has ended;
* a store starts after its own tile has ended, and ends before the tile at its releasing position starts;
* a load of data made in another group starts after every store of it;
* at every position what is held fits the buffer.

Every schedule the evaluator accepts (and that stores before it loads) is a solution with the same latency, so a bound on the model is a bound on
them. The converse fails in one corner: the evaluator refuses some orders in which a load that is not live yet stands before one that is needed.
A solution is therefore timed by the evaluator again, and only what that accepts is returned.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from codesign.core.interruption import solved
from codesign.core.kernel_library import IntArray
from codesign.scheduling.soma.evaluator import (
    BYTES,
    END,
    KIND,
    LAYER,
    SOURCE,
    START,
    USE,
    Parsed,
    Schedule,
    schedule,
)
from codesign.scheduling.soma.kernels import decode as kf
from codesign.scheduling.soma.search.dram_search import earliest_ends, least_held
from codesign.scheduling.soma.search.latency_bound import stage2_bound

MOST_TRANSFERS, MOST_TILES = 400, 800


@dataclass(frozen=True)
class ExactResult:
    """What constraint programming found.

    Args:
        schedule: The best schedule known, the given one where nothing better was found.
        bound_cycles: No DRAM attributes of these tiles are faster.
        status: How the solver ended (`OPTIMAL`, `FEASIBLE`, `UNKNOWN`), `BOUND` when the given schedule met the bound already, `TOO_LARGE`.
    """

    schedule: Schedule
    bound_cycles: int
    status: str


def solve_dram(begin: Schedule, seconds: float, *, workers: int = 1, seed: int = 0) -> ExactResult:
    """Improve the DRAM attributes of a schedule, or prove how far from optimal they are.

    Args:
        begin: A schedule; its tiles are kept.
        seconds: Wall time of the solver.
        workers: Its threads.
        seed: Of its random choices.
    """
    parsed = begin.parsed
    bound = stage2_bound(parsed)
    if begin.latency_cycles <= bound:
        return ExactResult(begin, bound, "BOUND")
    if len(parsed.dram_ids) > MOST_TRANSFERS or len(parsed.tile_layer) > MOST_TILES:
        return ExactResult(begin, bound, "TOO_LARGE")
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    made = _Model(model, begin, bound)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = workers
    solver.parameters.random_seed = seed
    status = solved(solver, model)
    name = str(solver.status_name(status))
    proven = max(bound, math.ceil(solver.best_objective_bound - 1e-6)) if name in ("OPTIMAL", "FEASIBLE") else bound
    best = begin
    if name in ("OPTIMAL", "FEASIBLE"):
        found = made.schedule(solver)
        if found is not None and found.latency_cycles < best.latency_cycles:
            best = found
    return ExactResult(best, min(proven, best.latency_cycles), name)


class _Model:
    """The model's variables, and the way back to a schedule."""

    def __init__(self, model: Any, begin: Schedule, bound: int) -> None:
        parsed = begin.parsed
        self._parsed, rows = parsed, parsed.tensors
        horizon, T = begin.latency_cycles, len(parsed.tile_layer)
        self.latency = model.new_int_var(bound, horizon, "latency")
        starts = [model.new_int_var(0, horizon, f"tile{p}") for p in range(T)]
        ends = [0, *(starts[p] + int(parsed.tile_cycles[p]) for p in range(T))]
        for p in range(T):
            model.add(ends[p + 1] <= (starts[p + 1] if p + 1 < T else self.latency))
            model.add_hint(starts[p], int(begin.tile_start[p]))
        lowest = earliest_ends(parsed)
        self.begin_at: dict[int, Any] = {}
        self.place: dict[int, Any] = {}
        intervals = []
        for t in parsed.dram_ids.tolist():
            cycles, use = int(parsed.transfer_cycles[t]), int(rows[t, USE])
            at = model.new_int_var(0, horizon, f"transfer{t}")
            model.add(at + cycles <= self.latency)
            model.add_hint(at, int(begin.transfer_start[t]))
            intervals.append(model.new_fixed_size_interval_var(at, cycles, ""))
            self.begin_at[t] = at
            if rows[t, KIND] == kf.STORE:
                model.add(at >= ends[use + 1])
                place = model.new_int_var(int(lowest[t]), T, f"end{t}")
                model.add_element(place, [*starts, self.latency], _after(model, at, cycles, horizon))
                model.add_hint(place, int(begin.end[t]))
            else:
                model.add(at + cycles <= starts[use])
                place = model.new_int_var(0, use, f"start{t}")
                model.add_element(place, ends[: use + 1], _before(model, at, horizon))
                model.add_hint(place, max(int(begin.start[t]), 0))
            self.place[t] = place
        model.add_no_overlap(intervals)
        self._stores_first(model)
        self._buffer(model)
        model.minimize(self.latency)

    def _stores_first(self, model: Any) -> None:
        rows = self._parsed.tensors
        stores: dict[int, list[int]] = {}
        for t in self.begin_at:
            if rows[t, KIND] == kf.STORE:
                stores.setdefault(int(rows[t, LAYER]), []).append(t)
        for t, at in self.begin_at.items():
            if rows[t, KIND] == kf.LOAD_IFMAP and rows[t, SOURCE] >= 0:
                for s in stores.get(int(rows[t, SOURCE]), []):
                    model.add(at >= self.begin_at[s] + int(self._parsed.transfer_cycles[s]))

    def _buffer(self, model: Any) -> None:
        """Occupancy at every position: what is held in any case, and intervals of choice before a load's use and after a store's tile."""
        parsed, rows = self._parsed, self._parsed.tensors
        T = len(parsed.tile_layer)
        lowest = earliest_ends(parsed)
        spans = [model.new_fixed_size_interval_var(p, 1, "") for p in range(T)]
        demands = least_held(parsed).tolist()
        for t, place in self.place.items():
            first, last = (int(lowest[t]), place) if rows[t, KIND] == kf.STORE else (place, int(rows[t, USE]))
            spans.append(model.new_interval_var(first, model.new_int_var(0, T, ""), last, ""))
            demands.append(int(rows[t, BYTES]))
        model.add_cumulative(spans, demands, parsed.problem.limit_bytes)

    def schedule(self, solver: Any) -> Schedule | None:
        """The solution as the evaluator times it; None when it refuses the order."""
        parsed, rows = self._parsed, self._parsed.tensors
        start, end = rows[:, START].copy(), rows[:, END].copy()
        at = {t: solver.value(v) for t, v in self.begin_at.items()}
        order = np.array(sorted(at, key=lambda t: (rows[t, USE] > 0 or rows[t, KIND] == kf.STORE, at[t], t)), np.int64)
        for t, place in self.place.items():
            if rows[t, KIND] == kf.STORE:
                end[t] = solver.value(place)
            else:
                start[t] = solver.value(place) if rows[t, USE] > 0 else -1
        _start_before_deadlines(parsed, order, start, end)
        found = schedule(parsed, start, end, order)
        return found if isinstance(found, Schedule) else None


def _start_before_deadlines(parsed: Parsed, order: IntArray, start: IntArray, end: IntArray) -> None:
    """Hold loads from one position earlier where a transfer behind them in the order is needed there (the evaluator's rule)."""
    rows = parsed.tensors
    deadline = len(parsed.tile_layer) + 1
    for t in order[::-1].tolist():
        if rows[t, KIND] == kf.STORE:
            deadline = min(deadline, int(end[t]))
            continue
        if rows[t, USE] > 0 and start[t] >= deadline:
            start[t] = max(deadline - 1, 0)
        deadline = min(deadline, int(rows[t, USE]))


def _after(model: Any, at: Any, cycles: int, horizon: int) -> Any:
    """A time not before the transfer's end."""
    due = model.new_int_var(0, horizon, "")
    model.add(due >= at + cycles)
    return due


def _before(model: Any, at: Any, horizon: int) -> Any:
    """A time not after the transfer's start."""
    release = model.new_int_var(0, horizon, "")
    model.add(release <= at)
    return release
