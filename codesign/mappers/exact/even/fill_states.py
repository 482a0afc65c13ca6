"""The program as a list of operations: who holds each tensor next, and who waits to be filled.

Going from the MACs outwards, a tensor is either *committed* to the next level out that will keep it, or *open*: some
levels inside hold its tile and wait for the loop that makes it change (D3). Of a tensor whose windows slide the state
also counts the levels that have met no loop at all; such a state is *fresh*. Where keep sets are fixed, a state says as
well which loop of a fixed order comes next, and which fixed loops are still to be placed (D5).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from codesign.mappers.exact.problem.instance import LevelRules
from codesign.mapping.constraints import Keep
from codesign.mapping.nest import IntArray

Decisions = tuple[tuple[Keep, ...], ...]
"""``L`` tuples of one decision for each tensor."""

Stacks = tuple[tuple[tuple[bool, ...], ...], ...]
"""``T x L x L`` whether it can pay that level v keeps a tensor although level w inside it holds the same tile."""

DONE, END, ADVANCE, CLOSE, TOUCH, SLIDE, CHAIN, PLACE, SWEEP = range(9)
"""Operations on a state: the nest is complete; end the level; decide the next loop of a fixed order; close a tensor; take the
usual state for a fresh one; close tensors by a first loop along their windows; the same where later loops may save words
too; place a fixed loop; loop over what no open tensor minds."""

KIND, TARGET, SOURCE, LEVEL, WHAT, DIM = range(6)
"""Columns of an operation. WHAT is what a level keeps (END, a mask), the charge (CLOSE), the dimensions (SWEEP, a mask) or the
factor that a loop over DIM must have, 0 any."""


class Program(NamedTuple):
    """Operations in an order in which every source is complete before it is used. S states, T tensors, L levels, D dimensions.

    Attributes:
        operations: ``O x 6``, see the columns above.
        first: ``S + 1`` where the operations of each state begin.
        charges: ``Q x 3`` tensor, set of levels that wait, parent of every charge.
        chain: ``H x L`` levels of every set, innermost first, -1 padded.
        starts: ``A x (1 + T)`` states at the MACs, and the parent each tensor is committed to.
        level: ``S`` among whose loops each state is.
        status: ``S x T`` the parent each tensor is committed to, or -1 - the set of levels that wait.
        fresh: ``S x T`` how many of these, the outer ones, have met no loop.
        ends: ``S`` 1 where all loops that a level must have are placed.
        after: ``S x D`` state after a loop, -1 where it may not come next; ``0 x D`` where keep sets are open.
        factor: The factor it must have, 0 any; likewise.
    """

    operations: IntArray
    first: IntArray
    charges: IntArray
    chain: IntArray
    starts: IntArray
    level: IntArray
    status: IntArray
    fresh: IntArray
    ends: IntArray
    after: IntArray
    factor: IntArray


@dataclass(frozen=True)
class Moves:
    """What loops do to tensors.

    Args:
        relevant: For each dimension the mask of the tensors that it indexes.
        slides: For each tensor the dimensions along which its windows slide.
        followed: For each tensor whether the first loop along them is followed; else its windows only have chains.
        chained: Whether loops after the first may save words.
    """

    relevant: tuple[int, ...]
    slides: tuple[frozenset[int], ...]
    followed: tuple[bool, ...]
    chained: bool


class _Status(NamedTuple):
    """Of one tensor: committed to a parent, or open with levels that wait, the last `fresh` of them untouched."""

    parent: int
    held: tuple[int, ...] = ()
    fresh: int = 0


class _State(NamedTuple):
    """Level, loops of its fixed order decided, mask of its fixed loops to be placed, status of every tensor."""

    level: int
    stage: int
    waiting: int
    choice: tuple[_Status, ...]

    @property
    def opened(self) -> int:
        """The mask of the open tensors."""
        return sum(1 << t for t, status in enumerate(self.choice) if status.held)

    @property
    def is_fresh(self) -> bool:
        """Whether some level has met no loop."""
        return any(status.fresh for status in self.choice)

    @property
    def usual(self) -> "_State":
        """The state once a loop has been met."""
        return self._replace(choice=tuple(_Status(x.parent, x.held) for x in self.choice))

    @property
    def order(self) -> tuple[int, int, bool, int, int]:
        """Every state comes after those that its operations read."""
        return self.level, -self.stage, self.is_fresh, self.waiting, self.opened.bit_count()


_Operation = tuple[int, _State | None, int, int]
"""Kind, source, WHAT and DIM."""


@lru_cache(maxsize=512)
def make_program(decisions: Decisions, stacks: Stacks, moves: Moves, rules: tuple[LevelRules, ...]) -> Program:
    """List the operations.

    Args:
        decisions: Which level may or must keep which tensor; the outermost keeps all.
        stacks: Which levels can hold the same tile with profit.
        moves: What loops do.
        rules: Which loops every level may have.
    """
    return _Builder(decisions, stacks, moves, rules).program()


class _Builder:
    """Finds the states that can be reached from the MACs, then numbers them."""

    def __init__(self, decisions: Decisions, stacks: Stacks, moves: Moves, rules: tuple[LevelRules, ...]) -> None:
        self.decisions, self.moves, self.rules = decisions, moves, rules
        self.n_levels, self.n_tensors = len(decisions), len(decisions[0])
        tensors = range(self.n_tensors)
        self.usual = [[self.statuses(c, t, stacks[t]) for t in tensors] for c in range(self.n_levels)]
        self.parents = [[[x for x in statuses if not x.held] for statuses in row] for row in self.usual]
        self.allowed = [
            [{*self.usual[c][t], *(self.fresh_statuses(c, t) if moves.followed[t] else ())} for t in tensors]
            for c in range(self.n_levels)
        ]
        self.loose = [tuple((d, f) for d, f in rule.fixed if d not in rule.ordered) for rule in rules]
        self.sliding = sorted({d for slides in moves.slides for d in slides})
        self.ends: dict[tuple[int, int, _Status], list[tuple[int, _Status]]] = {}
        self.sets: dict[tuple[int, ...], int] = {}
        self.charges: dict[tuple[int, int, int], int] = {}

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

    def fresh_statuses(self, c: int, t: int) -> list[_Status]:
        """The fresh statuses of a tensor at a level.

        Where chains may go on, also an untouched level over a touched one that holds the same tile (D9).
        """
        waiting = [s.held for s in self.usual[c][t] if s.held]
        found = [_Status(-1, held, u) for held in waiting for u in range(1, len(held) + 1)]
        if self.moves.chained:
            keeping = [v for v in range(c + 1, self.n_levels) if self.decisions[v][t] is not Keep.NO]
            over = [(*held, v) for held in waiting for v in keeping if v < held[-1]]
            found += [_Status(-1, held, 1) for held in over if held not in waiting]
        return found

    def ended(self, c: int, t: int, status: _Status) -> list[tuple[int, _Status]]:
        """The statuses that the end of level c may leave, each with the bit of the tensor if the level keeps it."""
        key = c, t, status
        if key not in self.ends:
            decision, found = self.decisions[c][t], list[tuple[int, _Status]]()
            if decision is not Keep.YES and (status.held or status.parent != c):
                found.append((0, status))
            if decision is not Keep.NO and (status.held or status.parent == c):
                fresh = status.fresh + 1 if self.moves.followed[t] else 0
                found.append((1 << t, _Status(-1, (*status.held, c), fresh)))
            self.ends[key] = [pair for pair in found if pair[1] in self.allowed[c - 1][t]]
        return self.ends[key]

    def start(self, c: int, choice: tuple[_Status, ...]) -> _State:
        """The state at the start of a level."""
        return _State(c, 0, (1 << len(self.loose[c])) - 1, choice)

    def next_stage(self, state: _State) -> _State:
        """The state once the next loop of a fixed order is decided."""
        return state._replace(stage=state.stage + 1)

    # ---- all of it -----------------------------------------------------------------------------

    def program(self) -> Program:
        last = self.n_levels - 1
        committed = [[x for x in statuses if not x.held] for statuses in self.usual[last]]
        starts = [self.start(last, choice) for choice in product(*committed)]
        found: dict[_State, list[_Operation]] = {}
        waiting = list(starts)
        while waiting:
            state = waiting.pop()
            if state not in found:
                found[state] = list(self.operations_of(state))
                waiting += [source for _, source, _, _ in found[state] if source is not None]
        rows = sorted(found, key=lambda state: state.order)
        where = {state: s for s, state in enumerate(rows)}
        operations = [
            (kind, s, -1 if source is None else where[source], state.level, what, d)
            for s, state in enumerate(rows)
            for kind, source, what, d in found[state]
        ]
        status = [
            [-1 - self.number_of(x.held) if x.held else x.parent for x in state.choice] for state in rows
        ]  # fmt: skip
        chain = np.full((max(1, len(self.sets)), self.n_levels), -1, np.int64)
        for levels, number in self.sets.items():
            chain[number, : len(levels)] = levels
        after, factor = self.single_loops(rows, where)
        return Program(
            np.array(operations, np.int64),
            np.cumsum([0] + [len(found[state]) for state in rows]),
            np.array(list(self.charges), np.int64).reshape(-1, 3),
            chain,
            np.array([(where[state], *(x.parent for x in state.choice)) for state in starts], np.int64),
            np.array([state.level for state in rows], np.int64),
            np.array(status, np.int64),
            np.array([[x.fresh for x in state.choice] for state in rows], np.int64),
            np.array([int(self.may_end(state)) for state in rows], np.int64),
            after,
            factor,
        )

    def single_loops(self, rows: list[_State], where: dict[_State, int]) -> tuple[IntArray, IntArray]:
        """`Program.after` and `Program.factor`."""
        fixed = all(k is not Keep.FREE for row in self.decisions for k in row)
        after = np.full((len(rows) if fixed else 0, len(self.moves.relevant)), -1, np.int64)
        factor = np.zeros_like(after)
        for s, state in enumerate(rows if fixed else ()):
            for d, minding in enumerate(self.moves.relevant):
                may = self.may_loop(state, d)
                if may is None:
                    continue
                closed = [t for t, x in enumerate(state.choice) if x.held and minding >> t & 1]
                (following,) = self.committed(may[0], closed)
                after[s, d], factor[s, d] = where.get(following, -1), may[1]
        return after, factor

    def may_end(self, state: _State) -> bool:
        """Whether all loops that the level must have are placed."""
        return state.stage == len(self.rules[state.level].ordered) and not state.waiting

    def operations_of(self, state: _State) -> Iterator[_Operation]:
        """Operations of a state."""
        c, choice, opened, fresh = state.level, state.choice, state.opened, state.is_fresh
        in_order = state.stage < len(self.rules[c].ordered)
        if self.may_end(state):
            if c == 0 and not opened:
                yield DONE, None, (1 << self.n_tensors) - 1, -1
            for pairs in product(*(self.ended(c, t, x) for t, x in enumerate(choice))) if c else ():
                kept, after = zip(*pairs, strict=True)
                yield END, self.start(c - 1, after), sum(kept), -1
        if in_order:
            yield from self.advanced(state)
        for t, status in enumerate(choice):
            # of several windows one may close first, as if by the loop that the others slide along
            if status.held and (not status.fresh or any(x.fresh for x in choice if x is not status)):
                for source in self.committed(state, [t]):
                    yield CLOSE, source, self.charge(t, status.held, source.choice[t].parent), -1
        if fresh:
            yield TOUCH, state.usual, -1, -1
        for d in self.sliding if opened else ():
            yield from self.first_loops(state, d)
        if fresh or in_order:
            return
        for f, (d, size) in enumerate(self.loose[c]):
            if state.waiting >> f & 1 and not self.moves.relevant[d] & opened:
                yield PLACE, state._replace(waiting=state.waiting & ~(1 << f)), size, d
        swept = self.rules[c].free.difference(self.rules[c].ordered)
        mask = sum(1 << d for d in swept if not self.moves.relevant[d] & opened)
        if mask:
            yield SWEEP, None, mask, -1

    def advanced(self, state: _State) -> Iterator[_Operation]:
        """The next loop of a fixed order, or none."""
        d = self.rules[state.level].ordered[state.stage]
        may, following = self.may_loop(state, d), self.next_stage(state)
        unminded = may is not None and not state.is_fresh and not self.moves.relevant[d] & state.opened
        if may is not None and unminded:
            yield ADVANCE, following, may[1], d
        elif may is None or not may[1]:
            yield ADVANCE, following, 0, -1

    def may_loop(self, state: _State, d: int) -> tuple[_State, int] | None:
        """The usual state once a loop over d is placed, and its factor (0 any), if it may be; what closes is left open."""
        rule, usual = self.rules[state.level], state.usual
        if state.stage < len(rule.ordered):
            if rule.ordered[state.stage] != d:
                return None
            factor = dict(rule.fixed).get(d, 0)
            return (self.next_stage(usual), factor) if d in rule.free or factor else None
        for f, (e, factor) in enumerate(self.loose[state.level]):
            if e == d:
                waiting = usual._replace(waiting=state.waiting & ~(1 << f))
                return (waiting, factor) if state.waiting >> f & 1 else None
        return (usual, 0) if d in rule.free and d not in rule.ordered else None

    def first_loops(self, state: _State, d: int) -> Iterator[_Operation]:
        """The operations that close tensors by a loop along their windows."""
        closed = [t for t, x in enumerate(state.choice) if x.held and self.moves.relevant[d] >> t & 1]
        if not closed or any(d not in self.moves.slides[t] for t in closed):
            return
        fresh = any(state.choice[t].fresh for t in closed)
        may = self.may_loop(state, d) if fresh or self.moves.chained else None
        for source in self.committed(may[0], closed) if may is not None else ():
            if fresh:
                yield SLIDE, source, may[1] if may else 0, d
            if self.moves.chained:
                yield CHAIN, source, may[1] if may else 0, d

    def committed(self, state: _State, closed: list[int]) -> Iterator[_State]:
        """States with some tensors committed instead."""
        level, stage, waiting, choice = state
        for statuses in product(*(self.parents[level][t] for t in closed)):
            after = list(choice)
            for t, status in zip(closed, statuses, strict=True):
                after[t] = status
            yield _State(level, stage, waiting, tuple(after))

    def number_of(self, held: tuple[int, ...]) -> int:
        """Number of a set of levels."""
        return self.sets.setdefault(held, len(self.sets))

    def charge(self, t: int, held: tuple[int, ...], p: int) -> int:
        """Number of the charge for closing a tensor."""
        return self.charges.setdefault((t, self.number_of(held), p), len(self.charges))
