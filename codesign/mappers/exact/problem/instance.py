"""A mapping problem prepared for exact search: what is relevant to what, which tiles fit, which choices are open."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from codesign.cost.arrays import Problem, Reuse
from codesign.cost.sparse.bounds import scored_problem
from codesign.mappers.exact.problem.lattice import Lattice, make_lattice
from codesign.mapping.constraints import Keep, LevelConstraints, MappingProblem
from codesign.mapping.nest import FloatArray, IntArray
from codesign.mapping.space import make_space


@dataclass(frozen=True)
class LevelRules:
    """What the constraints leave of one level's temporal loops, over the dimensions of the lattice.

    Args:
        ordered: Dimensions that must be innermost, innermost first.
        free: Dimensions that may be looped over with any factor (ordered ones included).
        fixed: Pairs (dimension, factor > 1) that must be looped over.
    """

    ordered: tuple[int, ...] = ()
    free: frozenset[int] = frozenset()
    fixed: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class FanoutRules:
    """What the constraints leave of one fan-out.

    Args:
        x: Children along X.
        y: Children along Y.
        fixed: Pairs (dimension, factor) that must be spatial here; factor 1 forbids.
        along_x: Dimensions that lie along X, the others along Y; None: either.
    """

    x: int
    y: int
    fixed: tuple[tuple[int, int], ...] = ()
    along_x: frozenset[int] | None = None


@dataclass(frozen=True, eq=False)
class Instance:
    """A problem over the dimensions with a bound above 1; dimensions that no cost can tell apart count as one (D in all).

    Attributes:
        source: The problem as given.
        problem: Its arrays, over all dimensions.
        lattice: Tiles.
        members: ``D`` the problem's dimensions that each of the lattice's stands for (section D0 in docs/explanation/exact-mapper.md).
        coef: ``T x A x D`` coefficients.
        relevant: ``T x D`` whether a dimension indexes a tensor.
        plain: ``T x D`` whether a dimension multiplies the tile of the tensor by its size (alone on its axis, coefficient 1).
        decisions: ``L`` tuples of one `Keep` per tensor.
        rules: Temporal rules per level.
        fanouts: Spatial rules per level.
    """

    source: MappingProblem
    problem: Problem
    lattice: Lattice
    members: tuple[tuple[int, ...], ...]
    coef: IntArray
    relevant: npt.NDArray[np.bool_]
    plain: npt.NDArray[np.bool_]
    decisions: tuple[tuple[Keep, ...], ...]
    rules: tuple[LevelRules, ...]
    fanouts: tuple[FanoutRules, ...]

    @property
    def n_dims(self) -> int:
        """Number of dimensions of the lattice."""
        return len(self.members)

    @property
    def n_levels(self) -> int:
        """Number of storage levels."""
        return len(self.rules)

    @property
    def n_tensors(self) -> int:
        """Number of tensors."""
        return int(self.coef.shape[0])

    @cached_property
    def sliding_axes(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """Per tensor, the axes (as tuples of dimensions) that two or more dimensions move.

        A tensor with one dimension on two axes has a single entry with all its dimensions.
        """
        found: list[tuple[tuple[int, ...], ...]] = []
        for t in range(self.n_tensors):
            if self.problem.entangled[t]:
                found.append((tuple(int(d) for d in np.flatnonzero(self.relevant[t])),))
                continue
            axes = [tuple(np.flatnonzero(self.coef[t, a])) for a in range(self.coef.shape[1])]
            found.append(tuple(tuple(int(d) for d in axis) for axis in axes if len(axis) > 1))
        return tuple(found)

    @cached_property
    def windows(self) -> tuple[int, ...]:
        """Dimensions of all sliding axes."""
        return tuple(sorted({d for axes in self.sliding_axes for axis in axes for d in axis}))

    def outside_of(self, allowed: frozenset[tuple[int, ...]], sizes: FloatArray) -> FloatArray:
        """``N`` infinite where the sizes ``D x N`` of the dimensions in `windows` are none of these (0 there: any size)."""
        value = sizes[list(self.windows)]
        inside = np.zeros(value.shape[1], bool)
        for row in allowed:
            wanted = np.array(row, np.float64)[:, None]
            inside |= ((value == wanted) | (wanted == 0.0)).all(axis=0)
        return np.where(inside, 0.0, np.inf)

    def bounded_only(self, t: int) -> bool:
        """Whether reuse along the sliding axes of a tensor is only bounded, not followed (section C2 in the docs)."""
        return self.problem.reuse == Reuse.RESIDENT.value or bool(self.problem.entangled[t])

    @cached_property
    def relevant_mask(self) -> IntArray:
        """``D`` bit mask of the tensors each dimension indexes."""
        bits = np.left_shift(1, np.arange(self.n_tensors))
        return np.asarray((self.relevant * bits[:, None]).sum(axis=0), np.int64)

    @cached_property
    def kind_bounds(self) -> FloatArray:
        """``C`` product of the bounds of all dimensions that index the same tensors, in ascending order of masks."""
        masks, bounds = self.relevant_mask, np.array(self.lattice.bounds, np.float64)
        return np.array([bounds[masks == mask].prod() for mask in np.unique(masks)])

    @cached_property
    def strided(self) -> IntArray:
        """``T x A x 3`` for axes of a strided window (coefficients above 1 and 1): those dimensions, new words a step.

        -1 for all other axes. P windows of R words, their starts c apart, cover at least (P - 1) min(c, R) + R words.
        """
        table = np.full((*self.coef.shape[:2], 3), -1, np.int64)
        for t in range(self.n_tensors):
            for a, axis in enumerate(self.coef[t]):
                dims = np.flatnonzero(axis)
                if len(dims) == 2 and axis[dims].min() == 1 and axis[dims].max() > 1 and not self.problem.entangled[t]:
                    r, p = dims[np.argsort(axis[dims])]
                    table[t, a] = p, r, min(int(axis[p]), self.lattice.bounds[r])
        return table

    @property
    def most_loops(self) -> int:
        """Loops a nest may have: of each dimension at each level a temporal one and one along X and Y, or one for each prime factor."""
        primes = sum(int(bound).bit_length() for bound in self.problem.bounds)
        return 3 * self.n_levels * max(1, sum(map(len, self.members))) + primes


def make_instance(source: MappingProblem, reuse: Reuse) -> Instance:
    """Prepare a problem.

    Raises:
        UserError: The constraints contradict the bounds, or the architecture lacks energies.
    """
    computation, architecture, constraints = source.computation, source.architecture, source.constraints
    problem = scored_problem(source, reuse)
    if constraints.levels:
        make_space(source)  # refuses factors that do not divide
    members = _members(source, problem.coef)
    coef = np.ascontiguousarray(problem.coef[:, :, [group[0] for group in members]])
    relevant, plain = coef.any(axis=1), _plain(coef)
    decisions = tuple(
        tuple(constraints.decision(architecture, level.name, tensor) for tensor in computation.tensors)
        for level in architecture.levels
    )
    position = {computation.dims[i]: d for d, group in enumerate(members) for i in group}
    rules, fanouts = [], []
    for v, level in enumerate(architecture.levels):
        item = constraints.by_level.get(level.name, LevelConstraints(level.name))
        usable = v == 0 or any(choice is not Keep.NO for choice in decisions[v])
        rules.append(_level_rules(item, position, usable))
        wanted = item.along_x
        along_x = None if wanted is None else frozenset(position[d] for d in wanted if d in position)
        fixed = tuple((position[d], f) for d, f in item.spatial if d in position)
        fanouts.append(FanoutRules(level.fanout.x, level.fanout.y, fixed, along_x))
    return Instance(
        source,
        problem,
        make_lattice(tuple(math.prod(computation.bounds[i] for i in group) for group in members)),
        members,
        coef,
        np.asarray(relevant),
        np.asarray(plain),
        decisions,
        tuple(rules),
        tuple(fanouts),
    )


def _plain(coef: IntArray) -> npt.NDArray[np.bool_]:
    """``T x D`` whether a dimension is alone on an axis of the tensor, with coefficient 1, and on no other."""
    alone = (coef > 0).sum(axis=2, keepdims=True) == 1
    return np.asarray(((coef == 1) & alone).any(axis=1) & ((coef > 0).sum(axis=1) == 1))


def _members(source: MappingProblem, coef: IntArray) -> tuple[tuple[int, ...], ...]:
    """Dimensions with a bound above 1, those together that index the same tensors, plainly, under the same constraints."""
    computation, levels = source.computation, source.constraints.levels
    active = [i for i, bound in enumerate(computation.bounds) if bound > 1]
    coef = coef[:, :, active]
    plain, relevant = _plain(coef), np.asarray((coef > 0).any(axis=1))
    groups: dict[tuple[object, ...], list[int]] = {}
    for d, i in enumerate(active):
        dim = computation.dims[i]
        named = any(dim in (*dict(item.temporal), *dict(item.spatial), *item.order) for item in levels)
        alone = named or bool((relevant[:, d] & ~plain[:, d]).any())
        sides = tuple(dim in item.along_x for item in levels if item.along_x is not None)
        groups.setdefault((tuple(relevant[:, d]), sides, i if alone else -1), []).append(i)
    return tuple(tuple(group) for group in groups.values())


def _level_rules(item: LevelConstraints, position: dict[str, int], usable: bool) -> LevelRules:
    factors = {position[d]: f for d, f in item.temporal if d in position}
    free = frozenset(d for d in position.values() if usable and d not in factors)
    ordered = tuple(position[d] for d in item.order if d in position)
    return LevelRules(ordered, free, tuple((d, f) for d, f in sorted(factors.items()) if f > 1))
