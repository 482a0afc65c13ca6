"""Free keep sets: which of them to open, in which order."""

import math
from itertools import product

from codesign.mappers.exact.bases import BaseArrays
from codesign.mappers.exact.fixed import FixedKeep, KeepSets
from codesign.mappers.exact.incumbent import Incumbent
from codesign.mappers.exact.instance import Instance
from codesign.mappers.exact.search import search_fixed
from codesign.mapping.constraints import Keep


def keep_sets(instance: Instance) -> list[KeepSets]:
    """Every assignment of the free decisions."""
    choices = {Keep.YES: (True,), Keep.NO: (False,), Keep.FREE: (True, False)}
    cells = [choices[decision] for row in instance.decisions for decision in row]
    n = instance.n_tensors
    return [tuple(tuple(flat[v * n : (v + 1) * n]) for v in range(instance.n_levels)) for flat in product(*cells)]


def search_keep_sets(instance: Instance, bases: BaseArrays, best: Incumbent) -> float:
    """Search every keep set; returns a lower bound on what was not searched (infinite if nothing)."""
    unsearched = math.inf
    for keep in keep_sets(instance):
        unsearched = min(unsearched, search_fixed(FixedKeep(instance, keep, bases), best))
    return unsearched
