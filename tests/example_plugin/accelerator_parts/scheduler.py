"""A scheduler that keeps the order of the file and evicts what is used last."""

from dataclasses import dataclass, replace
from typing import final

from codesign.core.goals import Budget, Objective
from codesign.scheduling.protocol import ScheduleProblem, ScheduleResult
from codesign.scheduling.registry import create


@final
@dataclass(frozen=True)
class AsListed:
    """Belady's rule on the order as listed."""

    name: str = "as-listed"

    def schedule(self, problem: ScheduleProblem, objective: Objective, *, budget: Budget, seed: int) -> ScheduleResult:
        """See `codesign.scheduling.protocol.Scheduler`."""
        found = create("belady").schedule(problem, objective, budget=budget, seed=seed)
        return replace(found, scheduler=self.name)
