"""Bounds of a fused graph from windows of its operators (F7, docs/explanation/exact-mapper.md).

Leave out all operators of a schedule but some in a row, the window: what is left of its tree is a tree of the window, with the same
mappings and no more bits. The search over a window takes every such tree, so its least bounds what the window takes in any schedule.

* What others use: A tensor that operators outside use too is in DRAM or on the chip. If they used it before, it is held from the first
  operator of the window, and if they use it later, to the last. Its tile is that of the loops around; a tile held further out is no
  smaller. For a single operator that has it alone within the window it holds nothing.
* Ends: A part of the whole tree may be cut by an end of the window. Operators left out may have connected the rest of it, so only what
  the window itself connects must agree on a loop. Where the rest falls into runs, one after another, each run alone holds less.
* Sum: Energy and seconds add over operators, so bounds of windows without overlap add. The best sum is a longest path.
* Products: Three sums are bounded, ``E >= a``, ``S >= b`` and ``E + w S >= c`` with ``w`` the slope of the product at a good schedule.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np

from codesign.core import clock
from codesign.core.labels.sweep import Array
from codesign.mapping.looptree import Goal, Operator
from codesign.scheduling.fused.alike import Front
from codesign.scheduling.fused.operator_front import Limits
from codesign.scheduling.fused.schedule import Part

WINDOW_SHARE = 0.25
"""Share of the time left that one window takes at most."""

ENERGY_SHARE = 0.3
"""Share of the time for windows of least energy, where a product is minimised."""


@final
@dataclass(frozen=True)
class Floors:
    """What the operators before and behind a place take at least.

    Args:
        before, behind: ``(n + 1) x 2``: energy and seconds of the operators before each place, and of those from it on.
        weight: Of seconds in a third bound, on energy + weight x seconds; none where there is no such.
        before_both, behind_both: The same, ``n + 1``.
        placed: Whether the rest around runs of operators that differ in names only may differ, as it does around windows.
    """

    before: Array
    behind: Array
    weight: float | None = None
    before_both: Array | None = None
    behind_both: Array | None = None
    placed: bool = True

    @classmethod
    def of(cls, least: Sequence[tuple[float, float]]) -> "Floors":
        """Sums of single operators."""
        each = np.array(least, float).reshape(-1, 2)
        zero = np.zeros((1, 2))
        before = np.concatenate([zero, np.cumsum(each, axis=0)])
        return cls(before, np.concatenate([np.cumsum(each[::-1], axis=0)[::-1], zero]), placed=False)

    def rest(self, first: int, last: int) -> tuple[float, float]:
        """Least energy and seconds of the operators outside first..last."""
        energy, seconds = self.before[first] + self.behind[last + 1]
        return float(energy), float(seconds)

    def least(self, goal: Goal, leak: float) -> float:
        """The least value of all operators."""
        nothing = np.zeros(1)
        return float(self.worth(nothing, nothing, 0, -1, goal, leak)[0])

    def worth(self, energy: Array, seconds: Array, first: int, last: int, goal: Goal, leak: float) -> Array:
        """The least value of all where operators first..last take this energy and this many seconds."""
        more, longer = self.rest(first, last)
        e, s = energy + more, seconds + longer
        if goal is not Goal.EDP or self.weight is None or self.before_both is None or self.behind_both is None:
            return goal.of(e, s, leak)
        both = energy + self.weight * seconds + float(self.before_both[first] + self.behind_both[last + 1])
        return least_product(e, s, both, self.weight, leak)

    def limits(self, operator: int, goal: Goal, value: float, leak: float) -> Limits:
        """What one operator may take if all of them keep a limit."""
        energy, seconds = self.rest(operator, operator)
        if goal is not Goal.EDP or self.weight is None or self.before_both is None or self.behind_both is None:
            return Limits(goal, energy, seconds, value, leak)
        least, shortest = self.rest(0, -1)
        slope = least + math.sqrt(least**2 + 4 * leak * value)
        longest = 2 * value / slope if slope else math.inf
        much = value / shortest if shortest else math.inf
        most = max(least + self.weight * longest, much + (self.weight - leak) * shortest)
        others = float(self.before_both[operator] + self.behind_both[operator + 1])
        return Limits(Goal.ENERGY, others, 0.0, most * (1 + 1e-12), self.weight)


def least_product(energy: Array, seconds: Array, both: Array, weight: float, leak: float) -> Array:
    """The least products of energy with leakage and seconds above three bounds: of each, and of energy + weight seconds.

    It is concave along the third for ``weight >= leak``, so an end of that edge has it.

    >>> least_product(np.array([1.0]), np.array([1.0]), np.array([4.0]), 1.0, 0.0)
    array([3.])
    """
    long = np.maximum(seconds, (both - energy) / weight)
    much = np.maximum(energy, both - weight * seconds)
    return np.minimum((energy + leak * long) * long, (much + leak * seconds) * seconds)


PATIENCE = 4
"""Lengths of windows in a row that may add nothing."""


class Search(Protocol):
    """The search of `codesign.scheduling.fused.loop_tree.Fusion` over a graph, or over some of its operators in a row."""

    operators: Sequence[Operator]
    goal: Goal
    leak: float

    @property
    def floors(self) -> Floors:
        """What operators take at least."""

    def window(self, first: int, last: int, goal: Goal, leak: float, known: dict[object, Front]) -> "Search":
        """The search over operators first..last."""

    def pattern(self, first: int, last: int) -> object:
        """Equal for windows that differ in names only."""

    def bound_operators(self, stop: float) -> Floors:
        """What single operators take at least."""

    def bound(self, floors: Floors, top: float, stop: float) -> float:
        """The least value, or what it is not below."""


def block_floors(graph: Search, parts: Sequence[Part], stop: float) -> Floors:
    """Bounds by windows: of the objective, or of energy and of a weighted sum where it is a product.

    Args:
        graph: The search.
        parts: A good schedule; its parts are the first windows.
        stop: CPU seconds at which to end.
    """
    if graph.goal is not Goal.EDP:
        found = Windows(graph, parts, graph.goal, graph.leak)
        found.widen(stop)
        return found.floors(0, len(graph.operators) - 1)
    energy, seconds = (sum(values) for values in zip(*_costs(parts), strict=True))
    weight = 2 * graph.leak + energy / seconds if seconds else 0.0
    if not weight:  # nothing to trade
        return graph.floors
    both, least = Windows(graph, parts, Goal.ENERGY, weight), Windows(graph, parts, Goal.ENERGY, 0.0)
    both.widen(stop - ENERGY_SHARE * (stop - clock.cpu_seconds()))
    least.widen(stop)
    last = len(graph.operators) - 1
    weighted, own = both.floors(0, last), least.floors(0, last)
    before, behind = (
        np.column_stack([np.maximum(own_side[:, 0], side[:, 0]), side[:, 1]])
        for own_side, side in ((own.before, graph.floors.before), (own.behind, graph.floors.behind))
    )
    return Floors(before, behind, weight, weighted.before[:, 0], weighted.behind[:, 0])


def _costs(parts: Sequence[Part]) -> Iterator[tuple[float, float]]:
    """Energy and seconds of every operator."""
    for part in parts:
        if part.parts:
            yield from _costs(part.parts)
        else:
            yield part.energy, part.seconds


@final
class Windows:
    """Bounds of windows under one goal that adds over operators.

    Args:
        graph: The search.
        parts: A good schedule.
        goal, leak: What is minimised.
    """

    def __init__(self, graph: Search, parts: Sequence[Part], goal: Goal, leak: float) -> None:
        self.graph, self.goal, self.leak = graph, goal, leak
        self.known: dict[object, Front] = {}
        self.costs = [goal.of(energy, seconds, leak) for energy, seconds in _costs(parts)]
        self.starts = [0]
        for part in parts:
            self.starts.append(self.starts[-1] + len(part.operators))
        self._ending: list[dict[int, float]] = [{} for _ in self.costs]
        self._of: dict[object, float] = {}

    def floors(self, first: int, last: int) -> Floors:
        """The largest sums of bounds of windows before and behind each of operators first..last."""
        n = last - first + 1
        before, behind = np.zeros((n + 1, 2)), np.zeros((n + 1, 2))
        column = 1 if self.goal is Goal.LATENCY else 0
        ending = [[(a - first, v) for a, v in self._ending[b].items() if a >= first] for b in range(first, last + 1)]
        for end, windows in enumerate(ending):
            before[end + 1, column] = max(before[start, column] + value for start, value in windows)
        for end in reversed(range(n)):
            for start, value in ending[end]:
                behind[start, column] = max(behind[start, column], value + behind[end + 1, column])
        return Floors(before, behind)

    def widen(self, stop: float) -> None:
        """Bounds of single operators, of parts, then of runs of 2, 3, ... parts until `PATIENCE` lengths add nothing."""
        last = len(self.costs) - 1
        for i in range(last + 1):
            self._raise(i, i, stop)
        whole, idle = self._least(0, last), 0
        for count in range(1, len(self.starts)):
            for start, after in zip(self.starts, self.starts[count:], strict=False):
                self._raise(start, after - 1, stop)
            before, whole = whole, self._least(0, last)
            idle = 0 if whole > before * (1 + 1e-6) else idle + 1
            if clock.cpu_seconds() > stop or idle == PATIENCE:
                break

    def _least(self, first: int, last: int) -> float:
        return float(self.floors(first, last).before[-1].sum())

    def _raise(self, first: int, last: int, stop: float) -> None:
        """Bound a window, unless one that differs in names only was, or the schedule reaches its bound."""
        now, top = clock.cpu_seconds(), sum(self.costs[first : last + 1])
        if first < last and (now > stop or self._least(first, last) >= top * (1 - 1e-9)):
            return
        pattern = self.graph.pattern(first, last)
        if pattern not in self._of:
            window = self.graph.window(first, last, self.goal, self.leak, self.known)
            soon = now + WINDOW_SHARE * max(stop - now, 0.0)
            floors = window.bound_operators(soon) if first == last else self.floors(first, last)
            self._of[pattern] = window.bound(floors, top, soon)
        self._ending[last][first] = self._of[pattern]
