"""A program of intrinsic calls on a core: its machine, where buffers and tensors lie, what an operand's steps are."""

from dataclasses import replace

from codesign.core.checks import repeated
from codesign.core.errors import UserError
from codesign.hardware.image import place, strides_of
from codesign.hardware.layout import Layout, along_axis
from codesign.hardware.parameters import (
    LOCAL,
    PARTIAL_BYTES,
    PORTS,
    SCRATCHPAD,
    WORD_BYTES,
    Control,
    Parameters,
    machine_of_levels,
)
from codesign.tensorization.intrinsic_core import Core
from codesign.tensorization.program import Call, Operand, Program, Transfer


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
    if any(core.architecture.levels[depth].capacity_bytes is None for depth in (SCRATCHPAD, LOCAL)):
        raise UserError("both memories on chip need a capacity", where=where)
    port = next(p for p, t in _intrinsic_ports(core).items() if t == core.stationary)
    made = machine_of_levels(core.architecture, Control.QUEUE, port, core.dma.bus_bytes, core.dma.burst_bytes, name)
    return replace(made, run_loops=max(4, sum(n > 1 for n in core.follow.values())))


def _intrinsic_ports(core: Core) -> dict[str, str]:
    operation = core.intrinsic.computation
    first, second = operation.inputs
    return {"A": first.name, "B": second.name, "O": operation.output.name}


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
        self.instructions = tuple(program.instructions(whole_tiles=True))
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
        theirs, ours = self.choice.intrinsic.computation, self.core.intrinsic.computation
        if theirs is not ours and (theirs.sizes != ours.sizes or str(theirs) != str(ours)):
            raise UserError(
                f"the program calls {theirs}, the core performs {ours}: it is of another core",
                where=where,
            )

    def _orders(self) -> dict[str, tuple[int, ...]]:
        """By buffer, its axes from the outermost to the innermost: those that are spread over the array innermost, as in DRAM.

        Of results, axes spread over columns lie further in than those spread over rows: columns share lines, rows do not.
        A machine with one burst under way has the axes in the computation's order.
        """
        spread = {b.name: [0] * len(b.shape) for b in self.program.buffers}
        wide: set[tuple[str, int]] = set()
        call = next((i for i in self.instructions if isinstance(i, Call)), None)
        if call is not None and self.p.overlaps:
            unrolled = {index: n for index, n, _ in self.core.unrolled}
            columns = {index for index, _, axis in self.core.unrolled if axis == "x"}
            for o in (*call.operands, call.output):
                axes = self.intrinsic_tensor[self.port_of[o.name]].axes
                for axis, spot in zip(axes, o.axes, strict=True):
                    if o.buffer is not None and spot is not None:
                        moved = (abs(c) * (unrolled[i] - 1) for i, c in axis.terms if i in unrolled)
                        spread[o.buffer][spot[0]] += sum(moved) * spot[1]
                        if o.name == call.output.name and any(i in columns for i, _ in axis.terms):
                            wide.add((o.buffer, spot[0]))
        return {
            name: tuple(sorted(range(len(at)), key=lambda a: (at[a] > 0, (name, a) in wide, at[a], a)))
            for name, at in spread.items()
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
        loads = [i.buffer for i in self.instructions if isinstance(i, Transfer)]
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
            shape = tensor.shape(computation.sizes)
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

    def spread(self, port: str, operand: Operand) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Bytes that each row, and each column, adds."""
        found = []
        for axis, used in (("y", self.p.rows), ("x", self.p.cols)):
            mine = [(i, n) for i, n, along in self.core.unrolled if along == axis]
            far = along_axis([(n, self.distance(port, operand, i) * self._inside(i, axis)) for i, n in mine])
            found.append(tuple(far[k % len(far)] for k in range(used)))
        return found[0], found[1]

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
        return repeated([i for i, _, _ in self.core.unrolled])
