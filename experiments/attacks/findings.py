"""What an attack on one problem comes to."""

from dataclasses import dataclass, field
from typing import final

TIGHT = 1e-9
"""Relative; values that differ by less are equal."""


@final
@dataclass
class Findings:
    """Of one problem.

    Args:
        how: How it was attacked: enumerated, searched, or both.
        beaten: Something better than what was called optimal, or below a bound, in words.
        mismatches: Two evaluators that disagree, a feasible problem called infeasible, a damaged certificate believed, in words.
    """

    how: str = ""
    beaten: list[str] = field(default_factory=list)
    mismatches: list[str] = field(default_factory=list)

    def bounded_by(self, claim: str, bound: float, value: float, who: str) -> None:
        """Somebody found a value; the claim was that none is below a bound."""
        if value < bound * (1.0 - TIGHT):
            self.beaten.append(f"{claim}: {who} found {value!r}, below {bound!r}")

    def attained(self, claim: str, value: float, least: float) -> None:
        """A value called optimal is that of enumeration."""
        if value > least * (1.0 + TIGHT):
            self.beaten.append(f"{claim}: {value!r}, enumeration found {least!r}")
        elif value < least * (1.0 - TIGHT):
            self.mismatches.append(f"{claim}: {value!r} is below the least of all, {least!r}")
