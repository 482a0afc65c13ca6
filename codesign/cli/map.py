"""`codesign map`: the best mapping of one operator on one accelerator that a mapper finds."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    run_map,
)
from codesign.core.errors import UserError

if TYPE_CHECKING:
    from codesign.arch.architecture import Architecture
    from codesign.cost.arrays import Reuse
    from codesign.formats.load import Inputs
    from codesign.mappers.protocol import Mapper, MapResult, MipReport
    from codesign.workloads.computation import Computation


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command("map")
    def map_command(
        files: Annotated[
            list[str] | None,
            typer.Argument(
                help="Architecture, problem, constraints and energy table (ERT), in any order; the project's own files or Timeloop's."
            ),
        ] = None,
        arch: ArchName = None,
        layer: LayerText = None,
        network: NetworkName = None,
        batch: Batch = None,
        seq: Seq = None,
        past: Past = None,
        phase: Phase = None,
        dims: Dims = None,
        bits: Bits = None,
        partial_bits: PartialBits = None,
        mapper: Annotated[
            str | None,
            typer.Option(help="How to search, default anneal (with --network: exact); an unknown name lists them."),
        ] = None,
        objective: Annotated[str, typer.Option(help="energy, latency or edp (energy x latency).")] = "edp",
        time_limit: Annotated[float | None, typer.Option(help="Seconds of search, per layer.")] = None,
        evaluations: Annotated[int | None, typer.Option(help="Mappings scored at most, per layer.")] = None,
        seed: Annotated[int, typer.Option(help="Seed of every random choice.")] = 0,
        option: Annotated[
            list[str] | None, typer.Option(help="NAME=VALUE, an option of the mapper's own; may be repeated.")
        ] = None,
        free_bypass: Annotated[
            bool, typer.Option("--free-bypass", help="Let the mapper bypass levels where no constraint decides.")
        ] = False,
        imperfect: Annotated[
            bool,
            typer.Option(
                "--imperfect", help="Try bounds padded to sizes that divide better, too; padded work counts as work."
            ),
        ] = False,
        reuse: Annotated[
            str, typer.Option(help="What a buffer need not fetch again: timeloop, walk or resident.")
        ] = "timeloop",
        semantics: Annotated[
            str,
            typer.Option(
                help="What costs mean: timeloop, zigzag (ZigZag's files; mappers salsa and loma) or accelforge (AccelForge's files; exact uneven mappings)."
            ),
        ] = "timeloop",
        certificate: Annotated[
            Path | None,
            typer.Option(help="With --semantics accelforge: write what `codesign verify` needs to check the optimum."),
        ] = None,
        clock_hz: ClockHz = None,
        technology: TechnologyName = None,
        output_format: Annotated[str, typer.Option("--format", help="text or json.")] = "text",
        out: Annotated[
            Path | None,
            typer.Option(
                help="Write the mapping to this YAML file; with --network a folder of mappings, report.html and result.json."
            ),
        ] = None,
        timing: TimingMode = "analytical",
        timing_table: TimingTable = None,
        trace: TraceFile = None,
        candidates: Annotated[
            int,
            typer.Option(
                help="Mappings, best by the analytical model, that --timing event simulates and ranks again.",
                min=1,
                rich_help_panel="Timing",
            ),
        ] = 8,
        operation_limit: OperationLimit = DEFAULT_LIMIT,
    ) -> None:
        """Find the best mapping of one operator, or of every layer of a network, on one accelerator.

        For example:

        codesign map --arch eyeriss --layer "conv K=64 C=64 P=56 Q=56 R=3 S=3" --mapper exact

        codesign map --network resnet18 --arch my_arch.yaml --out runs/mapped
        """
        check_format(output_format)
        warnings_to_stderr()
        rule = parse_reuse(reuse)
        timed = TimingRequest(timing, timing_table, trace, operation_limit)
        options = dict(_parse_option(text) for text in option or [])
        if certificate is not None and semantics != "accelforge":
            raise UserError("--certificate needs --semantics accelforge")
        from codesign.core.goals import Budget, Objective
        from codesign.mappers.registry import create
        from codesign.mapping.constraints import MappingProblem

        goal, budget = Objective.parse(objective), Budget(time_limit, evaluations)
        if seed < 0:
            raise UserError(f"--seed must be >= 0, got {seed}")
        request = NetworkRequest(network, batch, seq, past, phase, dims, bits, partial_bits)
        if network is not None:
            from codesign.evaluation.network import EvaluationOptions
            from codesign.evaluation.whole_network import DEFAULT_MAPPER

            refuse(
                {
                    "--layer": layer is not None,
                    "--imperfect": imperfect,
                    f"--semantics {semantics}": semantics != "timeloop",
                    "--trace": trace is not None,
                }
            )
            hardware, _ = read_hardware(files or [], arch, clock_hz, technology)
            hardware = hardware.with_free_bypass() if free_bypass else hardware
            judged = EvaluationOptions(goal, budget, seed, rule)
            search = _with_events(create(mapper or DEFAULT_MAPPER, **options), timed, hardware.architecture, candidates)
            run_map(request, hardware, search, judged, output_format, out, timed)
            return
        request.refuse_without_network()
        if semantics == "accelforge":
            from codesign.cli.map_looptree import map_looptree

            refuse(
                {
                    "--arch": arch is not None,
                    "--layer": layer is not None,
                    "--clock-hz": clock_hz is not None,
                    "--technology": technology is not None,
                    "--evaluations": evaluations is not None,
                    "--free-bypass": free_bypass,
                    "--option": bool(options),
                    "--reuse": reuse != "timeloop",
                    f"--mapper {mapper}": mapper not in (None, "exact"),
                    "--timing": timing != "analytical",
                },
                "--semantics accelforge",
            )
            map_looptree(
                files or [],
                goal,
                imperfect=imperfect,
                time_limit=time_limit,
                output_format=output_format,
                out=out,
                certificate=certificate,
            )
            return
        mapper = mapper or "anneal"
        searcher = create(mapper, **options)
        if _check_semantics(semantics) == "zigzag":
            from codesign.cli.map_zigzag import map_orders
            from codesign.mappers.loop_order.loma import LomaMapper
            from codesign.mappers.loop_order.salsa import SalsaMapper

            if not isinstance(searcher, (SalsaMapper, LomaMapper)):
                raise UserError(f"--semantics zigzag needs the mapper salsa or loma, got {mapper!r}")
            unread = {"--arch": arch, "--layer": layer, "--clock-hz": clock_hz, "--technology": technology}
            given = [name for name, value in unread.items() if value is not None]
            if given or free_bypass or imperfect or reuse != "timeloop":
                name = (
                    given[0] if given else "--imperfect" if imperfect else "--free-bypass" if free_bypass else "--reuse"
                )
                raise UserError(f"{name} plays no part with --semantics zigzag", hint="give ZigZag's files")
            map_orders(files or [], searcher, goal, budget=budget, seed=seed, output_format=output_format, out=out)
            return
        inputs = resolve(files or [], arch=arch, layer=layer, clock_hz=clock_hz, technology=technology)
        constraints = replace(inputs.constraints, free_bypass=True) if free_bypass else inputs.constraints
        problem = MappingProblem(inputs.need_computation(), inputs.need_architecture(), constraints)
        if imperfect:
            from codesign.mappers.imperfect import ImperfectMapper

            searcher = ImperfectMapper(searcher)
        searcher = _with_events(searcher, timed, problem.architecture, candidates)
        result = searcher.map(problem, goal, budget=budget, seed=seed, reuse=rule)
        if out is not None:
            _write(out, result, inputs.need_computation(), mapper, goal.value)
        if timed.event and result.mapping is not None and result.cost is not None:
            _show_timed(timed, inputs, result, rule, output_format, {"mapper": mapper, "objective": goal.value})
        elif output_format == "json":
            document = {**result.to_json(), "mapper": mapper, "objective": goal.value, "reuse": rule.name.lower()}
            typer.echo(json.dumps(document, indent=1))
        else:
            _print(inputs, result, out)


def _with_events(
    searcher: "Mapper", timed: TimingRequest, architecture: "Architecture | None", candidates: int
) -> "Mapper":
    """The mapper; with `--timing event` its k best are simulated and ranked again."""
    if not timed.event or architecture is None:
        return searcher
    from codesign.evaluation.timed import EventMapper

    return EventMapper(searcher, timed.constants(architecture), candidates)


def _show_timed(
    timed: TimingRequest,
    inputs: "Inputs",
    result: "MapResult",
    rule: "Reuse",
    output_format: str,
    more: dict[str, str],
) -> None:
    from codesign.cli.evaluate import print_infeasible
    from codesign.cli.timing import event_document, print_run
    from codesign.cost.cost import Infeasible

    assert result.mapping is not None and result.cost is not None
    computation, architecture = _padded(inputs.need_computation(), result), inputs.need_architecture()
    run, seconds = timed.run(computation, architecture, result.mapping, rule)
    if isinstance(run, Infeasible):
        print_infeasible(run)
        return
    if output_format == "json":
        document = result.to_json() | event_document(result.cost, run, architecture, seconds + result.seconds)
        typer.echo(json.dumps({**document, **more, "reuse": rule.name.lower()}, indent=1))
        return
    _print(inputs, result, None)
    print_run(result.cost, run, architecture)


def _check_semantics(name: str) -> str:
    from codesign.core.errors import unknown_name

    if name not in ("timeloop", "zigzag"):
        raise unknown_name("semantics", name, ["timeloop", "zigzag", "accelforge"])
    return name


def _parse_option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UserError(f"--option must be NAME=VALUE, got {text!r}")
    try:
        return name.replace("-", "_"), json.loads(value)
    except json.JSONDecodeError:
        return name.replace("-", "_"), value


def _padded(computation: "Computation", result: "MapResult") -> "Computation":
    """The computation that the mapping is one of."""
    if result.padding is None:
        return computation
    return computation.with_bounds(**{dim: size for dim, _, size in result.padding.changed})


def _write(out: Path, result: "MapResult", computation: "Computation", mapper: str, objective: str) -> None:
    from codesign.core.files import write_atomic
    from codesign.formats.documents import dump_yaml
    from codesign.mapping.files import mapping_to_json

    if result.mapping is None or result.cost is None:
        typer.echo(f"no mapping was found; {out} is not written", err=True)
        return
    cost = result.cost
    comment = (
        f"{mapper}, {objective}: {cost.latency_cycles} cycles, {cost.energy_pj:.6g} pJ, EDP {cost.edp:.6g} pJ x cycle"
    )
    content: dict[str, Any] = {"mapping": mapping_to_json(result.mapping)}
    if result.padding is not None and result.padding.changed:
        from codesign.workloads.files import computation_to_json

        comment += f"; bounds are padded, so the padded problem stands here too ({result.padding.waste:.2%} more work)"
        content = {"problem": computation_to_json(_padded(computation, result)), **content}
    write_atomic(out, dump_yaml(content, comment=comment))


def _print(inputs: "Inputs", result: "MapResult", out: Path | None) -> None:
    from codesign.cli.cost_text import print_cost
    from codesign.cli.evaluate import print_infeasible

    if result.cost is not None:
        print_cost(_padded(inputs.need_computation(), result), inputs.need_architecture(), result.cost)
    elif result.infeasible is not None:
        print_infeasible(result.infeasible)
    else:
        typer.echo("infeasible: no mapping exists")
    gap = f", gap {result.gap:.3%}" if result.gap is not None else ""
    typer.echo(f"{result.evaluated:,} mappings scored in {result.seconds:.2f} s; proof: {result.proof.value}{gap}")
    if result.mip is not None:
        _print_program(result.mip)
    if result.padding is not None:
        changed = ", ".join(f"{dim} {bound} -> {size}" for dim, bound, size in result.padding.changed) or "nothing"
        typer.echo(
            f"padded: {changed} ({result.padding.waste:.2%} more work); {result.padding.tried} paddings tried; "
            f"proof: {result.padding.proof}"
        )
    if out is not None and result.mapping is not None:
        typer.echo(f"mapping written to {out}")


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
