"""Branch and bound within a profile of one keep set, over how many words may cross each boundary (B4, B6)."""

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from codesign.core.goals import Objective
from codesign.mappers.exact.even.depth_first import chase
from codesign.mappers.exact.even.fill_states import Decisions
from codesign.mappers.exact.even.profile import EvenProfile, KeepSets, Traced
from codesign.mappers.exact.even.shared_problem import EvenProblem
from codesign.mappers.exact.incumbent import TOLERANCE, Goal, Incumbent, whole_cycles
from codesign.mapping.constraints import Keep
from codesign.mapping.nest import FloatArray

_APART = 1e-9
"""Relative; different numbers of words differ by more (there are fewer than 1e9 of them in a tile lattice's traffic)."""


LeastSum = Callable[[float, float, int], float]
"""The least weighted sum of energy and of the cycles of a port, for both weights and the port."""


@dataclass
class Node:
    """A part of a profile: ``T x L`` bounds on the words of every boundary, and what its mappings cost and take at least."""

    least: FloatArray
    most: FloatArray
    bound: float = 0.0
    cycles: float = 0.0
    given_up: bool = False


class FixedProfile:
    """A profile with one keep set. A boundary is a tensor at a level inside the outermost that keeps it; elsewhere all is 0.

    Attributes:
        decisions: The same as decisions.
        price: ``T x L`` pJ a word.
        demand: ``J x T x L`` cycles of every port a word.
        fewest: ``T x L`` fewest words.
        constant: pJ beside the words.
        constant_cycles: ``J``.
        compute: Compute cycles.
    """

    def __init__(self, profile: EvenProfile, keep: KeepSets) -> None:
        self.profile, self.keep = profile, keep
        self.decisions: Decisions = tuple(tuple(Keep.YES if k else Keep.NO for k in row) for row in keep)
        n_tensors, n_levels = profile.words.shape[:2]
        each, once = np.zeros((len(profile.price), n_tensors, n_levels + 1)), np.zeros(len(profile.price))
        fewest = np.zeros((n_tensors, n_levels + 1))
        for t, kept in enumerate(zip(*keep, strict=True)):
            for p, v in pairwise([*np.flatnonzero(kept).tolist(), n_levels]):
                each[:, t, v], fewest[t, v] = profile.price[:, t, v, p], profile.fewest[t, v]
                once += profile.fixed[:, t, v, p]
        once += (each[:, :, -1] * fewest[:, -1]).sum(axis=1)
        self.price, self.demand, self.fewest = each[0, :, :-1], each[1:, :, :-1], fewest[:, :-1]
        self.constant, self.constant_cycles = float(once[0]) + profile.constant, once[1:]
        self.compute = float(profile.problem.arrays.macs) / float(profile.spatial.prod())

    def ports(self, words: FloatArray) -> FloatArray:
        """``J`` cycles of every port when this many words cross the boundaries."""
        return np.asarray(self.constant_cycles + (self.demand * words).sum(axis=(1, 2)))

    def least_cycles(self, words: FloatArray) -> float:
        """Whole cycles below which no mapping with at least these words gets."""
        return whole_cycles(max(self.compute, float(self.ports(words).max(initial=0.0))))

    def whole(self, bound: float = 0.0, cycles: float = 0.0) -> Node:
        """The node of all its mappings."""
        return Node(np.zeros(self.price.shape), np.full(self.price.shape, np.inf), bound, cycles)

    def run(self, weight: FloatArray, node: Node, best: Incumbent) -> float:
        """Least weighted sum of energy and port cycles within a node."""
        limited = node.least.max() > 0.0 or node.most.min() < math.inf
        limits = (node.least, node.most) if limited else None
        value = self.profile.run(weight, decisions=self.decisions, limits=limits)
        best.count(float(self.profile.filled.table.size))
        return value

    def least(self, node: Node, best: Incumbent, energy: float, cycles: float, port: int) -> float:
        """Least weighted sum of energy and the cycles of a port within a node; its nest is scored."""
        value = self.run(self.profile.problem.weights(energy, cycles, port), node, best)
        if math.isfinite(value) and best.may_score:
            self.offer(best)
        return value

    def offer(self, best: Incumbent) -> tuple[Traced, float, float]:
        """The nest of the last run, its energy and its cycles."""
        traced = self.profile.trace()
        return traced, *best.offer(self.profile.nest(self.keep, traced.loops))


def sought_by(goal: Goal, problem: EvenProblem, dearest: float) -> FloatArray:
    """Weights of what a mapping is sought by: energy, or for latency the cycles of all ports; `dearest` is the price of a word."""
    weight = problem.weights(1.0)
    if goal.objective is Objective.LATENCY and problem.n_ports:
        weight[:] = 1.0
        weight[0] = 1e-6 / max(1e-30, dearest)
    return weight


def search_profile(fixed: FixedProfile, least: float, quickest: float, best: Incumbent) -> float:
    """Search one profile of known bounds on value and cycles; returns a lower bound on what was not searched (infinite if nothing)."""
    waiting: list[tuple[float, int, Node]] = [(least, 0, fixed.whole(least, quickest))]
    ticket = 1
    while waiting:
        bound, _, node = heapq.heappop(waiting)
        if not best.beaten_by(bound):
            continue
        best.ask()
        if node.given_up or best.stopped:
            return min([bound] + [b for b, _, _ in waiting])
        for child in expand(fixed, node, best):
            heapq.heappush(waiting, (child.bound, ticket, child))
            ticket += 1
    return math.inf


def expand(fixed: FixedProfile, node: Node, best: Incumbent) -> list[Node]:
    """Solve a node's relaxation; returns the parts of it that may hold something better."""
    goal = best.goal
    floor = np.maximum(node.least, fixed.fewest * (1.0 - TOLERANCE))
    quickest = max(node.cycles, fixed.least_cycles(floor))
    by_latency = goal.objective == Objective.LATENCY
    least = fixed.run(sought_by(goal, fixed.profile.problem, float(fixed.price.max())), node, best)
    if not math.isfinite(least):
        return []
    energy = fixed.constant + float((fixed.price * floor).sum()) if by_latency else least
    bound = max(node.bound, goal.value(energy, quickest))
    if not best.beaten_by(bound):
        return []
    traced, found, cycles = fixed.offer(best)
    if not best.beaten_by(bound):
        return []
    if traced.optimistic and (by_latency or found > energy * (1.0 + _APART) or cycles > quickest):
        return _chase(fixed, Node(node.least, node.most, bound, quickest), traced.words, best)
    if goal.energy_alone or cycles <= quickest:
        return []
    slow = int(fixed.ports(traced.words).argmax())
    quickest, bound = bound_both(partial(fixed.least, node, best), (slow,), energy, quickest, 0.0, best)
    if not best.beaten_by(bound):
        return []
    limit = goal.slowest_useful(energy, best.value) if math.isfinite(best.value) else goal.latency_limit
    return split(fixed, Node(node.least, node.most, max(node.bound, bound), quickest), floor, traced.words, limit)


def bound_both(
    least: LeastSum, ports: Sequence[int], energy: float, cycles: float, bound: float, best: Incumbent
) -> tuple[float, float]:
    """Bounds on the cycles and on the goal where ports may slow down the mapping of least energy (bound B6).

    Args:
        least: Infinite if nothing can be better.
        ports: Those that may be too slow.
        energy: A bound on the energy.
        cycles: A bound on the cycles, whole.
        bound: A bound on the goal.
    """
    slowest = ports
    for j in ports:
        if best.overdue:
            break
        found = whole_cycles(least(0.0, 1.0, j))
        if found > cycles:
            cycles, slowest = found, (j,)
    bound = max(bound, best.goal.value(energy, cycles))
    for j in slowest:
        if best.beaten_by(bound):
            bound = max(bound, trade(least, j, energy, cycles, best))
    return cycles, bound


def trade(least: LeastSum, port: int, energy: float, cycles: float, best: Incumbent) -> float:
    """A bound on the goal, from the least energy + weight x cycles of a port; arguments as in `bound_both`.

    On a line of that sum the product is least at the ends, where energy or cycles are at their bounds; it is the same at both.
    """
    goal, bound = best.goal, best.goal.value(energy, cycles)
    if not goal.trades or best.overdue or not best.beaten_by(bound):
        return bound
    both = least(1.0, goal.cycle_pj or energy / cycles, port)
    both *= 1.0 - 0.25 * TOLERANCE  # the energy is a quarter of it or more
    return max(bound, both if goal.cycle_pj else (both - energy) * cycles)


def _chase(fixed: FixedProfile, node: Node, words: FloatArray, best: Incumbent) -> list[Node]:
    """Settle a node of whose bound no mapping is known; if that takes too long it comes back, marked as given up."""
    by_latency, problem = best.goal.objective is Objective.LATENCY, fixed.profile.problem
    weight = problem.weights(0.0, 1.0, int(fixed.ports(words).argmax())) if by_latency else problem.weights(1.0)
    fixed.run(weight, fixed.whole(), best)
    done = chase(fixed.profile, fixed.keep, node.cycles, best)
    return [] if done else [Node(node.least, node.most, node.bound, given_up=True)]


def split(fixed: FixedProfile, node: Node, floor: FloatArray, words: FloatArray, limit: float) -> list[Node]:
    """Parts of a node in which the cycles can be below the limit.

    First the limit is turned into a cap for each boundary given the fewest words of the others; if
    the solution found respects all caps and is still too slow, the boundary that contributes most is bisected.
    """
    most = node.most.copy()
    if math.isfinite(limit):
        slack = limit * (1.0 + TOLERANCE) - fixed.ports(floor)
        if len(slack) and slack.min() < 0.0:
            return []
        for j in range(len(slack)):
            used = fixed.demand[j] > 0.0
            most[used] = np.minimum(most[used], floor[used] + slack[j] / fixed.demand[j, used])
    if np.any(words > most * (1.0 + _APART)):
        return [Node(node.least, most, node.bound, node.cycles)]
    ports = fixed.ports(words)
    j = int(ports.argmax())
    excess = fixed.demand[j] * (words - floor)
    b = divmod(int(excess.argmax()), excess.shape[1])
    if words[b] <= floor[b] * (1.0 + _APART):
        return []
    middle = math.sqrt(max(1.0, floor[b]) * words[b])
    middle = middle if floor[b] < middle < words[b] else 0.5 * (floor[b] + words[b])
    lower, upper = most.copy(), node.least.copy()
    lower[b], upper[b] = middle, np.nextafter(middle, np.inf)
    return [Node(node.least, lower, node.bound, node.cycles), Node(upper, most, node.bound, node.cycles)]
