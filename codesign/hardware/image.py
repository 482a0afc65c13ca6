"""What a machine is given and what it gives back: registers, instruction streams, the contents of DRAM."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from codesign.hardware import words
from codesign.hardware.lanes import Element, Emissions, Window
from codesign.hardware.layout import Layout
from codesign.hardware.parameters import Parameters

Array = npt.NDArray[np.int64]

DRAM_ALIGNMENT_BYTES = 64

PATIENCE_CYCLES = 1 << 16
"""A memory that moves no beat for so long while requests are under way has failed."""


def strides_of(shape: Sequence[int], order: Sequence[int], element_bytes: int) -> tuple[int, ...]:
    """Bytes a step on each axis moves when `order` runs from the outermost to the innermost axis."""
    strides, step = [0] * len(shape), element_bytes
    for axis in reversed(order):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


@dataclass(frozen=True)
class Image:
    """Everything a run needs beside the machine and the data.

    Args:
        parameters: Of the machine it is for.
        registers: (address, data) pairs written before the start.
        layouts: By port (A, B, O), where its tensor lies in DRAM.
        windows: By operand port, the lines that serve the elements.
        emissions: How results leave.
        array_words, dma_words: The instruction streams, 48 bits a word; empty for a machine of loop nests.
        dram_bytes: Size of the memory.
    """

    parameters: Parameters
    registers: tuple[tuple[int, int], ...]
    layouts: Mapping[str, Layout]
    windows: Mapping[str, tuple[Window, ...]]
    emissions: Emissions
    dram_bytes: int
    array_words: tuple[int, ...] = ()
    dma_words: tuple[int, ...] = ()

    def memory(self, values: Mapping[str, Array]) -> bytes:
        """DRAM with the operands in place; what is not an operand is 0xA5."""
        memory = bytearray(b"\xa5" * self.dram_bytes)
        for layout in self.layouts.values():
            if layout.tensor in values:
                memory[layout.base : layout.base + layout.size_bytes] = layout.pack(values[layout.tensor])
        return bytes(memory)


class RegisterWriter:
    """Collects register writes by name, checked against a machine's map."""

    def __init__(self, registers: Mapping[str, tuple[int, int]]) -> None:
        self.registers = registers
        self.pairs: list[tuple[int, int]] = []

    def set(self, name: str, value: int) -> None:
        """Write a value, taken modulo the register's width where it is negative.

        Raises:
            OverflowError: A value that does not fit: a fault of ours.
        """
        address, bits = self.registers[name]
        if value >= 1 << bits or value < -(1 << bits):
            raise OverflowError(f"{value} does not fit register {name} of {bits} bits")
        self.pairs.append((address, value & ((1 << bits) - 1)))

    def many(self, name: str, values: Sequence[int], levels: int) -> None:
        """Write registers `name_0` ... `name_{levels - 1}`."""
        for i in range(levels):
            self.set(f"{name}_{i}", values[i] if i < len(values) else 0)


def line_address(p: Parameters, byte: int) -> int:
    """A byte distance as a packed (line, byte) address."""
    line, rest = divmod(byte, p.line_bytes)
    return ((line << p.offset_bits) | rest) & ((1 << (p.row_bits + p.offset_bits)) - 1)


def deltas(bounds: Sequence[int], strides: Sequence[int]) -> list[int]:
    """What each level adds when it advances; level 0 is the innermost."""
    found, inside = [], 0
    for bound, stride in zip(bounds, strides, strict=True):
        found.append(stride - inside)
        inside += (bound - 1) * stride
    return found


def place(layouts: Sequence[Layout]) -> tuple[tuple[Layout, ...], int]:
    """The layouts one after another in DRAM, and the bytes they take."""
    found, at = [], 0
    for layout in layouts:
        found.append(replace(layout, base=at))
        at += -(-layout.size_bytes // DRAM_ALIGNMENT_BYTES) * DRAM_ALIGNMENT_BYTES
    return tuple(found), at


def array_settings(
    p: Parameters, windows: Mapping[str, tuple[Window, ...]], emissions: Emissions
) -> list[tuple[int, int]]:
    """Writes that fill the window tables and tell every element, column and row what is theirs."""
    pairs: list[tuple[int, int]] = []
    for port, table, settings in (("A", words.WINDOWS_A, words.PE_A), ("B", words.WINDOWS_B, words.PE_B)):
        for number, window in enumerate(windows.get(port, ())):
            pairs.append((table + number, line_address(p, window.start)))
            pairs += [(settings + _element(e), number << 8 | byte) for e, byte in window.bytes_of.items()]
    for number, line in enumerate(emissions.lines):
        pairs.append((words.EMIT_AT + number, line_address(p, line.start)))
        pairs.append((words.EMIT_WHO + number, line.window << 8 | line.group << 1 | line.head))
    pairs += [(words.ROW + y, g) for y, g in enumerate(emissions.group)]
    pairs += [
        (words.COLUMN + x, w << 8 | s) for x, (w, s) in enumerate(zip(emissions.window, emissions.slot, strict=True))
    ]
    used = {(y, x) for y in range(len(emissions.group)) for x in range(len(emissions.window))}
    pairs += [
        (words.PE_HEAD + _element(e), int(e in emissions.head) | int(e in emissions.resting) << 1) for e in sorted(used)
    ]
    return pairs


def _element(e: Element) -> int:
    return e[0] << words.PE_COLUMN_BITS | e[1]
