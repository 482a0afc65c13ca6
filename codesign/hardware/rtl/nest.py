"""Nested counters and the addresses that follow them.

A step changes the counter of exactly one level, which *advances*, and clears those inside it. For an address that is one addition: the
delta of the advancing level, ``stride - sum over inner levels of (bound - 1) * stride``, which software computes. So every address
costs one adder, however deep the nest.
"""

from collections.abc import Sequence

from amaranth.hdl import Const, Elaboratable, Module, Mux, Signal, Value

from codesign.hardware.parameters import Parameters

COUNT_BITS = 16
"""Bits of a loop's counter."""


class LoopNest(Elaboratable):
    """Counters of a nest; level 0 is the innermost.

    Args:
        levels: Number of loops.

    Attributes:
        start: In, clears all counters.
        step: In, to the next iteration.
        bound_m1: In, bounds less one.
        advance: Out, one-hot: the level that the next step advances; zero on the last iteration.
        zero: Out, by level: the counter is zero.
        last: Out, the last iteration.
    """

    def __init__(self, levels: int) -> None:
        self.levels = levels
        self.start, self.step, self.last = Signal(), Signal(), Signal()
        self.bound_m1 = [Signal(COUNT_BITS, name=f"bound_m1_{i}") for i in range(levels)]
        self.advance, self.zero = Signal(levels), Signal(levels)

    def elaborate(self, platform: object) -> Module:
        """The netlist of this part, as Amaranth elaborates it."""
        m = Module()
        count = [Signal(COUNT_BITS, name=f"count_{i}") for i in range(self.levels)]
        ends = Signal(self.levels)
        inner = Const(1, 1)
        for i, c in enumerate(count):
            m.d.comb += [ends[i].eq(c == self.bound_m1[i]), self.zero[i].eq(c == 0)]
            m.d.comb += self.advance[i].eq(inner & ~ends[i])
            inner = Signal(name=f"inner_{i}")
            m.d.comb += inner.eq(ends[: i + 1].all())
            with m.If(self.start):
                m.d.sync += c.eq(0)
            with m.Elif(self.step):
                with m.If(self.advance[i]):
                    m.d.sync += c.eq(c + 1)
                with m.Elif((self.advance >> (i + 1)).any()):
                    m.d.sync += c.eq(0)
        m.d.comb += self.last.eq(ends.all())
        return m


class Address(Elaboratable):
    """An address that follows a nest.

    It counts bytes, or with a machine's parameters it is one of its scratchpad: the byte in a line in the low bits, the line above. Lines need
    not be a power of two long; those of negative deltas wrap at the width.

    Attributes:
        base: In, its value at the start.
        delta: In, what each level adds when it advances, modulo the width.
        address: Out.
    """

    def __init__(self, nest: LoopNest, bits: int, name: str, lines_of: Parameters | None = None) -> None:
        self.nest, self.bits, self.name, self.lines_of = nest, bits, name, lines_of
        self.base, self.address = Signal(bits, name=f"{name}_base"), Signal(bits, name=f"{name}_address")
        self.delta = [Signal(bits, name=f"{name}_delta_{i}") for i in range(nest.levels)]

    def given(self, base: Value, deltas: Sequence[Value]) -> list[object]:
        """The statements that drive its inputs."""
        return [self.base.eq(base), *(mine.eq(delta) for mine, delta in zip(self.delta, deltas, strict=True))]

    def elaborate(self, platform: object) -> Module:
        """The netlist of this part, as Amaranth elaborates it."""
        m, p = Module(), self.lines_of
        change = Signal(self.bits)
        for i in range(self.nest.levels):
            with m.If(self.nest.advance[i]):
                m.d.comb += change.eq(self.delta[i])
        total = self.address + change if p is None else line_sum(m, p, self.address, change, self.name)
        with m.If(self.nest.start):
            m.d.sync += self.address.eq(self.base)
        with m.Elif(self.nest.step):
            m.d.sync += self.address.eq(total)
        return m


def line_sum(m: Module, p: Parameters, a: Value, b: Value, name: str) -> Signal:
    """The packed sum of two packed (line, byte) addresses."""
    total, bits, line = Signal(p.address_bits, name=f"{name}_sum"), p.offset_bits, p.line_bytes
    if line == 1 << bits:
        m.d.comb += total.eq(a + b)
        return total
    byte = Signal(bits + 1, name=f"{name}_byte")
    carry = Signal(name=f"{name}_carry")
    m.d.comb += [byte.eq(a[:bits] + b[:bits]), carry.eq(byte >= line)]
    m.d.comb += total[:bits].eq(Mux(carry, byte - line, byte))
    m.d.comb += total[bits:].eq(a[bits:] + b[bits:] + carry)
    return total
