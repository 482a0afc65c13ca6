"""What a checker works on: the problem's arrays over the dimensions above 1, and what the constraints leave."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from codesign.core.errors import UserError
from codesign.core.goals import Objective
from codesign.cost.arrays import Problem, encode_problem
from codesign.cost.sparse.bounds import is_rescaled
from codesign.mapping.constraints import Keep, LevelConstraints, MappingProblem
from codesign.mapping.nest import FloatArray, IntArray

Kept = tuple[tuple[bool, ...], ...]
"""By level and tensor."""

Vector = tuple[int, ...]
"""A factor for every dimension."""


@dataclass(frozen=True, eq=False)
class Space:
    """The even mappings of a problem (rule K1).

    Args:
        source: The problem as given.
        objective: What is minimised.
        arrays: The problem as the kernel's arrays.
        dims: Positions of the dimensions above 1; D of them.
        bounds: ``D``.
        coef: ``T x A x D`` coefficients.
    """

    source: MappingProblem
    objective: Objective
    arrays: Problem
    dims: tuple[int, ...]
    bounds: IntArray
    coef: IntArray

    @cached_property
    def position(self) -> dict[str, int]:
        """Of the dimensions above 1, by name."""
        return {self.source.computation.dims[i]: d for d, i in enumerate(self.dims)}

    @property
    def n_levels(self) -> int:
        """Number of storage levels, L."""
        return len(self.arrays.capacity_bits)

    @property
    def n_tensors(self) -> int:
        """Number of tensors, T; the output is the last."""
        return int(self.coef.shape[0])

    @cached_property
    def relevant(self) -> IntArray:
        """``T x D`` 1 where a dimension indexes a tensor."""
        return np.asarray((self.coef > 0).any(axis=1), np.int64)

    @cached_property
    def sliding(self) -> tuple[int, ...]:
        """1 for tensors with an axis that two dimensions move."""
        return tuple(int(((c > 0).sum(axis=1) > 1).any()) for c in self.coef)

    @cached_property
    def offsets(self) -> FloatArray:
        """``T x A`` different offsets along every axis of a whole tensor."""
        return np.array([[_offsets(row, self.bounds) for row in table] for table in self.coef], np.float64)

    @cached_property
    def rules(self) -> tuple[LevelConstraints, ...]:
        """What the constraints say of every level, outermost first."""
        given = self.source.constraints.by_level
        return tuple(given.get(v.name, LevelConstraints(v.name)) for v in self.source.architecture.levels)

    @cached_property
    def allowed(self) -> IntArray:
        """``L x D`` 1 where a level may loop over a dimension in time."""
        table = np.ones((self.n_levels, len(self.dims)), np.int64)
        names = self.source.computation.dims
        for v, rule in enumerate(self.rules):
            if v and not any(decision is not Keep.NO for decision in self._decisions[v]):
                table[v] = 0
            for d, i in enumerate(self.dims):
                if dict(rule.temporal).get(names[i]) == 1:
                    table[v, d] = 0
        return table

    @cached_property
    def _decisions(self) -> tuple[tuple[Keep, ...], ...]:
        p = self.source
        return tuple(
            tuple(p.constraints.decision(p.architecture, v.name, t) for t in p.computation.tensors)
            for v in p.architecture.levels
        )

    def keep_sets(self) -> Iterator[Kept]:
        """All that the constraints allow."""
        choices = [
            [True, False] if choice is Keep.FREE else [choice is Keep.YES] for row in self._decisions for choice in row
        ]
        n = self.n_tensors
        for flat in itertools.product(*choices):
            yield tuple(tuple(flat[v * n : (v + 1) * n]) for v in range(self.n_levels))

    @property
    def n_keep_sets(self) -> int:
        """How many keep sets the constraints allow."""
        return int(2 ** sum(choice is Keep.FREE for row in self._decisions for choice in row))

    def keep_choices(self) -> list[list[list[bool]]]:
        """By tensor and level what may be decided."""
        return [
            [[True, False] if row[t] is Keep.FREE else [row[t] is Keep.YES] for row in self._decisions]
            for t in range(self.n_tensors)
        ]

    def may_keep(self, kept: Kept) -> bool:
        """Whether a keep set is one of them."""
        return all(
            choice is Keep.FREE or (choice is Keep.YES) is k
            for row, choices in zip(kept, self._decisions, strict=True)
            for k, choice in zip(row, choices, strict=True)
        )

    def vectors(self, level: int) -> list[Vector]:
        """What the fan-out below a level may do: factors that divide the bounds and fit X times Y (rule K2)."""
        x, y = (int(n) for n in self.arrays.fanout[level])
        names = [self.source.computation.dims[i] for i in self.dims]
        rule = self.rules[level]
        wanted = tuple(dict(rule.spatial).get(name) for name in names)
        across = None if rule.along_x is None else tuple(name in rule.along_x for name in names)
        return list(_vectors(tuple(int(b) for b in self.bounds), x, y, wanted, across))


@lru_cache(maxsize=4096)
def _vectors(
    bounds: Vector, x: int, y: int, wanted: tuple[int | None, ...], across: tuple[bool, ...] | None
) -> tuple[Vector, ...]:
    """Factors that divide the bounds and fit X times Y; of dimensions with a wanted factor, that one; `across` may lie along X only."""
    found: list[Vector] = [()]
    for bound, want in zip(bounds, wanted, strict=True):
        factors = [f for f in divisors(bound) if f <= x * y and want in (None, f)]
        found = [(*v, f) for v in found for f in factors if math.prod(v) * f <= x * y]
    if across is None:
        return tuple(v for v in found if _splits(math.prod(v), x, y))
    return tuple(
        v
        for v in found
        if math.prod(f for f, a in zip(v, across, strict=True) if a) <= x
        and math.prod(f for f, a in zip(v, across, strict=True) if not a) <= y
    )


def make_space(source: MappingProblem, objective: Objective) -> Space:
    """Prepare a problem.

    Raises:
        UserError: Certificates do not cover it; the message names what.
    """
    p = source
    arrays = encode_problem(p.computation, p.architecture)
    dims = tuple(i for i, bound in enumerate(p.computation.bounds) if bound > 1)
    without = {
        "imperfect factors": p.imperfect,
        "a least utilisation": p.least_units > 1,
        "zeros and mixed precision": is_rescaled(p.computation, p.architecture),
        "links 'peer'": bool(arrays.peers.any()),
        "a mesh": any(v.fanout.mesh is not None for v in p.architecture.levels),
        "one dimension on two axes of a tensor": bool(arrays.entangled.any()),
        "ranges of factors": any(item.ranges for item in p.constraints.levels),
    }
    for what, found in without.items():
        if found:
            raise UserError(f"--certificate does not cover {what}", hint="leave --certificate out")
    return Space(source, objective, arrays, dims, arrays.bounds[list(dims)], arrays.coef[:, :, list(dims)])


def _offsets(row: IntArray, bounds: IntArray) -> int:
    """Different sums of coefficient times index."""
    steps = sorted(((int(b), int(c)) for c, b in zip(row, bounds, strict=True) if c), reverse=True)
    reached = np.zeros(1 + sum(c * (b - 1) for b, c in steps), bool)
    reached[0] = True
    for n, (bound, step) in enumerate(steps):
        before = reached.copy()
        if n == 0:
            reached[::step][:bound] = True
        for k in range(1, bound) if n else ():
            reached[k * step :] |= before[: -k * step]
    return int(reached.sum())


def divisors(n: int) -> tuple[int, ...]:
    """The divisors of a number in ascending order; the mappers have their own."""
    low = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return (*low, *(n // d for d in reversed(low) if d * d < n))


def _splits(children: int, x: int, y: int) -> bool:
    """Whether so many children can be laid out, a divisor of them along X."""
    return any(children // a <= y for a in divisors(children) if a <= x)


def words_of(coef: IntArray, sizes: FloatArray) -> FloatArray:
    """Words of a tensor's tile (rule C1); ``coef`` ``A x D``, sizes ``... x D``."""
    axes = [1.0 + (sizes - 1.0) @ row.astype(np.float64) for row in coef if row.any()]
    return np.asarray(np.prod(np.array(axes), axis=0) if axes else np.ones(sizes.shape[:-1]), np.float64)
