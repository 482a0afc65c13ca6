"""Kernels give what Python gives: each function here runs as machine code and as Python, on the same arguments."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign.core.compiler.types import CompileError
from codesign.core.jit import Kernel, njit

INTEGERS = st.integers(-(2**31), 2**31)
FLOATS = st.floats(allow_nan=False, allow_infinity=True, width=64)


class Pair(NamedTuple):
    values: np.ndarray
    weight: float


class Nested(NamedTuple):
    pair: Pair
    sizes: tuple[int, int]


TABLE = np.array([3, 1, 4, 1, 5], np.int64)
POWERS = (1, 2, 4, 8)


def python(kernel: Any) -> Callable[..., Any]:
    """The function of a kernel that calls no other kernel."""
    assert isinstance(kernel, Kernel)
    return kernel.source.function


@njit
def integer_operators(a: int, b: int) -> tuple[int, int, int, int, int, int, int, int]:
    return a + b, a - b, a * (b % 1000), a & b, a | b, a ^ b, -a, ~b


@njit
def integer_division(a: int, b: int) -> tuple[int, int, float]:
    return a // b, a % b, a / b


@njit
def float_operators(a: float, b: float) -> tuple[float, float, float, float]:
    return a + b, a - b, a * b, -a


@njit
def float_division(a: float, b: float) -> tuple[float, float, float]:
    return a / b, a // b, a % b


@njit
def comparisons(a: float, b: float) -> tuple[bool, bool, bool, bool, bool, bool, bool]:
    return a < b, a <= b, a > b, a >= b, a == b, a != b, 0.0 < a <= b < 1e9


@njit
def extremes(a: float, b: int, c: int) -> tuple[float, int, float, float]:
    return min(a, b), max(b, c), max(a, b, c), abs(a) + abs(c)


@njit
def truths(a: int, b: int) -> tuple[bool, bool, bool, bool]:
    return a > 0 and b > 0, a > 0 or b > 0, not a, a in (1, 2, b)


@njit
def chosen(a: int, b: float) -> float:
    return a if a > b else b


@njit
def becomes_float(n: int, step: float) -> float:
    total = 0
    for _ in range(n):
        total += step
    return total


@njit
def nested_loops(n: int) -> int:
    found = 0
    for i in range(n):
        j = n
        while True:
            j -= 2
            if j < i:
                break
            if (i + j) % 3 == 0:
                continue
            found += i * j
    for k in range(n, -n, -3):
        if k == 4:
            return found
        found -= k
    return found


@njit
def constants(k: int) -> tuple[int, int, float, int]:
    total = 0
    for power in POWERS:
        total += power * k
    return TABLE[k % 5], POWERS[k % 4], math.inf, total


@njit
def fibonacci(n: int) -> int:
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)


@njit
def weighed(pair: Pair) -> float:
    total = 0.0
    for value in pair.values:
        total += value * pair.weight
    return total


@njit
def through_tuples(nested: Nested, n: int) -> tuple[float, int, Pair]:
    made = Pair(nested.pair.values[1:], nested.pair.weight + n)
    return weighed(made) + weighed(nested.pair), nested.sizes[0] * nested.sizes[1] + len(nested.sizes), made


@pytest.mark.parametrize("kernel", [integer_operators, truths])
@given(a=INTEGERS, b=INTEGERS)
@settings(max_examples=60)
def test_integers(kernel: Any, a: int, b: int) -> None:
    assert kernel(a, b) == python(kernel)(a, b)


@given(a=INTEGERS, b=INTEGERS.filter(bool))
def test_integer_division_is_floored(a: int, b: int) -> None:
    assert integer_division(a, b) == python(integer_division)(a, b)


@pytest.mark.parametrize("kernel", [float_operators, comparisons])
@given(a=FLOATS, b=FLOATS)
@settings(max_examples=60)
def test_floats(kernel: Any, a: float, b: float) -> None:
    np.testing.assert_array_equal(kernel(a, b), python(kernel)(a, b))


@given(a=st.floats(-1e12, 1e12), b=st.floats(-1e6, 1e6).filter(bool))
def test_float_division_is_pythons(a: float, b: float) -> None:
    np.testing.assert_array_equal(float_division(a, b), python(float_division)(a, b))


def test_division_by_zero_gives_what_numpy_gives() -> None:
    assert integer_division(7, 0)[:2] == (0, 0)
    assert float_division(7.0, 0.0)[0] == math.inf


@given(a=st.floats(-1e6, 1e6), b=INTEGERS, c=INTEGERS)
def test_extremes_and_choices(a: float, b: int, c: int) -> None:
    assert extremes(a, b, c) == python(extremes)(a, b, c)
    assert chosen(b, a) == python(chosen)(b, a)


@given(n=st.integers(0, 40), step=st.floats(0, 1))
def test_a_variable_may_become_a_float(n: int, step: float) -> None:
    assert becomes_float(n, step) == python(becomes_float)(n, step)


@pytest.mark.parametrize("n", range(9))
def test_loops_and_constants(n: int) -> None:
    assert nested_loops(n) == python(nested_loops)(n)
    assert constants(n) == python(constants)(n)
    assert fibonacci(n) == [0, 1, 1, 2, 3, 5, 8, 13, 21][n]


def test_tuples_go_in_and_come_out_as_their_classes() -> None:
    nested = Nested(Pair(np.arange(4.0), 2.0), (3, 5))
    total, size, made = through_tuples(nested, 1)
    assert (total, size) == (6 * 3.0 + 6 * 2.0, 17)
    assert isinstance(made, Pair)
    np.testing.assert_array_equal(made.values, [1.0, 2.0, 3.0])


@njit
def slices(a: np.ndarray, i: int, j: int) -> tuple[np.ndarray, np.ndarray, float]:
    part = a[i:j].copy()
    part[:1] = 7.0
    twice = a * 2.0 + 1.0
    twice[-2:] -= a[:2]
    return part, twice, part.sum()


@njit
def planes(cube: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, int, bool]:
    column = cube[:, k, :]
    column[0, :] = cube[1, k]
    again = np.concatenate((cube[0], np.zeros_like(cube[1])))
    return column.copy(), again, cube[k].max(), (cube[0] == cube[1]).all()


@given(i=st.integers(-7, 7), j=st.integers(-7, 7))
def test_slices_are_cut_as_pythons(i: int, j: int) -> None:
    if len(range(5)[i:j]) == 0:
        return
    ours, theirs = slices(np.arange(5.0), i, j), python(slices)(np.arange(5.0), i, j)
    for x, y in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("k", range(3))
def test_views_of_every_layout(order: str, k: int) -> None:
    cube = np.asarray(np.arange(27).reshape(3, 3, 3) % 7, order=order)  # type: ignore[call-overload]
    ours, theirs = planes(cube.copy(order), k), python(planes)(cube.copy(order), k)  # type: ignore[arg-type]
    for x, y in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(x, y)


@njit
def memory(n: int) -> float:
    total = 0.0
    for i in range(n):
        part = np.full(1000, i)
        total += part[i % 1000] + np.ones(3).sum() + np.arange(2, 5)[1]
    return total


def test_memory_of_calls_is_given_back() -> None:
    import resource

    memory(10)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(300):
        memory(1000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024  # kilobytes; 2.4 GB were taken


def test_a_fault_names_line_construct_and_mend() -> None:
    @njit
    def uses_a_list(n: int) -> int:
        values = [n]
        return len(values)

    with pytest.raises(CompileError, match=r"kernels have no List .*test_language\.py:\d+"):
        uses_a_list(1)

    @njit
    def cuts(a: np.ndarray, x: float) -> float:
        return a[x]

    with pytest.raises(CompileError, match=r"indexes an array with a float .*write int\(\.\.\.\)"):
        cuts(np.zeros(2), 1.0)


def test_arguments_of_the_wrong_kind_are_named() -> None:
    with pytest.raises(TypeError, match=r"fibonacci: `n` must be int, got float"):
        fibonacci(1.5)
    with pytest.raises(TypeError, match=r"weighed: `pair` must be a number, an array or a tuple of them, got str"):
        weighed("no")
    with pytest.raises(TypeError, match="got ndarray of complex128 with 1 axes"):
        slices(np.zeros(3, complex), 0, 1)
    with pytest.raises(TypeError, match="missing a required argument"):
        fibonacci()


def test_an_array_is_not_changed_as_a_whole() -> None:
    @njit
    def adds(a: np.ndarray) -> float:
        a += 1.0
        return a[0]

    with pytest.raises(CompileError, match=r"changes array 'a' as a whole.*write a\[:\] \+="):
        adds(np.zeros(2))
