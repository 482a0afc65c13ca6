"""Searches over software candidates: random, HASCO's heuristic, annealing, and one guided by learned values.

All start from the same random candidates, move by the same revise choices, and are compared at equal numbers of scored candidates; a
candidate that was scored before costs nothing.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from codesign.core.checks import check_least
from codesign.core.errors import UserError
from codesign.core.rng import RandomState, below, make_state, uniform
from codesign.mapping.nest import FloatArray, IntArray
from codesign.tensorization.encoding import SoftwareProblem
from codesign.tensorization.observation import OBSERVATION, look, static_features
from codesign.tensorization.revisions import REVISIONS, candidate_width, draw, mask_revisions, revise, score_candidate
from codesign.tensorization.scoring import FITS, LATENCY, result_width

_MAX_FAILURES = 200
"""Draws or revisions in a row that may bring nothing new before a search stops early: the space is exhausted."""


_STALE_ROUNDS = 8
"""Rounds of random revisions without a new candidate after which a random candidate joins the pool."""


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    Args:
        candidate: The best one.
        latency_cycles: Its latency.
        scored: Candidates scored.
        history: Lowest latency after each of them: ``scored``.
        seed: Of the random choices.
    """

    candidate: IntArray
    latency_cycles: float
    scored: int
    history: tuple[float, ...]
    seed: int


class ProgramSearch(Protocol):
    """Finds a program. Implementations are frozen dataclasses whose fields are their own options."""

    @property
    def name(self) -> str:
        """The name of the search in tables and on the command line."""

    def search(self, problem: SoftwareProblem, *, evaluations: int, seed: int) -> SearchResult:
        """The best candidate of at most so many scored ones.

        Raises:
            UserError: Not even one call fits the scratchpad.
        """


@dataclass(frozen=True)
class Member:
    """A candidate of the pool with the program that was scored."""

    candidate: IntArray
    latency_cycles: float
    result: FloatArray


class _Scorer:
    """Scores each candidate once, counts, and remembers the best."""

    def __init__(self, problem: SoftwareProblem, evaluations: int, seed: int) -> None:
        check_least(1, evaluations=evaluations)
        self.arrays = problem.arrays
        self.evaluations, self.seed = evaluations, seed
        self.random: RandomState = make_state(seed)
        self.history: list[float] = []
        self.best: Member | None = None
        self.seen: dict[bytes, Member] = {}
        self.width = candidate_width(len(problem.computation.dims))
        self.where = str(problem.computation)
        self._loops: IntArray = np.ones((problem.max_loops, 3), np.int64)
        self._results = result_width(len(problem.computation.tensors))
        self._room: IntArray = np.zeros(self.width, np.int64)
        self._mask: IntArray = np.zeros(REVISIONS, np.int64)

    @property
    def spent(self) -> bool:
        return len(self.history) >= self.evaluations

    def score(self, candidate: IntArray) -> Member:
        """A candidate scored, for nothing if it was before; an infeasible one has infinite latency."""
        known = self.seen.get(candidate.tobytes())
        if known is not None:
            return known
        result = np.empty(self._results)
        score_candidate(self.arrays, candidate, self._loops, result)
        member = Member(candidate, float(result[LATENCY]), result)
        if self.best is None or member.latency_cycles < self.best.latency_cycles:
            self.best = member
        self.history.append(self.best.latency_cycles)
        self.seen[candidate.tobytes()] = member
        return member

    def drawn(self) -> Member | None:
        """A new random candidate, scored; None when no new one turns up."""
        for _ in range(_MAX_FAILURES):
            candidate: IntArray = np.zeros(self.width, np.int64)
            if draw(self.arrays, candidate, self.random) == FITS and candidate.tobytes() not in self.seen:
                return self.score(candidate)
        return None

    def pool(self, count: int) -> list[Member]:
        """Up to `count` random candidates, scored."""
        found: list[Member] = []
        while len(found) < count and not self.spent:
            member = self.drawn()
            if member is None:
                break
            found.append(member)
        return found

    def legal(self, candidate: IntArray) -> npt.NDArray[np.int64]:
        """The revisions that exist for a candidate and fit."""
        mask_revisions(self.arrays, candidate, self._room, self._mask)
        return np.flatnonzero(self._mask)

    def revised(self, candidate: IntArray, revision: int) -> IntArray:
        """A candidate after a revision."""
        row = candidate.copy()
        revise(self.arrays, row, revision)
        return row

    def fresh(self, row: IntArray | None) -> Member | None:
        """A candidate scored; None where there is none, it was scored before, or the budget is spent."""
        return None if row is None or self.spent or row.tobytes() in self.seen else self.score(row)

    def neighbour(self, candidate: IntArray) -> IntArray | None:
        """A candidate after a random legal revision; None if there is none."""
        legal = self.legal(candidate)
        if not len(legal):
            return None
        return self.revised(candidate, int(legal[below(self.random, len(legal))]))

    def result(self) -> SearchResult:
        if self.best is None or not math.isfinite(self.best.latency_cycles):
            raise UserError(
                "no program fits the scratchpad and the local memories",
                where=self.where,
                hint="give it a larger scratchpad, or a smaller intrinsic",
            )
        return SearchResult(
            self.best.candidate, self.best.latency_cycles, len(self.history), tuple(self.history), self.seed
        )


def candidate_value(latency_cycles: float, lowest_cycles: float) -> float:
    """``exp(-(l_p - l*) / l*)``, 1 for the best (HASCO, Sec. VI-B; the printed sign would favour slow candidates)."""
    return math.exp(-(latency_cycles - lowest_cycles) / lowest_cycles)


@dataclass(frozen=True)
class RandomPrograms:
    """A search that draws candidates at random and keeps the best."""

    name: ClassVar[str] = "random"

    def search(self, problem: SoftwareProblem, *, evaluations: int, seed: int) -> SearchResult:
        """See `ProgramSearch`."""
        scorer = _Scorer(problem, evaluations, seed)
        scorer.pool(evaluations)
        return scorer.result()


@dataclass(frozen=True)
class HeuristicPrograms:
    """HASCO's heuristic: a pool of random candidates, the k most valuable revised at random, again and again.

    Args:
        pool_share: Share of the budget spent on the first pool.
        top_k: Valuable candidates of a round at the start; falls to 1 towards the end.
    """

    pool_share: float = 0.1
    top_k: int = 2
    name: ClassVar[str] = "heuristic"

    def __post_init__(self) -> None:
        if not 0 < self.pool_share <= 1 or self.top_k < 1:
            raise UserError(f"expected 0 < pool_share <= 1 and top_k >= 1, got {self.pool_share} and {self.top_k}")

    def search(self, problem: SoftwareProblem, *, evaluations: int, seed: int) -> SearchResult:
        """See `ProgramSearch`."""
        scorer = _Scorer(problem, evaluations, seed)
        pool = scorer.pool(max(1, round(self.pool_share * evaluations)))
        failures = 0
        while pool and not scorer.spent:
            lowest = min(m.latency_cycles for m in pool)
            pool.sort(key=lambda m: -candidate_value(m.latency_cycles, lowest))
            k = max(1, round(self.top_k * (1 - len(scorer.history) / evaluations)))
            failures += 1
            for member in pool[:k]:
                new = scorer.fresh(scorer.neighbour(member.candidate))
                if new is not None:
                    pool.append(new)
                    failures = 0
            if failures >= _STALE_ROUNDS and not scorer.spent:
                fresh = scorer.drawn()
                if fresh is None:
                    break
                pool.append(fresh)
        return scorer.result()


@dataclass(frozen=True)
class AnnealedPrograms:
    """Annealing over the same revisions; a temperature is a relative worsening (the logarithm of the latency is annealed).

    Args:
        pool_share: Share of the budget spent on random candidates, the best of which is the start.
        hot: First temperature.
        cold: Last temperature.
    """

    pool_share: float = 0.2
    hot: float = 0.3
    cold: float = 0.01
    name: ClassVar[str] = "annealing"

    def __post_init__(self) -> None:
        if not 0 < self.pool_share <= 1 or not 0 < self.cold <= self.hot:
            raise UserError(
                f"expected 0 < pool_share <= 1 and 0 < cold <= hot, got {self.pool_share}, {self.cold}, {self.hot}"
            )

    def search(self, problem: SoftwareProblem, *, evaluations: int, seed: int) -> SearchResult:
        """See `ProgramSearch`."""
        scorer = _Scorer(problem, evaluations, seed)
        pool = scorer.pool(max(1, round(self.pool_share * evaluations)))
        if not pool:
            return scorer.result()
        current = min(pool, key=lambda m: m.latency_cycles)
        failures = 0
        while not scorer.spent and failures < _MAX_FAILURES:
            row = scorer.neighbour(current.candidate)
            if row is None:
                break
            failures = failures + 1 if row.tobytes() in scorer.seen else 0
            new = scorer.score(row)
            temperature = self.hot * (self.cold / self.hot) ** (len(scorer.history) / evaluations)
            gain = (
                math.log(current.latency_cycles / new.latency_cycles)
                if math.isfinite(new.latency_cycles)
                else -math.inf
            )
            if gain >= 0 or uniform(scorer.random) < math.exp(gain / temperature):
                current = new
        return scorer.result()


Ranker = Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]]
"""Values of all revise choices for one observation: ``OBSERVATION`` -> ``REVISIONS``."""


@dataclass(frozen=True)
class GuidedPrograms:
    """Best-first search by learned values: the revision with the highest value of the most valuable candidate is scored next.

    HASCO, Fig. 5(e). Of all untried revisions of the pool's candidates p the one that maximises ``ln(l* / l_p) + weight * Q(p, a)`` is taken:
    with Q the expected gain in ln latency, the best expected outcome. Learned values are too coarse for the last few per cent, so a
    growing share of the revisions is the heuristic's: a random one of a valuable candidate, or a fresh draw where those bring nothing new.

    Args:
        ranker: The learned values.
        pool_share: Share of the budget spent on random candidates.
        most_random: At most so many of them.
        weight: Of the learned value against the latency already reached.
        explore: Probability of a random revision at the end of the budget; it grows from 0 in proportion to what is spent.
        top_k: Valuable candidates that random revisions start from.
        label: What tables call it.
    """

    ranker: Ranker
    pool_share: float = 0.1
    most_random: int = 40
    weight: float = 1.0
    explore: float = 1.0
    top_k: int = 2
    label: str = "guided"

    @property
    def name(self) -> str:
        """See `ProgramSearch`."""
        return self.label

    def search(self, problem: SoftwareProblem, *, evaluations: int, seed: int) -> SearchResult:
        """See `ProgramSearch`."""
        scorer = _Scorer(problem, evaluations, seed)
        static = static_features(problem)
        room: IntArray = np.zeros(scorer.width, np.int64)
        mask: IntArray = np.zeros(REVISIONS, np.int64)
        seen: npt.NDArray[np.float32] = np.zeros(OBSERVATION, np.float32)
        members: list[Member] = []
        scores = np.full((evaluations, REVISIONS), -np.inf)

        def add(member: Member) -> None:
            if not math.isfinite(member.latency_cycles):
                return
            look(scorer.arrays, static, member.candidate, room, member.result, mask, seen)
            values = self.weight * self.ranker(seen).astype(np.float64) - math.log(member.latency_cycles)
            scores[len(members)] = np.where(mask == 1, values, -np.inf)
            members.append(member)

        for member in scorer.pool(max(1, min(self.most_random, round(self.pool_share * evaluations)))):
            add(member)
        failures = 0
        while not scorer.spent:
            if members and uniform(scorer.random) < self.explore * len(scorer.history) / evaluations:
                valuable = sorted(members, key=lambda m: m.latency_cycles)[: self.top_k]
                new = scorer.fresh(scorer.neighbour(valuable[below(scorer.random, len(valuable))].candidate))
                failures += 1
                if new is not None:
                    add(new)
                    failures = 0
                elif failures >= _STALE_ROUNDS:
                    fresh = scorer.drawn()
                    if fresh is None:
                        break
                    add(fresh)
                continue
            place, revision = divmod(int(np.argmax(scores)), REVISIONS)
            if not members or not np.isfinite(scores[place, revision]):
                fresh = scorer.drawn()
                if fresh is None:
                    break
                add(fresh)
                continue
            scores[place, revision] = -np.inf
            new = scorer.fresh(scorer.revised(members[place].candidate, revision))
            if new is not None:
                add(new)
        return scorer.result()
