"""Runs a Gemmini-flavoured program on row-addressed memories and NumPy tensors."""

from collections.abc import Mapping as MappingABC
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from codesign.tensorization.gemmini import Compute, GemminiProgram, HostPack, Mvin, Mvout, Preload
from codesign.tensorization.simulator import SimulationError

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class GemminiResult:
    """What running a program gave.

    Args:
        output: The output tensor (8 bits wide).
        dram_bytes: Bytes moved by mvin and mvout.
        packed_bytes: Bytes the host copied to and from the staging area.
        computes: Compute instructions.
    """

    output: Array
    dram_bytes: int
    packed_bytes: int
    computes: int


def simulate_gemmini(
    program: GemminiProgram, inputs: MappingABC[str, Array], output: tuple[str, Array]
) -> GemminiResult:
    """Run a program.

    Args:
        program: The instruction list.
        inputs: Input tensors; values wrap to 8 bits.
        output: The output's name and an array of its shape and width to be written (it is copied).

    Raises:
        SimulationError: A row is read before it is written, or memory is exceeded.
    """
    machine = _Array(program, inputs, output)
    for number, instruction in enumerate(program.instructions):
        try:
            machine.step(instruction)
        except (SimulationError, IndexError) as fault:
            raise SimulationError(f"instruction {number} ({instruction}): {fault}") from None
    return GemminiResult(machine.dram[output[0]], machine.moved, machine.packed, machine.computes)


class _Array:
    def __init__(self, program: GemminiProgram, inputs: MappingABC[str, Array], output: tuple[str, Array]) -> None:
        dim, memory = program.dim, program.memory
        self.dim = dim
        self.spad: Array = np.full((memory.scratchpad_bytes // dim, dim), 0x55, np.int8)
        self.sums: Array = np.full((memory.accumulator_bytes // (4 * dim), dim), 0x55, np.int32)
        self.spad_valid = np.zeros(self.spad.shape[0], np.bool_)
        self.sums_valid = np.zeros(self.sums.shape[0], np.bool_)
        self.dram = {name: np.ascontiguousarray(array.astype(np.int8)) for name, array in inputs.items()}
        self.dram[output[0]] = output[1].copy()
        self.stage = np.zeros((0, 0), np.int64)
        self.stationary = np.zeros((dim, dim), np.int64)
        self.target: Preload | None = None
        self.moved = self.packed = self.computes = 0

    def step(self, instruction: Mvin | HostPack | Preload | Compute | Mvout) -> None:
        if isinstance(instruction, HostPack):
            self._pack(instruction)
        elif isinstance(instruction, Mvin):
            self._mvin(instruction)
        elif isinstance(instruction, Preload):
            self._preload(instruction)
        elif isinstance(instruction, Compute):
            self._compute(instruction)
        else:
            self._mvout(instruction)

    def _places(self, tensor: str, offset: int, row_step: int, col_step: int, rows: int, cols: int) -> Array:
        where = offset + np.arange(rows)[:, None] * row_step + np.arange(cols)[None, :] * col_step
        if where.min() < 0 or where.max() >= self.dram[tensor].size:
            raise SimulationError(f"transfer outside tensor {tensor!r}")
        return where

    def _pack(self, it: HostPack) -> None:
        flat = self.dram[it.tensor].reshape(-1)
        where = self._places(it.tensor, it.offset, it.row_step, it.col_step, it.rows, it.cols)
        if it.unpack:
            flat[where] = self.stage[: it.rows, : it.cols]
        else:
            self.stage = flat[where].astype(np.int64)
        self.packed += where.size * flat.itemsize

    def _mvin(self, it: Mvin) -> None:
        if it.rows > self.dim or it.cols > self.dim:
            raise SimulationError("moves more than one block")
        if it.staged:
            data: Array = self.stage[: it.rows, : it.cols]
            width = 1
        else:
            flat = self.dram[it.tensor].reshape(-1)
            data = flat[self._places(it.tensor, it.offset, it.stride, 1, it.rows, it.cols)]
            width = flat.itemsize
        rows = slice(it.row, it.row + it.rows)
        memory = self.sums if it.accumulator else self.spad
        valid = self.sums_valid if it.accumulator else self.spad_valid
        if rows.stop > memory.shape[0]:
            raise SimulationError(f"row {rows.stop - 1} is outside the memory")
        memory[rows] = 0
        memory[rows, : it.cols] = data
        valid[rows] = True
        self.moved += data.size * width

    def _block(self, first: int, rows: int, cols: int, step: int, transposed: bool) -> Array:
        high, wide = (cols, rows) if transposed else (rows, cols)
        where = first + np.arange(high) * step
        if not np.all(self.spad_valid[where]):
            raise SimulationError("reads scratchpad rows that were never written")
        block = self.spad[where, :wide].astype(np.int64)
        return block.T if transposed else block

    def _preload(self, it: Preload) -> None:
        if it.weights is not None:
            self.stationary = self._block(it.weights, it.depth, it.cols, 1, it.transposed)
        self.target = it

    def _compute(self, it: Compute) -> None:
        target = self.target
        if target is None or it.preloaded != (target.weights is not None):
            raise SimulationError("compute does not fit the preload before it")
        product = self._block(it.block, it.rows, it.depth, it.row_step, it.transposed) @ self.stationary
        rows = slice(target.output, target.output + it.rows)
        if target.accumulate and not np.all(self.sums_valid[rows]):
            raise SimulationError("adds to accumulator rows that were never written")
        old = self.sums[rows, : target.cols] if target.accumulate else 0
        self.sums[rows, : target.cols] = old + product
        self.sums_valid[rows] = True
        self.computes += 1
        self.target = None

    def _mvout(self, it: Mvout) -> None:
        rows = slice(it.row, it.row + it.rows)
        if not np.all(self.sums_valid[rows]):
            raise SimulationError("stores accumulator rows that were never written")
        data = self.sums[rows, : it.cols]
        width = self.dram[it.tensor].itemsize
        if it.staged:
            self.stage = data.astype(np.int64)
        else:
            flat = self.dram[it.tensor].reshape(-1)
            flat[self._places(it.tensor, it.offset, it.stride, 1, it.rows, it.cols)] = data
        self.moved += data.size * width
