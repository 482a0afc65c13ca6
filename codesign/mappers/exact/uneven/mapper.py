"""The exact mapper with a place of its own for every tensor (docs/explanation/exact-mapper.md)."""

import math
from collections.abc import Callable

from codesign.core import clock
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.cost.arrays import Reuse
from codesign.cost.packed import make_kernel
from codesign.cost.sparse.bounds import is_rescaled
from codesign.mappers.exact.incumbent import Goal, Incumbent
from codesign.mappers.exact.mesh import has_mesh
from codesign.mappers.exact.problem.instance import Instance, make_instance
from codesign.mappers.exact.uneven.place_search import search_places
from codesign.mappers.protocol import MapResult
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.nest import encode_nest

Finish = Callable[[Instance, Incumbent, float, float, int], MapResult]
"""Makes the result of the instance, the incumbent, the bound on what was not searched, the start time and the seed."""

_EVEN_SHARE = 0.3
"""Of a time limit, what the even mapping that the search begins with may take."""


def map_uneven(
    even: Callable[[Budget], MapResult],
    finish: Finish,
    problem: MappingProblem,
    objective: Objective,
    *,
    effort: float,
    budget: Budget,
    seed: int,
    reuse: Reuse,
) -> MapResult:
    """The best uneven mapping with perfect factors.

    Args:
        even: The exact search of even mappings, whose best is where this one begins.
        effort: Labels of the sweeps at most.

    Raises:
        UserError: The problem has something that uneven search does not cover.
    """
    started = clock.wall_seconds()
    refuse_uncovered(problem, reuse)
    instance = make_instance(problem, reuse)
    _refuse_windows(instance)
    first = even(budget.part(_EVEN_SHARE, budget.evaluations))
    scored = math.inf if budget.evaluations is None else budget.evaluations
    kernel = make_kernel(instance.problem, _most_loops(instance))
    best = Incumbent(kernel, Goal(objective), budget.deadline(started), effort, scored)
    best.evaluated = first.evaluated
    if first.mapping is not None:
        nest = encode_nest(problem.computation, problem.architecture, first.mapping)
        best.evaluated -= 1  # it is scored again here
        best.offer(nest, len(nest.loops))
    unsearched = search_places(instance, best)
    return finish(instance, best, unsearched, started, seed)


def refuse_uncovered(problem: MappingProblem, reuse: Reuse) -> None:
    """Refuse what uneven search does not cover, by name.

    Raises:
        UserError: With the first such thing.
    """
    architecture, constraints = problem.architecture, problem.constraints
    problem.need_exact_factors()
    asked = {
        "imperfect factors": problem.imperfect,
        "a least utilisation": problem.least_units > 1,
        "hardware that knows zeros": is_rescaled(problem.computation, architecture),
        "links 'mesh'": has_mesh(architecture),
        "links 'peer'": any(level.fanout.links.value == "peer" for level in architecture.levels),
        f"reuse rule {reuse.name.lower()!r}": reuse is not Reuse.TIMELOOP,
        "fixed factors of temporal loops": any(item.temporal for item in constraints.levels),
        "fixed orders of loops": any(item.order for item in constraints.levels),
    }
    for what, given in asked.items():
        if given:
            raise UserError(f"uneven search does not cover {what}", hint="leave out --uneven")


def _refuse_windows(instance: Instance) -> None:
    sliding = [t for t, axes in enumerate(instance.sliding_axes) if axes]
    names = [instance.source.computation.tensors[t].name for t in sliding]
    if len(sliding) > 1:
        raise UserError(f"uneven search covers one tensor with sliding windows, got {', '.join(names)}")
    if any(instance.problem.entangled[t] for t in sliding):
        raise UserError(f"uneven search does not cover a dimension on two axes of a tensor ({names[0]!r})")


def _most_loops(instance: Instance) -> int:
    """Loops a nest may have: every prime factor of every bound may be one, and stand for one of each merged dimension."""
    return sum(int(bound).bit_length() for bound in instance.problem.bounds) + instance.most_loops
