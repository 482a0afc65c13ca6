"""Machine code on disk, found by what it was made from.

A file is named by a digest of everything that shapes it: the kernel and its argument types, the text and the
constants of every module of this project whose names the kernel's module uses, the compiler itself, the versions of Python and NumPy,
and the target: the processor with LLVM's version, or processors of one kind. So nothing is ever stale, and nothing needs to be cleared. A file begins with a digest of
its contents and is moved into place whole: one that is damaged, or cut short by a full disk, is made again.
"""

import contextlib
import hashlib
import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np

_log = logging.getLogger("codesign")

_PROJECT = ("codesign", "spaces", "envs", "experiments")

PREBUILT = Path(__file__).parent / "prebuilt"
"""Where a wheel carries code for processors of one kind."""


def key(module: str, signature: str, target: str) -> str:
    """The name of compiled code.

    Args:
        module: The kernel's module.
        signature: The kernel and its argument types.
        target: The processor that the code is for.
    """
    parts = (_module_digest(module), _compiler_digest(), signature, target)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


@cache
def _module_digest(module: str) -> str:
    digest = hashlib.sha256()
    for path, found in sorted(_sources(sys.modules[module]).items()):
        digest.update(_file_digest(path))
        for name, value in sorted(vars(found).items()):
            if not name.startswith("__"):
                digest.update(_constant(name, value))
    return digest.hexdigest()


def _constant(name: str, value: object) -> bytes:
    """What a global number, tuple or array adds: kernels hold its value, wherever it was defined."""
    if isinstance(value, np.ndarray):
        return f"{name} {value.dtype} {value.shape}".encode() + value.tobytes()
    return f"{name} {value!r}".encode() if _is_plain(value) else b""


def _is_plain(value: object) -> bool:
    return isinstance(value, int | float | np.generic) or (isinstance(value, tuple) and all(map(_is_plain, value)))


@cache
def _compiler_digest() -> str:
    from importlib.metadata import version

    python = ".".join(map(str, sys.version_info[:2]))
    digest = hashlib.sha256(f"python {python} numpy {version('numpy').split('.')[0]} {sys.maxsize}".encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(_file_digest(str(path)))
    return digest.hexdigest()


def _sources(module: ModuleType) -> dict[str, ModuleType]:
    """The project's modules that define a function or class this module's names refer to, itself included, by file."""
    found: dict[str, ModuleType] = {}
    pending = [module]
    while pending:
        current = pending.pop()
        path = getattr(current, "__file__", None)
        if path is None or path in found:
            continue
        found[path] = current
        for value in list(vars(current).values()):
            name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            if isinstance(name, str) and name.split(".")[0] in _PROJECT and name in sys.modules:
                pending.append(sys.modules[name])
    return found


@cache
def _file_digest(path: str) -> bytes:
    return hashlib.sha256(Path(path).read_bytes()).digest()


@cache
def folder() -> Path | None:
    """`$CODESIGN_CACHE`, else the user's cache folder; None, said once, where neither can be written."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    for root in (os.environ.get("CODESIGN_CACHE"), str(Path(base) / "codesign")):
        if root is None:
            continue
        path = Path(root) / "kernels"
        try:
            path.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=path):
                return path
        except OSError:
            continue
    _log.warning(
        "compiled kernels cannot be kept: no folder can be written; every run compiles again "
        "(set CODESIGN_CACHE to a folder that can)"
    )
    return None


def find(name: str, places: list[Path]) -> bytes | None:
    """Compiled code by its name, from the first place that has it undamaged."""
    for place in places:
        with contextlib.suppress(OSError):
            content = (place / f"{name}.o").read_bytes()
            if hashlib.sha256(content[32:]).digest() == content[:32]:
                return content[32:]
    return None


def has(name: str, places: list[Path]) -> bool:
    """Whether there is a file of a name; `find` says whether it is undamaged."""
    return any((place / f"{name}.o").is_file() for place in places)


def keep(name: str, code: bytes, place: Path) -> None:
    """Keep compiled code; a disk that is full or read-only is said once and no more."""
    try:
        handle, temporary = tempfile.mkstemp(dir=place, prefix=f"{name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(code).digest() + code)
            os.replace(temporary, place / f"{name}.o")
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        _cannot_keep(str(place), str(error))


@cache
def _cannot_keep(place: str, error: str) -> None:
    _log.warning("compiled kernels cannot be kept in %s: %s; the next run compiles again", place, error)


@contextlib.contextmanager
def alone(name: str, place: Path | None) -> Iterator[None]:
    """One process at a time makes a piece of code; the others wait for it. Without locks both make it."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield
        return
    handle = None
    if place is not None:
        with contextlib.suppress(OSError):
            handle = os.open(place / f"{name[:2]}.lock", os.O_CREAT | os.O_RDWR, 0o644)
            fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)
