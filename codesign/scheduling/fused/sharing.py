"""What operators of a fused graph share: tensors on the chip, and loops around several of them (F2, docs/explanation/exact-mapper.md)."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

from codesign.cost.looptree_graph import follows, parts_of
from codesign.mapping.looptree import Operator


@dataclass(frozen=True)
class SharedLoop:
    """A loop over several operators: its dimension in each of them, and the tile inside."""

    dims: tuple[tuple[int, str], ...]
    tile: int

    @cached_property
    def by_operator(self) -> dict[int, str]:
        """The dimension in each operator."""
        return dict(self.dims)

    def of(self, operator: int) -> str:
        """The dimension in one operator."""
        return self.by_operator[operator]


@dataclass(frozen=True)
class CutTensor:
    """A tensor that operators outside a window use too.

    Args:
        begin, end: The first and the last operator of the window that it stays for, if it is on the chip.
        bits: Of all of it.
    """

    begin: int
    end: int
    bits: float


State = tuple[int, frozenset[str]]
"""The next operator of a sequence, and the tensors that stay on the chip."""


@final
class Sharing:
    """The tensors between operators, and the loops that may stand around several of them.

    Args:
        operators: In the order they run.
        between: Tensors that one writes and another reads.
        width: Bits of an element of each at the shared level.
        joins: Concatenations with their parts.
        cut: Of a window of a larger graph: tensors that operators outside it use too (F7); none if the operators are all there are.
    """

    def __init__(
        self,
        operators: Sequence[Operator],
        between: frozenset[str],
        width: Mapping[str, float],
        joins: Mapping[str, tuple[str, ...]],
        cut: Mapping[str, CutTensor] | None = None,
    ) -> None:
        self.operators, self.between, self.width, self.joins = operators, between, width, joins
        self.windowed, self.cut = cut is not None, cut or {}
        self.users = {t: [i for i, o in enumerate(operators) if any(t == x.name for x in o.operands)] for t in between}
        self.spans = {t: (u[0], u[-1]) for t, u in self.users.items()}
        self.spans |= {t: (c.begin, c.end) for t, c in self.cut.items()}
        self._of = [sorted({t.name for t in o.operands} & between) for o in operators]
        self._touching: dict[tuple[int, int], list[str]] = {}
        self._apart: dict[int, int] = {}
        self._loop_dims: dict[tuple[int, int], list[tuple[tuple[int, str], ...]]] = {}
        self._indexed: dict[tuple[str, tuple[SharedLoop, ...]], bool] = {}

    # ------------------------------------------------------------------ tensors

    def inside(self, tensor: str, first: int, last: int) -> bool:
        """Whether only operators first..last use the tensor."""
        begin, end = self.spans[tensor]
        return first <= begin and end <= last

    def touching(self, first: int, last: int) -> list[str]:
        """Shared tensors that operators first..last use."""
        key = first, last
        if key not in self._touching:
            self._touching[key] = sorted({t for i in range(first, last + 1) for t in self._of[i]})
        return self._touching[key]

    def axis_of(self, operator: int, tensor: str, dim: str) -> str | None:
        """Name of the axis of `tensor` that `dim` alone indexes."""
        return next(t for t in self.operators[operator].operands if t.name == tensor).axis(dim)

    def dim_of(self, operator: int, tensor: str, rank: str) -> str | None:
        """Dimension that alone indexes an axis of `tensor`."""
        operand = next(t for t in self.operators[operator].operands if t.name == tensor)
        for name, axis in zip(operand.ranks, operand.axes, strict=True):
            if name == rank and len(axis) == 1 and axis[0][1] == 1:
                return axis[0][0]
        return None

    def indexed(self, tensor: str, context: tuple[SharedLoop, ...]) -> bool:
        """Whether every loop moves the tensor alike in all its users (nothing is computed twice)."""
        key = tensor, context
        if key not in self._indexed:
            ranks = [{self.axis_of(u, tensor, loop.of(u)) for u in self.users[tensor]} for loop in context]
            self._indexed[key] = all(len(r) == 1 and None not in r for r in ranks)
        return self._indexed[key]

    def bits(self, tensor: str, context: tuple[SharedLoop, ...]) -> float:
        """Bits of its tile inside the loops."""
        user = self.users[tensor][0]
        operator = self.operators[user]
        sizes = dict(operator.bounds)
        for loop in context:
            dims = dict(loop.dims)
            if user in dims:
                sizes[dims[user]] = loop.tile
        operand = next(t for t in operator.operands if t.name == tensor)
        if tensor in self.cut:  # a reader may see more than there is
            return operand.words(sizes) / operand.words(operator.bounds) * self.cut[tensor].bits
        return operand.words(sizes) * self.width[tensor]

    def held(self, tensors: frozenset[str], context: tuple[SharedLoop, ...]) -> float:
        """Bits of tensors on the chip inside the loops; a concatenation is its parts, each held once (G2)."""
        return sum(self.bits(t, context) for t in sorted(parts_of(tensors, self.joins)))

    def cut_of(self, first: int, last: int) -> dict[str, CutTensor]:
        """The tensors that operators of a window share with others."""
        found = {}
        for tensor in self.touching(first, last):
            if not self.inside(tensor, first, last):
                begin, end = self.spans[tensor]
                found[tensor] = CutTensor(max(begin, first) - first, min(end, last) - first, self.bits(tensor, ()))
        return found

    # ------------------------------------------------------------------ loops

    def loop_dims(self, first: int, last: int) -> list[tuple[tuple[int, str], ...]]:
        """Ways to share a loop among operators first..last: one dimension in each, agreeing on the tensors between them."""
        if (first, last) in self._loop_dims:
            return self._loop_dims[first, last]
        if self.open(first, last):
            return self._open_dims(first, last)
        found, hopes = [], False
        for dim in self.operators[first].bounds:
            chosen = self._moved(first, dim, first, last)
            if chosen is None:
                continue
            hopes = hopes or any(self._reaches(u, d, first, last) for u, d in chosen.items())
            if len(chosen) == last - first + 1 and self._follow(chosen):
                found.append(tuple(sorted(chosen.items())))
        self._loop_dims[first, last] = found
        if not hopes:  # more operators inside only add to what must agree, and none of them is reached
            self._apart[first] = min(last, self._apart.get(first, last))
        return found

    def _moved(self, operator: int, dim: str, first: int, last: int) -> dict[int, str] | None:
        """What a loop over a dimension of one operator is in the others that share tensors of first..last; None if they disagree."""
        chosen, pending = {operator: dim}, [operator]
        while pending:
            user = pending.pop()
            for tensor in self._of[user]:
                rank = self.axis_of(user, tensor, chosen[user]) if self._bound(tensor, first, last) else None
                if rank is None:
                    continue
                for other in self.users[tensor]:
                    match = self.dim_of(other, tensor, rank)
                    if match is None or chosen.get(other, match) != match:
                        return None
                    if other not in chosen:
                        chosen[other] = match
                        pending.append(other)
        bounds = {self.operators[u].bounds[d] for u, d in chosen.items()}
        return chosen if len(bounds) == 1 and bounds.pop() > 1 else None

    def _bound(self, tensor: str, first: int, last: int) -> bool:
        """Whether all users of a tensor must agree on a loop around first..last."""
        return self.inside(tensor, first, last) and tensor not in self.cut

    def _follow(self, chosen: dict[int, str]) -> bool:
        return follows([(self.operators[u], d) for u, d in sorted(chosen.items())])

    def open(self, first: int, last: int) -> bool:
        """Whether a part may go on among operators that were left out (B1)."""
        return self.windowed and (first == 0 or last == len(self.operators) - 1)

    def _open_dims(self, first: int, last: int) -> list[tuple[tuple[int, str], ...]]:
        """The same where operators that were left out may connect others: what no tensor connects chooses alone.

        Operators that fall into connected runs, one after another, are no part: each run alone holds less.
        """
        groups: list[set[int]] = []
        for start in range(first, last + 1):
            if any(start in group for group in groups):
                continue
            linked, pending = {start}, [start]
            while pending:
                for tensor in self._of[pending.pop()]:
                    new = set(self.users[tensor]) - linked if self._bound(tensor, first, last) else set[int]()
                    linked |= new
                    pending += new
            groups.append(linked)
        found: list[tuple[tuple[int, str], ...]] = []
        self._loop_dims[first, last] = found
        if len(groups) > 1 and all(max(g) - min(g) + 1 == len(g) for g in groups):
            return found
        ways = []
        for group in groups:
            start = min(group)
            moved = [self._moved(start, dim, first, last) for dim in self.operators[start].bounds]
            ways.append([c for c in moved if c is not None and len(c) == len(group) and self._follow(c)])
        for chosen in itertools.product(*ways):
            dims = tuple(sorted((u, d) for part in chosen for u, d in part.items()))
            if len({self.operators[u].bounds[d] for u, d in dims}) == 1:
                found.append(dims)
        return found

    def _reaches(self, operator: int, dim: str, first: int, last: int) -> bool:
        """Whether the dimension indexes an intermediate that operators after `last` use, none before `first`."""
        of = (t for t in self._of[operator] if first <= self.spans[t][0] and last < self.spans[t][1])
        return any(self.axis_of(operator, t, dim) is not None for t in of)

    # ------------------------------------------------------------------ parts

    def next_parts(
        self,
        first: int,
        last: int,
        at: int,
        live: frozenset[str],
        context: tuple[SharedLoop, ...],
        longest: float = math.inf,
    ) -> Iterator[tuple[int, frozenset[str], frozenset[str]]]:
        """Parts that may follow: (last operator, tensors on the chip during it, those that stay)."""
        for end in range(at, last + 1):
            if end - at >= longest:
                return
            if end > self._apart.get(at, last) and not self.open(at, end):
                if not self.windowed:
                    return
                continue
            if (context and (at, end) == (first, last)) or (end > at and not self.loop_dims(at, end)):
                continue
            for grown, stay in self._choices(first, last, at, end, live, context):
                if context and end < last and not stay and not self.open(first, last):
                    continue  # nothing holds the parts together: the same as two groups
                yield end, grown, stay

    def _choices(
        self, first: int, last: int, at: int, end: int, live: frozenset[str], context: tuple[SharedLoop, ...]
    ) -> Iterator[tuple[frozenset[str], frozenset[str]]]:
        """For a part at..end: tensors on the chip during it, and those that stay on it afterwards."""
        begun = {t for t, c in self.cut.items() if at <= c.begin <= end}  # before an operator of the window uses them
        inner = [t for t in sorted({*self.touching(at, end)} | begun) if self.inside(t, first, last)]
        new = [t for t in inner if self.spans[t][0] >= at and not self.inside(t, at, end)]
        for bits in itertools.product((False, True), repeat=len(new)):
            chosen = frozenset(t for t, b in zip(new, bits, strict=True) if b)
            if context and not all(t in self.cut or self.indexed(t, context) for t in new):
                continue
            grown = live | chosen
            stay = frozenset(t for t in grown if self.spans[t][1] > end)
            yield grown, stay
