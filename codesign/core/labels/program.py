"""Stages of a walk from the MACs outwards, one after the other: bounds, sweeps, and the way back of a label.

A rule set is whatever makes the stages: `codesign.mappers.exact.uneven` (the default rules), `codesign.mappers.uneven`
(AccelForge's, for one operator or as the front of one in a chain) and `codesign.mappers.loop_order` (ZigZag's).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from codesign.core.factors import prime_factors
from codesign.core.labels.sweep import Array, Begin, Graph, Labels, Limits, Stage, carry_over, least_to_go, sweep

STEPS = (0.02, 0.08, 0.3, 1.0, 5.0)
"""How far above its bound a part of the space is swept the first time, the second, ..."""


def sweep_limit(low: float, tried: int, top: float) -> float:
    """The largest value that a sweep looks for.

    Args:
        low: A bound on what is swept.
        tried: Sweeps before.
        top: Larger values do not matter.
    """
    return min(top, low * (1.0 + STEPS[tried])) if tried < len(STEPS) and low > 0 else top


@lru_cache(maxsize=4096)
def prime_steps(sizes: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """For each of all divisors of a number, those (by their place) that one prime factor less makes."""
    at = {size: i for i, size in enumerate(sizes)}
    return tuple(tuple(at[size // p] for p in dict.fromkeys(prime_factors(size))) for size in sizes)


@lru_cache(maxsize=256)
def lattice_graph(lines: tuple[tuple[tuple[int, ...], ...], ...]) -> Graph:
    """The lattice of these lines: for each dimension and entry, the entries one loop step further in."""
    shape = [len(before) for before in lines]
    strides = np.array([math.prod(shape[i + 1 :]) for i in range(len(shape))], np.int64)
    first, link_in, link_out = list[int](), [0], [0]
    inwards, outwards = list[int](), list[int]()
    for before in lines:
        first.append(len(link_in) - 1)
        after: list[list[int]] = [[] for _ in before]
        for e, sources in enumerate(before):
            for s in sources:
                after[s].append(e)
        for e, sources in enumerate(before):
            inwards.extend(sources)
            link_in.append(len(inwards))
            outwards.extend(after[e])
            link_out.append(len(outwards))
    one, two, three, four, five = (np.array(v, np.int64) for v in (first, link_in, inwards, link_out, outwards))
    return Graph(np.array(shape, np.int64), strides, one, two, three, four, five)


def in_order(table: Array) -> tuple[Array, Array]:
    """Transitions as `Stage.by_from` and as `Stage.by_to`."""
    return table[np.argsort(table[:, 0], kind="stable")], table[np.argsort(table[:, 1], kind="stable")]


@dataclass(frozen=True, eq=False)
class Link:
    """How a stage begins and ends.

    Args:
        allowed: Cells at which the walk may enter the stage.
        into: For each of its states the state of the next stage out that it becomes, 0 after the last stage; -1 where the
            stage may not end.
    """

    allowed: Array
    into: Array


@dataclass(frozen=True, eq=False)
class Sweep:
    """The labels of a stage, and for each label it began with the label of the stage inside."""

    labels: Labels
    index: Array


@dataclass(frozen=True, eq=False)
class Move:
    """A step of a label's walk.

    Args:
        stage: Its number, 0 the innermost.
        cell: Where the walk stands after it.
        transition: Row of `Stage.by_to`; None for a loop.
        inner: Where it stood before; -1 where the walk of the stage begins.
    """

    stage: int
    cell: int
    transition: Array | None
    inner: int


class LabelProgram:
    """Stages over one lattice, the innermost first, with the least charges to go of each.

    Args:
        stages: What each may do and what it costs.
        timed: Charges that go on from stage to stage: energy and the watched seconds.
    """

    def __init__(self, graph: Graph, stages: Sequence[Stage], links: Sequence[Link], timed: int) -> None:
        self.graph, self.stages, self.links, self.timed = graph, stages, links, timed
        self.to_go: list[Array] = []
        after: Array | None = None
        for stage, link in zip(reversed(stages), reversed(links), strict=True):
            found = least_to_go(graph, stage, self._ends(stage, link, after))
            self.to_go.insert(0, found)
            after = np.where(link.allowed[:, None, None], found, np.inf)
        self.start_to_go = after

    def _ends(self, stage: Stage, link: Link, after: Array | None) -> Array:
        """What comes after a stage where it may end; shares of its own capacities end with it."""
        ends = np.full((*stage.need.shape, stage.charge.shape[2]), np.inf)
        for s in np.flatnonzero(link.into >= 0):
            ends[:, s, self.timed :] = 0.0
            if after is None:
                ends[-1, s, : self.timed] = 0.0
            else:
                ends[:, s, : self.timed] = after[:, link.into[s], : self.timed]
        return ends

    def begin(self, states: Array, charges: Array) -> tuple[Begin, Array]:
        """Labels at the MACs, of states in the innermost stage and charges ``labels x timed``, and the order in which they stand there."""
        order, stage = np.argsort(states, kind="stable"), self.stages[0]
        cells, n_states = stage.need.shape
        offsets = np.full(cells * n_states + 1, len(states), np.int64)
        offsets[: n_states + 1] = np.searchsorted(states[order], np.arange(n_states + 1))
        return Begin(offsets, np.concatenate([np.zeros((len(states), 1)), charges[order]], axis=1)), order

    def complete(self, sweeps: Sequence[Sweep]) -> tuple[Array, Array]:
        """The labels that have come to the end of the last stage: their numbers, and ``labels x timed`` charges."""
        if len(sweeps) < len(self.stages):
            return np.zeros(0, np.int64), np.zeros((0, self.timed))
        into, found = self.links[-1].into, sweeps[-1].labels
        last = len(found.offsets) - 1 - len(into)
        numbers = [np.arange(found.offsets[last + s], found.offsets[last + s + 1]) for s in np.flatnonzero(into >= 0)]
        every = np.concatenate(numbers)
        return every, found.rows[every, 1 : self.timed + 1]

    def run(self, begin: Begin, limits: Limits, stages: int | None = None) -> list[Sweep]:
        """Sweep the stages (the innermost so many of them) outwards from labels at the MACs; fewer sweeps come back where no label is left."""
        number = len(self.stages) if stages is None else stages
        index, sweeps = np.arange(len(begin.rows)), list[Sweep]()
        for i, stage in enumerate(self.stages[:number]):
            spare = stage.charge.shape[2] + 1 - begin.rows.shape[1]
            if spare:
                begin = Begin(begin.offsets, np.concatenate([begin.rows, np.zeros((len(begin.rows), spare))], axis=1))
            labels = sweep(self.graph, stage, begin, self.to_go[i], limits)
            sweeps.append(Sweep(labels, index))
            if i + 1 < number:
                begin, index = self.carried(i, labels)
                if not len(begin.rows):
                    break
        return sweeps

    def carried(self, i: int, labels: Labels) -> tuple[Begin, Array]:
        """The labels with which stage i may end as the start of what is outside it, and which label each was."""
        into, source = self.links[i].into, np.full(len(self.stages[i + 1].mask), -1, np.int64)
        for s in np.flatnonzero(into >= 0):
            source[into[s]] = s
        return carry_over(labels, len(into), self.timed, source, self.links[i + 1].allowed)

    def trace(self, sweeps: Sequence[Sweep], label: int) -> tuple[list[Move], int]:
        """The moves of a label of the last sweep, outermost first, and the number of the label at the MACs it began with."""
        moves: list[Move] = []
        for i in range(len(sweeps) - 1, -1, -1):
            found, steps, n_states, source = sweeps[i].labels, self.stages[i].by_to, len(self.stages[i].mask), label
            while source >= 0:
                label, source = source, int(found.parent[source])
                cell, inner = (
                    (int(np.searchsorted(found.offsets, n, side="right")) - 1) // n_states if n >= 0 else -1
                    for n in (label, source)
                )
                action = int(found.action[label])
                moves.append(Move(i, cell, steps[action] if action >= 0 else None, inner))
            label = int(sweeps[i].index[-1 - source])
        return moves, label
