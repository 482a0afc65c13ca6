"""What exact search has shown so far, in figures and in words."""

import math
from dataclasses import dataclass
from typing import final

from codesign.core.json_types import JsonObject


@final
@dataclass(frozen=True)
class Certificate:
    """The state of a proof.

    Args:
        designs: Of the space, known rules kept.
        evaluated: Of them.
        excluded: Designs shown to break a bound on a metric, or to fit nothing.
        open: Designs that are neither evaluated nor shown to be dominated within `epsilon`.
        epsilon: Asked for.
        epsilon_proven: Every design not evaluated is shown to be no more than this factor less one better than some evaluated one in
            any objective; infinite before the first, None without proof.
        hypervolume_inner: Of the evaluated front.
        hypervolume_outer: An upper limit for that of the true front, in the same frame; None without proof.
        withdrawn: Why there is no proof; empty while there is.
    """

    designs: int
    evaluated: int
    excluded: int
    open: int
    epsilon: float
    epsilon_proven: float | None
    hypervolume_inner: float
    hypervolume_outer: float | None
    withdrawn: str = ""

    @property
    def proven(self) -> bool:
        """Whether every design not evaluated is shown to be dominated within `epsilon`."""
        return not self.withdrawn and self.open == 0 and self.evaluated > 0

    @property
    def finite_gap(self) -> float | None:
        """The gap that is proven; None where nothing is, be it infinite or without proof."""
        gap = self.epsilon_proven
        return gap if gap is not None and math.isfinite(gap) else None

    def to_json(self) -> JsonObject:
        """Plain values; an infinite gap is null."""
        return {
            "designs": self.designs,
            "evaluated": self.evaluated,
            "proven": self.proven,
            "epsilon_proven": self.finite_gap,
            "hypervolume_inner": self.hypervolume_inner,
            "hypervolume_outer": self.hypervolume_outer,
            "excluded": self.excluded,
            "open": self.open,
            "withdrawn": self.withdrawn,
        }

    def sentence(self) -> str:
        """The certificate in words."""
        if self.withdrawn:
            return f"no proof: {self.withdrawn}"
        head = f"of {self.designs:,} designs {self.evaluated:,} were evaluated"
        if self.excluded:
            head += f" and {self.excluded:,} are shown to break a bound"
        if self.evaluated == 0:
            return f"{head}; nothing is proven yet"
        if self.proven:
            if self.epsilon == 0.0:
                return f"{head}; no other one is better in any objective without being worse in another: the front is exact"
            return f"{head}; the others are proven to be no more than {self.epsilon_proven:.2%} better in any objective"
        gap = self.epsilon_proven
        known = (
            "nothing is proven of the others"
            if gap is None or math.isinf(gap)
            else f"the others are proven to be no more than {gap:.2%} better in any objective"
        )
        return f"{head}; {known}; {self.open:,} stand between this and {self.epsilon:.2%}"
