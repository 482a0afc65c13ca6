"""A program of intrinsic calls as the instruction streams of a core.

Loads, stores and calls become commands one to one, in their order. What a program leaves to the hardware is decided here by rule: when a
block of the stationary operand enters the local memories, when local sums leave them (Q3 of the core's model), and who waits for whom.
"""

import math
from collections.abc import Mapping as MappingABC
from collections.abc import Sequence

import numpy as np

from codesign.arch.architecture import Links
from codesign.core.errors import UserError
from codesign.core.kept import kept
from codesign.hardware.core_blocks import LocalTiles
from codesign.hardware.core_plan import CorePlan
from codesign.hardware.image import PATIENCE_CYCLES, Image, array_settings, deltas, line_address, strides_of
from codesign.hardware.lanes import Element, Emissions, Start, Window, operand_windows, result_emissions
from codesign.hardware.layout import Box, Layout
from codesign.hardware.parameters import PARTIAL_BYTES, PORTS
from codesign.hardware.streams import (
    CommandShape,
    CoreImage,
    Launch,
    Streams,
    changed,
    counted_waits,
    events_of,
    waits_of,
)
from codesign.hardware.words import FENCE_BIT, FIRST_BIT, SIGNAL_BIT, Command, DmaCommand, Opcode
from codesign.tensorization.program import Call, Operand, Transfer, Zero

Write = tuple[str, int]
"""A register and what it is set to."""


def core_image(plan: CorePlan, registers: MappingABC[str, tuple[int, int]]) -> "CoreImage":
    """The streams of a program on a machine with these registers."""
    return _Encoder(plan, registers).run()


class _Encoder:
    """Walks a program once; see the module."""

    def __init__(self, plan: CorePlan, registers: MappingABC[str, tuple[int, int]]) -> None:
        self.plan, self.p, self.core, self.registers = plan, plan.p, plan.core, registers
        self.q = Streams()
        self.array_shadow: dict[str, int] = {}
        self.dma_shadow: dict[str, int] = {}
        self.stationary = next(iter(self.p.local))
        self.resident: dict[tuple[int, ...], int] = {}
        self.dirty: dict[int, tuple[Operand, dict[str, int]]] = {}
        self.tile: tuple[int, ...] | None = None
        name = self.core.stationary_tensor(plan.choice)
        self.tiles = None if name is None else LocalTiles(self.core, plan.program.schedule, name)
        self.fills: dict[tuple[int, ...], tuple[list[Write], int]] = {}
        self.boxes: dict[tuple[str, str, tuple[int, ...]], tuple[Box, list[Write]]] = {}
        self.runs: dict[tuple[int, ...], tuple[list[Write], dict[str, list[Write]]]] = {}
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
        self.begins: dict[str, set[int]] = {port: set() for port in PORTS}  # addresses at which blocks begin
        for call in (i for i in self.plan.instructions if isinstance(i, Call)):
            for o in (*call.operands, call.output):
                if o.buffer is not None:
                    self.begins[self.plan.port_of[o.name]].add(self.plan.address(o))
        for instruction in self.plan.instructions:
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
        start = plan.halves[t.buffer][int(key.rsplit("/", 1)[1])]
        at = start + sum(a * s for a, s in zip(t.at, strides, strict=True))
        stores = t.op == "store"
        engine = "write" if stores else "read"
        if (engine, t.buffer, t.shape) not in self.boxes:
            self.boxes[engine, t.buffer, t.shape] = self._box_writes(t, layout, engine)
        box, around = self.boxes[engine, t.buffer, t.shape]
        wanted = [
            (f"{engine}_run_bytes_box", box.run_bytes),
            ("transfer_dram", layout.address(t.dram)),
            ("transfer_line", line_address(p, at)),
            *around,
        ]
        if is_output:
            wanted.append((f"{engine}_result_log2", layout.element_bytes.bit_length() - 1))
            if not stores:
                self.touched[t.buffer] = np.ones(buffer.shape, np.bool_)
        writes = changed(self.dma_shadow, wanted)
        kind = DmaCommand.STORE if stores else (DmaCommand.LOAD_RESULT if is_output else DmaCommand.LOAD)
        self.q.dma.append(Launch(writes, kind | self._fence(key, kind), after))
        self.q.dma_use[key] = len(self.q.dma) - 1
        self.q.transfers.append((box, at, layout.element_bytes, is_output, stores))

    def _box_writes(self, t: Transfer, layout: Layout, engine: str) -> tuple[Box, list[Write]]:
        """A transfer's runs with the loops around them, and what all transfers of its shape write of these."""
        plan, p = self.plan, self.p
        buffer, strides = plan.buffers[t.buffer], plan.buffer_strides[t.buffer]
        in_dram = strides_of(layout.shape, plan.order[t.buffer], layout.element_bytes)
        run, rest = layout.element_bytes, list(plan.order[t.buffer])
        while rest:
            axis = rest.pop()
            run *= t.shape[axis]
            if t.shape[axis] != layout.shape[axis] or t.shape[axis] != buffer.shape[axis]:
                break
        loops = tuple((t.shape[a], in_dram[a], strides[a]) for a in reversed(rest) if t.shape[a] > 1)
        if len(loops) > p.box_loops:
            raise UserError(
                f"a transfer of {layout.tensor!r} has {len(loops)} axes around its runs, the DMA engine walks {p.box_loops} (rule G3)"
            )
        bounds = [b for b, _, _ in loops]
        in_dram_by, on_chip_by = (deltas(bounds, [loop[k] for loop in loops]) for k in (1, 2))
        writes = _levels(f"{engine}_bound_box", [b - 1 for b in bounds], p.box_loops)
        writes += _levels(f"{engine}_dram_box", [d & 0xFFFFFFFF for d in in_dram_by], p.box_loops)
        writes += _levels(f"{engine}_line_box", [line_address(p, d) for d in on_chip_by], p.box_loops)
        return Box(run, loops), writes

    def _fence(self, key: str, kind: int) -> int:
        """FENCE where the other engine must be at rest first: sums come back after stores; a buffer is stored that nothing has used since its load."""
        if not self.p.overlaps or kind == DmaCommand.LOAD:
            return 0
        if kind == DmaCommand.LOAD_RESULT:
            return 1 << FENCE_BIT
        last = self.q.dma_use.get(key)
        return (last is not None and self.q.array_since.get(key) != last) << FENCE_BIT

    # ------------------------------------------------------------------ calls
    def _call(self, call: Call) -> None:
        plan = self.plan
        operands = {plan.port_of[o.name]: o for o in (*call.operands, call.output)}
        valid = self._valid(*(o.shape for o in operands.values()))
        self._settle(operands)
        self._enter_tile(call, operands)
        slot = self._slot(operands, valid)
        first = self._first(operands["O"])
        used = [o.buffer for o in operands.values() if o.buffer is not None]
        size = tuple(valid.values())
        if size not in self.runs:
            self.runs[size] = self._run_writes(operands, valid)
        shared, by_port = self.runs[size]
        wanted = [*shared]
        for port, o in operands.items():
            wanted += by_port[port]
            if port == self.stationary:
                wanted.append((f"local_{port}", slot))
            elif o.buffer is not None:
                wanted.append((f"at_{port}", line_address(self.p, self._address(o))))
        steps = math.prod(valid[i] for i in plan.follow)
        self._launch(wanted, Command.RUN | first << FIRST_BIT, used, CommandShape(Command.RUN, steps))

    def _run_writes(
        self, operands: MappingABC[str, Operand], valid: dict[str, int]
    ) -> tuple[list[Write], dict[str, list[Write]]]:
        """What all runs of one size write, beside where their blocks lie: for the whole array, and by port."""
        plan, levels = self.plan, self.p.run_loops
        order = list(reversed(plan.follow))  # level 0 is the innermost
        sizes = [valid[i] for i in order]
        moves_result = plan.intrinsic_tensor["O"].dims
        shared = [*self._limits(valid), *_levels("run_bound", [n - 1 for n in sizes], levels)]
        shared.append(("run_sum_loops", sum(1 << k for k, i in enumerate(order) if i not in moves_result)))
        by_port: dict[str, list[Write]] = {port: [] for port in operands}
        for port, o in operands.items():
            if port == self.stationary:
                local = _local_strides(plan, port, self.core.follow)
                by_port[port] = _levels(f"run_local_{port}", deltas(sizes, [local.get(i, 0) for i in order]), levels)
            elif o.buffer is not None:
                moved = deltas(sizes, [plan.distance(port, o, i) for i in order])
                by_port[port] = _levels(f"run_line_{port}", [line_address(self.p, d) for d in moved], levels)
        return shared, by_port

    @kept
    def _valid(self, *shapes: tuple[int, ...]) -> dict[str, int]:
        """Valid iterations of each index, read off the shapes of a call's operands and result."""
        found = {}
        for port, shape in zip(PORTS, shapes, strict=True):
            for axis, length in zip(self.plan.intrinsic_tensor[port].axes, shape, strict=True):
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
            self.windows[port] = operand_windows(offset, self.p.line_bytes, self._begins(port, o), shared)
        rows, cols = plan.spread("O", operands["O"])
        self.emissions = result_emissions(rows, cols, self.p.line_bytes, self._begins("O", operands["O"], rows), shared)

    def _begins(self, port: str, o: Operand, rows: Sequence[int] = ()) -> Start:
        """Where the lines of the array begin."""
        steps = [self.plan.distance(port, o, i) for i in self.plan.follow]
        return Start.of(self.p, (*self.begins[port], *steps, *rows))

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
    def _enter_tile(self, call: Call, operands: MappingABC[str, Operand]) -> None:
        """A block outside the present local tile begins another: the old one's sums leave."""
        o = operands[self.stationary]
        if o.buffer is None or self.tiles is None:
            return
        loaded = self.q.dma_use.get(self._key(o.buffer), -1) if self.stationary != "O" else -1
        tile = (loaded, *self.tiles.of(call))
        if tile != self.tile:
            self._flush()
            self.resident.clear()
            self.tile = tile

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
                self._local_command(Command.PRELOAD, o, slot, valid)
            self.dirty[slot] = (o, dict(valid))
        else:
            self._local_command(Command.FILL_A if self.stationary == "A" else Command.FILL_B, o, slot, valid)
        return slot

    def _local_command(self, kind: int, o: Operand, slot: int, valid: MappingABC[str, int]) -> None:
        port, size = self.stationary, tuple(valid.values())
        if size not in self.fills:
            self.fills[size] = self._fill_writes(o, valid)
        shared, words = self.fills[size]
        wanted = [*shared, (f"at_{port}", line_address(self.p, self._address(o))), (f"local_{port}", slot)]
        assert o.buffer is not None
        self._launch(wanted, kind, [o.buffer], CommandShape(kind, words))

    def _fill_writes(self, o: Operand, valid: MappingABC[str, int]) -> tuple[list[Write], int]:
        """What all fills or drains of one size write, beside where their block lies, and their words."""
        plan, port, levels = self.plan, self.stationary, self.p.run_loops
        order = [i for i in reversed(plan.follow) if i in plan.intrinsic_tensor[port].dims]
        sizes = [valid[i] for i in order]
        local = _local_strides(plan, port, self.core.follow)
        moved = deltas(sizes, [plan.distance(port, o, i) for i in order])
        writes = self._limits(valid) + _levels(f"fill_{port}_bound", [n - 1 for n in sizes], levels)
        writes += _levels(f"fill_line_{port}", [line_address(self.p, d) for d in moved], levels)
        writes += _levels(f"fill_local_{port}", deltas(sizes, [local[i] for i in order]), levels)
        return writes, math.prod(sizes)

    def _flush(self) -> None:
        """Local sums go to the scratchpad."""
        for slot, (o, valid) in self.dirty.items():
            self._local_command(Command.DRAIN, o, slot, valid)
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
        writes = changed(self.array_shadow, wanted)
        before = [self.q.dma_use[key] for key in keys if key in self.q.dma_use]
        if self.p.overlaps:
            counts = [self.q.number(i) for i in before]
            loads, stores = ([n for s, n in counts if s == of] for of in (False, True))
            self.q.array.append(Launch(writes, data, max(loads, default=None), False, max(stores, default=None)))
        else:
            self.q.array.append(Launch(writes, data, max(before, default=None)))
        self.q.shapes.append(shape)
        for key in keys:
            self.q.array_use[key] = len(self.q.array) - 1
            if key in self.q.dma_use:
                self.q.array_since[key] = self.q.dma_use[key]

    def _finish(self) -> CoreImage:
        plan, p = self.plan, self.p
        self._store_waiting()
        assert self.emissions is not None
        dma = [(n, 0) for n in waits_of(self.q.dma, self.q.array)]
        array = counted_waits(self.q.array) if p.overlaps else [(n, 0) for n in waits_of(self.q.array, self.q.dma)]
        values: dict[str, int] = {}  # of registers, the others begin at zero
        for port in ("A", "B"):
            values[f"windows_{port}"] = max(0, len(self.windows[port]) - 1)
            values[f"feed_{port}"] = int(bool(self.windows[port]))
        values["windows_O"] = len(self.emissions.lines) - 1
        values["ones"] = sum(1 << k for k, port in enumerate("AB") if not self.windows[port])
        values |= {f"{engine}_patience": PATIENCE_CYCLES for engine in ("read", "write")}
        values |= {name: 0 for name in self.registers if name not in values}
        pairs = array_settings(p, self.windows, self.emissions)
        pairs += [(self.registers[name][0], value) for name, value in values.items()]
        image = Image(
            p, tuple(pairs), plan.layouts, self.windows, self.emissions, plan.dram_bytes,
            tuple(self._words(self.q.array, array)), tuple(self._words(self.q.dma, dma)),
        )  # fmt: skip
        return CoreImage(
            image,
            events_of(self.q.array, array),
            events_of(self.q.dma, dma),
            tuple(self.q.shapes),
            tuple(self.q.transfers),
        )

    def _words(self, launches: list[Launch], waits: list[tuple[int, int]]) -> list[int]:
        words = []
        for launch, (wait, stores) in zip(launches, waits, strict=True):
            for name, value in launch.writes:
                address, bits = self.registers[name]
                words.append(address << 32 | (value & ((1 << bits) - 1)))
            if wait:
                words.append(Opcode.WAIT << 32 | wait)
            if stores:
                words.append(Opcode.WAIT_STORES << 32 | stores)
            words.append(Opcode.LAUNCH << 32 | launch.data | launch.signals << SIGNAL_BIT)
        return [*words, Opcode.END << 32]


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
