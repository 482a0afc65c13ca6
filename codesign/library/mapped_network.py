"""`MappedNetwork`: a network on one accelerator, every distinct layer with a mapping, searched for or given."""

from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, final

from codesign.arch.architecture import Architecture
from codesign.core.errors import UserError
from codesign.core.goals import Proof
from codesign.core.json_types import JsonObject
from codesign.cost.cost import Infeasible
from codesign.evaluation.network import ConstraintsOf, Progress
from codesign.evaluation.whole_network import LayerKey, NetworkResult, evaluate_network, map_network
from codesign.library.map_options import MapOptions
from codesign.library.results import AbstractResult
from codesign.mappers.protocol import Mapper
from codesign.mapping.mapping import Mapping
from codesign.workloads.network import Network

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from codesign.evaluation.timed import TimedNetwork


@final
@dataclass(frozen=True)
class MappedNetwork(AbstractResult):
    """A network on one accelerator, every distinct layer with a mapping.

    Args:
        result: Layers, costs, metrics; or why it cannot run.
        network: The network.
        architecture: The accelerator.
        events: Every layer simulated, with the event tier.
        constraints_of: Those on the mapping of a layer; None of mappings that were given.
        uneven: Whether uneven mappings were searched too.
    """

    result: NetworkResult | Infeasible
    network: Network
    architecture: Architecture
    events: "TimedNetwork | None" = None
    constraints_of: ConstraintsOf | None = field(default=None, compare=False)
    uneven: bool = False

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
        """Seconds of one run of the network."""
        return self._found.latency_s

    @property
    def latency_cycles(self) -> float:
        """Cycles of one run of the network."""
        return self._found.latency_cycles

    @property
    def energy_j(self) -> float:
        """Of one run, leakage included."""
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
        return self.result.to_json() | ({} if self.events is None else self.events.to_json())

    def certificate(self) -> JsonObject:
        """What `codesign verify` needs to check that the mappings are optimal, or how near they are.

        Raises:
            UserError: Nothing is proven of a layer, or certificates do not cover how it was searched.
        """
        from codesign.evaluation.network_certificate import network_certificate

        if self.constraints_of is None or self.events is not None:
            raise UserError("there is no proof to certify", hint="search with `map_network`, without the event tier")
        return network_certificate(self._found, self.constraints_of, uneven=self.uneven)

    def headline(self) -> JsonObject:
        """See `AbstractResult`."""
        head: JsonObject = {"network": self.network.name, "architecture": self.architecture.name}
        if isinstance(self.result, Infeasible):
            return {**head, "infeasible": str(self.result)}
        proven = sum(layer.result.proof is Proof.OPTIMAL for layer in self.result.layers)
        return {
            **head,
            **self.result.metrics(),
            "dram_bytes": self.result.dram_bytes,
            "utilization": self.result.utilization,
            "layers proven optimal": f"{proven} of {len(self.result.layers)}",
            **({} if self.events is None else {"event_latency_cycles": self.events.latency_cycles}),
        }

    def rows(self) -> list[JsonObject]:
        """One row for every distinct layer."""
        if isinstance(self.result, Infeasible):
            return []
        found: list[JsonObject] = []
        for layer in self.result.layers:
            cost = layer.mapped.cost
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


def map_loaded(
    network: Network,
    architecture: Architecture,
    mapper: Mapper,
    options: MapOptions,
    constraints_of: ConstraintsOf,
    progress: Progress | None = None,
) -> MappedNetwork:
    """Every distinct layer of a network with the best mapping that a mapper finds."""
    found = map_network(
        network, architecture, mapper, options.judged(), constraints_of=constraints_of, progress=progress
    )
    mapped = MappedNetwork(found, network, architecture, constraints_of=constraints_of, uneven=options.uneven)
    return _timed_network(mapped, options)


def evaluate_loaded(
    network: Network, architecture: Architecture, mappings: MappingABC[LayerKey, Mapping], options: MapOptions
) -> MappedNetwork:
    """What a network costs with mappings that are given, by layer."""
    judged = evaluate_network(network, architecture, mappings, options.judged())
    return _timed_network(MappedNetwork(judged, network, architecture), options)


def _timed_network(network: MappedNetwork, options: MapOptions) -> MappedNetwork:
    """The network with every layer simulated, where that is asked for."""
    if isinstance(network.result, Infeasible):
        return network
    return replace(network, events=options.timing.of_network(network.result))
