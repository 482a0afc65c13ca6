"""What no tree of segments on any system of a space can beat (docs/explanation/many-cores.md, rule M84)."""

from collections.abc import Sequence
from functools import cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from codesign.arch.chiplet_cost import money
from codesign.arch.many_core import ManyCore
from codesign.bounds.design import SLACK
from codesign.core.point import Point
from codesign.evaluation.many_cores import COST_USD, SECONDS_PER_TICK, SegmentsEvaluator
from codesign.evaluation.metrics import OBJECTIVES
from codesign.scheduling.segments.bound import bound_of
from codesign.scheduling.segments.evaluate import OWN_RULES, SEMANTICS, Evaluator

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

LISTED = 50_000
"""The most designs of a space that are bounded: each is built."""


@final
class SystemBounds:
    """Bounds of systems: energy and time of every network by the segments' bound, area and cost as they are.

    Args:
        evaluator: How designs are judged; its rules must be our own, for which the bound is shown.
    """

    exact_metrics = frozenset({"area_mm2", COST_USD, "leakage_w"})

    def __init__(self, evaluator: SegmentsEvaluator) -> None:
        self._evaluator = evaluator
        self._of_system = cache(self._figures)

    @property
    def why_not(self) -> str:
        """Why nothing can be proven; empty where it can."""
        if SEMANTICS[self._evaluator.rules] != OWN_RULES:
            return "the bound of trees is shown for our own rules alone"
        count = self._evaluator.space.space.cardinality_bound  # type: ignore[attr-defined]  # of a `DesignSpace`
        if count <= LISTED:
            return ""
        return f"at most {LISTED:,} systems are bounded, the space has up to {count:,}"

    def factor(self, front: Floats, metrics: Sequence[str], limits: Sequence[tuple[str, float]] = ()) -> float | None:
        """No design of the space, however its networks are scheduled, is better than all of a front by more (rule M85).

        None where an objective has no bound: nothing is known then.

        Args:
            front: Objectives of evaluated designs: ``k x m``.
            metrics: The objectives.
            limits: Metrics and the most they may be; designs that must break one do not count.
        """
        rows = self._evaluator.space.space.enumerate(LISTED)  # type: ignore[attr-defined]
        bounds = np.maximum(self.lower_bounds(rows, metrics), 1e-300)
        if np.isnan(bounds).any():
            return None
        keeps = np.ones(len(rows), dtype=np.bool_)
        for metric, most in limits:
            least = self.lower_bounds(rows, [metric])[:, 0]
            keeps &= ~(np.nan_to_num(least, nan=-np.inf) > most)
        ratios = (front[:, None, :] / bounds[None, keeps]).max(axis=2)
        return float(max(1.0, ratios.min(axis=0).max(initial=1.0)))

    def lower_bounds(self, indices: Indices, metrics: Sequence[str]) -> Floats:
        """Bounds of some systems, NaN for a metric without one: ``n x d`` rows to ``n x m``."""
        points: list[Point] = self._evaluator.space.space.to_points(indices)  # type: ignore[attr-defined]
        found = [self._of_system(self._evaluator.space.system(point)) for point in points]
        rows = [[known.get(OBJECTIVES.get(name, name), np.nan) for name in metrics] for known in found]
        return np.array(rows).reshape(len(indices), len(metrics))

    def _figures(self, system: ManyCore) -> dict[str, float]:
        """Bounds of one system by metric; sums over networks, each with how often it runs."""
        judged, cost = self._evaluator, money(system)
        time, energy, product = 0.0, 0.0, 0.0
        for network, weight in judged.networks:
            bound = bound_of(Evaluator(system, network, SEMANTICS[judged.rules]), judged.batch)
            time += weight * bound.time * SECONDS_PER_TICK
            energy += weight * bound.energy_pj * 1e-12
            product = weight * weight * bound.edp * SECONDS_PER_TICK * 1e-12
        if len(judged.networks) > 1:
            product = energy * time
        return {
            "latency_s": time * (1.0 - SLACK),
            "energy_j": energy * (1.0 - SLACK),
            "edp_js": product * (1.0 - 2.0 * SLACK),
            "area_mm2": cost.total_mm2 * (1.0 - 1e-12),
            COST_USD: cost.overall_usd * (1.0 - 1e-12),
            "leakage_w": 0.0,
        }
