"""A program of intrinsic calls as the instruction streams of a core.

Loads, stores and calls become commands one to one, in their order. What a program leaves to the hardware is decided here by rule: when a
block of the stationary operand enters the local memories, when local sums leave them (Q3 of the core's model), and who waits for whom.
"""

import math
from collections.abc import Mapping as MappingABC
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from codesign.arch.architecture import Links
from codesign.core.errors import UserError
from codesign.hardware.image import (
    PATIENCE_CYCLES,
    Image,
    array_settings,
    deltas,
    line_address,
    place,
    strides_of,
)
from codesign.hardware.lanes import Element, Emissions, Window, operand_windows, result_emissions
from codesign.hardware.layout import Box, Layout
from codesign.hardware.parameters import PARTIAL_BYTES, WORD_BYTES, Control, Parameters
from codesign.tensorization.intrinsic_core import LOCAL, SCRATCHPAD, Core
from codesign.tensorization.program import Call, Operand, Program, Transfer, Zero

PORTS = ("A", "B", "O")
END, LAUNCH, WAIT, WAIT_STORES = 1, 2, 3, 4
FILL_A, FILL_B, PRELOAD, RUN, DRAIN = range(5)
LOAD, LOAD_RESULT, STORE = range(3)
FIRST, SIGNALS, FENCE = 1 << 3, 1 << 8, 1 << 9


def core_parameters(core: Core, name: str) -> Parameters:
    """The machine of instruction queues for a core.

    Raises:
        UserError: Its intrinsic has other than two operands, or an index is both side by side and one after the other (rule G6).
    """
    operation, where = core.intrinsic.computation, f"core {core.architecture.name!r}"
    if len(operation.inputs) != 2:
        raise UserError(
            f"an element multiplies two operands, the intrinsic has {len(operation.inputs)} (rule G6)", where=where
        )
    for index, _, _ in core.unrolled:
        if core.follow[index] > 1:
            raise UserError(f"index {index!r} is unrolled in part (rule G6)", where=where)
    level, local = core.architecture.levels[SCRATCHPAD], core.architecture.levels[LOCAL]
    if level.capacity_bytes is None or local.capacity_bytes is None:
        raise UserError("both memories on chip need a capacity", where=where)
    port = next(p for p, t in _intrinsic_ports(core).items() if t == core.stationary)
    return Parameters(
        name=name,
        control=Control.QUEUE,
        rows=level.fanout.y,
        cols=level.fanout.x,
        links=level.fanout.links,
        banks=level.banks,
        scratchpad_bytes=int(level.capacity_bytes),
        local_bytes=int(local.capacity_bytes),
        local=frozenset({port}),
        bus_bytes=core.dma.bus_bytes,
        burst_bytes=core.dma.burst_bytes,
        run_loops=max(4, sum(n > 1 for n in core.follow.values())),
    )


def _intrinsic_ports(core: Core) -> dict[str, str]:
    operation = core.intrinsic.computation
    first, second = operation.inputs
    return {"A": first.name, "B": second.name, "O": operation.output.name}


@dataclass
class _Launch:
    """A command: the register writes before it, what it starts, and which launch of the other queue must be over.

    Where engines run beside their queue, `after` and `after_stores` of an array's command count loads and stores that must be over.
    """

    writes: list[tuple[str, int]]
    data: int
    after: int | None
    signals: bool = False
    after_stores: int | None = None


@dataclass(frozen=True)
class CommandShape:
    """What the cycle model needs of a command of the array: its kind, and words or iterations."""

    kind: int
    items: int


@dataclass
class _Queues:
    """The two queues as they grow, and who touched what last."""

    array: list[_Launch] = field(default_factory=list)
    dma: list[_Launch] = field(default_factory=list)
    shapes: list[CommandShape] = field(default_factory=list)
    transfers: list[tuple[Box, int, int, bool, bool]] = field(default_factory=list)
    array_use: dict[str, int] = field(default_factory=dict)
    dma_use: dict[str, int] = field(default_factory=dict)
    array_since: dict[str, int] = field(default_factory=dict)
    numbers: list[tuple[bool, int]] = field(default_factory=list)
    of_kind: list[int] = field(default_factory=lambda: [0, 0])

    def number(self, i: int) -> tuple[bool, int]:
        """Whether a DMA command is a store, and its number among its kind, counted from 1."""
        for k in range(len(self.numbers), len(self.dma)):
            stores = self.dma[k].data & 3 == STORE
            self.of_kind[stores] += 1
            self.numbers.append((stores, self.of_kind[stores]))
        return self.numbers[i]


class CorePlan:
    """A program on a core: layouts, windows, and the commands.

    Args:
        program: Loads, stores, calls.
        core: What runs it.
        parameters: Of the machine.
    """

    def __init__(self, program: Program, core: Core, parameters: Parameters) -> None:
        self.program, self.core, self.p = program, core, parameters
        self.choice = program.schedule.choice
        self._check()
        self.operation = core.intrinsic.computation
        names = _intrinsic_ports(core)
        self.port_of = {name: port for port, name in names.items()}
        self.intrinsic_tensor = {port: self.operation.tensor(name) for port, name in names.items()}
        self.operand_buffer = dict.fromkeys(PORTS) | {
            self.port_of[o.intrinsic_tensor]: o.tensor for o in self.choice.match.operands
        }
        self.buffers = {b.name: b for b in program.buffers}
        self.order = self._orders()
        self.buffer_strides = {
            b.name: strides_of(b.shape, self.order[b.name], b.element_bytes) for b in program.buffers
        }
        self.follow = [i for i, n in core.follow.items() if n > 1]
        self.layouts = self._layouts()
        self.halves = self._halves()

    def _check(self) -> None:
        where = f"program of {self.choice.computation}"
        if self.choice.match.scalars:
            raise UserError(
                f"a call scales its result by {', '.join(self.choice.match.scalars)}, elements have no third factor (rule G6)",
                where=where,
            )
        for b in self.program.buffers:
            tensor = self.choice.computation.tensor(b.tensor)
            wanted = PARTIAL_BYTES if tensor.is_output else 1
            if b.element_bytes != wanted:
                raise UserError(
                    f"buffer {b.name!r} has elements of {b.element_bytes} bytes, the core's have {wanted} (rule G4)",
                    where=where,
                )
        if self.choice.intrinsic.computation.sizes != self.core.intrinsic.computation.sizes or str(
            self.choice.intrinsic.computation
        ) != str(self.core.intrinsic.computation):
            raise UserError(
                f"the program calls {self.choice.intrinsic.computation}, the core performs {self.core.intrinsic.computation}: it is of another core",
                where=where,
            )

    def _orders(self) -> dict[str, tuple[int, ...]]:
        """By buffer, its axes from the outermost to the innermost: those that are spread over the array innermost, as in DRAM.

        A machine with one burst under way has the axes in the computation's order.
        """
        spread = {b.name: [0] * len(b.shape) for b in self.program.buffers}
        call = next((i for i in self.program.instructions(whole_tiles=True) if isinstance(i, Call)), None)
        if call is not None and self.p.overlaps:
            unrolled = {index: n for index, n, _ in self.core.unrolled}
            for o in (*call.operands, call.output):
                axes = self.intrinsic_tensor[self.port_of[o.name]].axes
                for axis, spot in zip(axes, o.axes, strict=True):
                    if o.buffer is not None and spot is not None:
                        moved = (abs(c) * (unrolled[i] - 1) for i, c in axis.terms if i in unrolled)
                        spread[o.buffer][spot[0]] += sum(moved) * spot[1]
        return {
            name: tuple(sorted(range(len(found)), key=lambda a: (found[a] > 0, found[a], a)))
            for name, found in spread.items()
        }

    def _halves(self) -> dict[str, tuple[int, ...]]:
        """By buffer, the addresses that its tiles take in turn: two where tiles change and a second one fits, the smallest first (rule G5).

        A machine with one burst under way has the program's own addresses.
        """
        buffers = self.program.buffers
        step = {b.name: -(-b.size_bytes // WORD_BYTES) * WORD_BYTES for b in buffers}
        left = self.p.lines * self.p.line_bytes - sum(step.values())
        if not self.p.overlaps or left < 0:
            return {b.name: (b.address,) for b in buffers}
        loads = [i.buffer for i in self.program.instructions(whole_tiles=True) if isinstance(i, Transfer)]
        found, at = {}, 0
        for b in sorted(buffers, key=lambda b: step[b.name]):
            two = loads.count(b.name) > 1 and step[b.name] <= left
            left -= step[b.name] if two else 0
            found[b.name] = tuple(at + h * step[b.name] for h in range(1 + two))
            at += step[b.name] * (1 + two)
        return found

    def _layouts(self) -> dict[str, Layout]:
        order = {b.tensor: self.order[b.name] for b in self.program.buffers}
        computation = self.choice.computation
        wanted, ports = [], []
        for port in PORTS:
            name = self.operand_buffer[port]
            if name is None:
                continue
            tensor = computation.tensor(name)
            shape = tuple(axis.extent(computation.sizes) for axis in tensor.axes)
            parts = tuple((a, 1, shape[a]) for a in order[name])
            wanted.append(Layout(name, 0, shape, parts, tensor.bits // 8))
            ports.append(port)
        placed, self.dram_bytes = place(wanted)
        return dict(zip(ports, placed, strict=True))

    def distance(self, port: str, operand: Operand, index: str) -> int:
        """Bytes that one step of an index of the intrinsic moves an operand in its buffer."""
        if operand.buffer is None:
            return 0
        strides = self.buffer_strides[operand.buffer]
        total = 0
        for axis, spot in zip(self.intrinsic_tensor[port].axes, operand.axes, strict=True):
            for i, coefficient in axis.terms:
                if i == index and spot is not None:
                    total += coefficient * spot[1] * strides[spot[0]]
        return total

    def address(self, operand: Operand, half: int = 0) -> int:
        """Scratchpad address of an operand's first element in one of its buffer's halves."""
        assert operand.buffer is not None
        return self.halves[operand.buffer][half] + sum(
            a * s for a, s in zip(operand.at, self.buffer_strides[operand.buffer], strict=True)
        )

    def spread(self, port: str, operand: Operand) -> tuple[list[int], list[int]]:
        """Bytes that each row, and each column, adds."""
        found = {}
        for axis, used in (("y", self.p.rows), ("x", self.p.cols)):
            offsets, inside = [0] * used, 1
            for index, n, along in reversed(self.core.unrolled):
                if along != axis:
                    continue
                step = self.distance(port, operand, index) * self._inside(index, axis)
                for k in range(used):
                    offsets[k] += k // inside % n * step
                inside *= n
            found[axis] = offsets
        return found["y"], found["x"]

    def _inside(self, index: str, axis: str) -> int:
        """Iterations of an index that one step along this axis jumps: those on axes named later in `unrolled`."""
        later = False
        jump = 1
        for i, n, along in self.core.unrolled:
            if later and i == index:
                jump *= n
            later = later or (i == index and along == axis)
        return jump

    def split_on_both(self) -> str | None:
        """The index that runs along both axes, if there is one."""
        names = [i for i, _, _ in self.core.unrolled]
        return next((i for i in names if names.count(i) > 1), None)


def core_image(plan: CorePlan, registers: MappingABC[str, tuple[int, int]]) -> "CoreImage":
    """The streams of a program on a machine with these registers."""
    return _Encoder(plan, registers).run()


@dataclass(frozen=True)
class CoreImage:
    """An image with what the cycle model needs of its commands.

    Args:
        image: Streams and layouts.
        array, dma: By queue, one entry a word: None for a register write, else what it launches or waits for.
    """

    image: Image
    array: tuple[tuple[str, int, int], ...]
    dma: tuple[tuple[str, int, int], ...]
    shapes: tuple[CommandShape, ...]
    transfers: tuple[tuple[Box, int, int, bool, bool], ...]


class _Encoder:
    """Walks a program once; see the module."""

    def __init__(self, plan: CorePlan, registers: MappingABC[str, tuple[int, int]]) -> None:
        self.plan, self.p, self.core, self.registers = plan, plan.p, plan.core, registers
        self.q = _Queues()
        self.array_shadow: dict[str, int] = {}
        self.dma_shadow: dict[str, int] = {}
        self.stationary = next(iter(self.p.local))
        self.resident: dict[tuple[int, ...], int] = {}
        self.dirty: dict[int, tuple[Operand, dict[str, int]]] = {}
        self.tile: tuple[int, ...] | None = None
        self.touched: dict[str, np.ndarray] = {}
        self.windows: dict[str, tuple[Window, ...]] = {}
        self.emissions: Emissions | None = None
        self.block_words = math.prod(self._block_shape())
        self.half = dict.fromkeys(plan.buffers, -1)
        self.stores: list[tuple[Transfer, str, int | None]] = []  # stores that later loads may still overtake

    def _block_shape(self) -> list[int]:
        """Iterations of the follow indices that move the stationary operand: the words of one block in a local memory."""
        tensor = self.plan.intrinsic_tensor[self.stationary]
        return [self.core.follow[i] for i in self.plan.follow if i in tensor.dims]

    def run(self) -> CoreImage:
        names = {b.name: b.tensor for b in self.plan.program.buffers}
        output = self.plan.choice.computation.output.name
        program = list(self.plan.program.instructions(whole_tiles=True))
        self.words_aligned = dict.fromkeys(PORTS, True)
        for call in (i for i in program if isinstance(i, Call)):
            for o in (*call.operands, call.output):
                if o.buffer is not None and self.plan.address(o) % WORD_BYTES:
                    self.words_aligned[self.plan.port_of[o.name]] = False
        for instruction in program:
            if isinstance(instruction, Call):
                self._call(instruction)
            elif isinstance(instruction, Transfer):
                self._move(instruction, names[instruction.buffer], names[instruction.buffer] == output)
            elif isinstance(instruction, Zero):
                self._flush()
                self._turn(instruction.buffer)
                self.touched[instruction.buffer] = np.zeros(self.plan.buffers[instruction.buffer].shape, np.bool_)
        return self._finish()

    # ------------------------------------------------------------------ transfers
    def _turn(self, buffer: str) -> None:
        """A new tile: the buffer's other half."""
        self.half[buffer] = (self.half[buffer] + 1) % len(self.plan.halves[buffer])

    def _key(self, buffer: str) -> str:
        """The half of a buffer that the present tile lies in."""
        return f"{buffer}/{self.half[buffer]}"

    def _address(self, o: Operand) -> int:
        assert o.buffer is not None
        return self.plan.address(o, self.half[o.buffer])

    def _move(self, t: Transfer, tensor: str, is_output: bool) -> None:
        """A transfer in the order of the program, or a store that waits for loads of the next tile to overtake it.

        A load overtakes where it waits for no later command of the array than the store does: so no command waits for one behind it.
        """
        if is_output:
            self._flush()
        if t.op == "store":
            self._store_waiting()
            self.stores.append((t, self._key(t.buffer), self.q.array_use.get(self._key(t.buffer))))
            if not self.p.overlaps:
                self._store_waiting()
            return
        self._turn(t.buffer)
        after = self.q.array_use.get(self._key(t.buffer))
        bars = [wait for _, _, wait in self.stores if wait is None or (after is not None and after > wait)]
        if is_output or bars:
            self._store_waiting()
        self._transfer(t, tensor, is_output, self._key(t.buffer), after)

    def _store_waiting(self) -> None:
        """Stores that wait enter the queue."""
        for t, key, after in self.stores:
            self._transfer(t, self.plan.buffers[t.buffer].tensor, True, key, after)
        self.stores.clear()

    def _transfer(self, t: Transfer, tensor: str, is_output: bool, key: str, after: int | None) -> None:
        plan, p = self.plan, self.p
        layout = next(x for x in plan.layouts.values() if x.tensor == tensor)
        buffer, strides = plan.buffers[t.buffer], plan.buffer_strides[t.buffer]
        run, rest = layout.element_bytes, list(plan.order[t.buffer])
        in_dram = strides_of(layout.shape, plan.order[t.buffer], layout.element_bytes)
        while rest:
            axis = rest.pop()
            run *= t.shape[axis]
            if t.shape[axis] != layout.shape[axis] or t.shape[axis] != buffer.shape[axis]:
                break
        loops = tuple((t.shape[a], in_dram[a], strides[a]) for a in reversed(rest) if t.shape[a] > 1)
        if len(loops) > p.box_loops:
            raise UserError(
                f"a transfer of {tensor!r} has {len(loops)} axes around its runs, the DMA engine walks {p.box_loops} (rule G3)"
            )
        dram = layout.base + sum(a * s for a, s in zip(t.dram, in_dram, strict=True))
        start = plan.halves[t.buffer][int(key.rsplit("/", 1)[1])]
        at = start + sum(a * s for a, s in zip(t.at, strides, strict=True))
        stores = t.op == "store"
        engine = "write" if stores else "read"
        bounds = [b for b, _, _ in loops]
        wanted = [(f"{engine}_run_bytes_box", run), ("transfer_dram", dram), ("transfer_line", line_address(p, at))]
        wanted += _levels(f"{engine}_bound_box", [b - 1 for b in bounds], p.box_loops)
        wanted += _levels(
            f"{engine}_dram_box", [d & 0xFFFFFFFF for d in deltas(bounds, [d for _, d, _ in loops])], p.box_loops
        )
        wanted += _levels(
            f"{engine}_line_box", [line_address(p, d) for d in deltas(bounds, [c for _, _, c in loops])], p.box_loops
        )
        if is_output:
            wanted.append((f"{engine}_result_log2", layout.element_bytes.bit_length() - 1))
            if not stores:
                self.touched[t.buffer] = np.ones(buffer.shape, np.bool_)
        writes = _changed(self.dma_shadow, wanted)
        kind = STORE if stores else (LOAD_RESULT if is_output else LOAD)
        self.q.dma.append(_Launch(writes, kind | self._fence(key, kind), after))
        self.q.dma_use[key] = len(self.q.dma) - 1
        self.q.transfers.append((Box(run, loops), at, layout.element_bytes, is_output, stores))

    def _fence(self, key: str, kind: int) -> int:
        """FENCE where the other engine must be at rest first: sums come back after stores; a buffer is stored that nothing has used since its load."""
        if not self.p.overlaps or kind == LOAD:
            return 0
        if kind == LOAD_RESULT:
            return FENCE
        last = self.q.dma_use.get(key)
        return FENCE if last is not None and self.q.array_since.get(key) != last else 0

    # ------------------------------------------------------------------ calls
    def _call(self, call: Call) -> None:
        plan = self.plan
        operands = {plan.port_of[o.name]: o for o in (*call.operands, call.output)}
        valid = self._valid(operands)
        self._settle(operands)
        bounds = {i: valid[i] for i in plan.follow}
        self._enter_tile(operands)
        slot = self._slot(operands, valid)
        first = self._first(operands["O"])
        used = [o.buffer for o in operands.values() if o.buffer is not None]
        wanted = self._limits(valid)
        order = list(reversed(plan.follow))  # level 0 is the innermost
        sizes = [bounds[i] for i in order]
        wanted += _levels("run_bound", [n - 1 for n in sizes], self.p.run_loops)
        moves_result = plan.intrinsic_tensor["O"].dims
        wanted.append(("run_sum_loops", sum(1 << k for k, i in enumerate(order) if i not in moves_result)))
        for port, o in operands.items():
            if port == self.stationary:
                local = _local_strides(plan, self.stationary, self.core.follow)
                wanted += _levels(
                    f"run_local_{port}", deltas(sizes, [local.get(i, 0) for i in order]), self.p.run_loops
                )
                wanted.append((f"local_{port}", slot))
            elif o.buffer is not None:
                steps = [plan.distance(port, o, i) for i in order]
                wanted += _levels(
                    f"run_line_{port}", [line_address(self.p, d) for d in deltas(sizes, steps)], self.p.run_loops
                )
                wanted.append((f"at_{port}", line_address(self.p, self._address(o))))
        self._launch(wanted, RUN | (FIRST if first else 0), used, CommandShape(RUN, math.prod(sizes)))

    def _valid(self, operands: MappingABC[str, Operand]) -> dict[str, int]:
        """Valid iterations of each index, read off the operands' shapes."""
        found = {}
        for port, o in operands.items():
            for axis, length in zip(self.plan.intrinsic_tensor[port].axes, o.shape, strict=True):
                if len(axis.terms) == 1 and axis.terms[0][1] == 1:
                    found[axis.terms[0][0]] = length
        return found

    def _settle(self, operands: MappingABC[str, Operand]) -> None:
        """Windows and emissions, from the first call: all calls of a program have the same."""
        if self.emissions is not None:
            return
        plan, shared = self.plan, self.p.links is not Links.NONE
        for port in ("A", "B"):
            o = operands[port]
            if o.buffer is None:
                self.windows[port] = ()
                continue
            rows, cols = plan.spread(port, o)
            offset: dict[Element, int] = {(y, x): r + c for y, r in enumerate(rows) for x, c in enumerate(cols)}
            self.windows[port] = operand_windows(offset, self.p.line_bytes, self._aligned(port, o), shared)
        rows, cols = plan.spread("O", operands["O"])
        self.emissions = result_emissions(
            rows, cols, self.p.line_bytes, self._aligned("O", operands["O"], rows), shared
        )

    def _aligned(self, port: str, o: Operand, rows: Sequence[int] = ()) -> bool:
        """Whether every address at which a window begins is a multiple of a bank's word."""
        steps = [self.plan.distance(port, o, i) for i in self.plan.follow]
        return self.words_aligned[port] and all(d % WORD_BYTES == 0 for d in (*steps, *rows))

    def _limits(self, valid: MappingABC[str, int]) -> list[tuple[str, int]]:
        """Rows and columns in use; an index along both axes fills whole rows first."""
        both = self.plan.split_on_both()
        if both is not None:
            rows, rest = divmod(valid[both], self.p.cols)
            return [("ny", rows), ("nx", self.p.cols), ("nl", rest)]
        used = {"y": 1, "x": 1}
        for index, _, axis in self.core.unrolled:
            used[axis] *= valid[index]
        return [("ny", used["y"]), ("nx", used["x"]), ("nl", 0)]

    # ------------------------------------------------------------------ local memories
    def _enter_tile(self, operands: MappingABC[str, Operand]) -> None:
        """A block outside the present local tile begins another: the old one's sums leave."""
        o = operands[self.stationary]
        if o.buffer is None:
            return
        tile = (self.q.dma_use.get(self._key(o.buffer), -1) if self.stationary != "O" else -1, *self._tile_of(o))
        if tile != self.tile:
            self._flush()
            self.resident.clear()
            self.tile = tile

    def _tile_of(self, o: Operand) -> tuple[int, ...]:
        """The local tile a block lies in: the inner loops that Q3 lets stand inside the local memories cover it."""
        plan = self.plan
        schedule = plan.program.schedule
        start = self.core.local_start(plan.choice, schedule.inner)
        name = plan.operand_buffer[self.stationary]
        assert name is not None and o.buffer is not None
        tensor = plan.choice.computation.tensor(name)
        sizes = {d: plan.choice.tile[d] for d in plan.choice.computation.dims}
        for dim, count in schedule.inner[start:]:
            sizes[dim] *= count
        extents = [axis.extent(sizes) for axis in tensor.axes]
        return tuple(a // n for a, n in zip(o.at, extents, strict=True))

    def _slot(self, operands: MappingABC[str, Operand], valid: MappingABC[str, int]) -> int:
        """Local address of the call's block, which is brought in if it is not there."""
        o = operands[self.stationary]
        if o.buffer is None:
            return 0
        if o.at in self.resident:
            return self.resident[o.at]
        size = self.block_words * (PARTIAL_BYTES if self.stationary == "O" else 1)
        slot = len(self.resident) * size
        if slot + size > self.p.local_bytes:
            raise UserError(
                f"a local memory of {self.p.local_bytes} bytes does not hold the program's blocks (rule G4)"
            )
        self.resident[o.at] = slot
        if self.stationary == "O":
            fresh = self._first(o, mark=False)
            if not fresh:
                self._local_command(PRELOAD, o, slot, valid)
            self.dirty[slot] = (o, dict(valid))
        else:
            self._local_command(FILL_A if self.stationary == "A" else FILL_B, o, slot, valid)
        return slot

    def _local_command(self, kind: int, o: Operand, slot: int, valid: MappingABC[str, int]) -> None:
        plan, port = self.plan, self.stationary
        order = [i for i in reversed(plan.follow) if i in plan.intrinsic_tensor[port].dims]
        sizes = [valid[i] for i in order]
        local = _local_strides(plan, port, self.core.follow)
        wanted = self._limits(valid)
        wanted += _levels(f"fill_{port}_bound", [n - 1 for n in sizes], self.p.run_loops)
        steps = [plan.distance(port, o, i) for i in order]
        wanted += _levels(
            f"fill_line_{port}", [line_address(self.p, d) for d in deltas(sizes, steps)], self.p.run_loops
        )
        wanted += _levels(f"fill_local_{port}", deltas(sizes, [local[i] for i in order]), self.p.run_loops)
        wanted += [(f"at_{port}", line_address(self.p, self._address(o))), (f"local_{port}", slot)]
        assert o.buffer is not None
        self._launch(wanted, kind, [o.buffer], CommandShape(kind, math.prod(sizes)))

    def _flush(self) -> None:
        """Local sums go to the scratchpad."""
        for slot, (o, valid) in self.dirty.items():
            self._local_command(DRAIN, o, slot, valid)
        if self.dirty:
            self.dirty.clear()
            self.resident.clear()
            self.tile = None

    def _first(self, o: Operand, mark: bool = True) -> bool:
        """Whether the sums of a block begin: none of its words has been added to since it was zeroed."""
        assert o.buffer is not None
        touched = self.touched[o.buffer]
        where = [slice(a, a + 1) for a in o.at]
        for spot, length in zip(o.axes, o.shape, strict=True):
            if spot is not None:
                where[spot[0]] = slice(o.at[spot[0]], o.at[spot[0]] + (length - 1) * spot[1] + 1, spot[1])
        part = touched[tuple(where)]
        if part.any() and not part.all():
            raise UserError("a call adds to sums of which some have begun and some have not (rule G6)")
        fresh = not part.any()
        if mark:
            touched[tuple(where)] = True
        return fresh

    # ------------------------------------------------------------------ streams
    def _launch(
        self, wanted: list[tuple[str, int]], data: int, used: Sequence[str | None], shape: CommandShape
    ) -> None:
        keys = [self._key(b) for b in used if b is not None]
        if any(key in keys for _, key, _ in self.stores):
            self._store_waiting()
        writes = _changed(self.array_shadow, wanted)
        before = [self.q.dma_use[key] for key in keys if key in self.q.dma_use]
        if self.p.overlaps:
            counts = [self.q.number(i) for i in before]
            loads, stores = ([n for s, n in counts if s == of] for of in (False, True))
            self.q.array.append(_Launch(writes, data, max(loads, default=None), False, max(stores, default=None)))
        else:
            self.q.array.append(_Launch(writes, data, max(before, default=None)))
        self.q.shapes.append(shape)
        for key in keys:
            self.q.array_use[key] = len(self.q.array) - 1
            if key in self.q.dma_use:
                self.q.array_since[key] = self.q.dma_use[key]

    def _finish(self) -> CoreImage:
        plan, p = self.plan, self.p
        self._store_waiting()
        assert self.emissions is not None
        dma = [(n, 0) for n in _waits(self.q.dma, self.q.array)]
        array = _counted_waits(self.q.array) if p.overlaps else [(n, 0) for n in _waits(self.q.array, self.q.dma)]
        pairs = array_settings(p, self.windows, self.emissions)
        for port in ("A", "B"):
            pairs.append((self.registers[f"windows_{port}"][0], max(0, len(self.windows[port]) - 1)))
            pairs.append((self.registers[f"feed_{port}"][0], int(bool(self.windows[port]))))
        pairs.append((self.registers["windows_O"][0], len(self.emissions.lines) - 1))
        ones = sum(1 << k for k, port in enumerate("AB") if not self.windows[port])
        pairs.append((self.registers["ones"][0], ones))
        pairs += [(self.registers[f"{engine}_patience"][0], PATIENCE_CYCLES) for engine in ("read", "write")]
        for name in self.registers:
            if name not in (
                "windows_A",
                "windows_B",
                "windows_O",
                "feed_A",
                "feed_B",
                "ones",
                "read_patience",
                "write_patience",
            ):
                pairs.append((self.registers[name][0], 0))
        image = Image(
            p, tuple(pairs), plan.layouts, self.windows, self.emissions, plan.dram_bytes,
            tuple(self._words(self.q.array, array)), tuple(self._words(self.q.dma, dma)),
        )  # fmt: skip
        return CoreImage(
            image, _events(self.q.array, array), _events(self.q.dma, dma), tuple(self.q.shapes), tuple(self.q.transfers)
        )

    def _words(self, launches: list[_Launch], waits: list[tuple[int, int]]) -> list[int]:
        words = []
        for launch, (wait, stores) in zip(launches, waits, strict=True):
            for name, value in launch.writes:
                address, bits = self.registers[name]
                words.append(address << 32 | (value & ((1 << bits) - 1)))
            if wait:
                words.append(WAIT << 32 | wait)
            if stores:
                words.append(WAIT_STORES << 32 | stores)
            words.append(LAUNCH << 32 | launch.data | (SIGNALS if launch.signals else 0))
        return [*words, END << 32]


def _local_strides(plan: CorePlan, port: str, follow: MappingABC[str, int]) -> dict[str, int]:
    """Bytes that a step of each follow index moves in a block of a local memory."""
    size = PARTIAL_BYTES if port == "O" else 1
    found = {}
    for i in reversed(plan.follow):
        if i in plan.intrinsic_tensor[port].dims:
            found[i] = size
            size *= follow[i]
    return found


def _levels(name: str, values: Sequence[int], levels: int) -> list[tuple[str, int]]:
    return [(f"{name}_{i}", values[i] if i < len(values) else 0) for i in range(levels)]


def _changed(shadow: dict[str, int], wanted: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """The writes that change a register; registers begin at zero."""
    found = []
    for name, value in wanted:
        if shadow.get(name, 0) != value:
            shadow[name] = value
            found.append((name, value))
    return found


def _waits(mine: list[_Launch], others: list[_Launch]) -> list[int]:
    """For each launch, the completions of the other queue to wait for, 0 where it waits for none; marks who signals."""
    awaited = sorted({launch.after for launch in mine if launch.after is not None})
    for i in awaited:
        others[i].signals = True
    number = {i: k + 1 for k, i in enumerate(awaited)}
    found, seen = [], 0
    for launch in mine:
        count = number[launch.after] if launch.after is not None else 0
        found.append(count if count > seen else 0)
        seen = max(seen, count)
    return found


def _counted_waits(launches: list[_Launch]) -> list[tuple[int, int]]:
    """For each of the array's commands, the loads and the stores that must be over, 0 where an earlier command waited for them."""
    found, seen = [], [0, 0]
    for launch in launches:
        wanted = (launch.after or 0, launch.after_stores or 0)
        found.append((wanted[0] if wanted[0] > seen[0] else 0, wanted[1] if wanted[1] > seen[1] else 0))
        seen = [max(a, b) for a, b in zip(seen, wanted, strict=True)]
    return found


def _events(launches: list[_Launch], waits: list[tuple[int, int]]) -> tuple[tuple[str, int, int], ...]:
    """(what, value, whether it signals) of the words that are not plain register writes, those counted between.

    Writes from the first one on that goes to a DMA engine's own registers are ``held``.
    """
    found: list[tuple[str, int, int]] = []
    for launch, (wait, stores) in zip(launches, waits, strict=True):
        own = [name.startswith(("read_", "write_")) for name, _ in launch.writes]
        free = own.index(True) if True in own else len(own)
        found.append(("writes", free, 0))
        if free < len(own):
            found.append(("held", len(own) - free, launch.data & 3))
        if wait:
            found.append(("wait", wait, 0))
        if stores:
            found.append(("wait stores", stores, 0))
        found.append(("launch", launch.data, int(launch.signals)))
    return tuple(found)
