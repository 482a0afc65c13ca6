"""Depth-first search of one profile, loop by loop, where the dynamic program is only a bound.

The tables bound every completion from below, so only nests whose bound beats the incumbent are walked, and
every one that is completed is scored by the kernel. Used where windows may slide on (chains), where reuse is only
bounded, and nowhere else. The walk itself is compiled (`codesign.mappers.exact.one_keep_set.depth_first_kernel`).
"""

import math

import numpy as np

from codesign.cost.arrays import Reuse
from codesign.mappers.driver import OBJECTIVE_CODE
from codesign.mappers.exact.incumbent import TOLERANCE, Incumbent
from codesign.mappers.exact.one_keep_set import depth_first_kernel as compiled
from codesign.mappers.exact.one_keep_set.fixed_keep_set import FixedKeep
from codesign.mappers.exact.one_keep_set.score_nest import EITHER, Plan
from codesign.mappers.exact.one_keep_set.spatial_profile import Profile
from codesign.mappers.exact.problem.tables import Charges

MOST_STEPS = 10_000_000
"""Loops placed before the search of one profile gives up and leaves a gap."""

_STEPS_AT_ONCE = 10_000
"""Loops placed between two looks at the clock."""

_CELLS_A_STEP = 300
"""Cells of the dynamic program that take as long as one step."""


def chase(profile: Profile, charges: Charges, constant: float, quickest: float, best: Incumbent) -> bool:
    """Score every nest of the profile that may beat the incumbent; False if it gave up.

    Args:
        profile: The profile, whose tables have just been filled for `charges`.
        charges: Prices in energy.
        constant: Energy beside the priced words.
        quickest: Least cycles of the profile.
        best: The incumbent, improved in place.
    """
    fixed = profile.fixed
    if quickest > best.goal.latency_limit:
        return True
    n_levels, n_dims = fixed.instance.n_levels, fixed.instance.n_dims
    stack = compiled.make_stack(n_dims, max(1, len(fixed.boundaries)), n_levels * (n_dims + 1) + 1)
    live, search = compiled.Live(stack.chains[0], stack.figures[0]), _search(profile, charges, constant, quickest, best)
    stack, top = compiled.push_vectors(stack, 0, search, fixed.states.start, 0, n_levels - 1, 0.0, 0, live, 0)
    plan, steps, nest = _plan(fixed), 0, fixed.instance.empty_nest()
    while True:
        search = search._replace(limit=_limit(best, quickest))
        most = int(min(best.scored - best.evaluated, _STEPS_AT_ONCE))
        stack, top, count, done, scored, why = compiled.walk(
            stack, top, _STEPS_AT_ONCE, most, search, best.kernel, nest, plan
        )
        steps += done
        best.count(_CELLS_A_STEP * done, programs=0)
        best.evaluated += scored
        if why == compiled.COMPLETE:
            best.evaluated -= 1  # it is scored again here
            best.offer(nest, count)
        if why == compiled.EXHAUSTED:
            return True
        if steps > MOST_STEPS or best.late:
            return False


def _search(profile: Profile, charges: Charges, constant: float, quickest: float, best: Incumbent) -> compiled.Search:
    """The tables of a profile, and what is known."""
    fixed, n = profile.fixed, len(charges.price)
    return compiled.Search(
        fixed.table[0], fixed.instance.lattice.grid, fixed.machine, charges, fixed.chains(), _rows(profile),
        fixed.states.outer, np.empty((n, 4), np.int64), np.empty((n, 4)), float(constant), OBJECTIVE_CODE[best.goal.objective],
        float(quickest), _limit(best, quickest), float(best.goal.latency_limit),
    )  # fmt: skip


def _limit(best: Incumbent, quickest: float) -> float:
    """The figure to be below; cycles that count beside the energy are taken as the least there can be."""
    beside = best.goal.cycle_pj * quickest
    return best.value * (1.0 - TOLERANCE) - beside if math.isfinite(best.value) else math.inf


def _rows(profile: Profile) -> compiled.Rows:
    """The sliding axes of the instance, and the spatial factors of the profile."""
    fixed = profile.fixed
    instance, axes = fixed.instance, fixed.bases.axis_rows()
    n_rows, n_dims = max(1, len(axes)), instance.n_dims
    tensor, coef = np.zeros(n_rows, np.int64), np.zeros((n_rows, n_dims), np.int64)
    on_axis, bounded = np.zeros_like(coef), np.zeros(n_rows, np.int64)
    for row, (t, axis) in enumerate(axes):
        place = int(np.flatnonzero(instance.coef[t][:, axis[0]])[0])
        tensor[row], bounded[row] = t, instance.bounded_only(t)
        on_axis[row, list(axis)] = 1
        coef[row, list(axis)] = instance.coef[t, place, list(axis)]
    spatial = fixed.options.factor[profile.choice].astype(np.int64)
    bounds = np.array(instance.lattice.bounds, np.int64)
    return compiled.Rows(
        tensor, coef, on_axis, bounded, spatial, bounds, int(instance.problem.reuse == Reuse.WALK.value)
    )


def _plan(fixed: FixedKeep) -> Plan:
    """How the loops of the instance are laid out."""
    instance = fixed.instance
    along_x = np.full((instance.n_levels, instance.n_dims), EITHER, np.int64)
    fan = np.ones((instance.n_levels, 2), np.int64)
    for v, rules in enumerate(instance.fanouts):
        fan[v] = rules.x, rules.y
        if rules.along_x is not None:
            along_x[v] = [int(d in rules.along_x) for d in range(instance.n_dims)]
    return Plan(np.asarray(fixed.keep, np.int64), fan, along_x, *instance.member_table)
