"""Profiles of an instance in the order of their closed-form bounds, with all keep sets open."""

import heapq
import math
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from codesign.mappers.exact.all_keep_sets.fill_states import Decisions
from codesign.mappers.exact.all_keep_sets.mirrored_profiles import Mirror
from codesign.mappers.exact.all_keep_sets.shared_problem import JointProblem
from codesign.mappers.exact.free_keep_sets import FreeKeep
from codesign.mappers.exact.incumbent import Incumbent, whole_cycles
from codesign.mappers.exact.one_keep_set.branch_and_bound import bound_values
from codesign.mappers.exact.problem.instance import Instance
from codesign.mappers.exact.problem.spatial import options_of
from codesign.mapping.constraints import Keep
from codesign.mapping.nest import IntArray

CHAINS = 0
"""Stage of a part whose bound was found in closed form; later stages are the search's own."""


@dataclass(frozen=True)
class Part:
    """Some keep sets of a profile.

    Attributes:
        row: Vector of every fan-out.
        stage: How its bound was found.
        energy: Bound on its energy.
        cycles: Bound on its cycles.
        value: Bound on what is minimised.
        fixed: Decisions taken, as (level, tensor, kept).
    """

    row: tuple[int, ...]
    stage: int
    energy: float
    cycles: float
    value: float
    fixed: tuple[tuple[int, int, bool], ...] = ()


class ProfileQueue:
    """Parts still to be searched, the least bound first.

    Args:
        free: Bounds of coarse profiles.
        best: The incumbent.
        threads: Parts to take at a time.
    """

    def __init__(self, free: FreeKeep, best: Incumbent, threads: int = 1) -> None:
        self.free, self.best, self.threads = free, best, threads
        self.problem = JointProblem(free.instance, _worth_deciding(free.instance), free.bases)
        values = free.values(())
        order = np.flatnonzero(np.isfinite(values))
        self._coarse = order[np.argsort(values[order], kind="stable")]
        self._values, self._at = values[self._coarse], 0
        self._waiting: list[tuple[float, float, int, Part]] = []
        self._ticket = 0

    @property
    def bound(self) -> float:
        """Lower bound on everything not searched yet; infinite when nothing is left."""
        coarse = float(self._values[self._at]) if self._at < len(self._values) else math.inf
        return min(coarse, self._waiting[0][0]) if self._waiting else coarse

    def next_parts(self) -> list[Part]:
        """The parts of the least bounds that may win, as many as there are threads; opens the coarse profiles before them."""
        parts: list[Part] = []
        while len(parts) < self.threads and not (self.best.late and self.best.nest is not None):
            coarse = float(self._values[self._at]) if self._at < len(self._values) else math.inf
            part = self._waiting[0][0] if self._waiting else math.inf
            if not self.best.beaten_by(min(coarse, part)):
                break
            if coarse <= part:
                self._open(int(self._coarse[self._at]))
                self._at += 1
            else:
                parts.append(heapq.heappop(self._waiting)[-1])
        return parts

    def push(self, part: Part) -> None:
        """Take in a part if it may win."""
        if self.best.beaten_by(part.value):
            self._ticket += 1
            heapq.heappush(self._waiting, (part.value, part.energy, self._ticket, part))

    def _open(self, coarse: int) -> None:
        """Bound every profile that a coarse one stands for."""
        vectors = [self._fine[m][i] for m, i in enumerate(self.free.tables.index[:, coarse])]
        rows = np.array(list(product(*vectors)), np.int64).reshape(-1, len(vectors))
        rows = rows[self._mirror.canonical(rows)]
        if not len(rows):
            return
        bounds = self.problem.bounds(rows)
        children = self.problem.children_of(rows)
        cycles = np.maximum(bounds[:, 1:].max(axis=1, initial=0.0), self.problem.all_kept.hardware.macs / children)
        values = bound_values(self.best.goal, bounds[:, 0], cycles)
        for row, energy, quickest, value in zip(rows, bounds[:, 0], cycles, values, strict=True):
            if self.best.beaten_by(float(value)):
                part = Part(tuple(map(int, row)), CHAINS, float(energy), whole_cycles(float(quickest)), float(value))
                self.push(part)

    @cached_property
    def _fine(self) -> list[list[IntArray]]:
        """For every fan-out, the vectors that each of its coarse rows stands for."""
        found = []
        for m, vectors in enumerate(self.problem.vectors):
            alike = self.free.tables.fine_of(m, options_of(self.problem.instance, m, self.problem.kept_inside(m)))
            found.append([np.flatnonzero(np.isin(vectors.option, options)) for options in alike])
        return found

    @cached_property
    def _mirror(self) -> "Mirror":
        return Mirror(self.problem)


def _worth_deciding(instance: Instance) -> Decisions:
    """The decisions of an instance; a level that cannot hold a single element of a tensor does not keep it."""
    problem = instance.problem
    fits = problem.element_bits <= problem.capacity_bits[:, None]
    return tuple(
        tuple(Keep.NO if k is Keep.FREE and not fits[v, t] else k for t, k in enumerate(row))
        for v, row in enumerate(instance.decisions)
    )
