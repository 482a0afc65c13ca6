"""`map_layer`, `map_network`, `evaluate`: what runs on an accelerator, how well, and with what proof."""

from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, final, overload

from codesign.arch.architecture import Architecture
from codesign.core.errors import UserError, unknown_name
from codesign.core.goals import Budget, Objective, Proof
from codesign.core.json_types import JsonObject
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Cost, Infeasible
from codesign.cost.cost import evaluate as evaluate_mapping
from codesign.evaluation.network import EvaluationOptions
from codesign.evaluation.whole_network import LayerKey, NetworkResult, evaluate_network
from codesign.evaluation.whole_network import map_network as map_every_layer
from codesign.library.inputs import as_computation, as_hardware, as_mapping, as_network, is_layer
from codesign.library.results import AbstractResult
from codesign.mappers.padded_bounds import PaddingMapper
from codesign.mappers.protocol import Mapper, MapResult
from codesign.mappers.ranged import RangedMapper
from codesign.mappers.registry import create
from codesign.mapping.constraints import Constraints, MappingProblem
from codesign.mapping.fit import check_fit
from codesign.mapping.mapping import Mapping
from codesign.workloads.computation import Computation
from codesign.workloads.network import Network

if TYPE_CHECKING:
    import plotly.graph_objects as go


@final
@dataclass(frozen=True)
class MapOptions:
    """How mappings are searched.

    Args:
        mapper: By name: ``exact`` (with a proof), ``anneal``, ``cosa`` ...; or one of your own.
        mapper_options: Options of the mapper's own, by name.
        objective: ``energy``, ``latency`` or ``edp``.
        time_limit_s: Seconds of search, per layer.
        evaluations: Mappings scored at most, per layer.
        seed: Of every random choice.
        free_bypass: Whether the mapper may bypass levels where no constraint decides.
        imperfect: Whether the last iteration of a loop may be shorter (mappers anneal, random, genetic, exact).
        pad: Whether bounds padded to sizes that divide better are tried too.
        reuse: What a buffer need not fetch again: ``timeloop``, ``walk`` or ``resident``.
        constraints: On every mapping, beside those of the architecture's file.
    """

    mapper: str | Mapper = "exact"
    mapper_options: MappingABC[str, Any] = field(default_factory=dict)
    objective: str = "edp"
    time_limit_s: float | None = None
    evaluations: int | None = None
    seed: int = 0
    free_bypass: bool = False
    imperfect: bool = False
    pad: bool = False
    reuse: str = "timeloop"
    constraints: Constraints = field(default_factory=Constraints)

    def __post_init__(self) -> None:
        Objective.parse(self.objective)
        Budget(self.time_limit_s, self.evaluations)
        if self.reuse.upper() not in Reuse.__members__:
            raise unknown_name("reuse rule", self.reuse, [r.name.lower() for r in Reuse])
        if self.seed < 0:
            raise UserError(f"`seed` must be >= 0, got {self.seed}")

    def searcher(self) -> Mapper:
        """The mapper.

        Raises:
            UserError: No mapper has the name, or it has no such option.
        """
        made = create(self.mapper, **self.mapper_options) if isinstance(self.mapper, str) else self.mapper
        return RangedMapper(PaddingMapper(made) if self.pad else made)

    def judged(self) -> EvaluationOptions:
        """The same for a whole network."""
        return EvaluationOptions(
            Objective.parse(self.objective),
            Budget(self.time_limit_s, self.evaluations),
            self.seed,
            Reuse[self.reuse.upper()],
            constraints=self.constraints,
            imperfect=self.imperfect,
        )


DEFAULT_OPTIONS = MapOptions()


@final
@dataclass(frozen=True)
class MappedLayer(AbstractResult):
    """One layer on one accelerator with a mapping.

    Args:
        computation: The layer.
        architecture: The accelerator.
        result: The mapping, its cost and its proof; of a given mapping, its cost alone.
    """

    computation: Computation
    architecture: Architecture
    result: MapResult

    @property
    def feasible(self) -> bool:
        """Whether there is a mapping."""
        return self.result.cost is not None

    @property
    def infeasible(self) -> Infeasible | None:
        """Why there is no mapping; None where there is one."""
        return self.result.infeasible

    @property
    def cost(self) -> Cost:
        """Accesses, energy and latency.

        Raises:
            UserError: There is no mapping; the message says why.
        """
        if self.result.cost is None:
            raise UserError(f"there is no mapping: {self.result.infeasible or 'none exists'}")
        return self.result.cost

    @property
    def mapping(self) -> Mapping | None:
        """The loop nest; None where there is none."""
        return self.result.mapping

    @property
    def latency_cycles(self) -> int:
        """Latency of the layer in cycles."""
        return self.cost.latency_cycles

    @property
    def latency_s(self) -> float:
        """Latency of the layer in seconds at the architecture's clock."""
        return self.cost.latency_cycles / self.architecture.clock_hz

    @property
    def energy_pj(self) -> float:
        """Of the layer, leakage apart."""
        return self.cost.energy_pj

    @property
    def edp(self) -> float:
        """Energy times latency, pJ x cycle."""
        return self.cost.edp

    @property
    def proof(self) -> Proof:
        """What is known of optimality."""
        return self.result.proof

    @property
    def gap(self) -> float | None:
        """(value - bound) / bound; 0 when optimal; None when nothing is known."""
        return self.result.gap

    def to_json(self) -> JsonObject:
        """See `AbstractResult`."""
        document = self.result.to_json()
        return document if self.result.cost is None else {**self.result.cost.to_json(), **document}

    def headline(self) -> JsonObject:
        """See `AbstractResult`."""
        head: dict[str, Any] = {"layer": str(self.computation), "architecture": self.architecture.name}
        if self.result.cost is None:
            return {**head, "infeasible": str(self.result.infeasible or "no mapping exists")}
        cost = self.result.cost
        return {
            **head,
            "latency_cycles": cost.latency_cycles,
            "energy_pj": cost.energy_pj,
            "utilization": cost.utilization,
            "bottleneck": cost.bottleneck,
            "proof": self.result.proof.value,
        }

    def rows(self) -> list[JsonObject]:
        """One row for every tensor at every level that keeps it."""
        if self.result.cost is None:
            return []
        return [
            {
                "level": level.level,
                "tensor": traffic.tensor,
                "tile_words": traffic.tile_words,
                "reads": traffic.reads,
                "fills": traffic.fills,
                "updates": traffic.updates,
                "energy_pj": traffic.energy_pj,
            }
            for level in self.result.cost.levels
            for traffic in level.tensors
        ]

    def plot(self) -> "go.Figure":
        """Energy by level, interconnect and arithmetic."""
        from codesign.report.figures import parts_figure

        cost = self.cost
        parts = [(level.level, level.energy_pj) for level in cost.levels]
        parts += [("interconnect", sum(v.network_pj for v in cost.levels)), ("MAC", cost.mac_energy_pj)]
        return parts_figure([p for p in parts if p[1]], "pJ", f"Energy of {self.computation.name or 'the layer'}")

    def __str__(self) -> str:
        return "\n".join(f"{name:<15} {value}" for name, value in self.headline().items())


@final
@dataclass(frozen=True)
class MappedNetwork(AbstractResult):
    """A network on one accelerator, every distinct layer with a mapping.

    Args:
        result: Layers, costs, metrics; or why it cannot run.
        network: The network.
        architecture: The accelerator.
    """

    result: NetworkResult | Infeasible
    network: Network
    architecture: Architecture

    @property
    def feasible(self) -> bool:
        """Whether every layer has a mapping."""
        return isinstance(self.result, NetworkResult)

    @property
    def infeasible(self) -> Infeasible | None:
        """Why the network cannot run."""
        return self.result if isinstance(self.result, Infeasible) else None

    @property
    def _found(self) -> NetworkResult:
        if isinstance(self.result, Infeasible):
            raise UserError(f"the network cannot run: {self.result}")
        return self.result

    @property
    def latency_s(self) -> float:
        """Latency of one run of the network in seconds."""
        return self._found.latency_s

    @property
    def latency_cycles(self) -> float:
        """Latency of one run of the network in cycles."""
        return self._found.latency_cycles

    @property
    def energy_j(self) -> float:
        """Energy of one run of the network in J, leakage included."""
        return self._found.energy_j

    @property
    def power_w(self) -> float:
        """Average power while running."""
        return self._found.energy_j / self._found.latency_s

    @property
    def area_mm2(self) -> float | None:
        """Of the chip, DRAM apart; None where a part has no area."""
        return self.architecture.area_mm2

    @property
    def dram_bytes(self) -> float:
        """That cross the port of the outermost level in one run."""
        return self._found.dram_bytes

    def to_json(self) -> JsonObject:
        """See `AbstractResult`."""
        if isinstance(self.result, Infeasible):
            return {**self.result.to_json(), "network": self.network.name}
        return self.result.to_json()

    def headline(self) -> JsonObject:
        """See `AbstractResult`."""
        head: dict[str, Any] = {"network": self.network.name, "architecture": self.architecture.name}
        if isinstance(self.result, Infeasible):
            return {**head, "infeasible": str(self.result)}
        proven = sum(layer.result.proof is Proof.OPTIMAL for layer in self.result.layers)
        return {
            **head,
            **self.result.metrics(),
            "dram_bytes": self.result.dram_bytes,
            "utilization": self.result.utilization,
            "layers proven optimal": f"{proven} of {len(self.result.layers)}",
        }

    def rows(self) -> list[JsonObject]:
        """One row for every distinct layer."""
        if isinstance(self.result, Infeasible):
            return []
        found: list[JsonObject] = []
        for layer in self.result.layers:
            cost = layer.result.cost
            assert cost is not None  # the network runs
            found.append(
                {
                    "layer": layer.name,
                    "count": layer.count,
                    "macs": cost.macs,
                    "latency_cycles": layer.latency_cycles,
                    "energy_pj": layer.energy_pj,
                    "utilization": cost.utilization,
                    "bottleneck": cost.bottleneck,
                    "dram_bytes": cost.dram_bytes,
                    "proof": layer.result.proof.value,
                    "gap": layer.result.gap,
                }
            )
        return found

    def plot(self) -> "go.Figure":
        """Cycles and energy by layer."""
        from codesign.report.figures import layers_figure

        self._found  # noqa: B018 - says why there is nothing to draw
        return layers_figure(self.rows(), f"{self.network.name} on {self.architecture.name}")

    def __str__(self) -> str:
        return "\n".join(f"{name:<22} {value}" for name, value in self.headline().items())


def map_layer(
    layer: Computation | str | Path, architecture: Architecture | str | Path, options: MapOptions = DEFAULT_OPTIONS
) -> MappedLayer:
    """The best mapping of one layer on one accelerator.

    Args:
        layer: A computation, a text such as ``conv K=64 C=64 P=56 Q=56 R=3 S=3``, or a problem file.
        architecture: A value, the name of a preset, or a file.
        options: How to search.

    Returns:
        The mapping, its cost and its proof; or why there is none.

    Raises:
        UserError: An input cannot be used; the message says which and how to mend it.

    >>> found = map_layer("gemm M=16 N=16 K=16", "eyeriss")
    >>> found.proof.value, found.cost.macs
    ('optimal', 4096)
    """
    computation = as_computation(layer)
    hardware, machine = as_hardware(architecture)
    if hardware is not None:
        hardware = hardware.with_free_bypass() if options.free_bypass else hardware
        constraints = _both(hardware.constraints_of(computation), options.constraints)
    else:
        constraints = options.constraints
    check_fit(machine, [computation])
    problem = MappingProblem(computation, machine, _freed(constraints, options), options.imperfect)
    judged = options.judged()
    result = options.searcher().map(
        problem, judged.objective, budget=judged.budget, seed=options.seed, reuse=judged.reuse
    )
    return MappedLayer(computation, machine, result)


def map_network(
    network: Network | str | Path,
    architecture: Architecture | str | Path,
    options: MapOptions = DEFAULT_OPTIONS,
    *,
    batch: int | None = None,
) -> MappedNetwork:
    """Every distinct layer of a network on one accelerator, each with the best mapping that is found.

    Args:
        network: A value, a name of the zoo, or a file (ONNX, JSON, YAML).
        architecture: A value, the name of a preset, or a file.
        options: How to search.
        batch: Inferences that run together.

    Raises:
        UserError: An input cannot be used.
    """
    hardware, machine = as_hardware(architecture)
    loaded = as_network(network, machine, batch=batch)
    if hardware is not None and options.free_bypass:
        hardware = hardware.with_free_bypass()
    judged = options.judged()

    def constraints_of(computation: Computation) -> Constraints:
        given = Constraints() if hardware is None else hardware.constraints_of(computation)
        return _freed(_both(given, options.constraints), options)

    found = map_every_layer(loaded, machine, options.searcher(), judged, constraints_of=constraints_of)
    return MappedNetwork(found, loaded, machine)


@overload
def evaluate(
    workload: Computation,
    architecture: Architecture | str | Path,
    mapping: Mapping | str | Path | None = None,
    options: MapOptions = DEFAULT_OPTIONS,
) -> MappedLayer: ...


@overload
def evaluate(
    workload: Network,
    architecture: Architecture | str | Path,
    mapping: MappingABC[LayerKey, Mapping] | str | Path | None = None,
    options: MapOptions = DEFAULT_OPTIONS,
) -> MappedNetwork: ...


@overload
def evaluate(
    workload: str | Path,
    architecture: Architecture | str | Path,
    mapping: Mapping | MappingABC[LayerKey, Mapping] | str | Path | None = None,
    options: MapOptions = DEFAULT_OPTIONS,
) -> Any: ...


def evaluate(
    workload: Computation | Network | str | Path,
    architecture: Architecture | str | Path,
    mapping: Mapping | MappingABC[LayerKey, Mapping] | str | Path | None = None,
    options: MapOptions = DEFAULT_OPTIONS,
) -> MappedLayer | MappedNetwork:
    """What a layer or a network costs on an accelerator, with mappings that are given or, without them, found.

    Args:
        workload: A layer (as for `map_layer`) or a network (as for `map_network`).
        architecture: A value, the name of a preset, or a file.
        mapping: Of a layer: a mapping or its file. Of a network: mappings by layer, or a folder of their files.
        options: How to search what is not given, and which reuse rule holds.

    Raises:
        UserError: An input cannot be used, or a mapping is malformed.

    >>> result = evaluate("alexnet", "eyeriss", options=MapOptions(mapper="anneal", evaluations=20))
    >>> result.feasible, len(result.rows())
    (True, 8)
    """
    single = is_layer(workload) or (mapping is not None and isinstance(mapping, Mapping))
    if single:
        assert not isinstance(workload, Network)
        if mapping is None:
            return map_layer(workload, architecture, options)
        computation, (_, machine) = as_computation(workload), as_hardware(architecture)
        assert isinstance(mapping, Mapping | str | Path)
        nest = as_mapping(mapping, computation, machine, options.imperfect)
        cost = evaluate_mapping(
            computation, machine, nest, reuse=Reuse[options.reuse.upper()], imperfect=options.imperfect
        )
        bad = isinstance(cost, Infeasible)
        return MappedLayer(
            computation,
            machine,
            MapResult(None, None, cost, 1, 0.0) if bad else MapResult(nest, cost, None, 1, 0.0),  # type: ignore[arg-type]
        )
    assert not isinstance(workload, Computation)
    if mapping is None:
        return map_network(workload, architecture, options)
    _, machine = as_hardware(architecture)
    network = as_network(workload, machine)
    if isinstance(mapping, str | Path):
        from codesign.evaluation.mapping_files import read_mappings

        mapping = read_mappings(Path(mapping), machine, options.imperfect)
    assert not isinstance(mapping, Mapping)
    return MappedNetwork(evaluate_network(network, machine, mapping, options.judged()), network, machine)


def _both(given: Constraints, more: Constraints) -> Constraints:
    from codesign.formats.load import merge_constraints

    return merge_constraints(given, more) if more != Constraints() else given


def _freed(constraints: Constraints, options: MapOptions) -> Constraints:
    from dataclasses import replace

    return replace(constraints, free_bypass=True) if options.free_bypass else constraints
