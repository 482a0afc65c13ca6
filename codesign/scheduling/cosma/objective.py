"""What is minimised: bytes, or what a byte written and a byte read off chip cost in energy or time."""

from dataclasses import dataclass
from enum import Enum

from codesign.arch.architecture import Architecture
from codesign.core.checks import check_whole
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
        check_whole(0, write=self.write, read=self.read, where="weights of traffic")
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
    if quantity is Quantity.ENERGY:
        write, read = energy_per_byte_pj(architecture)
        return TrafficWeights(round(write * 1000), round(read * 1000), "fJ")
    write, read = cycles_per_byte(architecture)
    return TrafficWeights(round(write * 1e9), round(read * 1e9), "nanocycles")


def energy_per_byte_pj(architecture: Architecture) -> tuple[float, float]:
    """What a byte costs on its way out and on its way in, both memories included.

    Raises:
        UserError: There is no level inside DRAM, or an energy is not known.
    """
    if len(architecture.levels) < 2:
        raise UserError("an architecture needs a level inside DRAM to spill from", where=architecture.name)
    dram, scratchpad = architecture.levels[:2]
    if dram.energy is None or scratchpad.energy is None:
        raise UserError(
            "energy per access of the DRAM and of the level inside it must be known",
            where=f"architecture {architecture.name!r}",
            hint="name a technology in its file",
        )
    write, read = dram_energy_per_byte_pj(architecture)
    write += scratchpad.energy.read_pj * 8 / scratchpad.word_bits
    read += scratchpad.energy.fill_pj * 8 / scratchpad.word_bits
    return write, read


def dram_energy_per_byte_pj(architecture: Architecture) -> tuple[float, float]:
    """The DRAM's own part of `energy_per_byte_pj`, which must be known."""
    dram = architecture.levels[0]
    assert dram.energy is not None
    return dram.energy.update_pj * 8 / dram.word_bits, dram.energy.read_pj * 8 / dram.word_bits


def cycles_per_byte(architecture: Architecture) -> tuple[float, float]:
    """Cycles of the DRAM interface for a byte out and for a byte in.

    Raises:
        UserError: A bandwidth is not known.
    """
    dram = architecture.levels[0]
    read, write = dram.words_per_cycle
    if write is None or read is None:
        raise UserError(
            "the bandwidth of the DRAM must be known to weigh traffic by latency",
            where=f"architecture {architecture.name!r}",
        )
    return 8 / dram.word_bits / write, 8 / dram.word_bits / read
