"""Kernels: Python functions that run as machine code.

`njit` marks a kernel. Its first call from Python compiles it, with every kernel it calls, for the types of the
arguments: in a second or less for most. The code is kept on disk (`codesign.core.compiler.store`), so later runs
load it in a millisecond. What kernels may use is in `docs/explanation/compiled-kernels.md`.
"""

import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import update_wrapper
from pathlib import Path
from typing import Any, TypeVar, cast

from codesign.core.compiler import store
from codesign.core.compiler.results import Converter, converter
from codesign.core.compiler.source import Source
from codesign.core.compiler.types import FLOAT, INT, CompileError, Scalar, Type, describe, type_of

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


_listeners: list[Callable[[Compilation], None]] = []


def on_compilation(tell: Callable[[Compilation], None]) -> None:
    """Call `tell` when a compilation begins and again when it has ended."""
    _listeners.append(tell)


def stop_telling(tell: Callable[[Compilation], None]) -> None:
    """Undo `on_compilation`."""
    _listeners.remove(tell)


_seconds = 0.0


def compiling_seconds() -> float:
    """Seconds that this process has spent on compiling so far."""
    return _seconds


def njit(function: F) -> F:
    """Make a kernel of a function; compiled when Python first calls it."""
    return cast(F, Kernel(function))


def njit_inline(function: F) -> F:
    """Make a kernel whose code is put into the place of every call."""
    return cast(F, Kernel(function, inline=True))


class Kernel:
    """A function that runs as machine code, one version for each list of argument types."""

    def __init__(self, function: Callable[..., Any], inline: bool = False) -> None:
        self.source = Source(function, inline)
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
        code, symbol = code_for(self, kinds)
        version: Callable[..., Any] = machine.load(code, symbol)
        convert = converter(self.source.function)
        if convert is not None:
            version = _converted(version, convert, machine.MISMATCH)
        self._versions.append(version)
        return version


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


def code_for(kernel: Kernel, kinds: tuple[Type, ...]) -> tuple[bytes, str]:
    """Machine code of a version for this processor, and the name of its function."""
    from codesign.core.compiler import machine

    signature = signature_of(kernel, kinds)
    module = kernel.source.function.__module__
    native = store.key(module, signature, ",".join(machine.processor()))
    symbol = f"codesign_{native}"
    place = store.folder()
    places = [place] if place is not None else []
    code = store.find(native, places)
    if code is not None:
        return code, symbol
    if machine.runs_portable():
        portable = store.key(module, signature, machine.PORTABLE)
        code = store.find(portable, [store.PREBUILT])
        if code is not None:
            return code, f"codesign_{portable}"
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

    global _seconds
    start = time.perf_counter()
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
    _seconds += seconds
    for tell in list(_listeners):
        tell(Compilation(job.signature, job.functions, seconds))
    return code
