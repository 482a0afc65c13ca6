"""Hardware and software designed apart against designed together (HASCO, ISCA 2021, Table III): `python -m experiments.hasco_table3`.

Convolutions of three CNNs. Apart: the paper's classic matrix unit (edge: 64 PEs, 256 KB, 4 banks; cloud: 4096 PEs, 1024 KB, 4 banks) with
a tuner of templates, as AutoTVM there. Together: MOBO over GEMMCore, then ConvCore, 20 designs, each with the whole software space. The paper's power limits, 2 and 20 W, were
set for an FPGA; at 22 nm neither binds, so besides them the number of PEs is held: for GEMMCore the classic one, to which the paper's search came
back as well, for ConvCore at most what the paper's search found.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from codesign.core.errors import UserError
from codesign.optim import create
from experiments.hasco_common import Sweep, base_parser, convolutions, template_choice, write_figure, write_results
from experiments.models.tensor_annealing import CoreCost, cost_on_core
from spaces.constraints import Constraint
from spaces.cores import CONV_CORE, GEMM_CORE, CoreBuilder, core_of
from spaces.design import DesignSpace
from spaces.parameters import Ordinal, Value
from spaces.space import Space

NETWORKS = ("resnet50", "mobilenet_v2", "xception")

PAPER = {
    "edge": {
        "resnet50": (12321.8, 8547.8, 4673.7),
        "mobilenet_v2": (56457.6, 42977.1, 24273.5),
        "xception": (707105.1, 544023.8, 318485.6),
    },
    "cloud": {
        "resnet50": (260.5, 197.2, 195.3),
        "mobilenet_v2": (1456.9, 1020.5, 901.5),
        "xception": (15706.3, 12548.9, 11594.4),
    },
    "columns": "milliseconds: apart, GEMMCore together, ConvCore together",
    "speedups": [1.4415, 1.3137, 1.2998, 1.3210, 1.4276, 1.2516],
    "conv_over_gemm_mean": 1.42,
    "hardware_share": 0.2953,
    "software_share": 0.7047,
}


@dataclass(frozen=True)
class Scenario:
    """One half of the table.

    Args:
        power_w: Limit.
        baseline: The classic matrix unit.
        gemm: Values of GEMMCore's parameters; others as in `baseline`.
        conv: Values of ConvCore's.
        most_pes: Of ConvCore.
    """

    power_w: float
    baseline: Mapping[str, Value]
    gemm: Mapping[str, Sequence[Value]]
    conv: Mapping[str, Sequence[Value]]
    most_pes: int


_CLASSIC: dict[str, Value] = {**GEMM_CORE.space.presets[0], "dataflow": "output-stationary", "banks": 4}
_BANKS = tuple(range(1, 9))
_PIXELS = {"pixels": (7, 14, 16), "taps": (1, 3)}

SCENARIOS: dict[str, Scenario] = {
    "edge": Scenario(
        2.0,
        {**_CLASSIC, "pe": 8, "scratchpad_kib": 256},
        {"dataflow": ("weight-stationary", "output-stationary"), "scratchpad_kib": (128, 256, 512), "local_bytes": (64, 128, 256), "banks": _BANKS},
        {"pe_rows": tuple(range(4, 33)), "pe_cols": tuple(range(4, 33)), "scratchpad_kib": (128, 256, 320, 512), "banks": _BANKS, **_PIXELS},
        144,
    ),
    "cloud": Scenario(
        20.0,
        {**_CLASSIC, "pe": 64, "scratchpad_kib": 1024},
        {"dataflow": ("weight-stationary", "output-stationary"), "scratchpad_kib": (512, 1024, 1536, 2048), "local_bytes": (64, 128, 256), "banks": _BANKS},
        {"pe_rows": tuple(range(16, 129, 8)), "pe_cols": tuple(range(16, 129, 8)), "scratchpad_kib": (512, 1024, 1536, 2048), "banks": _BANKS, **_PIXELS},
        4096,
    ),
}  # fmt: skip
"""DRAM bus (128 bits) and bursts (128 bytes) are the same for all, so that no design wins by more bandwidth."""


def fixed_space(scenario: Scenario) -> DesignSpace:
    """A space of one design, the classic matrix unit."""
    parameters = [Ordinal(name, (value,)) for name, value in scenario.baseline.items()]
    return replace(GEMM_CORE, space=Space(parameters, presets=(scenario.baseline,)))


CLOUD_BASELINE = fixed_space(SCENARIOS["cloud"])
"""For ``codesign build --space experiments.hasco_table3:CLOUD_BASELINE``."""


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        scenarios: Halves of the table.
        networks: Whose convolutions.
        evaluations: Programs scored per layer, form and design.
        iterations: Designs judged in a co-design.
        seeds: Co-designs per cell; medians are reported.
        seed: Of the first.
        out: Folder of results.
        every_gemm: Whether every GEMMCore is judged too, so that the best of the space is known.
    """

    scenarios: tuple[str, ...] = tuple(SCENARIOS)
    networks: tuple[str, ...] = NETWORKS
    evaluations: int = 300
    iterations: int = 20
    seeds: int = 3
    seed: int = 0
    out: Path = Path("results/hasco_table3")
    every_gemm: bool = False


def space_of(scenario: Scenario, intrinsic: str) -> DesignSpace:
    """The designs that a co-design may choose."""
    core, varied = (GEMM_CORE, scenario.gemm) if intrinsic == "gemm" else (CONV_CORE, scenario.conv)
    fixed = scenario.baseline if intrinsic == "gemm" else CONV_CORE.space.presets[0]
    values = {name: (value,) for name, value in fixed.items()} | dict(varied)
    limits = [Constraint("PEs", f"pe_rows * pe_cols <= {scenario.most_pes}")] if intrinsic == "conv2d" else []
    parameters = [Ordinal(name, given) for name, given in values.items()]
    assert isinstance(core.builder, CoreBuilder)
    return replace(core, name=f"{core.name}-scenario", space=Space(parameters, constraints=limits))


def codesign(sweep: Sweep, power_w: float, iterations: int) -> tuple[dict[str, Value], CoreCost]:
    """The fastest design within the power limit that MOBO over latency and power finds."""
    optimizer = create(
        "mobo",
        sweep.space.space,
        ("latency", "power"),
        seed=sweep.seed,
        constraints=[f"power<={power_w}"],
        options={"initial": 5},
    )
    best: tuple[dict[str, Value], CoreCost] | None = None
    for _ in range(iterations):
        for point in optimizer.ask(1):
            cost = sweep.judge(point)
            if cost is None:
                optimizer.tell(point, {}, feasible=False)
                continue
            optimizer.tell(point, {"latency": cost.latency_s, "power": cost.power_w})
            if cost.power_w <= power_w and (best is None or cost.latency_s < best[1].latency_s):
                best = (point, cost)
    if best is None:
        raise UserError(f"no design within {power_w} W in {iterations} iterations", hint="give more --iterations")
    return best


def best_of_all(sweep: Sweep, power_w: float) -> tuple[float, int]:
    """The least latency in ms of any design of the space within the power limit, every one judged, and how many they are."""
    points = sweep.space.space.to_points(sweep.space.space.enumerate())
    costs = [sweep.judge(point) for point in points]
    return min(1e3 * c.latency_s for c in costs if c is not None and c.power_w <= power_w), len(points)


def run_cell(name: str, network: str, config: Config) -> dict[str, Any]:
    """One row of the table."""
    scenario, layers = SCENARIOS[name], convolutions(network)
    classic = core_of(fixed_space(scenario), scenario.baseline)
    apart = cost_on_core(layers, classic, evaluations=config.evaluations, seed=config.seed, template=template_choice)
    software = cost_on_core(layers, classic, evaluations=config.evaluations, seed=config.seed)
    if not isinstance(apart, CoreCost) or not isinstance(software, CoreCost):
        raise UserError(f"the classic design of {name!r} cannot run {network}")
    row: dict[str, Any] = {
        "scenario": name,
        "network": network,
        "apart_ms": 1e3 * apart.latency_s,
        "apart_w": apart.power_w,
        "software_only_ms": 1e3 * software.latency_s,
    }
    for intrinsic in ("gemm", "conv2d"):
        runs = []
        for seed in range(config.seed, config.seed + config.seeds):
            sweep = Sweep(space_of(scenario, intrinsic), layers, config.evaluations, seed)
            point, cost = codesign(sweep, scenario.power_w, config.iterations)
            runs.append((1e3 * cost.latency_s, cost.power_w, cost.area_mm2, point))
        runs.sort(key=lambda r: r[0])
        middle = runs[len(runs) // 2]
        row[intrinsic] = {
            "ms": middle[0],
            "range_ms": [runs[0][0], runs[-1][0]],
            "power_w": middle[1],
            "area_mm2": middle[2],
            "point": middle[3],
        }
    if config.every_gemm:
        sweep = Sweep(space_of(scenario, "gemm"), layers, config.evaluations, config.seed)
        row["best_gemm_ms"], row["gemm_designs"] = best_of_all(sweep, scenario.power_w)
        row["gemm_over_best"] = row["gemm"]["ms"] / row["best_gemm_ms"]
    total = math.log(row["apart_ms"] / row["gemm"]["ms"])
    row["speedup"] = row["apart_ms"] / row["gemm"]["ms"]
    row["software_share"] = math.log(row["apart_ms"] / row["software_only_ms"]) / total if total else 0.0
    row["conv_over_gemm"] = row["gemm"]["ms"] / row["conv2d"]["ms"]
    return row


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What the paper says of its table."""
    speedups = [r["speedup"] for r in rows]
    share = float(np.mean([r["software_share"] for r in rows]))
    return {
        "speedup_range": [min(speedups), max(speedups)],
        "cells_not_slower": sum(s >= 1 for s in speedups),
        "cells": len(rows),
        "software_share": share,
        "hardware_share": 1 - share,
        "conv_over_gemm_mean": float(np.mean([r["conv_over_gemm"] for r in rows])),
        "highest_power_w": {
            n: max(max(r["apart_w"], r["gemm"]["power_w"], r["conv2d"]["power_w"]) for r in rows if r["scenario"] == n)
            for n in {r["scenario"] for r in rows}
        },
        "clock_hz": GEMM_CORE.builder.clock_hz if isinstance(GEMM_CORE.builder, CoreBuilder) else None,
    }


def main(config: Config) -> dict[str, Any]:
    """Run every cell and write results."""
    rows = [run_cell(name, network, config) for name in config.scenarios for network in config.networks]
    summary = summarise(rows)
    write_results(config.out, config, {"paper": PAPER, "summary": summary, "rows": rows})
    _draw(config, rows)
    for row in rows:
        if config.every_gemm:
            print(
                f"    of all {row['gemm_designs']} GEMMCores the best has {row['best_gemm_ms']:.3f} ms: {row['gemm_over_best']:.4f} x"
            )
        print(
            f"{row['scenario']} {row['network']:12} apart {row['apart_ms']:9.3f} ms, software alone {row['software_only_ms']:9.3f}, "
            f"GEMMCore {row['gemm']['ms']:9.3f} ({row['speedup']:.2f} x, software {100 * row['software_share']:.0f} %), "
            f"ConvCore {row['conv2d']['ms']:9.3f} ({row['conv_over_gemm']:.2f} x); {row['apart_w']:.3f}, {row['gemm']['power_w']:.3f}, {row['conv2d']['power_w']:.3f} W"
        )
        for intrinsic in ("gemm", "conv2d"):
            print(
                f"    {intrinsic}: {', '.join(f'{k} {v}' for k, v in row[intrinsic]['point'].items() if k not in ('links', 'bus_bits', 'burst_bytes'))}"
            )
    print(summary)
    return {"summary": summary, "rows": rows}


def _draw(config: Config, rows: list[dict[str, Any]]) -> None:
    import plotly.graph_objects as go

    names = [f"{r['scenario']} {r['network']}" for r in rows]
    bars = {
        "software alone": [r["apart_ms"] / r["software_only_ms"] for r in rows],
        "GEMMCore together": [r["speedup"] for r in rows],
        "ConvCore together": [r["apart_ms"] / r["conv2d"]["ms"] for r in rows],
    }
    figure = go.Figure([go.Bar(x=names, y=y, name=name) for name, y in bars.items()])
    figure.update_layout(title="Speedup over hardware and software designed apart", barmode="group")
    write_figure(figure, config.out)


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = base_parser(__doc__, default.out)
    parser.add_argument("--scenarios", nargs="+", default=default.scenarios, choices=tuple(SCENARIOS))
    parser.add_argument("--networks", nargs="+", default=default.networks, choices=NETWORKS)
    parser.add_argument("--evaluations", type=int, default=default.evaluations)
    parser.add_argument("--iterations", type=int, default=default.iterations)
    parser.add_argument("--seeds", type=int, default=default.seeds)
    parser.add_argument("--every-gemm", action="store_true", help="judge every GEMMCore too")
    given = parser.parse_args(arguments)
    if given.smoke:
        return Config(("edge",), ("resnet50",), evaluations=10, iterations=7, seeds=1, seed=given.seed, out=given.out)
    return Config(
        tuple(given.scenarios),
        tuple(given.networks),
        given.evaluations,
        given.iterations,
        given.seeds,
        given.seed,
        given.out,
        given.every_gemm,
    )


if __name__ == "__main__":
    main(parse_args())
