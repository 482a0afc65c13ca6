"""The program over all keep sets as a list of operations: who holds each tensor next, and who waits to be filled.

Going from the MACs outwards, a tensor is either *committed* to the next level out that will keep it, or *open*: some
levels inside hold its tile and wait for the loop that makes it change. Closing an open tensor pays for its words and
commits it to a parent. So which levels keep a tensor is decided on the way, tensor by tensor, and the state is one
such status for each tensor (section D8 in docs/explanation/exact-mapper.md). Of a tensor whose windows slide the state also counts
the levels that have met no loop at all; such a state is *fresh*.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from codesign.mapping.constraints import Keep
from codesign.mapping.nest import IntArray

Decisions = tuple[tuple[Keep, ...], ...]
"""``L`` tuples of one decision for each tensor."""

Stacks = tuple[tuple[tuple[bool, ...], ...], ...]
"""``T x L x L`` whether it can pay that level v keeps a tensor although level w inside it holds the same tile."""

DONE, END, CLOSE, SWEEP, TOUCH, SLIDE, CHAIN = range(7)
"""Operations on a state: the nest is complete; end the level; close a tensor; loop over what no open tensor minds; take
the usual state for a fresh one; close the sliding tensor by a first loop; the same where later loops may save words too."""

KIND, TARGET, SOURCE, LEVEL, WHAT, SHARED = range(6)
"""Columns of an operation. WHAT is what a level keeps (END, a mask), the charge (CLOSE, SLIDE, CHAIN) or the open tensors
(SWEEP); SHARED is the row of `JointProgram.shared` with the dimension of a first loop."""


class JointProgram(NamedTuple):
    """Operations in an order in which every source is complete before it is used. S states, T tensors, L levels.

    Attributes:
        operations: ``O x 6``, see the columns above.
        first: ``S + 1`` where the operations of each state begin.
        charges: ``Q x 3`` tensor, set of levels that wait, parent of every charge.
        shared: ``R x 6`` level of the loop, set, how many of it are fresh, parent, dimension, how many are not fresh.
        chain: ``H x L`` levels of every set, innermost first, -1 padded.
        starts: ``A x (1 + T)`` states at the MACs, and the parent each tensor is committed to.
        level: ``S`` among whose loops each state is.
        status: ``S x T`` the parent each tensor is committed to, or -1 - the set of levels that wait.
    """

    operations: IntArray
    first: IntArray
    charges: IntArray
    shared: IntArray
    chain: IntArray
    starts: IntArray
    level: IntArray
    status: IntArray


@dataclass(frozen=True)
class _Status:
    """Of one tensor: committed to a parent, or open with levels that wait, the last `fresh` of them untouched."""

    parent: int
    held: tuple[int, ...] = ()
    fresh: int = 0


_State = tuple[int, tuple[_Status, ...]]


@lru_cache(maxsize=256)
def make_program(
    decisions: Decisions, stacks: Stacks, sliding: int, slides: tuple[tuple[int, int], ...], chained: bool
) -> JointProgram:
    """List the operations.

    Args:
        decisions: Which level may or must keep which tensor; the outermost keeps all.
        stacks: Which levels can hold the same tile with profit.
        sliding: The tensor whose windows slide, -1 if there is none or sliding is left out of account.
        slides: Dimensions along which they do, each with the mask of the tensors it indexes.
        chained: Whether loops after the first may save words too.
    """
    return _Builder(decisions, stacks, sliding, slides, chained).program()


class _Builder:
    """Lists the statuses of each tensor at each level; their combinations are the states."""

    def __init__(
        self, decisions: Decisions, stacks: Stacks, sliding: int, slides: tuple[tuple[int, int], ...], chained: bool
    ) -> None:
        self.decisions, self.sliding, self.slides, self.chained = decisions, sliding, slides, chained
        self.n_levels, self.n_tensors = len(decisions), len(decisions[0])
        self.usual = [[self.statuses(c, t, stacks[t]) for t in range(self.n_tensors)] for c in range(self.n_levels)]
        self.where: dict[_State, int] = {}
        self.sets: dict[tuple[int, ...], int] = {}
        self.charges: dict[tuple[int, int, int], int] = {}
        self.shared: dict[tuple[int, int, int, int, int, int], int] = {}

    def statuses(self, c: int, t: int, stacks: tuple[tuple[bool, ...], ...]) -> list[_Status]:
        """What a tensor may be among the loops of level c, if not fresh: committed first, then open, few levels first."""
        keeps = [row[t] for row in self.decisions]
        parents = [p for p in range(c + 1) if p == 0 or keeps[p] is not Keep.NO]
        # a level that must keep the tensor cannot be passed over
        parents = [p for p in parents if Keep.YES not in keeps[p + 1 : c + 1]]
        sets: set[tuple[int, ...]] = {()}
        for v in range(self.n_levels - 1, c, -1):
            grown = {
                (*held, v)
                for held in sets
                if keeps[v] is not Keep.NO and (not held or keeps[v] is Keep.YES or stacks[v][held[-1]])
            }
            sets = grown | {held for held in sets if not held or keeps[v] is not Keep.YES}
        waiting = sorted(sets - {()}, key=lambda held: (len(held), held))
        return [_Status(p) for p in parents] + [_Status(-1, held) for held in waiting]

    def fresh_statuses(self, c: int) -> list[_Status]:
        """The fresh statuses of the sliding tensor at a level.

        Where chains may go on, also an untouched level over a touched one that holds the same tile (section D9 of the docs).
        """
        waiting = [s.held for s in self.usual[c][self.sliding] if s.held]
        found = [_Status(-1, held, u) for held in waiting for u in range(1, len(held) + 1)]
        if self.chained:
            keeping = [v for v in range(c + 1, self.n_levels) if self.decisions[v][self.sliding] is not Keep.NO]
            over = [(*held, v) for held in waiting for v in keeping if v < held[-1]]
            found += [_Status(-1, held, 1) for held in over if held not in waiting]
        return found

    def ended(self, status: _Status, c: int, t: int, kept: bool) -> _Status | None:
        """The status after the end of level c; None if the tensor cannot be (or not be) kept there."""
        decision = self.decisions[c][t]
        if (kept and decision is Keep.NO) or (not kept and decision is Keep.YES):
            return None
        if not status.held and kept != (status.parent == c):
            return None
        if not kept:
            return status
        return _Status(-1, (*status.held, c), status.fresh + 1 if t == self.sliding else 0)

    def states(self) -> list[_State]:
        """All of them: for each level, from the outermost, the usual ones and then the fresh ones; few open tensors first."""
        rows: list[_State] = []
        for c, usual in enumerate(self.usual):
            rows.extend((c, choice) for choice in sorted(product(*usual), key=_opened))
            if self.sliding >= 0:
                lists = [self.fresh_statuses(c) if t == self.sliding else s for t, s in enumerate(usual)]
                rows.extend((c, choice) for choice in sorted(product(*lists), key=_opened))
        return rows

    def program(self) -> JointProgram:
        rows = self.states()
        self.where = {row: s for s, row in enumerate(rows)}
        operations: list[tuple[int, ...]] = []
        first = [0]
        for s, (c, choice) in enumerate(rows):
            operations.extend((kind, s, source, c, *rest) for kind, source, *rest in self.operations_of(c, choice))
            first.append(len(operations))
        last = self.n_levels - 1
        starts = [
            (s, *(x.parent for x in choice)) for s, (c, choice) in enumerate(rows) if c == last and not _opened(choice)
        ]
        status = [
            [-1 - self.sets.setdefault(x.held, len(self.sets)) if x.held else x.parent for x in choice]
            for _, choice in rows
        ]
        chain = np.full((max(1, len(self.sets)), self.n_levels), -1, np.int64)
        for levels, number in self.sets.items():
            chain[number, : len(levels)] = levels
        return JointProgram(
            np.array(operations, np.int64),
            np.array(first, np.int64),
            np.array(list(self.charges), np.int64).reshape(-1, 3),
            np.array(list(self.shared), np.int64).reshape(-1, 6),
            chain,
            np.array(starts, np.int64),
            np.array([c for c, _ in rows], np.int64),
            np.array(status, np.int64),
        )

    def operations_of(self, c: int, choice: tuple[_Status, ...]) -> Iterator[tuple[int, int, int, int]]:
        """Kind, source and the last two columns of every operation of a state."""
        opened = sum(1 << t for t, status in enumerate(choice) if status.held)
        fresh = any(status.fresh for status in choice)
        if c == 0 and not opened:
            yield DONE, -1, (1 << self.n_tensors) - 1, -1
        for kept in range(1 << self.n_tensors if c else 0):
            after = tuple(self.ended(status, c, t, bool(kept >> t & 1)) for t, status in enumerate(choice))
            if None not in after:
                source = self.where.get((c - 1, after))  # type: ignore[arg-type]
                if source is not None:
                    yield END, source, kept, -1
        for t, status in enumerate(choice):
            if status.held and not status.fresh:
                for source, p in self.committed(c, choice, t):
                    yield CLOSE, source, self.charge(t, status.held, p), -1
        usual = tuple(_Status(x.parent, x.held) for x in choice)
        if fresh and (c, usual) in self.where:
            yield TOUCH, self.where[c, usual], -1, -1
        if self.sliding >= 0 and choice[self.sliding].held and (fresh or self.chained):
            yield from self.first_loops(c, usual, choice[self.sliding].fresh, opened)
        if not fresh:
            yield SWEEP, -1, opened, -1

    def first_loops(
        self, c: int, usual: tuple[_Status, ...], fresh: int, opened: int
    ) -> Iterator[tuple[int, int, int, int]]:
        """The operations that close the sliding tensor by a loop along its windows."""
        held = usual[self.sliding].held
        for d, minding in self.slides:
            if minding & opened != 1 << self.sliding:
                continue
            for source, p in self.committed(c, usual, self.sliding):
                row = (c, self.sets.setdefault(held, len(self.sets)), fresh, p, d, len(held) - fresh)
                shared = self.shared.setdefault(row, len(self.shared))
                charge = self.charge(self.sliding, held, p)
                if fresh:
                    yield SLIDE, source, charge, shared
                if self.chained:
                    yield CHAIN, source, charge, shared

    def committed(self, c: int, choice: tuple[_Status, ...], t: int) -> Iterator[tuple[int, int]]:
        """State with tensor t committed instead, and to whom."""
        for status in self.usual[c][t]:
            if not status.held:
                yield self.where[c, (*choice[:t], status, *choice[t + 1 :])], status.parent

    def charge(self, t: int, held: tuple[int, ...], p: int) -> int:
        """Number of the charge for closing a tensor."""
        key = (t, self.sets.setdefault(held, len(self.sets)), p)
        return self.charges.setdefault(key, len(self.charges))


def _opened(choice: tuple[_Status, ...]) -> int:
    """How many tensors are open."""
    return sum(1 for status in choice if status.held)
