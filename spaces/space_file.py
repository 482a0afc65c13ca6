"""A hardware space as a YAML file: parameters, rules, and which fields of an architecture they set (docs/how-to/own-space.md)."""

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from codesign.arch.architecture import Architecture
from codesign.arch.files import architecture_from_json, architecture_to_json
from codesign.arch.presets import fill_figures, preset_names, preset_path
from codesign.core.errors import UserError, unknown_name
from codesign.core.fields import Fields, describe
from codesign.core.files import read_structured
from codesign.evaluation.metrics import OBJECTIVES, UNITS
from codesign.evaluation.own_metrics import JudgedDesign, MetricFunction
from codesign.formats.documents import Dialect, read_documents
from codesign.formats.documents import Kind as DocumentKind
from codesign.formats.load import read_architecture
from spaces.design import DesignSpace
from spaces.expressions import Expression
from spaces.many_cores import SystemSpace, system_space_from_json
from spaces.parameter_files import read_parameters, read_preset, read_rule
from spaces.parameters import Value
from spaces.space import Space

CHECKED_DESIGNS = 16
"""Random designs that are built when a file is read, besides the presets, so that a mistake shows before a search starts."""

_SECTIONS = ("clock_hz", "technology", "extra_area_mm2", "extra_leakage_mw", "mac")


def load_space_file(path: str | Path) -> DesignSpace | SystemSpace:
    """The space of a file.

    Raises:
        UserError: A field is missing, unknown or malformed; a parameter that nothing reads; a design that cannot be built.
    """
    value = read_structured(path)
    if not isinstance(value, dict) or "space" not in value:
        raise UserError(
            f"expected the key `space` at the top, got {describe(value)}",
            where=str(path),
            hint="see docs/how-to/own-space.md",
        )
    for key in value:
        if key != "space":
            raise unknown_name("top-level key", str(key), ["space"], where=str(path))
    return space_from_json(value["space"], str(path), Path(path).absolute().parent)


def space_from_definition(definition: str) -> DesignSpace | SystemSpace:
    """The space that a study recorded, whatever became of its file."""
    return space_from_json(json.loads(definition), "recorded space", None)


def space_from_json(value: Any, where: str, folder: Path | None) -> DesignSpace | SystemSpace:
    """The space of what stands under `space:`.

    Args:
        value: Keys and values as read from the file.
        where: The file, for messages.
        folder: That relative names of files count from; None where none can be read.

    Raises:
        UserError: See `load_space_file`.
    """
    if isinstance(value, dict) and "system" in value:
        return system_space_from_json(value, where, folder)
    fields = Fields(value, f"{where}: space")
    name = fields.text("name")
    bits = fields.integer("bits", 8, least=1)
    partial_bits = fields.integer("partial_bits", max(24, bits), least=1)
    parameters = list(read_parameters(fields.raw("parameters"), where))
    constraints = [read_rule(item, k, where) for k, item in enumerate(fields.items("constraints", []), start=1)]
    presets = [read_preset(p, f"{where}: preset {k}") for k, p in enumerate(fields.items("presets", []), start=1)]
    objectives = tuple(fields.names("objectives", []))
    bounds = tuple(fields.names("bounds", []))
    metrics = _read_metrics(fields.raw("metrics", {}), [p.name for p in parameters], where)
    template = _read_template(fields.raw("architecture"), folder, where)
    changes = fields.raw("set", {})
    fields.finish()
    builder = TemplateBuilder(name, json.dumps(template), _read_changes(changes, template, where), where)
    _check_used(builder, [p.name for p in parameters], metrics, where)
    try:
        space = Space(parameters, constraints, presets)
    except UserError as error:
        raise error.within(where) from None
    definition = {**value, "architecture": template}
    made = DesignSpace(name, space, builder, bits, partial_bits, objectives, bounds, metrics, json.dumps(definition))
    for point in [*space.presets, *space.to_points(space.sample(CHECKED_DESIGNS, np.random.default_rng(0)))]:
        made.build(point)
    return made


# ---- parameters, rules, metrics ------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class MetricExpression:
    """A metric written as an expression over the other metrics and the parameters.

    Args:
        expression: Names are short (``latency``) or full (``latency_s``) metrics, or parameters.
    """

    expression: Expression

    def __call__(self, design: JudgedDesign) -> float:
        """The metric of a design."""
        short = {name: design.metrics[field] for name, field in OBJECTIVES.items()}
        return float(self.expression.value({**design.point, **short, **design.metrics}))


def _read_metrics(value: Any, parameters: Sequence[str], where: str) -> tuple[tuple[str, MetricFunction], ...]:
    if not isinstance(value, dict):
        raise UserError(f"`metrics` must hold names and expressions, got {describe(value)}", where=f"{where}: space")
    known = [*OBJECTIVES, *UNITS, "leakage_w", *parameters]
    found: list[tuple[str, MetricFunction]] = []
    for name, text in value.items():
        if not str(name).isidentifier() or name in known:
            raise UserError(
                f"a metric needs a name of its own, of letters, digits and underscores, got {name!r}",
                where=f"{where}: metrics",
            )
        expression = Expression(str(text), f"{where}: metric {name!r}")
        expression.check_names(known, "metric or parameter")
        found.append((str(name), MetricExpression(expression)))
    return tuple(found)


# ---- the architecture ----------------------------------------------------------------------------------


def _read_template(value: Any, folder: Path | None, where: str) -> dict[str, Any]:
    """The architecture as plain values, in which texts that begin with ``=`` are expressions."""
    if isinstance(value, dict):
        if folder is None or "technology" not in value or str(value["technology"]).startswith("="):
            return value
        from codesign.arch.technology_files import technology_beside

        return {**value, "technology": technology_beside(str(value["technology"]), folder)}
    if not isinstance(value, str):
        raise UserError(
            f"`architecture` must be keys and values, a preset or a file, got {describe(value)}",
            where=f"{where}: space",
        )
    if value in preset_names():
        path = preset_path(value)
    elif folder is not None and (folder / value).is_file():
        path = folder / value
    else:
        raise unknown_name("architecture", value, preset_names(), where=f"{where}: space")
    documents = [d for d in read_documents(path) if d.kind is DocumentKind.ARCHITECTURE]
    if len(documents) != 1:
        raise UserError("expected one architecture", where=str(path))
    if documents[0].dialect is Dialect.OWN:
        return _read_template(documents[0].value, path.parent, where)
    return architecture_to_json(read_architecture(documents[0]))


Change = tuple[str, Expression]
"""A field, such as ``Buffer.fanout.x``, and what it is set to."""


def _read_changes(value: Any, template: Mapping[str, Any], where: str) -> tuple[Change, ...]:
    if not isinstance(value, dict):
        raise UserError(f"`set` must hold fields and expressions, got {describe(value)}", where=f"{where}: space")
    changes = []
    for field, text in value.items():
        place = f"{where}: set `{field}`"
        head = str(field).split(".")[0]
        levels = [str(v.get("name")) for v in template.get("levels", []) if isinstance(v, dict)]
        if head not in (*_SECTIONS, *levels):
            raise unknown_name("level or field", head, [*_SECTIONS, *levels], where=place)
        if head in levels and "." not in str(field):
            raise UserError(f"expected a field of level {head!r}", where=place, hint=f"e.g. {head}.capacity_bytes")
        changes.append((str(field), Expression(str(text).removeprefix("="), place)))
    return tuple(changes)


@final
@dataclass(frozen=True)
class TemplateBuilder:
    """Makes the architecture of a design from a template and expressions. Plain data, so it can be sent to other processes.

    Args:
        name: Of the space.
        template: The architecture's keys and values as JSON, texts that begin with ``=`` being expressions.
        changes: Fields set besides.
        where: The file, for messages.
    """

    name: str
    template: str
    changes: tuple[Change, ...]
    where: str

    def expressions(self) -> list[Expression]:
        """All of them."""
        return [
            *(e for e in _expressions(json.loads(self.template), f"{self.where}: architecture")),
            *(e for _, e in self.changes),
        ]

    def __call__(self, point: Mapping[str, Value]) -> Architecture:
        """The architecture of a design.

        Raises:
            UserError: An expression cannot be computed, or gives a field a value that it refuses.
        """
        try:
            template = json.loads(self.template)
            levels = template.get("levels", [])
            template["levels"] = [_without(v, "when") for v in levels if _exists(v, point, self.where)]
            absent = {v.get("name") for v in levels if not _exists(v, point, self.where)}
            value = _filled(template, point, f"{self.where}: architecture")
            for field, expression in self.changes:
                if field.split(".")[0] not in absent:
                    _set(value, field.split("."), expression.value(point), expression.where)
            value.setdefault("name", self.name)
            architecture = architecture_from_json(value, self.where)
            return architecture if architecture.technology is None else fill_figures(architecture)
        except UserError as error:
            design = " ".join(f"{k}={v}" for k, v in point.items())
            raise UserError(
                error.message, where=f"{error.where or self.where}, design {design}", hint=error.hint
            ) from None


def _expressions(value: Any, where: str) -> Iterator[Expression]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "when":
                yield Expression(str(item).removeprefix("="), f"{where}, `when`")
            else:
                yield from _expressions(item, f"{where}, `{key}`")
    elif isinstance(value, list):
        for item in value:
            yield from _expressions(item, _place(item, where))
    elif isinstance(value, str) and value.startswith("="):
        yield Expression(value[1:], where)


def _place(item: Any, where: str) -> str:
    """Where an entry of a list stands, by its name if it has one."""
    return f"{where} {item['name']!r}" if isinstance(item, dict) and "name" in item else where


def _filled(value: Any, point: Mapping[str, Value], where: str) -> Any:
    """The value with every expression computed."""
    if isinstance(value, dict):
        return {k: _filled(v, point, f"{where}, `{k}`") for k, v in value.items()}
    if isinstance(value, list):
        return [_filled(item, point, _place(item, where)) for item in value]
    if isinstance(value, str) and value.startswith("="):
        return Expression(value[1:], where).value(point)
    return deepcopy(value)


def _set(value: dict[str, Any], path: Sequence[str], result: Any, where: str) -> None:
    level = next((v for v in value.get("levels", []) if v.get("name") == path[0]), None)
    target, keys = (value, path) if level is None else (level, path[1:])
    for key in keys[:-1]:
        target = target.setdefault(key, {})
        if not isinstance(target, dict):
            raise UserError(f"`{key}` has no fields of its own", where=where)
    target[keys[-1]] = result


def _exists(level: Any, point: Mapping[str, Value], where: str) -> bool:
    if not isinstance(level, dict) or "when" not in level:
        return True
    return bool(
        Expression(str(level["when"]).removeprefix("="), f"{where}: level {level.get('name')!r}, `when`").value(point)
    )


def _without(value: Any, key: str) -> Any:
    return {k: v for k, v in value.items() if k != key} if isinstance(value, dict) else value


def _check_used(
    builder: TemplateBuilder, names: Sequence[str], metrics: Sequence[tuple[str, MetricFunction]], where: str
) -> None:
    """Refuse expressions over unknown parameters, and parameters that nothing reads."""
    read = {n for _, metric in metrics if isinstance(metric, MetricExpression) for n in metric.expression.names}
    for expression in builder.expressions():
        expression.check_names(names)
        read |= expression.names
    for name in names:
        if name not in read:
            raise UserError(
                f"parameter {name!r} changes nothing: no field of the architecture and no metric reads it",
                where=where,
                hint=f"write e.g. `capacity_bytes: ={name}` in `architecture`, or leave it out",
            )
