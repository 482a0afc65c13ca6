"""What kernels need beyond the language: sorting, and the greatest common divisor."""

import numpy as np
import numpy.typing as npt

from codesign.core.jit import njit

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@njit
def _sift(values: IntArray, root: int, past: int) -> None:
    """Let one value of a heap sink to its place."""
    while 2 * root + 1 < past:
        child = 2 * root + 1
        if child + 1 < past and values[child + 1] > values[child]:
            child += 1
        if values[root] >= values[child]:
            return
        values[root], values[child] = values[child], values[root]
        root = child


@njit
def sort_in_place(values: IntArray) -> None:
    """Sort numbers: by insertion where they are few, as a heap where they are many."""
    n = values.shape[0]
    if n <= 24:
        for i in range(1, n):
            value = values[i]
            j = i
            while j > 0 and values[j - 1] > value:
                values[j] = values[j - 1]
                j -= 1
            values[j] = value
        return
    for root in range(n // 2 - 1, -1, -1):
        _sift(values, root, n)
    for past in range(n - 1, 0, -1):
        values[0], values[past] = values[past], values[0]
        _sift(values, 0, past)


@njit
def sort_unique(values: IntArray) -> int:
    """Sort numbers in place and put the different ones first; returns how many there are."""
    sort_in_place(values)
    n = 0
    for i in range(values.shape[0]):
        if n == 0 or values[i] != values[n - 1]:
            values[n] = values[i]
            n += 1
    return n


@njit
def stable_order(keys: FloatArray) -> IntArray:
    """Places of numbers from the least to the greatest, equal ones in their order: a merge sort."""
    n = keys.shape[0]
    order, other = np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        order[i] = i
    width = 1
    while width < n:
        for start in range(0, n, 2 * width):
            left, right = start, min(start + width, n)
            middle, past = right, min(start + 2 * width, n)
            for k in range(start, past):
                if left < middle and (right >= past or keys[order[left]] <= keys[order[right]]):
                    other[k] = order[left]
                    left += 1
                else:
                    other[k] = order[right]
                    right += 1
        order[:] = other
        width *= 2
    return order


@njit
def gcd(a: int, b: int) -> int:
    """The greatest common divisor of two positive numbers, by Euclid."""
    while b > 0:
        a, b = b, a % b
    return a
