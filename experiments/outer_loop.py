"""How many trials an optimiser needs: hypervolume against trials on boxes whose exact front is known.

    python -m experiments.outer_loop --out runs/outer_loop --optimizers random nsga2:5 optuna:tpe mobo --trials 100 --seeds 5
    python -m experiments.outer_loop --boxes gemmcore convcore eyeriss --seeds 20 --workers 2
    python -m experiments.outer_loop --boxes gemmcore --optimizers mobo mobo:black      # with and without bounds
    python -m experiments.outer_loop --random 20 --seeds 3 --trials 40

The boxes gemmcore, convcore and eyeriss are real: the toolkit's own spaces, every design judged by proven optimal mappings
(`experiments.exhaustive`); lpa, lea, leacp and small are closed forms (`experiments.synthetic_box`); `--random N` runs the boxes
random:0 to random:N-1 (`experiments.random_box`) and sums them up by kind.

The figure is the share of the exact front's hypervolume, objectives log-scaled (unless some are negative), reference point at 1.05 of
the exact front's range; the share in raw (not log-scaled) objectives is kept beside it.
"""

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import codesign.optim
from codesign.core.checks import check_least
from codesign.core.errors import UserError, unknown_name
from codesign.core.files import write_json
from codesign.optim import Frame
from experiments.options import head_parser
from experiments.random_box import KINDS, random_box
from experiments.synthetic_box import boxes as synthetic_boxes
from experiments.table_box import table_boxes
from spaces import Space

Floats = NDArray[np.float64]

BOUNDED = ("mobo", "exact")
"""Optimisers that use bounds, which the real boxes have; `mobo:black` leaves them out."""

MARKS = (8, 20, 40, 60, 100)


class Box(Protocol):
    """A black box whose front is known."""

    @property
    def space(self) -> Space:
        """The designs."""

    @property
    def objectives(self) -> tuple[str, ...]:
        """The metrics to minimise."""

    @property
    def power_limit_w(self) -> float | None:
        """A bound on power, if any."""

    def evaluate(self, point: dict[str, Any]) -> tuple[dict[str, float], bool]:
        """The metrics of one design and whether it works."""

    def exact_front(self) -> Floats:
        """The front of the whole space, in objective units: ``k x m``."""


RANDOM = "random:"
"""Boxes drawn at random are named by this and their number."""


@cache
def boxes() -> dict[str, Box]:
    """All boxes by name, those drawn at random aside."""
    return {**synthetic_boxes(), **table_boxes()}


def box_of(name: str) -> Box:
    """The box of a name."""
    number = name.removeprefix(RANDOM)
    if name.startswith(RANDOM) and number.isdecimal():
        return random_box(int(number))
    if name not in boxes():
        raise unknown_name("box", name, [*boxes(), f"{RANDOM}0"])
    return boxes()[name]


@dataclass(frozen=True)
class Config:
    """What is run.

    Args:
        optimizers: Names as `codesign.optim.create` takes them.
        boxes: Names as `box_of` takes them.
        trials: Designs evaluated per run.
        seeds: Runs per optimiser and box, seeded from `seed` upwards.
        seed: The first seed.
        batch: Designs asked for at once.
        workers: Processes, each with runs of its own.
    """

    optimizers: tuple[str, ...] = ("random", "nsga2:5", "nsga2:10", "optuna:tpe", "mobo")
    boxes: tuple[str, ...] = ("lpa", "lea", "leacp", "small")
    trials: int = 100
    seeds: int = 5
    seed: int = 0
    batch: int = 1
    workers: int = 1

    def __post_init__(self) -> None:
        for name in self.boxes:
            box_of(name)
        check_least(1, trials=self.trials, seeds=self.seeds, batch=self.batch, workers=self.workers)


def drive(box_name: str, optimizer_name: str, seed: int, trials: int, batch: int) -> tuple[Floats, float]:
    """The objectives of every trial in order, infinite for designs that are not feasible, and CPU seconds: ``trials x m``."""
    start = time.process_time()
    box = box_of(box_name)
    limits = [] if box.power_limit_w is None else [f"power<={box.power_limit_w}"]
    head = optimizer_name.partition(":")[0]
    bounds = getattr(box, "bounds", None) if head in BOUNDED else None
    optimizer = codesign.optim.create(
        optimizer_name, box.space, box.objectives, seed=seed, constraints=limits, bounds=bounds
    )
    done = 0
    while done < trials:
        points = optimizer.ask(min(batch, trials - done))
        if not points:
            break  # an exact front is complete
        for point in points:
            values, works = box.evaluate(point)
            optimizer.tell(point, values, feasible=works)
            done += 1
    found = np.where(optimizer.feasible()[:, None], optimizer.history().objectives, np.inf)
    missing = np.full((trials - done, found.shape[1]), np.inf)
    return np.concatenate([found, missing]), time.process_time() - start


def curve(values: Floats, exact: Floats, *, log: bool) -> Floats:
    """The share of the exact front's hypervolume after each trial: ``trials``."""
    frame = Frame.of_front(exact, log=log and bool((exact > 0).all()))
    outside = np.array(frame.reference_point)
    finite = np.where(np.isfinite(values), values, outside + np.abs(outside))
    return frame.curve(finite) / frame.hypervolume(exact)


def study(box_name: str, exact: Floats, name: str, config: Config) -> dict[str, Any]:
    """All seeds of one optimiser on one box: quartiles of the curves and CPU seconds per run."""
    count = config.seeds
    seeds = range(config.seed, config.seed + count)
    given = ([box_name] * count, [name] * count, seeds, [config.trials] * count, [config.batch] * count)
    if config.workers == 1:
        done = list(map(drive, *given))
    else:
        with ProcessPoolExecutor(config.workers) as pool:
            done = list(pool.map(drive, *given))
    result: dict[str, Any] = {"optimizer": name, "cpu_s_per_run": float(np.mean([seconds for _, seconds in done]))}
    for scale in ("log", "raw"):
        curves = np.array([curve(values, exact, log=scale == "log") for values, _ in done])
        result[f"{scale}_mean"] = curves.mean(axis=0).round(4).tolist()
        for label, quantile in (("q25", 0.25), ("median", 0.5), ("q75", 0.75)):
            result[f"{scale}_{label}"] = np.quantile(curves, quantile, axis=0).round(4).tolist()
    return result


def main(arguments: list[str]) -> None:
    """Run the comparison, print its table and write `curves.json`."""
    parser = head_parser(__doc__, out=Path("runs/outer_loop"), smoke="a run of seconds, to see that everything works")
    default = Config()
    parser.add_argument("--optimizers", nargs="+", default=default.optimizers)
    parser.add_argument("--boxes", nargs="+", default=default.boxes)
    for field in ("trials", "seeds", "seed", "batch", "workers"):
        parser.add_argument(f"--{field}", type=int, default=getattr(default, field))
    parser.add_argument("--random", type=int, default=0, help="so many boxes drawn at random instead of --boxes")
    options = parser.parse_args(arguments)
    config = Config(
        tuple(options.optimizers),
        tuple(f"{RANDOM}{k}" for k in range(options.random)) or tuple(options.boxes),
        options.trials,
        options.seeds,
        options.seed,
        options.batch,
        options.workers,
    )
    if options.smoke:
        config = replace(config, optimizers=("random", "mobo"), boxes=("small",), trials=8, seeds=1)
    results = []
    for box_name in config.boxes:
        box = box_of(box_name)
        exact = box.exact_front()
        for name in config.optimizers:
            result = {"box": box_name, "designs": box.space.cardinality_bound, **study(box_name, exact, name, config)}
            results.append(result)
            shares = " ".join(f"{m}:{result['log_median'][m - 1]:.3f}" for m in MARKS if m <= config.trials)
            print(f"{box_name:9s} {name:14s} {shares}  {result['cpu_s_per_run']:.1f} CPU s", flush=True)
            packages = {p: version(p) for p in ("numpy", "scipy", "pymoo", "optuna", "moocore")}
            write_json(
                options.out / "curves.json", {"config": asdict(config), "versions": packages, "results": results}
            )
    for line in by_kind(results, config):
        print(line)


def by_kind(results: list[dict[str, Any]], config: Config) -> list[str]:
    """Means over the boxes drawn at random, by kind and over all, one line per optimiser and kind."""
    lines = []
    drawn = [r for r in results if r["box"].startswith(RANDOM)]
    for name in config.optimizers:
        for kind in (*KINDS, "all") if drawn else ():
            curves = [
                r["log_mean"]
                for r in drawn
                if r["optimizer"] == name and kind in ("all", KINDS[int(r["box"].removeprefix(RANDOM)) % len(KINDS)])
            ]
            if curves:
                mean = np.mean(np.array(curves), axis=0)
                shares = " ".join(f"{m}:{mean[m - 1]:.3f}" for m in (8, 12, *MARKS[1:]) if m <= config.trials)
                lines.append(f"{kind:9s} {name:14s} {shares}  mean of {len(curves)} boxes")
    return lines


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(f"outer_loop: {error}")
