"""Whether a problem can be given up before it is searched."""

from codesign.cost.packed import OVER_CAPACITY
from codesign.mappers.driver import Encoded, is_refused
from codesign.mapping.space import outermost_state


def smallest_tiles_exceed(encoded: Encoded) -> bool:
    """Whether even the smallest tiles, with every free bypass taken, are too large for a level, or fixed factors for the bounds.

    No mapping is valid then.

    All loops as far out as they may go make every tile as small as it can be. Where fixed spatial factors do not fit one
    axis of a fan-out this says nothing, since other layouts may fit.
    """
    state = outermost_state(encoded.space)
    for v, t in encoded.space.free:
        state.keep[v, t] = 0
    status, _, _ = encoded.score(state)
    return status % 4 == OVER_CAPACITY or (encoded.space.least_units <= 1 and is_refused(encoded.nest))
