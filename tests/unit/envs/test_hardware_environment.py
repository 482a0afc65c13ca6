"""Choosing hardware as an environment, and the optimiser that learns on it."""

import importlib.metadata
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import codesign.optim
from codesign.core.errors import UserError
from codesign.optim import Optimizer
from codesign.optim.protocols import Problem
from envs import HARDWARE_ID, HardwareEnv
from envs.hardware import FAILED_REWARD, Scale, action_mask, observe, reward_of
from envs.hardware_agent import ReinforcedSearch
from spaces import Categorical, Condition, Constraint, Integer, Ordinal, Space

SPACE = Space(
    [
        Ordinal("rows", [4, 8, 16]),
        Categorical("flow", ["ws", "os"]),
        Integer("fifo", 1, 3, when=Condition("flow", ("ws",))),
        Integer("banks", 1, 6),
    ],
    [Constraint("array", "rows * banks <= 64", "too large")],
)


def evaluate(point: dict[str, Any]) -> dict[str, float] | None:
    if point["banks"] == 5:
        return None
    return {"latency": 100.0 / point["rows"] + 10.0 / point["banks"], "area": point["rows"] + 3.0 * point["banks"]}


def drive(optimizer: Optimizer, trials: int) -> list[dict[str, Any]]:
    asked = []
    for _ in range(trials):
        (point,) = optimizer.ask()
        values = evaluate(point)
        optimizer.tell(point, values, feasible=values is not None)
        asked.append(point)
    return asked


def make(seed: int = 0, **options: Any) -> Optimizer:
    problem = Problem(SPACE, ("latency", "area"), seed=seed)
    return Optimizer(
        problem, ReinforcedSearch(problem, **{"episodes": 4, "weightings": 2, "epochs": 2, "width": 8, **options})
    )


def test_the_registered_environment_is_clean() -> None:
    assert HARDWARE_ID == "codesign/Hardware-v0"
    env = gymnasium.make(HARDWARE_ID)
    check_env(env.unwrapped, skip_render_check=True)
    check_env(HardwareEnv(SPACE, evaluate), skip_render_check=True)


def test_same_seed_same_episodes() -> None:
    def episodes(seed: int) -> list[float]:
        env = HardwareEnv(SPACE, evaluate)
        env.action_space.seed(seed)
        rewards = []
        for k in range(20):
            env.reset(seed=seed if k == 0 else None)
            done = False
            while not done:
                _, reward, done, _, _ = env.step(env.action_space.sample())
            rewards.append(reward)
        return rewards

    assert episodes(1) == episodes(1)
    assert episodes(1) != episodes(2)


def test_an_episode_makes_the_design_it_says() -> None:
    env = HardwareEnv(SPACE, evaluate)
    _, info = env.reset(seed=0, options={"weights": [1, 0]})
    for step, (action, width) in enumerate([(1, 3), (1, 2), (2, 1), (3, 6)]):
        assert info["action_mask"].sum() == width  # `fifo` does not exist with `os`
        _, _, done, _, info = env.step(action)
        assert done == (step == 3)
    assert info["point"] == {"rows": 8, "flow": "os", "banks": 4}
    assert info["objectives"] == [15.0, 20.0]
    with pytest.raises(UserError, match="`reset` comes before `step`"):
        env.step(0)


def test_rewards_follow_the_weights_and_failures_are_worst() -> None:
    scale = Scale.of(np.array([[1.0, 10.0], [100.0, 1000.0], [np.nan, np.nan]]))
    quick, small = np.array([1.0, 1000.0]), np.array([100.0, 10.0])
    latency, area = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    assert reward_of(quick, latency, scale) > reward_of(small, latency, scale)
    assert reward_of(small, area, scale) > reward_of(quick, area, scale)
    assert reward_of(None, area, scale) == FAILED_REWARD
    assert reward_of(np.array([np.inf, 1.0]), area, scale) == FAILED_REWARD
    env = HardwareEnv(SPACE, evaluate)
    env.reset(seed=0)
    for action in (0, 1, 0, 4):
        _, reward, _, _, _ = env.step(action)
    assert reward == FAILED_REWARD


def test_observations_say_what_is_chosen_and_what_comes_next() -> None:
    seen = observe(SPACE, np.array([2, 1, 0, 0]), 2, np.array([0.25, 0.75]))
    assert seen.tolist() == [1.0, 1.0, -1.0, -1.0, 0.0, 0.0, 1.0, 0.0, 0.25, 0.75]
    assert action_mask(SPACE, np.array([2, 0, 0, 0]), 2).tolist() == [True] * 3 + [False] * 3


def test_bad_arguments_are_named() -> None:
    with pytest.raises(UserError, match="give `space` and `evaluate` together"):
        HardwareEnv(SPACE)
    with pytest.raises(UserError, match="expected a weight >= 0 per objective"):
        HardwareEnv(SPACE, evaluate).reset(options={"weights": [1]})
    with pytest.raises(UserError, match="unknown algorithm of 'rl' 'sac'"):
        make(algorithm="sac")
    with pytest.raises(UserError, match="`episodes` must be >= 1, got 0"):
        make(episodes=0)


def test_a_search_is_a_function_of_its_seed_and_goes_on_where_it_stopped() -> None:
    state = np.random.get_state()[1].tolist()  # type: ignore[index]
    whole = drive(make(), 14)
    assert whole == drive(make(), 14)
    assert whole != drive(make(seed=1), 14)
    resumed = make()
    for point in whole[:9]:
        values = evaluate(point)
        resumed.tell(point, values, feasible=values is not None)
    assert drive(resumed, 5) == whole[9:]
    assert not any(SPACE.violations(p) for p in whole)
    assert np.random.get_state()[1].tolist() == state  # type: ignore[index]


def test_the_policy_learns() -> None:
    """Designs for the latency alone, before and after: the policy must come to avoid few rows."""
    optimizer = make(episodes=8, weightings=6, epochs=10, width=32, learning_rate=3e-3)
    strategy = optimizer._strategy
    assert isinstance(strategy, ReinforcedSearch)

    def share_of_fewest_rows() -> float:
        model = strategy._trained(optimizer.history())
        nothing = np.zeros(4, dtype=np.int64)
        seen = model.policy.obs_to_tensor(observe(SPACE, nothing, 0, np.array([1.0, 0.0])))[0]
        shares = model.policy.get_distribution(seen, action_mask(SPACE, nothing, 0)[None, :]).distribution.probs
        return float(shares.detach()[0, 0])

    before = share_of_fewest_rows()
    drive(optimizer, 40)
    assert share_of_fewest_rows() < before - 0.05


def test_the_optimiser_has_a_name_where_it_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    point = importlib.metadata.EntryPoint("rl", "envs.hardware_agent:ReinforcedSearch", "codesign.optimizers")
    monkeypatch.setattr("codesign.core.plugins.entry_points", lambda group: [point])
    assert "rl" in codesign.optim.available()
    optimizer = codesign.optim.create("rl:ppo", SPACE, ["latency", "area"], options={"episodes": 4, "width": 8})
    assert len(drive(optimizer, 6)) == 6
    with pytest.raises(UserError, match="unknown algorithm of 'rl' 'dqn'"):
        codesign.optim.create("rl:dqn", SPACE, ["latency", "area"])
