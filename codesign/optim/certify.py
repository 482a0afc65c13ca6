"""How much better than a front any design of its space may be: bounds alone, tightened for a stated time after a search.

For every design d of the space some evaluated e has f_k(e) <= F f_k(d) in every objective f_k. The factor F falls while bounds are sharpened
where it is largest; nothing is evaluated. The bounds are those of docs/explanation/bounds.md.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from codesign.core.json_types import JsonObject
from codesign.optim.bounded import bounds_for
from codesign.optim.boxed import BoxProof, boxes_for
from codesign.optim.certificate import Certificate
from codesign.optim.exact import STEPPED, Exact, FrontProof
from codesign.optim.hypervolume import frame_volume
from codesign.optim.narrowing import NarrowedProof
from codesign.optim.pareto import front, thinned
from codesign.optim.protocols import Floats, History, Indices, Problem

FEW = 2_000
"""Designs that are bounded without asking how long that takes."""

TIMED = 64
"""Designs whose bounds tell how long those of all take, where nothing is shared between designs."""

PATIENCE = 4.0
"""How many times the time allowed the bounds of all designs may be expected to take before none is made."""

NOTHING = 1e6
"""A factor of more says nothing."""

PAIRS = 200_000
"""Corners of the outer front: bounds times evaluated designs at most, before bounds are thinned."""

Kept = Mapping[str, Indices | Floats]
"""What a proof remembers."""


@final
@dataclass(frozen=True)
class CertifiedFront:
    """What bounds say of the designs that a search did not try.

    Args:
        factor: No design is better than all of the front by more, in every objective at once; None where nothing is shown.
        cpu_seconds: Spent to show it.
        finished: Whether more time shows no more: the bounds have nothing sharper, or the front is exact.
        why_not: Why nothing is shown; empty where something is.
        outer: Points that no design lies below, the front among them: ``k x m``.
        hypervolume_inner: Of the front, in the frame of certificates.
        hypervolume_outer: What that of the true front is at most; None where nothing is shown.
        steps: How the factor fell: CPU seconds and factor.
    """

    factor: float | None
    cpu_seconds: float
    finished: bool
    why_not: str
    outer: Floats
    hypervolume_inner: float
    hypervolume_outer: float | None
    steps: tuple[tuple[float, float], ...] = ()

    def sentence(self) -> str:
        """The certificate in words."""
        spent = f"{self.cpu_seconds:.1f} CPU s"
        if self.factor is None:
            return f"nothing is proven of the designs that were not tried: {self.why_not} ({spent})"
        if self.factor == 1.0:
            return f"no other design is better in any objective without being worse in another: the front is exact, proven in {spent}"
        more = "; more time would show no more" if self.finished else ""
        return f"no design of the space beats this front by more than a factor of {above(self.factor)}, proven in {spent}{more}"

    def to_json(self) -> JsonObject:
        """Plain values, the outer front apart."""
        return {
            "certified_factor": self.factor,
            "certify_cpu_seconds": self.cpu_seconds,
            "certify_finished": self.finished,
            "certified": self.sentence(),
        }


def above(factor: float) -> str:
    """A factor in four digits, rounded up so that what is said holds.

    >>> above(1.23401)
    '1.235'
    """
    digits = 3 if factor < 10.0 else 2 if factor < 100.0 else 1
    return f"{math.ceil(factor * 10**digits - 1e-6) / 10**digits:,.{digits}f}"


def certify(
    problem: Problem, history: History, seconds: float, kept: Kept | None = None, earlier_s: float = 0.0
) -> tuple[CertifiedFront, Kept]:
    """Show how much better than the designs told any other may be.

    Args:
        problem: What was searched, with bounds or over a space that gives them.
        history: What was told.
        seconds: CPU seconds to spend; a step that has begun is finished.
        kept: What an earlier run over the same designs showed.
        earlier_s: CPU seconds that run spent, counted in what is said.

    Returns:
        What is shown, and what a later run may go on from.
    """
    started = time.process_time()

    def spent() -> float:
        return time.process_time() - started

    strategy = Exact(problem)
    reason = strategy.why_not or too_slow(problem, seconds)
    if not reason and not np.isfinite(history.objectives[history.valid]).all(axis=1).any():
        reason = "no design tried can be built"
    if reason:
        return _nothing(reason, spent() + earlier_s, problem), {}
    proof = _proof(strategy, history)
    if kept:
        proof.recall(kept)
    steps: list[tuple[float, float]] = []

    def look() -> Certificate:
        state = proof.certificate()
        if state.finite_gap is not None and state.finite_gap < NOTHING:
            steps.append((spent() + earlier_s, 1.0 + state.finite_gap))
        return state

    finished = _tighten(proof.tighten, lambda: spent() >= seconds, look)
    state = look()
    outer, volume = sharper(proof.outer_front(), history_front(problem, history), state)
    found = _certified(state, spent() + earlier_s, finished, outer, volume, tuple(steps))
    return found, proof.remember()


def _proof(strategy: Exact, history: History) -> FrontProof | BoxProof | NarrowedProof:
    """What shows most in little time: of many designs quick boxes, where there are any, else all of them or slow boxes."""
    problem = strategy.problem
    boxes = boxes_for(bounds_for(problem.space, problem.bounds))
    if boxes is None or boxes.why_not or boxes.slow or problem.space.cardinality_bound <= STEPPED:
        return strategy.proof_of(history)
    return NarrowedProof(problem, boxes, history)


def _tighten(step: Callable[[Callable[[], bool]], bool], over: Callable[[], bool], look: Callable[[], object]) -> bool:
    """Tighten until time is over (False) or nothing is left to do (True), looking at the first step and every doubling."""
    count = 0
    while not over():
        if not step(over):
            return not over()
        count += 1
        if count & (count - 1) == 0:
            look()
    return False


def _certified(
    state: Certificate, cpu_s: float, finished: bool, outer: Floats, volume: float | None, steps: tuple[tuple[float, float], ...]
) -> CertifiedFront:  # fmt: skip
    gap = state.finite_gap
    if gap is None or 1.0 + gap > NOTHING:
        reason = state.withdrawn or "no bound of all designs was ready in that time"
        return CertifiedFront(None, cpu_s, finished, reason, outer[:0], state.hypervolume_inner, None, ())
    return CertifiedFront(1.0 + gap, cpu_s, finished, "", outer, state.hypervolume_inner, volume, steps)


def _nothing(reason: str, cpu_s: float, problem: Problem) -> CertifiedFront:
    return CertifiedFront(None, cpu_s, True, reason, np.zeros((0, len(problem.objectives))), 0.0, None)


def history_front(problem: Problem, history: History) -> Floats:
    """The evaluated front: ``k x m``."""
    from codesign.optim.optimizer import satisfied

    return front(history.objectives[satisfied(problem, history)])


def sharper(outer: Floats, inner: Floats, state: Certificate) -> tuple[Floats, float | None]:
    """Points that no design lies below, and the hypervolume they leave: every design is above its bound, and above the front over the factor.

    Args:
        outer: Bounds of designs that are left, and the front: ``k x m``.
        inner: The front: ``n x m``.
        state: What is proven.
    """
    gap = state.finite_gap
    if gap is None or not len(inner) or not len(outer):
        return outer, state.hypervolume_outer
    fewer = thinned(outer, max(1, PAIRS // len(inner)))
    both = np.maximum(fewer[:, None, :], inner[None] / (1.0 + gap)).reshape(-1, inner.shape[1])
    found = front(both)
    volume = frame_volume(inner, found)
    known = state.hypervolume_outer
    return found, max(state.hypervolume_inner, volume if known is None else min(volume, known))


def too_slow(problem: Problem, seconds: float) -> str:
    """Why the bounds of all designs are not made: where each is made alone they may take far longer than allowed; empty where they are made."""
    bounds: Any = bounds_for(problem.space, problem.bounds)
    count = problem.space.cardinality_bound
    if count <= FEW or getattr(bounds, "parts", None) is not None:
        return ""
    rows = problem.space.sample(TIMED, np.random.default_rng(problem.seed))
    bounds.lower_bounds(rows[:1], problem.objectives)
    started = time.process_time()
    bounds.lower_bounds(rows, problem.objectives)
    expected = (time.process_time() - started) / len(rows) * count
    if expected <= PATIENCE * max(seconds, 1.0):
        return ""
    return f"bounds of up to {count:,} designs would take about {expected:,.0f} CPU s, each built by itself"
