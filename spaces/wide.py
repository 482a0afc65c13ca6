"""A large space over real architectures: technology, clock, array, two levels of memory with their words and banks, dataflow, DRAM device.

An accelerator as in `spaces.scratchpad` with everything that is fixed there as a parameter, by the same formulas H1 to H7 of docs/reference/hardware-space.md.
How a DRAM device is attached is conditional: LPDDR4 and DDR4 by channels of a bus width, HBM2 by pseudo channels of 64 bits. Energies do not
depend on the clock; bandwidth per cycle does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from codesign.arch.architecture import (
    AccessEnergy,
    Architecture,
    Arithmetic,
    Fanout,
    LevelKind,
    Links,
    StorageLevel,
)
from codesign.arch.dram import effective_bandwidth
from codesign.arch.technology import apply_technology
from codesign.arch.technology_files import load_technology
from spaces.design import DesignSpace
from spaces.levels import dram_level, scratchpad_level
from spaces.parameters import Categorical, Condition, Ordinal, PowerOfTwo, Value
from spaces.scratchpad import DATAFLOWS, add_dma
from spaces.space import Space

GIGATRANSFERS = {"lpddr4": 3.2, "ddr4": 2.4, "hbm2": 2.0}
"""Beats of a data pin per nanosecond: LPDDR4-3200 (JEDEC JESD209-4), DDR4-2400 (JESD79-4), HBM2 (JESD235)."""

BURST_OVERHEAD_NS = 13.75
"""Time a burst waits before its first beat: opening a row, tRCD of DDR4-2400 (JEDEC JESD79-4)."""

HBM_CHANNEL_BITS = 64

_SHARED = 4096
"""Arrays and memories that are remembered: designs listed one after another share them."""

_NOTHING = AccessEnergy(0.0, 0.0, 0.0)

TECHNOLOGIES = ("cmos-65nm", "cmos-45nm", "cmos-32nm", "cmos-22nm")


@dataclass(frozen=True)
class WideBuilder:
    """Makes the architecture of one design.

    Args:
        bits: Width of an operand.
    """

    bits: int = 8

    @property
    def parts(self) -> Mapping[str, tuple[tuple[str, ...], ...]]:
        """Which parameters each part depends on; interconnect and DMA engine add up."""
        memory = ("dram", "channels", "bus_bits", "pseudo_channels", "burst_beats")
        local = ("local_kind", "local_bytes", "local_word_bits", "dataflow")
        array = ("technology", "pe_rows", "pe_cols", "links", *local[:3])
        return {
            "DRAM": (("technology", "clock_mhz", *memory),),
            "Scratchpad": (("technology", "scratchpad_kib", "banks", "scratchpad_word_bits"),),
            "Scratchpad.fanout": (array,),
            "Local": (("technology", *local),),
            "mac": (("technology",),),
            "clock": (("clock_mhz",),),
            "extra": ((*array, "dataflow"), ("technology", *memory)),
        }

    def __call__(self, point: Mapping[str, Value]) -> Architecture:
        """The architecture of a design of `WIDE.space`."""
        clock_hz = float(point["clock_mhz"]) * 1e6
        device, beats = str(point["dram"]), int(point["burst_beats"])
        bus_bits = HBM_CHANNEL_BITS if device == "hbm2" else int(point["bus_bits"])
        count = int(point["pseudo_channels"] if device == "hbm2" else point["channels"])
        name = str(point["technology"])
        memory = _memory(self.bits, name, device, clock_hz, (count, bus_bits, beats))
        local = (
            str(point["local_kind"]),
            int(point["local_bytes"]),
            int(point["local_word_bits"]),
            str(point["dataflow"]),
        )
        array = _array(self.bits, name, int(point["pe_cols"]), int(point["pe_rows"]), str(point["links"]), local)
        scratchpad = _scratchpad(
            name, int(point["scratchpad_kib"]), int(point["banks"]), int(point["scratchpad_word_bits"])
        )
        above, inner = array.levels
        return Architecture(
            "wide",
            (memory.levels[0], replace(scratchpad, fanout=above.fanout), inner),
            array.mac,
            clock_hz,
            array.technology,
            array.extra_area_mm2 + memory.extra_area_mm2,
            array.extra_leakage_mw + memory.extra_leakage_mw,
        )


@lru_cache(_SHARED)
def _memory(bits: int, technology: str, device: str, clock_hz: float, channels: tuple[int, int, int]) -> Architecture:
    """DRAM and the DMA engine: channels, bits of each one's bus, and beats of a burst."""
    table = load_technology(technology)
    count, bus_bits, beats = channels
    burst_bytes = bus_bits // 8 * beats
    per_beat = effective_bandwidth(bus_bits // 8, beats, BURST_OVERHEAD_NS * GIGATRANSFERS[device])
    words = count * per_beat * GIGATRANSFERS[device] * 1e9 / clock_hz * 8 / bits
    alone = Architecture("memory", (dram_level(bits, words),), Arithmetic(bits=bits), clock_hz)
    filled = apply_technology(alone, table, dram=device, dram_burst_bytes=burst_bytes, interconnect=False)
    return add_dma(filled, table, bus_bits * count, burst_bytes)


@lru_cache(_SHARED)
def _array(
    bits: int, technology: str, columns: int, rows: int, links: str, local: tuple[str, int, int, str]
) -> Architecture:
    """PEs with their memories and links, under a level that stands for the scratchpad: what links cost does not depend on it."""
    above = StorageLevel(
        "Scratchpad", energy=_NOTHING, area_mm2=0.0, leakage_mw=0.0, fanout=Fanout(columns, rows, Links(links))
    )
    alone = Architecture("array", (above, _local(technology, *local)), Arithmetic(bits=bits))
    return apply_technology(alone, load_technology(technology))


@cache
def _scratchpad(technology: str, kib: int, banks: int, word_bits: int) -> StorageLevel:
    """A scratchpad with its figures; made once, for many designs share it."""
    return _filled(scratchpad_level(kib, banks, word_bits), technology)


@cache
def _local(technology: str, kind: str, capacity_bytes: int, word_bits: int, dataflow: str) -> StorageLevel:
    """The memory of a PE with its figures, likewise."""
    level = StorageLevel("Local", LevelKind(kind), float(capacity_bytes), word_bits, keep=DATAFLOWS[dataflow])
    return _filled(level, technology)


def _filled(level: StorageLevel, technology: str) -> StorageLevel:
    alone = Architecture(level.name, (level,), Arithmetic())
    return apply_technology(alone, load_technology(technology), interconnect=False).levels[0]


_SIDES = [4, 8, 12, 16, 24, 32, 48, 64]

WIDE = DesignSpace(
    name="wide",
    space=Space(
        [
            Categorical("technology", list(TECHNOLOGIES)),
            Ordinal("clock_mhz", [100, 200, 300, 400, 500, 600, 800, 1000, 1200, 1600]),
            Ordinal("pe_rows", _SIDES),
            Ordinal("pe_cols", _SIDES),
            Categorical("links", [links.value for links in (Links.NONE, Links.SYSTOLIC, Links.MULTICAST)]),
            Categorical("dataflow", list(DATAFLOWS)),
            Ordinal(
                "scratchpad_kib", [4 * k for e in range(11) for k in ([2**e] if e == 0 else [2**e, 3 * 2 ** (e - 1)])]
            ),
            PowerOfTwo("banks", 1, 64),
            Ordinal("scratchpad_word_bits", [32, 64, 128, 256]),
            Categorical("local_kind", [LevelKind.REGISTERS.value, LevelKind.SRAM.value]),
            Ordinal("local_bytes", [32, 64, 128, 192, 256, 512, 1024, 2048]),
            Ordinal("local_word_bits", [16, 32]),
            Categorical("dram", list(GIGATRANSFERS)),
            Ordinal("channels", [1, 2, 3, 4, 6, 8], when=Condition("dram", ("lpddr4", "ddr4"))),
            Ordinal("bus_bits", [16, 32, 64, 128], when=Condition("dram", ("lpddr4", "ddr4"))),
            Ordinal("pseudo_channels", [2, 4, 8, 16, 32], when=Condition("dram", ("hbm2",))),
            PowerOfTwo("burst_beats", 4, 128),
        ],
        presets=[
            {
                "technology": "cmos-22nm",
                "clock_mhz": 1000,
                "pe_rows": 16,
                "pe_cols": 16,
                "links": "systolic",
                "dataflow": "weight-stationary",
                "scratchpad_kib": 256,
                "banks": 4,
                "scratchpad_word_bits": 64,
                "local_kind": "sram",
                "local_bytes": 64,
                "local_word_bits": 32,
                "dram": "lpddr4",
                "channels": 2,
                "bus_bits": 32,
                "burst_beats": 16,
            },
        ],
    ),
    builder=WideBuilder(),
)
"""About 10^12 designs."""
