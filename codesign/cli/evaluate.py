"""`codesign evaluate`: what a given mapping costs."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from codesign.cli.compiling import echo_json
from codesign.cli.options import Fields, Flag, OutputFormat, refuse
from codesign.cli.whole_network import NetworkRequest, Output, run_evaluate, run_map
from codesign.core.errors import UserError, unknown_name
from codesign.evaluation.specification import BEST, PARETO, PER_DESIGN
from codesign.library.arguments import Sources
from codesign.library.map_options import MapOptions

if TYPE_CHECKING:
    from codesign.cost.cost import Infeasible
    from codesign.formats.load import Inputs


@dataclass(frozen=True)
class WholeNetwork:
    """Where a network's mappings come from and its result goes.

    Args:
        mappings: Folder with a mapping for every layer of --network; without it the exact mapper finds them.
        out: Folder for report.html, result.json and the mappings.
        per_design: best (each layer's mapping of least energy-delay product) or pareto: all best compromises between
            latency and energy over the mappings of the whole network, proven.
    """

    panel: ClassVar[str] = "Whole network"

    mappings: Path | None = None
    out: Path | None = None
    per_design: str = BEST

    def __post_init__(self) -> None:
        if self.per_design not in PER_DESIGN:
            raise unknown_name("--per-design", self.per_design, PER_DESIGN)


_FIELDS = Fields(
    MapOptions,
    flags={"trace": Flag(kind=Path)},
    left_out=tuple({f.name for f in fields(MapOptions)} - {"reuse", "imperfect", "timing"} | {"candidates"}),
)
"""What is read where mappings are given."""


def evaluate_command(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            help="Architecture, problem, mapping and energy table (ERT), in any order; the project's own files or Timeloop's. "
            "The architecture may be a preset name, the problem a layer."
        ),
    ] = None,
    *,
    sources: Sources,
    network: NetworkRequest,
    whole: WholeNetwork,
    output_format: OutputFormat = "text",
    search: Annotated[MapOptions, _FIELDS],
) -> None:
    """Evaluate a fixed mapping: accesses, energy and latency by level and tensor; or a whole network with a folder of them.

    For example:

    codesign evaluate arch.yaml problem.yaml mapping.yaml

    codesign evaluate --arch eyeriss --layer "gemm M=64 N=64 K=64" mapping.yaml

    codesign evaluate --network resnet18 --arch arch.yaml --mappings runs/mapped/mappings
    """
    output = Output(output_format == "json", whole.out)
    if network.network is not None and whole.per_design == PARETO:
        given = {
            "--mappings": whole.mappings is not None,
            "--out": whole.out is not None,
            "--timing": search.timing.event,
        }
        refuse({**given, "--imperfect": search.imperfect}, "--per-design pareto")
        _show_trade_offs(files, sources, network, output.as_json)
        return
    if network.network is not None:
        _evaluate_network(files, sources, network, whole.mappings, search, output)
        return
    network.refuse_without_network()
    _refuse_for_a_layer(whole.mappings, whole.out, whole.per_design)
    _evaluate_layer(network.narrow(sources.resolve(files, imperfect=search.imperfect)), search, output.as_json)


def _refuse_for_a_layer(mappings: Path | None, out: Path | None, per_design: str) -> None:
    pareto = per_design if per_design != BEST else None
    for flag, value in (("--mappings", mappings), ("--out", out), ("--per-design", pareto)):
        if value is not None:
            raise UserError(f"{flag} is an option of --network", hint=f"leave out {flag}, or give --network")


def _evaluate_network(
    files: list[str] | None,
    sources: Sources,
    network: NetworkRequest,
    mappings: Path | None,
    search: MapOptions,
    output: Output,
) -> None:
    refuse({"--layer": sources.layer is not None, "--trace": search.timing.trace is not None}, "--network")
    hardware, architecture = sources.hardware(files)
    if mappings is None:
        run_map(network, hardware, search.made_mapper, search, output)
    else:
        run_evaluate(network, architecture, mappings, search, output)


def _show_trade_offs(files: list[str] | None, sources: Sources, network: NetworkRequest, as_json: bool) -> None:
    from codesign.cost.cost import Infeasible
    from codesign.evaluation.metrics import format_si
    from codesign.evaluation.trade_offs import trade_offs

    _, architecture = sources.hardware(files)
    found = trade_offs(network.load(architecture), architecture)
    if isinstance(found, Infeasible):
        _show_infeasible(found, as_json)
    elif as_json:
        from codesign.cli.cost_text import provenance_document

        document = {"status": "ok", "proven": found.proven, "points": [m.to_dict() for m in found.points]}
        document |= provenance_document(architecture)
        echo_json(document, indent=1)
    else:
        for metrics in found.points:
            typer.echo(f"latency {format_si(metrics.latency_s, 's')}  energy {format_si(metrics.energy_j, 'J')}")
        typer.echo(f"{len(found.points)} compromises, {'proven complete' if found.proven else 'perhaps not all'}")


def _evaluate_layer(inputs: "Inputs", search: MapOptions, as_json: bool) -> None:
    from codesign.cli.cost_text import print_cost, provenance_document
    from codesign.cli.timing import print_run
    from codesign.library.mapped_layer import evaluate_layer

    architecture, computation = inputs.need_architecture(), inputs.need_computation()
    found = evaluate_layer(computation, architecture, inputs.need_mapping(), search)
    if found.infeasible is not None:
        _show_infeasible(found.infeasible, as_json)
    elif as_json:
        document = {**found.cost.to_json(), "latency_s": found.latency_s, **found.event_json()}
        echo_json({**document, "reuse": search.rule.name.lower(), **provenance_document(architecture)}, indent=1)
    else:
        print_cost(computation, architecture, found.cost)
        if found.run is not None:
            print_run(found.cost, found.run, architecture)


def _show_infeasible(reason: "Infeasible", as_json: bool) -> None:
    from codesign.cli.cost_text import print_infeasible

    if as_json:
        echo_json(reason.to_json(), indent=1)
    else:
        print_infeasible(reason)
