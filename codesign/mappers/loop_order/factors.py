"""Loop prime factors: what an order is a permutation of (rule Z1)."""

import math
from collections import Counter
from collections.abc import Iterable

from codesign.core.checks import check_least
from codesign.core.factors import prime_factors
from codesign.cost.zigzag.cost import Loop
from codesign.cost.zigzag.layer import UnrolledLayer


def prime_loops(layer: UnrolledLayer) -> tuple[Loop, ...]:
    """The prime factors of the iterations that the unrolling leaves of every dimension, dimension by dimension."""
    return tuple((dim, prime) for dim, passes in layer.passes.items() for prime in prime_factors(passes))


def merge_loops(loops: Iterable[Loop], limit: int) -> tuple[Loop, ...]:
    """At most `limit` loops, by merging prime factors of one dimension (LOMA's `lpf_limit`, rule Z17).

    Again and again the two smallest factors of the dimension that has the most factors (on a tie the one listed first)
    become one; a dimension always keeps one loop.

    Raises:
        UserError: The limit is below 1.

    >>> merge_loops((("K", 2), ("K", 2), ("K", 3), ("C", 5)), 3)
    (('K', 3), ('K', 4), ('C', 5))
    """
    check_least(1, lpf_limit=limit)
    by_dim: dict[str, list[int]] = {}
    for dim, factor in loops:
        by_dim.setdefault(dim, []).append(factor)
    while sum(len(f) for f in by_dim.values()) > limit:
        dim = max(by_dim, key=lambda d: len(by_dim[d]))
        factors = sorted(by_dim[dim])
        if len(factors) == 1:
            break
        by_dim[dim] = sorted([factors[0] * factors[1], *factors[2:]])
    return tuple((dim, factor) for dim, factors in by_dim.items() for factor in factors)


def count_orders(loops: Iterable[Loop]) -> int:
    """Different orders of the loops: n! / prod(k_i!), equation 1 of the SALSA paper.

    >>> count_orders((("K", 2), ("K", 2), ("C", 3)))
    3
    """
    multiplicity = Counter(loops)
    return math.factorial(multiplicity.total()) // math.prod(math.factorial(k) for k in multiplicity.values())
