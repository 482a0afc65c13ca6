"""Search over the fusion attributes: annealing chains in compiled code, driven by a budget."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from codesign.core import clock
from codesign.core.goals import Objective
from codesign.core.kernel_library import IntArray
from codesign.core.rng import make_state
from codesign.scheduling.soma.evaluator import Problem, group_arrays, input_arrays, scheme_arrays
from codesign.scheduling.soma.kernels import fusion_anneal as ka
from codesign.scheduling.soma.kernels import fusion_moves as km
from codesign.scheduling.soma.kernels import score_scheme as ks
from codesign.scheduling.soma.kernels import tile_cost as kt
from codesign.scheduling.soma.kernels.decode import UNPRICED
from codesign.scheduling.soma.kernels.records import Cache, Channel, Loads, Scheme, Scratch, Stores
from codesign.scheduling.soma.model.notation import STATUS_BY_CODE, FusionScheme, Status, fusion_from_arrays

CACHE_SLOTS = 1 << 15
MAX_TILES = 1 << 16
MAX_LOADS = 1 << 17

SOMA_MOVES = {
    "order": 2.0,
    "tiling": 3.5,
    "merge_fine": 1.2,
    "split_fine": 1.2,
    "shift_fine": 1.0,
    "merge_dram": 0.8,
    "split_dram": 0.8,
    "shift_dram": 0.8,
    "demote_dram": 0.6,
    "retile_run": 0.6,
}


@dataclass(frozen=True)
class FusionResult:
    """The best fusion scheme of a chain and how it was found.

    Args:
        fusion: The scheme.
        energy_pj: Its energy.
        latency_cycles: Its latency under the chain's timing (double buffer or greedy prefetch).
        evaluations: Schemes proposed.
        legal: Schemes scored in full.
        moves: Per move: tried, legal, accepted, improved.
    """

    fusion: FusionScheme
    energy_pj: float
    latency_cycles: int
    evaluations: int
    legal: int
    moves: dict[str, tuple[int, ...]]


def _zeros(n: int) -> IntArray:
    return np.zeros(n, np.int64)


@dataclass(frozen=True)
class Workspace:
    """Scratch memory of one chain, sized for schemes of at most `max_tiles` tiles and `max_loads` loads."""

    problem: Problem
    max_tiles: int = MAX_TILES
    max_loads: int = MAX_LOADS

    @cached_property
    def scratch(self) -> Scratch:
        """The memory as the compiled code takes it."""
        graph, tiles = self.problem.graph, self.max_tiles + 3
        keys = np.full((CACHE_SLOTS, 5), -1, np.int64)
        cache = Cache(keys, _zeros(CACHE_SLOTS), np.zeros(CACHE_SLOTS), np.zeros(kt.N_COST), _zeros(7))
        loads = Loads(*(_zeros(self.max_loads) for _ in Loads._fields))
        stores = Stores(*(_zeros(self.max_tiles) for _ in Stores._fields))
        sequence = _zeros(self.max_loads + tiles)
        channel = Channel(
            _zeros(tiles), _zeros(tiles), loads, stores, _zeros(tiles), _zeros(tiles), _zeros(self.max_loads), sequence
        )
        outputs = np.zeros((len(graph.layers), 5), np.int64)
        return Scratch(cache, group_arrays(graph), input_arrays(graph), outputs, channel, _zeros(ks.N_SCORE))


@dataclass(frozen=True)
class Scored:
    """A scheme's status and, when it can run, its numbers under one timing rule."""

    status: Status
    energy_pj: float
    latency_cycles: int
    peak_buffer_bytes: int


def price_asked(problem: Problem, workspace: Workspace) -> None:
    """Have the tile that the compiled code asked for priced, and put the price into its cache."""
    cache = workspace.scratch.cache
    slot, layer = int(cache.asked[0]), int(cache.asked[1])
    cycles, energy, *_parts = problem.tile_price(layer, cache.asked[3:7].tolist())
    cache.keys[slot] = cache.asked[2:7]
    cache.cycles[slot], cache.energy[slot] = cycles, energy


def _score_whole(
    problem: Problem, setting: tuple[int, int, int, int], scheme: Scheme, workspace: Workspace
) -> tuple[int, float]:
    while True:
        code, energy = ks.score_scheme(problem.net, setting, scheme, scheme, True, workspace.scratch)
        if code != UNPRICED:
            return code, energy
        price_asked(problem, workspace)


def score(problem: Problem, fusion: FusionScheme, timing: int, workspace: Workspace) -> Scored:
    """Score one fusion scheme with the compiled code (`kernels.score_scheme.DOUBLE_BUFFER` or `PREFETCH`)."""
    setting = (problem.batch, problem.flags, problem.limit_bytes, timing)
    code, energy = _score_whole(problem, setting, scheme_arrays(fusion), workspace)
    numbers = workspace.scratch.score
    return Scored(STATUS_BY_CODE[code], energy, int(numbers[ks.LATENCY]), int(numbers[ks.PEAK]))


class FusionChain:
    """One annealing chain; call `advance` until its budget is spent."""

    def __init__(
        self,
        problem: Problem,
        start: FusionScheme,
        objective: Objective,
        *,
        seed: int,
        timing: int = ks.PREFETCH,
        moves: dict[str, float] | None = None,
        start_temperature: float = 0.1,
        workspace: Workspace | None = None,
        deadline: float | None = None,
    ) -> None:
        """Score the start scheme. No tile is asked of a mapper after `deadline` (a `clock.wall_seconds` value)."""
        self._problem = problem
        self._objective = objective
        self._setting = (problem.batch, problem.flags, problem.limit_bytes, timing)
        self._workspace = workspace or Workspace(problem)
        self._schemes = (scheme_arrays(start), scheme_arrays(start), scheme_arrays(start))
        self._random = make_state(seed, 1)
        self._stats = np.zeros((km.N_MOVES, ka.N_STATS), np.int64)
        weights = np.array([(moves or SOMA_MOVES).get(name, 0.0) for name in km.MOVE_NAMES])
        self._chances = np.cumsum(weights / weights.sum())
        self._chances[np.flatnonzero(weights)[-1] :] = 2.0
        self._temperature = start_temperature
        self._restarted = False
        self._deadline = deadline
        code, energy = _score_whole(problem, self._setting, self._schemes[0], self._workspace)
        self.status = STATUS_BY_CODE[code]
        latency = int(self._workspace.scratch.score[ks.LATENCY])
        cost = objective.score(energy, latency) if code == 0 else np.inf
        self._costs = np.array([cost, cost, energy, latency], np.float64)
        ka.copy_scheme(self._schemes[0], self._schemes[1])
        ka.copy_scheme(self._schemes[0], self._schemes[2])

    @property
    def cost(self) -> float:
        """Best objective so far."""
        return float(self._costs[ka.BEST])

    def advance(self, begin: float, stop: float, rounds: int) -> None:
        """Run `rounds` proposals while progress goes from `begin` to `stop`; at 0.9 restart from the best, once."""
        if begin >= 0.9 and not self._restarted:
            self._restarted = True
            ka.copy_scheme(self._schemes[2], self._schemes[0])
            self._costs[ka.CURRENT] = self._costs[ka.BEST]
        exponents = (self._objective.energy_exponent, self._objective.latency_exponent)
        done = 0
        while True:
            done = ka.anneal_fusion(
                self._problem.net, self._setting, exponents, self._schemes, self._workspace.scratch, self._chances, self._costs, self._stats,
                self._random, ka.Cooling(float(begin), float(stop), float(self._temperature)), rounds, done,
            )  # fmt: skip
            if done == rounds or (self._deadline is not None and clock.wall_seconds() > self._deadline):
                return
            price_asked(self._problem, self._workspace)

    def result(self) -> FusionResult:
        """The best scheme found."""
        best = self._schemes[2]
        moves = {name: tuple(row) for name, row in zip(km.MOVE_NAMES, self._stats.tolist(), strict=True) if row[0]}
        return FusionResult(
            fusion_from_arrays(best.order, best.cut, best.tiles),
            float(self._costs[ka.BEST_ENERGY]),
            int(self._costs[ka.BEST_LATENCY]),
            int(self._stats[:, ka.TRIED].sum()),
            int(self._stats[:, ka.LEGAL].sum()),
            moves,
        )
