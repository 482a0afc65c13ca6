"""Reinforcement learning over the hardware as an optimiser: a policy chooses designs, what they gave trains it.

The policy after n designs is a function of these designs alone: it is trained on them batch by batch in the order they were told
(the actions of an episode are the choices of its design), so a resumed study proposes what an uninterrupted one would. The
weights of an episode are drawn in hindsight, several times per design: one evaluation teaches the policy about several trade-offs.
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from codesign.core.checks import check_least
from codesign.core.errors import UserError, unknown_name
from codesign.optim.protocols import Floats, History, Indices, Problem
from envs.hardware import HardwareEnv, Scale, action_mask, draw_weights, observe, reward_of
from spaces.space import Space

_TRIES = 30


@final
@dataclass(frozen=True)
class ReinforcedSearch:
    """Proximal policy optimisation (Schulman et al., 2017) with action masks (sb3-contrib) on `codesign/Hardware`.

    Args:
        problem: What is searched; its space is a `spaces.Space`.
        algorithm: `ppo`.
        episodes: Designs per update of the policy; before the first update it is random.
        weightings: Weight vectors drawn per told design.
        epochs: Passes over the batch of an update.
        width: Units of each of the two hidden layers.
        learning_rate: Of Adam.
        entropy: Weight of the entropy bonus, which keeps the policy from settling early.
    """

    problem: Problem
    algorithm: str = "ppo"
    episodes: int = 8
    weightings: int = 4
    epochs: int = 10
    width: int = 64
    learning_rate: float = 1e-3
    entropy: float = 0.01
    _cache: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.algorithm != "ppo":
            raise unknown_name("algorithm of 'rl'", self.algorithm, ["ppo"])
        if not isinstance(self.problem.space, Space):
            raise UserError("rl: the space must be a `spaces.Space`", where=type(self.problem.space).__name__)
        check_least(1, where="optimizer 'rl'", episodes=self.episodes, weightings=self.weightings)
        check_least(1, where="optimizer 'rl'", epochs=self.epochs, width=self.width)

    def propose(self, history: History, count: int, rng: np.random.Generator) -> Indices:
        """Designs drawn from the policy, each for weights drawn at random; repeats and invalid designs left out."""
        with _one_thread():
            with _private_randomness(self.problem.seed):
                model = self._trained(history)
            return self._sample(model, history, count, rng)

    # ---- acting --------------------------------------------------------------------------------

    def _sample(self, model: Any, history: History, count: int, rng: np.random.Generator) -> Indices:
        known = {row.tobytes() for row in history.known()}
        found: list[Indices] = []
        for _ in range(_TRIES * count):
            row = self._draw(model, rng)
            if row.tobytes() not in known and self.problem.space.is_valid(row[None, :])[0]:
                known.add(row.tobytes())
                found.append(row)
                if len(found) == count:
                    break
        return np.array(found, dtype=np.int64).reshape(-1, len(self.problem.space.names))

    def _draw(self, model: Any, rng: np.random.Generator) -> Indices:
        space = self._space
        weights = draw_weights(len(self.problem.objectives), rng)
        choices = np.zeros(space.dimension, dtype=np.int64)
        for step in range(space.dimension):
            mask = action_mask(space, choices, step)
            seen = model.policy.obs_to_tensor(observe(space, choices, step, weights))[0]
            shares = model.policy.get_distribution(seen, mask[None, :]).distribution.probs
            shares = np.where(mask, shares.detach().numpy()[0].astype(np.float64), 0.0)
            choices[step] = int(rng.choice(len(mask), p=shares / shares.sum()))
        row: Indices = np.ascontiguousarray(space.canonical(choices[None, :])[0])
        return row

    @property
    def _space(self) -> Space:
        space = self.problem.space
        assert isinstance(space, Space)
        return space

    # ---- learning ------------------------------------------------------------------------------

    def _trained(self, history: History) -> Any:
        """The policy after every complete batch of the history; goes on from the last call where that was a part of it."""
        batches = len(history.indices) // self.episodes
        cached = self._cache.get("state")
        if cached is None or not self._is_prefix(cached[0], history) or cached[1] > batches:
            cached = (None, 0, self._fresh())
        model = cached[2]
        for batch in range(cached[1], batches):
            self._update(model, history, batch)
        self._cache["state"] = (history, batches, model)
        return model

    def _is_prefix(self, earlier: History | None, history: History) -> bool:
        if earlier is None:
            return True
        values = history.objectives[: len(earlier.indices)]
        return history.goes_on(earlier.indices) and np.array_equal(earlier.objectives, values, equal_nan=True)

    def _fresh(self) -> Any:
        from sb3_contrib import MaskablePPO
        from stable_baselines3.common.logger import configure

        env = HardwareEnv(self._space, _never, self.problem.objectives)
        steps = self.episodes * self.weightings * self._space.dimension
        model = MaskablePPO(
            "MlpPolicy",
            env,
            learning_rate=self.learning_rate,
            n_steps=steps,
            batch_size=min(64, steps),
            n_epochs=self.epochs,
            gamma=1.0,
            gae_lambda=1.0,
            ent_coef=self.entropy,
            policy_kwargs={"net_arch": [self.width, self.width]},
            seed=self.problem.seed,
            device="cpu",
        )
        model.set_logger(configure(None, []))
        return model

    def _update(self, model: Any, history: History, batch: int) -> None:
        """One update of the policy on one batch of told designs."""
        import torch

        seed = (self.problem.seed * 1_000_003 + batch) % 2**31
        rng = np.random.default_rng([self.problem.seed, batch, 7])
        torch.manual_seed(seed)
        np.random.seed(seed)
        first, last = batch * self.episodes, (batch + 1) * self.episodes
        scale = Scale.of(np.where(history.valid[:last, None], history.objectives[:last], np.nan))
        episodes = []
        for row in range(first, last):
            values = history.objectives[row] if history.valid[row] else None
            for _ in range(self.weightings):
                weights = draw_weights(len(self.problem.objectives), rng)
                episodes.append((history.indices[row], weights, reward_of(values, weights, scale)))
        self._fill(model, episodes)
        model.train()

    def _fill(self, model: Any, episodes: Sequence[tuple[Indices, Floats, float]]) -> None:
        """Put episodes into the learner's buffer as if the policy had just played them."""
        import torch

        space, d = self._space, self._space.dimension
        seen = np.array([observe(space, row, step, weights) for row, weights, _ in episodes for step in range(d)])
        masks = np.array([action_mask(space, row, step) for row, _, _ in episodes for step in range(d)])
        actions = np.concatenate([row for row, _, _ in episodes])
        with torch.no_grad():
            values, log_probabilities, _ = model.policy.evaluate_actions(
                torch.as_tensor(seen), torch.as_tensor(actions), torch.as_tensor(masks)
            )
        buffer = model.rollout_buffer
        buffer.reset()
        for k in range(len(seen)):
            start, earned = k % d == 0, episodes[k // d][2] if k % d == d - 1 else 0.0
            buffer.add(
                seen[k : k + 1],
                actions[k : k + 1, None],
                np.array([earned]),
                np.array([start]),
                values[k],
                log_probabilities[k],
                action_masks=masks[k : k + 1],
            )
        buffer.compute_returns_and_advantage(torch.zeros(1), np.ones(1))


def _never(point: dict[str, Any]) -> None:
    raise AssertionError("the optimiser's environment describes spaces; designs are evaluated by who asked for them")


@contextmanager
def _one_thread() -> Iterator[None]:
    """Networks this small cost ten times the CPU time on several threads, and sums in another order give another policy."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _private_randomness(seed: int) -> Iterator[None]:
    """Leave the global generators, which the learner seeds and draws from, as they were."""
    import torch

    kept = (random.getstate(), np.random.get_state())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(kept[0])
            np.random.set_state(kept[1])
