"""Convolution chains fused with and without shared windows: `python -m experiments.halos`.

What `codesign schedule --scheduler fused --halos` finds on `soma-edge` with a small buffer (rules H1 to H6 of `codesign.scheduling.fused.halos`).
With `--network NAME ...`: every chain of convolutions of these networks, equal ones once, in a buffer of half its largest intermediate;
`chains.csv` has energy-delay products operator by operator, fused without and with shared windows.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from codesign.arch.presets import load_preset
from codesign.core import clock
from codesign.core.files import write_atomic
from codesign.core.goals import Budget, Objective
from codesign.mapping.looptree import Goal
from codesign.scheduling.fused.alike import shape_of
from codesign.scheduling.fused.halos import runs
from codesign.scheduling.fused.loop_tree import Fusion
from codesign.scheduling.fused.network_operators import FusedGraph, graph_of
from codesign.scheduling.fused.schedule import Schedule
from codesign.scheduling.fused.scheduler import FusedScheduler, best_with_halos, halos_json
from codesign.scheduling.protocol import ScheduleProblem
from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.network import Network
from codesign.workloads.zoo import build_model
from experiments.mappers_common import csv_of, markdown, save
from experiments.options import head_parser


def convolutions(rows: int, channels: int, layers: int) -> Network:
    """3 x 3 convolutions that keep shape."""
    builder = NetworkBuilder(f"{layers} of 3x3, {channels} x {rows} x {rows}")
    x = builder.input("x", (1, channels, rows, rows))
    for _ in range(layers):
        x = builder.conv(x, channels, 3)
    return builder.build(x)


def inverted(rows: int, channels: int, wide: int, stride: int) -> Network:
    """A block of MobileNetV2 without its addition: 1 x 1, depthwise 3 x 3, 1 x 1."""
    builder = NetworkBuilder(f"inverted {channels}-{wide}-{channels} x {rows} x {rows}, stride {stride}")
    x = builder.conv(builder.input("x", (1, channels, rows, rows)), wide, 1)
    return builder.build(builder.conv(builder.conv(x, wide, 3, stride=stride, groups=wide), channels, 1))


@dataclass(frozen=True)
class Case:
    """A chain and a buffer."""

    make: Callable[[], Network]
    capacity_bytes: int


CASES = (
    Case(lambda: convolutions(32, 16, 2), 16 << 10),
    Case(lambda: convolutions(64, 8, 2), 12 << 10),
    Case(lambda: convolutions(56, 64, 2), 128 << 10),
    Case(lambda: convolutions(32, 16, 3), 24 << 10),
    Case(lambda: inverted(56, 24, 144, 1), 64 << 10),
    Case(lambda: inverted(56, 24, 144, 2), 64 << 10),
)


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        time_limit: CPU seconds of each search.
        cases: Cases at most.
        networks: Whose chains are searched in place of the cases.
        out: Folder of results.
    """

    time_limit: float = 30.0
    cases: int = len(CASES)
    networks: tuple[str, ...] = ()
    out: Path = Path("results/halos")


def chains(graph: FusedGraph) -> list[FusedGraph]:
    """Longest runs of operators that read each other through windows, cut after a pooling; equal ones once."""
    linked = {i for run in runs(graph) for i in range(run.first, run.last)}
    pools = {i for i, o in enumerate(graph.operators) if len(o.operands) == 2}
    found: dict[object, FusedGraph] = {}
    first = 0
    for i in range(len(graph.operators)):
        if i in linked and i not in pools:
            continue
        operators, machines = graph.operators[first : i + 1], graph.machines[first : i + 1]
        written = {t.name for o in operators[:-1] for t in o.operands if t.output}
        between = graph.between & written
        name = f"{operators[0].name} to {operators[-1].name}"
        chain = replace(graph, name=name, operators=operators, machines=machines, between=between)
        key = tuple(shape_of(o, m, between) for o, m in zip(operators, machines, strict=True))
        if any(True for _ in runs(chain)):
            found.setdefault(key, chain)
        first = i + 1
    return list(found.values())


def half_buffer(graph: FusedGraph) -> int:
    """Half of the largest intermediate in whole KiB, at least 16."""
    sizes = [t.words(o.bounds) * t.bits / 8 for o in graph.operators for t in o.operands if t.name in graph.between]
    return max(int(max(sizes)) // 2048, 16) << 10


def gap_of(found: Schedule) -> float:
    """How far a schedule may be above the least; infinite where no bound is known."""
    return 0.0 if found.proven else found.value / found.bound - 1 if found.bound > 0 else math.inf


@dataclass(frozen=True)
class ChainRow:
    """A chain of a network; products are picojoules times cycles, fused ones are told by their ratio to the one before."""

    chain: str
    operators: int
    KiB: int
    operator_by_operator: str
    fused: str
    with_shared_windows: str
    proof: str
    run: str
    cuts: int
    CPU_s: str


def chain_graphs(name: str) -> Iterator[FusedGraph]:
    """Every chain of a network in its small buffer."""
    network, machine = build_model(name), load_preset("soma-edge")
    for chain in chains(graph_of(network, machine)):
        names = {o.name for o in chain.operators}
        small = graph_of(network, machine, half_buffer(chain))
        kept = [i for i, o in enumerate(small.operators) if o.name in names]
        operators, machines = small.operators[kept[0] : kept[-1] + 1], small.machines[kept[0] : kept[-1] + 1]
        title = f"{network.name}: {chain.name}"
        yield replace(small, name=title, operators=operators, machines=machines, between=chain.between)


def network_rows(config: Config) -> tuple[list[dict[str, Any]], list[ChainRow]]:
    """Every chain of the networks in all ways."""
    rows, table = [], []
    for graph in itertools.chain.from_iterable(chain_graphs(name) for name in config.networks):
        row: dict[str, Any] = {"network": graph.name, "capacity_bytes": int(graph.capacity_bits) // 8}
        row["alone"] = Fusion(graph.operators, graph.machines, graph.between, Goal.EDP).separate().value
        for halos in (False, True):
            began = clock.cpu_seconds()
            made = best_with_halos(graph, Goal.EDP, 1, config.time_limit, halos=halos)
            found, seconds = made.schedule, clock.cpu_seconds() - began
            outer = found.cost().outer_bits / 8 if found.parts else math.nan
            row["with" if halos else "without"] = {
                "latency_cycles": found.seconds,
                "energy_pj": found.energy if found.energy is not None else math.nan,
                "dram_bytes": outer,
                "value": found.value,
                "proof": "optimal" if found.proven else "gap",
                "gap": gap_of(found),
                "cpu_seconds": seconds,
                **halos_json(made),
            }
        rows.append(row)
        print(_line(row), flush=True)
        plain, cut = row["without"], row["with"]
        table.append(
            ChainRow(
                graph.name,
                len(graph.operators),
                row["capacity_bytes"] >> 10,
                f"{row['alone']:.3g}",
                f"{plain['value'] / row['alone']:.3f}",
                f"{cut['value'] / plain['value']:.3f}",
                _proof(cut),
                _run(row),
                cut["halo_tilings"],
                f"{cut['cpu_seconds']:.1f}",
            )
        )
    return rows, table


def main(config: Config) -> list[dict[str, Any]]:
    """Schedule every chain both ways, write results and table."""
    if config.networks:
        rows, table = network_rows(config)
        write_atomic(config.out / "chains.csv", csv_of(table, ChainRow))
    else:
        rows = case_rows(config)
    save(config.out, config, {"rows": rows}, markdown(HEAD, [_line(row) for row in rows]))
    return rows


def case_rows(config: Config) -> list[dict[str, Any]]:
    """Every case both ways."""
    rows = []
    for case in CASES[: config.cases]:
        network = case.make()
        row: dict[str, Any] = {"network": network.name, "capacity_bytes": case.capacity_bytes}
        for halos in (False, True):
            problem = ScheduleProblem(network, load_preset("soma-edge"), case.capacity_bytes)
            budget = Budget(time_limit_s=config.time_limit)
            found = FusedScheduler(halos=halos).schedule(problem, Objective.EDP, budget=budget, seed=0)
            row["with" if halos else "without"] = {**found.to_json(), **found.detail}
        rows.append(row)
        print(_line(row), flush=True)
    return rows


HEAD = (
    "chain",
    "KiB",
    "without: cycles, uJ, DRAM KB, proof",
    "with: cycles, uJ, DRAM KB, proof",
    "EDP ratio",
    "run",
    "CPU s",
)


def _proof(way: dict[str, Any]) -> str:
    return way["proof"] if not way["gap"] else f"{way['proof']} {100 * way['gap']:.1f} %"


def _run(row: dict[str, Any]) -> str:
    """The run that is cut, and its halos."""
    found = row["with"].get("halos")
    if found is None:
        return "-"
    halos = ", ".join("kept" if kept else "computed again" for kept in found["kept"].values()) or "no halo"
    return f"{len(found['operators'])} operators, {found['dim']} in {found['steps']} steps, {halos}"


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    cells = []
    for way in ("without", "with"):
        r = row[way]
        cells.append(
            f"{r['latency_cycles']:,.0f}, {r['energy_pj'] / 1e6:.3g}, {r['dram_bytes'] / 1e3:.1f}, {_proof(r)}"
        )
    ratio = row["with"]["value"] / row["without"]["value"]
    seconds = f"{row['with']['cpu_seconds']:.1f}"
    return row["network"], str(row["capacity_bytes"] >> 10), *cells, f"{ratio:.3f}", _run(row), seconds


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = head_parser(__doc__, out=default.out, smoke="one chain, 3 s")
    parser.add_argument("--time-limit", type=float, default=default.time_limit, help="CPU seconds of each search")
    parser.add_argument("--network", nargs="+", default=[], help="every chain of these networks")
    given = parser.parse_args(arguments)
    limit, cases = (3.0, 1) if given.smoke else (given.time_limit, default.cases)
    return Config(limit, cases, tuple(given.network), given.out)


if __name__ == "__main__":
    main(parse_args())
