"""The array: processing elements, the way operands reach them and the way partial sums leave them."""

from amaranth.hdl import (
    Cat,
    ClockSignal,
    Const,
    Elaboratable,
    Instance,
    Module,
    Mux,
    ResetSignal,
    Signal,
    Value,
    signed,
)

from codesign.arch.architecture import Links
from codesign.hardware.parameters import LOCAL_WORD_BYTES, Parameters
from codesign.hardware.rtl.memory import Ram
from codesign.hardware.rtl.slot import SlotSum

OPERANDS = ("A", "B")
TENSOR_CODE = {"A": 0, "B": 1, "O": 2}


def special_wires(p: Parameters) -> dict[str, int]:
    """Bits of what the elements of some machines alone hear, see `Wires`."""
    kinds = (("line_b", 8 * p.line_bytes, p.feeds_both), ("lf", p.local_bits, p.fills_beside), ("fw", 2, p.fills_wide))
    return {name: bits for name, bits, has in kinds if has}


class Wires:
    """What a row of processing elements hears: a line of the scratchpad and what to do with it.

    Attributes:
        line: The bytes.
        feed: Bytes are for a tensor; `fill` says they enter local memories, not operand registers.
        tensor: Its code.
        window: Its window (operands) or column window (O).
        group: Its row group (O).
        go: Multiply; `first` starts a sum, `drain` reads a local sum instead.
        la, lb, lo: Local byte addresses.
        lf: Where local memories fill beside the array, the local address of a word that enters.
        fw: Words that enter at once: 0 one, 1 two, 2 four.
        line_b, also_b: Where both operands are fed at once: operand B's line, and whether it is fed.
        ny, nx, nl: Rows in use, columns in use, columns in use of row ny.
        emit, emit_group: The elements of that row group give their value to their columns.
    """

    def __init__(self, p: Parameters, name: str) -> None:
        wide = p.window_bits
        shapes = {
            "line": 8 * p.line_bytes, "feed": 1, "fill": 1, "tensor": 2, "window": wide, "group": 7, "go": 1, "first": 1,
            "drain": 1, "la": p.local_bits, "lb": p.local_bits, "lo": p.local_bits, "ny": 7, "nx": 7, "nl": 7,
        }  # fmt: skip
        shapes |= special_wires(p) | ({"also_b": 1} if p.feeds_both else {})
        self.emit, self.emit_group = Signal(name=f"{name}_emit"), Signal(7, name=f"{name}_emit_group")
        self.fields = {k: Signal(bits, name=f"{name}_{k}") for k, bits in shapes.items()}
        self.fields |= {"emit": self.emit, "emit_group": self.emit_group}

    def __getitem__(self, name: str) -> Signal:
        return self.fields[name]


def element_ports(p: Parameters) -> tuple[dict[str, Signal], dict[str, Signal]]:
    """Inputs and outputs of a processing element, clock and reset aside."""
    inputs = {
        "cfg_a": 1, "cfg_b": 1, "cfg_head": 1, "cfg_data": 32, "line": 8 * p.line_bytes, "feed_a": 1, "feed_b": 1, "feed_o": 1, "fill": 1, "window": p.window_bits, "go": 1,
        "first": 1, "drain": 1, "la": p.local_bits, "lb": p.local_bits, "lo": p.local_bits, "active": 1, "slot": 6, "ones": 2,
    }  # fmt: skip
    inputs |= special_wires(p)
    outputs = {"value": 32, "counts": 1}
    if p.links is Links.SYSTOLIC:
        inputs |= {"emit": 1, "sum_in": 32, "some_in": 1}
        outputs = {"sum_out": 32, "some_out": 1}
    made = {k: Signal(n, name=k, reset_less=k == "sum_out") for k, n in outputs.items()}
    return {k: Signal(n, name=k) for k, n in inputs.items()}, made


class ProcessingElement(Elaboratable):
    """A multiplier, its operand registers or local memory, and its place in the column's sum.

    An operand that the local memory does not keep is latched from the line when its window passes. One cycle after `go` the product
    is formed, two cycles after it is added to the local sum, or stands ready for the column.
    """

    def __init__(self, p: Parameters, instance: bool) -> None:
        self.p = p
        local = [t for t in ("A", "B", "O") if t in p.local]
        self.port = {t: i for i, t in enumerate(local)}
        through = [self.port["O"]] if "O" in self.port else []
        self.memory = (
            Ram(p.local_bytes // LOCAL_WORD_BYTES, 32, 8, len(local), 1 + p.fills_beside, through, instance)
            if local
            else None
        )
        self.inputs, self.outputs = element_ports(p)
        self.select = {t: Signal(p.offset_bits, name=f"select_{t}", reset_less=True) for t in OPERANDS}
        self.listens = {t: Signal(p.window_bits, name=f"listens_{t}", reset_less=True) for t in OPERANDS}
        self.head = Signal(reset_less=True)
        self.rests = Signal(name="rests", reset_less=True)

    @property
    def ports(self) -> list[Signal]:
        """All but clock and reset."""
        return [*self.inputs.values(), *self.outputs.values()]

    def elaborate(self, platform: object) -> Module:
        """The netlist of this part, as Amaranth elaborates it."""
        m, i = Module(), self.inputs
        if self.memory is not None:
            m.submodules.local_memory = self.memory
        for t in OPERANDS:
            with m.If(i[f"cfg_{t.lower()}"]):
                m.d.sync += [self.select[t].eq(i["cfg_data"]), self.listens[t].eq(i["cfg_data"][8:])]
        go1, drain1, first1, active1 = (
            Signal(name=n, reset_less=n != "go1") for n in ("go1", "drain1", "first1", "active1")
        )
        self.active = Signal(name="at_work")
        m.d.comb += self.active.eq(i["active"] & ~self.rests if self.p.folds else i["active"])
        with m.If(i["cfg_head"]):
            m.d.sync += self.head.eq(i["cfg_data"][0])
            if self.p.folds:
                m.d.sync += self.rests.eq(i["cfg_data"][1])
        m.d.sync += [go1.eq(i["go"]), drain1.eq(i["drain"]), first1.eq(i["first"]), active1.eq(self.active)]
        a, b = (self._operand(m, k, t) for k, t in enumerate(OPERANDS))
        product = Signal(signed(16), reset_less=True)
        counts = Signal(name="counting")
        with m.If(go1 & drain1 if self.p.holds_sums else go1):
            m.d.sync += counts.eq(active1)
        with m.If(go1 & ~drain1):
            m.d.sync += product.eq(Mux(active1, a * b, 0))
        value = Signal(signed(32), name="ready")
        if "O" in self.p.local:
            self._accumulate(m, go1, drain1, first1, active1, product, value)
        else:
            m.d.comb += value.eq(product)
        self._leave(m, self._held(m, go1 & drain1, value) if self.p.holds_sums else value, counts)
        if self.memory is not None:
            self._fill(m)
        return m

    def _byte(self, m: Module, t: str) -> Signal:
        """The byte of the line that is this element's."""
        byte = Signal(8, name=f"line_byte_{t}")
        line = self.inputs["line_b" if t == "B" and self.p.feeds_both else "line"]
        m.d.comb += byte.eq(line.word_select(self.select[t], 8))
        return byte

    def _operand(self, m: Module, k: int, t: str) -> Signal:
        """The operand as the multiplier sees it one cycle after `go`."""
        i, operand = self.inputs, Signal(signed(8), name=f"operand_{t}")
        if t in self.port:
            assert self.memory is not None
            address, byte = i["l" + t.lower()], Signal(2, name=f"byte_{t}", reset_less=True)
            port = self.port[t]
            m.d.comb += [self.memory.raddr[port].eq(address[2:]), self.memory.ren[port].eq(i["go"])]
            with m.If(i["go"]):
                m.d.sync += byte.eq(address[:2])
            m.d.comb += operand.eq(Mux(i["ones"][k], 1, self.memory.rdata[port].word_select(byte, 8)))
            return operand
        held, byte = Signal(8, name=f"held_{t}", reset_less=True), self._byte(m, t)
        with m.If(i["feed_" + t.lower()] & (i["window"] == self.listens[t])):
            m.d.sync += held.eq(byte)
        m.d.comb += operand.eq(Mux(i["ones"][k], 1, held))
        return operand

    def _accumulate(self, m: Module, go1: Signal, drain1: Signal, first1: Signal, active1: Signal, product: Signal, value: Signal) -> None:  # fmt: skip
        """The local sum: read one cycle after `go`, written the next."""
        i, port = self.inputs, self.port["O"]
        assert self.memory is not None
        lo1, lo2 = (Signal(self.p.local_bits, reset_less=True) for _ in range(2))
        write, first2 = Signal(), Signal(reset_less=True)
        m.d.sync += [lo1.eq(i["lo"]), lo2.eq(lo1), write.eq(go1 & ~drain1 & active1), first2.eq(first1)]
        m.d.comb += [self.memory.raddr[port].eq(lo1[2:]), self.memory.ren[port].eq(go1)]
        m.d.comb += value.eq(self.memory.rdata[port])
        with m.If(write):
            total = Mux(first2, 0, value) + product
            m.d.comb += [self.memory.waddr[0].eq(lo2[2:]), self.memory.wdata[0].eq(total), self.memory.wen[0].eq(15)]

    def _held(self, m: Module, drains: Value, value: Signal) -> Value:
        """A drained sum, which stays while its lines leave and the next runs read the local memory."""
        fresh, held = Signal(name="drained"), Signal(signed(32), name="held_sum", reset_less=True)
        m.d.sync += fresh.eq(drains)
        with m.If(fresh):
            m.d.sync += held.eq(value)
        return Mux(fresh, value, held)

    def _leave(self, m: Module, value: Value, counts: Signal) -> None:
        i, o = self.inputs, self.outputs
        if self.p.links is not Links.SYSTOLIC:
            m.d.comb += [o["value"].eq(value), o["counts"].eq(counts)]
            return
        mine = Signal()
        m.d.comb += mine.eq(i["emit"] & counts)
        m.d.sync += [o["sum_out"].eq(i["sum_in"] + Mux(mine, value, 0)), o["some_out"].eq(i["some_in"] | mine)]

    def _fill(self, m: Module) -> None:
        """What the local memory takes from the line; partial sums enter the head of a group, the others start at zero."""
        i, memory = self.inputs, self.memory
        assert memory is not None
        for t in OPERANDS:
            if t not in self.port:
                continue
            beside = self.p.fills_beside
            address, port = i["lf" if beside else "l" + t.lower()], int(beside)
            data, lanes = self._enters(m, t, address)
            with m.If(i["feed_" + t.lower()] & i["fill"] & (i["window"] == self.listens[t]) & self.active):
                m.d.comb += [memory.waddr[port].eq(address[2:]), memory.wdata[port].eq(data)]
                m.d.comb += memory.wen[port].eq(lanes)
        if "O" in self.port:
            with m.If(i["feed_o"] & i["fill"] & self.active):
                word = i["line"].word_select(i["slot"], 32)
                m.d.comb += [memory.waddr[0].eq(i["lo"][2:]), memory.wdata[0].eq(Mux(self.head, word, 0))]
                m.d.comb += memory.wen[0].eq(15)

    def _enters(self, m: Module, t: str, address: Signal) -> tuple[Value, Value]:
        """What a word of the local memory takes from the line, and in which of its bytes: one word of the operand, two or four."""
        if not self.p.fills_wide:
            return self._byte(m, t).replicate(4), Value.cast(1 << address[:2])
        word, select, wide = Signal(32, name=f"line_word_{t}"), self.select[t], self.inputs["fw"]
        m.d.comb += word.eq(self.inputs["line"].word_select(select[2:], 32))
        byte, half = word.word_select(select[:2], 8), word.word_select(select[1], 16)
        data = Mux(wide[1], word, Mux(wide[0], half.replicate(2), byte.replicate(4)))
        upper = address[1]
        return data, Mux(wide[1], 15, Mux(wide[0], Cat(~upper, ~upper, upper, upper), 1 << address[:2]))


class Array(Elaboratable):
    """Rows of processing elements under one bus, or handed on from row to row.

    Attributes:
        row0: What the first row hears.
        cfg_pe: Write enables of an element's settings (A, B, head); `cfg_row`, `cfg_col` and `cfg_data` say whose and what.
        group: By row, its row group. column_window, slot: By column.
        columns: Sums of columns, where no row hands sums on.
        total, some: By column, the sum of what its elements gave `Parameters.column_cycles` before, and whether any did.
    """

    def __init__(self, p: Parameters, instance: bool) -> None:
        self.p, self.instance = p, instance
        self.row0 = Wires(p, "bus")
        self.cfg_pe, self.cfg_row, self.cfg_col = Signal(3), Signal(7), Signal(7)
        self.cfg_data, self.ones = Signal(32), Signal(2)
        self.group = [Signal(7, name=f"group_{y}") for y in range(p.rows)]
        self.column_window = [Signal(p.window_bits, name=f"column_window_{x}") for x in range(p.cols)]
        self.slot = [Signal(6, name=f"slot_{x}") for x in range(p.cols)]
        self.total = [Signal(32, name=f"total_{x}") for x in range(p.cols)]
        self.some = Signal(p.cols)
        kinds = 0 if p.links is Links.SYSTOLIC else p.cols
        self.columns = [SlotSum(p.rows, p.links is Links.MULTICAST, instance, "column") for _ in range(kinds)]

    def elaborate(self, platform: object) -> Module:
        """The netlist of this part, as Amaranth elaborates it."""
        m, p = Module(), self.p
        self.cfg_at = Signal(p.cols)
        m.d.comb += self.cfg_at.eq(Cat(*(self.cfg_col == x for x in range(p.cols))))
        wires, masks = self.row0, self._masks(m, self.row0, "bus")
        above: tuple[Value, Value] = (Const(0, 32 * p.cols), Const(0, p.cols))
        rows: list[tuple[Value, Value]] = []
        for y in range(p.rows):
            if y and p.row_hops:
                handed = Wires(p, f"row{y}")
                m.d.sync += [handed[k].eq(wires[k]) for k in wires.fields]
                wires, masks = handed, self._masks(m, handed, f"row{y}")
            above = self._row(m, y, wires, masks, above)
            emits = Signal(p.cols, name=f"emits_{y}")
            m.d.comb += emits.eq(Mux(wires.emit & (wires.emit_group == self.group[y]), above[1], 0))
            rows.append((above[0], emits))
        for x in range(p.cols):
            at = slice(32 * x, 32 * x + 32)
            if p.links is Links.SYSTOLIC:
                m.d.comb += [self.total[x].eq(above[0][at]), self.some[x].eq(above[1][x])]
                continue
            m.submodules[f"column_{x}"] = column = self.columns[x]
            on = Cat(*(emits[x] for _, emits in rows))
            m.d.comb += [
                column.totals.eq(Cat(*(v[at] for v, _ in rows))),
                column.hits.eq(on),
                column.enable.eq(wires.emit),
            ]
            m.d.sync += [self.total[x].eq(column.sum), self.some[x].eq(on.any())]
        return m

    def columns_verilog(self) -> str:
        """The module that sums a column, where there is one."""
        return self.columns[0].verilog() if self.columns else ""

    def _masks(self, m: Module, w: Wires, name: str) -> dict[str, Signal]:
        """By column: it is in use in a full row, in the last row; partial sums on the line are for it."""
        p, made = self.p, {k: Signal(self.p.cols, name=f"{k}_{name}") for k in ("used", "used_last", "meant")}
        m.d.comb += [
            made["used"].eq(Cat(*(w["nx"] > x for x in range(p.cols)))),
            made["used_last"].eq(Cat(*(w["nl"] > x for x in range(p.cols)))),
            made["meant"].eq(Cat(*(w["window"] == at for at in self.column_window))),
        ]
        return made

    def _row(self, m: Module, y: int, w: Wires, masks: dict[str, Signal], above: tuple[Value, Value]) -> tuple[Value, Value]:  # fmt: skip
        """The elements of one row; what they give to their columns, side by side."""
        p = self.p
        at, active, feed_o = (Signal(p.cols, name=f"{n}_{y}") for n in ("at", "active", "feed_o"))
        feeds = w["feed"] & (w["tensor"] == TENSOR_CODE["O"]) & (w["group"] == self.group[y])
        m.d.comb += [
            at.eq(Mux(self.cfg_row == y, self.cfg_at, 0)),
            active.eq(Mux(w["ny"] > y, masks["used"], 0) | Mux(w["ny"] == y, masks["used_last"], 0)),
            feed_o.eq(Mux(feeds, masks["meant"], 0)),
        ]
        given: dict[str, Value] = {
            k: w[k] for k in ("line", "fill", "window", "go", "first", "drain", "la", "lb", "lo")
        }
        given |= {
            "feed_o": feed_o,
            "active": active,
            "cfg_data": self.cfg_data,
            "ones": self.ones,
            "slot": Cat(*self.slot),
        }
        given |= {f"cfg_{t}": Mux(self.cfg_pe[i], at, 0) for i, t in enumerate(("a", "b", "head"))}
        given |= {f"feed_{t.lower()}": w["feed"] & (w["tensor"] == TENSOR_CODE[t]) for t in OPERANDS}
        given |= {name: w[name] for name in special_wires(p)} | ({"feed_b": w["also_b"]} if p.feeds_both else {})
        if p.links is Links.SYSTOLIC:
            emit = w.emit & (w.emit_group == self.group[y])
            given |= {"emit": emit, "sum_in": above[0], "some_in": above[1]}
        inputs, results = element_ports(p)
        outputs = {k: Signal(len(s) * p.cols, name=f"{k}_{y}") for k, s in results.items()}
        if not self.instance:
            for x in range(p.cols):
                m.submodules[f"pe_{y}_{x}"] = pe = ProcessingElement(p, self.instance)
                for k, s in pe.inputs.items():
                    m.d.comb += s.eq(given[k][len(s) * x : len(s) * (x + 1)] if k in OWN else given[k])
                m.d.comb += [outputs[k][len(s) * x : len(s) * (x + 1)].eq(s) for k, s in pe.outputs.items()]
        else:
            ports: dict[str, object] = {"i_clk": ClockSignal(), "i_rst": ResetSignal()}
            for k, s in inputs.items():
                wire = Signal(len(s) * (p.cols if k in OWN else 1), name=f"{k}_{y}_i")
                m.d.comb += wire.eq(given[k])
                ports[f"i_{k}"] = wire
            m.submodules[f"row_{y}"] = Instance(f"{p.name}_row", **ports, **{f"o_{k}": s for k, s in outputs.items()})
        value, counts = outputs.values()
        return value, counts


OWN = frozenset({"cfg_a", "cfg_b", "cfg_head", "feed_o", "active", "slot", "sum_in", "some_in"})
"""Inputs that differ from element to element of a row."""


def row_text(p: Parameters) -> str:
    """The module of a row: elements side by side, written once however many rows there are.

    A line of the scratchpad so enters the array's module once a row and not once an element: Amaranth works on each of its bits.
    """
    inputs, outputs = element_ports(p)
    ports, joined = ["input clk", "input rst"], [".clk(clk)", ".rst(rst)"]
    for direction, signals in (("input", inputs), ("output", outputs)):
        for name, signal in signals.items():
            n = len(signal)
            own = name in OWN or direction == "output"
            ports.append(f"{direction} [{n * (p.cols if own else 1) - 1}:0] {name}")
            joined.append(f".{name}({name}[{n} * x +: {n}])" if own else f".{name}({name})")
    return (
        f"module {p.name}_row({', '.join(ports)});\n  genvar x;\n"
        f"  generate for (x = 0; x < {p.cols}; x = x + 1) begin : element\n"
        f"    {p.name}_pe pe({', '.join(joined)});\n  end endgenerate\nendmodule\n"
    )
