"""Software primitives: split, reorder, fuse, tensorize. A sequence of them turns the loops of a computation into a program.

HASCO (Xiao et al., ISCA 2021), Sec. VI-A and Fig. 5(c): ``[split ..., reorder, fuse, tensorize]``. Every dimension starts as one loop
named after it, in the order of the notation. The loops left outside the tensorized part run on the host.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from codesign.core.errors import UserError, unknown_name
from codesign.mapping.nest import FloatArray, IntArray
from codesign.tensorization.core_program import program_of_rows
from codesign.tensorization.encoding import SoftwareProblem
from codesign.tensorization.program_cost import CallProgram
from codesign.tensorization.scoring import result_width, score_programs


@dataclass(frozen=True, slots=True)
class Split:
    """``loop`` becomes ``loop.o`` around ``loop.i``; the inner one has `factor` iterations. A remainder is padded."""

    loop: str
    factor: int

    def __str__(self) -> str:
        return f"split({self.loop}, {self.factor})"


@dataclass(frozen=True, slots=True)
class Reorder:
    """The named loops take, in this order, the places they hold now."""

    loops: tuple[str, ...]

    def __str__(self) -> str:
        return f"reorder({', '.join(self.loops)})"


@dataclass(frozen=True, slots=True)
class Fuse:
    """Neighbouring host loops become one. The innermost host loop is pipelined, so this lengthens the pipeline (Q7, Q8)."""

    loops: tuple[str, ...]

    def __str__(self) -> str:
        return f"fuse({', '.join(self.loops)})"


@dataclass(frozen=True, slots=True)
class Tensorize:
    """The loop `at` and those inside it become one sub-workload on the scratchpad, a nest of intrinsic calls.

    The innermost loop of every dimension that the choice gives to the intrinsic is cut into calls, the last one padded.

    Args:
        choice: Number of the tensorize choice in the problem's list.
        at: The outermost loop of the sub-workload.
    """

    choice: int
    at: str

    def __str__(self) -> str:
        return f"tensorize({self.choice}, {self.at})"


Primitive = Split | Reorder | Fuse | Tensorize


@dataclass(frozen=True, slots=True)
class Loops:
    """What a sequence leaves: loops of more than one iteration, outermost first.

    Args:
        choice: Number of the tensorize choice.
        rows: (dimension number, iterations, 1 if fused with the loop outside it).
        host: How many of them run on the host.
    """

    choice: int
    rows: list[tuple[int, int, int]]
    host: int


class _Nest:
    """Loops while primitives are applied to them: names outermost first, and for each name (dimension, iterations)."""

    def __init__(self, problem: SoftwareProblem) -> None:
        computation = problem.computation
        self.problem = problem
        self.order: list[str] = list(computation.dims)
        self.loops: dict[str, tuple[int, int]] = {d: (k, n) for k, (d, n) in enumerate(computation.sizes.items())}
        self.chains: list[list[str]] = [[d] for d in computation.dims]  # loops of a dimension, outermost first
        self.joined: set[str] = set()

    def split(self, primitive: Split) -> None:
        name, factor = primitive.loop, primitive.factor
        if name not in self.loops:
            raise self.unknown(name, primitive)
        dim, count = self.loops[name]
        if self.joined:
            raise UserError("split stands after fuse; splits come first", where=str(primitive))
        if isinstance(factor, bool) or not isinstance(factor, int) or not 1 <= factor <= count:
            raise UserError(f"factor must be an integer in 1..{count}, got {factor!r}", where=str(primitive))
        outer, inner = f"{name}.o", f"{name}.i"
        del self.loops[name]
        self.loops[outer], self.loops[inner] = (dim, -(-count // factor)), (dim, factor)
        chain = self.chains[dim]
        place = chain.index(name)
        chain[place : place + 1] = [outer, inner]
        place = self.order.index(name)
        self.order[place : place + 1] = [outer, inner]

    def reorder(self, primitive: Reorder) -> None:
        named = set(primitive.loops)
        if len(named) != len(primitive.loops):
            raise UserError("a loop is named twice", where=str(primitive))
        for name in primitive.loops:
            if name not in self.loops:
                raise self.unknown(name, primitive)
        if self.joined:
            raise UserError("reorder stands after fuse; reorders come first", where=str(primitive))
        taking = iter(primitive.loops)
        self.order = [next(taking) if name in named else name for name in self.order]

    def fuse(self, primitive: Fuse) -> None:
        for name in primitive.loops:
            if name not in self.loops:
                raise self.unknown(name, primitive)
        if len(primitive.loops) < 2:
            raise UserError("fuse takes at least two loops", where=str(primitive))
        place = self.order.index(primitive.loops[0])
        if tuple(self.order[place : place + len(primitive.loops)]) != tuple(primitive.loops):
            raise UserError(
                f"the loops must stand next to each other in this order; they stand as {', '.join(self.order)}",
                where=str(primitive),
            )
        self.joined.update(primitive.loops[1:])

    def tensorize(self, primitive: Tensorize) -> Loops:
        choices = self.problem.choices
        if not 0 <= primitive.choice < len(choices):
            raise UserError(f"choice must be in 0..{len(choices) - 1}, got {primitive.choice}", where=str(primitive))
        if primitive.at not in self.loops:
            raise self.unknown(primitive.at, primitive)
        tile = self.problem.tiles[primitive.choice]
        order, loops = self.order, self.loops
        start = order.index(primitive.at)
        rank = {name: at for at, name in enumerate(order)}
        calls = {}
        for dim, chain in enumerate(self.chains):
            if len(chain) > 1:
                self._check_chain(chain, rank, primitive)
            if tile[dim] > 1:
                innermost = chain[-1]
                if rank[innermost] < start:
                    raise UserError(
                        f"loop {innermost!r} belongs to the intrinsic and must stand inside the tensorized part",
                        where=str(primitive),
                        hint="reorder it inwards",
                    )
                calls[innermost] = -(-loops[innermost][1] // tile[dim])
        rows: list[tuple[int, int, int]] = []
        host = 0
        first = True  # of its fused group, among loops of more than one iteration
        for at, name in enumerate(order):
            dim, count = loops[name]
            if at >= start:
                if name in self.joined:
                    raise UserError(f"loop {name!r} is fused and tensorized; only host loops are fused")
                count = calls.get(name, count)
                if count > 1:
                    rows.append((dim, count, 0))
                continue
            if name not in self.joined:
                first = True
            if count > 1:
                rows.append((dim, count, 0 if first else 1))
                first = False
                host += 1
        return Loops(primitive.choice, rows, host)

    def _check_chain(self, chain: list[str], rank: dict[str, int], primitive: Tensorize) -> None:
        for outer, inner in pairwise(chain):
            if rank[outer] > rank[inner]:
                raise UserError(
                    f"loop {inner!r} stands outside {outer!r}, which it was split from", where=str(primitive)
                )

    def unknown(self, name: str, primitive: Primitive) -> UserError:
        return unknown_name("loop", name, self.order, where=str(primitive))


def apply_sequence(problem: SoftwareProblem, sequence: Sequence[Primitive]) -> Loops:
    """The loops that a sequence makes of a computation. Its last primitive is the one `Tensorize`.

    Raises:
        UserError: A primitive does not apply; the message says which and why.
    """
    nest = _Nest(problem)
    if not sequence or not isinstance(sequence[-1], Tensorize):
        raise UserError("a sequence ends with tensorize", where=describe(sequence))
    for primitive in sequence[:-1]:
        if isinstance(primitive, Split):
            nest.split(primitive)
        elif isinstance(primitive, Reorder):
            nest.reorder(primitive)
        elif isinstance(primitive, Fuse):
            nest.fuse(primitive)
        else:
            raise UserError("tensorize stands once, at the end", where=describe(sequence))
    return nest.tensorize(sequence[-1])


def describe(sequence: Sequence[Primitive]) -> str:
    """A sequence as text."""
    return f"[{', '.join(str(p) for p in sequence)}]"


def to_program(problem: SoftwareProblem, sequence: Sequence[Primitive]) -> CallProgram:
    """The program of a sequence: its `schedule` gives the `Mapping` and the intrinsic call.

    Raises:
        UserError: A primitive does not apply.
    """
    loops = apply_sequence(problem, sequence)
    return program_of_rows(problem, loops.choice, loops.rows, loops.host)


def score_sequences(problem: SoftwareProblem, sequences: Sequence[Sequence[Primitive]]) -> FloatArray:
    """Score sequences in compiled code: ``B x`` `codesign.tensorization.scoring.result_width`; infinite where a memory is too small.

    Raises:
        UserError: A primitive does not apply.
    """
    applied = [apply_sequence(problem, s) for s in sequences]
    width = max(1, max((len(a.rows) for a in applied), default=1))
    loops: IntArray = np.ones((len(applied), width, 3), np.int64)
    counts = np.array([len(a.rows) for a in applied], np.int64)
    flat = [row for a in applied for row in a.rows]
    if flat:
        loops[np.arange(width)[None, :] < counts[:, None]] = flat
    arrays = problem.arrays if width <= problem.max_loops else problem.fresh_arrays(width)
    results = np.empty((len(applied), result_width(len(problem.computation.tensors))))
    score_programs(
        arrays,
        np.array([a.choice for a in applied], np.int64),
        loops,
        counts,
        np.array([a.host for a in applied], np.int64),
        results,
    )
    return results
