"""An unrolling for a layer that comes without one (rule Z19)."""

import math

from codesign.core.goals import Budget, Objective
from codesign.cost.zigzag.accelerator import Accelerator
from codesign.cost.zigzag.layer import UnrolledLayer
from codesign.cost.zigzag.unrolling import fullest_unrollings
from codesign.mappers.loop_order.factors import merge_loops, prime_loops
from codesign.mappers.loop_order.zigzag_search import search_exhaustively
from codesign.workloads.computation import Computation

_CANDIDATES = 12
_LOOPS = 6
"""Loops of the short search that ranks the candidates."""


def choose_unrolling(computation: Computation, accelerator: Accelerator, objective: Objective) -> UnrolledLayer:
    """Of the unrollings that use the most units, the one with the best value over all orders of a few merged loops."""
    best, value = UnrolledLayer(computation, accelerator), math.inf
    for unrolling in fullest_unrollings(computation, accelerator, _CANDIDATES):
        layer = UnrolledLayer(computation, accelerator, unrolling)
        loops = merge_loops(prime_loops(layer), _LOOPS)
        result = search_exhaustively(layer, loops, objective, Budget(), even=False, whole_space=False)
        if result.cost is not None and objective.of(result.cost) < value:
            best, value = layer, objective.of(result.cost)
    return best
