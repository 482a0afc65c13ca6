"""Failures of evaluations as values, so that a study of hundreds of designs does not die of one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar, final

from codesign.core import clock
from codesign.core.errors import UserError
from codesign.core.json_types import JsonObject
from codesign.core.point import Point

R = TypeVar("R")

DEATHS = 3
"""Workers that may die on a design before it is given up."""


@final
@dataclass(frozen=True)
class Fault:
    """An evaluation that failed by a mistake or a fault of the program.

    Args:
        message: What was raised.
        seconds: Wall-clock time until then.
        mistake: True for a user's mistake, which every other design would meet too.
    """

    message: str
    seconds: float
    mistake: bool

    def to_json(self) -> JsonObject:
        """In the form of an infeasible result, so that the trial is kept with its reason."""
        return {"status": "failed", "resource": "evaluation failed", "detail": self.message}


@final
@dataclass(frozen=True)
class Guarded(Generic[R]):
    """An evaluator whose exceptions are values.

    Args:
        evaluate: From a design to its evaluation.
    """

    evaluate: Callable[[Point], R]

    def __call__(self, point: Point) -> R | Fault:
        """Evaluate one design."""
        started = clock.wall_seconds()
        try:
            return self.evaluate(point)
        except UserError as error:
            return Fault(str(error), clock.wall_seconds() - started, True)
        except Exception as error:  # a study of hundreds of designs must not die of one
            return Fault(f"{type(error).__name__}: {error}", clock.wall_seconds() - started, False)
