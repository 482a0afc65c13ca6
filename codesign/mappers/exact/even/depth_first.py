"""Every nest of one profile with one keep set that may beat the incumbent, where the program is only a bound (C1, C2).

The table bounds every completion from below in energy (for latency in cycles of one port). So only nests whose bound beats the
incumbent are walked, loop by loop, and every one that is completed is scored by the kernel. An entry of the stack is a
nest built from the inside up to some point: a state and tile of the program, what its words cost so far, the chains that
may still go on, and the step that led to it. The compiled walk can be taken up again; it stops at complete nests that are
better than what is known.
"""

import math
from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.core.kernel_library import gcd
from codesign.cost.kernel import score
from codesign.cost.packed import VALID, Kernel
from codesign.mappers.driver import OBJECTIVE_CODE, value_of
from codesign.mappers.exact.even.fill_states import ADVANCE, END, KIND, SOURCE, WHAT
from codesign.mappers.exact.even.joint_program import Filled, gather, loop_cost
from codesign.mappers.exact.even.profile import EvenProfile, KeepSets
from codesign.mappers.exact.incumbent import TOLERANCE, Incumbent
from codesign.mappers.exact.problem.lattice import INF, Grid, grown
from codesign.mappers.exact.problem.loop_rows import LoopRows
from codesign.mapping.nest import BYPASSED, FloatArray, IntArray, Nest

MOST_STEPS = 10_000_000
"""Loops placed before the search of one profile gives up and leaves a gap."""

_STEPS_AT_ONCE = 10_000
"""Loops placed between two looks at the clock."""

_CELLS_A_STEP = 300
"""Cells of the program that take as long as one step."""

EXHAUSTED, COMPLETE, PAUSED = 0, 1, 2

# columns of an entry
STATE, TILE, USED, LAST, DEPTH, LIVE, PLACE, DIMENSION, FACTOR = range(9)
ROUNDED = 1.0 - 1e-11
NO_LOOP = -1
"""DIMENSION of a step that ends a level, or passes over a loop of a fixed order."""

# columns of a chain's figures, see `Stack`
_LEFT, _CREDIT = 0, 1


class Plan(NamedTuple):
    """What turns steps into a nest.

    Attributes:
        keep: ``L x T`` 1 where a level keeps a tensor.
        fan: ``K x 4`` spatial loops, as rows of a nest, outermost first.
        members: ``D x M`` the problem's dimensions that each of the lattice's stands for, -1 padded.
        left: ``D x M`` what the spatial loops leave of their bounds.
    """

    keep: IntArray
    fan: IntArray
    members: IntArray
    left: IntArray


class Stack(NamedTuple):
    """Entries waiting, and the steps that led to the entry looked at last.

    Attributes:
        entries: ``E x 9``.
        spent: ``E`` priced words so far, less what live chains may still save.
        chains: ``E x K`` row of the axis.
        figures: ``E x K x 2`` cost of the words not fetched if every further step repeats the first; credit: what the bound
            still takes off.
        path: ``P x 9`` steps, innermost first.
    """

    entries: IntArray
    spent: FloatArray
    chains: IntArray
    figures: FloatArray
    path: IntArray


class Search(NamedTuple):
    """What a walk looks things up in, and what it has to beat.

    Attributes:
        filled: The program with its table: least completions.
        tensor: ``R`` of every sliding axis.
        relevant: ``T x D`` 1 where a dimension indexes a tensor.
        constant: What is paid beside what the walk counts.
        mode: Of the objective, `codesign.mappers.driver.OBJECTIVE_CODE`.
        quickest: Least cycles of the profile.
        limit: Value below which a nest is better.
        latency_limit: Most cycles allowed.
    """

    filled: Filled
    tensor: IntArray
    relevant: IntArray
    constant: float
    mode: int
    quickest: float
    limit: float
    latency_limit: float


class Live(NamedTuple):
    """Chains that may still go on: see `Stack`; ``K`` and ``K x 2``."""

    chains: IntArray
    figures: FloatArray


def _make_stack(most_chains: int, deepest: int, start: int, room: int = 256) -> Stack:
    """A stack with the state at the MACs, for nests of up to `deepest` steps with up to `most_chains` live chains."""
    stack = Stack(
        np.zeros((room, 9), np.int64), np.zeros(room), np.zeros((room, most_chains), np.int64),
        np.zeros((room, most_chains, 2)), np.zeros((deepest, 9), np.int64),
    )  # fmt: skip
    stack.entries[0, STATE], stack.entries[0, LAST], stack.entries[0, DIMENSION] = start, -1, NO_LOOP
    return stack


@njit
def _may_win(search: Search, least: float) -> bool:
    """Whether a nest of at least this energy, or where latency is minimised so many cycles, may be better."""
    value = value_of(search.mode, least, max(search.quickest, np.ceil(least * ROUNDED) if search.mode == 1 else 0.0))
    return bool(np.isfinite(least) and value < search.limit)


@njit
def _room_for_one(stack: Stack, top: int) -> Stack:
    """The stack, doubled if it is full."""
    if top < stack.spent.shape[0]:
        return stack
    return Stack(
        np.concatenate((stack.entries, np.zeros_like(stack.entries))),
        np.concatenate((stack.spent, np.zeros_like(stack.spent))),
        np.concatenate((stack.chains, np.zeros_like(stack.chains))),
        np.concatenate((stack.figures, np.zeros_like(stack.figures))),
        stack.path,
    )


@njit
def _advance(search: Search, live: Live, n_live: int, to: Live, d: int, factor: float) -> tuple[int, float]:
    """Chains that go on after a loop over d, written to `to`: their number, and the credit all lost by it.

    Every step of a loop that does not end a chain counts as one that repeats the first.
    """
    going, lost = 0, 0.0
    for c in range(n_live):
        row, left, credit = live.chains[c], live.figures[c, _LEFT], live.figures[c, _CREDIT]
        t = search.tensor[row]
        if search.filled.moved.row[t, d] != row and search.relevant[t, d] == 1:
            lost += credit
            continue
        lost += credit - left
        to.chains[going] = row
        to.figures[going, _LEFT] = to.figures[going, _CREDIT] = left / factor
        going += 1
    return going, lost


@njit
def _begin(search: Search, n: int, x: int, level: int, d: int, j: int, to: Live, n_live: int) -> int:
    """Add the chains that start when a loop over d closes the n boundaries gathered at tile x; how many are live then."""
    moved, parts, factor = search.filled.moved, search.filled.parts, search.filled.grid.divisor[d, j]
    for i in range(n):
        t, v, slot, number, row = parts.boundary[i]
        if number < 0:
            continue
        saved = moved.saving[number, 1 if slot >= 0 else 0, moved.place[d, j], moved.axis_tile[row, level, x]]
        words = moved.shared[slot, level, v, d, x] if slot >= 0 else moved.words[t, v, x]
        worth = words * parts.figure[i, 0]
        if worth * saved <= 0.0:
            continue
        to.chains[n_live] = row
        to.figures[n_live, _LEFT], to.figures[n_live, _CREDIT] = worth / factor, worth * saved
        n_live += 1
    return n_live


@njit
def _push_loops(
    stack: Stack, top: int, search: Search, here: IntArray, spent: float, live: Live, depth: int
) -> tuple[Stack, int]:
    """Push every temporal loop that may come next and may win."""
    filled, grid, program = search.filled, search.filled.grid, search.filled.program
    s, x, used, last, n_live = here[STATE], here[TILE], here[USED], here[LAST], here[LIVE]
    level = program.level[s]
    for d in range(grid.n_divisors.shape[0]):
        after = program.after[s, d]
        if after < 0 or used >> d & 1 == 1:
            continue
        n = gather(s, after, level, d, filled)
        if n == 0 and n_live == 0 and last > d:
            continue
        for j in range(1, grid.n_divisors[d]):
            y, factor = grown(x, d, j, grid), grid.divisor[d, j]
            if y < 0 or (program.factor[s, d] > 0 and program.factor[s, d] != factor):
                continue
            cost = loop_cost(n, level, d, j, x, factor, True, filled)
            least = search.constant + spent + cost + filled.table[after, y]
            if not _may_win(search, least):
                continue
            stack = _room_for_one(stack, top)
            to = Live(stack.chains[top], stack.figures[top])
            going, lost = _advance(search, live, n_live, to, d, factor)
            if not _may_win(search, least + lost):
                continue
            going = _begin(search, n, x, level, d, j, to, going)
            entry = stack.entries[top]
            entry[STATE], entry[TILE], entry[USED], entry[LAST] = after, y, used | 1 << d, -1 if n > 0 else d
            entry[DEPTH], entry[LIVE], entry[PLACE], entry[DIMENSION], entry[FACTOR] = depth, going, level, d, j
            stack.spent[top] = spent + cost + lost
            top += 1
    return stack, top


@njit
def _push_following(
    stack: Stack, top: int, search: Search, here: IntArray, spent: float, live: Live, depth: int
) -> tuple[Stack, int]:
    """Push all that may stand directly outside an entry: loops, the end of the level, the next loop of a fixed order passed over."""
    filled, program, s, x, n_live = search.filled, search.filled.program, here[STATE], here[TILE], here[LIVE]
    stack, top = _push_loops(stack, top, search, here, spent, live, depth)
    level = program.level[s]
    for o in range(program.first[s], program.first[s + 1]):
        kind, source, what = program.operations[o, KIND], program.operations[o, SOURCE], program.operations[o, WHAT]
        if not (kind == END and filled.penalty[level, what, x] <= 0.0) and not (kind == ADVANCE and what == 0):
            continue
        if not _may_win(search, search.constant + spent + filled.table[source, x]):
            continue
        stack = _room_for_one(stack, top)
        entry = stack.entries[top]
        entry[:] = here
        entry[STATE], entry[DEPTH], entry[DIMENSION] = source, depth, NO_LOOP
        if kind == END:
            entry[USED], entry[LAST] = 0, -1
        stack.spent[top] = spent
        stack.chains[top, :n_live] = live.chains[:n_live]
        stack.figures[top, :n_live] = live.figures[:n_live]
        top += 1
    return stack, top


@njit
def _write_nest(stack: Stack, depth: int, grid: Grid, plan: Plan, nest: Nest) -> int:
    """Write the nest of a complete path; returns its number of loops."""
    left, count = plan.left.copy(), 0
    for v in range(plan.keep.shape[0]):
        for t in range(plan.keep.shape[1]):
            nest.position[v, t] = count if plan.keep[v, t] == 1 else BYPASSED
        for k in range(depth - 1, -1, -1):
            d = stack.path[k, DIMENSION]
            if d == NO_LOOP or stack.path[k, PLACE] != v:
                continue
            factor = int(grid.divisor[d, stack.path[k, FACTOR]])
            for i in range(left.shape[1]):
                part = gcd(factor, left[d, i])
                factor //= part
                left[d, i] //= part
                if part > 1:
                    nest.loops[count, 0], nest.loops[count, 1] = plan.members[d, i], part
                    nest.loops[count, 2], nest.loops[count, 3] = 0, -1
                    count += 1
        for k in range(plan.fan.shape[0]):
            if plan.fan[k, 3] == v:
                nest.loops[count] = plan.fan[k]
                count += 1
    return count


@njit
def _walk(
    stack: Stack, top: int, steps: int, most: int, search: Search, kernel: Kernel, nest: Nest, plan: Plan
) -> tuple[Stack, int, int, int, int, int]:
    """Go on until the next complete nest that is better.

    Args:
        stack: Entries; may be replaced by a larger one.
        top: How many wait.
        steps: Entries to look at before pausing.
        most: Nests to score before pausing.
        search: What to look up, and what to beat.
        nest: Where they are written; at the end the better one.
        plan: How they are written.

    Returns:
        The stack, how many wait, loops of the nest, entries looked at, nests scored, and why it stopped: `EXHAUSTED`,
        `COMPLETE` (a better nest, or one that the kernel refuses) or `PAUSED`.
    """
    table, program, grid = search.filled.table, search.filled.program, search.filled.grid
    here = np.empty(stack.entries.shape[1], np.int64)
    live = Live(np.empty_like(stack.chains[0]), np.empty_like(stack.figures[0]))
    done, scored = 0, 0
    while top > 0:
        if done == steps or scored >= most:
            return stack, top, 0, done, scored, PAUSED
        top -= 1
        here[:] = stack.entries[top]
        spent, n_live, depth = stack.spent[top], here[LIVE], here[DEPTH]
        live.chains[:n_live] = stack.chains[top, :n_live]
        live.figures[:n_live] = stack.figures[top, :n_live]
        if here[DIMENSION] != NO_LOOP:
            stack.path[depth] = here
            depth += 1
        if not _may_win(search, search.constant + spent + table[here[STATE], here[TILE]]):
            continue
        done += 1
        s, everything = here[STATE], (1 << program.status.shape[1]) - 1
        complete = program.level[s] == 0 and program.ends[s] == 1 and here[TILE] == table.shape[1] - 1
        stack, top = _push_following(stack, top, search, here, spent, live, depth)
        if complete and search.filled.penalty[0, everything, here[TILE]] <= 0.0:
            count = _write_nest(stack, depth, grid, plan, nest)
            status, energy, cycles = score(kernel, nest, count)
            value = value_of(search.mode, energy, cycles) if cycles <= search.latency_limit else INF
            scored += 1
            if status != VALID or value < search.limit:
                return stack, top, count, done, scored, COMPLETE
    return stack, top, 0, done, scored, EXHAUSTED


def chase(profile: EvenProfile, keep: KeepSets, quickest: float, best: Incumbent) -> bool:
    """Score every nest of the profile that may beat the incumbent; False if it gave up.

    Args:
        profile: The profile, whose table has just been filled for the keep set: with energy, for latency with the cycles of a port.
        quickest: Least cycles.
    """
    if quickest > best.goal.latency_limit:
        return True
    instance = profile.problem.instance
    n_levels, n_dims = instance.n_levels, instance.n_dims
    stack = _make_stack(max(1, n_levels * instance.n_tensors), n_levels * (n_dims + 1) + 1, profile.start)
    search, plan, top, steps = _search(profile, quickest, best), _plan(profile, keep), 1, 0
    shape = (n_levels, instance.n_tensors)
    nest = Nest(np.zeros((instance.most_loops, 4), np.int64), np.full(shape, BYPASSED, np.int64))
    while best.may_score:
        search = search._replace(limit=_limit(best, quickest))
        most = int(min(best.scored - best.evaluated, _STEPS_AT_ONCE))
        stack, top, count, done, scored, why = _walk(stack, top, _STEPS_AT_ONCE, most, search, best.kernel, nest, plan)
        steps += done
        best.count(_CELLS_A_STEP * done)
        best.take(Nest(nest.loops[:count], nest.position) if why == COMPLETE else None, scored)
        if why == EXHAUSTED:
            return True
        if steps > MOST_STEPS or best.late:
            break
    return False


def _search(profile: EvenProfile, quickest: float, best: Incumbent) -> Search:
    """The table of a profile, and what is known."""
    filled, problem = profile.filled, profile.problem
    at_macs = 0.0 if OBJECTIVE_CODE[best.goal.objective] == 1 else profile.constant
    for t, p in enumerate(filled.program.starts[0, 1:]):
        at_macs += filled.prices.price[t, -1, p] * profile.fewest[t, -1] + filled.prices.once[t, -1, p]
    return Search(
        filled, np.array([t for t, _ in problem.axes], np.int64), problem.arrays.relevant, float(at_macs),
        OBJECTIVE_CODE[best.goal.objective], float(quickest), _limit(best, quickest), float(best.goal.latency_limit),
    )  # fmt: skip


def _limit(best: Incumbent, quickest: float) -> float:
    """The figure to be below; cycles that count beside the energy are taken as the least there can be."""
    beside = best.goal.cycle_pj * quickest
    return best.value * (1.0 - TOLERANCE) - beside if math.isfinite(best.value) else math.inf


def _plan(profile: EvenProfile, keep: KeepSets) -> Plan:
    """The spatial loops, and what they leave of the bounds."""
    instance, rows = profile.problem.instance, LoopRows(profile.problem.instance)
    for v, factors in enumerate(profile.spatial):
        rows.fanout(v, factors)
    members = np.full((instance.n_dims, max(1, max(map(len, instance.members), default=1))), -1, np.int64)
    left = np.ones_like(members)
    for d, group in enumerate(instance.members):
        members[d, : len(group)], left[d, : len(group)] = group, [rows.left[i] for i in group]
    return Plan(np.array(keep, np.int64), np.array(rows.rows, np.int64).reshape(-1, 4), members, left)
