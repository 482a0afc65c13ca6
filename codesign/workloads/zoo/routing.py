"""Which experts of a mixture a batch of tokens reaches: as many as are expected, or as many as can be."""

from dataclasses import dataclass
from enum import Enum


class Routing(Enum):
    """EXPECTED: each token chooses its experts at random, independently. WORST: no two tokens share one while there are others."""

    EXPECTED = "expected"
    WORST = "worst"


@dataclass(frozen=True)
class ExpertLoad:
    """What the reached experts of one layer work on.

    Args:
        groups: (experts, rows of each): together every choice of every token, shared out as evenly as whole rows allow.
    """

    groups: tuple[tuple[int, int], ...]

    @property
    def distinct(self) -> int:
        """Experts whose weights are read."""
        return sum(count for count, _ in self.groups)


def expected_distinct(experts: int, chosen: int, tokens: int) -> float:
    """Mean number of experts that at least one of `tokens` tokens chooses, each `chosen` of them at random.

    One expert is left out by a token with probability ``1 - chosen / experts``.

    >>> expected_distinct(8, 2, 1), round(expected_distinct(8, 2, 8), 3)
    (2.0, 7.199)
    """
    return experts * (1 - (1 - chosen / experts) ** tokens)


def expert_load(experts: int, chosen: int, tokens: int, routing: Routing) -> ExpertLoad:
    """The load of a layer; the expected number of experts is rounded to a whole one, no fewer than one token chooses.

    >>> expert_load(8, 2, 8, Routing.EXPECTED).groups, expert_load(8, 2, 3, Routing.WORST).groups
    (((2, 3), (5, 2)), ((6, 1),))
    """
    choices = tokens * chosen
    if routing is Routing.WORST:
        distinct = min(experts, choices)
    else:
        distinct = min(max(round(expected_distinct(experts, chosen, tokens)), chosen), experts)
    each, more = divmod(choices, distinct)
    groups = ((more, each + 1), (distinct - more, each))
    return ExpertLoad(tuple((count, rows) for count, rows in groups if count and rows))
