"""What `codesign explore` does: builds the study from the options, runs it with a progress bar, prints the front."""

import importlib.metadata
import platform
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from codesign.core.errors import UserError
from codesign.evaluation.design import DesignEvaluator, DesignSpace, load_design_space
from codesign.evaluation.executors import open_executor
from codesign.evaluation.metrics import UNITS, format_si, metric_field
from codesign.evaluation.network import EvaluationOptions
from codesign.mappers.base import Budget, Objective
from codesign.mappers.registry import create as create_mapper
from codesign.optim import create as create_optimizer
from codesign.optim.explore import explore
from codesign.optim.study import REPORT_FILE, Study, StudyConfig, Trial, hypervolume_curve
from codesign.workloads.load import load_network
from codesign.workloads.network_json import content_hash
from codesign.workloads.traffic import Activations, TrafficRules, Weights
from codesign.workloads.workload import Workload


@dataclass(frozen=True)
class ExploreRequest:
    """The options of the command, read."""

    networks: tuple[str, ...]
    weights: tuple[float, ...]
    batch: int | None
    seq: int | None
    phase: str | None
    space: str
    optimizer: str
    trials: int
    objectives: tuple[str, ...]
    constraints: tuple[str, ...]
    mapper: str
    map_objective: str
    time_limit_s: float | None
    evaluations: int | None
    activations: str
    activation_bytes: int
    resident_weights: bool
    workers: int
    seed: int
    out: Path


def run_explore(request: ExploreRequest) -> Study:
    """Run or resume a study, write its report, print its front; returns it.

    Raises:
        UserError: An option that cannot be used, or a folder that holds another study.
    """
    console = Console(stderr=True)
    objectives = tuple(metric_field(name) for name in request.objectives)
    if not 2 <= len(objectives) <= 4:
        raise UserError(f"expected two to four objectives, got {len(objectives)}: {' '.join(request.objectives)}")
    space = load_design_space(request.space)
    workload = load_workload(request, space)
    for network in workload.networks:
        for warning in network.warnings:
            console.print(f"warning: {network.name}: {warning}", style="yellow")
    evaluator = make_evaluator(request, space, workload)
    optimizer = create_optimizer(
        request.optimizer, space.space, objectives, seed=request.seed, constraints=request.constraints
    )
    config = make_config(request, space, workload, objectives, evaluator)
    study = Study.create_or_resume(request.out, config, versions())
    done = len(study.trials)
    if done:
        console.print(f"{request.out}: going on after {done} finished trials")
    console.print(
        f"{workload.name}: {len(workload.distinct_layers())} distinct layers, {workload.macs / 1e9:.3g} GMACs; "
        f"space {space.name!r}: up to {space.space.cardinality_bound:,} designs; {request.optimizer}, "
        f"{request.trials} trials, {request.workers} worker{'s' if request.workers > 1 else ''}"
    )
    try:
        with _progress(console) as progress, open_executor(evaluator, "process", request.workers) as pool:
            task = progress.add_task("exploring", total=max(request.trials, done), completed=done, note="")

            def on_trial(trial: Trial) -> None:
                progress.update(task, advance=1, note=_note(study, trial))

            complete = explore(study, optimizer, pool, request.trials, on_trial)
    except KeyboardInterrupt:
        console.print(f"interrupted: {len(study.trials)} trials are kept; run the same command to go on")
        raise
    if not complete:
        console.print(f"the space holds no further design: {len(study.trials)} trials in all")
    finish(study, request.out, console)
    return study


def finish(study: Study, out: Path, console: Console) -> None:
    """Write the report and print the front."""
    from codesign.report.study_page import write_report

    console.print(front_table(study))
    curve_reference = study.reference_point()
    if curve_reference is not None:
        hypervolume = hypervolume_curve(study.values(study.trials), curve_reference)[-1]
        reference = ", ".join(
            f"{format_si(r, UNITS[o])}" for r, o in zip(curve_reference, study.objectives, strict=True)
        )
        console.print(f"hypervolume {hypervolume:.4f} decades^{len(study.objectives)}, reference point ({reference})")
    path = write_report(study)
    console.print(f"report: {path}")
    assert path == out / REPORT_FILE


def load_workload(request: ExploreRequest, space: DesignSpace) -> Workload:
    """The networks of the command line at the widths of the hardware."""
    networks = [
        load_network(
            name,
            batch=request.batch,
            seq=request.seq,
            phase=request.phase,
            bits=space.bits,
            partial_bits=space.partial_bits,
        )
        for name in request.networks
    ]
    return Workload.of(networks, request.weights)


def make_evaluator(request: ExploreRequest, space: DesignSpace, workload: Workload) -> DesignEvaluator:
    """The function from designs to metrics that the options ask for."""
    try:
        activations = Activations(request.activations)
    except ValueError:
        raise UserError(f"--activations must be dram or kept, got {request.activations!r}") from None
    if activations is Activations.DRAM and request.activation_bytes:
        raise UserError("--activation-buffer is used with --activations kept only")
    if activations is Activations.KEPT and not request.activation_bytes:
        raise UserError("--activations kept needs --activation-buffer, the memory to keep them in")
    weights = Weights.RESIDENT if request.resident_weights else Weights.PER_RUN
    options = EvaluationOptions(
        objective=Objective.parse(request.map_objective),
        budget=Budget(request.time_limit_s, request.evaluations),
        seed=request.seed,
        rules=TrafficRules(activations=activations, weights=weights),
        activation_bytes=request.activation_bytes,
    )
    return DesignEvaluator(space, workload, create_mapper(request.mapper), options)


def make_config(
    request: ExploreRequest,
    space: DesignSpace,
    workload: Workload,
    objectives: tuple[str, ...],
    evaluator: DesignEvaluator,
) -> StudyConfig:
    """What is recorded to tell this study from others and to repeat it."""
    mapper = evaluator.mapper
    return StudyConfig(
        space=space.to_json(),
        workload={
            "networks": list(request.networks),
            "names": [n.name for n in workload.networks],
            "hashes": [content_hash(n) for n in workload.networks],
            "weights": list(workload.weights),
            "batch": request.batch,
            "seq": request.seq,
            "phase": request.phase,
        },
        objectives=objectives,
        constraints=request.constraints,
        optimizer=request.optimizer,
        mapper={"name": mapper.name, **{f.name: getattr(mapper, f.name) for f in fields(mapper)}},  # type: ignore[arg-type]
        evaluation={
            "objective": request.map_objective,
            "time_limit_s": request.time_limit_s,
            "evaluations": request.evaluations,
            "activations": request.activations,
            "activation_bytes": request.activation_bytes,
            "resident_weights": request.resident_weights,
        },
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


def front_table(study: Study) -> Table:
    """The front as a table: metrics first (objectives starred), then parameters."""
    front = study.front()
    table = Table(title=f"Pareto front: {len(front)} of {len(study.trials)} designs")
    table.add_column("trial", justify="right", no_wrap=True)
    shown = [f for f in ("latency_s", "energy_j", "power_w", "area_mm2") if f in UNITS]
    for field in shown:
        star = "*" if field in study.objectives else ""
        table.add_column(field.rsplit("_", 1)[0] + star, justify="right", no_wrap=True)
    table.add_column("design", overflow="fold")
    for trial in front:
        figures = [format_si(trial.metrics[f], UNITS[f]) for f in shown]
        table.add_row(
            str(trial.number),
            *figures,
            " ".join(v if isinstance(v, str) else f"{k}={v}" for k, v in trial.point.items()),
        )
    if not front:
        reasons = {t.infeasible["resource"] for t in study.trials if t.infeasible}
        table.caption = "no design is feasible: " + "; ".join(sorted(reasons)) if reasons else "constraints exclude all"
    return table


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
    figures: Any = (format_si(trial.metrics[o], UNITS[o]) for o in study.objectives)
    return "last: " + ", ".join(figures)
