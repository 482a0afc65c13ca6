"""Cheap evaluations before dear ones: two fidelities with a cost-aware choice between them.

A cheap evaluation of a design (a bound, a mapper with a small budget) says something about what the dear one (an exact mapper)
would give. First the price of one dear evaluation is spent on a Bayesian optimisation of the cheap metrics: a small study whose front
shows where the dear front is. Its best designs are evaluated dearly, and everything the cheap evaluations gave is earlier knowledge to
the models of the dear metrics, exactly like an earlier study: dear = factor x cheap prediction + difference, factor and difference
learned (Kennedy and O'Hagan, Biometrika 87(1), 2000). Later a wanted design is evaluated cheaply first where that tells more per cost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from codesign.core.errors import UserError
from codesign.optim import gp
from codesign.optim.mobo import Mobo
from codesign.optim.optimizer import Optimizer
from codesign.optim.protocols import Evaluated, Problem
from codesign.optim.registry import elites
from codesign.optim.surrogate import fit_surrogate

MINIMUM_CHEAP = 3
"""Cheap evaluations before their model is believed."""

FIRST_SPENT = 1.0
"""What the cheap study may cost before the first dear evaluation, in dear evaluations."""

MOST_FIRST = 60
"""Cheap evaluations before the first dear one at most: a front of some tens of designs is known by then."""

SHARE_SPENT = 0.1
"""What further cheap evaluations may cost, per dear one."""


@final
@dataclass(frozen=True)
class Proposal:
    """A design and how to evaluate it.

    Args:
        point: The design.
        dear: True for the dear evaluation, False for the cheap one.
    """

    point: dict[str, Any]
    dear: bool


@final
class TwoFidelityOptimizer:
    """Bayesian optimisation of the dear metrics that buys cheap evaluations where they pay.

    The first cheap evaluations are chosen by the cheap metrics, and their elites are the first dear designs. From then on the next
    design is the one the dear model wants most. A cheap evaluation of it removes the share r of the variance of the dear
    prediction that is the cheap model's own uncertainty; it is bought first if r / cheap_cost exceeds 1 / dear_cost,
    that is if it tells more per second, while cheap evaluations have cost no more than a small share of the dear ones.
    Where fewer than three cheap evaluations cost as much as a dear one, none is made.

    Args:
        problem: What is searched; its metrics are the dear ones.
        cheap_cost: Price of a cheap evaluation, in any unit.
        dear_cost: Price of a dear one, in the same unit.
    """

    def __init__(self, problem: Problem, *, cheap_cost: float, dear_cost: float) -> None:
        if not 0 < cheap_cost < dear_cost:
            raise UserError(f"fidelities: expected 0 < cheap cost < dear cost, got {cheap_cost} and {dear_cost}")
        self._ratio = cheap_cost / dear_cost
        self._problem = problem
        self._cheap: dict[bytes, Evaluated] = {}
        self._pending: list[dict[str, Any]] = []
        self._dear: list[tuple[dict[str, Any], dict[str, float] | None, bool]] = []

    def ask(self) -> Proposal:
        """The next design, and which evaluation of it."""
        proposal = self.propose()
        if proposal is None:
            raise UserError("every design of the space was evaluated")
        return proposal

    def propose(self, *, cheap: bool = True) -> Proposal | None:
        """The next design, and which evaluation of it; None when the space is used up.

        Args:
            cheap: False where no more is to be spent on cheap evaluations: the design is for the dear one.
        """
        if cheap and len(self._cheap) < self._first_cheap:
            points = self._cheap_optimizer().ask()
            if points:
                return Proposal(points[0], dear=False)
        optimizer = self._optimizer()
        points = optimizer.ask()
        if not points:
            return None
        (point,) = points
        dear = not cheap or self._key(point) in self._cheap or not self._cheap_pays(optimizer, point)
        if dear:
            self._pending.append(point)
        return Proposal(point, dear)

    def expect(self, point: Mapping[str, object]) -> None:
        """Count a dear evaluation as pending that was not asked for here: somebody else makes it."""
        if dict(point) not in self._pending:
            self._pending.append(dict(point))

    def forget(self, point: Mapping[str, object]) -> None:
        """Give up on a pending dear evaluation."""
        if dict(point) in self._pending:
            self._pending.remove(dict(point))

    def tell(self, proposal: Proposal, values: Mapping[str, float] | None, feasible: bool = True) -> None:
        """Record an evaluation; `values` as for `Optimizer.tell`."""
        if proposal.dear:
            self._optimizer().tell(proposal.point, values, feasible)  # refuses bad values before anything is recorded
            self._dear.append((proposal.point, None if values is None else dict(values), feasible))
            self.forget(proposal.point)
            return
        self._cheap_optimizer().tell(proposal.point, values, feasible)
        self._cheap[self._key(proposal.point)] = Evaluated(dict(proposal.point), dict(values or {}) if feasible else {})

    def front(self) -> list[Evaluated]:
        """The front of the designs evaluated dearly."""
        return self._optimizer().front()

    def _key(self, point: Mapping[str, object]) -> bytes:
        return bytes(self._problem.space.to_indices([point])[0].tobytes())

    @property
    def _first_cheap(self) -> int:
        """How many cheap evaluations come before the first dear one."""
        count = min(MOST_FIRST, int(FIRST_SPENT / self._ratio))
        return count if count >= MINIMUM_CHEAP else 0

    def _cheap_trials(self) -> Sequence[Evaluated]:
        return tuple(trial for trial in self._cheap.values() if trial.values)

    def _cheap_optimizer(self) -> Optimizer:
        """The study of the cheap metrics: an optimisation of its own."""
        optimizer = Optimizer(self._problem, Mobo(self._problem))
        for trial in self._cheap.values():
            optimizer.tell(trial.point, trial.values or None, bool(trial.values))
        return optimizer

    def _optimizer(self) -> Optimizer:
        """The study of the dear metrics, which knows the cheap ones."""
        trials = self._cheap_trials()
        known = trials if len(trials) >= MINIMUM_CHEAP else self._problem.warm_start
        problem = replace(self._problem, warm_start=tuple(known))
        first = replace(problem, warm_start=tuple(trials[: self._first_cheap]))
        optimizer = Optimizer(problem, Mobo(problem), elites(first) if trials else elites(problem))
        for point, values, feasible in self._dear:
            optimizer.tell(point, values, feasible)
        for pending in self._pending:
            optimizer.expect(pending)
        return optimizer

    def _cheap_pays(self, optimizer: Optimizer, point: dict[str, Any]) -> bool:
        """Whether the cheap evaluation tells more about this design per cost than the dear one, within what may be spent."""
        history = optimizer.history()
        further = len(self._cheap) - self._first_cheap + 1
        if not self._first_cheap or further * self._ratio > SHARE_SPENT * len(history.indices):
            return False
        if len(self._cheap_trials()) < MINIMUM_CHEAP or not (np.isfinite(history.objectives).sum(axis=0) >= 2).all():
            return False
        earlier = Mobo(optimizer.problem).earlier
        surrogate = fit_surrogate(optimizer.problem, history, earlier, gp.Prior())
        features = self._problem.space.features(self._problem.space.to_indices([point]))
        explained = [model.explained(features)[0] for model in surrogate.objectives]
        return bool(max(explained) > self._ratio)
