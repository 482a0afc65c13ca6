"""`codesign map`: the best mapping of one operator on one accelerator that a mapper finds."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codesign.cli.compiling import echo_json
from codesign.cli.inputs import counted
from codesign.cli.map_options import ACCELFORGE, TIMELOOP, ZIGZAG, MapRules, Search
from codesign.cli.options import OutputFormat, given_flags, refuse
from codesign.cli.whole_network import NetworkRequest, Output, run_map
from codesign.core.errors import UserError
from codesign.core.json_types import JsonObject
from codesign.library.arguments import Sources
from codesign.library.map_options import MapOptions

if TYPE_CHECKING:
    from codesign.library.mapped_layer import MappedLayer
    from codesign.mappers.protocol import MipReport

DEFAULT_MAPPER = "anneal"
"""Search for one layer's mapping where none is named."""


def map_command(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            help="Architecture, problem, constraints and energy table (ERT), in any order; the project's own files or Timeloop's."
        ),
    ] = None,
    *,
    sources: Sources,
    network: NetworkRequest,
    rules: MapRules,
    search: Search,
    output_format: OutputFormat = "text",
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write the mapping to this YAML file; with --network a folder of mappings, report.html and result.json."
        ),
    ] = None,
) -> None:
    """Find the best mapping of one operator, or of every layer of a network, on one accelerator.

    For example:

    codesign map --arch eyeriss --layer "conv K=64 C=64 P=56 Q=56 R=3 S=3" --mapper exact

    codesign map --network resnet18 --arch my_arch.yaml --out runs/mapped
    """
    output = Output(output_format == "json", out)
    if network.network is not None:
        _map_network(files, sources, network, rules, search, output)
        return
    network.refuse_without_network()
    if out is not None and out.is_dir():
        raise UserError(
            f"--out must be a file for one layer, got the folder {out}", hint=f"e.g. --out {out}/mapping.yaml"
        )
    if rules.semantics == TIMELOOP:
        _map_layer(files, sources, network, rules, search, output)
        return
    given = {"--precision": network.precision is not None, **given_flags(sources)}
    refuse(given, f"--semantics {rules.semantics}", hint=f"give files of {rules.semantics}")
    if rules.semantics == ACCELFORGE:
        from codesign.cli.map_looptree import map_looptree

        map_looptree(files or [], rules.named(search, "exact"), output, rules.certificate)
    if rules.semantics == ZIGZAG:
        from codesign.cli.map_zigzag import map_orders

        map_orders(files or [], rules.named(search, DEFAULT_MAPPER), output)


def _map_network(
    files: list[str] | None,
    sources: Sources,
    network: NetworkRequest,
    rules: MapRules,
    search: MapOptions,
    output: Output,
) -> None:
    from codesign.evaluation.whole_network import DEFAULT_MAPPER as DEFAULT_OF_NETWORKS

    unread = {
        "--layer": sources.layer is not None,
        "--pad": search.pad,
        f"--semantics {rules.semantics}": rules.semantics != TIMELOOP,
        "--trace": search.timing.trace is not None,
    }
    refuse(unread, "--network")
    hardware, architecture = sources.hardware(files)
    hardware = hardware.with_free_bypass() if search.free_bypass else hardware
    if rules.certificate is not None:
        _refuse_certificate(rules, search, DEFAULT_OF_NETWORKS)
    named = rules.named(search, DEFAULT_OF_NETWORKS)
    run_map(network, hardware, named.network_searcher(architecture), named, output, rules.certificate)


def _map_layer(
    files: list[str] | None,
    sources: Sources,
    network: NetworkRequest,
    rules: MapRules,
    search: MapOptions,
    output: Output,
) -> None:
    from codesign.library.mapped_layer import map_problem, timed
    from codesign.mapping.constraints import MappingProblem

    search = rules.named(search, DEFAULT_MAPPER)
    inputs = network.narrow(sources.resolve(files))
    constraints = replace(inputs.constraints, free_bypass=True) if search.free_bypass else inputs.constraints
    if rules.certificate is not None:
        _refuse_certificate(rules, search)
    problem = MappingProblem(inputs.need_computation(), inputs.need_architecture(), constraints, search.imperfect)
    found = map_problem(problem, search)
    if rules.certificate is not None:
        _certify(rules.certificate, found)
    if output.out is not None:
        _write(output.out, found)
    written = None if found.mapping is None else output.out
    found = timed(found)
    if output.as_json:
        from codesign.cli.cost_text import provenance_document

        asked = {"mapper": str(search.mapper), "objective": search.goal.value, "reuse": search.rule.name.lower()}
        provenance = provenance_document(problem.architecture)
        echo_json({**found.result.to_json(), **found.event_json(), **asked, **provenance}, indent=1)
    else:
        _print(found, written)


def _refuse_certificate(rules: MapRules, search: MapOptions, default: str = DEFAULT_MAPPER) -> None:
    """Certificates are of proven even mappings (docs/explanation/certificates.md)."""
    if (rules.mapper or default) != "exact":
        raise UserError("--certificate needs --mapper exact: other mappers prove nothing")
    given = {
        "--pad": search.pad,
        "--timing event": search.timing.event,
        f"--reuse {search.reuse}": search.reuse != MapOptions.reuse,
    }
    refuse(given, "--certificate")


def _certify(path: Path, found: "MappedLayer") -> None:
    """Write the certificate of a proven mapping; searches of imperfect factors or uneven mappings may leave a gap, which it then says."""
    from codesign.core.files import write_json

    if not found.certifiable:
        gap = "no mapping was found" if found.mapping is None else f"the mapping is not proven ({found.proof.value})"
        raise UserError(f"{path} is not written: {gap}", hint="a certificate needs a search that ends with a proof")
    write_json(path, found.certificate())


def _write(out: Path, found: "MappedLayer") -> None:
    from codesign.core.files import write_atomic
    from codesign.formats.documents import dump_yaml
    from codesign.mapping.files import mapping_to_json

    if found.mapping is None:
        typer.echo(f"no mapping was found; {out} is not written", err=True)
        return
    cost, padding, options = found.cost, found.result.padding, found.options
    comment = (
        f"{options.mapper}, {options.goal.value}: {cost.latency_cycles} cycles, {cost.energy_pj:.6g} pJ, "
        f"EDP {cost.edp:.6g} pJ x cycle"
    )
    content: JsonObject = {"mapping": mapping_to_json(found.mapping)}
    if padding is not None and padding.changed:
        from codesign.workloads.files import computation_to_json

        comment += f"; bounds are padded, so the padded problem stands here too ({padding.waste:.2%} more work)"
        content = {"problem": computation_to_json(found.mapped_computation), **content}
    write_atomic(out, dump_yaml(content, comment=comment))


def _print(found: "MappedLayer", written: Path | None) -> None:
    from codesign.cli.cost_text import print_cost, print_infeasible
    from codesign.cli.timing import print_run

    result = found.result
    if result.cost is not None:
        print_cost(found.mapped_computation, found.architecture, result.cost)
    else:
        print_infeasible(result.infeasible or "no mapping exists")
    gap = f", gap {result.gap:.3%}" if result.gap is not None else ""
    typer.echo(
        f"{counted(result.evaluated, 'mapping')} scored in {result.seconds:.2f} s; proof: {result.proof.value}{gap}"
    )
    if result.mip is not None:
        _print_program(result.mip)
    if result.padding is not None:
        changed = ", ".join(f"{dim} {bound} -> {size}" for dim, bound, size in result.padding.changed) or "nothing"
        typer.echo(
            f"padded: {changed} ({result.padding.waste:.2%} more work); {result.padding.tried} paddings tried; "
            f"proof: {result.padding.proof}"
        )
    if found.run is not None:
        print_run(found.cost, found.run, found.architecture)
    if written is not None:
        typer.echo(f"mapping written to {written}")


def _print_program(mip: "MipReport") -> None:
    value = "none" if mip.objective is None else f"{mip.objective:.6f}"
    bound = "none" if mip.bound is None else f"{mip.bound:.6f}"
    typer.echo(
        f"program ({mip.reading}, {mip.solver}): {mip.status}, objective {value}, bound {bound}, {mip.seconds:.3f} CPU s"
    )
    if mip.one_shot is not None:
        typer.echo(f"its own schedule: EDP {mip.one_shot.edp:.6g} pJ x cycle; best of {mip.schedules} schedules shown")
    for dim, bound_, padded in mip.padding:
        typer.echo(f"padded: {dim} {bound_} -> {padded}")
    if mip.note:
        typer.echo(f"note: {mip.note}")
