"""Several studies side by side: hypervolume curves by optimiser, median and quartiles over seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign.core.errors import UserError
from codesign.core.files import write_atomic
from codesign.evaluation.metrics import UNITS
from codesign.optim.pareto import front
from codesign.optim.study import Study, hypervolume_curve
from codesign.report.page import asset, build_page


@dataclass(frozen=True)
class Group:
    """The runs of one optimiser.

    Args:
        optimizer: Its name.
        seeds: Of the runs.
        curves: Hypervolume after each trial, one row a run, cut to the shortest: ``runs x trials``.
        seconds: Wall-clock time of each run.
    """

    optimizer: str
    seeds: tuple[int, ...]
    curves: NDArray[np.float64]
    seconds: tuple[float, ...]

    @property
    def quartiles(self) -> NDArray[np.float64]:
        """Lower quartile, median, upper quartile after each trial: ``3 x trials``."""
        return np.asarray(np.percentile(self.curves, [25, 50, 75], axis=0))

    def trials_to(self, level: float) -> int | None:
        """Trials after which the median reaches a hypervolume; None if it never does."""
        reached = np.flatnonzero(self.quartiles[1] >= level * (1 - 1e-12))
        return int(reached[0]) + 1 if len(reached) else None


@dataclass(frozen=True)
class Comparison:
    """Studies of the same space, workload and objectives.

    Args:
        objectives: Fields minimised.
        reference: The common reference point: 1.1 times the worst value on the front of any run.
        best: Hypervolume of all runs' designs together.
        groups: By optimiser, best median first.
    """

    objectives: tuple[str, ...]
    reference: tuple[float, ...]
    best: float
    groups: tuple[Group, ...]


def compare(studies: Sequence[Study]) -> Comparison:
    """Compare studies.

    Raises:
        UserError: They differ in what they search, or one has no feasible design.
    """
    first = studies[0]
    for study in studies[1:]:
        for key in ("space", "workload", "objectives", "constraints", "evaluation"):
            if study.config[key] != first.config[key]:
                raise UserError(
                    f"{study.folder} and {first.folder} differ in {key}", hint="compare runs of one problem only"
                )
    values = {id(s): s.values(s.trials) for s in studies}
    for study in studies:
        if not np.isfinite(values[id(study)]).any():
            raise UserError(f"{study.folder} has no feasible trial to compare")
    fronts = np.concatenate([front(v[np.isfinite(v).all(axis=1)]) for v in values.values()])
    reference = tuple((1.1 * fronts.max(axis=0)).tolist())
    best = hypervolume_curve(np.concatenate(list(values.values())), reference)[-1]
    by_optimizer: dict[str, list[Study]] = {}
    for study in studies:
        by_optimizer.setdefault(study.config["optimizer"], []).append(study)
    groups = [_group(name, members, values, reference) for name, members in by_optimizer.items()]
    groups.sort(key=lambda g: -float(g.quartiles[1, -1]))
    return Comparison(first.objectives, reference, best, tuple(groups))


def _group(
    name: str, members: Sequence[Study], values: dict[int, NDArray[np.float64]], reference: tuple[float, ...]
) -> Group:
    curves = [hypervolume_curve(values[id(s)], reference) for s in members]
    length = min(len(c) for c in curves)
    return Group(
        name,
        tuple(int(s.config["seed"]) for s in members),
        np.array([c[:length] for c in curves]),
        tuple(s.trials[-1].elapsed_s for s in members),
    )


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """The comparison as plain values."""
    return {
        "objectives": list(comparison.objectives),
        "units": UNITS,
        "reference": list(comparison.reference),
        "best": comparison.best,
        "groups": [
            {
                "optimizer": g.optimizer,
                "seeds": list(g.seeds),
                "curves": g.curves.tolist(),
                "quartiles": g.quartiles.tolist(),
                "seconds": list(g.seconds),
                "trials_to_90_percent": g.trials_to(0.9 * comparison.best),
            }
            for g in comparison.groups
        ],
    }


def write_comparison(comparison: Comparison, path: Path) -> Path:
    """Write the page that overlays the curves; returns its path."""
    page = build_page(
        "Comparison of optimisers", asset("compare.html"), comparison_json(comparison), asset("compare.js")
    )
    write_atomic(path, page)
    return path
