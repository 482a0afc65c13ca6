"""A trained policy as a search: the network's weights and what it was trained on, in one file; run without a learning library."""

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from codesign.core.errors import UserError
from codesign.tensorization.observation import OBSERVATION, VERSION
from codesign.tensorization.revisions import REVISIONS
from codesign.tensorization.search import GuidedPrograms

ENVIRONMENT = f"codesign/Schedule-v{VERSION}"
"""The environment whose policies this version can use."""

TRAINED = Path(__file__).parent / "data" / "schedule_policy.npz"
"""A policy that comes with the program, its weights in half precision; docs/explanation/hasco.md says how it was trained."""

FloatMatrix = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Network:
    """A fully-connected network with rectifiers between its layers.

    Args:
        weights: ``out x in`` of each layer.
        biases: ``out`` of each layer.
    """

    weights: tuple[FloatMatrix, ...]
    biases: tuple[FloatMatrix, ...]

    def __call__(self, observation: FloatMatrix) -> FloatMatrix:
        """Values of all revise choices: ``OBSERVATION`` -> ``REVISIONS``."""
        x = observation
        last = len(self.weights) - 1
        for k, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = weight @ x + bias
            if k < last:
                x = np.maximum(x, 0.0)
        return x


@dataclass(frozen=True)
class Policy:
    """What a checkpoint holds.

    Args:
        network: Values of revise choices.
        environment: Where it was trained.
        algorithm: ``dqn`` or ``ppo``: values are expected gains, or preferences.
        timesteps: Steps trained.
        seed: Of the training.
    """

    network: Network
    environment: str
    algorithm: str
    timesteps: int
    seed: int


def save_policy(path: str | Path, policy: Policy) -> None:
    """Write a policy file (NumPy's npz)."""
    about = {name: value for name, value in vars(policy).items() if name != "network"}
    arrays: dict[str, npt.NDArray[Any]] = {"about": np.array(json.dumps(about))}
    for k, (weight, bias) in enumerate(zip(policy.network.weights, policy.network.biases, strict=True)):
        arrays[f"weight{k}"], arrays[f"bias{k}"] = weight, bias
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **cast(Any, arrays))


def read_policy(path: str | Path) -> Policy:
    """Read a policy file.

    Raises:
        UserError: Missing, damaged, or from another version of the environment.
    """
    where = str(path)
    try:
        with np.load(path, allow_pickle=False) as data:
            about = json.loads(str(data["about"]))
            layers = sum(name.startswith("weight") for name in data.files)
            weights = tuple(np.asarray(data[f"weight{k}"], np.float32) for k in range(layers))
            biases = tuple(np.asarray(data[f"bias{k}"], np.float32) for k in range(layers))
        policy = Policy(
            Network(weights, biases),
            str(about["environment"]),
            str(about["algorithm"]),
            int(about["timesteps"]),
            int(about["seed"]),
        )
    except FileNotFoundError:
        raise UserError(f"no such checkpoint: {path}") from None
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile, EOFError) as error:
        raise UserError(f"not a checkpoint of a trained policy ({error})", where=where) from None
    check_environment(policy.environment, where)
    shapes = [w.shape for w in weights]
    if not weights or shapes[0][1] != OBSERVATION or shapes[-1][0] != REVISIONS:
        raise UserError(
            f"the network takes {shapes[0][1] if weights else 0} features, {ENVIRONMENT} gives {OBSERVATION}",
            where=where,
            hint="train it again",
        )
    return policy


def check_environment(environment: str, where: str) -> None:
    """Refuse what was trained in another version of the environment.

    Raises:
        UserError: With both versions.
    """
    if environment != ENVIRONMENT:
        raise UserError(
            f"this checkpoint was trained in {environment}, this version of the program has {ENVIRONMENT}",
            where=where,
            hint="train a new one with `codesign train`",
        )


def load_policy(path: str | Path) -> GuidedPrograms:
    """The search that a trained policy guides.

    Raises:
        UserError: Missing, damaged, or from another version of the environment.
    """
    policy = read_policy(path)
    return GuidedPrograms(policy.network, label=policy.algorithm)
