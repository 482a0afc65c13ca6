"""Compiled: a small random generator whose state is an argument (splitmix64), so that every chain is reproducible."""

import numpy as np
import numpy.typing as npt

from codesign.core.jit import njit

StateArray = npt.NDArray[np.uint64]


@njit
def next_bits(state: StateArray) -> np.uint64:
    """64 random bits; advances `state[0]`."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.uint64(z ^ (z >> np.uint64(31)))


@njit
def uniform(state: StateArray) -> float:
    """A number in [0, 1)."""
    return float(next_bits(state) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit
def below(state: StateArray, n: int) -> int:
    """An integer in 0..n-1."""
    return int(uniform(state) * n)
