"""`codesign evaluate`: what a given mapping costs."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codesign.cli.inputs import (
    ArchName,
    ClockHz,
    LayerText,
    TechnologyName,
    check_format,
    parse_reuse,
    resolve,
    warnings_to_stderr,
)
from codesign.cli.timing import DEFAULT_LIMIT, OperationLimit, TimingMode, TimingRequest, TimingTable, TraceFile
from codesign.cli.whole_network import (
    Batch,
    Bits,
    Dims,
    NetworkName,
    NetworkRequest,
    PartialBits,
    Past,
    Phase,
    Seq,
    read_hardware,
    refuse,
    run_evaluate,
    run_map,
)
from codesign.core.errors import UserError

if TYPE_CHECKING:
    from codesign.arch.architecture import Architecture
    from codesign.cost.arrays import Reuse
    from codesign.cost.cost import Cost, Infeasible
    from codesign.mapping.mapping import Mapping
    from codesign.workloads.computation import Computation


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command()
    def evaluate(
        files: Annotated[
            list[str] | None,
            typer.Argument(
                help="Architecture, problem, mapping and energy table (ERT), in any order; the project's own files or Timeloop's. "
                "The architecture may be a preset name, the problem a layer."
            ),
        ] = None,
        arch: ArchName = None,
        layer: LayerText = None,
        network: NetworkName = None,
        mappings: Annotated[
            Path | None,
            typer.Option(
                help="Folder with a mapping for every layer of --network; without it the exact mapper finds them.",
                rich_help_panel="Whole network",
            ),
        ] = None,
        batch: Batch = None,
        seq: Seq = None,
        past: Past = None,
        phase: Phase = None,
        dims: Dims = None,
        bits: Bits = None,
        partial_bits: PartialBits = None,
        output_format: Annotated[str, typer.Option("--format", help="text or json.")] = "text",
        reuse: Annotated[
            str,
            typer.Option(
                help="What a buffer need not fetch again: timeloop (that tool's rule), walk (the same, walked truly), "
                "resident (all it still holds)."
            ),
        ] = "timeloop",
        clock_hz: ClockHz = None,
        technology: TechnologyName = None,
        out: Annotated[
            Path | None,
            typer.Option(help="Folder for report.html, result.json and the mappings.", rich_help_panel="Whole network"),
        ] = None,
        timing: TimingMode = "analytical",
        timing_table: TimingTable = None,
        trace: TraceFile = None,
        operation_limit: OperationLimit = DEFAULT_LIMIT,
    ) -> None:
        """Evaluate a fixed mapping: accesses, energy and latency by level and tensor; or a whole network with a folder of them.

        For example:

        codesign evaluate arch.yaml problem.yaml mapping.yaml

        codesign evaluate --arch eyeriss --layer "gemm M=64 N=64 K=64" mapping.yaml

        codesign evaluate --network resnet18 --arch arch.yaml --mappings runs/mapped/mappings
        """
        check_format(output_format)
        warnings_to_stderr()
        rule = parse_reuse(reuse)
        timed = TimingRequest(timing, timing_table, trace, operation_limit)
        request = NetworkRequest(network, batch, seq, past, phase, dims, bits, partial_bits)
        if network is not None:
            from codesign.evaluation.network import EvaluationOptions

            refuse({"--layer": layer is not None, "--trace": trace is not None})
            hardware, architecture = read_hardware(files or [], arch, clock_hz, technology)
            options = EvaluationOptions(reuse=rule)
            if mappings is None:
                run_map(request, hardware, None, options, output_format, out, timed)
            else:
                run_evaluate(request, architecture, mappings, options, output_format, out, timed)
            return
        request.refuse_without_network()
        for option, value in (("--mappings", mappings), ("--out", out)):
            if value is not None:
                raise UserError(f"{option} is an option of --network", hint=f"leave out {option}, or give --network")
        inputs = resolve(files or [], arch=arch, layer=layer, clock_hz=clock_hz, technology=technology)
        architecture, computation, mapping = (
            inputs.need_architecture(),
            inputs.need_computation(),
            inputs.need_mapping(),
        )
        from codesign.cost.cost import Infeasible
        from codesign.cost.cost import evaluate as evaluate_mapping

        cost = evaluate_mapping(computation, architecture, mapping, reuse=rule)
        if timed.event and not isinstance(cost, Infeasible):
            show_timed(timed, computation, architecture, mapping, cost, rule, output_format)
            return
        if output_format == "json":
            document = cost.to_json()
            if not isinstance(cost, Infeasible):
                document |= {"latency_s": cost.latency_cycles / architecture.clock_hz, "reuse": rule.name.lower()}
            typer.echo(json.dumps(document, indent=1))
        elif isinstance(cost, Infeasible):
            print_infeasible(cost)
        else:
            from codesign.cli.cost_text import print_cost

            print_cost(computation, architecture, cost)


def show_timed(
    timed: TimingRequest,
    computation: "Computation",
    architecture: "Architecture",
    mapping: "Mapping",
    cost: "Cost",
    rule: "Reuse",
    output_format: str,
) -> None:
    """Print a mapping's cost with its simulated run beside it."""
    from codesign.cli.timing import event_document, print_run
    from codesign.cost.cost import Infeasible

    run, seconds = timed.run(computation, architecture, mapping, rule)
    if isinstance(run, Infeasible):
        print_infeasible(run)
    elif output_format == "json":
        document = cost.to_json() | event_document(cost, run, architecture, seconds)
        typer.echo(json.dumps({**document, "reuse": rule.name.lower()}, indent=1))
    else:
        from codesign.cli.cost_text import print_cost

        print_cost(computation, architecture, cost)
        print_run(cost, run, architecture)


def print_infeasible(reason: "Infeasible") -> None:
    """Why there is no result."""
    typer.echo(f"infeasible: {reason}")
