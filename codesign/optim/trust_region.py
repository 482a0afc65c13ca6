"""Proposals late in a long search: a model of the designs around one of the front, and candidates near it.

A Gaussian process over all of a thousand designs costs minutes, and far designs say little of near ones. So beyond `MODELLED` designs each
proposal takes one design of the front as the centre of a trust region, models those nearest to it, and looks for candidates there
(after MORBO: Daulton, Eriksson, Balandat and Bakshy, Multi-objective Bayesian optimization over high-dimensional search spaces, UAI 2022).
What differs: there is no state. Centre and radius are functions of the history, so a resumed search goes on as if it had never stopped.
Centres visit the front evenly, by steps of the golden ratio; the radius halves when the front has not moved for a while, and is wide again after three halvings.
"""

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from codesign.optim.candidates import front_rows
from codesign.optim.protocols import History, Indices, Problem

MODELLED = 128
"""Designs up to which one model holds all."""

LOCAL = 96
"""Designs of a local model."""

_OF_FRONT = 32
"""Of them at most so many for being on the front near the centre."""

_GOLDEN = 0.6180339887498949

_WIDEST, _NARROWEST = 0.5, 0.06
"""Radius as a share of each parameter's choices."""

_HALVINGS = 3
"""After so many the radius is wide again: what is near has been looked at."""

_CHANGED = 6.0
"""Parameters that a candidate changes on average."""

CANDIDATES = 300

STARTS, STEPS = 2, 4
"""Of the local search among them: a region is not climbed out of."""

FIT_ITERATIONS = 30
"""Of the likelihood's maximisation: neighbouring regions have much the same hyperparameters as the prior's medians."""


@final
@dataclass(frozen=True)
class Region:
    """Where the next design is looked for.

    Args:
        centre: A design of the front: ``d``.
        radius: Share of each parameter's choices.
        history: What is modelled.
    """

    centre: Indices
    radius: float
    history: History

    def candidates(self, problem: Problem, rng: np.random.Generator) -> Indices:
        """Valid designs in the region, and its centre's neighbours: ``k x d``."""
        space = problem.space
        sizes = np.array(space.cardinalities)
        reach = np.maximum(1, np.round(self.radius * (sizes - 1)).astype(np.int64))
        d = len(sizes)
        moved = rng.random((CANDIDATES, d)) < min(1.0, _CHANGED / d)
        moved[np.arange(CANDIDATES), rng.integers(0, d, CANDIDATES)] = True
        steps = rng.integers(-reach, reach + 1, (CANDIDATES, d))
        near = np.clip(self.centre + steps, 0, sizes - 1)
        ordered = np.array(space.ordered)
        drawn = np.where(ordered, near, rng.integers(0, sizes, (CANDIDATES, d)))
        rows = space.canonical(np.where(moved, drawn, self.centre))
        return np.concatenate([rows, space.neighbours(self.centre), space.sample(CANDIDATES // 6, rng)])


def region_of(problem: Problem, history: History) -> Region:
    """The trust region of the next proposal."""
    best = front_rows(problem, history)
    order = best[np.argsort(history.objectives[best, 0], kind="stable")]
    told = len(history.indices) + len(history.pending)
    centre = int(order[int((told * _GOLDEN % 1.0) * len(order))])
    idle = len(history.indices) - 1 - int(best.max())
    halvings = idle // max(4, history.indices.shape[1]) % (_HALVINGS + 1)
    radius = max(_NARROWEST, _WIDEST * 0.5**halvings)
    return Region(history.indices[centre], radius, _around(problem, history, centre, best))


def _around(problem: Problem, history: History, centre: int, best: Indices) -> History:
    """The designs of the front nearest to the centre in objectives, and the nearest ones in features."""
    features = problem.space.features(history.indices)
    apart = ((features - features[centre]) ** 2).sum(axis=1)
    values = history.objectives[best]
    span = np.maximum(values.max(axis=0) - values.min(axis=0), 1e-300)
    off = (((values - history.objectives[centre]) / span) ** 2).sum(axis=1)
    chosen = set(best[np.argsort(off, kind="stable")[:_OF_FRONT]].tolist())
    for k in np.argsort(apart, kind="stable"):
        if len(chosen) >= LOCAL:
            break
        chosen.add(int(k))
    at = np.array(sorted(chosen), dtype=np.int64)
    return replace(
        history,
        indices=history.indices[at],
        objectives=history.objectives[at],
        outcomes=history.outcomes[at],
        valid=history.valid[at],
    )
