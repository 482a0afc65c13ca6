"""What is minimised: bytes, or what a byte written and a byte read off chip cost in energy or time."""

from dataclasses import dataclass

from codesign.core.errors import UserError


@dataclass(frozen=True)
class TrafficWeights:
    """The price of a byte that leaves for spilling and of a byte that is retrieved.

    Whole numbers, so that solvers compare exactly; scale real prices up (femtojoules rather than picojoules).

    Args:
        write: Per byte written off chip, at least 0.
        read: Per byte read back, at least 0; not both 0.
        unit: What the sum is in.
    """

    write: int = 1
    read: int = 1
    unit: str = "bytes"

    def __post_init__(self) -> None:
        for name, weight in (("write", self.write), ("read", self.read)):
            if isinstance(weight, bool) or not isinstance(weight, int) or weight < 0:
                raise UserError(f"{name} weight must be a whole number >= 0, got {weight!r}")
        if self.write == self.read == 0:
            raise UserError("one of the write and read weights must be positive, got 0 and 0")


BYTES = TrafficWeights()
"""Equation 12 of the paper: a byte is a byte."""
