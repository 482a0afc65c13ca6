"""A mixed-integer program as a value, so that every solver is given the same one."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """``low <= sum(coefficient * variable) <= high``.

    Args:
        terms: Pairs (variable, coefficient).
        low: None is unbounded.
        high: None is unbounded.
    """

    terms: tuple[tuple[int, float], ...]
    low: float | None
    high: float | None


@dataclass(frozen=True)
class LinearProgram:
    """Minimise ``sum(cost * x)`` over non-negative variables.

    Args:
        upper: Largest value of each variable.
        integral: Whether it must be whole. The others may stand in rows with coefficients +1 and -1 only.
        cost: Objective coefficient of each variable.
        rows: The constraints.
    """

    upper: tuple[float, ...]
    integral: tuple[bool, ...]
    cost: tuple[float, ...]
    rows: tuple[Row, ...]

    def value(self, solution: tuple[float, ...]) -> float:
        """The objective at a solution."""
        return sum(c * x for c, x in zip(self.cost, solution, strict=True))
