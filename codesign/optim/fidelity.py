"""Low-fidelity evaluations before high-fidelity ones: two fidelities with a cost-aware choice between them.

A low-fidelity evaluation of a design (a bound, a mapper with a small budget) says something about what the high-fidelity one (an exact mapper)
would give. First the price of one high-fidelity evaluation is spent on a Bayesian optimisation of the low-fidelity metrics: a small study whose front
shows where the high-fidelity front is. Its best designs are evaluated in high fidelity, and everything the low-fidelity evaluations gave is earlier knowledge to
the models of the high-fidelity metrics, exactly like an earlier study: high = factor x low prediction + difference, factor and difference
learned (Kennedy and O'Hagan, Biometrika 87(1), 2000). Later a wanted design is evaluated in low fidelity first where that tells more per cost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from codesign.core.errors import UserError
from codesign.core.point import Point, PointValue
from codesign.optim import gp
from codesign.optim.mobo import Mobo
from codesign.optim.optimizer import Optimizer
from codesign.optim.protocols import Evaluated, Problem
from codesign.optim.registry import elites
from codesign.optim.surrogate import fit_surrogate

MINIMUM_LOW = 3
"""Low-fidelity evaluations before their model is believed."""

FIRST_SPENT = 1.0
"""What the low-fidelity study may cost before the first high-fidelity evaluation, in high-fidelity evaluations."""

MOST_FIRST = 60
"""Low-fidelity evaluations before the first high-fidelity one at most: a front of some tens of designs is known by then."""

SHARE_SPENT = 0.1
"""What further low-fidelity evaluations may cost, per high-fidelity one."""


@final
@dataclass(frozen=True)
class Proposal:
    """A design and how to evaluate it.

    Args:
        point: The design.
        high: True for the high-fidelity evaluation, False for the low-fidelity one.
    """

    point: Point
    high: bool


@final
class TwoFidelityOptimizer:
    """Bayesian optimisation of the high-fidelity metrics that buys low-fidelity evaluations where they pay.

    The first low-fidelity evaluations are chosen by the low-fidelity metrics, and their elites are the first high-fidelity designs. From then on the next
    design is the one the high-fidelity model wants most. A low-fidelity evaluation of it removes the share r of the variance of the high-fidelity
    prediction that is the low-fidelity model's own uncertainty; it is bought first if r / low_cost exceeds 1 / high_cost,
    that is if it tells more per second, while low-fidelity evaluations have cost no more than a small share of the high-fidelity ones.
    Where fewer than three low-fidelity evaluations cost as much as a high-fidelity one, none is made.

    Args:
        problem: What is searched; its metrics are the high-fidelity ones.
        low_cost: Price of a low-fidelity evaluation, in any unit.
        high_cost: Price of a high-fidelity one, in the same unit.
    """

    def __init__(self, problem: Problem, *, low_cost: float, high_cost: float) -> None:
        if not 0 < low_cost < high_cost:
            raise UserError(f"fidelities: expected 0 < low cost < high cost, got {low_cost} and {high_cost}")
        self._ratio = low_cost / high_cost
        self._problem = problem
        self._low: dict[bytes, Evaluated] = {}
        self._pending: list[Point] = []
        self._high: list[tuple[Point, dict[str, float] | None, bool]] = []

    def ask(self) -> Proposal:
        """The next design, and which evaluation of it."""
        proposal = self.propose()
        if proposal is None:
            raise UserError("every design of the space was evaluated")
        return proposal

    def propose(self, *, low: bool = True) -> Proposal | None:
        """The next design, and which evaluation of it; None when the space is used up.

        Args:
            low: False where no more is to be spent on low-fidelity evaluations: the design is for the high-fidelity one.
        """
        if low and len(self._low) < self._first_low:
            points = self._low_optimizer().ask()
            if points:
                return Proposal(points[0], high=False)
        optimizer = self._optimizer()
        points = optimizer.ask()
        if not points:
            return None
        (point,) = points
        high = not low or self._key(point) in self._low or not self._low_pays(optimizer, point)
        if high:
            self._pending.append(point)
        return Proposal(point, high)

    def expect(self, point: Mapping[str, PointValue]) -> None:
        """Count a high-fidelity evaluation as pending that was not asked for here: somebody else makes it."""
        if dict(point) not in self._pending:
            self._pending.append(dict(point))

    def forget(self, point: Mapping[str, PointValue]) -> None:
        """Give up on a pending high-fidelity evaluation."""
        if dict(point) in self._pending:
            self._pending.remove(dict(point))

    def tell(self, proposal: Proposal, values: Mapping[str, float] | None, feasible: bool = True) -> None:
        """Record an evaluation; `values` as for `Optimizer.tell`."""
        if proposal.high:
            self._optimizer().tell(proposal.point, values, feasible)  # refuses bad values before anything is recorded
            self._high.append((proposal.point, None if values is None else dict(values), feasible))
            self.forget(proposal.point)
            return
        self._low_optimizer().tell(proposal.point, values, feasible)
        self._low[self._key(proposal.point)] = Evaluated(dict(proposal.point), dict(values or {}) if feasible else {})

    def front(self) -> list[Evaluated]:
        """The front of the designs evaluated in high fidelity."""
        return self._optimizer().front()

    def _key(self, point: Mapping[str, PointValue]) -> bytes:
        return bytes(self._problem.space.to_indices([point])[0].tobytes())

    @property
    def _first_low(self) -> int:
        """How many low-fidelity evaluations come before the first high-fidelity one."""
        count = min(MOST_FIRST, int(FIRST_SPENT / self._ratio))
        return count if count >= MINIMUM_LOW else 0

    def _low_trials(self) -> Sequence[Evaluated]:
        return tuple(trial for trial in self._low.values() if trial.values)

    def _low_optimizer(self) -> Optimizer:
        """The study of the low-fidelity metrics: an optimisation of its own."""
        optimizer = Optimizer(self._problem, Mobo(self._problem))
        for trial in self._low.values():
            optimizer.tell(trial.point, trial.values or None, bool(trial.values))
        return optimizer

    def _optimizer(self) -> Optimizer:
        """The study of the high-fidelity metrics, which knows the low-fidelity ones."""
        trials = self._low_trials()
        known = trials if len(trials) >= MINIMUM_LOW else self._problem.warm_start
        problem = replace(self._problem, warm_start=tuple(known))
        first = replace(problem, warm_start=tuple(trials[: self._first_low]))
        optimizer = Optimizer(problem, Mobo(problem), elites(first) if trials else elites(problem))
        for point, values, feasible in self._high:
            optimizer.tell(point, values, feasible)
        for pending in self._pending:
            optimizer.expect(pending)
        return optimizer

    def _low_pays(self, optimizer: Optimizer, point: Point) -> bool:
        """Whether the low-fidelity evaluation tells more about this design per cost than the high-fidelity one, within what may be spent."""
        history = optimizer.history()
        further = len(self._low) - self._first_low + 1
        if not self._first_low or further * self._ratio > SHARE_SPENT * len(history.indices):
            return False
        if len(self._low_trials()) < MINIMUM_LOW or not (np.isfinite(history.objectives).sum(axis=0) >= 2).all():
            return False
        earlier = Mobo(optimizer.problem).earlier
        surrogate = fit_surrogate(optimizer.problem, history, earlier, gp.Prior())
        features = self._problem.space.features(self._problem.space.to_indices([point]))
        explained = [model.explained(features)[0] for model in surrogate.objectives]
        return bool(max(explained) > self._ratio)
