"""Deep Q-learning (Mnih et al., Nature 2015) that never takes, nor expects to take, an action that does not exist.

Stable-Baselines3's DQN knows no masks. Here the observation carries the mask as its last entries: impossible actions get a value of
minus infinity (so targets and greedy actions skip them) and exploration draws among the possible ones. Without it most random actions
are refused and the maximum over next values is taken over actions that were never tried.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from stable_baselines3 import DQN
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork

_IMPOSSIBLE = -1e8


class MaskedQNetwork(QNetwork):  # type: ignore[misc]
    """Q-values with those of impossible actions pushed out of reach."""

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Values: ``n x actions``."""
        features = self.extract_features(obs, self.features_extractor)
        mask = features[:, -int(self.action_space.n) :]
        return self.q_net(features).masked_fill(mask < 0.5, _IMPOSSIBLE)


class MaskedDQNPolicy(DQNPolicy):  # type: ignore[misc]
    """The policy that makes such networks."""

    def make_q_net(self) -> MaskedQNetwork:
        """One network (the online or the target one)."""
        arguments = self._update_features_extractor(self.net_args, features_extractor=None)
        network: MaskedQNetwork = MaskedQNetwork(**arguments).to(self.device)
        return network


class MaskedDQN(DQN):  # type: ignore[misc]
    """DQN whose exploration draws possible actions only."""

    def predict(
        self,
        observation: npt.NDArray[np.float32],
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[npt.NDArray[Any], Any]:
        """Greedy actions, or, with the exploration rate, random possible ones; decided for each environment."""
        greedy, state = self.policy.predict(observation, state, episode_start, deterministic)
        if deterministic:
            return greedy, state
        explore = np.random.rand(len(observation)) < self.exploration_rate
        return np.where(explore, self._random_actions(observation), greedy), state

    def _random_actions(self, observation: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
        possible = observation[:, -int(self.action_space.n) :] > 0.5
        actions: npt.NDArray[np.int64] = np.argmax(np.random.rand(*possible.shape) * possible, axis=1)
        return actions

    def _sample_action(
        self, learning_starts: int, action_noise: Any = None, n_envs: int = 1
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        if self.num_timesteps < learning_starts:
            actions = self._random_actions(self._last_obs)
        else:
            actions, _ = self.predict(self._last_obs, deterministic=False)
        return actions, actions
