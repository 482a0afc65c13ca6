"""Exact Pareto fronts: every design has a bound, those that may still matter are evaluated, the others are shown to be dominated.

For every design d that is not evaluated some evaluated e has f_k(e) <= (1 + epsilon) f_k(d) for all objectives k, because it has so for a
bound of f_k(d); or, with bounds that tie objectives together, no corner that the evaluated designs leave open can be reached by d. The method
and its proof are in docs/explanation/bounds.md.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import numpy as np

from codesign.core.checks import check_positive, check_share
from codesign.optim.bounded import BoundedDesigns, bounds_for, designs_of
from codesign.optim.boxed import SOUND, TIES, BoxedBounds, BoxProof, boxes_for, never
from codesign.optim.certificate import Certificate
from codesign.optim.corners import corners
from codesign.optim.hypervolume import frame_volume
from codesign.optim.optimizer import satisfied, told_since
from codesign.optim.pareto import front
from codesign.optim.protocols import Bools, Floats, History, Indices, Problem, Strategy

LISTED = 20_000_000
"""The most designs that are listed and bounded one by one."""

STEPS = (0.2, 0.1, 0.05, 0.02, 0.01, 0.0)
"""Large spaces are settled within the first of these, then the next, down to the epsilon asked for: an answer at every time."""

STEPPED = 20_000
"""Spaces of more designs go by `STEPS`; smaller ones straight to the end."""

TARGETS = 2000
"""Designs of the outer front among which the one that settles most is chosen."""

SHRINK = 0.8
"""What the gap of the design furthest from being settled is asked to fall to, as a share, when bounds alone are tightened."""

_PAIRS = 2_000_000
"""Designs times corners that are compared at once."""

_LEAST = 1e-300
"""Stands for a bound of 0, so that ratios are finite; nothing is dominated by way of it."""


@final
@dataclass(frozen=True)
class Exact:
    """Branch and bound over the designs of a finite space.

    Args:
        problem: What is searched; with bounds, or in a space that gives bounds. Without, or for an objective that has none, designs are
            proposed by black-box `mobo`, and `certificate` says why nothing is proven.
        epsilon: Designs that are no more than this share better than an evaluated one are not evaluated.
        sharpen: Whether bounds may be sharpened at a price before a design is evaluated.
        cpu_limit_s: CPU seconds of this process after which nothing more is proposed. The searches of a layer
            that have begun are finished.
    """

    problem: Problem
    epsilon: float = 0.0
    sharpen: bool = True
    cpu_limit_s: float = math.inf
    _state: list["FrontProof | BoxProof"] = field(default_factory=list, compare=False, repr=False, init=False)
    _begun_s: float = field(default_factory=time.process_time, compare=False, repr=False, init=False)

    def __post_init__(self) -> None:
        check_positive(where="optimizer 'exact'", cpu_limit_s=self.cpu_limit_s)
        check_share(where="optimizer 'exact'", epsilon=self.epsilon)

    @property
    def decides(self) -> bool:
        """Whether proposing nothing means that nothing is left to evaluate, rather than that this strategy has no idea."""
        return not self.why_not and not (self._state and self._state[0].withdrawn)

    @cached_property
    def why_not(self) -> str:
        """Why nothing can be proven; empty where it can."""
        bounds = bounds_for(self.problem.space, self.problem.bounds)
        if bounds is None:
            return "the space gives no bounds"
        if reason := str(getattr(bounds, "why_not", "")):
            return reason
        count = self.problem.space.cardinality_bound
        if count > LISTED and self._boxes is None:
            reason = (
                getattr(getattr(bounds, "boxes", None), "why_not", "") or "its bounds do not cover boxes of designs"
            )
            return f"the space has up to {count:,} designs, at most {LISTED:,} can be bounded one by one, and {reason}"
        rows = self.problem.space.sample(1, np.random.default_rng(0))
        values = bounds.lower_bounds(rows, self.problem.objectives)
        few = count <= STEPPED  # so few that designs without a useful bound can all be evaluated
        missing = [
            o for o, v in zip(self.problem.objectives, values[0], strict=True) if np.isnan(v) or (v <= 0.0 and not few)
        ]
        return f"objective {missing[0]!r} has no positive bound" if missing else ""

    def propose(self, history: History, count: int, rng: np.random.Generator) -> Indices:
        """The designs whose evaluation settles most of what is open; none when nothing is."""
        if self.why_not:
            return self._black_box.propose(history, count, rng)
        proof = self.proof_of(history)
        if proof.withdrawn:
            return self._black_box.propose(history, count, rng)
        return proof.choose(count, self._late)

    def _late(self) -> bool:
        """Whether time is up."""
        return time.process_time() - self._begun_s >= self.cpu_limit_s

    def certificate(self, history: History) -> Certificate:
        """What is shown by the evaluations told so far."""
        if self.why_not:
            good = history.objectives[satisfied(self.problem, history)]
            inner = frame_volume(good, good) if len(good) else 0.0
            count = self.problem.space.cardinality_bound
            return Certificate(count, len(history.indices), 0, count, self.epsilon, None, inner, None, self.why_not)
        return self.proof_of(history).certificate()

    def outer_front(self, history: History) -> Floats:
        """Points below which no design is shown to lie: an outer bound of the front, ``k x m``; empty without proof."""
        if self.why_not:
            return np.zeros((0, len(self.problem.objectives)))
        proof = self.proof_of(history)
        return np.zeros((0, len(self.problem.objectives))) if proof.withdrawn else proof.outer_front()

    def proof_of(self, history: History) -> "FrontProof | BoxProof":
        """What these evaluations show, to be tightened without further ones; only where `why_not` is empty."""
        if not self._state:
            if self._boxes is not None:
                self._state.append(BoxProof(self.problem, self._boxes, self.epsilon))
            else:
                self._state.append(FrontProof(self.problem, self.epsilon, self.sharpen))
        self._state[0].learn(history)
        return self._state[0]

    def tighten(self, history: History, enough: Callable[[], bool]) -> bool:
        """One step of bounds alone; False where nothing sharper is known."""
        return not self.why_not and self.proof_of(history).tighten(enough)

    @cached_property
    def _black_box(self) -> Strategy:
        from codesign.optim.mobo import Mobo

        return Mobo(self.problem, grey=False)

    @cached_property
    def _boxes(self) -> BoxedBounds | None:
        """Bounds of boxes, where the designs are too many to be bounded one by one."""
        boxes = boxes_for(bounds_for(self.problem.space, self.problem.bounds))
        if boxes is None or boxes.why_not:
            return None
        count = self.problem.space.cardinality_bound
        return boxes if count > LISTED or (count > STEPPED and boxes.slow) else None


@final
class FrontProof:
    """The bounds of all designs and what evaluations have shown of them; learns what is new in a history.

    Args:
        problem: See `Exact`.
        epsilon: See `Exact`.
        sharpen: See `Exact`.
        rows: The designs, sorted: ``n x d``; None for all of the space.
    """

    def __init__(self, problem: Problem, epsilon: float, sharpen: bool, rows: Indices | None = None) -> None:
        self._problem, self._epsilon = problem, epsilon
        bounds = bounds_for(problem.space, problem.bounds)
        assert bounds is not None
        self._rows = problem.space.enumerate(LISTED) if rows is None else rows
        self._codes = self._code(self._rows)
        self._designs: BoundedDesigns = designs_of(bounds, self._rows)
        self._sharpening = sharpen
        self._alike = self._designs.alike()
        self._metrics = problem.objectives
        self._limits = {c.metric: c.bound for c in problem.constraints if c.upper}
        self._start()

    def _start(self) -> None:
        """Forget every evaluation, as if none had been made; bounds that were sharpened stay."""
        count = len(self._rows)
        self.withdrawn = ""
        self._told: Indices = np.zeros((0, self._rows.shape[1]), dtype=np.int64)
        self._bounds = np.maximum(self._designs.values(self._metrics), _LEAST)
        self._excluded = ~np.isfinite(self._bounds).all(axis=1) | self._beyond_limits(None)
        self._done = np.zeros(count, dtype=np.bool_)
        self._known = np.zeros(count, dtype=np.bool_)
        self._settled = np.zeros(count, dtype=np.bool_)
        self._factor = np.full(count, np.inf)
        self._front = np.zeros((0, self._bounds.shape[1]))
        self._waiting: list[int] = []
        self._ratios: list[Floats] = []
        self._corners: Floats | None = None
        self._lowered = np.zeros(count, dtype=np.bool_)
        self._final = np.zeros(count, dtype=np.bool_)

    def _beyond_limits(self, at: Indices | None) -> Bools:
        """Designs whose bound on a limited metric is above the limit."""
        rows = self._rows if at is None else self._rows[at]
        beyond = np.zeros(len(rows), dtype=np.bool_)
        for metric, limit in self._limits.items():
            values = self._designs.values([metric], at)[:, 0]
            beyond |= np.nan_to_num(values, nan=-np.inf) > limit
        return beyond

    def _code(self, rows: Indices) -> Indices:
        return np.asarray(np.ravel_multi_index(tuple(rows.T), self._problem.space.cardinalities), dtype=np.int64)

    def _position(self, row: Indices) -> int | None:
        code = self._code(row[None])[0]
        at = int(np.searchsorted(self._codes, code))
        return at if at < len(self._codes) and self._codes[at] == code else None

    # ---- learning --------------------------------------------------------------------------------

    def learn(self, history: History) -> None:
        """Take in what was told since; a history that is no continuation is learned anew."""
        if not history.goes_on(self._told):
            self._start()
        for row, values, valid, good in told_since(self._problem, history, len(self._told)):
            self._learn_one(row, values, valid, good)
        self._told = history.indices.copy()
        self._waiting = [p for p in (self._position(row) for row in history.pending) if p is not None]

    def _learn_one(self, row: Indices, values: Floats, valid: bool, good: bool) -> None:
        at = self._position(row)
        if at is not None:
            self._done[at] = True
            self._known[self._alike == self._alike[at]] = True
            if valid and np.isfinite(values).all():
                self._check(at, values)
                self._ratios.append(self._ratio(at, values))
        if good and np.isfinite(values).all():
            self._cover(values)

    def _ratio(self, at: int, values: Floats) -> Floats:
        """Logarithm of metrics over bounds; of no bound nothing is learned: ``m``."""
        with np.errstate(divide="ignore"):
            found = np.log(values) - np.log(self._bounds[at])
        return np.where(self._bounds[at] > _LEAST, found, 0.0)

    def _check(self, at: int, values: Floats) -> None:
        low = (values < self._bounds[at] * (1.0 - SOUND)) & (self._bounds[at] > _LEAST)
        if low.any() and not self.withdrawn:
            k = int(np.flatnonzero(low)[0])
            point = self._problem.space.to_points(self._rows[at : at + 1])[0]
            self.withdrawn = (
                f"the bound of {self._metrics[k]!r} is wrong: {point} was evaluated at {values[k]:.9g}, below its bound "
                f"{self._bounds[at, k]:.9g}"
            )

    def _cover(self, values: Floats) -> None:
        """One more evaluated design that may dominate others."""
        self._factor = np.minimum(self._factor, (values / self._bounds).max(axis=1))
        if len(self._front) and (self._front <= values).all(axis=1).any():
            return
        self._front = front(np.concatenate([self._front, values[None]]))
        self._corners = None

    # ---- choosing --------------------------------------------------------------------------------

    def _open(self, epsilon: float) -> Bools:
        return ~(self._known | self._excluded | self._settled) & (self._factor > (1.0 + epsilon) * (1.0 + TIES))

    def choose(self, count: int, enough: Callable[[], bool] = never) -> Indices:
        """Up to `count` designs, those pending and chosen before counted at what is expected of them; none once it is enough."""
        chosen: list[int] = []
        while len(chosen) < count:
            waiting = [*self._waiting, *chosen]
            picked = self._next(waiting, np.random.default_rng([len(self._told), len(waiting)]), enough)
            if picked is None:
                break
            chosen.append(picked)
        return self._rows[chosen]

    def _next(self, waiting: list[int], rng: np.random.Generator, enough: Callable[[], bool]) -> int | None:
        steps = STEPS if len(self._rows) > STEPPED else ()
        for epsilon in (*(s for s in steps if s > self._epsilon), self._epsilon):
            while not enough():
                alive = self._open(epsilon)
                if waiting:
                    alive &= ~np.isin(self._alike, self._alike[waiting])
                for k in waiting:
                    alive &= ~(self._expected(np.array([k]))[0] <= (1.0 + epsilon + TIES) * self._bounds).all(axis=1)
                if not alive.any():
                    break
                best = self._best(np.flatnonzero(alive), epsilon, rng)
                if self._settled_by_corners(best):
                    continue
                if self._sharpening and self._sharpened(best, alive, epsilon, enough):
                    continue
                return best
        return None

    def _expected(self, at: Indices) -> Floats:
        """Metrics expected of some designs: bound times typical ratio: ``k x m``."""
        shift = np.mean(self._ratios, axis=0) if self._ratios else np.zeros(self._bounds.shape[1])
        return np.asarray(self._bounds[at] * np.exp(shift))

    def _best(self, alive: Indices, epsilon: float, rng: np.random.Generator) -> int:
        """The design of the outer front whose expected metrics settle most others of it."""
        from moocore import is_nondominated

        targets = alive[is_nondominated(self._bounds[alive], keep_weakly=False)]
        if len(targets) > TARGETS:
            targets = np.sort(rng.choice(targets, TARGETS, replace=False))
        expected, needed = self._expected(targets), (1.0 + epsilon + TIES) * self._bounds[targets]
        settles = np.ones((len(targets), len(targets)), dtype=np.bool_)
        for k in range(needed.shape[1]):
            settles &= expected[:, k][:, None] <= needed[:, k][None]
        return int(targets[np.argmax(settles.sum(axis=1))])

    def _settled_by_corners(self, at: int) -> bool:
        """Whether bounds that tie objectives together show that no open corner can be reached; remembered if so."""
        if not len(self._front):
            return False
        if self._corners is None:
            self._corners = corners(self._front / ((1.0 + self._epsilon) * (1.0 + TIES)))
        one = np.array([at])
        if self._designs.reaches(one, self._corners, self._metrics, self._limits).any():
            return False
        self._settled[at] = True
        return True

    def _sharpened(self, at: int, alive: Bools, epsilon: float, late: Callable[[], bool]) -> bool:
        """Sharpen a design's bound, with those of related open ones, if that may settle it."""
        if not len(self._front) or not self._may_be_settled(at, epsilon):
            return False
        peers = np.flatnonzero(alive)
        one, goal = np.array([at]), (1.0 + epsilon) * (1.0 + TIES)

        def enough() -> bool:
            fresh = np.maximum(self._designs.values(self._metrics, one), _LEAST)
            return bool((self._front <= goal * fresh).all(axis=1).any()) or late()

        if not self._designs.sharpen(at, peers, epsilon, enough):
            return False
        self._refresh(peers)
        return True

    def _refresh(self, peers: Indices) -> None:
        """Take in the bounds of some designs after searches."""
        fresh = np.maximum(self._designs.values(self._metrics, peers), _LEAST)
        raised = (fresh > self._bounds[peers]).any(axis=1)
        moved = peers[raised]
        self._bounds[moved] = fresh[raised]
        self._excluded[moved] |= ~np.isfinite(fresh[raised]).all(axis=1) | self._beyond_limits(moved)
        factors = (self._front[None] / fresh[raised][:, None]).max(axis=2).min(axis=1)
        self._factor[moved] = np.minimum(self._factor[moved], factors)
        self._lowered[moved] = True

    def _may_be_settled(self, at: int, epsilon: float) -> bool:
        """Whether sharper bounds can be expected to settle a design."""
        if (self._bounds[at] <= _LEAST).any():  # nothing is known yet
            return True
        if len(self._rows) > STEPPED:  # what it is expected to be is settled
            return bool((self._front <= (1.0 + epsilon) * self._expected(np.array([at]))).all(axis=1).any())
        loose = float(np.exp(min(2.0 * np.max(np.mean(self._ratios, axis=0)), 100.0))) if self._ratios else 1.0
        return bool(self._factor[at] <= (1.0 + epsilon) * loose)

    # ---- tightening without evaluations ----------------------------------------------------------

    def tighten(self, enough: Callable[[], bool]) -> bool:
        """Show that the design that may be furthest better than all evaluated ones is not so much better; False once nothing is left to do.

        Args:
            enough: Whether to stop, asked between searches of layers.
        """
        alive = self._open(self._epsilon)
        if self.withdrawn or not len(self._front) or not alive.any():
            return False
        at = int(np.argmax(np.where(alive, self._factor, 0.0)))
        if self._final[at]:
            return False
        top = float(self._factor[at])
        least = self._factor[self._final & alive].max(initial=1.0 + self._epsilon)
        goal = max(1.0 + SHRINK * (top - 1.0), float(least), self._no_less(at))
        if goal * (1.0 + TIES) >= top:
            self._final[at] = True
            return True
        above = np.flatnonzero(alive & (self._factor > goal))
        self._lower(above, goal)
        if self._factor[at] > goal:
            self._search(at, above, goal, enough)
        for share in (0.0, 0.25, 0.5, 0.75):
            if self._factor[at] > goal + share * (top - goal):
                self._lower(np.array([at]), goal + share * (top - goal))
        self._final[at] = self._factor[at] > goal and not enough()
        return True

    def _no_less(self, at: int) -> float:
        """What the factor of a design is at the least, whatever its bounds were raised to: that of its exact metrics alone.

        Nothing where bounds that were raised may show that it exceeds a limit.
        """
        if not self._designs.exact_metrics.issuperset(self._limits):
            return 0.0
        exact = [k for k, metric in enumerate(self._metrics) if metric in self._designs.exact_metrics]
        return float((self._front / self._bounds[at])[:, exact].max(axis=1, initial=0.0).min())

    def _lower(self, at: Indices, goal: float) -> None:
        """Find the designs that are within a factor of the front by bounds that tie objectives together."""
        cut = corners(self._front / (goal * (1.0 + TIES)))
        step = max(1, _PAIRS // len(cut))
        for k in range(0, len(at), step):
            some = at[k : k + step]
            within = some[~self._designs.reaches(some, cut, self._metrics, self._limits).any(axis=1)]
            self._factor[within] = np.minimum(self._factor[within], goal)
            self._lowered[within] = True

    def _search(self, at: int, peers: Indices, goal: float, enough: Callable[[], bool]) -> None:
        """Sharpen the bounds of a design, and of related ones, until it is within a factor of the front."""
        one = np.array([at])

        def done() -> bool:
            fresh = np.maximum(self._designs.values(self._metrics, one), _LEAST)
            return bool((self._front <= goal * fresh).all(axis=1).any()) or enough()

        if self._designs.sharpen(at, peers, goal - 1.0, done):
            self._refresh(peers)
            self._lower(peers[self._factor[peers] > goal], goal)

    @property
    def furthest(self) -> float:
        """The largest factor by which a design may be better than all evaluated ones."""
        left = ~(self._known | self._excluded | self._settled)
        return float(self._factor[left].max(initial=1.0))

    def shown(self, rows: Indices) -> tuple[Floats, Floats]:
        """Factors and bounds of some of the designs: ``k x d`` to ``k`` and ``k x m``; 1 of those alike an evaluated one."""
        at = np.searchsorted(self._codes, self._code(rows))
        over = self._known | self._excluded | self._settled
        return np.where(over[at], 1.0, self._factor[at]), self._bounds[at]

    def remember(self) -> dict[str, Indices | Floats]:
        """What tightening has shown, for a later run over the same designs with these evaluations and perhaps more."""
        at = np.flatnonzero(self._lowered & ~self._known)
        return {"codes": self._codes[at], "factors": self._factor[at]}

    def recall(self, kept: Mapping[str, Any]) -> None:
        """Take in what `remember` gave: an evaluated design that was within a factor of another one still is."""
        at = np.searchsorted(self._codes, kept["codes"])
        good = at < len(self._codes)
        good[good] = self._codes[at[good]] == kept["codes"][good]
        at = at[good].astype(np.int64)
        self._factor[at] = np.minimum(self._factor[at], kept["factors"][good])
        self._lowered[at] = True

    # ---- what is shown ---------------------------------------------------------------------------

    def outer_front(self) -> Floats:
        """Evaluated front and bounds of designs not settled exactly: ``k x m``."""
        left = ~(self._known | self._excluded | self._settled) & (self._factor > 1.0 + TIES)
        loose = self._bounds[left]
        if self._epsilon > 0.0:
            loose = np.concatenate([loose, self._bounds[self._settled & ~self._known]])
        return front(np.concatenate([self._front, loose]))

    def certificate(self) -> Certificate:
        """See `Certificate`."""
        idle = ~(self._known | self._excluded)
        still = self._open(self._epsilon)
        by_factor = idle & ~self._settled
        gap = float(self._factor[by_factor].max()) - 1.0 if by_factor.any() else 0.0
        if (self._settled & idle).any():
            gap = max(gap, self._epsilon)
        if gap <= TIES:
            gap = 0.0
        inner = outer = 0.0
        if len(self._front):
            inner = frame_volume(self._front, self._front)
            below = np.concatenate([self._front / (1.0 + self._epsilon), self._bounds[still]])
            outer = min(frame_volume(self._front, below), frame_volume(self._front, self.outer_front()))
        return Certificate(
            designs=len(self._rows),
            evaluated=int(self._done.sum()),
            excluded=int((self._excluded & ~self._done).sum()),
            open=int(still.sum()),
            epsilon=self._epsilon,
            epsilon_proven=None if self.withdrawn else max(gap, 0.0),
            hypervolume_inner=inner,
            hypervolume_outer=None if self.withdrawn else max(outer, inner),
            withdrawn=self.withdrawn,
        )
