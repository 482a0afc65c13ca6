"""What `codesign explore` judges designs by: layers mapped one by one, or the whole network scheduled; dear and cheap."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, cast

from codesign.arch.architecture import Ports
from codesign.core.errors import UserError, unknown_name
from codesign.core.goals import Budget, Objective
from codesign.evaluation.design import AS_BUILT, DesignEvaluator, DesignSpace, Evaluation, WithDramPorts
from codesign.evaluation.network import EvaluationOptions, with_effort
from codesign.mappers.registry import create as create_mapper
from codesign.workloads.load import load_network
from codesign.workloads.network_json import content_hash
from codesign.workloads.traffic import Activations, TrafficRules, Weights
from codesign.workloads.workload import Workload

if TYPE_CHECKING:
    from codesign.cli.explore_request import ExploreRequest
    from codesign.evaluation.scheduled import TemplateSpace
    from codesign.scheduling.cosma.objective import Quantity

DEFAULT_MAPPER, CHEAP_MAPPER = "exact", "anneal"

_OBJECTIVE = Objective.EDP.value
"""What each mapping or schedule minimises when nothing is said (COSMA: bytes)."""

SCHEDULERS = ("layers", "soma", "cosma")


@dataclass(frozen=True)
class Judge:
    """An evaluator, and what a study records of it.

    Args:
        evaluate: From a design to its metrics; plain data, so it can be sent to other processes.
        workload: Names, hashes, weights and so on of the networks.
        mapper: Name and options of the inner search.
        evaluation: Options of the evaluation.
        headline: What runs, for the first line of output.
    """

    evaluate: Callable[[dict[str, Any]], Evaluation]
    workload: dict[str, Any]
    mapper: dict[str, Any]
    evaluation: dict[str, Any]
    headline: str


def make_judge(request: "ExploreRequest", space: DesignSpace) -> Judge:
    """The judge that the options ask for.

    Raises:
        UserError: Options that do not go together, an unknown scheduler, mapper or network.
    """
    made = {"layers": _layer_judge, "soma": _soma_judge, "cosma": _cosma_judge}
    if request.scheduler not in made:
        raise unknown_name("scheduler", request.scheduler, SCHEDULERS)
    if request.dram_ports is not None and request.scheduler != "layers":
        raise UserError(
            f"--dram-ports is used with --scheduler layers, not {request.scheduler}",
            hint="schedulers of whole networks read DRAM as one channel",
        )
    if (request.workload is None) == (not request.networks):
        raise UserError("expected --network or --workload", hint="a zoo name or ONNX file, or what is served as YAML")
    judge = (made[request.scheduler] if request.workload is None else _serving_judge)(request, space)
    if not request.metrics:
        return judge
    from codesign.evaluation.own_metrics import WithOwnMetrics

    return replace(judge, evaluate=WithOwnMetrics(judge.evaluate, space, request.metrics))


def make_cheap_judge(request: "ExploreRequest", space: DesignSpace) -> Judge:
    """The same workload on a small budget: what `--fidelity two` evaluates first."""
    mapper = request.cheap_mapper or (CHEAP_MAPPER if request.scheduler == "layers" else None)
    cheap = replace(request, mapper=mapper, time_limit_s=None, evaluations=request.cheap_evaluations)
    if request.scheduler != "layers" and request.cheap_mapper is not None:
        raise UserError(f"--cheap-mapper is used with --scheduler layers, not {request.scheduler}")
    return make_judge(cheap, space)


# ---- layer by layer --------------------------------------------------------------------------------


def _layer_judge(request: "ExploreRequest", space: DesignSpace) -> Judge:
    workload = load_workload(request, space)
    options = _layer_options(request)
    mapper = with_effort(create_mapper(request.mapper or DEFAULT_MAPPER), options.budget)
    evaluation = {
        "objective": request.map_objective or _OBJECTIVE,
        "time_limit_s": request.time_limit_s,
        "evaluations": request.evaluations,
        "dram_ports": request.dram_ports or AS_BUILT,
        "activations": request.activations,
        "activation_bytes": request.activation_bytes,
        "resident_weights": request.resident_weights,
    }
    return Judge(
        DesignEvaluator(_with_ports(request, space), workload, mapper, options),
        {
            **_workload_json(request),
            "names": [n.name for n in workload.networks],
            "hashes": [content_hash(n) for n in workload.networks],
            "weights": list(workload.weights),
        },
        {"name": mapper.name, **{f.name: getattr(mapper, f.name) for f in fields(mapper)}},  # type: ignore[arg-type]
        evaluation,
        f"{workload.name}: {sum(len(n.operators) for n in workload.networks)} operators, "
        f"{len(workload.distinct_layers())} distinct layers, {workload.macs / 1e9:.3g} GMACs, "
        f"{sum(n.weight_bytes for n in workload.networks):,} bytes of weights",
    )


def _serving_judge(request: "ExploreRequest", space: DesignSpace) -> Judge:
    from codesign.evaluation.serving import ServingEvaluator
    from codesign.workloads.serving import read_serving

    assert request.workload is not None
    given = {
        "--scheduler": request.scheduler != "layers",
        "--batch": request.batch is not None,
        "--seq": request.seq is not None,
        "--past": request.past is not None,
        "--phase": request.phase is not None,
        "--dims": request.dims is not None,
        "--weights": bool(request.weights),
    }
    for option, present in given.items():
        if present:
            raise UserError(f"{option} plays no part with --workload", hint="the file says what is served")
    spec = read_serving(request.workload)
    options = _layer_options(request)
    mapper = with_effort(create_mapper(request.mapper or DEFAULT_MAPPER), options.budget)
    text = request.workload.read_bytes()
    return Judge(
        ServingEvaluator(_with_ports(request, space), spec, mapper, options),
        {
            **_workload_json(request),
            "serving": str(request.workload),
            "names": [spec.name],
            "hashes": [hashlib.sha256(text).hexdigest()[:16]],
            "weights": [1.0],
        },
        {"name": mapper.name, **{f.name: getattr(mapper, f.name) for f in fields(mapper)}},  # type: ignore[arg-type]
        {
            "objective": request.map_objective or _OBJECTIVE,
            "time_limit_s": request.time_limit_s,
            "evaluations": request.evaluations,
        },
        f"{spec.name} served: batch {spec.batch} on {spec.chips.count} chips, {spec.mean_output:g} output tokens a request; "
        "latency is the time per output token, energy that of one",
    )


def _with_ports(request: "ExploreRequest", space: DesignSpace) -> DesignSpace:
    if request.dram_ports is None:
        return space
    try:
        return WithDramPorts(space, Ports(request.dram_ports))
    except ValueError:
        raise unknown_name("--dram-ports", request.dram_ports, [p.value for p in Ports]) from None


def load_workload(request: "ExploreRequest", space: DesignSpace) -> Workload:
    """The networks of the command line at the widths of the hardware."""
    networks = [
        load_network(
            name,
            batch=request.batch,
            seq=request.seq,
            past=request.past,
            phase=request.phase,
            dims=request.dims,
            bits=space.bits,
            partial_bits=space.partial_bits,
        )
        for name in request.networks
    ]
    return Workload.of(networks, request.weights)


def _layer_options(request: "ExploreRequest") -> EvaluationOptions:
    try:
        activations = Activations(request.activations)
    except ValueError:
        raise UserError(f"--activations must be dram or kept, got {request.activations!r}") from None
    if activations is Activations.DRAM and request.activation_bytes:
        raise UserError("--activation-buffer is used with --activations kept only")
    if activations is Activations.KEPT and not request.activation_bytes:
        raise UserError("--activations kept needs --activation-buffer, the memory to keep them in")
    return EvaluationOptions(
        objective=Objective.parse(request.map_objective or _OBJECTIVE),
        budget=Budget(request.time_limit_s, request.evaluations),
        seed=request.seed,
        rules=TrafficRules(
            activations=activations, weights=Weights.RESIDENT if request.resident_weights else Weights.PER_RUN
        ),
        activation_bytes=request.activation_bytes,
    )


def _workload_json(request: "ExploreRequest") -> dict[str, Any]:
    return {
        "networks": list(request.networks),
        "batch": request.batch,
        "seq": request.seq,
        "past": request.past,
        "phase": request.phase,
        "dims": request.dims,
    }


# ---- whole networks --------------------------------------------------------------------------------


def _soma_judge(request: "ExploreRequest", space: DesignSpace) -> Judge:
    from codesign.evaluation.scheduled import ScheduledEvaluator
    from codesign.scheduling.soma.model.load import load_graph
    from codesign.scheduling.soma.search.two_stages import SearchOptions

    if not hasattr(space, "hardware"):
        raise UserError(
            f"--scheduler soma needs a space of its accelerator template, got {space.name!r}",
            hint="soma-edge or soma-cloud",
        )
    _refuse_layer_options(request)
    sources = [
        load_graph(n, phase=request.phase, seq=request.seq, past=request.past, batch=request.batch, dims=request.dims)
        for n in request.networks
    ]
    batches = {s.batch for s in sources}
    if len(batches) > 1:
        raise UserError(f"the networks are of different batches: {sorted(batches)}", hint="give --batch")
    weights = _weights(request)
    options = SearchOptions(Budget(request.time_limit_s, request.evaluations), seed=request.seed)
    graphs = tuple((source.graph, weight) for source, weight in zip(sources, weights, strict=True))
    evaluator = ScheduledEvaluator(
        cast("TemplateSpace", space),
        graphs,
        batches.pop(),
        Objective.parse(request.map_objective or _OBJECTIVE),
        options,
    )
    names = [source.graph.name for source in sources]
    return Judge(
        evaluator,
        {
            **_workload_json(request),
            "names": names,
            "hashes": [hashlib.sha256(repr(source.graph).encode()).hexdigest()[:16] for source in sources],
            "weights": list(weights),
        },
        {"name": "soma", "chains": options.chains},
        {
            "scheduler": "soma",
            "objective": request.map_objective or _OBJECTIVE,
            "time_limit_s": request.time_limit_s,
            "evaluations": request.evaluations,
        },
        f"{' + '.join(names)}: {sum(len(s.graph.layers) for s in sources)} operators, "
        f"{sum(s.batch * s.graph.macs for s in sources) / 1e9:.3g} GMACs, "
        f"{sum(s.graph.weight_bytes for s in sources):,} bytes of weights; fused and scheduled as a whole",
    )


def _refuse_layer_options(request: "ExploreRequest") -> None:
    given = {
        "--mapper": request.mapper is not None,
        "--activations": request.activations != "dram",
        "--activation-buffer": request.activation_bytes != 0,
        "--resident-weights": request.resident_weights,
    }
    for option, present in given.items():
        if present:
            raise UserError(
                f"{option} is of --scheduler layers; --scheduler {request.scheduler} decides it itself",
                hint=f"leave out {option}",
            )


def _weights(request: "ExploreRequest") -> tuple[float, ...]:
    weights = request.weights or (1.0,) * len(request.networks)
    if len(weights) != len(request.networks):
        raise UserError(f"expected {len(request.networks)} weights, one per network, got {len(weights)}")
    return weights


COSMA_TIME_LIMIT_S = 10.0
"""Seconds for each schedule that cannot be solved exactly."""


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


def _cosma_judge(request: "ExploreRequest", space: DesignSpace) -> Judge:
    from codesign.evaluation.traffic import TrafficEvaluator
    from codesign.scheduling.cosma.load import load_graph
    from codesign.scheduling.cosma.solve import Effort

    _refuse_layer_options(request)
    quantity = _traffic_quantity(request.map_objective)
    if request.evaluations is not None:
        raise UserError("--evaluations does not apply to --scheduler cosma", hint="--time-limit bounds each schedule")
    graphs = [
        load_graph(
            name,
            bits=space.bits,
            batch=request.batch,
            seq=request.seq,
            past=request.past,
            phase=request.phase,
            dims=request.dims,
        ).without_parameters()
        for name in request.networks
    ]
    effort = Effort(time_limit_s=request.time_limit_s or COSMA_TIME_LIMIT_S, seed=request.seed)
    weights = _weights(request)
    evaluator = TrafficEvaluator(space, tuple(zip(graphs, weights, strict=True)), quantity, effort)
    names = [graph.name for graph in graphs]
    return Judge(
        evaluator,
        {
            **_workload_json(request),
            "names": names,
            "hashes": [hashlib.sha256(repr(graph).encode()).hexdigest()[:16] for graph in graphs],
            "weights": list(weights),
        },
        {"name": "cosma"},
        {"scheduler": "cosma", "objective": quantity.value, "time_limit_s": effort.time_limit_s},
        f"{' + '.join(names)}: {sum(len(g.operators) for g in graphs)} operators, "
        f"{sum(g.macs for g in graphs) / 1e9:.3g} GMACs; off-chip traffic of the best order and spills",
    )
