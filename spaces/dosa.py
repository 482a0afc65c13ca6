"""Gemmini as DOSA searches it: the side of the array, scratchpad and accumulator by KiB, energies per access as published there.

C. Hong et al., DOSA: Differentiable model-based one-loop search for DNN accelerators, MICRO 2023; figures read from its released program (ucb-bar/dosa,
commit a7a3239, energy model and hardware configuration): 40 nm, DRAM 100 pJ and 8 bytes a cycle both ways together, scratchpad 32 bytes a cycle, accumulator
two words a cycle and column. Every side up to 128, every KiB of scratchpad up to 1 MiB and of accumulator up to 256 KiB is a design; the random search published
there draws powers of two (`POWERS`). Links cost nothing there, and areas, which it does not use, are those of the technology.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from codesign.arch.architecture import (
    AccessEnergy,
    Architecture,
    Arithmetic,
    Fanout,
    LevelKind,
    Links,
    Ports,
    StorageLevel,
)
from codesign.arch.technology import apply_technology
from codesign.arch.technology_files import load_technology
from spaces.design import DesignSpace
from spaces.levels import dram_level
from spaces.parameters import Integer, PowerOfTwo, Value
from spaces.space import Space

DRAM_PJ, MAC_PJ, REGISTER_PJ = 100.0, 0.5608, 0.48746172
"""Energy of an access, or of a multiply-accumulate."""

DRAM_BYTES_PER_CYCLE, SCRATCHPAD_BYTES_PER_CYCLE, ACCUMULATOR_WORDS_PER_COLUMN = 8.0, 32.0, 2.0

SUM_BITS = 32
"""Width of a partial sum."""


def scratchpad_pj(kib: int) -> float:
    """Energy of a byte read or written in a scratchpad of that size."""
    return 0.49 + 0.02513 * kib


def accumulator_pj(kib: int, columns: int) -> float:
    """Energy of a sum read or written in an accumulator of that size, one memory a column."""
    return 1.94 + 0.1005 * kib / columns


@dataclass(frozen=True)
class DosaBuilder:
    """Makes the architecture of one design.

    Args:
        technology: Name of the table that gives areas and leakage.
        clock_hz: Cycles per second.
    """

    technology: str = "cmos-45nm"
    clock_hz: float = 1e9

    @property
    def parts(self) -> Mapping[str, tuple[tuple[str, ...], ...]]:
        """Which parameters each part depends on."""
        return {
            "Scratchpad": (("scratchpad_kib",),),
            "Accumulator": (("accumulator_kib", "pe"),),
            "Accumulator.fanout": (("pe",),),
        }

    def __call__(self, point: Mapping[str, Value]) -> Architecture:
        """The architecture of a design of `DOSA.space`."""
        side, scratchpad, accumulator = int(point["pe"]), int(point["scratchpad_kib"]), int(point["accumulator_kib"])
        per_sum = accumulator_pj(accumulator, side)
        columns = ACCUMULATOR_WORDS_PER_COLUMN * side
        levels = (
            dram_level(8, DRAM_BYTES_PER_CYCLE, _same(DRAM_PJ)),
            StorageLevel(
                "Scratchpad",
                capacity_bytes=scratchpad * 1024.0,
                word_bits=8,
                keep=frozenset({"input", "weight"}),
                read_bandwidth_words_per_cycle=SCRATCHPAD_BYTES_PER_CYCLE,
                write_bandwidth_words_per_cycle=SCRATCHPAD_BYTES_PER_CYCLE,
                energy=_same(scratchpad_pj(scratchpad)),
            ),
            StorageLevel(
                "Accumulator",
                capacity_bytes=accumulator * 1024.0,
                word_bits=SUM_BITS,
                keep=frozenset({"output"}),
                read_bandwidth_words_per_cycle=columns,
                write_bandwidth_words_per_cycle=columns,
                ports=Ports.SHARED,
                energy=_same(per_sum),
                fanout=Fanout(side, side, Links.SYSTOLIC),
            ),
            StorageLevel(
                "Registers",
                LevelKind.REGISTERS,
                capacity_bytes=1.0,
                word_bits=8,
                keep=frozenset({"weight"}),
                energy=_same(REGISTER_PJ),
            ),
        )
        plain = Architecture("dosa-gemmini", levels, Arithmetic(bits=8, energy_pj=MAC_PJ), self.clock_hz)
        return apply_technology(plain, load_technology(self.technology), interconnect=False)


def _same(energy_pj: float) -> AccessEnergy:
    return AccessEnergy(energy_pj, energy_pj, energy_pj)


PRESET = {"pe": 16, "scratchpad_kib": 128, "accumulator_kib": 32}
"""Gemmini's default."""


def _space(name: str, size: type[Integer] | type[PowerOfTwo]) -> DesignSpace:
    sizes = [size("pe", 1, 128), size("scratchpad_kib", 1, 1024), size("accumulator_kib", 1, 256)]
    return DesignSpace(name, Space(sizes, presets=[PRESET]), DosaBuilder(), bits=8, partial_bits=SUM_BITS)


DOSA = _space("dosa", Integer)
"""33,554,432 designs."""

POWERS = _space("dosa-powers", PowerOfTwo)
"""The 792 of them that the published random search draws from."""
