"""Random numbers inside compiled code: xoshiro256** on an explicit state, so that nothing is global.

Source: Blackman and Vigna, "Scrambled linear pseudorandom number generators", ACM TOMS 2021.
"""

import numpy as np
import numpy.typing as npt

from codesign.core.jit import njit

RandomState = npt.NDArray[np.uint64]


def make_state(seed: int, stream: int = 0) -> RandomState:
    """A generator state of four words; different streams of one seed are independent.

    Raises:
        ValueError: The seed is negative.
    """
    words = np.random.SeedSequence(seed, spawn_key=(stream,)).generate_state(4, np.uint64)
    return words.astype(np.uint64)


@njit
def next_word(state: RandomState) -> int:
    """The next 64 random bits."""
    s1 = state[1]
    x = s1 * np.uint64(5)
    result = ((x << np.uint64(7)) | (x >> np.uint64(57))) * np.uint64(9)
    t = s1 << np.uint64(17)
    state[2] ^= state[0]
    state[3] ^= s1
    state[1] ^= state[2]
    state[0] ^= state[3]
    state[2] ^= t
    s3 = state[3]
    state[3] = (s3 << np.uint64(45)) | (s3 >> np.uint64(19))
    return result  # type: ignore[no-any-return]


@njit
def uniform(state: RandomState) -> float:
    """A double in [0, 1)."""
    return float(next_word(state) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit
def below(state: RandomState, n: int) -> int:
    """An integer in 0..n-1; the bias is below n / 2**53."""
    return int(uniform(state) * n)
