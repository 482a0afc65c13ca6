"""Verilog of a machine: one file, every module once, memories apart."""

import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codesign.core.errors import MissingDependencyError
from codesign.hardware.parameters import Parameters

if TYPE_CHECKING:
    from codesign.hardware.rtl.memory import Ram

LINT_NOTE = """\
/* verilator lint_off UNUSEDSIGNAL */ // widened sums and unused port bits, inherent to generated netlists
/* verilator lint_off WIDTHTRUNC */
/* verilator lint_off WIDTHEXPAND */
/* verilator lint_off CASEINCOMPLETE */
/* verilator lint_off DECLFILENAME */
/* verilator lint_off UNUSEDPARAM */
/* verilator lint_off CMPCONST */ // a limit that a counter of this width always keeps
"""


@dataclass(frozen=True)
class Netlist:
    """Verilog text.

    Args:
        top: Name of the top module.
        logic: Everything but the memories.
        memories: Their behaviour.
        black_boxes: Their ports alone, for synthesis.
        registers: Register name -> (address, bits).
        shapes: By memory module: (words, bits of a word, how many of them the machine has).
    """

    top: str
    logic: str
    memories: str
    black_boxes: str
    registers: dict[str, tuple[int, int]]
    shapes: dict[str, tuple[int, int, int]]

    @property
    def simulation(self) -> str:
        """What a simulator reads."""
        return self.logic + "\n" + self.memories


def generate(p: Parameters) -> Netlist:
    """The Verilog of a machine.

    Raises:
        MissingDependencyError: Amaranth or its Yosys is not installed.
    """
    try:
        from amaranth.back import verilog
    except ImportError:
        raise MissingDependencyError(
            "generating hardware needs the package 'amaranth'", hint="pip install 'accel-codesign[hardware]'"
        ) from None
    from codesign.hardware.rtl.array import ProcessingElement
    from codesign.hardware.rtl.machine import Machine

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine, element = Machine(p, instance=True), ProcessingElement(p, instance=True)
        text = verilog.convert(machine, name=p.name, ports=machine.ports, emit_src=False, strip_internal_attrs=True)
        text += verilog.convert(
            element, name=f"{p.name}_pe", ports=element.ports, emit_src=False, strip_internal_attrs=True
        )
    rams = [(machine.scratchpad.bank[0], p.banks)]
    tables: dict[str, tuple[Ram, int]] = {}
    for table in machine.unit.tables.values():
        tables[table.module] = (table, tables.get(table.module, (table, 0))[1] + 1)
    rams += tables.values()
    if element.memory is not None:
        rams.append((element.memory, p.pes))
    return Netlist(
        top=p.name,
        logic=LINT_NOTE + plain_names(text),
        memories="".join(ram.verilog() for ram, _ in rams),
        black_boxes="".join(ram.black_box() for ram, _ in rams),
        registers=machine.map,
        shapes={ram.module: (ram.depth, ram.width, n) for ram, n in rams},
    )


def plain_names(text: str) -> str:
    r"""Module names with dots are escaped identifiers (``\a.b ``); tools read plain ones more willingly."""
    text = re.sub(r"^/\*.*?\*/\s*$", "", text, flags=re.M)
    text = re.sub(
        r"^(\s*reg (?:\[[^\]]*\] )?(?!\\\$auto)[^=;]+?) = [^;]+;", r"\1;", text, flags=re.M
    )  # every register has a reset
    return re.sub(r"\\([A-Za-z_][\w.$]*) ", lambda m: m.group(1).replace(".", "_").replace("$", "_") + " ", text)
