"""A scratchpad accelerator with HASCO's six hardware primitives as modelled parameters.

One PE array fed from one shared, banked scratchpad; every PE has a local memory; a DMA engine fetches from
DRAM in bursts. The primitives are those of HASCO (Xiao et al., ISCA 2021, Table I); what each one changes is
written as formulas H1-H7 in docs/reference/hardware-space.md:

| primitive | parameter | acts on |
|---|---|---|
| reshapeArray | ``pe_rows``, ``pe_cols`` | fan-out under the scratchpad, MAC and local memory area |
| linkPEs | ``links`` | reads of equal words, spatial reduction, hop energy, wire area |
| addCache | ``scratchpad_kib`` | tiles that fit; energy, area, leakage of the scratchpad |
| distributeCache | ``local_bytes`` | tiles that fit in a PE; its energy, area, leakage |
| partitionBanks | ``banks`` | words per cycle of the scratchpad; energy, area, leakage |
| burstTransfer | ``burst_beats``, ``bus_bits`` | DRAM bandwidth and energy; area of the DMA engine |
| (dataflow) | ``dataflow`` | which tensors the local memory keeps |
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from codesign.arch.architecture import (
    AccessEnergy,
    Architecture,
    Arithmetic,
    Fanout,
    Links,
    StorageLevel,
)
from codesign.arch.dram import effective_bandwidth
from codesign.arch.technology import (
    Technology,
    apply_technology,
    dma_area_mm2,
    dma_energy_pj_per_bit,
    dma_leakage_mw,
    netlist_dma_area_mm2,
)
from codesign.arch.technology_files import load_technology
from spaces.design import DesignSpace
from spaces.levels import dram_level, scratchpad_level
from spaces.parameters import Categorical, Ordinal, PowerOfTwo, Value
from spaces.space import Space

BURST_OVERHEAD_CYCLES = 14.0
"""Cycles a burst waits before its first beat: opening a row, tRCD = 13.75 ns of DDR4-2400 (JEDEC JESD79-4), at 1 GHz."""

SCRATCHPAD_WORD_BITS = 64
"""One access of one bank."""

LOCAL_WORD_BITS = 32
"""One access of a PE's local memory: a partial sum and its guard bits."""

DATAFLOWS: dict[str, frozenset[str]] = {
    "weight-stationary": frozenset({"weight"}),
    "output-stationary": frozenset({"output"}),
    "input-stationary": frozenset({"input"}),
    "row-stationary": frozenset({"input", "weight", "output"}),
}
"""What the local memory of a PE keeps; the other tensors come from the scratchpad every cycle."""


@dataclass(frozen=True)
class ScratchpadBuilder:
    """Makes the architecture of one design.

    Args:
        technology: Name of the table that gives energies and areas.
        clock_hz: Cycles per second.
        bits: Width of an operand.
    """

    technology: str = "cmos-22nm"
    clock_hz: float = 1e9
    bits: int = 8

    @property
    def parts(self) -> Mapping[str, tuple[tuple[str, ...], ...]]:
        """Which parameters each part depends on; interconnect and DMA engine add up."""
        logic: tuple[tuple[str, ...], ...] = (
            ("pe_rows", "pe_cols", "links", "local_bytes", "dataflow"),
            ("burst_beats", "bus_bits"),
        )
        if load_technology(self.technology).netlists is not None:  # lines and addresses are in all logic
            logic = (("pe_rows", "pe_cols", "links", "local_bytes", "dataflow", "scratchpad_kib", "banks", "bus_bits"),)
        return {
            "DRAM": (("burst_beats", "bus_bits"),),
            "Scratchpad": (("scratchpad_kib", "banks"),),
            "Scratchpad.fanout": (("pe_rows", "pe_cols", "links", "local_bytes"),),
            "Local": (("local_bytes", "dataflow"),),
            "extra": logic,
        }

    def __call__(self, point: Mapping[str, Value]) -> Architecture:
        """The architecture of a design of `SCRATCHPAD.space`."""
        table = load_technology(self.technology)
        bus_bytes, beats = int(point["bus_bits"]) // 8, int(point["burst_beats"])
        bandwidth = effective_bandwidth(bus_bytes, beats, BURST_OVERHEAD_CYCLES)  # H6
        levels = (
            dram_level(self.bits, bandwidth * 8 / self.bits),
            scratchpad_level(
                int(point["scratchpad_kib"]),
                int(point["banks"]),
                SCRATCHPAD_WORD_BITS,
                Fanout(int(point["pe_cols"]), int(point["pe_rows"]), Links(point["links"])),
            ),
            StorageLevel(
                "Local",
                capacity_bytes=float(int(point["local_bytes"])),
                word_bits=LOCAL_WORD_BITS,
                keep=DATAFLOWS[str(point["dataflow"])],
            ),
        )
        plain = Architecture("scratchpad", levels, Arithmetic(bits=self.bits), self.clock_hz)
        filled = apply_technology(plain, table, dram_burst_bytes=bus_bytes * beats)
        return add_dma(filled, table, int(point["bus_bits"]), bus_bytes * beats)


def add_dma(architecture: Architecture, table: Technology, bus_bits: int, burst_bytes: int) -> Architecture:
    """The architecture with the DMA engine's area, leakage, and energy per word moved (H7)."""
    dram = architecture.levels[0]
    assert dram.energy is not None
    extra = dma_energy_pj_per_bit(table) * dram.word_bits
    energy = AccessEnergy(dram.energy.read_pj + extra, dram.energy.fill_pj + extra, dram.energy.update_pj + extra)
    with_energy = architecture.with_level(dram.name, energy=energy)
    area_mm2, leakage_mw = dma_area_mm2(table, bus_bits, burst_bytes), dma_leakage_mw(table, bus_bits, burst_bytes)
    synthesised_mm2 = netlist_dma_area_mm2(table, architecture, bus_bits)
    if synthesised_mm2 is not None:
        area_mm2, leakage_mw = synthesised_mm2, synthesised_mm2 * table.registers.leakage_nw_per_um2
    return replace(
        with_energy,
        extra_area_mm2=architecture.extra_area_mm2 + area_mm2,
        extra_leakage_mw=architecture.extra_leakage_mw + leakage_mw,
    )


SCRATCHPAD = DesignSpace(
    name="scratchpad",
    space=Space(
        [
            PowerOfTwo("pe_rows", 4, 64),
            PowerOfTwo("pe_cols", 4, 64),
            Categorical("links", [links.value for links in (Links.NONE, Links.SYSTOLIC, Links.MULTICAST)]),
            PowerOfTwo("scratchpad_kib", 32, 4096),
            Ordinal("local_bytes", [64, 128, 256, 512, 1024, 2048]),
            PowerOfTwo("banks", 1, 32),
            PowerOfTwo("burst_beats", 4, 64),
            PowerOfTwo("bus_bits", 32, 512),
            Categorical("dataflow", list(DATAFLOWS)),
        ],
        presets=[
            {
                "pe_rows": 16,
                "pe_cols": 16,
                "links": "systolic",
                "scratchpad_kib": 256,
                "local_bytes": 64,
                "banks": 4,
                "burst_beats": 16,
                "bus_bits": 128,
                "dataflow": "weight-stationary",
            },
        ],
    ),
    builder=ScratchpadBuilder(),
)
"""The space `codesign explore --space scratchpad` searches: about 1.3 million designs."""

SCRATCHPAD_NETLIST = DesignSpace(
    name="scratchpad-netlist", space=SCRATCHPAD.space, builder=ScratchpadBuilder("netlist-fitted-22nm")
)
"""The same designs with the logic's areas fitted to synthesised netlists (N1 to N7)."""

SCRATCHPAD_BUILT = DesignSpace(
    name="scratchpad-built", space=SCRATCHPAD.space, builder=ScratchpadBuilder(), partial_bits=32
)
"""The same designs with sums of 32 bits on chip, as `codesign build` generates them: their trials are built as they stand."""
