"""Designs at which an acquisition function is looked at, and the search for its best one.

No continuous relaxation: a pool of valid designs (random ones, and the neighbourhoods of the best known) is scored, then a
local search walks from the best few over one-parameter moves until none improves.
"""

from collections.abc import Callable, Sequence

import numpy as np

from codesign.optim.optimizer import satisfied
from codesign.optim.pareto import nondominated
from codesign.optim.protocols import Floats, History, Indices, Problem, SearchSpace

Score = Callable[[Indices], Floats]


def unique_new(space: SearchSpace, rows: Indices, known: set[bytes]) -> Indices:
    """The distinct valid rows that are not known, in their order of appearance: ``k x d``."""
    seen: set[bytes] = set(known)
    kept = []
    for position, row in enumerate(np.ascontiguousarray(rows, dtype=np.int64)):
        key = row.tobytes()
        if key not in seen:
            seen.add(key)
            kept.append(position)
    distinct = rows[kept]
    return distinct[space.is_valid(distinct)] if len(distinct) else distinct


FEW_LEVELS = 3
"""Sizes with at most so many choices are taken in turn like labels: at shares of their range they would all move together."""


def scaled_designs(space: SearchSpace, shares: Sequence[float], pool: Indices, rng: np.random.Generator) -> Indices:
    """One design per share with every size at that share of its range of choices: ``k x d``.

    In a space of sizes, designs whose parts grow together are balanced and lie near the front, so a few of them show its
    course and the range of every metric. Labels and sizes of few choices are taken in turn, each in a random order, so that
    their effects can be told apart. Where a known rule forbids a design, the nearest valid one of the pool stands in.
    """
    sizes = np.array(space.cardinalities)
    along = np.array(space.ordered) & (sizes > FEW_LEVELS)
    orders = [rng.permutation(int(size)) for size in sizes]
    rows = []
    for turn, share in enumerate(shares):
        in_turn = np.array([order[turn % len(order)] for order in orders], dtype=np.int64)
        row = np.where(along, np.rint(share * (sizes - 1)).astype(np.int64), in_turn)
        rows.append(nearest_valid(space, row, pool))
    return np.array(rows, dtype=np.int64).reshape(-1, len(sizes))


def nearest_valid(space: SearchSpace, row: Indices, pool: Indices) -> Indices:
    """The row itself if it is valid, else the design of the pool nearest to it in features: ``d``."""
    row = space.canonical(row[None, :])[0]
    if space.is_valid(row[None, :])[0]:
        return row
    distance = ((space.features(pool) - space.features(row[None, :])) ** 2).sum(axis=1)
    nearest: Indices = pool[int(np.argmin(distance))]
    return nearest


def spread(space: SearchSpace, chosen: Indices, pool: Indices, count: int) -> Indices:
    """`count` designs of the pool, each as far as possible from all chosen before (maximin): ``count x d``."""
    features = space.features(pool)
    if len(chosen):
        gaps = ((features[:, None, :] - space.features(chosen)[None]) ** 2).sum(axis=2).min(axis=1)
    else:
        gaps = ((features - features.mean(axis=0)) ** 2).sum(axis=1)
    picked = []
    for _ in range(min(count, len(pool))):
        best = int(np.argmax(gaps))
        picked.append(best)
        gaps = np.minimum(gaps, ((features - features[best]) ** 2).sum(axis=1))
    return pool[picked]


def maximise(
    space: SearchSpace, score: Score, pool: Indices, known: set[bytes], starts: int = 5, steps: int | None = None
) -> Indices:
    """The best design found by scoring a pool and climbing from its best: ``d``, not among the known ones.

    Args:
        space: The designs.
        score: To be maximised: ``k x d`` to ``k``.
        pool: New valid designs: ``k x d``, at least one.
        known: Designs that must not be proposed.
        starts: How many of the pool's best to climb from; all climb together, one batch of neighbours per step.
        steps: At most so many; None for until nothing improves.
    """
    scores = score(pool)
    order = np.argsort(-scores, kind="stable")[:starts]
    rows, values = pool[order].copy(), scores[order].copy()
    moving = np.ones(len(rows), dtype=np.bool_)
    seen: dict[bytes, float] = {row.tobytes(): float(v) for row, v in zip(pool, scores, strict=True)}
    taken = 0
    while moving.any() and (steps is None or taken < steps):
        taken += 1
        around = [space.neighbours(row) if live else rows[:0] for row, live in zip(rows, moving, strict=True)]
        fresh = unique_new(space, np.concatenate(around), known | set(seen))
        if len(fresh):
            seen.update((row.tobytes(), float(v)) for row, v in zip(fresh, score(fresh), strict=True))
        for k in np.flatnonzero(moving):
            options = [row for row in around[k] if row.tobytes() in seen]
            best = max(options, key=lambda row: seen[row.tobytes()], default=None)
            moving[k] = best is not None and seen[best.tobytes()] > values[k]
            if moving[k] and best is not None:
                rows[k], values[k] = best, seen[best.tobytes()]
    winner: Indices = rows[int(np.argmax(values))]
    return winner


def front_rows(problem: Problem, history: History) -> Indices:
    """Positions of the feasible designs on the front; while there are none, of the best of all that gave metrics: ``k``."""
    rows = np.flatnonzero(satisfied(problem, history))
    if not len(rows):
        rows = np.flatnonzero(np.isfinite(history.objectives).all(axis=1))
    best: Indices = rows[nondominated(history.objectives[rows])]
    return best
