"""Two fidelities behind the ask/tell interface: low-fidelity evaluations are made inside `ask`, callers see high-fidelity ones alone.

So a study's trials are high-fidelity evaluations, as many as were wanted; the low-fidelity ones are a second study beside it.
"""

import time
from collections.abc import Callable, Mapping
from typing import final

from codesign.core.point import Point, PointValue
from codesign.evaluation.design import Evaluation
from codesign.evaluation.faults import Fault
from codesign.optim.fidelity import MINIMUM_LOW, Proposal, TwoFidelityOptimizer
from codesign.optim.protocols import Problem
from codesign.study.explore import recorded_trial
from codesign.study.study import Study, Trial


@final
class LowFidelityFirst:
    """Bayesian optimisation that evaluates designs in low fidelity, here and at once, where that pays.

    Args:
        problem: What is searched; its metrics are the high-fidelity ones.
        evaluate: The low-fidelity evaluation.
        low_cost: Price of a low-fidelity evaluation as a share of a high-fidelity one's.
        record: Study that keeps the low-fidelity evaluations; those it has are known from the start.
    """

    def __init__(
        self,
        problem: Problem,
        evaluate: Callable[[Point], Evaluation | Fault],
        low_cost: float,
        record: Study,
    ) -> None:
        self._inner = TwoFidelityOptimizer(problem, low_cost=low_cost, high_cost=1.0)
        self._evaluate = evaluate
        self._most = max(MINIMUM_LOW, int(1 / low_cost))
        self._record = record
        self._started = time.perf_counter()
        self._before = max((t.elapsed_s for t in record.trials), default=0.0)
        for trial in sorted(record.trials, key=lambda t: t.number):
            self._learn(trial)
        self._finish_left_over()

    def ask(self, n: int = 1) -> list[Point]:
        """The next designs for the high-fidelity evaluation; see `Optimizer.ask`."""
        for trial in self._record.sync():
            self._learn(trial)
        points: list[Point] = []
        spent = 0
        while len(points) < n:
            proposal = self._inner.propose(low=spent < self._most * n)
            if proposal is None:
                break
            if proposal.high:
                points.append(proposal.point)
            else:
                self._evaluate_low(proposal.point)
                spent += 1
        return points

    def tell(
        self, point: Mapping[str, PointValue], values: Mapping[str, float] | None = None, feasible: bool = True
    ) -> None:
        """What a high-fidelity evaluation gave; see `Optimizer.tell`."""
        self._inner.tell(Proposal(dict(point), high=True), values, feasible)

    def expect(self, point: Mapping[str, PointValue]) -> None:
        """See `Optimizer.expect`."""
        self._inner.expect(point)

    def forget(self, point: Mapping[str, PointValue]) -> None:
        """See `Optimizer.forget`."""
        self._inner.forget(point)

    def _finish_left_over(self) -> None:
        """Evaluate what a process that died had begun."""
        while (claim := self._record.take_over()) is not None:
            self._learn(self._finish(claim.number, claim.point))

    def _evaluate_low(self, point: Point) -> None:
        number = self._record.claim(point)
        if number is None:  # another process came in between
            for trial in self._record.sync():
                self._learn(trial)
            number = self._record.claim(point)
        self._learn(self._finish(number, point))

    def _finish(self, number: int | None, point: Point) -> Trial:
        """Evaluate; without a number another process evaluates the same design at this moment and records it."""
        found = self._evaluate(point)
        elapsed = self._before + time.perf_counter() - self._started
        trial, _ = recorded_trial(-1 if number is None else number, point, found, elapsed)
        if number is not None:
            self._record.finish(trial, {})
        return trial

    def _learn(self, trial: Trial) -> None:
        feasible = trial.infeasible is None
        self._inner.tell(Proposal(trial.point, high=False), trial.metrics if feasible else None, feasible)
