"""Exact hypervolume in a stated frame of reference.

A hypervolume means nothing without its scale and its reference point, so both are one value here,
`Frame`: objectives are taken as logarithms (or as they are), scaled so that the ideal point is 0 and the nadir 1,
and the reference point lies `margin` beyond the nadir. Points outside the reference box count nothing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from codesign.core.errors import UserError, unknown_name
from codesign.optim.pareto import front

Floats = NDArray[np.float64]

MARGIN = 0.05
"""The reference point is 1.05 of the front's range from its ideal point, in every objective."""


def hypervolume(values: Floats, reference_point: Sequence[float]) -> float:
    """The exact volume dominated by the rows and bounded by the reference point.

    >>> hypervolume(np.array([[1.0, 2.0], [2.0, 1.0]]), [3.0, 3.0])
    3.0

    Args:
        values: Objectives to minimise: ``n x m``; rows with NaN are left out.
        reference_point: The worst corner, ``m``.

    Raises:
        UserError: The reference point has another number of objectives or is not finite.
    """
    import moocore

    reference = np.asarray(reference_point, dtype=np.float64)
    if reference.shape != (values.shape[1],) or not np.isfinite(reference).all():
        raise UserError(f"reference point: expected {values.shape[1]} finite numbers, got {list(reference_point)}")
    inside = values[np.isfinite(values).all(axis=1)]
    inside = inside[(inside < reference).all(axis=1)]
    return float(moocore.hypervolume(inside, ref=reference)) if len(inside) else 0.0


def reference_values(reference: Sequence[float] | Mapping[str, float], objectives: Sequence[str]) -> Sequence[float]:
    """A reference point in the order of the objectives, NaN for one that is not named.

    Raises:
        UserError: It names another objective.
    """
    if not isinstance(reference, Mapping):
        return reference
    for name in reference:
        if name not in objectives:
            raise unknown_name("objective", name, objectives, where="reference point")
    return [reference.get(name, math.nan) for name in objectives]


@final
@dataclass(frozen=True)
class Frame:
    """The scale a hypervolume is measured in.

    Args:
        ideal: The best value of each objective, in objective units.
        nadir: The worst value of each objective on the front, in objective units.
        log: Measure in log space; every objective must then be positive.
        margin: How far beyond the nadir the reference point lies, as a share of the range.
    """

    ideal: tuple[float, ...]
    nadir: tuple[float, ...]
    log: bool = True
    margin: float = MARGIN

    def __post_init__(self) -> None:
        if len(self.ideal) != len(self.nadir) or not self.ideal:
            raise UserError(f"frame: expected as many ideal as nadir values, got {self.ideal} and {self.nadir}")
        if not np.isfinite([*self.ideal, *self.nadir]).all() or any(
            a > b for a, b in zip(self.ideal, self.nadir, strict=True)
        ):
            raise UserError(f"frame: expected finite ideal <= nadir, got {self.ideal} and {self.nadir}")
        if self.log and min(self.ideal) <= 0:
            raise UserError(f"frame: log scaling needs positive objectives, got ideal {self.ideal}")

    @classmethod
    def of_front(cls, values: Floats, *, log: bool = True, margin: float = MARGIN) -> "Frame":
        """The frame of a known front (or of any set: its dominated rows are ignored): ``n x m``."""
        best = front(values)
        if not len(best):
            raise UserError("frame: expected at least one finite point, got none")
        return cls(tuple(best.min(axis=0).tolist()), tuple(best.max(axis=0).tolist()), log, margin)

    def normalise(self, values: Floats) -> Floats:
        """Objectives with the ideal point at 0 and the nadir at 1: ``n x m``.

        An objective in which the front is flat (ideal equals nadir) is measured in units of its own logarithm or value.
        """
        ideal, nadir = np.array(self.ideal), np.array(self.nadir)
        if self.log:
            with np.errstate(divide="ignore", invalid="ignore"):
                values, ideal, nadir = np.log(values), np.log(ideal), np.log(nadir)
        span = nadir - ideal
        scaled: Floats = (values - ideal) / np.where(span > 0, span, 1.0)
        return scaled

    @property
    def reference_point(self) -> tuple[float, ...]:
        """The reference point in objective units."""
        ideal, nadir = np.array(self.ideal), np.array(self.nadir)
        if self.log:
            span = np.log(nadir) - np.log(ideal)
            return tuple((nadir * np.exp(self.margin * np.where(span > 0, span, 1.0))).tolist())
        span = nadir - ideal
        return tuple((nadir + self.margin * np.where(span > 0, span, 1.0)).tolist())

    def hypervolume(self, values: Floats) -> float:
        """The hypervolume of the rows in this frame: ``n x m`` to a number at most ``(1 + margin) ** m``."""
        if not len(values):
            return 0.0
        return hypervolume(self.normalise(values), [1.0 + self.margin] * len(self.ideal))

    def curve(self, values: Floats) -> Floats:
        """The hypervolume after each row, in order: ``n x m`` to ``n``."""
        normalised = self.normalise(values)
        reference = [1.0 + self.margin] * len(self.ideal)
        result, best = np.zeros(len(values)), np.zeros((0, len(self.ideal)))
        for k, row in enumerate(normalised):
            best = front(np.concatenate([best, row[None, :]]))
            result[k] = hypervolume(best, reference)
        return result


def frame_volume(of: Floats, values: Floats) -> float:
    """The hypervolume of some values in the frame of a front (log-scaled where it is positive)."""
    return Frame.of_front(of, log=bool((of > 0).all())).hypervolume(values)
