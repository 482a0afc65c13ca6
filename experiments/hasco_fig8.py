"""Every ConvCore of a small space, and how fast optimisers find its front (HASCO, ISCA 2021, Fig. 8 and 9): `python -m experiments.hasco_fig8`.

The paper's cut: array shapes 4 x 4 to 32 x 32 and 1 to 8 banks, six convolutions of Xception with 86.7 to 454.2 million operations (which six is not
said; ours are all ordinary ones of the network in that range, counted in multiply-accumulates). Every design is judged with programs found for it; random
search, NSGA-II (population 5) and MOBO (5 designs first) then get 20 trials each.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from codesign.optim.pareto import nondominated
from experiments.hasco_common import (
    OBJECTIVES,
    Comparison,
    FloatArray,
    Sweep,
    Table,
    compare,
    convolutions,
    methods,
    scalar_best,
    write_figure,
    write_results,
)
from experiments.models.tensor_annealing import Layer
from experiments.options import parse_config
from spaces.cores import CONV_CORE, CoreBuilder
from spaces.design import DesignSpace
from spaces.parameters import Integer, Ordinal
from spaces.space import Space

PAPER = {
    "power_range_mw": [207.46, 25136.7],
    "power_ratio_at_one_latency": 121.16,
    "random_share_of_optimum": {"latency": 0.748, "power": 0.438, "area": 0.416},
    "nsga2_share_of_optimum": {"latency": 0.805, "power": 0.952, "area": 0.622},
    "mobo_finds_the_front": True,
}


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        step: Between array sides; 1 is the paper's cut.
        taps: Filter rows and columns in one call of the core; 1, since five of the six layers are pointwise.
        evaluations: Programs scored per layer and design.
        trials: Of each optimiser.
        prior: Designs before MOBO's first model.
        seeds: Runs of each optimiser.
        workers: Processes.
        seed: Of searches and optimisers.
        out: Folder of results.
    """

    step: int = 1
    taps: int = 1
    evaluations: int = 300
    trials: int = 20
    prior: int = 5
    seeds: int = 10
    workers: int = 2
    seed: int = 0
    out: Path = Path("results/hasco_fig8")


def workload() -> tuple[Layer, ...]:
    """One of each ordinary convolution of Xception with 86.7 to 454.2 million multiply-accumulates, the six that differ most in shape."""
    layers = [Layer(v.computation) for v in convolutions("xception") if v.computation.reduced_dims[:1] == ("C",)]
    fitting = [v for v in layers if 86.7e6 <= v.computation.macs <= 454.2e6]
    sides: dict[int, Layer] = {}
    for layer in fitting:  # the first of each size of feature map and filter
        sizes = layer.computation.sizes
        sides.setdefault(sizes["P"] * 10 + sizes["R"], layer)
    return tuple(sides.values())[:6]


def cut(config: Config) -> DesignSpace:
    """Array shape and banks; all else as in the preset."""
    sides = list(range(4, 33, config.step))
    fixed = {k: v for k, v in CONV_CORE.space.presets[0].items() if k not in ("pe_rows", "pe_cols", "banks")}
    parameters = [
        Ordinal("pe_rows", sides),
        Ordinal("pe_cols", sides),
        Integer("banks", 1, 8),
        *(Ordinal(k, [v]) for k, v in fixed.items()),
    ]
    assert isinstance(CONV_CORE.builder, CoreBuilder)
    return replace(
        CONV_CORE, name="convcore-cut", space=Space(parameters), builder=replace(CONV_CORE.builder, taps=config.taps)
    )


def correlations(table: Table) -> dict[str, Any]:
    """What the paper's Fig. 8 and 9 show."""
    latency, power, area = table.values.T
    near = latency <= latency.min() + 0.05 * (latency.max() - latency.min())
    ranks = np.array([np.argsort(np.argsort(v)) for v in (power, area)], np.float64)
    return {
        "designs": len(table.points),
        "front": int(nondominated(table.values).sum()),
        "power_range_mw": (1e3 * np.array([power.min(), power.max()])).tolist(),
        "power_range_near_lowest_latency_mw": (1e3 * np.array([power[near].min(), power[near].max()])).tolist(),
        "power_ratio_near_lowest_latency": float(power[near].max() / power[near].min()),
        "power_ratio_at_one_latency": _widest_power_ratio(latency, power),
        "rank_correlation_power_area": float(np.asarray(np.corrcoef(ranks))[0, 1]),
        "rising_with_pes": {n: _rising(table, ("pe_rows", "pe_cols"), k) for k, n in enumerate(OBJECTIVES)},
        "rising_with_banks": {n: _rising(table, ("banks",), k) for k, n in enumerate(OBJECTIVES)},
        "slower_with_more_pes": _slower_with_more_pes(table),
    }


def _widest_power_ratio(latency: FloatArray, power: FloatArray, width: float = 0.05) -> float:
    """Highest power over lowest among designs whose latencies lie within a window of 5 % of each other."""
    order = np.argsort(latency)
    latency, power = latency[order], power[order]
    last = np.searchsorted(latency, (1 + width) * latency, side="right")
    return float(max(power[a:b].max() / power[a:b].min() for a, b in enumerate(last)))


def _neighbours(table: Table, names: tuple[str, ...]) -> tuple[Any, Any]:
    """Pairs of designs that differ by one step of one of these parameters: smaller, larger."""
    at = {tuple(p.values()): k for k, p in enumerate(table.points)}
    parameters = {p.name: list(p.choices) for p in table.sweep.space.space.parameters}
    small, large = [], []
    for k, point in enumerate(table.points):
        for name in names:
            choices = parameters[name]
            place = choices.index(point[name])
            if place + 1 < len(choices):
                small.append(k)
                large.append(at[tuple({**point, name: choices[place + 1]}.values())])
    return np.array(small), np.array(large)


def _rising(table: Table, names: tuple[str, ...], column: int) -> float:
    """Share of steps of these parameters with which an objective rises."""
    small, large = _neighbours(table, names)
    return float((table.values[large, column] > table.values[small, column] * (1 + 1e-9)).mean())


def _slower_with_more_pes(table: Table) -> dict[str, Any]:
    """The step by one row or column of PEs that lengthens latency most."""
    small, large = _neighbours(table, ("pe_rows", "pe_cols"))
    ratio = table.values[large, 0] / table.values[small, 0]
    worst = int(ratio.argmax())
    points = (table.points[int(small[worst])], table.points[int(large[worst])])
    return {
        "from": points[0],
        "to": points[1],
        "latency_ratio": float(ratio[worst]),
        "share_of_steps": float((ratio > 1 + 1e-9).mean()),
    }


def shares_of_optimum(comparison: Comparison, table: Table) -> dict[str, dict[str, float]]:
    """The paper's percentages: best value of the space in each objective over that of the one design reported, median of seeds.

    The design reported is the one of the run with the least product of latency, power and area; the optimum is that of the whole space.
    """
    ideal = comparison.exact.min(axis=0)
    optimum = scalar_best(table.values, ideal)
    return {
        name: dict(
            zip(
                OBJECTIVES, np.median([optimum / scalar_best(run, ideal) for run in runs], axis=0).tolist(), strict=True
            )
        )
        for name, runs in comparison.runs.items()
    }


def main(config: Config) -> dict[str, Any]:
    """Judge every design, run the optimisers, write results."""
    table = Table.of(Sweep(cut(config), workload(), config.evaluations, config.seed), config.workers)
    truth = correlations(table)
    seeds = range(config.seed, config.seed + config.seeds)
    comparison = compare(table, methods(config.prior), config.trials, seeds, {}, config.workers)
    final = {name: comparison.quartiles(name, config.trials) for name in comparison.curves}
    optimum = shares_of_optimum(comparison, table)
    ours = {
        "truth": truth,
        "hypervolume_share_quartiles": final,
        "mobo_over_nsga2": comparison.hypervolume_ratio("mobo", "nsga2"),
        "mobo_over_random": comparison.hypervolume_ratio("mobo", "random"),
        "share_of_optimum": optimum,
    }
    layers = [str(v.computation.sizes) for v in workload()]
    write_results(
        config.out,
        config,
        {
            "paper": PAPER,
            "layers": layers,
            "ours": ours,
            "curves": comparison.to_json(),
            "points": table.points,
            "objectives": table.values,
        },
    )
    _draw(config, table)
    for name, value in truth.items():
        print(f"{name}: {value}")
    for name, (low, median, high) in final.items():
        share = ", ".join(f"{k} {v:.3f}" for k, v in optimum[name].items())
        print(
            f"{name:7} hypervolume {median:.4f} [{low:.4f}, {high:.4f}] after {config.trials} trials; share of optimum: {share}"
        )
    return ours


def _draw(config: Config, table: Table) -> None:
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    latency, power, area = table.values.T
    figure = make_subplots(
        2, 3, subplot_titles=("power over latency", "area over latency", "power over area", *OBJECTIVES)
    )
    for column, (x, y) in enumerate(((latency, power), (latency, area), (area, power)), 1):
        figure.add_trace(go.Scattergl(x=x / x.max(), y=y / y.max(), mode="markers", marker={"size": 3}), 1, column)
    square = [k for k, p in enumerate(table.points) if p["pe_rows"] == p["pe_cols"]]
    sides = sorted({int(table.points[k]["pe_rows"]) for k in square})
    for column in range(3):
        z = np.full((len(sides), 8), np.nan)
        for k in square:
            point = table.points[k]
            z[sides.index(int(point["pe_rows"])), int(point["banks"]) - 1] = table.values[k, column]
        figure.add_trace(go.Heatmap(z=z / np.nanmax(z), x=list(range(1, 9)), y=sides, showscale=False), 2, column + 1)
    figure.update_layout(
        title="Every ConvCore of the cut; below, square arrays over banks, all normalised", showlegend=False
    )
    write_figure(figure, config.out)


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    return parse_config(
        __doc__, Config(), {"step": 14, "evaluations": 20, "trials": 8, "seeds": 1, "workers": 1}, arguments,
        left_out=("evaluations", "prior"),
    )  # fmt: skip


if __name__ == "__main__":
    main(parse_args())
