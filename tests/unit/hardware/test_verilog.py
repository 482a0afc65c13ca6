"""Verilog of every family passes a linter, and its text is what simulators and synthesis read well."""

import subprocess
from pathlib import Path

import pytest

from codesign.hardware.parameters import Parameters
from codesign.hardware.verilator import environment, find_linter
from codesign.hardware.verilog import generate, indexed_parts, repeated
from tests.unit.hardware.test_parameters_act import SPACES, machine_of, smallest

needs_verilator = pytest.mark.skipif(find_linter() is None, reason="no Verilator")

LINKS = ("none", "multicast", "systolic")
QUICK = ("scratchpad", "systolic")


def machine(name: str, links: str) -> Parameters:
    """A small machine of a family, with banks that are no power of two where the space has them."""
    space = {p.name: p.choices for p in SPACES[name].space.parameters}
    changes = {k: v for k, v in (("links", links), ("banks", 3)) if v in space.get(k, ())}
    return machine_of(name, smallest(name) | changes)


@needs_verilator
@pytest.mark.parametrize(
    ("name", "links"),
    [
        pytest.param(name, links, marks=() if (name, links) == QUICK else pytest.mark.slow("oracle"))
        for name in SPACES
        for links in LINKS
    ],
)
def test_verilator_finds_nothing_to_say(name: str, links: str, tmp_path: Path) -> None:
    netlist, command = generate(machine(name, links)), find_linter()
    assert command is not None
    path = tmp_path / f"{netlist.top}.v"
    path.write_text(netlist.simulation, "utf-8")
    told = [*command, "--lint-only", "-Wall", "--top-module", netlist.top, str(path)]
    done = subprocess.run(told, env=environment(), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_shift_of_which_a_byte_is_used_becomes_a_part() -> None:
    text = "module a(line);\n  wire [63:0] line;\n  wire [7:0] byte;\n  assign byte = line >> at ;\nendmodule"
    assert "assign byte = line[at +: 8];" in indexed_parts(text)


def test_a_shift_that_is_used_whole_stays() -> None:
    text = "module a(line);\n  wire [7:0] line;\n  wire [7:0] byte;\n  assign byte = line >> at ;\nendmodule"
    assert indexed_parts(text) == text


def test_equal_neighbours_of_a_concatenation_are_counted() -> None:
    assert repeated("x = { p[15], p[15], p[15], p };") == "x = { {3{p[15]}}, p };"
    assert repeated("x = { a, b, a };") == "x = { a, b, a };"
