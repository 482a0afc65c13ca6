"""What every optimiser keeps: valid designs, none twice, the same for a seed, pending ones respected, the space walked."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from codesign.core.errors import UserError
from codesign.core.point import Point, PointValue
from codesign.optim.optimizer import Optimizer
from codesign.optim.protocols import Bools, Floats, Indices, Problem, Strategy

OBJECTIVES = ("latency", "area")


@final
@dataclass(frozen=True)
class Grid:
    """The smallest search space: ordered sizes and banks; a bound on their product is the known rule.

    Args:
        sizes: Choices of ``size``.
        banks: Choices of ``banks``.
        most: The largest product allowed.
    """

    sizes: tuple[int, ...] = (4, 8, 16, 32)
    banks: tuple[int, ...] = (1, 2, 4, 8)
    most: int = 128

    names = ("size", "banks")
    ordered = (True, True)
    feature_owners = (0, 1)
    presets: tuple[Mapping[str, Any], ...] = ()

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """See `SearchSpace`."""
        return len(self.sizes), len(self.banks)

    @property
    def cardinality_bound(self) -> int:
        """See `SearchSpace`."""
        return len(self.sizes) * len(self.banks)

    def to_indices(self, points: Sequence[Mapping[str, object]], where: str = "design") -> Indices:
        """See `SearchSpace`."""
        try:
            rows = [(self.sizes.index(int(str(p["size"]))), self.banks.index(int(str(p["banks"])))) for p in points]
        except (KeyError, ValueError) as error:
            raise UserError(f"not a design of the grid: {error}", where=where) from None
        return np.array(rows, np.int64).reshape(len(points), 2)

    def to_points(self, indices: Indices) -> list[Point]:
        """See `SearchSpace`."""
        return [{"size": self.sizes[i], "banks": self.banks[j]} for i, j in indices.tolist()]

    def canonical(self, indices: Indices) -> Indices:
        """See `SearchSpace`."""
        return np.asarray(indices, np.int64)

    def is_valid(self, indices: Indices) -> Bools:
        """See `SearchSpace`."""
        indices = np.asarray(indices, np.int64).reshape(-1, 2)
        products = np.array(self.sizes)[indices[:, 0]] * np.array(self.banks)[indices[:, 1]]
        return np.asarray(products <= self.most)

    def features(self, indices: Indices) -> Floats:
        """See `SearchSpace`."""
        return np.asarray(np.asarray(indices, np.float64) / (np.array(self.cardinalities) - 1), np.float64)

    def neighbours(self, row: Indices) -> Indices:
        """See `SearchSpace`."""
        found = [row + step for step in ([1, 0], [-1, 0], [0, 1], [0, -1])]
        inside = [r for r in found if ((r >= 0) & (r < np.array(self.cardinalities))).all()]
        rows = np.array(inside, np.int64).reshape(-1, 2)
        return rows[self.is_valid(rows)]

    def sample(self, count: int, rng: np.random.Generator) -> Indices:
        """See `SearchSpace`."""
        rows = self.enumerate()
        return rows[rng.integers(len(rows), size=count)]

    def enumerate(self, limit: int = 1 << 20) -> Indices:
        """See `SearchSpace`."""
        rows = np.array(list(itertools.product(*(range(n) for n in self.cardinalities))), np.int64)
        return rows[self.is_valid(rows)]


def judged(point: Mapping[str, PointValue]) -> dict[str, float]:
    """Latency falls and area grows with the size and the banks."""
    size, banks = int(point["size"]), int(point["banks"])
    return {"latency": 1000.0 / (size * banks), "area": size + 3.0 * banks}


class OptimizerContract(ABC):
    """Laws of `codesign.optim.protocols.Strategy` behind the ask/tell shell."""

    learns_from_seed = True
    """Whether another seed may give another run; False for those that make no random choice."""

    @abstractmethod
    def make(self, problem: Problem) -> Strategy:
        """The strategy under test, for a problem."""

    def _optimizer(self, seed: int = 3) -> Optimizer:
        problem = Problem(Grid(), OBJECTIVES, seed=seed)
        return Optimizer(problem, self.make(problem))

    def _run(self, optimizer: Optimizer, trials: int) -> list[Point]:
        asked = []
        for _ in range(trials):
            (point,) = optimizer.ask()
            optimizer.tell(point, judged(point))
            asked.append(point)
        return asked

    def test_designs_are_valid_and_none_comes_twice(self) -> None:
        """Those that break a known rule are never proposed."""
        points = self._run(self._optimizer(), 10)
        rows = Grid().to_indices(points)
        assert Grid().is_valid(rows).all() and len({tuple(row) for row in rows.tolist()}) == 10

    def test_the_same_seed_gives_the_same_run(self) -> None:
        """Randomness is an argument."""
        assert self._run(self._optimizer(), 10) == self._run(self._optimizer(), 10)

    def test_a_resumed_run_goes_on_as_if_it_had_not_stopped(self) -> None:
        """What is asked next is a function of what was told."""
        whole, resumed = self._run(self._optimizer(), 10), self._optimizer()
        for point in whole[:6]:
            resumed.tell(point, judged(point))
        assert self._run(resumed, 4) == whole[6:]

    def test_pending_designs_are_not_proposed_again(self) -> None:
        """Workers never do the same design."""
        optimizer = self._optimizer()
        points = optimizer.ask(3) + optimizer.ask(3)
        assert len({(p["size"], p["banks"]) for p in points}) == 6

    def test_the_whole_space_is_walked_and_then_nothing_is_left(self) -> None:
        """Every valid design once, then an empty list."""
        optimizer, count = self._optimizer(), len(Grid().enumerate())
        assert len({(p["size"], p["banks"]) for p in self._run(optimizer, count)}) == count
        assert optimizer.ask() == []

    def test_failures_alone_do_not_stop_it(self) -> None:
        """Designs that cannot be built are told without metrics."""
        optimizer = self._optimizer()
        for _ in range(8):
            (point,) = optimizer.ask()
            optimizer.tell(point, feasible=False)
        assert optimizer.front() == []
