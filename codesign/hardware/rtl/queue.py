"""Control by instruction queues: one stream of words for the array, one for the DMA engines.

A word is 48 bits: a 16-bit address and 32 bits of data. Most words write a register. Three addresses are instructions: LAUNCH starts
a command with the registers as they stand and ends when it has; WAIT stands until the other unit has signalled so many completions; END stops the
queue. Units run in order, so a counter for each is all the dependency tracking there is, and DMA and array overlap wherever no WAIT forbids it.

With several bursts under way a launch does not hold its queue: the next word is taken in the next cycle. The array's registers are written beside those that
it works with, so a launch is prepared while the one before runs. Words that write registers of a DMA engine wait until that engine has asked for all bursts of its command. Completions of loads and of stores are counted apart (WAIT, WAIT_STORES); a
launch with the bit FENCE waits until the other engine is at rest. Every wait is for commands that were launched before in the order of the program, so
none can wait for itself.
"""

from enum import IntEnum

from amaranth.hdl import Elaboratable, Module, Mux, Signal, Value

from codesign.hardware.parameters import Parameters
from codesign.hardware.rtl.dma import DRAM_BITS, DmaRead, DmaWrite
from codesign.hardware.rtl.registers import RegisterFile, WriteBus
from codesign.hardware.rtl.unit import ArrayUnit
from codesign.hardware.words import FENCE_BIT, FIRST_BIT, SIGNAL_BIT, DmaCommand, Opcode

WORD_BITS = 48


class Hold(IntEnum):
    """What a launch keeps from being taken until it has ended: every word, the next launch, nothing."""

    WORDS = 0
    LAUNCHES = 1
    NOTHING = 2


class Queue(Elaboratable):
    """Takes words one a cycle and turns them into register writes and launches.

    Attributes:
        word, word_valid, word_ready: The stream.
        bus: Where register writes go.
        launch, accepted: Handshake of a launch. finished: In, the launched command has ended.
        others: In, completions of the other queue; `stores` those of stores alone. signals: Out, completions of this one.
        hold: In, a register write must wait.
        busy: Out, END has not come yet.
    """

    def __init__(self, name: str, holds: Hold) -> None:
        self.holds = holds
        self.stores, self.hold = Signal(32, name=f"{name}_stores"), Signal(name=f"{name}_hold")
        self.word, self.word_valid = Signal(WORD_BITS, name=f"{name}_word"), Signal(name=f"{name}_word_valid")
        self.word_ready = Signal(name=f"{name}_word_ready")
        self.bus = WriteBus(f"{name}_bus")
        self.launch, self.accepted, self.finished = (
            Signal(name=f"{name}_{n}") for n in ("launch", "accepted", "finished")
        )
        self.signal = Signal(name=f"{name}_signal")
        self.others, self.signals = Signal(32, name=f"{name}_others"), Signal(32, name=f"{name}_signals")
        self.start, self.busy = Signal(name=f"{name}_start"), Signal(name=f"{name}_busy")
        self.data = Signal(32, name=f"{name}_data")

    def elaborate(self, platform: object) -> Module:
        """The netlist of this part, as Amaranth elaborates it."""
        m = Module()
        address = self.word[32:]
        m.d.comb += [self.data.eq(self.word[:32]), self.bus.address.eq(address), self.bus.data.eq(self.data)]
        signals, running, may = Signal(), Signal(name="running"), Signal(name="may_launch")
        launch_only = self.holds is Hold.LAUNCHES
        ends = running & self.finished if launch_only else Value.cast(0)
        if launch_only:
            m.d.comb += [self.signal.eq(signals), self.busy.eq(running)]
            m.d.sync += [self.signals.eq(self.signals + (ends & signals)), running.eq(running & ~ends)]
        m.d.comb += may.eq(~running | ends)
        with m.FSM():
            with m.State("IDLE"), m.If(self.start):
                m.d.sync += self.signals.eq(0)
                m.next = "TAKE"
            with m.State("TAKE"):
                m.d.comb += self.busy.eq(1)
                with m.If(self.word_valid), m.Switch(address):
                    with m.Case(Opcode.END):
                        m.d.comb += self.word_ready.eq(1)
                        m.next = "IDLE"
                    with m.Case(Opcode.LAUNCH):
                        m.d.comb += [self.launch.eq(may), self.word_ready.eq(self.accepted & may)]
                        with m.If(self.accepted & may):
                            m.d.sync += signals.eq(self.data[SIGNAL_BIT])
                            if self.holds is Hold.WORDS:
                                m.next = "RUN"
                            elif launch_only:
                                m.d.sync += running.eq(1)
                    with m.Case(Opcode.WAIT):
                        m.d.comb += self.word_ready.eq(self.others >= self.data)
                    with m.Case(Opcode.WAIT_STORES):
                        m.d.comb += self.word_ready.eq(self.stores >= self.data)
                    with m.Default():
                        m.d.comb += [self.word_ready.eq(~self.hold), self.bus.we.eq(~self.hold)]
            if self.holds is Hold.WORDS:
                with m.State("RUN"):
                    m.d.comb += [self.busy.eq(1), self.signal.eq(signals)]
                    with m.If(self.finished):
                        m.d.sync += self.signals.eq(self.signals + signals)
                        m.next = "TAKE"
        return m


class QueueControl(Elaboratable):
    """The two queues and the units they drive."""

    def __init__(
        self,
        p: Parameters,
        array_bus: WriteBus,
        dma_bus: WriteBus,
        unit: ArrayUnit,
        reader: DmaRead,
        writer: DmaWrite,
        first: int,
    ) -> None:
        self.p, self.unit, self.reader, self.writer = p, unit, reader, writer
        holds = (Hold.LAUNCHES, Hold.NOTHING) if p.overlaps else (Hold.WORDS, Hold.WORDS)
        self.array, self.dma = Queue("array_queue", holds[0]), Queue("dma_queue", holds[1])
        bits = p.address_bits
        self.registers = r = RegisterFile(array_bus, first)
        self.r_at = {t: r.field(f"at_{t}", bits) for t in "ABO"}
        self.r_local = {t: r.field(f"local_{t}", p.local_bits) for t in "ABO" if t in p.local}
        self.dma_registers = d = RegisterFile(dma_bus, r.end)
        self.r_dram, self.r_line = d.field("transfer_dram", DRAM_BITS), d.field("transfer_line", bits)
        self.start, self.busy = Signal(), Signal()

    def elaborate(self, platform: object) -> Module:
        """The netlist of this part, as Amaranth elaborates it."""
        m = Module()
        m.submodules.registers, m.submodules.dma_registers = self.registers, self.dma_registers
        m.submodules.array_queue, m.submodules.dma_queue = self.array, self.dma
        a, d, u = self.array, self.dma, self.unit
        m.d.comb += [
            a.start.eq(self.start), d.start.eq(self.start), d.others.eq(a.signals),
            u.valid.eq(a.launch), a.accepted.eq(u.ready), u.kind.eq(a.data[:3]), u.first.eq(a.data[FIRST_BIT]),
            a.finished.eq(u.idle & (~a.signal | u.quiet)),
            *(u.at[t].eq(self.r_at[t]) for t in "ABO"), *(u.local_at[t].eq(s) for t, s in self.r_local.items()),
        ]  # fmt: skip
        kind, stores = d.data[:2], Signal()
        r, w = self.reader, self.writer
        m.d.comb += stores.eq(kind == DmaCommand.STORE)
        allowed = self._apart(m, stores) if self.p.overlaps else Value.cast(1)
        m.d.comb += [
            r.valid.eq(d.launch & ~stores & allowed), w.valid.eq(d.launch & stores & allowed),
            r.wide.eq(kind == DmaCommand.LOAD_RESULT),
            r.dram.eq(self.r_dram), w.dram.eq(self.r_dram), r.at.eq(self.r_line), w.at.eq(self.r_line),
        ]  # fmt: skip
        if not self.p.overlaps:
            m.d.comb += [d.accepted.eq(1), d.finished.eq(r.done | w.done), a.others.eq(d.signals)]
            m.d.comb += self.busy.eq(a.busy | d.busy)
        return m

    def _apart(self, m: Module, stores: Signal) -> Value:
        """Engines that run beside their queue; returns whether a launch's fence is open."""
        a, d, r, w = self.array, self.dma, self.reader, self.writer
        loaded, stored = Signal(32, name="loads_done"), Signal(32, name="stores_done")
        rest_r, rest_w = Signal(name="reader_rests"), Signal(name="writer_rests")
        m.d.comb += [rest_r.eq(r.ready & r.bursts.empty), rest_w.eq(w.ready & w.bursts.empty)]
        m.d.sync += [loaded.eq(Mux(self.start, 0, loaded + r.done)), stored.eq(Mux(self.start, 0, stored + w.done))]
        m.d.comb += [a.others.eq(loaded), a.stores.eq(stored), self.busy.eq(a.busy | d.busy | ~rest_r | ~rest_w)]
        address = d.word[32:]
        own = [(address >= e.registers.first) & (address < e.registers.end) & ~e.ready for e in (r, w)]
        m.d.comb += d.hold.eq(own[0] | own[1])
        allowed = Signal(name="fence_open")
        m.d.comb += allowed.eq(~d.data[FENCE_BIT] | Mux(stores, rest_r, rest_w))
        m.d.comb += d.accepted.eq(Mux(stores, w.ready, r.ready) & allowed)
        return allowed
