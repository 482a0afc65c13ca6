"""How many trials an optimiser needs: hypervolume against trials on boxes whose exact front is known.

    python -m experiments.outer_loop --out runs/outer_loop --optimizers random nsga2:5 optuna:tpe mobo --trials 100 --seeds 5

The figure is the share of the exact front's hypervolume, objectives log-scaled, reference point at 1.05 of the exact front's range;
the share in raw (not log-scaled) objectives is kept beside it.
"""

import argparse
import sys
import time
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import codesign.optim
from codesign.core.errors import UserError, unknown_name
from codesign.core.files import write_json
from codesign.optim import Frame
from experiments.synthetic_box import Box, boxes

Floats = NDArray[np.float64]

MARKS = (8, 20, 40, 60, 100)


@dataclass(frozen=True)
class Config:
    """What is run.

    Args:
        optimizers: Names as `codesign.optim.create` takes them.
        boxes: Names of `experiments.synthetic_box.boxes`.
        trials: Designs evaluated per run.
        seeds: Runs per optimiser and box, seeded from `seed` upwards.
        seed: The first seed.
        batch: Designs asked for at once.
    """

    optimizers: tuple[str, ...] = ("random", "nsga2:5", "nsga2:10", "optuna:tpe", "mobo")
    boxes: tuple[str, ...] = ("lpa", "lea", "leacp", "small")
    trials: int = 100
    seeds: int = 5
    seed: int = 0
    batch: int = 1

    def __post_init__(self) -> None:
        for name in self.boxes:
            if name not in boxes():
                raise unknown_name("box", name, boxes())
        for field in ("trials", "seeds", "batch"):
            if getattr(self, field) < 1:
                raise UserError(f"`{field}` must be at least 1, got {getattr(self, field)}")


def drive(box: Box, optimizer_name: str, seed: int, trials: int, batch: int) -> Floats:
    """The objectives of every trial in order, infinite for designs that are not feasible: ``trials x m``."""
    limits = [] if box.power_limit_w is None else [f"power<={box.power_limit_w}"]
    optimizer = codesign.optim.create(optimizer_name, box.space, box.objectives, seed=seed, constraints=limits)
    done = 0
    while done < trials:
        for point in optimizer.ask(min(batch, trials - done)):
            values, works = box.evaluate(point)
            optimizer.tell(point, values, feasible=works)
            done += 1
    return np.where(optimizer.feasible()[:, None], optimizer.history().objectives, np.inf)


def curve(values: Floats, exact: Floats, *, log: bool) -> Floats:
    """The share of the exact front's hypervolume after each trial: ``trials``."""
    frame = Frame.of_front(exact, log=log)
    finite = np.where(np.isfinite(values), values, np.array(frame.nadir) * 1e6)
    return frame.curve(finite) / frame.hypervolume(exact)


def study(box: Box, exact: Floats, name: str, config: Config) -> dict[str, Any]:
    """All seeds of one optimiser on one box: quartiles of the curves and CPU seconds per run."""
    start = time.process_time()
    seeds = range(config.seed, config.seed + config.seeds)
    runs = [drive(box, name, seed, config.trials, config.batch) for seed in seeds]
    seconds = (time.process_time() - start) / config.seeds
    result: dict[str, Any] = {"optimizer": name, "cpu_s_per_run": seconds}
    for scale in ("log", "raw"):
        curves = np.array([curve(values, exact, log=scale == "log") for values in runs])
        for label, quantile in (("q25", 0.25), ("median", 0.5), ("q75", 0.75)):
            result[f"{scale}_{label}"] = np.quantile(curves, quantile, axis=0).round(4).tolist()
    return result


def main(arguments: list[str]) -> None:
    """Run the comparison, print its table and write `curves.json`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Config()
    parser.add_argument("--optimizers", nargs="+", default=default.optimizers)
    parser.add_argument("--boxes", nargs="+", default=default.boxes)
    for field in ("trials", "seeds", "seed", "batch"):
        parser.add_argument(f"--{field}", type=int, default=getattr(default, field))
    parser.add_argument("--out", type=Path, default=Path("runs/outer_loop"))
    parser.add_argument("--smoke", action="store_true", help="a run of seconds, to see that everything works")
    options = parser.parse_args(arguments)
    config = Config(
        tuple(options.optimizers), tuple(options.boxes), options.trials, options.seeds, options.seed, options.batch
    )
    if options.smoke:
        config = replace(config, optimizers=("random", "mobo"), boxes=("small",), trials=8, seeds=1)
    results = []
    for box_name in config.boxes:
        box = boxes()[box_name]
        exact = box.exact_front()
        for name in config.optimizers:
            result = {"box": box_name, "designs": box.space.cardinality_bound, **study(box, exact, name, config)}
            results.append(result)
            shares = " ".join(f"{m}:{result['log_median'][m - 1]:.3f}" for m in MARKS if m <= config.trials)
            print(f"{box_name:8s} {name:14s} {shares}  {result['cpu_s_per_run']:.1f} CPU s", flush=True)
            packages = {p: version(p) for p in ("numpy", "scipy", "pymoo", "optuna", "moocore")}
            write_json(
                options.out / "curves.json", {"config": asdict(config), "versions": packages, "results": results}
            )


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(f"outer_loop: {error}")
