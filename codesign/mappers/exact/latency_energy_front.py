"""All best compromises between latency and energy of one operator, each proven."""

import math

from codesign.core import clock
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective, Proof
from codesign.cost.arrays import Reuse
from codesign.mappers.exact.even.best_first import search_even
from codesign.mappers.exact.incumbent import Goal
from codesign.mappers.exact.mapper import new_incumbent, to_result
from codesign.mappers.exact.mesh import has_mesh
from codesign.mappers.exact.problem.instance import make_instance
from codesign.mappers.protocol import MapResult
from codesign.mapping.constraints import MappingProblem


def pareto(problem: MappingProblem, *, budget: Budget, reuse: Reuse = Reuse.TIMELOOP) -> tuple[MapResult, ...]:
    """The latency-energy Pareto set, least energy first: no mapping is better in one figure and not worse in the other.

    The least energy under a latency limit is found again and again, each time with a limit one cycle below the last
    latency (the epsilon-constraint method), until no mapping is that quick.

    Args:
        budget: Its time limit is for all points together; `evaluations` is not used by exact search.

    Returns:
        Proven points. If time ran out, the last one says so in its `proof` and quicker ones may be missing. Without any
        mapping a single result that says why.
    """
    started = clock.wall_seconds()
    if has_mesh(problem.architecture):
        raise UserError(
            "the exact front does not search architectures with `links: mesh`",
            where=f"architecture {problem.architecture.name!r}",
            hint="map with each objective by the exact mapper, which says its gap, or take links multicast",
        )
    instance = make_instance(problem, reuse)
    points: list[MapResult] = []
    limit = math.inf
    while True:
        best = new_incumbent(instance, Goal(Objective.ENERGY, limit), started, Budget(budget.time_limit_s))
        unsearched = search_even(instance, best)
        if best.nest is not None or not points:
            points.append(to_result(instance, best, unsearched, started, 0))
        if best.nest is None or points[-1].proof is not Proof.OPTIMAL or best.late:
            return tuple(reversed(_quickest_last(points)))
        limit = best.cycles - 1.0


def _quickest_last(points: list[MapResult]) -> list[MapResult]:
    """Drop points that a quicker one equals in energy; quickest first."""
    kept: list[MapResult] = []
    for point in reversed(points):
        if not kept or point.value(Objective.ENERGY) < kept[-1].value(Objective.ENERGY) * (1.0 - 1e-12):
            kept.append(point)
    return kept
