"""Revising primitive sequences as an environment: pure transition functions under a thin Gymnasium shell.

HASCO (Xiao et al., ISCA 2021), Sec. VI-B. The state is a candidate program of one computation on one core, an action is a revise
choice, the reward is the relative gain ``ln(l / l')`` in latency, so that rewards add up to the gain of the whole episode.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from codesign.core.checks import check_least
from codesign.core.errors import UserError
from codesign.mapping.nest import FloatArray, IntArray
from codesign.tensorization.encoding import ProgramArrays, SoftwareProblem
from codesign.tensorization.observation import OBSERVATION, VERSION, advance, look, static_features
from codesign.tensorization.revisions import REVISIONS, score_candidate
from codesign.tensorization.scoring import FITS, LATENCY, result_width
from envs.problems import Case, training_cases
from spaces.software import SoftwareSpace

ENVIRONMENT_ID = f"codesign/Schedule-v{VERSION}"

REFUSED_REWARD = -0.05
"""For a revision that does not exist or does not fit; the program stays as it is."""


@dataclass(frozen=True)
class Setting:
    """A problem made ready for transitions.

    Args:
        problem: The computation on the core.
        arrays: Its arrays.
        static: The part of the observation that never changes.
        space: To draw candidates from.
        loops: Room for loops.
    """

    problem: SoftwareProblem
    arrays: ProgramArrays
    static: npt.NDArray[np.float32]
    space: SoftwareSpace
    loops: IntArray

    @classmethod
    def of(cls, problem: SoftwareProblem) -> "Setting":
        """The setting of a problem.

        Raises:
            UserError: It has more dimensions or tensors than an observation has room for.
        """
        return cls(
            problem,
            problem.arrays,
            static_features(problem),
            SoftwareSpace(problem),
            np.ones((problem.max_loops, 3), np.int64),
        )


@dataclass(frozen=True)
class State:
    """A candidate, scored.

    Args:
        candidate: Its row.
        result: Its score.
        mask: 1 for the revisions that exist and fit.
        observation: What an agent sees.
    """

    candidate: IntArray
    result: FloatArray
    mask: IntArray
    observation: npt.NDArray[np.float32]

    @property
    def latency_cycles(self) -> float:
        """Of the candidate."""
        return float(self.result[LATENCY])


def initial_state(setting: Setting, candidate: IntArray) -> State | None:
    """The state of a candidate; None if it does not fit the memories."""
    row = candidate.copy()
    result = np.zeros(result_width(len(setting.problem.computation.tensors)))
    if score_candidate(setting.arrays, row, setting.loops, result) != FITS:
        return None
    mask, observation = np.zeros(REVISIONS, np.int64), np.zeros(OBSERVATION, np.float32)
    look(setting.arrays, setting.static, row, row.copy(), result, mask, observation)
    return State(row, result, mask, observation)


def transition(setting: Setting, state: State, action: int) -> tuple[State, float]:
    """The state after a revise choice, and its reward; `state` is left as it is."""
    row, result = state.candidate.copy(), state.result.copy()
    mask, observation = np.empty_like(state.mask), np.empty_like(state.observation)
    status = advance(
        setting.arrays, setting.static, row, action, state.candidate.copy(), setting.loops, result, mask, observation
    )
    if status != FITS:
        return state, REFUSED_REWARD
    return State(row, result, mask, observation), math.log(state.latency_cycles / result[LATENCY])


class ScheduleEnv(gym.Env[npt.NDArray[np.float32], np.int64]):  # type: ignore[misc]
    """Each episode: a random problem of a set, a random candidate, `horizon` revisions.

    Args:
        cases: Problems; by default `count` random ones.
        count: How many random problems.
        case_seed: Seed of the random problems.
        horizon: Revisions of an episode.
        settings: Problems made ready, by number; environments stepped in one thread may share them.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(
        self,
        cases: Sequence[Case] | None = None,
        count: int = 256,
        case_seed: int = 0,
        horizon: int = 32,
        settings: dict[int, Setting] | None = None,
    ) -> None:
        check_least(1, horizon=horizon, count=count)
        self.cases = tuple(cases) if cases is not None else training_cases(count, case_seed)
        self.horizon = horizon
        self.action_space = gym.spaces.Discrete(REVISIONS)
        self.observation_space = gym.spaces.Box(-16.0, 16.0, (OBSERVATION,), np.float32)
        self._settings: dict[int, Setting] = {} if settings is None else settings
        self._setting: Setting | None = None
        self._state: State | None = None
        self._steps = 0
        self._best = math.inf

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Start an episode; ``options={"case": i}`` names the problem."""
        super().reset(seed=seed)
        number = int((options or {}).get("case", self.np_random.integers(len(self.cases))))
        if number not in self._settings:
            self._settings[number] = Setting.of(self.cases[number].problem())
        self._setting = self._settings[number]
        state = None
        for _ in range(100):
            row = self._setting.space.sample(1, int(self.np_random.integers(2**31)))[0]
            state = initial_state(self._setting, row)
            if state is not None:
                break
        if state is None:
            raise UserError("no program fits the memories", where=self.cases[number].name)
        self._state, self._steps, self._best = state, 0, state.latency_cycles
        return state.observation.copy(), self._info()

    def step(self, action: np.int64) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Apply one revise choice. Episodes are truncated at the horizon; there is no terminal state but a dead end."""
        if self._setting is None or self._state is None:
            raise UserError("call reset() before step()")
        self._state, reward = transition(self._setting, self._state, int(action))
        self._steps += 1
        self._best = min(self._best, self._state.latency_cycles)
        dead_end = not self._state.mask.any()
        return self._state.observation.copy(), reward, dead_end, self._steps >= self.horizon, self._info()

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """Which revise choices exist and fit (the name that masked learners ask for)."""
        assert self._state is not None
        return self._state.mask.astype(np.bool_)

    def _info(self) -> dict[str, Any]:
        assert self._state is not None
        return {
            "action_mask": self._state.mask.astype(np.int8),
            "latency_cycles": self._state.latency_cycles,
            "best_latency_cycles": self._best,
        }
