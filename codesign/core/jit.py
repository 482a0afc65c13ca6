"""Numba's compiler behind typed decorators, with a disk cache that notices changed dependencies.

Numba caches a compiled function under the time stamp of its own file only, so a change in a function it
calls would go unnoticed. Here the cache folder is named by the contents of every file of this project whose
names the function's module uses, directly or through other modules.
"""

import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

_PROJECT = ("codesign", "spaces", "envs", "experiments")

LONG_COMPILATION_S = 2.0
"""Seconds of compiling after which those who asked by `on_long_compilation` are told."""

_to_be_told: list[Callable[[], None]] = []


def on_long_compilation(tell: Callable[[], None]) -> None:
    """Call `tell` once, when compiling takes longer than `LONG_COMPILATION_S`.

    It takes long where no earlier run left the functions in the cache: in the first run after an installation.
    """
    _to_be_told.append(tell)


def njit(function: F) -> F:
    """Compile `function` to machine code on its first call and cache the result on disk.

    Division by zero gives infinity or zero as in NumPy instead of an exception: no check at every division.
    """
    return _compile(function, _nrt=True)


def njit_plain(function: F) -> F:
    """Like `njit`, for functions that make no arrays: no reference counts are kept.

    Numba counts references to every array argument at every call, atomically; in the cost kernel that was most
    of the time. Without counting a function must not allocate, return or keep an array.
    """
    return _compile(function, _nrt=False)


def njit_inline(function: F) -> F:
    """Like `njit_plain`, its code put into the place of every call.

    For small functions that take tuples of many arrays: a call copies all their descriptors, which costs more than
    the work.
    """
    return _compile(function, _nrt=False, forceinline=True)


def njit_parallel(function: F) -> F:
    """Like `njit`, with `numba.prange` loops run on all cores."""
    return _compile(function, parallel=True)


def _compile(function: F, **options: bool) -> F:
    import numba

    _watch_compilations()
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(_cache_folder(function))
    try:
        return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function))
    finally:
        numba.config.CACHE_DIR = before


@cache
def _watch_compilations() -> None:
    from numba.core import event

    class Watch(event.Listener):  # type: ignore[misc]
        starts: tuple[float, ...] = ()  # of the compilations under way, outermost first

        def on_start(self, event: object) -> None:
            self.starts += (time.monotonic(),)
            self._look()

        def on_end(self, event: object) -> None:
            self._look()
            self.starts = self.starts[:-1]

        def _look(self) -> None:
            if time.monotonic() - self.starts[0] > LONG_COMPILATION_S:
                while _to_be_told:
                    _to_be_told.pop()()

    event.register("numba:compile", Watch())


def _cache_folder(function: Callable[..., Any]) -> Path:
    digest = hashlib.sha256()
    for path in sorted(_sources(sys.modules[function.__module__])):
        digest.update(_file_digest(path))
    folder = _cache_root() / digest.hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _sources(module: ModuleType) -> set[str]:
    """Files of the project's modules that define something this module's names refer to, itself included."""
    found: set[str] = set()
    pending = [module]
    while pending:
        current = pending.pop()
        path = getattr(current, "__file__", None)
        if path is None or path in found:
            continue
        found.add(path)
        for value in list(vars(current).values()):
            name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            if isinstance(name, str) and name.split(".")[0] in _PROJECT and name in sys.modules:
                pending.append(sys.modules[name])
    return found


@cache
def _file_digest(path: str) -> bytes:
    return hashlib.sha256(Path(path).read_bytes()).digest()


@lru_cache(maxsize=1)
def _cache_root() -> Path:
    """`$CODESIGN_CACHE`, else the user's cache folder, else a temporary one; the first that can be written."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    for root in (os.environ.get("CODESIGN_CACHE"), str(Path(base) / "codesign")):
        if root is None:
            continue
        folder = Path(root) / "numba"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
        except OSError:
            continue
    return Path(tempfile.mkdtemp(prefix="codesign-numba-"))
