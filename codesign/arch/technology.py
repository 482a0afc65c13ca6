"""What hardware costs to build and to use: a technology table, and filling an architecture's figures from it.

Formulas, constants and their sources are in docs/reference/technology.md, by the letters used here.
"""

import math
from dataclasses import dataclass, replace

from codesign.arch.architecture import (
    AccessEnergy,
    Architecture,
    Arithmetic,
    Fanout,
    LevelKind,
    Links,
    StorageLevel,
)
from codesign.arch.dram import REFERENCE_BURST_BYTES, DramType, dram_energy_pj_per_bit
from codesign.arch.logic import ArithmeticTable, Registers, Wires, accumulator_bits, mac_area_mm2, mac_energy_pj
from codesign.arch.netlists import OPERAND_BITS, ROLES, NetlistAreas, array_level, logic_shape
from codesign.arch.provenance import Origin
from codesign.arch.sram import SramModel
from codesign.core.errors import UserError, unknown_name

DMA_CONTROL_GATES = 25_000
"""Control of a DMA engine, in two-input NANDs. An assumption: the order of size of published engines (T. Benz et al., "A
High-performance, Energy-efficient Modular DMA Engine Architecture", IEEE Trans. Computers 73(1), 2024)."""


@dataclass(frozen=True)
class Technology:
    """Energies, leakages and areas of one CMOS node, and of the DRAM types beside it.

    Args:
        name: A label; the architecture it fills carries it.
        node_nm: Node everything but DRAM is scaled to.
        sram: Memories.
        arithmetic: Adders and multipliers.
        registers: Flip-flops, multiplexers, gates.
        wires: Interconnect.
        dram: Known types.
        default_dram: The type taken when none is asked for.
        netlists: Areas of logic fitted to synthesised netlists; without them logic is counted by A2, W2, B1 and D4.
        origins: Where each part's figures come from (T4).
    """

    name: str
    node_nm: float
    sram: SramModel
    arithmetic: ArithmeticTable
    registers: Registers
    wires: Wires
    dram: tuple[DramType, ...]
    default_dram: str
    netlists: NetlistAreas | None = None
    origins: tuple[Origin, ...] = ()

    def __post_init__(self) -> None:
        self.dram_type(self.default_dram)

    def dram_type(self, name: str | None = None) -> DramType:
        """The DRAM type of that name, or the default one.

        Raises:
            UserError: There is none.
        """
        wanted = self.default_dram if name is None else name
        for dram in self.dram:
            if dram.name == wanted:
                return dram
        raise unknown_name("DRAM type", wanted, [d.name for d in self.dram], where=f"technology {self.name!r}")


def apply_technology(
    architecture: Architecture,
    technology: Technology,
    *,
    dram: str | None = None,
    dram_burst_bytes: int = REFERENCE_BURST_BYTES,
    interconnect: bool = True,
) -> Architecture:
    """The architecture with every figure it leaves open filled in; figures it gives stay.

    Reads take the read energy, fills and updates the write energy: an update is the writing alone, reading the old
    partial sum is counted as a read by the cost model.

    Args:
        architecture: Levels and MACs with or without energies, areas, leakages.
        technology: The table.
        dram: DRAM type; the technology's default if not given.
        dram_burst_bytes: Bytes a burst moves, over which opening a row is spread.
        interconnect: Whether fan-outs without a hop energy get one, and their wires and registers an area.

    Raises:
        UserError: An on-chip level has no capacity, or the DRAM type is unknown.
    """
    bit_pj = dram_energy_pj_per_bit(technology.dram_type(dram), dram_burst_bytes)
    mac = _fill_mac(architecture.mac, technology)
    try:
        levels = tuple(_fill_level(level, technology, bit_pj) for level in architecture.levels)
    except UserError as error:
        raise error.within(f"architecture {architecture.name!r}") from None
    filled = replace(architecture, levels=levels, mac=mac, technology=technology.name)
    if technology.netlists is not None:
        filled = _with_netlist_crossbar(architecture, filled, technology, technology.netlists)
    return _add_interconnect(filled, technology) if interconnect else filled


def _nand2_mm2(technology: Technology, nand2: float) -> float:
    """So many two-input NANDs at the node."""
    return 1e-6 * nand2 * technology.registers.gate_area_um2


def _with_netlist_crossbar(
    given: Architecture, filled: Architecture, technology: Technology, areas: NetlistAreas
) -> Architecture:
    """The memory above the array with the netlists' crossbar (N3) instead of B1, where its area or leakage was left open.

    B1 is wires, which have no leakage; the netlists' crossbar is gates, all of which leak.
    """
    i = array_level(filled)
    if i is None:
        return filled
    level = filled.levels[i]
    new = _nand2_mm2(technology, areas.part_nand2("crossbar", logic_shape(filled, i)))
    old = crossbar_area_mm2(technology, level.word_bits, level.banks)
    area_mm2, leakage_mw = level.area_mm2, level.leakage_mw
    if given.levels[i].area_mm2 is None:
        area_mm2 = (area_mm2 or 0.0) + new - old
    if given.levels[i].leakage_mw is None:
        leakage_mw = (leakage_mw or 0.0) + new * technology.registers.leakage_nw_per_um2
    return filled.with_level(level.name, area_mm2=area_mm2, leakage_mw=leakage_mw)


def _add_interconnect(architecture: Architecture, technology: Technology) -> Architecture:
    """Hop energies of the fan-outs that have none, with the area and leakage of their networks; inner levels first."""
    levels = list(architecture.levels)
    extra_area, extra_leakage = architecture.extra_area_mm2, architecture.extra_leakage_mw
    inner_mm2 = architecture.mac.area_mm2 or 0.0
    for i in reversed(range(len(levels))):
        level, instances = levels[i], architecture.instances[i]
        pitch_mm = math.sqrt(inner_mm2)
        inner_mm2 = (level.area_mm2 or 0.0) + level.fanout.size * inner_mm2
        hop_pj = hop_energy_pj_per_bit(technology, level.fanout.links, pitch_mm)
        if level.fanout.size == 1 or level.fanout.hop_pj_per_bit > 0.0 or hop_pj == 0.0:
            continue
        levels[i] = replace(level, fanout=replace(level.fanout, hop_pj_per_bit=hop_pj))
        bits = link_bits(architecture, i)
        registers_mm2, wires_mm2 = interconnect_area_mm2(technology, level.fanout, bits, pitch_mm)
        if technology.netlists is not None and i == array_level(architecture):
            registers_mm2 = _nand2_mm2(technology, technology.netlists.shared_nand2(logic_shape(architecture, i)))
        extra_area += instances * (registers_mm2 + wires_mm2)
        extra_leakage += instances * registers_mm2 * technology.registers.leakage_nw_per_um2
    return replace(architecture, levels=tuple(levels), extra_area_mm2=extra_area, extra_leakage_mw=extra_leakage)


def element_ratio(technology: Technology) -> float:
    """Area of an integer MAC in the netlists over that of A2 (N1): one of 8 bits is the element's constant; 1 without netlists."""
    if technology.netlists is None:
        return 1.0
    element_mm2 = _nand2_mm2(technology, technology.netlists.nand2["element"]["element"])
    return element_mm2 / mac_area_mm2(technology.arithmetic, OPERAND_BITS)


def _fill_mac(mac: Arithmetic, technology: Technology) -> Arithmetic:
    table = technology.arithmetic
    area_mm2 = mac_area_mm2(table, mac.bits) * element_ratio(technology)
    return replace(
        mac,
        energy_pj=_given(mac.energy_pj, mac_energy_pj(table, mac.bits)),
        area_mm2=_given(mac.area_mm2, area_mm2),
        leakage_mw=_given(mac.leakage_mw, area_mm2 * table.leakage_nw_per_um2),
    )


def _fill_level(level: StorageLevel, technology: Technology, dram_pj_per_bit: float) -> StorageLevel:
    if level.energy is not None and level.area_mm2 is not None and level.leakage_mw is not None:
        return level
    if level.kind is LevelKind.DRAM:
        read = write = dram_pj_per_bit * level.word_bits
        area_mm2 = leakage_mw = 0.0  # off chip; its background power is not modelled
    else:
        read, write, area_mm2, leakage_mw = _memory_figures(level, technology)
    return replace(
        level,
        energy=AccessEnergy(read, write, write) if level.energy is None else level.energy,
        area_mm2=_given(level.area_mm2, area_mm2),
        leakage_mw=_given(level.leakage_mw, leakage_mw),
    )


def _memory_figures(level: StorageLevel, technology: Technology) -> tuple[float, float, float, float]:
    if level.capacity_bytes is None:
        raise UserError(
            "an on-chip level needs `capacity_bytes` for its energy and area",
            where=f"level {level.name!r}",
            hint="give it, or `kind: dram`, or all of `energy`, `area_mm2` and `leakage_mw`",
        )
    size = level.capacity_bytes
    if level.kind is LevelKind.REGISTERS:
        registers = technology.registers
        access = registers.access_pj(size, level.word_bits)
        return access, access, registers.area_mm2(size, level.word_bits), registers.leakage_mw(size, level.word_bits)
    shape = (size, level.word_bits, level.banks)
    area_mm2 = technology.sram.area_mm2(*shape) + crossbar_area_mm2(technology, level.word_bits, level.banks)
    sram = technology.sram
    return sram.read_pj(*shape), sram.write_pj(*shape), area_mm2, sram.leakage_mw(*shape)


def _given(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value


def link_bits(architecture: Architecture, level_index: int) -> int:
    """Wires to one child of a level's fan-out (W2).

    Inputs, weights and outputs have a network each, as wide as the port they go to: the word of the next level inwards
    that keeps them, or the MAC's operand or accumulator.
    """
    mac = architecture.mac
    width = 0
    for role, mac_bits in (("input", mac.bits), ("weight", mac.bits), ("output", accumulator_bits(mac.bits))):
        inner = (v for v in architecture.levels[level_index + 1 :] if role in v.keep or not v.keep <= ROLES)
        port = next(inner, None)
        width += mac_bits if port is None else port.word_bits
    return width


def hop_energy_pj_per_bit(technology: Technology, links: Links, pitch_mm: float) -> float:
    """Energy to move a bit past one child (W1); a systolic hand-over is also latched."""
    latch = technology.registers.energy_pj_per_bit if links is Links.SYSTOLIC else 0.0
    return technology.wires.energy_pj_per_bit_mm * pitch_mm + latch


def interconnect_area_mm2(technology: Technology, fanout: Fanout, bits: int, pitch_mm: float) -> tuple[float, float]:
    """Area of the network below one instance: (registers, wires). Formula W2.

    Args:
        technology: The table.
        fanout: Children and links.
        bits: Wires to one child.
        pitch_mm: Side of one child.
    """
    children = fanout.size
    if children == 1:
        return 0.0, 0.0
    bus = fanout.links is not Links.SYSTOLIC
    stages = 2 if fanout.links in (Links.SYSTOLIC, Links.PEER) else 1
    tag_bits = math.ceil(math.log2(children)) if fanout.links in (Links.MULTICAST, Links.PEER) else 0
    # a bus is one row of wires along X per Y and a trunk along Y; neighbours are one pitch apart
    lengths = (children + fanout.y if bus else 0) + (children if stages == 2 else 0)
    register_mm2 = technology.registers.area_um2_per_bit * 1e-6
    registers_mm2 = children * (stages * bits + 2 * tag_bits) * register_mm2
    return registers_mm2, lengths * pitch_mm * bits * technology.wires.pitch_um * 1e-3


def crossbar_area_mm2(technology: Technology, word_bits: int, banks: int) -> float:
    """Area of the crossbar that lets every bank serve a word in the same cycle (formula B1).

    ``(banks * word_bits * pitch)^2``: as many wires across as along (J. Balfour and W. J. Dally, "Design tradeoffs
    for tiled CMP on-chip networks", ICS 2006). One bank needs none.
    """
    if banks == 1:
        return 0.0
    return float((banks * word_bits * technology.wires.pitch_um * 1e-3) ** 2)


def dma_area_mm2(technology: Technology, bus_bits: int, burst_bytes: int) -> float:
    """Area of a DMA engine (formula D4): two bursts of buffer, two stages of the bus, control.

    Args:
        technology: The table.
        bus_bits: Width of the bus to DRAM.
        burst_bytes: Longest burst.
    """
    bits = 2 * 8 * burst_bytes + 2 * bus_bits
    registers = technology.registers
    return 1e-6 * (bits * registers.area_um2_per_bit + DMA_CONTROL_GATES * registers.gate_area_um2)


def dma_leakage_mw(technology: Technology, bus_bits: int, burst_bytes: int) -> float:
    """Static power of a DMA engine: its area times the leakage of logic (D4)."""
    return dma_area_mm2(technology, bus_bits, burst_bytes) * technology.registers.leakage_nw_per_um2


def netlist_dma_area_mm2(technology: Technology, architecture: Architecture, bus_bits: int) -> float | None:
    """Area of both DMA engines as netlists have them (N4); None without netlists or without an array."""
    i = array_level(architecture)
    if technology.netlists is None or i is None:
        return None
    return _nand2_mm2(technology, technology.netlists.dma_nand2(logic_shape(architecture, i, bus_bits)))


def dma_energy_pj_per_bit(technology: Technology) -> float:
    """Energy a bit costs in a DMA engine (D4): written to the burst buffer and read from it."""
    return 2 * technology.registers.energy_pj_per_bit
