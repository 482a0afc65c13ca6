"""Arrays that compute in memory: area, clock and energy of one from rows, columns and converters (rules I1 to I6).

Cells keep weights; inputs are shared along rows, products summed along columns, by adders (digital) or on bit lines before a converter
(analogue). The rest of the model takes such an array as a fan-out with shared inputs and sums; it needs no cost model of its own.

* I1: An operand of ``b`` bits that enters ``k`` bits a cycle takes ``ceil(b / k)`` cycles.
* I2: A tree that adds n operands of b bits has ``n (b + 1) - (b + log2 n + 1)`` one-bit adders, one tree for every b
  bits of a weight. Behind converters of r bits, w bits of a weight are added with ``r (w - 1) + w (log2 w - 1/2)``
  adders. An accumulator has an adder and a flip-flop a bit. An AND gate multiplies a bit; a Booth digit takes 4 gates
  a bit; k bits of an input without Booth take k - 1 rows of adders. A tree as wide as whole products adds whole
  products: each is accumulated before it, over the cycles in which its input enters. On an analogue array cells along a bit line share a gate, one for every input: ``rows / inputs`` of them (zigzag-imc
  states groups of 1 for AIMC1 and 32 for AIMC2).
* I3: Area: cells, gates, and converters of ``10^(1.206 - 0.0369 r) 2^r`` um2 each, one a bit line.
* I4: Cycle: the slower of the adder tree and the accumulator; with converters, ``r (0.64 + 0.00653 n)`` ns for n
  inputs and the adders behind.
* I5: Energy: gates that switch at ``V^2``, times the share of inputs that change and of weights that are not zero;
  converters ``(100 r + 0.001 4^r) V^2`` fF, those before word lines 50 fF a bit. The gate that multiplies on a bit line takes half a
  gate's charge, for its weight stays (Sun et al., as all constants).
* I6: The array is a fan-out, outputs along X and inputs along Y: inputs are shared along X, sums are formed along Y.
  Cells hold weights; loading them costs what the buffer's reads cost.
"""

import json
import math
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

from codesign.core.checks import check_least, check_positive, check_share
from codesign.core.errors import UserError

_TABLE = Path(__file__).parent / "in_memory.json"

_XOR_GATES, _FLIP_FLOP_GATES, _XOR_LOADS, _FLIP_FLOP_LOADS = 2.4, 6.0, 1.5, 3.0
"""An exclusive-or and a flip-flop in two-input NANDs: area (and, of the former, delay), then switched capacitance."""

_ADDER_GATES = 3 + 2 * _XOR_GATES
_ADDER_LOADS = 3 + 2 * _XOR_LOADS
_SUM_DELAY, _CARRY_OUT_DELAY, _CARRY_DELAY = 2 * _XOR_GATES, _XOR_GATES + 2.0, 2.0
_BOOTH_GATES = 4
"""Gates a bit of a Booth partial product takes."""


@dataclass(frozen=True)
class InMemoryTechnology:
    """Constants of one node; capacitances in fF switched at the supply.

    Args:
        node_nm: The node.
        source: Of the constants.
        gate_um2: Area of a two-input NAND.
        gate_ns: Its delay.
        gate_ff: Its capacitance.
        cell_um2: A cell with its share of the periphery.
        cell_ff: A cell's share of a bit line.
        dac_ff_per_bit: A digital-to-analogue converter.
        adc_ff_per_bit: An analogue-to-digital converter, by its resolution.
        adc_ff_per_level: The same, by its levels squared.
        adc_um2_slope: Area of a converter of r bits: ``10^(slope r + offset) 2^r``.
        adc_um2_offset: See above.
        adc_ns_per_row: Time of a conversion a bit and row.
        adc_ns: Time of a conversion a bit.
    """

    node_nm: float
    source: str
    gate_um2: float
    gate_ns: float
    gate_ff: float
    cell_um2: float
    cell_ff: float
    dac_ff_per_bit: float
    adc_ff_per_bit: float
    adc_ff_per_level: float
    adc_um2_slope: float
    adc_um2_offset: float
    adc_ns_per_row: float
    adc_ns: float


@cache
def in_memory_technology() -> InMemoryTechnology:
    """The constants that come with the project."""
    return InMemoryTechnology(**json.loads(_TABLE.read_text("utf-8")))


@dataclass(frozen=True)
class InMemoryArray:
    """An array, or several equal banks of one.

    Args:
        node_nm: Its node; constants are scaled in proportion to it (areas to its square).
        volt: Supply.
        rows: Cells along a bit line.
        columns: Cells along a word line.
        banks: Equal arrays that work at once.
        inputs: Products summed into one output of a bank.
        outputs: Outputs of a bank.
        input_bits: Of an operand.
        bits_per_cycle: Of an operand that enter in a cycle.
        weight_bits: Of a weight.
        adder_bits: Width of what the tree of adders adds; None where bit lines add.
        accumulator_bits: Of what sums over cycles; 0 where nothing does.
        adc_bits: Resolution of the converters behind bit lines; None without.
        dac_bits: Of those before word lines.
        booth: Whether multipliers recode the input.
        toggle: Share of input bits that change.
        zero_weights: Share of weights' bits that are zero.
    """

    node_nm: float
    volt: float
    rows: int
    columns: int
    banks: int
    inputs: int
    outputs: int
    input_bits: int
    bits_per_cycle: int
    weight_bits: int
    adder_bits: int | None = None
    accumulator_bits: int = 0
    adc_bits: int | None = None
    dac_bits: int = 1
    booth: bool = False
    toggle: float = 1.0
    zero_weights: float = 0.0

    def __post_init__(self) -> None:
        where = "array that computes in memory"
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in ("toggle", "zero_weights"):
                check_share(where=where, **{item.name: value})
            elif item.name == "accumulator_bits":
                check_least(0, where=where, accumulator_bits=value)
            elif not isinstance(value, bool):
                check_positive(where=where, **{item.name: value})
        if (self.adder_bits is None) and (self.adc_bits is None):
            raise UserError("give `adder_bits` of a digital array or `adc_bits` of an analogue one", where=where)
        if self.bits_per_cycle > self.input_bits:
            raise UserError(
                f"`bits_per_cycle` {self.bits_per_cycle} exceeds `input_bits` {self.input_bits}", where=where
            )

    @property
    def analogue(self) -> bool:
        """Whether bit lines add currents, so that results pass converters."""
        return self.adc_bits is not None

    @property
    def passes(self) -> int:
        """Cycles in which an operand enters (I1)."""
        return math.ceil(self.input_bits / self.bits_per_cycle)

    @property
    def adds_whole_products(self) -> bool:
        """Whether operands of the tree are as wide as the product of whole operands, which then forms before the tree (I2)."""
        return self.passes > 1 and (self.adder_bits or 0) >= self.input_bits + self.weight_bits

    @property
    def macs(self) -> int:
        """Products of whole operands that `passes` cycles make."""
        return self.inputs * self.outputs * self.banks

    @property
    def cells(self) -> int:
        """Cells that hold weights, of all banks together."""
        return self.rows * self.columns * self.banks

    @property
    def converters(self) -> int:
        """Behind bit lines, all banks: one a column."""
        return self.columns * self.banks


@dataclass(frozen=True)
class _Logic:
    """Digital parts of all banks: adders and flip-flops by bit, multiplier gates."""

    adders: float
    flip_flops: float
    multiplier_gates: float


def _tree_adders(operands: float, bits: int) -> float:
    """Adders by bit of a binary tree of ripple adders: ``n (b + 1) - (b + log2 n + 1)`` (I2)."""
    return operands * (bits + 1) - (bits + math.log2(operands) + 1)


def _logic(array: InMemoryArray) -> _Logic:
    accumulated = array.outputs * array.accumulator_bits if array.passes > 1 or array.analogue else 0
    if array.adder_bits is None or array.analogue:
        weight, resolution = array.weight_bits, array.adc_bits or 0
        placed = resolution * (weight - 1) + weight * (math.log2(weight) - 0.5) if weight > 1 else 0.0
        adders = array.outputs * placed + accumulated
        return _Logic(adders * array.banks, accumulated * array.banks, array.inputs * array.columns * array.banks)
    trees = array.outputs * math.ceil(array.weight_bits / array.adder_bits)
    products = array.inputs * array.outputs
    gates = float(products * array.weight_bits * array.bits_per_cycle)
    rows = products * array.weight_bits * (array.bits_per_cycle - 1)
    if array.booth:
        gates, rows = products * (array.weight_bits + 1) * array.bits_per_cycle / 2 * _BOOTH_GATES, 0
    if array.adds_whole_products:
        accumulated += products * array.adder_bits
    adders = trees * _tree_adders(array.inputs, array.adder_bits) + rows + accumulated
    return _Logic(adders * array.banks, accumulated * array.banks, gates * array.banks)


def _scale(array: InMemoryArray, technology: InMemoryTechnology) -> float:
    return array.node_nm / technology.node_nm


def array_area_mm2(array: InMemoryArray, technology: InMemoryTechnology | None = None) -> float:
    """Cells, adders, registers, multiplier gates, converters (I3)."""
    t = technology or in_memory_technology()
    logic = _logic(array)
    gates = logic.adders * _ADDER_GATES + logic.flip_flops * _FLIP_FLOP_GATES + logic.multiplier_gates
    um2 = array.cells * t.cell_um2 + gates * t.gate_um2
    if array.adc_bits is not None:
        one = 10 ** (t.adc_um2_slope * array.adc_bits + t.adc_um2_offset) * 2**array.adc_bits
        um2 += array.converters * one
    return float(1e-6 * um2 * _scale(array, t) ** 2)


def array_cycle_ns(array: InMemoryArray, technology: InMemoryTechnology | None = None) -> float:
    """A cycle (I4): of a digital array its slower stage, tree or accumulator; of an analogue one conversion and the adders behind."""
    t = technology or in_memory_technology()
    if array.adc_bits is not None:
        conversion = array.adc_bits * (t.adc_ns_per_row * array.inputs + t.adc_ns)
        weight = array.weight_bits
        behind = 0.0
        if weight > 1:
            levels = max(0.0, math.log2(weight) - 1)
            behind = levels * _SUM_DELAY + _CARRY_OUT_DELAY + (weight + array.adc_bits - 2) * _CARRY_DELAY
        return conversion + behind * t.gate_ns * _scale(array, t)
    assert array.adder_bits is not None
    depth = math.log2(array.inputs)
    levels = max(0.0, depth - 1) + (0 if array.booth else array.bits_per_cycle - 1)
    tree = 1 + levels * _SUM_DELAY + _CARRY_OUT_DELAY + (array.adder_bits + depth - 2) * _CARRY_DELAY
    accumulator = _CARRY_OUT_DELAY + array.accumulator_bits * _CARRY_DELAY if array.passes > 1 else 0.0
    return max(tree, accumulator) * t.gate_ns * _scale(array, t)


def mac_energy_fj(array: InMemoryArray, technology: InMemoryTechnology | None = None) -> float:
    """Energy of a product of whole operands with its share of the sum, weights in place (I5)."""
    t = technology or in_memory_technology()
    logic, scale = _logic(array), _scale(array, t)
    if array.adc_bits is not None:
        charge = array.converters * (
            t.adc_ff_per_bit * array.adc_bits + t.adc_ff_per_level * 4**array.adc_bits
        ) + array.inputs * array.banks * t.dac_ff_per_bit * (array.dac_bits if array.dac_bits > 1 else 0)
        charge += array.cells * t.cell_ff * scale
        active = array.toggle * (1 - array.zero_weights)
        charge += logic.multiplier_gates * t.gate_ff / 2 * scale * active
    else:
        loads = logic.adders * _ADDER_LOADS + logic.flip_flops * _FLIP_FLOP_LOADS + logic.multiplier_gates
        charge = loads * t.gate_ff * scale * array.toggle * (1 - array.zero_weights)
    return float(charge * array.volt**2 * array.passes / array.macs)


def tops_per_watt(array: InMemoryArray, technology: InMemoryTechnology | None = None) -> float:
    """Operations a joule, 1e12 of them: a product and its sum are two."""
    return 2e3 / mac_energy_fj(array, technology)
