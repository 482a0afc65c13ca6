"""A schedule beside what frameworks do."""

from dataclasses import dataclass

from codesign.scheduling.cosma.baselines import Replacement, schedule_baseline
from codesign.scheduling.cosma.graph import OperatorGraph
from codesign.scheduling.cosma.objective import BYTES, TrafficWeights
from codesign.scheduling.cosma.peak import lowest_peak_order
from codesign.scheduling.cosma.result import Schedule


@dataclass(frozen=True)
class BaselineRow:
    """One baseline.

    Args:
        order: ``default`` or ``minimum-peak``.
        policy: Replacement rule.
        noncompulsory_bytes: Its traffic.
    """

    order: str
    policy: Replacement
    noncompulsory_bytes: int


def baseline_orders(graph: OperatorGraph) -> dict[str, tuple[int, ...]]:
    """The two orders that baselines run: as listed, and that of least peak."""
    return {"default": tuple(range(len(graph.operators))), "minimum-peak": lowest_peak_order(graph.index).order}


def baseline_rows(
    graph: OperatorGraph, capacity_bytes: int, *, weights: TrafficWeights = BYTES
) -> tuple[BaselineRow, ...]:
    """Every order with every replacement rule; empty when an operator does not fit."""
    rows = []
    for name, order in baseline_orders(graph).items():
        for policy in Replacement:
            done = schedule_baseline(graph, capacity_bytes, order, policy, weights=weights)
            if isinstance(done, Schedule):
                rows.append(BaselineRow(name, policy, done.noncompulsory_bytes))
    return tuple(rows)
