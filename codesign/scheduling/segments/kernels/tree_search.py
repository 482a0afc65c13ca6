"""The search over trees: a dynamic program over cuts for a start, then annealing (rules M51 to M54)."""

import math

import numpy as np

from codesign.core.jit import njit
from codesign.core.kernel_library import FloatArray, IntArray
from codesign.core.rng import RandomState, uniform
from codesign.scheduling.segments.kernels.machine import FED, Problem, Tokens, Workspace
from codesign.scheduling.segments.kernels.moves import copy_tokens, mutate
from codesign.scheduling.segments.kernels.segment_cost import needed_later, number_nodes, segment_cost, tree_value
from codesign.scheduling.segments.kernels.tile_figures import mix, whole_batch
from codesign.scheduling.segments.kernels.tree import LEAF, TIME

NEST, BLOCKS = -1, 1
"""Blocks of an option whose cuts in time are nested as deep as words need it to stay on chip, or one level deep."""


@njit
def _open_cut(tokens: Tokens, at: int, kind: int, groups: int) -> int:
    """Begin a cut, whose size its end tells; returns the next free token."""
    tokens.kind[at], tokens.layer[at], tokens.groups[at], tokens.choice[at] = kind, -1, groups, 0
    return at + 1


@njit
def _write_leaf(tokens: Tokens, at: int, layer: int, choice: int) -> int:
    """Append a layer; returns the next free token."""
    tokens.kind[at], tokens.layer[at], tokens.groups[at] = LEAF, layer, 1
    tokens.choice[at], tokens.size[at] = choice, 1
    return at + 1


@njit
def _write_segment(tokens: Tokens, at: int, layers: IntArray, kind: int, groups: int, choices: IntArray) -> int:
    """Append a cut over layers, or the one layer; returns the next free token."""
    if layers.shape[0] > 1:
        tokens.size[at] = layers.shape[0] + 1
        at = _open_cut(tokens, at, kind, groups)
    for layer in layers:
        at = _write_leaf(tokens, at, layer, choices[layer])
    return at


@njit
def write_flat(tokens: Tokens, order: IntArray, groups: int) -> None:
    """All layers one after another, each a segment."""
    at = _open_cut(tokens, 0, TIME, groups)
    for layer in order:
        at = _write_leaf(tokens, at, layer, 0)
    tokens.size[0] = tokens.length[0] = at


@njit
def _find_blocks(problem: Problem, layers: IntArray, starts: IntArray) -> int:
    """Where the children of a cut in time over layers start; returns how many there are.

    Where a layer reads one before the previous child, all after that child become one block, so that the words stay on chip.
    """
    children = 0
    for i in range(layers.shape[0]):
        starts[children] = i
        children += 1
        layer = layers[i]
        for e in range(problem.edges.start[layer], problem.edges.start[layer + 1]):
            source = i
            while source > 0 and layers[source] != problem.edges.producer[e]:
                source -= 1
            if layers[source] != problem.edges.producer[e]:
                continue
            child = children - 1
            while starts[child] > source:
                child -= 1
            children = min(children, child + 2)
    return children


@njit
def write_nest(
    problem: Problem, tokens: Tokens, at: int, layers: IntArray, groups: int, deep: bool, choices: IntArray
) -> int:
    """Append a cut in time whose children are layers, or cuts in time again where words need it to stay on chip.

    Args:
        problem: Network and system.
        tokens: Receives the cut.
        at: First free token.
        layers: Of the cut, in order.
        groups: Of the cut.
        deep: Whether its children are cut as deep as words need it, rather than once.
        choices: Choice of each layer.

    Returns:
        The next free token.
    """
    n = layers.shape[0]
    starts = np.empty(n + 1, np.int64)
    children = _find_blocks(problem, layers, starts)
    if children == n:
        return _write_segment(tokens, at, layers, TIME, groups, choices)
    starts[children] = n
    begin, at = at, _open_cut(tokens, at, TIME, groups)
    for child in range(children):
        block = layers[starts[child] : starts[child + 1]]
        if deep:
            at = write_nest(problem, tokens, at, block, 1, True, choices)
        else:
            at = _write_segment(tokens, at, block, TIME, 1, choices)
    tokens.size[begin] = at - begin
    return at


@njit
def _write_shares(
    problem: Problem, tokens: Tokens, at: int, layers: IntArray, option: IntArray, choices: IntArray
) -> int:
    """Append a cut in space of so many blocks of about equal work, each a layer or a cut in time; `at` where layers are too few."""
    n, blocks, total = layers.shape[0], option[2], 0.0
    if n <= blocks:
        return at
    for layer in layers:
        total += problem.unit_times[layer, 0]
    work, start, written = 0.0, 0, 0
    begin, at = at, _open_cut(tokens, at, option[0], option[1])
    for i in range(n):
        work += problem.unit_times[layers[i], 0]
        left = n - 1 - i
        more = 0.0 if left == 0 else 0.5 * problem.unit_times[layers[i + 1], 0]
        if (
            left == 0
            or left == blocks - written - 1
            or (written < blocks - 1 and work + more >= total * (written + 1) / blocks)
        ):
            at = _write_segment(tokens, at, layers[start : i + 1], TIME, 1, choices)
            start = i + 1
            written += 1
    tokens.size[begin] = at - begin
    return at


@njit
def write_option(
    problem: Problem, tokens: Tokens, at: int, layers: IntArray, option: IntArray, choices: IntArray
) -> int:
    """Append a segment over layers; returns the next free token, `at` where the option says nothing new."""
    if option[2] == NEST:
        return write_nest(problem, tokens, at, layers, option[1], True, choices)
    if option[2] == BLOCKS:
        end = write_nest(problem, tokens, at, layers, option[1], False, choices)
        return end if end > at + layers.shape[0] + 1 else at
    if option[2] > 1:
        return _write_shares(problem, tokens, at, layers, option, choices)
    return _write_segment(tokens, at, layers, option[0], option[1], choices)


@njit
def _likeness(work: Workspace, order: IntArray, first: int, past: int) -> int:
    """A key of all that the costs of consecutive layers depend on, other segments being unknown."""
    problem, segment_of = work.problem, work.scratch.segment_of
    for layer in order:
        segment_of[layer] = -1
    for i in range(first, past):
        segment_of[order[i]] = 1
    key = past - first
    for i in range(first, past):
        layer = order[i]
        key = mix(key, problem.kin[layer, FED] * 2 + needed_later(work, layer, 1))
        for e in range(problem.edges.start[layer], problem.edges.start[layer + 1]):
            away = 0
            if segment_of[problem.edges.producer[e]] == 1:
                away = 1
                while i - away >= first and order[i - away] != problem.edges.producer[e]:
                    away += 1
            key = mix(key, away)
    return key


@njit
def price_option(
    work: Workspace, tokens: Tokens, layers: IntArray, option: IntArray, choices: IntArray, cost: FloatArray
) -> bool:
    """Energy and time of a segment over layers, the others standing as in `tokens`; whether it is a scheme."""
    end = write_option(work.problem, tokens, 1, layers, option, choices)
    if end == 1:
        return False
    tokens.size[0] = tokens.length[0] = end
    if not number_nodes(work, tokens):
        return False
    good, energy, time = segment_cost(work, tokens, 1)
    if good:
        cost[0], cost[1] = energy, time
    return good


@njit
def price_segments(
    work: Workspace,
    tokens: Tokens,
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
        work: Network, system and room.
        tokens: Room.
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
    choices, whole = np.zeros(n, np.int64), whole_batch(work.problem)
    write_flat(tokens, order, root_groups)
    for first in range(n - length + 1):
        keys[first] = _likeness(work, order, first, first + length)
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
            layers, cost = order[first : first + length], costs[first, o]
            if price_option(work, tokens, layers, options[o], choices, cost):
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
    at, first, energy, time = _open_cut(tokens, 0, TIME, root_groups), 0, 0.0, 0.0
    while first < n:
        length, o = length_of[first], option_of[first]
        at = write_option(problem, tokens, at, order[first : first + length], options[o], choices)
        energy += costs[length - 1, first, o, 0]
        time += costs[length - 1, first, o, 1]
        first += length
    tokens.size[0] = tokens.length[0] = at
    return energy, time


@njit
def anneal(
    work: Workspace,
    current: Tokens,
    trial: Tokens,
    room: Tokens,
    best: Tokens,
    moves: IntArray,
    schedule: FloatArray,
    steps: int,
    state: RandomState,
) -> float:
    """Steps of annealing from `current`; keeps the best tree and returns its value (rule M53).

    Args:
        work: Network, system, goal and room.
        current: The tree, changed in place.
        trial: Room for a tree.
        room: Room for a tree.
        best: Best tree so far, changed in place.
        moves: Weights of the moves.
        schedule: Value of `current`, value of `best`, temperature at the first step, at the last; the first two are updated.
        steps: How many.
        state: Of the random numbers.
    """
    now, least = schedule[0], schedule[1]
    number_nodes(work, current)
    numbered = True
    for step in range(steps):
        temperature = schedule[2] * (schedule[3] / schedule[2]) ** (step / steps)
        if not numbered:
            number_nodes(work, current)
        copy_tokens(current, trial)
        numbered = True
        if not mutate(work, trial, room, moves, state):
            continue
        numbered = False
        value = tree_value(work, trial)
        if value == np.inf:
            continue
        if value > now and uniform(state) >= math.exp((now - value) / temperature):
            continue
        copy_tokens(trial, current)
        now = value
        if now < least - 1e-12:
            least = now
            copy_tokens(current, best)
    schedule[0], schedule[1] = now, least
    return least  # type: ignore[no-any-return]
