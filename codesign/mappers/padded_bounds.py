"""Padding: bounds raised to sizes that divide better, the extra iterations counted as real work.

A bound of 7 splits into 7 or nothing; padded to 8 it splits into 2, 4 and 8, at the price of an eighth of the work. CoSA
(section III-B) pads large primes before scheduling (`smoothed`); `PaddingMapper` tries several paddings and returns the best
result, so that nothing is padded unless it pays.
"""

import math
from dataclasses import dataclass, replace
from itertools import product

from codesign.core.checks import check_least
from codesign.core.errors import UserError
from codesign.core.factors import divisors, prime_factors
from codesign.core.goals import Budget, Objective, Proof
from codesign.cost.arrays import Reuse
from codesign.mappers.protocol import Mapper, MapResult, PaddingReport
from codesign.mappers.wrapped import map_each
from codesign.mapping.constraints import MappingProblem
from codesign.workloads.computation import Computation

_NEAR = 1.08
"""How much larger the size with the most divisors may be."""

SMOOTH = 7
"""Padded bounds have no prime factor above this."""


@dataclass(frozen=True)
class PaddingMapper:
    """Maps the computation as it is and with padded bounds by another mapper; returns the best.

    The result is a mapping of the computation that its padding report names. Time and evaluations of the budget are shared
    evenly among the paddings still to be tried.

    Args:
        inner: The mapper.
        paddings: Computations tried at most, the given one among them; those with the least work.
        waste: Most work added, as a share of the multiply-accumulates.
    """

    inner: Mapper
    paddings: int = 24
    waste: float = 0.3

    def __post_init__(self) -> None:
        check_least(1, paddings=self.paddings)
        check_least(0, waste=self.waste)

    @property
    def name(self) -> str:
        """What the command line calls it."""
        return f"{self.inner.name}, padded"

    def map(
        self, problem: MappingProblem, objective: Objective, *, budget: Budget, seed: int, reuse: Reuse = Reuse.TIMELOOP
    ) -> MapResult:
        """See `codesign.mappers.protocol.Mapper`.

        Raises:
            UserError: The constraints fix factors that divide none of the bounds tried; the message is that of the given bounds.
        """
        candidates = padded_computations(problem.computation, self.paddings, self.waste)
        problems = [replace(problem, computation=computation) for computation in candidates]
        tried = map_each(self.inner, problems, objective, budget=budget, seed=seed, reuse=reuse)
        results = tried.results
        number, best = min(results, key=lambda pair: pair[1].value(objective))
        computation, given = candidates[number], problem.computation
        report = PaddingReport(
            changed=tuple((d, b, computation.sizes[d]) for d, b in given.sizes.items() if computation.sizes[d] != b),
            tried=len(results),
            waste=computation.macs / given.macs - 1.0,
            best_of_tried=len(results) == len(candidates) and all(r.proof is Proof.OPTIMAL for _, r in results),
        )
        return replace(
            best, evaluated=tried.evaluated, seconds=tried.seconds, proof=Proof.NONE, gap=None, padding=report
        )


def padded_computations(computation: Computation, most: int, waste: float) -> tuple[Computation, ...]:
    """The computation and padded ones, least work first.

    Args:
        most: How many at most, this one included.
        waste: Most work added, as a share of the multiply-accumulates.

    >>> layer = Computation.parse("O[p] += I[p+r] * W[r]", p=7, r=3)
    >>> [c.sizes for c in padded_computations(layer, 9, 0.2)]
    [{'p': 7, 'r': 3}, {'p': 8, 'r': 3}]
    """
    limit = 1.0 + waste
    found: list[tuple[int, ...]] = [()]
    base = 1
    for bound in computation.bounds:
        base *= bound
        found = [
            (*head, size)
            for head, size in product(found, _richer(bound, limit))
            if math.prod((*head, size)) <= base * limit
        ]
        found = sorted(found, key=math.prod)[: 50 * most]
    chosen = sorted(found, key=math.prod)[:most]
    return tuple(replace(computation, bounds=bounds) for bounds in chosen)


def _richer(bound: int, limit: float) -> tuple[int, ...]:
    """The bound, the next multiples of 4 and of 16, and the size near it with the most divisors."""
    if bound == 1:
        return (1,)  # no loop
    near = range(bound, int(bound * min(limit, _NEAR)) + 1)
    sizes = {bound, max(near, key=lambda size: (len(divisors(size)), -size))}
    sizes |= {size for of in (4, 16) if (size := -(-bound // of) * of) <= bound * limit}
    return tuple(sorted(sizes))


def smoothed(computation: Computation, above: int) -> tuple[Computation, tuple[tuple[str, int, int], ...]]:
    """The computation with every bound that has a prime factor larger than `above` raised to the next smooth number.

    Args:
        above: Largest prime that is left alone; 0 leaves all alone.

    Returns:
        The computation, and (dimension, bound, padded bound) of those that changed.

    Raises:
        UserError: `above` is neither 0 nor at least `SMOOTH`.

    >>> layer = Computation.parse("O[p] += I[p+r] * W[r]", p=79, r=3)
    >>> smoothed(layer, 16)[1]
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
