"""Shifters in stages of two-way choices, one for each bit of the amount.

A shift operator of n bits makes every bit of the result depend on every bit of the operand. Amaranth's search for loops follows each of these
n x n edges, and Verilog tools carry the words at full width. Stages have 3 n edges each and need no more gates.
"""

from amaranth.hdl import Cat, Const, Elaboratable, Instance, Module, Mux, Signal, Value


def shifted(m: Module, value: Value, amount: Value, lane: int, name: str, *, up: bool = False) -> Signal:
    """`value` moved by `amount` lanes of `lane` bits towards bit 0, or away from it with `up`; zeros come in."""
    return _stages(m, value, amount, lane, name, up, wraps=False)


class Turn(Elaboratable):
    """A word turned by lanes: what leaves at one end comes back at the other.

    It is a module of its own in a netlist, written once however often it stands there. Where `enable` is low nobody looks at the result, so
    a simulator leaves it out and a synthesis has a free choice.

    Args:
        width: Bits of the word.
        lane: Bits of a lane.
        up: Away from bit 0.
        instance: Emit an instance instead of the behaviour.

    Attributes:
        value, amount, enable: In; `amount` is in lanes and less than their number.
        result: Out.
    """

    def __init__(self, width: int, lane: int, up: bool, instance: bool) -> None:
        self.width, self.lane, self.up, self.instance = width, lane, up, instance
        self.value, self.result = Signal(width, name="value"), Signal(width, name="result")
        self.amount = Signal(max(1, (width // lane - 1).bit_length()), name="amount")
        self.enable = Signal(name="enable")

    @property
    def module(self) -> str:
        """Name of its Verilog module."""
        return f"turn_{self.width}_l{self.lane}_{'up' if self.up else 'down'}"

    def elaborate(self, platform: object) -> Module:
        """The netlist of this part, as Amaranth elaborates it."""
        m = Module()
        if not self.instance:
            m.d.comb += self.result.eq(_stages(m, self.value, self.amount, self.lane, "turn", self.up, wraps=True))
            return m
        m.submodules.stages = Instance(
            self.module, i_value=self.value, i_amount=self.amount, i_enable=self.enable, o_result=self.result
        )
        return m

    def verilog(self) -> str:
        """Verilog of its behaviour, for simulators and synthesis."""
        n = self.width
        body = [
            f"module {self.module}(input [{len(self.amount) - 1}:0] amount, input enable, input [{n - 1}:0] value, output reg [{n - 1}:0] result);",
            f"  always @* begin\n    result = {{{n}{{1'bx}}}};\n    if (enable) begin\n      result = value;",
        ]
        for k in range(len(self.amount)):
            by = self.lane << k
            if by < n:
                cut = n - by if self.up else by
                body.append(f"      if (amount[{k}]) result = {{result[{cut - 1}:0], result[{n - 1}:{cut}]}};")
        return "\n".join([*body, "    end\n  end\nendmodule\n"])


def _stages(m: Module, value: Value, amount: Value, lane: int, name: str, up: bool, wraps: bool) -> Signal:
    width = len(value)
    now = Signal(width, name=f"{name}_in")
    m.d.comb += now.eq(value)
    for k in range(len(amount)):
        by = min(lane << k, width)
        if up:
            comes = now[width - by :] if wraps else Const(0, by)
            moved = Cat(comes, now[: width - by])
        else:
            comes = now[:by] if wraps else Const(0, by)
            moved = Cat(now[by:], comes)
        later = Signal(width, name=f"{name}_{k}")
        m.d.comb += later.eq(Mux(amount[k], moved, now))
        now = later
    return now
