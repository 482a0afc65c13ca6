"""Padding of bounds with large prime factors, which leave a scheduler nothing to choose (CoSA section III-B)."""

from codesign.core.errors import UserError
from codesign.core.factors import prime_factors
from codesign.workloads.computation import Computation

SMOOTH = 7
"""Padded bounds have no prime factor above this."""


def padded(computation: Computation, above: int) -> tuple[Computation, tuple[tuple[str, int, int], ...]]:
    """The computation with every bound that has a prime factor larger than `above` raised to the next smooth number.

    Args:
        above: Largest prime that is left alone; 0 leaves all alone.

    Returns:
        The computation, and (dimension, bound, padded bound) of those that changed.

    Raises:
        UserError: `above` is neither 0 nor at least `SMOOTH`.

    >>> layer = Computation.parse("O[p] += I[p+r] * W[r]", p=79, r=3)
    >>> padded(layer, 16)[1]
    (('p', 79, 80),)
    """
    if isinstance(above, bool) or not isinstance(above, int) or (above != 0 and above < SMOOTH):
        raise UserError(f"`pad_primes_above` must be 0 (never) or an integer >= {SMOOTH}, got {above!r}")
    if above == 0:
        return computation, ()
    changed = []
    for dim, bound in computation.sizes.items():
        if max(prime_factors(bound), default=1) > above:
            changed.append((dim, bound, _next_smooth(bound)))
    return computation.with_bounds(**{dim: new for dim, _, new in changed}), tuple(changed)


def _next_smooth(number: int) -> int:
    while max(prime_factors(number), default=1) > SMOOTH:
        number += 1
    return number
