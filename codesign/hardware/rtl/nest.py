"""Nested counters and the addresses that follow them.

A step changes the counter of exactly one level, which *advances*, and clears those inside it. For an address that is one addition: the
delta of the advancing level, ``stride - sum over inner levels of (bound - 1) * stride``, which software computes. So every address
costs one adder, however deep the nest.
"""

from amaranth.hdl import Const, Elaboratable, Module, Mux, Signal


class LoopNest(Elaboratable):
    """Counters of a nest; level 0 is the innermost.

    Args:
        levels: Number of loops.
        bits: Width of a counter.

    Attributes:
        start: In, clears all counters.
        step: In, to the next iteration.
        bound_m1: In, bounds less one.
        advance: Out, one-hot: the level that the next step advances; zero on the last iteration.
        zero: Out, by level: the counter is zero.
        last: Out, the last iteration.
    """

    def __init__(self, levels: int, bits: int = 16, name: str = "nest") -> None:
        self.levels, self.bits, self.name = levels, bits, name
        self.start, self.step, self.last = Signal(), Signal(), Signal()
        self.bound_m1 = [Signal(bits, name=f"bound_m1_{i}") for i in range(levels)]
        self.advance, self.zero = Signal(levels), Signal(levels)

    def elaborate(self, platform: object) -> Module:
        """The netlist of this part, as Amaranth elaborates it."""
        m = Module()
        count = [Signal(self.bits, name=f"count_{i}") for i in range(self.levels)]
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


class FlatAddress(Elaboratable):
    """A byte address that follows a nest.

    Attributes:
        base: In, its value at the start.
        delta: In, what each level adds when it advances, modulo the width.
        address: Out.
    """

    def __init__(self, nest: LoopNest, bits: int, name: str) -> None:
        self.nest, self.bits, self.name = nest, bits, name
        self.base, self.address = Signal(bits, name=f"{name}_base"), Signal(bits, name=f"{name}_address")
        self.delta = [Signal(bits, name=f"{name}_delta_{i}") for i in range(nest.levels)]

    def elaborate(self, platform: object) -> Module:
        """The netlist of this part, as Amaranth elaborates it."""
        m = Module()
        change = Signal(self.bits)
        for i in range(self.nest.levels):
            with m.If(self.nest.advance[i]):
                m.d.comb += change.eq(self.delta[i])
        with m.If(self.nest.start):
            m.d.sync += self.address.eq(self.base)
        with m.Elif(self.nest.step):
            m.d.sync += self.address.eq(self.address + change)
        return m


class LineAddress(Elaboratable):
    """A scratchpad address (line, byte in the line) that follows a nest; lines need not be a power of two long.

    Values are packed: the byte in the low bits, the line above. Lines of negative deltas wrap at the width.
    """

    def __init__(self, nest: LoopNest, row_bits: int, offset_bits: int, line_bytes: int, name: str) -> None:
        self.nest, self.name = nest, name
        self.row_bits, self.offset_bits, self.line_bytes = row_bits, offset_bits, line_bytes
        bits = row_bits + offset_bits
        self.base, self.address = Signal(bits, name=f"{name}_base"), Signal(bits, name=f"{name}_address")
        self.delta = [Signal(bits, name=f"{name}_delta_{i}") for i in range(nest.levels)]

    def elaborate(self, platform: object) -> Module:
        """The netlist of this part, as Amaranth elaborates it."""
        m = Module()
        change = Signal(self.row_bits + self.offset_bits)
        for i in range(self.nest.levels):
            with m.If(self.nest.advance[i]):
                m.d.comb += change.eq(self.delta[i])
        total = line_sum(m, self.address, change, self.row_bits, self.offset_bits, self.line_bytes, self.name)
        with m.If(self.nest.start):
            m.d.sync += self.address.eq(self.base)
        with m.Elif(self.nest.step):
            m.d.sync += self.address.eq(total)
        return m


def line_sum(m: Module, a: Signal, b: Signal, row_bits: int, offset_bits: int, line_bytes: int, name: str) -> Signal:
    """The packed sum of two packed (line, byte) addresses."""
    total = Signal(row_bits + offset_bits, name=f"{name}_sum")
    if line_bytes == 1 << offset_bits:
        m.d.comb += total.eq(a + b)
        return total
    byte = Signal(offset_bits + 1, name=f"{name}_byte")
    carry = Signal(name=f"{name}_carry")
    m.d.comb += [byte.eq(a[:offset_bits] + b[:offset_bits]), carry.eq(byte >= line_bytes)]
    m.d.comb += total[:offset_bits].eq(Mux(carry, byte - line_bytes, byte))
    m.d.comb += total[offset_bits:].eq(a[offset_bits:] + b[offset_bits:] + carry)
    return total
