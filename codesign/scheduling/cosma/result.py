"""What a scheduler of this family answers."""

from dataclasses import dataclass
from typing import TypedDict

from codesign.arch.architecture import Architecture
from codesign.core.goals import Proof
from codesign.core.json_types import JsonObject
from codesign.scheduling.cosma.graph import OperatorGraph
from codesign.scheduling.cosma.objective import TrafficWeights, cycles_per_byte, energy_per_byte_pj
from codesign.scheduling.cosma.plan import (
    Plan,
    Residency,
    footprint_bytes,
    noncompulsory_bytes,
    read_bytes,
    residencies,
    spilled_tensors,
    uses,
    weighted_traffic,
    written_bytes,
)


@dataclass(frozen=True)
class TooSmall:
    """No schedule exists: one operator alone needs more than the capacity.

    Args:
        operator: The one that needs most.
        demand_bytes: Its inputs, outputs and parameters, M_R.
        capacity_bytes: What there is.
    """

    operator: str
    demand_bytes: int
    capacity_bytes: int


@dataclass(frozen=True)
class Unplaced:
    """Every operator fits, but no schedule with addresses was found.

    Args:
        capacity_bytes: What there is.
        proven: Whether there is none.
    """

    capacity_bytes: int
    proven: bool


@dataclass(frozen=True)
class Schedule:
    """Order, addresses and spills of a whole network.

    Args:
        graph: What was scheduled.
        capacity_bytes: Scratchpad size.
        plan: Order and retrievals.
        stays: Every stay in the scratchpad.
        offsets: Byte address per stay.
        value: The objective: weighted non-compulsory traffic.
        unit: What `value` and `bound` are in.
        bound: No schedule has a smaller value, as far as proven.
        proof: OPTIMAL when value and bound meet; GAP when a bound above 0 is known; NONE otherwise.
        method: How order and replacement were found.
        placement: How addresses were found.
    """

    graph: OperatorGraph
    capacity_bytes: int
    plan: Plan
    stays: tuple[Residency, ...]
    offsets: tuple[int, ...]
    value: int
    unit: str
    bound: int | None
    proof: Proof
    method: str
    placement: str

    @property
    def noncompulsory_bytes(self) -> int:
        """Bytes of spills and retrievals."""
        return noncompulsory_bytes(self.graph.index, self.plan)

    @property
    def written_bytes(self) -> int:
        """Bytes of spills."""
        return written_bytes(self.graph.index, self.plan)

    @property
    def read_bytes(self) -> int:
        """Bytes of retrievals."""
        return read_bytes(self.graph.index, self.plan)

    @property
    def dram_bytes(self) -> int:
        """All off-chip traffic: compulsory and not."""
        return self.graph.compulsory_bytes + self.noncompulsory_bytes

    @property
    def peak_buffer_bytes(self) -> int:
        """Most bytes in use at one step."""
        return max(footprint_bytes(self.plan, self.stays))

    @property
    def order(self) -> tuple[str, ...]:
        """Names of the operators, first to last."""
        return tuple(self.graph.operators[o].name for o in self.plan.order)


def priced_schedule(
    graph: OperatorGraph, capacity_bytes: int, weights: TrafficWeights, plan: Plan, offsets: tuple[int, ...], bound: int | None,
    *, method: str, placement: str,
) -> Schedule:  # fmt: skip
    """A plan with addresses, one for each of its `residencies`, as a schedule with what it costs and what that proves."""
    value = weighted_traffic(graph.index, plan, weights)
    proof = Proof.NONE if bound is None else Proof.OPTIMAL if value == bound else Proof.GAP
    stays = residencies(graph.index, plan)
    return Schedule(graph, capacity_bytes, plan, stays, offsets, value, weights.unit, bound, proof, method, placement)


@dataclass(frozen=True)
class TrafficCost:
    """What the off-chip traffic of a schedule takes on an architecture.

    Args:
        energy_pj: Of DRAM and scratchpad.
        cycles: The DRAM interface is busy.
    """

    energy_pj: float
    cycles: float


def traffic_cost(architecture: Architecture, schedule: Schedule) -> TrafficCost:
    """Energy and time of everything that a schedule moves, compulsory traffic included."""
    written = schedule.written_bytes + schedule.graph.stored_bytes
    read = schedule.read_bytes + schedule.graph.loaded_bytes
    energy, cycles = energy_per_byte_pj(architecture), cycles_per_byte(architecture)
    return TrafficCost(written * energy[0] + read * energy[1], written * cycles[0] + read * cycles[1])


class StayRecord(TypedDict):
    """One stay of a tensor, or of an operator's parameters, in the scratchpad."""

    tensor: str
    kind: str
    offset: int
    size_bytes: int
    first_step: int
    last_step: int
    retrieved: bool


class SpillRecord(TypedDict):
    """A spilled tensor: after which step it is written, and the steps it is retrieved for."""

    tensor: str
    size_bytes: int
    written_after_step: int
    retrieved_for_steps: list[int]


def schedule_to_dict(schedule: Schedule, seconds: float) -> JsonObject:
    """The JSON value of a schedule."""
    return {
        "status": "feasible",
        "network": schedule.graph.name,
        "noncompulsory_bytes": schedule.noncompulsory_bytes,
        "dram_bytes": schedule.dram_bytes,
        "value": schedule.value,
        "unit": schedule.unit,
        "proof": schedule.proof.value,
        "bound": schedule.bound,
        "capacity_bytes": schedule.capacity_bytes,
        "peak_buffer_bytes": schedule.peak_buffer_bytes,
        "method": schedule.method,
        "placement": schedule.placement,
        "order": list(schedule.order),
        "addresses": addresses_to_list(schedule),
        "spills": spills_to_list(schedule),
        "seconds": seconds,
    }


def failure_to_dict(result: TooSmall | Unplaced, seconds: float) -> JsonObject:
    """The JSON value of a capacity that does not do: status ``infeasible``, or ``unknown`` where that is not proven."""
    if isinstance(result, TooSmall):
        why: JsonObject = {
            "status": "infeasible",
            "resource": "scratchpad",
            "operator": result.operator,
            "demand": result.demand_bytes,
            "limit": result.capacity_bytes,
            "unit": "bytes",
            "proof": Proof.OPTIMAL.value,
        }
    else:
        why = {
            "status": "infeasible" if result.proven else "unknown",
            "resource": "scratchpad addresses",
            "limit": result.capacity_bytes,
            "unit": "bytes",
            "proof": (Proof.OPTIMAL if result.proven else Proof.NONE).value,
        }
    return {**why, "capacity_bytes": result.capacity_bytes, "seconds": seconds}


def addresses_to_list(schedule: Schedule) -> list[StayRecord]:
    """One entry per stay, by first step."""
    operators, tensors = schedule.graph.operators, schedule.graph.tensors
    return [
        {
            "tensor": f"{operators[stay.operator].name}.parameters"
            if stay.tensor is None
            else tensors[stay.tensor].name,
            "kind": "parameters" if stay.tensor is None else "activation",
            "offset": offset,
            "size_bytes": stay.size_bytes,
            "first_step": stay.first_step,
            "last_step": stay.last_step,
            "retrieved": stay.retrieved,
        }
        for stay, offset in zip(schedule.stays, schedule.offsets, strict=True)
    ]


def spills_to_list(schedule: Schedule) -> list[SpillRecord]:
    """One entry per spilled tensor: when it is written, and the steps it is retrieved for."""
    plan = schedule.plan
    steps = uses(schedule.graph.index, plan.order)
    entries: list[SpillRecord] = []
    for tensor in spilled_tensors(plan):
        retrieved = [step for step in steps[tensor] if tensor in plan.retrieved[step]]
        entries.append(
            {
                "tensor": schedule.graph.tensors[tensor].name,
                "size_bytes": schedule.graph.tensors[tensor].size_bytes,
                "written_after_step": max(s for s in steps[tensor] if s < retrieved[0]),
                "retrieved_for_steps": retrieved,
            }
        )
    return entries
