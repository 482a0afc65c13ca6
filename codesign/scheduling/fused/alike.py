"""Operators that differ in names only: searched once, told in the names of each."""

import math
from collections.abc import Mapping as Mapping_
from collections.abc import Sequence
from dataclasses import replace
from typing import final

from codesign.core.labels.sweep import Array
from codesign.cost.looptree import Loop
from codesign.mapping.looptree import Machine, Operator, renamed
from codesign.scheduling.fused.operator_front import CopyFront, Limits, Loops, Mapping, OperatorFront
from codesign.scheduling.fused.sharing import CutTensor, SharedLoop


@final
class RenamedFront:
    """The front of one operator in the names of another of the same shape.

    Args:
        front: Of the operator that stands for both.
        operator: The other.
    """

    operator: Operator
    capacity: float
    width: dict[str, float]

    def __init__(self, front: "Front", operator: Operator) -> None:
        alike = front.operator
        self.same, self.operator, self.capacity = front, operator, front.capacity
        self._tensors = {a.name: b.name for a, b in zip(alike.operands, operator.operands, strict=True)}
        self._dims = dict(zip(alike.bounds, operator.bounds, strict=True))
        self._from_tensors = {b: a for a, b in self._tensors.items()}
        self._from_dims = {b: a for a, b in self._dims.items()}
        self.tensors = frozenset(self._from_tensors)
        self.width = {self._tensors[t]: w for t, w in front.width.items()}

    def smallest(self) -> tuple[str, float, float]:
        """See `OperatorFront`."""
        return self.same.smallest()

    def least(self, stop: float = math.inf) -> tuple[float, float]:
        """See `OperatorFront`."""
        return self.same.least(stop)

    def quick_on(self, stop: float = math.inf) -> dict[frozenset[str], tuple[float, float]]:
        """See `OperatorFront`."""
        return {self._own(chip): least for chip, least in self.same.quick_on(stop).items()}

    def least_on(self, stop: float) -> dict[frozenset[str], tuple[float, float]]:
        """See `OperatorFront`."""
        return {self._own(chip): least for chip, least in self.same.least_on(stop).items()}

    def alone(self, leak: float, stop: float = math.inf) -> tuple[float, float, Mapping] | None:
        """See `OperatorFront`."""
        found = self.same.alone(leak, stop)
        return None if found is None else (found[0], found[1], self.own(found[2]))

    def prepare(self, limits: Limits, stop: float) -> None:
        """See `OperatorFront`."""
        self.same.prepare(limits, stop)

    def prepare_on(self, limits: Mapping_[frozenset[str], Limits], stop: float) -> None:
        """See `OperatorFront`."""
        self.same.prepare_on({self._theirs(chip): own for chip, own in limits.items()}, stop)

    def front(self, chip: frozenset[str], loops: Loops) -> Array:
        """See `OperatorFront`."""
        return self.same.front(self._theirs(chip), self._given(loops))

    def mapping(self, held: tuple[tuple[str, int], ...], loops: Loops, row: Array) -> Mapping:
        """See `OperatorFront`."""
        there = tuple((self._from_tensors[t], depth) for t, depth in held)
        return self.own(self.same.mapping(there, self._given(loops), row))

    def cheapest(self, loops: Loops, chips: frozenset[frozenset[str]] | None) -> tuple[float, float] | None:
        """See `OperatorFront`."""
        theirs = None if chips is None else frozenset(self._theirs(chip) for chip in chips)
        return self.same.cheapest(self._given(loops), theirs)

    def own(self, mapping: Mapping) -> Mapping:
        """See `OperatorFront`."""
        nest = tuple(
            replace(x, dim=self._dims[x.dim]) if isinstance(x, Loop) else replace(x, tensor=self._tensors[x.tensor])
            for x in mapping.nest
        )
        among = tuple((self._tensors[t], depth) for t, depth in mapping.among)
        return Mapping(renamed(mapping.machine, self._tensors, self._dims), among, nest)

    def _own(self, chip: frozenset[str]) -> frozenset[str]:
        return frozenset(self._tensors[t] for t in chip)

    def _theirs(self, chip: frozenset[str]) -> frozenset[str]:
        return frozenset(self._from_tensors[t] for t in chip)

    def _given(self, loops: Loops) -> Loops:
        return tuple((self._from_dims[d], tile) for d, tile in loops)


Front = OperatorFront | CopyFront | RenamedFront
"""What one operator can do."""


def renamed_front(front: Front, operator: Operator) -> Front:
    """The front of an operator of the same shape."""
    return front if front.operator is operator else RenamedFront(front, operator)


class Patterns:
    """Runs of operators told apart by what they do, not by their names.

    Args:
        operators: All of them, in order.
        shapes: For each of them, equal where they differ in names only.
        spans: For each intermediate the first and the last operator that it stays for.
        cut: In a window, tensors that operators outside it use too; none if the operators are all there are.
        single: Dimensions whose shared loops have tiles of 1.
    """

    def __init__(
        self,
        operators: Sequence[Operator],
        shapes: Sequence[object],
        spans: Mapping_[str, tuple[int, int]],
        cut: Mapping_[str, CutTensor] | None,
        single: frozenset[str],
    ) -> None:
        self.operators, self.spans, self.cut, self.single = operators, spans, cut, single
        numbers: dict[object, int] = {}
        self.shapes = [numbers.setdefault(shape, len(numbers)) for shape in shapes]
        self._numbers: dict[object, int] = {}
        self._runs: dict[tuple[int, int], tuple[int, dict[str, int]]] = {}
        self._dims = [{d: i for i, d in enumerate(o.bounds)} for o in operators]

    def key(self, first: int, last: int, chip: frozenset[str], context: tuple[SharedLoop, ...]) -> object:
        """Equal for two runs inside loops that have the same rows; `chip` is on the chip."""
        number, tensors = self.run(first, last)
        held = sum(1 << tensors[t] for t in chip if t in tensors)
        each = range(first, last + 1)
        loops = tuple((tuple(self._dims[i][loop.of(i)] for i in each), loop.tile) for loop in context)
        return number, held, loops

    def _ends(self, first: int, last: int, tensors: Mapping_[str, int]) -> object:
        """What operators outside a window make of a run of its operators."""
        if self.cut is None:
            return None
        cut = frozenset(
            (at, max(c.begin, first) - first, min(c.end, last) - first, c.bits)
            for t, at in tensors.items()
            if (c := self.cut.get(t)) is not None
        )
        return first == 0, last == len(self.operators) - 1, cut

    def run(self, first: int, last: int) -> tuple[int, dict[str, int]]:
        """The number of the pattern of operators first..last, and that of each intermediate."""
        if (first, last) not in self._runs:
            tensors: dict[str, int] = {}
            ranks: dict[tuple[str, str], int] = {}
            pattern = list[object]()
            for i in range(first, last + 1):
                operator = self.operators[i]
                used = []
                for t in operator.operands:
                    if t.name in self.spans:
                        at = tensors.setdefault(t.name, len(tensors))
                        used.append((at, tuple(ranks.setdefault((t.name, r), len(ranks)) for r in t.ranks)))
                pattern.append((self.shapes[i], tuple(used), tuple(d in self.single for d in operator.bounds)))
            inside = tuple(first <= self.spans[t][0] and self.spans[t][1] <= last for t in tensors)
            key = tuple(pattern), inside, self._ends(first, last, tensors)
            self._runs[first, last] = self._numbers.setdefault(key, len(self._numbers)), tensors
        return self._runs[first, last]


def shape_of(operator: Operator, machines: Sequence[Machine], between: frozenset[str]) -> object:
    """Equal for operators that differ in names only."""
    names = {t.name: i for i, t in enumerate(operator.operands)}
    dims = {d: i for i, d in enumerate(operator.bounds)}
    tensors = tuple(
        (tuple(tuple((dims[d], c) for d, c in axis) for axis in t.axes), t.output, t.bits, t.name in between)
        for t in operator.operands
    )
    keeps = tuple(
        frozenset(tuple(frozenset(names[t] for t in level) for level in k) for k in m.keeps) for m in machines
    )
    axes = tuple(
        tuple(
            tuple(
                (a.size, frozenset(dims[d] for d in a.dims), frozenset(names[t] for t in a.shared), a.min_usage)
                for a in f
            )
            for f in m.fanouts
        )
        for m in machines
    )
    bits = tuple(
        tuple((m.name, m.capacity, tuple(sorted((names[t], b) for t, b in m.bits.items()))) for m in x.memories)
        for x in machines
    )
    rates = tuple((m.mac_energy, m.mac_seconds) for m in machines)
    return tensors, tuple(operator.bounds.values()), keeps, axes, bits, rates, operator.copy
