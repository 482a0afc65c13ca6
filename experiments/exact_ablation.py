"""What each specialisation of the exact mapper is worth: `python -m experiments.exact_ablation`.

Every problem is mapped as it is and with one specialisation left out, one after the other, so that all see the same load. A
specialisation is left out by what would serve in its place, so the optimum stays the same or its proof is lost. Everything
runs once before it counts; seconds of compiling are taken off. Writes `results.json` and `table.csv`.
"""

import ast
import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from codesign.arch.presets import load_preset
from codesign.core.errors import unknown_name
from codesign.core.goals import Budget, Objective, Proof
from codesign.core.jit import compiling_cpu_seconds
from codesign.mappers.annealing import AnnealingMapper
from codesign.mappers.exact import ExactMapper
from codesign.mappers.exact.even import best_first, branch_and_bound
from codesign.mappers.exact.even.best_first import EvenSearch
from codesign.mappers.exact.even.mirrored_profiles import Mirror
from codesign.mappers.exact.even.profile import EvenProfile
from codesign.mappers.exact.even.profile_queue import ProfileQueue
from codesign.mappers.exact.even.screen import Screen
from codesign.mappers.exact.even.shared_problem import EvenProblem
from codesign.mappers.exact.incumbent import Incumbent
from codesign.mappers.exact.problem import instance
from codesign.mappers.exact.uneven import place_search, windows
from codesign.mappers.exact.uneven.place_search import PlaceSearch
from codesign.mappers.exact.uneven.places import Places
from codesign.mappers.exact.uneven.segments import Plain, automaton
from codesign.mappers.exact.uneven.windows import windows_of
from codesign.mapping.constraints import Constraints, MappingProblem
from codesign.workloads.load import load_network
from experiments import exact
from experiments.accelforge_cases import read_cases
from experiments.mappers_common import put_rows, save
from experiments.options import head_parser
from spaces.scratchpad import SCRATCHPAD

EXACT = Path(instance.__file__).parents[1]


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        suites: Sets of problems, see `SUITES`.
        only: Specialisations left out; none: all of the suite.
        every: One layer of so many is mapped.
        effort: Cells, or labels, of each search; about 3 CPU seconds.
        data: Folder of the reference data.
        smoke: The smallest problem of each suite only.
        out: Folder of results.
    """

    suites: tuple[str, ...] = ("fixed", "free", "uneven")
    only: tuple[str, ...] = ()
    every: int = 3
    effort: float = 3e8
    data: Path = exact.Config().data
    smoke: bool = False
    out: Path = Path("results/exact_ablation")


@dataclass(frozen=True)
class Specialisation:
    """Something that is there for speed or for a proof.

    Args:
        name: In the words of the page.
        instead: What serves in its place.
        where: Files below `codesign/mappers/exact` that would go, or ``file:function``.
        without: Leaves it out, in a stack that puts it back.
        suites: Where it plays a part.
    """

    name: str
    instead: str
    where: tuple[str, ...]
    without: Callable[[ExitStack], None]
    suites: tuple[str, ...] = ("fixed", "free")

    @property
    def lines(self) -> int:
        """Lines that only it needs."""
        return sum(_lines(place) for place in self.where)


def _lines(place: str) -> int:
    file, _, name = place.partition(":")
    tree = _tree(EXACT / file)
    if not name:
        return len((EXACT / file).read_text(encoding="utf-8").splitlines())
    found = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef) and n.name == name]
    return sum((n.end_lineno or n.lineno) - n.lineno + 1 for n in found)


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


# ---- what serves in their place ------------------------------------------------------------------


def _replacing(*what: tuple[object, str, object]) -> Callable[[ExitStack], None]:
    def without(stack: ExitStack) -> None:
        for owner, name, new in what:
            stack.enter_context(patch.object(owner, name, new))

    return without


def _all_live(screen: Screen, row: Any, weight: Any, cap: float, program: Any) -> Any:
    return np.ones(len(program.level), np.int64)


def _no_bound(screen: Screen, rows: Any, weight: Any, cap: Any) -> Any:
    return np.zeros(len(rows)), 0.0


def _each_alone(queue: ProfileQueue) -> Any:
    found = []
    for m, vectors in enumerate(queue.problem.vectors):
        problem, masks = queue.problem.instance, queue.problem.instance.relevant_mask
        children = vectors.factors.prod(axis=1)[:, None]
        shared = vectors.distinct if problem.problem.shares[m] else np.repeat(children, problem.n_tensors, axis=1)
        kinds = [vectors.factors[:, masks == mask].prod(axis=1)[:, None] for mask in np.unique(masks)]
        table = np.concatenate([children, vectors.share, shared, *kinds], axis=1)
        found.append((table, np.arange(len(table))))
    return found


_divide = EvenSearch._divide


def _divide_all_alike(search: EvenSearch, part: Any) -> None:
    timed, search.timed = search.timed, False
    _divide(search, part)
    search.timed = timed


def _bound_as_it_is(least: Any, port: int, energy: float, cycles: float, best: Any) -> float:
    value: float = best.goal.value(energy, cycles)
    return value


def _given_up(fixed: Any, node: Any, *rest: Any) -> Any:
    return [branch_and_bound.Node(node.least, node.most, node.bound, given_up=True)]


def _most_chains(problem: EvenProblem, t: int, axis: tuple[int, ...], spatial: Any) -> Iterator[Any]:
    grid = problem.instance.lattice.grid
    most = max(int(grid.n_divisors[list(dims)].prod()) for _, dims in problem.axes)
    table = np.ones((2, len(axis), grid.grow.shape[1], most))
    table[:, :, 0] = 0.0
    return (table[:, i] for i in range(len(axis)))


def _all_twice(problem: EvenProblem, m: int, used: Any) -> Any:
    return np.ones((len(used), problem.instance.n_tensors), bool)


def _single(source: MappingProblem, coef: Any) -> Any:
    return tuple((i,) for i, bound in enumerate(source.computation.bounds) if bound > 1)


_run = EvenProfile.run


def _run_limited(own: EvenProfile, weight: Any, restricted: Any = None, live: Any = None, decisions: Any = None,
                 limits: Any = None) -> float:  # fmt: skip
    shape = own.words.shape[:2]
    return _run(own, weight, restricted, live, decisions, limits or (np.zeros(shape), np.full(shape, np.inf)))


_init_search = PlaceSearch.__init__


def _exact_at_once(search: PlaceSearch, *arguments: Any) -> None:
    _init_search(search, *arguments)
    search._first = place_search.EXACT


_init_places = Places.__init__


def _watch_all(places: Places, *arguments: Any, **named: Any) -> None:
    _init_places(places, *arguments, **named)
    places.watch = list(range(1, 1 + places.problem.n_ports))


_tensors = Places._tensors


def _general_tensors(places: Places) -> Any:
    levels = len(places.profile.inside)
    return tuple(
        windows_of(x.tensor, x.column, x.relevant, (), ((),) * len(places.segments), ((),) * levels, ())
        if isinstance(x, Plain)
        else x
        for x in _tensors(places)
    )


_map = ExactMapper.map


def _annealed_first(mapper: ExactMapper, problem: Any, objective: Any, **named: Any) -> Any:
    if mapper.uneven:
        return _map(mapper, problem, objective, **named)
    return AnnealingMapper().map(problem, objective, **named)


def _alone(problem: EvenProblem) -> Any:
    return tuple((d,) for d in range(problem.instance.n_dims))


BOTH = ("fixed", "free", "uneven")
SPECIALISATIONS = (
    Specialisation(
        "pruned program (D11)", "the exact program at once",
        ("even/pruned_program.py", "even/folded_tiles.py", "even/screen.py"),
        _replacing((Screen, "bound", _no_bound), (Screen, "live", _all_live)),
    ),
    Specialisation(
        "pruned program for states", "all states of the exact program",
        ("even/screen.py:live", "even/screen.py:_place", "even/screen.py:_states"), _replacing((Screen, "live", _all_live)),
    ),
    Specialisation(
        "folded tiles (D11)", "one tile for every size of a window", ("even/shared_problem.py:folds",),
        _replacing((EvenProblem, "folds", property(_alone))),
    ),
    Specialisation(
        "mirrored profiles (D10)", "both are searched", ("even/mirrored_profiles.py",),
        _replacing((Mirror, "canonical", lambda own, rows: np.arange(len(rows)))), BOTH,
    ),
    Specialisation(
        "coarse profiles (D2, B3)", "every vector of factors for itself",
        ("even/word_prices.py:bound_coarse", "even/profile_queue.py:_fine", "even/profile_queue.py:open"),
        _replacing((ProfileQueue, "_alike", property(_each_alone))), BOTH,
    ),
    Specialisation(
        "ports in the pruned program", "energy alone, or the first port", ("even/best_first.py:_weights",),
        _replacing((EvenSearch, "_weights", lambda own: [1] if own.by_latency else [0])),
    ),
    Specialisation(
        "best of a block at once", "in its turn", (), _replacing((best_first, "_PROMISING", 0)),
    ),
    Specialisation(
        "energy and cycles weighed (B6)", "least energy and least cycles, each for itself", ("even/branch_and_bound.py:trade",),
        _replacing((branch_and_bound, "trade", _bound_as_it_is)),
    ),
    Specialisation(
        "caps on words, parted (B4)", "a gap", ("even/branch_and_bound.py:split",),
        _replacing((branch_and_bound, "split", _given_up)),
    ),
    Specialisation(
        "keep sets one by one (B7)", "parted by decisions", ("even/best_first.py:_few_left", "even/best_first.py:_alone"),
        _replacing((EvenSearch, "_few_left", lambda own, part: False), (EvenSearch, "_divide", _divide_all_alike)),
        ("free",),
    ),
    Specialisation(
        "annealing (B5)", "nothing", ("mapper.py:_annealed", "incumbent.py:ask"),
        _replacing((Incumbent, "ask", lambda own, at_once=False: None)),
    ),
    Specialisation(
        "depth first (C1)", "a gap", ("even/depth_first.py",),
        _replacing((branch_and_bound, "_chase", _given_up)),
    ),
    Specialisation(
        "chain tables (C1)", "every chain saves all", ("problem/sliding_windows.py",),
        _replacing((EvenProblem, "_make_chains", _most_chains)),
    ),
    Specialisation(
        "levels with the same tile (D9)", "all states", ("even/shared_problem.py:_stacks", "even/shared_problem.py:asked_twice"),
        _replacing((EvenProblem, "asked_twice", _all_twice)),
    ),
    Specialisation(
        "dimensions that are one (D0)", "each for itself", ("problem/instance.py:_members",),
        _replacing((instance, "_members", _single)), BOTH,
    ),
    Specialisation(
        "windows where words have no limits", "tile by tile, with limits",
        ("problem/lattice.py:offer_window_loop", "even/joint_program.py:_slide"),
        _replacing((EvenProfile, "run", _run_limited)),
    ),
    Specialisation(
        "relaxed windows (P14)", "exact ones at once", ("uneven/places.py:_least_words", "uneven/windows.py:least_shares"),
        _replacing((PlaceSearch, "__init__", _exact_at_once)), ("uneven",),
    ),
    Specialisation(
        "tensors without windows (P3)", "a tensor whose windows have no axes", ("uneven/segments.py:Plain",),
        _replacing((Places, "_tensors", _general_tensors)), ("uneven",),
    ),
    Specialisation(
        "ports watched when slow", "all ports watched", ("uneven/places.py:also_watch", "uneven/places.py:slowest_unwatched"),
        _replacing((Places, "__init__", _watch_all)), ("uneven",),
    ),
    Specialisation(
        "profiles kept ready", "made again", (), _replacing((place_search, "_READY", 1)), ("uneven",),
    ),
    Specialisation(
        "rising limits (U12)", "the incumbent", (), _replacing((place_search, "sweep_limit", lambda low, tried, top: top)),
        ("uneven",),
    ),
    Specialisation(
        "chains followed (P11)", "the most they may save taken off", (), _replacing((windows, "MOST_CHAINS", 0)), ("uneven",),
    ),
    Specialisation(
        "even optimum first (P8)", "annealing", (), _replacing((ExactMapper, "map", _annealed_first)), ("uneven",),
    ),
)  # fmt: skip


# ---- problems ------------------------------------------------------------------------------------


def _presets(config: Config, names: tuple[str, ...], network: str, every: int, free: bool) -> list[MappingProblem]:
    groups = load_network(network, partial_bits=24).distinct_layers()[::every]
    machines = [load_preset(name) for name in names]
    return [
        MappingProblem(g.computation, exact.freed(m) if free else m, Constraints(free_bypass=free))
        for m in machines
        for g in groups
    ]


def _of_accelforge(config: Config) -> list[MappingProblem]:
    return [MappingProblem(c.computation, c.architecture, c.constraints) for c in read_cases(config.data)]


def fixed(config: Config) -> list[MappingProblem]:
    """Keep sets fixed: three presets and a random design."""
    space = SCRATCHPAD.space
    point = space.to_points(space.sample(1, np.random.default_rng(3)))[0]
    layers = load_network("resnet50", partial_bits=SCRATCHPAD.partial_bits).distinct_layers()[:: 2 * config.every]
    return [
        *_presets(config, ("simba", "gemmini", "eyeriss"), "resnet50", config.every, False),
        *_presets(config, ("simba", "gemmini"), "mobilenet_v2", 3 * config.every, False),
        *(MappingProblem(g.computation, SCRATCHPAD.build(point), Constraints()) for g in layers),
    ]


def free(config: Config) -> list[MappingProblem]:
    """Keep sets free: a preset, Simba of the reference data, AccelForge's machines."""
    machine, constraints = exact.reference_machine(exact.Config(data=config.data, free_bypass=True))
    layers = load_network("resnet50", partial_bits=24).distinct_layers()[:: 2 * config.every]
    return [
        *_presets(config, ("gemmini",), "resnet50", config.every, True),
        *_presets(config, ("gemmini",), "mobilenet_v2", 3 * config.every, True),
        *(MappingProblem(g.computation, machine, constraints) for g in layers),
        *_of_accelforge(config),
    ]


def uneven(config: Config) -> list[MappingProblem]:
    """Places within a level: layers with and without windows on three presets, and AccelForge's machines."""
    found = _presets(config, ("simba", "gemmini", "eyeriss"), "resnet50", 1, False)
    sliding = [p for p in found if p.computation.sizes.get("R", 1) > 1]
    return [*sliding[:: config.every], *found[:: 3 * config.every], *_of_accelforge(config)]


SUITES: dict[str, Callable[[Config], list[MappingProblem]]] = {"fixed": fixed, "free": free, "uneven": uneven}


# ---- measuring -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """One search.

    Args:
        seconds: CPU seconds without compiling.
        value: What was minimised; infinite where nothing was found.
        proven: Whether it is the optimum.
        bound: What no mapping is below.
    """

    seconds: float
    value: float
    proven: bool
    bound: float


def measure(problem: MappingProblem, objective: Objective, config: Config, suite: str) -> Run:
    """Map a problem once."""
    for known in (windows_of, automaton):  # states that another variant has made are not its own
        known.cache_clear()
    mapper = ExactMapper(effort=config.effort, uneven=suite == "uneven")
    compiling, started = compiling_cpu_seconds(), time.process_time()
    found = mapper.map(problem, objective, budget=Budget(), seed=0)
    seconds = time.process_time() - started - (compiling_cpu_seconds() - compiling)
    value = objective.of(found.cost) if found.cost else math.inf
    return Run(seconds, value, found.proof is Proof.OPTIMAL, found.bound(objective) if found.cost else math.inf)


def compare(problem: MappingProblem, objective: Objective, config: Config, suite: str) -> dict[str, Any]:
    """A problem with everything, before and after, and without each specialisation."""
    measure(problem, objective, config, suite)
    before, runs = measure(problem, objective, config, suite), {}
    for item in SPECIALISATIONS:
        if suite in item.suites and (not config.only or item.name in config.only):
            with ExitStack() as stack:
                item.without(stack)
                runs[item.name] = measure(problem, objective, config, suite)
    after = measure(problem, objective, config, suite)
    return {
        "suite": suite, "architecture": problem.architecture.name, "layer": problem.computation.sizes,
        "objective": objective.value, "all": replace(before, seconds=0.5 * (before.seconds + after.seconds)).__dict__,
        "apart": [before.seconds, after.seconds], "without": {name: run.__dict__ for name, run in runs.items()},
    }  # fmt: skip


HEAD = ("specialisation", "lines", "in its place", "problems", "CPU s with", "CPU s without", "factor", "worst",
        "proofs lost", "worse values")  # fmt: skip


def table(rows: list[dict[str, Any]]) -> list[list[str]]:
    """One line for each specialisation and suite."""
    lines = []
    for item in SPECIALISATIONS:
        for suite in item.suites:
            here = [r for r in rows if r["suite"] == suite and item.name in r["without"]]
            pairs = [(r["all"], r["without"][item.name]) for r in here]
            if not pairs:
                continue
            with_it, without = (sum(p[i]["seconds"] for p in pairs) for i in (0, 1))
            worst = max(p[1]["seconds"] / p[0]["seconds"] for p in pairs)
            lost = sum(p[0]["proven"] and not p[1]["proven"] for p in pairs)
            worse = sum(p[1]["value"] > p[0]["value"] * (1.0 + 1e-11) for p in pairs)
            lines.append([
                f"{item.name}, {suite}", str(item.lines or ""), item.instead, str(len(pairs)), f"{with_it:.2f}", f"{without:.2f}",
                f"{without / with_it:.2f}", f"{worst:.1f}", str(lost), str(worse),
            ])  # fmt: skip
    return lines


def main(config: Config) -> list[dict[str, Any]]:
    """Run the comparison and write results.

    Raises:
        UserError: There is no such specialisation.
    """
    for name in config.only:
        if name not in (known := [item.name for item in SPECIALISATIONS]):
            raise unknown_name("specialisation", name, known)
    rows: list[dict[str, Any]] = []
    for suite in config.suites:
        problems = SUITES[suite](config)
        if config.smoke:
            problems = [min(problems, key=lambda problem: problem.computation.macs)]
        for problem in problems:
            for objective in (Objective.ENERGY, Objective.EDP, Objective.LATENCY):
                rows.append(compare(problem, objective, config, suite))
            lines = table(rows)
            save(config.out, config, {"rows": rows}, "\n".join(" | ".join(line) for line in lines) + "\n")
    put_rows(config.out / "table.csv", HEAD, table(rows))
    print("\n".join(" | ".join(line) for line in [list(HEAD), *table(rows)]))
    return rows


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = head_parser(__doc__, out=default.out, smoke="the smallest problem of each suite")
    parser.add_argument("--suites", nargs="+", default=default.suites, choices=list(SUITES))
    parser.add_argument("--only", nargs="+", default=default.only, help="names of specialisations")
    parser.add_argument("--every", type=int, default=default.every, help="one layer of so many")
    parser.add_argument("--effort", type=float, default=default.effort, help="of each search")
    parser.add_argument("--data", type=Path, default=default.data, help="folder of the reference data")
    given = vars(parser.parse_args(arguments))
    return Config(**given | {name: tuple(given[name]) for name in ("suites", "only")})


if __name__ == "__main__":
    main(parse_args())
