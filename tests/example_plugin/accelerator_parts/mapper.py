"""A mapper that draws mappings and keeps the best: the random one, with another name and its own option."""

from dataclasses import dataclass, replace
from typing import final

from codesign.core.goals import Budget, Objective
from codesign.cost.arrays import Reuse
from codesign.mappers.protocol import MapResult
from codesign.mappers.registry import create
from codesign.mapping.constraints import MappingProblem


@final
@dataclass(frozen=True)
class OutermostMapper:
    """Random mappings, at most `most` of them.

    Args:
        most: Mappings scored.
    """

    most: int = 200
    name: str = "outermost"

    def map(
        self, problem: MappingProblem, objective: Objective, *, budget: Budget, seed: int, reuse: Reuse = Reuse.TIMELOOP
    ) -> MapResult:
        """See `codesign.mappers.protocol.Mapper`."""
        evaluations = min(self.most, budget.evaluations or self.most)
        budget = replace(budget, evaluations=evaluations)
        return create("random").map(problem, objective, budget=budget, seed=seed, reuse=reuse)
