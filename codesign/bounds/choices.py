"""Lower bounds where designs also choose a precision, zeros and what hardware does about them (rule LB13 in docs/explanation/bounds.md)."""

from collections.abc import Sequence
from typing import final

import numpy as np
from numpy.typing import NDArray

from codesign.arch.architecture import Architecture
from codesign.bounds.design import SLACK, DesignBounds
from codesign.bounds.vector import VectorWork
from codesign.core.point import Point
from codesign.cost.sparse.bounds import is_sparse, least_shares
from codesign.evaluation.choices import ACCURACY, ERROR, Choices
from codesign.evaluation.design import DesignSpace
from codesign.evaluation.metrics import OBJECTIVES
from codesign.workloads.workload import Workload

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

LISTED = 20_000
"""The most designs of such a space that are bounded: each is built."""


@final
class ChoiceBounds:
    """Bounds of designs by the workload as each chose it.

    A combination whose hardware knows no zeros is bounded as any space is. Where hardware leaves zeros out, cycles and energy are at
    least those of the MACs that remain under every mapping; DRAM and memories count nothing.

    Args:
        space: With choices.
        choices: Of the space.
        workloads: One for every combination that changes the workload, in the order of `Choices.combinations`.
    """

    exact_metrics = frozenset({"area_mm2", "leakage_w", "error", "accuracy"})

    def __init__(self, space: DesignSpace, choices: Choices, workloads: Sequence[Workload]) -> None:
        self._space, self._choices = space, choices
        self._combinations = list(choices.combinations())
        self._workloads = tuple(workloads)
        self._dense = [DesignBounds(space, w) for w in workloads]
        self._vector = [VectorWork.of(w) for w in workloads]

    @property
    def why_not(self) -> str:
        """Why nothing can be proven; empty where it can."""
        count = self._space.space.cardinality_bound
        if count <= LISTED:
            return ""
        return f"with precision or zeros as parameters at most {LISTED:,} designs are bounded, the space has up to {count:,}"

    def lower_bounds(self, indices: Indices, metrics: Sequence[str]) -> Floats:
        """Bounds of some designs, NaN for a metric without one: ``n x d`` rows to ``n x m``."""
        found = np.full((len(indices), len(metrics)), np.nan)
        points = self._space.space.to_points(indices)
        for k, combination in enumerate(self._combinations):
            mine = [i for i, p in enumerate(points) if all(p[n] == v for n, v in combination.items())]
            machines = {i: self._space.build(points[i]) for i in mine}
            sparse = [i for i in mine if is_sparse(machines[i])]
            dense = [i for i in mine if i not in set(sparse)]
            if dense:
                found[dense] = self._dense[k].lower_bounds(indices[dense], metrics)
            for i in sparse:
                found[i] = self._where_zeros_count(machines[i], k, metrics)
        self._from_table(points, metrics, found)
        return found

    def _where_zeros_count(self, architecture: Architecture, k: int, metrics: Sequence[str]) -> list[float]:
        cycles, energy_pj = self._vector[k].on_one(architecture)
        for group in self._workloads[k].distinct_layers():
            computation, shares = group.computation, least_shares(group.computation, architecture)
            least = computation.macs * shares.timed / architecture.mac_units
            cycles += group.count * max(0.0, least - 1.0)  # cycles are whole numbers
            spent = architecture.mac.energy_of([t.bits for t in computation.inputs]) or 0.0
            energy_pj += group.count * computation.macs * shares.done * spent
        latency_s, leakage = cycles / architecture.clock_hz, architecture.leakage_w
        energy_j = energy_pj * 1e-12 + leakage * latency_s
        known = {
            "latency_s": latency_s * (1.0 - SLACK),
            "energy_j": energy_j * (1.0 - SLACK),
            "edp_js": energy_j * latency_s * (1.0 - 2.0 * SLACK),
            "area_mm2": (architecture.area_mm2 or 0.0) * (1.0 - 1e-12),
            "power_w": leakage * (1.0 - SLACK),
            "leakage_w": leakage * (1.0 - SLACK),
        }
        return [known.get(OBJECTIVES.get(name, name), np.nan) for name in metrics]

    def _from_table(self, points: Sequence[Point], metrics: Sequence[str], found: Floats) -> None:
        """The user's accuracies are known beforehand."""
        for column, name in enumerate(metrics):
            if name in (ACCURACY, ERROR) and self._choices.accuracy is not None:
                error = name == ERROR
                found[:, column] = [self._choices.accuracy.metric(self._choices.of(p), error=error) for p in points]
