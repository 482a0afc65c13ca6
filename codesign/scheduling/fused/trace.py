"""The tree of a fused schedule, read off the rows of the dynamic program: what stays on the chip, shared loops and their tiles, order.

The search keeps rows, not the decisions behind them. They are found again from the outside in: each sequence and each part is joined once
more, now with back pointers, until the row looked for is met. Every row is compared with its exact value, so the tree has the costs of the search.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from codesign.core.labels.sweep import Array
from codesign.cost.looptree_graph import Join, Leaf
from codesign.mapping.looptree import Operator
from codesign.scheduling.fused.operator_front import Mapping
from codesign.scheduling.fused.schedule import Part
from codesign.scheduling.fused.sharing import SharedLoop, Sharing, State


@dataclass(frozen=True)
class Step:
    """How a row of a sequence came about: the state before and its row, the last operator of the part that was added, and its row."""

    state: State
    row: int
    end: int
    chip: frozenset[str]
    part: Array


Steps = dict[State, list[Step | None]]
"""The step behind every row of every state; none behind the start."""


class FusedProgram(Protocol):
    """The dynamic program of `codesign.scheduling.fused.loop_tree.Fusion`, after it found an optimum."""

    operators: Sequence[Operator]
    sharing: Sharing

    def sequence(
        self, first: int, last: int, chip: frozenset[str], context: tuple[SharedLoop, ...], steps: Steps | None = None
    ) -> Array:
        """Rows of operators first..last, part after part; the steps behind them are added to `steps`."""

    def closed(
        self, first: int, last: int, chip: frozenset[str], context: tuple[SharedLoop, ...]
    ) -> Iterator[tuple[tuple[SharedLoop, ...], Array, Array]]:
        """Loops that may be added around operators first..last, the rows inside them, and those rows as rows of one part."""

    def mapping(
        self, operator: int, held: tuple[tuple[str, int], ...], context: tuple[SharedLoop, ...], row: Array
    ) -> Mapping:
        """What an operator does inside the loops; `held` are its tensors on the chip, with the number of loops outside."""


def trace(program: FusedProgram, row: Array) -> tuple[Part, ...]:
    """The parts of the whole graph that make up a row of its outermost sequence.

    Args:
        program: The search, after it found the row.
        row: Bits, energy, seconds.
    """
    return _sequence(program, 0, len(program.operators) - 1, {}, (), row)


def _sequence(
    program: FusedProgram, first: int, last: int, held: dict[str, int], context: tuple[SharedLoop, ...], target: Array
) -> tuple[Part, ...]:
    """The parts behind one row of `FusedProgram.sequence`; `held` are the tensors on the chip, with the loops outside each."""
    depth, steps = len(context), dict[State, list[Step | None]]()
    match = _matches(program.sequence(first, last, frozenset(held), context, steps), target)
    if not len(match):
        raise AssertionError("no parts make up the row of a sequence")
    parts: list[Part] = []
    step = steps[last + 1, frozenset()][match[0]]
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
    for loops, inner, closed in program.closed(first, last, chip, context):
        match = _matches(closed, target)
        if len(match):
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


def _matches(rows: Array, target: Array) -> Array:
    """The rows that are equal to a row, by number."""
    return np.flatnonzero((rows == target).all(axis=1))
