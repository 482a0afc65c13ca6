"""The states of one keep set (rule K4): of every tensor, how many boundaries are open, and how many of them untouched."""

import itertools
from functools import lru_cache

import numpy as np

from codesign.verify.even.problem import Kept, Space
from codesign.verify.even.program import States

State = tuple[tuple[int, int], ...]
"""By tensor: open boundaries, untouched ones among them (0 for tensors without windows)."""


@lru_cache(maxsize=64)
def states_of(space: Space, kept: Kept) -> States:
    """All states and where they lead.

    Boundaries are numbered tensor by tensor from the inside out; those open are the last that were passed.
    """
    levels, tensors, dims = space.n_levels, space.n_tensors, len(space.dims)
    held = [[v for v in range(levels - 1, 0, -1) if kept[v][t]] for t in range(tensors)]
    first = np.concatenate([[0], np.cumsum([len(h) for h in held])]).astype(int)
    passed = [[sum(w >= v for w in h) for h in held] for v in range(levels + 1)]
    every: list[State] = list(
        itertools.product(
            *(
                [(c, u) for c in range(len(h) + 1) for u in (range(c + 1) if space.sliding[t] else (0,))]
                for t, h in enumerate(held)
            )
        )
    )
    number = {state: i for i, state in enumerate(every)}
    n, most = len(every), int(first[-1])
    possible = np.zeros((levels, n), np.int64)
    after = np.zeros((n, dims), np.int64)
    ended = np.zeros((levels, n), np.int64)
    closes = np.full((levels, n, dims, most + 1), -1, np.int64)
    waiting = np.full((levels, n, most + 1), -1, np.int64)
    still = np.full((n, most + 1), -1, np.int64)
    for i, state in enumerate(every):
        for d in range(dims):
            moves = [bool(space.relevant[t, d]) for t in range(tensors)]
            after[i, d] = number[tuple((0, 0) if m else (c, 0) for m, (c, _) in zip(moves, state, strict=True))]
        for v in range(levels):
            inner = passed[v + 1]
            if any(c > n_inner for (c, _), n_inner in zip(state, inner, strict=True)):
                continue
            possible[v, i] = 1
            if v:
                ended[v, i] = number[
                    tuple((c + 1, u + space.sliding[t]) if kept[v][t] else (c, u) for t, (c, u) in enumerate(state))
                ]
            for d in range(dims):
                codes = [
                    2 * (first[t] + k) + int(k >= inner[t] - u)
                    for t, (c, u) in enumerate(state)
                    if space.relevant[t, d]
                    for k in range(inner[t] - c, inner[t])
                ]
                closes[v, i, d, : len(codes)] = codes
            unpaid = [first[t] + k for t, (c, _) in enumerate(state) for k in range(inner[t] - c, len(held[t]))]
            waiting[v, i, : len(unpaid)] = unpaid
            if v == 0:
                left = [first[t] + k for t, (c, _) in enumerate(state) for k in range(inner[t] - c, inner[t])]
                still[i, : len(left)] = left
    tensor = np.array([t for t, h in enumerate(held) for _ in h], np.int64)
    return States(possible, after, ended, closes, waiting, still, tensor)
