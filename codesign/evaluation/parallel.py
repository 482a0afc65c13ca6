"""What a place to evaluate designs is, and this process as one."""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from codesign.core.point import Point

R = TypeVar("R")


class Pool(Protocol[R]):
    """Where designs are evaluated: in this process, in others, on a cluster."""

    @property
    def size(self) -> int:
        """How many designs it works on at once."""

    def submit(self, point: Point) -> None:
        """Start the evaluation of a design."""

    def collect(self) -> list[tuple[Point, R]]:
        """Wait until at least one design is done and return all that are."""

    def ready(self) -> list[tuple[Point, R]]:
        """What is finished by now, without waiting."""


class SerialPool(Generic[R]):
    """One design after the other, in this process."""

    size = 1

    def __init__(self, evaluate: Callable[[Point], R]) -> None:
        self._evaluate = evaluate
        self._queue: list[Point] = []

    def submit(self, point: Point) -> None:
        """See `Pool`."""
        self._queue.append(point)

    def collect(self) -> list[tuple[Point, R]]:
        """See `Pool`."""
        point = self._queue.pop(0)
        return [(point, self._evaluate(point))]

    def ready(self) -> list[tuple[Point, R]]:
        """See `Pool`; nothing is finished that was not collected."""
        return []
