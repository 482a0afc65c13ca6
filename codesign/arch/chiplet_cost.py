"""What a system of dies costs to make, in USD (docs/explanation/many-cores.md, rules M41 to M47).

Figures and formulas: Gemini (HPCA 2024), which takes yields as negative binomial and packages from Chiplet Actuary
(DAC 2022). Two faults of its release are mended here unless they are asked for: its silicon interposer is free, and a
single die pays for no input and output.
"""

from dataclasses import dataclass
from itertools import product
from math import pi, sqrt

import numpy as np

from codesign.arch.core_kinds import kind_counts, kinds_of, record_of, whole_architecture
from codesign.arch.core_network import link_table
from codesign.arch.many_core import ManyCore
from codesign.arch.provenance import Origin, Provenance
from codesign.core.errors import UserError, unknown_name
from codesign.core.json_types import JsonObject

SRAM_UM2_PER_BYTE = 0.0964 * 8
MAC_UM2 = 57.9
VECTOR_MACS = 8.0
"""MACs that an operation of the vector unit takes the area of."""
ROUTER_UM2_PER_WORD = 16781.312
ROUTER_PORTS = 5
"""Ports of the router whose area the release gives."""
WIRE_PITCH_UM = {12: 0.28 * 12 / 45, 7: 0.28 * 7 / 45}
"""Of the repeated wires of `technologies/cmos.yaml`, scaled as there."""
CORE_OVERHEAD = 2.2
SCALE_7_NM = 0.7
PLACEMENT = 1.05 * 1.05
"""Area of a die over that of its parts."""
IO_UM2_PER_WORD = 204187.0
PHY_UM2_PER_128_WORDS = 3e6
WAFER_USD = {7: 9346.0, 12: 5992.0}
DEFECTS_PER_CM2 = {7: 0.09, 12: 0.08}
CLUSTERING = 10
IO_DIES = 4
DRAM_USD_PER_WORD = 3.5 / 32
INTERFACE_UM2 = {
    ("USR", 12): 960.816 * 1339.008 / 56,
    ("USR", 7): 19307.0,
    ("XSR", 12): 960.816 * 1339.008 / 112,
    ("XSR", 7): 9653.0,
}
"""Area of an interface between dies, um2 for each word a cycle and core at the border."""
UCIE_UM2 = {"SI": 1055.0, "FO": 1584.0, "OS": 6896.0}


@dataclass(frozen=True)
class _Carrier:
    """What dies are bonded to: wafer price, defects, clustering, bond yield, area over that of the dies."""

    wafer_usd: float
    defects_per_cm2: float
    clustering: int
    bond_yield: float
    area: float


CARRIERS = {"FO": _Carrier(1200.0, 0.05, 3, 0.98, 1.2), "SI": _Carrier(1937.0, 0.06, 6, 0.95, 1.1)}
"""Fan-out and silicon interposers; the latter's wafer is one of 55 nm."""


@dataclass(frozen=True)
class MoneyRules:
    """Which faults of the release are kept.

    Args:
        free_interposer: A silicon interposer's wafer costs nothing.
        single_die_without_io: A single die pays for no input and output.
    """

    free_interposer: bool = False
    single_die_without_io: bool = False


GEMINI_MONEY = MoneyRules(True, True)


@dataclass(frozen=True)
class Money:
    """Areas and costs of a system.

    Attributes:
        core_area_um2: Of a core with its router, the mean of several kinds.
        die_interface_um2: Of the interfaces between dies on one die.
        compute_die_mm2: Of a die with cores.
        io_mm2: Of all input and output dies.
        total_mm2: Of all of them.
        chip_usd: Of the dies.
        package_usd: Of the package.
        dram_usd: Of the memories.
    """

    core_area_um2: float
    die_interface_um2: float
    compute_die_mm2: float
    io_mm2: float
    total_mm2: float
    chip_usd: float
    package_usd: float
    dram_usd: float

    @property
    def overall_usd(self) -> float:
        """US dollars of dies, package and memories together."""
        return self.chip_usd + self.package_usd + self.dram_usd


def gross_dies(area_mm2: float) -> float:
    """Dies of a wafer of 300 mm, with an edge of 5 mm and scribe lines of 0.2 mm (rule M43)."""
    with_scribe = area_mm2 + 0.4 * sqrt(area_mm2) + 0.04
    return pi * 145**2 / with_scribe - pi * 290 / sqrt(2 * with_scribe)


def die_yield(area_mm2: float, defects_per_cm2: float, clustering: int) -> float:
    """Share of good dies, negative binomial (rule M43)."""
    return float((1 + defects_per_cm2 / 100 * area_mm2 / clustering) ** -clustering)


def switch_um2(system: ManyCore, ports: int) -> float:
    """Area of a switch: that of the release's router of five ports, by crosspoints (rule M47)."""
    return system.links.words_per_cycle * ROUTER_UM2_PER_WORD * (ports / ROUTER_PORTS) ** 2


def router_ports(system: ManyCore) -> int:
    """Ports of the router of a core: five on a mesh as the release has it, else those of the core with most links; 0 beside a crossbar."""
    if system.network.topology == "mesh":
        return ROUTER_PORTS
    if system.network.topology == "crossbar":
        return 0
    table = link_table(system.network, system.grid)
    return 1 + int(np.bincount(table.start).max(initial=0))


def core_areas_um2(system: ManyCore) -> tuple[float, ...]:
    """Area of a core of each kind with its router (rules M41, M47, M126).

    An architecture has the area of its own technology table, without its DRAM.

    Raises:
        UserError: A part of an architecture has no area.
    """
    scale = SCALE_7_NM if system.technology_nm == 7 else 1.0
    router = switch_um2(system, router_ports(system))
    found = []
    for kind in kinds_of(system):
        core = record_of(kind)
        if kind.architecture is None:
            elements = core.elements_a * core.elements_o
            small = core.inputs.bytes + core.weights.bytes + core.sums.bytes
            sram = (core.big.bytes + elements * small) * SRAM_UM2_PER_BYTE
            macs = (core.macs + core.vector_unit_macs * VECTOR_MACS) * MAC_UM2
            found.append((sram + macs + router) * scale * CORE_OVERHEAD)
            continue
        own = whole_architecture(kind).area_mm2
        if own is None:
            raise UserError("a level or the MAC has no area", where=f"kind {kind.name!r}", hint="name a technology")
        beside = core.vector_unit_macs * VECTOR_MACS * MAC_UM2 + router
        found.append(own * 1e6 + beside * scale * CORE_OVERHEAD)
    return tuple(found)


def core_area_um2(system: ManyCore) -> float:
    """Area of a core with its router, the mean over all cores where they are of several kinds (rule M41)."""
    areas, counts = core_areas_um2(system), kind_counts(system)
    return areas[0] if len(areas) == 1 else sum(a * n for a, n in zip(areas, counts, strict=True)) / system.cores


def shared_network_um2(system: ManyCore) -> float:
    """Area on one die of a crossbar's switch, and of wires longer than the distance of two cores (rule M47)."""
    if system.network.topology == "mesh":
        return 0.0
    table, scale = link_table(system.network, system.grid), SCALE_7_NM if system.technology_nm == 7 else 1.0
    hub = system.network.topology == "crossbar"
    switch = switch_um2(system, len(table.start) // 2) * scale * CORE_OVERHEAD if hub else 0.0
    pitches = int(table.pitches[table.pitches > 1].sum())
    side_um = sqrt(core_area_um2(system) + switch / system.cores)
    wires = 8 * system.links.words_per_cycle * WIRE_PITCH_UM[system.technology_nm] * side_um * pitches
    return (switch + wires) / system.dies.count


def die_edges(system: ManyCore) -> int:
    """Pairs of links that leave a die with cores: on a mesh as the release counts them, else those of the die with most."""
    n = system.dies.count
    wide, high = system.width // system.dies.x, system.height // system.dies.y
    if n == 1:
        return 0
    if system.network.topology == "mesh":
        return 2 * high if n == 2 else 2 * (wide + high)
    table, grid = link_table(system.network, system.grid), system.grid
    found = np.zeros((system.dies.x + 2, system.dies.y), np.int64)
    for a, b in zip(table.start, table.end, strict=True):
        (ax, ay), (bx, by) = grid.where(int(a)), grid.where(int(b))
        i, j, k, m = ax // wide, ay // high, bx // wide, by // high
        for at in range(min(i, k), max(i, k)):  # a long link has an interface on either side of every border
            found[at + 1, j] += 1
            found[at + 2, j] += 1
        for at in range(min(j, m), max(j, m)):
            found[i + 1, at] += 1
            found[i + 1, at + 1] += 1
    return int(found[1:-1].max()) // 2


def _interface_um2(system: ManyCore) -> float:
    dies = system.dies
    if dies.interface == "UCIe":
        if dies.package not in UCIE_UM2:
            raise unknown_name("package", dies.package, UCIE_UM2, where=f"system {system.name!r}")
        return UCIE_UM2[dies.package]
    key = (dies.interface, system.technology_nm)
    if key not in INTERFACE_UM2:
        known = sorted({"UCIe", *(name for name, _ in INTERFACE_UM2)})
        raise unknown_name("interface between dies", dies.interface, known, where=f"system {system.name!r}")
    return INTERFACE_UM2[key]


def system_provenance(system: ManyCore) -> JsonObject:
    """What reports say of a system's energies, which its file gives, and of its areas, which rule M41 has from Gemini's release."""
    kind = Provenance.SCALED if system.technology_nm == 7 else Provenance.PUBLISHED
    dies = Origin("dies", kind, "Gemini (HPCA 2024), constants of its release at 12 nm", 12.0)
    return {"area": kind.value, "energy": "given", "parts": {dies.part: dies.to_json()}}


def money(system: ManyCore, rules: MoneyRules | None = None) -> Money:
    """Areas and costs of a system (rules M41 to M47).

    Args:
        system: The machine.
        rules: Faults to keep; None for none.

    Raises:
        UserError: Its technology, package or interface is not in the tables.
    """
    rules = rules or MoneyRules()
    if system.technology_nm not in WAFER_USD:
        known = ", ".join(map(str, WAFER_USD))
        raise UserError(f"costs are known for {known} nm, got {system.technology_nm}", where=f"system {system.name!r}")
    n, area = system.dies.count, core_area_um2(system)
    wide, high = system.width // system.dies.x, system.height // system.dies.y
    border = _interface_um2(system) * system.dies.words_per_cycle
    edges = die_edges(system)
    words = system.memories.words_per_cycle_each * len(system.memories.ports)
    io_um2 = words * IO_UM2_PER_WORD + PHY_UM2_PER_128_WORDS * words / 128
    io = (io_um2 + (border * system.height * 2 if n > 1 else 0.0)) * PLACEMENT / 1e6
    beside = shared_network_um2(system) + edges * border
    die = (area * wide * high + beside) * PLACEMENT / 1e6
    chips = [*_compute_dies(system, die, beside), (io / IO_DIES, IO_DIES)] if n > 1 else [(die, 1)]
    if n == 1 and not rules.single_die_without_io:
        chips = [(die + io, 1)]
    chip_usd, package_usd = _chips_and_package(system, chips, rules)
    return Money(area, edges * border, die, io, die * n + io, chip_usd, package_usd, words * DRAM_USD_PER_WORD)


def _compute_dies(system: ManyCore, mean_mm2: float, beside_um2: float) -> list[tuple[float, int]]:
    """Areas of dies with cores, and how many are alike: dies hold different kinds of cores (rule M126)."""
    dies = system.dies
    if not system.kinds:
        return [(mean_mm2, dies.count)]
    wide, high = system.width // dies.x, system.height // dies.y
    area = dict(zip((kind.name for kind in kinds_of(system)), core_areas_um2(system), strict=True))
    found: dict[float, int] = {}
    for i, j in product(range(dies.x), range(dies.y)):
        rows = [row[i * wide : (i + 1) * wide] for row in system.places[j * high : (j + 1) * high]]
        mm2 = (sum(area[name] for row in rows for name in sorted(row)) + beside_um2) * PLACEMENT / 1e6
        found[round(mm2, 9)] = found.get(round(mm2, 9), 0) + 1
    return sorted(found.items())


def _chips_and_package(system: ManyCore, chips: list[tuple[float, int]], rules: MoneyRules) -> tuple[float, float]:
    """Cost of the dies, and of the package with what its losses waste (rules M43 to M45)."""
    package, nm = system.dies.package, system.technology_nm
    bump = 0.005 if package == "OS" else 0.01
    wafer, defects = WAFER_USD[nm], DEFECTS_PER_CM2[nm]
    usd = 0.0
    for area, count in chips:
        usd += (wafer / (gross_dies(area) * die_yield(area, defects, CLUSTERING)) + area * bump) * count
    number, total = sum(count for _, count in chips), sum(area * count for area, count in chips)
    if package == "OS":
        substrate = total * 4
        layers = 1.0 if number == 1 else 2.0 if substrate > 900 else 1.75 if substrate > 289 else 1.5
        lost = 1 / 0.99**number - 1
        return usd, substrate * 0.005 * layers * (1 + lost) + usd * lost
    if package not in CARRIERS:
        raise unknown_name("package", package, ("OS", *CARRIERS), where=f"system {system.name!r}")
    carrier = CARRIERS[package]
    price = 0.0 if package == "SI" and rules.free_interposer else carrier.wafer_usd
    area = total * carrier.area
    interposer, substrate_usd = price / gross_dies(area) + area * 0.005, area * 4 * 0.005
    good = die_yield(area, carrier.defects_per_cm2, carrier.clustering)
    bonded, last = carrier.bond_yield**number, 0.99
    lost = interposer * (1 / (good * bonded * last) - 1) + substrate_usd * (1 / last - 1)
    return usd, interposer + substrate_usd + lost + usd * (1 / (bonded * last) - 1)
