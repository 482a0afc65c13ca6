"""Energy, leakage and area of on-chip SRAM as functions of capacity, word width and banks.

Two kinds of model with one interface: `FittedSram`, smooth curves fitted to a CACTI sweep (formulas S1-S3 of
docs/reference/technology.md), and `SteppedSram`, constants per class of capacity, as published tables give them.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from codesign.core.checks import check_numbers
from codesign.core.errors import UserError

Number = TypeVar("Number", float, npt.NDArray[np.float64])


@dataclass(frozen=True)
class AreaFit:
    """Coefficients of formula S1: ``banks (cell b + edge b^1/2) + route w^2 banks^route_power``.

    ``b`` is the bits of one bank, ``w`` the word width. Cells grow with the bits, the strips of sense amplifiers and
    decoders with the sides, and the wires that carry the word over the memory with its width squared.
    """

    cell: float
    edge: float
    route: float
    route_power: float


@dataclass(frozen=True)
class AccessFit:
    """Coefficients of formula S2, energy of one access.

    ``narrow(b) + array w^array_width b^array_bits + wide w^wide_width
    + route w^route_width area^1/2 (1 - banks^-1/2)``.
    ``narrow`` is the harmonic sum of ``small b^small_power`` and ``large b^large_power``: what an access costs
    whatever its width. The last term is the way from the edge of the memory to a bank.
    """

    small: float
    small_power: float
    large: float
    large_power: float
    array: float
    array_width: float
    array_bits: float
    wide: float
    wide_width: float
    route: float
    route_width: float


@dataclass(frozen=True)
class LeakageFit:
    """Coefficients of formula S3: ``banks (cell b + edge b^edge_bits + route w^route_width (banks^route_power - 1))``."""

    cell: float
    edge: float
    edge_bits: float
    route: float
    route_width: float
    route_power: float


def fitted_area_mm2(fit: AreaFit, capacity_bytes: Number, word_bits: Number, banks: Number) -> Number:
    """Formula S1, the area of all banks."""
    bank_bits = 8 * capacity_bytes / banks
    cells = banks * (fit.cell * bank_bits + fit.edge * bank_bits**0.5)
    total: Number = cells + fit.route * word_bits**2 * banks**fit.route_power
    return total


def fitted_access_pj(
    fit: AccessFit, area_mm2: Number, capacity_bytes: Number, word_bits: Number, banks: Number
) -> Number:
    """Formula S2, the energy of one access of one word."""
    bank_bits = 8 * capacity_bytes / banks
    small = fit.small * bank_bits**fit.small_power
    large = fit.large * bank_bits**fit.large_power
    array = fit.array * word_bits**fit.array_width * bank_bits**fit.array_bits
    wide = fit.wide * word_bits**fit.wide_width
    route = fit.route * word_bits**fit.route_width * area_mm2**0.5 * (1 - banks**-0.5)
    total: Number = small * large / (small + large) + array + wide + route
    return total


def fitted_leakage_mw(fit: LeakageFit, capacity_bytes: Number, word_bits: Number, banks: Number) -> Number:
    """Formula S3, the static power of all banks."""
    bank_bits = 8 * capacity_bytes / banks
    edge = fit.edge * bank_bits**fit.edge_bits
    route = fit.route * word_bits**fit.route_width * (banks**fit.route_power - 1)
    total: Number = banks * (fit.cell * bank_bits + edge + route)
    return total


@dataclass(frozen=True)
class FittedSram:
    """SRAM as smooth curves, monotone in capacity and word width.

    Args:
        node_nm: Node of the sweep the curves were fitted to.
        source: Where the sweep comes from.
        area: Of S1, mm^2.
        read: Of S2, pJ.
        write: Of S2, pJ.
        leakage: Of S3, mW.
        energy_scale: To another node.
        area_scale: To another node.
        leakage_scale: To another node.
    """

    node_nm: float
    source: str
    area: AreaFit
    read: AccessFit
    write: AccessFit
    leakage: LeakageFit
    energy_scale: float = 1.0
    area_scale: float = 1.0
    leakage_scale: float = 1.0

    def __post_init__(self) -> None:
        # coefficients and powers >= 0 are what makes the curves positive and monotone
        for part in (self.area, self.read, self.write, self.leakage):
            check_numbers(part, "SRAM fit")

    def read_pj(self, capacity_bytes: float, word_bits: int, banks: int) -> float:
        """Energy to read one word (S2)."""
        return self._access_pj(self.read, capacity_bytes, word_bits, banks)

    def write_pj(self, capacity_bytes: float, word_bits: int, banks: int) -> float:
        """Energy to write one word (S2)."""
        return self._access_pj(self.write, capacity_bytes, word_bits, banks)

    def _access_pj(self, fit: AccessFit, capacity_bytes: float, word_bits: int, banks: int) -> float:
        size = (float(capacity_bytes), float(word_bits), float(banks))
        return self.energy_scale * fitted_access_pj(fit, fitted_area_mm2(self.area, *size), *size)

    def leakage_mw(self, capacity_bytes: float, word_bits: int, banks: int) -> float:
        """Static power (S3)."""
        return self.leakage_scale * fitted_leakage_mw(
            self.leakage, float(capacity_bytes), float(word_bits), float(banks)
        )

    def area_mm2(self, capacity_bytes: float, word_bits: int, banks: int) -> float:
        """Area (S1)."""
        return self.area_scale * fitted_area_mm2(self.area, float(capacity_bytes), float(word_bits), float(banks))


@dataclass(frozen=True)
class SramStep:
    """Constants of the memories up to some capacity.

    Args:
        up_to_bytes: Largest capacity of the class; None is any.
        read_pj_per_bit: Energy of one bit read.
        write_pj_per_bit: Energy of one bit written.
        area_um2_per_byte: Area.
        leakage_mw_per_byte: Static power.
    """

    up_to_bytes: float | None
    read_pj_per_bit: float
    write_pj_per_bit: float
    area_um2_per_byte: float
    leakage_mw_per_byte: float = 0.0

    def __post_init__(self) -> None:
        check_numbers(self, "SRAM step")


@dataclass(frozen=True)
class SteppedSram:
    """SRAM as constants per class of capacity; banks change nothing.

    Args:
        node_nm: Node of the constants.
        source: Where they come from.
        steps: Classes, smallest first; the last one has no largest capacity.
        energy_scale: To another node.
        area_scale: To another node.
        leakage_scale: To another node.
    """

    node_nm: float
    source: str
    steps: tuple[SramStep, ...]
    energy_scale: float = 1.0
    area_scale: float = 1.0
    leakage_scale: float = 1.0

    def __post_init__(self) -> None:
        if not self.steps or self.steps[-1].up_to_bytes is not None:
            raise UserError("the last SRAM step must be for any capacity", hint="leave out its `up_to_bytes`")
        limits = [step.up_to_bytes for step in self.steps[:-1]]
        if None in limits or any(a >= b for a, b in pairwise(limits)):  # type: ignore[operator]
            raise UserError(f"SRAM steps must have growing `up_to_bytes`, got {limits}")

    def _step(self, capacity_bytes: float) -> SramStep:
        return next(s for s in self.steps if s.up_to_bytes is None or capacity_bytes <= s.up_to_bytes)

    def read_pj(self, capacity_bytes: float, word_bits: int, banks: int) -> float:
        """Energy to read one word: its bits times the constant of the class."""
        return self.energy_scale * self._step(capacity_bytes).read_pj_per_bit * word_bits

    def write_pj(self, capacity_bytes: float, word_bits: int, banks: int) -> float:
        """Energy to write one word."""
        return self.energy_scale * self._step(capacity_bytes).write_pj_per_bit * word_bits

    def leakage_mw(self, capacity_bytes: float, word_bits: int, banks: int) -> float:
        """Static power."""
        return self.leakage_scale * self._step(capacity_bytes).leakage_mw_per_byte * capacity_bytes

    def area_mm2(self, capacity_bytes: float, word_bits: int, banks: int) -> float:
        """Area."""
        return self.area_scale * self._step(capacity_bytes).area_um2_per_byte * capacity_bytes * 1e-6


SramModel = FittedSram | SteppedSram
"""What a technology needs to know of SRAM. Figures are of one memory, all its banks together."""
