"""Loops and nodes between two fan-outs as states of a walk (P4-P7, docs/explanation/exact-mapper.md).

A *segment* is what stands between two fan-outs: the nodes of its levels and temporal loops, in any order. Fan-outs of one child
part nothing.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise, product
from typing import NamedTuple, Protocol

import numpy as np

from codesign.core.labels.program import in_order
from codesign.core.labels.sweep import Array
from codesign.mappers.exact.even.fill_states import Decisions
from codesign.mapping.constraints import Keep

MOST_STATES = 100_000
"""Of a segment."""

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


class Run(NamedTuple):
    """A loop along a sliding axis that the walk stands in.

    Args:
        axis: Which sliding axis of the tensor.
        origin: Positions of the sizes of its dimensions where the loop began.
        which: Position of the loop's dimension on the axis.
        dim: Its number.
        travel: How far one step moves the window.
        touched: Pairs (level, parent) that had met other loops before and are paid already.
    """

    axis: int
    origin: tuple[int, ...]
    which: int
    dim: int
    travel: int
    touched: tuple[tuple[int, int], ...]


class Chain(NamedTuple):
    """Nodes that have been charged and may still save words where a later loop repeats the step of the innermost one.

    Args:
        pairs: Their (level, parent).
        axis: Which sliding axis of the tensor.
        origin: Positions of the sizes of its dimensions where the nodes stand.
        first: How far the innermost loop moves the window; 0 where that loop does not move it.
        shift: How far all loops so far move it together.
        now: Positions of the sizes where the walk stands.
    """

    pairs: tuple[tuple[int, int], ...]
    axis: int
    origin: tuple[int, ...]
    first: int
    shift: int
    now: tuple[int, ...]

    @property
    def wanted(self) -> int:
        """The travel of a loop that repeats the first step."""
        return self.first + self.shift


class Slide(NamedTuple):
    """A charge at the end of a run: whole tiles and, for its steps, what is new."""

    level: int
    parent: int
    run: Run


class Share(NamedTuple):
    """A multiple of what the steps of a chain save: (sign or share) x (words saved by a step) x (iterations outside)."""

    part: float
    chain: Chain


@dataclass(frozen=True)
class Status:
    """What is known of one tensor where a walk stands.

    Args:
        unpaid: Levels whose nodes hold the tile and have met no loop that indexes the tensor, innermost first.
        parent: The next level out that will keep the tensor.
        left: Whether the last of them stands at the segment's outer end.
        fresh: How many of them, the outer ones, have met no loop at all; counted where windows slide.
        chains: What may still be saved.
        run: The loop that the walk stands in.
        meeting: The dimension, with the position of its size, of a loop that must follow and does not index the tensor.
        met: Whether the unpaid levels that are not fresh are known to have met such a loop.
    """

    unpaid: tuple[int, ...]
    parent: int
    left: bool = False
    fresh: int = 0
    chains: tuple[Chain, ...] = ()
    run: Run | None = None
    meeting: tuple[int, int] | None = None
    met: bool = False


@dataclass(frozen=True)
class Action:
    """A step of the walk that is no loop.

    Args:
        tensor: Its index.
        pays: Pairs (level, parent) whose words are charged where the walk stands.
        places: Levels whose tile takes room from here on.
        slides: Charges at the end of a run.
        shares: What chains save, or stop to save.
        only: Pairs (dimension, position of its size) where the action may be taken; empty: anywhere.
    """

    tensor: int
    pays: tuple[tuple[int, int], ...] = ()
    places: tuple[int, ...] = ()
    slides: tuple[Slide, ...] = ()
    shares: tuple[Share, ...] = ()
    only: tuple[tuple[int, int], ...] = ()


class Tensor(Protocol):
    """What may be done with one tensor."""

    def mask(self, status: Status) -> tuple[bool, ...]:
        """The loops that may stand next."""

    def stands(self, status: Status) -> tuple[tuple[int, int, bool], ...]:
        """Where the walk may stand: (dimension, position of its size, whether it may be larger)."""

    def moves(self, i: int, segment: Segment, at: Status) -> Iterator[tuple[Action, Status]]:
        """What may be done next in segment `i`, and what is known then."""


@dataclass(frozen=True)
class Automaton:
    """States of a segment (one status of each tensor) as the sweeps of `codesign.core.labels.sweep` want them.

    Args:
        states: In an order in which actions lead forwards.
        number: Of each state.
        mask: ``states x dimensions`` whether a loop may stand here.
        by_from, by_to: Transitions (from, to, action, action) in two orders.
        actions: What transitions do.
        ends: For each state whether the segment may end with it.
        statuses: Those of each tensor; states are numbered row by row over them.
    """

    states: tuple[tuple[Status, ...], ...]
    number: dict[tuple[Status, ...], int]
    mask: Array
    by_from: Array
    by_to: Array
    actions: tuple[Action, ...]
    ends: tuple[bool, ...]
    statuses: tuple[tuple[Status, ...], ...]


def segments(parted: tuple[bool, ...], decisions: Decisions) -> tuple[Segment, ...]:
    """The segments that may keep something, innermost first; `parted` says of each level whether its fan-out has more than one child in use."""
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


@dataclass(frozen=True)
class Plain:
    """A tensor whose windows do not slide.

    Args:
        tensor: Its index.
        column: Its decisions.
        relevant: Whether each dimension indexes it.
    """

    tensor: int
    column: Column
    relevant: tuple[bool, ...]

    def mask(self, status: Status) -> tuple[bool, ...]:
        """The loops that may stand next."""
        return tuple(not (status.left or (status.unpaid and r)) for r in self.relevant)

    def stands(self, status: Status) -> tuple[tuple[int, int, bool], ...]:
        """Where the walk may stand: anywhere, as no window slides."""
        return ()

    def moves(self, i: int, segment: Segment, at: Status) -> Iterator[tuple[Action, Status]]:
        """What may be done next in segment `i`, and what is known then."""
        if at.unpaid and not at.left:
            yield Action(self.tensor, pays=tuple(pairwise((*at.unpaid, at.parent)))), Status((), at.parent)
        if at.parent < segment.first:
            return
        level = at.parent
        for q in parents(self.column, level):
            if not at.unpaid:
                yield Action(self.tensor, pays=((level, q),), places=(level,)), Status((), q)
            if not segment.outermost:
                yield Action(self.tensor, places=(level,)), Status((*at.unpaid, level), q, True)


@lru_cache(maxsize=64)
def automaton(
    tensors: tuple[Tensor, ...], i: int, segment: Segment, starts: tuple[tuple[Status, ...], ...]
) -> Automaton:
    """The states of a segment.

    Args:
        tensors: What may be done with each.
        i: Number of the segment.
        starts: For each tensor the statuses that the walk may enter with.

    Raises:
        OverflowError: There are too many states.
    """
    steps = [_reachable(tensor, i, segment, begin) for tensor, begin in zip(tensors, starts, strict=True)]
    orders = [_order(s) for s in steps]
    at = [{status: n for n, status in enumerate(order)} for order in orders]
    shape = tuple(len(order) for order in orders)
    if math.prod(shape) > MOST_STATES:
        raise OverflowError(f"{math.prod(shape)} states")
    index = np.arange(math.prod(shape)).reshape(shape)
    running = [np.array([s.run is not None for s in order]) for order in orders]
    actions: dict[Action, int] = {}
    rows = []
    for t, order in enumerate(orders):
        still = np.ones(shape, np.bool_)  # nobody else moves while a tensor is in a run
        for u, busy in enumerate(running):
            if u != t:
                still &= ~busy.reshape([-1 if v == u else 1 for v in range(len(shape))])
        for status in order:
            for action, after in steps[t][status]:
                here = np.take(index, at[t][status], axis=t)[np.take(still, at[t][status], axis=t)]
                there = np.take(index, at[t][after], axis=t)[np.take(still, at[t][status], axis=t)]
                n = np.full(here.size, actions.setdefault(action, len(actions)))
                rows.append(np.stack([here.ravel(), there.ravel(), n, n], axis=1))
    table = np.concatenate(rows) if rows else np.zeros((0, 4), np.int64)
    mask = np.ones((index.size, len(tensors[0].mask(orders[0][0]))), np.bool_)
    for t, order in enumerate(orders):
        own = np.array([tensors[t].mask(status) for status in order], np.bool_)
        mask &= own[np.indices(shape)[t].ravel()]
    states = tuple(product(*orders))
    return Automaton(
        states,
        {state: n for n, state in enumerate(states)},
        mask,
        *in_order(table),
        tuple(actions),
        tuple(all(_may_end(s, segment) for s in state) for state in states),
        tuple(map(tuple, orders)),
    )


def crossed(state: tuple[Status, ...]) -> tuple[Status, ...]:
    """What is known in the next segment out."""
    return tuple(replace(s, left=False) if s.left else s for s in state)


def _may_end(status: Status, segment: Segment) -> bool:
    return (
        status.parent < segment.first
        and status.run is None
        and status.meeting is None
        and not (segment.outermost and status.unpaid)
    )


Steps = dict[Status, tuple[tuple[Action, Status], ...]]


def _reachable(tensor: Tensor, i: int, segment: Segment, starts: Iterable[Status]) -> Steps:
    found: Steps = {}
    waiting = list(starts)
    while waiting:
        status = waiting.pop()
        if status not in found:
            found[status] = tuple(tensor.moves(i, segment, status))
            waiting += [after for _, after in found[status]]
    return found


def _order(steps: Steps) -> list[Status]:
    """The statuses in an order in which every move leads forwards."""
    before = dict.fromkeys(steps, 0)
    for following in steps.values():
        for _, after in following:
            before[after] += 1
    ready = [status for status, count in before.items() if not count]
    order: list[Status] = []
    while ready:
        status = ready.pop()
        order.append(status)
        for _, after in steps[status]:
            before[after] -= 1
            if not before[after]:
                ready.append(after)
    return order
