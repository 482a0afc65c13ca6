"""Which designs fail where capacities are exceeded: products of whole powers of sizes against unknown limits.

Hardware fails where something does not fit: local memories into a shared buffer, an array onto a chip. Such rules have exponents of -1, 0
and 1, and often two hold at once. Their number is finite, so the posterior over one or two of them and their limits is summed rather
than approximated. Limits are known up to the gap between demands of designs seen; inside a gap every limit is equally likely.
"""

import math
from dataclasses import dataclass
from itertools import combinations, product
from typing import final

import numpy as np

from codesign.optim.protocols import Bools, Floats, Indices

MISTAKE = 0.02
"""Probability that a design fails or works against the rules."""

UNEXPLAINED = 0.3
"""What a failure costs that a single rule leaves to another one, when candidates for pairs are chosen."""

PRODUCTS = 5000
"""Products of sizes that are looked at, those of few sizes first."""

SINGLES, KEPT = 600, 200
"""Products with a gap for the limit that are paired, and hypotheses kept."""


def exponents(sizes: int) -> tuple[Floats, Floats]:
    """Vectors of exponents and the logarithm of their prior probability, equal for every number of sizes: ``e x s`` and ``e``."""
    rows: list[Floats] = []
    prior: list[float] = []
    for used in range(1, sizes + 1):
        count = math.comb(sizes, used) * 2**used
        if rows and len(rows) + count > PRODUCTS:
            break
        for columns in combinations(range(sizes), used):
            for signs in product((1.0, -1.0), repeat=used):
                row = np.zeros(sizes)
                row[list(columns)] = signs
                rows.append(row)
        prior += [-math.log(count)] * count
    return np.array(rows).reshape(-1, sizes), np.array(prior)


@final
@dataclass(frozen=True)
class CapacityRules:
    """Hypotheses of which every one is a pair of rules; a rule alone is paired with one that nothing breaks.

    Args:
        vectors: Exponents of both rules: ``k x 2 x s``.
        low: Least limit of both, as a logarithm: ``k x 2``.
        width: Of the gaps the limits lie in: ``k x 2``.
        weights: Posterior probabilities: ``k``.
        log_score: Sum of the log probabilities of every outcome, each predicted without it.
    """

    vectors: Floats
    low: Floats
    width: Floats
    weights: Floats
    log_score: float

    def probability(self, logs: Floats) -> Floats:
        """That designs work: logarithms of sizes ``n x s`` to ``n``."""
        demand = np.einsum("ns,krs->nkr", logs, self.vectors)
        fits = np.clip((self.low + self.width - demand) / self.width, 0.0, 1.0).prod(axis=2)
        return np.asarray((MISTAKE + (1.0 - 2.0 * MISTAKE) * fits) @ self.weights)


def fit_capacities(logs: Floats, ranges: Floats, works: Bools) -> CapacityRules:
    """The posterior over rules: logarithms of sizes over their smallest ``n x s``, of their ranges ``s``, and ``n``."""
    vectors, prior = exponents(logs.shape[1])
    demand = vectors @ logs.T
    ends = np.stack([np.minimum(vectors, 0.0) @ ranges, np.maximum(vectors, 0.0) @ ranges], axis=1)
    edges = np.sort(np.concatenate([demand, ends], axis=1), axis=1)
    width = np.diff(edges, axis=1)
    broken = demand[:, None, :] > edges[:, :-1, None] + 1e-9  # e x gaps x n: the limit lies between two edges
    with np.errstate(divide="ignore"):
        mass = prior[:, None] + np.log(np.where(width > 1e-9, width, 0.0) / (ends[:, 1] - ends[:, 0])[:, None])
    wrong = broken[:, :, works].sum(axis=2) * math.log(MISTAKE) + (~broken[:, :, ~works]).sum(axis=2) * math.log(
        UNEXPLAINED
    )
    best = np.argsort(-(mass + wrong), axis=None, kind="stable")[:SINGLES]
    best = best[np.isfinite(mass.ravel()[best])]
    which, gap = np.unravel_index(best, mass.shape)
    return _posterior(vectors[which], edges[which, gap], width[which, gap], mass[which, gap], broken[which, gap], works)


def _posterior(vectors: Floats, low: Floats, width: Floats, mass: Floats, broken: Bools, works: Bools) -> CapacityRules:
    """Single rules and all pairs of them, the most probable kept: ``k x s``, thrice ``k``, ``k x n`` and ``n``."""
    vectors = np.concatenate([vectors, np.zeros((1, vectors.shape[1]))])
    low, width, mass = np.append(low, 1.0), np.append(width, 1.0), np.append(mass, 0.0)
    broken = np.concatenate([broken, np.zeros((1, len(works)), dtype=np.bool_)])
    either = broken.astype(np.float64)
    counts = []
    for group in (works, ~works):  # designs of the group that either rule of a pair breaks
        part = either[:, group]
        single = part.sum(axis=1)
        counts.append(single[:, None] + single[None, :] - part @ part.T)
    mistakes = counts[0] + (~works).sum() - counts[1]
    score = (
        mass[:, None] + mass[None, :] + mistakes * math.log(MISTAKE) + (len(works) - mistakes) * math.log1p(-MISTAKE)
    )
    first, second = np.triu_indices(len(mass), 1)
    order = np.argsort(-score[first, second], kind="stable")[:KEPT]
    pair: Indices = np.stack([first[order], second[order]], axis=1)
    weights = np.exp(score[pair[:, 0], pair[:, 1]] - score[pair[:, 0], pair[:, 1]].max())
    weights /= weights.sum()
    right = (broken[pair[:, 0]] | broken[pair[:, 1]]) != works
    left_out = 1.0 / (weights @ np.where(right, 1.0 / (1.0 - MISTAKE), 1.0 / MISTAKE))
    return CapacityRules(vectors[pair], low[pair], width[pair], weights, float(np.log(left_out).sum()))
