"""Multi-objective Bayesian optimisation over discrete designs.

One Gaussian process per metric (`gp`), an acquisition function over their predictions (`acquisition`, `botorch_models`), and a
discrete search of it (`candidates`). A proposal is a function of the history and the seed.

* Models: One Gaussian process per metric, on the logarithm where values are positive. The covariance adds an order-1
  arc-cosine kernel (Cho and Saul 2009), a Matern-5/2 kernel, which sizes two designs share, and whether one size
  divides another. A linear trend over the sum of all sizes' logarithms is learned.
* Acquisition: `ehvi` (up to four objectives): exact, by boxes, compiled. `qlognehvi` (`noisy=True` or more
  objectives): BoTorch's, at the 128 designs that EHVI ranks best. `phvi`: as in HASCO. `parego`, `scalarised`: random
  weights.
* Reference point: 0.3 of the range seen beyond the worst value (option `margin`), unless given.
* Search: Up to 4,096 combinations every design is scored; else 1,000 random ones and the front's neighbours, then
  local search. Nothing is relaxed.
* Long searches: Beyond 128 designs each proposal models the 96 nearest to one design of the front, in a trust region
  (MORBO, Daulton et al. 2022).
* Feasibility: A Gaussian process of labels, and Bayesian logistic regression over logarithms of sizes, say which
  designs fail. Bounded metrics are modelled like objectives. Designs that work with a probability below a quarter
  wait. While failures are frequent, candidates stay near designs that work (`nearby`).
* First designs: Presets, then all sizes at a half, a quarter and three quarters of their range; then the model.
* Batches: A pending design counts as evaluated at its predicted value (Kriging believer).
"""

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np

from codesign.core.checks import check_least, check_positive
from codesign.core.errors import unknown_name
from codesign.optim import candidates, gp, trust_region
from codesign.optim.acquisition import (
    Acquisition,
    ScalarisedBound,
    ScalarisedImprovement,
    View,
    hypervolume_improvement,
)
from codesign.optim.bounded import bounds_for
from codesign.optim.nearby import nearby_of
from codesign.optim.optimizer import satisfied
from codesign.optim.protocols import Floats, History, Indices, Problem
from codesign.optim.surrogate import MetricModel, Surrogate, fit_earlier, fit_surrogate

if TYPE_CHECKING:
    from codesign.optim.botorch_models import NoisyHypervolumeImprovement
    from codesign.optim.grey import GreyBox

ACQUISITIONS = ("auto", "black", "ehvi", "phvi", "parego", "scalarised", "qlognehvi")

DESIGNS = ("diagonal", "corners", "spread")

WHOLE_SPACE = 4096
"""Spaces up to this size are scored whole: the acquisition's maximum is then exact."""

EXACT_OBJECTIVES = 4
"""Exact EHVI is used up to this many objectives; its boxes grow with the front to the power of half of them."""

SCREENED = 128
"""Designs at which a Monte Carlo acquisition is looked at, the best of the pool by exact EHVI."""

_SAMPLES = 128


@final
@dataclass(frozen=True)
class Mobo:
    """Bayesian optimisation with a discrete search of the acquisition.

    Args:
        problem: What is searched.
        acquisition: `ehvi` exact expected hypervolume improvement; `phvi` its probability (HASCO); `parego` and `scalarised`
            random weights; `qlognehvi` BoTorch's noisy hypervolume improvement; `auto` is `ehvi`, or `qlognehvi` where
            evaluations are noisy or objectives are more than four; `black` likewise, without bounds.
        initial: Designs before the first model, presets and told designs included.
        design: What they are: `diagonal` (all sizes at a quarter, a half and three quarters of their ranges), `corners` (all
            smallest, all largest) or `spread`; filled up with designs far from each other.
        pool: Random designs at which the acquisition is looked at, besides the neighbours of the front.
        starts: From how many of the best a local search climbs.
        margin: How far beyond the worst value seen the inferred reference point lies, as a share of the range.
        grey: Whether bounds of the designs are used where there are any (`codesign.optim.grey`).
    """

    problem: Problem
    acquisition: str = "auto"
    initial: int = 3
    design: str = "diagonal"
    pool: int = 1000
    starts: int = 5
    margin: float = 0.3
    grey: bool = True

    def __post_init__(self) -> None:
        if self.acquisition not in ACQUISITIONS:
            raise unknown_name("acquisition", self.acquisition, ACQUISITIONS)
        if self.design not in DESIGNS:
            raise unknown_name("initial design", self.design, DESIGNS)
        check_least(1, where="optimizer 'mobo'", initial=self.initial, pool=self.pool, starts=self.starts)
        check_positive(where="optimizer 'mobo'", margin=self.margin)

    # ---- proposing -----------------------------------------------------------------------------

    def propose(self, history: History, count: int, rng: np.random.Generator) -> Indices:
        """The next designs one by one; earlier ones of the batch are pending for the later."""
        if self.grey_box is not None:
            return self.grey_box.propose(history, count)
        chosen = list(self._first_designs(history, count))
        if len(chosen) == count:
            return np.array(chosen, dtype=np.int64)
        if not _can_model(history):
            return np.array([*chosen, *self._spread(history, chosen, count - len(chosen), rng)], dtype=np.int64)
        known = {row.tobytes() for row in history.known()} | {row.tobytes() for row in chosen}
        pending = [*history.pending, *chosen]
        starts, steps = self.starts, None
        if (region := self._region(history)) is not None:
            starts, steps = min(starts, trust_region.STARTS), trust_region.STEPS
        near = nearby_of(self.problem, history) if region is None else None
        history, looked_at, iterations = self._looked_at(history, region, rng)
        surrogate = fit_surrogate(self.problem, history, self.earlier, gp.Prior(), iterations)
        if near is not None:
            looked_at = near.among(np.concatenate([looked_at, near.candidates(rng)]), known)
        pool = candidates.unique_new(self.problem.space, looked_at, known)
        pool = self._screened(surrogate, history, pool, rng)
        while len(chosen) < count and len(pool):
            score: candidates.Score = self._acquisition(surrogate, history, pending, rng)
            if near is not None:
                score = near.limited(score)
            row = candidates.maximise(self.problem.space, score, pool, known, starts, steps)
            known.add(row.tobytes())
            chosen.append(row)
            pending.append(row)
            pool = pool[(pool != row).any(axis=1)]
        return np.array(chosen, dtype=np.int64).reshape(-1, len(self.problem.space.names))

    @cached_property
    def grey_box(self) -> "GreyBox | None":
        """Proposals by bounds, where the acquisition is left open and every objective has a positive bound."""
        bounds = bounds_for(self.problem.space, self.problem.bounds)
        if not self.grey or self.acquisition != "auto" or self.problem.noisy or bounds is None:
            return None
        values = bounds.lower_bounds(self.problem.space.sample(1, np.random.default_rng(0)), self.problem.objectives)
        if not (values > 0.0).all():
            return None
        from codesign.optim.grey import GreyBox

        return GreyBox(self.problem, bounds)

    @cached_property
    def earlier(self) -> dict[str, MetricModel]:
        """Models of the metrics in earlier studies, by name."""
        if not self.problem.warm_start:
            return {}
        return fit_earlier(self.problem, self.problem.warm_start, gp.Prior())

    def _region(self, history: History) -> trust_region.Region | None:
        """Where a late proposal looks; None while one model holds all designs, or where too little worked nearby."""
        if len(history.indices) <= trust_region.MODELLED or not _can_model(history):
            return None
        region = trust_region.region_of(self.problem, history)
        return region if _can_model(region.history) else None

    def _looked_at(
        self, history: History, region: trust_region.Region | None, rng: np.random.Generator
    ) -> tuple[History, Indices, int]:
        """What is modelled, designs to look at, and iterations of the fit.

        In a small space all designs are looked at, in a larger one random ones and the neighbours of the front, late in a long search
        those of a trust region.
        """
        space = self.problem.space
        if region is not None:
            return region.history, region.candidates(self.problem, rng), trust_region.FIT_ITERATIONS
        if space.cardinality_bound <= WHOLE_SPACE:
            return history, space.enumerate(WHOLE_SPACE), gp.FIT_ITERATIONS
        best = history.indices[candidates.front_rows(self.problem, history)]
        rows = [space.sample(self.pool, rng), *(space.neighbours(row) for row in best)]
        return history, np.concatenate(rows), gp.FIT_ITERATIONS

    def _acquisition(
        self, surrogate: Surrogate, history: History, pending: list[Indices], rng: np.random.Generator
    ) -> Acquisition:
        name = self._acquisition_name()
        if name == "qlognehvi":
            noisy_improvement = _import_botorch()
            view = self._view(surrogate, history, None)
            waiting = np.array(pending, dtype=np.int64).reshape(-1, history.indices.shape[1])
            return noisy_improvement(surrogate, view, self._baseline(history), waiting, self.problem.seed)
        believed = None
        if pending:
            surrogate, believed = surrogate.believe(self.problem.space.features(np.array(pending)))
        view = self._view(surrogate, history, believed)
        if name in ("parego", "scalarised"):
            weights = rng.dirichlet(np.ones(len(self.problem.objectives)))
            if name == "scalarised":
                return ScalarisedBound(surrogate, view, weights)
            samples = np.random.default_rng(self.problem.seed).standard_normal((_SAMPLES, len(weights)))
            return ScalarisedImprovement(surrogate, view, weights, samples)
        return hypervolume_improvement(surrogate, view, expected=name != "phvi")

    def _acquisition_name(self) -> str:
        if self.acquisition not in ("auto", "black"):
            return self.acquisition
        exact = not self.problem.noisy and len(self.problem.objectives) <= EXACT_OBJECTIVES
        return "ehvi" if exact else "qlognehvi"

    def _screened(self, surrogate: Surrogate, history: History, pool: Indices, rng: np.random.Generator) -> Indices:
        """The part of the pool at which a Monte Carlo acquisition is worth its price: ``k x d``."""
        if self._acquisition_name() != "qlognehvi" or len(pool) <= SCREENED:
            return pool
        if len(self.problem.objectives) > EXACT_OBJECTIVES:
            return pool[rng.permutation(len(pool))[:SCREENED]]
        exact = hypervolume_improvement(surrogate, self._view(surrogate, history, None))
        return pool[np.argsort(-exact(pool), kind="stable")[:SCREENED]]

    def _baseline(self, history: History) -> Indices:
        """The designs a noisy front is made of: ``k x d``."""
        good = satisfied(self.problem, history)
        return history.indices[good if good.any() else np.isfinite(history.objectives).all(axis=1)]

    def _view(self, surrogate: Surrogate, history: History, believed: Floats | None) -> View:
        complete = np.isfinite(history.objectives).all(axis=1)
        good = satisfied(self.problem, history)
        feasible = surrogate.scale(history.objectives[good])
        if believed is not None:
            feasible = np.concatenate([feasible, believed])
        reference = None
        if self.problem.reference_point is not None:
            point = np.array(self.problem.reference_point)
            if all(p > 0 or not model.log for p, model in zip(point, surrogate.objectives, strict=True)):
                reference = surrogate.scale(point[None, :])[0]
        return View.of(surrogate.scale(history.objectives[complete]), feasible, reference, self.margin)

    # ---- the first designs ---------------------------------------------------------------------

    def _first_designs(self, history: History, count: int) -> Indices:
        """What is left of the initial design: presets, then `design`, then designs far from all others."""
        space = self.problem.space
        done = history.known()
        missing = min(count, self.initial - len(done))
        if missing <= 0:
            return done[:0]
        rng = np.random.default_rng(self.problem.seed)
        pool = space.sample(512, rng)
        wanted = [*space.to_indices(space.presets, "preset")]
        shapes = {"diagonal": (0.5, 0.25, 0.75), "corners": (0.0, 1.0), "spread": ()}[self.design]
        wanted += list(candidates.scaled_designs(space, shapes, pool, rng))
        known = {row.tobytes() for row in done}
        first = np.array(wanted, dtype=np.int64).reshape(-1, done.shape[1])
        first = candidates.unique_new(space, first, known)[:missing]
        rest = candidates.unique_new(space, pool, known | {row.tobytes() for row in first})
        return np.concatenate(
            [first, candidates.spread(space, np.concatenate([done, first]), rest, missing - len(first))]
        )

    def _spread(self, history: History, chosen: list[Indices], count: int, rng: np.random.Generator) -> list[Indices]:
        """Designs far from all known ones, while nothing has worked yet."""
        done = np.concatenate([history.known(), np.array(chosen, dtype=np.int64).reshape(-1, history.indices.shape[1])])
        space = self.problem.space
        rest = candidates.unique_new(space, space.sample(512, rng), {row.tobytes() for row in done})
        return list(candidates.spread(space, done, rest, count))


def _import_botorch() -> "type[NoisyHypervolumeImprovement]":
    """BoTorch's acquisition, imported without the deprecation warning of torch that its dependencies raise on import."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from codesign.optim.botorch_models import NoisyHypervolumeImprovement

    return NoisyHypervolumeImprovement


def _can_model(history: History) -> bool:
    """Whether every metric was seen at least twice."""
    values = np.concatenate([history.objectives, history.outcomes], axis=1)
    return bool((np.isfinite(values).sum(axis=0) >= 2).all())
