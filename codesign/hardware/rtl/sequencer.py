"""Control by loop nests: a loader that runs ahead, and a sequencer that commands the array and hands results to the writer.

The mapping's temporal loops are cut in two: the innermost ones that move no local tile are the array's own nest (`rtl/unit.py`), the others
are the sequencer's. Its iterations go: wait for the tiles, fill local memories whose tile moved, run, drain. The loader walks the loops
outside the scratchpad alone and fetches every tile that moves, into the tensor's other half where it has two. Loader and sequencer meet in
counters of loaded and of held halves only, so fetching, computing and storing overlap.
"""

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, Value

from codesign.hardware.parameters import PORTS, Parameters
from codesign.hardware.rtl.dma import DRAM_BITS, DmaRead, DmaWrite
from codesign.hardware.rtl.nest import Address, LoopNest, line_sum
from codesign.hardware.rtl.registers import RegisterFile, WriteBus
from codesign.hardware.rtl.unit import ArrayUnit
from codesign.hardware.words import Command


class Places(Elaboratable):
    """Addresses of a tensor's places in the scratchpad, one after another and round again.

    Attributes:
        clear: In, back to the first. step: In, to the next.
        first, apart, last: In, the first one's address, how far they lie apart, and the number of the last one.
        at: Out, the present one's packed address.
    """

    def __init__(self, p: Parameters, name: str) -> None:
        self.p, self.name, bits = p, name, p.address_bits
        self.clear, self.step = Signal(name=f"{name}_clear"), Signal(name=f"{name}_step")
        self.first, self.apart, self.at = (Signal(bits, name=f"{name}_{n}") for n in ("first", "apart", "at"))
        self.last = Signal(range(p.most_places), name=f"{name}_last")

    def elaborate(self, platform: object) -> Module:
        """The netlist."""
        m, p = Module(), self.p
        number = Signal(len(self.last), name=f"{self.name}_number")
        kept = Signal(len(self.at), name=f"{self.name}_kept")
        m.d.comb += self.at.eq(Mux(number == 0, self.first, kept))
        following = line_sum(m, p, self.at, self.apart, f"{self.name}_next")
        with m.If(self.clear):
            m.d.sync += number.eq(0)
        with m.Elif(self.step):
            m.d.sync += [number.eq(Mux(number == self.last, 0, number + 1)), kept.eq(following)]
        return m


class Halves(Elaboratable):
    """Which halves of the tensors' places in the scratchpad are taken.

    Attributes:
        take: In, by tensor: the loader takes a half. loaded: In: its tile is complete. leave: In: the array has left a tile.
        free: In: a half is free again.
        room, ready: Out: a half is free to take; a complete tile waits for the array.
        held, waiting: By tensor, halves taken, and complete tiles that the array has not left.
    """

    def __init__(self, p: Parameters) -> None:
        self.last = [Signal(range(p.most_places), name=f"last_place_{t}") for t in PORTS]
        self.bits = p.most_places.bit_length()
        self.take, self.loaded, self.leave, self.free = (
            Signal(3, name=f"half_{n}") for n in ("take", "loaded", "leave", "free")
        )
        self.room, self.ready = Signal(3, name="half_room"), Signal(3, name="half_ready")
        self.held, self.waiting = ([Signal(self.bits, name=f"{n}_{t}") for t in range(3)] for n in ("held", "waiting"))

    def elaborate(self, platform: object) -> Module:
        """The netlist of this part, as Amaranth elaborates it."""
        m = Module()
        for t, (held, waiting) in enumerate(zip(self.held, self.waiting, strict=True)):
            m.d.sync += [
                held.eq(held + self.take[t] - self.free[t]),
                waiting.eq(waiting + self.loaded[t] - self.leave[t]),
            ]
            m.d.comb += [self.room[t].eq(held <= self.last[t]), self.ready[t].eq(waiting != 0)]
        return m


class Loader(Elaboratable):
    """Walks the loops outside the scratchpad and fetches the tiles that move, in the order A, B, O."""

    def __init__(self, p: Parameters, bus: WriteBus, dma: DmaRead, halves: Halves, first: int) -> None:
        self.p, self.dma, self.halves = p, dma, halves
        self.registers = r = RegisterFile(bus, first)
        bits = p.address_bits
        self.nest = LoopNest(p.outer_loops)
        self.r_bound = r.fields("load_bound", 16, p.outer_loops)
        self.r_moves = {t: r.field(f"load_moves_{t}", p.outer_loops) for t in PORTS}
        self.r_sum_loops = r.field("load_sum_loops", p.outer_loops)
        self.r_base = {t: r.field(f"load_base_{t}", DRAM_BITS) for t in PORTS}
        self.r_dram = {t: r.fields(f"load_dram_{t}", DRAM_BITS, p.outer_loops) for t in PORTS}
        self.r_place = {t: r.field(f"place_{t}", bits) for t in PORTS}
        self.r_apart = {t: r.field(f"place_step_{t}", bits) for t in PORTS}
        self.r_last = {t: r.field(f"place_last_{t}", len(halves.last[0])) for t in PORTS}
        self.start, self.busy = Signal(name="load_start"), Signal(name="load_busy")

    def elaborate(self, platform: object) -> Module:
        """The netlist of this part, as Amaranth elaborates it."""
        m, h, dma = Module(), self.halves, self.dma
        m.submodules.registers, m.submodules.nest = self.registers, self.nest
        m.d.comb += [self.nest.bound_m1[i].eq(b) for i, b in enumerate(self.r_bound)]
        m.d.comb += [h.last[n].eq(self.r_last[t]) for n, t in enumerate(PORTS)]
        places = self.places(m, "load")
        m.d.comb += self.nest.start.eq(self.start)
        addresses = {}
        for t in PORTS:
            m.submodules[f"dram_{t}"] = addresses[t] = Address(self.nest, DRAM_BITS, f"tile_{t}")
            m.d.comb += addresses[t].given(self.r_base[t], self.r_dram[t])
        moved = Signal(3, reset_less=True)
        begins = (~self.r_sum_loops | self.nest.zero).all()
        loads_o = moved[2] & ~begins
        sums_fly = Signal(self.halves.bits, name="sums_fly")  # tiles of old sums on their way
        asks, arrives = Signal(name="asks_for_sums"), Signal(name="sums_arrive")
        m.d.comb += arrives.eq(dma.done & (dma.done_which == 2))
        m.d.sync += sums_fly.eq(sums_fly + asks - arrives)
        m.d.comb += h.loaded.eq(Mux(dma.done, 1 << dma.done_which, 0))
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += moved.eq(7)
                m.d.comb += [x.clear.eq(1) for x in places]
                with m.If(self.start):
                    m.next = "A"
            for n, t in enumerate(PORTS):
                with m.State(t):
                    m.d.comb += self.busy.eq(1)
                    following = PORTS[n + 1] if n < 2 else "ADVANCE"
                    fetches = loads_o if t == "O" else moved[n]
                    go = Signal(name=f"goes_{t}")
                    in_turn = (sums_fly == 0) if t == "O" else 1  # a sum that begins comes after those on their way
                    m.d.comb += [dma.which.eq(n), dma.wide.eq(t == "O"), dma.dram.eq(addresses[t].address)]
                    m.d.comb += dma.at.eq(places[n].at)
                    m.d.comb += [
                        dma.valid.eq(fetches & h.room[n]),
                        go.eq(~moved[n] | (h.room[n] & Mux(fetches, dma.ready, in_turn))),
                    ]
                    with m.If(go):
                        m.next = following
                        m.d.comb += h.take[n].eq(moved[n])
                        m.d.comb += places[n].step.eq(moved[n])
                        if t == "O":
                            m.d.comb += asks.eq(fetches)
                            with m.If(moved[2] & begins):  # a sum that begins has nothing to load
                                m.d.comb += h.loaded[2].eq(1)
            with m.State("ADVANCE"):
                m.d.comb += [self.busy.eq(1), self.nest.step.eq(1)]
                m.d.sync += moved.eq(Cat(*((self.nest.advance & self.r_moves[t]).any() for t in PORTS)))
                m.next = "A"
                with m.If(self.nest.last):
                    m.next = "IDLE"
        return m

    def places(self, m: Module, name: str) -> list[Places]:
        """A walk through the places of each tensor."""
        found = [Places(self.p, f"{name}_place_{t}") for t in PORTS]
        for t, x in zip(PORTS, found, strict=True):
            m.submodules[x.name] = x
            m.d.comb += [x.first.eq(self.r_place[t]), x.apart.eq(self.r_apart[t]), x.last.eq(self.r_last[t])]
        return found


class Sequencer(Elaboratable):
    """Walks the loops outside the array's nest and commands the array and the writer."""

    def __init__(
        self, p: Parameters, bus: WriteBus, unit: ArrayUnit, loader: Loader, writer: DmaWrite, first: int
    ) -> None:
        self.p, self.unit, self.loader, self.writer, self.halves = p, unit, loader, writer, loader.halves
        self.registers = r = RegisterFile(bus, first)
        n, bits = p.outer_loops, p.address_bits
        self.nest = LoopNest(n)
        self.r_bound = r.fields("seq_bound", 16, n)
        self.r_moves = {t: r.field(f"seq_moves_{t}", n) for t in PORTS}
        self.r_local_moves = {t: r.field(f"seq_local_moves_{t}", n) for t in PORTS}
        self.r_sum_loops = r.field("seq_sum_loops", n)
        self.r_line = {t: r.fields(f"seq_line_{t}", bits, n) for t in PORTS}
        self.r_local_base = {t: r.field(f"seq_local_base_{t}", p.local_bits) for t in PORTS if t in p.local}
        self.r_local = {t: r.fields(f"seq_local_{t}", p.local_bits, n) for t in PORTS if t in p.local}
        self.r_other = {t: r.field(f"seq_local_other_{t}", p.local_bits) for t in "AB"} if p.fills_beside else {}
        self.r_two_local = r.field("seq_local_two", 2) if p.fills_beside else None
        self.r_out = r.fields("seq_out", DRAM_BITS, n)
        self.start, self.busy = Signal(name="seq_start"), Signal(name="seq_busy")

    def elaborate(self, platform: object) -> Module:
        """The netlist of this part, as Amaranth elaborates it."""
        m = Module()
        m.submodules.registers, m.submodules.nest = self.registers, self.nest
        m.d.comb += [*(self.nest.bound_m1[i].eq(b) for i, b in enumerate(self.r_bound)), self.nest.start.eq(self.start)]
        self.other = Signal(2, name="other_local_half")
        self.places = self.loader.places(m, "seq")
        out = self._addresses(m)
        storing, last = self._store(m, out)
        self._walk(m, storing, last)
        return m

    def _addresses(self, m: Module) -> Address:
        """Where the tiles of this iteration lie; returns the result's address in DRAM."""
        p, u, n = self.p, self.unit, self.p.outer_loops
        for i, t in enumerate(PORTS):
            line = Address(self.nest, p.address_bits, f"seq_{t}", p)
            m.submodules[f"line_{t}"] = line
            m.d.comb += [line.delta[k].eq(self.r_line[t][k]) for k in range(n)]
            total = line_sum(m, p, line.address, self.places[i].at, f"at_{t}")
            m.d.comb += u.at[t].eq(total)
            if t in p.local:
                m.submodules[f"local_{t}"] = local = Address(self.nest, p.local_bits, f"seq_local_{t}")
                m.d.comb += [local.base.eq(self.r_local_base[t]), u.local_at[t].eq(local.address)]
                if t in self.r_other:
                    with m.If(self.other[i]):
                        m.d.comb += u.local_at[t].eq(local.address + self.r_other[t])
                m.d.comb += [local.delta[k].eq(self.r_local[t][k]) for k in range(n)]
        m.submodules.out = out = Address(self.nest, DRAM_BITS, "out")
        m.d.comb += out.given(self.loader.r_base["O"], self.r_out)
        return out

    def _store(self, m: Module, out: Address) -> tuple[Signal, Signal]:
        """One finished result tile waits for its last words to be written, then for the writer."""
        w, settling = self.writer, self.unit.settling
        push, waiting = Signal(name="push"), Signal(name="store_waits")
        address, at = Signal(DRAM_BITS), Signal(len(self.places[2].at), name="store_at")
        under_way = Signal(self.halves.bits, name="stores_under_way")
        left = Signal(len(settling), name="store_settles")
        with m.If(push):
            m.d.sync += [waiting.eq(1), address.eq(out.address), at.eq(self.places[2].at)]
            m.d.sync += left.eq(Mux(settling == 0, 0, settling - 1))
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        m.d.comb += [w.valid.eq(waiting & (left == 0)), w.which.eq(0), w.dram.eq(address), w.at.eq(at)]
        taken = Signal(name="store_taken")
        m.d.comb += taken.eq(w.valid & w.ready)
        with m.If(taken):
            m.d.sync += waiting.eq(0)
        m.d.sync += under_way.eq(under_way + taken - w.done)
        m.d.comb += self.halves.free[2].eq(w.done)
        busy = Signal(name="stores")
        m.d.comb += busy.eq(waiting | (under_way != 0))
        self.store_full = waiting
        return push, busy

    def _needs(self, m: Module, refill: Signal) -> dict[str, Value]:
        """The machine's commands in their order, and when an iteration needs each."""
        local, nest = self.p.local, self.nest
        leaves = Signal(name="local_sum_ends")
        m.d.comb += leaves.eq((nest.advance & self.r_local_moves["O"]).any() | nest.last)
        begins = (~self.r_sum_loops | nest.zero).all()
        m.d.comb += self.unit.first.eq(begins)
        fills = {f"FILL_{t}": refill[i] for i, t in enumerate("AB") if t in local}
        if "O" not in local:
            return fills | {"RUN": Value.cast(1)}
        return fills | {"PRELOAD": refill[2] & ~begins, "RUN": Value.cast(1), "DRAIN": leaves}

    def _offer(self, m: Module, k: int, name: str) -> Value:
        """The array is given its k-th command; returns whether it takes it."""
        u, beside = self.unit, self.p.fills_beside and k < 2
        if self.r_two_local is not None and beside:  # without another half the array must have left the tile
            m.d.comb += [u.fill_valid.eq(self.r_two_local[k] | u.idle | u.ends), u.fill_b.eq(k)]
        else:
            m.d.comb += [u.valid.eq(1), u.kind.eq(Command[name])]
        return (u.fill_valid & u.fill_ready) if beside else u.ready

    def _step(self, m: Module, ends: list[Signal], moved: Signal, refill: Signal) -> None:
        """Loops and places of tiles to the next iteration."""
        nest = self.nest
        m.d.comb += nest.step.eq(1)
        m.d.comb += [x.step.eq(ended) for x, ended in zip(self.places, ends, strict=True)]
        m.d.sync += moved.eq(Cat(*ends))
        for i, t in enumerate(PORTS):
            again = (nest.advance & self.r_local_moves[t]).any()
            m.d.sync += refill[i].eq(again)
            if self.r_two_local is not None and i < 2:
                m.d.sync += self.other[i].eq(self.other[i] ^ (again & self.r_two_local[i]))

    def _walk(self, m: Module, push: Signal, storing: Signal) -> None:
        p, u, h, nest = self.p, self.unit, self.halves, self.nest
        moved, refill = Signal(3, name="moved"), Signal(3, name="refill")
        ends = [Signal(name=f"ends_{t}") for t in PORTS]  # the tile's last iteration in the scratchpad
        for i, t in enumerate(PORTS):
            m.d.comb += ends[i].eq((nest.advance & self.r_moves[t]).any() | nest.last)
        need = self._needs(m, refill)
        commands = list(need)

        def step() -> None:
            """To the next iteration."""
            self._step(m, ends, moved, refill)
            m.next = "WAIT"

        def follow(after: int) -> None:
            """To the first command from that place on that is needed; after the last one on at once, unless a tile ends."""
            m.next = "ADVANCE"
            if p.overlaps and after:
                later = [need[name] for name in commands[after:]]
                with m.If(~Cat(*ends, *later).any()):
                    step()
            for name in reversed(commands[after:]):
                with m.If(need[name]):
                    m.next = name

        def command(k: int, name: str) -> None:
            """Hand over the command, and go on when it is taken."""
            with m.If(self._offer(m, k, name)):
                follow(k + 1)

        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [moved.eq(7), refill.eq(7), self.other.eq(0)]
                m.d.comb += [x.clear.eq(1) for x in self.places]
                m.d.comb += self.busy.eq(storing)
                with m.If(self.start):
                    m.next = "WAIT"
            with m.State("WAIT"):
                m.d.comb += self.busy.eq(1)
                with m.If((h.ready | ~moved).all()):
                    if not p.overlaps:
                        follow(0)
                    for k, name in enumerate(commands) if p.overlaps else ():
                        earlier = [need[other] for other in commands[:k]]
                        with m.If(need[name] & ~Cat(*earlier).any() if earlier else need[name]):
                            command(k, name)
            for k, name in enumerate(commands):
                with m.State(name):
                    m.d.comb += self.busy.eq(1)
                    command(k, name)
            with m.State("ADVANCE"):
                m.d.comb += self.busy.eq(1)
                rest = Signal()  # tiles that are left must have been read, and results written, or on their way
                written = ~self.store_full if p.overlaps else u.quiet & ~self.store_full
                m.d.comb += rest.eq((~Cat(*ends).any() | u.idle) & (~ends[2] | written))
                with m.If(rest):
                    m.d.comb += [push.eq(ends[2]), h.leave.eq(Cat(*ends)), h.free[:2].eq(Cat(*ends[:2]))]
                    step()
                    with m.If(nest.last):
                        m.next = "IDLE"
