"""The array's own controller: runs one command at a time out of a loop nest in registers.

| command | what it does |
|---|---|
| FILL_A, FILL_B | brings an operand's tile from the scratchpad into the local memories, window by window |
| PRELOAD | brings partial sums into the local memories |
| RUN | feeds the windows of operands that are not local, and lets every element multiply once an iteration |
| DRAIN | gives the local partial sums to the scratchpad, summed on the way |

A *window* is a line of the scratchpad from any byte on; each element's setting says in which window and byte its operand lies. An
*emission* is one line of results: the elements of one row group add up along their columns, columns are summed into the slots of
a line, and the line is added to the scratchpad. Feeding stands still in the cycle in which an emission reads old sums, unless the scratchpad
has a port of its own for them. A drained sum stays in a register of its element, so the next run goes on while its lines leave. Where sums are
local, the port of old sums is free while the array runs: it feeds operand B beside operand A, and only B stands still while a drained line is
added to what another left.

Cycles, with f the cycle in which `go` is issued: the line is on the bus at f + 2, the product stands at f + 4, emission e is read from the scratchpad at
f + 4 + column_cycles + e and written a cycle later.
"""

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, Value

from codesign.arch.architecture import Links
from codesign.hardware.parameters import Control, Parameters
from codesign.hardware.rtl.array import TENSOR_CODE, Array
from codesign.hardware.rtl.memory import Ram, Scratchpad
from codesign.hardware.rtl.nest import Address, LoopNest, line_sum
from codesign.hardware.rtl.registers import RegisterFile, WriteBus
from codesign.hardware.rtl.slot import SlotSum
from codesign.hardware.words import (
    COLUMN,
    EMIT_AT,
    EMIT_CYCLES,
    EMIT_WHO,
    PE_A,
    PE_B,
    PE_COLUMN_BITS,
    PE_HEAD,
    ROW,
    WINDOWS_A,
    WINDOWS_B,
    Command,
)

FEED_CYCLES = 2
"""From the issue of a read to its line on the bus: the memory, and a register after the turn."""


def _delay(m: Module, signal: Value, cycles: int, name: str, *, data: bool = False) -> Value:
    """The signal some cycles later; `data` are looked at only where another signal says so, and need no reset."""
    for i in range(cycles):
        later = Signal(len(signal), name=f"{name}_{i + 1}", reset_less=data)
        m.d.sync += later.eq(signal)
        signal = later
    return signal


class ArrayUnit(Elaboratable):
    """Nest, window tables, array, collector.

    Attributes:
        valid, ready: Handshake of a command; it is taken in the cycle in which both are high.
        kind, first: The command; whether the sums it adds to begin now.
        at: By tensor, packed scratchpad address of its tile.
        local_at: By tensor kept in the local memories, local address of its tile.
        fill_valid, fill_ready, fill_b: Handshake of a fill beside the array, where there are such, and whether it is operand B's.
        idle: No command is at work. ends: One is in its last cycle. quiet: No emission is under way.
        settling: Cycles until every result given so far is written; looked at while no command is at work.
    """

    def __init__(
        self, p: Parameters, bus: WriteBus, scratchpad: Scratchpad, first_register: int, instance: bool
    ) -> None:
        self.p, self.bus, self.scratchpad = p, bus, scratchpad
        prepared = p.overlaps and p.control is Control.QUEUE
        self.registers = RegisterFile(bus, first_register, prepared=prepared)
        self.valid, self.ready = Signal(name="cmd_valid"), Signal(name="cmd_ready")
        self.idle, self.quiet = Signal(name="idle"), Signal(name="quiet")
        self.ends = Signal(name="cmd_ends")
        self.settling = Signal(range(EMIT_CYCLES + p.column_cycles + p.windows + 1), name="settling")
        self.kind, self.first = Signal(3, name="cmd_kind"), Signal(name="cmd_first")
        bits = p.address_bits
        self.at = {t: Signal(bits, name=f"cmd_at_{t}") for t in "ABO"}
        self.local_at = {t: Signal(p.local_bits, name=f"cmd_local_{t}") for t in "ABO"}
        self.nest = LoopNest(p.run_loops)
        self.fill_valid, self.fill_ready, self.fill_b = (Signal(name=f"fill_{n}") for n in ("valid", "ready", "of_b"))
        self.fill_nest = LoopNest(p.run_loops) if p.fills_beside else self.nest
        self.array = Array(p, instance)
        self.slots = [SlotSum(p.cols, p.links is not Links.NONE, instance) for _ in range(p.slots)]
        self._declare()
        widths = {"A": bits, "B": bits, "O": bits, "who": 8 + p.window_bits}
        self.tables = {
            name: Ram(p.windows, width, width, 2 if name in ("O", "who") else 1, 1, (), instance, at_once=True)
            for name, width in widths.items()
        }
        self.events = {
            "ev_feed": Signal(3, name="ev_feed"), "ev_fill": Signal(name="ev_fill"),
            "ev_window": Signal(p.window_bits, name="ev_window"), "ev_go": Signal(name="ev_go"),
            "ev_first": Signal(name="ev_first"), "ev_drain": Signal(name="ev_drain"),
            "ev_resting": Signal(12, name="ev_resting"),
            "ev_rows": Signal(7, name="ev_rows"), "ev_cols": Signal(7, name="ev_cols"), "ev_last": Signal(7, name="ev_last"),
            "ev_write": Signal(p.slots, name="ev_write"), "ev_read": Signal(name="ev_read"),
        }  # fmt: skip

    def _declare(self) -> None:
        """All registers, in the order of their addresses."""
        p, r = self.p, self.registers
        bits = p.address_bits
        self.r_mask = r.field("run_sum_loops", p.run_loops)
        self.r_windows = {t: r.field(f"windows_{t}", p.window_bits) for t in "ABO"}
        self.r_used = {t: r.field(f"feed_{t}", 1) for t in "AB"}
        self.r_limits = {n: r.field(n, 7) for n in ("ny", "nx", "nl")}
        self.r_ones = r.field("ones", 2)
        self.r_resting = r.field("resting", 12) if p.folds else Const(0, 12)
        self.r_bounds = {
            k: r.fields(f"{k}_bound", 16, p.run_loops) for k in ("run", *(f"fill_{t}" for t in "ABO" if t in p.local))
        }
        wide = [t for t in "AB" if t in p.local] if p.fills_wide else []
        self.r_group = {t: r.field(f"fill_group_{t}", 2) for t in wide}
        self.r_line, self.r_local = {}, {}
        for t in "ABO":
            kept = t in p.local
            self.r_line[t] = r.fields(f"{'fill' if kept else 'run'}_line_{t}", bits, p.run_loops)
            if kept:
                self.r_local[t] = {k: r.fields(f"{k}_local_{t}", p.local_bits, p.run_loops) for k in ("fill", "run")}

    def elaborate(self, platform: object) -> Module:
        """The netlist of this part, as Amaranth elaborates it."""
        m = Module()
        m.submodules.registers, m.submodules.run, m.submodules.array = self.registers, self.nest, self.array
        self.kind_now, self.first_now = Signal(3, name="kind_now"), Signal(name="first_now")
        self._settings(m)
        self.fill_busy, self.filled_b = Signal(name="fill_busy"), Signal(name="fill_of_b_now")
        self.fill_window = Signal(self.p.window_bits, name="fill_window")
        self.fill_ends = Signal(name="fill_ends")  # its last line is read in this cycle
        self._addresses(m)
        busy, advance = Signal(name="cmd_busy"), Signal(name="cmd_advance")
        m.d.comb += self.idle.eq(~busy)
        self.pace, self.stall = Signal(self.p.window_bits + 1, name="pace"), Signal(name="stall")
        go, went = Signal(name="go"), Signal(name="went")
        m.d.sync += went.eq(go)
        # a preload reads sums: all must be written; a fill must not meet the last local sum at the local memories' write port
        fills = self.kind <= Command.PRELOAD
        clash = fills & (went | go) if "O" in self.p.local else 0
        filling = self.fill_busy & ~self.fill_ends & ((self.kind == Command.PRELOAD) | (self.kind == Command.RUN))
        ends = advance & self.nest.last  # the next command may be taken in the last cycle of this one
        m.d.comb += self.ends.eq(ends)
        free = ~busy | ends if self.p.overlaps and self.p.control is Control.NEST else ~busy
        m.d.comb += self.ready.eq(free & ~clash & ~filling & ~((self.kind == Command.PRELOAD) & ~self.quiet))
        m.d.comb += [self.nest.start.eq(self.valid & self.ready), self.nest.step.eq(advance)]
        self.window = Signal(self.p.window_bits, name="window_now")
        m.d.comb += self.registers.take.eq(self.valid & self.ready)
        with m.If(ends):
            m.d.sync += busy.eq(0)
        with m.If(self.valid & self.ready):
            m.d.sync += [busy.eq(1), self.kind_now.eq(self.kind), self.first_now.eq(self.first), self.window.eq(0)]
        self._issue(m, busy, advance, go)
        self._emit(m, go)
        return m

    def _settings(self, m: Module) -> None:
        """Tables and settings of elements, columns and rows, written over the bus."""
        p, bus, a = self.p, self.bus, self.array
        region = bus.address & 0xF000
        index = bus.address[:12]
        m.d.comb += [
            a.cfg_data.eq(bus.data),
            a.cfg_row.eq(index[PE_COLUMN_BITS:]),
            a.cfg_col.eq(index[:PE_COLUMN_BITS]),
        ]
        for i, base in enumerate((PE_A, PE_B, PE_HEAD)):
            m.d.comb += a.cfg_pe[i].eq(bus.we & (region == base))
        with m.If(bus.we & (region == COLUMN)):
            for x in range(p.cols):
                with m.If(index == x):
                    m.d.sync += [a.slot[x].eq(bus.data[:6]), a.column_window[x].eq(bus.data[8:])]
        with m.If(bus.we & (region == ROW)):
            for y in range(p.rows):
                with m.If(index == y):
                    m.d.sync += a.group[y].eq(bus.data)
        m.d.comb += a.ones.eq(self.r_ones)
        bases = {"A": WINDOWS_A, "B": WINDOWS_B, "O": EMIT_AT, "who": EMIT_WHO}
        for name, table in self.tables.items():
            m.submodules[f"table_{name}"] = table
            m.d.comb += [table.waddr[0].eq(index), table.wdata[0].eq(bus.data)]
            m.d.comb += table.wen[0].eq(bus.we & (region == bases[name]))

    def _lookup(self, name: str, index: Value, port: int = 0) -> Signal:
        """A table's entry, in the same cycle."""
        table = self.tables[name]
        self.module.d.comb += [table.raddr[port].eq(index), table.ren[port].eq(1)]
        return table.rdata[port]

    def _addresses(self, m: Module) -> None:
        """Bounds by kind of command; one line address and, where kept, one local address a tensor."""
        p, nest = self.p, self.nest
        self.module = m
        kind = self.kind_now
        fills = {
            "A": kind == Command.FILL_A,
            "B": kind == Command.FILL_B,
            "O": (kind == Command.PRELOAD) | (kind == Command.DRAIN),
        }
        beside = "AB" if p.fills_beside else ""
        for i in range(p.run_loops):
            m.d.comb += nest.bound_m1[i].eq(self.r_bounds["run"][i])
            for t in sorted(p.local - set(beside)):
                with m.If(fills[t]):
                    m.d.comb += nest.bound_m1[i].eq(self.r_bounds[f"fill_{t}"][i])
        self.line, self.local = {}, {}
        for t in "ABO":
            line = Address(self.fill_nest if t in beside else nest, p.address_bits, f"line_{t}", p)
            m.submodules[f"line_{t}"] = self.line[t] = line
            m.d.comb += line.given(self.at[t], self.r_line[t])
            if t not in p.local:
                continue
            local = Address(nest, p.local_bits, f"local_{t}")
            m.submodules[f"local_{t}"] = self.local[t] = local
            filling, steps = 0 if t in beside else fills[t], self.r_local[t]
            chosen = [Mux(filling, fill, run) for fill, run in zip(steps["fill"], steps["run"], strict=True)]
            m.d.comb += local.given(self.local_at[t], chosen)
        if beside:
            self._beside(m)

    def _beside(self, m: Module) -> None:
        """A walk of its own for the words that enter local memories while the array multiplies."""
        p, nest = self.p, self.fill_nest
        m.submodules.fill = nest
        m.submodules.local_fill = self.fill_local = local = Address(nest, p.local_bits, "local_fill")
        m.d.comb += [
            self.fill_ready.eq(~self.fill_busy | self.fill_ends),
            nest.start.eq(self.fill_valid & self.fill_ready),
        ]
        m.d.comb += local.base.eq(Mux(self.fill_b, self.local_at["B"], self.local_at["A"]))
        for i in range(p.run_loops):
            bounds = [self.r_bounds[f"fill_{t}"][i] for t in "AB"]
            steps = [self.r_local[t]["fill"][i] for t in "AB"]
            m.d.comb += nest.bound_m1[i].eq(Mux(self.filled_b, bounds[1], bounds[0]))
            m.d.comb += local.delta[i].eq(Mux(self.filled_b, steps[1], steps[0]))
        ends = self.fill_window == Mux(self.filled_b, self.r_windows["B"], self.r_windows["A"])
        m.d.comb += [nest.step.eq(self.fill_busy & ends), self.fill_ends.eq(nest.step & nest.last)]
        with m.If(nest.start):
            m.d.sync += [self.fill_busy.eq(1), self.filled_b.eq(self.fill_b), self.fill_window.eq(0)]
        with m.Elif(self.fill_busy):
            m.d.sync += [
                self.fill_window.eq(Mux(ends, 0, self.fill_window + 1)),
                self.fill_busy.eq(~self.fill_ends),
            ]

    def _issue(self, m: Module, busy: Signal, advance: Signal, go: Signal) -> None:
        """One window, or one iteration, a cycle."""
        p, k, w = self.p, self.kind_now, self.window
        feeds = [Signal(name=f"feed_{t}") for t in "ABO"]
        feed = Cat(*feeds)
        uses = {t: self.r_used[t] if t not in p.local else 0 for t in "AB"}
        may_read, may_go = ~self.stall, self.pace == 0
        may_run = Const(1) if p.holds_sums else may_go
        last = {t: Signal(name=f"last_window_{t}") for t in "ABO"}
        m.d.comb += [last[t].eq(w == self.r_windows[t]) for t in "ABO"]
        done = Signal()  # the windows of this word or iteration end in this cycle
        with m.If(busy), m.Switch(k):
            for t, command in (("A", Command.FILL_A), ("B", Command.FILL_B), ("O", Command.PRELOAD)):
                if t in p.local and not (p.fills_beside and t != "O"):
                    with m.Case(command):
                        m.d.comb += [feeds[TENSOR_CODE[t]].eq(may_read), done.eq(may_read & last[t])]
            with m.Case(Command.RUN):
                on_a, on_b, final = Signal(name="feeds_a"), Signal(name="feeds_b"), Signal(name="last_feed")
                free = Signal()
                m.d.comb += [feeds[0].eq(on_a & free), feeds[1].eq(on_b & free), done.eq(free & final), go.eq(done)]
                if p.feeds_both:
                    m.d.comb += [on.eq(uses[t] & (w <= self.r_windows[t])) for on, t in ((on_a, "A"), (on_b, "B"))]
                    m.d.comb += final.eq(Cat(*(~uses[t] | (w >= self.r_windows[t]) for t in "AB")).all())
                    m.d.comb += free.eq((may_read | ~on_b) & (may_run | ~final))
                else:
                    self._in_turn(m, uses, last, on_a, on_b, final)
                    m.d.comb += free.eq((may_read | ~(on_a | on_b)) & (may_run | ~final))
                    with m.If(on_a & free & last["A"]):
                        m.d.sync += self.turn.eq(uses["B"])
                    with m.If(done):
                        m.d.sync += self.turn.eq(0)
            with m.Case(Command.DRAIN):
                m.d.comb += [go.eq(may_go), done.eq(may_go)]
        m.d.comb += advance.eq(done)
        if p.fills_beside:
            m.d.comb += [feeds[0].eq(self.fill_busy & ~self.filled_b), feeds[1].eq(self.fill_busy & self.filled_b)]
        with m.If(feeds[2] if p.fills_beside else feed.any()):
            ends = done if p.feeds_both else Mux(feed[0], last["A"], Mux(feed[1], last["B"], last["O"]))
            m.d.sync += w.eq(Mux(ends, 0, w + 1))
        self._read(m, feed, go)

    def _in_turn(self, m: Module, uses: dict[str, Value], last: dict[str, Signal], on_a: Signal, on_b: Signal, final: Signal) -> None:  # fmt: skip
        """Operand A's windows of an iteration, then operand B's."""
        self.turn = Signal(name="turn_of_b")
        m.d.comb += [on_a.eq(uses["A"] & ~self.turn), on_b.eq(uses["B"] & ~on_a)]
        m.d.comb += final.eq(Mux(on_a, last["A"] & ~uses["B"], Mux(on_b, last["B"], 1)))

    def _read(self, m: Module, feed: Value, go: Signal) -> None:
        """The scratchpad read of a feed, and what goes along with its line to the bus."""
        p, w, s = self.p, self.window, self.scratchpad
        w_in = self.fill_window if p.fills_beside else w
        who = self._lookup("who", w)
        self.emit_at = self._lookup("O", w)
        sums = {}
        for t, table in (("A", self._lookup("A", w_in)), ("B", self._lookup("B", w_in)), ("O", self.emit_at)):
            sums[t] = line_sum(m, p, self.line[t].address, table, f"feed_{t}")
        address = Mux(feed[0], sums["A"], sums["O"] if p.feeds_both else Mux(feed[1], sums["B"], sums["O"]))
        self.b_read, self.b_address = feed[1], sums["B"]
        head = who[0]
        self.feed_read, self.feed_address = Signal(name="feed_read"), Signal(len(address), name="feed_address")
        on_port = feed[0] if p.feeds_both else feed[0] | feed[1]
        m.d.comb += [self.feed_read.eq(on_port | (feed[2] & head)), self.feed_address.eq(address)]
        fills = 1 if p.fills_beside else self.kind_now != Command.RUN
        first = Signal()
        sums_begin = (~self.r_mask | self.nest.zero).all()
        m.d.comb += first.eq(self.first_now & sums_begin)
        sent = {
            "feed": feed.any(), "fill": fills, "tensor": Mux(feed[0], 0, Mux(feed[1], 1, 2)),
            "window": Mux(feed[2], who[8:], w_in), "group": who[1:8], "go": go, "first": first,
            "drain": self.kind_now == Command.DRAIN,
        }  # fmt: skip
        for t in "ABO":
            sent["l" + t.lower()] = self.local[t].address if t in p.local else Value.cast(0)
        sent |= {n: self.r_limits[n] for n in ("ny", "nx", "nl")}
        sent |= {"also_b": feed[1]} if p.feeds_both else {}
        sent |= {"lf": self.fill_local.address} if p.fills_beside else {}
        if p.fills_wide:
            of_b = self.filled_b if p.fills_beside else self.kind_now == Command.FILL_B
            a, b = (self.r_group.get(t, Const(0)) for t in "AB")
            sent["fw"] = Mux(of_b, b, a)
        row0 = self.array.row0
        for name, value in sent.items():
            issued = Signal(len(row0[name]), name=f"issue_{name}")
            m.d.comb += issued.eq(value)
            m.d.comb += row0[name].eq(
                _delay(m, issued, FEED_CYCLES, f"to_bus_{name}", data=name not in ("feed", "go", "also_b"))
            )
        line = Signal(len(row0["line"]), name="line_turned", reset_less=True)
        m.d.sync += line.eq(s.rdata[0])
        m.d.comb += row0["line"].eq(line)
        if p.feeds_both:
            line_b = Signal(len(line), name="line_b_turned", reset_less=True)
            m.d.sync += line_b.eq(s.rdata[s.sums_port])
            m.d.comb += row0["line_b"].eq(line_b)
        self.step_first = first
        ev = self.events
        m.d.comb += [
            ev["ev_feed"].eq(feed), ev["ev_fill"].eq(fills), ev["ev_window"].eq(Mux(feed[2], w, w_in)), ev["ev_go"].eq(go),
            ev["ev_first"].eq(first), ev["ev_drain"].eq(self.kind_now == Command.DRAIN),
            ev["ev_resting"].eq(self.r_resting),
            ev["ev_rows"].eq(self.r_limits["ny"]), ev["ev_cols"].eq(self.r_limits["nx"]), ev["ev_last"].eq(self.r_limits["nl"]),
        ]  # fmt: skip

    def _emit(self, m: Module, go: Signal) -> None:
        """The results of an iteration, line by line: from the columns into the scratchpad."""
        p = self.p
        emitting = Signal()
        m.d.comb += emitting.eq(go & ((self.kind_now == Command.DRAIN) if "O" in p.local else 1))
        with m.If(emitting):
            m.d.sync += self.pace.eq(self.r_windows["O"])
        with m.Elif(self.pace != 0):
            m.d.sync += self.pace.eq(self.pace - 1)
        if p.overlaps:
            with m.If(emitting):
                m.d.sync += self.settling.eq(self.r_windows["O"] + (EMIT_CYCLES + p.column_cycles + 1))
            with m.Elif(self.settling != 0):
                m.d.sync += self.settling.eq(self.settling - 1)
        # four cycles later the array's first row begins; addresses come along
        old_sum = Signal()  # the head's emission begins the word here: it finds a sum only if it did not begin now
        m.d.comb += old_sum.eq(~self.step_first & (self.kind_now != Command.DRAIN))
        along = Cat(self.line["O"].address, old_sum)
        begin = Signal(len(along), name="emit_begin")
        m.d.comb += begin.eq(along)
        soon = Signal(EMIT_CYCLES - 1, name="emit_soon")
        m.d.sync += soon.eq(Cat(emitting, soon))
        starts = soon[-1]
        brought = _delay(m, begin, EMIT_CYCLES - 1, "emit_brought", data=True)
        active, held = Signal(name="emit_active"), Signal(len(along), name="emit_held")
        index = Signal(p.window_bits, name="emit_index")
        with m.If(starts):
            m.d.sync += [active.eq(1), index.eq(0), held.eq(brought)]
        with m.Elif(active):
            m.d.sync += index.eq(index + 1)
            with m.If(index == self.r_windows["O"]):
                m.d.sync += active.eq(0)
        who, offset = self._lookup("who", index, 1), self._lookup("O", index, 1)
        at = line_sum(m, p, held[:-1], offset, "emit_at")
        m.d.comb += [self.array.row0.emit.eq(active), self.array.row0.emit_group.eq(who[1:8])]
        reads = Signal()
        m.d.comb += reads.eq(~who[0] | held[-1])  # one that is not the head always adds to what the head left
        token = Signal(1 + 1 + p.window_bits + len(at), name="emit_token")
        m.d.comb += token.eq(Cat(active, reads & active, who[8:], at))
        arrived = _delay(m, token, p.column_cycles, "emit_on_its_way")
        self._collect(m, arrived)
        flies = Signal(p.column_cycles + 1, name="emit_flies")
        m.d.sync += flies.eq(Cat(active, flies))
        m.d.comb += self.quiet.eq(~Cat(emitting, soon, active, flies).any())

    def _collect(self, m: Module, token: Value) -> None:
        """Columns into slots, slots into the scratchpad."""
        p, a, s = self.p, self.array, self.scratchpad
        valid, reads = token[0], token[1]
        window, at = token[2 : 2 + p.window_bits], token[2 + p.window_bits :]
        port = s.sums_port
        m.d.comb += self.stall.eq(valid & reads if p.feeds_both else 0 if port else valid)
        sums, some = Signal(32 * p.slots, name="slot_sums", reset_less=True), Signal(p.slots, name="slot_some")
        in_line, totals = Signal(p.cols, name="in_line"), Signal(32 * p.cols, name="totals")
        m.d.comb += totals.eq(Cat(*a.total))
        m.d.comb += in_line.eq(Cat(*(a.some[x] & (a.column_window[x] == window) for x in range(p.cols))))
        places = [Signal(p.slots, name=f"places_{x}") for x in range(p.cols)]  # of a column in the line: one bit
        m.d.comb += [places[x].eq(in_line[x] << a.slot[x]) for x in range(p.cols)]
        for slot in range(p.slots):
            hits = Cat(*(places[x][slot] for x in range(p.cols)))
            m.submodules[f"slot_{slot}"] = place = self.slots[slot]
            m.d.comb += [place.totals.eq(totals), place.hits.eq(hits), place.enable.eq(valid)]
            m.d.sync += [sums.word_select(slot, 32).eq(place.sum), some[slot].eq(valid & hits.any())]
        write_at, was_read = Signal(len(at), name="write_at", reset_less=True), Signal(name="was_read")
        m.d.sync += [write_at.eq(at), was_read.eq(reads), *(s.looks[i].eq(s.ren[i]) for i in {0, port})]
        if port:
            m.d.comb += [s.raddr[0].eq(self.feed_address), s.ren[0].eq(self.feed_read)]
            m.d.comb += [s.raddr[port].eq(at), s.ren[port].eq(valid & reads)]
            if p.feeds_both:
                with m.If(~(valid & reads)):
                    m.d.comb += [s.raddr[port].eq(self.b_address), s.ren[port].eq(self.b_read)]
        else:
            m.d.comb += [
                s.raddr[0].eq(Mux(valid, at, self.feed_address)),
                s.ren[0].eq((valid & reads) | self.feed_read),
            ]
        m.d.comb += [
            s.waddr[0].eq(write_at), s.wen[0].eq(Cat(*(some[i // 4] if i // 4 < p.slots else 0 for i in range(p.line_bytes)))),
        ]  # fmt: skip
        for slot in range(p.slots):
            old = Mux(was_read, s.rdata[port].word_select(slot, 32), 0)
            m.d.comb += s.wdata[0].word_select(slot, 32).eq(old + sums.word_select(slot, 32))
        m.d.comb += [self.events["ev_write"].eq(some), self.events["ev_read"].eq(was_read)]
