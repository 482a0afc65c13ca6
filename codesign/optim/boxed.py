"""Proofs over spaces too large to be listed: boxes of designs are bounded, split and left out (docs/explanation/bounds.md, rule LB12).

A box gives every parameter a range of choices. A box whose bound is dominated within 1 + epsilon by an evaluated design is settled with all
its designs. The box that is furthest from being settled is split along the parameter that raises the bounds most; a box of one design is evaluated.

A round splits one box in 32 and at most 1,024. Boxes of at most 256 designs are listed, of 16 once 10,000 boxes are open. Where
no table is shared, the optimistic machine is searched exactly, layer by layer. Layers that matter less than a tenth of
the box's gap are left out, and all once the box is settled. Within 5 % of being settled a box is cut where the best mapping
known of a layer ceases to fit.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, final, runtime_checkable

import numpy as np

from codesign.core.errors import UserError
from codesign.optim.box_arrays import designs_in, existing, factors_of, volume_of
from codesign.optim.branching import Branching
from codesign.optim.certificate import Certificate
from codesign.optim.hypervolume import frame_volume
from codesign.optim.optimizer import told_since
from codesign.optim.pareto import front
from codesign.optim.protocols import Bools, Floats, History, Indices, Problem

SPLIT = 64
"""Boxes split in a round, or more where many are open; one where bounds are slow."""

SHARE = 32
"""One open box of so many is split in a round."""

MOST_SPLIT = 1024
"""Boxes split in a round at most, so that evaluations keep up."""

ROUNDS = 6
"""Rounds between two evaluations: an answer that gets better with every design."""

SLOW_ROUNDS = 16
"""The same where bounds are slow: most rounds are a search each."""

PATIENCE = 3
"""Times that no design is evaluated because none promising is expected to add anything, one after another."""

LOOKED_AT = 48
"""Designs of a box among which the one to evaluate is chosen."""

SOUND = 1e-8
"""Relative; an evaluation further below its bound shows the bound to be wrong."""

TIES = 5e-8
"""Relative; values that differ by less count as equal, for sums are rounded. Many designs tie exactly, for instance in area."""

MOST_BOXES = 400_000
"""Open boxes kept at most; beyond it nothing is split until evaluations have settled some."""

ROOTS = 32
"""Boxes that the space is split into at first are bounded so many at a time, with evaluations between where there are more."""

_SHARE = 0.1
"""Of what is left to prove of a box, that its sharpened bounds may be off by."""

_NEAR = 1.05
"""Boxes no further than this from being settled are cut by mappings known; before, these tell too little of what a half needs."""

_FEW, _MANY_OPEN, _FEWER = 256, 10_000, 16
"""Boxes of so many designs are split into them at once where bounds are quick; of fewer where that many boxes are open."""


def never() -> bool:
    """It is not enough yet."""
    return False


@runtime_checkable
class BoxedBounds(Protocol):
    """Bounds that hold for all designs of a box: ``low`` to ``high`` choices of every parameter, both included."""

    @property
    def why_not(self) -> str:
        """Why there are none; empty where there are."""

    @property
    def slow(self) -> bool:
        """Whether a bound takes about as long as an evaluation."""

    def roots(self, low: Indices, high: Indices) -> Sequence[tuple[Indices, Indices]]:
        """A box as boxes that have bounds."""

    def lower_bounds(self, low: Indices, high: Indices, metrics: Sequence[str]) -> Floats:
        """Values that no design of a box is evaluated below: ``n x d`` twice to ``n x m``."""

    def sharpened(
        self,
        low: Indices,
        high: Indices,
        metrics: Sequence[str],
        tolerance: float = 0.0,
        enough: Callable[[], bool] | None = None,
        goal: Floats | None = None,
    ) -> Floats:
        """The sharpest bounds there are of one box: ``d`` twice to ``m``.

        Or as sharp within a share, or what is known once it is enough, or once they reach a goal (``m``).
        """

    def cut(self, low: Indices, high: Indices, metrics: Sequence[str], most: float) -> tuple[int, int] | None:
        """Where bounds are slow, a parameter to split a box along and the first choice of the upper half; None without an idea.

        Rises of bounds, as logarithms, count up to `most`.
        """

    def suggested(self, low: Indices, high: Indices, metrics: Sequence[str]) -> tuple[Indices, Floats] | None:
        """A promising design of a box where bounds are slow, and what it is expected to be: ``d`` and ``m``; None without an idea."""


def boxes_for(bounds: object) -> BoxedBounds | None:
    """The bounds of boxes that a model of designs gives, if it does."""
    found = getattr(bounds, "boxes", None)
    return found if isinstance(found, BoxedBounds) else None


@final
class BoxProof:
    """Open boxes and what evaluations have shown of them; learns what is new in a history.

    Args:
        problem: What is searched.
        bounds: Lower bounds of the metrics on boxes of designs.
        epsilon: Designs that are no more than this share better than an evaluated one are left out.
    """

    def __init__(self, problem: Problem, bounds: BoxedBounds, epsilon: float) -> None:
        self._problem, self._bounds, self._epsilon = problem, bounds, epsilon
        self._metrics = problem.objectives
        self._limits = {c.metric: c.bound for c in problem.constraints if c.upper}
        self._sizes = np.array(problem.space.cardinalities, dtype=np.int64)
        self._start()

    def _start(self) -> None:
        self.withdrawn, self._vain = "", 0
        d, m = len(self._sizes), len(self._metrics)
        self._branching = Branching(self._sizes)
        self._told: Indices = np.zeros((0, d), dtype=np.int64)
        self._done: dict[bytes, Floats] = {}
        self._front: Floats = np.zeros((0, m))
        self._values: Floats = np.zeros((0, m))
        self._ratios: list[Floats] = []
        self._waiting: Indices = np.zeros((0, d), dtype=np.int64)
        self._evaluated, self._settled_factor, self._excluded = 0, 1.0, 0
        self._settled_low: Floats = np.zeros((0, m))
        self._low = self._high = np.zeros((0, d), dtype=np.int64)
        self._bound: Floats = np.zeros((0, m))
        self._factor: Floats = np.zeros(0)
        self._sharp: Bools = np.zeros(0, dtype=np.bool_)
        roots = self._bounds.roots(np.zeros(d, dtype=np.int64), self._sizes - 1)
        self._unseen = sorted(roots, key=lambda root: not self._holds_preset(*root))
        if len(self._unseen) <= ROOTS:
            self._add_roots(len(self._unseen))

    def _holds_preset(self, low: Indices, high: Indices) -> bool:
        presets = self._problem.space.presets
        if not presets:
            return False
        rows = self._problem.space.to_indices(presets, "preset")
        return bool(((low <= rows) & (rows <= high)).all(axis=1).any())

    def _add_roots(self, count: int) -> None:
        """Bound the next of the boxes that the space was split into at first; all of them can take a minute."""
        now, self._unseen = self._unseen[:count], self._unseen[count:]
        if now:
            self._add(np.array([low for low, _ in now]), np.array([high for _, high in now]), None)

    # ---- boxes -----------------------------------------------------------------------------------

    def _add(self, low: Indices, high: Indices, inherited: Floats | None) -> None:
        """Bound new boxes and keep those that are open."""
        low, high, keep = self._canonical(low, high)
        possible = self._possible(low, high)
        low, high, keep = low[possible], high[possible], keep[possible]
        if not len(low):
            return
        bound = self._bounds.lower_bounds(low, high, self._metrics)
        if inherited is not None:
            bound = np.maximum(bound, inherited[keep])
        out = ~np.isfinite(bound).all(axis=1)
        for metric, limit in self._limits.items():
            values = self._bounds.lower_bounds(low, high, [metric])[:, 0]
            out |= np.nan_to_num(values, nan=-np.inf) > limit
        self._excluded += sum(volume_of(a, b) for a, b in zip(low[out], high[out], strict=True))
        low, high, bound = low[~out], high[~out], bound[~out]
        self._low, self._high = np.concatenate([self._low, low]), np.concatenate([self._high, high])
        self._bound = np.concatenate([self._bound, bound])
        self._factor = np.concatenate([self._factor, factors_of(self._front, bound)])
        self._sharp = np.concatenate([self._sharp, np.zeros(len(low), dtype=np.bool_)])
        self._drop_settled()

    def _canonical(self, low: Indices, high: Indices) -> tuple[Indices, Indices, Indices]:
        """Boxes whose parameters that exist nowhere in them have their first choice only, and the rows they come from; the others are empty."""
        space = self._problem.space
        # a parameter exists somewhere in the box if it does in one of the box's designs with every other parent's choice tried
        exists = existing(space, low, high)
        empty = (~exists & (low > 0)).any(axis=1)
        high = np.where(exists, high, 0)
        return low[~empty], high[~empty], np.flatnonzero(~empty)

    def _possible(self, low: Indices, high: Indices) -> Bools:
        """Boxes that may hold a valid design; those of one design are checked, and whether they were evaluated."""
        keep = np.ones(len(low), dtype=np.bool_)
        alone = np.flatnonzero((low == high).all(axis=1))
        if len(alone):
            rows = low[alone]
            good = self._problem.space.is_valid(rows) & (self._problem.space.canonical(rows) == rows).all(axis=1)
            good &= np.array([row.tobytes() not in self._done for row in rows], dtype=np.bool_)
            keep[alone] = good
        return keep

    def _drop_settled(self) -> None:
        settled = self._factor <= (1.0 + self._epsilon) * (1.0 + TIES)
        if settled.any():
            self._settled_factor = max(self._settled_factor, float(self._factor[settled].max()))
            if self._epsilon > 0.0:
                self._settled_low = front(np.concatenate([self._settled_low, self._bound[settled]]))
            self._keep(~settled)

    def _keep(self, mask: Bools) -> None:
        self._low, self._high, self._bound = self._low[mask], self._high[mask], self._bound[mask]
        self._factor, self._sharp = self._factor[mask], self._sharp[mask]

    # ---- learning --------------------------------------------------------------------------------

    def learn(self, history: History) -> None:
        """Take in what was told since; a history that is no continuation is learned anew."""
        if not history.goes_on(self._told):
            self._start()
        for row, values, valid, good in told_since(self._problem, history, len(self._told)):
            self._learn_one(row, values, valid, good)
        self._told = history.indices.copy()
        self._waiting = history.pending

    def _learn_one(self, row: Indices, values: Floats, valid: bool, good: bool) -> None:
        row = np.ascontiguousarray(row)
        if row.tobytes() not in self._done:
            self._evaluated += 1
        self._done[row.tobytes()] = values
        if valid and np.isfinite(values).all():
            bound = self._of_design(row)
            if bound is not None:
                self._check(row, values, bound)
                self._ratios.append(np.log(values) - np.log(bound))
        if len(self._low):
            self._keep(~((self._low == row) & (self._high == row)).all(axis=1))
        if good and np.isfinite(values).all():
            self._values = np.concatenate([self._values, values[None]])
            self._front = front(np.concatenate([self._front, values[None]]))
            if len(self._factor):
                self._factor = np.minimum(self._factor, (values / self._bound).max(axis=1))
            self._drop_settled()

    def _of_design(self, row: Indices) -> Floats | None:
        try:
            found: Floats = self._bounds.lower_bounds(row[None], row[None], self._metrics)[0]
        except UserError:
            return None
        inside = ((self._low <= row) & (row <= self._high)).all(axis=1)
        return np.asarray(np.max([found, *self._bound[inside]], axis=0))

    def _check(self, row: Indices, values: Floats, bound: Floats) -> None:
        low = values < bound * (1.0 - SOUND)
        if low.any() and not self.withdrawn:
            k = int(np.flatnonzero(low)[0])
            point = self._problem.space.to_points(row[None])[0]
            self.withdrawn = f"the bound of {self._metrics[k]!r} is wrong: {point} was evaluated at {values[k]:.9g}, below its bound {bound[k]:.9g}"

    # ---- choosing --------------------------------------------------------------------------------

    def choose(self, count: int, enough: Callable[[], bool] = never) -> Indices:
        """Up to `count` designs, after some rounds of splitting; none once every box is settled, or it is enough."""
        chosen: list[Indices] = []
        while len(chosen) < count:
            picked = self._next(chosen, enough)
            if picked is None:
                break
            chosen.append(picked)
        return np.array(chosen, dtype=np.int64).reshape(-1, len(self._sizes))

    def _next(self, chosen: list[Indices], enough: Callable[[], bool]) -> Indices | None:
        taken = {row.tobytes() for row in (*self._waiting, *chosen)}
        rounds = 0
        while (len(self._factor) or self._unseen) and not enough():
            if self._unseen:
                self._add_roots(ROOTS)
                rounds += 1
                if not len(self._factor) or (self._unseen and len(self._front) and rounds < ROUNDS):
                    continue
            order = self._order()
            top = int(order[0])
            if (self._low[top] == self._high[top]).all():
                for k in order:
                    if (self._low[k] == self._high[k]).all() and self._low[k].tobytes() not in taken:
                        return np.array(self._low[k])
                if self._unseen:
                    continue
                return None  # what is left to evaluate is being evaluated
            if (
                rounds >= (SLOW_ROUNDS if self._bounds.slow and not self._unseen else ROUNDS)
                or (not len(self._front) and (not self._bounds.slow or self._sharp[top]))
                or len(self._factor) > MOST_BOXES
            ):
                found, expected = self._inside(top, taken)
                if found is not None and not self._spare(expected):
                    return found
                rounds = 0 if found is not None else rounds
            self._refine(order, enough)
            rounds += 1
        return None

    def _order(self) -> Indices:
        """Open boxes, the one furthest from being settled first."""
        size = np.log(self._bound).sum(axis=1)
        return np.asarray(np.lexsort((size, -self._factor)), dtype=np.int64)

    def _refine(self, order: Indices, enough: Callable[[], bool]) -> None:
        """Sharpen or split the boxes furthest from being settled."""
        alone = (self._low[order] == self._high[order]).all(axis=1)
        most = 1 if self._bounds.slow else min(max(SPLIT, len(order) // SHARE), MOST_SPLIT)
        boxes = order[~alone][:most]
        if self._bounds.slow and not self._sharp[boxes[0]]:
            self._sharpen(int(boxes[0]), enough)
            return
        near = self._bounds.slow and self._factor[boxes[0]] <= (1.0 + self._epsilon) * _NEAR
        self._divide(boxes, self._cut(int(boxes[0])) if near else None)

    def _divide(self, boxes: Indices, parts: tuple[Indices, Indices, Floats] | None = None) -> None:
        """Put parts in the place of some boxes."""
        low, high, inherited = parts or self._split(self._low[boxes], self._high[boxes], self._bound[boxes])
        mask = np.ones(len(self._factor), dtype=np.bool_)
        mask[boxes] = False
        self._keep(mask)
        self._add(low, high, inherited)

    def _cut(self, k: int) -> tuple[Indices, Indices, Floats] | None:
        """A box in two, where mappings known tell where; else None."""
        most = math.log(min(float(self._factor[k]) / (1.0 + self._epsilon), 2.0))
        found = self._bounds.cut(self._low[k], self._high[k], self._metrics, most)
        if found is None:
            return None
        column, first = found
        low, high = np.repeat(self._low[k][None], 2, axis=0), np.repeat(self._high[k][None], 2, axis=0)
        high[0, column], low[1, column] = first - 1, first
        return low, high, np.repeat(self._bound[k][None], 2, axis=0)

    def _sharpen(self, k: int, enough: Callable[[], bool]) -> None:
        """Search a box exactly, within a share of what is left to prove of it, or until it is enough."""
        tolerance = min(_SHARE * (float(self._factor[k]) - 1.0), _SHARE)
        goal = self._front.min(axis=0) / (1.0 + self._epsilon) if self._front.shape == (1, 1) else None
        fresh = self._bounds.sharpened(self._low[k], self._high[k], self._metrics, tolerance, enough, goal)
        self._bound[k] = np.maximum(self._bound[k], fresh)
        self._sharp[k] = not enough()
        self._factor[k] = factors_of(self._front, self._bound[k : k + 1])[0]
        self._drop_settled()

    def _split(self, low: Indices, high: Indices, bound: Floats) -> tuple[Indices, Indices, Floats]:
        volumes = np.array([float(volume_of(a, b)) for a, b in zip(low, high, strict=True)])
        few = volumes <= (0 if self._bounds.slow else _FEW if len(self._factor) <= _MANY_OPEN else _FEWER)
        lows, highs, inherited = [], [], []
        for k in np.flatnonzero(few):
            rows = designs_in(low[k], high[k])
            lows.append(rows)
            highs.append(rows)
            inherited.append(np.repeat(bound[k][None], len(rows), axis=0))
        if (~few).any():
            parts = self._halves(low[~few], high[~few], bound[~few])
            lows.append(parts[0])
            highs.append(parts[1])
            inherited.append(parts[2])
        return np.concatenate(lows), np.concatenate(highs), np.concatenate(inherited)

    def _halves(self, low: Indices, high: Indices, bound: Floats) -> tuple[Indices, Indices, Floats]:
        """Each box in two, along the parameter for which the bounds of the halves are largest together, of the few that were so elsewhere."""
        box, column = self._branching.promising(low, high)
        middle = (low[box, column] + high[box, column]) // 2
        first_high, second_low = high[box].copy(), low[box].copy()
        at = np.arange(len(box))
        first_high[at, column] = middle
        second_low[at, column] = middle + 1
        lows, highs = np.concatenate([low[box], second_low]), np.concatenate([first_high, high[box]])
        values = np.maximum(self._bounds.lower_bounds(lows, highs, self._metrics), np.concatenate([bound[box]] * 2))
        with np.errstate(invalid="ignore", divide="ignore"):
            rise = np.minimum(np.log(values) - np.log(np.concatenate([bound[box]] * 2)), 50.0).sum(axis=1)
        width = high[box, column] - low[box, column]
        score = rise[: len(box)] + rise[len(box) :]
        self._branching.learn(column, width, score)
        best = np.lexsort((-score - 1e-9 * np.log(width + 1.0), box))
        first = best[np.unique(box[best], return_index=True)[1]]
        pair = np.concatenate([first, first + len(box)])
        return lows[pair], highs[pair], values[pair]

    def _spare(self, expected: Floats | None) -> bool:
        """Whether a design need not be evaluated now: it is expected to add nothing, and that was not so too often."""
        vain = expected is not None and bool((self._front <= expected).all(axis=1).any())
        vain = vain and self._vain < PATIENCE and len(self._factor) <= MOST_BOXES
        self._vain = self._vain + 1 if vain else 0
        return vain

    def _inside(self, k: int, taken: set[bytes]) -> tuple[Indices | None, Floats | None]:
        """The design of a box that may cover most of it, expected metrics nearest to the box's bound, and those where mappings tell them."""
        rng = np.random.default_rng([self._problem.seed, self._evaluated, len(taken)])
        low, high = self._low[k], self._high[k]
        if self._bounds.slow:
            found = self._bounds.suggested(low, high, self._metrics)
            if found is not None and self._fresh(found[0][None], taken)[0]:
                return found
        count = LOOKED_AT // 2 if self._bounds.slow else LOOKED_AT
        rows = np.concatenate([rng.integers(low, high + 1, (16 * count, len(low))), [low, high, (low + high) // 2]])
        rows = np.unique(self._problem.space.canonical(rows), axis=0)
        rows = rows[self._fresh(rows, taken)]
        if not len(rows):
            return None, None
        rows = rows[rng.permutation(len(rows))[:count]]
        values = self._bounds.lower_bounds(rows, rows, self._metrics)
        if self._ratios:
            values = values * np.exp(np.mean(self._ratios, axis=0))
        works = np.isfinite(values).all(axis=1)
        for metric, limit in self._limits.items():
            works &= ~(self._bounds.lower_bounds(rows, rows, [metric])[:, 0] > limit)
        if not works.any():
            return None, None
        far = np.log(values / self._bound[k]).max(axis=1)
        return np.asarray(rows[int(np.argmin(np.where(works, far, np.inf)))]), None

    def _fresh(self, rows: Indices, taken: set[bytes]) -> Bools:
        """Valid designs, in canonical form, that are neither evaluated nor waiting: ``n``."""
        new = np.array([r.tobytes() not in taken and r.tobytes() not in self._done for r in rows], dtype=np.bool_)
        space = self._problem.space
        return np.asarray(new & space.is_valid(rows) & (space.canonical(rows) == rows).all(axis=1))

    # ---- tightening without evaluations ----------------------------------------------------------

    def tighten(self, enough: Callable[[], bool]) -> bool:
        """Bound or split what is furthest from being settled; False once nothing is left to do without an evaluation.

        Args:
            enough: Whether to stop, asked between searches of layers.
        """
        if self.withdrawn or not len(self._front) or enough():
            return False
        if self._unseen:
            self._add_roots(ROOTS)
            return True
        if not len(self._factor) or len(self._factor) > MOST_BOXES:
            return False
        order = self._order()
        top = int(order[0])
        if (self._low[top] == self._high[top]).all():
            if not self._bounds.slow or self._sharp[top]:
                return False
            self._sharpen(top, enough)
        else:
            self._refine(order, enough)
        return True

    def furthest(self, exact: Sequence[int]) -> tuple[float, float] | None:
        """The largest factor of an open box, and that of its exact metrics alone; None where none is left or nothing can be said.

        Args:
            exact: Metrics, by position, whose bound of a single design is its value.
        """
        if self.withdrawn or self._unseen or not len(self._front) or not len(self._factor):
            return None
        at = int(self._order()[0])
        known = (self._front / self._bound[at])[:, list(exact)].max(axis=1, initial=0.0)
        return float(self._factor[at]), float(known.min())

    def designs_beyond(self, factor: float, enough: Callable[[], bool]) -> Indices:
        """The designs that may be better than all evaluated ones by more than a factor: ``n x d``; their boxes are split into them."""
        while True:
            beyond = self._factor > factor
            alone = (self._low == self._high).all(axis=1)
            if not (beyond & ~alone).any() or enough() or len(self._factor) > MOST_BOXES:
                return np.asarray(self._low[beyond & alone])
            self._refine(self._order(), enough)

    def outline(self, enough: Callable[[], bool]) -> None:
        """Split the boxes whose bounds make the outer front, some rounds long."""
        from moocore import is_nondominated

        for _ in range(ROUNDS):
            if enough() or self._unseen or not 0 < len(self._factor) <= MOST_BOXES:
                return
            edge = is_nondominated(self._bound, keep_weakly=False) & (self._low < self._high).any(axis=1)
            if not edge.any():
                return
            self._divide(np.flatnonzero(edge)[:MOST_SPLIT])

    def settle(self, rows: Indices, factors: Floats, bounds: Floats) -> None:
        """Take in what was shown of designs that are boxes of their own: ``n x d``, ``n`` and ``n x m``."""
        given = {row.tobytes(): k for k, row in enumerate(rows)}
        for k in np.flatnonzero((self._low == self._high).all(axis=1)):
            at = given.get(self._low[k].tobytes())
            if at is not None:
                self._factor[k] = min(self._factor[k], factors[at])
                self._bound[k] = np.maximum(self._bound[k], bounds[at])
        self._drop_settled()

    def remember(self) -> dict[str, Indices | Floats]:
        """The open boxes, for a later run over the same space with these evaluations and perhaps more; empty while some are not bounded."""
        if self._unseen:
            return {}
        sharp = self._sharp.astype(np.int64)
        counted = np.array([min(self._excluded, 2**62)], dtype=np.int64)
        return {
            "low": self._low, "high": self._high, "bounds": self._bound, "factors": self._factor, "sharp": sharp, "excluded": counted,
        }  # fmt: skip

    def recall(self, kept: Mapping[str, Any]) -> None:
        """Take in what `remember` gave: boxes that it lacks were settled, and still are."""
        if not {"low", "factors"} <= set(kept) or kept["low"].shape[1] != len(self._sizes):
            return
        low, high = kept["low"].astype(np.int64), kept["high"].astype(np.int64)
        keep = self._possible(low, high)
        self._low, self._high, self._bound = low[keep], high[keep], kept["bounds"][keep]
        self._sharp = kept["sharp"][keep] > 0
        self._unseen, self._excluded = [], int(kept["excluded"][0])
        self._factor = np.minimum(factors_of(self._front, self._bound), kept["factors"][keep])
        self._drop_settled()

    # ---- what is shown ---------------------------------------------------------------------------

    def outer_front(self) -> Floats:
        """Evaluated front and bounds of what is not settled exactly: ``k x m``; empty while some boxes are not bounded yet."""
        if self._unseen:
            return np.zeros((0, len(self._metrics)))
        return front(np.concatenate([self._front, self._bound, self._settled_low]))

    def certificate(self) -> Certificate:
        """See `Certificate`; designs are counted by combinations of choices, an upper limit where rules forbid some."""
        gap = max(float(self._factor.max()) if len(self._factor) else 1.0, self._settled_factor) - 1.0
        if gap <= TIES:
            gap = 0.0
        if self._unseen:
            gap = math.inf
        inner, outer = 0.0, None if self.withdrawn or self._unseen else 0.0
        if len(self._front):
            inner = frame_volume(self._front, self._front)
            outer = None if outer is None else max(inner, frame_volume(self._front, self.outer_front()))
        count = self._problem.space.cardinality_bound
        left = sum(volume_of(a, b) for a, b in (*zip(self._low, self._high, strict=True), *self._unseen))
        return Certificate(
            designs=count,
            evaluated=self._evaluated,
            excluded=self._excluded,
            open=min(left, count),
            epsilon=self._epsilon,
            epsilon_proven=None if self.withdrawn else max(gap, 0.0),
            hypervolume_inner=inner,
            hypervolume_outer=outer,
            withdrawn=self.withdrawn,
        )
