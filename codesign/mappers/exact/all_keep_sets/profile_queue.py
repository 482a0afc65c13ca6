"""Profiles of an instance in the order of their closed-form bounds, with all keep sets open."""

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from codesign.core.ascending import Ascending
from codesign.mappers.exact.all_keep_sets.fill_states import Decisions
from codesign.mappers.exact.all_keep_sets.mirrored_profiles import Mirror
from codesign.mappers.exact.all_keep_sets.shared_problem import JointProblem
from codesign.mappers.exact.free_keep_sets import FreeKeep
from codesign.mappers.exact.incumbent import TOLERANCE, Incumbent
from codesign.mappers.exact.one_keep_set.branch_and_bound import bound_values
from codesign.mappers.exact.one_keep_set.fixed_keep_set import KeepSets
from codesign.mappers.exact.problem.instance import Instance
from codesign.mappers.exact.problem.spatial import options_of
from codesign.mapping.constraints import Keep
from codesign.mapping.nest import FloatArray, IntArray

CHAINS, SCREENED, FOUND = range(3)
"""Stages of a part: bounded in closed form; by the pruned program; by the program itself, and the mapping found was scored."""


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
        found: What the mapping keeps that a search of all keep sets found last.
    """

    row: tuple[int, ...]
    stage: int
    energy: float
    cycles: float
    value: float
    fixed: tuple[tuple[int, int, bool], ...] = ()
    found: KeepSets = ()


@dataclass(frozen=True)
class Rows:
    """Profiles bounded together.

    Attributes:
        vectors: ``P x L`` of every fan-out.
        energy: ``P`` bounds.
        cycles: ``P`` bounds.
        value: ``P`` bounds on what is minimised.
    """

    vectors: IntArray
    energy: FloatArray
    cycles: FloatArray
    value: FloatArray

    def __len__(self) -> int:
        return len(self.vectors)

    @staticmethod
    def of_parts(parts: list[Part]) -> "Rows":
        """The profiles of whole parts."""
        return Rows(
            np.array([part.row for part in parts], np.int64),
            np.array([part.energy for part in parts]),
            np.array([part.cycles for part in parts]),
            np.array([part.value for part in parts]),
        )

    def of(self, chosen: IntArray) -> "Rows":
        """The rows with the indices given."""
        return Rows(self.vectors[chosen], self.energy[chosen], self.cycles[chosen], self.value[chosen])

    def parts(self, stage: int) -> Iterator[Part]:
        """Each as a part with all keep sets."""
        columns = (self.vectors.tolist(), self.energy.tolist(), self.cycles.tolist(), self.value.tolist())
        for row, energy, cycles, value in zip(*columns, strict=True):
            yield Part(tuple(row), stage, energy, cycles, value)


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
        self._coarse = Ascending(free.values(()))
        self._waiting: list[tuple[float, float, int, Part]] = []
        self._ticket = 0

    @property
    def coarse_bound(self) -> float:
        """Lower bound on the coarse profiles not opened yet."""
        return self._coarse.first

    @property
    def least(self) -> float:
        """Bound of the first part that waits."""
        return self._waiting[0][0] if self._waiting else math.inf

    @property
    def bound(self) -> float:
        """Lower bound on everything not searched yet; infinite when nothing is left."""
        return min(self.coarse_bound, self.least)

    @property
    def first(self) -> Part:
        """The part that waits with the least bound."""
        return self._waiting[0][-1]

    def pop(self) -> Part:
        """The part of the least bound."""
        return heapq.heappop(self._waiting)[-1]

    def next_parts(self) -> list[Part]:
        """The parts of the least bounds that may win, as many as there are threads; opens the coarse profiles before them."""
        parts: list[Part] = []
        while len(parts) < self.threads and not (self.best.late and self.best.nest is not None):
            if not self.best.beaten_by(self.bound):
                break
            if self.coarse_bound <= self.least:
                self.push_rows(self.bounded(self.open(1), self.best.to_beat), CHAINS)
            else:
                parts.append(self.pop())
        return parts

    def push(self, part: Part) -> None:
        """Take in a part if it may win."""
        if self.best.beaten_by(part.value):
            self._ticket += 1
            heapq.heappush(self._waiting, (part.value, part.energy, self._ticket, part))

    def push_rows(self, rows: Rows, stage: int) -> None:
        """Take in the profiles that may win."""
        for part in rows.parts(stage):
            self.push(part)

    def open(self, most: int) -> IntArray:
        """``P x L`` profiles (a vector for each fan-out) that the next coarse ones, so many at most, stand for."""
        columns = self.free.tables.index[:, self._coarse.take(most, self.best.to_beat)]
        counts = np.array([np.diff(first)[c] for (first, _), c in zip(self._fine, columns, strict=True)])
        each = counts.prod(axis=0)
        which = np.repeat(np.arange(len(each)), each)
        rest = np.arange(len(which)) - np.repeat(np.cumsum(each) - each, each)
        rows = np.empty((len(which), len(columns)), np.int64)
        for m in range(len(columns) - 1, -1, -1):
            first, members = self._fine[m]
            rows[:, m] = members[first[columns[m]][which] + rest % counts[m][which]]
            rest //= counts[m][which]
        return rows[self._mirror.canonical(rows)]

    def bounded(self, vectors: IntArray, to_beat: float) -> Rows:
        """Those of some profiles whose closed-form bounds are below what is to be beaten; changes nothing."""
        bounds = self.problem.bounds(vectors)
        children = self.problem.children_of(vectors)
        cycles = np.maximum(bounds[:, 1:].max(axis=1, initial=0.0), self.problem.all_kept.hardware.macs / children)
        values = bound_values(self.best.goal, bounds[:, 0], cycles)
        rows = Rows(vectors, bounds[:, 0], np.ceil(cycles * (1.0 - TOLERANCE)), values)
        return rows.of(np.flatnonzero(values < to_beat))

    @cached_property
    def _fine(self) -> list[tuple[IntArray, IntArray]]:
        """For every fan-out, where the vectors that each of its coarse rows stands for begin, and these vectors."""
        found = []
        for m, vectors in enumerate(self.problem.vectors):
            alike = self.free.tables.fine_of(m, options_of(self.problem.instance, m, self.problem.kept_inside(m)))
            sizes = [len(options) for options in alike]
            coarse = np.empty(sum(sizes), np.int64)
            coarse[np.concatenate(alike)] = np.repeat(np.arange(len(sizes)), sizes)
            rows = coarse[vectors.option]
            first = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(sizes)))])
            found.append((first, np.argsort(rows, kind="stable")))
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
