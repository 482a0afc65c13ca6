"""What a search minimises and what it keeps: objectives by name, bounds on metrics, rules on parameters."""

import importlib
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from codesign.core.errors import UserError, unknown_name
from codesign.core.quantities import Kind, kind_of, read_quantity
from codesign.evaluation.design import DesignSpace, SpaceWithGoals, SpaceWithRules
from codesign.evaluation.metrics import OBJECTIVES, OWN_UNITS, UNITS, JudgedMetric, metric_field
from codesign.evaluation.own_metrics import MetricFunction
from codesign.optim.outcomes import OutcomeConstraint, parse_constraints

DEFAULT_OBJECTIVES = ("latency", "energy", "area")
"""Minimised where neither the search nor its space says otherwise."""

_BOUND = re.compile(r"\s*([A-Za-z_][\w.]*(?::[A-Za-z_]\w*)?)\s*(<=|>=|<|>)\s*(.+?)\s*")


@final
@dataclass(frozen=True)
class Goals:
    """What a search minimises and keeps.

    Args:
        objectives: Names of metrics, as in the record of a trial.
        bounds: On metrics.
        rules: On parameters, expressions such as ``pe_rows>=8``; designs that break one are never proposed.
        metrics: Functions of the metrics that are the user's own, by name.
    """

    objectives: tuple[str, ...]
    bounds: tuple[OutcomeConstraint, ...]
    rules: tuple[str, ...]
    metrics: tuple[tuple[str, MetricFunction], ...]


def read_goals(
    objectives: Sequence[str],
    constraints: Sequence[str],
    space: DesignSpace,
    judged: Mapping[str, JudgedMetric] | None = None,
) -> Goals:
    """The goals that a person named.

    Args:
        objectives: Metrics by short or full name, metrics of the space, or ``module:function``; empty: the space's own or `DEFAULT_OBJECTIVES`.
        constraints: ``latency<=5ms``, ``power_w<=2``, ``my_module:cost<=100``, or an expression over parameters such as ``pe_rows>=8``.
        space: What is searched.
        judged: Further metrics that the judge gives, by what they are called.

    Raises:
        UserError: An unknown name, an objective that is better the greater it is, a unit that does not fit, a function that cannot be had.
    """
    metrics = _Metrics(space, judged or {})
    of_space, kept = (space.objectives, space.bounds) if isinstance(space, SpaceWithGoals) else ((), ())
    names = [metrics.field(name, "objective") for name in objectives or of_space or DEFAULT_OBJECTIVES]
    bounds: list[OutcomeConstraint] = []
    rules: list[str] = []
    of_kept = f"`bounds` of space {space.name!r}: "
    for place, text in (*(("--constraint ", c) for c in constraints), *((of_kept, b) for b in kept)):
        try:
            bound = metrics.bound(text)
        except UserError as error:
            raise error.within(place + text) from None
        if bound is not None:
            bounds.append(bound)
        else:
            rules.append(" ".join(text.split()))
    return Goals(tuple(names), parse_constraints(bounds), tuple(rules), metrics.used())


def own_metrics(names: Sequence[str], space: DesignSpace) -> tuple[tuple[str, MetricFunction], ...]:
    """The functions of those of the metrics that are no built-in ones.

    Raises:
        UserError: One is neither of the space nor a ``module:function`` that can be had.
    """
    metrics = _Metrics(space, {})
    wanted = {metrics.field(name, "metric") for name in names if name not in UNITS and name != "leakage_w"}
    return tuple((name, function) for name, function in metrics.used() if name in wanted)


def ruled(space: DesignSpace, rules: Sequence[str]) -> DesignSpace:
    """The space with further rules on its parameters.

    Raises:
        UserError: It cannot take any, or one is no expression over its parameters.
    """
    if not rules:
        return space
    if not isinstance(space, SpaceWithRules):
        raise UserError(
            f"space {space.name!r} takes no rules on its parameters, got {rules[0]!r}",
            hint="make it a spaces.design.DesignSpace",
        )
    return space.with_rules(rules)


def _refuse_greater(name: str, instead: str | None, kind: str) -> None:
    """Refuse to minimise what is better the greater it is."""
    if kind == "objective" and instead is not None:
        raise UserError(
            f"objectives are minimised, and {name!r} is better the greater it is",
            hint=f"minimise {instead!r}, or bound it: --constraint '{name}>=...'",
        )


def _kind(field: str) -> tuple[Kind, float] | None:
    """What a metric measures: by its stated unit, else by its name; None where no unit may be written, as for 1/s."""
    if field not in OWN_UNITS:
        return kind_of(field)
    return next(((kind, 1.0) for kind in Kind if kind.value == OWN_UNITS[field]), None)


class _Metrics:
    """The metrics that may be named, and those of the user's own that were."""

    def __init__(self, space: DesignSpace, judged: Mapping[str, JudgedMetric]) -> None:
        self._space = space
        self._judged = judged
        self._own: dict[str, MetricFunction] = dict(space.metrics if isinstance(space, SpaceWithGoals) else ())
        self._loaded: dict[str, MetricFunction] = {}

    def used(self) -> tuple[tuple[str, MetricFunction], ...]:
        """Those of the space, all of which are recorded, and those that were loaded."""
        return tuple({**self._own, **self._loaded}.items())

    def field(self, name: str, kind: str) -> str:
        """The name of a metric in the record of a trial."""
        if name in self._judged:
            metric = self._judged[name]
            _refuse_greater(name, metric.instead, kind)
            return metric.field
        if name in self._own:
            _refuse_greater(name, getattr(self._own[name], "instead", None), kind)
            return name
        if ":" in name:
            self._loaded.setdefault(name, load_metric(name))
            return name
        if name not in OBJECTIVES and name not in UNITS:
            known = [*OBJECTIVES, *UNITS, *self._judged, *self._own]
            error = unknown_name(kind, name, known)
            raise UserError(error.message, hint=f"{error.hint}; or module:function of your own")
        return metric_field(name, kind=kind)

    def bound(self, text: str) -> OutcomeConstraint | None:
        """The bound on a metric that a text states; None where it is a rule on parameters."""
        parameters = set(self._space.space.names)
        match = _BOUND.fullmatch(text)
        name = match[1] if match else ""
        if match is None or (name in parameters and name not in self._own):
            if match is None and not parameters & set(re.findall(r"[A-Za-z_]\w*", text)):
                raise UserError(f"expected a bound such as power_w<=2 or latency<=5ms, got {text!r}")
            return None
        known = [*OBJECTIVES, *UNITS, *self._judged, *self._own]
        if name not in known and ":" not in name:
            known = [*known, *parameters]
            raise unknown_name("metric or parameter", name, known)
        field = self.field(name, "metric")
        try:
            return OutcomeConstraint(field, float(match[3]), match[2].startswith("<"))
        except ValueError:
            pass
        if parameters & set(re.findall(r"[A-Za-z_]\w*", match[3])):
            raise UserError(f"a bound is on metrics or on parameters, got both in {text!r}")
        kind = _kind(field)
        value = None if kind is None else read_quantity(match[3], kind[0])
        if kind is None or value is None:
            unit = f" or a number with a unit ({kind[0].value})" if kind else ""
            hint = f"it is counted in {OWN_UNITS[field]}" if field in OWN_UNITS else None
            raise UserError(f"the bound on {name!r} must be a number{unit}, got {match[3]!r}", hint=hint)
        return OutcomeConstraint(field, float(f"{value * kind[1]:.12g}"), match[2].startswith("<"))


def load_metric(name: str) -> MetricFunction:
    """The function of ``module:function``; the module may lie in the current folder.

    Raises:
        UserError: The module cannot be imported, or has no such function.
    """
    module_name, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise UserError(
            f"cannot load metric {name!r}: {reason}", hint="the module must lie in this folder or be installed"
        ) from error
    functions = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
    if attribute not in functions:
        raise unknown_name("function", attribute, functions, where=f"module {module_name!r}")
    found: Any = getattr(module, attribute)
    return found  # type: ignore[no-any-return]
