"""Numba's compiler behind a typed decorator, so that mypy keeps the signatures."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def njit(function: F) -> F:
    """Compile `function` to machine code on its first call and cache the result on disk."""
    import numba

    return cast(F, numba.njit(cache=True, nogil=True)(function))


def njit_parallel(function: F) -> F:
    """Like `njit`, with `numba.prange` loops run on all cores."""
    import numba

    return cast(F, numba.njit(cache=True, nogil=True, parallel=True)(function))
