"""Random, heuristic, annealed and learned software search at equal numbers of scored candidates: `python -m experiments.software_search`.

HASCO (Xiao et al., ISCA 2021), Sec. VI-B claims heuristic and Q-learning search but shows no comparison. Here every method scores the same
number of programs on the release's benchmark list and on random pairs of computation and core that the policy was not trained on.
"""

import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llvmlite
import numpy as np
import numpy.typing as npt

from codesign.core.files import write_json
from codesign.tensorization.policy import load_policy, read_policy
from codesign.tensorization.search import AnnealedPrograms, HeuristicPrograms, ProgramSearch, RandomPrograms
from envs.problems import BENCHMARKS, Case, training_cases, unseen_cases
from envs.training import Algorithm, TrainingConfig, train
from experiments.options import head_parser

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        policies: Policy files to compare; without any, one is trained here first.
        timesteps: Steps of that training.
        algorithm: Its method.
        cases: Random pairs it trains on.
        unseen: Pairs to test on that it has not seen.
        seeds: Runs of each search on each pair.
        budgets: Numbers of scored candidates.
        seed: Of training and pairs.
        out: Folder of results.
    """

    policies: tuple[Path, ...] = ()
    timesteps: int = 200_000
    algorithm: str = "dqn"
    cases: int = 256
    unseen: int = 20
    seeds: int = 10
    budgets: tuple[int, ...] = (50, 100, 200)
    seed: int = 0
    out: Path = Path("results/software_search")


def latencies(search: ProgramSearch, cases: Sequence[Case], config: Config) -> FloatArray:
    """Latency found: ``cases x seeds x budgets``, a run of its own for each budget."""
    found = np.zeros((len(cases), config.seeds, len(config.budgets)))
    for i, case in enumerate(cases):
        problem = case.problem()
        for seed in range(config.seeds):
            for b, budget in enumerate(config.budgets):
                found[i, seed, b] = search.search(problem, evaluations=budget, seed=seed).latency_cycles
    return found


def interval(gain: FloatArray, seed: int, draws: int = 2000) -> FloatArray:
    """Of the mean gain over cases, in per cent: 2.5 and 97.5 % of means over cases drawn with replacement: ``budgets x 2``."""
    picked = np.random.default_rng(seed).integers(len(gain), size=(draws, len(gain)))
    ends: FloatArray = 100 * np.expm1(np.percentile(gain[picked].mean(axis=1), [2.5, 97.5], axis=0)).T
    return ends


def compare(searches: Sequence[ProgramSearch], cases: Sequence[Case], config: Config) -> dict[str, Any]:
    """Ratios to the lowest latency that any search found on a case, and wins over the heuristic."""
    started = time.process_time()
    found = {s.name: latencies(s, cases, config) for s in searches}
    lowest = np.min([f.min(axis=(1, 2)) for f in found.values()], axis=0)[:, None, None]
    ratio = {name: f / lowest for name, f in found.items()}
    # the mean over seeds of ln latency: how good a run is to be expected
    expected = {name: np.log(r).mean(axis=1) for name, r in ratio.items()}
    base = expected["heuristic"]
    table = {}
    for name, r in ratio.items():
        gain = base - expected[name]
        table[name] = {
            "geometric_mean_ratio": np.exp(expected[name].mean(axis=0)).tolist(),
            "median_case_ratio": np.median(np.median(r, axis=1), axis=0).tolist(),
            "cases_better_than_heuristic": (gain > 1e-12).sum(axis=0).tolist(),
            "cases_worse_than_heuristic": (gain < -1e-12).sum(axis=0).tolist(),
            "median_gain_over_heuristic_percent": (100 * np.median(np.expm1(gain), axis=0)).tolist(),
            "mean_gain_over_heuristic_percent": (100 * np.expm1(gain.mean(axis=0))).tolist(),
            "mean_gain_interval_percent": interval(gain, config.seed).tolist(),
            "gain_of_each_case_percent": (100 * np.expm1(gain)).tolist(),
        }
    cases_json = [
        {"name": c.name, "core": c.core, "lowest_latency_cycles": float(lowest[i, 0, 0])} for i, c in enumerate(cases)
    ]
    return {"table": table, "cases": cases_json, "cpu_seconds": time.process_time() - started}


def print_tables(result: dict[str, Any], config: Config) -> None:
    """Both tables as text."""
    for title, part in result.items():
        print(
            f"{title}: latency over the lowest found, geometric mean over cases and seeds; (better/worse cases than heuristic)"
        )
        print(f"{'':12}" + "".join(f"{f'at {b} scored':>20}" for b in config.budgets))
        for name, row in part["table"].items():
            cells = zip(
                row["geometric_mean_ratio"],
                row["cases_better_than_heuristic"],
                row["cases_worse_than_heuristic"],
                strict=True,
            )
            print(f"{name:12}" + "".join(f"{f'{r:.4f} ({b}/{w})':>20}" for r, b, w in cells))


def write_figure(result: dict[str, Any], config: Config) -> None:
    """Geometric mean ratios over the budget, one panel a list."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=1, cols=len(result), subplot_titles=list(result))
    for column, part in enumerate(result.values(), start=1):
        for name, row in part["table"].items():
            trace = go.Scatter(x=list(config.budgets), y=row["geometric_mean_ratio"], name=name, mode="lines+markers")
            figure.add_trace(trace, row=1, col=column)
    figure.update_xaxes(title="candidates scored")
    figure.update_yaxes(title="latency / lowest found")
    figure.write_html(config.out / "figure.html", include_plotlyjs=True)


def main(config: Config) -> dict[str, Any]:
    """Train if need be, compare, write results."""
    config.out.mkdir(parents=True, exist_ok=True)
    paths = config.policies
    if not paths:
        options = TrainingConfig(
            Algorithm(config.algorithm), timesteps=config.timesteps, cases=config.cases, seed=config.seed
        )
        paths = (train(options, config.out / "policy").policy_path,)
    searches: list[ProgramSearch] = [RandomPrograms(), HeuristicPrograms(), AnnealedPrograms()]
    searches += [load_policy(path) for path in paths]
    trained = training_cases(config.cases, 0)
    result = {
        "benchmarks": compare(searches, BENCHMARKS, config),
        "unseen pairs": compare(searches, unseen_cases(config.unseen, config.seed, trained), config),
    }
    policies = [
        {"file": p.name, "algorithm": q.algorithm, "timesteps": q.timesteps} for p in paths for q in [read_policy(p)]
    ]
    document = {
        "config": {
            "budgets": config.budgets,
            "seeds": config.seeds,
            "unseen": config.unseen,
            "seed": config.seed,
            "trained_on": config.cases,
        },
        "policies": policies,
        "versions": {"python": platform.python_version(), "llvmlite": llvmlite.__version__, "numpy": np.__version__},
        **result,
    }
    write_json(config.out / "results.json", document)
    write_figure(result, config)
    print_tables(result, config)
    return document


def parse_args(arguments: list[str] | None = None) -> Config:
    """Options from the command line."""
    default = Config()
    parser = head_parser(__doc__, out=default.out, seed=default.seed, smoke="a tiny run, to see that everything works")
    parser.add_argument(
        "--policies", nargs="+", type=Path, default=default.policies, help="policy files; none: train one"
    )
    parser.add_argument("--timesteps", type=int, default=default.timesteps)
    parser.add_argument("--algorithm", default=default.algorithm, choices=[a.value for a in Algorithm])
    parser.add_argument("--cases", type=int, default=default.cases)
    parser.add_argument("--unseen", type=int, default=default.unseen)
    parser.add_argument("--seeds", type=int, default=default.seeds)
    parser.add_argument("--budgets", nargs="+", type=int, default=default.budgets)
    given = parser.parse_args(arguments)
    if given.smoke:
        return Config(tuple(given.policies), 400, given.algorithm, 4, 2, 1, (10, 20), given.seed, given.out)
    return Config(
        tuple(given.policies),
        given.timesteps,
        given.algorithm,
        given.cases,
        given.unseen,
        given.seeds,
        tuple(given.budgets),
        given.seed,
        given.out,
    )


if __name__ == "__main__":
    main(parse_args())
