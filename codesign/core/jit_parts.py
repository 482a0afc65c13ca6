"""Decorators for parts of compiled functions: no entry from Python is compiled for them.

For a function that takes tuples of many arrays, unpacking them from Python objects takes longer to compile than the
work. Such functions make no arrays, as those of `codesign.core.jit.njit_plain`.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from codesign.core.jit import _compile

F = TypeVar("F", bound=Callable[..., Any])


def njit_part(function: F) -> F:
    """Compile `function` for calls from compiled code alone."""
    return _compile(function, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def njit_inline_part(function: F) -> F:
    """Like `njit_part`, its code put into the place of every call: a call copies the descriptors of all arrays."""
    return _compile(function, _nrt=False, forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
