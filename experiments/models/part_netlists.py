"""One part of a machine of loop nests as a netlist of its own, mapped to cells: what areas are fitted to."""

import warnings

from codesign.hardware.parameters import Control, Parameters
from codesign.hardware.synthesis import ModuleArea, map_to_cells
from codesign.hardware.verilog import generate, plain_names, turns_text


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

    scratchpad = Scratchpad(p, True)
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
            made = engine = (DmaRead if read else DmaWrite)(p, bus, scratchpad, 16)
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
