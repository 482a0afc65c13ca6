"""Judges that schedule networks as wholes: by SoMa, as trees of segments on many cores, fused, or by COSMA's traffic."""

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.evaluation.choices import Chosen
from codesign.evaluation.design import DesignSpace
from codesign.evaluation.judge import Judge
from codesign.evaluation.records import WorkloadRecord
from codesign.evaluation.specification import SEGMENTS, BetweenLayers, JudgeSpec, WorkloadSpec

if TYPE_CHECKING:
    from codesign.scheduling.cosma.objective import Quantity
    from codesign.scheduling.soma.model.load import Source

COSMA_TIME_LIMIT_S = 10.0
FUSED_TIME_LIMIT_S = 20.0
"""Seconds for each schedule that cannot be solved exactly."""


class _Named(Protocol):
    """A network in any form."""

    @property
    def name(self) -> str:
        """The judge's name as studies record it."""


def soma_judge(workload: WorkloadSpec, how: JudgeSpec, space: DesignSpace, seed: int, chosen: Chosen | None) -> Judge:
    """Judge designs by SoMa's schedules of whole networks on its accelerator template."""
    assert chosen is None  # `space_with_choices` refuses choices here
    from codesign.evaluation.scheduled import ScheduledEvaluator, TemplateSpace
    from codesign.scheduling.soma.search.two_stages import SearchOptions

    if not isinstance(space, TemplateSpace):
        raise UserError(
            f"--scheduler soma needs a space of its accelerator template, got {space.name!r}",
            hint="soma-edge or soma-cloud",
        )
    _refuse_layer_fields(how)
    sources, batch = _graphs(workload)
    weights = workload.all_weights
    options = SearchOptions(how.budget, seed=seed)
    objective = _objective(how)
    graphs = tuple((source.graph, weight) for source, weight in zip(sources, weights, strict=True))
    evaluator = ScheduledEvaluator(space, graphs, batch, objective, options)
    names = [source.graph.name for source in sources]
    operators = sum(len(s.graph.layers) for s in sources)
    return Judge(
        evaluator,
        _record(workload, [source.graph for source in sources]),
        {"name": "soma", "chains": options.chains},
        {
            "scheduler": "soma",
            "objective": objective.value,
            "time_limit_s": how.time_limit_s,
            "evaluations": how.evaluations,
        },
        f"{' + '.join(names)}: {operators} operators, {sum(s.batch * s.graph.macs for s in sources) / 1e9:.3g} GMACs, "
        f"{sum(s.graph.weight_bytes for s in sources):,} bytes of weights; fused and scheduled as a whole",
    )


def segments_judge(
    workload: WorkloadSpec, how: JudgeSpec, space: DesignSpace, seed: int, chosen: Chosen | None
) -> Judge:
    """Judge systems of many cores by trees of segments of whole networks."""
    assert chosen is None  # `space_with_choices` refuses choices here
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
    objective = _objective(how)
    weights = workload.all_weights
    networks = tuple((segment_network(s.graph), weight) for s, weight in zip(sources, weights, strict=True))
    settings = settings_for(objective, how.budget, seed)
    evaluator = SegmentsEvaluator(space, networks, batch, settings)
    names = [source.graph.name for source in sources]
    return Judge(
        evaluator,
        _record(workload, [source.graph for source in sources]),
        {"name": SEGMENTS},
        {
            "scheduler": SEGMENTS,
            "objective": objective.value,
            "time_limit_s": how.time_limit_s,
            "evaluations": settings.steps,
        },
        f"{' + '.join(names)}: {sum(len(n.layers) for n, _ in networks)} layers, "
        f"{sum(s.batch * s.graph.macs for s in sources) / 1e9:.3g} GMACs, batch {evaluator.batch}; "
        "scheduled as trees of pipelines on systems of many cores",
    )


def fused_judge(workload: WorkloadSpec, how: JudgeSpec, space: DesignSpace, seed: int, chosen: Chosen | None) -> Judge:
    """Judge designs by fused schedules of whole networks, with every operator's own mapping."""
    assert chosen is None  # `space_with_choices` refuses choices here
    from codesign.evaluation.fused_networks import FusedEvaluator
    from codesign.workloads.load import load_network

    _refuse_layer_fields(how)
    if how.evaluations is not None:
        raise UserError("--evaluations does not apply to --scheduler fused", hint="--time-limit bounds each schedule")
    networks = [
        load_network(name, bits=space.bits, partial_bits=space.partial_bits, fuse=False, **workload.lengths_of(name))
        for name in workload.networks
    ]
    weights = workload.all_weights
    objective = _objective(how)
    evaluator = FusedEvaluator(
        space, tuple(zip(networks, weights, strict=True)), objective, Budget(how.time_limit_s or FUSED_TIME_LIMIT_S)
    )
    names = [network.name for network in networks]
    return Judge(
        evaluator,
        _record(workload, networks),
        {"name": "fused"},
        {"scheduler": "fused", "objective": objective.value, "time_limit_s": evaluator.budget.time_limit_s},
        f"{' + '.join(names)}: {sum(len(n.operators) for n in networks)} operators, "
        f"{sum(n.macs for n in networks) / 1e9:.3g} GMACs; fused with every operator's own mapping, proven or with its gap",
    )


def cosma_judge(workload: WorkloadSpec, how: JudgeSpec, space: DesignSpace, seed: int, chosen: Chosen | None) -> Judge:
    """Judge designs by off-chip traffic of the best order and spills."""
    assert chosen is None  # `space_with_choices` refuses choices here
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
    weights = workload.all_weights
    evaluator = TrafficEvaluator(space, tuple(zip(graphs, weights, strict=True)), quantity, effort)
    names = [graph.name for graph in graphs]
    operators = sum(len(g.operators) for g in graphs)
    return Judge(
        evaluator,
        _record(workload, graphs),
        {"name": "cosma"},
        {"scheduler": "cosma", "objective": quantity.value, "time_limit_s": effort.time_limit_s},
        f"{' + '.join(names)}: {operators} operators, {sum(g.macs for g in graphs) / 1e9:.3g} GMACs; off-chip traffic of the best order and spills",
    )


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


def _objective(how: JudgeSpec) -> Objective:
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
