"""Trees of shared loops over a sequence of operators, by dynamic programming (F1-F5, docs/explanation/exact-mapper.md)."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from codesign.core import clock
from codesign.core.factors import divisors
from codesign.core.labels.program import STEPS, sweep_limit
from codesign.core.labels.sweep import Array
from codesign.cost.looptree_graph import GraphCost, Leaf, follows, graph_cost, parts_of
from codesign.formats.accelforge.workload import Workload
from codesign.mapping.looptree import Goal, Machine, Operator
from codesign.scheduling.fused.alike import CutTensor, Front, Known, Patterns, renamed_front, shape_of
from codesign.scheduling.fused.blocks import Floors, block_floors, value_of
from codesign.scheduling.fused.group_bounds import Outside
from codesign.scheduling.fused.operator_front import CopyFront, JoinFront, Limits, Loops, OperatorFront, TimeUp
from codesign.scheduling.fused.operator_front import Mapping as OwnMapping
from codesign.scheduling.fused.pareto import undominated
from codesign.scheduling.fused.shared_loops import SharedLoop
from codesign.scheduling.fused.trace import Part, trace

GOOD_SHARE = 0.3
"""Part of the time for a first good schedule."""

GOOD = ((1, 0.02), (4, 0.02), (4, 0.1), (4, 0.5))
"""Operators under shared loops at most, and how far above its bound each operator may take `NEAR` of them, one attempt after the other."""

BLOCK_SHARE = 0.5
"""Part of the time for bounds of windows, where more than `NEAR` operators have a good schedule far above the bound of each."""

NEAR = 20
"""Operators among which one may spend more than its least, as those of a block do."""

BEAM = 64
"""Rows of a state that a first good schedule is made from."""


@dataclass(frozen=True)
class Schedule:
    """The best schedule of a graph.

    Args:
        value: Objective.
        bound: What none is below.
        energy: With leakage; none where only latency was searched.
        seconds: Latency, operators one after another.
        parts: The tree: shared loops, what stays on the chip, order; empty where nothing stays.
    """

    value: float
    bound: float
    energy: float | None
    seconds: float
    parts: tuple[Part, ...] = ()

    def lines(self) -> list[str]:
        """The tree as text."""
        return self.tree(nests=False)

    def tree(self, nests: bool) -> list[str]:
        """The tree as text, on request with each operator's own loops and nodes."""
        alone = (
            [] if any(p.parts or p.on_chip for p in self.parts) else ["every operator alone, nothing stays on the chip"]
        )
        if alone and not nests:
            return alone
        return [*alone, *(line for part in self.parts for line in part.lines(nests=nests))]

    def cost(self) -> GraphCost:
        """Of the tree, counted operator by operator; operators that only move a tensor are left out."""
        return graph_cost([p for part in self.parts for p in part.costed()])

    @property
    def proven(self) -> bool:
        """Whether the value is the optimum."""
        return self.bound >= self.value * (1 - 1e-9)


class Fusion:
    """One graph on one machine.

    Args:
        operators: In the order they run.
        machines: For each of them the machines that may run it.
        between: Tensors that one writes and another reads.
        goal: Objective.
        loops_per_dim, loops: Most shared loops over one dimension of an operator, and in all.
        single: Dimensions whose shared loops have tiles of 1.
        cut: Of a window of a larger graph: tensors that operators outside it use too (F7).
        known: Operators by their shape, where several searches share them; more are added.
        aside: Bits of the shared level that are taken all the time.
        bounded: Whether single operators are bounded; else `outside` is set before a search.
    """

    def __init__(
        self,
        operators: Sequence[Operator],
        machines: Sequence[Sequence[Machine]],
        between: frozenset[str],
        goal: Goal,
        loops_per_dim: int = 1,
        loops: float = math.inf,
        single: frozenset[str] = frozenset(),
        cut: Mapping[str, CutTensor] | None = None,
        known: dict[object, Known] | None = None,
        aside: float = 0.0,
        bounded: bool = True,
    ) -> None:
        self.single, self.machines = single, machines
        self.windowed, self.cut = cut is not None, cut or {}
        self.operators, self.goal, self.loops_per_dim, self.loops = operators, goal, loops_per_dim, loops
        self.between = between
        self.leak = machines[0][0].leak_w
        self.users = {t: [i for i, o in enumerate(operators) if any(t == x.name for x in o.operands)] for t in between}
        self.spans = {t: (u[0], u[-1]) for t, u in self.users.items()}
        self.spans |= {t: (c.begin, c.end) for t, c in self.cut.items()}
        self.joins = {
            out: tuple(t.tensor for t in o.operands if not t.output)
            for o in operators
            if _front_of(o) is JoinFront
            for out in (t.name for t in o.operands if t.output)
        }
        self.shapes = [shape_of(o, m, between) for o, m in zip(operators, machines, strict=True)]
        known = {} if known is None else known
        self.distinct: dict[object, Front] = {}
        self.fronts: list[Front] = []
        for operator, machine, shape in zip(operators, machines, self.shapes, strict=True):
            if shape not in known:
                front = _front_of(operator)(operator, machine, between, goal, self.leak)
                known[shape] = front, front.least() if bounded else (0.0, 0.0)
            self.distinct[shape] = known[shape][0]
            self.fronts.append(renamed_front(self.distinct[shape], operator))
        self.capacity = self.fronts[0].capacity - aside
        self.outside: Outside | None = None
        self.least = [known[shape][1] for shape in self.shapes]
        self.floors = Floors.of(self.least)
        self.limit = math.inf
        self.stop, self.most, self.scored = math.inf, math.inf, 0
        self.longest, self.beam = math.inf, math.inf
        self._patterns = Patterns(operators, self.shapes, self.spans, cut, single)
        self._of = [sorted({t.name for t in o.operands} & between) for o in operators]
        self._touching: dict[tuple[int, int], list[str]] = {}
        self._apart: dict[int, int] = {}
        self._loop_dims: dict[tuple[int, int], list[tuple[tuple[int, str], ...]]] = {}
        self._indexed: dict[tuple[str, tuple[SharedLoop, ...]], bool] = {}

    # ------------------------------------------------------------------ windows

    def window(self, first: int, last: int, goal: Goal, leak: float, known: dict[object, Known]) -> "Fusion":
        """The search over operators first..last alone: what others use of their tensors is free (F7)."""
        operators = self.operators[first : last + 1]
        machines = [[replace(m, leak_w=leak) for m in ms] for ms in self.machines[first : last + 1]]
        used, cut = frozenset(self.touching(first, last)), self._cut(first, last)
        return Fusion(operators, machines, used, goal, self.loops_per_dim, self.loops, self.single, cut, known)

    def _cut(self, first: int, last: int) -> dict[str, CutTensor]:
        """The tensors that operators of a window share with others."""
        found = {}
        for tensor in self.touching(first, last):
            if not self.inside(tensor, first, last):
                begin, end = self.spans[tensor]
                found[tensor] = CutTensor(max(begin, first) - first, min(end, last) - first, self.bits(tensor, ()))
        return found

    def pattern(self, first: int, last: int) -> object:
        """Equal for windows that differ in names only."""
        number, tensors = self._patterns.run(first, last)
        return number, frozenset((tensors[t], c) for t, c in self._cut(first, last).items())

    # ------------------------------------------------------------------ limits

    @property
    def total(self) -> tuple[float, float]:
        """Least energy and seconds of all operators."""
        return self.floors.rest(0, -1)

    def prune(self, rows: Array, first: int, last: int) -> Array:
        """Which rows of operators first..last may be part of something within the limit."""
        return self._fitting(rows, self._worth(rows[:, -2], rows[:, -1], first, last))

    def _worth(self, energy: Array, seconds: Array, first: int, last: int) -> Array:
        """The least value of all where operators first..last take this energy and this many seconds."""
        if self.outside is None:
            return self.floors.worth(energy, seconds, first, last, self.goal, self.leak)
        more, longer = self.outside.rest(first, last)
        return value_of(energy + more, seconds + longer, self.goal, self.leak)

    def _fitting(self, rows: Array, worth: Array) -> Array:
        """Which rows fit and are worth no more than the limit."""
        width = rows.shape[1] - 2
        return np.flatnonzero((worth <= self.limit) & (rows[:, :width].sum(axis=1) <= self.capacity))

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
        return operand.words(sizes) * self.fronts[user].width[tensor]

    def held(self, tensors: frozenset[str], context: tuple[SharedLoop, ...]) -> float:
        """Bits of tensors on the chip inside the loops; a concatenation is its parts, each held once (G2)."""
        return sum(self.bits(t, context) for t in sorted(parts_of(tensors, self.joins)))

    def indexed(self, tensor: str, context: tuple[SharedLoop, ...]) -> bool:
        """Whether every loop moves the tensor alike in all its users (nothing is computed twice)."""
        key = tensor, context
        if key not in self._indexed:
            ranks = [{self.axis_of(u, tensor, loop.of(u)) for u in self.users[tensor]} for loop in context]
            self._indexed[key] = all(len(r) == 1 and None not in r for r in ranks)
        return self._indexed[key]

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

    def more_loops(self, first: int, last: int, context: tuple[SharedLoop, ...]) -> Iterator[tuple[SharedLoop, ...]]:
        """Non-empty sequences of loops to add around operators first..last."""
        options = self.loop_dims(first, last)
        room = self.loops - len(context)

        def extend(now: tuple[SharedLoop, ...]) -> Iterator[tuple[SharedLoop, ...]]:
            if len(now) - len(context) >= room:
                return
            for dims in options:
                user, dim = dims[0]
                own = [loop for loop in now if dict(loop.dims).get(user) == dim]
                if len(own) >= self.loops_per_dim:
                    continue
                outer = own[-1].tile if own else self.operators[user].bounds[dim]
                for tile in [1] if dim in self.single else divisors(outer)[:-1]:
                    grown = (*now, SharedLoop(dims, tile))
                    if not self.viable(first, last, grown):
                        continue
                    yield grown
                    yield from extend(grown)

        for found in extend(context):
            yield found[len(context) :]

    def viable(self, first: int, last: int, context: tuple[SharedLoop, ...]) -> bool:
        """Whether the operators alone, inside these loops, may still be part of something within the limit.

        More loops inside only add constraints, so a context that fails fails with everything inside it.
        """
        energy = seconds = 0.0
        for i in range(first, last + 1):
            loops = tuple((loop.of(i), loop.tile) for loop in context)
            least = self.fronts[i].cheapest(loops, None if self.outside is None else self.outside.chips[i])
            if least is None:
                return False
            energy, seconds = energy + least[0], seconds + least[1]
        worth = self._worth(np.array([energy]), np.array([seconds]), first, last)
        return bool(worth[0] <= self.limit)

    # ------------------------------------------------------------------ fronts

    def leaf(self, operator: int, chip: frozenset[str], context: tuple[SharedLoop, ...]) -> Array:
        """Rows of one operator inside the loops."""
        front = self.fronts[operator]
        loops: Loops = tuple((loop.of(operator), loop.tile) for loop in context)
        own = chip & front.tensors
        if self.outside is not None:
            if (operator, own) not in self.outside.on:
                return np.zeros((0, len(loops) + 3))
            rows, (more, longer) = front.front(own, loops), self.outside.on[operator, own]
            return rows[self._fitting(rows, value_of(rows[:, -2] + more, rows[:, -1] + longer, self.goal, self.leak))]
        rows = front.front(own, loops)
        free = sorted(t for t in front.tensors & self.cut.keys() if self.inside(t, operator, operator))
        if free:  # on the chip or not, as is better
            ways = itertools.product((False, True), repeat=len(free))
            each = [front.front(own | {t for t, c in zip(free, w, strict=True) if c}, loops) for w in ways]
            rows = np.concatenate(each)
            rows = rows[undominated(rows)]
        return rows[self.prune(rows, operator, operator)]

    def part(self, first: int, last: int, chip: frozenset[str], context: tuple[SharedLoop, ...]) -> Array:
        """Rows of operators first..last as one part of a sequence: one operator, or several under more loops.

        Runs of operators that differ in names only have the same rows.
        """
        key = self._patterns.key(first, last, chip, context)
        if self.outside is not None or self.floors.placed:  # what is outside differs
            key = first, last, key
        if key not in self._parts and first == last:
            self._parts[key] = self.leaf(first, chip, context)
        if key not in self._parts:
            depth = len(context)
            rows = [np.zeros((0, depth + 3))]
            for loops in self.more_loops(first, last, context):
                inner = self.sequence(first, last, chip, context + loops)
                if len(inner):
                    closed = np.empty((len(inner), depth + 3))
                    closed[:, :depth] = inner[:, :depth]
                    closed[:, depth] = inner[:, depth:-2].sum(axis=1)
                    closed[:, depth + 1 :] = inner[:, -2:]
                    rows.append(closed)
            every = np.concatenate(rows)
            self._parts[key] = every[undominated(every)]
        return self._parts[key]

    def sequence(self, first: int, last: int, chip: frozenset[str], context: tuple[SharedLoop, ...]) -> Array:
        """Rows of operators first..last, one part after another at the same loops; tensors between parts stay or go out.

        `chip` holds what is decided outside.
        """
        self.scored += 1
        if self.scored > self.most or clock.cpu_seconds() > self.stop:
            raise TimeUp
        depth = len(context)
        start = np.zeros((1, depth + 3))
        states: dict[tuple[int, frozenset[str]], Array] = {(first, frozenset()): start}
        for at in range(first, last + 1):
            here = [(live, rows) for (position, live), rows in states.items() if position == at]
            for live, rows in here:
                for end, grown, stay in self.next_parts(first, last, at, live, context):
                    more = self.part(at, end, chip | grown, context)
                    if not len(more):
                        continue
                    held = self.held(grown, context)
                    joined, _, _ = self.joined(rows, more, held, first, end, depth)
                    if len(joined):
                        key = end + 1, stay
                        old = states.get(key)
                        both = joined if old is None else np.concatenate([old, joined])
                        states[key] = both[undominated(both)]
        return states.get((last + 1, frozenset()), np.zeros((0, depth + 3)))

    def next_parts(
        self, first: int, last: int, at: int, live: frozenset[str], context: tuple[SharedLoop, ...]
    ) -> Iterator[tuple[int, frozenset[str], frozenset[str]]]:
        """Parts that may follow: (last operator, tensors on the chip during it, those that stay)."""
        for end in range(at, last + 1):
            if end - at >= self.longest:
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

    def joined(
        self, rows: Array, more: Array, held: float, first: int, end: int, depth: int
    ) -> tuple[Array, Array, Array]:
        """Undominated sums of rows, and the two rows behind each."""
        n, m = len(rows), len(more)
        found = np.empty((n * m, depth + 3))
        a, b = np.repeat(np.arange(n), m), np.tile(np.arange(m), n)
        found[:, :depth] = rows[a, :depth] + more[b, :depth]
        found[:, depth] = np.maximum(rows[a, depth], more[b, depth] + held)
        found[:, depth + 1 :] = rows[a, depth + 1 :] + more[b, depth + 1 :]
        kept = self.prune(found, first, end)
        if not depth:
            found[:, 0] = 0.0  # what fits once need not be remembered: nothing is held outside
        kept = kept[undominated(found[kept])]
        if len(kept) > self.beam:
            kept = kept[np.linspace(0, len(kept) - 1, int(self.beam)).astype(int)]
        return found[kept], a[kept], b[kept]

    def mapping(
        self, operator: int, held: tuple[tuple[str, int], ...], context: tuple[SharedLoop, ...], row: Array
    ) -> OwnMapping:
        """What an operator does inside the loops; `held` are its tensors on the chip, with the number of loops outside."""
        return self.fronts[operator].mapping(held, tuple((loop.of(operator), loop.tile) for loop in context), row)

    @property
    def count(self) -> int:
        """Number of operators in the sequence."""
        return len(self.operators)

    # ------------------------------------------------------------------ search

    def solve(self, time_limit: float = math.inf, sequences: float = math.inf, anytime: bool = False) -> Schedule:
        """The best schedule and its bound.

        Args:
            time_limit: CPU seconds.
            sequences: Sequences of operators inside given loops that are joined at most.
            anytime: First look for a good schedule in part of the space, for graphs that the limits may cut short.
        """
        self.most, self.scored = sequences, 0
        found = self._solve(time_limit, anytime)
        return replace(found, energy=None) if self.goal is Goal.LATENCY and self.leak == 0 else found

    def _solve(self, time_limit: float, anytime: bool) -> Schedule:
        began = clock.cpu_seconds()
        low = bound = self.goal.of(*self.total, self.leak)
        best = self.separate()
        if math.isinf(sum(self.total)):  # some operator fits nowhere
            return replace(best, bound=math.inf)
        if anytime:
            best = self._good(best, low, began + GOOD_SHARE * time_limit)
        self.stop = began + time_limit
        if anytime and best.parts and len(self.operators) > NEAR and best.value > low * (1 + STEPS[1]):
            self.floors = block_floors(self, best.parts, clock.cpu_seconds() + BLOCK_SHARE * time_limit)
            low = bound = max(low, self.floors.least(self.goal, self.leak))
        if best.value <= low * (1 + 1e-9):
            return replace(best, bound=low)
        try:
            for tried in range(1, len(STEPS) + 1):
                self.limit = sweep_limit(low, tried, best.value * (1 + 1e-12))
                found = self._within_limit()
                if found is not None:
                    return found
                bound = self.limit
                if self.limit >= best.value:
                    break
        except TimeUp:
            return replace(best, bound=min(bound, best.value))
        return replace(best, bound=best.value)

    def _good(self, best: Schedule, low: float, stop: float) -> Schedule:
        """A schedule from part of the space: every operator within its own limit, few operators under shared loops, few rows.

        Args:
            best: A schedule that is known.
            low: What none is below.
            stop: CPU seconds at which to end.
        """
        self.stop, self.limit, self.beam = stop, math.inf, BEAM
        try:
            for self.longest, slack in GOOD:
                limits = [self._near(own, slack) for own in self.least]
                found = self._least_of(limits)
                if found is not None and found.value < best.value:
                    best = found
                if best.value <= low * (1 + 1e-9) or (found is not None and self.longest > 1):
                    break
        except TimeUp:
            pass
        self.longest, self.beam = math.inf, math.inf
        return best

    def _near(self, own: tuple[float, float], slack: float) -> Limits:
        """What an operator may spend above its least, as part of a graph of `NEAR` operators."""
        share = min(1.0, NEAR / len(self.operators))
        energy, seconds = (max(share * whole - part, 0.0) for whole, part in zip(self.total, own, strict=True))
        value = self.goal.of(energy + own[0], seconds + own[1], self.leak)
        return Limits(self.goal, energy, seconds, value * (1 + slack), self.leak)

    def _within_limit(self) -> Schedule | None:
        """The optimum, if it is at most the limit."""
        return self._least_of(self._own_limits())

    def _own_limits(self) -> list[Limits]:
        """Of every operator, if the whole keeps the limit."""
        each = range(len(self.operators))
        return [self.floors.limits(i, self.goal, self.limit, self.leak) for i in each]

    def _least_of(self, limits: Sequence[Limits]) -> Schedule | None:
        """The best schedule of operators that keep their limits."""
        return self._best_of(self._whole(limits))

    def least_of_fronts(self) -> Schedule | None:
        """The best schedule within the limit of what the fronts hold."""
        return self._best_of(self._of_fronts())

    def _best_of(self, rows: Array) -> Schedule | None:
        if not len(rows):
            return None
        stop, most = self.stop, self.most
        self.stop = self.most = math.inf  # what is found is told
        values = [self.goal.of(float(e), float(s), self.leak) for e, s in rows[:, -2:]]
        best = int(np.argmin(values))
        energy, seconds = (float(v) for v in rows[best, -2:])
        parts = trace(self, rows[best])
        self.stop, self.most = stop, most
        return Schedule(values[best], values[best], energy + self.leak * seconds, seconds, parts)

    def _whole(self, limits: Sequence[Limits]) -> Array:
        """Rows of all operators that keep their limits."""
        limit_of: dict[object, Limits] = {}
        for shape, own in zip(self.shapes, limits, strict=True):  # operators of one shape share a front
            limit_of[shape] = limit_of[shape].joined(own) if shape in limit_of else own
        for shape, front in self.distinct.items():
            front.prepare(limit_of[shape], self.stop)
        return self._of_fronts()

    def _of_fronts(self) -> Array:
        """Rows of all operators from what the fronts hold."""
        self._parts: dict[object, Array] = {}
        return self.sequence(0, len(self.operators) - 1, frozenset(), ())

    def bound(self, floors: Floors, top: float, stop: float) -> float:
        """The least value of a window, or what it is not below (F7).

        Args:
            floors: Bounds of the operators before and behind each.
            top: A value that is reached.
            stop: CPU seconds at which to end.
        """
        self.floors = floors
        low = floors.least(self.goal, self.leak)
        self.stop, self.most, found = stop, math.inf, low
        try:
            for tried in range(1, len(STEPS) + 1):
                self.limit = sweep_limit(low, tried, top * (1 + 1e-12))
                rows = self._whole(self._own_limits())
                if len(rows):
                    return min(self.goal.of(float(e), float(s), self.leak) for e, s in rows[:, -2:])
                found = max(found, min(self.limit, top))
                if self.limit >= top:
                    break
        except TimeUp:
            pass
        return found

    def separate(self) -> Schedule:
        """A schedule in which nothing stays on the chip: the operators weigh seconds against energy alike.

        For a product of sums the weight is energy / seconds of the whole; a few rounds settle it.
        """
        best = Schedule(math.inf, math.inf, math.inf, math.inf)
        weight = self.leak
        for _ in range(4 if self.goal is Goal.EDP else 1):
            alone = {shape: front.alone(weight) for shape, front in self.distinct.items()}
            parts, energy, seconds = list[Part](), 0.0, 0.0
            for front, shape in zip(self.fronts, self.shapes, strict=True):
                found = alone[shape]
                if found is None:
                    return best
                energy, seconds = energy + found[0], seconds + found[1]
                parts.append(_alone(front.operator, found[0], found[1], front.own(found[2])))
            value = self.goal.of(energy, seconds, self.leak)
            if value >= best.value * (1 - 1e-12):
                break
            best = Schedule(value, 0.0, energy + self.leak * seconds, seconds, tuple(parts))
            weight = 2 * self.leak + energy / seconds if seconds else self.leak
        return best


def _front_of(operator: Operator) -> type[OperatorFront] | type[CopyFront] | type[JoinFront]:
    if not operator.copy:
        return OperatorFront
    return CopyFront if len(operator.operands) == 2 and operator.operands[0].axes else JoinFront


def _alone(operator: Operator, energy: float, seconds: float, mapping: OwnMapping) -> Part:
    """An operator that runs alone."""
    leaf = Leaf(operator, mapping.machine, mapping.nest, 0, ()) if mapping.nest else None
    bits = sum(b for _, _, b in leaf.nodes()) if leaf is not None else 0.0
    return Part((operator.name,), (), (), (), (), bits, energy, seconds, leaf)


def schedule(
    workload: Workload,
    machines: Sequence[Sequence[Machine]],
    goal: Goal,
    loops_per_dim: int,
    loops: float,
    time_limit: float = math.inf,
) -> Schedule:
    """The best schedule of a workload under LoopTree's rules."""
    return Fusion(workload.operators, machines, workload.intermediates, goal, loops_per_dim, loops).solve(time_limit)
