"""`codesign serve`: what one accelerator does for the requests to a language model."""

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codesign.cli.compiling import echo_json
from codesign.cli.options import Fields, Flag, OutputFormat
from codesign.core.errors import UserError
from codesign.library.serve_options import ServeOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from codesign.arch.many_core import ManyCore
    from codesign.evaluation.serving import ServingResult
    from codesign.evaluation.serving_phases import Phase
    from codesign.library.serving import ServedModel


def _cut(stages: str) -> int | str:
    return int(stages) if stages.isdigit() else stages


_FLAGS = {"time_limit_s": Flag("time-limit"), "stages": Flag(kind=str, read=_cut)}


def serve_command(
    spec: Annotated[Path, typer.Argument(help="What is served: model, requests, batch, chips (YAML).")],
    arch: Annotated[str | None, typer.Option(help="Preset name or architecture file of one chip.")] = None,
    system: Annotated[
        str | None, typer.Option(help="System of many cores instead, by name or file: its dies are the chips.")
    ] = None,
    mapper: Annotated[
        str | None,
        typer.Option(help="Search for each layer's mapping (default exact); an unknown name lists them."),
    ] = None,
    *,
    options: Annotated[ServeOptions, Fields(ServeOptions, flags=_FLAGS, left_out=("mapper",))],
    output_format: OutputFormat = "text",
) -> None:
    """Time to first token, time per output token, tokens per second and per joule, and what binds prefill and decode.

    For example:

    codesign serve serving.yaml --arch soma-cloud --mapper anneal --evaluations 2000

    codesign serve serving.yaml --system gemini-72t --stages auto --step-times segments --time-limit 5
    """
    from codesign.library.serving import serve as judge

    trees = options.step_times == "segments"
    if mapper is not None and trees:
        raise UserError("--mapper is an option of --step-times layers", hint="leave one of them out")
    with _searches(trees) as began:
        served = judge(spec, _machine(arch, system), replace(options, mapper=mapper or ServeOptions.mapper), began)
    if output_format == "json":
        echo_json(served.to_json())
    else:
        _show(served)


@contextmanager
def _searches(shown: bool) -> "Iterator[Callable[[str], None]]":
    """A line on standard error that counts searches and says which one goes on."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("search {task.completed:.0f}: {task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not shown) as progress:
        task = progress.add_task("", total=None)
        yield lambda what: progress.update(task, advance=1, description=what)


def _machine(arch: str | None, system: str | None) -> "str | ManyCore":
    """What serves: a chip by name or file, or a system.

    Raises:
        UserError: Neither is named, or both.
    """
    if system is not None and arch is None:
        from codesign.arch.many_core_files import load_system

        return load_system(system)
    if arch is None or system is not None:
        given = "neither" if arch is None else "both"
        raise UserError(f"expected --arch or --system, got {given}", hint="e.g. --arch soma-cloud")
    return arch


def _show(served: "ServedModel") -> None:
    if served.infeasible is not None:
        typer.echo(f"infeasible: {served.infeasible}")
    else:
        _print(served.found, served.timing)
    if served.splits:
        _print_splits(served)


def _print(found: "ServingResult", timing: str) -> None:
    from codesign.cli.cost_text import provenance_line
    from codesign.evaluation.metrics import format_si

    spec = found.spec
    chips = f"{spec.chips.count} x {found.architecture.name}"
    if spec.chips.stages > 1:
        chips += f" in {spec.chips.stages} stages of {spec.chips.tensor}"
    typer.echo(
        f"{spec.name} on {chips}: batch {spec.batch}, {spec.mean_output:g} output tokens a request, "
        f"{spec.mean_context:,} tokens of context on average"
    )
    energies = "the same trees" if timing == "segments" else "the mappings"
    typer.echo(f"times from             {timing} model; energies from {energies}")
    typer.echo(f"figures                {provenance_line(found.architecture)}")
    typer.echo(f"time to first token    {format_si(found.ttft_s, 's')} (mean of the requests, prompt alone)")
    typer.echo(f"time per output token  {format_si(found.tpot_s, 's')} (prefills of others included)")
    typer.echo(f"tokens per second      {found.tokens_per_s:,.2f}")
    typer.echo(f"tokens per joule       {1 / found.joules_per_token:,.3f}")
    for phase, share in found.prefills:
        typer.echo(f"prefill of {phase.tokens:,} tokens ({share:.0%} of requests): {_phase(phase)}")
    typer.echo(f"decode step of {spec.batch} at {found.decode.past:,} tokens of cache: {_phase(found.decode)}")
    for number, stage in enumerate(found.memory if spec.chips.stages > 1 else (), 1):
        typer.echo(
            f"stage {number}: {stage.layers} layers, {format_si(found.decode.stage_s[number - 1], 's')} a part of a decode step; "
            f"a chip keeps weights of {stage.weight_bytes:,.0f} bytes and caches of {stage.cache_bytes:,.0f}"
        )
    least = found.compute_bound_batch
    if least is None:
        typer.echo("decoding is bound by DRAM at every batch: the caches alone take longer than the arithmetic")
    else:
        typer.echo(f"decoding stops being bound by DRAM at batch {least:,} (peak rates)")


def _print_splits(served: "ServedModel") -> None:
    """All ways to share the layers that were tried, and why the kept one was."""
    from codesign.evaluation.metrics import format_si
    from codesign.evaluation.serving import ServingResult

    kept = next(split for split in served.splits if split.stages == served.spec.chips.stages)
    typer.echo(f"ways to share the layers; {_way(kept.stages, kept.tensor)} makes the most tokens a second:")
    for split in served.splits:
        found = split.result
        text = str(found)
        if isinstance(found, ServingResult):
            text = (
                f"{found.tokens_per_s:,.2f} tokens per second, first token after {format_si(found.ttft_s, 's')}, "
                f"each further one {format_si(found.tpot_s, 's')}"
            )
        typer.echo(f"  {_way(split.stages, split.tensor)}: {text}")


def _way(stages: int, tensor: int) -> str:
    return f"{stages} {'stage' if stages == 1 else 'stages'} of {tensor}"


def _phase(phase: "Phase") -> str:
    from codesign.evaluation.metrics import format_si

    bound = ", ".join(f"{name} {share:.0%}" for name, share in phase.bound_by if share >= 0.005)
    text = f"{format_si(phase.latency_s, 's')}, {format_si(phase.energy_j, 'J')}, {phase.dram_bytes:,.0f} DRAM bytes; time bound by {bound}"
    if phase.gap is not None:
        text += f"; {phase.gap:.1%} over what no trees can beat"
    if len(phase.stage_s) > 1:
        text += f"; in {phase.micro_batches} parts, chips wait {phase.waiting:.0%} of it for other stages"
    return text
