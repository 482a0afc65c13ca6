"""Over which interval of a technology constant a design stays optimal, proven by bounds of all other designs (docs/how-to/reports.md).

With a fixed mapping, energy is affine in a constant. The least energy over all mappings is a minimum of such functions, so it is
concave: between two factors it lies above the chord of any bounds at the two. A comparison that holds at both ends of a segment for one and
the same objective therefore holds all along it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from codesign.arch.constants import Constant
from codesign.bounds.design import METRICS, DesignBounds, why_not
from codesign.core.errors import UserError
from codesign.core.json_types import JsonObject
from codesign.core.point import Point
from codesign.evaluation.design import DesignSpace
from codesign.evaluation.detail import LayersDetail, detail_of
from codesign.evaluation.records import ConfigRecord
from codesign.evaluation.replay import recorded_mapper, recorded_options, recorded_space, recorded_workload
from codesign.optim.boxed import TIES
from codesign.report.recommend import knee_index
from codesign.report.sensitivity import energy_by_constant, scaled_metrics
from codesign.study.goals import ruled
from codesign.study.proof import read_proof
from codesign.study.study import Study, Trial

Floats = NDArray[np.float64]

WIDEST = 16.0
"""Factors up to this, and down to its inverse, are looked at."""

STEP = 2.0
"""Ratio of the factors at which bounds are first computed."""

FINE = 1.01
"""Ends of intervals are found within this ratio."""

MOST_DESIGNS = 3_000_000
"""Designs that are bounded at every factor."""


@final
@dataclass(frozen=True)
class End:
    """Where an interval ends.

    Args:
        factor: Of the constant; the design is shown to be optimal up to it.
        trial: The evaluated design that is better just beyond, the chosen one itself where it breaks a limit there; else None.
        point: The design, evaluated or not, that may be better or breaks a limit beyond; None at the end of what was looked at.
    """

    factor: float
    trial: int | None
    point: Point | None

    def to_json(self) -> JsonObject:
        """The fields as plain values that JSON can hold."""
        return {"factor": self.factor, "trial": self.trial, "point": self.point}


@final
@dataclass(frozen=True)
class Interval:
    """Factors of one constant between which a design is shown to stay optimal.

    Args:
        constant: What varies.
        low: Below 1.
        high: Above 1.
    """

    constant: Constant
    low: End
    high: End

    def to_json(self) -> JsonObject:
        """The fields as plain values that JSON can hold."""
        return {"constant": self.constant.value, "low": self.low.to_json(), "high": self.high.to_json()}


@final
@dataclass(frozen=True)
class Stability:
    """How far constants may move before a design need no longer be optimal.

    Args:
        trial: Of the design.
        designs: Of the space.
        epsilon: No other design is better by more than this share in every objective at once.
        gap: The least such share that is shown with the constants as they are.
        intervals: One for each constant; empty where `gap` is above `epsilon`.
    """

    trial: int
    designs: int
    epsilon: float
    gap: float
    intervals: tuple[Interval, ...]

    def to_json(self) -> JsonObject:
        """The fields as plain values that JSON can hold."""
        return {
            "trial": self.trial,
            "designs": self.designs,
            "epsilon": self.epsilon,
            "gap": self.gap,
            "intervals": [i.to_json() for i in self.intervals],
        }

    def describe(self) -> list[str]:
        """The intervals in sentences."""
        share = (
            f"better by more than {self.epsilon:.2%} in every objective"
            if self.epsilon
            else "better in every objective"
        )
        if not self.intervals:
            return [
                f"Of {self.designs:,} designs some may be {share} than trial {self.trial} as the constants are; "
                f"none is shown to be within {self.gap:.2%}: give --epsilon {math.ceil(self.gap * 1000 + 1e-6) / 1000:g} or more."
            ]
        found = [
            f"Trial {self.trial} is optimal over these factors of each constant: of {self.designs:,} designs none is {share}. "
            "Designs that were not evaluated count with bounds that hold for all mappings, evaluated ones with their recorded mappings."
        ]
        return [*found, *(_sentence(i, self.trial) for i in self.intervals)]


def _sentence(interval: Interval, chosen: int) -> str:
    def end(at: End) -> str:
        if at.point is None:
            return "the end of what was looked at"
        if at.trial is None:
            return "beyond it a design that was not evaluated may be better"
        return "then it breaks a limit" if at.trial == chosen else f"then trial {at.trial} is better"

    low, high = interval.low, interval.high
    return f"{interval.constant.value}: {low.factor:.3g} ({end(low)}) to {high.factor:.3g} ({end(high)})."


def stability(
    study: Study,
    constants: Sequence[Constant] = (),
    *,
    trial: int | None = None,
    epsilon: float | None = None,
    space: str | None = None,
) -> Stability:
    """The intervals of technology constants over which a design of a study stays optimal.

    Args:
        study: Judged layer by layer, by mappings that bounds cover.
        constants: To vary, one at a time; default: all that cost the design energy.
        trial: Of the design; default: the recommended one.
        epsilon: See `Stability`; default: what is proven of the study's front, else 0.
        space: ``module:attribute`` of a space that is not registered by name.

    Raises:
        UserError: The study has no bounds, the trial is not on its front, or the space is too large.
    """
    if epsilon is not None and not 0.0 <= epsilon <= 1.0:
        raise UserError(f"--epsilon must lie between 0 and 1, got {epsilon:g}")
    chosen = _chosen(study, trial)
    rivals = _Rivals(study, chosen, space)
    if epsilon is None:
        epsilon = float((read_proof(study.folder) or {}).get("epsilon_proven") or 0.0)
    gap = rivals.gap()
    if gap > epsilon + TIES:
        return Stability(chosen.number, rivals.designs, epsilon, gap, ())
    intervals = []
    for constant in constants or [c for c, joules in rivals.parts_of_chosen.items() if joules > 0.0]:
        low, high = (rivals.end(constant, direction, epsilon) for direction in (1.0 / STEP, STEP))
        intervals.append(Interval(constant, low, high))
    return Stability(chosen.number, rivals.designs, epsilon, max(gap, 0.0), tuple(intervals))


def _chosen(study: Study, number: int | None) -> Trial:
    front = study.front()
    if not front:
        raise UserError(f"{study.label} has no front")
    if number is None:
        return front[knee_index(study.values(front))]
    for trial in front:
        if trial.number == number:
            return trial
    raise UserError(
        f"--design {number} is not on the front of {study.label}",
        hint=f"one of {', '.join(str(t.number) for t in front)}",
    )


def _with_recorded_rules(space: DesignSpace, config: ConfigRecord) -> DesignSpace:
    """The space with the rules on parameters that its study was given."""
    recorded = {str(c.get("rule")): c for c in config["space"]["space"].get("constraints", [])}
    own = {str(c.get("rule")) for c in space.to_json()["space"].get("constraints", [])}
    return ruled(space, [text for text in recorded if text not in own and text != "None"])


@final
@dataclass(frozen=True)
class _Figures:
    """Designs at one factor of a constant.

    Args:
        own: Objectives of the chosen design: ``m``; None where it breaks a limit.
        others: Objectives of all others, or bounds of them: ``n x m``.
        beyond: Which limits they are shown to break: ``n x l``.
    """

    own: Floats | None
    others: Floats
    beyond: NDArray[np.bool_]


class _Rivals:
    """All other designs of a study's space: evaluated ones with their figures, others with bounds."""

    def __init__(self, study: Study, chosen: Trial, space: str | None) -> None:
        self._study, self._chosen = study, chosen
        self._space = _with_recorded_rules(recorded_space(study.config, space), study.config)
        if "choices" in study.config["space"]:
            raise UserError(f"{study.label} has no bounds here: its designs choose precision or zeros")
        own = {*study.objectives, *(c.metric for c in study.constraints)} - METRICS
        if own:
            raise UserError(
                f"{study.label} has no bounds here: nothing is known of how {', '.join(sorted(own))} moves with a constant"
            )
        reason = why_not(recorded_options(study.config), recorded_mapper(study.config).name)
        if reason is not None:
            raise UserError(f"{study.label} has no bounds: {reason}")
        grid = self._space.space
        if grid.cardinality_bound > MOST_DESIGNS:
            raise UserError(
                f"space {self._space.name!r} has up to {grid.cardinality_bound:,} designs, at most {MOST_DESIGNS:,} are bounded here"
            )
        self._rows = grid.enumerate(MOST_DESIGNS)
        self._model = DesignBounds(self._space, recorded_workload(study.config, self._space))
        self._limits = [c for c in study.constraints if c.upper]
        self._trials = [t for t in study.trials if not t.infeasible]  # those beyond a limit may come within it
        self._parts = {t.number: self._parts_of(t) for t in self._trials}
        self.parts_of_chosen = self._parts[chosen.number]
        self._find_open()

    @property
    def designs(self) -> int:
        """Number of designs of the space."""
        return len(self._rows)

    def _parts_of(self, trial: Trial) -> dict[Constant, float]:
        record = self._study.detail(trial.number)
        if not isinstance(detail_of(record), LayersDetail):
            raise UserError(f"trial {trial.number} records no layers", where=self._study.label)
        return energy_by_constant(record, trial.metrics)

    def _find_open(self) -> None:
        """Designs that were not evaluated and are not alike one that was (rule LB11)."""
        alike = self._model.table(self._rows).alike()
        told = self._space.space.to_indices([t.point for t in self._study.trials])
        at = {row.tobytes(): k for k, row in enumerate(self._rows)}
        known = [alike[k] for row in told if (k := at.get(row.tobytes())) is not None]
        self._open = np.flatnonzero(~np.isin(alike, known))
        self._rows_open = self._rows[self._open]
        self._figures = self._model.figures(self._rows_open)

    # ---- figures at a factor ---------------------------------------------------------------------

    def _metrics(self, trial: Trial, constant: Constant, factor: float) -> dict[str, float]:
        return scaled_metrics(trial, self._parts[trial.number], constant, factor)

    def _at(self, constant: Constant, factor: float) -> _Figures:
        """All designs at one factor, evaluated ones first."""
        own = self._metrics(self._chosen, constant, factor)
        kept = all(c.kept_by(own) for c in self._study.constraints)
        names, limits = self._study.objectives, self._limits
        found = [self._metrics(t, constant, factor) for t in self._trials if t is not self._chosen]
        values = np.array([[m[o] for o in names] for m in found]).reshape(-1, len(names))
        beyond = np.array([[m[c.metric] > c.bound for c in limits] for m in found], dtype=np.bool_)
        table = self._model.table_of_designs([f.scaled({constant: factor}) for f in self._figures])
        bounds = table.values(names)
        if np.isnan(bounds).any():
            missing = names[int(np.flatnonzero(np.isnan(bounds).any(axis=0))[0])]
            raise UserError(f"objective {missing!r} has no bound", where=self._study.label)
        limited = np.nan_to_num(table.values([c.metric for c in limits]), nan=-np.inf)
        over = limited > np.array([c.bound for c in limits]).reshape(1, -1)
        return _Figures(
            np.array([own[o] for o in names]) if kept else None,
            np.concatenate([values, bounds]),
            np.concatenate([beyond.reshape(len(found), len(limits)), over]),
        )

    def gap(self) -> float:
        """How much better in every objective some other design may be, the constants as they are."""
        figures = self._at(Constant.DRAM, 1.0)
        others = figures.others[~figures.beyond.any(axis=1)]
        assert figures.own is not None
        return max(float((figures.own / others).min(axis=1).max()) - 1.0, 0.0) if len(others) else 0.0

    # ---- ends of intervals -----------------------------------------------------------------------

    def end(self, constant: Constant, step: float, epsilon: float) -> End:
        """Walk from 1 in steps until a segment is not shown to hold, then halve it."""
        here, at_here = 1.0, self._at(constant, 1.0)
        rival = None
        while 1.0 / WIDEST < here < WIDEST:
            there = min(max(here * step, 1.0 / WIDEST), WIDEST)
            at_there = self._at(constant, there)
            found = self._better(at_here, at_there, epsilon)
            if found is None:
                here, at_here = there, at_there
                continue
            rival = found
            if max(step, 1.0 / step) < FINE:
                return self._end(here, rival)
            step = math.sqrt(step)
        return self._end(here, None)

    @staticmethod
    def _better(left: _Figures, right: _Figures, epsilon: float) -> int | None:
        """A design not shown to stay worse in one and the same objective, or beyond one and the same limit, at both ends of a segment."""
        factor = (1.0 + epsilon) * (1.0 + TIES)
        if left.own is None or right.own is None:
            return -1  # the design itself breaks a limit
        holds = ((left.own <= factor * left.others) & (right.own <= factor * right.others)).any(axis=1)
        holds |= (left.beyond & right.beyond).any(axis=1)
        worse = np.flatnonzero(~holds)
        if not len(worse):
            return None
        return int(worse[np.argmax((right.own / right.others[worse]).min(axis=1))])

    def _end(self, factor: float, rival: int | None) -> End:
        if rival is None:
            return End(factor, None, None)
        if rival < 0:
            return End(factor, self._chosen.number, self._chosen.point)
        evaluated = [t for t in self._trials if t is not self._chosen]
        if rival < len(evaluated):
            return End(factor, evaluated[rival].number, evaluated[rival].point)
        row = self._rows_open[rival - len(evaluated)]
        return End(factor, None, self._space.space.to_points(row[None])[0])
