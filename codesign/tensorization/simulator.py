"""Instruction-level functional simulator: runs a generated program's JSON on a byte array and on NumPy tensors.

It shares no counting code with the generator or the cost model: bytes are counted where arrays are copied. Every byte of
the scratchpad knows which buffer wrote it, so reading a byte that nobody wrote, or that another buffer has overwritten, is
a fault, and so is losing a result that was not stored.
"""

from collections.abc import Mapping as MappingABC
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from codesign.core.errors import CodesignError, UserError
from codesign.tensorization.execute import affine_einsum
from codesign.tensorization.program import Call, Instruction, Move, Operand, Transfer, Zero
from codesign.workloads.computation import Computation

Array = npt.NDArray[Any]
_NOBODY = -1


class MemoryRecord(TypedDict):
    """A memory of the scratchpad."""

    name: str
    address: int
    capacity_bytes: int
    banks: int


class BufferRecord(TypedDict):
    """A buffer at its place."""

    name: str
    tensor: str
    address: int
    shape: list[int]
    element_bytes: int


class SimulationError(CodesignError):
    """A program did what no correct program does."""


@dataclass(frozen=True)
class SimulationResult:
    """What running a program gave.

    Args:
        output: The computation's output as it stands in DRAM.
        dram_read_bytes: Bytes loaded, by tensor.
        dram_write_bytes: Bytes stored, by tensor.
        dram_bursts: Contiguous runs that these transfers consist of, in a row-major layout.
        calls: Intrinsic calls.
        moved_bytes: Bytes moved inside the scratchpad.
        serialised_calls: Calls that found two of their buffers in one bank.
    """

    output: Array
    dram_read_bytes: dict[str, int]
    dram_write_bytes: dict[str, int]
    dram_bursts: int
    calls: int
    moved_bytes: int
    serialised_calls: int

    @property
    def dram_bytes(self) -> int:
        """All bytes that crossed the DRAM port."""
        return sum(self.dram_read_bytes.values()) + sum(self.dram_write_bytes.values())


def simulate(program: MappingABC[str, Any], inputs: MappingABC[str, Array]) -> SimulationResult:
    """Run a program.

    Args:
        program: What `Program.to_json` gives (or the same read from a file).
        inputs: Integers for each input tensor; they wrap to the tensor's width.

    Raises:
        UserError: An array is missing or has another shape.
        SimulationError: The program reads what was never written, or was overwritten, runs outside its memory, loses
            results, or leaves part of the output unwritten.
    """
    machine = _Machine(program, inputs)
    for number, entry in enumerate(program["instructions"]):
        try:
            machine.step(read_instruction(entry))
        except SimulationError as fault:
            raise SimulationError(f"instruction {number} ({entry['op']}): {fault}") from None
    return machine.finish()


def _tupled(value: Any) -> Any:
    return tuple([_tupled(x) if isinstance(x, list) else x for x in value]) if isinstance(value, list) else value


def read_instruction(entry: MappingABC[str, Any]) -> Instruction:
    """An entry of the instruction list as its `to_json` gives it.

    Raises:
        SimulationError: There is no such instruction.
    """
    fields = {name: _tupled(value) for name, value in entry.items() if name != "op"}
    match entry["op"]:
        case "load" | "store":
            return Transfer(entry["op"], **fields)
        case "move":
            return Move(**fields)
        case "zero":
            return Zero(**fields)
        case "call":
            *operands, output = (
                Operand(**{k: _tupled(v) for k, v in o.items()}) for o in (*entry["operands"], entry["output"])
            )
            return Call(tuple(operands), output, tuple((s["buffer"], tuple(s["at"])) for s in entry["scale"]))
    raise SimulationError(f"unknown instruction {entry['op']!r}")


def wrapped(values: Array, element_bytes: int) -> Array:
    """Integers as a memory of that width holds them (two's complement)."""
    return values.astype(f"int{8 * element_bytes}")


class _Memory:
    """The scratchpad: bytes, who wrote them, and which of them hold results not yet stored."""

    def __init__(self, memories: list[MemoryRecord], buffers: list[BufferRecord]) -> None:
        capacity_bytes = sum(m["capacity_bytes"] for m in memories)
        self.bytes = np.full(capacity_bytes, 0xA5, np.uint8)
        self.owner = np.full(capacity_bytes, _NOBODY, np.int64)
        self.dirty = np.zeros(capacity_bytes, np.bool_)
        self.bank_starts = np.concatenate(
            [m["address"] + np.arange(m["banks"]) * (m["capacity_bytes"] // m["banks"]) for m in memories]
        )
        self.buffers = {b["name"]: b for b in buffers}
        self.number = {b["name"]: i for i, b in enumerate(buffers)}

    def addresses(self, name: str, positions: list[Array]) -> Array:
        """Byte addresses of elements: ``*shape x element_bytes``; one array of positions per buffer axis, broadcast."""
        buffer = self.buffers[name]
        flat = np.zeros((), np.int64)
        for axis, (at, extent) in enumerate(zip(positions, buffer["shape"], strict=True)):
            if np.any(at < 0) or np.any(at >= extent):
                raise SimulationError(f"position outside axis {axis} of buffer {name!r}")
            flat = flat * extent + at
        width = buffer["element_bytes"]
        first = buffer["address"] + flat * width
        where: Array = first[..., None] + np.arange(width)
        if where.size and (where.max() >= self.bytes.size or where.min() < 0):
            raise SimulationError(f"address {int(where.max())} of buffer {name!r} is outside the scratchpad")
        if np.any(self._bank(where[..., 0]) != self._bank(where[..., -1])):
            raise SimulationError(f"an element of buffer {name!r} straddles two banks")
        return where

    def read(self, name: str, where: Array) -> Array:
        owners = self.owner[where]
        if np.any(owners == _NOBODY):
            raise SimulationError(f"reads uninitialised bytes of buffer {name!r}")
        if np.any(owners != self.number[name]):
            raise SimulationError(f"reads bytes of buffer {name!r} that another buffer has overwritten")
        packed: Array = np.ascontiguousarray(self.bytes[where])
        values: Array = packed.view(f"<i{where.shape[-1]}")[..., 0].astype(np.int64)
        return values

    def write(self, name: str, where: Array, values: Array, *, result: bool) -> None:
        mine = self.owner[where] == self.number[name]
        if np.any(self.dirty[where] & ~mine):
            raise SimulationError(f"buffer {name!r} overwrites results that were not stored")
        packed = np.ascontiguousarray(values.astype(f"<i{where.shape[-1]}"))[..., None]
        self.bytes[where] = packed.view(np.uint8)
        self.owner[where] = self.number[name]
        self.dirty[where] = result

    def banks_of(self, where: Array) -> set[int]:
        return set(np.unique(self._bank(where)).tolist())

    def _bank(self, where: Array) -> Array:
        return np.searchsorted(self.bank_starts, where, side="right")


class _Machine:
    """DRAM, scratchpad and counters."""

    def __init__(self, program: MappingABC[str, Any], inputs: MappingABC[str, Array]) -> None:
        self.memory = _Memory(program["memories"], program["buffers"])
        self.shared_banks = bool(program["shared_banks"])
        self.intrinsic = Computation.parse(program["intrinsic"]["notation"], program["intrinsic"]["size"])
        self.tensor_of = {b["name"]: b["tensor"] for b in program["buffers"]}
        self.dram: dict[str, Array] = {}
        self.output_name = ""
        for spec in program["dram"]:
            name, shape = spec["tensor"], tuple(spec["shape"])
            if spec["output"]:
                self.output_name = name
                self.dram[name] = np.full(shape, 0x55, f"int{8 * spec['element_bytes']}")
                self.written = np.zeros(shape, np.bool_)
                continue
            if name not in inputs or inputs[name].shape != shape:
                got = inputs[name].shape if name in inputs else "none"
                raise UserError(f"array of {name!r} must have shape {shape}, got {got}", where="simulation")
            self.dram[name] = wrapped(inputs[name], spec["element_bytes"])
        self.read_bytes = dict.fromkeys(self.dram, 0)
        self.write_bytes = dict.fromkeys(self.dram, 0)
        self.bursts = self.calls = self.moved = self.serialised = 0

    def step(self, instruction: Instruction) -> None:
        if isinstance(instruction, Call):
            self._call(instruction)
            return
        name = instruction.buffer
        where = self.memory.addresses(name, _grid(instruction.at, instruction.shape))
        is_output = self.tensor_of[name] == self.output_name
        if isinstance(instruction, Zero):
            self.memory.write(name, where, np.zeros(where.shape[:-1], np.int64), result=is_output)
        elif isinstance(instruction, Move):
            source = self.memory.addresses(name, _grid(instruction.source, instruction.shape))
            self.memory.write(name, where, self.memory.read(name, source), result=is_output)
            self.moved += where.size
        elif instruction.op == "load":
            self._load(name, instruction, where)
        else:
            self._store(name, instruction, where)

    def _dram_box(self, name: str, instruction: Transfer) -> tuple[slice, ...]:
        array = self.dram[name]
        box = tuple(slice(a, a + n) for a, n in zip(instruction.dram, instruction.shape, strict=True))
        if any(s.start < 0 or s.stop > extent for s, extent in zip(box, array.shape, strict=True)):
            raise SimulationError(f"transfer outside tensor {name!r}")
        self.bursts += _runs(array.shape, instruction.shape)
        return box

    def _load(self, buffer: str, instruction: Transfer, where: Array) -> None:
        name = self.tensor_of[buffer]
        box = self._dram_box(name, instruction)
        if name == self.output_name and not np.all(self.written[box]):
            raise SimulationError(f"loads partial sums of {name!r} that were never stored")
        data = self.dram[name][box]
        self.read_bytes[name] += data.nbytes
        self.memory.write(buffer, where, data, result=name == self.output_name)

    def _store(self, buffer: str, instruction: Transfer, where: Array) -> None:
        name = self.tensor_of[buffer]
        if name != self.output_name:
            raise SimulationError(f"stores to {name!r}, which is an input")
        box = self._dram_box(name, instruction)
        values = self.memory.read(buffer, where).astype(self.dram[name].dtype)
        self.dram[name][box] = values
        self.written[box] = True
        self.memory.dirty[where] = False
        self.write_bytes[name] += values.nbytes

    def _call(self, instruction: Call) -> None:
        blocks, touched = {}, []
        for operand, tensor in zip(instruction.operands, self.intrinsic.inputs, strict=True):
            full = tensor.shape(self.intrinsic.sizes)
            block = np.zeros(full, np.int64)
            inside = tuple(slice(0, n) for n in operand.shape)
            if operand.buffer is None:
                block[inside] = 1
            else:
                where = self._operand_addresses(operand)
                touched.append((operand.buffer, where))
                block[inside] = self.memory.read(operand.buffer, where)
            blocks[operand.name] = block
        value = affine_einsum(self.intrinsic, blocks)
        for buffer, at in instruction.scale:
            where = self.memory.addresses(buffer, [np.asarray(a) for a in at])
            touched.append((buffer, where))
            value = value * self.memory.read(buffer, where)
        output, name = instruction.output, str(instruction.output.buffer)
        where = self._operand_addresses(output)
        touched.append((name, where))
        self._check_ports(touched)
        valid = value[tuple(slice(0, n) for n in output.shape)]
        self.memory.write(name, where, self.memory.read(name, where) + valid, result=True)
        self.calls += 1

    def _operand_addresses(self, operand: Operand) -> Array:
        """``*operand shape x element_bytes`` byte addresses."""
        assert operand.buffer is not None
        rank = len(operand.shape)
        positions = [np.asarray(at) for at in operand.at]
        for axis, (spot, length) in enumerate(zip(operand.axes, operand.shape, strict=True)):
            if spot is not None:
                steps = np.arange(length).reshape([-1 if i == axis else 1 for i in range(rank)])
                positions[spot[0]] = positions[spot[0]] + steps * spot[1]
        where = self.memory.addresses(operand.buffer, positions)
        return np.broadcast_to(where, (*operand.shape, where.shape[-1]))

    def _check_ports(self, touched: list[tuple[str, Array]]) -> None:
        """Different buffers of one call in one bank are serialised; a program with banks of their own must have none."""
        banks: dict[int, str] = {}
        conflict = False
        for name, where in touched:
            for bank in self.memory.banks_of(where):
                conflict = conflict or banks.setdefault(bank, name) != name
        if conflict and not self.shared_banks:
            raise SimulationError("two operands of a call lie in one bank")
        self.serialised += conflict

    def finish(self) -> SimulationResult:
        if np.any(self.memory.dirty):
            raise SimulationError("the program ends with results that were not stored")
        if not np.all(self.written):
            raise SimulationError(f"the program ends with part of {self.output_name!r} unwritten")
        return SimulationResult(
            output=self.dram[self.output_name],
            dram_read_bytes=self.read_bytes,
            dram_write_bytes=self.write_bytes,
            dram_bursts=self.bursts,
            calls=self.calls,
            moved_bytes=self.moved,
            serialised_calls=self.serialised,
        )


def _grid(at: Sequence[int], shape: Sequence[int]) -> list[Array]:
    """Positions of a box: one broadcastable array per axis."""
    rank = len(shape)
    return [
        (start + np.arange(length)).reshape([-1 if i == axis else 1 for i in range(rank)])
        for axis, (start, length) in enumerate(zip(at, shape, strict=True))
    ]


def _runs(whole: tuple[int, ...], box: tuple[int, ...]) -> int:
    """Contiguous runs of a box in a row-major array."""
    runs = 1
    for axis, length in enumerate(box):
        if whole[axis + 1 :] != box[axis + 1 :]:
            runs *= length
    return runs
