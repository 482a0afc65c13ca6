"""Every nest of a profile that may beat the incumbent, where the program is only a bound (C1, C2)."""

import math

import numpy as np

from codesign.mappers.driver import OBJECTIVE_CODE
from codesign.mappers.exact.even import depth_first_kernel as compiled
from codesign.mappers.exact.even.profile import EvenProfile, KeepSets
from codesign.mappers.exact.incumbent import TOLERANCE, Incumbent
from codesign.mappers.exact.problem.loop_rows import LoopRows
from codesign.mapping.nest import BYPASSED, Nest

MOST_STEPS = 10_000_000
"""Loops placed before the search of one profile gives up and leaves a gap."""

_STEPS_AT_ONCE = 10_000
"""Loops placed between two looks at the clock."""

_CELLS_A_STEP = 300
"""Cells of the program that take as long as one step."""


def chase(profile: EvenProfile, keep: KeepSets, quickest: float, best: Incumbent) -> bool:
    """Score every nest of the profile that may beat the incumbent; False if it gave up.

    Args:
        profile: The profile, whose table has just been filled for the keep set: with energy, for latency with the cycles of a port.
        quickest: Least cycles.
    """
    if quickest > best.goal.latency_limit:
        return True
    instance = profile.problem.instance
    n_levels, n_dims = instance.n_levels, instance.n_dims
    stack = compiled.make_stack(
        max(1, n_levels * instance.n_tensors), n_levels * (n_dims + 1) + 1, int(profile.start)
    )  # fmt: skip
    search, plan, top, steps = _search(profile, quickest, best), _plan(profile, keep), 1, 0
    shape = (n_levels, instance.n_tensors)
    nest = Nest(np.zeros((instance.most_loops, 4), np.int64), np.full(shape, BYPASSED, np.int64))
    while best.may_score:
        search = search._replace(limit=_limit(best, quickest))
        most = int(min(best.scored - best.evaluated, _STEPS_AT_ONCE))
        stack, top, count, done, scored, why = compiled.walk(
            stack, top, _STEPS_AT_ONCE, most, search, best.kernel, nest, plan
        )
        steps += done
        best.count(_CELLS_A_STEP * done)
        best.evaluated += scored
        if why == compiled.COMPLETE:
            best.evaluated -= 1  # it is scored again here
            best.offer(nest, count)
        if why == compiled.EXHAUSTED:
            return True
        if steps > MOST_STEPS or best.late:
            break
    return False


def _search(profile: EvenProfile, quickest: float, best: Incumbent) -> compiled.Search:
    """The table of a profile, and what is known."""
    filled, problem = profile.filled, profile.problem
    at_macs = 0.0 if OBJECTIVE_CODE[best.goal.objective] == 1 else profile.constant
    for t, p in enumerate(filled.program.starts[0, 1:]):
        at_macs += filled.prices.price[t, -1, p] * profile.fewest[t, -1] + filled.prices.once[t, -1, p]
    return compiled.Search(
        filled, np.array([t for t, _ in problem.axes], np.int64), problem.arrays.relevant, float(at_macs),
        OBJECTIVE_CODE[best.goal.objective], float(quickest), _limit(best, quickest), float(best.goal.latency_limit),
    )  # fmt: skip


def _limit(best: Incumbent, quickest: float) -> float:
    """The figure to be below; cycles that count beside the energy are taken as the least there can be."""
    beside = best.goal.cycle_pj * quickest
    return best.value * (1.0 - TOLERANCE) - beside if math.isfinite(best.value) else math.inf


def _plan(profile: EvenProfile, keep: KeepSets) -> compiled.Plan:
    """The spatial loops, and what they leave of the bounds."""
    instance, rows = profile.problem.instance, LoopRows(profile.problem.instance)
    for v, loops in enumerate(profile.levels):
        rows.fanout(v, loops.spatial)
    members, bounds = instance.member_table
    left = bounds.copy()
    used = dict.fromkeys(range(len(instance.problem.bounds)), 1)
    for i, factor, _, _ in rows.rows:
        used[i] *= factor
    for d, group in enumerate(instance.members):
        left[d, : len(group)] //= [used[i] for i in group]
    return compiled.Plan(np.array(keep, np.int64), np.array(rows.rows, np.int64).reshape(-1, 4), members, left)
