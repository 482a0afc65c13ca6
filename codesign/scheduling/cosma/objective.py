"""What is minimised: bytes, or what a byte written and a byte read off chip cost in energy or time."""

from dataclasses import dataclass
from enum import Enum

from codesign.arch.architecture import Architecture
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


class Quantity(Enum):
    """What the traffic is weighed by."""

    BYTES = "bytes"
    ENERGY = "energy"
    LATENCY = "latency"


def weights_on(architecture: Architecture, quantity: Quantity) -> TrafficWeights:
    """What a byte spilled and a byte retrieved cost on an architecture.

    Spilling reads the scratchpad (the first level inside DRAM) and writes DRAM; retrieving does the opposite.

    Args:
        architecture: Its outermost level is the DRAM.
        quantity: BYTES, ENERGY (femtojoules) or LATENCY (nanocycles of the DRAM interface, one direction at a time).

    Raises:
        UserError: The architecture lacks a scratchpad, an energy or a bandwidth that is needed.
    """
    if quantity is Quantity.BYTES:
        return BYTES
    if len(architecture.levels) < 2:
        raise UserError("an architecture needs a level inside DRAM to spill from", where=architecture.name)
    dram, scratchpad = architecture.levels[:2]
    if quantity is Quantity.ENERGY:
        if dram.energy is None or scratchpad.energy is None:
            raise UserError(
                "energy per access of the DRAM and of the level inside it must be known",
                where=f"architecture {architecture.name!r}",
                hint="name a technology in its file",
            )
        write = dram.energy.update_pj * 8 / dram.word_bits + scratchpad.energy.read_pj * 8 / scratchpad.word_bits
        read = dram.energy.read_pj * 8 / dram.word_bits + scratchpad.energy.fill_pj * 8 / scratchpad.word_bits
        return TrafficWeights(round(write * 1000), round(read * 1000), "fJ")
    bandwidths = (dram.write_bandwidth_words_per_cycle, dram.read_bandwidth_words_per_cycle)
    if None in bandwidths:
        raise UserError(
            "the bandwidth of the DRAM must be known to weigh traffic by latency",
            where=f"architecture {architecture.name!r}",
        )
    write_cycles, read_cycles = (8 / dram.word_bits / b for b in bandwidths if b is not None)
    return TrafficWeights(round(write_cycles * 1e9), round(read_cycles * 1e9), "nanocycles")
