"""Any sampler of Optuna under the ask/tell interface."""

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from codesign.core.errors import UserError, unknown_name
from codesign.optim.evolution import WORST, violations
from codesign.optim.protocols import Floats, History, Indices, Problem

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

_SHORT = {
    "tpe": "TPESampler",
    "gp": "GPSampler",
    "nsga2": "NSGAIISampler",
    "nsga3": "NSGAIIISampler",
    "random": "RandomSampler",
    "qmc": "QMCSampler",
    "bruteforce": "BruteForceSampler",
    "cmaes": "CmaEsSampler",
}

_SINGLE_OBJECTIVE = ("cmaes",)
_CONSTRAINED = ("tpe", "gp", "nsga2", "nsga3")

_TRIES = 50


@final
@dataclass(frozen=True)
class OptunaSampler:
    """A sampler of Optuna (Akiba et al., KDD 2019), given the whole history at every call.

    Ordered parameters are integer distributions over choice indices, labels categorical ones. TPE is multivariate, which suits
    these spaces better than its default. Known validity rules are kept by asking again; failed designs are passed on as
    violated constraints to the samplers that know them.

    Args:
        problem: What is searched.
        sampler: `tpe`, `gp`, `nsga2`, `nsga3`, `random`, `qmc`, `bruteforce`, `cmaes`.
    """

    problem: Problem
    sampler: str

    def __post_init__(self) -> None:
        if self.sampler not in _SHORT:
            raise unknown_name("Optuna sampler", self.sampler, _SHORT)
        if self.sampler in _SINGLE_OBJECTIVE and len(self.problem.objectives) > 1:
            raise UserError(f"optuna:{self.sampler} handles one objective, got {len(self.problem.objectives)}")

    def propose(self, history: History, count: int, rng: np.random.Generator) -> Indices:
        """What the sampler asks for, repeats and invalid designs left out."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            # `constraints_func` is on its way out in Optuna 5; its replacement is not in Optuna 4.
            warnings.simplefilter("ignore", FutureWarning)
            study = self._study(history, int(rng.integers(2**31)))
            return self._ask(study, history, count)

    def _ask(self, study: Any, history: History, count: int) -> Indices:
        import optuna

        space = self.problem.space
        known = {row.tobytes() for row in history.known()}
        found: list[Indices] = []
        for _ in range(_TRIES * count):
            trial = study.ask(self._distributions())
            row = space.canonical(np.array([[trial.params[name] for name in space.names]], dtype=np.int64))
            if row[0].tobytes() not in known and space.is_valid(row)[0]:
                known.add(row[0].tobytes())
                found.append(row[0])
                if len(found) == count:
                    break
            else:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
        return np.array(found, dtype=np.int64).reshape(-1, len(space.names))

    def _distributions(self) -> dict[str, "BaseDistribution"]:
        from optuna.distributions import CategoricalDistribution, IntDistribution

        space = self.problem.space
        return {
            name: IntDistribution(0, size - 1) if ordered else CategoricalDistribution(list(range(size)))
            for name, size, ordered in zip(space.names, space.cardinalities, space.ordered, strict=True)
        }

    def _study(self, history: History, seed: int) -> Any:
        import optuna

        study = optuna.create_study(
            directions=["minimize"] * len(self.problem.objectives), sampler=self._make_sampler(seed)
        )
        violation = violations(self.problem, history)
        missing = self._missing(history)
        for row, values, excess in zip(history.indices.tolist(), history.objectives, violation, strict=True):
            told = np.where(np.isfinite(values), values, missing)
            study.add_trial(
                optuna.trial.create_trial(
                    params=dict(zip(self.problem.space.names, row, strict=True)),
                    distributions=self._distributions(),
                    values=told.tolist(),
                    user_attrs={"violation": float(excess)},
                )
            )
        return study

    def _missing(self, history: History) -> Floats:
        """What is told of a design without metrics: ``m``; to processes the worst seen, since they standardise what they are told."""
        seen = np.isfinite(history.objectives).all(axis=1)
        if self.sampler == "gp" and seen.any():
            return np.asarray(history.objectives[seen].max(axis=0))
        return np.full(len(self.problem.objectives), WORST)

    def _make_sampler(self, seed: int) -> Any:
        from optuna import samplers

        options: dict[str, object] = {"constraints_func": _violation} if self.sampler in _CONSTRAINED else {}
        if self.sampler == "tpe":
            options["multivariate"] = True
        return getattr(samplers, _SHORT[self.sampler])(seed=seed, **options)


def _violation(trial: Any) -> list[float]:
    return [trial.user_attrs["violation"]]
