"""Sums of those of many values that are meant: of columns for one place of a line of results, of the elements of a column."""

import operator
from collections.abc import Callable, Sequence
from typing import TypeVar

from amaranth.hdl import Elaboratable, Instance, Module, Mux, Signal

T = TypeVar("T")


def tree(terms: Sequence[T], joined: Callable[[T, T], T]) -> T:
    """Terms joined two by two, level by level."""
    while len(terms) > 1:
        pairs = [joined(terms[i], terms[i + 1]) for i in range(0, len(terms) - 1, 2)]
        terms = [*pairs, *terms[len(pairs) * 2 :]]
    return terms[0]


class SlotSum(Elaboratable):
    """The sum of some of many values: with `adds` by a tree of adders, without it at most one is chosen.

    It is a module of its own in a netlist, written once however many places a line or columns an array has. Where `enable` is low nobody looks at the sum.

    Args:
        cols: Values: columns for a place of a line, rows for a column.
        adds: Several may be meant.
        instance: Emit an instance instead of the behaviour.
        kind: First word of its module's name.

    Attributes:
        totals: In, 32 bits a value. hits: In, by value. enable: In. sum: Out.
    """

    def __init__(self, cols: int, adds: bool, instance: bool, kind: str = "slot") -> None:
        self.cols, self.adds, self.instance, self.kind = cols, adds, instance, kind
        self.totals, self.hits, self.enable = Signal(32 * cols), Signal(cols), Signal()
        self.sum = Signal(32)

    @property
    def module(self) -> str:
        """Name of its Verilog module."""
        return f"{self.kind}_{'sum' if self.adds else 'choice'}_{self.cols}"

    def elaborate(self, platform: object) -> Module:
        """The netlist of this part, as Amaranth elaborates it."""
        m = Module()
        if self.instance:
            m.submodules.tree = Instance(
                self.module, i_totals=self.totals, i_hits=self.hits, i_enable=self.enable, o_sum=self.sum
            )
            return m
        gated = [Mux(self.hits[x], self.totals.word_select(x, 32), 0)[:32] for x in range(self.cols)]
        m.d.comb += self.sum.eq(tree(gated, (lambda a, b: (a + b)[:32]) if self.adds else operator.or_))
        return m

    def verilog(self) -> str:
        """Verilog of its behaviour, for simulators and synthesis."""
        terms = [f"(hits[{x}] ? totals[{32 * x + 31}:{32 * x}] : 32'd0)" for x in range(self.cols)]
        sign = "+" if self.adds else "|"
        total = tree(terms, lambda a, b: f"({a} {sign} {b})")
        return (
            f"module {self.module}(input [{32 * self.cols - 1}:0] totals, input [{self.cols - 1}:0] hits, input enable, output reg [31:0] sum);\n"
            f"  always @* begin\n    sum = 32'bx;\n    if (enable) sum = {total};\n  end\nendmodule\n"
        )
