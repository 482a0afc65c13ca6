"""The mapper's result for an order found on any architecture."""

from codesign.core import clock
from codesign.cost.cost import Infeasible
from codesign.mappers.loop_order.even_search import EvenSearch
from codesign.mappers.protocol import MapResult
from codesign.mapping.nest import IntArray, decode_nest


def even_result(search: EvenSearch, order: IntArray, evaluated: int, started: float, seed: int | None) -> MapResult:
    """The mapping and cost of a valid order, for the unrolling and bypass that `search` holds."""
    source = search.encoded.source
    cost, nest, count = search.cost_of(order)
    seconds = clock.wall_seconds() - started
    if isinstance(cost, Infeasible):
        return MapResult(None, None, cost, evaluated, seconds, seed=seed)
    mapping = decode_nest(source.computation, source.architecture, nest, count)
    return MapResult(mapping, cost, None, evaluated, seconds, seed=seed)
