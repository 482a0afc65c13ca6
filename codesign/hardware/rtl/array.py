"""The array: processing elements, the way operands reach them and the way partial sums leave them."""

from amaranth.hdl import Cat, ClockSignal, Elaboratable, Instance, Module, Mux, ResetSignal, Signal, Value, signed

from codesign.arch.architecture import Links
from codesign.hardware.parameters import LOCAL_WORD_BYTES, Parameters
from codesign.hardware.rtl.memory import Ram
from codesign.hardware.rtl.slot import adder_tree, or_tree

OPERANDS = ("A", "B")
TENSOR_CODE = {"A": 0, "B": 1, "O": 2}


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
        ny, nx, nl: Rows in use, columns in use, columns in use of row ny.
        emit, emit_group: The elements of that row group give their value to their columns.
    """

    def __init__(self, p: Parameters, name: str) -> None:
        wide = p.window_bits
        shapes = {
            "line": 8 * p.line_bytes, "feed": 1, "fill": 1, "tensor": 2, "window": wide, "group": 7, "go": 1, "first": 1,
            "drain": 1, "la": p.local_bits, "lb": p.local_bits, "lo": p.local_bits, "ny": 7, "nx": 7, "nl": 7,
        }  # fmt: skip
        self.emit, self.emit_group = Signal(name=f"{name}_emit"), Signal(7, name=f"{name}_emit_group")
        self.fields = {k: Signal(bits, name=f"{name}_{k}") for k, bits in shapes.items()}
        self.fields |= {"emit": self.emit, "emit_group": self.emit_group}

    def __getitem__(self, name: str) -> Signal:
        return self.fields[name]


def element_ports(p: Parameters) -> tuple[dict[str, Signal], dict[str, Signal]]:
    """Inputs and outputs of a processing element, clock and reset aside."""
    inputs = {
        "cfg": 2, "cfg_head": 1, "cfg_data": 32, "line": 8 * p.line_bytes, "feed": 3, "fill": 1, "window": p.window_bits, "go": 1,
        "first": 1, "drain": 1, "la": p.local_bits, "lb": p.local_bits, "lo": p.local_bits, "active": 1, "slot": 6, "ones": 2,
    }  # fmt: skip
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
        self.memory = Ram(p.local_bytes // LOCAL_WORD_BYTES, 32, 8, len(local), 1, through, instance) if local else None
        self.inputs, self.outputs = element_ports(p)
        self.select = {t: Signal(p.offset_bits, name=f"select_{t}", reset_less=True) for t in OPERANDS}
        self.listens = {t: Signal(p.window_bits, name=f"listens_{t}", reset_less=True) for t in OPERANDS}
        self.head = Signal(reset_less=True)

    @property
    def ports(self) -> list[Signal]:
        """All but clock and reset."""
        return [*self.inputs.values(), *self.outputs.values()]

    def elaborate(self, platform: object) -> Module:
        """The netlist."""
        m, i = Module(), self.inputs
        if self.memory is not None:
            m.submodules.local_memory = self.memory
        for k, t in enumerate(OPERANDS):
            with m.If(i["cfg"][k]):
                m.d.sync += [self.select[t].eq(i["cfg_data"]), self.listens[t].eq(i["cfg_data"][8:])]
        go1, drain1, first1, active1 = (
            Signal(name=n, reset_less=n != "go1") for n in ("go1", "drain1", "first1", "active1")
        )
        m.d.sync += [go1.eq(i["go"]), drain1.eq(i["drain"]), first1.eq(i["first"]), active1.eq(i["active"])]
        a, b = (self._operand(m, k, t) for k, t in enumerate(OPERANDS))
        product = Signal(signed(16), reset_less=True)
        counts = Signal(name="counting")
        with m.If(go1):
            m.d.sync += counts.eq(active1)
            with m.If(~drain1):
                m.d.sync += product.eq(Mux(active1, a * b, 0))
        value = Signal(signed(32), name="ready")
        if "O" in self.p.local:
            self._accumulate(m, go1, drain1, first1, active1, product, value)
        else:
            m.d.comb += value.eq(product)
        self._leave(m, value, counts)
        if self.memory is not None:
            self._fill(m)
        return m

    def _byte(self, m: Module, t: str) -> Signal:
        """The byte of the line that is this element's."""
        byte = Signal(8, name=f"line_byte_{t}")
        m.d.comb += byte.eq(self.inputs["line"].word_select(self.select[t], 8))
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
        with m.If(i["feed"][k] & (i["window"] == self.listens[t])):
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

    def _leave(self, m: Module, value: Signal, counts: Signal) -> None:
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
        for k, t in enumerate(OPERANDS):
            if t not in self.port:
                continue
            address, byte = i["l" + t.lower()], self._byte(m, t)
            with m.If(i["feed"][k] & i["fill"] & (i["window"] == self.listens[t]) & i["active"]):
                m.d.comb += [memory.waddr[0].eq(address[2:]), memory.wdata[0].eq(byte.replicate(4))]
                m.d.comb += memory.wen[0].eq(1 << address[:2])
        if "O" in self.port:
            with m.If(i["cfg_head"]):
                m.d.sync += self.head.eq(i["cfg_data"])
            with m.If(i["feed"][2] & i["fill"] & i["active"]):
                word = i["line"].word_select(i["slot"], 32)
                m.d.comb += [memory.waddr[0].eq(i["lo"][2:]), memory.wdata[0].eq(Mux(self.head, word, 0))]
                m.d.comb += memory.wen[0].eq(15)


class Array(Elaboratable):
    """Rows of processing elements under one bus, or handed on from row to row.

    Attributes:
        row0: What the first row hears.
        cfg_pe: Write enables of an element's settings (A, B, head); `cfg_row`, `cfg_col` and `cfg_data` say whose and what.
        group: By row, its row group. column_window, slot: By column.
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

    def elaborate(self, platform: object) -> Module:
        """The netlist."""
        m, p = Module(), self.p
        wires = self.row0
        above: list[tuple[Value, Value]] = [(Value.cast(0), Value.cast(0))] * p.cols
        columns: list[list[tuple[Signal, Signal]]] = [[] for _ in range(p.cols)]
        for y in range(p.rows):
            if y and p.row_hops:
                handed = Wires(p, f"row{y}")
                m.d.sync += [handed[k].eq(wires[k]) for k in wires.fields]
                wires = handed
            below = []
            for x in range(p.cols):
                outputs = self._element(m, y, x, wires, above[x])
                below.append((outputs[0], outputs[1]))
                emits = Signal(name=f"emits_{y}_{x}")
                m.d.comb += emits.eq(wires.emit & (wires.emit_group == self.group[y]))
                columns[x].append((outputs[0], outputs[1] & emits))
            above = [(a, b) for a, b in below]
        for x in range(p.cols):
            if p.links is Links.SYSTOLIC:
                m.d.comb += [self.total[x].eq(above[x][0]), self.some[x].eq(above[x][1])]
                continue
            gate = [Mux(on, value, 0)[:32] for value, on in columns[x]]
            joined = adder_tree(gate) if p.links is Links.MULTICAST else or_tree(gate)
            m.d.sync += [self.total[x].eq(joined), self.some[x].eq(or_tree([on for _, on in columns[x]]))]
        return m

    def _element(self, m: Module, y: int, x: int, w: Wires, above: tuple[Value, Value]) -> list[Signal]:
        """One processing element and its share of the wires."""
        p = self.p
        inputs, results = element_ports(p)
        active, mine, at = (Signal(name=f"{n}_{y}_{x}") for n in ("active", "mine", "at"))
        m.d.comb += [
            active.eq(((w["ny"] > y) & (w["nx"] > x)) | ((w["ny"] == y) & (w["nl"] > x))),
            mine.eq((w["group"] == self.group[y]) & (w["window"] == self.column_window[x])),
            at.eq((self.cfg_row == y) & (self.cfg_col == x)),
        ]
        feed = Cat(
            w["feed"] & (w["tensor"] == 0), w["feed"] & (w["tensor"] == 1), w["feed"] & (w["tensor"] == 2) & mine
        )
        given: dict[str, Value] = {
            "cfg": Mux(at, self.cfg_pe[:2], 0), "cfg_head": at & self.cfg_pe[2], "cfg_data": self.cfg_data,
            "feed": feed, "active": active, "slot": self.slot[x], "ones": self.ones,
        }  # fmt: skip
        given |= {k: w[k] for k in ("line", "fill", "window", "go", "first", "drain", "la", "lb", "lo")}
        if p.links is Links.SYSTOLIC:
            given |= {"emit": w.emit & (w.emit_group == self.group[y]), "sum_in": above[0], "some_in": above[1]}
        outputs = [Signal(len(s), name=f"{name}_{y}_{x}") for name, s in results.items()]
        if self.instance:
            ports: dict[str, object] = {"i_clk": ClockSignal(), "i_rst": ResetSignal()}
            for name, value in given.items():
                if isinstance(value, Signal) and len(value) == len(inputs[name]):
                    ports[f"i_{name}"] = value  # a bus all rows hear stays one wire
                    continue
                wire = Signal(len(inputs[name]), name=f"{name}_{y}_{x}_i")
                m.d.comb += wire.eq(value)
                ports[f"i_{name}"] = wire
            ports |= {f"o_{name}": s for name, s in zip(results, outputs, strict=True)}
            m.submodules[f"pe_{y}_{x}"] = Instance(f"{p.name}_pe", **ports)
            return outputs
        m.submodules[f"pe_{y}_{x}"] = pe = ProcessingElement(p, self.instance)
        m.d.comb += [pe.inputs[name].eq(value) for name, value in given.items()]
        m.d.comb += [o.eq(s) for o, s in zip(outputs, pe.outputs.values(), strict=True)]
        return outputs
