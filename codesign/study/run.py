"""A study from its specification to its trials: builds space, judge and optimiser, runs or resumes, records."""

import importlib.metadata
import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, final

from codesign.core.errors import UserError
from codesign.core.interruption import Interruption, interruptions
from codesign.evaluation.design import DesignEvaluator, DesignSpace, describe_space, load_design_space
from codesign.evaluation.executors import open_executor
from codesign.evaluation.faults import Guarded
from codesign.evaluation.judge import Judge
from codesign.evaluation.judges import (
    ByChoice,
    analytical,
    by_machines,
    check_systems,
    check_timing,
    low_fidelity,
    make_judge,
    space_with_choices,
)
from codesign.evaluation.own_metrics import WithOwnMetrics
from codesign.evaluation.robust import RobustEvaluator, check_goals
from codesign.evaluation.serving import SERVING_METRICS
from codesign.evaluation.specification import EVENT, PARETO, SEGMENTS
from codesign.evaluation.timed import EventEvaluator
from codesign.optim import Optimizer
from codesign.optim import create as create_optimizer
from codesign.optim.bounded import bounds_for
from codesign.optim.certificate import Certificate
from codesign.optim.certify import CertifiedFront, above
from codesign.optim.protocols import LowerBounds
from codesign.optim.registry import Option
from codesign.study.certified import certify_study
from codesign.study.config import StudyConfig
from codesign.study.contended import CONTENTION_FILE, ContendedDesign, contend_front
from codesign.study.explore import AskTell, explore, replay
from codesign.study.former_records import LOW_FIDELITY_PREFIX, LOW_FIDELITY_SUFFIX
from codesign.study.goals import Goals, read_goals, ruled
from codesign.study.mapping_front import MappingFront, check_judge, check_per_design, mapping_front, write_mapping_front
from codesign.study.proof import GapHistory, write_proof
from codesign.study.retime import TIMING_FILE, TimedDesign, time_front
from codesign.study.simulated_fronts import write_front
from codesign.study.specification import DEFAULT_TRIALS, PROVING, StudySpec, write_study_spec
from codesign.study.storage import Claim
from codesign.study.study import LOCAL_NAME, Study, Trial

if TYPE_CHECKING:
    from codesign.evaluation.many_cores import SegmentsEvaluator

BOUNDED = (PROVING, "mobo")
"""Optimisers that use lower bounds on what a design can be."""

SPECIFICATION_FILE = "study.yaml"
"""What a study's folder holds its specification in; `codesign explore FOLDER/study.yaml` goes on."""


class Listener(Protocol):
    """Who is told how a run goes on."""

    def begins(self, prepared: "PreparedStudy", study: Study, certificate: Certificate | None) -> None:
        """Workers are about to start; what can be proven, where that is asked for."""

    def trial(self, study: Study, trial: Trial, certificate: Certificate | None) -> None:
        """A trial was recorded, here or elsewhere; what is proven by now, where that is asked for and known."""

    def waits(self, claims: Sequence[Claim]) -> None:
        """Only other processes still work."""

    def certifies(self, seconds: float) -> None:
        """Bounds of the designs not tried are about to be tightened for so many CPU seconds."""

    def ends(self, run: "StudyRun", low: Study | None, *, interrupted: bool, complete: bool) -> None:
        """The run is over.

        Args:
            run: The study, and what is proven of its front.
            low: The one that records low-fidelity evaluations.
            interrupted: By the person or the machine.
            complete: False where the space ran out of designs first.
        """


@final
class Silent:
    """A listener that says nothing."""

    def begins(self, prepared: "PreparedStudy", study: Study, certificate: Certificate | None) -> None:
        """See `Listener`."""

    def trial(self, study: Study, trial: Trial, certificate: Certificate | None) -> None:
        """See `Listener`."""

    def waits(self, claims: Sequence[Claim]) -> None:
        """See `Listener`."""

    def certifies(self, seconds: float) -> None:
        """See `Listener`."""

    def ends(self, run: "StudyRun", low: Study | None, *, interrupted: bool, complete: bool) -> None:
        """See `Listener`."""


@final
@dataclass(frozen=True)
class StudyRun:
    """A study that ran.

    Args:
        study: Still open.
        certificate: What is proven of its front, where that was asked for.
        timed: Its front in the event tier, where that was asked for.
        mappings: Its front over designs and mappings, where that was asked for.
        certified: What bounds say of the designs not tried; None where there are no bounds, or the certificate says it.
        schedule_factor: What bounds say of every design under every schedule, where schedules are searched and not proven.
        contended: Its front of systems on routers and DRAM queues, where that was asked for.
        pages: Drawings of the systems of its front with their schedules, where there are some.
    """

    study: Study
    certificate: Certificate | None
    timed: tuple[TimedDesign, ...] = ()
    mappings: MappingFront | None = None
    certified: CertifiedFront | None = None
    schedule_factor: float | None = None
    contended: tuple[ContendedDesign, ...] = ()
    pages: tuple[Path, ...] = ()

    @property
    def schedule_sentence(self) -> str:
        """What is shown of schedules that were not tried, in words; empty where nothing is."""
        if self.schedule_factor is None:
            return ""
        return (
            "Whatever trees its networks are scheduled by, no design of the space beats this front by more than a factor of "
            f"{above(self.schedule_factor)} in every objective at once."
        )


@final
@dataclass(frozen=True)
class PreparedStudy:
    """A specification with everything it names found.

    Args:
        spec: What was asked for.
        space: What is searched, with the rules on its parameters.
        goals: Objectives, bounds, metrics of the user's own.
        judge: What designs are judged by.
    """

    spec: StudySpec
    space: DesignSpace
    goals: Goals
    judge: Judge

    @property
    def trials(self) -> int:
        """How many the study shall have."""
        if self.until_proven:
            return int(self.space.space.cardinality_bound)
        return self.spec.search.trials or DEFAULT_TRIALS

    @property
    def until_proven(self) -> bool:
        """Whether the search ends when its front is proven, however many trials that takes."""
        return self.spec.search.trials is None and self.spec.search.optimizer == PROVING

    @property
    def optimizer_options(self) -> dict[str, Option]:
        """Options of the optimiser that have fields of their own."""
        return {} if self.spec.search.epsilon is None else {"epsilon": self.spec.search.epsilon}

    @property
    def bounds(self) -> tuple[str, ...]:
        """Constraints on metrics, as a study records them."""
        return tuple(str(bound) for bound in self.goals.bounds)

    def config(self) -> StudyConfig:
        """What is recorded to tell this study from others and to repeat it."""
        search, fidelity = self.spec.search, self.spec.fidelity
        evaluation, optimizer = self.judge.evaluation.copy(), search.optimizer
        if fidelity.fidelities == "two":
            optimizer = f"{optimizer}, two fidelities"
            evaluation["low_fidelity"] = {
                "mapper": fidelity.low_mapper,
                "evaluations": fidelity.evaluations,
                "cost": fidelity.cost,
            }
        return StudyConfig(
            space=describe_space(self.space, self.spec.space),
            workload=self.judge.workload,
            objectives=self.goals.objectives,
            constraints=self.bounds,
            optimizer=optimizer,
            mapper=self.judge.mapper,
            evaluation=evaluation,
            seed=search.seed,
        )


def prepare(spec: StudySpec) -> PreparedStudy:
    """Find everything a specification names; nothing is written or searched yet.

    Raises:
        UserError: A name is unknown, or fields do not go together.
    """
    found = load_design_space(spec.space)
    check_systems(spec.judge, found)
    space = space_with_choices(spec.choices, spec.workload, spec.judge, found)
    judged = SERVING_METRICS if spec.workload.serving is not None else {}
    if spec.judge.scheduler == SEGMENTS:
        from codesign.evaluation.many_cores import SYSTEM_METRICS

        judged = {**judged, **SYSTEM_METRICS}
    goals = read_goals(spec.search.objectives, spec.search.constraints, space, judged)
    if not 2 <= len(goals.objectives) <= 4:
        raise UserError(f"expected two to four objectives, got {len(goals.objectives)}: {' '.join(goals.objectives)}")
    space = ruled(space, goals.rules)
    named = (*goals.objectives, *(b.metric for b in goals.bounds))
    check_goals(spec.judge, named, [b.metric for b in goals.bounds if not b.upper])
    check_per_design(spec.judge, named)
    check_timing(spec.judge, spec.workload, space)
    timed = spec.fidelity.fidelities == "two" or by_machines(spec.judge, space)
    how = spec.judge if timed else analytical(spec.judge)
    judge = make_judge(spec.workload, how, space, seed=spec.search.seed, metrics=goals.metrics)
    if spec.judge.per_design == PARETO:
        check_judge(judge)
    prepared = PreparedStudy(spec, space, goals, judge)
    create_optimizer(  # refuses a mistake
        spec.search.optimizer, space.space, goals.objectives, seed=spec.search.seed, options=prepared.optimizer_options
    )
    return prepared


def run_study(spec: StudySpec, listener: Listener | None = None) -> StudyRun:
    """Run or resume a study; its specification is written beside it.

    Args:
        spec: What to search.
        listener: Told how it goes on.

    Returns:
        The study, still open, and what is proven of its front.

    Raises:
        UserError: A field that cannot be used, or a database that holds another study under the name.
    """
    prepared, place = prepare(spec), spec.place
    study = Study.create_or_resume(place.out, prepared.config(), versions(), storage=place.storage, name=place.study)
    try:
        write_study_spec(spec, Path(place.out) / SPECIFICATION_FILE)
        with interruptions() as interruption:
            run = _run(prepared, study, listener or Silent(), interruption)
        if (systems := _systems(judge_behind(prepared.judge))) is not None:
            run = _with_systems(run, systems, spec)
        elif spec.judge.timing == EVENT:
            run = replace(run, timed=time_front(study, spec.judge.timing_table))
            write_front(run.timed, Path(place.out) / TIMING_FILE)
        if spec.judge.per_design == PARETO:
            mappings = mapping_front(study, prepared.judge, spec.judge.time_limit_s)
            run = replace(run, mappings=mappings)
            write_mapping_front(mappings, Path(place.out))
    except BaseException:
        study.close()
        raise
    return run


def _with_systems(run: StudyRun, systems: "SegmentsEvaluator", spec: StudySpec) -> StudyRun:
    """The front of systems of many cores as files, and on routers and DRAM queues where that is asked for."""
    from codesign.study.system_pages import write_system_pages

    if spec.judge.timing == EVENT:
        run = replace(run, contended=contend_front(run.study, systems))
        write_front(run.contended, Path(spec.place.out) / CONTENTION_FILE)
    return replace(run, pages=tuple(write_system_pages(run.study, systems, run.contended)))


def _run(prepared: PreparedStudy, study: Study, listener: Listener, interruption: Interruption) -> StudyRun:
    workers = prepared.spec.workers
    bounds = _bounds(prepared.judge, prepared.spec.search.optimizer)
    optimizer, low = _optimizer(prepared, study, bounds)
    proving = optimizer if isinstance(optimizer, Optimizer) and optimizer.certificate() is not None else None

    def proven() -> Certificate | None:
        return None if proving is None else proving.certificate()

    history = GapHistory.of(study.folder)

    def on_trial(trial: Trial) -> None:
        state = proven() if _worth_a_look(len(study.trials)) else None
        if state is not None:
            history.add(len(study.trials), state)
        listener.trial(study, trial, state)

    listener.begins(prepared, study, proven())
    interrupted, complete = True, True
    try:
        with open_executor(prepared.judge.evaluate, workers.executor, workers.count, workers.ray_address) as pool:
            complete = explore(study, optimizer, pool, prepared.trials, on_trial, listener.waits, interruption)
        interrupted = False
    finally:
        run = StudyRun(study, proven())
        if run.certificate is not None and proving is not None:
            history.add(len(study.trials), run.certificate)
            write_proof(study.folder, run.certificate, study.objectives, proving.outer_front(), history)
        listener.ends(run, low, interrupted=interrupted, complete=complete)
        if low is not None:
            low.close()
    certified = _certified(prepared, study, run.certificate, bounds, listener)
    return replace(run, certified=certified, schedule_factor=_schedule_factor(prepared, study, bounds))


def _schedule_factor(prepared: PreparedStudy, study: Study, bounds: LowerBounds | None) -> float | None:
    """How much better than the front a design may be under schedules that were not tried; None where bounds are of mappings."""
    if bounds is None or prepared.spec.judge.scheduler != SEGMENTS:
        return None
    from codesign.bounds.many_cores import SystemBounds

    if not isinstance(bounds, SystemBounds) or bounds.why_not or not study.front():
        return None
    limits = [(b.metric, b.bound) for b in prepared.goals.bounds if b.upper]
    return bounds.factor(study.values(study.front()), study.objectives, limits)


def _certified(
    prepared: PreparedStudy,
    study: Study,
    certificate: Certificate | None,
    bounds: LowerBounds | None,
    listener: Listener,
) -> CertifiedFront | None:
    """How much better than the front any design may be, where there are bounds and the search itself did not prove it.

    Args:
        prepared: What was asked for.
        study: With its trials.
        certificate: What the search proved, or why it could not.
        bounds: Those the optimiser used, whose tables are filled; None where it used none.
        listener: Told before the work begins.
    """
    space, search = prepared.space.space, prepared.spec.search
    known = bounds if bounds is not None else _bounds(prepared.judge, PROVING)
    decided = certificate is not None and (certificate.proven or bool(certificate.withdrawn))
    if search.certify_s == 0.0 or decided or not study.front() or bounds_for(space, known) is None:
        return None
    prover = create_optimizer(
        PROVING, space, study.objectives, seed=search.seed, constraints=prepared.bounds, bounds=known
    )
    replay(study, prover)
    listener.certifies(search.certify_s)
    return certify_study(study, prover.problem, prover.history(), search.certify_s)


def _worth_a_look(trials: int) -> bool:
    """Whether what is proven is computed after so many trials: after each of the first 50, then every tenth."""
    return trials <= 50 or trials % 10 == 0


def judge_behind(judge: Judge) -> object:
    """The evaluator behind metrics of one's own."""
    return judge.evaluate.evaluate if isinstance(judge.evaluate, WithOwnMetrics) else judge.evaluate


def _systems(judge: object) -> "SegmentsEvaluator | None":
    """A judge as one of systems of many cores; None where it is another. What systems need is imported for them alone."""
    if judge is None or isinstance(judge, DesignEvaluator | EventEvaluator | RobustEvaluator | ByChoice):
        return None
    from codesign.evaluation.many_cores import SegmentsEvaluator

    return judge if isinstance(judge, SegmentsEvaluator) else None


def _judge_that_bounds_know(judge: Judge) -> object:
    """The evaluator behind metrics of one's own; None where one of them replaces a figure, which bounds then do not hold for."""
    from codesign.bounds.design import METRICS

    evaluate = judge.evaluate
    if not isinstance(evaluate, WithOwnMetrics):
        return evaluate
    return evaluate.evaluate if METRICS.isdisjoint(name for name, _ in evaluate.metrics) else None


def _scenarios(evaluate: object) -> list[tuple[object, object]]:
    """What judges each scenario of a design, and the evaluator that maps it layer by layer inside."""
    each = [e for _, e in evaluate.scenarios] if isinstance(evaluate, RobustEvaluator) else [evaluate]
    return [(one, one.inner if isinstance(one, EventEvaluator) and one.generated else one) for one in each]


def _lower_bounds(judge: Judge) -> LowerBounds | None:
    """What no design can be below, where the judge maps layer by layer in a way that bounds cover."""
    from codesign.bounds.chosen import chosen_by
    from codesign.bounds.design import DesignBounds, why_not
    from codesign.bounds.scenarios import ScenarioBounds

    evaluate = _judge_that_bounds_know(judge)
    if (systems := _systems(evaluate)) is not None:
        from codesign.bounds.many_cores import SystemBounds

        return SystemBounds(systems)
    models = []
    for one, plain in _scenarios(evaluate):
        if not isinstance(plain, DesignEvaluator) or why_not(plain.options, plain.mapper.name) is not None:
            return None
        run_cycles = one.ramp_cycles if isinstance(one, EventEvaluator) else None
        chosen = chosen_by(plain.options, plain.mapper.name) if run_cycles is None else None
        models.append(DesignBounds(plain.space, plain.workload, plain.options, run_cycles, chosen))
    return models[0] if len(models) == 1 else ScenarioBounds(models)


def _choice_bounds(judge: Judge) -> LowerBounds | None:
    """Bounds where designs choose a precision or zeros: those of every combination; None where designs choose neither."""
    evaluate = _judge_that_bounds_know(judge)
    if not isinstance(evaluate, ByChoice):
        return None
    from codesign.bounds.choices import ChoiceBounds
    from codesign.bounds.design import why_not

    judges = [e for e in evaluate.evaluators if isinstance(e, DesignEvaluator)]
    if len(judges) < len(evaluate.evaluators) or why_not(judges[0].options, judges[0].mapper.name) is not None:
        return None
    return ChoiceBounds(judges[0].space, evaluate.choices, [judge.workload for judge in judges])


def _bounds(judge: Judge, optimizer: str) -> LowerBounds | None:
    """What an optimiser is told beforehand."""
    if optimizer not in BOUNDED:
        return None
    if optimizer != PROVING and _systems(_judge_that_bounds_know(judge)) is not None:
        return None  # a bound takes about as long as an evaluation: too long for every candidate of a proposal
    found = _choice_bounds(judge) if optimizer == PROVING else None
    return _lower_bounds(judge) if found is None else found


def why_no_bounds(prepared: PreparedStudy) -> str:
    """Why `mobo` searches a study like a black box; empty where it has bounds, or where another optimiser searches."""
    from codesign.bounds.design import why_not

    if prepared.spec.search.optimizer != "mobo" or _bounds(prepared.judge, "mobo") is not None:
        return ""
    evaluate = _judge_that_bounds_know(prepared.judge)
    if evaluate is None:
        return "a metric of one's own replaces a figure that bounds know"
    if _systems(evaluate) is not None:
        return "bounds of systems of many cores take too long for its candidates, and serve 'exact' alone"
    if isinstance(evaluate, ByChoice):
        return "designs choose a precision or zeros, whose bounds serve 'exact' alone"
    plain = [one for _, one in _scenarios(evaluate) if isinstance(one, DesignEvaluator)]
    reasons = (why_not(one.options, one.mapper.name) for one in plain)
    return next((reason for reason in reasons if reason), "designs are not judged layer by layer")


def _optimizer(prepared: PreparedStudy, study: Study, bounds: LowerBounds | None) -> tuple[AskTell, Study | None]:
    """The optimiser, and with two fidelities the study that records the low-fidelity evaluations."""
    spec, space = prepared.spec, prepared.space
    optimizer = create_optimizer(
        spec.search.optimizer,
        space.space,
        study.objectives,
        seed=spec.search.seed,
        constraints=prepared.bounds,
        bounds=bounds,
        options=prepared.optimizer_options,
    )
    if spec.fidelity.fidelities == "one":
        return optimizer, None
    from codesign.study.low_fidelity_first import LowFidelityFirst

    how = low_fidelity(spec.judge, spec.fidelity.low_mapper, spec.fidelity.evaluations)
    judge = make_judge(spec.workload, how, space, seed=spec.search.seed, metrics=prepared.goals.metrics)
    config = replace(
        replace(prepared, judge=judge).config(), optimizer=f"{LOW_FIDELITY_PREFIX}{study.config['optimizer']}"
    )
    place = spec.place
    name = f"{LOCAL_NAME if place.storage is None else study.name}{LOW_FIDELITY_SUFFIX}"
    record = Study.create_or_resume(place.out, config, versions(), storage=place.storage, name=name, pointer=False)
    return LowFidelityFirst(optimizer.problem, Guarded(judge.evaluate), spec.fidelity.cost, record), record


def versions() -> dict[str, str]:
    """Versions of what decides a run's numbers."""
    found = {"python": platform.python_version()}
    for name in ("accel-codesign", "numpy", "llvmlite", "torch", "botorch", "pymoo", "optuna"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
