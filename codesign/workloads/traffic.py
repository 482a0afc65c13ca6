"""What every operator reads, writes and computes, and which activations can stay on chip: rules W6 to W11."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from codesign.workloads.network import Network, NetworkTensor, Operator, OperatorKind


class Activations(Enum):
    """Where activations are between operators (rule W9)."""

    DRAM = "dram"
    KEPT = "kept"


class Weights(Enum):
    """When parameters cross the DRAM interface (rule W10)."""

    PER_RUN = "per-run"
    RESIDENT = "resident"


class Joins(Enum):
    """What concatenations and slices do (rule W7)."""

    IN_PLACE = "in-place"
    COPY = "copy"


@dataclass(frozen=True)
class TrafficRules:
    """The choices that the rules leave open.

    Args:
        activations: DRAM: every activation is written to DRAM and read back. KEPT: those that fit stay on chip.
        weights: PER_RUN: every run of the batch loads the parameters. RESIDENT: they are on chip for good.
        joins: IN_PLACE: producers write into their part of the joined tensor. COPY: elements move.
    """

    activations: Activations = Activations.DRAM
    weights: Weights = Weights.PER_RUN
    joins: Joins = Joins.IN_PLACE


@dataclass(frozen=True)
class OperatorTraffic:
    """What one operator moves across the DRAM interface at the least, and its vector work, for one run of the batch.

    For vector operators the figures are exact; for matrix operators they are compulsory, a mapping may move more.

    Args:
        operator: Name of the operator.
        input_bytes: Activations read.
        parameter_bytes: Parameters read.
        output_bytes: Activations written.
        operations: Operations of the vector unit.
    """

    operator: str
    input_bytes: int
    parameter_bytes: int
    output_bytes: int
    operations: int

    @property
    def total_bytes(self) -> int:
        """Bytes of inputs, parameters and outputs together."""
        return self.input_bytes + self.parameter_bytes + self.output_bytes


@dataclass(frozen=True)
class StorageGroup:
    """Activations that share one piece of memory: a tensor, its views, and what is joined in place.

    Args:
        tensors: Their names.
        size_bytes: Size of the largest, which holds the others.
        first: Position of the operator that first writes (-1: an input of the network).
        last: Position of the operator that last reads (the number of operators: an output of the network).
    """

    tensors: tuple[str, ...]
    size_bytes: int
    first: int
    last: int


def moved_elements(network: Network, operator: Operator, rules: TrafficRules) -> dict[str, int]:
    """Elements of each tensor that an operator reads or writes once, by tensor name (rules W6 and W7)."""
    tensors = network.tensor_by_name
    written = sum(tensors[n].elements for n in operator.outputs)
    if operator.kind is OperatorKind.RESHAPE:
        return {}
    if operator.kind in (OperatorKind.CONCAT, OperatorKind.SLICE) and rules.joins is Joins.IN_PLACE:
        return {}
    if operator.kind is OperatorKind.APPEND:
        new = tensors[operator.inputs[-1]].elements
        return {operator.inputs[-1]: new, operator.outputs[0]: new}
    if operator.kind in (OperatorKind.SLICE, OperatorKind.GATHER):
        source, *rest = operator.inputs
        return {
            source: min(written, tensors[source].elements),
            **{n: tensors[n].elements for n in (*rest, *operator.outputs)},
        }
    return {n: tensors[n].elements for n in (*operator.inputs, *operator.outputs)}


def operator_traffic(
    network: Network, rules: TrafficRules | None = None, capacity_bytes: int = 0
) -> tuple[OperatorTraffic, ...]:
    """The traffic of every operator, in order.

    Args:
        network: Any network.
        rules: The choices; default: activations to DRAM, weights per run, joins in place.
        capacity_bytes: On-chip memory for activations between operators; read when they are KEPT.
    """
    rules = rules or TrafficRules()
    kept = kept_tensors(network, capacity_bytes, rules) if rules.activations is Activations.KEPT else frozenset()
    return tuple(_traffic(network, o, rules, kept) for o in network.operators)


def kept_tensors(network: Network, capacity_bytes: int, rules: TrafficRules | None = None) -> frozenset[str]:
    """Activations that stay on chip (rule W9): in order of production, each that fits beside those kept before it.

    Args:
        network: Any network.
        capacity_bytes: Memory set aside for them.
        rules: Says which tensors share memory.
    """
    count = len(network.operators)
    used = [0] * count
    kept: list[str] = []
    for group in storage_groups(network, rules or TrafficRules()):
        if group.first < 0 or group.last >= count:
            continue  # inputs come from DRAM and outputs go there
        span = range(group.first, group.last + 1)
        if all(used[step] + group.size_bytes <= capacity_bytes for step in span):
            for step in span:
                used[step] += group.size_bytes
            kept.extend(group.tensors)
    return frozenset(kept)


def storage_groups(network: Network, rules: TrafficRules) -> tuple[StorageGroup, ...]:
    """The activations by the memory they share, in order of their first writer."""
    parent: dict[str, str] = {t.name: t.name for t in network.tensors if not t.is_parameter}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for operator in network.operators:
        shares = operator.kind in (OperatorKind.RESHAPE, OperatorKind.APPEND) or (
            operator.kind in (OperatorKind.CONCAT, OperatorKind.SLICE) and rules.joins is Joins.IN_PLACE
        )
        if shares:
            for name in (*operator.inputs, *operator.outputs[1:]):
                if name in parent:
                    parent[root(name)] = root(operator.outputs[0])
    members: dict[str, list[NetworkTensor]] = {}
    for tensor in network.tensors:
        if not tensor.is_parameter:
            members.setdefault(root(tensor.name), []).append(tensor)
    position = {o.name: i for i, o in enumerate(network.operators)}
    groups = [_group(network, tensors, position) for tensors in members.values()]
    return tuple(sorted(groups, key=lambda g: (g.first, g.tensors)))


def _group(network: Network, tensors: list[NetworkTensor], position: dict[str, int]) -> StorageGroup:
    names = tuple(t.name for t in tensors)
    producers = [network.producers.get(n) for n in names]
    first = min(-1 if o is None else position[o.name] for o in producers)
    reads = [position[o.name] for n in names for o in network.consumers[n]]
    is_output = not set(network.outputs).isdisjoint(names)
    last = len(network.operators) if is_output else max(reads, default=first)
    return StorageGroup(names, max(t.size_bytes for t in tensors), first, max(last, first))


def _traffic(network: Network, operator: Operator, rules: TrafficRules, kept: frozenset[str]) -> OperatorTraffic:
    moved = moved_elements(network, operator, rules)

    def size(names: Iterable[str], *, parameter: bool) -> int:
        total = 0
        for name in dict.fromkeys(names):
            tensor = network.tensor_by_name[name]
            if tensor.is_parameter == parameter and name in moved and name not in kept:
                total += tensor.bytes_of(moved[name])
        return total

    loaded = 0 if rules.weights is Weights.RESIDENT else size(operator.inputs, parameter=True)
    return OperatorTraffic(
        operator.name,
        size(operator.inputs, parameter=False),
        loaded,
        size(operator.outputs, parameter=False),
        operator.operations,
    )
