"""Which search a problem is given: one keep set alone, all of a profile at once, or keep set by keep set."""

from itertools import product

from codesign.mappers.exact.all_keep_sets.best_first import JointSearch, can_search
from codesign.mappers.exact.free_keep_sets import FEW, Chain, FreeKeep, by_level
from codesign.mappers.exact.incumbent import Incumbent
from codesign.mappers.exact.one_keep_set.branch_and_bound import profile_search, search_fixed
from codesign.mappers.exact.one_keep_set.fixed_keep_set import FixedKeep
from codesign.mappers.exact.problem.charge_bases import BaseArrays
from codesign.mappers.exact.problem.instance import Instance
from codesign.mapping.constraints import Keep

_PROFILES_ALONE = 1
"""Profiles of a single keep set that are searched before the program over all tiles of single profiles takes over."""

_PROFILES_STARTED = 64
"""The same where a search begins with a mapping: mostly the best one, so that few profiles are opened."""


def keep_sets(instance: Instance) -> list[tuple[Chain, ...]]:
    """Every assignment of the free decisions, as one chain (kept per level) for each tensor."""
    choices = {Keep.YES: (True,), Keep.NO: (False,), Keep.FREE: (True, False)}
    per_tensor = [list(product(*[choices[row[t]] for row in instance.decisions])) for t in range(instance.n_tensors)]
    return list(product(*per_tensor))


def search_keep_sets(instance: Instance, bases: BaseArrays, best: Incumbent, threads: int = 1) -> float:
    """Search every keep set; returns a lower bound on what was not searched (infinite if nothing).

    Args:
        instance: The problem.
        bases: Its base arrays.
        best: The incumbent, improved in place.
        threads: Profiles to bound at a time where `JointSearch` covers the problem.
    """
    sets = keep_sets(instance)
    if len(sets) == 1:
        fixed = FixedKeep(instance, by_level(sets[0]), bases)
        if not can_search(instance, best.goal) or fixed.n_profiles == 0:
            return search_fixed(fixed, best)
        alone = _PROFILES_ALONE if best.nest is None else _PROFILES_STARTED
        search = profile_search(fixed, best)
        unsearched = search.run(alone)
        if best.late or not best.beaten_by(search.bound):
            return min(unsearched, search.bound) if best.beaten_by(search.bound) else unsearched
        free = FreeKeep(instance, sets, bases, best)
        if not free.coarse:
            return search.run()
        return min(unsearched, JointSearch(free, best, threads).run())
    free = FreeKeep(instance, sets, bases, best)
    if not free.coarse:
        return free.one_by_one()
    if len(sets) > FEW and can_search(instance, best.goal):
        return JointSearch(free, best, threads).run()
    return free.search()
