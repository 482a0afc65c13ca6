"""`codesign build`: the hardware of a design and its program, as Verilog, simulated and synthesised."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codesign.cli.compiling import echo_json
from codesign.cli.options import Fields, Flag, OutputFormat
from codesign.library.build_options import BuildOptions

if TYPE_CHECKING:
    from codesign.hardware.power import MachinePower
    from codesign.library.built_hardware import BuiltHardware, HostRecord

_HARDWARE = Flag(panel="Hardware")
_DONE = dict.fromkeys(("simulate", "synthesize", "power", "simulator", "host_driver"), _HARDWARE)


def build_command(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            help="A study's folder (with --trial), or architecture, problem and mapping files in any order."
        ),
    ] = None,
    *,
    options: Annotated[BuildOptions, Fields(BuildOptions, flags=_DONE)],
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("runs/hardware"),
    output_format: OutputFormat = "text",
) -> None:
    """Generate the hardware of a design with its mapping or program; perhaps simulate and synthesise it.

    For example:

    codesign build runs/demo --trial 17 --layer conv1 --out runs/chip --simulate

    codesign build arch.yaml problem.yaml mapping.yaml --out runs/chip

    codesign build --space gemmcore --design pe=8 --layer "gemm M=32 N=32 K=32" --simulate --synthesize

    codesign build --space convcore --network digits_int8.onnx --host-driver --simulate
    """
    from codesign.library.building import build as build_hardware

    built = build_hardware(what or (), out, options)
    show(built, output_format)
    if built.mismatch is not None:
        typer.echo(f"mismatch: {built.mismatch}", err=True)
        raise typer.Exit(1)


def show(built: "BuiltHardware", output_format: str) -> None:
    """Print the result."""
    document = built.document
    if output_format == "json":
        echo_json(document, indent=1)
        return
    typer.echo(f"written     {document['out']}: {', '.join(document['files'])}")
    predicted = f"{document['predicted_cycles']:,} by pipeline depths"
    if "simulation" in document and document["simulation"]["cycles"] != document["predicted_cycles"]:
        # AXI4's responses, answers by tag and a DRAM's banks are simulated alone
        predicted = f"{document['simulation']['cycles']:,} simulated, {predicted} of the plain port"
    typer.echo(f"cycles      {predicted}, {document['analytic_cycles']:,.0f} by the cost model")
    if "simulation" in document:
        s = document["simulation"]
        same = "equal" if s["bit_equal"] else "DIFFERENT"
        typer.echo(f"simulated   {s['cycles']:,} cycles in {s['seconds']:.2f} s ({s['simulator']}), results {same}")
        typer.echo(
            f"accesses    DRAM {'equal' if s['dram_equal'] else 'DIFFERENT'}, all {'equal' if s['accesses_equal'] else 'DIFFERENT'}"
        )
    if "host" in document:
        show_host(document["host"])
    if built.power is not None:
        show_power(built.power)
    if built.synthesis is not None:
        cells = built.synthesis
        typer.echo(
            f"synthesised {cells.nand2:,.0f} NAND2 ({cells.area_um2 / 1e6:.3f} mm2 of cells as published at 0.18 um), {cells.flip_flops:,} flip-flops, {cells.levels} levels"
        )


def show_power(power: "MachinePower") -> None:
    """Print what a machine takes."""
    echo, each = typer.echo, power.cycle_pj * power.cycles / max(1, power.multiplications)
    counted = f"{power.replayed_cycles:,} of {power.cycles:,} cycles replayed on cells"
    echo(
        f"power       {power.milliwatts:,.1f} mW at {power.clock_ns:.2f} ns a cycle (0.18 um), {each:,.1f} pJ a multiplication"
    )
    echo(
        f"            {power.cycle_pj:,.1f} +- {power.interval_pj:,.1f} pJ a cycle (95 %), {counted}; no wires, no glitches"
    )
    for part in power.parts:
        echo(f"  {part.part:16}{part.switching_pj:10,.1f} pJ switching{part.clock_pj:10,.1f} pJ clock")


def show_host(host: "HostRecord") -> None:
    """Print what a host's program did."""
    typer.echo(f"host        {host['launches']} launches, {host['predicted_cycles']:,} cycles predicted")
    if "cycles" not in host:
        return
    same = "equal" if host["integers_equal"] else "DIFFERENT"
    other = {True: ", those of ONNX Runtime", False: ", NOT those of ONNX Runtime"}
    text = other[host["onnxruntime_equal"]] if "onnxruntime_equal" in host else ""
    typer.echo(f"host ran    {host['cycles']:,} cycles in {host['seconds']:.2f} s, integers {same}{text}")
