"""MACs built for operands of given widths, integers or floats (rules A4-A7 in docs/reference/technology.md)."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import final

from codesign.arch.architecture import Arithmetic
from codesign.arch.logic import ArithmeticPoint, ArithmeticTable, Registers, power_law
from codesign.arch.technology import Technology, element_ratio
from codesign.core.errors import UserError

GUARD_BITS = 8
"""Of an integer accumulator beyond the product: sums of 256 terms (rule A2)."""

WIDEST_FLOAT_SUM = 32
"""Bits of the widest float that products are added up in (rule A5)."""


@final
@dataclass(frozen=True, order=True)
class Operand:
    """What a MAC is given on one side.

    Args:
        bits: Its width.
        floating: Whether it is a float.
    """

    bits: int
    floating: bool = False


@final
@dataclass(frozen=True, order=True)
class OperandPair:
    """The two operands of a MAC, the wider first.

    Args:
        wide: The wider one.
        narrow: The other.
    """

    wide: Operand
    narrow: Operand

    @classmethod
    def of(cls, one: Operand, other: Operand) -> "OperandPair":
        """A pair in either order."""
        return cls(*sorted((one, other), reverse=True))

    @property
    def floating(self) -> bool:
        """Whether the product is a float."""
        return self.wide.floating or self.narrow.floating

    @property
    def widths(self) -> tuple[int, int]:
        """Of the multiplier's sides: an integer beside a float is widened to the float's width first (rule A7)."""
        if self.wide.floating == self.narrow.floating:
            return self.wide.bits, self.narrow.bits
        floats = self.wide.bits if self.wide.floating else self.narrow.bits
        return floats, floats


def mac_for(technology: Technology, mac: Arithmetic, pairs: Iterable[OperandPair]) -> Arithmetic:
    """The MAC that takes every one of some pairs, with its energy for each (rules A4 to A7, N1).

    Args:
        technology: Costs of adders, multipliers and multiplexers.
        mac: What it replaces; name and what is done about zeros stay.
        pairs: Operands of the work, at least one pair.

    Raises:
        UserError: A pair is of floats and the technology has no table of them.
    """
    asked = sorted(set(pairs), reverse=True)
    table, registers = technology.arithmetic, technology.registers
    area_um2 = 0.0
    energy: dict[tuple[int, int], float] = {}
    for floating in (False, True):
        kind = [p for p in asked if p.floating is floating]
        if not kind:
            continue
        if floating and not (table.float_add and table.float_multiply):
            raise UserError(
                "it has no `float_add` and `float_multiply`, and the precision asks for floats",
                where=f"technology {technology.name!r}: `arithmetic`",
                hint="add them, or ask for integers, e.g. W8A8",
            )
        sides = max(p.widths[0] for p in kind), max(p.widths[1] for p in kind)
        added = _sum_bits(sides, floating)
        ratio = 1.0 if floating else element_ratio(technology)  # N1 is of integers
        area_um2 += ratio * (_multiplier(table, sides, floating).area_um2 + _adder(table, added, floating).area_um2)
        adder_pj = _adder(table, added, floating).energy_pj
        unpack_area = 0.0
        for pair in kind:
            unpack = [_unpacking(table, registers, o, side, pair.floating) for o, side in _ports(pair, sides)]
            unpack_area = max(unpack_area, sum(u.area_um2 for u in unpack))
            spent = _multiplier(table, pair.widths, floating).energy_pj + adder_pj + sum(u.energy_pj for u in unpack)
            key = pair.wide.bits, pair.narrow.bits
            energy[key] = max(spent, energy.get(key, 0.0))
        area_um2 += unpack_area
    built = max(wide for wide, _ in energy)
    return replace(
        mac,
        bits=built,
        energy_pj=max(energy.values()),
        area_mm2=1e-6 * area_um2,
        leakage_mw=1e-6 * area_um2 * table.leakage_nw_per_um2,
        by_width=tuple((wide, narrow, pj) for (wide, narrow), pj in sorted(energy.items(), reverse=True)),
    )


def _ports(pair: OperandPair, sides: tuple[int, int]) -> tuple[tuple[Operand, int], tuple[Operand, int]]:
    """Each operand with the side of the multiplier that it comes to."""
    return (pair.wide, sides[0]), (pair.narrow, sides[1])


def _multiplier(table: ArithmeticTable, sides: tuple[int, int], floating: bool) -> ArithmeticPoint:
    """A multiplier of a x b bits costs as one of sqrt(a b) bits: it has a b cells (rule A4)."""
    return _at(table.float_multiply if floating else table.multiply, math.sqrt(sides[0] * sides[1]), 2.0)


def _adder(table: ArithmeticTable, bits: int, floating: bool) -> ArithmeticPoint:
    return _at(table.float_add if floating else table.add, bits, 1.0)


def _sum_bits(sides: tuple[int, int], floating: bool) -> int:
    """Width in which products are added up (rules A2 and A5)."""
    return min(WIDEST_FLOAT_SUM, sum(sides)) if floating else sum(sides) + GUARD_BITS


def _at(points: tuple[ArithmeticPoint, ...], bits: float, default_power: float) -> ArithmeticPoint:
    energy = power_law(tuple((p.bits, p.energy_pj) for p in points), bits, default_power)
    area = power_law(tuple((p.bits, p.area_um2) for p in points), bits, default_power)
    return ArithmeticPoint(round(bits), energy, area)


def _unpacking(
    table: ArithmeticTable, registers: Registers, operand: Operand, side: int, floating: bool
) -> ArithmeticPoint:
    """To pick an operand out of a wider port, and to make a float of an integer (rule A7)."""
    stages = math.log2(side / operand.bits) if operand.bits < side else 0.0
    bits = operand.bits * stages * registers.multiplexer_share
    energy, area = bits * registers.energy_pj_per_bit, bits * registers.area_um2_per_bit
    if floating and not operand.floating:
        shift = _adder(table, side, floating=False)
        energy, area = energy + shift.energy_pj, area + shift.area_um2
    return ArithmeticPoint(side, energy, area)
