"""A whole workload on one architecture: every distinct layer mapped once, vector operators costed, sums taken.

The rules are E1-E6 in docs/reference/evaluation.md; what each operator moves and computes is in docs/reference/workloads.md.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import cast

from codesign.arch.architecture import Architecture, LevelKind
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.core.json_types import JsonObject
from codesign.cost.arrays import Reuse
from codesign.cost.cost import COMPUTE, Cost, Infeasible
from codesign.evaluation.detail import LayersDetail
from codesign.evaluation.metrics import Metrics, area_of, metrics_of_sums
from codesign.evaluation.records import DetailRecord, LayerRecord, VectorRecord
from codesign.mappers.protocol import Mapper, MapResult
from codesign.mappers.ranged import RangedMapper
from codesign.mapping.constraints import Constraints, MappingProblem
from codesign.mapping.files import mapping_to_json
from codesign.mapping.fit import check_fit
from codesign.mapping.mapping import Mapping
from codesign.workloads.computation import Computation
from codesign.workloads.files import computation_to_json
from codesign.workloads.network import Network, Operator
from codesign.workloads.traffic import Activations, TrafficRules, Weights, kept_tensors, operator_traffic
from codesign.workloads.workload import Workload


@dataclass(frozen=True)
class EvaluationOptions:
    """How a workload is judged.

    Args:
        objective: What the mapping of each layer minimises.
        budget: Of each layer's mapping search.
        seed: Of stochastic mappers.
        reuse: What buffers need not fetch again.
        rules: What happens to activations and weights between layers.
        activation_bytes: On-chip memory set aside for activations when they are kept.
        constraints: On every layer's mapping.
        imperfect: Whether the last iteration of a loop may be shorter.
    """

    objective: Objective = Objective.EDP
    budget: Budget = field(default_factory=Budget)
    seed: int = 0
    reuse: Reuse = Reuse.TIMELOOP
    rules: TrafficRules = field(default_factory=TrafficRules)
    activation_bytes: int = 0
    constraints: Constraints = field(default_factory=Constraints)
    imperfect: bool = False


@dataclass(frozen=True)
class MappedLayer:
    """One distinct layer of a workload with its mapping.

    Args:
        name: Of the first operator with this computation.
        count: How many operators have it.
        computation: The computation that was mapped.
        mapping: The loop nest.
        cost: Of the mapping, under the cost kernel as it is now.
    """

    name: str
    count: float
    computation: Computation
    mapping: Mapping
    cost: Cost


@dataclass(frozen=True)
class LayerResult:
    """One distinct layer on the architecture.

    Args:
        name: Of the first operator with this computation.
        notation: The computation.
        bounds: Its dimensions.
        count: How many operators have it (weights of networks included).
        result: The mapping found and its cost.
        latency_cycles: Of one such operator under the between-layer rules.
        energy_pj: Dynamic energy of one such operator under the between-layer rules.
        dram_bytes: Likewise, what crosses the port of the outermost level.
        busy_cycles: Likewise, of computing and of every level's ports, by name (rule L5).
        computation: The computation that all these operators share.
    """

    name: str
    notation: str
    bounds: dict[str, int]
    count: float
    result: MapResult
    latency_cycles: float
    energy_pj: float
    dram_bytes: float
    busy_cycles: dict[str, float]
    computation: Computation

    @property
    def bottlenecks(self) -> tuple[str, ...]:
        """All resources that are busy throughout: ``compute`` or levels."""
        return tuple(name for name, cycles in self.busy_cycles.items() if cycles == self.latency_cycles)

    @property
    def mapped(self) -> MappedLayer:
        """The layer with its mapping alone, whatever happens between layers."""
        mapping, cost = self.result.mapping, self.result.cost
        assert mapping is not None and cost is not None  # layers without a mapping end the evaluation
        return MappedLayer(self.name, self.count, self.computation, mapping, cost)

    @property
    def utilization(self) -> float:
        """MACs per MAC unit and cycle."""
        cost = self.mapped.cost
        return cost.macs / (self.latency_cycles * cost.mac_units)

    def to_json(self) -> LayerRecord:
        """Plain values for the trial record and the report."""
        mapped = self.mapped
        cost = mapped.cost
        return {
            "name": self.name,
            "notation": self.notation,
            "bounds": self.bounds,
            "count": self.count,
            "macs": cost.macs,
            "latency_cycles": self.latency_cycles,
            "energy_pj": self.energy_pj,
            "utilization": self.utilization,
            "bottleneck": self.bottlenecks[0],
            "bottlenecks": list(self.bottlenecks),
            "busy_cycles": self.busy_cycles,
            "dram_bytes": self.dram_bytes,
            "energy_by_level_pj": energy_by_level(cost),
            "proof": self.result.proof.value,
            "gap": self.result.gap,
            "loopnest": cost.loop_nest,
            "mapping": mapping_to_json(mapped.mapping),
            "widths": _widths(self.computation),
        }


def _widths(computation: Computation) -> JsonObject:
    """Widths, roles and densities of a layer's tensors, by which it is made again."""
    whole = computation_to_json(computation)
    return {key: whole[key] for key in ("bits", "partial_bits", "tensors") if key in whole}


@dataclass(frozen=True)
class VectorResult:
    """All vector operators together.

    Args:
        latency_cycles: Sum over operators.
        energy_pj: Sum, dynamic.
        dram_bytes: Bytes that the vector operators move through DRAM.
        operations: Operations of the vector unit.
    """

    latency_cycles: float
    energy_pj: float
    dram_bytes: float
    operations: float

    def to_json(self) -> VectorRecord:
        """The fields as plain values that JSON can hold."""
        return cast(VectorRecord, dict(vars(self)))


@dataclass(frozen=True)
class WorkloadResult:
    """A workload on an architecture.

    Args:
        metrics: The figures a design is judged by.
        layers: Every distinct layer.
        vector: The vector operators together.
        evaluated: Mappings scored.
    """

    metrics: Metrics
    layers: tuple[LayerResult, ...]
    vector: VectorResult
    evaluated: int

    def detail(self) -> LayersDetail:
        """What a trial records and the report shows."""
        layers = tuple(layer.to_json() for layer in self.layers)
        return LayersDetail(self.metrics.to_dict(), self.evaluated, layers, self.vector.to_json())

    def to_json(self) -> DetailRecord:
        """The same as plain values."""
        return self.detail().to_json()


def energy_by_level(cost: Cost) -> dict[str, float]:
    """Dynamic energy by level, interconnect and arithmetic, in pJ."""
    parts = {level.level: level.energy_pj for level in cost.levels}
    network = sum(level.network_pj for level in cost.levels)
    return {**parts, "network": network, "MAC": cost.mac_energy_pj}


Progress = Callable[[int, int], None]
"""Called with (layers done, layers in all)."""


def evaluate_workload(
    workload: Workload | Network,
    architecture: Architecture,
    mapper: Mapper,
    options: EvaluationOptions | None = None,
) -> WorkloadResult | Infeasible:
    """Judge an architecture by a workload, every layer with the best mapping the mapper finds (rules E1-E6).

    Args:
        workload: One network or several with weights.
        architecture: Energies and areas filled in.
        mapper: The inner search.
        options: How to judge; default: each layer's EDP, activations through DRAM.

    Returns:
        The result, or the first layer without a valid mapping and the reason.

    Raises:
        UserError: The architecture has parts without energy or area.
    """
    options = options or EvaluationOptions()
    workload = workload if isinstance(workload, Workload) else Workload.of([workload])
    area_of(architecture)  # refused before anything is searched
    found = run_workload(workload, architecture, mapper, options)
    if isinstance(found, Infeasible):
        return found
    metrics = metrics_of_sums(architecture, found.latency_cycles, architecture.clock_hz, found.dynamic_pj)
    return WorkloadResult(metrics, found.layers, found.vector, found.evaluated)


ConstraintsOf = Callable[[Computation], Constraints]
"""The constraints on the mapping of a layer, which may name its dimensions."""


@dataclass(frozen=True)
class WorkloadRun:
    """What running a workload takes, before area and leakage.

    Args:
        layers: Every distinct layer.
        vector: The vector operators together.
        evaluated: Mappings scored.
    """

    layers: tuple[LayerResult, ...]
    vector: VectorResult
    evaluated: int

    @property
    def latency_cycles(self) -> float:
        """Of one run, layers after each other."""
        return sum(x.latency_cycles * x.count for x in self.layers) + self.vector.latency_cycles

    @property
    def dynamic_pj(self) -> float:
        """Energy of one run, leakage apart."""
        return sum(x.energy_pj * x.count for x in self.layers) + self.vector.energy_pj


def run_workload(
    workload: Workload,
    architecture: Architecture,
    mapper: Mapper,
    options: EvaluationOptions,
    progress: Progress | None = None,
    constraints_of: ConstraintsOf | None = None,
    known: dict[Computation, MapResult] | None = None,
) -> WorkloadRun | Infeasible:
    """Every distinct layer with the best mapping the mapper finds, and the vector operators (rules E1-E6).

    Args:
        workload: What runs.
        architecture: Energies filled in; areas are not needed.
        mapper: The inner search.
        options: How to judge.
        progress: Told as layers are done.
        constraints_of: The constraints of each layer, instead of the same for all from the options.
        known: Layers mapped before in the same way, to which those of this run are added.

    Returns:
        The run, or the first layer without a valid mapping and the reason.

    Raises:
        UserError: The architecture does not fit the layers: see `codesign.mapping.fit`.
    """
    check_fit(architecture, [group.computation for group in workload.distinct_layers()])
    hardware = _reserve_activations(architecture, options)
    if isinstance(hardware, Infeasible):
        return hardware
    mapper = with_effort(mapper, options.budget)
    groups = _group_layers(workload, options)
    layers: list[LayerResult] = []
    mapped: dict[Computation, MapResult] = {} if known is None else known
    evaluated = 0
    for done, group in enumerate(groups):
        if group.computation not in mapped:
            found = _map_layer(group, hardware, mapper, options, constraints_of)
            if isinstance(found, Infeasible):
                return found
            mapped[group.computation] = found
            evaluated += found.evaluated
        layers.append(_layer_result(group, mapped[group.computation], hardware))
        if progress is not None:
            progress(done + 1, len(groups))
    vector = _vector_result(workload, architecture, options)
    return WorkloadRun(tuple(layers), vector, evaluated)


def _map_layer(
    group: "_Group",
    hardware: Architecture,
    mapper: Mapper,
    options: EvaluationOptions,
    constraints_of: ConstraintsOf | None,
) -> MapResult | Infeasible:
    try:
        constraints = options.constraints if constraints_of is None else constraints_of(group.computation)
        problem = MappingProblem(group.computation, hardware, constraints, options.imperfect)
        found = RangedMapper(mapper).map(
            problem, options.objective, budget=options.budget, seed=options.seed, reuse=options.reuse
        )
    except UserError as error:
        raise error.within(f"layer {group.operator!r}") from None
    if found.cost is not None:
        return found
    reason = found.infeasible or Infeasible("mapping", 1, 0, "mappings", "the mapper found none")
    detail = f"layer {group.operator!r}: {reason.detail}".rstrip(": ")
    return Infeasible(reason.resource, reason.demand, reason.limit, reason.unit, detail)


LAYER_EFFORT = 2e8
"""Cells that exact search may fill for one layer when no budget is given: about 1 to 2 s."""


def with_effort(mapper: Mapper, budget: Budget) -> Mapper:
    """The mapper; exact search without any limit of its own is given one (rule E8)."""
    if mapper.name != "exact" or budget != Budget():
        return mapper
    from codesign.mappers.exact import ExactMapper

    return replace(mapper, effort=LAYER_EFFORT) if isinstance(mapper, ExactMapper) and mapper.effort is None else mapper


@dataclass(frozen=True)
class _Group:
    """Operators that cost the same: equal computations whose operands are on chip alike."""

    computation: Computation
    on_chip: frozenset[str]
    operator: str
    count: float


def _group_layers(workload: Workload, options: EvaluationOptions) -> list[_Group]:
    counts: dict[tuple[Computation, frozenset[str]], float] = {}
    first: dict[tuple[Computation, frozenset[str]], str] = {}
    for network, weight in zip(workload.networks, workload.weights, strict=True):
        kept: frozenset[str] = frozenset()
        if options.rules.activations is Activations.KEPT:
            kept = kept_tensors(network, options.activation_bytes, options.rules)
        for operator in network.operators:
            if operator.computation is None:
                continue
            key = (operator.computation, _on_chip(network, operator, kept, options.rules))
            counts[key] = counts.get(key, 0) + weight
            first.setdefault(key, operator.name)
    return [_Group(c, on, first[c, on], n) for (c, on), n in counts.items()]


def _on_chip(network: Network, operator: Operator, kept: frozenset[str], rules: TrafficRules) -> frozenset[str]:
    """Tensors of the operator's computation that need not cross the DRAM interface (rules W9, W10)."""
    assert operator.computation is not None
    found = set()
    for tensor, name in zip(operator.computation.tensors, operator.operands, strict=True):
        resident = network.tensor_by_name[name].is_parameter and rules.weights is Weights.RESIDENT
        if name in kept or resident:
            found.add(tensor.name)
    return frozenset(found)


def _reserve_activations(architecture: Architecture, options: EvaluationOptions) -> Architecture | Infeasible:
    """The architecture with the memory for kept activations taken from its outermost on-chip level (rule E4)."""
    if options.rules.activations is Activations.DRAM:
        return architecture
    level = next((v for v in architecture.levels if v.kind is not LevelKind.DRAM), None)
    if level is None or level.capacity_bytes is None:
        return architecture
    left = level.capacity_bytes - options.activation_bytes
    if left <= 0:
        return Infeasible(
            f"capacity of level {level.name!r}",
            options.activation_bytes,
            level.capacity_bytes,
            "bytes",
            "the memory set aside for activations leaves none for mappings",
        )
    return architecture.with_level(level.name, capacity_bytes=left)


def _layer_result(group: _Group, result: MapResult, architecture: Architecture) -> LayerResult:
    cost, computation = result.cost, group.computation
    assert cost is not None
    energy, moved = cost.energy_pj, cost.dram_bytes
    busy = {COMPUTE: float(cost.compute_cycles), **{v.level: float(v.busy_cycles) for v in cost.levels}}
    if group.on_chip and len(architecture.levels) > 1:
        energy, moved, busy[architecture.levels[0].name] = _without_dram(cost, group, architecture)
    return LayerResult(
        name=group.operator,
        notation=str(computation),
        bounds=dict(computation.sizes),
        count=group.count,
        result=result,
        latency_cycles=max(busy.values()),
        energy_pj=energy,
        dram_bytes=moved,
        busy_cycles=busy,
        computation=computation,
    )


def _without_dram(cost: Cost, group: _Group, architecture: Architecture) -> tuple[float, float, float]:
    """Energy, DRAM bytes and DRAM cycles when some tensors come from and go to the next level in instead (rule E5)."""
    dram, near = architecture.levels[0], architecture.levels[1]
    assert dram.energy is not None and near.energy is not None
    energy = cost.energy_pj
    read_words = written_words = 0.0
    for traffic in cost.levels[0].tensors:
        tensor = group.computation.tensor(traffic.tensor)
        dram_words = dram.element_bits(tensor.bits) / dram.word_bits
        if traffic.tensor in group.on_chip:
            near_words = near.element_bits(tensor.partial_bits) / near.word_bits
            energy -= traffic.energy_pj
            energy += near_words * (traffic.reads * near.energy.read_pj + traffic.updates * near.energy.update_pj)
        else:
            read_words += traffic.reads * dram_words
            written_words += traffic.updates * dram_words
    moved = (read_words + written_words) * dram.word_bits / 8
    return energy, moved, float(math.ceil(dram.busy_cycles(read_words, written_words)))


def _vector_result(workload: Workload, architecture: Architecture, options: EvaluationOptions) -> VectorResult:
    """Vector operators, and the fused functions of matrix operators (rule E6)."""
    dram = architecture.levels[0]
    lanes = max(architecture.mesh)
    cycles = energy = moved = operations = 0.0
    for network, weight in zip(workload.networks, workload.weights, strict=True):
        traffic = operator_traffic(network, options.rules, options.activation_bytes)
        for operator, item in zip(network.operators, traffic, strict=True):
            operations += weight * item.operations
            energy += weight * item.operations * (architecture.mac.energy_pj or 0.0)
            if not operator.is_vector:
                continue  # its functions run while results are drained, at no extra time
            compute = item.operations / lanes
            read, written = item.input_bytes + item.parameter_bytes, item.output_bytes
            words_read, words_written = read * 8 / dram.word_bits, written * 8 / dram.word_bits
            busy = max(compute, dram.busy_cycles(words_read, words_written))
            cycles += weight * math.ceil(busy)
            moved += weight * (read + written)
            if dram.energy is not None:
                energy += weight * (words_read * dram.energy.read_pj + words_written * dram.energy.update_pj)
    return VectorResult(cycles, energy, moved, operations)
