"""`codesign schedule`: how a whole network runs on one accelerator, by one of several schedulers.

The schedulers come in families, one module each (`schedule_soma`, `schedule_cosma`), that say which
names they answer to and which options they read. An option that the chosen scheduler would not read is refused.
"""

import importlib
import importlib.util
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Protocol, cast

import typer

from codesign.cli.inputs import check_format, warnings_to_stderr
from codesign.cli.schedule_options import ScheduleOptions
from codesign.core.errors import UserError, unknown_name


class SchedulerFamily(Protocol):
    """What a module `codesign.cli.schedule_*` offers."""

    SCHEDULERS: dict[str, frozenset[str]]
    """Scheduler name -> names of the `ScheduleOptions` fields it reads besides scheduler and output_format."""

    def run(self, options: ScheduleOptions) -> None:
        """Schedule and print."""


FAMILIES = ("schedule_soma", "schedule_cosma")
DEFAULT_SCHEDULER = "soma"
"""Where the options imply none."""


def _families() -> dict[str, SchedulerFamily]:
    found: dict[str, SchedulerFamily] = {}
    for module_name in FAMILIES:
        if importlib.util.find_spec(f"codesign.cli.{module_name}") is None:
            continue
        family = cast(SchedulerFamily, importlib.import_module(f"codesign.cli.{module_name}"))
        found.update(dict.fromkeys(family.SCHEDULERS, family))
    return found


def _dispatch(options: ScheduleOptions) -> None:
    families = _families()
    if not options.scheduler:
        from codesign.cli.schedule_cosma import implied

        options = replace(options, scheduler=implied(options) or DEFAULT_SCHEDULER)
    if len(options.scheduler.replace(",", " ").split()) > 1:
        from codesign.cli import schedule_compare

        warnings_to_stderr()
        schedule_compare.run(options)
        return
    if options.scheduler not in families:
        raise unknown_name("scheduler", options.scheduler, families)
    family = families[options.scheduler]
    reads = family.SCHEDULERS[options.scheduler] | {"scheduler", "output_format"}
    for option in fields(options):
        if option.name not in reads and getattr(options, option.name) is not None:
            flag = "--" + option.name.replace("_", "-")
            raise UserError(f"{flag} is not used by scheduler {options.scheduler!r}", hint="leave it out")
    warnings_to_stderr()
    family.run(options)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command()
    def schedule(
        network: Annotated[
            str | None, typer.Option(help="Zoo name, ONNX file, .pt2 of torch.export, or a graph as JSON.")
        ] = None,
        scheduler: Annotated[
            str | None,
            typer.Option(
                help="soma, cocco, unfused (fusion and DRAM timing); cosma (order, scratchpad, spills); allocate (addresses only). Several names, e.g. soma cosma: side by side on one --arch. "
                "Default: cosma for a graph in bytes or --parameters, allocate for --buffers, else soma."
            ),
        ] = None,
        arch: Annotated[str | None, typer.Option(help="Preset name or YAML file, e.g. soma-edge.")] = None,
        phase: Annotated[str | None, typer.Option(help="prefill or decode, for language models.")] = None,
        seq: Annotated[
            int | None, typer.Option(help="Sequence length (decode: tokens attended to, the new one included).")
        ] = None,
        past: Annotated[int | None, typer.Option(help="Tokens in the cache, for language models.", min=0)] = None,
        dims: Annotated[
            str | None, typer.Option(help="Lengths of an ONNX file's free axes: --dims batch=4 seq=128 past=1024.")
        ] = None,
        batch: Annotated[int | None, typer.Option(help="Samples processed together.")] = None,
        capacity: Annotated[
            str | None, typer.Option(help="Scratchpad size: bytes, 512KiB, 8MiB, or M_R, M_H, M_P.")
        ] = None,
        buffers: Annotated[
            Path | None, typer.Option(help="CSV of buffers (id, lower, upper, size) for `allocate`.")
        ] = None,
        parameters: Annotated[
            bool | None, typer.Option("--parameters", help="Weights take part in the scratchpad too.")
        ] = None,
        unfused: Annotated[
            bool | None,
            typer.Option("--unfused-graph", help="Keep conv, norm and activation as separate operators."),
        ] = None,
        route: Annotated[str | None, typer.Option(help="How to solve: decomposed (default) or monolithic.")] = None,
        mode: Annotated[
            str | None, typer.Option(help="reference (published model) or default (its defects mended).")
        ] = None,
        tile_cost: Annotated[
            str | None,
            typer.Option(
                help="What a tile costs inside the core: template (SoMa's own model) or a mapper of this project, on any --arch."
            ),
        ] = None,
        evaluate: Annotated[
            Path | None, typer.Option(help="Evaluate the encodings in this file instead of searching.")
        ] = None,
        objective: Annotated[str | None, typer.Option(help="What to minimise; see docs.")] = None,
        time_limit: Annotated[float | None, typer.Option(help="Seconds of search.")] = None,
        evaluations: Annotated[int | None, typer.Option(help="Schemes scored at most.")] = None,
        prove: Annotated[
            float | None,
            typer.Option(
                help="Seconds of constraint programming: improve the schedule's DRAM attributes or prove its gap."
            ),
        ] = None,
        chains: Annotated[int | None, typer.Option(help="Independent annealing chains.")] = None,
        workers: Annotated[int | None, typer.Option(help="Processes.")] = None,
        seed: Annotated[int | None, typer.Option(help="Seed of every random choice.")] = None,
        html: Annotated[Path | None, typer.Option(help="Write the picture of the schedule to this page.")] = None,
        out: Annotated[
            Path | None, typer.Option(help="Write the schedule (and its instruction list) to this JSON file.")
        ] = None,
        output_format: Annotated[str, typer.Option("--format", help="text or json.")] = "text",
    ) -> None:
        """Schedule a whole network on one accelerator: fusion, order, DRAM traffic, scratchpad addresses."""
        check_format(output_format)
        _dispatch(
            ScheduleOptions(
                scheduler=scheduler or "", output_format=output_format, network=network, arch=arch, phase=phase, seq=seq, past=past, dims=dims, batch=batch,
                capacity=capacity, buffers=buffers, parameters=parameters, unfused=unfused, route=route, mode=mode, tile_cost=tile_cost,
                evaluate=evaluate, objective=objective, time_limit=time_limit, evaluations=evaluations, prove=prove, chains=chains, workers=workers, seed=seed, html=html, out=out,
            )
        )  # fmt: skip
