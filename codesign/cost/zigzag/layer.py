"""A computation unrolled on an accelerator's array: what is left to order is its temporal loops."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from codesign.core.errors import UserError, unknown_name
from codesign.cost.zigzag.accelerator import Accelerator
from codesign.formats.zigzag.architecture import OPERANDS
from codesign.workloads.computation import Computation, Role

Unrolling = tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
"""Pairs (array dimension, loops laid along it as pairs (dimension, factor))."""


@dataclass(frozen=True)
class UnrolledLayer:
    """A computation, an accelerator and the loops laid along each dimension of its array.

    Args:
        computation: One input, one weight, one output tensor.
        accelerator: Its memories and its array.
        unrolling: Fixed spatial loops; factors need not divide the bounds (rule Z3).
    """

    computation: Computation
    accelerator: Accelerator
    unrolling: Unrolling = ()

    def __post_init__(self) -> None:
        _check_tensors(self.computation)
        sizes = self.accelerator.array_sizes
        seen = set()
        for array_dim, loops in self.unrolling:
            if array_dim not in sizes:
                raise unknown_name("array dimension", array_dim, sizes, where="spatial mapping")
            if array_dim in seen:
                raise UserError(f"two entries for array dimension {array_dim!r}", where="spatial mapping")
            seen.add(array_dim)
            for dim, factor in loops:
                if dim not in self.computation.sizes:
                    raise unknown_name("dimension", dim, self.computation.dims, where="spatial mapping")
                if factor < 1:
                    raise UserError(f"unrolling of {dim!r} must be >= 1, got {factor}", where="spatial mapping")
            used = math.prod(factor for _, factor in loops)
            if used > sizes[array_dim]:
                raise UserError(
                    f"{used} units are unrolled along {array_dim}, which has {sizes[array_dim]}",
                    where="spatial mapping",
                )

    @cached_property
    def passes(self) -> dict[str, int]:
        """Temporal iterations of each dimension: its bound over the units it is unrolled on, rounded up (rule Z3)."""
        units = dict.fromkeys(self.computation.dims, 1)
        for _, loops in self.unrolling:
            for dim, factor in loops:
                units[dim] = min(units[dim] * factor, self.computation.sizes[dim])
        return {dim: -(-bound // units[dim]) for dim, bound in self.computation.sizes.items()}

    def units_along(self, *, whole: bool) -> dict[str, dict[str, float]]:
        """Units in use by array dimension and loop dimension.

        A bound that the unrolling does not divide uses ``bound / passes`` units on average; `whole` rounds
        that down, the form latency is counted in (rule Z3).
        """
        left = {dim: bound / self.passes[dim] for dim, bound in self.computation.sizes.items()}
        if whole:
            left = {dim: float(math.floor(units + 1e-9)) for dim, units in left.items()}
        result: dict[str, dict[str, float]] = {}
        for array_dim, loops in self.unrolling:
            along = result.setdefault(array_dim, {})
            for dim, factor in loops:
                units = min(float(factor), left[dim])
                along[dim] = along.get(dim, 1.0) * units
                left[dim] /= units
        return result

    def tensor_of(self, role: Role) -> int:
        """Index of the tensor of a role."""
        return next(i for i, t in enumerate(self.computation.tensors) if t.role is role)


def _check_tensors(computation: Computation) -> None:
    roles = [t.role for t in computation.tensors]
    if sorted(r.value for r in roles) != sorted(r.value for r in OPERANDS.values()):
        raise UserError(
            f"these semantics know one input, one weight and one output, got {', '.join(r.value for r in roles)}",
            where=str(computation),
        )
    for tensor in computation.tensors:
        for axis in tensor.axes:
            if len(axis.terms) > 2:
                raise UserError(
                    f"index {axis} is a sum of more than two dimensions, which these semantics do not count",
                    where=str(computation),
                )


def unrolling_of(spatial: Mapping[str, Mapping[str, int] | Sequence[tuple[str, int]]]) -> Unrolling:
    """The unrolling of ``{"D1": {"OY": 9}, "D2": {"FY": 5, "K": 2}}``."""
    entries = []
    for array_dim, loops in spatial.items():
        pairs = loops.items() if isinstance(loops, Mapping) else loops
        entries.append((array_dim, tuple((dim, int(factor)) for dim, factor in pairs)))
    return tuple(entries)
