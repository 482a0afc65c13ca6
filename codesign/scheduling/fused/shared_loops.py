"""A loop over several operators."""

from dataclasses import dataclass
from functools import cached_property


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
