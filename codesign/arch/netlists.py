"""Areas of logic as synthesised netlists have them: parts of a generated machine, each a sum of sizes times constants (N1 to N7).

What grows with what is read off the generators (`codesign/hardware/rtl`); how much, in two-input NANDs, is fitted to netlists by
`python -m experiments.netlist_areas`. Rules N1 to N6 are the functions below.

* N7: The array is the innermost level on chip with a fan-out above 1; its line is all banks' words. N1's constant is
  the MAC's area, by A1 for other widths. A MAC built for a precision scales its integer parts alike; floats (A5) and
  unpacking (A7) keep the areas of `cmos`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from codesign.arch.architecture import Architecture, LevelKind, Links
from codesign.core.errors import UserError

SUM_BITS = 32
"""A partial sum on chip."""

GROUP_BITS = 7
"""Number of a group of rows."""

OPERAND_BITS = 8
"""Width of the operands that the elements of the fitted netlists multiply."""


@dataclass(frozen=True)
class LogicShape:
    """What the areas of a machine's parts depend on.

    Args:
        rows, cols: Of the array.
        links: Between its elements.
        line_bits: Of the scratchpad: all banks' words side by side.
        lines: Rows of a bank.
        local_bytes: Memory of one element.
        kept: Of input, weight, output, what that memory keeps.
        bus_bits: Of the DMA engines.
    """

    rows: int
    cols: int
    links: Links
    line_bits: int
    lines: int
    local_bytes: int
    kept: frozenset[str]
    bus_bits: int

    @property
    def elements(self) -> int:
        """Processing elements of the array: rows times columns."""
        return self.rows * self.cols

    @property
    def byte_bits(self) -> int:
        """Bits of a byte's number within a line."""
        return max(1, (self.line_bits // 8 - 1).bit_length())

    @property
    def address_bits(self) -> int:
        """Bits of a scratchpad address, one to spare."""
        return (self.lines - 1).bit_length() + 1 + self.byte_bits

    @property
    def local_bits(self) -> int:
        """Bits of all addresses of a local memory: one address for every tensor it keeps."""
        return (self.local_bytes - 1).bit_length() * len(self.kept)

    @property
    def window_bits(self) -> int:
        """Bits of a window's number."""
        return (max(2, self.elements) - 1).bit_length()

    @property
    def feeds_both(self) -> bool:
        """Whether a second line goes to the elements beside the first: only sums are kept there."""
        return self.kept == frozenset({"output"})

    @property
    def fills_beside(self) -> bool:
        """Whether the memories of elements fill while the array multiplies: they keep all three tensors."""
        return len(self.kept) == 3

    @property
    def sums(self) -> int:
        """Partial sums in a line."""
        return max(1, self.line_bits // SUM_BITS)


def _element(s: LogicShape) -> dict[str, float]:
    """N1: multiplier and control; the choice of a byte (of a sum) out of a line; settings; operand registers; the sum's adder."""
    outputs = "output" in s.kept
    held = 2 - len(s.kept & {"input", "weight"})
    return {
        "element": 1,
        "choice bit": 2 * (s.line_bits - 8) + (s.line_bits - SUM_BITS if outputs else 0),
        "setting bit": 2 * (s.byte_bits + s.window_bits),
        "held operand": held,
        "local address bit": s.local_bits,
        "local sum": outputs,
        "handed sum": s.links is Links.SYSTOLIC,
    }


def _network(s: LogicShape) -> dict[str, float]:
    """N2: who is meant: comparisons by row and column, in a systolic array by element; registers from row to row; sums of columns."""
    systolic = s.links is Links.SYSTOLIC
    addresses = 3 + s.fills_beside
    bus = (
        (1 + s.feeds_both) * (s.line_bits + 1) + s.window_bits + addresses * (s.local_bits // max(1, len(s.kept))) + 42
    )
    heard = s.elements if systolic else s.cols
    between = s.cols * (s.rows - 1) * SUM_BITS
    return {
        "row": s.rows,
        "column heard": heard,
        "compared bit": 2 * GROUP_BITS * s.rows + s.window_bits * heard,
        "row register bit": (s.rows - 1) * bus if systolic else 0,
        "column register bit": 0 if systolic else s.cols * (SUM_BITS + 1),
        "adder bit": between if s.links is Links.MULTICAST else 0,
        "joined bit": between if s.links is Links.NONE else 0,
    }


def _crossbar(s: LogicShape) -> dict[str, float]:
    """N3: lines turned by stages of two-way choices, for two ports that read and write."""
    return {"scratchpad": 1, "turned bit": 4 * s.line_bits * s.byte_bits}


def _shift_choices(bits: int, kept: int) -> int:
    """Two-way choices of a shift by bytes in stages, of which the lowest `kept` bits are used: a stage has what later ones reach."""
    stages = (bits // 8).bit_length()
    return sum(min(bits, kept + 8 * (2**stages - 2 ** (k + 1))) for k in range(stages))


def _engine(s: LogicShape) -> dict[str, float]:
    """N4: registers and nest, addresses, the beat shifted by stages, a line put together out of beats."""
    return {
        "engine": 1,
        "address bit": s.address_bits,
        "shifted bit": _shift_choices(s.bus_bits, min(s.bus_bits, s.line_bits)),
        "line and bus bit": min(s.line_bits, 4 * s.bus_bits),
    }


def _unit(s: LogicShape) -> dict[str, float]:
    """N5: nest, registers, addresses, a window and a place by column; the collector: every column's sum may go to every place of a line, where old sums are added."""
    gathered = s.cols * s.sums * SUM_BITS
    shares = s.links is not Links.NONE
    return {
        "unit": 1,
        "local address bit": s.local_bits,
        "line bit": s.line_bits,
        "address bit": s.address_bits,
        "column": s.cols,
        "second filler": s.fills_beside,
        "summed bit": gathered if shares else 0,
        "chosen bit": 0 if shares else gathered,
    }


def _loops(s: LogicShape) -> dict[str, float]:
    """N6: loader and sequencer: nests of fixed depths, addresses of the scratchpad and of local memories."""
    return {"nests": 1, "address bit": s.address_bits, "local address bit": s.local_bits}


SIZES: Mapping[str, Callable[[LogicShape], dict[str, float]]] = {
    "element": _element,
    "network": _network,
    "crossbar": _crossbar,
    "reader": _engine,
    "writer": _engine,
    "unit": _unit,
    "loops": _loops,
}
"""By part, what its area is made of."""


@dataclass(frozen=True)
class NetlistAreas:
    """Fitted constants.

    Args:
        source: Netlists, library, synthesiser.
        nand2: By part and size, two-input NANDs a unit.
    """

    source: str
    nand2: Mapping[str, Mapping[str, float]]

    def __post_init__(self) -> None:
        for part in SIZES:
            if part not in self.nand2:
                raise UserError(f"`netlists` lacks the part {part!r}", hint=f"it needs {', '.join(SIZES)}")

    def part_nand2(self, part: str, shape: LogicShape) -> float:
        """Area of one part in two-input NANDs; of one element for `element`."""
        constants = self.nand2[part]
        missing = [name for name in SIZES[part](shape) if name not in constants]
        if missing:
            raise UserError(f"`netlists`, part {part!r}: the constant {missing[0]!r} is missing")
        return math.fsum(constants[name] * size for name, size in SIZES[part](shape).items())

    def shared_nand2(self, shape: LogicShape) -> float:
        """Logic outside the MACs, the crossbar and the DMA engines: what elements have beside their MAC, network, controller (N7)."""
        beside = self.part_nand2("element", shape) - self.nand2["element"]["element"]
        parts = ("network", "unit", "loops")
        return shape.elements * beside + math.fsum(self.part_nand2(part, shape) for part in parts)

    def dma_nand2(self, shape: LogicShape) -> float:
        """Area of both DMA engines in NANDs of two inputs."""
        return self.part_nand2("reader", shape) + self.part_nand2("writer", shape)


ROLES = frozenset({"input", "weight", "output"})


def array_level(architecture: Architecture) -> int | None:
    """The innermost level on chip that several children hang on; None for an architecture without an array."""
    wide = [
        i
        for i, level in enumerate(architecture.levels)
        if level.fanout.size > 1 and level.kind is not LevelKind.DRAM and level.capacity_bytes is not None
    ]
    return wide[-1] if wide else None


def logic_shape(architecture: Architecture, level_index: int, bus_bits: int = 0) -> LogicShape:
    """The machine that an architecture stands for, its array below the level with that index (N7)."""
    level = architecture.levels[level_index]
    inner = architecture.levels[level_index + 1 :]
    line_bits = max(SUM_BITS, level.word_bits * level.banks)
    capacity = level.capacity_bytes or 0.0
    return LogicShape(
        rows=level.fanout.y,
        cols=level.fanout.x,
        links=level.fanout.links,
        line_bits=line_bits,
        lines=max(2, math.ceil(8 * capacity / line_bits)),
        local_bytes=max(4, math.ceil(sum(x.capacity_bytes or 0.0 for x in inner))),
        kept=frozenset().union(*(x.keep & ROLES for x in inner)) if inner else frozenset(),
        bus_bits=bus_bits,
    )
