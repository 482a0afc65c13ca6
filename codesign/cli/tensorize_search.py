"""`codesign tensorize --core`: search the program of a computation on a core, with any software search or a trained policy."""

import json
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import typer

from codesign.core.errors import UserError

if TYPE_CHECKING:
    from codesign.tensorize.encoding import SoftwareProblem
    from codesign.tensorize.intrinsic_core import Core
    from codesign.tensorize.program_cost import CallProgram
    from codesign.tensorize.search import SearchResult
    from codesign.workloads.computation import Computation


@dataclass(frozen=True)
class SearchOptions:
    """What was given on the command line; None where nothing was."""

    core: str | None
    design: str | None
    search: str | None
    evaluations: int | None

    def given_without_core(self) -> str | None:
        """The first option that only a search reads, when no core is given."""
        if self.core is not None:
            return None
        names = (f.name for f in fields(self) if f.name != "core")
        return next((f"--{n}" for n in names if getattr(self, n) is not None), None)


def search_program(options: SearchOptions, computation: "Computation", seed: int, as_json: bool) -> None:
    """Search and print the best program of every stage.

    A product of three or more operands that the core does not take whole is searched stage by stage.

    Raises:
        UserError: No such core, design or search, or nothing matches the core's intrinsic.
    """
    from codesign.tensorize.encoding import SoftwareProblem
    from codesign.tensorize.search_registry import create_search
    from codesign.tensorize.stages import split_stages

    core = _core(options)
    method = create_search(options.search or "heuristic")
    evaluations = 200 if options.evaluations is None else options.evaluations
    try:
        problems = [SoftwareProblem.of(computation, core)]
    except UserError:
        stages = split_stages(computation)
        if len(stages) == 1:
            raise
        problems = [SoftwareProblem.of(stage, core) for stage in stages]
    found = [(p, method.search(p, evaluations=evaluations, seed=seed)) for p in problems]
    reports = [_report(problem, result) for problem, result in found]
    document = {
        "status": "ok",
        "core": options.core,
        "intrinsic": f"{core.intrinsic.name} {core.intrinsic.size_text}",
        "search": method.name,
        "seed": seed,
        "latency_cycles": sum(r["latency_cycles"] for r in reports),
        "energy_pj": sum(r["energy_pj"] for r in reports),
        "stages": reports,
    }
    if as_json:
        typer.echo(json.dumps(document, indent=1))
        return
    typer.echo(f"core         {options.core}: {document['intrinsic']}")
    typer.echo(f"search       {method.name}, seed {seed}")
    for report in reports:
        _print(report)


def _core(options: SearchOptions) -> "Core":
    """The core of a design: the space's preset with the given changes."""
    from codesign.evaluation.design import load_design_space

    space = load_design_space(str(options.core))
    make = getattr(getattr(space, "builder", None), "core", None)
    if make is None:
        raise UserError(f"space {options.core!r} has no intrinsic", hint="try gemmcore, gemvcore, dotcore or convcore")
    point = dict(space.space.presets[0]) | _changes(options.design or "")
    core: Core = make(space.space.to_points(space.space.to_indices([point], "--design"))[0])
    return core


def _changes(text: str) -> dict[str, int | str]:
    changes: dict[str, int | str] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise UserError(f"--design: expected name=value, got {part!r}", hint="e.g. pe=8,scratchpad_kib=128")
        changes[name.strip()] = int(value) if value.strip().isdigit() else value.strip()
    return changes


def _report(problem: "SoftwareProblem", result: "SearchResult") -> dict[str, Any]:
    from codesign.tensorize.program_cost import ProgramCost, program_cost

    program = _program(problem, result)
    cost = program_cost(program)
    assert isinstance(cost, ProgramCost)  # the search scored it: it fits
    schedule = program.schedule
    return {
        **cost.to_json(),
        "computation": str(problem.computation),
        "bounds": problem.computation.sizes,
        "scored": result.scored,
        "choice": schedule.choice.index_map,
        "host_loops": [{"dim": d, "count": n} for d, n in schedule.host],
        "fused": list(program.fused),
        "loops_of_calls": [{"dim": d, "count": n} for d, n in schedule.inner],
    }


def _program(problem: "SoftwareProblem", result: "SearchResult") -> "CallProgram":
    import numpy as np

    from codesign.tensorize.program_cost import CallProgram
    from codesign.tensorize.revisions import CHOICE, unfold
    from codesign.tensorize.schedule import Schedule
    from codesign.tensorize.scoring import JOINED

    rows = np.ones((problem.max_loops, 3), np.int64)
    count, host = unfold(problem.arrays, result.candidate, rows)
    loops = [(problem.computation.dims[int(d)], int(n)) for d, n, _ in rows[:count]]
    fused: list[int] = []
    for row in rows[:host]:
        if row[JOINED]:
            fused[-1] += 1
        else:
            fused.append(1)
    choice = problem.choices[int(result.candidate[CHOICE])]
    return CallProgram(problem.core, Schedule(choice, tuple(loops[:host]), tuple(loops[host:])), tuple(fused))


def _print(report: dict[str, Any]) -> None:
    bounds = ", ".join(f"{d}={b}" for d, b in report["bounds"].items())
    typer.echo(f"computation  {report['computation']}, {bounds}")
    typer.echo(f"choice       {', '.join(f'{i}->{d}' for i, d in report['choice'].items())}")
    for name, key in (("on the host", "host_loops"), ("of calls", "loops_of_calls")):
        loops = ", ".join(f"{row['dim']}: {row['count']}" for row in report[key])
        typer.echo(f"loops {name + ':':<14}{loops or 'none'}")
    if any(n > 1 for n in report["fused"]):
        typer.echo(f"fused        host loops in groups of {', '.join(map(str, report['fused']))}")
    typer.echo(
        f"latency      {report['latency_cycles']:,.0f} cycles: array {report['array_cycles']:,.0f}, DRAM {report['dram_cycles']:,.0f}, "
        f"host {report['host_cycles']:,.0f}, overlapped"
    )
    typer.echo(f"energy       {report['energy_pj'] / 1e6:,.3f} uJ, dynamic")
    typer.echo(f"waste        {report['padding_waste']:.1%} of the multiply-accumulates")
    typer.echo(f"scored       {report['scored']} programs")
