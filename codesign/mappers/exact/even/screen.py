"""Many profiles of a problem bounded at a time over all their keep sets, those that cannot beat a cap dropped early."""

import math
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from codesign.core.factors import prime_factors
from codesign.mappers.exact.even.fill_states import Program
from codesign.mappers.exact.even.folded_tiles import Folds
from codesign.mappers.exact.even.pruned_program import screen_profiles
from codesign.mappers.exact.even.shared_problem import EvenProblem
from codesign.mapping.nest import FloatArray, IntArray


class Screen:
    """Bounds profiles of a problem by the pruned program (section D11 in docs/explanation/exact-mapper.md)."""

    def __init__(self, problem: EvenProblem) -> None:
        self.problem = problem
        # windows move along several axes at once where reuse is only bounded (C2)
        self.covers = all(t in problem.followed for t, _ in problem.axes)

    def bound(self, rows: IntArray, weight: FloatArray, cap: FloatArray) -> tuple[FloatArray, float]:
        """Least weighted sums (``P``) of profiles given by a vector for each fan-out, and the cells looked at.

        Args:
            rows: ``P x L``.
            weight: ``P x (1 + J)`` of energy and the cycles of every port.
            cap: ``P``; a sum that is not below it is returned as infinite.
        """
        least, cells = np.zeros(len(rows)), 0.0
        if not self.covers:
            return least, cells
        problem, nothing = self.problem, np.zeros((0, 0), np.int64)
        for program, chosen in self._by_program(rows) if len(rows) else ():
            numbers, weights, found = problem.numbers(rows[chosen]), weight[chosen], np.empty(len(chosen))
            cells += screen_profiles(numbers, problem.arrays, self.folds, program, weights, cap[chosen], found, nothing)
            least[chosen] = found
        return least, cells

    def live(self, row: IntArray, weight: FloatArray, cap: float, exact: Program) -> IntArray:
        """``S`` 1 where a state of the exact program may be on the way to a weighted sum below the cap; `row` is the vector of every fan-out."""
        if not self.covers or math.isinf(cap):
            return np.ones(len(exact.level), np.int64)
        program = self.problem.program_of(self.problem.factors(row), False, False)
        live = np.empty((1, len(program.level)), np.int64)
        number, arrays = self.problem.numbers(row[None]), self.problem.arrays
        screen_profiles(number, arrays, self.folds, program, weight[None], np.array([cap]), np.empty(1), live)
        return np.asarray(live[0][self._place(exact, program)])

    def _place(self, exact: Program, quick: Program) -> IntArray:
        """``S`` the state of the quick program that each of the exact one is a case of.

        An untouched level over others that hold the same tile (section D9) is left out there.
        """
        key = id(exact), id(quick)
        if key not in self._places:
            where = {state: s for s, state in enumerate(_states(quick))}
            known = {(c, t, x) for c, statuses in where for t, x in enumerate(statuses)}
            found = [
                where[c, tuple(x if (c, t, x) in known else x[:-1] for t, x in enumerate(statuses))]
                for c, statuses in _states(exact)
            ]
            # the programs are kept as long as their numbers stand for them
            self._places[key] = exact, quick, np.array(found, np.int64)
        return self._places[key][-1]

    @cached_property
    def _alike(self) -> tuple[IntArray, ...]:
        """Of every fan-out, which vectors the operations do not tell apart."""
        found = []
        for m, vectors in enumerate(self.problem.vectors):
            twice = self.problem.asked_twice(m, vectors.factors > 1.0)
            found.append(np.asarray(twice @ (1 << np.arange(twice.shape[1])), np.int64))
        return tuple(found)

    @cached_property
    def _places(self) -> dict[tuple[int, int], tuple[Program, Program, IntArray]]:
        """Results of `_place`."""
        return {}

    def _by_program(self, rows: IntArray) -> Iterator[tuple[Program, IntArray]]:
        """Programs, and which rows each is for."""
        key = np.zeros(len(rows), np.int64)
        for m, which in enumerate(self._alike):
            key = key * (int(which.max()) + 1) + which[rows[:, m]]
        _, given, same = np.unique(key, return_index=True, return_inverse=True)
        programs: dict[int, tuple[Program, list[IntArray]]] = {}
        for k, i in enumerate(given):
            program = self.problem.program_of(self.problem.factors(rows[i]), False, False)
            programs.setdefault(id(program), (program, []))[1].append(np.flatnonzero(same == k))
        for program, chosen in programs.values():
            yield program, np.concatenate(chosen)

    @cached_property
    def folds(self) -> Folds:
        """What the folded tiles share."""
        problem, instance = self.problem, self.problem.instance
        plain = np.asarray(instance.plain | ~instance.relevant)
        groups = sorted(problem.folds, key=lambda group: not plain[:, list(group)].all())
        bounds = instance.lattice.bounds
        prime: list[float] = []
        group_of, sizes, leg_dim, leg_axis = [list[int]() for _ in range(4)]
        window = [int(not plain[:, list(group)].all()) for group in groups]
        for g, group in enumerate(groups):
            factors = [prime_factors(bounds[d]) for d in group]
            for p in sorted({p for found in factors for p in found}):
                if window[g]:
                    legs = [d for d, found in zip(group, factors, strict=True) if p in found]
                    leg_dim += legs
                    leg_axis += [len(prime)] * len(legs)
                prime.append(float(p))
                group_of.append(g)
                sizes.append(1 + sum(found.count(p) for found in factors))
        n_plain, member = sum(not window[g] for g in group_of), np.zeros(instance.n_dims, np.int64)
        for g, group in enumerate(groups):
            member[list(group)] = g
        return Folds(
            np.array(prime),
            np.array(group_of, np.int64),
            n_plain,
            (math.prod(sizes), math.prod(sizes[n_plain:])),
            member,
            np.array(window, np.int64),
            np.array([int(instance.relevant_mask[group[0]]) for group in groups], np.int64),
            np.array(
                [[any(d in rules.free for d in group) for group in groups] for rules in problem.relaxed_rules], np.int64
            ),
            np.array([int(row.all()) for row in plain], np.int64),
            np.array(leg_dim, np.int64),
            np.array(leg_axis, np.int64),
        )


def _states(program: Program) -> Iterator[tuple[int, tuple[tuple[int, ...], ...]]]:
    """Level and statuses of every state: the levels that wait, or what is no level for the parent."""
    held = [tuple(v for v in row if v >= 0) for row in program.chain.tolist()]
    for c, statuses in zip(program.level.tolist(), program.status.tolist(), strict=True):
        yield c, tuple((-1 - x,) if x >= 0 else held[-1 - x] for x in statuses)
