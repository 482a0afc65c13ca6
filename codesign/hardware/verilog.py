"""Verilog of a machine: one file, every module once, memories apart."""

import gc
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING

from codesign.core.errors import MissingDependencyError
from codesign.hardware.parameters import Parameters

if TYPE_CHECKING:
    from codesign.hardware.rtl.machine import Machine
    from codesign.hardware.rtl.memory import Ram, Scratchpad

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
        bench: The module around the machine in a simulation, which registers every input.
        shapes: By memory module: (words, bits of a word, how many of them the machine has).
        row: A row of elements with all that is in it, for simulators that take it as a part of its own.
        around: Everything else.
    """

    top: str
    logic: str
    memories: str
    black_boxes: str
    registers: dict[str, tuple[int, int]]
    bench: str
    shapes: dict[str, tuple[int, int, int]]
    row: str
    around: str

    @property
    def simulation(self) -> str:
        """The Verilog that a simulator reads, memories included."""
        return self.logic + "\n" + self.memories


def generate(p: Parameters) -> Netlist:
    """The Verilog of a machine.

    Raises:
        MissingDependencyError: Amaranth or its Yosys is not installed.
    """
    try:
        import amaranth.back  # noqa: F401
    except ImportError:
        raise MissingDependencyError(
            "generating hardware needs the package 'amaranth'", hint="pip install 'accel-codesign[hardware]'"
        ) from None
    return _generated(p)


@lru_cache(maxsize=4)
def _generated(p: Parameters) -> Netlist:
    from amaranth.back import verilog

    from codesign.hardware.rtl.array import ProcessingElement, row_text
    from codesign.hardware.rtl.machine import Machine

    with warnings.catch_warnings(), without_collector():
        warnings.simplefilter("ignore")
        machine, element = Machine(p, instance=True), ProcessingElement(p, instance=True)
        text = verilog.convert(machine, name=p.name, ports=machine.ports, emit_src=False, strip_internal_attrs=True)
        inside = verilog.convert(
            element, name=f"{p.name}_pe", ports=element.ports, emit_src=False, strip_internal_attrs=True
        )
    rams = [(machine.scratchpad.bank[0], p.banks)]
    tables: dict[str, tuple[Ram, int]] = {}
    for table in machine.unit.tables.values():
        tables[table.module] = (table, tables.get(table.module, (table, 0))[1] + 1)
    rams += tables.values()
    if element.memory is not None:
        rams.append((element.memory, p.pes))
    array = machine.unit.array
    around = (
        plain_names(text) + turns_text(machine.scratchpad) + machine.unit.slots[0].verilog() + array.columns_verilog()
    )
    row = plain_names(inside) + row_text(p)
    local = "" if element.memory is None else element.memory.verilog()
    return Netlist(
        top=p.name,
        logic=LINT_NOTE + around + row,
        memories="".join(ram.verilog() for ram, _ in rams),
        black_boxes="".join(ram.black_box() for ram, _ in rams),
        registers=machine.map,
        bench=bench_text(p.name, machine),
        shapes={ram.module: (ram.depth, ram.width, n) for ram, n in rams},
        row=LINT_NOTE + row + local,
        around=LINT_NOTE + around + "".join(ram.verilog() for ram, _ in rams if ram is not element.memory),
    )


@contextmanager
def without_collector() -> Iterator[None]:
    """Millions of small objects live until a machine is generated: looking for cycles among them takes a quarter of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def bench_text(top: str, machine: "Machine") -> str:
    """The module of a simulation that registers the machine's inputs, see `data/testbench.cpp`."""
    inputs = {"rst": 1} | {name: len(s) for name, s in machine.inputs.items()}
    outputs = {name: len(s) for name, s in machine.outputs.items()}
    ports = ["input clk", *(f"input [{n - 1}:0] {k}" for k, n in inputs.items())]
    ports += [f"output [{n - 1}:0] {k}" for k, n in outputs.items()]
    joined = ", ".join([".clk(clk)", *(f".{k}(q_{k})" for k in inputs), *(f".{k}({k})" for k in outputs)])
    registers = "".join(f"  reg [{n - 1}:0] q_{k}; always @(posedge clk) q_{k} <= {k};\n" for k, n in inputs.items())
    return (
        f"module {bench_top(top)}(\n  {', '.join(ports)});\n{registers}  {top} machine_inside({joined});\nendmodule\n"
    )


def data_text(name: str) -> str:
    """One of the files that come with the program: C, C++, cells."""
    return resources.files("codesign.hardware").joinpath(f"data/{name}").read_text("utf-8")


def bench_top(top: str) -> str:
    """Name of the simulation's top module."""
    return f"{top}_bench"


def turns_text(scratchpad: "Scratchpad") -> str:
    """The modules that turn a scratchpad's lines, each once."""
    kinds = {turn.module: turn for turns in scratchpad.turns.values() for turn in turns}
    return "".join(turn.verilog() for turn in kinds.values())


def indexed_parts(text: str) -> str:
    """Shifts of which only the lowest bits are used, as parts with a moving start: a simulator then touches one word instead of all."""
    found = []
    for module in re.split(r"(?<=^endmodule)$", text, flags=re.M):
        bits = {
            name: int(top) + 1
            for top, name in re.findall(r"^\s*(?:wire|reg) \[(\d+):0\] (\S+?) ?;", module, flags=re.M)
        }

        def part(m: re.Match[str], bits: dict[str, int] = bits) -> str:
            whole, kept = bits.get(m.group(2), 1), bits.get(m.group(1), 1)
            return f"assign {m.group(1)} = {m.group(2)}[{m.group(3)} +: {kept}];" if kept < whole else m.group(0)

        found.append(re.sub(r"assign (\S+) +?= (\w+) >> (\S+) ?;", part, module))
    return "".join(found)


def repeated(text: str) -> str:
    """Equal neighbours of a concatenation written once: a sign in 16 places is one operation for a simulator, not sixteen."""
    one = r"[^\s,{}]+ ?(?:\[[\d:]+\])?"
    return re.sub(
        rf"({one})((?:, \1){{2,}})(?=,| ?\}})", lambda m: f"{{{1 + m.group(2).count(', ')}{{{m.group(1)}}}}}", text
    )


def plain_names(text: str) -> str:
    r"""Module names with dots are escaped identifiers (``\a.b ``); tools read plain ones more willingly."""
    text = re.sub(r"^/\*.*?\*/\s*$", "", text, flags=re.M)
    text = re.sub(
        r"^(\s*reg (?:\[[^\]]*\] )?(?!\\\$auto)[^=;]+?) = [^;]+;", r"\1;", text, flags=re.M
    )  # every register has a reset
    text = repeated(indexed_parts(text))
    return re.sub(r"\\([A-Za-z_][\w.$]*) ", lambda m: m.group(1).replace(".", "_").replace("$", "_") + " ", text)
