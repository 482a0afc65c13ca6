"""Loops and nodes between two fan-outs as states of a walk (P4-P7, docs/explanation/uneven-places.md).

A *segment* is what stands between two fan-outs: the nodes of its levels and temporal loops, in any order. Fan-outs of one child
part nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product

import numpy as np

from codesign.mappers.exact.all_keep_sets.fill_states import Decisions
from codesign.mappers.uneven.kernel import Array
from codesign.mapping.constraints import Keep

Column = tuple[Keep, ...]
"""The decisions about one tensor, level by level."""


@dataclass(frozen=True)
class Segment:
    """Levels between two fan-outs.

    Args:
        first: The outermost level whose nodes have a place to choose; level 0 has none.
        last: The innermost one.
        outermost: Whether nothing stands outside.
    """

    first: int
    last: int
    outermost: bool


@dataclass(frozen=True)
class Status:
    """What is known of one tensor where a walk stands.

    Args:
        unpaid: Levels whose nodes hold the tile and have met no loop that indexes the tensor, innermost first.
        parent: The next level out that will keep the tensor.
        left: Whether the last of them stands at the segment's outer end.
    """

    unpaid: tuple[int, ...]
    parent: int
    left: bool = False


@dataclass(frozen=True)
class Action:
    """A step of the walk that is no loop.

    Args:
        tensor: Its index.
        pays: Pairs (level, parent) whose words are charged where the walk stands.
        places: Levels whose tile takes room from here on.
    """

    tensor: int
    pays: tuple[tuple[int, int], ...]
    places: tuple[int, ...]


@dataclass(frozen=True)
class Automaton:
    """States of a segment (one status of each tensor) as the sweeps of `codesign.mappers.uneven.kernel` want them.

    Args:
        states: In an order in which actions lead forwards.
        number: Of each state.
        mask: ``states x dimensions`` whether a loop may stand here.
        by_from, by_to: Transitions (from, to, action, action) in two orders.
        actions: What transitions do.
        ends: For each state whether the segment may end with it.
    """

    states: tuple[tuple[Status, ...], ...]
    number: dict[tuple[Status, ...], int]
    mask: Array
    by_from: Array
    by_to: Array
    actions: tuple[Action, ...]
    ends: tuple[bool, ...]


def segments(parted: tuple[bool, ...], decisions: Decisions) -> tuple[Segment, ...]:
    """The segments that may keep something, innermost first.

    Args:
        parted: For each level whether its fan-out has more than one child in use.
        decisions: ``L x T``.
    """
    found: list[Segment] = []
    last = len(parted) - 1
    for v in range(last, -1, -1):
        if v == 0 or parted[v - 1]:
            if v == 0 or any(k is not Keep.NO for m in range(v, last + 1) for k in decisions[m]):
                found.append(Segment(max(v, 1), last, v == 0))
            last = v - 1
    return tuple(found)


def parents(column: Column, level: int) -> Iterator[int]:
    """The levels that may be the next ones out to keep a tensor kept at `level` (its length: the MACs)."""
    for p in range(level - 1, -1, -1):
        if column[p] is not Keep.NO:
            yield p
        if column[p] is Keep.YES:
            return


def moves(t: int, column: Column, segment: Segment, at: Status) -> Iterator[tuple[Action, Status]]:
    """What may be done with a tensor next, and what is known of it then."""
    inside = at.parent >= segment.first
    if at.unpaid and not at.left:
        chain = (*at.unpaid, at.parent)
        yield Action(t, tuple(pairwise(chain)), ()), Status((), at.parent)
    if not inside:
        return
    level = at.parent
    for q in parents(column, level):
        if not at.unpaid:
            yield Action(t, ((level, q),), (level,)), Status((), q)
        if not segment.outermost:
            yield Action(t, (), (level,)), Status((*at.unpaid, level), q, True)


@lru_cache(maxsize=256)
def automaton(
    decisions: Decisions,
    segment: Segment,
    starts: tuple[tuple[Status, ...], ...],
    relevant: tuple[tuple[bool, ...], ...],
) -> Automaton:
    """The states of a segment.

    Args:
        decisions: ``L x T``.
        segment: The levels.
        starts: For each tensor the statuses that the walk may enter with.
        relevant: ``T x D`` whether a dimension indexes a tensor.
    """
    columns = tuple(zip(*decisions, strict=True))
    reached = [_reachable(t, columns[t], segment, starts[t]) for t in range(len(columns))]
    ranks = [_ranks(steps) for steps in reached]
    states = sorted(
        product(*(sorted(r, key=lambda s: (r[s], s.unpaid, s.parent, s.left)) for r in ranks)),
        key=lambda state: sum(r[s] for r, s in zip(ranks, state, strict=True)),
    )
    number = {state: i for i, state in enumerate(states)}
    mask = np.ones((len(states), len(relevant[0])), np.bool_)
    actions: dict[Action, int] = {}
    rows = []
    for state, i in number.items():
        for t, status in enumerate(state):
            if status.left:
                mask[i] = False
            elif status.unpaid:
                mask[i] &= ~np.array(relevant[t])
            for action, after in reached[t][status]:
                n = actions.setdefault(action, len(actions))
                rows.append((i, number[(*state[:t], after, *state[t + 1 :])], n, n))
    table = np.array(rows, np.int64).reshape(-1, 4)
    return Automaton(
        tuple(states),
        number,
        mask,
        table[np.argsort(table[:, 0], kind="stable")],
        table[np.argsort(table[:, 1], kind="stable")],
        tuple(actions),
        tuple(all(_may_end(s, segment) for s in state) for state in states),
    )


def crossed(state: tuple[Status, ...]) -> tuple[Status, ...]:
    """What is known in the next segment out."""
    return tuple(Status(s.unpaid, s.parent) for s in state)


def _may_end(status: Status, segment: Segment) -> bool:
    return status.parent < segment.first and not (segment.outermost and status.unpaid)


Steps = dict[Status, tuple[tuple[Action, Status], ...]]


def _reachable(t: int, column: Column, segment: Segment, starts: Iterable[Status]) -> Steps:
    found: Steps = {}
    waiting = list(starts)
    while waiting:
        status = waiting.pop()
        if status not in found:
            found[status] = tuple(moves(t, column, segment, status))
            waiting += [after for _, after in found[status]]
    return found


def _ranks(steps: Steps) -> dict[Status, int]:
    """A number for each status that grows with every move."""
    ranks = dict.fromkeys(steps, 0)
    for _ in steps:
        for status, following in steps.items():
            for _, after in following:
                ranks[after] = max(ranks[after], ranks[status] + 1)
    return ranks
