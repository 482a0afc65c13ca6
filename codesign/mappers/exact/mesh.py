"""Exact search where links are a mesh: the same machine with buses is bounded, mappings are judged with the mesh.

Buses never cost more than a mesh: they count the same words, their links no energy and their bandwidth no cycles. So the
optimum with buses is a lower bound. The best of its mapping and of annealing with the mesh is an upper one.
"""

import math
from collections.abc import Callable
from dataclasses import replace

from codesign.arch.architecture import Architecture, Links
from codesign.core import clock
from codesign.core.goals import Budget, Objective, proof_of
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Cost, evaluate
from codesign.mappers.annealing import AnnealingMapper, helping_budget
from codesign.mappers.protocol import MapResult
from codesign.mapping.constraints import MappingProblem


def has_mesh(architecture: Architecture) -> bool:
    """Whether some fan-out is a mesh."""
    return any(level.fanout.mesh is not None for level in architecture.levels)


def with_buses(architecture: Architecture) -> Architecture:
    """The architecture with every mesh replaced by links that cost nothing and share what the mesh shares."""
    levels = []
    for level in architecture.levels:
        fanout = level.fanout
        if fanout.mesh is not None:
            links = Links.MULTICAST if fanout.shares else Links.NONE
            fanout = replace(fanout, links=links, mesh=None, hop_pj_per_bit=0.0)
        levels.append(replace(level, fanout=fanout))
    return replace(architecture, levels=tuple(levels))


def map_on_mesh(
    exact: Callable[[MappingProblem, Budget], MapResult],
    problem: MappingProblem,
    objective: Objective,
    *,
    budget: Budget,
    seed: int,
    reuse: Reuse,
) -> MapResult:
    """The best mapping known on a mesh, with the distance to what is proven.

    Args:
        exact: The exact search of a problem without a mesh.
        problem: With a mesh.

    Returns:
        Proof OPTIMAL where the mesh costs the best mapping nothing, else GAP.
    """
    started = clock.wall_seconds()
    bounded = exact(replace(problem, architecture=with_buses(problem.architecture)), budget)
    if bounded.mapping is None or bounded.cost is None:
        return bounded
    found = evaluate(problem.computation, problem.architecture, bounded.mapping, reuse=reuse)
    assert isinstance(found, Cost)
    best, bound, evaluated = replace(bounded, cost=found), bounded.bound(objective), bounded.evaluated
    if best.value(objective) > bound:
        mapper = AnnealingMapper()
        scored = math.inf if budget.evaluations is None else budget.evaluations - evaluated
        rest = helping_budget(mapper, scored, budget.deadline(started))
        if rest is not None:
            annealed = mapper.map(problem, objective, budget=rest, seed=seed, reuse=reuse)
            evaluated += annealed.evaluated
            best = min(best, annealed, key=lambda result: result.value(objective))
    proof, gap = proof_of(best.value(objective), bound)
    seconds = clock.wall_seconds() - started
    return replace(
        bounded, mapping=best.mapping, cost=best.cost, evaluated=evaluated, seconds=seconds, proof=proof, gap=gap
    )
