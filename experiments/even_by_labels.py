"""Even mappings by the program of labels, against the tables: `python -m experiments.even_by_labels`.

Even is uneven with one level a segment, whose nodes stand at its outer end. So labels find the optima of even mappings too; the table
says in how many CPU seconds. Labels begin with the optimum that the tables found, which is more than the tables are given. Layers
whose windows slide are left out. Everything is mapped twice; the second time counts, without compiling.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import geometric_mean
from typing import Any, TypeVar

from codesign.core import clock
from codesign.core.goals import Budget, Objective
from codesign.core.jit import compiling_cpu_seconds
from codesign.cost.arrays import Reuse
from codesign.cost.packed import make_kernel
from codesign.mappers.exact import ExactMapper
from codesign.mappers.exact.incumbent import Goal, Incumbent
from codesign.mappers.exact.problem.instance import make_instance
from codesign.mappers.exact.uneven.place_search import PlaceSearch
from codesign.mappers.exact.uneven.places import Places
from codesign.mappers.exact.uneven.segments import Action, Plain, Segment, Status, parents, segments
from codesign.mappers.exact.uneven.windows import Windows
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.mapping import Mapping
from codesign.mapping.nest import encode_nest
from codesign.workloads.load import load_network
from experiments import exact
from experiments.mappers_common import markdown, save
from experiments.options import head_parser

T = TypeVar("T")

APART = 1e-6
"""Relative; so much worse than the optimum is what labels must beat."""


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        network: Name of a zoo model or a file.
        presets: Architectures.
        objectives: What is minimised.
        every: One layer of so many is mapped.
        free_bypass: Whether keep sets are searched too.
        time_limit: Seconds for each search.
        smoke: One layer only.
        out: Folder of results.
    """

    network: str = "resnet50"
    presets: tuple[str, ...] = ("gemmini", "eyeriss", "simba")
    objectives: tuple[str, ...] = ("energy", "edp")
    every: int = 3
    free_bypass: bool = False
    time_limit: float = 60.0
    smoke: bool = False
    out: Path = Path("results/even_by_labels")


class _EvenTensor(Plain):
    """A tensor whose nodes stand outside all loops of their level."""

    def moves(self, i: int, segment: Segment, at: Status) -> Iterator[tuple[Action, Status]]:
        """What may be done next in segment `i`, and what is known then."""
        if at.unpaid and not at.left:
            yield Action(self.tensor, pays=tuple(pairwise((*at.unpaid, at.parent)))), Status((), at.parent)
        if at.parent >= segment.first and not segment.outermost:
            for q in parents(self.column, at.parent):
                yield Action(self.tensor, places=(at.parent,)), Status((*at.unpaid, at.parent), q, True)


class _EvenPlaces(Places):
    """One profile with every level a segment."""

    def _segments(self) -> tuple[Segment, ...]:
        return segments((True,) * len(self.profile.spatial), self.problem.decisions)

    def _tensors(self) -> tuple[Plain | Windows, ...]:
        return tuple(_EvenTensor(x.tensor, x.column, x.relevant) for x in super()._tensors())


def by_labels(problem: MappingProblem, objective: Objective, start: Mapping, time_limit: float) -> tuple[float, bool]:
    """The least value by labels, infinite where they find nothing better than a little above `start`; whether they ended."""
    instance = make_instance(problem, Reuse.TIMELOOP)
    kernel = make_kernel(instance.problem, instance.most_loops)
    best = Incumbent(kernel, Goal(objective), deadline=clock.wall_seconds() + time_limit)
    best.offer(encode_nest(problem.computation, problem.architecture, start))
    known = best.value = best.value * (1.0 + APART)
    search = PlaceSearch(instance, best, _EvenPlaces)
    ended = math.isinf(search.run())
    return best.value if best.value < known else math.inf, ended


def timed(run: Callable[[], T]) -> tuple[T, float]:
    """What a second run gives, and its CPU seconds."""
    run()
    compiling, started = compiling_cpu_seconds(), time.process_time()
    found = run()
    return found, time.process_time() - started - (compiling_cpu_seconds() - compiling)


def compare(problem: MappingProblem, objective: Objective, time_limit: float) -> dict[str, Any]:
    """One row."""
    budget = Budget(time_limit_s=time_limit)
    tables, tables_s = timed(lambda: ExactMapper().map(problem, objective, budget=budget, seed=0))
    assert tables.mapping is not None and tables.cost is not None  # every preset maps every layer
    start, value = tables.mapping, objective.of(tables.cost)
    (found, ended), labels_s = timed(lambda: by_labels(problem, objective, start, time_limit))
    return {
        "architecture": problem.architecture.name, "layer": problem.computation.sizes, "objective": objective.value,
        "tables": value, "labels": found, "ended": ended, "tables_s": tables_s, "labels_s": labels_s,
    }  # fmt: skip


def problems(config: Config) -> list[MappingProblem]:
    """All that is mapped: layers without sliding windows."""
    groups = sorted(load_network(config.network, partial_bits=24).distinct_layers(), key=lambda g: g.computation.macs)
    plain = [g.computation for g in groups if g.computation.sizes.get("R", 1) == g.computation.sizes.get("S", 1) == 1]
    chosen = plain[:1] if config.smoke else plain[:: config.every]
    machines = exact.machines(exact.Config(presets=config.presets, free_bypass=config.free_bypass))
    return [MappingProblem(layer, machine, constraints) for machine, constraints in machines for layer in chosen]


def report(rows: list[dict[str, Any]]) -> str:
    """One line for each machine and objective, as Markdown."""
    lines = []
    for key in dict.fromkeys((r["architecture"], r["objective"]) for r in rows):
        here = [r for r in rows if (r["architecture"], r["objective"]) == key]
        ratios = [r["labels_s"] / r["tables_s"] for r in here if r["ended"]]
        equal = sum(math.isclose(r["labels"], r["tables"], rel_tol=1e-12) for r in here)
        mean, worst = (f"{geometric_mean(ratios):.1f}", f"{max(ratios):.1f}") if ratios else ("", "")
        lines.append([*key, str(len(here)), str(len(ratios)), str(equal), mean, worst])
    head = ["architecture", "objective", "layers", "ended", "equal", "labels / tables, CPU s: mean", "worst"]
    return markdown(head, lines)


def main(config: Config) -> list[dict[str, Any]]:
    """Run the comparison and write results."""
    rows: list[dict[str, Any]] = []
    for problem in problems(config):
        rows += [compare(problem, Objective.parse(name), config.time_limit) for name in config.objectives]
        save(config.out, config, {"rows": rows}, report(rows))
    print(report(rows))
    return rows


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = head_parser(__doc__, out=default.out, smoke="one layer only")
    parser.add_argument("--network", default=default.network, help="a zoo model or file")
    parser.add_argument("--presets", nargs="+", default=default.presets)
    parser.add_argument("--objectives", nargs="+", default=default.objectives, choices=["energy", "edp"])
    parser.add_argument("--every", type=int, default=default.every, help="one layer of so many")
    parser.add_argument("--free-bypass", action="store_true")
    parser.add_argument("--time-limit", type=float, default=default.time_limit)
    options = vars(parser.parse_args(arguments))
    return Config(**{**options, "presets": tuple(options["presets"]), "objectives": tuple(options["objectives"])})


if __name__ == "__main__":
    main(parse_args())
