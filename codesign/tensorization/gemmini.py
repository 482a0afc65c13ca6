"""Gemmini-flavoured programs: mvin / preload / compute / mvout on rows of a square array.

Gemmini (Genc et al., DAC 2021) addresses its scratchpad and its wider accumulator by rows of `dim` elements. `mvin` and
`mvout` move up to `dim` rows, contiguous in DRAM, with one stride between rows; `preload` puts the stationary block into
the array and names the accumulator rows; `compute_preloaded` streams the other block through it, `compute_accumulated`
does so with the block that is already there.

Dimensions that lie in DRAM the other way round are loaded transposed; a block that is contiguous along neither of its
axes cannot be moved by `mvin` and is packed by the host first (`host_pack`, `host_unpack`).
"""

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from codesign.core.errors import UserError
from codesign.cost.cost import Infeasible
from codesign.tensorization.choice import TensorizeChoice
from codesign.tensorization.intrinsics import intrinsic
from codesign.tensorization.matching import sound_matches
from codesign.tensorization.program import Call, Operand, Program, Transfer, Zero
from codesign.workloads.computation import Tensor


@dataclass(frozen=True)
class GemminiMemory:
    """Sizes of a Gemmini instance.

    Args:
        scratchpad_bytes: For the operands.
        accumulator_bytes: For the partial sums.
    """

    scratchpad_bytes: int = 256 * 1024
    accumulator_bytes: int = 64 * 1024


@dataclass(frozen=True)
class Mvin:
    """Rows of a tensor (or of the staging area) into scratchpad or accumulator rows; elements beyond `cols` become zero."""

    tensor: str
    offset: int
    stride: int
    row: int
    rows: int
    cols: int
    accumulator: bool = False
    staged: bool = False

    def __str__(self) -> str:
        source = "stage" if self.staged else f"{self.tensor} + {self.offset}"
        target = "acc" if self.accumulator else "sp"
        return f"mvin                {source}, {target}[{self.row}], cols={self.cols}, rows={self.rows}, stride={self.stride}"


@dataclass(frozen=True)
class HostPack:
    """The host copies a block, element by element, into the staging area (row-major), or out of it (`unpack`)."""

    tensor: str
    offset: int
    row_step: int
    col_step: int
    rows: int
    cols: int
    unpack: bool = False

    def __str__(self) -> str:
        name = "host_unpack" if self.unpack else "host_pack"
        return (
            f"{name:<19} {self.tensor} + {self.offset}, cols={self.cols} step {self.col_step}, "
            f"rows={self.rows} step {self.row_step}"
        )


@dataclass(frozen=True)
class Preload:
    """Set the stationary block (None: keep the one in the array) and the accumulator rows of the next compute."""

    weights: int | None
    transposed: bool
    depth: int
    cols: int
    output: int
    accumulate: bool

    def __str__(self) -> str:
        block = "GARBAGE" if self.weights is None else f"sp[{self.weights}]{'^T' * self.transposed}"
        mode = "+=" if self.accumulate else "="
        return f"preload             {block}, acc[{self.output}] {mode}, cols={self.cols}, rows={self.depth}"


@dataclass(frozen=True)
class Compute:
    """Stream a block through the array; `row_step` scratchpad rows apart."""

    block: int
    transposed: bool
    rows: int
    depth: int
    row_step: int
    preloaded: bool

    def __str__(self) -> str:
        name = "compute_preloaded" if self.preloaded else "compute_accumulated"
        step = f", row_step={self.row_step}" if self.row_step != 1 else ""
        return f"{name:<19} sp[{self.block}]{'^T' * self.transposed}, cols={self.depth}, rows={self.rows}{step}"


@dataclass(frozen=True)
class Mvout:
    """Accumulator rows into a tensor, or into the staging area."""

    tensor: str
    offset: int
    stride: int
    row: int
    rows: int
    cols: int
    staged: bool = False

    def __str__(self) -> str:
        target = "stage" if self.staged else f"{self.tensor} + {self.offset}"
        return (
            f"mvout               {target}, acc[{self.row}], cols={self.cols}, rows={self.rows}, stride={self.stride}"
        )


GemminiInstruction = Mvin | HostPack | Preload | Compute | Mvout


@dataclass(frozen=True)
class GemminiProgram:
    """The instruction list for an array of `dim x dim`."""

    dim: int
    memory: GemminiMemory
    instructions: tuple[GemminiInstruction, ...]

    def __str__(self) -> str:
        return "\n".join([f"# {self.dim}x{self.dim} array", *(str(i) for i in self.instructions), "fence"])


def gemmini_program(program: Program, memory: GemminiMemory | None = None) -> GemminiProgram | Infeasible:
    """A generated program in Gemmini's instructions.

    Windows are not shifted in place (Gemmini has no such move): every part is loaded whole.

    Raises:
        UserError: The intrinsic is no matrix multiplication, an operand is a scalar, or operands are not 8 bits wide
            with 32-bit partial sums.
    """
    sizes = memory or GemminiMemory()
    translator = _Translator(program, sizes)
    found = tuple(translator.run())
    if translator.shortfall is not None:
        return translator.shortfall
    return GemminiProgram(translator.dim, sizes, found)


Spot = tuple[int, int] | None
"""Tensor axis and positions per step; None where there is but one."""
_Emit = Generator["GemminiInstruction", None, int]


@dataclass(frozen=True)
class _Role:
    """An operand as a block of rows and columns, as it lies in the scratchpad.

    Args:
        operand: Position among the intrinsic's tensors.
        rows: Where its rows lie in the tensor.
        cols: Where its columns lie.
        transposed: Whether the array must transpose it.
        direct: Whether `mvin` or `mvout` can move it: its columns are contiguous in DRAM.
    """

    operand: int
    rows: Spot
    cols: Spot
    transposed: bool = False
    direct: bool = True


@dataclass(frozen=True)
class _Layout:
    streamed: _Role
    stationary: _Role
    result: _Role


def _layout(choice: TensorizeChoice) -> _Layout:
    """Which operand streams, which stays, and how each lies in the rows of the scratchpad.

    The columns of the result must be contiguous in the output; if only its rows are, the transposed product is computed,
    ``L^T[j,i] = sum_k N^T[j,k] M^T[k,i]``.
    """
    m, n, name = _matrix_roles(choice)
    rows_m, cols_m = _spots(choice, m, name["i"], name["k"])
    rows_n, cols_n = _spots(choice, n, name["k"], name["j"])
    rows_l, cols_l = _spots(choice, 2, name["i"], name["j"])
    if not _contiguous(choice, 2, cols_l) and _contiguous(choice, 2, rows_l):
        m, rows_m, cols_m, n, rows_n, cols_n = n, cols_n, rows_n, m, cols_m, rows_m
        rows_l, cols_l = cols_l, rows_l
    return _Layout(
        _orient(choice, m, rows_m, cols_m, streamed=True),
        _orient(choice, n, rows_n, cols_n, streamed=False),
        _Role(2, rows_l, cols_l, direct=_contiguous(choice, 2, cols_l)),
    )


def _matrix_roles(choice: TensorizeChoice) -> tuple[int, int, dict[str, str]]:
    """Positions of M and N among the intrinsic's inputs, and its names of i, j, k in L[i,j] += M[i,k] * N[k,j]."""
    theirs = choice.intrinsic.computation
    found = sound_matches(theirs, intrinsic("gemm")) if len(theirs.dims) == 3 else ()
    if not found:
        raise UserError(
            f"Gemmini multiplies matrices; intrinsic {choice.intrinsic.name!r} ({theirs}) is something else",
            hint="choose gemm",
        )
    output = choice.computation.output
    if any(t.bits != 8 for t in choice.computation.inputs) or output.partial_bits != 32:
        raise UserError("Gemmini works on 8-bit operands and 32-bit partial sums", where=str(choice.computation))
    if choice.match.scalars or any(o.tensor is None for o in choice.match.operands):
        raise UserError(f"Gemmini scales no result by an operand (choice {choice.match})")
    names = [t.name for t in theirs.inputs]
    first, second, _ = found[0].operands
    return names.index(str(first.tensor)), names.index(str(second.tensor)), dict(found[0].index_map)


def _spots(choice: TensorizeChoice, operand: int, row: str, col: str) -> tuple[Spot, Spot]:
    theirs = choice.intrinsic.computation.tensors[operand]
    at = {axis.terms[0][0]: number for number, axis in enumerate(theirs.axes)}
    axes = choice.match.operands[operand].axes
    return axes[at[row]], axes[at[col]]


def _strides(choice: TensorizeChoice, tensor: Tensor) -> tuple[int, ...]:
    """Elements between neighbours on each axis of a row-major tensor."""
    extents = tensor.shape(choice.computation.sizes)
    return tuple(math.prod(extents[at + 1 :]) for at in range(len(extents)))


def _tensor(choice: TensorizeChoice, operand: int) -> Tensor:
    return choice.computation.tensor(str(choice.match.operands[operand].tensor))


def _step(choice: TensorizeChoice, operand: int, spot: Spot) -> int:
    """Elements in DRAM between successive rows or columns; 1 where there is but one."""
    return 1 if spot is None else _strides(choice, _tensor(choice, operand))[spot[0]] * spot[1]


def _contiguous(choice: TensorizeChoice, operand: int, spot: Spot) -> bool:
    return _step(choice, operand, spot) == 1


def _orient(choice: TensorizeChoice, operand: int, rows: Spot, cols: Spot, *, streamed: bool) -> _Role:
    """Normal, transposed, or packed by the host. Only the streamed block may step over rows (`row_step`)."""
    if _contiguous(choice, operand, cols) and (streamed or rows is None or rows[1] == 1):
        return _Role(operand, rows, cols)
    if _contiguous(choice, operand, rows) and (cols is None or cols[1] == 1):
        return _Role(operand, cols, rows, transposed=True)
    return _Role(operand, rows, cols, direct=False)


class _Translator:
    """Walks the generic program and keeps which blocks lie where."""

    def __init__(self, program: Program, memory: GemminiMemory) -> None:
        self.program = program
        self.choice = program.schedule.choice
        self.output = self.choice.computation.output
        self.layout = _layout(self.choice)
        self.dim = max(self.choice.intrinsic.computation.bounds)
        self.sp_rows = memory.scratchpad_bytes // self.dim
        self.acc_rows = memory.accumulator_bytes // (4 * self.dim)
        self.shortfall: Infeasible | None = None
        names = [t.name for t in self.choice.computation.tensors]
        self.boxes: dict[str, Transfer | Zero] = {}
        self.origin: tuple[int, ...] = ()
        self.blocks: dict[str, dict[tuple[int, ...], int]] = {name: {} for name in names}
        self.used = dict.fromkeys(names, 0)
        self.fresh: set[int] = set()
        self.extent: dict[tuple[int, ...], tuple[int, int]] = {}
        self.in_array: tuple[int, int, int] | None = None

    def run(self) -> Iterator[GemminiInstruction]:
        tensor_of = {b.name: b.tensor for b in self.program.buffers}
        for instruction in self.program.instructions(whole_tiles=True):
            if self.shortfall is not None:
                return
            if isinstance(instruction, Call):
                yield from self._call(instruction)
            elif isinstance(instruction, Transfer) and instruction.op == "store":
                for at, row in self.blocks[self.output.name].items():
                    yield from self._move_result(at, row, load=False)
            elif isinstance(instruction, (Transfer, Zero)):
                self._enter(tensor_of[instruction.buffer], instruction)

    def _enter(self, tensor: str, part: Transfer | Zero) -> None:
        """A new part of a tensor: its blocks come when they are needed."""
        self.boxes[tensor] = part
        self.blocks[tensor].clear()
        self.used[tensor] = 0
        self.in_array = None
        if tensor == self.output.name:
            self.fresh.clear()
            self.extent.clear()
            self.origin = part.dram

    def _call(self, call: Call) -> Iterator[GemminiInstruction]:
        layout = self.layout
        streamed = yield from self._input(layout.streamed, call.operands[layout.streamed.operand])
        stationary = yield from self._input(layout.stationary, call.operands[layout.stationary.operand])
        target = yield from self._result(call.output)
        rows, cols = self._lengths(layout.result, call.output)
        lengths = self._lengths(layout.streamed, call.operands[layout.streamed.operand])
        depth = lengths[0] if layout.streamed.transposed else lengths[1]
        block = (stationary, depth, cols)
        keep = self.in_array == block
        yield Preload(
            None if keep else stationary, layout.stationary.transposed, depth, cols, target, target not in self.fresh
        )
        stepping = layout.streamed.direct and not layout.streamed.transposed and layout.streamed.rows is not None
        row_step = layout.streamed.rows[1] if stepping and layout.streamed.rows is not None else 1
        yield Compute(streamed, layout.streamed.transposed, rows, depth, row_step, not keep)
        self.in_array = block
        self.fresh.discard(target)

    def _lengths(self, role: _Role, operand: Operand) -> tuple[int, int]:
        """Valid rows and columns of a block as it lies in memory."""
        length = {spot: n for spot, n in zip(operand.axes, operand.shape, strict=True) if spot is not None}
        return (1 if role.rows is None else length[role.rows]), (1 if role.cols is None else length[role.cols])

    def _input(self, role: _Role, operand: Operand) -> _Emit:
        """Bring an operand's block into the scratchpad unless it is there; returns its first row."""
        tensor = _tensor(self.choice, role.operand)
        box = self.boxes[tensor.name]
        origin, extents = box.dram, box.shape
        at = tuple(p + s for p, s in zip(operand.at, origin, strict=True))
        rows, cols = self._lengths(role, operand)
        skip, first = 0, at
        if role.direct and role.rows is not None:  # all rows of the part, so that a window's shift is a row offset
            axis = role.rows[0]
            first = tuple(origin[axis] if i == axis else p for i, p in enumerate(at))
            skip, rows = at[axis] - origin[axis], extents[axis]
        known, key = self.blocks[tensor.name], (*first, rows, cols)
        if key not in known:
            known[key] = self._reserve(tensor, rows, top=role is self.layout.stationary)
            yield from self._bring(role, tensor, first, rows, cols, known[key])
        return known[key] + skip

    def _bring(
        self, role: _Role, tensor: Tensor, first: tuple[int, ...], rows: int, cols: int, row: int
    ) -> Iterator[GemminiInstruction]:
        strides = _strides(self.choice, tensor)
        offset = sum(p * s for p, s in zip(first, strides, strict=True))
        if not role.direct:
            steps = [_step(self.choice, role.operand, spot) for spot in (role.rows, role.cols)]
            yield HostPack(tensor.name, offset, steps[0], steps[1], rows, cols)
            yield Mvin(tensor.name, 0, cols, row, rows, cols, staged=True)
            return
        stride = cols if role.rows is None else strides[role.rows[0]]
        for start in range(0, rows, self.dim):
            count = min(self.dim, rows - start)
            yield Mvin(tensor.name, offset + start * stride, stride, row + start, count, cols)

    def _reserve(self, tensor: Tensor, rows: int, *, top: bool) -> int:
        """Scratchpad rows: the streamed operand grows from the bottom, the stationary one from the top."""
        self.used[tensor.name] += rows
        total = sum(
            self.used[_tensor(self.choice, r.operand).name] for r in (self.layout.streamed, self.layout.stationary)
        )
        if total > self.sp_rows:
            self.shortfall = Infeasible("Gemmini scratchpad", total, self.sp_rows, "rows", f"{self.dim} bytes a row")
        return self.sp_rows - self.used[tensor.name] if top else self.used[tensor.name] - rows

    def _result(self, operand: Operand) -> _Emit:
        """The accumulator rows of a block of the output; partial sums from before come first."""
        known = self.blocks[self.output.name]
        if operand.at not in known:
            row = self.used[self.output.name]
            self.used[self.output.name] += self.dim
            if self.used[self.output.name] > self.acc_rows:
                needed = self.used[self.output.name]
                self.shortfall = Infeasible(
                    "Gemmini accumulator", needed, self.acc_rows, "rows", f"{self.dim} sums a row"
                )
            known[operand.at] = row
            self.extent[operand.at] = self._lengths(self.layout.result, operand)
            if isinstance(self.boxes[self.output.name], Zero):
                self.fresh.add(row)
            else:
                yield from self._move_result(operand.at, row, load=True)
        return known[operand.at]

    def _move_result(self, at: tuple[int, ...], row: int, *, load: bool) -> Iterator[GemminiInstruction]:
        role, strides = self.layout.result, _strides(self.choice, self.output)
        offset = sum((p + s) * n for p, s, n in zip(at, self.origin, strides, strict=True))
        rows, cols = self.extent[at]
        steps = [_step(self.choice, 2, spot) for spot in (role.rows, role.cols)]
        staged = not role.direct
        start, stride = (0, cols) if staged else (offset, cols if role.rows is None else steps[0])
        if load and staged:
            yield HostPack(self.output.name, offset, steps[0], steps[1], rows, cols)
        if load:
            yield Mvin(self.output.name, start, stride, row, rows, cols, accumulator=True, staged=staged)
            return
        yield Mvout(self.output.name, start, stride, row, rows, cols, staged)
        if staged:
            yield HostPack(self.output.name, offset, steps[0], steps[1], rows, cols, unpack=True)
