"""One case (profile and keep sets) as arrays for the sweeps (U8-U12, docs/explanation/exact-mapper.md)."""

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from codesign.core.labels.program import LabelProgram, Link, Sweep, in_order
from codesign.core.labels.sweep import MODES, Array, Limits, Stage
from codesign.mappers.uneven.space import Node, Space, chain_nodes
from codesign.mapping.looptree import Goal


@dataclass(frozen=True)
class Automaton:
    """States of one level: for every node not placed, placed, or waiting for its window along one dimension.

    Args:
        mask: ``states x dimensions``.
        by_from, by_to: Transitions in the two orders the sweeps want.
        states: For each state and node 0 (not placed), 1 (placed) or 2 + the dimension it waits along.
        missing: ``nodes x states``: 1 where the node is not placed.
    """

    mask: Array
    by_from: Array
    by_to: Array
    states: tuple[tuple[int, ...], ...]
    missing: Array


@lru_cache(maxsize=1024)
def automaton(sliding: tuple[tuple[bool, ...], ...], n_dims: int) -> Automaton:
    """The states of nodes, some of whose windows slide along dimensions; one may be reserved inside a loop that its fetch stands outside of (U7)."""
    options = [[0, *(2 + i for i, slides in enumerate(row) if slides), 1] for row in sliding]
    states = [s for s in itertools.product(*options) if sum(o > 1 for o in s) <= 1]
    states.sort(key=lambda s: (sum(0 if o == 0 else 2 if o == 1 else 1 for o in s), s))
    number = {s: i for i, s in enumerate(states)}
    mask = np.ones((len(states), n_dims), np.bool_)
    rows = []
    for s, i in number.items():
        waiting = [o - 2 for o in s if o > 1]
        if waiting:
            mask[i] = False
            mask[i, waiting[0]] = True
        for j, o in enumerate(s):
            if o > 1:
                rows.append((i, number[(*s[:j], 1, *s[j + 1 :])], -1, j))
            elif o == 0 and not waiting:
                rows.append((i, number[(*s[:j], 1, *s[j + 1 :])], j, j))
                rows += [(i, number[(*s[:j], w, *s[j + 1 :])], j, -1) for w in options[j] if w > 1]
    table = np.array(rows, np.int64).reshape(-1, 4)
    missing = np.array([[float(o == 0) for o in s] for s in states]).reshape(len(states), len(sliding)).T
    return Automaton(mask, *in_order(table), tuple(states), np.ascontiguousarray(missing))


@dataclass(frozen=True)
class Placed:
    """A traced node: where its tile is fetched and where its space is taken (the same cell, but for a sliding window)."""

    node: Node
    fetch: int
    hold: int


class Case:
    """One profile with one choice of keep sets.

    Args:
        keeps: Tensors of each level.
        slowest: Latency that mappings must not exceed; beyond it the objective is infinite.
        always: Levels that are swept also if nothing is placed there.
        free_energy: Energy counts nothing.
    """

    def __init__(
        self,
        space: Space,
        keeps: tuple[frozenset[str], ...],
        slowest: float = math.inf,
        always: tuple[int, ...] = (),
        free_energy: bool = False,
    ) -> None:
        self.space, self.keeps, self.slowest, self.free_energy = space, keeps, slowest, free_energy
        self.nodes, self.last = chain_nodes(space.operator, keeps)
        self.slopes: dict[Node, Array] = {}
        fixed = np.zeros(1 + len(space.ports))
        for node in (*self.nodes, *self.last):
            slope, constant = space.prices(node)
            self.slopes[node] = slope.copy()
            fixed = fixed + constant
            if node.level == space.n:
                fixed = fixed + slope * space.operations(node.operand)
        fixed[0] += 0.0 if space.operator.copy else space.machine.mac_energy * space.operator.macs
        if free_energy:
            fixed[0] = 0.0
            for slope in self.slopes.values():
                slope[0] = 0.0
        self.fixed: Array = fixed
        self.watch: list[int] = [0]
        self.leak = space.machine.leak_w
        with_nodes = {*always, *(n.level for n in self.nodes)}
        if with_nodes and self._crosses_above(min(with_nodes)):
            with_nodes.add(0)
        self.levels = sorted(with_nodes, reverse=True)
        self.at = {m: [n for n in self.nodes if n.level == m] for m in self.levels}
        self.ready = False

    def _crosses_above(self, level: int) -> bool:
        """Whether a dimension that may leave a remainder is laid out above `level`: its loops outside are then swept too (U9)."""
        profile = self.space.profile
        return level > 0 and any(profile.factor(d, 1, level + 1) > 1 for d in dict(profile.tiles))

    def quick(self, goal: Goal) -> float:
        """A bound from the fewest words of every node alone."""
        least = self.fixed.copy()
        for node in self.nodes:
            least += self.slopes[node] * self._fewest(node)
        self.least: Array = least
        return self.value(goal, least)

    def _fewest(self, node: Node) -> float:
        space, tensor = self.space, node.operand
        outside = math.prod(space.profile.factor(d, 0, node.level + 1) for d in space.dims if d not in tensor.dims)
        return space.size(tensor) * outside

    def value(self, goal: Goal, charges: Array) -> float:
        """Objective of energy and port seconds."""
        seconds = max(self.space.compute_seconds, *charges[1:], 0.0)
        if seconds > self.slowest:
            return math.inf
        return goal.of(float(charges[0]), float(seconds), self.leak)

    def prepare(self) -> None:
        """Words and charges of every node on every cell, level by level."""
        if self.ready:
            return
        self.ready = True
        space = self.space
        self.machine_states = {
            m: automaton(tuple(tuple(d in n.operand.sliding for d in space.live) for n in self.at[m]), len(space.live))
            for m in self.levels
        }
        self.words: dict[int, Array] = {}
        self.moved: dict[int, Array] = {}
        self.need: dict[int, Array] = {}
        for m in self.levels:
            width = space.machine.memories[m].width
            held = [space.words(n.operand, m) * width(n.operand) for n in self.at[m]]
            self.words[m] = np.array(held).reshape(len(held), space.cells)
            self.need[m] = np.ascontiguousarray(self.words[m].T @ self.machine_states[m].missing)
            self.moved[m] = np.array([space.moved(n.operand, m) for n in self.at[m]]).reshape(len(held), space.cells)

    def release(self) -> None:
        """Drop what `prepare` and `bound` made: the cells of many cases at once take gigabytes."""
        self.ready = False
        self.space.release()
        for name in ("words", "moved", "need", "charges", "program"):
            self.__dict__.pop(name, None)

    def charge(self, level: int) -> Array:
        """``nodes x cells x watched``."""
        slopes = np.array([self.slopes[n][self.watch] for n in self.at[level]]).reshape(-1, len(self.watch))
        return np.ascontiguousarray(self.moved[level][:, :, None] * slopes[:, None, :])

    def crossing(self, level: int) -> Array:
        """Cells at which the fan-outs between `level` and the next level with nodes may stand (U9)."""
        profile, space = self.space.profile, self.space
        allowed = np.ones(space.cells, np.bool_)
        if not profile.tiles:
            return allowed
        spread = dict(profile.ragged)
        inner = min([v for v in self.levels if v > level], default=space.n)
        for d in space.live:
            column = np.zeros(len(space.lines[d].tiles), np.bool_)
            if d in profile.relaxed:  # it stands for remainders in space too, which are outermost
                continue
            if space.lines[d].remainder and profile.factor(d, level + 1, inner + 1) > 1:
                column[-1] = True
            if d in spread and level < spread[d] <= inner:
                column[:-1] = True
            if column.any():
                allowed &= ~np.broadcast_to(space.spread(d, column), space.shape).ravel()
        return allowed

    def bound(self, goal: Goal) -> float:
        """The least charges to go from the start, each alone; also what the sweeps prune with."""
        self.charges = {m: self.charge(m) for m in self.levels}
        self.program = LabelProgram(
            self.space.graph,
            [self._stage(m) for m in self.levels],
            [self._link(m) for m in self.levels],
            len(self.watch),
        )
        after = self.program.start_to_go
        whole = self.least.copy()
        whole[self.watch] = self.fixed[self.watch] + (0.0 if after is None else after[0, 0])
        self.least = np.maximum(self.least, whole)
        return self.value(goal, self.least) if np.isfinite(whole[0]) else math.inf

    def _stage(self, m: int) -> Stage:
        """A level as a stage of the program."""
        states, capacity = self.machine_states[m], float(self.space.machine.memories[m].capacity)
        return Stage(states.mask, states.by_from, states.by_to, self.words[m], self.charges[m], self.need[m], capacity)

    def _link(self, m: int) -> Link:
        """A level ends when all of its nodes are placed."""
        into = np.full(len(self.machine_states[m].states), -1, np.int64)
        into[-1] = 0
        return Link(self.crossing(m), into)

    def labels(
        self, goal: Goal, limit: float, energy: float = 0.0, behind: float = 0.0, leak: float | None = None
    ) -> list[Sweep]:
        """Sweep the levels, from the inside out; fewer sweeps come back where no label is left.

        Args:
            goal, limit: Labels that cannot get to a value of at most `limit` are dropped.
            energy, behind: What other operators add to energy and latency.
            leak: Watts of leakage; by default the case's.
        """
        charges = self.fixed[self.watch]
        charges[0] += energy
        begin, _ = self.program.begin(np.zeros(1, np.int64), charges[None])
        limits = Limits(
            len(self.watch), float(self.floor()), float(behind), float(self.slowest), MODES[goal.value],
            float(self.leak if leak is None else leak), float(limit),
        )  # fmt: skip
        return self.program.run(begin, limits)

    def solve(self, goal: Goal, limit: float) -> tuple[Array, list[Placed]] | None:
        """The best mapping of the watched charges whose objective is at most `limit`; None where there is none."""
        if not self.levels:
            charges: Array = self.fixed[self.watch]
            return (charges, []) if self.worth(goal, charges, self.floor()) <= limit else None
        sweeps, floor = self.labels(goal, limit), self.floor()
        numbers, rows = self.program.complete(sweeps)
        found = [(self.worth(goal, row, floor), *row.tolist(), i) for i, row in enumerate(rows)]
        best = min(found, default=None)
        if best is None or best[0] > limit:
            return None
        return rows[best[-1]], self.trace(sweeps, int(numbers[best[-1]]))

    def floor(self) -> float:
        """Seconds that neither the compute units nor the ports that are not watched can beat."""
        others = [float(self.least[i]) for i in range(1, self.least.size) if i not in self.watch]
        return max([self.space.compute_seconds, *others])

    def worth(self, goal: Goal, charges: Array, floor: float) -> float:
        """Objective of the energy and watched seconds of a label."""
        seconds = float(max(floor, *charges[1:], 0.0))
        return goal.of(float(charges[0]), seconds, self.leak) if seconds <= self.slowest else math.inf

    def trace(self, sweeps: list[Sweep], label: int) -> list[Placed]:
        """The nodes of a label of the last sweep, outermost first."""
        placed: list[Placed] = []
        fetched: dict[tuple[int, int], int] = {}
        for move in self.program.trace(sweeps, label)[0]:
            if move.transition is None:
                continue
            _, _, word, node = (int(v) for v in move.transition)
            if word >= 0:
                fetch = move.cell if node >= 0 else fetched.pop((move.stage, word))
                placed.append(Placed(self.at[self.levels[move.stage]][word], fetch, move.cell))
            else:
                fetched[move.stage, node] = move.cell
        return placed

    def charged(self, placed: list[Placed]) -> Array:
        """All charges of a mapping, energy included where the search left it out."""
        return Case(self.space, self.keeps, self.slowest).charges_of(placed)

    def charges_of(self, placed: list[Placed]) -> Array:
        """All charges of a mapping."""
        total = self.fixed.copy()
        for p in placed:
            total = total + self.slopes[p.node] * self.space.moved(p.node.operand, p.node.level)[p.fetch]
        return total
