"""A hardware space: what may be chosen, and the architecture each choice means."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from codesign.arch.architecture import Architecture
from codesign.evaluation.own_metrics import MetricFunction
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
        objectives: What a search minimises unless it is told otherwise; empty: latency, energy, area.
        bounds: Bounds on metrics that a search keeps besides those it is told, such as ``latency<=5ms``.
        metrics: Further metrics by name; a module level function, so that other processes find it.
        definition: What made it, as plain values for the record of a study; None for spaces written in Python.
    """

    name: str
    space: Space
    builder: Callable[[Mapping[str, Value]], Architecture]
    bits: int = 8
    partial_bits: int = 24
    objectives: tuple[str, ...] = ()
    bounds: tuple[str, ...] = ()
    metrics: tuple[tuple[str, MetricFunction], ...] = ()
    definition: str | None = None

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

    def with_rules(self, rules: Sequence[str]) -> "DesignSpace":
        """The same space with further known rules, each an expression over the parameters such as ``pe_rows>=8``.

        Raises:
            UserError: A rule is no expression over the parameters.
        """
        return replace(self, space=self.space.with_rules(rules)) if rules else self

    def to_json(self) -> dict[str, Any]:
        """What a study records of it."""
        record: dict[str, Any] = {"name": self.name, "space": self.space.to_json()}
        return record if self.definition is None else {**record, "definition": self.definition}
