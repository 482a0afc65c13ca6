"""Convolution chains fused with and without shared windows: `python -m experiments.halos`.

What `codesign schedule --scheduler fused --halos` finds on `soma-edge` with a small buffer (rules H1 to H6 of `codesign.scheduling.fused.halos`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codesign.arch.presets import load_preset
from codesign.core.goals import Budget, Objective
from codesign.scheduling.fused.scheduler import FusedScheduler
from codesign.scheduling.protocol import ScheduleProblem
from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.network import Network
from experiments.mappers_common import markdown, save
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
        out: Folder of results.
    """

    time_limit: float = 30.0
    cases: int = len(CASES)
    out: Path = Path("results/halos")


def main(config: Config) -> list[dict[str, Any]]:
    """Schedule every chain both ways, write results and table."""
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
    save(config.out, config, {"rows": rows}, markdown(HEAD, [_line(row) for row in rows]))
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


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    cells = []
    for way in ("without", "with"):
        r = row[way]
        proof = r["proof"] if not r["gap"] else f"{r['proof']} {100 * r['gap']:.1f} %"
        cells.append(f"{r['latency_cycles']:,.0f}, {r['energy_pj'] / 1e6:.3g}, {r['dram_bytes'] / 1e3:.1f}, {proof}")
    found = row["with"].get("halos")
    run = "-"
    if found is not None:
        halos = ", ".join("kept" if kept else "computed again" for kept in found["kept"].values())
        run = f"{len(found['operators'])} operators, {found['dim']} in {found['steps']} steps, {halos}"
    ratio = row["with"]["value"] / row["without"]["value"]
    seconds = f"{row['with']['cpu_seconds']:.1f}"
    return row["network"], str(row["capacity_bytes"] >> 10), *cells, f"{ratio:.3f}", run, seconds


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = head_parser(__doc__, out=default.out, smoke="one chain, 3 s")
    parser.add_argument("--time-limit", type=float, default=default.time_limit, help="CPU seconds of each search")
    given = parser.parse_args(arguments)
    return Config(3.0 if given.smoke else given.time_limit, 1 if given.smoke else default.cases, given.out)


if __name__ == "__main__":
    main(parse_args())
