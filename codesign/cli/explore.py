"""`codesign explore`: the Pareto front of accelerators for a workload."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign.core.errors import UserError

if TYPE_CHECKING:
    from codesign.optim.study import Study


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command()
    def explore(
        network: Annotated[
            list[str], typer.Option(help="ONNX file or zoo name; repeat it for several networks as one workload.")
        ],
        out: Annotated[
            Path, typer.Option(help="Folder for trials and report; the same command goes on where it stopped.")
        ],
        space: Annotated[
            str, typer.Option(help="Hardware space: scratchpad, or module:attribute of your own.")
        ] = "scratchpad",
        optimizer: Annotated[
            str, typer.Option(help="mobo, nsga2:POPULATION, random, sobol, optuna:tpe ...; an unknown name lists them.")
        ] = "mobo",
        trials: Annotated[int, typer.Option(help="Designs evaluated in all.", min=1)] = 40,
        objectives: Annotated[
            str, typer.Option(help="Two to four of latency, energy, power, area, edp, separated by spaces or commas.")
        ] = "latency energy area",
        constraint: Annotated[
            list[str] | None, typer.Option(help='Bound on a metric, e.g. "power_w<=2"; may be repeated.')
        ] = None,
        weights: Annotated[
            str | None, typer.Option(help="One number per --network: how often each runs, e.g. '2 1'.")
        ] = None,
        batch: Annotated[int | None, typer.Option(help="Inferences that run together.", min=1)] = None,
        seq: Annotated[int | None, typer.Option(help="Sequence length, for networks that have one.", min=1)] = None,
        phase: Annotated[str | None, typer.Option(help="prefill or decode, for language models.")] = None,
        mapper: Annotated[str, typer.Option(help="Inner search; an unknown name lists them.")] = "anneal",
        map_objective: Annotated[str, typer.Option(help="What each layer's mapping minimises.")] = "edp",
        time_limit: Annotated[float | None, typer.Option(help="Seconds of mapping search per layer.")] = None,
        evaluations: Annotated[int | None, typer.Option(help="Mappings scored per layer at most.")] = None,
        activations: Annotated[
            str, typer.Option(help="Between layers: dram (written and read back) or kept (on chip where they fit).")
        ] = "dram",
        activation_buffer: Annotated[
            str, typer.Option(help="On-chip memory set aside for kept activations, e.g. 64KiB.")
        ] = "0",
        resident_weights: Annotated[
            bool, typer.Option("--resident-weights", help="Weights are on chip for good instead of loaded each run.")
        ] = False,
        workers: Annotated[int, typer.Option(help="Processes that evaluate designs.", min=1)] = 1,
        seed: Annotated[int, typer.Option(help="Seed of every random choice.", min=0)] = 0,
        output_format: Annotated[str, typer.Option("--format", help="text or json (of the front).")] = "text",
    ) -> None:
        """Search a hardware space for the designs no other one beats in every objective.

        Every design is judged by the whole workload, each layer with the best mapping found for it. Trials are
        written as they finish; an interrupted run goes on with the same command. Writes OUT/report.html.
        """
        from codesign.cli.exploring import ExploreRequest, run_explore

        if output_format not in ("text", "json"):
            raise UserError(f"--format must be text or json, got {output_format!r}")
        request = ExploreRequest(
            networks=tuple(network), weights=_numbers("--weights", weights), batch=batch, seq=seq, phase=phase,
            space=space, optimizer=optimizer, trials=trials, objectives=tuple(objectives.replace(",", " ").split()),
            constraints=tuple(constraint or ()), mapper=mapper, map_objective=map_objective, time_limit_s=time_limit,
            evaluations=evaluations, activations=activations, activation_bytes=_bytes(activation_buffer),
            resident_weights=resident_weights, workers=workers, seed=seed, out=out,
        )  # fmt: skip
        study = run_explore(request)
        if output_format == "json":
            typer.echo(json.dumps(_front_json(study), indent=1))


def _front_json(study: "Study") -> dict[str, Any]:
    front = study.front()
    return {
        "status": "ok" if front else "infeasible",
        "trials": len(study.trials),
        "feasible": sum(study.is_valid(t) for t in study.trials),
        "objectives": list(study.objectives),
        "front": [{"trial": t.number, "point": t.point, "metrics": t.metrics} for t in front],
    }


def _numbers(option: str, text: str | None) -> tuple[float, ...]:
    if text is None:
        return ()
    try:
        return tuple(float(part) for part in text.replace(",", " ").split())
    except ValueError:
        raise UserError(f"{option} must be numbers separated by spaces, got {text!r}") from None


def _bytes(text: str) -> int:
    units = {"": 1, "b": 1, "k": 1024, "kb": 1024, "kib": 1024, "m": 1 << 20, "mb": 1 << 20, "mib": 1 << 20}
    digits = text.strip().rstrip("KMkmiIbB")
    unit = text.strip()[len(digits) :].lower()
    if not digits.isdigit() or unit not in units:
        raise UserError(f"--activation-buffer must be a size such as 65536 or 64KiB, got {text!r}")
    return int(digits) * units[unit]
