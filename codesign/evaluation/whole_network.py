"""A whole network on one accelerator that is given: every distinct layer mapped, or evaluated with a mapping that is given.

The rules are those a design is judged by (E1-E6 in docs/reference/evaluation.md). Areas are not needed here: without them the result has none.
"""

from collections.abc import Mapping as MappingABC
from dataclasses import dataclass
from typing import final

from codesign.arch.architecture import Architecture
from codesign.core import clock
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.core.json_types import JsonObject
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Infeasible, evaluate
from codesign.evaluation.design import describe_architecture
from codesign.evaluation.network import (
    ConstraintsOf,
    EvaluationOptions,
    LayerResult,
    Progress,
    VectorResult,
    run_workload,
)
from codesign.mappers.protocol import Mapper, MapResult
from codesign.mappers.registry import create as create_mapper
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.mapping import Mapping
from codesign.workloads.computation import Computation
from codesign.workloads.network import Network
from codesign.workloads.traffic import Weights
from codesign.workloads.workload import Workload

DEFAULT_MAPPER = "exact"
"""Search for each layer's mapping where none is named."""


@final
@dataclass(frozen=True)
class NetworkResult:
    """A network on an architecture.

    Args:
        network: What ran.
        architecture: On what.
        mapper: Name of the search; ``given`` for mappings that were given.
        options: How it was judged.
        layers: Every distinct layer with its mapping and cost.
        vector: The operators that are not multiply-accumulates, together.
        evaluated: Mappings scored.
        seconds: Wall-clock time.
    """

    network: Network
    architecture: Architecture
    mapper: str
    options: EvaluationOptions
    layers: tuple[LayerResult, ...]
    vector: VectorResult
    evaluated: int
    seconds: float

    @property
    def latency_cycles(self) -> float:
        """Of one run: layers after each other, then vector operators."""
        return sum(x.latency_cycles * x.count for x in self.layers) + self.vector.latency_cycles

    @property
    def latency_s(self) -> float:
        """Seconds of one run of the network at the architecture's clock."""
        return self.latency_cycles / self.architecture.clock_hz

    @property
    def energy_pj(self) -> float:
        """Of one run, leakage apart."""
        return sum(x.energy_pj * x.count for x in self.layers) + self.vector.energy_pj

    @property
    def energy_j(self) -> float:
        """Of one run, leakage over its time included."""
        return self.energy_pj * 1e-12 + self.leakage_j

    @property
    def leakage_j(self) -> float:
        """Of one run: the power of leakage over its time."""
        return self.architecture.leakage_w * self.latency_s

    @property
    def dram_bytes(self) -> float:
        """That cross the port of the outermost level in one run."""
        layers = sum(x.dram_bytes * x.count for x in self.layers)
        return layers + self.vector.dram_bytes

    @property
    def utilization(self) -> float:
        """MACs per MAC unit and cycle over the whole run, vector operators' time included."""
        return self.network.macs / (self.latency_cycles * self.architecture.mac_units)

    def metrics(self) -> dict[str, float | None]:
        """What a design is judged by, by field name; `area_mm2` is None where some part has no area."""
        return {
            "latency_s": self.latency_s,
            "energy_j": self.energy_j,
            "power_w": self.energy_j / self.latency_s,
            "area_mm2": self.architecture.area_mm2,
            "edp_js": self.energy_j * self.latency_s,
            "leakage_w": self.architecture.leakage_w,
        }

    def to_json(self) -> JsonObject:
        """The form `codesign map --network` and `codesign evaluate --network` print."""
        return {
            "status": "ok",
            "network": self.network.name,
            "architecture": describe_architecture(self.architecture),
            "mapper": self.mapper,
            "objective": self.options.objective.value,
            "reuse": self.options.reuse.name.lower(),
            "between_layers": {
                "activations": self.options.rules.activations.value,
                "activation_bytes": self.options.activation_bytes,
                "resident_weights": self.options.rules.weights is Weights.RESIDENT,
            },
            "operators": len(self.network.operators),
            "macs": self.network.macs,
            "weight_bytes": self.network.weight_bytes,
            "latency_cycles": self.latency_cycles,
            "energy_pj": self.energy_pj,
            "dram_bytes": self.dram_bytes,
            "utilization": self.utilization,
            "metrics": self.metrics(),
            "layers": [layer.to_json() for layer in self.layers],
            "vector": self.vector.to_json(),
            "evaluated": self.evaluated,
            "seconds": self.seconds,
        }


def map_network(
    network: Network,
    architecture: Architecture,
    mapper: Mapper | None = None,
    options: EvaluationOptions | None = None,
    *,
    constraints_of: ConstraintsOf | None = None,
    progress: Progress | None = None,
) -> NetworkResult | Infeasible:
    """The best mapping a mapper finds for every distinct layer, and what the whole network then costs.

    Args:
        network: At the widths it shall run at, e.g. ``load_network("resnet18", bits=architecture.mac.bits)``.
        architecture: Energies filled in.
        mapper: The search; default `DEFAULT_MAPPER`.
        options: Objective and budget of each layer's search, what happens between layers.
        constraints_of: The constraints on each layer's mapping; default: those of the options, for all.
        progress: Told as layers are done.

    Returns:
        The result, or the first layer without a valid mapping and the reason.

    Raises:
        UserError: The architecture lacks energies, or the network has no layer to map.

    >>> from codesign.arch.presets import load_preset
    >>> from codesign.mappers.protocol import Budget
    >>> from codesign.workloads.load import load_network
    >>> eyeriss, quick = load_preset("eyeriss"), EvaluationOptions(budget=Budget(evaluations=20))
    >>> alexnet = load_network("alexnet", bits=eyeriss.mac.bits)
    >>> result = map_network(alexnet, eyeriss, create_mapper("anneal"), quick)
    >>> len(result.layers), result.network.macs
    (8, 724406816)
    """
    if not any(operator.computation is not None for operator in network.operators):
        raise UserError(
            "a network needs at least one operator with multiply-accumulates, got none",
            where=f"network {network.name!r}",
        )
    options = options or EvaluationOptions()
    search = create_mapper(DEFAULT_MAPPER) if mapper is None else mapper
    started = clock.wall_seconds()
    run = run_workload(Workload.of([network]), architecture, search, options, progress, constraints_of)
    if isinstance(run, Infeasible):
        return run
    seconds = clock.wall_seconds() - started
    return NetworkResult(network, architecture, search.name, options, run.layers, run.vector, run.evaluated, seconds)


LayerKey = tuple[str, frozenset[tuple[str, int]]]


def layer_key(computation: Computation) -> LayerKey:
    """What tells layers apart for a mapping: notation and bounds, whatever the widths and the name."""
    return str(computation), frozenset(computation.sizes.items())


def evaluate_network(
    network: Network,
    architecture: Architecture,
    mappings: MappingABC[LayerKey, Mapping],
    options: EvaluationOptions | None = None,
) -> NetworkResult | Infeasible:
    """What a network costs with mappings that are given, one for every distinct layer.

    Args:
        network: At the widths it shall run at.
        architecture: Energies filled in.
        mappings: By `layer_key` of the layer.
        options: What happens between layers, which reuse rule holds; nothing is searched.

    Returns:
        The result, or the first layer whose mapping does not fit and the reason.

    Raises:
        UserError: A layer has no mapping, a mapping belongs to no layer, or is malformed.
    """
    layers: dict[LayerKey, str] = {}
    for operator in network.operators:
        if operator.computation is not None:
            layers.setdefault(layer_key(operator.computation), operator.name)
    missing = [name for key, name in layers.items() if key not in mappings]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise UserError(
            f"layer {missing[0]!r}{more} of {len(layers)} distinct ones: no mapping is given",
            where=f"network {network.name!r}",
            hint="`codesign map --network ... --out FOLDER` writes one for each",
        )
    left = [key for key in mappings if key not in layers]
    if left:
        bounds = " ".join(f"{dim}={size}" for dim, size in sorted(left[0][1]))
        raise UserError(
            f"{len(left)} mappings are of no layer of the network, the first of {left[0][0]} {bounds}",
            where=f"network {network.name!r}",
            hint="give mappings of this network alone",
        )
    return map_network(network, architecture, GivenMappings(mappings), options)


@final
@dataclass(frozen=True)
class GivenMappings:
    """A mapper that searches nothing: every layer has its mapping, given or recorded.

    Args:
        mappings: By `layer_key`.
        name: As mappers have one.
    """

    mappings: MappingABC[LayerKey, Mapping]
    name: str = "given"

    def map(
        self,
        problem: MappingProblem,
        objective: Objective,
        *,
        budget: Budget,
        seed: int,
        reuse: Reuse = Reuse.TIMELOOP,
    ) -> MapResult:
        """See `codesign.mappers.protocol.Mapper`."""
        mapping = self.mappings.get(layer_key(problem.computation))
        if mapping is None:
            raise UserError(f"no mapping of {problem.computation} is {self.name}")
        cost = evaluate(problem.computation, problem.architecture, mapping, reuse=reuse, imperfect=problem.imperfect)
        if isinstance(cost, Infeasible):
            return MapResult(None, None, cost, 1, 0.0)
        return MapResult(mapping, cost, None, 1, 0.0)
