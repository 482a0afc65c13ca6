"""The options of `codesign schedule`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from codesign.cli.options import OutputFormat


@dataclass(frozen=True)
class ScheduleOptions:
    """What was given on the command line; None where nothing was (no scheduler: one is implied)."""

    network: Annotated[
        str | None, typer.Option(help="Zoo name, ONNX file, .pt2 of torch.export, or a graph as JSON.")
    ] = None
    scheduler: Annotated[
        str,
        typer.Option(
            help="soma, cocco, unfused (fusion and DRAM timing); fused (fusion with each operator's mapping inside, proven); cosma (order, scratchpad, spills); allocate (addresses only). Several names, e.g. soma cosma: side by side on one --arch. "
            "Default: cosma for a graph in bytes or --parameters, allocate for --buffers, else soma.",
            show_default=False,
        ),
    ] = ""
    arch: Annotated[str | None, typer.Option(help="Preset name or YAML file, e.g. soma-edge.")] = None
    phase: Annotated[str | None, typer.Option(help="prefill or decode, for language models.")] = None
    seq: Annotated[
        int | None, typer.Option(help="Sequence length (decode: tokens attended to, the new one included).")
    ] = None
    past: Annotated[int | None, typer.Option(help="Tokens in the cache, for language models.", min=0)] = None
    dims: Annotated[
        str | None, typer.Option(help="Lengths of an ONNX file's free axes: --dims batch=4 seq=128 past=1024.")
    ] = None
    batch: Annotated[int | None, typer.Option(help="Samples processed together.")] = None
    capacity: Annotated[str | None, typer.Option(help="Scratchpad size: bytes, 512KiB, 8MiB, or M_R, M_H, M_P.")] = None
    buffers: Annotated[Path | None, typer.Option(help="CSV of buffers (id, lower, upper, size) for `allocate`.")] = None
    parameters: Annotated[
        bool | None, typer.Option("--parameters", help="Weights take part in the scratchpad too.")
    ] = None
    unfused: Annotated[
        bool | None,
        typer.Option("--unfused-graph", help="Keep conv, norm and activation as separate operators."),
    ] = None
    route: Annotated[str | None, typer.Option(help="How to solve: decomposed (default) or monolithic.")] = None
    mode: Annotated[str | None, typer.Option(help="reference (published model) or default (its defects mended).")] = (
        None
    )
    tile_cost: Annotated[
        str | None,
        typer.Option(
            help="What a tile costs inside the core: template (SoMa's own model) or a mapper of this project, on any --arch."
        ),
    ] = None
    evaluate: Annotated[Path | None, typer.Option(help="Evaluate the encodings in this file instead of searching.")] = (
        None
    )
    objective: Annotated[
        str | None,
        typer.Option(
            help="energy, latency or edp (default); soma and fused take any eNdM, e.g. e1d2; cosma bytes (default), energy or latency."
        ),
    ] = None
    time_limit: Annotated[float | None, typer.Option(help="Seconds of search.")] = None
    evaluations: Annotated[int | None, typer.Option(help="Schemes scored at most.")] = None
    prove: Annotated[
        float | None,
        typer.Option(
            help="Seconds of constraint programming: improve the schedule's DRAM attributes or prove its gap."
        ),
    ] = None
    halos: Annotated[
        bool | None,
        typer.Option("--halos", help="Let windows share loops (fused): halos computed again or kept, what is better."),
    ] = None
    start: Annotated[
        str | None,
        typer.Option(help="bound (soma also starts from the fusion of its bound, default) or greedy (it does not)."),
    ] = None
    chains: Annotated[int | None, typer.Option(help="Independent annealing chains.")] = None
    workers: Annotated[int | None, typer.Option(help="Threads that run them (soma).")] = None
    seed: Annotated[int | None, typer.Option(help="Seed of every random choice.")] = None
    timing: Annotated[
        str | None, typer.Option(help="event: simulate the schedule that is found; default: its analytical timing.")
    ] = None
    timing_table: Annotated[
        str | None,
        typer.Option(help="With --timing event: table by name or file; default: the one named like the architecture."),
    ] = None
    dram_device: Annotated[
        str | None,
        typer.Option(
            help="With --timing event (segments): DRAM of the controllers, e.g. gddr6_x16; default: a steady rate."
        ),
    ] = None
    trace: Annotated[
        Path | None, typer.Option(help="With --timing event: write the timeline for Perfetto to this JSON file.")
    ] = None
    html: Annotated[Path | None, typer.Option(help="Write the picture of the schedule to this page.")] = None
    out: Annotated[
        Path | None, typer.Option(help="Write the schedule (and its instruction list) to this JSON file.")
    ] = None
    output_format: OutputFormat = "text"
