"""Arithmetic, registers and wires: the parts of a technology that are not memory (A1-A3, W1)."""

import math
from dataclasses import dataclass, field

from codesign.core.checks import check_numbers
from codesign.core.errors import UserError


@dataclass(frozen=True)
class ArithmeticPoint:
    """One width of an adder or multiplier."""

    bits: int = field(metadata={"minimum": 1})
    energy_pj: float
    area_um2: float

    def __post_init__(self) -> None:
        check_numbers(self, f"arithmetic of {self.bits} bits")


@dataclass(frozen=True)
class ArithmeticTable:
    """Adders and multipliers by width.

    Args:
        node_nm: Node of the figures.
        source: Where they come from.
        add: Integer adders, at least one, narrowest first.
        multiply: Integer multipliers, at least one, narrowest first.
        leakage_nw_per_um2: Static power of logic per area.
        float_add: Adders of floats, narrowest first; empty: the table has none.
        float_multiply: Multipliers of floats, likewise.
    """

    node_nm: float
    source: str
    add: tuple[ArithmeticPoint, ...]
    multiply: tuple[ArithmeticPoint, ...]
    leakage_nw_per_um2: float
    float_add: tuple[ArithmeticPoint, ...] = ()
    float_multiply: tuple[ArithmeticPoint, ...] = ()

    def __post_init__(self) -> None:
        for name in ("add", "multiply", "float_add", "float_multiply"):
            bits = [point.bits for point in getattr(self, name)]
            if (not bits and not name.startswith("float")) or bits != sorted(set(bits)):
                raise UserError(f"`{name}` must list one or more widths, narrowest first, got {bits}")
        check_numbers(self, "arithmetic")


def power_law(points: tuple[tuple[float, float], ...], x: float, default_power: float) -> float:
    """Value at `x` of points joined by power laws (rule A1).

    Between two points: straight in the logarithms. Outside: the law of the nearest two points goes on, or
    `default_power` where there is only one.
    """
    if len(points) == 1:
        return points[0][1] * float((x / points[0][0]) ** default_power)
    right = next((i for i in range(1, len(points) - 1) if x <= points[i][0]), len(points) - 1)
    (x0, y0), (x1, y1) = points[right - 1], points[right]
    if y0 == 0 or y1 == 0:
        return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return y0 * math.exp(math.log(y1 / y0) * math.log(x / x0) / math.log(x1 / x0))


def accumulator_bits(bits: int) -> int:
    """Width of the sum of products of `bits`-wide operands (rule A2): twice as wide, and 8 bits for 256 terms."""
    return 2 * bits + 8


def mac_energy_pj(table: ArithmeticTable, bits: int) -> float:
    """Multiplication of `bits`-wide operands and addition to the accumulator (rule A2)."""
    add = tuple((p.bits, p.energy_pj) for p in table.add)
    multiply = tuple((p.bits, p.energy_pj) for p in table.multiply)
    return power_law(multiply, bits, 2.0) + power_law(add, accumulator_bits(bits), 1.0)


def mac_area_mm2(table: ArithmeticTable, bits: int) -> float:
    """Area of multiplier and accumulator's adder (rule A2)."""
    add = tuple((p.bits, p.area_um2) for p in table.add)
    multiply = tuple((p.bits, p.area_um2) for p in table.multiply)
    return 1e-6 * (power_law(multiply, bits, 2.0) + power_law(add, accumulator_bits(bits), 1.0))


@dataclass(frozen=True)
class Registers:
    """Flip-flops, and the multiplexers that read one entry of several.

    Args:
        node_nm: Node of the figures.
        source: Where they come from.
        energy_pj_per_bit: One bit written, or read of a single register.
        area_um2_per_bit: Of one bit.
        leakage_nw_per_um2: Static power per area.
        multiplexer_share: Area of a two-to-one multiplexer relative to a flip-flop; its energy likewise.
        gate_area_um2: Of a two-input NAND, the unit in which control logic is counted.
    """

    node_nm: float = field(metadata={"above": 0})
    source: str
    energy_pj_per_bit: float
    area_um2_per_bit: float
    leakage_nw_per_um2: float
    multiplexer_share: float
    gate_area_um2: float

    def __post_init__(self) -> None:
        check_numbers(self, "registers")

    def access_pj(self, capacity_bytes: float, word_bits: int) -> float:
        """Energy of one word read or written (rule A3): a word passes one multiplexer per halving of the entries."""
        depth = math.log2(max(1.0, 8 * capacity_bytes / word_bits))
        return word_bits * self.energy_pj_per_bit * (1 + self.multiplexer_share * depth)

    def area_mm2(self, capacity_bytes: float, word_bits: int) -> float:
        """Flip-flops and a multiplexer for each entry after the first (rule A3)."""
        bits = 8 * capacity_bytes
        multiplexed = max(0.0, bits - word_bits)
        return 1e-6 * self.area_um2_per_bit * (bits + self.multiplexer_share * multiplexed)

    def leakage_mw(self, capacity_bytes: float, word_bits: int) -> float:
        """Area times the leakage of logic."""
        return self.area_mm2(capacity_bytes, word_bits) * self.leakage_nw_per_um2


@dataclass(frozen=True)
class Wires:
    """Repeated wires on intermediate metal.

    Args:
        node_nm: Node of the figures.
        source: Where they come from.
        energy_pj_per_bit_mm: To move one bit one millimetre.
        pitch_um: Width and spacing of one wire.
    """

    node_nm: float = field(metadata={"above": 0})
    source: str
    energy_pj_per_bit_mm: float
    pitch_um: float

    def __post_init__(self) -> None:
        check_numbers(self, "wires")
