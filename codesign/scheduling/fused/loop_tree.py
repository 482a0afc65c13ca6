"""Trees of shared loops over a sequence of operators, by dynamic programming (F1-F5, docs/explanation/exact-mapper.md)."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from codesign.core import clock
from codesign.core.factors import divisors
from codesign.core.labels.program import STEPS, sweep_limit
from codesign.core.labels.sweep import Array
from codesign.formats.accelforge.workload import Workload
from codesign.mapping.looptree import Goal, Machine, Operator
from codesign.scheduling.fused.alike import Front, Patterns, renamed_front, shape_of
from codesign.scheduling.fused.blocks import Floors, block_floors
from codesign.scheduling.fused.group_bounds import Chip, GroupBounds, Outside, Pair
from codesign.scheduling.fused.operator_front import CopyFront, JoinFront, Limits, Loops, OperatorFront, TimeUp
from codesign.scheduling.fused.operator_front import Mapping as OwnMapping
from codesign.scheduling.fused.pareto import undominated
from codesign.scheduling.fused.schedule import Part, Schedule, alone_part
from codesign.scheduling.fused.sharing import CutTensor, SharedLoop, Sharing, State
from codesign.scheduling.fused.trace import Step, Steps, trace

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
        known: dict[object, Front] | None = None,
        aside: float = 0.0,
    ) -> None:
        self.single, self.machines = single, machines
        self.operators, self.goal, self.loops_per_dim, self.loops = operators, goal, loops_per_dim, loops
        self.leak = machines[0][0].leak_w
        self.shapes = [shape_of(o, m, between) for o, m in zip(operators, machines, strict=True)]
        known = {} if known is None else known
        self.distinct: dict[object, Front] = {}
        self.fronts: list[Front] = []
        for operator, machine, shape in zip(operators, machines, self.shapes, strict=True):
            if shape not in known:
                known[shape] = _front_of(operator)(operator, machine, between, goal, self.leak)
            self.distinct[shape] = known[shape]
            self.fronts.append(renamed_front(self.distinct[shape], operator))
        width = {t: front.width[t] for front in reversed(self.fronts) for t in front.tensors & between}
        joins = {
            out: tuple(t.tensor for t in o.operands if not t.output)
            for o in operators
            if _front_of(o) is JoinFront
            for out in (t.name for t in o.operands if t.output)
        }
        self.sharing = Sharing(operators, between, width, joins, cut)
        self.capacity = self.fronts[0].capacity - aside
        self.outside: Outside | None = None
        self._floors: Floors | None = None
        self.limit = math.inf
        self.stop, self.most, self.scored = math.inf, math.inf, 0
        self.longest, self.beam = math.inf, math.inf
        self._patterns = Patterns(operators, self.shapes, self.sharing.spans, cut, single)

    # ------------------------------------------------------------------ windows

    def window(self, first: int, last: int, goal: Goal, leak: float, known: dict[object, Front]) -> "Fusion":
        """The search over operators first..last alone: what others use of their tensors is free (F7)."""
        operators = self.operators[first : last + 1]
        machines = [[replace(m, leak_w=leak) for m in ms] for ms in self.machines[first : last + 1]]
        used, cut = frozenset(self.sharing.touching(first, last)), self.sharing.cut_of(first, last)
        return Fusion(operators, machines, used, goal, self.loops_per_dim, self.loops, self.single, cut, known)

    def pattern(self, first: int, last: int) -> object:
        """Equal for windows that differ in names only."""
        number, tensors = self._patterns.run(first, last)
        return number, frozenset((tensors[t], c) for t, c in self.sharing.cut_of(first, last).items())

    def group_bounds(self, least: Sequence[Mapping[Chip, Pair]]) -> GroupBounds:
        """What groups cost at least, from what each operator does with its tensors on the chip."""
        return GroupBounds(self.sharing, self.capacity, self.goal, self.leak, least)

    # ------------------------------------------------------------------ limits

    def bound_operators(self, stop: float = math.inf) -> Floors:
        """Search the least of every operator until the process has used `stop` CPU seconds, unless bounds are known."""
        if self._floors is None:
            self._floors = Floors.of([front.least(stop) for front in self.fronts])
        return self._floors

    @property
    def floors(self) -> Floors:
        """What operators take at least: of single ones, or of windows."""
        return self.bound_operators()

    @floors.setter
    def floors(self, floors: Floors) -> None:
        self._floors = floors

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
        return self.goal.of(energy + more, seconds + longer, self.leak)

    def _fitting(self, rows: Array, worth: Array) -> Array:
        """Which rows fit and are worth no more than the limit."""
        width = rows.shape[1] - 2
        return np.flatnonzero((worth <= self.limit) & (rows[:, :width].sum(axis=1) <= self.capacity))

    # ------------------------------------------------------------------ loops

    def more_loops(self, first: int, last: int, context: tuple[SharedLoop, ...]) -> Iterator[tuple[SharedLoop, ...]]:
        """Non-empty sequences of loops to add around operators first..last."""
        options = self.sharing.loop_dims(first, last)
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
            return rows[self._fitting(rows, self.goal.of(rows[:, -2] + more, rows[:, -1] + longer, self.leak))]
        rows = front.front(own, loops)
        free = sorted(t for t in front.tensors & self.sharing.cut.keys() if self.sharing.inside(t, operator, operator))
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
            none = np.zeros((0, len(context) + 3))
            every = np.concatenate([none, *(rows for _, _, rows in self.closed(first, last, chip, context))])
            self._parts[key] = every[undominated(every)]
        return self._parts[key]

    def closed(
        self, first: int, last: int, chip: frozenset[str], context: tuple[SharedLoop, ...]
    ) -> Iterator[tuple[tuple[SharedLoop, ...], Array, Array]]:
        """Loops that may be added around operators first..last, the rows inside them, and those rows as rows of one part."""
        depth = len(context)
        for loops in self.more_loops(first, last, context):
            inner = self.sequence(first, last, chip, context + loops)
            if len(inner):
                rows = np.empty((len(inner), depth + 3))
                rows[:, :depth] = inner[:, :depth]
                rows[:, depth] = inner[:, depth:-2].sum(axis=1)
                rows[:, depth + 1 :] = inner[:, -2:]
                yield loops, inner, rows

    def sequence(
        self, first: int, last: int, chip: frozenset[str], context: tuple[SharedLoop, ...], steps: Steps | None = None
    ) -> Array:
        """Rows of operators first..last, one part after another at the same loops; tensors between parts stay or go out.

        `chip` holds what is decided outside. On request the steps behind the rows are told; that is not counted as a search.
        """
        if steps is None:
            self.scored += 1
            if self.scored > self.most or clock.cpu_seconds() > self.stop:
                raise TimeUp
        else:
            steps[first, frozenset()] = [None]
        depth = len(context)
        states: dict[State, Array] = {(first, frozenset()): np.zeros((1, depth + 3))}
        for at in range(first, last + 1):
            for state in [s for s in states if s[0] == at]:
                for end, grown, stay in self.sharing.next_parts(first, last, at, state[1], context, self.longest):
                    more = self.part(at, end, chip | grown, context)
                    if not len(more):
                        continue
                    held = self.sharing.held(grown, context)
                    joined, before, added = self.joined(states[state], more, held, first, end, depth)
                    if not len(joined):
                        continue
                    key = end + 1, stay
                    both = np.concatenate([states[key], joined]) if key in states else joined
                    kept = undominated(both)
                    states[key] = both[kept]
                    if steps is not None:
                        new = [
                            Step(state, int(i), end, chip | grown, more[j]) for i, j in zip(before, added, strict=True)
                        ]
                        every = [*steps.get(key, []), *new]
                        steps[key] = [every[k] for k in kept]
        return states.get((last + 1, frozenset()), np.zeros((0, depth + 3)))

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
        self.bound_operators(began + GOOD_SHARE * time_limit)
        low = bound = self.goal.of(*self.total, self.leak)
        best = self.separate(began + time_limit)
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
                limits = [self._near(front.least(stop), slack) for front in self.fronts]
                self._prepare(limits)
                found = self.least_of_fronts()
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
        self._prepare(self._own_limits())
        return self.least_of_fronts()

    def _own_limits(self) -> list[Limits]:
        """Of every operator, if the whole keeps the limit."""
        each = range(len(self.operators))
        return [self.floors.limits(i, self.goal, self.limit, self.leak) for i in each]

    def least_of_fronts(self) -> Schedule | None:
        """The best schedule within the limit of what the fronts hold."""
        rows = self._of_fronts()
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

    def _prepare(self, limits: Sequence[Limits]) -> None:
        """Have the fronts hold what keeps the limits of all operators."""
        limit_of: dict[object, Limits] = {}
        for shape, own in zip(self.shapes, limits, strict=True):  # operators of one shape share a front
            limit_of[shape] = limit_of[shape].joined(own) if shape in limit_of else own
        for shape, front in self.distinct.items():
            front.prepare(limit_of[shape], self.stop)

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
                self._prepare(self._own_limits())
                rows = self._of_fronts()
                if len(rows):
                    return min(self.goal.of(float(e), float(s), self.leak) for e, s in rows[:, -2:])
                found = max(found, min(self.limit, top))
                if self.limit >= top:
                    break
        except TimeUp:
            pass
        return found

    def separate(self, stop: float = math.inf) -> Schedule:
        """A schedule in which nothing stays on the chip: the operators weigh seconds against energy alike.

        For a product of sums the weight is energy / seconds of the whole; a few rounds settle it, until the process has used `stop` CPU seconds.
        """
        best = Schedule(math.inf, math.inf, math.inf, math.inf)
        weight = self.leak
        for _ in range(4 if self.goal is Goal.EDP else 1):
            alone = {shape: front.alone(weight, stop) for shape, front in self.distinct.items()}
            parts, energy, seconds = list[Part](), 0.0, 0.0
            for front, shape in zip(self.fronts, self.shapes, strict=True):
                found = alone[shape]
                if found is None:
                    return best
                energy, seconds = energy + found[0], seconds + found[1]
                parts.append(alone_part(front.operator, found[0], found[1], front.own(found[2])))
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
