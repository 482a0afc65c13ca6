"""`MappedLayer`: one layer on one accelerator with a mapping, searched for or given."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

from codesign.arch.architecture import Architecture
from codesign.arch.technology_files import provenance_of
from codesign.core.errors import UserError
from codesign.core.goals import Objective, Proof
from codesign.core.json_types import JsonObject
from codesign.cost.cost import Cost, Infeasible
from codesign.cost.cost import evaluate as evaluate_mapping
from codesign.library.map_options import DEFAULT_OPTIONS, MapOptions
from codesign.library.results import AbstractResult
from codesign.library.timing import event_document
from codesign.mappers.protocol import MapResult
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.mapping import Mapping
from codesign.workloads.computation import Computation

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from codesign.timing.simulate import Run


@final
@dataclass(frozen=True)
class MappedLayer(AbstractResult):
    """One layer on one accelerator with a mapping.

    Args:
        computation: The layer.
        architecture: The accelerator.
        result: The mapping, its cost and its proof; of a given mapping, its cost alone.
        posed: What was searched; None of a given mapping.
        options: How.
        run: Simulated, with the event tier.
        run_seconds: That the simulation took.
    """

    computation: Computation
    architecture: Architecture
    result: MapResult
    posed: MappingProblem | None = None
    options: MapOptions = DEFAULT_OPTIONS
    run: "Run | None" = None
    run_seconds: float = 0.0

    @property
    def feasible(self) -> bool:
        """Whether there is a mapping."""
        return self.result.cost is not None

    @property
    def infeasible(self) -> Infeasible | None:
        """Why the layer has no mapping; None if it has one."""
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
        """Of the layer; simulated where the event tier was asked for."""
        return self.cost.latency_cycles if self.run is None else self.run.latency_cycles

    @property
    def latency_s(self) -> float:
        """Of the layer at the architecture's clock."""
        return self.latency_cycles / self.architecture.clock_hz

    @property
    def energy_pj(self) -> float:
        """Of the layer, leakage apart."""
        return self.cost.energy_pj

    @property
    def edp(self) -> float:
        """Energy times latency, pJ x cycle."""
        return self.energy_pj * self.latency_cycles

    @property
    def proof(self) -> Proof:
        """What is known of optimality."""
        return self.result.proof

    @property
    def gap(self) -> float | None:
        """(value - bound) / bound; 0 when optimal; None when nothing is known."""
        return self.result.gap

    @property
    def mapped_computation(self) -> Computation:
        """The layer that the mapping is one of: with padded bounds, where these were found better."""
        padding = self.result.padding
        sizes = {} if padding is None else {dim: size for dim, _, size in padding.changed}
        return self.computation.with_bounds(**sizes) if sizes else self.computation

    def event_json(self) -> JsonObject:
        """What the event tier adds to, or replaces in, the analytical figures; nothing without it."""
        if self.result.cost is None or self.run is None:
            return {}
        return event_document(self.result.cost, self.run, self.architecture, self.run_seconds + self.result.seconds)

    def to_json(self) -> JsonObject:
        """See `AbstractResult`."""
        document = self.result.to_json()
        if self.result.cost is None:
            return document
        provenance = provenance_of(self.architecture.technology)
        return {**self.result.cost.to_json(), **document, "provenance": provenance, **self.event_json()}

    @property
    def certifiable(self) -> bool:
        """Whether a mapping was searched and is proven, or with imperfect factors or uneven mappings how near it is."""
        near = (self.options.imperfect or self.options.uneven) and self.proof is Proof.GAP
        return self.posed is not None and self.mapping is not None and (self.proof is Proof.OPTIMAL or near)

    def certificate(self) -> JsonObject:
        """What `codesign verify` needs to check that the mapping is optimal; with imperfect factors, how near it is.

        Raises:
            UserError: The mapping is not proven, or certificates do not cover how it was searched.
        """
        from codesign.verify import certificate
        from codesign.verify.even.claims import certify

        options = self.options
        given = {
            "pad": options.pad,
            "timing": options.timing.event,
            "reuse": options.reuse != MapOptions.reuse,
        }
        for name, present in given.items():
            if present:
                raise UserError(f"no certificate covers `{name}`", hint="search again without it")
        if self.posed is None or self.result.mapping is None or not self.certifiable:
            raise UserError("there is no proof to certify", hint="search with the mapper 'exact' and time enough")
        objective = Objective.parse(options.objective)
        return certificate(
            certify(self.posed, objective, self.result.mapping, self.result.shown(objective), uneven=options.uneven)
        )

    def headline(self) -> JsonObject:
        """See `AbstractResult`."""
        head: JsonObject = {"layer": str(self.computation), "architecture": self.architecture.name}
        if self.result.cost is None:
            return {**head, "infeasible": str(self.result.infeasible or "no mapping exists")}
        cost = self.result.cost
        return {
            **head,
            "latency_cycles": self.latency_cycles,
            "energy_pj": cost.energy_pj,
            "utilization": cost.utilization,
            "bottleneck": cost.bottleneck if self.run is None else self.run.bound_by,
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


def map_problem(problem: MappingProblem, options: MapOptions) -> MappedLayer:
    """The best mapping of one layer with the constraints on it, not yet simulated."""
    result = options.searcher(problem.architecture).map(
        problem, options.goal, budget=options.budget, seed=options.seed, reuse=options.rule
    )
    return MappedLayer(problem.computation, problem.architecture, result, problem, options)


def evaluate_layer(
    computation: Computation, architecture: Architecture, mapping: Mapping, options: MapOptions
) -> MappedLayer:
    """What one layer costs with a mapping that is given."""
    cost = evaluate_mapping(computation, architecture, mapping, reuse=options.rule, imperfect=options.imperfect)
    if isinstance(cost, Infeasible):
        return MappedLayer(computation, architecture, MapResult(None, None, cost, 1, 0.0), options=options)
    return timed(MappedLayer(computation, architecture, MapResult(mapping, cost, None, 1, 0.0), options=options))


def timed(layer: MappedLayer) -> MappedLayer:
    """The layer with its mapping simulated, where that is asked for."""
    timing, found = layer.options.timing, layer.result
    if not timing.event or found.mapping is None:
        return layer
    run, seconds = timing.run(layer.mapped_computation, layer.architecture, found.mapping, layer.options.rule)
    if isinstance(run, Infeasible):
        return replace(layer, result=replace(found, mapping=None, cost=None, infeasible=run))
    return replace(layer, run=run, run_seconds=seconds)
