"""Optimisers on a large space at equal trials and at equal time: fronts, or the best value against the budget.

    python -m experiments.budgets --trials 1000 --seeds 3 --out runs/budgets                       # latency, energy, area on `wide`
    python -m experiments.budgets --objective edap --network resnet50 --seeds 5 --out runs/best
    python -m experiments.budgets --report --out runs/budgets --figure docs/images/wide.svg
    python -m experiments.budgets --smoke

A design is judged by its lower bounds on latency and energy (docs/explanation/bounds.md) in place of mappings: a closed model of the real architectures, a
hundredth of a second each, of which optimisers are told nothing. Every optimiser has its defaults. `edap` is energy times latency times area. Each run is a
file in `--out`, written when it is done, so that a study that was stopped goes on.

The figure of a run is the share of the hypervolume of the front of all runs together (log-scaled, reference point at 1.05 of its range), or for `edap` the
best value over the best of all runs. At equal time a trial costs the seconds of its proposal and those that are assumed for an evaluation.
"""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import codesign.optim
from codesign.bounds import DesignBounds
from codesign.core.errors import UserError
from codesign.core.files import write_json
from codesign.evaluation.design import load_design_space
from codesign.optim import Frame
from codesign.optim.pareto import front
from codesign.workloads.load import load_network
from experiments.options import head_parser

Floats = NDArray[np.float64]

METRICS = ("latency", "energy", "area")

PRODUCT = "edap"

MARKS = (10, 30, 100, 300, 1000)

LOOKED_AT = 400
"""Points of a curve at which hypervolumes are computed, at most."""


@dataclass(frozen=True)
class Config:
    """What is run.

    Args:
        space: As the command line names it.
        network: As the command line names it.
        objective: `front` for latency, energy and area, or `edap`.
        optimizers: Names as `codesign.optim.create` takes them, each perhaps with a budget of its own: ``nsga2:50@20000``.
        trials: Designs per run.
        seeds: Runs per optimiser.
        seed: The first seed.
        cpu_limit_s: Of one run; 0 for none.
    """

    space: str = "wide"
    network: str = "mobilenet_v2"
    objective: str = "front"
    optimizers: tuple[str, ...] = ("random", "nsga2:20", "nsga2:50", "optuna:tpe", "mobo:black")
    trials: int = 1000
    seeds: int = 3
    seed: int = 0
    cpu_limit_s: float = 0.0

    def __post_init__(self) -> None:
        if self.trials < 1 or self.seeds < 1:
            raise UserError(f"--trials and --seeds must be at least 1, got {self.trials} and {self.seeds}")
        if self.objective not in ("front", PRODUCT):
            raise UserError(f"--objective must be 'front' or {PRODUCT!r}, got {self.objective!r}")


class Judge:
    """Latency, energy and area of designs by their bounds.

    Args:
        config: Space and network.
    """

    def __init__(self, config: Config) -> None:
        found = load_design_space(config.space)
        self.space = found.space
        network = load_network(config.network, bits=found.bits, partial_bits=found.partial_bits)
        self._bounds = DesignBounds(found, network)

    def values(self, point: dict[str, Any]) -> Floats | None:
        """`METRICS` of a design; None where nothing fits: ``3``."""
        found = self._bounds.lower_bounds(self.space.to_indices([point]), METRICS)[0]
        return found if np.isfinite(found).all() else None


def run(judge: Judge, name: str, seed: int, config: Config) -> dict[str, Any]:
    """One optimiser, one seed: metrics of every trial (None for designs that nothing fits), and CPU seconds of its proposals."""
    name, _, own = name.partition("@")
    trials = int(own) if own else config.trials
    objectives = METRICS if config.objective == "front" else (PRODUCT,)
    optimizer = codesign.optim.create(name, judge.space, objectives, seed=seed)
    values: list[list[float] | None] = []
    proposing: list[float] = []
    started = time.process_time()
    judging = 0.0
    while len(values) < trials and not 0.0 < config.cpu_limit_s < time.process_time() - started:
        asked = time.process_time()
        (point,) = optimizer.ask(1)
        proposing.append(round(time.process_time() - asked, 5))
        asked = time.process_time()
        found = judge.values(point)
        judging += time.process_time() - asked
        values.append(None if found is None else found.tolist())
        told = (
            None
            if found is None
            else dict(zip((*METRICS, PRODUCT), [*found.tolist(), float(found.prod())], strict=True))
        )
        optimizer.tell(point, told, feasible=found is not None)
    return {"values": values, "proposing_cpu_s": proposing, "evaluation_cpu_s": judging / len(values)}


def study(config: Config, out: Path) -> None:
    """All runs that are not in the folder yet."""
    judge = Judge(config)
    out.mkdir(parents=True, exist_ok=True)
    for seed in range(config.seed, config.seed + config.seeds):
        for name in config.optimizers:
            path = out / f"{config.space}-{config.network}-{config.objective}-{name.replace(':', '_')}-{seed}.json"
            if path.exists():
                continue
            done = {"optimizer": name, "seed": seed, **run(judge, name, seed, config)}
            write_json(path, done)
            print(f"{path.stem}: {len(done['values'])} trials, {sum(done['proposing_cpu_s']):.1f} CPU s", flush=True)


# ---- what came of it ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Curve:
    """One run.

    Args:
        optimizer: Its name.
        trials: At which the figure was computed.
        share: The figure there.
        proposing: CPU seconds of proposals until there.
    """

    optimizer: str
    trials: NDArray[np.int64]
    share: Floats
    proposing: Floats

    def at(self, trials: int) -> float:
        """The figure after some trials; NaN where the run was shorter."""
        if trials > self.trials[-1]:
            return float("nan")
        return float(self.share[np.searchsorted(self.trials, trials, side="right") - 1])

    def after(self, seconds: float, evaluation_s: float) -> float:
        """The figure after some time; NaN where the run was shorter, as far as that can matter."""
        spent = self.proposing + self.trials * evaluation_s
        if seconds > spent[-1]:
            return float("nan")
        position = int(np.searchsorted(spent, seconds, side="right")) - 1
        return float(self.share[position]) if position >= 0 else 0.0


def curves(config: Config, out: Path) -> list[Curve]:
    """The curves of all runs in a folder, in one frame."""
    files = sorted(out.glob(f"{config.space}-{config.network}-{config.objective}-*.json"))
    if not files:
        raise UserError(f"no runs of {config.space}, {config.network}, {config.objective} in {out}")
    runs = [json.loads(file.read_text()) for file in files]
    values = [np.array([v or [np.inf] * len(METRICS) for v in r["values"]]) for r in runs]
    found = []
    everything = np.concatenate(values)
    everything = everything[np.isfinite(everything).all(axis=1)]
    best = front(everything)
    frame = Frame.of_front(best)
    whole, least = frame.hypervolume(best), float(everything.prod(axis=1).min())
    for given, seen in zip(runs, values, strict=True):
        marks = np.unique(
            np.concatenate([np.geomspace(1, len(seen), LOOKED_AT), [m for m in MARKS if m <= len(seen)]]).astype(
                np.int64
            )
        )
        if config.objective == "front":
            share = _volumes(frame, seen, marks) / whole
        else:
            share = np.minimum.accumulate(seen.prod(axis=1))[marks - 1] / least
        found.append(Curve(given["optimizer"], marks, share, np.cumsum(given["proposing_cpu_s"])[marks - 1]))
    return found


def _volumes(frame: Frame, values: Floats, marks: NDArray[np.int64]) -> Floats:
    kept, last, result = values[:0], 0, []
    for mark in marks:
        fresh = values[last:mark]
        kept, last = front(np.concatenate([kept, fresh[np.isfinite(fresh).all(axis=1)]])), mark
        result.append(frame.hypervolume(kept))
    return np.array(result)


def report(config: Config, out: Path, evaluation_s: tuple[float, ...]) -> list[str]:
    """Lines of the tables: medians over seeds at equal trials, and at the time that the slowest optimiser's run took."""
    found = curves(config, out)
    names = list(dict.fromkeys(c.optimizer for c in found))
    lines = []
    for name in names:
        mine = [c for c in found if c.optimizer == name]
        shown = " ".join(f"{m}:{np.median([c.at(m) for c in mine]):.3f}" for m in MARKS)
        spent = float(np.mean([c.proposing[-1] for c in mine]))
        lines.append(
            f"{name:16s} {shown}  {len(mine)} seeds, {spent:.1f} CPU s of proposals for {mine[0].trials[-1]} trials"
        )
    for seconds in evaluation_s:
        slowest = max(
            float(
                np.median(
                    [c.proposing[-1] + c.trials[-1] * seconds for c in found if c.optimizer == n and "@" not in n]
                )
            )
            for n in names
            if "@" not in n
        )
        for part in (0.1, 0.3, 1.0):
            budget = slowest * part * 0.999
            shown = " ".join(
                f"{n} {np.median([c.after(budget, seconds) for c in found if c.optimizer == n]):.3f}" for n in names
            )
            lines.append(f"evaluation of {seconds:g} s, after {budget:.0f} s: {shown}")
    return lines


def draw(config: Config, out: Path, path: Path) -> None:
    """The median curves over trials, as SVG."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    pyplot.rcParams["svg.hashsalt"] = "codesign"
    found = curves(config, out)
    figure, axis = pyplot.subplots(figsize=(6, 3.8), constrained_layout=True)
    for name in dict.fromkeys(c.optimizer for c in found if "@" not in c.optimizer):
        mine = [c for c in found if c.optimizer == name]
        marks = mine[0].trials
        table = np.array([[c.at(int(m)) for m in marks] for c in mine])
        axis.plot(marks, np.nanmedian(table, axis=0), label=name)
        axis.fill_between(marks, np.nanmin(table, axis=0), np.nanmax(table, axis=0), alpha=0.15)
    axis.set_xscale("log")
    if config.objective == PRODUCT:
        axis.set_yscale("log")
    axis.set_xlabel("designs evaluated")
    axis.set_ylabel("share of hypervolume" if config.objective == "front" else "energy x latency x area over the best")
    axis.legend(frameon=False)
    axis.grid(visible=True, alpha=0.25)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


def main(arguments: list[str]) -> None:
    """Run what is missing, or report."""
    parser = head_parser(__doc__, out=Path("runs/budgets"), smoke="12 designs of two optimisers")
    default = Config()
    for name in ("space", "network", "objective"):
        parser.add_argument(f"--{name}", default=getattr(default, name))
    parser.add_argument("--optimizers", nargs="+", default=default.optimizers)
    for name in ("trials", "seeds", "seed"):
        parser.add_argument(f"--{name}", type=int, default=getattr(default, name))
    parser.add_argument("--cpu-limit", type=float, default=0.0, help="CPU seconds of one run")
    parser.add_argument("--evaluation-s", type=float, nargs="+", default=(0.01, 1.0), help="assumed, for equal time")
    parser.add_argument("--report", action="store_true", help="run nothing; print the tables of what is in --out")
    parser.add_argument("--figure", type=Path, help="draw the curves of what is in --out")
    options = parser.parse_args(arguments)
    if options.smoke:
        options.optimizers, options.trials, options.seeds = ("random", "mobo:black"), 12, 1
    config = Config(
        options.space, options.network, options.objective, tuple(options.optimizers), options.trials, options.seeds, options.seed, options.cpu_limit
    )  # fmt: skip
    if not options.report:
        study(config, options.out)
    for line in report(config, options.out, tuple(options.evaluation_s)):
        print(line)
    if options.figure is not None:
        draw(config, options.out, options.figure)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(f"budgets: {error}")
