"""`codesign explore`: the Pareto front of accelerators for a workload."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign.cli.study_location import Storage, StudyName
from codesign.core.errors import UserError
from codesign.core.quantities import parse_size

if TYPE_CHECKING:
    from codesign.optim.certificate import Certificate
    from codesign.study.study import Study


_WORKLOAD, _INNER, _CHEAP = "Workload", "Judging a design", "Cheap evaluations first"
_WORKERS = "Workers"


def _option(panel: str, *names: str, **settings: Any) -> Any:
    """An option in a panel of `--help`."""
    return typer.Option(*names, rich_help_panel=panel, **settings)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command()
    def explore(
        out: Annotated[
            Path, typer.Option(help="Folder for study and report; the same command goes on where it stopped.")
        ],
        network: Annotated[
            list[str] | None,
            typer.Option(help="ONNX file or zoo name; repeat it for several networks as one workload."),
        ] = None,
        workload: Annotated[
            Path | None,
            typer.Option(
                help="Requests to a language model (YAML) instead of networks: latency is the time per output token, energy that of one."
            ),
        ] = None,
        space: Annotated[
            str,
            typer.Option(
                help="Hardware space by name, or your own: a file (mine.yaml) or module:attribute; an unknown name lists them."
            ),
        ] = "scratchpad",
        optimizer: Annotated[
            str,
            typer.Option(
                help="mobo, exact (a proven front), nsga2:POPULATION, random, sobol, optuna:tpe, rl:ppo ...; an unknown name lists them."
            ),
        ] = "mobo",
        trials: Annotated[
            int | None,
            typer.Option(
                help="Designs evaluated in all, those already in the study included; default 40, with exact until proven.",
                min=1,
            ),
        ] = None,
        epsilon: Annotated[
            float | None,
            typer.Option(
                help="With exact: leave designs out that are at most this share better, e.g. 0.02; default 0."
            ),
        ] = None,
        objectives: Annotated[
            str | None,
            typer.Option(
                help="Two to four of latency, energy, power, area, edp, metrics of the space, or module:function of your own; "
                "default: those of the space, else latency energy area."
            ),
        ] = None,
        constraint: Annotated[
            list[str] | None,
            typer.Option(
                help='Bound on a metric or a parameter, e.g. "power_w<=2", "latency<=5ms", "pe_rows>=8"; may be repeated.'
            ),
        ] = None,
        seed: Annotated[int, typer.Option(help="Seed of every random choice.", min=0)] = 0,
        output_format: Annotated[str, typer.Option("--format", help="text or json (of the front).")] = "text",
        weights: Annotated[
            str | None, _option(_WORKLOAD, help="One number per --network: how often each runs, e.g. '2 1'.")
        ] = None,
        batch: Annotated[int | None, _option(_WORKLOAD, help="Inferences that run together.", min=1)] = None,
        seq: Annotated[
            int | None, _option(_WORKLOAD, help="Sequence length, for networks that have one.", min=1)
        ] = None,
        past: Annotated[int | None, _option(_WORKLOAD, help="Tokens in the cache, for language models.", min=0)] = None,
        dims: Annotated[
            str | None,
            _option(_WORKLOAD, help="Lengths of ONNX files' free axes: --dims batch=4 seq=128 past=1024."),
        ] = None,
        phase: Annotated[str | None, _option(_WORKLOAD, help="prefill or decode, for language models.")] = None,
        scheduler: Annotated[
            str,
            _option(
                _INNER,
                help="layers (each mapped alone), soma (whole network fused; --space soma-edge, soma-cloud), or cosma "
                "(off-chip traffic of the best operator order and spills).",
            ),
        ] = "layers",
        mapper: Annotated[
            str | None,
            _option(_INNER, help="Search for each layer's mapping, default exact; an unknown name lists them."),
        ] = None,
        map_objective: Annotated[
            str | None,
            _option(
                _INNER,
                help="What each mapping or schedule minimises: energy, latency or edp (default); with --scheduler cosma "
                "bytes (default), energy or latency.",
            ),
        ] = None,
        time_limit: Annotated[
            float | None, _option(_INNER, help="Seconds of search per layer (soma: per network).")
        ] = None,
        evaluations: Annotated[
            int | None, _option(_INNER, help="Mappings scored per layer (soma: schemes per network) at most.")
        ] = None,
        dram_ports: Annotated[
            str | None,
            _option(
                _INNER,
                help="shared (reads and writes take turns on the DRAM channel, as in every built-in space) or separate "
                "(each has the full bandwidth, as Timeloop counts); default: as the space says.",
            ),
        ] = None,
        activations: Annotated[
            str, _option(_INNER, help="Between layers: dram (written and read back) or kept (on chip where they fit).")
        ] = "dram",
        activation_buffer: Annotated[
            str, _option(_INNER, help="On-chip memory set aside for kept activations, e.g. 64KiB.")
        ] = "0",
        resident_weights: Annotated[
            bool, _option(_INNER, "--resident-weights", help="Weights are on chip for good instead of loaded each run.")
        ] = False,
        fidelity: Annotated[
            str,
            _option(_CHEAP, help="one, or two: cheap evaluations first where they tell more for their price (mobo)."),
        ] = "one",
        cheap_mapper: Annotated[
            str | None, _option(_CHEAP, help="Mapper of cheap evaluations, default anneal.")
        ] = None,
        cheap_evaluations: Annotated[
            int | None,
            _option(_CHEAP, help="Mappings (soma: schemes) scored per layer in a cheap one, default 200.", min=1),
        ] = None,
        cheap_cost: Annotated[
            float | None, _option(_CHEAP, help="Price of a cheap evaluation as a share of a dear one, default 0.1.")
        ] = None,
        workers: Annotated[
            int | None,
            _option(_WORKERS, help="Designs evaluated at once; default 1, with Ray as many as cores.", min=1),
        ] = None,
        executor: Annotated[
            str, _option(_WORKERS, help="process (on this machine) or ray (on a cluster).")
        ] = "process",
        ray_address: Annotated[
            str | None,
            _option(_WORKERS, help="Of a running Ray cluster: auto or HOST:PORT; without it one is started here."),
        ] = None,
        storage: Storage = None,
        study: StudyName = None,
    ) -> None:
        """Search a hardware space for the designs no other one beats in every objective.

        Every design is judged by the whole workload with the best mapping or schedule found for it. The front is printed,
        the report is OUT/report.html.

        Trials are stored as they finish. After Ctrl-C, a crash or kill -9 the same command goes on; the same command
        started again elsewhere (--storage) or beside it works on the same study.

        For example:

        codesign explore --network resnet50 --constraint "power_w<=2" --workers 2 --out runs/a

        codesign explore --network model.onnx --mapper exact --fidelity two --trials 100 --out runs/b

        codesign explore --network resnet50 --space gemmcore --optimizer exact --epsilon 0.02 --workers 2 --out runs/e

        codesign explore --network gpt2-small-block --space soma-edge --scheduler soma --out runs/c

        codesign explore --network vgg16 --storage postgresql://me@server/studies --out runs/d
        """
        from codesign.cli.explore_request import ExploreRequest
        from codesign.cli.exploring import run_explore
        from codesign.cli.inputs import check_format, parse_dims, warnings_to_stderr

        check_format(output_format)
        warnings_to_stderr()
        request = ExploreRequest(
            networks=tuple(network or ()), workload=workload, weights=_numbers("--weights", weights), batch=batch, seq=seq, past=past, dims=parse_dims(dims), phase=phase,
            space=space, optimizer=optimizer, trials=trials, epsilon=epsilon, objectives=tuple((objectives or "").replace(",", " ").split()),
            constraints=tuple(constraint or ()), scheduler=scheduler, dram_ports=dram_ports, mapper=mapper, map_objective=map_objective, time_limit_s=time_limit,
            evaluations=evaluations, activations=activations, activation_bytes=parse_size(activation_buffer, "--activation-buffer"),
            resident_weights=resident_weights, fidelity=fidelity, cheap_mapper=cheap_mapper, cheap_evaluations=cheap_evaluations, cheap_cost=cheap_cost,
            executor=executor, workers=workers, ray_address=ray_address, seed=seed, out=out, storage=storage, study=study,
        )  # fmt: skip
        explored = run_explore(request, front_to_stderr=output_format == "json")
        if output_format == "json":
            typer.echo(json.dumps(_front_json(*explored), indent=1))


def _front_json(study: "Study", certificate: "Certificate | None") -> dict[str, Any]:
    front = study.front()
    return {
        "status": "ok" if front else "infeasible",
        "trials": len(study.trials),
        "feasible": sum(study.is_valid(t) for t in study.trials),
        "objectives": list(study.objectives),
        "front": [{"trial": t.number, "point": t.point, "metrics": t.metrics} for t in front],
        **({} if certificate is None else certificate.to_json()),
    }


def _numbers(option: str, text: str | None) -> tuple[float, ...]:
    if text is None:
        return ()
    try:
        return tuple(float(part) for part in text.replace(",", " ").split())
    except ValueError:
        raise UserError(f"{option} must be numbers separated by spaces, got {text!r}") from None
