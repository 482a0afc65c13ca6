"""What a mapper may not change: keep/bypass decisions, fixed factors, fixed loop orders.

The same things Timeloop's constraint files say, as one value.
"""

import math
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from codesign.arch.architecture import Architecture
from codesign.core.checks import check_share, repeated
from codesign.core.errors import UserError, unknown_name
from codesign.workloads.computation import Computation, Tensor


class Keep(Enum):
    """Whether a level holds a tensor."""

    YES = "keep"
    NO = "bypass"
    FREE = "free"


@dataclass(frozen=True)
class FactorRange:
    """A range for the factor of one dimension at one level.

    Args:
        dim: The dimension.
        least: Least factor.
        most: Largest factor; None: the bound.
        spatial: Whether it holds for the spatial loops below the level, else for its temporal loops.
    """

    dim: str
    least: int = 1
    most: int | None = None
    spatial: bool = False

    def __post_init__(self) -> None:
        if self.least < 1 or (self.most is not None and self.most < self.least):
            raise UserError(f"the range of {self.dim!r} must have 1 <= least <= most, got {self}")

    def __str__(self) -> str:
        return f"{self.least}..{'' if self.most is None else self.most}"


@dataclass(frozen=True)
class LevelConstraints:
    """Constraints on one level. Empty or None means unconstrained.

    Args:
        level: Its name.
        keep: Tensors that must be held here.
        bypass: Tensors that must not be held here.
        temporal: Pairs (dimension, factor) of temporal loops; the factor is exact.
        spatial: Pairs (dimension, factor) of spatial loops below this level; the factor is exact.
        order: Dimensions of the innermost temporal loops, innermost first (Timeloop's permutation).
        along_x: Dimensions whose spatial loops lie along X; the others along Y. None: either.
        ranges: Ranges of factors; `codesign.mappers.ranged` makes exact ones of them.
    """

    level: str
    keep: frozenset[str] = frozenset()
    bypass: frozenset[str] = frozenset()
    temporal: tuple[tuple[str, int], ...] = ()
    spatial: tuple[tuple[str, int], ...] = ()
    order: tuple[str, ...] = ()
    along_x: frozenset[str] | None = None
    ranges: tuple[FactorRange, ...] = ()

    def __post_init__(self) -> None:
        where, both = f"constraints of level {self.level!r}", self.keep & self.bypass
        if both:
            raise UserError(f"{sorted(both)[0]!r} must be both kept and bypassed", where=where)
        for dims in ([d for d, _ in self.temporal], [d for d, _ in self.spatial], list(self.order)):
            if (twice := repeated(dims)) is not None:
                raise UserError(f"{twice!r} is named twice in one rule", where=where)
        for dim, factor in (*self.temporal, *self.spatial):
            if factor < 1:
                raise UserError(f"factor of {dim!r} must be >= 1, got {factor}", where=where)
        for entry in self.ranges:
            if entry.dim in dict(self.spatial if entry.spatial else self.temporal):
                raise UserError(f"{entry.dim!r} has a factor and a range", where=where)


@dataclass(frozen=True)
class Constraints:
    """Constraints of a map space.

    Args:
        levels: At most one entry a level.
        free_bypass: Whether a mapper may bypass a tensor at a level that may keep it and about which
            nothing is said. If false such tensors are kept wherever they may be.
        min_utilization: Least share of the MAC units that the mapping gives work to.
    """

    levels: tuple[LevelConstraints, ...] = ()
    free_bypass: bool = False
    min_utilization: float = 0.0

    def __post_init__(self) -> None:
        check_share(where="constraints", min_utilization=self.min_utilization)
        if (twice := repeated([item.level for item in self.levels])) is not None:
            raise UserError(f"two entries for level {twice!r}", where="constraints")

    @cached_property
    def by_level(self) -> MappingABC[str, LevelConstraints]:
        """The entries by level name."""
        return {item.level: item for item in self.levels}

    def check(self, computation: Computation, architecture: Architecture) -> None:
        """Refuse names that the computation or the architecture does not have.

        Raises:
            UserError: With the nearest known name.
        """
        tensors = [t.name for t in computation.tensors]
        for item in self.levels:
            where = f"constraints of level {item.level!r}"
            if item.level not in architecture.level_index:
                raise unknown_name("level", item.level, architecture.level_index, where="constraints")
            for tensor in item.keep | item.bypass:
                if tensor not in tensors:
                    raise unknown_name("tensor", tensor, tensors, where=where)
            named = (
                [d for d, _ in (*item.temporal, *item.spatial)]
                + [r.dim for r in item.ranges]
                + list(item.order)
                + sorted(item.along_x or ())
            )
            for dim in named:
                if dim not in computation.dims:
                    raise unknown_name("dimension", dim, computation.dims, where=where)

    def decision(self, architecture: Architecture, level: str, tensor: Tensor) -> Keep:
        """Whether a level keeps a tensor. The outermost level keeps all."""
        if architecture.level_index[level] == 0:
            return Keep.YES
        item = self.by_level.get(level)
        if item is not None and tensor.name in item.keep:
            return Keep.YES
        if item is not None and tensor.name in item.bypass:
            return Keep.NO
        allowed = architecture.level(level).keep
        if tensor.name not in allowed and tensor.role.value not in allowed:
            return Keep.NO
        return Keep.FREE if self.free_bypass else Keep.YES


NO_CONSTRAINTS = Constraints()
"""Every level keeps what it may keep; tilings and orders are free."""


@dataclass(frozen=True)
class MappingProblem:
    """What a mapper solves: place this computation on that hardware, obeying these constraints.

    Args:
        computation: The operator.
        architecture: The hardware.
        constraints: What the mapping must obey.
        imperfect: Whether the last iteration of a loop may be shorter (rules I1 to I9 of docs/reference/cost-model.md).
    """

    computation: Computation
    architecture: Architecture
    constraints: Constraints = field(default_factory=Constraints)
    imperfect: bool = False

    def __post_init__(self) -> None:
        self.constraints.check(self.computation, self.architecture)

    @property
    def least_units(self) -> int:
        """MAC units that a mapping must give work to."""
        return math.ceil(self.constraints.min_utilization * self.architecture.mac_units - 1e-9)

    def need_exact_factors(self) -> None:
        """Refuse ranges where exact factors are expected.

        Raises:
            UserError: There are ranges.
        """
        if any(item.ranges for item in self.constraints.levels):
            raise UserError("ranges of factors need `codesign.mappers.ranged.RangedMapper` around the mapper")

    def need_any_utilization(self, mapper: str) -> None:
        """Refuse a least utilisation on behalf of a mapper that does not hold it.

        Raises:
            UserError: There is one.
        """
        if self.least_units > 1:
            raise UserError(
                f"the mapper {mapper!r} does not hold a least utilisation",
                where="constraints",
                hint="take exact, anneal, random, genetic or hybrid, or leave the directive out",
            )

    def need_perfect(self, mapper: str) -> None:
        """Refuse imperfect factors on behalf of a mapper that does not search them.

        Raises:
            UserError: They are allowed.
        """
        if self.imperfect:
            raise UserError(
                f"the mapper {mapper!r} searches perfect factors only",
                hint="take anneal, random, genetic or exact for imperfect ones, or leave out --imperfect",
            )
