"""The DMA engines: boxes of contiguous runs between DRAM and the scratchpad, in bursts.

Channels are those of AXI4 without identifiers: an address with a number of beats, then data with valid and ready. A burst may begin at any byte.
Results are 32 bits wide on chip and 1, 2 or 4 bytes in DRAM (`result_log2`): the low bytes are stored, and come back with their sign.

Cycles of a command, with W bytes a beat, L cycles from a request to its first beat, and k chunks a beat (1 where a beat fits the line of
the scratchpad from its first byte on): 1, and for every burst ``L + sum k`` (a store's first beat waits for the longer of L and k + 1).
"""

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, Value

from codesign.hardware.parameters import Parameters
from codesign.hardware.rtl.memory import Scratchpad
from codesign.hardware.rtl.nest import FlatAddress, LineAddress, LoopNest, line_sum
from codesign.hardware.rtl.registers import RegisterFile, WriteBus
from codesign.hardware.rtl.shift import shifted

DRAM_BITS = 32
"""Bits of a byte address in DRAM."""


class _Engine(Elaboratable):
    """What both directions share: register sets, the nest of runs, the burst at hand."""

    def __init__(
        self, p: Parameters, bus: WriteBus, scratchpad: Scratchpad, sets: tuple[str, ...], first: int, name: str
    ) -> None:
        self.p, self.scratchpad, self.sets, self.name = p, scratchpad, sets, name
        self.registers = r = RegisterFile(bus, first)
        bits = p.row_bits + p.offset_bits
        self.result_log2 = r.field(f"{name}_result_log2", 2)
        self.r_run = {s: r.field(f"{name}_run_bytes_{s}", 24) for s in sets}
        self.r_bound = {s: [r.field(f"{name}_bound_{s}_{i}", 16) for i in range(p.box_loops)] for s in sets}
        self.r_dram = {s: [r.field(f"{name}_dram_{s}_{i}", DRAM_BITS) for i in range(p.box_loops)] for s in sets}
        self.r_line = {s: [r.field(f"{name}_line_{s}_{i}", bits) for i in range(p.box_loops)] for s in sets}
        self.valid, self.ready = Signal(name=f"{name}_valid"), Signal(name=f"{name}_ready")
        self.which = Signal(2, name=f"{name}_which")
        self.wide = Signal(name=f"{name}_wide")
        self.dram = Signal(DRAM_BITS, name=f"{name}_dram")
        self.at = Signal(bits, name=f"{name}_at")
        self.done = Signal(name=f"{name}_done")
        self.request, self.granted = Signal(name=f"{name}_request"), Signal(name=f"{name}_granted")
        self.address = Signal(DRAM_BITS, name=f"{name}_address")
        self.beats = Signal(16, name=f"{name}_beats")
        self.data = Signal(8 * p.bus_bytes, name=f"{name}_data")
        self.moved = Signal(range(p.bus_bytes + 1), name=f"{name}_moved")
        self.data_valid, self.data_ready = Signal(name=f"{name}_data_valid"), Signal(name=f"{name}_data_ready")

    def _nest(self, m: Module) -> None:
        """The nest of runs: its registers are those of the set at hand."""
        p = self.p
        m.submodules.registers = self.registers
        m.submodules.nest = self.nest = LoopNest(p.box_loops, name="box")
        m.submodules.runs = self.runs = FlatAddress(self.nest, DRAM_BITS, "runs")
        m.submodules.lines = self.lines = LineAddress(self.nest, p.row_bits, p.offset_bits, p.line_bytes, "lines")
        self.which_now, self.wide_now = Signal(2, name="which_now"), Signal(name="wide_now")
        self.run_bytes = Signal(24, name="run_bytes")
        which = Mux(self.nest.start, self.which, self.which_now)
        for n, s in enumerate(self.sets):
            with m.If(which == n):
                m.d.comb += self.run_bytes.eq(self.r_run[s])
                for i in range(p.box_loops):
                    m.d.comb += [self.nest.bound_m1[i].eq(self.r_bound[s][i]), self.runs.delta[i].eq(self.r_dram[s][i])]
                    m.d.comb += self.lines.delta[i].eq(self.r_line[s][i])
        m.d.comb += [self.runs.base.eq(self.dram), self.lines.base.eq(self.at)]
        bits = p.row_bits + p.offset_bits
        self.left, self.burst = Signal(24, name="left"), Signal(16, name="burst")
        self.here, self.line = Signal(DRAM_BITS, name="here"), Signal(bits, name="line")
        self.taken = Signal(range(p.bus_bytes + 1), name="taken")
        self.fresh = Signal(name="fresh")

    def _request(self, m: Module) -> None:
        """State REQUEST: the next burst of the run, or the first of a new one."""
        p = self.p
        left, here = Mux(self.fresh, self.run_bytes, self.left), Mux(self.fresh, self.runs.address, self.here)
        beats = (left + (p.bus_bytes - 1)) >> (p.bus_bytes - 1).bit_length()
        most = p.burst_bytes // p.bus_bytes
        m.d.comb += [self.request.eq(1), self.address.eq(here), self.beats.eq(Mux(beats > most, most, beats))]
        with m.If(self.granted):
            m.d.sync += [
                self.burst.eq(self.beats),
                self.left.eq(left),
                self.here.eq(here + p.burst_bytes),
                self.taken.eq(0),
            ]
            m.d.sync += self.fresh.eq(0)
            with m.If(self.fresh):
                m.d.sync += self.line.eq(self.lines.address)
            m.next = "DATA"

    def _chunk(self, m: Module, wide: Value) -> tuple[Signal, Signal, Signal, Value]:
        """What moves in one cycle: bytes of DRAM, bytes of the scratchpad, whether the beat ends, the next line."""
        p = self.p
        on_bus, on_chip = range(p.bus_bytes + 1), range(p.line_bytes + 1)
        beat, room = Signal(on_bus, name="beat_left"), Signal(on_chip, name="room")
        dram, chip, ends = Signal(on_bus, name="chunk"), Signal(on_chip, name="chunk_on_chip"), Signal(name="beat_ends")
        rest = p.bus_bytes - self.taken
        m.d.comb += [beat.eq(Mux(self.left < rest, self.left, rest)), room.eq(p.line_bytes - self.line[:3])]
        with m.If(wide):
            have, fit = Signal(on_bus, name="have"), Signal(on_chip, name="fit")
            m.d.comb += [have.eq(beat >> self.result_log2), fit.eq(room >> 2)]
            count = Mux(have < fit, have, fit)
            m.d.comb += [dram.eq(count << self.result_log2), chip.eq(count << 2)]
        with m.Else():
            m.d.comb += [dram.eq(Mux(beat < room, beat, room)), chip.eq(dram)]
        m.d.comb += ends.eq(dram == beat)
        step = Signal(len(self.line), name="line_step")
        whole = Signal(name="whole_line")
        m.d.comb += whole.eq(chip == p.line_bytes)
        m.d.comb += step.eq(Mux(whole, 1 << p.offset_bits, chip[: p.offset_bits]))
        return dram, chip, ends, line_sum(m, self.line, step, p.row_bits, p.offset_bits, p.line_bytes, "line_next")


class DmaRead(_Engine):
    """DRAM into the scratchpad."""

    def elaborate(self, platform: object) -> Module:
        """The netlist."""
        m, p = Module(), self.p
        self._nest(m)
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += [self.ready.eq(1), self.nest.start.eq(self.valid)]
                with m.If(self.valid):
                    m.d.sync += [self.which_now.eq(self.which), self.wide_now.eq(self.wide), self.fresh.eq(1)]
                    m.next = "REQUEST"
            with m.State("REQUEST"):
                self._request(m)
            with m.State("DATA"):
                dram, chip, ends, line = self._chunk(m, self.wide_now)
                with m.If(self.data_valid):
                    m.d.sync += [
                        self.left.eq(self.left - dram),
                        self.line.eq(line),
                        self.taken.eq(Mux(ends, 0, self.taken + dram)),
                    ]
                    m.d.comb += [self.data_ready.eq(ends), self.scratchpad.waddr[1].eq(self.line)]
                    m.d.comb += self.moved.eq(dram)
                    m.d.comb += self.scratchpad.wen[1].eq(_first(chip, p.line_bytes))
                    m.d.comb += self.scratchpad.wdata[1].eq(self._placed(m))
                    with m.If(ends):
                        m.d.sync += self.burst.eq(self.burst - 1)
                        with m.If(self.burst == 1):
                            m.next = "REQUEST"
                            with m.If(self.left == dram):
                                m.d.comb += self.nest.step.eq(1)
                                m.d.sync += self.fresh.eq(1)
                                with m.If(self.nest.last):
                                    m.d.comb += self.done.eq(1)
                                    m.next = "IDLE"
        return m

    def _placed(self, m: Module) -> Value:
        """The bytes at hand as the scratchpad takes them: as they are, or each result widened with its sign."""
        rest = shifted(m, self.data, self.taken, 8, "rest")
        slots = min(self.p.slots, self.p.bus_bytes)
        kinds = []
        for log2 in range(3):
            size = 8 << log2
            parts = [
                rest.word_select(i, size).as_signed() if (i + 1) * size <= len(self.data) else Value.cast(0)
                for i in range(slots)
            ]
            kinds.append(Cat(*(Cat(v, v[-1].replicate(32 - len(v))) if len(v) < 32 else v for v in parts)))
        wide = Mux(self.result_log2 == 0, kinds[0], Mux(self.result_log2 == 1, kinds[1], kinds[2]))
        return Mux(self.wide_now, wide, rest)


class DmaWrite(_Engine):
    """Results from the scratchpad to DRAM. A chunk is read in one cycle and joins its beat in the next."""

    def __init__(
        self, p: Parameters, bus: WriteBus, scratchpad: Scratchpad, sets: tuple[str, ...], first: int, name: str
    ) -> None:
        super().__init__(p, bus, scratchpad, sets, first, name)
        self.strobe = Signal(p.bus_bytes, name=f"{name}_strobe")

    def elaborate(self, platform: object) -> Module:
        """The netlist."""
        m, p = Module(), self.p
        self._nest(m)
        pending, ends_now, first_byte = Signal(), Signal(), Signal(range(p.bus_bytes))
        bytes_now, joined = Signal(range(p.bus_bytes + 1)), Signal(8 * p.bus_bytes)
        to_issue, more = Signal(16, name="to_issue"), Signal()
        chunk_now = Signal(range(p.bus_bytes + 1))
        beat, taken = self._packed(m, first_byte, chunk_now), Signal()
        full = Signal(8 * p.bus_bytes)
        m.d.comb += [full.eq(joined | beat), self.data.eq(full), self.data_valid.eq(pending & ends_now)]
        m.d.comb += self.strobe.eq(_first(bytes_now, p.bus_bytes))
        m.d.comb += [taken.eq(pending & (~ends_now | self.data_ready)), self.scratchpad.looks[1].eq(pending)]
        with m.If(taken):
            m.d.sync += [pending.eq(0), joined.eq(Mux(ends_now, 0, full))]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += [self.ready.eq(1), self.nest.start.eq(self.valid)]
                with m.If(self.valid):
                    m.d.sync += [self.which_now.eq(self.which), self.fresh.eq(1)]
                    m.next = "REQUEST"
            with m.State("REQUEST"):
                self._request(m)
                m.d.sync += to_issue.eq(self.beats)
            with m.State("DATA"):
                dram, _, ends, line = self._chunk(m, Value.cast(1))
                m.d.comb += more.eq((to_issue != 0) & (~pending | taken))
                m.d.comb += [self.scratchpad.raddr[1].eq(self.line), self.scratchpad.ren[1].eq(more)]
                with m.If(more):
                    m.d.sync += [
                        pending.eq(1),
                        ends_now.eq(ends),
                        first_byte.eq(self.taken),
                        bytes_now.eq(self.taken + dram),
                    ]
                    m.d.sync += [
                        self.left.eq(self.left - dram),
                        self.line.eq(line),
                        self.taken.eq(Mux(ends, 0, self.taken + dram)),
                    ]
                    m.d.sync += [to_issue.eq(to_issue - ends), chunk_now.eq(dram)]
                with m.If(pending & ends_now & self.data_ready):
                    m.d.sync += self.burst.eq(self.burst - 1)
                    with m.If(self.burst == 1):
                        m.next = "REQUEST"
                        with m.If(self.left == 0):
                            m.d.comb += self.nest.step.eq(1)
                            m.d.sync += self.fresh.eq(1)
                            with m.If(self.nest.last):
                                m.d.comb += self.done.eq(1)
                                m.next = "IDLE"
        return m

    def _packed(self, m: Module, first_byte: Signal, chunk: Signal) -> Value:
        """The line read as the part of a beat it is: the low bytes of each result."""
        line, slots, bits = self.scratchpad.rdata[1], self.p.slots, 8 * self.p.bus_bytes
        kinds = [Cat(*(line[32 * i : 32 * i + (8 << log2)] for i in range(slots)))[:bits] for log2 in range(3)]
        low = Mux(self.result_log2 == 0, kinds[0], Mux(self.result_log2 == 1, kinds[1], kinds[2]))
        keep = Cat(*((chunk > i).replicate(8) for i in range(self.p.bus_bytes)))
        return shifted(m, low & keep, first_byte, 8, "part", up=True)


def _first(count: Value, lanes: int) -> Value:
    """The first `count` of so many lanes."""
    return Cat(*(count > i for i in range(lanes)))
