"""The DMA engines: boxes of contiguous runs between DRAM and the scratchpad, in bursts, several of them under way.

Channels are like those of AXI4: an address with a number of beats and a tag, then data with valid and ready. A burst and its beats begin at any byte.
With `axi` they are those of AXI4: a burst begins at any byte and its beats are aligned, so its first may be a part of one; it ends where an address is a
multiple of the longest burst, so none crosses 4 KB. Where answers come in order all requests have the identifier 0. A burst written is over
when its response has come. A request that is not taken stays, also after a fault; so does what is under way: data are taken and thrown away.
Results are 32 bits wide on chip and 1, 2 or 4 bytes in DRAM (`result_log2`): the low bytes are stored, and come back with their sign.

An engine has two sides. The address side walks the runs of a command and asks for one burst a cycle, as long as fewer than `outstanding`
are under way. What a burst's data need is kept in a table: their place in the scratchpad and their number. The data side moves one chunk
a cycle. A beat is one chunk where it fits the line of the scratchpad from its first byte on. With one burst under way
an engine takes a command when the one before has ended, otherwise when all its bursts have been asked for.

Data come in the order of the requests, or by tag (`answers`). By tag a beat is for any request under way, and beats of several may alternate: an AXI4
manager with several identifiers cannot forbid that. So a burst's progress stands in its entry of the table. An entry that is answered is kept
until it is the oldest, and one a cycle leaves. Requests are therefore over in their order, and so are commands; a tag says a request's number.

An answer that no request awaits, an error of the memory, or silence for longer than `patience` cycles is a *fault*: the engine stops and names the
request by its number. By tag an answer too many is of the request that had its tag last.
"""

from typing import ClassVar

from amaranth.hdl import Array, Cat, Elaboratable, Module, Mux, Signal, Value

from codesign.hardware.parameters import Control, Parameters
from codesign.hardware.rtl.memory import Scratchpad
from codesign.hardware.rtl.nest import Address, LoopNest, line_sum
from codesign.hardware.rtl.registers import RegisterFile, WriteBus
from codesign.hardware.rtl.shift import shifted
from codesign.hardware.words import Fault

DRAM_BITS = 32
"""Bits of a byte address in DRAM."""

PATIENCE_BITS = 24
"""Bits of the number of cycles that an engine waits for the memory."""


class Bursts(Elaboratable):
    """The bursts under way, oldest first: what is needed when their data move.

    Attributes:
        push, line, count_bytes, last, which, wide: In, a burst is asked for: its place on chip, bytes, whether it is its command's last, the register set, and whether its elements are widened.
        pop: In, the oldest is over: its data have moved, and its response has come where there are responses. skip: In, the next burst becomes the one at hand (a writer reads ahead of what has moved).
        room: Out, one more may be asked for. some: Out, there is a burst at hand. empty: Out, none is under way.
        now_*: Out, the fields of the burst at hand; `now_tag` its tag. tag: Out, that of the next request. number: Out, requests that are over.
        oldest_last: Out, whether the oldest is its command's last; where there are responses, or answers by tag.

    With answers by tag:
        answer: In, the tag of the answer at hand. due: In, how many of the oldest may be answered. finish: In, the answer is its request's last.
        update: In, a chunk of the answer has moved: `next_*` are what is left of its burst. stop: In, nothing is over any more; blame: In, `number` becomes that
            of the answer's request.
        awaited: Out, its request is under way and not answered. oldest_which: Out, the register set of the oldest. `pop` is an output, and `now_*` are those of
            the answer where data come by tag.
    """

    def __init__(self, p: Parameters, name: str, responds: bool, by_tag: bool) -> None:
        self.p, self.name, self.responds, self.by_tag = p, name, responds, by_tag
        self.oldest_last = Signal(name=f"{name}_oldest_last")
        bits, sizes = p.address_bits, range(p.burst_bytes + 1)
        self.tag_bits = max(1, (p.outstanding - 1).bit_length())
        self.widths = {"line": bits, "bytes": len(Signal(sizes)), "last": 1, "which": 2, "wide": 1}
        if p.axi:
            self.widths["offset"] = (p.bus_bytes - 1).bit_length()
        self.given = {k: Signal(n, name=f"{name}_give_{k}") for k, n in self.widths.items()}
        self.now = {k: Signal(n, name=f"{name}_now_{k}") for k, n in self.widths.items()}
        self.push, self.pop, self.skip = (Signal(name=f"{name}_{n}") for n in ("push", "pop", "skip"))
        self.room, self.some, self.empty = (Signal(name=f"{name}_{n}") for n in ("room", "some", "empty"))
        self.tag, self.now_tag, self.answer = (
            Signal(self.tag_bits, name=f"{name}_{n}") for n in ("tag", "now_tag", "answer")
        )
        self.number = Signal(32, name=f"{name}_number")
        self.due = Signal(range(p.outstanding + 1), name=f"{name}_due")
        self.finish, self.update, self.stop, self.blame, self.awaited = (
            Signal(name=f"{name}_{n}") for n in ("finish", "update", "stop", "blame", "awaited")
        )
        self.under_way = Signal(range(p.outstanding + 1), name="under_way")
        self.oldest, self.answered = Signal(self.tag_bits, name="oldest"), Signal(p.outstanding, name="answered")
        size = sum(self.widths.values())
        self.entries = [Signal(size, name=f"burst_{i}", reset_less=True) for i in range(p.outstanding)]
        self.oldest_which = Signal(2, name=f"{name}_oldest_which")
        self.next = {
            k: Signal(n, name=f"{name}_next_{k}") for k, n in self.widths.items() if k in ("line", "bytes", "offset")
        }

    def elaborate(self, platform: object) -> Module:
        """The netlist of this part, as Amaranth elaborates it."""
        m, n = Module(), self.p.outstanding
        under_way, entries, ahead = self.under_way, self.entries, Signal(range(n + 1), name="ahead")
        m.d.sync += under_way.eq(under_way + self.push - self.pop)
        if self.responds or not self.by_tag:
            m.d.sync += ahead.eq(ahead + self.push - self.skip)
        if not self.by_tag:
            m.d.sync += self.number.eq(self.number + self.pop)
        m.d.comb += [self.room.eq(under_way != n), self.some.eq(ahead != 0), self.empty.eq(under_way == 0)]
        row = Cat(*self.given.values())
        for i, entry in enumerate(entries):
            with m.If(self.push & (self.tag == i)):
                m.d.sync += entry.eq(row)
            if self.by_tag and not self.responds:
                with m.Elif(self.update & (self.answer == i)):
                    m.d.sync += [_field(entry, self.widths, k).eq(v) for k, v in self.next.items()]
        m.d.comb += Cat(*self.now.values()).eq(Array(entries)[self.now_tag])
        walks = [(self.push, self.tag)]
        if self.responds or not self.by_tag:
            walks.append((self.skip, self.now_tag))
        if self.responds or self.by_tag:
            oldest = self.oldest
            m.d.comb += self.oldest_last.eq(Array(_field(entry, self.widths, "last") for entry in entries)[oldest])
            walks.append((self.pop, oldest))
        if self.by_tag:
            m.d.comb += self.oldest_which.eq(Array(_field(entry, self.widths, "which") for entry in entries)[oldest])
            self._answers(m)
        for moves, at in walks:
            with m.If(moves):
                m.d.sync += at.eq(Mux(at == n - 1, 0, at + 1))
        return m

    def _answers(self, m: Module) -> None:
        """Answers by tag: which requests have theirs, and when the oldest is over."""
        n, done, oldest, under_way = self.p.outstanding, self.answered, self.oldest, self.under_way
        if not self.responds:
            m.d.comb += [self.now_tag.eq(self.answer), self.due.eq(under_way)]
        after = Signal(range(n), name="requests_after_oldest")
        m.d.comb += after.eq(Mux(self.answer < oldest, self.answer + n - oldest, self.answer - oldest))
        known = self.answer < n
        m.d.comb += self.awaited.eq(known & (after < self.due) & ~done.bit_select(self.answer, 1))
        m.d.comb += self.pop.eq(~self.stop & (done.bit_select(oldest, 1) | (self.finish & (self.answer == oldest))))
        ends = Cat(self.finish & (self.answer == i) for i in range(n))
        leaves = Cat(self.pop & (oldest == i) for i in range(n))
        m.d.sync += done.eq((done | ends) & ~leaves)
        had = self.number + after - Mux(after < under_way, 0, n)
        m.d.sync += self.number.eq(Mux(self.blame, Mux(known, had, -1), self.number + self.pop))


def _field(entry: Signal, widths: dict[str, int], name: str) -> Value:
    """One field of an entry."""
    at = sum(list(widths.values())[: list(widths).index(name)])
    return entry[at : at + widths[name]]


class _Engine(Elaboratable):
    """What both directions share: register sets, the nest of runs, the table of bursts."""

    name: ClassVar[str]
    tensors: ClassVar[tuple[str, ...]]
    """Which of them a loop nest's machine moves; each has a register set of its own."""

    def __init__(self, p: Parameters, bus: WriteBus, scratchpad: Scratchpad, first: int) -> None:
        self.p, self.scratchpad, name = p, scratchpad, self.name
        self.sets = sets = self.tensors if p.control is Control.NEST else ("box",)
        self.registers = r = RegisterFile(bus, first)
        bits = p.address_bits
        self.result_log2 = r.field(f"{name}_result_log2", 2)
        self.r_patience = r.field(f"{name}_patience", PATIENCE_BITS)
        self.r_run = {s: r.field(f"{name}_run_bytes_{s}", 24) for s in sets}
        self.r_bound = {s: r.fields(f"{name}_bound_{s}", 16, p.box_loops) for s in sets}
        self.r_dram = {s: r.fields(f"{name}_dram_{s}", DRAM_BITS, p.box_loops) for s in sets}
        self.r_line = {s: r.fields(f"{name}_line_{s}", bits, p.box_loops) for s in sets}
        self.valid, self.ready = Signal(name=f"{name}_valid"), Signal(name=f"{name}_ready")
        self.which = Signal(2, name=f"{name}_which")
        self.wide = Signal(name=f"{name}_wide")
        self.dram = Signal(DRAM_BITS, name=f"{name}_dram")
        self.at = Signal(bits, name=f"{name}_at")
        self.done, self.done_which = Signal(name=f"{name}_done"), Signal(2, name=f"{name}_done_which")
        self.request, self.granted = Signal(name=f"{name}_request"), Signal(name=f"{name}_granted")
        self.address = Signal(DRAM_BITS, name=f"{name}_address")
        self.beats = Signal(16, name=f"{name}_beats")
        self.data = Signal(8 * p.bus_bytes, name=f"{name}_data")
        self.moved = Signal(range(p.bus_bytes + 1), name=f"{name}_moved")
        self.data_valid, self.data_ready = Signal(name=f"{name}_data_valid"), Signal(name=f"{name}_data_ready")
        self.error = Signal(name=f"{name}_error")
        self.response = Signal(2, name=f"{name}_response")
        self.fault = Signal(3 if p.axi else 2, name=f"{name}_fault")
        responds = p.axi and name == "write"
        self.bursts = Bursts(p, name, responds, p.by_tag and (responds or name == "read"))
        bits = self.bursts.tag_bits
        self.tag, self.answer_tag = Signal(bits, name=f"{name}_asked"), Signal(bits, name=f"{name}_answer_tag")

    def _box(self, m: Module, name: str, nest: LoopNest, runs: Address, lines: Address) -> None:
        """The loops over the runs of a box from a register set."""
        for i in range(self.p.box_loops):
            m.d.comb += [nest.bound_m1[i].eq(self.r_bound[name][i]), runs.delta[i].eq(self.r_dram[name][i])]
            m.d.comb += lines.delta[i].eq(self.r_line[name][i])

    def _address_side(self, m: Module, wide: Value) -> None:
        """Commands into requests: one burst a cycle while the table has room."""
        p, table = self.p, self.bursts
        m.submodules.registers, m.submodules.bursts = self.registers, table
        may: Value = self.fault == Fault.NONE
        if p.axi:
            kept = Signal(name="request_kept")
            m.d.sync += kept.eq(self.request & ~self.granted)
            may = may | kept
        if not p.axi or p.by_tag:
            m.d.comb += self.tag.eq(table.tag)
        m.submodules.nest = nest = LoopNest(p.box_loops)
        m.submodules.runs = runs = Address(nest, DRAM_BITS, "runs")
        m.submodules.lines = lines = Address(nest, p.address_bits, "lines", p)
        which_now, wide_now = Signal(2, name="which_now"), Signal(name="wide_now")
        run_bytes = Signal(24, name="run_bytes")
        which = Mux(nest.start, self.which, which_now)
        for n, s in enumerate(self.sets):
            with m.If(which == n):
                m.d.comb += run_bytes.eq(self.r_run[s])
                self._box(m, s, nest, runs, lines)
        m.d.comb += [runs.base.eq(self.dram), lines.base.eq(self.at)]
        left, here = Signal(24, name="left"), Signal(DRAM_BITS, name="here")
        line, fresh = Signal(p.address_bits, name="line"), Signal(name="fresh")
        left_now, line_now = Signal(24, name="left_now"), Signal(len(line), name="line_now")
        m.d.comb += [left_now.eq(Mux(fresh, run_bytes, left)), line_now.eq(Mux(fresh, lines.address, line))]
        ends = Signal(name="run_ends")
        size = Signal(len(table.given["bytes"]), name="burst_size")
        most = Signal(range(p.burst_bytes + 1), name="burst_most")
        m.d.comb += [ends.eq(left_now <= most), self.address.eq(Mux(fresh, runs.address, here))]
        m.d.comb += size.eq(Mux(ends, left_now, most))
        given = {"line": line_now, "bytes": size, "last": ends & nest.last, "which": which_now, "wide": wide_now}
        offset: Value = Value.cast(0)
        if p.axi:
            offset = given["offset"] = self.address[: (p.bus_bytes - 1).bit_length()]
        m.d.comb += most.eq(
            p.burst_bytes - self.address[: (p.burst_bytes - 1).bit_length()] if p.axi else p.burst_bytes
        )
        m.d.comb += self.beats.eq((size + offset + (p.bus_bytes - 1)) >> (p.bus_bytes - 1).bit_length())
        m.d.comb += [table.given[k].eq(v) for k, v in given.items()]
        following = line_sum(m, p, line_now, self._burst_line(m, wide_now, most), "burst_next")
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.ready.eq(table.empty if p.outstanding == 1 else 1)
                m.d.comb += nest.start.eq(self.valid & self.ready)
                with m.If(nest.start):
                    m.d.sync += [which_now.eq(self.which), wide_now.eq(wide), fresh.eq(1)]
                    m.next = "REQUEST"
            with m.State("REQUEST"):
                m.d.comb += [self.request.eq(table.room & may), table.push.eq(self.request & self.granted)]
                with m.If(table.push):
                    m.d.sync += [left.eq(left_now - most), here.eq(self.address + most)]
                    m.d.sync += [line.eq(following), fresh.eq(ends)]
                    m.d.comb += nest.step.eq(ends)
                    with m.If(ends & nest.last):
                        m.next = "IDLE"

    def _burst_line(self, m: Module, wide: Value, most: Signal) -> Signal:
        """How far a whole burst reaches in the scratchpad, as a packed address: results take 4 bytes an element."""
        p = self.p
        step = Signal(p.address_bits, name="burst_line")
        if p.axi:  # lines are a power of two: bytes are packed addresses
            m.d.comb += step.eq(Mux(wide, (most << 2) >> self.result_log2, most))
            return step
        sizes = [p.burst_bytes, *(p.burst_bytes * 4 >> log2 for log2 in range(3))]
        packed = [(n // p.line_bytes << p.offset_bits | n % p.line_bytes) % (1 << len(step)) for n in sizes]
        widened = Mux(self.result_log2 == 0, packed[1], Mux(self.result_log2 == 1, packed[2], packed[3]))
        m.d.comb += step.eq(Mux(wide, widened, packed[0]))
        return step

    def _at_hand(self, m: Module) -> None:
        """The burst whose data move: from the table at its start, from registers afterwards."""
        p, now = self.p, self.bursts.now
        self.midst = Signal(name="midst")
        self.left, self.line = Signal(len(now["bytes"]), name="data_left"), Signal(len(now["line"]), name="data_line")
        self.left_kept = Signal(len(self.left), name="left_kept")
        self.line_kept = Signal(len(self.line), name="line_kept")
        self.ends_burst = Signal(name="ends_burst")
        self.taken = Signal(range(p.bus_bytes + 1), name="taken")
        self.taken_kept = self.taken
        if self.bursts.by_tag and not self.bursts.responds:  # the entry says what is left
            m.d.comb += [self.left.eq(now["bytes"]), self.line.eq(now["line"])]
            if p.axi:
                m.d.comb += self.taken.eq(now["offset"])
            return
        m.d.comb += self.left.eq(Mux(self.midst, self.left_kept, now["bytes"]))
        m.d.comb += self.line.eq(Mux(self.midst, self.line_kept, now["line"]))
        if p.axi:
            self.taken_kept = Signal(range(p.bus_bytes + 1), name="taken_kept")
            m.d.comb += self.taken.eq(Mux(self.midst, self.taken_kept, now["offset"]))

    def _advance(self, m: Module, dram: Value, ends: Value, line: Value) -> None:
        """A chunk has moved: to the next, or to the next burst."""
        if self.bursts.by_tag and not self.bursts.responds:
            table, taken = self.bursts, Mux(ends, 0, self.taken + dram)
            m.d.comb += [table.update.eq(1), table.finish.eq(self.ends_burst)]
            m.d.comb += [table.next["bytes"].eq(self.left - dram), table.next["line"].eq(line)]
            if self.p.axi:
                m.d.comb += table.next["offset"].eq(taken)
            else:  # a beat is moved whole before the next one, of whatever request
                m.d.sync += self.taken.eq(taken)
            return
        m.d.sync += [self.left_kept.eq(self.left - dram), self.line_kept.eq(line), self.midst.eq(~self.ends_burst)]
        m.d.sync += self.taken_kept.eq(Mux(ends, 0, self.taken + dram))
        m.d.comb += self.bursts.skip.eq(self.ends_burst)

    def _chunk(self, m: Module, wide: Value) -> tuple[Signal, Signal, Signal, Value]:
        """What moves in one cycle: bytes of DRAM, bytes of the scratchpad, whether the beat ends, the next line."""
        p = self.p
        on_bus, on_chip = range(p.bus_bytes + 1), range(p.line_bytes + 1)
        beat, room = Signal(on_bus, name="beat_left"), Signal(on_chip, name="room")
        dram, chip, ends = Signal(on_bus, name="chunk"), Signal(on_chip, name="chunk_on_chip"), Signal(name="beat_ends")
        rest = p.bus_bytes - self.taken
        m.d.comb += [
            beat.eq(Mux(self.left < rest, self.left, rest)),
            room.eq(p.line_bytes - (0 if p.halved_banks else self.line[:3])),
        ]
        with m.If(wide):
            have, fit = Signal(on_bus, name="have"), Signal(on_chip, name="fit")
            m.d.comb += [have.eq(beat >> self.result_log2), fit.eq(room >> 2)]
            count = Mux(have < fit, have, fit)
            m.d.comb += [dram.eq(count << self.result_log2), chip.eq(count << 2)]
        with m.Else():
            m.d.comb += [dram.eq(Mux(beat < room, beat, room)), chip.eq(dram)]
        m.d.comb += [ends.eq(dram == beat), self.ends_burst.eq(dram == self.left)]
        step = Signal(len(self.line), name="line_step")
        whole = Signal(name="whole_line")
        m.d.comb += whole.eq(chip == p.line_bytes)
        m.d.comb += step.eq(Mux(whole, 1 << p.offset_bits, chip[: p.offset_bits]))
        return dram, chip, ends, line_sum(m, p, self.line, step, "line_next")

    def _watch(self, m: Module, progress: Value, wrong: Value) -> None:
        """Faults: the first one stays."""
        waited = Signal(PATIENCE_BITS, name="waited")
        m.d.sync += waited.eq(Mux(progress | self.bursts.empty, 0, waited + 1))
        silence = (self.r_patience != 0) & (waited == self.r_patience)
        refused: Value = Value.cast(Fault.ERROR)
        if self.p.axi:  # a decode error: nothing lies at the address
            refused = Mux(self.response[0], Fault.NOWHERE, Fault.ERROR)
        found = Mux(self.error, refused, Mux(wrong, Fault.ORDER, Mux(silence, Fault.SILENCE, Fault.NONE)))
        if self.bursts.by_tag:
            m.d.comb += [self.bursts.answer.eq(self.answer_tag), self.bursts.stop.eq(self.fault != Fault.NONE)]
            m.d.comb += self.bursts.blame.eq((self.fault == Fault.NONE) & (self.error | wrong))
        m.d.sync += self.fault.eq(Mux(self.fault == Fault.NONE, found, self.fault))


class DmaRead(_Engine):
    """The engine that moves boxes from DRAM into the scratchpad."""

    name, tensors = "read", ("A", "B", "O")

    def elaborate(self, platform: object) -> Module:
        """The netlist of this part, as Amaranth elaborates it."""
        m, p, table = Module(), self.p, self.bursts
        self._address_side(m, self.wide)
        self._at_hand(m)
        wide_now = table.now["wide"]
        dram, chip, ends, line = self._chunk(m, wide_now)
        expected = Signal(name="expected")
        awaited: Value = table.awaited if p.by_tag else self.answer_tag == table.now_tag
        if p.axi:
            awaited = (table.awaited if p.by_tag else self.answer_tag == 0) & (self.fault == Fault.NONE)
            m.d.comb += [
                self.error.eq(self.data_valid & self.response[1]),
                self.data_ready.eq(self.fault != Fault.NONE),
            ]
        some: Value = Value.cast(1) if p.by_tag else table.some
        m.d.comb += expected.eq(self.data_valid & ~self.error & some & awaited)
        with m.If(expected):
            self._advance(m, dram, ends, line)
            m.d.comb += [self.data_ready.eq(ends), self.scratchpad.waddr[1].eq(self.line), self.moved.eq(dram)]
            m.d.comb += self.scratchpad.wen[1].eq(_first(chip, p.line_bytes))
            m.d.comb += self.scratchpad.wdata[1].eq(self._placed(m, wide_now))
        if p.by_tag:
            m.d.comb += [self.done.eq(table.pop & table.oldest_last), self.done_which.eq(table.oldest_which)]
        else:
            m.d.comb += [table.pop.eq(table.skip), self.done.eq(table.pop & table.now["last"])]
            m.d.comb += self.done_which.eq(table.now["which"])
        self._watch(m, self.data_valid, self.data_valid & ~self.error & ~expected)
        return m

    def _placed(self, m: Module, wide: Value) -> Value:
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
        widened = Mux(self.result_log2 == 0, kinds[0], Mux(self.result_log2 == 1, kinds[1], kinds[2]))
        return Mux(wide, widened, rest)


class DmaWrite(_Engine):
    """Results from the scratchpad to DRAM. A chunk is read in one cycle and joins its beat in the next."""

    name, tensors = "write", ("O",)

    def __init__(self, p: Parameters, bus: WriteBus, scratchpad: Scratchpad, first: int) -> None:
        super().__init__(p, bus, scratchpad, first)
        self.strobe, self.last = Signal(p.bus_bytes, name="write_strobe"), Signal(name="write_last")
        self.answered, self.answer_ready = Signal(name="write_answered"), Signal(name="write_answer_ready")

    def elaborate(self, platform: object) -> Module:
        """The netlist of this part, as Amaranth elaborates it."""
        m, p, table = Module(), self.p, self.bursts
        self._address_side(m, Value.cast(1))
        self._at_hand(m)
        pending, ends_now, first_byte = Signal(), Signal(), Signal(range(p.bus_bytes))
        bytes_now, joined = Signal(range(p.bus_bytes + 1)), Signal(8 * p.bus_bytes)
        burst_ends, command_ends, more = Signal(), Signal(), Signal()
        chunk_now = Signal(range(p.bus_bytes + 1))
        beat, taken = self._packed(m, first_byte, chunk_now), Signal()
        full = Signal(8 * p.bus_bytes)
        m.d.comb += [full.eq(joined | beat), self.data.eq(full), self.data_valid.eq(pending & ends_now)]
        lanes = _first(bytes_now, p.bus_bytes)
        if p.axi:
            below = Signal(range(p.bus_bytes), name="below")  # bytes of the beat that lie before its burst
            lanes = lanes & ~_first(below, p.bus_bytes)
        m.d.comb += [self.strobe.eq(lanes), self.last.eq(self.data_valid & burst_ends)]
        m.d.comb += [taken.eq(pending & (~ends_now | self.data_ready)), self.scratchpad.looks[1].eq(pending)]
        with m.If(taken):
            m.d.sync += [pending.eq(0), joined.eq(Mux(ends_now, 0, full))]
        dram, _, ends, line = self._chunk(m, Value.cast(1))
        m.d.comb += more.eq(table.some & (~pending | taken))
        m.d.comb += [self.scratchpad.raddr[1].eq(self.line), self.scratchpad.ren[1].eq(more)]
        with m.If(more):
            self._advance(m, dram, ends, line)
            m.d.sync += [pending.eq(1), ends_now.eq(ends), first_byte.eq(self.taken), bytes_now.eq(self.taken + dram)]
            if p.axi:
                m.d.sync += below.eq(Mux(~self.midst, table.now["offset"], Mux(self.taken == 0, 0, below)))
            m.d.sync += [chunk_now.eq(dram), burst_ends.eq(self.ends_burst), command_ends.eq(table.now["last"])]
        moved = self.data_valid & self.data_ready & burst_ends
        if p.axi:
            self._respond(m, moved)
            return m
        m.d.comb += table.pop.eq(moved)
        m.d.comb += self.done.eq(table.pop & command_ends)
        self._watch(m, self.data_ready, Value.cast(0))
        return m

    def _respond(self, m: Module, moved: Value) -> None:
        """Responses end the bursts whose data have moved, in their order or by tag."""
        table = self.bursts
        waiting = Signal(range(self.p.outstanding + 1), name="responses_due")
        m.d.sync += waiting.eq(waiting + moved - table.pop)
        m.d.comb += [self.answer_ready.eq(1), self.error.eq(self.answered & self.response[1])]
        awaited: Value = table.awaited if table.by_tag else waiting != 0
        taken = self.answered & ~self.error & awaited & (self.fault == Fault.NONE)
        m.d.comb += (table.finish if table.by_tag else table.pop).eq(taken)
        if table.by_tag:
            m.d.comb += table.due.eq(waiting)
        m.d.comb += self.done.eq(table.pop & table.oldest_last)
        progress = (self.data_valid & self.data_ready) | self.answered
        self._watch(m, progress, self.answered & ~self.error & ~awaited)

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
