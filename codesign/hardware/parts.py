"""The logic of a machine in seven parts, each a netlist of its own: what is fitted, and what an area is compared by.

Parts do not overlap and leave nothing out but memories: `element` (one processing element), `network` (wires, sums and settings between them),
`crossbar` (the scratchpad's turns between banks), `reader` and `writer` (the DMA engines), `unit` (the array's controller and the collector),
`loops` (everything else: loader and sequencer).
"""

import math
import warnings
from typing import Any

from codesign.arch.architecture import Architecture
from codesign.arch.netlists import array_level, logic_shape
from codesign.arch.technology import crossbar_area_mm2, dma_area_mm2, interconnect_area_mm2, link_bits
from codesign.arch.technology_files import load_technology
from codesign.hardware.parameters import Control, Parameters
from codesign.hardware.synthesis import ModuleArea, Synthesis, map_to_cells
from codesign.hardware.verilog import generate, plain_names, turns_text

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


def area_rows(p: Parameters, architecture: Architecture, synthesis: Synthesis | None) -> dict[str, Any]:
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
    rows = []
    for part, names in groups.items():
        guess = sum(fitted.part_nand2(n, shape) * (p.pes if n == "element" else 1) for n in names)
        found = None if measured is None else gate_mm2 * sum(measured[n] for n in names)
        rows.append({"part": part, "netlist_mm2": found, "table_mm2": plain[part], "fitted_mm2": gate_mm2 * guess})
    return {"technology": name, "parts": rows}


def synthesize_part(p: Parameters, part: str) -> tuple[ModuleArea, ...]:
    """Modules of one part of a machine of loop nests, mapped to cells on its own.

    Raises:
        MissingDependencyError: Amaranth or Yosys is not installed.
    """
    assert p.control is Control.NEST
    text, top, boxes = _inside(p, part) if part in ("unit", "loops") else _alone(p, part)
    return map_to_cells(text, top, boxes).modules


def _inside(p: Parameters, part: str) -> tuple[str, str, tuple[str, ...]]:
    """The whole machine with the other parts as black boxes."""
    netlist = generate(p)
    text = netlist.logic + netlist.black_boxes
    if part == "unit":
        return text, f"{netlist.top}_unit", (f"{netlist.top}_unit_array", f"{netlist.top}_pe")
    boxes = ("scratchpad", "reader", "writer", "unit", "row", "pe")
    return text, netlist.top, tuple(f"{netlist.top}_{b}" for b in boxes)


ENGINE_PORTS = (
    "valid ready which wide dram at done request granted address beats data"
    " tag answer_tag error fault done_which moved data_valid data_ready"
)
"""What every DMA engine has besides its bus and its port of the scratchpad."""


def _alone(p: Parameters, part: str) -> tuple[str, str, tuple[str, ...]]:
    from amaranth.back import verilog

    from codesign.hardware.rtl.array import Array, ProcessingElement, element_ports, row_text
    from codesign.hardware.rtl.dma import DmaRead, DmaWrite
    from codesign.hardware.rtl.memory import Scratchpad
    from codesign.hardware.rtl.registers import WriteBus

    scratchpad = Scratchpad(
        p.banks, p.lines, p.row_bits, p.offset_bits, True, sums_apart=p.overlaps, halved=p.halved_banks
    )
    boxes = ""
    signals = [getattr(scratchpad, n) for n in ("raddr", "ren", "rdata", "looks", "waddr", "wen", "wdata")]
    every, pad = [port for group in signals for port in group], [group[1] for group in signals]
    bus = WriteBus("bus")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if part == "element":
            made: object = (element := ProcessingElement(p, True))
            ports = element.ports
            boxes = element.memory.black_box() if element.memory is not None else ""
        elif part == "network":
            made = (array := Array(p, True))
            ports = [
                *array.row0.fields.values(),
                array.cfg_pe,
                array.cfg_row,
                array.cfg_col,
                array.cfg_data,
                array.ones,
            ]
            ports += [*array.group, *array.column_window, *array.slot, *array.total, array.some]
            boxes = array.columns_verilog() + row_text(p) + _element_box(p, *element_ports(p))
        elif part == "crossbar":
            made, ports = scratchpad, every
            boxes = turns_text(scratchpad) + scratchpad.bank[0].black_box()
        else:
            read = part == "reader"
            kind, sets = (DmaRead, ("A", "B", "O")) if read else (DmaWrite, ("O",))
            made = (engine := kind(p, bus, scratchpad, sets, 16, "read" if read else "write"))
            names = ENGINE_PORTS + ("" if read else " strobe")
            if p.axi:
                names += " response" + ("" if read else " last answered answer_ready")
            ports = [bus.we, bus.address, bus.data, *pad, engine.bursts.number]
            ports += [getattr(engine, name) for name in names.split()]
        text = verilog.convert(made, name=part, ports=ports, emit_src=False, strip_internal_attrs=True)
    return plain_names(text) + boxes, part, ()


def _element_box(p: Parameters, inputs: dict[str, object], outputs: dict[str, object]) -> str:
    """Ports of a processing element as a black box."""
    lines = ["input clk", "input rst"]
    for direction, signals in (("input", inputs), ("output", outputs)):
        lines += [f"{direction} [{len(s) - 1}:0] {name}" for name, s in signals.items()]  # type: ignore[arg-type]
    return f"(* blackbox *)\nmodule {p.name}_pe({', '.join(lines)});\nendmodule\n"
