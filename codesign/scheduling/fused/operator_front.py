"""What one operator can do inside given shared loops: bits held at each depth, energy, seconds (F3, docs/explanation/exact-mapper.md)."""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Mapping as Mapping_
from dataclasses import dataclass, replace

import numpy as np

from codesign.core import clock
from codesign.core.errors import UserError
from codesign.core.labels.sweep import Array
from codesign.cost.looptree import Hold, Loop, Nest, Store
from codesign.mappers.uneven.levels import Case, Placed
from codesign.mappers.uneven.nest import nest_of
from codesign.mappers.uneven.profiles import profiles
from codesign.mappers.uneven.search import search
from codesign.mappers.uneven.space import Space
from codesign.mapping.looptree import Factors, Goal, Machine, Operator
from codesign.scheduling.fused.pareto import undominated

Loops = tuple[tuple[str, int], ...]
"""Shared loops of an operator, outermost first: dimension and tile inside."""


Keeps = tuple[frozenset[str], ...]
"""The tensors that each memory holds."""


class TimeUp(Exception):  # noqa: N818 - not an error: the search ends with the best it has
    """The time limit has come."""


@dataclass(frozen=True)
class Limits:
    """What the other operators add at least, and what the whole must not exceed.

    Args:
        goal: What is limited.
        energy, seconds: Of the others.
        value: Of the objective.
        leak: Watts of leakage.
    """

    goal: Goal
    energy: float
    seconds: float
    value: float
    leak: float

    def covers(self, other: "Limits") -> bool:
        """Whether whatever keeps the other limits keeps these."""
        return (
            self.goal is other.goal
            and self.energy <= other.energy
            and self.seconds <= other.seconds
            and self.value >= other.value
            and self.leak == other.leak
        )

    def joined(self, other: "Limits") -> "Limits":
        """What covers both, of one goal and leakage."""
        energy, seconds = min(self.energy, other.energy), min(self.seconds, other.seconds)
        return replace(self, energy=energy, seconds=seconds, value=max(self.value, other.value))


class _Open:
    """All labels of a case at the shared level."""

    def __init__(self, case: Case, goal: Goal, limits: Limits) -> None:
        self.case, self.goal, self.limits = case, goal, limits
        self.watch, self.least, self.floor = case.watch, case.least, case.floor()
        offsets, labels = np.zeros(1, np.int64), np.zeros((0, 1 + len(case.watch)))
        sweeps = case.labels(limits.goal, limits.value, limits.energy, limits.seconds, limits.leak)
        if len(sweeps) == len(case.levels):
            offsets, labels = sweeps[-1].labels.offsets, sweeps[-1].labels.rows.copy()
            labels[:, 1] -= limits.energy
        self.offsets, self.labels = offsets, labels
        level = case.levels[-1]
        self.states = {s: i for i, s in enumerate(case.machine_states[level].states) if all(o < 2 for o in s)}
        self.words, self.charges = case.words[level], case.charges[level]
        space = case.space
        self.entries = {
            d: {round(t * space.inside(d, level)): e for e, t in enumerate(space.lines[d].tiles)} for d in space.dims
        }
        self.strides = dict(zip(space.live, space.graph.strides.tolist(), strict=True))

    def cells(self, loops: Loops) -> list[int] | None:
        """The cell inside each number of the loops; None if the fan-outs do not allow these tiles."""
        space = self.case.space
        now = {d: len(space.lines[d].tiles) - 1 for d in space.dims}
        found = [space.cells - 1]
        for dim, tile in loops:
            entry = self.entries[dim].get(tile)
            if entry is None or entry > now[dim]:
                return None
            now[dim] = entry
            found.append(sum(now[d] * s for d, s in self.strides.items()))
        return found

    def rows(self, loops: Loops) -> list[Array]:
        """Rows for every set of nodes placed inside and every depth of the others: see `OperatorFront.front`."""
        return [row for row, _ in self.placed_rows(loops)]

    def placed_rows(self, loops: Loops) -> list[tuple[Array, tuple[tuple[int, int], ...]]]:
        """The same with the nodes that stand among the loops and the number of loops outside each."""
        cells = self.cells(loops)
        if cells is None or len(self.offsets) == 1:
            return []
        depth, floor = len(loops), self.floor
        n_states = self.case.machine_states[self.case.levels[-1]].mask.shape[0]
        found = []
        for state, number in self.states.items():
            lo, hi = self.offsets[cells[-1] * n_states + number], self.offsets[cells[-1] * n_states + number + 1]
            outside = [i for i, o in enumerate(state) if o == 0]
            if lo == hi or (outside and not depth):
                continue
            labels = self.labels[lo:hi]
            for depths in itertools.product(range(depth), repeat=len(outside)):
                held, charge = np.zeros(depth), np.zeros(self.charges.shape[2])
                for node, d in zip(outside, depths, strict=True):
                    held[d] += self.words[node, cells[d]]
                    charge = charge + self.charges[node, cells[d]]
                row = np.empty((hi - lo, depth + 3))
                row[:, :depth] = held
                row[:, depth] = labels[:, 0]
                row[:, depth + 1] = labels[:, 1] + charge[0]
                row[:, depth + 2] = (
                    floor if charge.size == 1 else np.maximum(floor, (labels[:, 2:] + charge[1:]).max(axis=1))
                )
                found.append((row, tuple(zip(outside, depths, strict=True))))
        return found

    def tensor(self, node: int) -> str:
        """Name of the tensor of a node of the shared level."""
        return self.case.at[self.case.levels[-1]][node].operand.name

    def placed(self, loops: Loops, row: Array) -> tuple[tuple[tuple[int, int], ...], list[Placed]] | None:
        """The mapping behind a row: nodes among the loops with the loops outside each, then the nodes inside, outermost first."""
        for rows, nodes in self.placed_rows(loops):
            match = np.flatnonzero((rows == row).all(axis=1))
            if len(match):
                among = {node for node, _ in nodes}
                state = next(i for s, i in self.states.items() if {n for n, o in enumerate(s) if o == 0} == among)
                cells = self.cells(loops)
                assert cells is not None  # it made the row
                n_states = self.case.machine_states[self.case.levels[-1]].mask.shape[0]
                label = int(self.offsets[cells[-1] * n_states + state]) + int(match[0])
                case, limits = self.case, self.limits
                if not case.ready:
                    case.watch, case.least = self.watch, self.least
                    case.prepare()
                    case.bound(self.goal)
                sweeps = case.labels(limits.goal, limits.value, limits.energy, limits.seconds, limits.leak)
                return nodes, case.trace(sweeps, label)
        return None


@dataclass(frozen=True)
class Mapping:
    """One operator inside shared loops.

    Args:
        machine: That runs it.
        among: Its own tensors that stand among the shared loops, with the number of loops outside.
        nest: All its loops and nodes, the shared ones first; none for an operator that computes nothing.
    """

    machine: Machine
    among: tuple[tuple[str, int], ...]
    nest: Nest


def _head(operator: Operator, loops: Loops, nodes: Sequence[tuple[str, int]]) -> Nest:
    """Shared loops with the nodes of the shared level that stand among them."""
    now, items = dict(operator.bounds), list[Loop | Store | Hold]()
    for depth in range(len(loops) + 1):
        items += [Store(1, tensor) for tensor, d in nodes if d == depth]
        if depth < len(loops):
            dim, tile = loops[depth]
            items.append(Loop(dim, -(-now[dim] // tile), tile))
            now[dim] = tile
    return tuple(items)


class _Front:
    """One operator of a graph.

    Args:
        operator: The operator.
        machines: Those that may run it, one for each compute unit.
        between: Tensors that other operators write or read too and that may stay on the chip.
        goal: Objective of the whole.
        leak: Watts of leakage.
    """

    def __init__(
        self, operator: Operator, machines: Sequence[Machine], between: frozenset[str], goal: Goal, leak: float
    ) -> None:
        self.operator, self.machines, self.goal, self.leak = operator, machines, goal, leak
        self.tensors = frozenset(t.name for t in operator.operands)
        self.between = between & self.tensors
        shared = machines[0].memories[1]
        self.capacity = float(shared.capacity)
        self.width = {t.name: shared.width(t) for t in operator.operands}

    def own(self, mapping: Mapping) -> Mapping:
        """A mapping in the operator's own names."""
        return mapping

    def on_chip(self, machine: Machine) -> Iterator[tuple[Keeps, frozenset[str]]]:
        """Keep sets in which the shared level holds what the outermost memory does not, with those tensors (F2)."""
        for keeps in machine.keeps:
            chip = self.tensors - keeps[0]
            if chip <= self.between & keeps[1]:
                yield keeps, chip


class OperatorFront(_Front):
    """One operator that computes; arguments as of every front."""

    def __init__(
        self, operator: Operator, machines: Sequence[Machine], between: frozenset[str], goal: Goal, leak: float
    ) -> None:
        super().__init__(operator, machines, between, goal, leak)
        self.timed = goal is not Goal.ENERGY or leak > 0
        self._cases: dict[frozenset[str], list[Case]] | None = None
        self._open: dict[frozenset[str], list[_Open]] = {}
        self._fronts: dict[tuple[frozenset[str], Loops], Array] = {}
        self._least: dict[tuple[Loops, frozenset[frozenset[str]] | None], tuple[float, float] | None] = {}
        self._whole: tuple[float, float] | None = None
        self._quick_on: dict[frozenset[str], tuple[float, float]] | None = None
        self._least_on: dict[frozenset[str], tuple[float, float]] | None = None
        self._within: dict[frozenset[str], Limits] = {}
        self._watched: dict[int, tuple[list[int], Array]] = {}

    def cases(self) -> dict[frozenset[str], list[Case]]:
        """Profiles and keep sets by the set of tensors that the outermost memory does not hold (F2)."""
        if self._cases is not None:
            return self._cases
        found: dict[frozenset[str], list[Case]] = {}
        for machine in self.machines:
            if len(machine.memories) < 2:
                raise UserError(
                    "fusion needs a memory inside the outermost one", where=f"operator '{self.operator.name}'"
                )
            spaces = [Space(self.operator, machine, p) for p in profiles(self.operator, machine, Factors())]
            for keeps, chip in self.on_chip(machine):
                for space in spaces:
                    if any(len(f) for f in space.profile.factors[:2]) and chip:
                        raise UserError(
                            "fan-outs above the shared memory are not supported with fusion", where=self.operator.name
                        )
                    case = Case(space, keeps, always=(1,), free_energy=self.goal is Goal.LATENCY and self.leak == 0)
                    case.quick(self.goal)
                    found.setdefault(chip, []).append(case)
        self._cases = found
        return found

    def least(self, stop: float = math.inf) -> tuple[float, float]:
        """Energy and seconds that no mapping is below, each alone, whatever stays on the chip (F5); searched once.

        Lower where the process has used `stop` CPU seconds before.
        """
        if self._whole is None:
            self._whole = self._least_among([c for found in self.cases().values() for c in found], stop)
        return self._whole

    def quick_on(self, stop: float = math.inf) -> dict[frozenset[str], tuple[float, float]]:
        """The same for every set of tensors that may stay on the chip, from the fewest words of each tensor alone.

        Raises:
            TimeUp: The process has used `stop` CPU seconds.
        """
        if self._quick_on is None:
            if clock.cpu_seconds() > stop:
                raise TimeUp
            self._quick_on = {}
            for chip, cases in self.cases().items():
                for case in cases:
                    case.quick(self.goal)
                pairs = [
                    (float(c.least[0]), max(c.space.compute_seconds, *map(float, c.least[1:]), 0.0)) for c in cases
                ]
                self._quick_on[chip] = _least_of_each(pairs)
        return self._quick_on

    def least_on(self, stop: float = math.inf) -> dict[frozenset[str], tuple[float, float]]:
        """The same for every set of tensors that may stay on the chip, in mappings that fit.

        Raises:
            TimeUp: The process has used `stop` CPU seconds.
        """
        if self._least_on is None:
            found: dict[frozenset[str], tuple[float, float]] = {}
            for chip, cases in self.cases().items():
                if clock.cpu_seconds() > stop:
                    raise TimeUp
                found[chip] = self._least_among(cases, stop)
                for case in cases:
                    case.release()
            self._least_on = {chip: least for chip, least in found.items() if math.isfinite(sum(least))}
        return self._least_on

    def _least_among(self, cases: list[Case], stop: float) -> tuple[float, float]:
        for case in cases:
            case.leak = 0.0
        energy = search(cases, Goal.ENERGY, stop - clock.cpu_seconds()).bound
        for case in cases:
            case.leak, case.watch = self.leak, [0]
        if not self.timed:
            return energy, min(c.space.compute_seconds for c in cases)
        seconds = search(cases, Goal.LATENCY, stop - clock.cpu_seconds()).bound
        for case in cases:
            case.watch = [0]
        return energy, seconds

    def smallest(self) -> tuple[str, float, float]:
        """The level that the smallest tile of some mapping passes most: name, bits it needs at least, bits there are."""
        found: list[tuple[float, str, float, float]] = []
        for m, memory in enumerate(self.machines[0].memories[1:], start=1):
            if math.isinf(memory.capacity):
                continue
            needs = []
            for case in self.cases().get(frozenset(), []):
                case.prepare()
                needs.append(float(case.words[m][:, 0].sum()) if m in case.words else 0.0)
            found.append(
                (min(needs, default=0.0) / memory.capacity, memory.name, min(needs, default=0.0), memory.capacity)
            )
        _, name, demand, limit = max(found)
        return name, demand, limit

    def alone(self, leak: float, stop: float = math.inf) -> tuple[float, float, Mapping] | None:
        """Energy, seconds and nest of the best mapping with every tensor in the outermost memory; None if there is none.

        The least energy + `leak` x seconds, or for latency the least seconds; once the process has used `stop` CPU seconds, the best so far.
        """
        cases = self.cases().get(frozenset(), [])
        for case in cases:
            case.leak, case.watch = leak, [0]
        goal = Goal.LATENCY if self.goal is Goal.LATENCY else Goal.ENERGY
        found = search(cases, goal, stop - clock.cpu_seconds())
        for case in cases:
            case.leak, case.watch = self.leak, [0]
        if found.case is None:
            return None
        nest = nest_of(found.case, found.placed)
        return found.energy, found.seconds, Mapping(found.case.space.machine, (), nest)

    def prepare(self, limits: Limits, stop: float = math.inf) -> None:
        """Sweep all cases that may be part of a mapping within the limits; earlier sweeps are dropped.

        Raises:
            TimeUp: The process has used `stop` CPU seconds.
        """
        self._open, self._within, self._fronts, self._least = {}, {}, {}, {}
        for chip, cases in self.cases().items():
            if kept := self._swept(cases, limits, stop):
                self._open[chip] = kept

    def prepare_on(self, limits: Mapping_[frozenset[str], Limits], stop: float = math.inf) -> None:
        """The same with limits for each set of tensors on the chip; an earlier sweep whose limits cover them stays.

        Raises:
            TimeUp: The process has used `stop` CPU seconds.
        """
        for chip, own in limits.items():
            if chip in self._within and self._within[chip].covers(own):
                continue
            self._within.pop(chip, None)
            self._open.pop(chip, None)
            self._fronts = {key: rows for key, rows in self._fronts.items() if key[0] != chip}
            self._least = {}
            cases = self.cases().get(chip, [])
            if kept := self._swept(cases, own, stop):
                self._open[chip] = kept
            self._within[chip] = own
            for case in cases:
                case.release()

    def _swept(self, cases: list[Case], limits: Limits, stop: float) -> list[_Open]:
        """The cases that may be part of a mapping within the limits."""
        kept = []
        for case in cases:
            if clock.cpu_seconds() > stop:
                raise TimeUp
            if self._value(case, limits) > limits.value:
                continue
            case.prepare()
            if id(case) not in self._watched:
                case.watch = list(range(case.fixed.size)) if self.timed else [0]
                case.bound(self.goal)
                if self._value(case, limits) > limits.value:
                    continue
                self._watched[id(case)] = [0, *self._binding(case)] if self.timed else [0], case.least
            case.watch, case.least = self._watched[id(case)]
            if self._value(case, limits) > limits.value:
                continue
            case.bound(self.goal)
            if self._value(case, limits) <= limits.value:
                kept.append(_Open(case, self.goal, limits))
        return kept

    def _value(self, case: Case, limits: Limits) -> float:
        seconds = max(case.space.compute_seconds, *case.least[1:], 0.0)
        return limits.goal.of(float(case.least[0]) + limits.energy, float(seconds) + limits.seconds, limits.leak)

    def _binding(self, case: Case) -> list[int]:
        """Ports that some placement makes slower than the operations and the least of every port."""
        worst = case.fixed.copy()
        for m in case.levels:
            for node, moved in zip(case.at[m], case.moved[m], strict=True):
                worst = worst + np.maximum(case.slopes[node], 0) * moved.max()
        floor = max(case.space.compute_seconds, *case.least[1:], 0.0)
        return [i for i in range(1, worst.size) if worst[i] > floor * (1 + 1e-12)]

    def front(self, chip: frozenset[str], loops: Loops) -> Array:
        """Undominated rows with `chip` on the chip, inside shared loops.

        Returns:
            ``n x (depth + 3)``: bits that stay for all of each outer depth, the most bits held inside, energy, seconds.
        """
        key = chip, loops
        if key not in self._fronts:
            found = [row for opened in self._open.get(chip, ()) for row in opened.rows(loops)]
            every = np.concatenate([np.zeros((0, len(loops) + 3)), *found])
            every = every[every[:, : len(loops) + 1].sum(axis=1) <= self.capacity]
            self._fronts[key] = every[undominated(every)]
        return self._fronts[key]

    def mapping(self, held: tuple[tuple[str, int], ...], loops: Loops, row: Array) -> Mapping:
        """The mapping behind one row of `front`.

        Args:
            held: Intermediates on the chip, with the number of shared loops outside.
            loops: The shared loops.
            row: The row.
        """
        for opened in self._open.get(frozenset(t for t, _ in held), ()):
            found = opened.placed(loops, row)
            if found is not None:
                among = tuple((opened.tensor(node), depth) for node, depth in found[0])
                head = _head(self.operator, loops, (*among, *held))
                return Mapping(opened.case.space.machine, among, nest_of(opened.case, found[1], head))
        raise AssertionError("no mapping of the operator makes up the row")

    def cheapest(self, loops: Loops, chips: frozenset[frozenset[str]] | None = None) -> tuple[float, float] | None:
        """Least energy and least seconds inside the loops, whatever of `chips` stays on the chip; None if nothing fits."""
        key = loops, chips
        if key not in self._least:
            rows = [self.front(chip, loops)[:, -2:] for chip in self._open if chips is None or chip in chips]
            every = np.concatenate([np.zeros((0, 2)), *rows])
            self._least[key] = (float(every[:, 0].min()), float(every[:, 1].min())) if len(every) else None
        return self._least[key]


def _least_of_each(pairs: Iterable[tuple[float, float]]) -> tuple[float, float]:
    every = [(math.inf, math.inf), *pairs]
    return min(e for e, _ in every), min(s for _, s in every)


class CopyFront(_Front):
    """An operator that only moves a tensor (F6); arguments as of every front."""

    def __init__(
        self, operator: Operator, machines: Sequence[Machine], between: frozenset[str], goal: Goal, leak: float
    ) -> None:
        super().__init__(operator, machines, between, goal, leak)
        self.machine = machines[0]
        self.allowed = {chip for _, chip in self.on_chip(self.machine)}

    def smallest(self) -> tuple[str, float, float]:
        """Nothing is held while a tensor moves."""
        return self.machine.memories[1].name, 0.0, self.capacity

    def least(self, stop: float = math.inf) -> tuple[float, float]:
        """Energy and seconds of the cheapest way."""
        ways = [self._cost(chip) for chip in self.allowed]
        return min(e for e, _ in ways), min(s for _, s in ways)

    def quick_on(self, stop: float = math.inf) -> dict[frozenset[str], tuple[float, float]]:
        """The same for every set of tensors that may stay on the chip."""
        return self.least_on()

    def least_on(self, stop: float = math.inf) -> dict[frozenset[str], tuple[float, float]]:
        """The same for every set of tensors that may stay on the chip."""
        return {chip: self._cost(chip) for chip in self.allowed}

    def alone(self, leak: float, stop: float = math.inf) -> tuple[float, float, Mapping] | None:
        """Both tensors in the outermost memory: nothing is moved."""
        return (0.0, 0.0, Mapping(self.machine, (), ())) if frozenset() in self.allowed else None

    def mapping(self, held: tuple[tuple[str, int], ...], loops: Loops, row: Array) -> Mapping:
        """A mapping without nodes, as a copy computes nothing."""
        return Mapping(self.machine, (), ())

    def prepare(self, limits: Limits, stop: float = math.inf) -> None:
        """Nothing, as a copy has no sweeps."""

    def prepare_on(self, limits: Mapping_[frozenset[str], Limits], stop: float = math.inf) -> None:
        """Nothing, as a copy has no sweeps."""

    def cheapest(self, loops: Loops, chips: frozenset[frozenset[str]] | None = None) -> tuple[float, float] | None:
        """Least energy and least seconds, whatever stays on the chip."""
        return self.least()

    def _cost(self, chip: frozenset[str]) -> tuple[float, float]:
        source = next(t for t in self.operator.operands if not t.output)
        target = next(t for t in self.operator.operands if t.output)
        if (source.name in chip) == (target.name in chip):
            return 0.0, 0.0
        outer, inner = self.machine.memories[:2]
        words = source.words(self.operator.bounds)
        down = target.name in chip
        away, here = words * outer.width(source), words * inner.width(source)
        energy = away * outer.read + here * inner.write if down else here * inner.read + away * outer.write
        seconds = max(
            [
                0.0,
                *((away * (r if down else w)) for r, w in outer.ports),
                *((here * (w if down else r)) for r, w in inner.ports),
            ]
        )
        return (0.0 if self.goal is Goal.LATENCY and self.leak == 0 else energy), seconds

    def front(self, chip: frozenset[str], loops: Loops) -> Array:
        """One row, if the memories may hold the tensors so."""
        if chip not in self.allowed:
            return np.zeros((0, len(loops) + 3))
        row = np.zeros((1, len(loops) + 3))
        row[0, -2:] = self._cost(chip)
        return row


class JoinFront(CopyFront):
    """A concatenation in place: its producers write their parts, all of them where the whole is (G2)."""

    def __init__(
        self, operator: Operator, machines: Sequence[Machine], between: frozenset[str], goal: Goal, leak: float
    ) -> None:
        super().__init__(operator, machines, between, goal, leak)
        self.allowed = {chip for chip in self.allowed if chip in (frozenset(), self.tensors)}

    def _cost(self, chip: frozenset[str]) -> tuple[float, float]:
        return 0.0, 0.0

    def front(self, chip: frozenset[str], loops: Loops) -> Array:
        """One row: nothing moves, and nothing is held but the parts."""
        if chip not in self.allowed or loops:
            return np.zeros((0, len(loops) + 3))
        return np.zeros((1, 3))
