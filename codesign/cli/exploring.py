"""What `codesign explore` does: builds the study from the options, runs it with a progress bar, prints the front."""

import importlib.metadata
import platform
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from codesign.cli.explore_request import ExploreRequest
from codesign.cli.exploring_judges import Judge, make_cheap_judge, make_judge
from codesign.cli.inputs import counted
from codesign.core.errors import UserError, unknown_name
from codesign.core.files import write_json
from codesign.evaluation.design import DesignSpace, describe_space, load_design_space
from codesign.evaluation.executors import EXECUTORS, open_executor
from codesign.evaluation.faults import Guarded
from codesign.evaluation.metrics import UNITS, format_si, unit_of
from codesign.optim import Optimizer
from codesign.optim import create as create_optimizer
from codesign.optim.certificate import Certificate
from codesign.optim.protocols import LowerBounds
from codesign.optim.registry import Option
from codesign.study.config import CHEAP_PREFIX, StudyConfig
from codesign.study.explore import AskTell, explore
from codesign.study.goals import read_goals, ruled
from codesign.study.owner import owner_label
from codesign.study.storage import Claim
from codesign.study.study import (
    LOCAL_NAME,
    REPORT_FILE,
    Study,
    Trial,
    hypervolume_curve,
)

FIDELITIES = ("one", "two")


def run_explore(request: ExploreRequest, *, front_to_stderr: bool) -> tuple[Study, Certificate | None]:
    """Run or resume a study, write its report, print its front; returns it, and what is proven where that was asked for.

    Args:
        request: What to search.
        front_to_stderr: Keep stdout for something else than the table of the front.

    Raises:
        UserError: An option that cannot be used, or a database that holds another study under the name.
    """
    console = Console(stderr=True)
    _check(request)
    space = load_design_space(request.space)
    goals = read_goals(request.objectives, request.constraints, space)
    objectives = goals.objectives
    if not 2 <= len(objectives) <= 4:
        raise UserError(f"expected two to four objectives, got {len(objectives)}: {' '.join(objectives)}")
    space = ruled(space, goals.rules)
    request = replace(request, constraints=tuple(str(bound) for bound in goals.bounds), metrics=goals.metrics)
    judge = make_judge(request, space)
    create_optimizer(
        request.optimizer, space.space, objectives, seed=request.seed, options=_options(request)
    )  # refuses mistakes
    wanted = DEFAULT_TRIALS if request.trials is None else request.trials
    if request.optimizer == "exact" and request.trials is None:
        wanted = space.space.cardinality_bound
    config = make_config(request, space, judge, objectives)
    study = Study.create_or_resume(request.out, config, versions(), storage=request.storage, name=request.study)
    try:
        with _terminated_as_interrupted():
            certificate = _run(request, wanted, space, judge, study, console)
        if certificate is not None:
            console.print(certificate.sentence(), highlight=False)
            write_json(request.out / CERTIFICATE_FILE, {**certificate.to_json(), "sentence": certificate.sentence()})
        finish(study, request.out, Console(stderr=front_to_stderr))
    finally:
        study.close()
    return study, certificate


DEFAULT_TRIALS = 40
"""Designs evaluated where nothing is said, by optimisers that do not know when they are done."""

CERTIFICATE_FILE = "certificate.json"


def _options(request: ExploreRequest) -> dict[str, Option]:
    """Options of the optimiser given by options of the command."""
    if request.epsilon is None:
        return {}
    if request.optimizer != "exact":
        raise UserError(f"--epsilon is used with --optimizer exact only, got {request.optimizer!r}")
    return {"epsilon": request.epsilon}


def _run(
    request: ExploreRequest, trials: int, space: DesignSpace, judge: Judge, study: Study, console: Console
) -> Certificate | None:
    done = len(study.trials)
    if done >= trials:
        console.print(f"{study.storage} has {counted(done, 'trial')}: --trials {trials} asks for no more")
    elif done:
        console.print(f"{study.storage}: going on after {counted(done, 'finished trial')}")
    where = counted(request.workers or 1, "worker")
    console.print(
        f"{judge.headline}; space {space.name!r}: up to {space.space.cardinality_bound:,} designs; "
        f"{study.config['optimizer']}, {'until proven' if request.trials is None and request.optimizer == 'exact' else counted(trials, 'trial')}, {where if request.executor == 'process' else 'Ray'}"
    )
    optimizer, cheap = _optimizer(request, space, judge, study)
    proving = optimizer if isinstance(optimizer, Optimizer) and optimizer.certificate() is not None else None
    if proving is not None and (reason := proving.certificate().withdrawn):  # type: ignore[union-attr]
        console.print(f"nothing can be proven: {reason}; designs are proposed by black-box mobo", highlight=False)
    try:
        with (
            _progress(console) as progress,
            open_executor(judge.evaluate, request.executor, request.workers, request.ray_address) as pool,
        ):
            task = progress.add_task("exploring", total=max(trials, done), completed=done, note="")

            def on_trial(trial: Trial) -> None:
                finished = len(study.trials)
                state = proving.certificate() if proving is not None and _worth_a_look(finished) else None
                if state is not None and state.open:
                    progress.update(task, total=min(trials, finished + state.open))
                progress.update(task, completed=finished, note=_gap(state) or _note(study, trial))

            def on_wait(claims: Sequence[Claim]) -> None:
                progress.update(task, note="waiting for " + "; ".join(sorted({_owner(c) for c in claims})))

            complete = explore(study, optimizer, pool, trials, on_trial, on_wait)
    except KeyboardInterrupt:
        console.print(f"interrupted: {counted(len(study.trials), 'trial')} kept; run the same command to go on")
        raise
    finally:
        if cheap is not None:
            console.print(f"{counted(len(cheap.trials), 'cheap evaluation')}; {_costs(cheap, study)}")
            cheap.close()
    certificate = None if proving is None else proving.certificate()
    if not complete and not (certificate is not None and certificate.proven):
        console.print(f"the space holds no further design: {counted(len(study.trials), 'trial')} in all")
    return certificate


def _worth_a_look(trials: int) -> bool:
    """Whether the gap is computed after so many trials: each of the first 50, then every tenth."""
    return trials <= 50 or trials % 10 == 0


def _gap(state: Certificate | None) -> str:
    if state is None or state.withdrawn or state.epsilon_proven is None:
        return ""
    volume = (
        ""
        if not state.hypervolume_outer
        else f", hypervolume {state.hypervolume_inner / state.hypervolume_outer:.3f} of what is possible"
    )
    return f"proven to {state.epsilon_proven:.1%}, {state.open:,} designs open{volume}"


def _check(request: ExploreRequest) -> None:
    if request.executor not in EXECUTORS:
        raise unknown_name("executor", request.executor, EXECUTORS)
    if request.fidelity not in FIDELITIES:
        raise unknown_name("fidelity", request.fidelity, FIDELITIES)
    given = {
        "--cheap-mapper": request.cheap_mapper,
        "--cheap-evaluations": request.cheap_evaluations,
        "--cheap-cost": request.cheap_cost,
    }
    if request.fidelity == "one":
        for option, value in given.items():
            if value is not None:
                raise UserError(f"{option} is used with --fidelity two only")
    elif request.optimizer != "mobo":
        raise UserError(f"--fidelity two is a way of --optimizer mobo, got {request.optimizer!r}")
    if request.cheap_cost is not None and not 0 < request.cheap_cost < 1:
        raise UserError(f"--cheap-cost must be between 0 and 1 (a share of the dear cost), got {request.cheap_cost:g}")


CHEAP_EVALUATIONS, CHEAP_COST = 200, 0.1
"""Of `--fidelity two`, where nothing else is said."""


def _optimizer(request: ExploreRequest, space: DesignSpace, judge: Judge, study: Study) -> tuple[AskTell, Study | None]:
    """The optimiser, and with `--fidelity two` the study that records the cheap evaluations."""
    bounds = _lower_bounds(judge) if request.optimizer in ("exact", "mobo") else None
    optimizer = create_optimizer(
        request.optimizer, space.space, study.objectives, seed=request.seed, constraints=request.constraints, bounds=bounds,
        options=_options(request),
    )  # fmt: skip
    if request.fidelity == "one":
        return optimizer, None
    from codesign.study.low_fidelity_first import CheapFirst

    filled = replace(request, cheap_evaluations=request.cheap_evaluations or CHEAP_EVALUATIONS)
    judge = make_cheap_judge(filled, space)
    config = replace(
        make_config(request, space, judge, study.objectives),
        optimizer=f"{CHEAP_PREFIX}{study.config['optimizer']}",
    )
    name = f"{LOCAL_NAME if request.storage is None else study.name}-cheap"
    record = Study.create_or_resume(request.out, config, versions(), storage=request.storage, name=name, pointer=False)
    cost = CHEAP_COST if request.cheap_cost is None else request.cheap_cost
    return CheapFirst(optimizer.problem, Guarded(judge.evaluate), cost, record), record


def _lower_bounds(judge: Judge) -> LowerBounds | None:
    """What no design can be below, where the judge maps layer by layer in a way that bounds cover."""
    from codesign.bounds.design import DesignBounds, why_not
    from codesign.evaluation.design import DesignEvaluator

    evaluate = judge.evaluate
    if not isinstance(evaluate, DesignEvaluator) or why_not(evaluate.options, evaluate.mapper.name) is not None:
        return None
    return DesignBounds(evaluate.space, evaluate.workload)


def _costs(cheap: Study, dear: Study) -> str:
    if not cheap.trials or not dear.trials:
        return "no cost known yet"
    ratio = (sum(t.seconds for t in cheap.trials) / len(cheap.trials)) / max(
        1e-9, sum(t.seconds for t in dear.trials) / len(dear.trials)
    )
    return f"one took {ratio:.2g} of the time of a dear one"


def _owner(claim: Claim) -> str:
    return "a trial given back" if claim.owner is None else f"trial {claim.number} of {owner_label(claim.owner)}"


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM, which batch systems send before they kill, ends a run like Ctrl-C: what is finished is recorded."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def finish(study: Study, out: Path, console: Console) -> None:
    """Write the report and print the front."""
    from codesign.report.study_page import write_report

    print_front(study, console)
    curve_reference = study.reference_point()
    if curve_reference is not None:
        hypervolume = hypervolume_curve(study.values(study.trials), curve_reference)[-1]
        reference = ", ".join(
            f"{format_si(r, unit_of(o))}" for r, o in zip(curve_reference, study.objectives, strict=True)
        )
        console.print(f"hypervolume {hypervolume:.4f} decades^{len(study.objectives)}, reference point ({reference})")
    path = write_report(study)
    console.print(f"report: {path}")
    assert path == out / REPORT_FILE


def make_config(request: ExploreRequest, space: DesignSpace, judge: Judge, objectives: tuple[str, ...]) -> StudyConfig:
    """What is recorded to tell this study from others and to repeat it."""
    evaluation = dict(judge.evaluation)
    optimizer = request.optimizer
    if request.fidelity == "two":
        optimizer = f"{request.optimizer}, two fidelities"
        evaluation["cheap"] = {
            "mapper": request.cheap_mapper,
            "evaluations": request.cheap_evaluations or CHEAP_EVALUATIONS,
            "cost": CHEAP_COST if request.cheap_cost is None else request.cheap_cost,
        }
    return StudyConfig(
        space=describe_space(space, request.space),
        workload=judge.workload,
        objectives=objectives,
        constraints=request.constraints,
        optimizer=optimizer,
        mapper=judge.mapper,
        evaluation=evaluation,
        seed=request.seed,
    )


def versions() -> dict[str, str]:
    """Versions of what decides a run's numbers."""
    found = {"python": platform.python_version()}
    for name in ("accel-codesign", "numpy", "numba", "torch", "botorch", "pymoo", "optuna"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def print_front(study: Study, console: Console) -> None:
    """Print the front, and which of its designs to look at first."""
    from codesign.report.recommend import constant_objectives, recommendations

    console.print(front_table(study))
    for found in recommendations(study):
        console.print(f"trial {found.trial.number}, {', '.join(found.roles)}: {found.why}", highlight=False)
    for sentence in constant_objectives(study):
        console.print(sentence, highlight=False)


def front_table(study: Study) -> Table:
    """The front as a table: metrics first (objectives starred), then parameters."""
    front = study.front()
    table = Table(box=SIMPLE, title=f"Pareto front: {len(front)} of {counted(len(study.trials), 'design')}")
    table.add_column("trial", justify="right", no_wrap=True)
    usual = [f for f in ("latency_s", "energy_j", "power_w", "area_mm2") if f in UNITS]
    shown = [*usual, *(o for o in study.objectives if o not in usual)]
    for field in shown:
        star = "*" if field in study.objectives else ""
        table.add_column(field.rsplit("_", 1)[0] + star, justify="right", no_wrap=True)
    table.add_column("design", overflow="fold")
    for trial in front:
        figures = [format_si(trial.metrics[f], unit_of(f)) for f in shown]
        table.add_row(
            str(trial.number),
            *figures,
            " ".join(f"{k}={v}" for k, v in trial.point.items()),
        )
    if not front:
        table.caption = _why_empty(study)
    return table


def _why_empty(study: Study) -> str:
    """What keeps every design from the front: resources that were too small, bounds that no trial kept."""
    reasons = sorted({t.infeasible["resource"] for t in study.trials if t.infeasible})
    parts = ["designs without a valid mapping or schedule: " + "; ".join(reasons)] if reasons else []
    judged = [t for t in study.trials if not t.infeasible]
    for bound in study.constraints if judged else ():
        kept = sum(bool(bound.satisfied(np.array([t.metrics[bound.metric]]))[0]) for t in judged)
        parts.append(f"{bound} kept by {kept} of {len(judged)}")
    return "; ".join(parts)


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
    )


def _note(study: Study, trial: Trial) -> str:
    if trial.infeasible is not None:
        return f"last: infeasible ({trial.infeasible['resource']})"
    figures: Any = (format_si(trial.metrics[o], unit_of(o)) for o in study.objectives)
    return "last: " + ", ".join(figures)
