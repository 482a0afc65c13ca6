"""One profile with all places and keep sets of its nodes (P4-P8, docs/explanation/exact-mapper.md)."""

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from codesign.core.labels.program import LabelProgram, Link, Sweep, lattice_graph, prime_steps
from codesign.core.labels.sweep import MODES, Array, Graph, Limits, Stage
from codesign.cost.arrays import UNBOUNDED
from codesign.mappers.exact.even.profile import EvenProfile
from codesign.mappers.exact.even.shared_problem import EvenProblem
from codesign.mappers.exact.incumbent import Goal, whole_cycles
from codesign.mappers.exact.uneven.segments import (
    Action,
    Automaton,
    Plain,
    Segment,
    Status,
    automaton,
    crossed,
    parents,
    segments,
)
from codesign.mappers.exact.uneven.windows import AxisDim, Windows, windows_of
from codesign.mapping.constraints import Keep
from codesign.mapping.nest import IntArray

_STATES_AS_LABELS = 2.0
"""What a cell and state costs beside its labels."""

MOST_CELLS = 20_000_000
"""Cells and states of a segment beyond which a profile is not swept."""

LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class Step:
    """One step of a walk, seen from outside.

    Args:
        loop: The dimension looped over and the factor, or none.
        action: What else is done, or none.
        segment: Which segment.
        cell: The tile it leads to.
    """

    loop: tuple[int, int] | None
    action: Action | None
    segment: Segment
    cell: int


@dataclass(frozen=True)
class Walk:
    """A walk from the whole to one point.

    Args:
        cycles: Cycles of the slowest port: the label's for watched ports, a bound for all others.
        value: What is minimised.
        start: The first keeping level of each tensor.
        steps: Outermost first.
    """

    cycles: float
    value: float
    start: tuple[Status, ...]
    steps: tuple[Step, ...]


class Places:
    """One profile: every fan-out's factors are known, the places of loops and nodes are open.

    Args:
        row: Vector of every fan-out.
        quickest: Cycles that no mapping of the profile can beat.
        counts_energy: Whether energy matters.
        relaxed: Whether windows slide as well as any can (P14); the values are then lower bounds.
    """

    def __init__(
        self, problem: EvenProblem, row: IntArray, quickest: float, counts_energy: bool, relaxed: bool
    ) -> None:
        self.problem, self.quickest = problem, quickest
        self.weight = np.ones(1 + problem.n_ports)
        self.weight[0] = float(counts_energy)
        self.profile = EvenProfile(problem, row)
        self.watch: list[int] = []
        self.segments = self._segments()
        self.lattice = self.profile.lattice
        self.words = self.profile.words
        self.bits: Array = self.words / self.left * problem.instance.problem.element_bits.T[:, :, None]
        exact = self._tensors()
        self.moved = self._least_words(exact) if relaxed else self.words
        self.tensors = tuple(Plain(x.tensor, x.column, x.relevant) for x in exact) if relaxed else exact
        self.machines = self._machines()

    @cached_property
    def left(self) -> Array:
        """``N`` iterations left outside each tile."""
        value = self.lattice.value
        return np.asarray((value[:, -1:] / value).prod(axis=0))

    @cached_property
    def graph(self) -> Graph:
        """The lattice as the sweeps want it."""
        return lattice_graph(tuple(prime_steps(sizes) for sizes in self.lattice.divisors))

    def _segments(self) -> tuple[Segment, ...]:
        """What stands between fan-outs of more than one child, innermost first."""
        return segments(tuple(bool((row > 1).any()) for row in self.profile.spatial), self.problem.decisions)

    def _tensors(self) -> tuple[Plain | Windows, ...]:
        """What may be done with each tensor."""
        instance = self.problem.instance
        found: list[Plain | Windows] = []
        for t, column in enumerate(zip(*self.problem.decisions, strict=True)):
            relevant = tuple(bool(r) for r in instance.relevant[t])
            if not instance.sliding_axes[t]:
                found.append(Plain(t, column, relevant))
                continue
            axes = tuple(
                tuple(AxisDim(d, int(instance.coef[t, :, d].max()), self.lattice.divisors[d]) for d in axis)
                for axis in instance.sliding_axes[t]
            )
            inside = self.profile.inside.astype(int)
            within = [tuple(tuple(int(inside[v, d.dim]) for d in axis) for axis in axes) for v in range(len(inside))]
            others = tuple(
                (d, sizes) for d, sizes in enumerate(self.lattice.divisors) if not relevant[d] and len(sizes) > 1
            )
            by_segment = tuple(within[s.last] for s in self.segments)
            found.append(windows_of(t, column, relevant, axes, by_segment, tuple(within), others))
        return tuple(found)

    def _least_words(self, tensors: tuple[Plain | Windows, ...]) -> Array:
        """``T x L x N`` words that enter at least, whatever way windows slide (P14)."""
        least = self.words.copy()
        for t, tensor in enumerate(tensors):
            if not isinstance(tensor, Windows):
                continue
            for i, segment in enumerate(self.segments):
                for v in range(segment.first, segment.last + 1):
                    for a, axis in enumerate(tensor.axes):
                        table = np.ones([len(d.sizes) for d in axis])
                        for entries, share in tensor.least_shares(i, v, a).items():
                            table[entries] = share
                        share = table[tuple(self.entries[d.dim] for d in axis)]
                        least[t, v] = np.minimum(least[t, v], self.words[t, v] * share)
                    least[t, v] = np.maximum(least[t, v], self.profile.fewest[t, v])
        return least

    def _machines(self) -> tuple[Automaton, ...]:
        """The states of every segment, innermost first."""
        starts = tuple(tuple(Status((), p) for p in parents(column, len(column))) for column in self._columns)
        found = []
        for i, segment in enumerate(self.segments):
            machine = automaton(self.tensors, i, segment, starts)
            if len(machine.states) * self.lattice.n_tiles > MOST_CELLS:
                raise OverflowError("too many states")
            found.append(machine)
            ends = [crossed(s) for s, may in zip(machine.states, machine.ends, strict=True) if may]
            starts = tuple(tuple(dict.fromkeys(s[t] for s in ends)) for t in range(len(starts)))
        return tuple(found)

    @property
    def _columns(self) -> tuple[tuple[Keep, ...], ...]:
        return tuple(zip(*self.problem.decisions, strict=True))

    # ---- what places cost ----------------------------------------------------------------------

    @property
    def timed(self) -> int:
        """Charges that are energy or cycles."""
        return 1 + len(self.watch)

    @cached_property
    def cells(self) -> float:
        """Work of the bounds, in labels."""
        return _STATES_AS_LABELS * sum(len(m.states) for m in self.machines) * self.lattice.n_tiles

    def also_watch(self, port: int) -> None:
        """Follow the cycles of one more port (from 1)."""
        self.watch = sorted({*self.watch, port})
        self.__dict__.pop("program", None)

    def contended(self, segment: Segment) -> list[int]:
        """Levels of a segment whose capacity the tiles of several tensors may exceed together, the smallest first."""
        capacity = self.problem.instance.problem.capacity_bits
        found = []
        for v in range(segment.first, segment.last + 1):
            kept = [t for t, k in enumerate(self.problem.decisions[v]) if k is not Keep.NO]
            if len(kept) > 1 and capacity[v] != UNBOUNDED and self.bits[kept, v, -1].sum() > capacity[v]:
                found.append(v)
        return sorted(found, key=lambda v: int(capacity[v]))

    def _stage(self, segment: Segment, machine: Automaton) -> Stage:
        """What a segment's actions take in the first contended level, and cost: energy, watched cycles, shares of further contended levels."""
        capacity, n = self.problem.instance.problem.capacity_bits, self.lattice.n_tiles
        scarce = self.contended(segment)
        kinds = [0, *self.watch]
        count = len(machine.actions)
        words, charge = np.zeros((count, n)), np.zeros((count, n, self.timed + max(0, len(scarce) - 1)))
        for a, action in enumerate(machine.actions):
            t = action.tensor
            charge[a, :, : self.timed] += self._cost(action)[:, kinds]
            for d, entry in action.only:
                charge[a, self.entries[d] != entry] = np.inf
            for v in action.places:
                bits = self.bits[t, v]
                if scarce and v == scarce[0]:
                    words[a] += bits
                elif v in scarce:
                    charge[a, :, self.timed + scarce.index(v) - 1] += bits / capacity[v]
                charge[a, bits > capacity[v]] = np.inf
        most = float(capacity[scarce[0]]) if scarce else LARGEST
        return Stage(machine.mask, machine.by_from, machine.by_to, words, charge, self._need(machine, scarce), most)

    def _need(self, machine: Automaton, scarce: list[int]) -> Array:
        """``cells x states`` bits still to come at least; infinite where a walk cannot stand with that state."""
        n, shape = self.lattice.n_tiles, tuple(map(len, machine.statuses))
        need = np.zeros((n, *shape))
        for t, statuses in enumerate(machine.statuses):
            own = np.zeros((n, len(statuses)))
            for s, status in enumerate(statuses):
                if scarce and self.problem.decisions[scarce[0]][t] is Keep.YES and status.parent >= scarce[0]:
                    own[:, s] = self.bits[t, scarce[0]]
                for d, entry, larger in self.tensors[t].stands(status):
                    sizes = self.lattice.value[d]
                    size = self.lattice.divisors[d][entry]
                    own[(sizes % size != 0) if larger else (sizes != size), s] = np.inf
            need += own.reshape(n, *[-1 if u == t else 1 for u in range(len(shape))])
        return need.reshape(n, -1)

    def _cost(self, action: Action) -> Array:
        """``N x (1 + ports)`` what an action costs where the walk stands."""
        t, price, fixed = action.tensor, self.profile.price, self.profile.fixed
        total = np.zeros((self.lattice.n_tiles, 1 + self.problem.n_ports))
        for v, p in action.pays:
            total += self.moved[t, v][:, None] * price[:, t, v, p] + fixed[:, t, v, p]
        for v, p, run in action.slides:
            whole, kept = self._window(t, v, run.axis, run.origin, run.travel)
            steps = self.lattice.value[run.dim] / self.lattice.divisors[run.dim][run.origin[run.which]]
            words = self.left * (whole + (steps - 1.0) * (whole - kept))
            total += words[:, None] * price[:, t, v, p] + fixed[:, t, v, p]
        for part, chain in action.shares:
            for v, p in chain.pairs:
                whole, kept = self._window(t, v, chain.axis, chain.origin, chain.first)
                saved = part * self.left * (kept if chain.first else whole)
                total += saved[:, None] * price[:, t, v, p]
        return np.asarray(total * self.weight)

    def _window(self, t: int, v: int, a: int, origin: tuple[int, ...], travel: int) -> tuple[Array, Array]:
        """Words of the tile of level v with these sizes along an axis, and those a window moved so far keeps."""
        instance, extent = self.problem.instance, 1.0
        at = np.arange(self.lattice.n_tiles)
        for d, entry in zip(instance.sliding_axes[t][a], origin, strict=True):
            at = at + (entry - self.entries[d]) * int(self.lattice.grid.stride[d])
            size = self.lattice.divisors[d][entry] * self.profile.inside[v, d]
            extent += float(instance.coef[t, :, d].max() * (size - 1.0))
        whole = (self.words[t, v] / self.left)[at]
        return whole, whole / extent * max(0.0, extent - travel)

    @cached_property
    def entries(self) -> IntArray:
        """``D x N`` position of the size of every dimension."""
        at = np.arange(self.lattice.n_tiles)
        return np.array(
            [at // s % n for s, n in zip(self.lattice.grid.stride, self.lattice.grid.n_divisors, strict=True)], np.int64
        ).reshape(len(self.lattice.divisors), self.lattice.n_tiles)

    def allowed(self, outer: Segment) -> Array:
        """``N`` tiles at which the walk may enter a segment: those that the fan-outs inside it allow (D7)."""
        fits = np.ones(self.lattice.n_tiles, np.bool_)
        inner = min((s.first for s in self.segments if s.first > outer.last), default=self.problem.instance.n_levels)
        for penalty in self.profile.penalty[outer.last + 1 : inner + 1, 0]:  # where nothing is kept
            fits &= np.isfinite(penalty)
        return fits

    @cached_property
    def program(self) -> LabelProgram:
        """The segments as stages, the innermost first."""
        stages, links = list[Stage](), list[Link]()
        for i, (segment, machine) in enumerate(zip(self.segments, self.machines, strict=True)):
            stages.append(self._stage(segment, machine))
            links.append(Link(self.allowed(segment), self._into(i)))
        return LabelProgram(self.graph, stages, links, self.timed)

    def _into(self, i: int) -> IntArray:
        """For each state of segment `i` the state of the next segment out that it becomes (0: the end), -1 if it may not end."""
        machine, into = self.machines[i], np.full(len(self.machines[i].states), -1, np.int64)
        for s, state in enumerate(machine.states):
            if machine.ends[s]:
                into[s] = self.machines[i + 1].number[crossed(state)] if i + 1 < len(self.machines) else 0
        return into

    @cached_property
    def starts(self) -> tuple[list[tuple[Status, ...]], Array]:
        """The statuses at the MACs, and what their words cost: ``starts x (1 + ports)``."""
        n = self.problem.instance.n_levels
        states = list(product(*[[Status((), p) for p in parents(c, n)] for c in self._columns]))
        return states, np.array([self._start_cost(state) for state in states])

    def _start_cost(self, state: tuple[Status, ...]) -> Array:
        n, cost = self.problem.instance.n_levels, np.zeros(1 + self.problem.n_ports)
        cost[0] = self.profile.constant
        for t, status in enumerate(state):
            price, once = self.profile.price[:, t, n, status.parent], self.profile.fixed[:, t, n, status.parent]
            cost += price * self.profile.fewest[t, n] + once
        return cost * self.weight

    def slowest_unwatched(self, walk: Walk) -> int | None:
        """The port that is not watched and takes longest on a walk (from 1); None if none takes longer than the label says."""
        busy = self._busy(walk)
        others = [j for j in range(1, len(busy)) if j not in self.watch]
        slow = max(others, key=lambda j: float(busy[j]), default=None)
        return slow if slow is not None and whole_cycles(float(busy[slow])) > walk.cycles else None

    def _busy(self, walk: Walk) -> Array:
        """Energy and cycles of every port: ``1 + ports``."""
        total = self._start_cost(walk.start)
        for step in walk.steps:
            if step.action is not None:
                total = total + self._cost(step.action)[step.cell]
        return np.asarray(total)

    # ---- the sweeps ----------------------------------------------------------------------------

    def least(self) -> tuple[float, float]:
        """Lower bounds on energy and cycles: every charge for itself, tensors fitting alone."""
        to_go = self.program.start_to_go
        assert to_go is not None
        states, cost = self.starts
        number = self.machines[0].number
        total = np.array([to_go[0, number[s], : self.timed] for s in states]) + cost[:, [0, *self.watch]]
        least = total.min(axis=0)
        return float(least[0]), max([self.quickest, *(whole_cycles(float(c)) for c in least[1:])])

    def best(self, goal: Goal, limit: float) -> Walk | None:
        """The mapping of least value by energy and watched ports, if that is at most `limit`."""
        program = self.program
        if not self.allowed(self.segments[0])[0]:
            return None
        limits = Limits(
            self.timed, float(self.quickest), 0.0, LARGEST, MODES[goal.objective.value], 0.0, float(min(limit, LARGEST))
        )
        states, cost = self.starts
        numbers = np.array([self.machines[0].number[s] for s in states], np.int64)
        begin, order = program.begin(numbers, cost[:, [0, *self.watch]])
        sweeps = program.run(begin, limits)
        self.spent = self.cells + sum(float(len(s.labels.rows)) for s in sweeps)
        return self._least_label(goal, limit, sweeps, [states[i] for i in order])

    def _least_label(
        self, goal: Goal, limit: float, sweeps: list[Sweep], started: list[tuple[Status, ...]]
    ) -> Walk | None:
        best: tuple[float, float, float, int] | None = None
        for label, charges in zip(*self.program.complete(sweeps), strict=True):
            energy = float(charges[0])
            cycles = max([self.quickest, *(whole_cycles(float(c)) for c in charges[1:])])
            found = goal.value(energy, cycles), energy, cycles, int(label)
            if found[0] <= limit and (best is None or found < best):
                best = found
        if best is None:
            return None
        value, _, cycles, number = best
        walk, first = self._trace(sweeps, number)
        return Walk(cycles, value, started[first], tuple(walk))

    def _trace(self, sweeps: list[Sweep], label: int) -> tuple[list[Step], int]:
        """The steps of a label, outermost first, and the number of the label at the MACs that it began with."""
        walk: list[Step] = []
        moves, first = self.program.trace(sweeps, label)
        for move in moves:
            machine, segment = self.machines[move.stage], self.segments[move.stage]
            if move.transition is not None:
                walk.append(Step(None, machine.actions[int(move.transition[3])], segment, move.cell))
            elif move.inner >= 0:
                walk.append(Step(self._loop(move.inner, move.cell), None, segment, move.cell))
        return walk, first

    def _loop(self, inner: int, outer: int) -> tuple[int, int]:
        factors = self.lattice.value[:, outer] / self.lattice.value[:, inner]
        d = int(np.argmax(factors))
        return d, int(factors[d])
