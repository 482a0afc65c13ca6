"""Kernels: Python functions that run as machine code.

`njit` marks a kernel. Its first call from Python compiles it, with every kernel it calls, for the types of the
arguments: in a second or less for most. The code is kept on disk (`codesign.core.compiler.store`), so later runs
load it in a millisecond. What kernels may use is in `docs/explanation/compiled-kernels.md`.
"""

import inspect
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import update_wrapper
from pathlib import Path
from typing import Any, TypeVar, cast

from codesign.core.compiler import store
from codesign.core.compiler.results import Converter, converter
from codesign.core.compiler.source import Source, body_of
from codesign.core.compiler.types import FLOAT, INT, CompileError, Scalar, Type, describe, type_of

LOG = "CODESIGN_KERNEL_LOG"
"""Environment variable: a file that gets one line of JSON for every kernel compiled, by this process and its workers."""

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Compilation:
    """One piece of code that was made, or is about to be.

    Attributes:
        signature: The kernel and its argument types.
        functions: Kernels in it.
        seconds: Time it took; 0 while it goes on.
    """

    signature: str
    functions: int
    seconds: float = 0.0


_one_at_a_time = threading.RLock()
"""Held while code is made and loaded."""

_listeners: list[Callable[[Compilation], None]] = []


def on_compilation(tell: Callable[[Compilation], None]) -> None:
    """Call `tell` when a compilation begins and again when it has ended."""
    _listeners.append(tell)


def stop_telling(tell: Callable[[Compilation], None]) -> None:
    """No longer call what `on_compilation` was given."""
    _listeners.remove(tell)


@dataclass
class _Spent:
    """What this process has spent on compiling so far."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    functions: int = 0
    kernels: int = 0


_spent = _Spent()


def compiling_seconds() -> float:
    """Seconds that this process has spent on compiling so far."""
    return _spent.seconds


def compiling_cpu_seconds() -> float:
    """CPU seconds that this process has spent on compiling so far."""
    return _spent.cpu_seconds


def compiled() -> tuple[int, int]:
    """Kernels that this process has compiled so far, and functions in them."""
    return _spent.kernels, _spent.functions


def njit(function: F) -> F:
    """Make a kernel of a function; compiled when Python first calls it."""
    return cast(F, Kernel(function))


def njit_inline(function: F) -> F:
    """Make a kernel whose code is put into the place of every call."""
    return cast(F, Kernel(function, inline=True))


def njit_apart(function: F) -> F:
    """Make a kernel that is compiled on its own, when it is first called, for all kernels that call it.

    For what many kernels share and for what few requests reach. Its result must be declared: numbers, or a tuple of them.
    """
    return cast(F, Kernel(function, apart=True))


class Kernel:
    """A function that runs as machine code, one version for each list of argument types."""

    def __init__(self, function: Callable[..., Any], inline: bool = False, apart: bool = False) -> None:
        self.source = Source(function, inline, apart)
        self._addresses: dict[tuple[Type, ...], int] = {}
        self._versions: list[Callable[..., Any]] = []
        self._mismatch: object = None
        update_wrapper(self, function)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the version for these arguments, made now if there is none."""
        if not named:
            for version in self._versions:
                result = version(*arguments)
                if result is not self._mismatch:
                    return result
        return self._first_call(*arguments, **named)

    def __reduce__(self) -> str:
        return self.source.function.__qualname__

    def _first_call(self, *arguments: Any, **named: Any) -> Any:
        bound = inspect.signature(self.source.function).bind(*arguments, **named)
        bound.apply_defaults()
        values = bound.args
        for version in self._versions:
            result = version(*values)
            if result is not self._mismatch:
                return result
        version = self.make(self.kinds(values))
        result = version(*values)
        if result is self._mismatch:
            raise TypeError(f"{self.source.name} was compiled for {self.kinds(values)} and does not take them")
        return result

    def kinds(self, values: tuple[Any, ...]) -> tuple[Type, ...]:
        """The types that arguments are compiled for.

        Raises:
            TypeError: Kernels cannot take an argument.
        """
        return tuple(self._kind(name, value) for name, value in zip(self.source.parameters, values, strict=True))

    def _kind(self, name: str, value: Any) -> Type:
        kind = type_of(value)
        declared = self.source.scalars.get(name)
        if kind is None or (kind is FLOAT and declared is INT):
            expected = f"{declared.name}" if declared is not None else "a number, an array or a tuple of them"
            raise TypeError(f"{self.source.name}: `{name}` must be {expected}, got {_named(value)}")
        return declared if declared is not None and isinstance(kind, Scalar) else kind

    def make(self, kinds: tuple[Type, ...]) -> Callable[..., Any]:
        """The version for some types: from disk, or compiled now."""
        from codesign.core.compiler import machine

        self._mismatch = machine.MISMATCH
        with _one_at_a_time:
            code, symbol = code_for(self, kinds)
            version: Callable[..., Any] = machine.load(code, symbol)
            if self.source.apart:
                self._addresses[kinds] = machine.address_of(body_of(symbol))
        convert = converter(self.source.function)
        if convert is not None:
            version = _converted(version, convert, machine.MISMATCH)
        self._versions.append(version)
        return version

    def address(self, kinds: tuple[Type, ...]) -> int:
        """Where the machine code of a kernel apart stands, for kernels that call it."""
        with _one_at_a_time:
            if kinds not in self._addresses:
                self.make(kinds)
            return self._addresses[kinds]


def _converted(version: Callable[..., Any], convert: Converter, mismatch: object) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        result = version(*arguments)
        return result if result is mismatch else convert(result)

    return call


def _named(value: Any) -> str:
    kind = type(value).__name__
    return f"{kind} of {value.dtype} with {value.ndim} axes" if hasattr(value, "dtype") else kind


def signature_of(kernel: Kernel, kinds: tuple[Type, ...]) -> str:
    """A kernel and its argument types in one line."""
    return f"{kernel.source.name}({','.join(describe(kind) for kind in kinds)})"


def lacks(signature: str) -> bool:
    """Whether the kernel of a signature is loaded as Python and no code for it is on disk."""
    module = signature.partition("(")[0].rpartition(".")[0]
    return module in sys.modules and not any(store.has(name, places) for name, places in _names(module, signature))


def _names(module: str, signature: str) -> list[tuple[str, list[Path]]]:
    """Names that code may be kept under and where: made for this processor, then for those of the last ten years."""
    from codesign.core.compiler import machine

    place = store.folder()
    found = [(store.key(module, signature, machine.native()), [place] if place is not None else [])]
    if machine.runs_portable():
        found.append((store.key(module, signature, machine.PORTABLE), [store.PREBUILT]))
    return found


def code_for(kernel: Kernel, kinds: tuple[Type, ...]) -> tuple[bytes, str]:
    """Machine code of a version for this processor, and the name of its function."""
    place = store.folder()
    names = _names(kernel.source.function.__module__, signature_of(kernel, kinds))
    for name, places in names:
        code = store.find(name, places)
        if code is not None:
            return code, f"codesign_{name}"
    native, places = names[0]
    symbol = f"codesign_{native}"
    with store.alone(native, place):
        code = store.find(native, places)  # another process may have made it meanwhile
        if code is None:
            code = _compiled(kernel, kinds, symbol, portable=False)
            if place is not None:
                store.keep(native, code, place)
    return code, symbol


def build_portable(kernel: Kernel, kinds: tuple[Type, ...], place: Path) -> None:
    """Compile a version for processors of the last ten years into a folder, unless it is there."""
    from codesign.core.compiler import machine

    name = store.key(kernel.source.function.__module__, signature_of(kernel, kinds), machine.PORTABLE)
    if store.find(name, [place]) is None:
        store.keep(name, _compiled(kernel, kinds, f"codesign_{name}", portable=True), place)


def _compiled(kernel: Kernel, kinds: tuple[Type, ...], symbol: str, portable: bool) -> bytes:
    from codesign.core.compiler import machine
    from codesign.core.compiler.unit import Unit

    start, cpu = time.perf_counter(), time.process_time()
    unit = Unit()
    try:
        text = unit.text(kernel.source, kinds, symbol)
    except CompileError as error:
        raise error.within(signature_of(kernel, kinds)) from None
    job = Compilation(signature_of(kernel, kinds), len(unit.versions))
    for tell in list(_listeners):
        tell(job)
    code = machine.compile_text(text, portable)
    seconds = time.perf_counter() - start
    _spent.seconds += seconds
    _spent.cpu_seconds += time.process_time() - cpu
    _spent.functions += job.functions
    _spent.kernels += 1
    for tell in list(_listeners):
        tell(Compilation(job.signature, job.functions, seconds))
    if os.environ.get(LOG):
        with open(os.environ[LOG], "a", encoding="utf-8") as log:
            log.write(
                json.dumps({"kernel": job.signature, "functions": job.functions, "seconds": round(seconds, 3)}) + "\n"
            )
    return code
