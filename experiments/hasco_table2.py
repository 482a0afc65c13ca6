"""Random search, NSGA-II and MOBO over cores for three networks (HASCO, ISCA 2021, Table II and Fig. 10): `python -m experiments.hasco_table2`.

Latency, power and area of GEMMCore and ConvCore on the convolutions of ResNet-50, MobileNetV2 and Xception, 40 trials each, population 5,
10 designs before MOBO's first model. Every design of the spaces below is judged first, so that the exact front is known. The paper's limits on latency
and power (2E9 cycles and 10 W for ResNet, and so on) are those of another cost model; here they are set so that they exclude as plainly useless designs do there:
latency at most 8 times the lowest, power at most 0.9 of the highest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

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
from experiments.options import parse_config
from spaces.cores import CONV_CORE, GEMM_CORE, CoreBuilder
from spaces.design import DesignSpace
from spaces.parameters import Ordinal, Value
from spaces.space import Space

NETWORKS = ("resnet50", "mobilenet_v2", "xception")
INTRINSICS = ("gemm", "conv2d")

PAPER = {
    "random_over_mobo": {"latency": 1.215, "power": 1.154, "area": 1.336},
    "fig10": {
        "case": "resnet50 gemm",
        "hypervolume_mobo_over_nsga2": 1.19,
        "trials_factor": 2.5,
        "passes_at_trial": 16,
    },
}

SPACES: dict[str, dict[str, Sequence[Value]]] = {
    "gemm": {
        "pe": (8, 16, 32),
        "dataflow": ("weight-stationary", "output-stationary"),
        "scratchpad_kib": (128, 256, 512),
        "local_bytes": (64, 256),
        "banks": (1, 2, 4, 8),
        "bus_bits": (64, 128),
        "burst_bytes": (64, 128),
    },
    "conv2d": {
        "pe_rows": (4, 8, 16, 32),
        "pe_cols": (4, 8, 16, 32),
        "taps": (1, 3),
        "scratchpad_kib": (128, 512),
        "banks": (1, 2, 4, 8),
        "bus_bits": (64, 256),
    },
}
"""Values of each parameter, within HASCO's ranges; `taps` is ours: rows and columns of the filter that one call applies."""


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        networks: Whose convolutions.
        intrinsics: Whose cores.
        evaluations: Programs scored per layer, form and design.
        trials: Of each optimiser.
        prior: Designs before MOBO's first model.
        seeds: Runs of each optimiser.
        values: At most so many values of each parameter, spread over its range.
        varied: At most so many parameters that vary, the first ones of `SPACES`.
        workers: Processes.
        seed: Of searches and optimisers.
        out: Folder of results.
    """

    networks: tuple[str, ...] = NETWORKS
    intrinsics: tuple[str, ...] = INTRINSICS
    evaluations: int = 200
    trials: int = 40
    prior: int = 10
    seeds: int = 10
    values: int = 10
    varied: int = 10
    workers: int = 2
    seed: int = 0
    out: Path = Path("results/hasco_table2")


def space_of(intrinsic: str, values: int, varied: int) -> DesignSpace:
    """The designs compared; parameters not in `SPACES` as in the preset."""
    core = GEMM_CORE if intrinsic == "gemm" else CONV_CORE
    assert isinstance(core.builder, CoreBuilder)
    choices: dict[str, Sequence[Value]] = {name: (value,) for name, value in core.space.presets[0].items()}
    for name, given in list(SPACES[intrinsic].items())[:varied]:
        picked = np.unique(np.linspace(0, len(given) - 1, min(values, len(given))).round().astype(int))
        choices[name] = [given[k] for k in picked]
    parameters = [Ordinal(name, given) for name, given in choices.items()]
    return replace(core, name=f"{core.name}-cut", space=Space(parameters))


def limits_of(table: Table) -> dict[str, float]:
    """Limits that exclude plainly useless designs."""
    good = table.values[table.allowed({})]
    return {"latency": 8 * float(good[:, 0].min()), "power": 0.9 * float(good[:, 1].max())}


def run_cell(network: str, intrinsic: str, config: Config) -> dict[str, Any]:
    """One row of Table II."""
    sweep = Sweep(
        space_of(intrinsic, config.values, config.varied), convolutions(network), config.evaluations, config.seed
    )
    table = Table.of(sweep, config.workers)
    limits = limits_of(table)
    seeds = range(config.seed, config.seed + config.seeds)
    comparison = compare(table, methods(config.prior), config.trials, seeds, limits, config.workers)
    reported = _reported(comparison)
    rows = {name: np.median(found, axis=0) for name, found in reported.items()}
    return {
        "network": network,
        "intrinsic": intrinsic,
        "designs": len(table.points),
        "allowed": int(table.allowed(limits).sum()),
        "front": len(comparison.exact),
        "limits": limits,
        "reported": {name: dict(zip(OBJECTIVES, row.tolist(), strict=True)) for name, row in rows.items()},
        "random_over_mobo": dict(
            zip(OBJECTIVES, np.median(reported["random"] / reported["mobo"], axis=0).tolist(), strict=True)
        ),
        "product_random_over_mobo": _product_ratio(reported, "random"),
        "product_nsga2_over_mobo": _product_ratio(reported, "nsga2"),
        "hypervolume_share": {name: comparison.quartiles(name, config.trials) for name in comparison.curves},
        "hypervolume_share_at_20": {
            name: comparison.quartiles(name, min(20, config.trials)) for name in comparison.curves
        },
        "mobo_over_nsga2": comparison.hypervolume_ratio("mobo", "nsga2"),
        "mobo_over_random": comparison.hypervolume_ratio("mobo", "random"),
        "mobo_passes_nsga2_at": comparison.passes("mobo", "nsga2"),
        "mobo_passes_random_at": comparison.passes("mobo", "random"),
        "curves": comparison.to_json(),
    }


def _reported(comparison: Comparison) -> dict[str, FloatArray]:
    """The design each run reports, the one with the least product of latency, power and area: ``seeds x 3``."""
    ideal = comparison.exact.min(axis=0)
    return {name: np.array([scalar_best(run, ideal) for run in runs]) for name, runs in comparison.runs.items()}


def _product_ratio(reported: dict[str, FloatArray], other: str) -> list[float]:
    ratios = np.prod(reported[other], axis=1) / np.prod(reported["mobo"], axis=1)
    quartiles: list[float] = np.percentile(ratios, [25, 50, 75]).tolist()
    return quartiles


def main(config: Config) -> dict[str, Any]:
    """Run every cell and write results."""
    cells = [run_cell(network, intrinsic, config) for network in config.networks for intrinsic in config.intrinsics]
    means = {name: float(np.mean([c["random_over_mobo"][name] for c in cells])) for name in OBJECTIVES}
    summary = {
        "mean_random_over_mobo": means,
        "geometric_mean_hypervolume_mobo_over_nsga2": float(
            np.exp(np.mean([np.log(c["mobo_over_nsga2"][1]) for c in cells]))
        ),
        "geometric_mean_hypervolume_mobo_over_random": float(
            np.exp(np.mean([np.log(c["mobo_over_random"][1]) for c in cells]))
        ),
    }
    write_results(config.out, config, {"paper": PAPER, "summary": summary, "cells": cells})
    _draw(config, cells)
    for cell in cells:
        print(
            f"{cell['network']} {cell['intrinsic']}: {cell['allowed']} of {cell['designs']} designs allowed, {cell['front']} on the front"
        )
        for name, row in cell["reported"].items():
            low, median, high = cell["hypervolume_share"][name]
            print(
                f"  {name:7} latency {1e3 * row['latency']:.3f} ms, power {1e3 * row['power']:.1f} mW, area {row['area']:.3f} mm2; "
                f"hypervolume {median:.4f} [{low:.4f}, {high:.4f}]"
            )
        print(
            f"  MOBO over NSGA-II {cell['mobo_over_nsga2'][1]:.3f}, over random {cell['mobo_over_random'][1]:.3f}; "
            f"passes them at trial {cell['mobo_passes_nsga2_at']} and {cell['mobo_passes_random_at']}"
        )
    print(summary)
    return {"summary": summary, "cells": cells}


def _draw(config: Config, cells: list[dict[str, Any]]) -> None:
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    columns = len(config.intrinsics)
    figure = make_subplots(
        -(-len(cells) // columns), columns, subplot_titles=[f"{c['network']} {c['intrinsic']}" for c in cells]
    )
    colours = {"random": "#8c8c8c", "nsga2": "#e69f00", "mobo": "#0072b2"}
    for k, cell in enumerate(cells):
        row, column = k // columns + 1, k % columns + 1
        for name, curve in cell["curves"].items():
            low, median, high = curve["quartiles"]
            x = list(range(1, len(median) + 1))
            line = {"color": colours[name]}
            figure.add_trace(go.Scatter(x=x, y=median, name=name, line=line, showlegend=k == 0), row, column)
            band = go.Scatter(
                x=x + x[::-1],
                y=high + low[::-1],
                fill="toself",
                opacity=0.2,
                line={"width": 0},
                fillcolor=colours[name],
                showlegend=False,
            )
            figure.add_trace(band, row, column)
    figure.update_xaxes(title_text="trial")
    figure.update_layout(
        title="Share of the exact front's hypervolume: median and quartiles over seeds", height=300 * len(cells)
    )
    write_figure(figure, config.out)


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    return parse_config(
        __doc__,
        Config(),
        _SMOKE,
        arguments,
        left_out=("prior",),
        choices={"networks": NETWORKS, "intrinsics": INTRINSICS},
    )


_SMOKE = {
    "networks": ("mobilenet_v2",), "intrinsics": ("gemm",), "evaluations": 10, "trials": 8, "prior": 4, "seeds": 1, "values": 3,
    "varied": 3, "workers": 1,
}  # fmt: skip


if __name__ == "__main__":
    main(parse_args())
