"""A start of the search whose layers are cut alike, so that words stay on the core that made them (rule M56)."""

from typing import final

import numpy as np

from codesign.core.kernel_library import FloatArray, IntArray
from codesign.scheduling.segments.kernels import aligned_layers, tree_search
from codesign.scheduling.segments.kernels import tree as tree_kernels
from codesign.scheduling.segments.kernels.machine import RANKS, SHAPED, Tokens, Workspace
from codesign.scheduling.segments.kernels.partition_ranks import rank_partitions
from codesign.scheduling.segments.kernels.segment_cost import tree_cost

FIRST_RANKS = 3
"""Ranks that stay: what other starts take."""

WINDOW = 3
"""Layers to either side whose prices count for a partition."""

TURNS = ((1, 2, 3, 0), (2, 3, 0, 1), (1, 0, 2, 3))
"""Orders of the dimensions that are tried; with the first parts of channels are neighbours."""

SHORT = 4
"""Most layers of a segment that ends where words of several layers wait."""

ROUNDS = 2
"""Times that partitions are chosen, each with the price of time of the tree before."""


@final
class AlignedStart:
    """Trees of layers on all cores whose partitions are chosen together.

    Args:
        work: Network and system for the kernels.
        trial: Room for a tree.
    """

    def __init__(self, work: Workspace, trial: Tokens) -> None:
        self.work, self.trial = work, trial
        problem = work.problem
        self.layers, self.cores = len(problem.table), int(problem.kind_start[-1])
        self.rows = np.arange(problem.part_start[self.cores], problem.part_start[self.cores + 1])
        turns = [tuple(int(d) for d in order) for order in problem.orders]
        self.turns = [turns.index(turn) for turn in TURNS]
        self.seeded: set[int] = set()

    def price_of_time(self, order: IntArray, batch: int) -> float:
        """Energy that a unit of time is worth to layers one after another, one sample at a time; 0 where they do not fit."""
        goal = self.work.goal
        tree_search.write_flat(self.trial, order, batch)
        good, energy, spent = tree_cost(self.work, self.trial)
        return float(goal[1] / goal[0] * energy / max(spent, 1.0)) if good else 0.0

    def seed_ranks(self, order: IntArray, batch_at: int, per_time: float) -> None:
        """Give the ranks of all layers the partitions that are good for them and for their neighbours."""
        problem, caches = self.work.problem, self.work.caches
        prices: FloatArray = np.full((self.layers, len(self.rows)), np.inf)
        aligned_layers.price_rows(self.work, batch_at, self.turns[0], per_time, prices)
        least = prices.min(axis=1, keepdims=True)
        excess = np.where(np.isfinite(prices), prices / np.where(np.isfinite(least), least, 1.0) - 1.0, 2.0)
        around = np.zeros_like(excess)
        weight = np.where(np.isfinite(least), least, 0.0)[order]
        ordered = excess[order] * weight
        window = min(WINDOW, self.layers - 1)
        for by in range(-window, window + 1):
            ahead, behind = max(0, by), max(0, -by)
            around[order[behind : self.layers - ahead]] += ordered[ahead : self.layers - behind]
        for shape in np.unique(problem.kin[:, SHAPED]):
            same = np.flatnonzero(problem.kin[:, SHAPED] == shape)
            rank_partitions(problem, caches, 0, int(shape), batch_at, self.cores)
            ranked = caches.ranked[shape, batch_at, self.cores]
            fits = np.isfinite(prices[same].min(axis=0))
            own = [int(r) for r in np.argsort(excess[same].min(axis=0), kind="stable") if fits[r]]
            shared = [int(r) for r in np.argsort(around[same].min(axis=0), kind="stable") if fits[r]]
            mixed = [int(self.rows[r]) for pair in zip(own, shared, strict=True) for r in reversed(pair)]
            first = [int(r) for r in ranked[:FIRST_RANKS] if r >= 0]
            wanted = list(dict.fromkeys([*first, *mixed, *(int(r) for r in ranked if r >= 0)]))[:RANKS]
            ranked[:] = -1
            ranked[: len(wanted)] = wanted

    def find(self, order: IntArray, root_groups: int, turn: int, per_time: float) -> tuple[float, float]:
        """Leave the tree of a batch in `trial`; returns energy and time, infinite where there is none."""
        problem = self.work.problem
        batch_at = int(np.searchsorted(problem.batches, problem.batches[-1] // root_groups))
        if batch_at not in self.seeded:  # trees that were found stand by ranks, so these stay
            self.seed_ranks(order, batch_at, per_time)
            self.seeded.add(batch_at)
        choices = np.zeros(self.layers, np.int64)
        options = np.array([(tree_kernels.LEAF, 1, 0), (tree_kernels.TIME, 1, tree_search.NEST)], np.int64)
        costs: FloatArray = np.empty((self.layers, self.layers, len(options), 2))
        if not np.isfinite(aligned_layers.align_layers(self.work, order, batch_at, turn, per_time, choices)):
            return float("inf"), float("inf")
        aligned_layers.price_runs(self.work, self.trial, order, root_groups, options, choices, SHORT, costs)
        return tree_search.cut_by_program(problem, costs, order, root_groups, options, per_time, choices, self.trial)
