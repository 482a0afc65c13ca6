"""One spatial profile under search."""

from dataclasses import dataclass

from codesign.mappers.exact.incumbent import whole_cycles
from codesign.mappers.exact.one_keep_set.fixed_keep_set import FixedKeep
from codesign.mappers.exact.problem.boundary_costs import Coefficients
from codesign.mapping.nest import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Profile:
    """One profile under search.

    Attributes:
        fixed: The problem.
        choice: Option of every fan-out.
        terms: Coefficients.
        compute: Compute cycles.
        excess: Cycles of every port beyond those of the fewest words (bound B2).
    """

    fixed: FixedKeep
    choice: IntArray
    terms: Coefficients
    compute: float
    excess: FloatArray

    def cycles_of(self, words: FloatArray) -> float:
        """Cycles all ports need when this many words cross the boundaries (not rounded up)."""
        ports = self.terms.constant_cycles + self.terms.demand @ words
        return max(self.compute, float(ports.max())) if len(ports) else self.compute

    def least_cycles(self, words: FloatArray) -> float:
        """Whole cycles below which no mapping with at least these words gets."""
        fewest = self.terms.constant_cycles + self.terms.demand @ self.terms.fewest + self.excess
        least = max(self.cycles_of(words), float(fewest.max(initial=0.0)))
        return whole_cycles(least)
