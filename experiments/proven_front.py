"""Proven Pareto fronts: how many designs of a whole space must be evaluated, against the exhaustive table where there is one.

    python -m experiments.proven_front --case gemmcore --epsilon 0.02
    python -m experiments.proven_front --case scratchpad:resnet50 --epsilon 0.1 --cpu-limit 600
    python -m experiments.proven_front --smoke

Cases are gemmcore, convcore and eyeriss (`experiments.exhaustive`), dosa:NETWORK (resnet50, bert, unet, retinanet; the energy-delay product of the network on
Gemmini-like designs, `spaces.dosa`), wide (with mobilenet_v2), and SPACE:NETWORK for any space and network that the command line knows.
Designs are judged by proven EDP-optimal mappings; latency, energy and area are minimised. The last line is one JSON object. `front_equal`
says whether the front found is that of the table, `worst_factor` how much better than an evaluated design any design of the table is; both are null
where there is no table. `--fixed NAME=VALUE ...` takes the part of a space in which parameters have these values. A run that meets `--time-limit` (or `--seconds`) says what it has proven so far. With one objective the line names the `best` design; the file of
`--out` holds the front in any case.
"""

import json
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import codesign.optim
from codesign.bounds import DesignBounds
from codesign.core.errors import UserError, unknown_name
from codesign.core.goals import Budget
from codesign.cost.cost import Infeasible
from codesign.evaluation.design import DesignSpace, load_design_space
from codesign.evaluation.network import EvaluationOptions, evaluate_workload
from codesign.mappers.exact.mapper import ExactMapper
from codesign.optim.certificate import Certificate
from codesign.optim.optimizer import Optimizer
from codesign.optim.pareto import front
from codesign.workloads.load import load_network
from codesign.workloads.network import Network
from experiments.dosa_networks import dosa_network
from experiments.exhaustive import TABLES, cases, read_table
from experiments.options import head_parser
from spaces.design import DesignSpace as WrittenSpace
from spaces.dosa import DOSA
from spaces.parameters import Ordinal
from spaces.space import Space

Floats = NDArray[np.float64]

OBJECTIVES = ("latency_s", "energy_j", "area_mm2")

_WIDE_RUNS = "mobilenet_v2"
"""What the space `wide` runs unless the case says otherwise, as in `experiments.budgets`."""

_SAME = 1e-6
"""Relative; tables have nine digits, and mappings of equal energy-delay product may differ in the tenth."""


_SHOWN_S = 30.0
"""CPU seconds between two lines that say how far the proof is."""

_LEAST_S = 1e-3
"""CPU seconds left to a search whose bounds took all."""


@dataclass(frozen=True)
class Case:
    """What is proven.

    Args:
        name: As given.
        space: The designs.
        network: What they run.
        table: The exhaustive table, if there is one.
        objectives: The metrics to minimise.
    """

    name: str
    space: DesignSpace
    network: Network
    table: Path | None = None
    objectives: tuple[str, ...] = field(default=OBJECTIVES)


def case_of(name: str) -> Case:
    """The case of a name.

    Raises:
        UserError: There is none.
    """
    if name in cases():
        found = cases()[name]
        return Case(name, found.space, found.network, TABLES / f"{name}.csv")
    space_name, colon, network = name.partition(":")
    if space_name == "dosa" and colon:
        return Case(name, DOSA, dosa_network(network), objectives=("edp_js",))
    if name == "wide":
        network, colon = _WIDE_RUNS, ":"
    if not colon:
        raise unknown_name("case", name, [*cases(), "wide", "scratchpad:NETWORK"])
    space = load_design_space(space_name)
    return Case(name, space, load_network(network, bits=space.bits, partial_bits=space.partial_bits))


def part_of(case: Case, fixed: list[str]) -> Case:
    """The designs of a case in which some parameters have the values given.

    Args:
        case: The whole.
        fixed: Each as NAME=VALUE.

    Raises:
        UserError: A parameter has no such value, or there is none of that name.
    """
    design = case.space
    if not fixed or not isinstance(design, WrittenSpace):
        return case
    parameters = {p.name: p for p in design.space.parameters}
    for text in fixed:
        name, _, value = text.partition("=")
        if name not in parameters:
            raise unknown_name("parameter", name, parameters)
        chosen = [v for v in parameters[name].choices if str(v) == value]
        if not chosen:
            raise UserError(
                f"parameter {name!r} has no value {value!r}: {', '.join(map(str, parameters[name].choices))}"
            )
        parameters[name] = Ordinal(name, chosen, when=parameters[name].when)
    for name, parameter in parameters.items():
        if parameter.when is not None and len(left := parameters[parameter.when.parameter].choices) == 1:
            never = left[0] not in parameter.when.values
            parameters[name] = Ordinal(name, parameter.choices[:1] if never else parameter.choices)
    space = Space(list(parameters.values()), constraints=design.space.constraints)
    return replace(case, name="-".join([case.name, *fixed]), space=replace(design, space=space), table=None)


def judge(case: Case, point: dict[str, Any]) -> dict[str, float] | None:
    """The metrics of one design by proven optimal mappings; None for one that nothing fits."""
    options = EvaluationOptions(budget=Budget() if case.table is None else Budget(time_limit_s=60.0))
    found = evaluate_workload(case.network, case.space.build(point), ExactMapper(), options)
    return None if isinstance(found, Infeasible) else found.metrics.to_dict()


@dataclass(frozen=True)
class Proven:
    """What a proof came to.

    Args:
        state: The certificate.
        points: The evaluated designs that work.
        values: Their objectives, ``n x m``.
        ready: CPU seconds of the bounds.
    """

    state: Certificate
    points: list[dict[str, Any]]
    values: Floats
    ready: float

    def best(self, objectives: tuple[str, ...]) -> list[dict[str, Any]]:
        """The designs that no other one beats, their objectives beside their parameters."""
        efficient = front(self.values)
        return [
            {**point, **dict(zip(objectives, map(float, row), strict=True))}
            for point, row in zip(self.points, self.values, strict=True)
            if (efficient == row).all(axis=1).any()
        ]


def prove(case: Case, epsilon: float, cpu_limit_s: float) -> Proven:
    """Evaluate until the front is proven or time is up; what is left when no evaluation would end in time goes into bounds."""
    started = time.process_time()

    def left() -> float:
        return cpu_limit_s - (time.process_time() - started)

    bounds = DesignBounds(case.space, case.network)
    options = {"epsilon": epsilon, "cpu_limit_s": max(left(), _LEAST_S)}
    optimizer = codesign.optim.create("exact", case.space.space, case.objectives, bounds=bounds, options=options)
    state = _state_of(optimizer)
    ready = time.process_time() - started
    print(f"{case.name}: bounds of {state.designs:,} designs in {ready:.1f} CPU s", file=sys.stderr, flush=True)
    shown, longest = left(), 0.0
    while left() > longest and (points := optimizer.ask(1)) and left() > longest:
        begun = left()
        metrics = judge(case, points[0])
        optimizer.tell(points[0], metrics, feasible=metrics is not None)
        longest = max(longest, begun - left())
        if shown - left() > _SHOWN_S:
            shown = left()
            sentence = _state_of(optimizer).sentence()
            print(f"{case.name}: {sentence}; {cpu_limit_s - shown:.0f} CPU s", file=sys.stderr, flush=True)
    while left() > 0.0 and optimizer.tighten(lambda: left() <= 0.0):
        pass
    history = optimizer.history()
    works = np.isfinite(history.objectives).all(axis=1)
    points = case.space.space.to_points(history.indices[works])
    return Proven(_state_of(optimizer), points, history.objectives[works], ready)


def _state_of(optimizer: Optimizer) -> Certificate:
    state = optimizer.certificate()
    assert state is not None
    return state


def compare(case: Case, values: Floats) -> dict[str, Any]:
    """The front found against that of the table."""
    if case.table is None or not case.table.exists():
        return {"front_equal": None, "worst_factor": None}
    rows = [[getattr(row, o) for o in case.objectives] for row in read_table(case.table).values()]
    truth = np.array(rows)
    truth = truth[np.isfinite(truth).all(axis=1)]
    worst = max(float((values / row).max(axis=1).min()) for row in truth)
    ours, theirs = front(values), front(truth)
    near = [bool((np.abs(theirs / row - 1.0) < _SAME).all(axis=1).any()) for row in ours]
    found = [bool((np.abs(ours / row - 1.0) < _SAME).all(axis=1).any()) for row in theirs]
    return {"front_equal": all(near) and all(found), "worst_factor": worst}


def main(arguments: list[str]) -> None:
    """Prove one case and print the line."""
    parser = head_parser(__doc__, out=None, smoke="convcore within 50 %%", about_out="folder for the line as a file")
    parser.add_argument("--case", default="gemmcore", help="gemmcore, convcore, eyeriss, wide or SPACE:NETWORK")
    parser.add_argument(
        "--fixed", nargs="*", default=[], metavar="NAME=VALUE", help="parameters that have one value only"
    )
    parser.add_argument("--epsilon", type=float, default=0.0, help="designs at most this share better are left out")
    parser.add_argument(
        "--time-limit",
        "--cpu-limit",
        "--seconds",
        dest="cpu_limit",
        type=float,
        default=3600.0,
        help="CPU seconds after which the gap is reported",
    )
    options = parser.parse_args(arguments)
    case = part_of(case_of("convcore" if options.smoke else options.case), options.fixed)
    epsilon = 0.5 if options.smoke else options.epsilon
    started = time.process_time()
    found = prove(case, epsilon, options.cpu_limit)
    state, best = found.state, found.best(case.objectives)
    line = {
        "case": case.name,
        "epsilon": epsilon,
        **state.to_json(),
        "evaluated_share": state.evaluated / state.designs,
        **compare(case, found.values),
        "bounds_cpu_seconds": round(found.ready, 2),
        "cpu_seconds": round(time.process_time() - started, 2),
    }
    if len(case.objectives) == 1:
        line["best"] = best[0] if best else None
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        document = json.dumps({**line, "front": best}, indent=1) + "\n"
        (options.out / f"{case.name.replace(':', '-')}-{epsilon:g}.json").write_text(document)
    print(json.dumps(line))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(f"proven_front: {error}")
