"""A register file that a 32-bit write bus fills, and the map of its addresses."""

from amaranth.hdl import Elaboratable, Module, Signal


class WriteBus:
    """A write enable, a 16-bit address, 32 bits of data."""

    def __init__(self, name: str) -> None:
        self.we = Signal(name=f"{name}_we")
        self.address = Signal(16, name=f"{name}_addr")
        self.data = Signal(32, name=f"{name}_data")


class RegisterFile(Elaboratable):
    """Registers by name, numbered from `first` in the order they are asked for.

    With `prepared` every register is one that the bus writes and one that is seen; a cycle with `take` copies the first to the second.
    """

    def __init__(self, bus: WriteBus, first: int, *, prepared: bool = False) -> None:
        self.bus, self.first, self.prepared = bus, first, prepared
        self.take = Signal(name="take_prepared")
        self.signals: list[tuple[str, Signal]] = []

    def field(self, name: str, bits: int) -> Signal:
        """A new register of at most 32 bits."""
        signal = Signal(bits, name=f"r_{name}")
        self.signals.append((name, signal))
        return signal

    def fields(self, name: str, bits: int, count: int) -> list[Signal]:
        """Registers `name_0`, `name_1` and so on."""
        return [self.field(f"{name}_{i}", bits) for i in range(count)]

    @property
    def end(self) -> int:
        """The address after its last register."""
        return self.first + len(self.signals)

    @property
    def map(self) -> dict[str, tuple[int, int]]:
        """Address and bits of every register, by name."""
        return {name: (self.first + i, len(signal)) for i, (name, signal) in enumerate(self.signals)}

    def elaborate(self, platform: object) -> Module:
        """The netlist of this part, as Amaranth elaborates it."""
        m = Module()
        for i, (name, signal) in enumerate(self.signals):
            written = Signal(len(signal), name=f"next_{name}") if self.prepared else signal
            with m.If(self.bus.we & (self.bus.address == self.first + i)):
                m.d.sync += written.eq(self.bus.data[: len(signal)])
            if self.prepared:
                with m.If(self.take):
                    m.d.sync += signal.eq(written)
        return m
