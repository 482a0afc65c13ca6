"""A design point: what an optimiser proposes and a space builds."""

from typing import TypeAlias

PointValue: TypeAlias = int | float | str
"""Of one parameter: a size, a share or a label."""

Point: TypeAlias = dict[str, PointValue]
"""A value for each parameter of a space, by name."""
