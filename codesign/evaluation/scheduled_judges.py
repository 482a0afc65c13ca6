"""Judges that schedule networks as wholes: by SoMa, as trees of segments on many cores, fused, or by COSMA's traffic."""

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.core.json_types import JsonObject
from codesign.core.point import Point
from codesign.evaluation.design import DesignSpace, Evaluation
from codesign.evaluation.judge import Judge
from codesign.evaluation.records import EvaluationRecord, WorkloadRecord
from codesign.evaluation.specification import SEGMENTS, BetweenLayers, JudgeSpec, WorkloadSpec

if TYPE_CHECKING:
    from codesign.scheduling.cosma.objective import Quantity
    from codesign.scheduling.soma.model.load import Source

N = TypeVar("N")

COSMA_TIME_LIMIT_S = 10.0
FUSED_TIME_LIMIT_S = 20.0
"""Seconds for each schedule that cannot be solved exactly."""


class _Named(Protocol):
    """A network in any form."""

    @property
    def name(self) -> str:
        """The judge's name as studies record it."""


def soma_judge(workload: WorkloadSpec, how: JudgeSpec, space: DesignSpace, seed: int) -> Judge:
    """Judge designs by SoMa's schedules of whole networks on its accelerator template."""
    from codesign.evaluation.scheduled import ScheduledEvaluator, TemplateSpace
    from codesign.scheduling.soma.search.two_stages import SearchOptions

    if not isinstance(space, TemplateSpace):
        raise UserError(
            f"--scheduler soma needs a space of its accelerator template, got {space.name!r}",
            hint="soma-edge or soma-cloud",
        )
    _refuse_layer_fields(how)
    sources, batch = _graphs(workload)
    graphs = [source.graph for source in sources]
    options = SearchOptions(how.budget, seed=seed)
    objective = objective_of(how)
    return _judge(
        ScheduledEvaluator(space, _weighted(graphs, workload), batch, objective, options),
        _record(workload, graphs),
        {"name": "soma", "chains": options.chains},
        {"objective": objective.value, "time_limit_s": how.time_limit_s, "evaluations": how.evaluations},
        f"{sum(len(graph.layers) for graph in graphs)} operators, {_giga_macs(sources)} GMACs, "
        f"{sum(graph.weight_bytes for graph in graphs):,} bytes of weights; fused and scheduled as a whole",
    )


def segments_judge(workload: WorkloadSpec, how: JudgeSpec, space: DesignSpace, seed: int) -> Judge:
    """Judge systems of many cores by trees of segments of whole networks."""
    from codesign.evaluation.many_cores import SegmentsEvaluator, SystemSpace
    from codesign.scheduling.segments.network_layers import segment_network
    from codesign.scheduling.segments.scheduler import settings_for

    if not isinstance(space, SystemSpace):
        raise UserError(
            f"--scheduler segments needs a space of systems of many cores, got {space.name!r}",
            hint="--space manycore, or a file of your own with `system:`",
        )
    _refuse_layer_fields(how)
    sources, batch = _graphs(workload)
    objective = objective_of(how)
    networks = [segment_network(source.graph) for source in sources]
    settings = settings_for(objective, how.budget, seed)
    return _judge(
        SegmentsEvaluator(space, _weighted(networks, workload), batch, settings),
        _record(workload, [source.graph for source in sources]),
        {"name": SEGMENTS},
        {"objective": objective.value, "time_limit_s": how.time_limit_s, "evaluations": settings.steps},
        f"{sum(len(n.layers) for n in networks)} layers, {_giga_macs(sources)} GMACs, batch {batch}; "
        "scheduled as trees of pipelines on systems of many cores",
    )


def fused_judge(workload: WorkloadSpec, how: JudgeSpec, space: DesignSpace, seed: int) -> Judge:
    """Judge designs by fused schedules of whole networks, with every operator's own mapping."""
    from codesign.evaluation.fused_networks import FusedEvaluator
    from codesign.workloads.load import load_network

    _refuse_layer_fields(how)
    if how.evaluations is not None:
        raise UserError("--evaluations does not apply to --scheduler fused", hint="--time-limit bounds each schedule")
    networks = [
        load_network(name, bits=space.bits, partial_bits=space.partial_bits, fuse=False, **workload.lengths_of(name))
        for name in workload.networks
    ]
    objective, limit_s = objective_of(how), how.time_limit_s or FUSED_TIME_LIMIT_S
    return _judge(
        FusedEvaluator(space, _weighted(networks, workload), objective, Budget(limit_s)),
        _record(workload, networks),
        {"name": "fused"},
        {"objective": objective.value, "time_limit_s": limit_s},
        f"{sum(len(n.operators) for n in networks)} operators, {sum(n.macs for n in networks) / 1e9:.3g} GMACs; "
        "fused with every operator's own mapping, proven or with its gap",
    )


def cosma_judge(workload: WorkloadSpec, how: JudgeSpec, space: DesignSpace, seed: int) -> Judge:
    """Judge designs by off-chip traffic of the best order and spills."""
    from codesign.evaluation.traffic import TrafficEvaluator
    from codesign.scheduling.cosma.load import load_graph
    from codesign.scheduling.cosma.solve import Effort

    _refuse_layer_fields(how)
    quantity = _traffic_quantity(how.objective)
    if how.evaluations is not None:
        raise UserError("--evaluations does not apply to --scheduler cosma", hint="--time-limit bounds each schedule")
    graphs = [
        load_graph(name, bits=space.bits, **workload.lengths_of(name)).without_parameters()
        for name in workload.networks
    ]
    effort = Effort(time_limit_s=how.time_limit_s or COSMA_TIME_LIMIT_S, seed=seed)
    return _judge(
        TrafficEvaluator(space, _weighted(graphs, workload), quantity, effort),
        _record(workload, graphs),
        {"name": "cosma"},
        {"objective": quantity.value, "time_limit_s": effort.time_limit_s},
        f"{sum(len(g.operators) for g in graphs)} operators, {sum(g.macs for g in graphs) / 1e9:.3g} GMACs; "
        "off-chip traffic of the best order and spills",
    )


def _judge(
    evaluate: Callable[[Point], Evaluation],
    workload: WorkloadRecord,
    mapper: JsonObject,
    evaluation: EvaluationRecord,
    headline: str,
) -> Judge:
    """A judge by the scheduler that the mapper's record names; the headline is what follows the networks' names."""
    recorded: EvaluationRecord = {"scheduler": str(mapper["name"]), **evaluation}
    return Judge(evaluate, workload, mapper, recorded, f"{' + '.join(workload['names'])}: {headline}")


def _weighted(networks: Sequence[N], workload: WorkloadSpec) -> tuple[tuple[N, float], ...]:
    """Networks, each with how often it runs."""
    return tuple(zip(networks, workload.all_weights, strict=True))


def _giga_macs(sources: "Sequence[Source]") -> str:
    return f"{sum(s.batch * s.graph.macs for s in sources) / 1e9:.3g}"


def _traffic_quantity(name: str | None) -> "Quantity":
    """What COSMA minimises over off-chip traffic: a sum over transfers, so no energy-delay product."""
    from codesign.scheduling.cosma.objective import Quantity

    known = {quantity.value: quantity for quantity in Quantity}
    if name is not None and name not in known:
        raise UserError(
            f"--map-objective {name} is not one that --scheduler cosma minimises: {', '.join(known)}",
            hint="leave it out for bytes, or use --scheduler layers or soma",
        )
    return Quantity.BYTES if name is None else known[name]


def _graphs(workload: WorkloadSpec) -> "tuple[list[Source], int]":
    """The networks as graphs of layers, and the batch that they share.

    Raises:
        UserError: They are of different batches.
    """
    from codesign.scheduling.soma.model.load import load_graph

    sources = [load_graph(name, **workload.lengths_of(name)) for name in workload.networks]
    batches = {s.batch for s in sources}
    if len(batches) > 1:
        raise UserError(f"the networks are of different batches: {sorted(batches)}", hint="give --batch")
    return sources, batches.pop()


def objective_of(how: JudgeSpec) -> Objective:
    """What mappings and schedules minimise unless they are COSMA's."""
    return Objective.EDP if how.objective is None else Objective.parse(how.objective)


def _record(workload: WorkloadSpec, graphs: Sequence[_Named]) -> WorkloadRecord:
    """What a study records of the networks."""
    names, hashes = [g.name for g in graphs], [_hash(g) for g in graphs]
    return {**workload.record(), "names": names, "hashes": hashes, "weights": list(workload.all_weights)}


def _hash(graph: object) -> str:
    return hashlib.sha256(repr(graph).encode()).hexdigest()[:16]


def _refuse_layer_fields(how: JudgeSpec) -> None:
    plain, between = BetweenLayers(), how.between_layers
    given = {
        "--mapper": how.mapper is not None,
        "--activations": between.activations != plain.activations,
        "--activation-buffer": between.activation_bytes != plain.activation_bytes,
        "--resident-weights": between.resident_weights,
    }
    for option, present in given.items():
        if present:
            raise UserError(
                f"{option} is of --scheduler layers; --scheduler {how.scheduler} decides it itself",
                hint=f"leave out {option}",
            )
