"""`codesign explore`: the Pareto front of accelerators for a workload."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign.cli.study_location import Storage, StudyName
from codesign.core.errors import UserError
from codesign.core.quantities import parse_size

if TYPE_CHECKING:
    from codesign.study.specification import StudySpec


_WORKLOAD, _INNER, _CHEAP = "Workload", "Judging a design", "Cheap evaluations first"
_WORKERS = "Workers"


COMMAND_LINE = "command line"


def _option(panel: str, *names: str, **settings: Any) -> Any:
    """An option in a panel of `--help`."""
    return typer.Option(*names, rich_help_panel=panel, **settings)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command()
    def explore(
        file: Annotated[
            Path | None,
            typer.Argument(help="A study as a YAML or JSON file (--save-config writes one); flags count above it."),
        ] = None,
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
        out: Annotated[
            Path | None,
            typer.Option(help="Folder for study and report; the same command goes on where it stopped."),
        ] = None,
        space: Annotated[
            str | None,
            typer.Option(
                help="Hardware space by name, or your own: a file (mine.yaml) or module:attribute; an unknown name lists them.",
                show_default="scratchpad",
            ),
        ] = None,
        optimizer: Annotated[
            str | None,
            typer.Option(
                help="mobo, exact (a proven front), nsga2:POPULATION, random, sobol, optuna:tpe, rl:ppo ...; an unknown name lists them.",
                show_default="mobo",
            ),
        ] = None,
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
        seed: Annotated[int | None, typer.Option(help="Seed of every random choice.", min=0, show_default="0")] = None,
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
            str | None,
            _option(
                _INNER,
                help="layers (each mapped alone), soma (whole network fused; --space soma-edge, soma-cloud), or cosma "
                "(off-chip traffic of the best operator order and spills).",
                show_default="layers",
            ),
        ] = None,
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
        dram_ports: Annotated[
            str | None,
            _option(
                _INNER,
                help="shared (reads and writes take turns on the DRAM channel, as in every built-in space) or separate "
                "(each has the full bandwidth, as Timeloop counts); default: as the space says.",
            ),
        ] = None,
        time_limit: Annotated[
            float | None, _option(_INNER, help="Seconds of search per layer (soma: per network).")
        ] = None,
        evaluations: Annotated[
            int | None, _option(_INNER, help="Mappings scored per layer (soma: schemes per network) at most.")
        ] = None,
        activations: Annotated[
            str | None,
            _option(
                _INNER,
                help="Between layers: dram (written and read back) or kept (on chip where they fit).",
                show_default="dram",
            ),
        ] = None,
        activation_buffer: Annotated[
            str | None,
            _option(_INNER, help="On-chip memory set aside for kept activations, e.g. 64KiB.", show_default="0"),
        ] = None,
        resident_weights: Annotated[
            bool | None,
            _option(_INNER, "--resident-weights", help="Weights are on chip for good instead of loaded each run."),
        ] = None,
        fidelity: Annotated[
            str | None,
            _option(
                _CHEAP,
                help="one, or two: cheap evaluations first where they tell more for their price (mobo).",
                show_default="one",
            ),
        ] = None,
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
            str | None,
            _option(_WORKERS, help="process (on this machine) or ray (on a cluster).", show_default="process"),
        ] = None,
        ray_address: Annotated[
            str | None,
            _option(_WORKERS, help="Of a running Ray cluster: auto or HOST:PORT; without it one is started here."),
        ] = None,
        save_config: Annotated[
            Path | None, typer.Option(help="Write the whole study as a file to this path, and run it.")
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

        codesign explore study.yaml --trials 200

        codesign explore --network vgg16 --storage postgresql://me@server/studies --out runs/d
        """
        from codesign.cli.exploring import run_explore
        from codesign.cli.inputs import check_format, parse_dims, warnings_to_stderr
        from codesign.library.studies import front_json

        check_format(output_format)
        warnings_to_stderr()
        flags = {
            "workload": {
                "networks": network or None,
                "serving": None if workload is None else str(workload),
                "weights": _numbers("--weights", weights),
                "batch": batch,
                "seq": seq,
                "past": past,
                "dims": parse_dims(dims),
                "phase": phase,
            },
            "place": {"out": None if out is None else str(out), "storage": storage, "study": study},
            "space": space,
            "search": {
                "optimizer": optimizer,
                "trials": trials,
                "epsilon": epsilon,
                "objectives": (objectives or "").replace(",", " ").split() or None,
                "constraints": constraint or None,
                "seed": seed,
            },
            "judge": {
                "scheduler": scheduler,
                "mapper": mapper,
                "objective": map_objective,
                "time_limit_s": time_limit,
                "evaluations": evaluations,
                "dram_ports": dram_ports,
                "between_layers": {
                    "activations": activations,
                    "activation_bytes": _bytes(activation_buffer),
                    "resident_weights": resident_weights,
                },
            },
            "fidelity": {
                "fidelities": fidelity,
                "low_mapper": cheap_mapper,
                "low_evaluations": cheap_evaluations,
                "low_cost": cheap_cost,
            },
            "workers": {"count": workers, "executor": executor, "ray_address": ray_address},
        }
        spec = _specification(file, flags)
        if save_config is not None:
            from codesign.study.specification import write_study_spec

            typer.echo(f"study written to {write_study_spec(spec, save_config)}", err=True)
        run = run_explore(spec, front_to_stderr=output_format == "json")
        if output_format == "json":
            typer.echo(json.dumps(front_json(run.study, run.certificate), indent=1))


def _specification(file: Path | None, flags: dict[str, Any]) -> "StudySpec":
    """The study that a file and flags describe; flags count above the file."""
    from codesign.core.files import read_structured
    from codesign.core.specs import merged
    from codesign.study.specification import StudySpec

    below = {} if file is None else read_structured(file)
    if not isinstance(below, dict):
        return StudySpec.from_json(below, str(file))
    whole = merged(below, _given(flags))
    if isinstance(found := _table(whole, "workload"), dict) and not {"networks", "serving"} & set(found):
        raise UserError("which network?", hint="give --network or --workload, or a study file that names one")
    if isinstance(found := _table(whole, "place"), dict) and "out" not in found:
        raise UserError("where is the study kept?", hint="give --out FOLDER")
    if file is not None:
        return StudySpec.from_json(whole, str(file))
    try:
        return StudySpec.from_json(whole, COMMAND_LINE)
    except UserError as error:  # a flag is place enough
        place = error.where if error.where is not None and not error.where.startswith(COMMAND_LINE) else None
        raise type(error)(error.message, where=place, hint=error.hint) from None


def _table(whole: dict[str, Any], name: str) -> Any:
    """What stands under a name; what is no table is refused later, with its own message."""
    return whole.get(name, {})


def _given(flags: dict[str, Any]) -> dict[str, Any]:
    """The flags that were given, nested as in a file."""
    found = {key: _given(value) if isinstance(value, dict) and key != "dims" else value for key, value in flags.items()}
    return {key: value for key, value in found.items() if value is not None and value != {}}


def _bytes(text: str | None) -> int | None:
    return None if text is None else parse_size(text, "--activation-buffer")


def _numbers(option: str, text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.replace(",", " ").split())
    except ValueError:
        raise UserError(f"{option} must be numbers separated by spaces, got {text!r}") from None
