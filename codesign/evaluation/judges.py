"""What designs are judged by: layers mapped one by one, or the whole network scheduled; at high and low fidelity."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import final

from codesign.arch.zero_support import ZeroSupport
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.core.json_types import JsonObject
from codesign.core.point import Point
from codesign.evaluation.choices import ZERO_SUPPORT, Choices, Chosen, choices_of, partial_bits
from codesign.evaluation.design import (
    AS_BUILT,
    DesignEvaluator,
    DesignSpace,
    Evaluation,
    SpaceWithChoices,
)
from codesign.evaluation.generated import check_machines, is_generated, with_ports
from codesign.evaluation.judge import Judge
from codesign.evaluation.network import EvaluationOptions, with_effort
from codesign.evaluation.own_metrics import MetricFunction, WithOwnMetrics
from codesign.evaluation.records import EvaluationRecord
from codesign.evaluation.robust import (
    BANDWIDTH,
    RobustEvaluator,
    WithTechnology,
    need_bandwidth,
    parse_ranges,
    workloads_of,
)
from codesign.evaluation.scheduled_judges import cosma_judge, fused_judge, objective_of, segments_judge, soma_judge
from codesign.evaluation.serving import ServingEvaluator
from codesign.evaluation.specification import (
    ANALYTICAL,
    EVENT,
    PARETO,
    SEGMENTS,
    STRONGEST,
    BetweenLayers,
    ChoicesSpec,
    JudgeSpec,
    WorkloadSpec,
)
from codesign.evaluation.strongest import strongest
from codesign.evaluation.timed import EventEvaluator
from codesign.mappers.protocol import Mapper
from codesign.mappers.registry import create as create_mapper
from codesign.workloads.load import load_network
from codesign.workloads.network import Network
from codesign.workloads.network_json import content_hash
from codesign.workloads.serving import ServingSpec, read_serving
from codesign.workloads.workload import Workload

DEFAULT_MAPPER, LOW_FIDELITY_MAPPER = "exact", "anneal"


def make_judge(
    workload: WorkloadSpec,
    how: JudgeSpec,
    space: DesignSpace,
    *,
    seed: int = 0,
    metrics: Sequence[tuple[str, MetricFunction]] = (),
) -> Judge:
    """The judge that is asked for.

    Args:
        workload: The networks.
        how: How they are run.
        space: Where designs come from.
        seed: Of stochastic searches.
        metrics: Functions of the user's own, by name.

    Raises:
        UserError: Fields that do not go together, an unknown mapper or network.
    """
    if how.robust:
        return _robust_judge(workload, how, space, seed, metrics)
    check_systems(how, space)
    if workload.serving is not None and how.scheduler != "layers":
        raise UserError(
            f"--scheduler {how.scheduler} plays no part with --workload", hint="requests are judged layer by layer"
        )
    check_timing(how, workload, space)
    choices = getattr(space, "choices", None)
    if how.scheduler == STRONGEST:
        name, judge, passed = strongest(lambda h: _JUDGES[h.scheduler](workload, h, space, seed), how, space)
        reasons = "".join(f"; not {reason}" for reason in passed)
        judge = replace(
            judge,
            evaluation={**judge.evaluation, "asked": STRONGEST, "passed_over": passed},
            headline=f"{judge.headline}\nstrongest scheduler: {name}{reasons}",
        )
    elif choices is not None:
        _refuse_choices(how)
        make = _layer_judge if workload.serving is None else _serving_judge
        chosen = [choices.of(point) for point in choices.combinations()]
        judge = _by_choice([make(workload, how, space, seed, c) for c in chosen], choices)
    else:
        judge = (_JUDGES[how.scheduler] if workload.serving is None else _serving_judge)(workload, how, space, seed)
    if not metrics:
        return judge
    return replace(judge, evaluate=WithOwnMetrics(judge.evaluate, space, tuple(metrics)))


def check_systems(how: JudgeSpec, space: DesignSpace) -> None:
    """Refuse systems of many cores with other schedulers than `segments`: their networks would not count."""
    if callable(getattr(space, "system", None)) and how.scheduler != SEGMENTS:
        raise UserError(
            f"space {space.name!r} is one of systems of many cores, which --scheduler {how.scheduler} does not know",
            hint=f"--scheduler {SEGMENTS}",
        )


def check_timing(how: JudgeSpec, workload: WorkloadSpec, space: DesignSpace) -> None:
    """Refuse what cannot be simulated, before anything is searched.

    Raises:
        UserError: Requests are served, or hardware does something about zeros.
    """
    if how.timing != EVENT:
        return
    if is_generated(how.timing_table) and how.dram_ports is not None:
        raise UserError(
            "--dram-ports plays no part with generated machines: they have a channel each way", hint="leave it out"
        )
    if workload.serving is not None:
        raise UserError("--timing event plays no part with --workload", hint="give networks with --network")
    choices = getattr(space, "choices", None)
    if choices is not None and any(s is not ZeroSupport.NONE for s in choices.supports):
        raise UserError(
            "--timing event plays no part with --zero-support: the event tier knows dense accesses only",
            hint="leave one out",
        )
    if is_generated(how.timing_table):
        check_machines(space)


def by_machines(how: JudgeSpec, space: DesignSpace) -> bool:
    """Whether every design is judged by the cycles of its generated machine, not the front alone after the search."""
    plain = not how.robust and how.per_design != PARETO and getattr(space, "choices", None) is None
    return how.timing == EVENT and is_generated(how.timing_table) and plain


def _robust_judge(
    workload: WorkloadSpec,
    how: JudgeSpec,
    space: DesignSpace,
    seed: int,
    metrics: Sequence[tuple[str, MetricFunction]],
) -> Judge:
    """The worst of every network alone and of what varies (docs/explanation/robust.md)."""
    if workload.serving is not None:
        raise UserError("--robust plays no part with --workload", hint="give networks with --network")
    if getattr(space, "choices", None) is not None:
        raise UserError("--robust plays no part with --precision, --zeros and --zero-support", hint="leave one out")
    if metrics:
        raise UserError(f"--robust takes no metric of your own, got {metrics[0][0]!r}: its worst case is not known")
    ranges = parse_ranges(how.vary)
    scenarios = workloads_of(workload, ranges)
    if len(scenarios) < 2 and not ranges.factors:
        raise UserError(
            "--robust needs something that varies",
            hint="several --network, or --vary dram=0.5:2, --vary dram_bandwidth=0.7:1, --vary seq=128,1024",
        )
    if BANDWIDTH in ranges.factors:
        need_bandwidth(space)
    constants, bandwidth = ranges.worst
    worst = WithTechnology(space, tuple(constants.items()), bandwidth)
    plain = replace(how, robust=False, vary=())
    judges = [(name, _layer_judge(alone, plain, worst, seed)) for name, alone in scenarios]
    evaluators = [(name, judge.evaluate) for name, judge in judges]
    whole = _layer_judge(workload, plain, worst, seed)
    names = "; ".join(name for name, _ in scenarios)
    return replace(
        whole,
        evaluate=RobustEvaluator(tuple((n, e) for n, e in evaluators if isinstance(e, DesignEvaluator))),
        evaluation={**whole.evaluation, "robust": True, "vary": list(how.vary)},
        headline=f"the worst of {len(scenarios)} workloads ({names})"
        + (f" under {', '.join(how.vary)}" if how.vary else ""),
    )


def low_fidelity(how: JudgeSpec, mapper: str | None, evaluations: int) -> JudgeSpec:
    """The same judge on a small budget.

    Args:
        how: The high-fidelity judge.
        mapper: Of low-fidelity evaluations; None for `LOW_FIDELITY_MAPPER`.
        evaluations: Mappings or schemes scored.

    Raises:
        UserError: A mapper is named where none is used.
    """
    if how.scheduler != "layers" and mapper is not None:
        raise UserError(f"--low-fidelity-mapper is used with --scheduler layers, not {how.scheduler}")
    chosen = mapper or (LOW_FIDELITY_MAPPER if how.scheduler == "layers" else None)
    return replace(analytical(how), mapper=chosen, time_limit_s=None, evaluations=evaluations)


def analytical(how: JudgeSpec) -> JudgeSpec:
    """The same judge without simulations."""
    return replace(how, timing=ANALYTICAL, timing_table=None)


# ---- layer by layer --------------------------------------------------------------------------------


def _layer_judge(
    workload: WorkloadSpec, how: JudgeSpec, space: DesignSpace, seed: int, chosen: Chosen | None = None
) -> Judge:
    plain = load_workload(workload, space)
    loaded = plain if chosen is None else Workload.of(chosen_networks(workload, space, chosen), workload.weights)
    options = options_of(objective_of(how), how.budget, seed, how.between_layers)
    mapper = with_effort(create_mapper(how.mapper or DEFAULT_MAPPER), options.budget)
    evaluator = DesignEvaluator(with_ports(space, how.timing_table, how.dram_ports), loaded, mapper, options)
    return Judge(
        EventEvaluator(evaluator, how.timing_table) if how.timing == EVENT else evaluator,
        {
            **workload.record(),
            "names": [n.name for n in loaded.networks],
            "hashes": [content_hash(n) for n in plain.networks],
            "weights": list(loaded.weights),
        },
        _mapper_record(mapper),
        _layers_record(how, options.objective),
        f"{loaded.name}: {sum(len(n.operators) for n in loaded.networks)} operators, "
        f"{len(loaded.distinct_layers())} distinct layers, {loaded.macs / 1e9:.3g} GMACs, "
        f"{sum(n.weight_bytes for n in loaded.networks):,} bytes of weights",
    )


def options_of(objective: Objective, budget: Budget, seed: int, between: BetweenLayers) -> EvaluationOptions:
    """How layers are mapped and networks summed."""
    return EvaluationOptions(objective, budget, seed, rules=between.rules(), activation_bytes=between.activation_bytes)


def chosen_networks(workload: WorkloadSpec, space: DesignSpace, chosen: Chosen) -> list[Network]:
    """The networks of a space with choices, at the precision and with the zeros that were chosen."""
    choices = space.choices  # type: ignore[attr-defined]  # only a space with choices has a `Chosen`
    wider = partial_bits(choices, chosen, space.bits, space.partial_bits)
    return [chosen.network(n) for n in load_networks(workload, space, wider)]


def _serving_judge(
    workload: WorkloadSpec, how: JudgeSpec, space: DesignSpace, seed: int, chosen: Chosen | None = None
) -> Judge:
    """Requests to a language model, layer by layer: rules V1 to V6 of docs/reference/serving.md."""
    assert workload.serving is not None
    asked = read_serving(workload.serving)
    plain = repr(asked)
    wider = space.partial_bits
    if chosen is not None:
        asked = asked.at(chosen.precision, chosen.zeros)
        wider = partial_bits(space.choices, chosen, space.bits, wider)  # type: ignore[attr-defined]
    options = options_of(objective_of(how), how.budget, seed, how.between_layers)
    mapper = with_effort(create_mapper(how.mapper or DEFAULT_MAPPER), options.budget)
    return Judge(
        ServingEvaluator(with_ports(space, how.timing_table, how.dram_ports), asked, mapper, options, wider),
        {
            **workload.record(),
            "names": [asked.name],
            "hashes": [hashlib.sha256(plain.encode()).hexdigest()[:16]],
            "weights": [1.0],
        },
        _mapper_record(mapper),
        _layers_record(how, options.objective),
        f"{asked.name} served: batch {asked.batch} on {asked.chips.count} chips, {asked.mean_output:g} output tokens a request; "
        "latency is the time per output token, energy that of one",
    )


def _mapper_record(mapper: Mapper) -> JsonObject:
    """Name and options, by which `codesign.evaluation.replay` makes it again.

    Those that only code sets are left out (metadata ``recorded: False``), and those younger than some studies unless they are
    set (``recorded: "set"``): such studies go on.
    """
    options: JsonObject = {"name": mapper.name}
    for option in fields(mapper):  # type: ignore[arg-type]
        value, when = getattr(mapper, option.name), option.metadata.get("recorded", True)
        if when is True or (when == "set" and value != option.default):
            options[option.name] = value
    return options


def _layers_record(how: JudgeSpec, objective: Objective) -> EvaluationRecord:
    between = how.between_layers
    timing: EvaluationRecord = {"timing": EVENT, "timing_table": how.timing_table} if how.timing == EVENT else {}
    return {
        "objective": objective.value,
        "time_limit_s": how.time_limit_s,
        "evaluations": how.evaluations,
        "dram_ports": how.dram_ports or AS_BUILT,
        "activations": between.activations,
        "activation_bytes": between.activation_bytes,
        "resident_weights": between.resident_weights,
        **timing,
    }


_JUDGES: dict[str, Callable[[WorkloadSpec, JudgeSpec, DesignSpace, int], Judge]] = {
    "layers": _layer_judge,
    "soma": soma_judge,
    "fused": fused_judge,
    "cosma": cosma_judge,
    "segments": segments_judge,
}
"""By scheduler."""


def load_networks(workload: WorkloadSpec, space: DesignSpace, partial_bits: int | None = None) -> list[Network]:
    """The networks at the widths of the hardware, partial sums as wide as that or as given."""
    partial = space.partial_bits if partial_bits is None else partial_bits
    return [
        load_network(name, **workload.lengths_of(name), bits=space.bits, partial_bits=partial)
        for name in workload.networks
    ]


def load_workload(workload: WorkloadSpec, space: DesignSpace) -> Workload:
    """The same with the weights."""
    return Workload.of(load_networks(workload, space), workload.weights)


def served_networks(asked: ServingSpec, space: DesignSpace) -> list[Network]:
    """All that runs when requests are served: every class of prompts, and a step of decoding."""
    prompts = [asked.prefill(n, space.bits, space.partial_bits) for n, _ in asked.prompts]
    return [*prompts, asked.decode(space.bits, space.partial_bits)]


def space_with_choices(spec: ChoicesSpec, workload: WorkloadSpec, how: JudgeSpec, space: DesignSpace) -> DesignSpace:
    """The space whose designs also choose what a specification names (rules C1 to C6 of docs/reference/study-files.md).

    Raises:
        UserError: The choices do not fit the workload, the judge or the space.
    """
    if spec == ChoicesSpec():
        return space
    _refuse_choices(how)
    if how.per_design == PARETO:
        raise UserError("--per-design pareto plays no part with --precision, --zeros and --zero-support")
    if not isinstance(space, SpaceWithChoices):
        raise UserError(
            f"space {space.name!r} takes no precision, zeros or support for zeros",
            hint="make it a spaces.design.DesignSpace",
        )
    if workload.serving is None:
        networks = load_networks(workload, space)
    else:
        networks = served_networks(read_serving(workload.serving), space)
    return space.with_choices(choices_of(spec, networks))


def _refuse_choices(how: JudgeSpec) -> None:
    if how.scheduler != "layers":
        raise UserError(
            f"--precision, --zeros and --zero-support are of --scheduler layers, not {how.scheduler}",
            hint="leave them out: schedulers of whole networks have one width and count no zeros",
        )


@final
@dataclass(frozen=True)
class ByChoice:
    """Judges designs by the workload as each chose it. Plain data, so it can be sent to other processes.

    Args:
        choices: Of the space.
        evaluators: One for every combination that changes the workload, in the order of `Choices.combinations`.
    """

    choices: Choices
    evaluators: tuple[Callable[[Point], Evaluation], ...]

    def of(self, point: Point) -> Callable[[Point], Evaluation]:
        """The evaluator of a design."""
        chosen = {n: str(point[n]) for n in self.choices.parameters if n != ZERO_SUPPORT}
        return self.evaluators[list(self.choices.combinations()).index(chosen)]

    def __call__(self, point: Point) -> Evaluation:
        """Evaluate one design."""
        return self.of(point)(point)


def _by_choice(judges: Sequence[Judge], choices: Choices) -> Judge:
    """One judge of those of every combination."""
    first = judges[0]
    labels = ", ".join(f"{name} {' '.join(values)}" for name, values in choices.values.items() if values)
    evaluate = ByChoice(choices, tuple(judge.evaluate for judge in judges))
    return replace(first, evaluate=evaluate, headline=f"{first.headline}; choices: {labels}")
