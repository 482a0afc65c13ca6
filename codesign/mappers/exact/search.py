"""Branch and bound over profiles, and within a profile over how many words may cross each boundary."""

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from codesign.mappers.base import Objective
from codesign.mappers.exact.chase import chase
from codesign.mappers.exact.fixed import FixedKeep
from codesign.mappers.exact.incumbent import TOLERANCE, Goal, Incumbent, whole_cycles
from codesign.mappers.exact.profile import Profile
from codesign.mappers.exact.trace import trace_nest
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
    if fixed.n_profiles == 0:
        return math.inf
    values = bound_values(best.goal, *fixed.bounds())
    return _in_order(fixed, values, fixed.choices_at, best)


def search_choices(fixed: FixedKeep, choices: IntArray, best: Incumbent, most: int | None = None) -> float:
    """`search_fixed` for some profiles only, ``P x L`` options, and of these for at most the `most` first ones."""
    if len(choices) == 0:
        return math.inf
    values = bound_values(best.goal, *fixed.bounds_of(choices))
    return _in_order(fixed, values, lambda numbers: choices[numbers], best, most)


def bound_values(goal: Goal, energy: FloatArray, cycles: FloatArray) -> FloatArray:
    """The goal's value of bounds on energy and cycles, elementwise."""
    whole = np.ceil(cycles * (1.0 - TOLERANCE))
    if goal.objective is Objective.ENERGY:
        values = energy
    else:
        values = whole if goal.objective is Objective.LATENCY else energy * whole
    return np.where(whole > goal.latency_limit, np.inf, values)


def _in_order(
    fixed: FixedKeep, values: FloatArray, choices_at: Callable[[IntArray], IntArray], best: Incumbent,
    most: int | None = None,
) -> float:  # fmt: skip
    """Open profiles in the order of their bounds until none can be better.

    All have the quick bound; it is sharpened block by block, and a profile is opened when its sharper bound is
    below the quick bounds of all others. Equal bounds: less energy first, then the first profile.
    """
    if math.isfinite(best.value):
        order = np.flatnonzero(values < best.value * (1.0 - TOLERANCE))
    else:
        order = np.flatnonzero(values < math.inf)
    order = order[np.argsort(values[order], kind="stable")]
    waiting: list[tuple[float, float, int, IntArray, Profile | None]] = []
    unsearched, at, opened = math.inf, 0, 0
    while waiting or at < len(order):
        if not waiting or (at < len(order) and values[order[at]] <= waiting[0][0]):
            numbers = order[at : at + _BLOCK]
            choices = choices_at(numbers)
            at += len(numbers)
            energy, cycles = fixed.sharper_bounds(choices)
            rows = zip(bound_values(best.goal, energy, cycles), energy, numbers, choices, strict=True)
            for value, spent, number, choice in rows:
                if best.beaten_by(float(value)):
                    heapq.heappush(waiting, (float(value), float(spent), int(number), choice, None))
            continue
        value, _, number, choice, profile = heapq.heappop(waiting)
        if not best.beaten_by(value) or opened == most:
            break
        if best.late and best.nest is not None:
            return min(unsearched, value)
        if profile is None:  # once more, with its own tiles only
            profile, spent, quickest = open_profile(fixed, choice)
            value = max(value, best.goal.value(spent, quickest))
            heapq.heappush(waiting, (value, spent, number, choice, profile))
            continue
        opened += 1
        best.ask()
        unsearched = min(unsearched, search_profile(profile, value, best))
    return unsearched


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
    by_latency = goal.objective is Objective.LATENCY
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
    if (goal.objective is Objective.ENERGY and math.isinf(goal.latency_limit)) or cycles <= quickest:
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
    if goal.objective is not Objective.EDP or not best.beaten_by(bound):
        return quickest, bound
    weight = energy / quickest
    both = least(terms.price + weight * terms.demand[j]) * (1.0 - TOLERANCE)
    both += float(terms.constant[0]) + weight * constant
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
