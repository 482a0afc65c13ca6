from pathlib import Path

import numpy as np
import pytest

from codesign.core.errors import UserError
from codesign.core.files import read_structured, write_json
from codesign.tensorization.policy import ENVIRONMENT, read_policy
from envs.masked_dqn import MaskedDQN
from envs.schedule import ENVIRONMENT_ID
from envs.training import Algorithm, TrainingConfig, TrainingResult, train
from tests.command_line import run

SMALL = {"timesteps": 300, "cases": 4, "environments": 4, "width": 16, "checkpoint_every": 120, "horizon": 8}


def small(**changes: object) -> TrainingConfig:
    return TrainingConfig(**{**SMALL, **changes})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TrainingResult]:
    out = tmp_path_factory.mktemp("dqn")
    return out, train(small(), out)


def test_training_leaves_policy_checkpoints_log_and_state(trained: tuple[Path, TrainingResult]) -> None:
    out, result = trained
    assert result.timesteps >= 300
    assert result.log.exists()
    assert len(list((out / "checkpoints").glob("*.npz"))) == 2
    policy = read_policy(out / "policy.npz")
    assert policy.environment == ENVIRONMENT == ENVIRONMENT_ID
    assert len(policy.network.weights) == 4  # four linear layers, as in the paper
    assert policy.timesteps == result.timesteps


def test_equal_seeds_train_equal_policies(trained: tuple[Path, TrainingResult], tmp_path: Path) -> None:
    train(small(), tmp_path / "again")
    train(small(seed=1), tmp_path / "other")
    first, again, other = (read_policy(p / "policy.npz") for p in (trained[0], tmp_path / "again", tmp_path / "other"))
    assert np.array_equal(first.network.weights[-1], again.network.weights[-1])
    assert not np.array_equal(first.network.weights[-1], other.network.weights[-1])


def test_exploration_takes_possible_actions_only(trained: tuple[Path, TrainingResult]) -> None:
    model = MaskedDQN.load(trained[0] / "model.zip", device="cpu")
    model.load_replay_buffer(trained[0] / "replay.pkl")
    buffer = model.replay_buffer
    count = buffer.size()
    masks = buffer.observations[:count, :, -int(model.action_space.n) :]
    taken = np.take_along_axis(masks, buffer.actions[:count].astype(np.int64), axis=2)
    assert count > 0
    assert (taken == 1.0).all()


def test_a_resumed_training_goes_on(trained: tuple[Path, TrainingResult]) -> None:
    out, before = trained
    result = train(small(timesteps=500), out, resume=True)
    assert result.timesteps >= 500 > before.timesteps
    assert read_structured(out / "training.json")["timesteps"] == result.timesteps


def test_masked_policy_gradients_train_too(tmp_path: Path) -> None:
    result = train(small(algorithm=Algorithm.PPO, timesteps=512), tmp_path)
    assert read_policy(result.policy_path).algorithm == "ppo"


def test_mistakes_of_a_training(trained: tuple[Path, TrainingResult], tmp_path: Path) -> None:
    out = trained[0]
    with pytest.raises(UserError, match="already holds a training"):
        train(small(), out)
    with pytest.raises(UserError, match="nothing to resume"):
        train(small(), tmp_path / "none", resume=True)
    with pytest.raises(UserError, match=r"`gamma` was 0\.9 in the training to resume, got 0\.5"):
        train(small(gamma=0.5), out, resume=True)
    state = read_structured(out / "training.json")
    write_json(tmp_path / "training.json", {**state, "environment": "codesign/Schedule-v9"})
    with pytest.raises(
        UserError, match="trained in codesign/Schedule-v9, this version of the program has codesign/Schedule-v0"
    ):
        train(small(), tmp_path, resume=True)
    with pytest.raises(UserError, match="`timesteps` must be >= 1, got 0"):
        small(timesteps=0)


def test_the_command_trains_and_refuses(tmp_path: Path) -> None:
    options = ["--cases", "3", "--environments", "2", "--width", "8", "--horizon", "8", "--format", "json"]
    out = str(tmp_path / "run")
    done = run("train", "--env", ENVIRONMENT_ID, "--timesteps", "100", "--out", out, *options)
    report = done.json
    assert report["status"] == "ok"
    assert Path(report["policy"]).exists()
    wrong = run("train", "--env", "codesign/Schedul-v0", "--timesteps", "100", "--out", out)
    assert wrong.code == 2
    assert "did you mean 'codesign/Schedule-v0'" in wrong.err
    unknown = run("train", "--env", ENVIRONMENT_ID, "--timesteps", "100", "--out", f"{out}2", "--algorithm", "sarsa")
    assert unknown.code == 2
    assert "--algorithm must be dqn or ppo" in unknown.err
