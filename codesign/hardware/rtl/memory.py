"""Memories: one module a shape, behavioural in Python's simulator, a Verilog module of its own in a netlist.

The Verilog of `memory_verilog` is what a simulator reads; a synthesis reads `black_box_verilog`, and a foundry's macro takes its place.
"""

from collections.abc import Sequence

from amaranth.hdl import Cat, ClockSignal, Const, Elaboratable, Instance, Module, Mux, Signal, Value
from amaranth.lib.memory import Memory

from codesign.hardware.parameters import Parameters
from codesign.hardware.rtl.shift import Turn


class Ram(Elaboratable):
    """A memory with synchronous read ports and write ports with lanes.

    Read port i returns the word addressed one cycle before, and holds it while `ren` is low. A read port with number
    `through` sees a word that write port 0 writes in the same cycle.

    Args:
        depth: Words.
        width: Bits of a word.
        lane: Bits of a write lane.
        reads: Number of read ports.
        writes: Number of write ports.
        through: Read ports that see writes of port 0 in the same cycle.
        instance: Emit an instance instead of the behaviour.
        at_once: Reads answer in the same cycle.
    """

    def __init__(
        self,
        depth: int,
        width: int,
        lane: int,
        reads: int,
        writes: int,
        through: Sequence[int],
        instance: bool,
        at_once: bool = False,
    ) -> None:
        self.depth, self.width, self.lane, self.instance = depth, width, lane, instance
        self.at_once = at_once
        self.reads, self.writes, self.through = reads, writes, tuple(through)
        bits = max(1, (depth - 1).bit_length())
        self.raddr = [Signal(bits, name=f"raddr{i}") for i in range(reads)]
        self.ren = [Signal(name=f"ren{i}") for i in range(reads)]
        self.rdata = [Signal(width, name=f"rdata{i}") for i in range(reads)]
        self.waddr = [Signal(bits, name=f"waddr{i}") for i in range(writes)]
        self.wen = [Signal(width // lane, name=f"wen{i}") for i in range(writes)]
        self.wdata = [Signal(width, name=f"wdata{i}") for i in range(writes)]

    @property
    def module(self) -> str:
        """Name of its Verilog module."""
        through = "".join(map(str, self.through))
        return (
            f"ram_{self.depth}x{self.width}_l{self.lane}_r{self.reads}w{self.writes}"
            + (f"_t{through}" if through else "")
            + ("_c" if self.at_once else "")
        )

    def elaborate(self, platform: object) -> Module:
        """The netlist of this part, as Amaranth elaborates it."""
        m = Module()
        if self.instance:
            ports: dict[str, object] = {"i_clk": ClockSignal()}
            for name in ("raddr", "ren"):
                ports |= {f"i_{name}{i}": s for i, s in enumerate(getattr(self, name))}
            for name in ("waddr", "wen", "wdata"):
                ports |= {f"i_{name}{i}": s for i, s in enumerate(getattr(self, name))}
            ports |= {f"o_rdata{i}": s for i, s in enumerate(self.rdata)}
            m.submodules.macro = Instance(self.module, **ports)
            return m
        m.submodules.mem = mem = Memory(shape=self.width, depth=self.depth, init=[])
        write_ports = [mem.write_port(granularity=self.lane) for _ in range(self.writes)]
        for i, w in enumerate(write_ports):
            m.d.comb += [w.addr.eq(self.waddr[i]), w.en.eq(self.wen[i]), w.data.eq(self.wdata[i])]
        for i in range(self.reads):
            if self.at_once:
                r = mem.read_port(domain="comb")
                m.d.comb += [r.addr.eq(self.raddr[i]), self.rdata[i].eq(r.data)]
                continue
            seen = [write_ports[0]] if i in self.through else []
            r = mem.read_port(transparent_for=seen)
            m.d.comb += [r.addr.eq(self.raddr[i]), r.en.eq(self.ren[i]), self.rdata[i].eq(r.data)]
        return m

    def ports_verilog(self) -> str:
        """The memory's port list in Verilog."""
        bits = max(1, (self.depth - 1).bit_length())
        lines = ["  input clk"]
        for i in range(self.reads):
            lines += [f"  input [{bits - 1}:0] raddr{i}", f"  input ren{i}", f"  output [{self.width - 1}:0] rdata{i}"]
        for i in range(self.writes):
            lanes = self.width // self.lane
            lines += [f"  input [{bits - 1}:0] waddr{i}", f"  input [{lanes - 1}:0] wen{i}"]
            lines += [f"  input [{self.width - 1}:0] wdata{i}"]
        return ",\n".join(lines)

    def verilog(self) -> str:
        """Its behaviour: whole words are written, with what other lanes and the port before leave as it was."""
        lanes, lane = self.width // self.lane, self.lane
        body = [f"module {self.module}(\n{self.ports_verilog()});"]
        body += [f"  reg [{self.width - 1}:0] mem [0:{self.depth - 1}];"]
        after = "mem[{at}]"  # the word at an address once the ports so far have written
        writes = []
        for i in range(self.writes):
            mask = ", ".join(f"{{{lane}{{wen{i}[{b}]}}}}" for b in reversed(range(lanes)))
            body += [f"  wire [{self.width - 1}:0] mask{i} = {{{mask}}};"]
            word = f"(({after.format(at=f'waddr{i}')} & ~mask{i}) | (wdata{i} & mask{i}))"
            writes += [f"    if (|wen{i}) mem[waddr{i}] <= {word};"]
            after = f"((|wen{i} && waddr{i} == {{at}}) ? {word} : {after})"
        if self.at_once:
            body += [f"  assign rdata{i} = mem[raddr{i}];" for i in range(self.reads)]
            return "\n".join([*body, "  always @(posedge clk) begin", *writes, "  end", "endmodule", ""])
        first = "((|wen0 && waddr0 == {at}) ? ((mem[{at}] & ~mask0) | (wdata0 & mask0)) : mem[{at}])"
        for i in range(self.reads):
            body += [f"  reg [{self.width - 1}:0] q{i};", f"  assign rdata{i} = q{i};"]
        body += ["  always @(posedge clk) begin", *writes]
        for i in range(self.reads):
            seen = first if i in self.through else "mem[{at}]"
            body += [f"    if (ren{i}) q{i} <= {seen.format(at=f'raddr{i}')};"]
        return "\n".join([*body, "  end", "endmodule", ""])

    def black_box(self) -> str:
        """Verilog of the memory's ports alone, for synthesis."""
        return f"(* blackbox *)\nmodule {self.module}(\n{self.ports_verilog()});\nendmodule\n"


class Scratchpad(Elaboratable):
    """Banks of 64 bits, one line of all banks a cycle from any byte on.

    Addresses run through the banks word by word. A port is given (line, byte): the bank of a word before that byte serves the next line,
    so the line may start at any byte; only bytes of the first word that lie before the byte wrap to the end of the result
    and are those of the next line's word, which is not fetched. Two ports: 0 is the array's, 1 the DMA engines'. On a machine that overlaps a
    third port reads the old sums that results are added to, so that operands are read in the same cycle. There a bank's even and odd rows
    are two memories: so the next line's word is fetched too, and a line has all its bytes from any byte on.

    Attributes:
        raddr, ren, rdata: Per port: packed (line, byte), enable, the line turned so that the addressed byte is byte 0.
        looks: Per port: `rdata` is looked at in this cycle; it is undefined where this is low.
        waddr, wen, wdata: Per port: packed (line, byte), enable for each byte, the line likewise turned.
        turns: The turns of lines and of enables.
    """

    WRITES = 2

    def __init__(self, p: Parameters, instance: bool) -> None:
        self.banks, self.offset_bits, self.halved = p.banks, p.offset_bits, p.halved_banks
        bits, lanes, wide = p.address_bits, p.line_bytes, 8 * p.line_bytes
        self.reads, self.sums_port = (3, 2) if p.overlaps else (2, 0)
        reads, writes = range(self.reads), range(self.WRITES)
        self.raddr = [Signal(bits, name=f"raddr{i}") for i in reads]
        self.ren = [Signal(name=f"ren{i}") for i in reads]
        self.rdata = [Signal(wide, name=f"rdata{i}") for i in reads]
        self.waddr = [Signal(bits, name=f"waddr{i}") for i in writes]
        self.wen = [Signal(lanes, name=f"wen{i}") for i in writes]
        self.wdata = [Signal(wide, name=f"wdata{i}") for i in writes]
        self.looks = [Signal(name=f"looks{i}") for i in reads]
        depth = -(-p.lines // 2) if self.halved else p.lines
        memories = p.banks * (2 if self.halved else 1)  # halved: a bank's even rows, then its odd ones
        self.bank = [Ram(depth, 64, 8, self.reads, self.WRITES, (self.sums_port,), instance) for _ in range(memories)]
        self.turns = {
            kind: [Turn(width, lane, up, instance) for _ in ports]
            for kind, width, lane, up, ports in (
                ("read", wide, 8, False, reads),
                ("write", wide, 8, True, writes),
                ("lanes", lanes, 1, True, writes),
            )
        }

    def elaborate(self, platform: object) -> Module:
        """The netlist of this part, as Amaranth elaborates it."""
        m = Module()
        for b, ram in enumerate(self.bank):
            m.submodules[f"bank_{b}"] = ram
        for p in range(self.reads):
            byte = Signal(self.offset_bits, name=f"turn{p}")
            with m.If(self.ren[p]):
                m.d.sync += byte.eq(self.raddr[p][: self.offset_bits])
            line = self._halves_read(m, p) if self.halved else self._banks_read(m, p)
            self._turn(m, p, "read", line, byte, self.looks[p])
            m.d.comb += self.rdata[p].eq(self.turns["read"][p].result)
        for p in range(self.WRITES):
            at, row = self.waddr[p][: self.offset_bits], self.waddr[p][self.offset_bits :]
            self._turn(m, p, "write", self.wdata[p], at, self.wen[p].any())
            self._turn(m, p, "lanes", self.wen[p], at, Const(1))
            data, lanes = self.turns["write"][p].result, self.turns["lanes"][p].result
            if self.halved:
                self._halves_write(m, p, data, lanes)
                continue
            for b, ram in enumerate(self.bank):
                next_row = (at[3:] > b) if self.banks > 1 else 0
                m.d.comb += [ram.waddr[p].eq(row + next_row), ram.wen[p].eq(lanes[8 * b : 8 * b + 8])]
                m.d.comb += ram.wdata[p].eq(data[64 * b : 64 * b + 64])
        return m

    def _banks_read(self, m: Module, p: int) -> Value:
        """A line of whole banks."""
        first = self.raddr[p][3 : self.offset_bits]
        for b, ram in enumerate(self.bank):
            next_line = (first > b) if self.banks > 1 else 0
            m.d.comb += [ram.ren[p].eq(self.ren[p])]
            m.d.comb += ram.raddr[p].eq(self.raddr[p][self.offset_bits :] + next_line)
        return Cat(*(ram.rdata[p] for ram in self.bank))

    def _half_rows(self, m: Module, address: Value, name: str) -> tuple[Signal, list[Signal], list[Signal]]:
        """Bytes of the first word that lie in the next line; by bank, the row of its word and whether the word is the first."""
        bits = len(address) - self.offset_bits
        row, following = address[self.offset_bits :], Signal(bits, name=f"{name}_following")
        before, first = Signal(8, name=f"{name}_before"), address[3 : self.offset_bits]
        m.d.comb += [following.eq(row + 1), before.eq(Cat(*(address[:3] > k for k in range(8))))]
        rows, firsts = [], []
        for b in range(self.banks):
            mine, is_first = Signal(bits, name=f"{name}_row_{b}"), Signal(name=f"{name}_first_{b}")
            later, begins = (first > b, first == b) if self.banks > 1 else (Const(0), Const(1))
            m.d.comb += [mine.eq(Mux(later, following, row)), is_first.eq(begins)]
            rows.append(mine)
            firsts.append(is_first)
        return before, rows, firsts

    def _halves_read(self, m: Module, p: int) -> Value:
        """A line out of even and odd rows: each byte from the half in which its row lies."""
        before, rows, firsts = self._half_rows(m, self.raddr[p], f"read{p}")
        words: list[Value] = []
        for b, (row, first) in enumerate(zip(rows, firsts, strict=True)):
            even, odd = self.bank[2 * b], self.bank[2 * b + 1]
            from_odd = Signal(8, name=f"from_odd{p}_{b}")
            m.d.comb += [even.raddr[p].eq((row + 1)[1:]), odd.raddr[p].eq(row[1:])]
            m.d.comb += [even.ren[p].eq(self.ren[p]), odd.ren[p].eq(self.ren[p])]
            with m.If(self.ren[p]):
                m.d.sync += from_odd.eq(row[0].replicate(8) ^ Mux(first, before, 0))
            pairs = ((even.rdata[p][8 * k : 8 * k + 8], odd.rdata[p][8 * k : 8 * k + 8]) for k in range(8))
            words.append(Cat(*(Mux(from_odd[k], o, e) for k, (e, o) in enumerate(pairs))))
        return Cat(*words)

    def _halves_write(self, m: Module, p: int, data: Signal, lanes: Signal) -> None:
        """A line into even and odd rows."""
        before, rows, firsts = self._half_rows(m, self.waddr[p], f"write{p}")
        for b, (row, first) in enumerate(zip(rows, firsts, strict=True)):
            even, odd = self.bank[2 * b], self.bank[2 * b + 1]
            to_odd, mine = Signal(8, name=f"to_odd{p}_{b}"), lanes[8 * b : 8 * b + 8]
            m.d.comb += to_odd.eq(row[0].replicate(8) ^ Mux(first, before, 0))
            m.d.comb += [even.waddr[p].eq((row + 1)[1:]), odd.waddr[p].eq(row[1:])]
            m.d.comb += [even.wen[p].eq(mine & ~to_odd), odd.wen[p].eq(mine & to_odd)]
            m.d.comb += [ram.wdata[p].eq(data[64 * b : 64 * b + 64]) for ram in (even, odd)]

    def _turn(self, m: Module, port: int, kind: str, value: Value, amount: Value, enable: Value) -> None:
        turn = self.turns[kind][port]
        m.submodules[f"{kind}_turn{port}"] = turn
        m.d.comb += [turn.value.eq(value), turn.amount.eq(amount), turn.enable.eq(enable)]
