"""Convolutions partitioned directly against convolutions turned into matrix products (HASCO, ISCA 2021, Fig. 11): `python -m experiments.hasco_fig11`.

All 53 convolutions of ResNet-50 on a matrix unit of 16 x 16 with 256 KB. A library turns each into a matrix product: im2col reads the input, writes the
unfolded matrix to DRAM, and the product reads it again. Direct partitioning calls the intrinsic on parts of the tensors where they lie.
Beside it a tuner of templates, as AutoTVM in the paper: one fixed tensorize choice, only sizes of sub-workloads searched.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from codesign.tensorization.encoding import SoftwareProblem
from codesign.tensorization.intrinsic_core import Core
from codesign.workloads.computation import Computation
from experiments.hasco_common import base_parser, convolutions, template_choice, write_figure, write_results
from experiments.models.tensor_annealing import best_of_forms, quick_program
from spaces.cores import GEMM_CORE, core_of

PAPER = {"mean_over_library": 3.17, "over_2x": 18, "of": 53, "over_template_tuner": 1.21}

GEMM = "L[i,j] += M[i,k] * N[k,j]"


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        layers: Distinct layers of the network, the first ones.
        evaluations: Programs scored for each way to run a layer; all get as many.
        dataflow: Of the matrix unit.
        host_cycles_per_element: Of a library that unfolds on the host, as the paper's does: load, store, two addresses.
        seeds: Searches per layer and way; medians are taken.
        seed: Of the first.
        out: Folder of results.
    """

    layers: int = 100
    evaluations: int = 500
    dataflow: str = "output-stationary"
    host_cycles_per_element: float = 4.0
    seeds: int = 5
    seed: int = 0
    out: Path = Path("results/hasco_fig11")


def dma_cycles(core: Core, words: float, run_bytes: float) -> float:
    """Moving 8-bit elements in runs of so many contiguous bytes: Q5 of docs/explanation/hasco.md."""
    dma = core.dma
    bursts = math.ceil(run_bytes / dma.burst_bytes)
    return words / run_bytes * (math.ceil(run_bytes / dma.bus_bytes) + bursts * dma.overhead_cycles)


def im2col_cycles(convolution: Computation, core: Core) -> float:
    """Unfolding the input through the DMA engine: reading it once per filter tap, writing the matrix.

    A row of the matrix holds one (channel, tap) for all pixels. Reading is in runs of an image row's pixels; where a stride skips some, whole runs
    are read and the rest dropped, or single elements, whichever is faster. Writing is in whole rows of the matrix. Nothing is needed for 1 x 1
    filters without stride. The product's rows are output channels, which is how the output lies in DRAM, so no col2im is charged.
    """
    sizes = convolution.sizes
    stride = dict(convolution.inputs[0].axes[-1].terms)["Q"]
    if sizes["R"] == sizes["S"] == stride == 1:
        return 0.0
    pixels, taps = sizes["P"] * sizes["Q"], sizes["C"] * sizes["R"] * sizes["S"]
    reading = dma_cycles(core, float(pixels * taps * stride), float(sizes["Q"] * stride))
    if stride > 1:
        reading = min(reading, dma_cycles(core, float(pixels * taps), 1.0))
    return reading + dma_cycles(core, float(pixels * taps), float(pixels))


def as_product(convolution: Computation) -> Computation:
    """The matrix product that im2col makes of a convolution."""
    sizes = convolution.sizes
    bounds = {"i": sizes["K"], "j": sizes["P"] * sizes["Q"], "k": sizes["C"] * sizes["R"] * sizes["S"]}
    return Computation.parse(GEMM, bounds, name=convolution.name, partial_bits=32)


def _median(problem: SoftwareProblem, config: Config, *, fixed: bool = False, sizes_only: bool = False) -> float:
    seeds = range(config.seed, config.seed + config.seeds)
    if fixed:
        found = [quick_program(problem, evaluations=config.evaluations, seed=s, sizes_only=sizes_only) for s in seeds]
    else:
        found = [best_of_forms(problem, evaluations=config.evaluations, seed=s) for s in seeds]
    return float(np.median([math.inf if f is None else f.latency_cycles for f in found]))


def run_layer(convolution: Computation, core: Core, config: Config) -> dict[str, Any]:
    """One layer, all ways."""
    direct = SoftwareProblem.of(convolution, core)
    fixed = SoftwareProblem(convolution, core, (template_choice(direct.choices),))
    unfolding = im2col_cycles(convolution, core)
    elements = math.prod(convolution.sizes[d] for d in ("P", "Q", "C", "R", "S"))
    product = _median(SoftwareProblem.of(as_product(convolution), core), config)
    cycles = {
        "direct": _median(direct, config),
        "fixed_choice": _median(fixed, config, fixed=True),
        "template_tuner": _median(fixed, config, fixed=True, sizes_only=True),
        "im2col": unfolding + product,
        "im2col_on_host": (elements * config.host_cycles_per_element if unfolding else 0.0) + product,
    }
    return {
        "bounds": convolution.sizes,
        "cycles": cycles,
        "unfolding_cycles": unfolding,
        "over_im2col": cycles["im2col"] / cycles["direct"],
        "over_im2col_on_host": cycles["im2col_on_host"] / cycles["direct"],
        "over_template_tuner": cycles["template_tuner"] / cycles["direct"],
        "over_fixed_choice": cycles["fixed_choice"] / cycles["direct"],
    }


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over all layers, repeated ones counted."""
    weights = np.array([r["count"] for r in rows], np.float64)
    summary: dict[str, Any] = {"layers": int(weights.sum())}
    for name in ("over_im2col", "over_im2col_on_host", "over_template_tuner", "over_fixed_choice"):
        ratio = np.array([r[name] for r in rows])
        key = name.removeprefix("over_")
        total = sum(r["count"] * r["cycles"][key] for r in rows) / sum(r["count"] * r["cycles"]["direct"] for r in rows)
        summary[name] = {
            "mean": float(np.average(ratio, weights=weights)),
            "geometric_mean": float(np.exp(np.average(np.log(ratio), weights=weights))),
            "of_total_latency": total,
            "over_2x": int(weights[ratio > 2].sum()),
            "below_1": int(weights[ratio < 0.9999].sum()),
            "lowest": float(ratio.min()),
        }
    return summary


def main(config: Config) -> dict[str, Any]:
    """Run every layer and write results."""
    point = {**GEMM_CORE.space.presets[0], "pe": 16, "scratchpad_kib": 256, "dataflow": config.dataflow}
    core = core_of(GEMM_CORE, point)
    rows = [
        {"layer": k, "count": layer.count, **run_layer(layer.computation, core, config)}
        for k, layer in enumerate(convolutions("resnet50")[: config.layers])
    ]
    summary = summarise(rows)
    write_results(config.out, config, {"paper": PAPER, "summary": summary, "rows": rows})
    _draw(config, rows)
    for row in rows:
        cells = ", ".join(f"{k} {v:,.0f}" for k, v in row["cycles"].items())
        print(
            f"{row['count']} x {'x'.join(map(str, row['bounds'].values())):24} {cells}  im2col / direct {row['over_im2col']:.2f}"
        )
    for name, row in summary.items():
        print(f"{name}: {row}")
    return summary


def _draw(config: Config, rows: list[dict[str, Any]]) -> None:
    import plotly.graph_objects as go

    names = ["x".join(map(str, r["bounds"].values())) for r in rows]
    figure = go.Figure()
    for way in ("im2col_on_host", "im2col", "template_tuner", "fixed_choice", "direct"):
        figure.add_trace(go.Bar(x=names, y=[r["cycles"][way] / r["cycles"]["direct"] for r in rows], name=way))
    figure.update_layout(
        title="Distinct convolutions of ResNet-50: latency over that of direct partitioning", barmode="group"
    )
    write_figure(figure, config.out)


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = base_parser(__doc__, default.out)
    parser.add_argument("--evaluations", type=int, default=default.evaluations)
    parser.add_argument("--seeds", type=int, default=default.seeds)
    parser.add_argument("--dataflow", default=default.dataflow, choices=("output-stationary", "weight-stationary"))
    given = parser.parse_args(arguments)
    if given.smoke:
        return Config(layers=4, evaluations=40, dataflow=given.dataflow, seeds=1, seed=given.seed, out=given.out)
    return Config(
        evaluations=given.evaluations, dataflow=given.dataflow, seeds=given.seeds, seed=given.seed, out=given.out
    )


if __name__ == "__main__":
    main(parse_args())
