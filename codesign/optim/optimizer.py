"""The ask/tell shell around a strategy: keeps the history and pending designs, refuses bad values, never repeats itself."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, final

import numpy as np

from codesign.core.errors import UserError
from codesign.core.point import Point, PointValue
from codesign.core.threads import one_thread
from codesign.optim.certificate import Certificate
from codesign.optim.hypervolume import hypervolume, reference_values
from codesign.optim.pareto import nondominated
from codesign.optim.protocols import Evaluated, Floats, History, Indices, Problem, Strategy

_ENUMERABLE = 200_000
"""Spaces up to this many combinations are listed when random draws find nothing new."""


@final
class Optimizer:
    """Asks for designs to evaluate and is told their metrics (all minimised).

    Any number of designs may be pending; they may be told in any order, and designs that were never asked for
    may be told too. What is asked next is a function of the problem, the seed, what was told and what is pending: a study that
    is told its old trials again goes on as if it had never stopped.

    Args:
        problem: What is searched.
        strategy: How the next designs are chosen.
        initial: Designs to propose before anything else.
    """

    def __init__(self, problem: Problem, strategy: Strategy, initial: Sequence[Mapping[str, object]] = ()) -> None:
        self.problem = problem
        self._strategy = strategy
        self._initial = problem.space.to_indices(initial, "initial design")
        broken = np.flatnonzero(~problem.space.is_valid(self._initial))
        if len(broken):
            raise UserError(f"initial design {broken[0] + 1} breaks a known constraint: {dict(initial[broken[0]])}")
        self._rows: list[Indices] = []
        self._told: set[bytes] = set()
        self._values: list[dict[str, float]] = []
        self._valid: list[bool] = []
        self._pending: dict[bytes, Indices] = {}

    # ---- ask -----------------------------------------------------------------------------------

    def ask(self, n: int = 1) -> list[Point]:
        """The next `n` designs to evaluate, as dicts; they are pending until told.

        No design is proposed twice. When fewer than `n` designs of the space are left, those are returned;
        an empty list says that the whole space is known.
        """
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise UserError(f"ask: expected a positive number of designs, got {n!r}")
        known = self._told | set(self._pending)
        rng = np.random.default_rng([self.problem.seed, len(self._rows) + len(self._pending)])
        chosen: list[Indices] = []
        self._take(self._initial, n, known, chosen)
        if len(chosen) < n:
            history = self.history(extra_pending=chosen)
            with one_thread():
                proposed = self._strategy.propose(history, n - len(chosen), rng)
            self._take(proposed[self.problem.space.is_valid(proposed)], n, known, chosen)
        if len(chosen) < n and not getattr(self._strategy, "decides", False):
            self._take(self._unseen(n - len(chosen), known, rng), n, known, chosen)
        self._pending.update((row.tobytes(), row) for row in chosen)
        return self.problem.space.to_points(np.array(chosen, dtype=np.int64).reshape(len(chosen), -1)) if chosen else []

    @staticmethod
    def _take(rows: Iterable[Indices], n: int, known: set[bytes], chosen: list[Indices]) -> None:
        for row in rows:
            if len(chosen) < n and row.tobytes() not in known:
                known.add(row.tobytes())
                chosen.append(np.ascontiguousarray(row, dtype=np.int64))

    def _unseen(self, count: int, known: set[bytes], rng: np.random.Generator) -> list[Indices]:
        space = self.problem.space
        found: dict[bytes, Indices] = {}
        for _ in range(20):
            for row in space.sample(16 * count, rng):
                if row.tobytes() not in known:
                    found.setdefault(row.tobytes(), row)
            if len(found) >= count:
                return list(found.values())[:count]
        if space.cardinality_bound > _ENUMERABLE:
            return list(found.values())
        left = [row for row in space.enumerate(_ENUMERABLE) if row.tobytes() not in known]
        return [left[k] for k in rng.permutation(len(left))[:count]]

    # ---- tell ----------------------------------------------------------------------------------

    def tell(
        self, point: Mapping[str, PointValue], values: Mapping[str, float] | None = None, feasible: bool = True
    ) -> None:
        """Record what evaluating a design gave.

        Args:
            point: The design, as `ask` gave it or any other of the space.
            values: Its metrics by name: every objective and constrained metric (others are kept and not used). May
                be left out, in part or whole, for a design that is not feasible; what is given is learned from.
            feasible: False where the design failed or breaks a rule the optimiser cannot know.

        Raises:
            UserError: A design outside the space, a missing metric, or one that is not a finite number. Nothing is recorded
                then, and the design can be told again.
        """
        row = self.problem.space.to_indices([point])[0]
        needed = [*self.problem.objectives, *(c.metric for c in self.problem.constraints)]
        kept: dict[str, float] = {}
        for name, value in (values or {}).items():
            number = _number(name, value, needed=feasible and name in needed)
            if math.isfinite(number):
                kept[name] = number
        missing = [name for name in needed if name not in kept]
        if feasible and missing:
            raise UserError(
                f"tell: missing metric {missing[0]!r} of a feasible design, got {sorted(values or {})}",
                hint="pass feasible=False for a design that could not be evaluated",
            )
        self._pending.pop(row.tobytes(), None)
        self._rows.append(np.ascontiguousarray(row))
        self._told.add(row.tobytes())
        self._values.append(kept)
        self._valid.append(bool(feasible))

    def expect(self, point: Mapping[str, PointValue]) -> None:
        """Count a design as pending that was not asked for here: somebody else evaluates it. Told ones are left alone."""
        row = np.ascontiguousarray(self.problem.space.to_indices([point])[0])
        if row.tobytes() not in self._told:
            self._pending[row.tobytes()] = row

    def forget(self, point: Mapping[str, PointValue]) -> None:
        """Give up on a pending design (its worker died): it is no longer pending and may be proposed again."""
        row = self.problem.space.to_indices([point])[0]
        if self._pending.pop(row.tobytes(), None) is None:
            raise UserError(f"forget: the design is not pending: {dict(point)}")

    # ---- what is known -------------------------------------------------------------------------

    def history(self, extra_pending: Sequence[Indices] = ()) -> History:
        """A snapshot of all that is known, as arrays."""
        d = len(self.problem.space.names)
        return History(
            indices=np.array(self._rows, dtype=np.int64).reshape(-1, d),
            objectives=self._table(self.problem.objectives),
            outcomes=self._table([c.metric for c in self.problem.constraints]),
            valid=np.array(self._valid, dtype=np.bool_),
            pending=np.array([*self._pending.values(), *extra_pending], dtype=np.int64).reshape(-1, d),
        )

    def _table(self, names: Sequence[str]) -> Floats:
        rows = [[values.get(name, math.nan) for name in names] for values in self._values]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(names))

    @property
    def pending(self) -> list[Point]:
        """The designs asked for and not yet told, oldest first."""
        rows = np.array(list(self._pending.values()), dtype=np.int64)
        return self.problem.space.to_points(rows) if len(rows) else []

    def feasible(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which told designs are feasible and keep every constraint: ``n``."""
        history = self.history()
        return satisfied(self.problem, history)

    def front(self) -> list[Evaluated]:
        """The feasible designs no other one dominates, by the first objective; equal ones all."""
        history = self.history()
        rows = np.flatnonzero(satisfied(self.problem, history))
        rows = rows[nondominated(history.objectives[rows])]
        rows = rows[np.lexsort(history.objectives[rows].T[::-1])]
        points = self.problem.space.to_points(history.indices[rows]) if len(rows) else []
        return [Evaluated(point, dict(self._values[row])) for point, row in zip(points, rows, strict=True)]

    def certificate(self) -> Certificate | None:
        """What is proven of the front so far; None for optimisers that prove nothing."""
        made: Any = getattr(self._strategy, "certificate", None)
        return None if made is None else made(self.history())

    def tighten(self, enough: Callable[[], bool]) -> bool:
        """Sharpen what is proven by one step without an evaluation; False where nothing sharper is known.

        Args:
            enough: Whether to stop, asked between searches.
        """
        made: Any = getattr(self._strategy, "tighten", None)
        return False if made is None else bool(made(self.history(), enough))

    def outer_front(self) -> Floats:
        """Points that no design is shown to lie below, the front among them: ``k x m``; none from optimisers that prove nothing."""
        made: Any = getattr(self._strategy, "outer_front", None)
        return np.zeros((0, len(self.problem.objectives))) if made is None else made(self.history())

    def hypervolume(self, reference_point: Sequence[float] | Mapping[str, float] | None = None) -> float:
        """The exact hypervolume of the feasible designs, in objective units (not log-scaled).

        Args:
            reference_point: The worst corner; the problem's own where none is given.

        Raises:
            UserError: Neither is given: without a fixed reference point the number would mean nothing.
        """
        given = reference_point if reference_point is not None else self.problem.reference_point
        if given is None:
            raise UserError(
                "hypervolume: no reference point", hint="pass one here or as `reference_point` to optim.create"
            )
        history = self.history()
        reference = reference_values(given, self.problem.objectives)
        return hypervolume(history.objectives[satisfied(self.problem, history)], reference)


def satisfied(problem: Problem, history: History) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which evaluated designs are valid, complete and keep every constraint: ``n``."""
    good = history.valid & np.isfinite(history.objectives).all(axis=1)
    for column, constraint in enumerate(problem.constraints):
        good &= constraint.satisfied(history.outcomes[:, column])
    return good


def told_since(problem: Problem, history: History, number: int) -> Iterator[tuple[Indices, Floats, bool, bool]]:
    """What was told after the first `number` designs: choices, objectives, whether valid, whether `satisfied`."""
    good = satisfied(problem, history)
    for k in range(number, len(history.indices)):
        yield history.indices[k], history.objectives[k], bool(history.valid[k]), bool(good[k])


def _number(name: str, value: object, *, needed: bool) -> float:
    """A metric as a float; a UserError for what is not a number, or not finite where it is needed."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        if value is None and not needed:
            return math.nan
        if not needed and not isinstance(value, int | float | np.integer | np.floating):
            return math.nan
        raise UserError(f"tell: metric {name!r} must be a number, got {value!r}")
    number = float(value)
    if needed and not math.isfinite(number):
        raise UserError(
            f"tell: metric {name!r} must be finite, got {number}",
            hint="nothing was recorded; tell the design again with feasible=False if it cannot be evaluated",
        )
    return number
