"""`codesign evaluate`: what a given mapping costs."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from codesign.cli.inputs import ClockHz, TechnologyName, check_format, parse_reuse, resolve, warnings_to_stderr

if TYPE_CHECKING:
    from codesign.cost.cost import Infeasible


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command()
    def evaluate(
        files: Annotated[
            list[str],
            typer.Argument(
                help="Architecture, problem, mapping and energy table (ERT), in any order; the project's own files or Timeloop's. "
                "The architecture may be a preset name, the problem a layer."
            ),
        ],
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
    ) -> None:
        """Evaluate a fixed mapping: accesses, energy and latency by level and tensor."""
        check_format(output_format)
        warnings_to_stderr()
        rule = parse_reuse(reuse)
        inputs = resolve(files, clock_hz=clock_hz, technology=technology)
        architecture, computation, mapping = (
            inputs.need_architecture(),
            inputs.need_computation(),
            inputs.need_mapping(),
        )
        from codesign.cost.cost import Infeasible
        from codesign.cost.cost import evaluate as evaluate_mapping

        cost = evaluate_mapping(computation, architecture, mapping, reuse=rule)
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


def print_infeasible(reason: "Infeasible") -> None:
    """Why there is no result."""
    typer.echo(f"infeasible: {reason}")
