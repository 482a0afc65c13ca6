"""Profiles of an instance in the order of their closed-form bounds, with all keep sets open."""

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from codesign.core.ascending import Ascending
from codesign.core.in_order import InOrder
from codesign.mappers.exact.even.fill_states import Decisions
from codesign.mappers.exact.even.mirrored_profiles import Mirror
from codesign.mappers.exact.even.profile import KeepSets
from codesign.mappers.exact.even.shared_problem import EvenProblem
from codesign.mappers.exact.even.word_prices import bound_coarse
from codesign.mappers.exact.incumbent import Incumbent, whole_cycles
from codesign.mappers.exact.problem.instance import Instance
from codesign.mapping.constraints import Keep
from codesign.mapping.nest import FloatArray, IntArray

CHAINS, SCREENED, FOUND = range(3)
"""Stages of a part: bounded in closed form; by the pruned program; by the program itself, and the mapping found was scored."""

_AT_A_TIME = 200_000
"""Coarse profiles bounded at a time."""


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
    """Parts still to be searched, the least bound first."""

    def __init__(self, instance: Instance, best: Incumbent, tasks: InOrder | None = None) -> None:
        self.best = best
        self.problem = EvenProblem(instance, worth_deciding(instance))
        self._combinations, values = self._bound_coarse(tasks or InOrder(1))
        self._coarse, self._ticket = Ascending(values), 0
        self._waiting: list[tuple[float, float, int, Part]] = []

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

    def next_part(self) -> Part | None:
        """The part of the least bound if it may win and time is left; opens the coarse profiles before it."""
        while self.best.beaten_by(self.bound) and not self.best.stopped:
            if self.coarse_bound > self.least:
                return self.pop()
            self.push_rows(self.bounded(self.open(1), self.best.to_beat), CHAINS)
        return None

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
        columns = self._combinations[self._coarse.take(most, self.best.to_beat)].T
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
        """Those of some profiles whose closed-form bounds are below what is to be beaten; changes nothing.

        Factors that do not divide the bounds have an infinite energy, also where latency alone counts and no port is limited.
        """
        bounds, children = self.problem.bounds(vectors), self.problem.factors(vectors).prod(axis=(1, 2))
        cycles = whole_cycles(np.maximum(bounds[:, 1:].max(axis=1, initial=0.0), self.problem.arrays.macs / children))
        values = self.best.goal.value(bounds[:, 0], cycles)
        rows = Rows(vectors, bounds[:, 0], cycles, values)
        return rows.of(np.flatnonzero((values < to_beat) & np.isfinite(rows.energy)))

    @cached_property
    def _alike(self) -> list[tuple[FloatArray, IntArray]]:
        """For every fan-out what coarse profiles tell apart, and the row of every vector there.

        Children, for each tensor the factors that index it and its different words, products of each kind of dimension.
        """
        instance, found = self.problem.instance, []
        masks = instance.relevant_mask
        for m, vectors in enumerate(self.problem.vectors):
            children = vectors.factors.prod(axis=1)[:, None]
            distinct = (
                vectors.distinct if instance.problem.shares[m] else np.repeat(children, instance.n_tensors, axis=1)
            )
            kinds = [vectors.factors[:, masks == mask].prod(axis=1)[:, None] for mask in np.unique(masks)]
            table = np.concatenate([children, vectors.share, distinct, *kinds], axis=1)
            rows, of = np.unique(table, axis=0, return_inverse=True)
            found.append((rows, of.reshape(-1).astype(np.int64)))
        return found

    def _bound_coarse(self, tasks: InOrder) -> tuple[IntArray, FloatArray]:
        """``P x L`` rows of the coarse profiles, and their bounds (B3)."""
        instance, problem, tables = self.problem.instance, self.problem, [rows for rows, _ in self._alike]
        n, n_kinds = instance.n_tensors, len(instance.kind_bounds)
        combinations, left = np.zeros((1, 0), np.int64), instance.kind_bounds[None]
        for rows in tables:
            kinds, parts = rows[:, rows.shape[1] - n_kinds :], []
            for start in range(0, len(left), max(1, _AT_A_TIME // len(rows))):
                some = slice(start, start + max(1, _AT_A_TIME // len(rows)))
                quotient = left[some, None, :] / kinds
                whole = np.argwhere((quotient == np.floor(quotient)).all(axis=2))
                parts.append((whole[:, 0] + start, whole[:, 1], quotient[whole[:, 0], whole[:, 1]]))
            before, chosen, left = (np.concatenate(column) for column in zip(*parts, strict=True))
            combinations = np.hstack([combinations[before], chosen[:, None]])
        first = np.cumsum([0] + [len(rows) for rows in tables])
        stacked = np.concatenate([rows[:, : 1 + 2 * n] for rows in tables])
        bounds = np.empty((len(combinations), 1 + problem.n_ports))
        shares = np.array_split(combinations + first[:-1], tasks.threads), np.array_split(bounds, tasks.threads)
        tasks.each(lambda s: bound_coarse(s[0], stacked, problem.arrays, s[1]), list(zip(*shares, strict=True)))
        children = stacked[combinations + first[:-1], 0].prod(axis=1)
        cycles = np.maximum(bounds[:, 1:].max(axis=1, initial=0.0), problem.arrays.macs / children)
        energy = bounds[:, 0].copy()  # a view would keep the bounds of all ports
        return combinations, self.best.goal.value(energy, whole_cycles(cycles))

    @cached_property
    def _fine(self) -> list[tuple[IntArray, IntArray]]:
        """For every fan-out, where the vectors that each of its coarse rows stands for begin, and these vectors."""
        found = []
        for rows, of in self._alike:
            first = np.concatenate([[0], np.cumsum(np.bincount(of, minlength=len(rows)))])
            found.append((first, np.argsort(of, kind="stable")))
        return found

    @cached_property
    def _mirror(self) -> Mirror:
        return Mirror(self.problem)


def worth_deciding(instance: Instance) -> Decisions:
    """The decisions of an instance; a level that cannot hold a single element of a tensor does not keep it."""
    problem = instance.problem
    fits = problem.element_bits <= problem.capacity_bits[:, None]
    return tuple(
        tuple(Keep.NO if k is Keep.FREE and not fits[v, t] else k for t, k in enumerate(row))
        for v, row in enumerate(instance.decisions)
    )
