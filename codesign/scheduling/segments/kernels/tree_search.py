"""The search over trees: a dynamic program over cuts for a start, then annealing (rules M51 to M54)."""

import math

import numpy as np

from codesign.core.jit import njit
from codesign.core.kernel_library import FloatArray, IntArray
from codesign.core.rng import RandomState, uniform
from codesign.scheduling.segments.kernels.machine import FED, Caches, Problem, Scratch, Tokens
from codesign.scheduling.segments.kernels.moves import copy_tokens, mutate
from codesign.scheduling.segments.kernels.segment_cost import needed_later, number_nodes, segment_cost, tree_cost
from codesign.scheduling.segments.kernels.tile_figures import mix
from codesign.scheduling.segments.kernels.tree import LEAF, TIME

NEST = -1
"""Blocks of an option whose cuts in time are nested as deep as words need it to stay on chip."""


@njit
def _write_segment(
    tokens: Tokens, at: int, order: IntArray, first: int, past: int, kind: int, groups: int, choices: IntArray
) -> int:
    """Append a cut over consecutive layers, or the one layer; returns the next free token."""
    if past - first > 1:
        tokens.kind[at], tokens.layer[at], tokens.groups[at] = kind, -1, groups
        tokens.choice[at], tokens.size[at] = 0, past - first + 1
        at += 1
    for i in range(first, past):
        tokens.kind[at], tokens.layer[at], tokens.groups[at] = LEAF, order[i], 1
        tokens.choice[at], tokens.size[at] = choices[order[i]], 1
        at += 1
    return at


@njit
def write_flat(tokens: Tokens, order: IntArray, groups: int) -> None:
    """All layers one after another, each a segment."""
    n = order.shape[0]
    choices = np.zeros(n, np.int64)
    tokens.kind[0], tokens.layer[0], tokens.groups[0], tokens.choice[0] = TIME, -1, groups, 0
    tokens.size[0] = tokens.length[0] = n + 1
    for i in range(n):
        _write_segment(tokens, i + 1, order, i, i + 1, TIME, 1, choices)


@njit
def _find_blocks(problem: Problem, order: IntArray, first: int, past: int, starts: IntArray) -> int:
    """Where the children of a cut in time over consecutive layers start; returns how many there are.

    Where a layer reads one before the previous child, all after that child become one block, so that the words stay on chip.
    """
    children = 0
    for i in range(first, past):
        starts[children] = i
        children += 1
        layer = order[i]
        for e in range(problem.edges.start[layer], problem.edges.start[layer + 1]):
            source = i
            while source > first and order[source] != problem.edges.producer[e]:
                source -= 1
            if order[source] != problem.edges.producer[e]:
                continue
            child = children - 1
            while starts[child] > source:
                child -= 1
            children = min(children, child + 2)
    return children


@njit
def _write_blocks(
    problem: Problem,
    tokens: Tokens,
    at: int,
    order: IntArray,
    first: int,
    past: int,
    option: IntArray,
    starts: IntArray,
    choices: IntArray,
) -> int:
    """Append a cut in time over consecutive layers whose children are blocks: a layer, or a cut in time over several.

    Args:
        problem: Network and system.
        tokens: Receives the cut.
        at: First free token.
        order: Layers.
        first: First of the cut in `order`.
        past: One past the last.
        option: Kind of the cut, and its groups.
        starts: Room for one number a layer.
        choices: Choice of each layer.

    Returns:
        The next free token; `at` where every child is one layer.
    """
    children = _find_blocks(problem, order, first, past, starts)
    if children == past - first:
        return at
    begin = at
    tokens.kind[at], tokens.layer[at], tokens.groups[at], tokens.choice[at] = TIME, -1, option[1], 0
    at += 1
    for child in range(children):
        end = starts[child + 1] if child + 1 < children else past
        at = _write_segment(tokens, at, order, starts[child], end, TIME, 1, choices)
    tokens.size[begin] = at - begin
    return at


@njit
def write_nest(
    problem: Problem, tokens: Tokens, at: int, order: IntArray, first: int, past: int, choices: IntArray
) -> int:
    """Append a cut in time whose blocks are cuts in time again, as deep as words need it to stay on chip; returns the next token."""
    if past - first == 1:
        return _write_segment(tokens, at, order, first, past, TIME, 1, choices)
    starts = np.empty(past - first + 1, np.int64)
    children = _find_blocks(problem, order, first, past, starts)
    begin = at
    tokens.kind[at], tokens.layer[at], tokens.groups[at], tokens.choice[at] = TIME, -1, 1, 0
    at += 1
    for child in range(children):
        end = starts[child + 1] if child + 1 < children else past
        at = write_nest(problem, tokens, at, order, starts[child], end, choices)
    tokens.size[begin] = at - begin
    return at


@njit
def _write_shares(
    problem: Problem,
    tokens: Tokens,
    at: int,
    order: IntArray,
    first: int,
    past: int,
    option: IntArray,
    choices: IntArray,
) -> int:
    """Append a cut in space of so many blocks of about equal work, each a layer or a cut in time; `at` where layers are too few."""
    blocks, total = option[2], 0.0
    if past - first <= blocks:
        return at
    for i in range(first, past):
        total += problem.unit_times[order[i], 0]
    begin, work, start, written = at, 0.0, first, 0
    tokens.kind[at], tokens.layer[at], tokens.groups[at], tokens.choice[at] = option[0], -1, option[1], 0
    at += 1
    for i in range(first, past):
        work += problem.unit_times[order[i], 0]
        left = past - 1 - i
        more = 0.0 if left == 0 else 0.5 * problem.unit_times[order[i + 1], 0]
        if (
            left == 0
            or left == blocks - written - 1
            or (written < blocks - 1 and work + more >= total * (written + 1) / blocks)
        ):
            at = _write_segment(tokens, at, order, start, i + 1, TIME, 1, choices)
            start = i + 1
            written += 1
    tokens.size[begin] = at - begin
    return at


@njit
def write_option(
    problem: Problem,
    tokens: Tokens,
    at: int,
    order: IntArray,
    first: int,
    past: int,
    option: IntArray,
    starts: IntArray,
    choices: IntArray,
) -> int:
    """Append a segment over consecutive layers; returns the next free token, `at` where the option says nothing new."""
    if option[2] == NEST:
        end = write_nest(problem, tokens, at, order, first, past, choices)
        tokens.groups[at] = option[1]
        return end
    if option[2] == 1:
        return _write_blocks(problem, tokens, at, order, first, past, option, starts, choices)
    if option[2] > 1:
        return _write_shares(problem, tokens, at, order, first, past, option, choices)
    return _write_segment(tokens, at, order, first, past, option[0], option[1], choices)


@njit
def _likeness(problem: Problem, scratch: Scratch, order: IntArray, first: int, past: int) -> int:
    """A key of all that the costs of consecutive layers depend on, other segments being unknown."""
    for layer in range(order.shape[0]):
        scratch.segment_of[layer] = -1
    for i in range(first, past):
        scratch.segment_of[order[i]] = 1
    key = past - first
    for i in range(first, past):
        layer = order[i]
        key = mix(key, problem.kin[layer, FED] * 2 + needed_later(problem, scratch, layer, 1))
        for e in range(problem.edges.start[layer], problem.edges.start[layer + 1]):
            away = 0
            if scratch.segment_of[problem.edges.producer[e]] == 1:
                away = 1
                while i - away >= first and order[i - away] != problem.edges.producer[e]:
                    away += 1
            key = mix(key, away)
    return key


@njit
def price_option(
    problem: Problem,
    caches: Caches,
    tokens: Tokens,
    scratch: Scratch,
    order: IntArray,
    first: int,
    past: int,
    option: IntArray,
    starts: IntArray,
    choices: IntArray,
    cost: FloatArray,
) -> bool:
    """Energy and time of a segment over consecutive layers, the other layers standing as in `tokens`; whether it is a scheme."""
    end = write_option(problem, tokens, 1, order, first, past, option, starts, choices)
    if end == 1:
        return False
    tokens.size[0] = tokens.length[0] = end
    if not number_nodes(problem, tokens, scratch):
        return False
    good, energy, time = segment_cost(problem, caches, tokens, scratch, 1)
    if good:
        cost[0], cost[1] = energy, time
    return good


@njit
def price_segments(
    problem: Problem,
    caches: Caches,
    tokens: Tokens,
    scratch: Scratch,
    order: IntArray,
    root_groups: int,
    options: IntArray,
    length: int,
    less: int,
    shorter: FloatArray,
    costs: FloatArray,
) -> int:
    """Energy and time of all segments of some number of consecutive layers (rule M52).

    A cut in time does not fit where it does not without its first or its last layers. Equal segments are priced once.

    Args:
        problem: Network and system.
        caches: What is known.
        tokens: Room.
        scratch: Room.
        order: Layers.
        root_groups: Runs of every segment.
        options: Kind of the cut, its groups, and 1 where its children are blocks, m x 3; kind `LEAF` is for single layers.
        length: Layers of a segment.
        less: How many layers fewer those of `shorter` have; 0 where nothing is known.
        shorter: What was received for them.
        costs: Receives energy and time, layers x m x 2; infinite where there is no scheme.

    Returns:
        How many schemes there are.
    """
    n, found = order.shape[0], 0
    keys = np.zeros(n, np.int64)
    starts, choices = np.zeros(length + 1, np.int64), np.zeros(n, np.int64)
    whole = problem.batches[problem.batches.shape[0] - 1]
    write_flat(tokens, order, root_groups)
    for first in range(n - length + 1):
        keys[first] = _likeness(problem, scratch, order, first, first + length)
        like = 0
        while keys[like] != keys[first]:
            like += 1
        if like < first:
            costs[first] = costs[like]
            continue
        for o in range(options.shape[0]):
            costs[first, o] = np.inf
            if whole % (root_groups * options[o, 1]) != 0:
                continue
            if options[o, 0] == TIME and less > 0:
                flat = o - options[o, 2]
                if shorter[first, flat, 0] == np.inf or shorter[first + less, flat, 0] == np.inf:
                    continue
            past, cost = first + length, costs[first, o]
            if price_option(problem, caches, tokens, scratch, order, first, past, options[o], starts, choices, cost):
                found += 1
    return found


@njit
def cut_by_program(
    problem: Problem,
    costs: FloatArray,
    order: IntArray,
    root_groups: int,
    options: IntArray,
    per_time: float,
    choices: IntArray,
    tokens: Tokens,
) -> tuple[float, float]:
    """The cuts of least energy + `per_time` x time, by dynamic programming; returns those of a run of the root (rule M52).

    Args:
        problem: Network and system.
        costs: Of `price_segments` for each length, lengths x layers x m x 2.
        order: Layers.
        root_groups: Runs of every segment.
        options: See `price_segments`.
        per_time: Energy that a unit of time is worth.
        choices: Choice of each layer.
        tokens: Receives the tree.
    """
    n, longest = costs.shape[1], costs.shape[0]
    best, length_of, option_of = np.full(n + 1, np.inf), np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    best[n] = 0.0
    for first in range(n - 1, -1, -1):
        for length in range(1, min(longest, n - first) + 1):
            for o in range(options.shape[0]):
                value = costs[length - 1, first, o, 0] + per_time * costs[length - 1, first, o, 1]
                value += best[first + length]
                if value < best[first]:
                    best[first], length_of[first], option_of[first] = value, length, o
    if best[0] == np.inf:
        return np.inf, np.inf
    starts = np.zeros(longest + 1, np.int64)
    tokens.kind[0], tokens.layer[0], tokens.groups[0], tokens.choice[0] = TIME, -1, root_groups, 0
    at, first, energy, time = 1, 0, 0.0, 0.0
    while first < n:
        length, o = length_of[first], option_of[first]
        at = write_option(problem, tokens, at, order, first, first + length, options[o], starts, choices)
        energy += costs[length - 1, first, o, 0]
        time += costs[length - 1, first, o, 1]
        first += length
    tokens.size[0] = tokens.length[0] = at
    return energy, time


@njit
def value_of(energy: float, time: float, weights: FloatArray) -> float:
    """The logarithm of energy^a x time^b."""
    return weights[0] * math.log(energy) + weights[1] * math.log(max(time, 1.0))  # type: ignore[no-any-return]


@njit
def anneal(
    problem: Problem,
    caches: Caches,
    scratch: Scratch,
    current: Tokens,
    trial: Tokens,
    room: Tokens,
    best: Tokens,
    moves: IntArray,
    goal: FloatArray,
    schedule: FloatArray,
    steps: int,
    state: RandomState,
) -> float:
    """Steps of annealing from `current`; keeps the best tree and returns its value (rule M53).

    Args:
        problem: Network and system.
        caches: What is known.
        scratch: Room.
        current: The tree, changed in place.
        trial: Room for a tree.
        room: Room for a tree.
        best: Best tree so far, changed in place.
        moves: Weights of the moves.
        goal: Exponents of energy and time.
        schedule: Value of `current`, value of `best`, temperature at the first step, at the last; the first two are updated.
        steps: How many.
        state: Of the random numbers.
    """
    now, least = schedule[0], schedule[1]
    number_nodes(problem, current, scratch)
    numbered = True
    for step in range(steps):
        temperature = schedule[2] * (schedule[3] / schedule[2]) ** (step / steps)
        if not numbered:
            number_nodes(problem, current, scratch)
        copy_tokens(current, trial)
        numbered = True
        if not mutate(problem, caches, trial, room, scratch, moves, state):
            continue
        numbered = False
        good, energy, time = tree_cost(problem, caches, trial, scratch)
        if not good:
            continue
        value = value_of(energy, time, goal)
        if value > now and uniform(state) >= math.exp((now - value) / temperature):
            continue
        copy_tokens(trial, current)
        now = value
        if now < least - 1e-12:
            least = now
            copy_tokens(current, best)
    schedule[0], schedule[1] = now, least
    return least  # type: ignore[no-any-return]
