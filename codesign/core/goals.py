"""What a search minimises, when it stops, and what it has proven: the same for mappers and schedulers."""

import math
import re
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Protocol, final

from codesign.core.errors import UserError, unknown_name


class Costs(Protocol):
    """Anything with a latency and an energy."""

    @property
    def energy_pj(self) -> float:
        """Dynamic energy in pJ."""

    @property
    def latency_cycles(self) -> float:
        """Latency in cycles."""


@final
@dataclass(frozen=True)
class Objective:
    """``energy ** n * latency ** m``, which is minimised.

    Args:
        energy_exponent: n.
        latency_exponent: m; not both are 0.

    >>> Objective.parse("edp") == Objective(1, 1) == Objective.EDP
    True
    >>> Objective.EDP.score(energy_pj=3.0, latency_cycles=5.0)
    15.0
    """

    energy_exponent: float = 1.0
    latency_exponent: float = 1.0

    ENERGY: ClassVar["Objective"]
    LATENCY: ClassVar["Objective"]
    EDP: ClassVar["Objective"]

    def __post_init__(self) -> None:
        if min(self.energy_exponent, self.latency_exponent) < 0 or self.energy_exponent == self.latency_exponent == 0:
            raise UserError(
                f"the exponents of an objective must be >= 0 and not both 0, got {self.energy_exponent:g} and {self.latency_exponent:g}"
            )

    @classmethod
    def parse(cls, name: str, *, exponents: bool = False) -> "Objective":
        """The objective of that name.

        Args:
            name: energy, latency or edp.
            exponents: Whether ed2p, e2dp and eNdM (``energy ** N * latency ** M``) are known too.

        Raises:
            UserError: There is none.
        """
        known = {**_NAMES, **_MORE_NAMES} if exponents else _NAMES
        if name in known:
            return known[name]
        found = re.fullmatch(r"e(\d+(?:\.\d+)?)d(\d+(?:\.\d+)?)", name) if exponents else None
        if found is None:
            raise unknown_name("objective", name, [*known, "eNdM"] if exponents else known)
        return cls(float(found[1]), float(found[2]))

    @property
    def value(self) -> str:
        """Its name, as files and the command line have it."""
        for name, known in {**_NAMES, **_MORE_NAMES}.items():
            if known == self:
                return name
        return f"e{self.energy_exponent:g}d{self.latency_exponent:g}"

    def score(self, energy_pj: float, latency_cycles: float) -> float:
        """Its value for an energy and a latency."""
        return float(energy_pj**self.energy_exponent * latency_cycles**self.latency_exponent)

    def of(self, cost: Costs) -> float:
        """Its value for a cost."""
        return self.score(cost.energy_pj, float(cost.latency_cycles))


Objective.ENERGY, Objective.LATENCY, Objective.EDP = Objective(1.0, 0.0), Objective(0.0, 1.0), Objective(1.0, 1.0)

OBJECTIVES = (Objective.ENERGY, Objective.LATENCY, Objective.EDP)
"""Those every mapper minimises."""

_NAMES = {"energy": Objective.ENERGY, "latency": Objective.LATENCY, "edp": Objective.EDP}
_MORE_NAMES = {"ed2p": Objective(1.0, 2.0), "e2dp": Objective(2.0, 1.0)}


class Proof(Enum):
    """What is known of a result: it is the optimum, it is within a gap of it, or nothing."""

    OPTIMAL = "optimal"
    GAP = "gap"
    NONE = "none"


def proof_of(value: float, bound: float, rounding: float = 0.0) -> tuple[Proof, float | None]:
    """What a bound proves of a value, and the gap between them; of an infinite value it proves nothing.

    Args:
        value: Of what was found.
        bound: Nothing is below it; 0 says nothing.
        rounding: Relative difference within which both are one.
    """
    if math.isfinite(value) and value <= bound * (1.0 + rounding):
        return Proof.OPTIMAL, 0.0
    return (Proof.GAP, (value - bound) / bound) if math.isfinite(value) and bound > 0.0 else (Proof.NONE, None)


@final
@dataclass(frozen=True)
class Budget:
    """When a search stops. At least one limit must be given to those that would go on for ever.

    Args:
        time_limit_s: Wall-clock seconds.
        evaluations: Mappings or schedules scored.
    """

    time_limit_s: float | None = None
    evaluations: int | None = None

    def __post_init__(self) -> None:
        if self.time_limit_s is not None and not self.time_limit_s > 0:
            raise UserError(f"the time limit must be > 0 seconds, got {self.time_limit_s}")
        if self.evaluations is not None and self.evaluations < 1:
            raise UserError(f"evaluations must be >= 1, got {self.evaluations}")

    def deadline(self, started: float) -> float:
        """On `clock.wall_seconds`, for a search that began then; infinite without a time limit."""
        return math.inf if self.time_limit_s is None else started + self.time_limit_s

    def scored_or(self, default: int) -> int | None:
        """Mappings to score at most; the default where no limit is set at all."""
        return default if self.evaluations is None and self.time_limit_s is None else self.evaluations

    def part(self, share: float, evaluations: int | None) -> "Budget":
        """A share of the time, and so many to score."""
        return Budget(None if self.time_limit_s is None else self.time_limit_s * share, evaluations)
