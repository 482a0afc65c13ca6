"""The front of a study with every compromise of its designs: all mappings count, not only the one each design was judged by.

Bounds of designs hold for all mappings. So where the study's front is proven, no design that was not evaluated adds a compromise that
is better than the evaluated ones by more than the proven epsilon, and the Pareto sets of the evaluated designs make up the whole front.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from codesign.bounds.design import bounds_of, why_not
from codesign.core.errors import UserError
from codesign.core.files import read_structured, write_json
from codesign.core.goals import Budget
from codesign.core.json_types import JsonObject
from codesign.core.point import Point
from codesign.cost.cost import Infeasible
from codesign.evaluation.design import DesignEvaluator
from codesign.evaluation.judge import Judge
from codesign.evaluation.specification import PARETO, JudgeSpec
from codesign.evaluation.trade_offs import trade_offs
from codesign.optim.pareto import front
from codesign.study.study import Study, Trial

MAPPING_FRONT_FILE = "per_design.json"
"""What a study's folder holds the front over designs and mappings in."""

LAYER_LIMIT_S = 60.0
"""Seconds for a layer's Pareto set where the study gives no limit."""


@final
@dataclass(frozen=True)
class Compromise:
    """A design with one choice of mappings.

    Args:
        trial: Of the design.
        point: Its parameters.
        metrics: Its figures with these mappings.
    """

    trial: int
    point: Point
    metrics: dict[str, float]

    def to_json(self) -> JsonObject:
        """The fields as plain values that JSON can hold."""
        return {"trial": self.trial, "point": self.point, "metrics": self.metrics}

    @classmethod
    def from_json(cls, value: Any) -> "Compromise":
        """The inverse of `to_json`."""
        return cls(value["trial"], value["point"], value["metrics"])


@final
@dataclass(frozen=True)
class MappingFront:
    """The Pareto front over evaluated designs and all their mappings.

    Args:
        compromises: By the first objective.
        designs: Whose Pareto sets were found.
        skipped: Designs whose bounds showed that none of their mappings adds anything.
        proven: Whether every set is proven complete.
    """

    compromises: tuple[Compromise, ...]
    designs: int
    skipped: int
    proven: bool

    def to_json(self) -> JsonObject:
        """As `MAPPING_FRONT_FILE` and ``--format json`` hold it."""
        return {
            "sentence": self.sentence(),
            "designs": self.designs,
            "skipped": self.skipped,
            "proven": self.proven,
            "front": [c.to_json() for c in self.compromises],
        }

    @classmethod
    def from_json(cls, value: Any) -> "MappingFront":
        """The inverse of `to_json`."""
        compromises = tuple(Compromise.from_json(c) for c in value["front"])
        return cls(compromises, value["designs"], value["skipped"], value["proven"])

    def sentence(self) -> str:
        """The front in words."""
        owners = len({c.trial for c in self.compromises})
        whole = "every set proven complete" if self.proven else "some sets perhaps not complete"
        return (
            f"over all mappings: {len(self.compromises):,} compromises of {owners} designs on the front; "
            f"{self.designs} designs searched, {self.skipped} left out by bounds; {whole}"
        )


def check_per_design(how: JudgeSpec, metrics: Sequence[str]) -> None:
    """Refuse goals that a latency-energy Pareto set does not decide.

    Raises:
        UserError: Power among them: a slower mapping of more energy may take less power.
    """
    if how.per_design == PARETO and "power_w" in metrics:
        raise UserError(
            "--per-design pareto does not take power: a slower mapping that needs more energy may take less power",
            hint="leave out power among objectives and constraints",
        )


def check_judge(judge: Judge) -> DesignEvaluator:
    """What designs are judged by, where Pareto sets over mappings can be found for it.

    Raises:
        UserError: The judge's mappings are not those that bounds hold for.
    """
    evaluate = judge.evaluate
    if not isinstance(evaluate, DesignEvaluator):
        raise UserError(
            "--per-design pareto needs designs that are judged layer by layer by analytical figures",
            hint="leave out --workload, whole-network schedulers, choices of precision or zeros, and metrics of your own",
        )
    reason = why_not(evaluate.options, evaluate.mapper.name)
    if reason is not None:
        raise UserError(f"--per-design pareto has no bounds: {reason}")
    return evaluate


def mapping_front(study: Study, judge: Judge, limit_s: float | None = None) -> MappingFront:
    """Find the Pareto set over mappings of every evaluated design that may add to the front, and merge them.

    Args:
        study: Judged layer by layer.
        judge: What judged the designs of the study.
        limit_s: Seconds for each layer's set; default `LAYER_LIMIT_S`.

    Raises:
        UserError: The judge's mappings are not those that bounds hold for.
    """
    evaluate = check_judge(judge)
    bounds = bounds_of(evaluate.space, evaluate.workload, evaluate.options, evaluate.mapper.name)
    trials = [t for t in study.trials if not t.infeasible]
    rows = evaluate.space.space.to_indices([t.point for t in trials])
    low = bounds.lower_bounds(rows, study.objectives)
    order = sorted(range(len(trials)), key=lambda k: (not study.is_valid(trials[k]), float(np.log(low[k]).sum())))
    found: list[Compromise] = []
    seen = np.zeros((0, len(study.objectives)))
    designs, proven = 0, True
    for k in order:
        if len(seen) == 0 or not (seen <= low[k]).all(axis=1).any():
            added, complete = _of_design(study, evaluate, trials[k], limit_s or LAYER_LIMIT_S)
            designs, proven = designs + 1, proven and complete
            found += added
            values = _values(study, found)
            seen = front(values) if len(values) else seen
    return MappingFront(_undominated(study, found), designs, len(order) - designs, proven)


def _of_design(study: Study, evaluate: DesignEvaluator, trial: Trial, limit_s: float) -> tuple[list[Compromise], bool]:
    found = trade_offs(evaluate.workload, evaluate.space.build(trial.point), Budget(time_limit_s=limit_s))
    if isinstance(found, Infeasible):
        return [], True
    compromises = []
    for metrics in found.points:
        values = metrics.to_dict()
        if all(c.kept_by(values) for c in study.constraints):
            compromises.append(Compromise(trial.number, trial.point, values))
    return compromises, found.proven


def _values(study: Study, compromises: Sequence[Compromise]) -> NDArray[np.float64]:
    rows = [[c.metrics[o] for o in study.objectives] for c in compromises]
    return np.array(rows, dtype=np.float64).reshape(-1, len(study.objectives))


def _undominated(study: Study, compromises: Sequence[Compromise]) -> tuple[Compromise, ...]:
    from moocore import is_nondominated

    values = _values(study, compromises)
    keep = is_nondominated(values, keep_weakly=False) if len(values) > 1 else np.ones(len(values), dtype=np.bool_)
    best = [c for c, kept in zip(compromises, keep, strict=True) if kept]
    return tuple(sorted(best, key=lambda c: [c.metrics[o] for o in study.objectives]))


def write_mapping_front(found: MappingFront, folder: Path) -> Path:
    """Write the front; returns the path."""
    path = folder / MAPPING_FRONT_FILE
    write_json(path, found.to_json())
    return path


def read_mapping_front(folder: Path) -> MappingFront | None:
    """What `write_mapping_front` wrote; None where there is none.

    Raises:
        UserError: The file is damaged.
    """
    path = folder / MAPPING_FRONT_FILE
    if not path.exists():
        return None
    try:
        return MappingFront.from_json(read_structured(path))
    except (KeyError, TypeError) as error:
        raise UserError(
            "is not a front over designs and mappings", where=str(path), hint="delete it; `explore` writes it anew"
        ) from error
