"""Which intrinsic suits which computation, and how far tensorize choices differ (HASCO, ISCA 2021, Fig. 7): `python -m experiments.hasco_fig7`.

Four cores of 64 PEs and 256 KB, one an intrinsic. The paper's 40 test cases are not released; `CASES` are our own, in the ranges of its Table I:
layers of known networks, and tensor products of round sizes. A stage of MTTKRP that the intrinsic cannot take runs on the host, as the paper says of
GEMM; beside it stands what a padded, partly used matrix unit would do.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from codesign.core.errors import UserError
from codesign.tensorization.encoding import SoftwareProblem
from codesign.tensorization.intrinsic_core import Core, Overheads
from codesign.tensorization.stages import split_stages
from codesign.workloads.computation import Computation
from experiments.hasco_common import base_parser, write_figure, write_results
from experiments.models.tensor_annealing import quick_program
from spaces.cores import CORE_SPACES, CoreBuilder, core_of
from spaces.parameters import Value

NOTATIONS = {
    "GEMM": ("L[i,j] += M[i,k] * N[k,j]", "ijk"),
    "TTM": ("C[i,j,k] += A[i,j,l] * B[l,k]", "ijkl"),
    "MTTKRP": ("D[i,j] += A[i,k,l] * B[l,j] * C[k,j]", "ijkl"),
    "CONV2D": ("C[k,x,y] += A[c,x+r,y+s] * B[k,c,r,s]", "kcxyrs"),
}

CASES: dict[str, tuple[tuple[int, ...], ...]] = {
    "GEMM": (
        (32, 32, 32), (64, 64, 64), (128, 128, 128), (256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (256, 64, 1024),
        (256, 512, 1024), (784, 256, 64), (196, 1024, 256),
    ),
    "TTM": (
        (64, 64, 64, 64), (128, 128, 64, 64), (128, 128, 128, 128), (64, 256, 64, 1024), (256, 256, 128, 128), (512, 64, 64, 256),
        (100, 100, 100, 100), (50, 200, 100, 400), (1024, 64, 64, 64), (256, 256, 256, 256),
    ),
    "MTTKRP": (
        (128, 128, 128, 128), (128, 256, 512, 64), (128, 256, 256, 128), (256, 128, 256, 128), (256, 128, 128, 256), (512, 64, 128, 256),
        (512, 64, 64, 512), (1024, 32, 32, 1024), (200, 200, 200, 100), (256, 256, 256, 256),
    ),
    "CONV2D": (
        (64, 64, 224, 224, 3, 3), (128, 64, 112, 112, 3, 3), (256, 128, 56, 56, 3, 3), (512, 256, 28, 28, 3, 3), (512, 512, 14, 14, 3, 3),
        (64, 64, 56, 56, 3, 3), (128, 128, 28, 28, 3, 3), (256, 256, 14, 14, 3, 3), (256, 96, 27, 27, 5, 5), (728, 728, 19, 19, 1, 1),
    ),
}  # fmt: skip
"""CONV2D: layers of VGG-16, ResNet-50, AlexNet and Xception. MTTKRP: the seven shapes of FlexTensor's configurations and three more."""

PREFERRED = {"GEMM": "gemm", "TTM": "gemm", "MTTKRP": "gemv", "CONV2D": "conv2d"}
"""The paper's finding."""

PAPER = {"preferred": PREFERRED, "choices_differ_by": 3.26}

CORES: dict[str, tuple[str, dict[str, Value]]] = {
    "dot": ("dotcore", {"pe_rows": 8, "pe_cols": 8}),
    "gemv": ("gemvcore", {"pe": 8}),
    "gemm": ("gemmcore", {"pe": 8, "dataflow": "output-stationary"}),
    "conv2d": ("convcore", {"pe_rows": 8, "pe_cols": 8}),
    "conv2d 14x14": ("convcore", {"pe_rows": 8, "pe_cols": 8}),
}
"""`conv2d` computes 16 x 16 pixels a call as in HASCO's release; `conv2d 14x14` as many as the feature maps of these networks divide by."""


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        cases: Cases of each computation.
        evaluations: Programs scored for every tensorize choice.
        call_overheads: Cycles that the array stands still at the start of a call; 0 where calls follow each other without a gap.
        host_cycles_per_mac: Of a stage that the intrinsic cannot take: two loads, multiply, add, two addresses, a branch, a cycle for misses.
        seed: Of the searches.
        out: Folder of results.
    """

    cases: int = 10
    evaluations: int = 1000
    call_overheads: tuple[int, ...] = (2, 0)
    host_cycles_per_mac: float = 8.0
    seed: int = 0
    out: Path = Path("results/hasco_fig7")


def core_named(name: str, call_overhead: int) -> Core:
    """A core of 64 PEs and 256 KB, otherwise the preset."""
    space_name, changes = CORES[name]
    space = CORE_SPACES[space_name]
    assert isinstance(space.builder, CoreBuilder)
    builder = replace(
        space.builder, overheads=Overheads(call=call_overhead), pixels=14 if name.endswith("14x14") else 16
    )
    point = {**space.space.presets[0], **changes, "scratchpad_kib": 256}
    return core_of(replace(space, builder=builder), point)


def per_choice(computation: Computation, core: Core, config: Config, *, partial: bool) -> list[tuple[str, float]]:
    """The lowest latency found with each tensorize choice alone; empty if there is none."""
    try:
        problem = SoftwareProblem.of(computation, core, partial=partial)
    except UserError:
        return []
    found = []
    for choice in problem.choices:
        one = quick_program(
            SoftwareProblem(computation, core, (choice,)), evaluations=config.evaluations, seed=config.seed
        )
        if one is not None:
            found.append((str(choice.match), one.latency_cycles))
    return found


def run_case(kind: str, sizes: tuple[int, ...], core_name: str, overhead: int, config: Config) -> dict[str, Any]:
    """One case on one core: in one expression where it can, else in stages, else on the host."""
    notation, dims = NOTATIONS[kind]
    computation = Computation.parse(notation, dict(zip(dims, sizes, strict=True)), partial_bits=32)
    core = core_named(core_name, overhead)
    whole = per_choice(computation, core, config, partial=False)
    ways = {"one expression": min((n for _, n in whole), default=math.inf)}
    if kind == "MTTKRP":
        host, padded = 0.0, 0.0
        for stage in split_stages(computation):
            full = min((n for _, n in per_choice(stage, core, config, partial=False)), default=math.inf)
            part = min((n for _, n in per_choice(stage, core, config, partial=True)), default=math.inf)
            host += min(full, stage.macs * config.host_cycles_per_mac)
            padded += min(full, part)
        ways |= {"stages, the rest on the host": host, "stages, partly used": padded}
    latency = min(n for way, n in ways.items() if way != "stages, partly used")
    # a computation that nothing takes runs on the host altogether
    latency = min(latency, computation.macs * config.host_cycles_per_mac)
    return {
        "computation": kind,
        "sizes": sizes,
        "core": core_name,
        "call_overhead": overhead,
        "latency_cycles": latency,
        "macs_per_cycle": computation.macs / latency,
        "ways": {way: n for way, n in ways.items() if math.isfinite(n)},
        "choices": whole,
        "spread": max(n for _, n in whole) / min(n for _, n in whole) if whole else 1.0,
    }


def winners(rows: list[dict[str, Any]], cores: Sequence[str], *, partly_used: bool = False) -> dict[str, int]:
    """How many cases each of these cores runs fastest."""
    best: dict[tuple[int, ...], tuple[float, str]] = {}
    for row in (r for r in rows if r["core"] in cores):
        latency = min(row["ways"].values(), default=row["latency_cycles"]) if partly_used else row["latency_cycles"]
        best[row["sizes"]] = min(best.get(row["sizes"], (math.inf, "")), (latency, row["core"]))
    won = [core for _, core in best.values()]
    return {core: won.count(core) for core in cores if core in won}


def summarise(rows: list[dict[str, Any]], overheads: Sequence[int]) -> dict[str, Any]:
    """Per computation and call overhead: how often each core wins, and the widest spread over choices of one intrinsic."""
    summary: dict[str, Any] = {}
    released = [name for name in CORES if name != "conv2d 14x14"]
    fitting = [name for name in CORES if name != "conv2d"]
    for kind in NOTATIONS:
        summary[kind] = {"preferred_by_paper": PREFERRED[kind]}
        for overhead in overheads:
            mine = [r for r in rows if r["computation"] == kind and r["call_overhead"] == overhead]
            found = {"wins": winners(mine, released)}
            if kind == "CONV2D":
                found["wins_with_14x14_pixels"] = winners(mine, fitting)
            if kind == "MTTKRP":
                found["wins_if_partly_used"] = winners(mine, released, partly_used=True)
            summary[kind][f"call_overhead_{overhead}"] = found
        widest = max((r for r in rows if r["computation"] == kind), key=lambda r: r["spread"])
        summary[kind] |= {
            "widest_spread": widest["spread"],
            "widest_spread_at": {"core": widest["core"], "sizes": widest["sizes"]},
        }
    return summary


def main(config: Config) -> dict[str, Any]:
    """Run every case on every core and write results."""
    rows = [
        run_case(kind, sizes, core, overhead, config)
        for kind in NOTATIONS
        for sizes in CASES[kind][: config.cases]
        for core in CORES
        for overhead in config.call_overheads
        if kind == "CONV2D" or not core.startswith("conv2d")
    ]
    summary = summarise(rows, config.call_overheads)
    write_results(config.out, config, {"paper": PAPER, "summary": summary, "rows": rows})
    _draw(config, [r for r in rows if r["call_overhead"] == config.call_overheads[0]])
    for kind, row in summary.items():
        print(
            f"{kind}: the paper prefers {row['preferred_by_paper']}; choices of one intrinsic differ up to {row['widest_spread']:.2f} x"
        )
        for overhead in config.call_overheads:
            print(
                f"  {overhead} cycles a call: "
                + "; ".join(f"{k} {v}" for k, v in row[f"call_overhead_{overhead}"].items())
            )
    return summary


def _draw(config: Config, rows: list[dict[str, Any]]) -> None:
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    figure = make_subplots(1, len(NOTATIONS), subplot_titles=list(NOTATIONS))
    colours = dict(zip(CORES, ("#8c8c8c", "#e69f00", "#0072b2", "#009e73", "#cc79a7"), strict=True))
    for column, kind in enumerate(NOTATIONS, 1):
        best = max(r["macs_per_cycle"] for r in rows if r["computation"] == kind)
        for core in CORES:
            mine = [r for r in rows if r["computation"] == kind and r["core"] == core]
            if not mine:
                continue
            y = [r["macs_per_cycle"] / best for r in mine]
            low = [v * (1 - 1 / r["spread"]) for v, r in zip(y, mine, strict=True)]
            figure.add_trace(
                go.Scatter(
                    x=list(range(1, len(mine) + 1)),
                    y=y,
                    name=core,
                    mode="lines+markers",
                    line={"color": colours[core]},
                    showlegend=kind == "CONV2D",
                    error_y={"type": "data", "symmetric": False, "array": [0] * len(mine), "arrayminus": low},
                ),
                1,
                column,
            )
    figure.update_xaxes(title_text="case")
    figure.update_layout(title="Throughput over the best; bars reach down to the worst tensorize choice")
    write_figure(figure, config.out)


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = base_parser(__doc__, default.out)
    parser.add_argument("--cases", type=int, default=default.cases)
    parser.add_argument("--evaluations", type=int, default=default.evaluations)
    given = parser.parse_args(arguments)
    cases, evaluations = (1, 50) if given.smoke else (given.cases, given.evaluations)
    return Config(cases=cases, evaluations=evaluations, seed=given.seed, out=given.out)


if __name__ == "__main__":
    main(parse_args())
