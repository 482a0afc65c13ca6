"""One set of programs on two matrix units of different size (HASCO, ISCA 2021, Fig. 2): `python -m experiments.hasco_fig2`.

The paper runs the same programs on an array of 16 x 16 with 256 KB and one of 8 x 8 with 128 KB, on an FPGA at 200 MHz, and finds other best programs
and 4.27 x the peak throughput at 2.58 x the area and 1.49 x the power. A program here is a tensorize choice, how many iterations of each
dimension are on chip together, both loop orders and the fusion; each array cuts what is on chip into calls of its own size.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from codesign.core.rng import make_state
from codesign.mapping.nest import IntArray
from codesign.tensorization.encoding import SoftwareProblem
from codesign.tensorization.revisions import CHOICE, FIRST_CALLS, candidate_width, draw, score_candidate
from codesign.tensorization.scoring import ENERGY, FITS, LATENCY, result_width
from codesign.workloads.computation import Computation
from experiments.hasco_common import base_parser, write_figure, write_results
from experiments.models.tensor_annealing import quick_program
from spaces.cores import GEMM_CORE, CoreBuilder, core_of
from spaces.parameters import Value

PAPER = {"throughput": 4.27, "area": 2.58, "power": 1.49, "best_programs_differ": True}

CONVOLUTION = "C[k,x,y] += A[c,x+r,y+s] * B[k,c,r,s]"


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        bounds: Of the convolution, k, x, y, c, r, s.
        programs: Random programs, half drawn for each array.
        optimised: Programs that searches of growing length found for each array, added to the random ones.
        clock_hz: Of both arrays.
        dataflow: Of both arrays; sums that stay in the array spare the scratchpad's banks.
        seed: Of the programs.
        out: Folder of results.
    """

    bounds: tuple[int, ...] = (64, 56, 56, 64, 3, 3)
    programs: int = 2000
    optimised: int = 20
    clock_hz: float = 2e8
    dataflow: str = "output-stationary"
    seed: int = 0
    out: Path = Path("results/hasco_fig2")


def _problem(config: Config, side: int, kib: int) -> SoftwareProblem:
    sizes = dict(zip("kxycrs", config.bounds, strict=True))
    assert isinstance(GEMM_CORE.builder, CoreBuilder)
    builder = replace(GEMM_CORE.builder, clock_hz=config.clock_hz)
    space = replace(GEMM_CORE, builder=builder)
    point: dict[str, Value] = {
        **GEMM_CORE.space.presets[0],
        "pe": side,
        "scratchpad_kib": kib,
        "dataflow": config.dataflow,
    }
    problem = SoftwareProblem.of(Computation.parse(CONVOLUTION, sizes, partial_bits=32), core_of(space, point))
    # the same order of choices on both arrays
    return replace(problem, choices=tuple(sorted(problem.choices, key=lambda c: str(c.match))))


def carry_over(row: IntArray, ours: SoftwareProblem, theirs: SoftwareProblem) -> IntArray:
    """A candidate drawn for one array, on the other: as many iterations of each dimension on chip, in calls of the other's size."""
    new = row.copy()
    mine, other = ours.tiles[int(row[CHOICE])], theirs.tiles[int(row[CHOICE])]
    for d, bound in enumerate(ours.computation.bounds):
        inside = min(bound, int(row[FIRST_CALLS + d]) * mine[d])
        total = -(-bound // other[d])
        calls = min(total, -(-inside // other[d]))
        new[FIRST_CALLS + d] = -(-total // -(-total // calls))
    return new


def _score(problem: SoftwareProblem, row: IntArray) -> tuple[float, float]:
    """Latency and energy; infinite if it does not fit."""
    loops: IntArray = np.ones((problem.max_loops, 3), np.int64)
    result = np.empty(result_width(3))
    score_candidate(problem.arrays, row, loops, result)
    return float(result[LATENCY]), float(result[ENERGY])


def main(config: Config) -> dict[str, Any]:
    """Score the programs on both arrays and write results."""
    arrays = {"GA_L": _problem(config, 16, 256), "GA_S": _problem(config, 8, 128)}
    large, small = arrays.values()
    random = make_state(config.seed)
    width = candidate_width(6)
    rows: list[tuple[IntArray, IntArray]] = []
    while len(rows) < config.programs:
        row: IntArray = np.zeros(width, np.int64)
        home, away = (large, small) if len(rows) % 2 == 0 else (small, large)
        if draw(home.arrays, row, random) == FITS:
            other = carry_over(row, home, away)
            rows.append((row, other) if home is large else (other, row))
    for k in range(config.optimised):
        for home, away in ((large, small), (small, large)):
            found = quick_program(home, evaluations=100 * (k + 1), seed=config.seed + k)
            if found is not None:
                other = carry_over(found.candidate, home, away)
                rows.append((found.candidate, other) if home is large else (other, found.candidate))
    scores = np.array([[_score(large, a), _score(small, b)] for a, b in rows])
    latency = scores[:, :, 0]
    macs = large.computation.macs
    mops = 2e-6 * macs / latency * config.clock_hz  # 2 operations a multiply-accumulate
    best = latency.argmin(axis=0)
    result = _summary(config, arrays, scores, best)
    write_results(config.out, config, {"paper": PAPER, "ours": result, "mops": mops})
    _draw(config, mops)
    print(
        f"best program: GA_L #{best[0]}, GA_S #{best[1]}; both fit {np.isfinite(latency).all(axis=1).sum()} of {len(rows)}"
    )
    for name in ("throughput", "throughput_searched", "area", "power"):
        print(f"{name:20} GA_L / GA_S = {result[name]:.2f}   paper {PAPER.get(name, PAPER['throughput'])}")
    print(
        f"GA_S runs GA_L's best program at {result['best_of_large_on_small']:.3f} of its own best, GA_L runs GA_S's best at {result['best_of_small_on_large']:.3f}"
    )
    return result


def _summary(config: Config, arrays: dict[str, SoftwareProblem], scores: Any, best: Any) -> dict[str, Any]:
    latency = scores[:, :, 0]
    low = latency.min(axis=0)
    chips = [p.core.architecture for p in arrays.values()]
    searched = [quick_program(p, evaluations=20_000, seed=config.seed) for p in arrays.values()]
    found = [s for s in searched if s is not None]
    reached = [s.latency_cycles for s in found]
    power = [
        s.energy_pj * 1e-12 / s.latency_cycles * config.clock_hz + c.leakage_w
        for s, c in zip(found, chips, strict=True)
    ]
    area = [chip.area_mm2 or 0.0 for chip in chips]
    return {
        "best_programs_differ": bool(best[0] != best[1]),
        "throughput": float(low[1] / low[0]),
        "throughput_searched": reached[1] / reached[0],
        "area": area[0] / area[1],
        "power": power[0] / power[1],
        "power_w": power,
        "area_mm2": area,
        "mops_searched": [2e-6 * arrays["GA_L"].computation.macs / n * config.clock_hz for n in reached],
        "best_of_large_on_small": float(low[1] / latency[best[0], 1]),
        "best_of_small_on_large": float(low[0] / latency[best[1], 0]),
        "spread": [
            float(np.nanmax(np.where(np.isfinite(latency[:, a]), latency[:, a], np.nan)) / low[a]) for a in range(2)
        ],
        "fits": np.isfinite(latency).sum(axis=0).tolist(),
    }


def _draw(config: Config, mops: Any) -> None:
    import plotly.graph_objects as go

    order = np.argsort(-mops[:, 0])
    figure = go.Figure()
    for column, name in enumerate(("GA_L 16x16, 256 KB", "GA_S 8x8, 128 KB")):
        figure.add_trace(
            go.Scatter(y=mops[order, column] / mops[:, column].max(), mode="markers", name=name, marker={"size": 4})
        )
    figure.update_layout(
        title="The same programs on two matrix units",
        xaxis_title="program, by throughput on GA_L",
        yaxis_title="throughput over each array's best",
    )
    write_figure(figure, config.out)


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = base_parser(__doc__, default.out)
    parser.add_argument("--programs", type=int, default=default.programs)
    parser.add_argument("--dataflow", default=default.dataflow, choices=("output-stationary", "weight-stationary"))
    given = parser.parse_args(arguments)
    programs = 40 if given.smoke else given.programs
    optimised = 2 if given.smoke else default.optimised
    return Config(programs=programs, optimised=optimised, dataflow=given.dataflow, seed=given.seed, out=given.out)


if __name__ == "__main__":
    main(parse_args())
