"""Prime factors and divisors of small numbers."""

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
