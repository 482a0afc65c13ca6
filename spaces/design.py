"""A hardware space: what may be chosen, and the architecture each choice means."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, final

from codesign.arch.architecture import Architecture
from codesign.arch.technology_files import load_technology
from codesign.core.errors import UserError
from codesign.evaluation.choices import Choices
from codesign.evaluation.own_metrics import MetricFunction
from spaces.parameters import Categorical, Value
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
        choices: What designs choose besides: precision, zeros, what hardware does about zeros; None: nothing.
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
    choices: Choices | None = None

    def build(self, point: Mapping[str, Value]) -> Architecture:
        """The architecture of a design.

        Raises:
            UserError: The design is not of this space.
        """
        plain = self.space.to_points(self.space.to_indices([point]))[0]
        if self.choices is None:
            return self.builder(plain)
        return self.choices.built(self.builder(self.choices.without(plain)), plain)

    @property
    def parts(self) -> Mapping[str, tuple[tuple[str, ...], ...]] | None:
        """Which parameters each part of an architecture depends on, where the builder says so (docs/explanation/bounds.md)."""
        found: Mapping[str, tuple[tuple[str, ...], ...]] | None = getattr(self.builder, "parts", None)
        return found if self.choices is None else None

    def with_rules(self, rules: Sequence[str]) -> "DesignSpace":
        """The same space with further known rules, each an expression over the parameters such as ``pe_rows>=8``.

        Raises:
            UserError: A rule is no expression over the parameters.
        """
        return replace(self, space=self.space.with_rules(rules)) if rules else self

    def with_technology(self, technology: str) -> "DesignSpace":
        """The same space with energies and areas of another table; its name says so.

        Raises:
            UserError: There is no such technology, or the builder takes none.
        """
        load_technology(technology)
        known = {f.name for f in fields(self.builder)} if is_dataclass(self.builder) else set()
        if "technology" not in known:
            hint = (
                "it is a parameter: fix it by --constraint"
                if "technology" in self.space.names
                else "its file says which"
            )
            raise UserError(f"space {self.name!r} takes no other technology", hint=hint)
        name = f"{self.name.partition('@')[0]}@{technology}"
        builder: Any = self.builder
        return replace(self, name=name, builder=replace(builder, technology=technology))

    def with_choices(self, choices: Choices) -> "DesignSpace":
        """The same space whose designs choose a precision and so on too; every choice of more than one value is a parameter.

        Raises:
            UserError: The space has a parameter or a metric of that name.
        """
        added = [Categorical(name, list(labels)) for name, labels in choices.parameters.items()]
        taken = [*self.space.names, *(name for name, _ in self.metrics)]
        for name in (*choices.parameters, *(name for name, _ in choices.metrics)):
            if name in taken:
                raise UserError(
                    f"space {self.name!r} has a parameter or metric {name!r} of its own", hint="give it another name"
                )
        first = {name: labels[0] for name, labels in choices.parameters.items()}
        presets = [{**p, **first} for p in self.space.presets]
        space = Space([*self.space.parameters, *added], self.space.constraints, presets)
        return replace(self, space=space, metrics=(*self.metrics, *choices.metrics), choices=choices)

    def to_json(self) -> dict[str, Any]:
        """What a study records of it."""
        record: dict[str, Any] = {"name": self.name, "space": self.space.to_json()}
        if self.choices is not None:
            record["choices"] = self.choices.to_json()
        return record if self.definition is None else {**record, "definition": self.definition}
