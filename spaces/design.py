"""A hardware space: what may be chosen, and the architecture each choice means."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

from codesign.arch.architecture import Architecture
from spaces.parameters import Value
from spaces.space import Space


@final
@dataclass(frozen=True)
class DesignSpace:
    """A search space with its meaning.

    Args:
        name: What the command line calls it.
        space: Parameters, known rules, presets.
        builder: Makes the architecture of one design, energies and areas filled in.
        bits: Width of an operand on this hardware.
        partial_bits: Width of a partial sum.
    """

    name: str
    space: Space
    builder: Callable[[Mapping[str, Value]], Architecture]
    bits: int = 8
    partial_bits: int = 24

    def build(self, point: Mapping[str, Value]) -> Architecture:
        """The architecture of a design.

        Raises:
            UserError: The design is not of this space.
        """
        return self.builder(self.space.to_points(self.space.to_indices([point]))[0])

    @property
    def parts(self) -> Mapping[str, tuple[tuple[str, ...], ...]] | None:
        """Which parameters each part of an architecture depends on, where the builder says so (docs/explanation/bounds.md)."""
        found: Mapping[str, tuple[tuple[str, ...], ...]] | None = getattr(self.builder, "parts", None)
        return found

    def to_json(self) -> dict[str, Any]:
        """What a study records of it."""
        return {"name": self.name, "space": self.space.to_json()}
