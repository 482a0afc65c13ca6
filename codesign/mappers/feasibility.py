"""Whether a problem can be given up before it is searched."""

from codesign.cost.kernel import score
from codesign.cost.packed import OVER_CAPACITY
from codesign.mappers.driver import Encoded
from codesign.mapping.space import build_nest, factor_table, outermost_state


def smallest_tiles_exceed(encoded: Encoded) -> bool:
    """Whether even the smallest tiles, with every free bypass taken, are too large for a level: no mapping is valid then.

    All loops as far out as they may go make every tile as small as it can be. Where fixed spatial factors do not fit one
    axis this says nothing, since other layouts may fit.
    """
    state = outermost_state(encoded.space)
    for v, t in encoded.space.free:
        state.keep[v, t] = 0
    count = build_nest(encoded.space, state, factor_table(encoded.space), encoded.nest)
    status, _, _ = score(encoded.kernel, encoded.nest, count)
    return status % 4 == OVER_CAPACITY
