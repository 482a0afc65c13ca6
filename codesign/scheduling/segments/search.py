"""Searching the best tree of segments of a network on a system (docs/explanation/many-cores.md, rules M51 to M54)."""

from dataclasses import dataclass
from typing import final

import numpy as np

from codesign.core import clock
from codesign.core.errors import UserError
from codesign.core.kernel_library import FloatArray
from codesign.core.rng import RandomState, make_state
from codesign.scheduling.segments.evaluate import Evaluation, Evaluator
from codesign.scheduling.segments.exact_tiles import map_tiles
from codesign.scheduling.segments.kernels import moves, tree_search
from codesign.scheduling.segments.kernels import tree as tree_kernels
from codesign.scheduling.segments.kernels.kind_shares import ALL_KINDS, ONE_KIND
from codesign.scheduling.segments.kernels.machine import ORDERS, RANKS, Tokens, Workspace
from codesign.scheduling.segments.kernels.segment_cost import tree_value
from codesign.scheduling.segments.search_arrays import make_caches, make_scratch, make_tokens, problem_arrays
from codesign.scheduling.segments.search_start import TreeStart
from codesign.scheduling.segments.segment_tree import Cut
from codesign.scheduling.segments.token_trees import tree_of

MOVE_WEIGHTS = (30, 12, 4, 6, 12, 6, 10, 8, 12, 5, 5, 5, 6, 20)
"""Of the moves in the order of `kernels.moves`."""

KINDS_ALIGN = 5
"""Weight of the last move, which cuts layers alike, where cores are of several kinds."""

MOST_MAPPED = 8
"""Times that the best tree is mapped exactly and looked at again after one piece of annealing."""

CHUNK = 50
"""Steps of annealing before the first look at the clock; later ones are a hundredth of the time apart."""

LONG = 1500
"""Trees for each layer from which a search is long; with n times fewer it starts at 1 / sqrt(n) of the temperature."""

FEW = 15
"""Layers up to which a search is at its full temperature: a layer is a lesser share of the goal where there are more."""

LEAST_FALL = 10.0
"""Temperature at the start over that at the end, at least."""

RETURN_SHARE = 0.85
"""Share of the annealing after which it goes on from the best tree."""

MOST_DESCENTS = 3
"""Most descents before that, two from the start and the last from the best tree; each has the trees of a long search at least."""


@final
class NothingFitsError(UserError):
    """No tree of the network fits the buffers of the cores: a result, not a mistake."""


@final
@dataclass(frozen=True)
class SearchSettings:
    """How long and how to search.

    Args:
        seconds: CPU seconds.
        steps: Trees tried; None for what the seconds allow. With it results do not depend on the machine.
        seed: Of the random numbers.
        energy_power: Exponent of energy in the goal.
        time_power: Exponent of time.
        hot: Temperature at the start of a long search of few layers: relative increase of the goal that is accepted with probability 1/e.
        cold: At the end.
        longest: Most layers of a cut in space of the start; cuts in time take up to four times as many.
        least_use: Share of core time that a space cut must use.
    """

    seconds: float = 10.0
    steps: int | None = None
    seed: int = 0
    energy_power: float = 1.0
    time_power: float = 1.0
    hot: float = 0.04
    cold: float = 0.0002
    longest: int = 8
    least_use: float = 0.75


@final
@dataclass(frozen=True)
class Searched:
    """What a search found.

    Attributes:
        evaluation: The best tree with its figures.
        start_edp: Energy x time of the start.
        steps: Trees tried.
        segments: Segments evaluated among them.
        seconds: CPU seconds.
    """

    evaluation: Evaluation
    start_edp: float
    steps: int
    segments: int
    seconds: float


@final
class TreeSearch:
    """A search of one network on one system.

    Args:
        evaluator: Network, system and rules.
        batch: Samples of the whole.
        settings: How long and how.
    """

    def __init__(self, evaluator: Evaluator, batch: int, settings: SearchSettings) -> None:
        self.evaluator, self.batch, self.settings = evaluator, batch, settings
        problem = problem_arrays(evaluator, batch, settings.least_use)
        goal = np.array([settings.energy_power, settings.time_power])
        self.work = Workspace(problem, make_caches(problem), make_scratch(problem), goal)
        n = len(evaluator.network.layers)
        self.current, self.trial, self.room, self.first, self.best = (make_tokens(n) for _ in range(5))
        seconds = settings.seconds if settings.steps is None else None
        self.starter = TreeStart(evaluator.network, batch, seconds, self.work, self.trial, self.current)
        self.steps = 0
        self.weights = np.array(MOVE_WEIGHTS, np.int64)
        if len(self.work.problem.limits) > 1:
            self.weights[-1] = KINDS_ALIGN
        self.mapped_best, self.mapped_tree = make_tokens(n), None  # type: Tokens, Cut | None
        self.mapped_value = float("inf")

    def value(self, tokens: Tokens) -> float:
        """Logarithm of the goal of a tree; infinite where it is no scheme."""
        return tree_value(self.work, tokens)

    def start(self, longest: int) -> float:
        """The best tree of the dynamic program over cuts, left in `current`; returns its value.

        Raises:
            NothingFitsError: No batch of layers one after another fits.
        """
        value = self.starter.find(longest)
        return value if np.isfinite(value) else self.flat()

    def flat(self) -> float:
        """Layers one after another in the largest batch that fits, left in `current`; returns its value.

        Raises:
            NothingFitsError: None does.
        """
        value = self.starter.flat()
        if np.isfinite(value):
            return value
        raise NothingFitsError(
            "no layer-by-layer schedule fits the buffers of the cores", where=f"system {self.evaluator.system.name!r}"
        )

    def run(self) -> Searched:
        """Search until the CPU seconds are spent."""
        begin = clock.cpu_seconds()
        settings, state = self.settings, make_state(self.settings.seed)
        value = self.start(settings.longest)
        if self.evaluator.kinds > 1:
            value = self._choose_kinds(value)
        first = value
        moves.copy_tokens(self.current, self.best)
        schedule = np.array([value, value, settings.hot, settings.hot])
        if self.work.problem.mapped.any():
            self._map_best(schedule)
        spent = clock.cpu_seconds() - begin
        opened = spent
        steps, fixed = CHUNK, settings.steps
        if fixed is not None:
            steps = max(1, fixed // 100)
        expected, descent = float(steps if fixed is None else fixed), 0
        moves.copy_tokens(self.current, self.first)
        while self.steps < fixed if fixed is not None else spent < settings.seconds:
            share = (spent - opened) / max(settings.seconds - opened, 1e-9) if fixed is None else self.steps / fixed
            descents = self._descents(expected)
            hot = max(settings.hot * self._warmth(expected / descents), LEAST_FALL * settings.cold)
            if share >= RETURN_SHARE:
                moves.copy_tokens(self.best, self.current)
                schedule[0] = schedule[1]
            else:
                under_way = int(share / RETURN_SHARE * descents)
                if under_way > descent:
                    descent = under_way
                    moves.copy_tokens(self.first if 2 * descent < descents else self.best, self.current)
                    schedule[0] = self.value(self.current)
                share = max(0.0, share * descents - RETURN_SHARE * descent)
            schedule[2:] = hot * (settings.cold / hot) ** share
            self._anneal(schedule, steps, state)
            if self.work.problem.mapped.any():
                self._map_best(schedule)
            before, spent = spent, clock.cpu_seconds() - begin
            self.steps += steps
            if fixed is None:
                pace = steps / max(spent - before, 1e-9)
                expected = self.steps + pace * (settings.seconds - spent)
                steps = max(CHUNK, int(pace * min(settings.seconds / 100, settings.seconds - spent)))
        tree = self.tree(self.best) if self.mapped_tree is None else self.mapped_tree
        powers = settings.energy_power + settings.time_power
        return Searched(
            self.evaluator.evaluate(tree),
            float(np.exp(first * 2 / powers)),
            self.steps,
            int(self.work.caches.counts[0]),
            clock.cpu_seconds() - begin,
        )

    def _choose_kinds(self, value: float) -> float:
        """Give each layer of `current` in turn the kinds of cores with which the whole tree is best; returns its value (rule M123)."""
        for at in range(int(self.current.length[0])):
            if self.current.kind[at] != tree_kernels.LEAF:
                continue
            best = int(self.current.choice[at])
            for subset in range(ALL_KINDS, ONE_KIND + self.evaluator.kinds):
                self.current.choice[at] = subset * ORDERS * RANKS
                found = self.value(self.current)
                if found < value - 1e-9:
                    value, best = found, subset * ORDERS * RANKS
            self.current.choice[at] = best
        return value

    def _map_best(self, schedule: FloatArray) -> None:
        """Map the tiles of the best tree on architectures exactly, and go on with what is known then (rule M125).

        Trees are searched by estimates where tiles are not mapped. The best of those whose tiles all are is kept apart.
        """
        for _ in range(MOST_MAPPED):
            new = map_tiles(self.evaluator, self.work.problem, self.tree(self.best))
            if new:
                for held in (self.work.caches.leaf_keys, self.work.scratch.edge_keys, self.work.caches.segment_keys):
                    held[:] = 0
            value = self.value(self.best)
            if not new and value < self.mapped_value:
                self.mapped_value, self.mapped_tree = value, self.tree(self.best)
                moves.copy_tokens(self.best, self.mapped_best)
            elif self.mapped_tree is not None and value > self.mapped_value:
                moves.copy_tokens(self.mapped_best, self.best)
            if not new:
                break
        schedule[1] = self.value(self.best)
        schedule[0] = self.value(self.current)
        if not np.isfinite(schedule[0]):
            moves.copy_tokens(self.best, self.current)
            schedule[0] = schedule[1]

    def _descents(self, expected: float) -> int:
        """How often a search of so many trees anneals from the full temperature down: once in a short search (rule M53)."""
        long = LONG * len(self.evaluator.network.layers)
        return max(1, min(MOST_DESCENTS, int(expected / long)))

    def _warmth(self, expected: float) -> float:
        """Share of the temperature at which a search of so many trees starts."""
        layers = len(self.evaluator.network.layers)
        return float(min(1.0, FEW / layers) * min(1.0, expected / (LONG * layers)) ** 0.5)

    def _anneal(self, schedule: FloatArray, steps: int, state: RandomState) -> None:
        trees = self.current, self.trial, self.room, self.best
        tree_search.anneal(self.work, *trees, self.weights, schedule, steps, state)

    def tree(self, tokens: Tokens) -> Cut:
        """A tree of tokens as a value, with partitions and orders in full."""
        return tree_of(self.evaluator, self.work.problem, self.work.caches, tokens)
