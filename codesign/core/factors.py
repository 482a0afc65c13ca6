"""Prime factors, divisors and rounded quotients of small numbers."""

import math
from functools import lru_cache


def prime_factors(number: int) -> list[int]:
    """Prime factors in ascending order, with repetition.

    >>> prime_factors(360)
    [2, 2, 2, 3, 3, 5]
    """
    factors = []
    divisor = 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            factors.append(divisor)
            number //= divisor
        divisor += 1
    if number > 1:
        factors.append(number)
    return factors


@lru_cache(maxsize=1 << 14)
def divisors(number: int) -> tuple[int, ...]:
    """All divisors, ascending.

    >>> divisors(12)
    (1, 2, 3, 4, 6, 12)
    """
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return (*small, *(number // d for d in reversed(small) if d * d != number))


@lru_cache(maxsize=1 << 14)
def tile_counts(bound: int) -> tuple[int, ...]:
    """Every ceil(bound / tile), descending: at most 2 sqrt(bound). The least tile of which there are n is ceil(bound / n), another one.

    >>> tile_counts(7)
    (7, 4, 3, 2, 1)
    """
    many = {-(-bound // tile) for tile in range(1, math.isqrt(bound) + 2)}
    return tuple(sorted({*many, *(-(-bound // n) for n in many)}, reverse=True))
