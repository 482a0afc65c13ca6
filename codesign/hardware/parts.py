"""The logic of a machine in seven parts, each a netlist of its own: what is fitted, and what an area is compared by.

Parts do not overlap and leave nothing out but memories: `element` (one processing element), `network` (wires, sums and settings between them),
`crossbar` (the scratchpad's turns between banks), `reader` and `writer` (the DMA engines), `unit` (the array's controller and the collector),
`loops` (everything else: loader and sequencer).
"""

import math

from codesign.arch.architecture import Architecture
from codesign.arch.netlists import array_level, logic_shape
from codesign.arch.technology import crossbar_area_mm2, dma_area_mm2, interconnect_area_mm2, link_bits
from codesign.arch.technology_files import load_technology
from codesign.core.json_types import JsonObject
from codesign.hardware.parameters import Parameters
from codesign.hardware.synthesis import Synthesis

PARTS = ("element", "network", "crossbar", "reader", "writer", "unit", "loops")


def part_of(module: str, top: str) -> str:
    """The part that a module of a machine belongs to.

    Args:
        module: Its name; submodules are named after their path.
        top: Name of the machine.
    """
    if module.startswith("turn_"):
        return "crossbar"
    if module.startswith("slot_"):
        return "unit"
    if module.startswith("column_"):
        return "network"
    inside = module.removeprefix(top).lstrip("_")
    for prefix, part in (("pe", "element"), ("row", "network"), ("unit_array", "network"), ("unit", "unit"), ("scratchpad", "crossbar"), ("reader", "reader"), ("writer", "writer")):  # fmt: skip
        if inside == prefix or inside.startswith(f"{prefix}_"):
            return part
    return "loops"


def areas_by_part(synthesis: Synthesis, top: str) -> dict[str, float]:
    """Area of each part of a synthesised machine in NAND2 equivalents, all elements together."""
    found = dict.fromkeys(PARTS, 0.0)
    for module in synthesis.modules:
        found[part_of(module.name, top)] += module.area_um2 * module.count / synthesis.nand2_um2
    return found


def area_rows(p: Parameters, architecture: Architecture, synthesis: Synthesis | None) -> JsonObject:
    """Logic of a design by part at its node: synthesised, by the table's formulas (A2, W2, B1, D4), by the fit to netlists (N1 to N7).

    Args:
        p: The machine.
        architecture: The design, with its technology.
        synthesis: Its netlist mapped to cells; without it that column is empty.
    """
    name = architecture.technology or "cmos-22nm"
    table = load_technology(name)
    fitted = load_technology(f"netlist-fitted-{table.node_nm:g}nm").netlists
    i = array_level(architecture)
    assert fitted is not None and i is not None
    level, gate_mm2 = architecture.levels[i], 1e-6 * table.registers.gate_area_um2
    shape = logic_shape(architecture, i, 8 * p.bus_bytes)
    inner_mm2 = (architecture.mac.area_mm2 or 0.0) + sum(x.area_mm2 or 0.0 for x in architecture.levels[i + 1 :])
    network, _ = interconnect_area_mm2(table, level.fanout, link_bits(architecture, i), math.sqrt(inner_mm2))
    plain = {
        "elements": p.pes * (architecture.mac.area_mm2 or 0.0),
        "network": network,
        "crossbar": crossbar_area_mm2(table, level.word_bits, level.banks),
        "DMA": dma_area_mm2(table, 8 * p.bus_bytes, p.burst_bytes),
        "control": 0.0,
    }
    groups = {"elements": ("element",), "network": ("network",), "crossbar": ("crossbar",), "DMA": ("reader", "writer"), "control": ("unit", "loops")}  # fmt: skip
    measured = None if synthesis is None else areas_by_part(synthesis, p.name)
    rows: list[JsonObject] = []
    for part, names in groups.items():
        guess = sum(fitted.part_nand2(n, shape) * (p.pes if n == "element" else 1) for n in names)
        found = None if measured is None else gate_mm2 * sum(measured[n] for n in names)
        rows.append({"part": part, "netlist_mm2": found, "table_mm2": plain[part], "fitted_mm2": gate_mm2 * guess})
    return {"technology": name, "parts": rows}
