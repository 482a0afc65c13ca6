"""A process that works on a study of a toy space: ``python study_process.py STORAGE_OR_FOLDER TRIALS SECONDS [SEED]``."""

import sys
import time
from pathlib import Path
from typing import Any

import spaces
from codesign.cost.cost import Infeasible
from codesign.evaluation.design import Evaluation
from codesign.evaluation.detail import FusedDetail, NoDetail
from codesign.evaluation.metrics import Metrics
from codesign.evaluation.parallel import SerialPool
from codesign.optim import create
from codesign.study.config import StudyConfig
from codesign.study.explore import explore
from codesign.study.study import Study, Trial

SPACE = spaces.Space(
    [spaces.PowerOfTwo("pes", 1, 64), spaces.Integer("banks", 1, 8), spaces.Categorical("flow", ["ws", "os"])]
)


def config(seed: int = 0) -> StudyConfig:
    return StudyConfig(
        {"name": "toy", "space": SPACE.to_json()},
        {"names": ["toy"], "hashes": ["0"]},
        ("latency_s", "area_mm2"),
        ("power_w<=40",),
        "random",
        {"name": "anneal"},
        {},
        seed,
    )


def judge(point: dict[str, Any], seconds: float = 0.0) -> Evaluation:
    time.sleep(seconds)
    pes, banks = point["pes"], point["banks"]
    if pes >= 16 and banks == 1:
        return Evaluation(None, Infeasible("capacity of level 'X'", 3, 2, "bytes"), seconds, NoDetail(), {})
    latency = 1.0 / min(pes, 4 * banks)
    metrics = Metrics(latency, (pes + banks) * latency, pes + 0.5 * banks + (point["flow"] == "ws"), 0.0)
    return Evaluation(metrics, None, seconds, FusedDetail(({"note": f"{pes}x{banks}"},), None), {"name": "toy"})


def say(trial: Trial) -> None:
    sys.stdout.write(f"{trial.number}\n")
    sys.stdout.flush()


def work(place: str, trials: int, seconds: float, seed: int = 0) -> Study:
    url = place if "://" in place else None
    folder = Path(place) if url is None else Path("unused")
    study = Study.create_or_resume(folder, config(seed), {}, storage=url, name=None)
    before = list(study.trials)
    optimizer = create("random", SPACE, study.objectives, seed=seed, constraints=list(config().constraints))
    explore(study, optimizer, SerialPool(lambda point: judge(point, seconds)), trials, say)
    for trial in before:  # finished when this process opened the study: known, and told by nobody
        say(trial)
    study.close()
    return study


if __name__ == "__main__":
    work(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else 0)
