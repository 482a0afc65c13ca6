"""Metrics of a user's own: functions of a judged design, by ``module:function`` or from a space."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import final

from codesign.arch.architecture import Architecture
from codesign.core.errors import UserError
from codesign.core.point import Point
from codesign.evaluation.design import DesignSpace, Evaluation
from codesign.evaluation.records import DetailRecord


@final
@dataclass(frozen=True)
class JudgedDesign:
    """What a metric of one's own is computed from.

    Args:
        point: The parameters.
        metrics: ``latency_s``, ``energy_j``, ``power_w``, ``area_mm2``, ``edp_js``, ``leakage_w``.
        architecture: What was built.
        detail: Layers with mappings and costs, or schedules, as plain values.
    """

    point: Point
    metrics: Mapping[str, float]
    architecture: Architecture
    detail: DetailRecord


MetricFunction = Callable[[JudgedDesign], float]
"""A metric: of a design that could run, the smaller the better where it is an objective."""


@final
@dataclass(frozen=True)
class WithOwnMetrics:
    """An evaluator that adds metrics to what another one found. Plain data, so it can be sent to other processes.

    Args:
        evaluate: The other evaluator.
        space: Builds the architecture that the metrics see.
        metrics: Functions by name.
    """

    evaluate: Callable[[Point], Evaluation]
    space: DesignSpace
    metrics: tuple[tuple[str, MetricFunction], ...]

    def __call__(self, point: Point) -> Evaluation:
        """Evaluate one design.

        Raises:
            UserError: A metric fails, or gives something else than a finite number.
        """
        found = self.evaluate(dict(point))
        if found.metrics is None:
            return found
        judged = JudgedDesign(dict(point), found.metrics.to_dict(), self.space.build(point), found.detail.to_json())
        own = tuple((name, value_of(name, function, judged)) for name, function in self.metrics)
        return replace(found, metrics=replace(found.metrics, own=(*found.metrics.own, *own)))


def value_of(name: str, function: MetricFunction, design: JudgedDesign) -> float:
    """A metric of a design.

    Raises:
        UserError: The function fails, or gives something else than a finite number.
    """
    try:
        value = function(design)
    except UserError as error:
        raise error.within(f"metric {name!r}") from None
    except Exception as error:
        raise UserError(
            f"metric {name!r} failed: {type(error).__name__}: {error}", where=f"design {dict(design.point)}"
        ) from error
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise UserError(f"metric {name!r} must be a finite number, got {value!r}", where=f"design {dict(design.point)}")
    return float(value)
