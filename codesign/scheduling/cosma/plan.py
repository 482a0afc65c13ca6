"""What a schedule decides, and what follows from it: order, retrievals, residencies, traffic, footprint."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from codesign.scheduling.cosma.graph import GraphIndex
from codesign.scheduling.cosma.objective import TrafficWeights


@dataclass(frozen=True)
class Plan:
    """The order of the operators and what each of them must fetch back.

    A tensor lies in the scratchpad from the step that makes or retrieves it to the last step that uses it before
    its next retrieval (or at all); it was spilled if it is ever retrieved.

    Args:
        order: Operators, first to last.
        retrieved: Per step the tensors brought back from off chip for it, ascending.
    """

    order: tuple[int, ...]
    retrieved: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class PricedPlan:
    """A plan with what it costs.

    Args:
        plan: Order and retrievals.
        value: Its weighted traffic.
        bound: No plan of those looked at has less.
    """

    plan: Plan
    value: int
    bound: int = 0


@dataclass(frozen=True)
class Residency:
    """One unbroken stay in the scratchpad, at one address.

    Args:
        tensor: The tensor, or None for the parameters of an operator.
        operator: The operator whose parameters they are, or that starts the stay.
        first_step: Step that makes or retrieves it.
        last_step: Last step it is used in, inclusive.
        size_bytes: Space it takes.
        retrieved: Whether it starts with a retrieval.
    """

    tensor: int | None
    operator: int
    first_step: int
    last_step: int
    size_bytes: int
    retrieved: bool = False


def uses(index: GraphIndex, order: Sequence[int]) -> list[list[int]]:
    """Per tensor the steps that make or read it, ascending, when the operators run in `order`."""
    steps: list[list[int]] = [[] for _ in index.size_bytes]
    for step, operator in enumerate(order):
        for tensor in (*index.outputs[operator], *index.inputs[operator]):
            steps[tensor].append(step)
    return steps


def residencies(index: GraphIndex, plan: Plan) -> tuple[Residency, ...]:
    """Every stay in the scratchpad, those of parameters included, by first step."""
    stays = []
    for tensor, steps in enumerate(uses(index, plan.order)):
        starts = [k for k, step in enumerate(steps) if k == 0 or tensor in plan.retrieved[step]]
        for k, end in zip(starts, [*starts[1:], len(steps)], strict=True):
            first, last = steps[k], steps[end - 1]
            stays.append(Residency(tensor, plan.order[first], first, last, index.size_bytes[tensor], k > 0))
    for step, operator in enumerate(plan.order):
        if index.parameter_bytes[operator]:
            stays.append(Residency(None, operator, step, step, index.parameter_bytes[operator]))
    return tuple(sorted(stays, key=lambda r: (r.first_step, r.tensor is None, r.tensor or 0)))


def spilled_tensors(plan: Plan) -> tuple[int, ...]:
    """Tensors written off chip to be read back, ascending."""
    return tuple(sorted({t for step in plan.retrieved for t in step}))


def written_bytes(index: GraphIndex, plan: Plan) -> int:
    """Bytes of all spills: each spilled tensor is written once, however often it is retrieved (eq. 8)."""
    return sum(index.size_bytes[t] for t in spilled_tensors(plan))


def read_bytes(index: GraphIndex, plan: Plan) -> int:
    """Bytes of all retrievals."""
    return sum(index.size_bytes[t] for step in plan.retrieved for t in step)


def noncompulsory_bytes(index: GraphIndex, plan: Plan) -> int:
    """Bytes of spills and retrievals, the objective of the paper (eq. 12)."""
    return written_bytes(index, plan) + read_bytes(index, plan)


def weighted_traffic(index: GraphIndex, plan: Plan, weights: TrafficWeights) -> int:
    """The objective: bytes written and read, each at its price."""
    return weights.write * written_bytes(index, plan) + weights.read * read_bytes(index, plan)


def footprint_bytes(plan: Plan, stays: Iterable[Residency]) -> list[int]:
    """Bytes lying in the scratchpad at every step."""
    change = [0] * (len(plan.order) + 1)
    for stay in stays:
        change[stay.first_step] += stay.size_bytes
        change[stay.last_step + 1] -= stay.size_bytes
    total = 0
    footprint = []
    for delta in change[:-1]:
        total += delta
        footprint.append(total)
    return footprint


def resident_plan(order: Sequence[int]) -> Plan:
    """The plan that runs `order` and spills nothing."""
    return Plan(tuple(order), ((),) * len(order))
