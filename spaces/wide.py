"""A large space over real architectures: technology, clock, array, two levels of memory with their words and banks, dataflow, DRAM device.

An accelerator as in `spaces.scratchpad` with everything that is fixed there as a parameter, by the same formulas H1 to H7 of docs/reference/hardware-space.md.
How a DRAM device is attached is conditional: LPDDR4 and DDR4 by channels of a bus width, HBM2 by pseudo channels of 64 bits. Energies do not
depend on the clock; bandwidth per cycle does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from codesign.arch.architecture import Architecture, Arithmetic, Fanout, LevelKind, Links, Ports, StorageLevel
from codesign.arch.dram import effective_bandwidth
from codesign.arch.technology import apply_technology
from codesign.arch.technology_files import load_technology
from spaces.design import DesignSpace
from spaces.parameters import Categorical, Condition, Ordinal, PowerOfTwo, Value
from spaces.scratchpad import DATAFLOWS, add_dma
from spaces.space import Space

GIGATRANSFERS = {"lpddr4": 3.2, "ddr4": 2.4, "hbm2": 2.0}
"""Beats of a data pin per nanosecond: LPDDR4-3200 (JEDEC JESD209-4), DDR4-2400 (JESD79-4), HBM2 (JESD235)."""

BURST_OVERHEAD_NS = 13.75
"""Time a burst waits before its first beat: opening a row, tRCD of DDR4-2400 (JEDEC JESD79-4)."""

HBM_CHANNEL_BITS = 64

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
        table = load_technology(str(point["technology"]))
        clock_hz = float(point["clock_mhz"]) * 1e6
        device, beats = str(point["dram"]), int(point["burst_beats"])
        bus_bits = HBM_CHANNEL_BITS if device == "hbm2" else int(point["bus_bits"])
        count = int(point["pseudo_channels"] if device == "hbm2" else point["channels"])
        overhead = BURST_OVERHEAD_NS * GIGATRANSFERS[device]
        per_beat = effective_bandwidth(bus_bits // 8, beats, overhead)
        words = count * per_beat * GIGATRANSFERS[device] * 1e9 / clock_hz * 8 / self.bits
        name = str(point["technology"])
        local = (
            str(point["local_kind"]),
            int(point["local_bytes"]),
            int(point["local_word_bits"]),
            str(point["dataflow"]),
        )
        scratchpad = _scratchpad(
            name, int(point["scratchpad_kib"]), int(point["banks"]), int(point["scratchpad_word_bits"])
        )
        fanout = Fanout(int(point["pe_cols"]), int(point["pe_rows"]), Links(point["links"]))
        levels = (
            StorageLevel(
                "DRAM",
                LevelKind.DRAM,
                word_bits=self.bits,
                read_bandwidth_words_per_cycle=words,
                write_bandwidth_words_per_cycle=words,
                ports=Ports.SHARED,
            ),
            replace(scratchpad, fanout=fanout),
            _local(name, *local),
        )
        plain = Architecture("wide", levels, Arithmetic(bits=self.bits), clock_hz)
        burst_bytes = bus_bits // 8 * beats
        filled = apply_technology(plain, table, dram=device, dram_burst_bytes=burst_bytes)
        return add_dma(filled, table, bus_bits * count, burst_bytes)


@cache
def _scratchpad(technology: str, kib: int, banks: int, word_bits: int) -> StorageLevel:
    """A scratchpad with its figures; made once, for many designs share it."""
    level = StorageLevel(
        "Scratchpad",
        capacity_bytes=kib * 1024.0,
        word_bits=word_bits,
        banks=banks,
        read_bandwidth_words_per_cycle=float(banks),
        write_bandwidth_words_per_cycle=float(banks),
    )
    return _filled(level, technology)


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
