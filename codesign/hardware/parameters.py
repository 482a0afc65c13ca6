"""What is fixed when a machine is generated: shapes, widths, links, memories.

What a program or a mapping may change (bounds, strides, tiles, which processing element listens to what) is in registers instead, see
`codesign.hardware.rtl.registers`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from codesign.arch.architecture import Architecture, Links
from codesign.core.checks import check_least
from codesign.core.errors import UserError

WORD_BYTES = 8
"""One access of one bank of the scratchpad (H5 of docs/reference/hardware-space.md)."""

PARTIAL_BYTES = 4
"""A partial sum on chip: accumulators of 32 bits."""

LOCAL_WORD_BYTES = 4
"""One access of a local memory."""


PORTS = ("A", "B", "O")
"""Of the array: two operands and the result."""

SCRATCHPAD, LOCAL = 1, 2
"""Positions of an architecture's levels on chip."""


class Control(Enum):
    """Who drives the array and the DMA engines.

    NEST: loop nests in registers, the family of the scratchpad space.
    QUEUE: two instruction queues, the family of the cores.
    """

    NEST = "nest"
    QUEUE = "queue"


class Answers(Enum):
    """The order in which a memory may answer the requests under way.

    IN_ORDER: That of the requests.
    BY_TAG: Any order; every answer says by its tag which request it is for.
    """

    IN_ORDER = "in_order"
    BY_TAG = "by_tag"


@dataclass(frozen=True)
class Parameters:
    """One generated machine.

    Args:
        name: Name of its top module.
        control: Loop nests or instruction queues.
        rows: Processing elements along y.
        cols: Processing elements along x.
        links: How operands reach them and partial sums leave them.
        banks: Banks of the scratchpad, each 64 bits wide.
        scratchpad_bytes: All banks together.
        local_bytes: Local memory of one processing element.
        local: Which of the three tensors (A, B: operands, O: result) the local memory keeps.
        bus_bytes: Bytes of one beat on the DRAM side.
        burst_bytes: Bytes of the longest burst.
        run_loops: Levels of the array's loop nest.
        outer_loops: Levels of the sequencer's and the loader's loop nests (`Control.NEST`).
        box_loops: Levels of a DMA engine's nest of contiguous runs.
        outstanding: Bursts that a DMA engine has under way at most. With one, a machine does one thing after another wherever it talks to DRAM.
        axi: The port is one of AXI4: beats are aligned, and a burst ends where an address is a multiple of its longest length. Otherwise a burst and its
            beats begin at any byte.
        answers: The order in which the DMA engines take answers.
    """

    name: str
    control: Control
    rows: int
    cols: int
    links: Links
    banks: int
    scratchpad_bytes: int
    local_bytes: int
    local: frozenset[str]
    bus_bytes: int
    burst_bytes: int
    run_loops: int = 10
    outer_loops: int = 14
    box_loops: int = 5
    outstanding: int = 16
    axi: bool = False
    answers: Answers = Answers.IN_ORDER

    def __post_init__(self) -> None:
        where = f"hardware {self.name!r}"
        check_least(1, where=where, rows=self.rows, cols=self.cols, banks=self.banks, outstanding=self.outstanding)
        check_least(1, where=where, run_loops=self.run_loops, outer_loops=self.outer_loops, box_loops=self.box_loops)
        if self.links is Links.PEER:
            raise UserError("links `peer` (N4) are not generated", where=where, hint="use none, multicast or systolic")
        if self.bus_bytes not in (2, 4, 8, 16, 32, 64, 128):
            raise UserError(f"the bus must be 2 to 128 bytes, a power of two, got {self.bus_bytes}", where=where)
        if self.burst_bytes % self.bus_bytes:
            raise UserError(
                f"a burst of {self.burst_bytes} bytes is not whole beats of {self.bus_bytes} bytes", where=where
            )
        if self.axi and (
            self.banks & (self.banks - 1) or self.burst_bytes & (self.burst_bytes - 1) or self.burst_bytes > 4096
        ):
            raise UserError(
                f"an AXI4 port needs banks and bytes of a burst that are powers of two, up to 4096 bytes, got {self.banks} and {self.burst_bytes}",
                where=where,
            )
        if self.scratchpad_bytes < self.line_bytes * 2:
            raise UserError(f"the scratchpad has {self.scratchpad_bytes} bytes, needs two lines", where=where)
        if self.local_bytes % LOCAL_WORD_BYTES or self.local_bytes < LOCAL_WORD_BYTES:
            raise UserError(f"a local memory must be whole 4-byte words, got {self.local_bytes} bytes", where=where)
        if not self.local <= frozenset("ABO"):
            raise UserError(f"local tensors must be among A, B, O, got {sorted(self.local)}", where=where)

    @property
    def by_tag(self) -> bool:
        """Whether requests under way may be answered in any order."""
        return self.answers is Answers.BY_TAG

    @cached_property
    def line_bytes(self) -> int:
        """Bytes that all banks give in a cycle."""
        return self.banks * WORD_BYTES

    @cached_property
    def lines(self) -> int:
        """Rows of a bank; what does not fill a row of every bank is left out."""
        return self.scratchpad_bytes // self.line_bytes

    @cached_property
    def overlaps(self) -> bool:
        """Whether the machine does several things at once: bursts, and feeding while old sums are read."""
        return self.outstanding > 1

    @cached_property
    def feeds_both(self) -> bool:
        """Whether both operands are fed in one cycle: sums stay local, so the port of old sums is free for operand B."""
        return self.overlaps and self.local == frozenset("O")

    @cached_property
    def fills_beside(self) -> bool:
        """Whether local memories fill while the array multiplies: a loop nest's machine whose array reads nothing else meanwhile."""
        return self.overlaps and self.control is Control.NEST and self.local == frozenset("ABO")

    @cached_property
    def fills_wide(self) -> bool:
        """Whether a local memory takes up to four operand words of a line at once: a loop nest's machine that overlaps."""
        return self.overlaps and self.control is Control.NEST and bool(self.local & {"A", "B"})

    @cached_property
    def halved_banks(self) -> bool:
        """Whether each bank has even and odd rows in memories of their own, so that a line from any byte on has all its bytes."""
        return self.overlaps

    @property
    def holds_sums(self) -> bool:
        """Whether an element keeps a drained sum while its lines leave, so that the array multiplies meanwhile: sums are local and the machine overlaps."""
        return self.overlaps and "O" in self.local

    @property
    def folds(self) -> bool:
        """Whether a loop may run along rows and columns at once, so that elements between those in use rest: a loop nest's machine that overlaps."""
        return self.overlaps and self.control is Control.NEST

    @property
    def most_places(self) -> int:
        """Tiles of a tensor that the scratchpad may hold at once on a loop nest's machine: with small ones the memory's latency is hidden."""
        return 8 if self.folds else 2

    @property
    def slots(self) -> int:
        """Partial sums in a line."""
        return self.line_bytes // PARTIAL_BYTES

    @property
    def pes(self) -> int:
        """Processing elements."""
        return self.rows * self.cols

    @cached_property
    def row_bits(self) -> int:
        """Bits of a line number, with one to spare for sums that wrap."""
        return (self.lines - 1).bit_length() + 1

    @cached_property
    def offset_bits(self) -> int:
        """Bits of a byte within a line."""
        return (self.line_bytes - 1).bit_length()

    @property
    def address_bits(self) -> int:
        """Bits of an address of the scratchpad: a byte in a line in the low ones, the line above."""
        return self.row_bits + self.offset_bits

    @property
    def local_bits(self) -> int:
        """Bits of a byte address in a local memory."""
        return (self.local_bytes - 1).bit_length()

    @property
    def windows(self) -> int:
        """Entries of a window table: at most one window for every processing element."""
        return max(2, self.pes)

    @property
    def window_bits(self) -> int:
        """Bits of the number of a window."""
        return (self.windows - 1).bit_length()

    @property
    def row_hops(self) -> int:
        """Registers between two rows: data are handed on in a systolic array, all rows hear one bus otherwise."""
        return 1 if self.links is Links.SYSTOLIC else 0

    @property
    def column_cycles(self) -> int:
        """Cycles from a product to the sum of its column: a hop a row, or one registered tree."""
        return self.rows if self.links is Links.SYSTOLIC else 1


def machine_of_levels(
    architecture: Architecture, control: Control, local: Iterable[str], bus_bytes: int, burst_bytes: int, name: str
) -> Parameters:
    """The machine for DRAM, a scratchpad and local memories of known capacities, which keep the tensors of the ports `local`."""
    level, inner = architecture.levels[SCRATCHPAD], architecture.levels[LOCAL]
    assert level.capacity_bytes is not None and inner.capacity_bytes is not None
    rows, cols, sizes = level.fanout.y, level.fanout.x, (int(level.capacity_bytes), int(inner.capacity_bytes))
    return Parameters(
        name, control, rows, cols, level.fanout.links, level.banks, *sizes, frozenset(local), bus_bytes, burst_bytes
    )
