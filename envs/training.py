"""Training a policy on `codesign/Schedule`: deep Q-learning or masked policy gradients over many computations and cores."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from codesign.core.checks import check_least
from codesign.core.errors import UserError
from codesign.core.files import read_structured, write_json
from codesign.tensorization.policy import Network, Policy, check_environment, save_policy
from envs.schedule import ENVIRONMENT_ID, ScheduleEnv, Setting

Progress = Callable[[int, int, float], None]
"""Told steps done, steps wanted, and the mean gain (ln) of recent episodes."""


class Algorithm(Enum):
    """DQN with masks (HASCO's method), or proximal policy optimisation with masks (Huang and Ontañón, 2022)."""

    DQN = "dqn"
    PPO = "ppo"


@dataclass(frozen=True)
class TrainingConfig:
    """Options of a training.

    Args:
        algorithm: How to learn.
        timesteps: Steps in all, those before a resumption included.
        cases: Random problems trained on.
        case_seed: Seed of these problems.
        seed: Of the learner and the episodes.
        environments: Stepped together.
        horizon: Revisions of an episode.
        width: Units of each of the three hidden layers (four linear layers, as in the paper).
        learning_rate: Of Adam, falling linearly to a tenth.
        gamma: Discount.
        checkpoint_every: Steps between checkpoints.
    """

    algorithm: Algorithm = Algorithm.DQN
    timesteps: int = 200_000
    cases: int = 256
    case_seed: int = 0
    seed: int = 0
    environments: int = 16
    horizon: int = 32
    width: int = 256
    learning_rate: float = 5e-4
    gamma: float = 0.9
    checkpoint_every: int = 50_000

    def __post_init__(self) -> None:
        check_least(1, timesteps=self.timesteps, checkpoint_every=self.checkpoint_every, cases=self.cases)
        check_least(1, environments=self.environments, horizon=self.horizon, width=self.width)
        check_least(0, seed=self.seed, case_seed=self.case_seed)
        if not 0 <= self.gamma < 1 or not self.learning_rate > 0:
            raise UserError(f"expected 0 <= gamma < 1 and learning_rate > 0, got {self.gamma}, {self.learning_rate}")

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "algorithm": self.algorithm.value}


@dataclass(frozen=True)
class TrainingResult:
    """What a training left.

    Args:
        policy_path: The trained policy, for `--search policy:PATH`.
        timesteps: Steps in all.
        seconds: Wall-clock time of this run.
        mean_gain: Mean ln gain of the last episodes.
        log: TensorBoard folder or CSV file.
    """

    policy_path: Path
    timesteps: int
    seconds: float
    mean_gain: float
    log: Path


def train(
    config: TrainingConfig, out: Path, *, resume: bool = False, progress: Progress | None = None
) -> TrainingResult:
    """Train, or go on training, in a folder; an interrupted run goes on from its last checkpoint.

    Raises:
        UserError: Nothing to resume, other options than before, or a checkpoint of another environment version.
    """
    state = out / "training.json"
    if resume:
        _check_resumable(state, config)
    elif state.exists():
        raise UserError(f"{out} already holds a training", hint="add --resume, or name another folder")
    out.mkdir(parents=True, exist_ok=True)
    model = _load_model(config, out) if resume else _new_model(config)
    log = _set_logger(model, out)
    callback = _make_callback(config, out, progress)
    started = time.perf_counter()
    remaining = config.timesteps - int(model.num_timesteps)
    try:
        if remaining > 0:
            model.learn(remaining, callback=callback, reset_num_timesteps=not resume, log_interval=20)
        _save(model, config, out)
    finally:
        model.logger.close()
    gains = [episode["r"] for episode in model.ep_info_buffer or ()]
    return TrainingResult(
        out / "policy.npz",
        int(model.num_timesteps),
        time.perf_counter() - started,
        float(np.mean(gains)) if gains else 0.0,
        log,
    )


def _check_resumable(state: Path, config: TrainingConfig) -> None:
    if not state.exists():
        raise UserError(f"nothing to resume in {state.parent}", hint="leave out --resume to start")
    found = read_structured(state)
    if not isinstance(found, dict) or not {"environment", "config"} <= set(found):
        raise UserError("not the state of a training", where=str(state))
    check_environment(str(found["environment"]), str(state))
    wanted = replace(config, timesteps=1, checkpoint_every=1).to_json()
    before = {**found["config"], "timesteps": 1, "checkpoint_every": 1}
    for name, value in wanted.items():
        if before.get(name) != value:
            raise UserError(
                f"`{name}` was {before.get(name)!r} in the training to resume, got {value!r}",
                where=str(state),
                hint="a resumed training keeps its options; only --timesteps may grow",
            )


def _environments(config: TrainingConfig) -> Any:
    from stable_baselines3.common.env_util import make_vec_env

    settings: dict[int, Setting] = {}

    def make() -> ScheduleEnv:
        return ScheduleEnv(count=config.cases, case_seed=config.case_seed, horizon=config.horizon, settings=settings)

    return make_vec_env(make, n_envs=config.environments, seed=config.seed)


def _new_model(config: TrainingConfig) -> Any:
    import torch
    from torch import nn

    torch.set_num_threads(1)
    rate = _Falling(config.learning_rate)
    layers = [config.width] * 3
    if config.algorithm is Algorithm.PPO:
        from sb3_contrib import MaskablePPO

        network = {"net_arch": {"pi": layers, "vf": layers}, "activation_fn": nn.ReLU}
        return MaskablePPO(
            "MlpPolicy",
            _environments(config),
            learning_rate=rate,
            n_steps=128,
            batch_size=512,
            n_epochs=4,
            gamma=config.gamma,
            ent_coef=0.01,
            policy_kwargs=network,
            seed=config.seed,
            device="cpu",
        )
    from envs.masked_dqn import MaskedDQN, MaskedDQNPolicy

    return MaskedDQN(
        MaskedDQNPolicy, _environments(config), learning_rate=rate, buffer_size=min(100_000, config.timesteps + 1),
        learning_starts=min(5_000, config.timesteps // 4), batch_size=256, gamma=config.gamma, train_freq=1, gradient_steps=2,
        target_update_interval=2_000, exploration_fraction=0.5, exploration_initial_eps=1.0, exploration_final_eps=0.1,
        policy_kwargs={"net_arch": layers}, seed=config.seed, device="cpu",
    )  # fmt: skip


@dataclass(frozen=True)
class _Falling:
    """A learning rate that falls linearly to a tenth; a class, so that a checkpoint can hold it."""

    start: float

    def __call__(self, remaining: float) -> float:
        return self.start * (0.1 + 0.9 * remaining)


def _load_model(config: TrainingConfig, out: Path) -> Any:
    path = out / "model.zip"
    try:
        if config.algorithm is Algorithm.PPO:
            from sb3_contrib import MaskablePPO

            return MaskablePPO.load(path, env=_environments(config), device="cpu")
        from envs.masked_dqn import MaskedDQN

        model = MaskedDQN.load(path, env=_environments(config), device="cpu")
        model.load_replay_buffer(out / "replay.pkl")
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise UserError(f"cannot read the checkpoint ({error})", where=str(path)) from None
    return model


def _set_logger(model: Any, out: Path) -> Path:
    """Log for TensorBoard; returns the folder it reads."""
    from stable_baselines3.common.logger import configure

    folder = out / "log"
    model.set_logger(configure(str(folder), ["tensorboard"]))
    return folder


def _make_callback(config: TrainingConfig, out: Path, progress: Progress | None) -> Any:
    from stable_baselines3.common.callbacks import BaseCallback

    class Callback(BaseCallback):  # type: ignore[misc]
        """Reports progress and writes checkpoints."""

        def __init__(self) -> None:
            super().__init__()
            self.saved = 0

        def _on_training_start(self) -> None:
            self.saved = int(self.num_timesteps)

        def _on_step(self) -> bool:
            if progress is not None and self.n_calls % 16 == 0:
                gains = [episode["r"] for episode in self.model.ep_info_buffer or ()]
                progress(int(self.num_timesteps), config.timesteps, float(np.mean(gains)) if gains else 0.0)
            if self.num_timesteps - self.saved >= config.checkpoint_every:
                self.saved = int(self.num_timesteps)
                _save(self.model, config, out)
                _export(self.model, config, out / "checkpoints" / f"policy-{self.num_timesteps}.npz")
            return True

    return Callback()


def _save(model: Any, config: TrainingConfig, out: Path) -> None:
    """All that a resumption needs, and the policy on its own; `training.json` last, it vouches for the others."""
    model.save(out / "model.zip")
    if config.algorithm is Algorithm.DQN:
        model.save_replay_buffer(out / "replay.pkl")
    _export(model, config, out / "policy.npz")
    state = {"environment": ENVIRONMENT_ID, "timesteps": int(model.num_timesteps), "config": config.to_json()}
    write_json(out / "training.json", json.loads(json.dumps(state)))


def _export(model: Any, config: TrainingConfig, path: Path) -> None:
    from torch import nn

    if config.algorithm is Algorithm.PPO:
        modules = [*model.policy.mlp_extractor.policy_net, model.policy.action_net]
    else:
        modules = list(model.policy.q_net.q_net)
    linear = [m for m in modules if isinstance(m, nn.Linear)]
    network = Network(
        tuple(m.weight.detach().cpu().numpy().copy() for m in linear),
        tuple(m.bias.detach().cpu().numpy().copy() for m in linear),
    )
    save_policy(path, Policy(network, ENVIRONMENT_ID, config.algorithm.value, int(model.num_timesteps), config.seed))


@dataclass(frozen=True)
class ScheduleTrainer:
    """What `codesign train` finds by entry point.

    Args:
        environment: The environment it trains on.
    """

    environment: str = ENVIRONMENT_ID

    def train(
        self, options: Mapping[str, Any], out: Path, *, resume: bool, progress: Progress | None = None
    ) -> dict[str, Any]:
        """Train with options by name (those of `TrainingConfig`), and say what came of it.

        Raises:
            UserError: As `train`.
        """
        given = {name: value for name, value in options.items() if value is not None}
        if "algorithm" in given:
            names = [a.value for a in Algorithm]
            if given["algorithm"] not in names:
                raise UserError(f"--algorithm must be {' or '.join(names)}, got {given['algorithm']!r}")
            given["algorithm"] = Algorithm(given["algorithm"])
        result = train(TrainingConfig(**given), out, resume=resume, progress=progress)
        return {
            "status": "ok",
            "environment": self.environment,
            "policy": str(result.policy_path),
            "timesteps": result.timesteps,
            "seconds": result.seconds,
            "mean_gain": result.mean_gain,
            "log": str(result.log),
        }


TRAINER = ScheduleTrainer()
