"""Shifters in stages of two-way choices, one for each bit of the amount.

A shift operator of n bits makes every bit of the result depend on every bit of the operand. Amaranth's search for loops follows each of these
n x n edges, and Verilog tools carry the words at full width. Stages have 3 n edges each and need no more gates.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value


def rotated(m: Module, value: Value, amount: Value, lane: int, name: str, *, up: bool = False) -> Signal:
    """`value` turned by `amount` lanes of `lane` bits towards bit 0, or away from it with `up`. `amount` is less than the number of lanes."""
    return _stages(m, value, amount, lane, name, up, wraps=True)


def shifted(m: Module, value: Value, amount: Value, lane: int, name: str, *, up: bool = False) -> Signal:
    """The same without wrapping: zeros come in."""
    return _stages(m, value, amount, lane, name, up, wraps=False)


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
