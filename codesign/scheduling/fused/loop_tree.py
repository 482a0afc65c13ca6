"""Trees of shared loops over a sequence of operators, by dynamic programming (F1-F5, docs/explanation/exact-mapper.md)."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from codesign.core import clock
from codesign.core.factors import divisors
from codesign.cost.looptree_graph import GraphCost, Leaf, follows, graph_cost, parts_of
from codesign.formats.accelforge.workload import Workload
from codesign.mappers.labels.program import STEPS, sweep_limit
from codesign.mappers.labels.sweep import Array
from codesign.mapping.looptree import Goal, Machine, Operator
from codesign.scheduling.fused.alike import Front, Patterns, renamed_front, shape_of
from codesign.scheduling.fused.group_bounds import Outside
from codesign.scheduling.fused.operator_front import CopyFront, JoinFront, Limits, Loops, Mapping, OperatorFront, TimeUp
from codesign.scheduling.fused.pareto import undominated
from codesign.scheduling.fused.shared_loops import SharedLoop
from codesign.scheduling.fused.trace import Part, trace

GOOD_SHARE = 0.3
"""Part of the time for a first good schedule."""

GOOD = ((1, 0.02), (4, 0.02), (4, 0.1), (4, 0.5))
"""Operators under shared loops at most, and how far above its bound each operator may take `NEAR` of them, one attempt after the other."""

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
        fronts: Of operators by their shapes, shared with other searches; new shapes are added.
        aside: Bits of the shared level that are taken all the time.
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
        fronts: dict[object, Front] | None = None,
        aside: float = 0.0,
    ) -> None:
        self.single = single
        self.operators, self.goal, self.loops_per_dim, self.loops = operators, goal, loops_per_dim, loops
        self.between = between
        self.leak = machines[0][0].leak_w
        self.users = {t: [i for i, o in enumerate(operators) if any(t == x.name for x in o.operands)] for t in between}
        self.joins = {
            out: tuple(t.tensor for t in o.operands if not t.output)
            for o in operators
            if _front_of(o) is JoinFront
            for out in (t.name for t in o.operands if t.output)
        }
        self.shapes = [shape_of(o, m, between) for o, m in zip(operators, machines, strict=True)]
        known = {} if fronts is None else fronts
        for operator, machine, shape in zip(operators, machines, self.shapes, strict=True):
            if shape not in known:
                known[shape] = _front_of(operator)(operator, machine, between, goal, self.leak)
        self.distinct: dict[object, Front] = {shape: known[shape] for shape in self.shapes}
        self.fronts = [renamed_front(known[s], o) for s, o in zip(self.shapes, operators, strict=True)]
        self.capacity = self.fronts[0].capacity - aside
        self.outside: Outside | None = None
        bounded = fronts is None  # else by `codesign.scheduling.fused.group_bounds`
        least = {shape: front.least() if bounded else (0.0, 0.0) for shape, front in self.distinct.items()}
        self.least = [least[shape] for shape in self.shapes]
        self.total = (sum(e for e, _ in self.least), sum(s for _, s in self.least))
        self.limit = math.inf
        self.stop, self.most, self.scored = math.inf, math.inf, 0
        self.longest, self.beam = math.inf, math.inf
        self._patterns = Patterns(operators, self.shapes, self.users, single)
        self._of = [sorted({t.name for t in o.operands} & between) for o in operators]
        self._touching: dict[tuple[int, int], list[str]] = {}
        self._apart: dict[int, int] = {}
        self._loop_dims: dict[tuple[int, int], list[tuple[tuple[int, str], ...]]] = {}
        self._indexed: dict[tuple[str, tuple[SharedLoop, ...]], bool] = {}

    # ------------------------------------------------------------------ limits

    def rest(self, first: int, last: int) -> tuple[float, float]:
        """Least energy and seconds of the operators outside first..last."""
        if self.outside is not None:
            return self.outside.rest(first, last)
        inside = self.least[first : last + 1]
        return self.total[0] - sum(e for e, _ in inside), self.total[1] - sum(s for _, s in inside)

    def prune(self, rows: Array, first: int, last: int) -> Array:
        """Which rows of operators first..last may be part of something within the limit."""
        return self._worth(rows, *self.rest(first, last))

    def _worth(self, rows: Array, energy: float, seconds: float) -> Array:
        """Which rows may be part of something within the limit that takes this besides."""
        e, s = rows[:, -2] + energy, rows[:, -1] + seconds
        leaked = e + self.leak * s
        worth = leaked if self.goal is Goal.ENERGY else s if self.goal is Goal.LATENCY else leaked * s
        width = rows.shape[1] - 2
        return np.flatnonzero((worth <= self.limit) & (rows[:, :width].sum(axis=1) <= self.capacity))

    # ------------------------------------------------------------------ tensors

    def inside(self, tensor: str, first: int, last: int) -> bool:
        """Whether only operators first..last use the tensor."""
        users = self.users[tensor]
        return first <= users[0] and users[-1] <= last

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
        found, hopes = [], False
        for dim in self.operators[first].bounds:
            chosen = {first: dim}
            pending, good = [first], True
            while pending and good:
                user = pending.pop()
                for tensor in self._of[user]:
                    if not self.inside(tensor, first, last):
                        continue
                    rank = self.axis_of(user, tensor, chosen[user])
                    if rank is None:
                        continue
                    for other in self.users[tensor]:
                        match = self.dim_of(other, tensor, rank)
                        if match is None or chosen.get(other, match) != match:
                            good = False
                        elif other not in chosen:
                            chosen[other] = match
                            pending.append(other)
            bounds = {self.operators[u].bounds[d] for u, d in chosen.items()}
            alike = good and len(bounds) == 1 and bounds.pop() > 1
            hopes = hopes or (alike and any(self._reaches(u, d, first, last) for u, d in chosen.items()))
            if (
                alike
                and len(chosen) == last - first + 1
                and follows([(self.operators[u], d) for u, d in sorted(chosen.items())])
            ):
                found.append(tuple(sorted(chosen.items())))
        self._loop_dims[first, last] = found
        if not hopes:  # more operators inside only add to what must agree, and none of them is reached
            self._apart[first] = min(last, self._apart.get(first, last))
        return found

    def _reaches(self, operator: int, dim: str, first: int, last: int) -> bool:
        """Whether the dimension indexes an intermediate that operators after `last` use, none before `first`."""
        of = (t for t in self._of[operator] if first <= self.users[t][0] and last < self.users[t][-1])
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
        energy, seconds = self.rest(first, last)
        for i in range(first, last + 1):
            loops = tuple((loop.of(i), loop.tile) for loop in context)
            least = self.fronts[i].cheapest(loops, None if self.outside is None else self.outside.chips[i])
            if least is None:
                return False
            energy, seconds = energy + least[0], seconds + least[1]
        return self.goal.of(energy, seconds, self.leak) <= self.limit

    # ------------------------------------------------------------------ fronts

    def leaf(self, operator: int, chip: frozenset[str], context: tuple[SharedLoop, ...]) -> Array:
        """Rows of one operator inside the loops."""
        front = self.fronts[operator]
        loops: Loops = tuple((loop.of(operator), loop.tile) for loop in context)
        own = chip & front.tensors
        if self.outside is None:
            rows = front.front(own, loops)
            return rows[self.prune(rows, operator, operator)]
        if (operator, own) not in self.outside.on:
            return np.zeros((0, len(loops) + 3))
        rows = front.front(own, loops)
        return rows[self._worth(rows, *self.outside.on[operator, own])]

    def part(self, first: int, last: int, chip: frozenset[str], context: tuple[SharedLoop, ...]) -> Array:
        """Rows of operators first..last as one part of a sequence: one operator, or several under more loops.

        Runs of operators that differ in names only have the same rows.
        """
        key = self._patterns.key(first, last, chip, context)
        if self.outside is not None:  # what is outside differs
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
            if end - at >= self.longest or end > self._apart.get(at, last):
                return
            if (context and (at, end) == (first, last)) or (end > at and not self.loop_dims(at, end)):
                continue
            for grown, stay in self._choices(first, last, at, end, live, context):
                if context and end < last and not stay:
                    continue  # nothing holds the parts together: the same as two groups
                yield end, grown, stay

    def _choices(
        self, first: int, last: int, at: int, end: int, live: frozenset[str], context: tuple[SharedLoop, ...]
    ) -> Iterator[tuple[frozenset[str], frozenset[str]]]:
        """For a part at..end: tensors on the chip during it, and those that stay on it afterwards."""
        inner = [t for t in self.touching(at, end) if self.inside(t, first, last)]
        new = [t for t in inner if self.users[t][0] >= at and not self.inside(t, at, end)]
        for bits in itertools.product((False, True), repeat=len(new)):
            chosen = frozenset(t for t, b in zip(new, bits, strict=True) if b)
            if context and not all(self.indexed(t, context) for t in new):
                continue
            grown = live | chosen
            stay = frozenset(t for t in grown if self.users[t][-1] > end)
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
    ) -> Mapping:
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
        return Limits(energy, seconds, value * (1 + slack), self.leak)

    def _within_limit(self) -> Schedule | None:
        """The optimum, if it is at most the limit."""
        return self._least_of([Limits(*self.rest(i, i), self.limit, self.leak) for i in range(len(self.operators))])

    def _least_of(self, limits: Sequence[Limits]) -> Schedule | None:
        """The best schedule of operators that keep their limits."""
        limit_of = dict(zip(self.shapes, limits, strict=True))
        for shape, front in self.distinct.items():
            front.prepare(limit_of[shape], self.stop)
        return self.least_of_fronts()

    def least_of_fronts(self) -> Schedule | None:
        """The best schedule within the limit of what the fronts hold."""
        self._parts: dict[object, Array] = {}
        rows = self.sequence(0, len(self.operators) - 1, frozenset(), ())
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


def _alone(operator: Operator, energy: float, seconds: float, mapping: Mapping) -> Part:
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
