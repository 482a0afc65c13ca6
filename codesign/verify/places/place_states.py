"""The states of a segment: what stands between two fan-outs that are in use (rule UK2)."""

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from codesign.mapping.nest import IntArray
from codesign.verify.even.problem import Kept, Space, Vector
from codesign.verify.even.program import States

Status = tuple[int, int, int]
"""Of a tensor: nodes placed, open boundaries, untouched ones among them (0 for tensors without windows)."""


@dataclass(frozen=True)
class Segment:
    """Levels between two fan-outs in use.

    Args:
        first: The outermost level.
        last: The innermost one.
    """

    first: int
    last: int


@dataclass(frozen=True, eq=False)
class PlaceStates:
    """The states of one segment. S states.

    Args:
        segment: The levels.
        every: The states, fewer nodes placed first.
        number: Of each state.
        states: What loops close and where they lead, in the form of even mappings, the same at every level.
        placed: ``S x T`` the state after a tensor's next node, -1 where it has none in this segment.
        node: ``S x T`` the boundary of that node.
        done: ``S`` 1 where all nodes of the segment are placed.
    """

    segment: Segment
    every: tuple[tuple[Status, ...], ...]
    number: dict[tuple[Status, ...], int]
    states: States
    placed: IntArray
    node: IntArray
    done: IntArray


def segments_of(vectors: tuple[Vector, ...]) -> tuple[Segment, ...]:
    """The segments of a profile, from the inside out."""
    found, last = [], len(vectors) - 1
    for v in range(len(vectors) - 1, -1, -1):
        if v == 0 or math.prod(vectors[v - 1]) > 1:
            found.append(Segment(v, last))
            last = v - 1
    return tuple(found)


@lru_cache(maxsize=256)
def place_states(space: Space, kept: Kept, segment: Segment) -> PlaceStates:
    """All states of a segment under a keep set; boundaries are numbered tensor by tensor from the inside out."""
    tensors, dims = space.n_tensors, len(space.dims)
    outermost = [min(v for v in range(space.n_levels) if kept[v][t]) for t in range(tensors)]
    held = [[v for v in range(space.n_levels - 1, outermost[t], -1) if kept[v][t]] for t in range(tensors)]
    first = np.concatenate([[0], np.cumsum([len(h) for h in held])]).astype(int)
    low = [sum(v > segment.last for v in h) for h in held]
    high = [sum(v >= segment.first for v in h) for h in held]
    every = sorted(
        itertools.product(
            *(
                [
                    (j, c, u)
                    for j in range(low[t], high[t] + 1)
                    for c in range(j + 1)
                    for u in (range(c + 1) if space.sliding[t] else (0,))
                ]
                for t in range(tensors)
            )
        ),
        key=lambda state: sum(j for j, _, _ in state),
    )
    number = {state: i for i, state in enumerate(every)}
    n, most = len(every), int(first[-1])
    after = np.zeros((n, dims), np.int64)
    closes = np.full((1, n, dims, most + 1), -1, np.int64)
    waiting = np.full((1, n, most + 1), -1, np.int64)
    still = np.full((n, most + 1), -1, np.int64)
    placed, node = np.full((n, tensors), -1, np.int64), np.full((n, tensors), -1, np.int64)
    for i, state in enumerate(every):
        for t, (j, c, u) in enumerate(state):
            if j < high[t]:
                slid = u + space.sliding[t]
                placed[i, t] = number[(*state[:t], (j + 1, c + 1, slid), *state[t + 1 :])]
                node[i, t] = first[t] + j
        for d in range(dims):
            moves = [bool(space.relevant[t, d]) for t in range(tensors)]
            after[i, d] = number[tuple((j, 0 if m else c, 0) for m, (j, c, _) in zip(moves, state, strict=True))]
            codes = [
                2 * (first[t] + k) + int(k >= j - u)
                for t, (j, c, u) in enumerate(state)
                if moves[t]
                for k in range(j - c, j)
            ]
            closes[0, i, d, : len(codes)] = codes
        unpaid = [first[t] + k for t, (j, c, _) in enumerate(state) for k in range(j - c, len(held[t]))]
        waiting[0, i, : len(unpaid)] = unpaid
        left = [first[t] + k for t, (j, c, _) in enumerate(state) for k in range(j - c, j)]
        still[i, : len(left)] = left
    tensor = np.array([t for t, h in enumerate(held) for _ in h], np.int64)
    nothing = np.zeros((1, n), np.int64)
    done = np.array([all(j == h for (j, _, _), h in zip(state, high, strict=True)) for state in every], np.int64)
    table = States(nothing + 1, after, nothing, np.repeat(closes, space.n_levels, axis=0), waiting, still, tensor)
    return PlaceStates(segment, tuple(every), number, table, placed, node, done)
