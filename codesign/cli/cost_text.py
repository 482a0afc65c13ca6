"""A cost as text: the loop nest, what bounds the latency, a table by level and tensor."""

from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from codesign.arch.architecture import Architecture, Ports, StorageLevel
from codesign.cli.tables import make_console, make_table
from codesign.core.json_types import JsonObject
from codesign.workloads.computation import Computation

if TYPE_CHECKING:
    from codesign.cost.cost import Cost, ZeroMacs

_CLOSE = (0, 1, 0, 0)
"""Padding of wide tables."""


def print_cost(computation: Computation, architecture: Architecture, cost: "Cost") -> None:
    """Print a cost for people."""
    console = make_console()
    bounds = ", ".join(f"{d}={b}" for d, b in computation.sizes.items())
    console.print(f"{computation}\n{bounds}\non {architecture.name}\n", markup=False)
    console.print(cost.loop_nest, markup=False, soft_wrap=True)
    console.print()
    seconds = cost.latency_cycles / architecture.clock_hz
    console.print(
        f"latency      {cost.latency_cycles:,} cycles = {seconds:.4g} s at {architecture.clock_hz / 1e6:g} MHz"
    )
    console.print(f"             bound by {_bound(cost)}")
    used = cost.units_used
    console.print(
        f"utilization  {cost.utilization:.2%} of {cost.mac_units:,} MAC units over the whole run; {used:,} are mapped to"
    )
    console.print(f"energy       {cost.energy_pj:.6g} pJ ({cost.energy_pj / cost.macs:.4g} pJ per MAC)")
    console.print(f"EDP          {cost.edp:.6g} pJ x cycle")
    console.print(f"DRAM         {cost.dram_bytes:,.0f} bytes moved at {architecture.levels[0].name}")
    print_provenance(console, architecture)
    console.print()
    console.print(_traffic_table(cost))
    if cost.zero_macs is not None:
        console.print(_zeros_table(cost, cost.zero_macs))
    console.print(_level_table(architecture, cost))


def print_infeasible(reason: object) -> None:
    """Why there is no result."""
    typer.echo(f"infeasible: {reason}")


def print_provenance(console: Console, architecture: Architecture) -> None:
    """Where energy and area come from, in a line."""
    console.print(f"figures      {provenance_line(architecture)}", markup=False, soft_wrap=True)


def provenance_line(architecture: Architecture | None) -> str:
    """The same as text; without an architecture all figures are given."""
    from codesign.arch.provenance import recorded_text
    from codesign.arch.technology_files import provenance_of

    return recorded_text(provenance_of(None if architecture is None else architecture.technology))


def provenance_document(architecture: Architecture | None) -> JsonObject:
    """The same for a document in JSON."""
    from codesign.arch.technology_files import provenance_of

    return {"provenance": provenance_of(None if architecture is None else architecture.technology)}


def _bound(cost: "Cost") -> str:
    from codesign.cost.cost import COMPUTE

    named = [
        f"compute: {cost.macs:,} MACs on {cost.units_used:,} units" if name == COMPUTE else f"the bandwidth of {name}"
        for name in cost.bottlenecks
    ]
    text = f"{' and equally by '.join(named)}"
    if COMPUTE in cost.bottlenecks:
        return text
    ratio = cost.latency_cycles / cost.compute_cycles
    return f"{text}; compute alone needs {cost.compute_cycles:,} cycles ({ratio:.3g}x fewer)"


def bandwidth_text(level: StorageLevel) -> str:
    """Bytes per cycle of one instance as its ports share them: ``16, one port``, ``16 each way``, ``unlimited``."""
    read, write = (None if words is None else f"{words * level.word_bits / 8:.4g}" for words in level.words_per_cycle)
    if read is None and write is None:
        return "unlimited"
    one_port = level.ports is Ports.SHARED
    if read == write:
        return f"{read}, one port" if one_port else f"{read} each way"
    text = f"{read or 'unlimited'} read, {write or 'unlimited'} written"
    return f"{text}, one port" if one_port else text


def _traffic_table(cost: "Cost") -> Table:
    numbers = ("tile>", "reads>", "fills>", "updates>", "energy (pJ)>", "share>")
    title = "Accesses: elements, totals over all instances (tile: of one instance)"
    table = make_table(title, "level", "tensor", *numbers, padding=_CLOSE)
    for level in cost.levels:
        for tensor in level.tensors:
            counts = [f"{n:,}" for n in (tensor.tile_words, tensor.reads, tensor.fills, tensor.updates)]
            table.add_row(level.level, tensor.tensor, *counts, *_energy(tensor.energy_pj, cost))
        if level.network_pj:
            table.add_row(level.level, "network below", "", "", "", "", *_energy(level.network_pj, cost))
        table.add_section()
    table.add_row("MAC", f"{cost.macs:,} MACs", "", "", "", "", *_energy(cost.mac_energy_pj, cost))
    return table


def _zeros_table(cost: "Cost", macs: "ZeroMacs") -> Table:
    title = "Zeros, expected: accesses gated and skipped, metadata moved, non-zeros in a tile (overflow: chance it does not fit)"
    numbers = ("dense reads>", "actual>", "gated>", "skipped>", "metadata bytes>", "non-zeros held>", "overflow>")
    table = make_table(title, "level", "tensor", *numbers, padding=_CLOSE)
    for level in cost.levels:
        for tensor in level.tensors:
            zeros = tensor.zeros
            if zeros is not None:
                counts = (
                    zeros.dense_reads,
                    tensor.reads,
                    zeros.gated_reads,
                    zeros.skipped_reads,
                    zeros.metadata_bits / 8,
                )
                held = (f"{zeros.held_words:,.0f}", f"{zeros.overflow:.2g}")
                table.add_row(level.level, tensor.tensor, *(f"{n:,.0f}" for n in counts), *held)
    table.add_row("MAC", "", *(f"{n:,.0f}" for n in (cost.macs, macs.actual, macs.gated, macs.skipped)), "", "", "")
    return table


def _energy(energy_pj: float, cost: "Cost") -> tuple[str, str]:
    share = energy_pj / cost.energy_pj if cost.energy_pj else 0.0
    return f"{energy_pj:,.1f}", f"{share:.1%}"


def _level_table(architecture: Architecture, cost: "Cost") -> Table:
    title = "Resources: cycles in which each is busy; the largest is the latency (bandwidth: bytes per cycle of one instance)"
    numbers = ("instances used>", "bytes used>", "bytes available>", "bandwidth>", "busy cycles>", "share>", ">")
    table = make_table(title, "level", *numbers, padding=_CLOSE)
    for level in cost.levels:
        capacity = "unbounded" if level.capacity_bytes is None else f"{level.capacity_bytes:,.0f}"
        bandwidth = bandwidth_text(architecture.level(level.level))
        used = (f"{level.instances:,}", f"{level.used_bytes:,.0f}", capacity, bandwidth)
        table.add_row(level.level, *used, *_busy(level.level, level.busy_cycles, cost))
    units = f"{cost.units_used:,}"
    table.add_row("MAC", units, "", "", "", *_busy("compute", cost.compute_cycles, cost))
    return table


def _busy(name: str, cycles: int, cost: "Cost") -> tuple[str, str, str]:
    return f"{cycles:,}", f"{cycles / cost.latency_cycles:.1%}", "<- bounds" if name in cost.bottlenecks else ""
