"""A design's trade-offs between latency and energy over the mappings of a whole workload, exactly (docs/explanation/bounds.md).

Every layer has a proven latency-energy Pareto set over its mappings. Latencies and energies of layers add up, so the Pareto set of the workload
is the Pareto set of the sums of one point a layer. Sets are merged one after another and dominated sums left out at once: a dominated sum
stays dominated whatever is added.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from codesign.arch.architecture import Architecture
from codesign.core.goals import Budget, Proof
from codesign.cost.cost import Infeasible
from codesign.evaluation.metrics import Metrics, metrics_of_sums
from codesign.evaluation.network import EvaluationOptions, LayerResult, evaluate_workload
from codesign.mappers.exact import ExactMapper, pareto
from codesign.mapping.constraints import MappingProblem
from codesign.workloads.network import Network
from codesign.workloads.workload import Workload

Floats = NDArray[np.float64]


@final
@dataclass(frozen=True)
class TradeOffs:
    """The Pareto set of one design.

    Args:
        points: Metrics, the quickest first.
        proven: Whether every layer's set is proven complete.
    """

    points: tuple[Metrics, ...]
    proven: bool


def trade_offs(
    workload: Workload | Network, architecture: Architecture, layer_budget: Budget | None = None
) -> TradeOffs | Infeasible:
    """All best compromises between latency and energy of a workload on a design; activations and weights through DRAM.

    Leakage is spent over the latency, so the set is taken of dynamic energy and leakage together.

    Args:
        workload: What runs.
        architecture: Energies and areas filled in.
        layer_budget: Of each layer's set; without limit if not given.

    Returns:
        The set, or the first layer that nothing fits.
    """
    found = evaluate_workload(workload, architecture, ExactMapper(), EvaluationOptions())
    if isinstance(found, Infeasible):
        return found
    proven = True
    total = np.array([[found.vector.latency_cycles, found.vector.energy_pj]])
    leakage_pj = architecture.leakage_w / architecture.clock_hz * 1e12
    for layer in found.layers:
        points, complete = _of_layer(layer, architecture, layer_budget or Budget())
        proven &= complete
        total = merged(total, repeated(points, layer.count), leakage_pj)
    metrics = (metrics_of_sums(architecture, c, architecture.clock_hz, pj) for c, pj in total.tolist())
    return TradeOffs(tuple(metrics), proven)


def _of_layer(layer: LayerResult, architecture: Architecture, budget: Budget) -> tuple[Floats, bool]:
    """Cycles and energy in pJ of a layer's Pareto set, the mapping found before among them, and whether it is complete."""
    found = pareto(MappingProblem(layer.computation, architecture), budget=budget)
    rows = [(layer.latency_cycles, layer.energy_pj)]
    rows += [(float(r.cost.latency_cycles), r.cost.energy_pj) for r in found if r.cost is not None]
    return quickest_first(np.array(rows)), all(r.proof is Proof.OPTIMAL for r in found)


def quickest_first(points: Floats, leakage_pj: float = 0.0) -> Floats:
    """The points no other one beats in latency and in energy with leakage, quickest first: ``n x 2`` to ``k x 2``.

    >>> quickest_first(np.array([[3.0, 1.0], [1.0, 5.0], [2.0, 5.0]])).tolist()
    [[1.0, 5.0], [3.0, 1.0]]
    """
    spent = points[:, 1] + leakage_pj * points[:, 0]
    order = np.lexsort((spent, points[:, 0]))
    least = np.minimum.accumulate(spent[order])
    keep = np.concatenate([[True], spent[order][1:] < least[:-1]])
    kept: Floats = points[order][keep]
    return kept


def merged(left: Floats, right: Floats, leakage_pj: float = 0.0) -> Floats:
    """The Pareto set of all sums of a point of each: ``n x 2`` and ``k x 2`` to ``m x 2``."""
    sums = (left[:, None] + right[None]).reshape(-1, 2)
    return quickest_first(sums, leakage_pj)


def repeated(points: Floats, count: float) -> Floats:
    """The Pareto set of so many instances of a layer, each with a mapping of its own; a weight that is no whole number scales one.

    Leakage adds the same to all of equal latency, so sets of dynamic energy may be merged first.
    """
    whole = int(count)
    total = np.zeros((1, 2))
    power, left = points, whole
    while left:
        if left & 1:
            total = merged(total, power)
        left >>= 1
        if left:
            power = merged(power, power)
    return total if whole == count else merged(total, points * (count - whole))
