"""The tree of a fused schedule, read off the rows of the dynamic program: what stays on the chip, shared loops and their tiles, order.

The search keeps rows, not the decisions behind them. They are found again from the outside in: each sequence and each part is joined once
more, now with back pointers, until the row looked for is met. Every row is compared with its exact value, so the tree has the costs of the search.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from codesign.core.labels.sweep import Array
from codesign.cost.looptree import Loop
from codesign.cost.looptree_graph import Group, Join, Leaf
from codesign.mappers.uneven.nest import lines as nest_lines
from codesign.mapping.looptree import Operator
from codesign.scheduling.fused.operator_front import Mapping
from codesign.scheduling.fused.pareto import undominated
from codesign.scheduling.fused.shared_loops import SharedLoop
from codesign.scheduling.fused.sharing import Sharing


@dataclass(frozen=True)
class Part:
    """One operator, or several under further shared loops.

    Args:
        operators: Names, in the order they run.
        loops: Shared loops directly around the part: (dimension, iterations, tile inside) of its first operator.
        parts: What runs inside, one after another; empty for one operator.
        on_chip: Tensors that the shared level holds while the part runs instead of the outermost memory.
        among: Of one operator: its tensors that stand among the shared loops, with the number of loops outside.
        bits: Most bits of the shared level inside the innermost of its loops.
        energy: Of one run, leakage apart.
        seconds: Of one run.
        leaf: Of one operator: all its loops and nodes for the cost model, the shared loops first; none if it only moves a tensor.
        join: Of a concatenation: the whole and its parts.
    """

    operators: tuple[str, ...]
    loops: tuple[tuple[str, int, int], ...]
    parts: tuple["Part", ...]
    on_chip: tuple[str, ...]
    among: tuple[tuple[str, int], ...]
    bits: float
    energy: float
    seconds: float
    leaf: Leaf | None = None
    join: Join | None = None

    def costed(self) -> Iterator[Leaf | Group | Join]:
        """The part for the cost model; nothing of operators that only move a tensor."""
        if self.parts:
            yield Group(len(self.loops), tuple(p for part in self.parts for p in part.costed()))
        elif self.leaf is not None:
            yield self.leaf
        elif self.join is not None:
            yield self.join

    def lines(self, depth: int = 0, nests: bool = False) -> Iterator[str]:
        """The tree as text, outermost first; on request with each operator's own loops and nodes."""
        inside = depth
        for dim, count, tile in self.loops:
            yield f"{'  ' * inside}for {dim} in 0..{count - 1} (tiles of {tile})"
            inside += 1
        if self.parts:
            for part in self.parts:
                yield from part.lines(inside, nests)
            return
        held = f", on chip: {', '.join(self.on_chip)}" if self.on_chip else ""
        among = "".join(f", {tensor} held outside {_loops(inside - d)}" for tensor, d in self.among)
        yield f"{'  ' * inside}{self.operators[0]}{held}{among}"
        if nests and self.leaf is not None:
            yield from (f"{'  ' * (inside + 1)}{line}" for line in own_lines(self.leaf))


class FusedProgram(Protocol):
    """The dynamic program of `codesign.scheduling.fused.loop_tree.Fusion`, after it found an optimum."""

    operators: Sequence[Operator]
    sharing: Sharing

    @property
    def count(self) -> int:
        """Number of operators in the sequence."""

    def next_parts(
        self, first: int, last: int, at: int, live: frozenset[str], context: tuple[SharedLoop, ...]
    ) -> Iterator[tuple[int, frozenset[str], frozenset[str]]]:
        """Parts that may follow: (last operator, tensors on the chip during it, those that stay)."""

    def part(self, first: int, last: int, chip: frozenset[str], context: tuple[SharedLoop, ...]) -> Array:
        """Rows of operators first..last as one part."""

    def sequence(self, first: int, last: int, chip: frozenset[str], context: tuple[SharedLoop, ...]) -> Array:
        """Rows of operators first..last, part after part."""

    def joined(
        self, rows: Array, more: Array, held: float, first: int, end: int, depth: int
    ) -> tuple[Array, Array, Array]:
        """Undominated sums of rows, and the two rows behind each."""

    def more_loops(self, first: int, last: int, context: tuple[SharedLoop, ...]) -> Iterator[tuple[SharedLoop, ...]]:
        """Sequences of loops to add."""

    def mapping(
        self, operator: int, held: tuple[tuple[str, int], ...], context: tuple[SharedLoop, ...], row: Array
    ) -> Mapping:
        """What an operator does inside the loops; `held` are its tensors on the chip, with the number of loops outside."""


def own_lines(leaf: Leaf) -> list[str]:
    """An operator's loops and nodes inside the shared loops."""
    loops, start = 0, 0
    while loops < leaf.shared:
        loops += isinstance(leaf.nest[start], Loop)
        start += 1
    return nest_lines(leaf.nest[start:], leaf.machine)


def _loops(number: int) -> str:
    return "the innermost shared loop" if number == 1 else f"the innermost {number} shared loops"


@dataclass(frozen=True)
class _Step:
    """How a row of a sequence came about: the state before, and the part that was added."""

    state: tuple[int, frozenset[str]]
    row: int
    end: int
    chip: frozenset[str]
    part: Array


def trace(program: FusedProgram, row: Array) -> tuple[Part, ...]:
    """The parts of the whole graph that make up a row of its outermost sequence.

    Args:
        program: The search, after it found the row.
        row: Bits, energy, seconds.
    """
    return _sequence(program, 0, program.count - 1, {}, (), row)


def _sequence(
    program: FusedProgram, first: int, last: int, held: dict[str, int], context: tuple[SharedLoop, ...], target: Array
) -> tuple[Part, ...]:
    """The parts behind one row of `FusedProgram.sequence`; `held` are the tensors on the chip, with the loops outside each."""
    depth, chip = len(context), frozenset(held)
    rows: dict[tuple[int, frozenset[str]], Array] = {(first, frozenset()): np.zeros((1, depth + 3))}
    steps: dict[tuple[int, frozenset[str]], list[_Step | None]] = {(first, frozenset()): [None]}
    for at in range(first, last + 1):
        for state in [s for s in rows if s[0] == at]:
            for end, grown, stay in program.next_parts(first, last, at, state[1], context):
                more = program.part(at, end, chip | grown, context)
                if not len(more):
                    continue
                bits = program.sharing.held(grown, context)
                joined, before, added = program.joined(rows[state], more, bits, first, end, depth)
                key = end + 1, stay
                new: list[_Step | None] = [
                    _Step(state, int(i), end, chip | grown, more[int(j)]) for i, j in zip(before, added, strict=True)
                ]
                both = np.concatenate([rows.get(key, np.zeros((0, depth + 3))), joined])
                kept = undominated(both)
                links = [*steps.get(key, []), *new]
                rows[key], steps[key] = both[kept], [links[int(k)] for k in kept]
    end_state: tuple[int, frozenset[str]] = (last + 1, frozenset())
    found = _find(rows[end_state], target)
    parts: list[Part] = []
    step = steps[end_state][found]
    while step is not None:
        now = {t: held.get(t, depth) for t in sorted(step.chip)}
        parts.append(_part(program, step.state[0], step.end, now, context, step.part))
        step = steps[step.state][step.row]
    return tuple(reversed(parts))


def _part(
    program: FusedProgram, first: int, last: int, held: dict[str, int], context: tuple[SharedLoop, ...], target: Array
) -> Part:
    depth, chip = len(context), frozenset(held)
    on_chip = tuple(sorted(chip & frozenset(program.sharing.touching(first, last))))
    names = tuple(program.operators[i].name for i in range(first, last + 1))
    bits, energy, seconds = (float(v) for v in target[depth:])
    if first == last:
        stays = tuple((t, held[t]) for t in on_chip)
        mapping = program.mapping(first, stays, context, target)
        leaf = Leaf(program.operators[first], mapping.machine, mapping.nest, depth, stays) if mapping.nest else None
        whole = next(
            (t.name for t in program.operators[first].operands if t.output and t.name in program.sharing.joins), None
        )
        join = Join(whole, program.sharing.joins[whole]) if whole is not None else None
        return Part(names, (), (), on_chip, mapping.among, bits, energy, seconds, leaf, join)
    for loops in program.more_loops(first, last, context):
        inner = program.sequence(first, last, chip, context + loops)
        if not len(inner):
            continue
        closed = np.column_stack([inner[:, :depth], inner[:, depth:-2].sum(axis=1), inner[:, -2:]])
        match = np.flatnonzero((closed == target).all(axis=1))
        if not len(match):
            continue
        parts = _sequence(program, first, last, held, context + loops, inner[match[0]])
        return Part(names, _written(program, first, context, loops), parts, on_chip, (), bits, energy, seconds)
    raise AssertionError("no shared loops make up the row of a part")


def _written(
    program: FusedProgram, first: int, context: tuple[SharedLoop, ...], loops: tuple[SharedLoop, ...]
) -> tuple[tuple[str, int, int], ...]:
    """The loops as (dimension, iterations, tile) of the first operator."""
    now = dict(program.operators[first].bounds)
    for loop in context:
        now[loop.of(first)] = loop.tile
    found = []
    for loop in loops:
        dim = loop.of(first)
        found.append((dim, -(-now[dim] // loop.tile), loop.tile))
        now[dim] = loop.tile
    return tuple(found)


def _find(rows: Array, target: Array) -> int:
    match = np.flatnonzero((rows == target).all(axis=1))
    if not len(match):
        raise AssertionError("no parts make up the row of a sequence")
    return int(match[0])
