"""Accelerators like Eyeriss: a PE array with one scratchpad memory per tensor in every PE, a global buffer, a narrow DRAM link.

Eyeriss itself (Chen et al., IEEE JSSC 52(1), 2017; preset `eyeriss`) is a design of this space: 12 x 14 PEs, 12 words of inputs, 224 of weights and
24 of partial sums in each, a global buffer of 100 KiB for inputs and outputs. Weights go past the global buffer. Its parameters act by the formulas
H1, H3, H4 and H6 of docs/reference/hardware-space.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from codesign.arch.architecture import Architecture, Arithmetic, Fanout, LevelKind, Links, StorageLevel
from codesign.arch.technology import apply_technology
from codesign.arch.technology_files import load_technology
from spaces.design import DesignSpace
from spaces.levels import dram_level
from spaces.parameters import Ordinal, PowerOfTwo, Value
from spaces.space import Space

BANK_BYTES = 4096
"""Eyeriss' global buffer has 25 banks of 4 KiB."""

LINK_SHARE = 60e6 / 200e6
"""Clock of the DRAM link over that of the core."""

PSUM_WORDS = 24
"""Partial sums a PE holds."""

DRAM_BITS = 64
"""A word of DRAM, whatever the width of the link."""


@dataclass(frozen=True)
class EyerissBuilder:
    """Makes the architecture of one design.

    Args:
        technology: Name of the table that gives energies and areas.
        clock_hz: Cycles per second.
        bits: Width of an operand.
    """

    technology: str = "cmos-65nm"
    clock_hz: float = 200e6
    bits: int = 16

    def __call__(self, point: Mapping[str, Value]) -> Architecture:
        """The architecture of a design of `EYERISS.space`."""
        word_bytes = self.bits // 8
        capacity = int(point["buffer_kib"]) * 1024
        link = int(point["link_bits"]) * LINK_SHARE / DRAM_BITS
        levels = (
            dram_level(DRAM_BITS, link),
            StorageLevel(
                "GlobalBuffer",
                capacity_bytes=float(capacity),
                word_bits=64,
                banks=capacity // BANK_BYTES,
                read_bandwidth_words_per_cycle=2.0,  # one of inputs, one of partial sums
                write_bandwidth_words_per_cycle=2.0,
                keep=frozenset({"input", "output"}),
                fanout=Fanout(int(point["pe_cols"]), int(point["pe_rows"]), Links.MULTICAST),
            ),
            self._spad("InputSpad", LevelKind.REGISTERS, int(point["input_words"]) * word_bytes, "input"),
            self._spad("WeightSpad", LevelKind.SRAM, int(point["weight_words"]) * word_bytes, "weight"),
            self._spad("PsumSpad", LevelKind.REGISTERS, PSUM_WORDS * word_bytes, "output"),
        )
        plain = Architecture("eyeriss-like", levels, Arithmetic(bits=self.bits), self.clock_hz)
        return apply_technology(plain, load_technology(self.technology))

    def _spad(self, name: str, kind: LevelKind, capacity_bytes: int, role: str) -> StorageLevel:
        return StorageLevel(
            name, kind, capacity_bytes=float(capacity_bytes), word_bits=self.bits, keep=frozenset({role})
        )


EYERISS = DesignSpace(
    name="eyeriss",
    space=Space(
        [
            Ordinal("pe_rows", [6, 9, 12, 16]),
            Ordinal("pe_cols", [8, 14, 16, 24]),
            Ordinal("buffer_kib", [32, 64, 100, 200]),
            Ordinal("input_words", [12, 24]),
            Ordinal("weight_words", [112, 224, 448]),
            PowerOfTwo("link_bits", 64, 512),
        ],
        presets=[
            {
                "pe_rows": 12,
                "pe_cols": 14,
                "buffer_kib": 100,
                "input_words": 12,
                "weight_words": 224,
                "link_bits": 64,
            },
        ],
    ),
    builder=EyerissBuilder(),
    bits=16,
    partial_bits=16,
)
"""1,536 designs: small enough to be enumerated."""
