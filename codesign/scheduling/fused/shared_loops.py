"""What the search over fused schedules and the trace of its result share."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from codesign.core.labels.sweep import Array
from codesign.mapping.looptree import Goal, Operator
from codesign.scheduling.fused.operator_front import Mapping


@dataclass(frozen=True)
class SharedLoop:
    """A loop over several operators: its dimension in each of them, and the tile inside."""

    dims: tuple[tuple[int, str], ...]
    tile: int

    @cached_property
    def by_operator(self) -> dict[int, str]:
        """The dimension in each operator."""
        return dict(self.dims)

    def of(self, operator: int) -> str:
        """The dimension in one operator."""
        return self.by_operator[operator]


class FusedProgram(Protocol):
    """What bounds and the trace of a result read of `codesign.scheduling.fused.loop_tree.Fusion`."""

    operators: Sequence[Operator]
    joins: dict[str, tuple[str, ...]]
    goal: Goal
    leak: float
    capacity: float
    users: dict[str, list[int]]

    @property
    def count(self) -> int:
        """Number of operators in the sequence."""

    def next_parts(
        self, first: int, last: int, at: int, live: frozenset[str], context: tuple[SharedLoop, ...]
    ) -> Iterator[tuple[int, frozenset[str], frozenset[str]]]:
        """Parts that may follow: (last operator, tensors on the chip during it, those that stay)."""

    def part(self, first: int, last: int, chip: frozenset[str], context: tuple[SharedLoop, ...]) -> Array:
        """Rows of operators first..last as one part."""

    def sequence(self, first: int, last: int, chip: frozenset[str], context: tuple[SharedLoop, ...]) -> Array:
        """Rows of operators first..last, part after part."""

    def joined(
        self, rows: Array, more: Array, held: float, first: int, end: int, depth: int
    ) -> tuple[Array, Array, Array]:
        """Undominated sums of rows, and the two rows behind each."""

    def more_loops(self, first: int, last: int, context: tuple[SharedLoop, ...]) -> Iterator[tuple[SharedLoop, ...]]:
        """Sequences of loops to add."""

    def held(self, tensors: frozenset[str], context: tuple[SharedLoop, ...]) -> float:
        """Bits of tensors on the chip inside the loops."""

    def touching(self, first: int, last: int) -> list[str]:
        """Shared tensors that operators first..last use."""

    def inside(self, tensor: str, first: int, last: int) -> bool:
        """Whether only operators first..last use the tensor."""

    def mapping(
        self, operator: int, held: tuple[tuple[str, int], ...], context: tuple[SharedLoop, ...], row: Array
    ) -> Mapping:
        """What an operator does inside the loops; `held` are its tensors on the chip, with the number of loops outside."""
