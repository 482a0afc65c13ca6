"""Branch and bound over profiles, and within a profile over how many words may cross each boundary."""

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from codesign.core.ascending import Ascending
from codesign.core.goals import Objective
from codesign.mappers.exact.incumbent import TOLERANCE, Goal, Incumbent, whole_cycles
from codesign.mappers.exact.one_keep_set.depth_first import chase
from codesign.mappers.exact.one_keep_set.fixed_keep_set import FixedKeep
from codesign.mappers.exact.one_keep_set.reconstruct import trace_nest
from codesign.mappers.exact.one_keep_set.spatial_profile import Profile
from codesign.mapping.nest import FloatArray, IntArray

_APART = 1e-9
"""Relative; different numbers of words differ by more (there are fewer than 1e9 of them in a tile lattice's traffic)."""

_BLOCK = 64
"""Profiles whose bounds are sharpened at a time."""


@dataclass
class Node:
    """A part of a profile: bounds on the words of every boundary, and what its mappings cost and take at least."""

    least: FloatArray
    most: FloatArray
    bound: float = 0.0
    cycles: float = 0.0
    given_up: bool = False


def search_fixed(fixed: FixedKeep, best: Incumbent) -> float:
    """Search all profiles of fixed keep sets; returns a lower bound on what was not searched (infinite if nothing)."""
    return math.inf if fixed.n_profiles == 0 else profile_search(fixed, best).run()


def profile_search(fixed: FixedKeep, best: Incumbent) -> "ProfileSearch":
    """The search over all profiles of fixed keep sets, of which there is at least one."""
    return ProfileSearch(fixed, bound_values(best.goal, *fixed.bounds()), fixed.choices_at, best)


def bound_values(goal: Goal, energy: FloatArray, cycles: FloatArray) -> FloatArray:
    """The goal's value of bounds on energy and cycles, elementwise."""
    whole = np.ceil(cycles * (1.0 - TOLERANCE))
    if goal.objective == Objective.ENERGY:
        values = energy + goal.cycle_pj * whole if goal.cycle_pj else energy
    else:
        values = whole if goal.objective == Objective.LATENCY else energy * whole
    return np.where(whole > goal.latency_limit, np.inf, values)


class ProfileSearch:
    """Opens the profiles of fixed keep sets in the order of their bounds until none can be better.

    All have the quick bound; it is sharpened block by block, and a profile is opened when its sharper bound is
    below the quick bounds of all others. Equal bounds: less energy first, then the first profile. One quick bound may
    stand for several profiles.

    Args:
        fixed: The problem.
        values: Quick bounds.
        choices_at: ``P x L`` the profiles that some of them stand for.
        best: The incumbent, improved in place.
        block: Quick bounds to sharpen at a time.

    Attributes:
        unsearched: Lower bound on what was given up (infinite if nothing).
        opened: Profiles searched.
    """

    def __init__(
        self,
        fixed: FixedKeep,
        values: FloatArray,
        choices_at: Callable[[IntArray], IntArray],
        best: Incumbent,
        block: int = _BLOCK,
    ) -> None:
        self.fixed, self.choices_at, self.best, self.block = fixed, choices_at, best, block
        limit = best.value * (1.0 - TOLERANCE) if math.isfinite(best.value) else math.inf
        self._quick = Ascending(values, limit)
        self._waiting: list[tuple[float, float, int, IntArray, Profile | None]] = []
        self._ticket = 0
        self.unsearched = math.inf
        self.opened = 0

    @property
    def bound(self) -> float:
        """Lower bound on all profiles not searched yet; infinite when none is left."""
        return min(self._quick.first, self._waiting[0][0]) if self._waiting else self._quick.first

    def step(self) -> None:
        """Sharpen the bounds of a block of profiles, or of one profile, or search one."""
        best, fixed = self.best, self.fixed
        quick = self._quick.first
        if math.isfinite(quick) and (not self._waiting or quick <= self._waiting[0][0]):
            choices = self.choices_at(self._quick.take(self.block))
            energy, cycles = fixed.sharper_bounds(choices)
            for value, spent, choice in zip(bound_values(best.goal, energy, cycles), energy, choices, strict=True):
                self._ticket += 1
                if best.beaten_by(float(value)):
                    heapq.heappush(self._waiting, (float(value), float(spent), self._ticket, choice, None))
            return
        value, _, number, choice, profile = heapq.heappop(self._waiting)
        if not best.beaten_by(value):
            return
        if profile is None:  # once more, with its own tiles only
            profile, spent, quickest = open_profile(fixed, choice)
            value = max(value, best.goal.value(spent, quickest))
            heapq.heappush(self._waiting, (value, spent, number, choice, profile))
            return
        self.opened += 1
        best.ask()
        self.unsearched = min(self.unsearched, search_profile(profile, value, best))

    def run(self, most: int | None = None) -> float:
        """Search until nothing can be better, at most that many profiles; returns a lower bound on what is left."""
        best = self.best
        while best.beaten_by(self.bound) and self.opened != most:
            if best.late and best.nest is not None:
                return min(self.unsearched, self.bound)
            self.step()
        return self.unsearched


def open_profile(fixed: FixedKeep, choice: IntArray) -> tuple[Profile, float, float]:
    """A profile with its best closed-form bounds on energy and cycles."""
    terms, energy, _ = fixed.coefficients(choice)
    excess = fixed.tension_of(choice, terms)
    compute = float(fixed.instance.problem.macs) / float(fixed.options.children[choice].prod())
    profile = Profile(fixed, choice, terms, compute, excess[1:])
    return profile, energy + float(excess[0]), profile.least_cycles(terms.fewest)


def search_profile(profile: Profile, least: float, best: Incumbent) -> float:
    """Search one profile of a known bound; returns a lower bound on what was not searched (infinite if nothing)."""
    terms = profile.terms
    n = len(profile.fixed.boundaries)
    waiting: list[tuple[float, int, Node]] = [(least, 0, Node(np.zeros(n), np.full(n, np.inf), least))]
    ticket = 1
    while waiting:
        bound, _, node = heapq.heappop(waiting)
        if not best.beaten_by(bound):
            continue
        best.ask()
        if node.given_up or (best.late and best.nest is not None):
            return min([bound] + [b for b, _, _ in waiting])
        for child in expand(profile, node, terms.fewest * (1.0 - TOLERANCE), best):
            heapq.heappush(waiting, (child.bound, ticket, child))
            ticket += 1
    return math.inf


def expand(profile: Profile, node: Node, fewest: FloatArray, best: Incumbent) -> list[Node]:
    """Solve a node's relaxation; returns the parts of it that may hold something better."""
    goal, terms = best.goal, profile.terms
    floor = np.maximum(node.least, fewest)
    quickest = max(node.cycles, profile.least_cycles(floor))
    by_latency = goal.objective == Objective.LATENCY
    price = terms.price
    if by_latency and len(terms.constant_cycles):
        price = terms.demand.sum(axis=0) + terms.price * (1e-6 / max(1e-30, float(terms.price.max(initial=0.0))))
    charges = profile.fixed.charges(profile.choice, price, node.least, node.most)
    for tight in (False, True):
        least = profile.fixed.run(charges, tight)
        best.count(profile.fixed.cells)
        if not math.isfinite(least):
            return []
        energy = terms.constant[0] + (float(terms.price @ floor) if by_latency else least)
        bound = max(node.bound, goal.value(energy, quickest))
        if not best.beaten_by(bound):
            return []
        traced = trace_nest(profile.fixed, charges, tight)
        found, cycles = best.offer(traced.nest, traced.count)
        if not best.beaten_by(bound):
            return []
        if not traced.optimistic or (not by_latency and found <= energy * (1.0 + _APART) and cycles <= quickest):
            break
        if tight:
            return _chase(profile, Node(node.least, node.most, bound), best)
    if goal.energy_alone or cycles <= quickest:
        return []
    quickest, bound = _trade(profile, node, energy, quickest, traced.words, best)
    if not best.beaten_by(bound):
        return []
    limit = goal.slowest_useful(energy, best.value) if math.isfinite(best.value) else goal.latency_limit
    return split(profile, Node(node.least, node.most, max(node.bound, bound), quickest), floor, traced.words, limit)


def _trade(
    profile: Profile, node: Node, energy: float, quickest: float, words: FloatArray, best: Incumbent
) -> tuple[float, float]:
    """Bounds on the cycles and the goal of a node whose mapping of least energy is slowed down by a port (bound B6).

    Args:
        profile: The profile.
        node: The part of it.
        energy: Least energy of the node.
        quickest: A bound on its cycles.
        words: Of its mapping of least energy.
        best: The incumbent, improved in place.
    """
    terms, goal = profile.terms, best.goal
    j = int((terms.constant_cycles + terms.demand @ words).argmax())
    constant = float(terms.constant_cycles[j])

    def least(price: FloatArray) -> float:
        charges = profile.fixed.charges(profile.choice, price, node.least, node.most)
        value = profile.fixed.run(charges, False)
        best.count(profile.fixed.cells)
        if math.isfinite(value):
            traced = trace_nest(profile.fixed, charges, False)
            best.offer(traced.nest, traced.count)
        return value

    quickest = max(quickest, whole_cycles(least(terms.demand[j]) + constant))
    bound = goal.value(energy, quickest)
    if not goal.trades or not best.beaten_by(bound):
        return quickest, bound
    weight = goal.cycle_pj or energy / quickest
    both = least(terms.price + weight * terms.demand[j]) * (1.0 - TOLERANCE)
    both += float(terms.constant[0]) + weight * constant
    if goal.cycle_pj:
        return quickest, max(bound, both)
    if both > energy + weight * quickest:
        # energy + weight x cycles >= both: the product is least at an end of that line
        bound = min(energy * whole_cycles((both - energy) / weight), (both - weight * quickest) * quickest)
    return quickest, bound


def _chase(profile: Profile, node: Node, best: Incumbent) -> list[Node]:
    """Settle a node of whose bound no mapping is known; if that takes too long it comes back, marked as given up."""
    free = np.zeros_like(node.least), np.full_like(node.most, np.inf)
    charges = profile.fixed.charges(profile.choice, profile.terms.price, *free)
    profile.fixed.run(charges)
    constant = float(profile.terms.constant[0])
    quickest = profile.least_cycles(np.maximum(node.least, profile.terms.fewest * (1.0 - TOLERANCE)))
    done = chase(profile, charges, constant, quickest, best)
    return [] if done else [Node(node.least, node.most, node.bound, given_up=True)]


def split(profile: Profile, node: Node, floor: FloatArray, words: FloatArray, limit: float) -> list[Node]:
    """Parts of a node in which the cycles can be below the limit.

    First the limit is turned into a cap for each boundary given the fewest words of the others; if
    the solution found respects all caps and is still too slow, the boundary that contributes most is bisected.
    """
    terms = profile.terms
    most = node.most.copy()
    if math.isfinite(limit):
        slack = limit * (1.0 + TOLERANCE) - terms.constant_cycles - terms.demand @ floor
        if len(slack) and slack.min() < 0.0:
            return []
        for j in range(len(slack)):
            used = terms.demand[j] > 0.0
            most[used] = np.minimum(most[used], floor[used] + slack[j] / terms.demand[j, used])
    if np.any(words > most * (1.0 + _APART)):
        return [Node(node.least, most, node.bound, node.cycles)]
    if not len(words):
        return []
    ports = terms.constant_cycles + terms.demand @ words
    j = int(ports.argmax())
    excess = terms.demand[j] * (words - floor)
    b = int(excess.argmax())
    if words[b] <= floor[b] * (1.0 + _APART):
        return []
    middle = math.sqrt(max(1.0, floor[b]) * words[b])
    middle = middle if floor[b] < middle < words[b] else 0.5 * (floor[b] + words[b])
    lower, upper = most.copy(), node.least.copy()
    lower[b], upper[b] = middle, np.nextafter(middle, np.inf)
    return [Node(node.least, lower, node.bound, node.cycles), Node(upper, most, node.bound, node.cycles)]
