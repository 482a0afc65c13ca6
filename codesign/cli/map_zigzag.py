"""`codesign map --semantics zigzag`: loop orders of one layer on an accelerator in ZigZag's files."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from codesign.cli.compiling import echo_json

if TYPE_CHECKING:
    from codesign.cli.whole_network import Output
    from codesign.core.goals import Objective
    from codesign.cost.zigzag.layer import UnrolledLayer
    from codesign.library.map_options import MapOptions
    from codesign.mappers.loop_order.zigzag_search import OrderResult


def map_orders(files: Sequence[str], search: "MapOptions", output: "Output") -> None:
    """Find, print and write the best loop order."""
    from codesign.library.other_rules import order_mapper
    from codesign.library.zigzag_files import read_layer

    goal, searcher = search.goal, order_mapper(search)
    layer, chosen = read_layer(files, goal)
    if chosen:
        typer.echo(f"no mapping file gives a spatial mapping; chosen: {unrolling_text(layer)}", err=True)
    result = searcher.map_orders(layer, goal, budget=search.budget, seed=search.seed)
    if output.out is not None:
        _write(output.out, result, searcher.name, goal)
    if output.as_json:
        document = {**result.to_json(), "mapper": searcher.name, "objective": goal.value, "semantics": "zigzag"}
        echo_json(document, indent=1)
    else:
        _print(result)


def unrolling_text(layer: "UnrolledLayer") -> str:
    """``D1: OY 9; D2: FY 5, K 2``."""
    parts = [f"{array}: {', '.join(f'{d} {n}' for d, n in loops) or '-'}" for array, loops in layer.unrolling]
    return "; ".join(parts) or "nothing unrolled"


def _write(out: Path, result: "OrderResult", mapper: str, goal: "Objective") -> None:
    from codesign.core.files import write_json

    if result.mapping is None:
        typer.echo(f"no mapping was found; {out} is not written", err=True)
        return
    document = {"mapper": mapper, "objective": goal.value, "mapping": result.mapping_json(result.mapping)}
    write_json(out, document)


def _print(result: "OrderResult") -> None:
    from codesign.cli.cost_text import print_infeasible, provenance_line

    if result.mapping is None or result.cost is None:
        if result.infeasible is not None:
            print_infeasible(result.infeasible)
    else:
        cost = result.cost
        order = " ".join(f"{dim}{factor}" for dim, factor in result.mapping.loops)
        typer.echo(f"spatial: {unrolling_text(result.layer)}")
        typer.echo(f"order, innermost first: {order or '(none: the layer is fully spatial)'}")
        for t, tensor in enumerate(result.layer.computation.tensors):
            for level, kept in zip(cost.levels[tensor.name], result.mapping.kept(t), strict=True):
                loops = " ".join(f"{dim}{factor}" for dim, factor in kept)
                typer.echo(f"  {tensor.name:<3} {level.memory:<14} {level.energy_pj:>14,.0f} pJ  {loops}")
        typer.echo(f"energy {cost.energy_pj:,.6g} pJ, latency {cost.latency_cycles:,.8g} cycles, EDP {cost.edp:.6g}")
        typer.echo(f"figures: {provenance_line(None)}")
        typer.echo(
            f"latency: {cost.compute_cycles:,} computing, {cost.stall_cycles:,.6g} stalled, "
            f"{cost.loading_cycles:,.6g} loading, {cost.unloading_cycles:,.6g} unloading"
        )
    typer.echo(
        f"{result.evaluated:,} of {result.orders:,} orders scored in {result.seconds:.2f} s ({result.engine}); "
        f"proof: {result.proof.value}"
        + (f", gap {result.gap:.3%}" if result.gap is not None else "")
        + (" (the best of all orders with the cuts of rule Z4; `--mapper exact` proves)" if result.complete else "")
    )
