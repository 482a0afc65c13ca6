"""Choosing an accelerator's parameters one after another as an environment: pure transition functions under a thin Gymnasium shell.

After ConfuciuX (Kao, Jeong and Krishna, MICRO 2020: one action per parameter, the reward at the end of the episode) and ArchGym
(Krishnan et al., ISCA 2023: the cost model behind `step`). What differs: several objectives, whose weights are drawn per episode and
shown to the agent, so that one policy serves the whole front; and the logarithm of each figure is scaled by the range seen so far.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from codesign.core.errors import UserError
from spaces.parameters import Integer, PowerOfTwo
from spaces.space import Space

VERSION = 0
"""Raised when observations, actions or rewards change meaning: a policy belongs to one version."""

HARDWARE_ID = f"codesign/Hardware-v{VERSION}"

FAILED_REWARD = -1.5
"""For a design that breaks a rule, is infeasible or fails; the worst feasible one seen gets about -1."""

SUM_SHARE = 0.1
"""Of the weighted sum in the scalarised reward; the rest is the weighted maximum (augmented Chebyshev)."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Evaluate = Callable[[dict[str, Any]], Mapping[str, float] | None]


@dataclass(frozen=True)
class Scale:
    """The range of each objective among the designs seen, in natural logarithms (linear where values are not positive).

    Args:
        low: Best value of each: ``m``.
        high: Worst value of each: ``m``.
        log: Whether these are logarithms.
    """

    low: Floats
    high: Floats
    log: bool

    @classmethod
    def of(cls, values: Floats) -> "Scale":
        """The range of ``n x m`` values, rows with NaN left out."""
        seen = values[np.isfinite(values).all(axis=1)]
        log = bool(len(seen)) and bool((seen > 0).all())
        if not len(seen):
            seen = np.zeros((1, values.shape[1]))
        plain = np.log(seen) if log else seen
        return cls(plain.min(axis=0), plain.max(axis=0), log)

    def unit(self, values: Floats) -> Floats:
        """Values (``m``) as shares of the range: 0 best, 1 worst seen; 0.5 where there is no range yet."""
        plain = np.log(np.maximum(values, 1e-300)) if self.log else values
        span = self.high - self.low
        return np.where(span > 0, (plain - self.low) / np.where(span > 0, span, 1.0), 0.5)


def reward_of(values: Floats | None, weights: Floats, scale: Scale) -> float:
    """Minus the augmented Chebyshev scalarisation of a design's objectives; `FAILED_REWARD` for one that failed."""
    if values is None or not np.isfinite(values).all():
        return FAILED_REWARD
    weighted = weights * np.clip(scale.unit(values), -1.0, 2.0) * len(weights)
    return -float((1 - SUM_SHARE) * weighted.max() + SUM_SHARE * weighted.mean())


def observe(space: Space, choices: Ints, step: int, weights: Floats) -> npt.NDArray[np.float32]:
    """What the agent sees before its choice at a step: ``2 d + m``.

    The choices made, each scaled to [0, 1] (-1 where none is made yet), the step as one-hot, the weights.
    """
    made = choices / np.maximum(np.array(space.cardinalities) - 1, 1)
    made = np.where(np.arange(space.dimension) < step, made, -1.0)
    place = np.eye(space.dimension + 1)[step][: space.dimension]
    return np.concatenate([made, place, weights]).astype(np.float32)


def action_mask(space: Space, choices: Ints, step: int) -> npt.NDArray[np.bool_]:
    """Which actions exist at a step: ``max cardinality``; a parameter that does not exist in the design has its first alone."""
    mask = np.zeros(max(space.cardinalities), dtype=np.bool_)
    if step >= space.dimension:
        mask[0] = True
        return mask
    exists = bool(space.active(choices[None, :])[0, step])
    mask[: space.cardinalities[step] if exists else 1] = True
    return mask


def draw_weights(count: int, rng: np.random.Generator) -> Floats:
    """Weights of `count` objectives, uniform over the simplex."""
    return rng.dirichlet(np.ones(count))


def _default_space() -> Space:
    return Space([PowerOfTwo("pes", 4, 256), PowerOfTwo("buffer_kib", 8, 512), Integer("banks", 1, 8)])


def _default_evaluate(point: dict[str, Any]) -> dict[str, float] | None:
    """A roofline of one layer, so that the environment can be made and checked without a workload."""
    if point["buffer_kib"] < point["banks"] * 4:
        return None
    cycles = max(2**24 / point["pes"], 2**20 / point["banks"], 2**26 / point["buffer_kib"])
    return {"latency": cycles, "area": point["pes"] + 0.5 * point["buffer_kib"] + 4.0 * point["banks"]}


@dataclass
class _Episode:
    """Where an episode is."""

    choices: Ints
    step: int
    weights: Floats


class HardwareEnv(gym.Env[npt.NDArray[np.float32], np.int64]):  # type: ignore[misc]
    """One episode chooses one design; the reward comes with the last parameter.

    Args:
        space: The designs.
        evaluate: From a design to its metrics; None for an infeasible one.
        objectives: Metrics to minimise.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(
        self,
        space: Space | None = None,
        evaluate: Evaluate | None = None,
        objectives: Sequence[str] = ("latency", "area"),
    ) -> None:
        if (space is None) != (evaluate is None):
            raise UserError(f"{HARDWARE_ID}: give `space` and `evaluate` together")
        self.design_space = space or _default_space()
        self._evaluate = evaluate or _default_evaluate
        self._objectives = tuple(objectives)
        d, m = self.design_space.dimension, len(self._objectives)
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (2 * d + m,), np.float32)
        self.action_space = gym.spaces.Discrete(max(self.design_space.cardinalities))
        self._seen: list[Floats] = []
        self._episode: _Episode | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Start a design; `options={"weights": [...]}` fixes the weights of the objectives."""
        super().reset(seed=seed)
        given = (options or {}).get("weights")
        weights = (
            draw_weights(len(self._objectives), self.np_random) if given is None else np.asarray(given, np.float64)
        )
        if weights.shape != (len(self._objectives),) or not (weights >= 0).all() or not weights.sum() > 0:
            raise UserError(f"{HARDWARE_ID}: expected a weight >= 0 per objective, got {given!r}")
        choices = np.zeros(self.design_space.dimension, dtype=np.int64)
        self._episode = _Episode(choices, 0, weights / weights.sum())
        return self._observation(), self._info()

    def step(self, action: np.int64 | int) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Choose the next parameter; an action that does not exist there stands for the last one that does."""
        episode = self._episode
        if episode is None or episode.step >= self.design_space.dimension:
            raise UserError(f"{HARDWARE_ID}: `reset` comes before `step`")
        allowed = int(action_mask(self.design_space, episode.choices, episode.step).sum())
        episode.choices[episode.step] = min(int(action), allowed - 1)
        episode.step += 1
        if episode.step < self.design_space.dimension:
            return self._observation(), 0.0, False, False, self._info()
        point, values = self._judge(episode.choices)
        if values is not None:
            self._seen.append(values)
        scale = Scale.of(np.array(self._seen).reshape(-1, len(self._objectives)))
        info = {**self._info(), "point": point, "objectives": None if values is None else values.tolist()}
        return self._observation(), reward_of(values, episode.weights, scale), True, False, info

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """Which actions exist, in the form that masked agents ask for."""
        assert self._episode is not None
        return action_mask(self.design_space, self._episode.choices, self._episode.step)

    def _judge(self, choices: Ints) -> tuple[dict[str, Any], Floats | None]:
        row = self.design_space.canonical(choices[None, :])
        point = self.design_space.to_points(row)[0]
        metrics = self._evaluate(point) if bool(self.design_space.is_valid(row)[0]) else None
        if metrics is None:
            return point, None
        values = np.array([metrics[name] for name in self._objectives], dtype=np.float64)
        return point, values if all(math.isfinite(v) for v in values) else None

    def _observation(self) -> npt.NDArray[np.float32]:
        assert self._episode is not None
        return observe(self.design_space, self._episode.choices, self._episode.step, self._episode.weights)

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self.action_masks()}
