"""A schedule beside what frameworks do, and off-chip traffic as a function of the scratchpad."""

from collections.abc import Sequence
from dataclasses import dataclass

from codesign.core.errors import UserError
from codesign.scheduling.cosma.baselines import Replacement, schedule_baseline
from codesign.scheduling.cosma.graph import OperatorGraph
from codesign.scheduling.cosma.objective import BYTES, TrafficWeights
from codesign.scheduling.cosma.peak import lowest_peak_order
from codesign.scheduling.cosma.result import Proof, Schedule, TooSmall, Unplaced
from codesign.scheduling.cosma.solve import DEFAULT_EFFORT, Effort, schedule_cosma


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


@dataclass(frozen=True)
class TrafficPoint:
    """What a scratchpad size costs in traffic.

    Args:
        capacity_bytes: Scratchpad size.
        dram_bytes: All off-chip traffic, None when the size does not do.
        noncompulsory_bytes: The part that a larger scratchpad avoids, None likewise.
        proof: What is known of it.
    """

    capacity_bytes: int
    dram_bytes: int | None
    noncompulsory_bytes: int | None
    proof: Proof


def traffic_curve(
    graph: OperatorGraph, capacities_bytes: Sequence[int], *, effort: Effort = DEFAULT_EFFORT
) -> tuple[TrafficPoint, ...]:
    """Least off-chip traffic for each scratchpad size, the trade-off an outer search over hardware makes.

    Sizes past the first that needs no spill are not solved again: they need none either.

    Raises:
        UserError: A capacity is not positive.
    """
    for capacity in capacities_bytes:
        if capacity <= 0:
            raise UserError(f"capacity must be at least 1 byte, got {capacity}")
    points: dict[int, TrafficPoint] = {}
    enough: TrafficPoint | None = None
    for capacity in sorted(set(capacities_bytes)):
        if enough is not None:
            points[capacity] = TrafficPoint(capacity, enough.dram_bytes, 0, Proof.OPTIMAL)
            continue
        points[capacity] = _point(schedule_cosma(graph, capacity, effort=effort), capacity)
        if points[capacity].noncompulsory_bytes == 0:
            enough = points[capacity]
    return tuple(points[c] for c in capacities_bytes)


def _point(result: Schedule | TooSmall | Unplaced, capacity_bytes: int) -> TrafficPoint:
    if isinstance(result, Schedule):
        return TrafficPoint(capacity_bytes, result.dram_bytes, result.noncompulsory_bytes, result.proof)
    proven = isinstance(result, TooSmall) or result.proven
    return TrafficPoint(capacity_bytes, None, None, Proof.OPTIMAL if proven else Proof.NONE)
