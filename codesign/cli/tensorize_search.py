"""`codesign tensorize --core`: search the program of a computation on a core, with any software search or a trained policy."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import typer

from codesign.cli.compiling import echo_json
from codesign.core.errors import UserError
from codesign.core.json_types import JsonObject

if TYPE_CHECKING:
    from codesign.cli.tensorize_program import ProgramOptions
    from codesign.tensorization.encoding import SoftwareProblem
    from codesign.tensorization.intrinsic_core import Core
    from codesign.tensorization.program_cost import CallProgram, ProgramCost
    from codesign.tensorization.search import SearchResult
    from codesign.workloads.computation import Computation


@dataclass(frozen=True)
class SearchOptions:
    """What was given on the command line; None where nothing was.

    Args:
        core: Search the best program on this core: gemmcore, gemvcore, dotcore or convcore.
        design: Changes to the core's preset: pe=8,banks=2.
        search: heuristic (default), random, annealing, learned, or a trained policy:FILE.
        evaluations: Programs that the search scores (200).
    """

    core: str | None = None
    design: str | None = None
    search: str | None = None
    evaluations: int | None = None


def search_program(
    options: SearchOptions, program: "ProgramOptions", computation: "Computation", as_json: bool
) -> None:
    """Search the best program of every stage and print what it is and costs; with `--emit` the program of one.

    A product of three or more operands that the core does not take whole is searched stage by stage.

    Raises:
        UserError: No such core, design or search, or nothing matches the core's intrinsic.
    """
    from codesign.cli.cost_text import provenance_document, provenance_line
    from codesign.cli.tensorize_program import check_form
    from codesign.tensorization.encoding import SoftwareProblem
    from codesign.tensorization.search_registry import create_search
    from codesign.tensorization.stages import split_stages

    if program.emit is not None:
        check_form(program.emit)
    seed = program.seed or 0
    core = _core(options)
    method = create_search(options.search or "heuristic")
    evaluations = 200 if options.evaluations is None else options.evaluations
    try:
        problems = [SoftwareProblem.of(computation, core)]
    except UserError:
        stages = split_stages(computation)
        if len(stages) == 1:
            raise
        problems = _staged(stages, core, program.stage)
        if program.stage is not None:
            program = replace(program, stage=None)  # it is the only one left
    found = [Searched.of(p, method.search(p, evaluations=evaluations, seed=seed)) for p in problems]
    document: JsonObject = {
        "status": "ok",
        "core": options.core,
        "intrinsic": f"{core.intrinsic.name} {core.intrinsic.size_text}",
        "search": method.name,
        "seed": seed,
        "latency_cycles": sum(f.cost.latency_cycles for f in found),
        "energy_pj": sum(f.cost.energy_pj for f in found),
        **provenance_document(core.architecture),
        "stages": [f.to_json() for f in found],
    }
    if program.emit is not None:
        _emit(program, found, document, as_json)
        return
    if as_json:
        echo_json(document, indent=1)
        return
    typer.echo(f"core         {options.core}: {document['intrinsic']}")
    typer.echo(f"search       {method.name}, seed {seed}")
    typer.echo(f"figures      {provenance_line(core.architecture)}")
    for one in found:
        _print(one)


def _staged(stages: "Sequence[Computation]", core: "Core", number: int | None) -> "list[SoftwareProblem]":
    """The stages that are searched: the one asked for, else all of them.

    Raises:
        UserError: There is no such stage, or one does not match the core's intrinsic.
    """
    from codesign.tensorization.encoding import SoftwareProblem

    if number is not None and not 1 <= number <= len(stages):
        raise UserError(f"--stage must be in 1..{len(stages)}, got {number}", where=str(stages[0]))
    problems = []
    for k, stage in enumerate(stages, start=1):
        if number is not None and k != number:
            continue
        try:
            problems.append(SoftwareProblem.of(stage, core))
        except UserError as error:
            others = "" if number is not None else "; --stage searches one of the others alone"
            raise UserError(error.message, where=f"stage {k}: {error.where}", hint=f"{error.hint}{others}") from None
    return problems


def _emit(
    options: "ProgramOptions",
    found: "list[Searched]",
    document: JsonObject,
    as_json: bool,
) -> None:
    """Print or write the program of one stage, perhaps run it."""
    from codesign.cli.tensorize_program import check_length, finish
    from codesign.cost.arrays import Reuse
    from codesign.cost.cost import Infeasible
    from codesign.tensorization.core_program import program_on_core

    number = options.stage
    if number is None and len(found) > 1:
        stages = ", ".join(f"{k} is {one.problem.computation}" for k, one in enumerate(found, start=1))
        raise UserError("--emit needs the --stage of a computation that is searched stage by stage", hint=stages)
    low, high = (1, len(found)) if len(found) > 1 else (0, 0)
    if number is not None and not low <= number <= high:
        raise UserError(f"--stage must be in {low}..{high}, got {number}", where=str(found[0].problem.computation))
    one = found[(number or 1) - 1]
    check_length(options, one.program.schedule.choice)
    program = program_on_core(one.program, reuse=Reuse.parse(options.reuse or "resident"))
    if not isinstance(program, Infeasible):
        typer.echo(
            f"{document['search']} on {document['core']}: {one.cost.latency_cycles:,.0f} cycles, "
            f"{one.cost.energy_pj / 1e6:,.3f} uJ, {one.result.scored} programs scored",
            err=True,
        )
    finish(options, program, as_json, document)


def _core(options: SearchOptions) -> "Core":
    """The core of a design: the space's preset with the given changes."""
    from codesign.evaluation.design import load_design_space
    from codesign.library.changes import changed_preset

    space = load_design_space(str(options.core))
    make = getattr(getattr(space, "builder", None), "core", None)
    if make is None:
        raise UserError(f"space {options.core!r} has no intrinsic", hint="try gemmcore, gemvcore, dotcore or convcore")
    core: Core = make(changed_preset(space, options.design or ""))
    return core


@dataclass(frozen=True)
class Searched:
    """The best program found for a computation.

    Args:
        problem: What was searched.
        result: Of the search.
        program: The best one.
        cost: Of it.
    """

    problem: "SoftwareProblem"
    result: "SearchResult"
    program: "CallProgram"
    cost: "ProgramCost"

    @classmethod
    def of(cls, problem: "SoftwareProblem", result: "SearchResult") -> "Searched":
        """The program that a search found, with its cost."""
        from codesign.tensorization.core_program import found_program
        from codesign.tensorization.program_cost import ProgramCost, program_cost

        program = found_program(problem, result)
        cost = program_cost(program)
        assert isinstance(cost, ProgramCost)  # the search scored it: it fits
        return cls(problem, result, program, cost)

    def to_json(self) -> JsonObject:
        """In the form of ``--format json``."""
        schedule = self.program.schedule
        return {
            **self.cost.to_json(),
            "computation": str(self.problem.computation),
            "bounds": self.problem.computation.sizes,
            "scored": self.result.scored,
            "choice": schedule.choice.index_map,
            "host_loops": [{"dim": d, "count": n} for d, n in schedule.host],
            "fused": list(self.program.fused),
            "loops_of_calls": [{"dim": d, "count": n} for d, n in schedule.inner],
        }


def _print(found: Searched) -> None:
    computation, schedule, cost = found.problem.computation, found.program.schedule, found.cost
    bounds = ", ".join(f"{d}={b}" for d, b in computation.sizes.items())
    typer.echo(f"computation  {computation}, {bounds}")
    typer.echo(f"choice       {', '.join(f'{i}->{d}' for i, d in schedule.choice.index_map.items())}")
    for name, rows in (("on the host", schedule.host), ("of calls", schedule.inner)):
        loops = ", ".join(f"{dim}: {count}" for dim, count in rows)
        typer.echo(f"loops {name + ':':<14}{loops or 'none'}")
    if any(n > 1 for n in found.program.fused):
        typer.echo(f"fused        host loops in groups of {', '.join(map(str, found.program.fused))}")
    typer.echo(
        f"latency      {cost.latency_cycles:,.0f} cycles: array {cost.array_cycles:,.0f}, DRAM {cost.dram_cycles:,.0f}, "
        f"host {cost.host_cycles:,.0f}, overlapped"
    )
    typer.echo(f"energy       {cost.energy_pj / 1e6:,.3f} uJ, dynamic")
    typer.echo(f"waste        {cost.padding_waste:.1%} of the multiply-accumulates")
    typer.echo(f"scored       {found.result.scored} programs")
