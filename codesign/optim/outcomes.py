"""Bounds on metrics that are not objectives, such as ``power_w<=2``."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from codesign.core.errors import UserError

_PATTERN = re.compile(r"\s*([A-Za-z_][\w.]*(?::\w+)?)\s*(<=|>=|<|>)\s*([-+0-9.eE_]+)\s*")


@final
@dataclass(frozen=True)
class OutcomeConstraint:
    """`metric` must be at most (or at least) `bound`.

    >>> OutcomeConstraint.parse("power_w<=2").satisfied(np.array([1.5, 3.0])).tolist()
    [True, False]
    """

    metric: str
    bound: float
    upper: bool = True

    def __post_init__(self) -> None:
        if not math.isfinite(self.bound):
            raise UserError(f"constraint on {self.metric!r}: the bound must be finite, got {self.bound}")

    @classmethod
    def parse(cls, text: str) -> "OutcomeConstraint":
        """The constraint written as ``metric<=number`` or ``metric>=number``.

        Raises:
            UserError: The text has another form.
        """
        match = _PATTERN.fullmatch(text)
        try:
            if match is None:
                raise ValueError
            return cls(match[1], float(match[3]), match[2].startswith("<"))
        except UserError:
            raise
        except ValueError:
            raise UserError(f"constraint {text!r}: expected a form such as 'power_w<=2'") from None

    def satisfied(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which values obey the bound (NaN does not)."""
        return values <= self.bound if self.upper else values >= self.bound

    def kept_by(self, metrics: Mapping[str, float]) -> bool:
        """Whether the figures of one design obey the bound."""
        value = metrics[self.metric]
        return value <= self.bound if self.upper else value >= self.bound

    def __str__(self) -> str:
        short = f"{self.bound:g}"
        bound = short if float(short) == self.bound else repr(self.bound)
        return f"{self.metric}{'<=' if self.upper else '>='}{bound}"


def parse_constraints(constraints: Sequence[str | OutcomeConstraint]) -> tuple[OutcomeConstraint, ...]:
    """Constraints from texts or values, refusing bounds that contradict each other.

    Raises:
        UserError: A malformed text, or a metric whose lower bound is above its upper bound.
    """
    if isinstance(constraints, str):
        constraints = [constraints]
    parsed = tuple(c if isinstance(c, OutcomeConstraint) else OutcomeConstraint.parse(c) for c in constraints)
    for low in (c for c in parsed if not c.upper):
        for high in (c for c in parsed if c.upper and c.metric == low.metric):
            if low.bound > high.bound:
                raise UserError(f"constraints {low} and {high} contradict each other: no value satisfies both")
    return parsed
