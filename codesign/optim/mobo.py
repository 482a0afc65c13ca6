"""Multi-objective Bayesian optimisation over discrete designs."""

from dataclasses import dataclass
from typing import final

import numpy as np

from codesign.optim import candidates, ehvi, gp
from codesign.optim.optimizer import satisfied
from codesign.optim.pareto import front
from codesign.optim.protocols import Bools, Floats, History, Indices, Problem, SearchSpace


@final
@dataclass(frozen=True)
class _Improvement:
    """EHVI of rows of indices, in the frame of the reference point and the range seen."""

    space: SearchSpace
    models: tuple[gp.GaussianProcess, ...]
    reference: Floats
    scale: Floats
    grid: Floats
    cells: Indices

    def __call__(self, rows: Indices) -> Floats:
        features = self.space.features(rows)
        predictions = [model.predict(features) for model in self.models]
        mean = np.stack([p[0] for p in predictions], axis=1)
        deviation = np.stack([p[1] for p in predictions], axis=1)
        return ehvi.expected_improvement(
            (mean - self.reference) / self.scale, deviation / self.scale, self.grid, self.cells
        )


@final
@dataclass(frozen=True)
class Mobo:
    """Independent Gaussian processes on log objectives, exact EHVI, discrete search of it.

    Args:
        problem: What is searched.
        initial: Designs before the first model: corners, presets, then maximin.
        pool: Random designs at which the acquisition is looked at.
    """

    problem: Problem
    initial: int = 5
    pool: int = 1000

    def propose(self, history: History, count: int, rng: np.random.Generator) -> Indices:
        """The next designs, one after the other; earlier ones of the batch count as pending."""
        space = self.problem.space
        pending = history.pending
        chosen: list[Indices] = []
        start = self._initial(history, count, rng)
        chosen += list(start)
        if len(chosen) >= count or not satisfied(self.problem, history).any():
            return np.array(chosen, dtype=np.int64).reshape(-1, len(space.names))
        known = {row.tobytes() for row in history.known()} | {row.tobytes() for row in chosen}
        geometry = gp.Geometry(space.feature_owners, space.ordered)
        good = satisfied(self.problem, history)
        logs = (history.objectives[good] > 0).all(axis=0)
        y = np.where(logs, np.log(np.where(logs, history.objectives, 1.0)), history.objectives)[good]
        x = space.features(history.indices[good])
        models = [gp.fit(geometry, x, y[:, j], gp.Prior()) for j in range(y.shape[1])]
        believed = np.concatenate([pending, np.array(chosen, dtype=np.int64).reshape(-1, len(space.names))])
        observed = y
        while len(chosen) < count:
            if len(believed):
                f = space.features(believed)
                means = [m.predict(f)[0] for m in models]
                models = [m.condition(f, v) for m, v in zip(models, means, strict=True)]
                observed = np.concatenate([observed, np.stack(means, axis=1)])
            reference = observed.max(axis=0) + 0.05 * np.ptp(observed, axis=0)
            scale = np.where(np.ptp(observed, axis=0) > 0, np.ptp(observed, axis=0), 1.0)
            best = front(observed)
            grid, cells = ehvi.boxes((best - reference) / scale, np.zeros(len(scale)))

            rows = [space.sample(self.pool, rng)]
            onfront: Bools = (observed[: len(y), None, :] == best[None]).all(axis=2).any(axis=1)
            rows += [space.neighbours(r) for r in history.indices[good][onfront]]
            pool = candidates.unique_new(space, np.concatenate(rows), known)
            if not len(pool):
                break
            score = _Improvement(space, tuple(models), reference, scale, grid, cells)
            row = candidates.maximise(space, score, pool, known)
            known.add(row.tobytes())
            chosen.append(row)
            believed = row[None, :]
        return np.array(chosen, dtype=np.int64).reshape(-1, len(space.names))

    def _initial(self, history: History, count: int, rng: np.random.Generator) -> Indices:
        space = self.problem.space
        known = history.known()
        missing = min(count, self.initial - len(known))
        if missing <= 0:
            return known[:0]
        pool = space.sample(512, rng)
        ends = [candidates.nearest_valid(space, row, pool) for row in candidates.corners(space)]
        wanted = candidates.unique_new(
            space, np.concatenate([space.to_indices(space.presets), np.array(ends)]), {r.tobytes() for r in known}
        )[:missing]
        rest = candidates.unique_new(space, pool, {r.tobytes() for r in [*known, *wanted]})
        extra = candidates.spread(space, np.concatenate([known, wanted]), rest, missing - len(wanted))
        return np.concatenate([wanted, extra])
