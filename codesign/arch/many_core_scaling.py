"""Systems of many cores derived from others: sizes, ports, links between dies.

* M71: One controller has ports on both sides of the mesh, two a side each, four half a side each.
* M72: The energy of a word of a buffer goes as the square root of its capacity.
* M73: The energy of a word between dies is in a table of Gemini's figures, by interface, package and node.
* M74: The areas of buffers, elements, MACs and the rest add up to that of all dies.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import sqrt
from typing import Any

from codesign.arch.architecture import AccessEnergy, Architecture, Arithmetic, Fanout, LevelKind, Ports, StorageLevel
from codesign.arch.chiplet_cost import (
    CORE_OVERHEAD,
    MAC_UM2,
    PLACEMENT,
    SCALE_7_NM,
    SRAM_UM2_PER_BYTE,
    money,
)
from codesign.arch.core_kinds import kind_counts, kinds_of
from codesign.arch.many_core import Buffer, ManyCore
from codesign.core.errors import UserError, unknown_name

DIE_HOP_PJ_PER_WORD = {
    ("USR", "OS"): {12: 2.4 * 8, 7: 1.7 * 8},
    ("USR", "FO"): {12: 2.4 * 8, 7: 1.7 * 8},
    ("USR", "SI"): {12: 2.4 * 8, 7: 1.7 * 8},
    ("UCIe", "SI"): {12: 0.3 * 8, 7: 0.3 * 8},
    ("UCIe", "FO"): {12: 0.6 * 8, 7: 0.6 * 8},
    ("UCIe", "OS"): {12: 1.0 * 8, 7: 1.0 * 8},
}
"""Energy of a word of 8 bits over a link between dies, by interface, package and node: figures of Gemini's release."""

CONTROLLERS = (1, 2, 4)
"""Numbers of DRAM controllers that have places of their own."""

BUFFERS = ("inputs", "weights", "sums", "outputs", "big")


def edge_ports(width: int, height: int, controllers: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Ports of controllers beside the mesh, those of one controller next to each other (rule M71).

    One controller has all ports of both sides, two have a side each, four have half a side each.

    Raises:
        UserError: Another number of controllers, or four of them beside an odd number of rows.
    """
    if controllers not in CONTROLLERS:
        raise UserError(f"`controllers` must be 1, 2 or 4, got {controllers}", where="memories")
    west = tuple((-1, y) for y in range(height))
    east = tuple((width, y) for y in range(height))
    if controllers == 1:
        return (west + east,)
    if controllers == 2:
        return west, east
    if height % 2:
        raise UserError(
            f"4 controllers need an even number of rows, got {height}", where="memories", hint="`controllers: 2`"
        )
    half = height // 2
    return west[:half], west[half:], east[:half], east[half:]


def scaled_buffer(buffer: Buffer, size_bytes: int) -> Buffer:
    """A buffer of another size: energy of a word as the square root of the capacity (rule M72)."""
    factor = sqrt(size_bytes / buffer.bytes)
    return Buffer(size_bytes, buffer.read_pj * factor, buffer.write_pj * factor)


def die_hop_pj(interface: str, package: str, technology_nm: int) -> float:
    """Energy of a word over a link between dies (rule M73).

    Raises:
        UserError: It is not known for this interface, package or node.
    """
    known = {f"{i} {p}": by_node for (i, p), by_node in DIE_HOP_PJ_PER_WORD.items()}
    name = f"{interface} {package}"
    if name not in known:
        raise unknown_name("interface and package", name, known, where="energy of links between dies")
    if technology_nm not in known[name]:
        raise UserError(f"energies of links between dies are known for 12 and 7 nm, got {technology_nm}")
    return known[name][technology_nm]


def fitting_stride(width: int, dies_x: int) -> int:
    """Columns of a stripe of the mesh order: those of a die, or half the mesh where a row is one die (rule M3)."""
    if dies_x > 1:
        return width // dies_x
    return width // 2 if width % 2 == 0 else width


def with_sizes(system: ManyCore, sizes: Mapping[str, int]) -> ManyCore:
    """A system whose cores of the first kind have buffers of other sizes, by name of the buffer, with energies scaled."""
    buffers = {name: scaled_buffer(getattr(system.core, name), size) for name, size in sizes.items()}
    changed: Mapping[str, Any] = buffers
    return replace(system, core=replace(system.core, **changed))


def architecture_of(system: ManyCore) -> Architecture:
    """A system as levels of storage with areas, for reports: their sum is the area of all dies (rule M74)."""
    core, cost = system.core, money(system)
    scale = (SCALE_7_NM if system.technology_nm == 7 else 1.0) * CORE_OVERHEAD * PLACEMENT / 1e6
    elements = core.elements_a * core.elements_o
    local_bytes = core.inputs.bytes + core.weights.bytes + core.sums.bytes
    means = _mean_core_parts(system)
    big, local = means[0] * SRAM_UM2_PER_BYTE * scale, means[1] / elements * SRAM_UM2_PER_BYTE * scale
    mac = means[2] / core.macs * MAC_UM2 * scale
    counted = system.cores * (big + elements * local + core.macs * mac)
    dram = system.memories.words_per_cycle_each * len(system.memories.ports)
    levels = (
        StorageLevel(
            "DRAM",
            LevelKind.DRAM,
            word_bits=8,
            read_bandwidth_words_per_cycle=float(dram),
            write_bandwidth_words_per_cycle=float(dram),
            ports=Ports.SHARED,
            energy=_words(system.memories.pj_per_word, system.memories.pj_per_word),
            fanout=Fanout(system.width, system.height, hop_pj_per_bit=system.links.pj_per_word_hop / 8),
        ),
        StorageLevel(
            "BUF",
            capacity_bytes=float(core.big.bytes),
            word_bits=8,
            energy=_words(core.big.read_pj, core.big.write_pj),
            area_mm2=big,
            leakage_mw=0.0,
            fanout=Fanout(core.elements_a, core.elements_o),
        ),
        StorageLevel(
            "PE",
            capacity_bytes=float(local_bytes),
            word_bits=8,
            energy=_words(core.inputs.read_pj, core.inputs.write_pj),
            area_mm2=local,
            leakage_mw=0.0,
            fanout=Fanout(core.vector, core.lanes),
        ),
    )
    arithmetic = Arithmetic(bits=8, energy_pj=core.mac_pj, area_mm2=mac, leakage_mw=0.0)
    return Architecture(
        system.name, levels, arithmetic, system.clock_ghz * 1e9, extra_area_mm2=cost.total_mm2 - counted
    )


def _mean_core_parts(system: ManyCore) -> tuple[float, float, float]:
    """Bytes of big and small buffers and MACs of a core, means over all records; architectures count as other area (rule M126)."""
    big, small, macs = 0.0, 0.0, 0.0
    for kind, count in zip(kinds_of(system), kind_counts(system), strict=True):
        core = kind.core
        if core is not None:
            share = count / system.cores
            big += share * core.big.bytes
            small += (
                share * core.elements_a * core.elements_o * (core.inputs.bytes + core.weights.bytes + core.sums.bytes)
            )
            macs += share * core.macs
    return big, small, macs


def _words(read_pj: float, write_pj: float) -> AccessEnergy:
    return AccessEnergy(read_pj, write_pj, write_pj)
