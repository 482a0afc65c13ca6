"""The outer loop: ask the optimiser, evaluate on a pool of workers, record, tell; until enough trials are done."""

import math
import time
from collections.abc import Callable
from typing import Any

from codesign.evaluation.design import Evaluation
from codesign.evaluation.parallel import Pool
from codesign.optim.optimizer import Optimizer
from codesign.optim.study import Study, Trial

OnTrial = Callable[[Trial], None]


def replay(study: Study, optimizer: Optimizer) -> None:
    """Tell an optimiser every trial a study already has."""
    for trial in study.trials:
        _tell(optimizer, trial)


def explore(
    study: Study, optimizer: Optimizer, pool: Pool[Evaluation], trials: int, on_trial: OnTrial | None = None
) -> bool:
    """Run trials until the study has `trials` of them.

    Proposals are made while workers are busy: whenever a design comes back, the next one is asked for with the
    others pending. With one worker the run is a function of the seed.

    Args:
        study: Where trials are recorded; those it has are told to the optimiser first.
        optimizer: Fresh, of the same problem.
        pool: Where designs are evaluated.
        trials: How many the study shall have in the end.
        on_trial: Called after each trial is recorded.

    Returns:
        False when the space ran out of designs first.
    """
    replay(study, optimizer)
    started = time.perf_counter()
    before = study.trials[-1].elapsed_s if study.trials else 0.0
    running = 0
    exhausted = False
    while len(study.trials) < trials:
        room = min(pool.size - running, trials - len(study.trials) - running)
        if room > 0 and not exhausted:
            points = optimizer.ask(room)
            exhausted = len(points) < room
            for point in points:
                pool.submit(point)
            running += len(points)
        if running == 0:
            return False
        for point, evaluation in pool.collect():
            running -= 1
            elapsed = before + time.perf_counter() - started
            trial = _record(study, point, evaluation, elapsed)
            _tell(optimizer, trial)
            if on_trial is not None:
                on_trial(trial)
    return True


def _record(study: Study, point: dict[str, Any], evaluation: Evaluation, elapsed_s: float) -> Trial:
    metrics = evaluation.metrics.to_dict() if evaluation.metrics is not None else {}
    infeasible = evaluation.infeasible.to_json() if evaluation.infeasible is not None else None
    if infeasible is None and not all(math.isfinite(v) for v in metrics.values()):
        infeasible = {"status": "infeasible", "resource": "finite metrics", "detail": str(metrics)}
        metrics = {}
    trial = Trial(len(study.trials), point, metrics, infeasible, evaluation.seconds, elapsed_s)
    study.add(trial, {**evaluation.detail, "architecture": evaluation.architecture})
    return trial


def _tell(optimizer: Optimizer, trial: Trial) -> None:
    if trial.infeasible is not None:
        optimizer.tell(trial.point, feasible=False)
    else:
        optimizer.tell(trial.point, trial.metrics)
