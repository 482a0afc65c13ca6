"""What is known of a finite space of designs: a design is a row of choice indices (``d`` integers)."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from codesign.core.point import Point

Indices = NDArray[np.int64]


class GridSpace(Protocol):
    """Names, choices and order of parameters, and the designs that rows stand for."""

    @property
    def names(self) -> tuple[str, ...]:
        """The parameter names, in column order."""

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """The number of choices of each parameter."""

    @property
    def ordered(self) -> tuple[bool, ...]:
        """Which parameters have an order."""

    def to_points(self, indices: Indices) -> list[Point]:
        """The designs that rows of indices stand for, each by parameter name."""

    def sample(self, count: int, rng: np.random.Generator) -> Indices:
        """Valid rows drawn at random, repeats possible: ``count x d``."""

    def canonical(self, indices: Indices) -> Indices:
        """Rows with index 0 where a parameter does not exist, so that rows that are equal are one design: ``n x d``."""
