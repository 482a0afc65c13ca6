"""The outer loop: ask the optimiser, evaluate on a pool of workers, record, tell; until enough trials are done.

Several processes may run this loop on one study. Each learns before every proposal what the others did and are doing, takes a trial
before it is evaluated, and takes up the trials of processes that died.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any, Protocol

from codesign.core.errors import UserError
from codesign.core.interruption import Interruption
from codesign.core.point import Point, PointValue
from codesign.evaluation.design import Evaluation
from codesign.evaluation.faults import Fault
from codesign.evaluation.parallel import Pool
from codesign.evaluation.records import DetailRecord
from codesign.study.storage import Claim
from codesign.study.study import BEAT_S, Study, Trial

OnTrial = Callable[[Trial], None]
OnWait = Callable[[Sequence[Claim]], None]

FAULTS = 3
"""Evaluations that may fail by a fault of the program, with none that succeeded, before the run gives up."""

_POLL_S = 0.5

_AHEAD_SHARE = 0.02
"""Where recording a trial and proposing the next takes more than this share of an evaluation, one is made ahead: no worker waits."""

_RECENT = 9
"""Trials whose times count for that."""


class AskTell(Protocol):
    """What the loop needs of an optimiser; see `Optimizer`."""

    def ask(self, n: int = 1) -> list[Point]:
        """Propose up to n designs that are worth evaluating next."""

    def tell(
        self, point: Mapping[str, PointValue], values: Mapping[str, float] | None = None, feasible: bool = True
    ) -> None:
        """Learn what a design gave: its metrics, or that it is infeasible."""

    def expect(self, point: Mapping[str, PointValue]) -> None:
        """A design that somebody else evaluates."""

    def forget(self, point: Mapping[str, PointValue]) -> None:
        """A pending design that is not evaluated after all."""


def replay(study: Study, optimizer: AskTell) -> None:
    """Tell an optimiser every trial a study already has."""
    for trial in study.trials:
        _tell(optimizer, trial)


def explore(
    study: Study,
    optimizer: AskTell,
    pool: Pool[Evaluation] | Pool[Evaluation | Fault],
    trials: int,
    on_trial: OnTrial | None = None,
    on_wait: OnWait | None = None,
    interruption: Interruption | None = None,
) -> bool:
    """Run trials until the study has `trials` of them.

    Proposals are made while workers are busy: whenever a design comes back, the next one is asked for with the
    others pending; where proposals take long, one is kept ready. With one worker the run is a function of the seed.

    Args:
        study: Where trials are recorded; those it has are told to the optimiser first.
        optimizer: Fresh, of the same problem.
        pool: Where designs are evaluated.
        trials: How many the study shall have in the end.
        on_trial: Called after each trial that this process recorded or learned of.
        on_wait: Called while only other processes still work.
        interruption: Looked at before each step; the run ends as after Ctrl-C.

    Returns:
        False when the space ran out of designs first.
    """
    replay(study, optimizer)
    loop = _Loop(study, optimizer, pool, trials, on_trial)
    try:
        with _beating(study):
            return loop.run(on_wait, interruption or Interruption())
    except KeyboardInterrupt:
        study.after_interruption()
        raise
    finally:
        try:
            loop.collect_finished()
        finally:
            study.release()


class _Loop:
    """The state of one process's work on a study."""

    def __init__(
        self, study: Study, optimizer: AskTell, pool: Pool[Any], trials: int, on_trial: OnTrial | None
    ) -> None:
        self._study = study
        self._optimizer = optimizer
        self._pool = pool
        self._wanted = trials
        self._on_trial = on_trial
        self._running: list[tuple[int, Point]] = []
        self._expected: list[Point] = []
        self._exhausted = False
        self._ask_s: list[float] = []
        self._evaluate_s: list[float] = []
        self._record_s: list[float] = []
        self._faults: list[str] = []
        self._started = time.perf_counter()
        self._before = max((t.elapsed_s for t in study.trials), default=0.0)

    def run(self, on_wait: OnWait | None, interruption: Interruption) -> bool:
        """Until the study is complete (True) or the space is used up (False)."""
        while True:
            interruption.check()
            self._learn()
            if len(self._study.trials) >= self._wanted:
                return True
            self._fill()
            if self._running:
                self._record_all(self._pool.collect())
            elif self._study.running_elsewhere:
                if on_wait is not None:
                    on_wait(self._study.running_elsewhere)
                time.sleep(_POLL_S)
            elif self._exhausted:
                return False

    def collect_finished(self) -> None:
        """Record what workers finished and nobody collected yet, as after Ctrl-C."""
        self._record_all([(p, e) for p, e in self._pool.ready() if not isinstance(e, Fault)])

    # ---- other processes -----------------------------------------------------------------------

    def _learn(self) -> None:
        """Tell the optimiser what other processes finished; count what they work on as pending."""
        for trial in self._study.sync():
            self._exhausted = False
            _tell(self._optimizer, trial)
            if self._on_trial is not None:
                self._on_trial(trial)
        for claim in self._study.running_elsewhere:
            self._optimizer.expect(claim.point)

    # ---- new work ------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Give the pool work: trials of dead processes first, then new designs."""
        while self._room() > 0:
            if len(self._study.trials) + len(self._running) >= self._wanted:
                return  # a study that was to be longer may have left more trials than are wanted now
            orphan = self._study.take_over()
            if orphan is not None:
                self._optimizer.expect(orphan.point)
                self._submit(orphan.number, orphan.point)
                continue
            left = self._wanted - len(self._study.trials) - len(self._running) - len(self._study.running_elsewhere)
            if left <= 0 or self._exhausted:
                return
            if not self._ask(min(self._room(), left)):
                self._learn()

    def _room(self) -> int:
        return self._pool.size + self._ahead() - len(self._running)

    def _ahead(self) -> int:
        if self._pool.size == 1 or not (self._ask_s and self._record_s and self._evaluate_s):
            return 0
        between_s = median(self._ask_s[-_RECENT:]) + median(self._record_s[-_RECENT:])
        return int(between_s > _AHEAD_SHARE * median(self._evaluate_s[-_RECENT:]))

    def _ask(self, count: int) -> bool:
        """Take new designs; False where another process came in between and things must be learned again."""
        started = time.perf_counter()
        points = self._optimizer.ask(count)
        self._exhausted = len(points) < count  # until something is told: what is pending may open or settle others
        for position, point in enumerate(points):
            number = self._study.claim(point, self._wanted)
            if number is None:
                for unused in points[position:]:
                    self._optimizer.forget(unused)
                self._exhausted = False
                return False
            self._submit(number, point)
        self._ask_s.append((time.perf_counter() - started) / max(1, len(points)))
        return True

    def _submit(self, number: int, point: Point) -> None:
        self._running.append((number, point))
        self._pool.submit(point)

    # ---- results -------------------------------------------------------------------------------

    def _record_all(self, results: Sequence[tuple[Point, Any]]) -> None:
        for point, found in results:
            self._exhausted = False
            position = next(k for k, (_, p) in enumerate(self._running) if p == point)
            number, _ = self._running.pop(position)
            self._record(number, point, found)

    def _record(self, number: int, point: Point, found: Evaluation | Fault) -> None:
        elapsed = self._before + time.perf_counter() - self._started
        if isinstance(found, Fault):
            self._count_fault(found)
        else:
            self._evaluate_s.append(found.seconds)
        trial, detail = recorded_trial(number, point, found, elapsed)
        started = time.perf_counter()
        recorded = self._study.finish(trial, detail)
        self._record_s.append(time.perf_counter() - started)
        if not recorded:
            return  # another process held this one for dead and does the trial; `sync` will bring it
        _tell(self._optimizer, trial)
        if self._on_trial is not None:
            self._on_trial(trial)

    def _count_fault(self, fault: Fault) -> None:
        if fault.mistake:
            raise UserError(fault.message)
        self._faults.append(fault.message)
        if len(self._faults) >= FAULTS and not self._evaluate_s:
            raise RuntimeError(f"the first {len(self._faults)} evaluations failed; the last one: {fault.message}")


@contextmanager
def _beating(study: Study) -> Iterator[None]:
    """Give signs of life from a thread of its own: evaluations may take long."""
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(BEAT_S):
            try:
                study.beat()
            except UserError:
                continue  # the main thread meets the same trouble and says so

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def recorded_trial(
    number: int, point: Point, found: Evaluation | Fault, elapsed_s: float
) -> tuple[Trial, DetailRecord]:
    """A trial and its detail as a study records them; a metric that is not finite makes it infeasible."""
    if isinstance(found, Fault):
        return Trial(number, point, {}, found.to_json(), found.seconds, elapsed_s), {}
    metrics = found.metrics.to_dict() if found.metrics is not None else {}
    infeasible = found.infeasible.to_json() if found.infeasible is not None else None
    broken = {name: value for name, value in metrics.items() if not math.isfinite(value)}
    if infeasible is None and broken:
        detail = "not finite: " + ", ".join(f"{name} = {value}" for name, value in broken.items())
        infeasible = {"status": "infeasible", "resource": "finite metrics", "detail": detail}
    trial = Trial(number, point, {} if broken else metrics, infeasible, found.seconds, elapsed_s)
    return trial, {**found.detail.to_json(), "architecture": found.architecture}


def _tell(optimizer: AskTell, trial: Trial) -> None:
    if trial.infeasible is not None:
        optimizer.tell(trial.point, feasible=False)
    else:
        optimizer.tell(trial.point, trial.metrics)
