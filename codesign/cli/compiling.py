"""One line on a terminal while kernels are compiled, and the seconds of it in every JSON document."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TextIO

import typer

from codesign.core import jit
from codesign.core.jit import Compilation


@dataclass
class CompilingLine:
    """Tells a terminal how many functions of how many are compiled and how long the rest takes.

    Attributes:
        command: The command that runs: its usual kernels are known.
        stream: Where the line goes.
    """

    command: str
    stream: TextIO
    _missing: dict[str, int] = field(default_factory=dict)
    _done: int = 0
    _seconds: float = 0.0

    def __call__(self, job: Compilation) -> None:
        """Write the line again when a compilation begins, and wipe it when it has ended."""
        if job.seconds == 0.0:
            if not self._done:
                self._missing = _not_there(self.command)
            self.stream.write(f"\r\x1b[2m{self.text(job)}\x1b[0m\x1b[K")
        else:
            self._missing.pop(job.signature, None)
            self._done += job.functions
            self._seconds += job.seconds
            self.stream.write("\r\x1b[K")
        self.stream.flush()

    def text(self, job: Compilation) -> str:
        """The line while a kernel is compiled."""
        rest = sum(self._missing.values()) + (0 if job.signature in self._missing else job.functions)
        text = f"compiling for this machine, once: {self._done} of at most {self._done + rest} functions"
        if self._done:
            text += f", {max(1, round(rest * self._seconds / self._done))} s left"
        return text


def _not_there(command: str) -> dict[str, int]:
    """Kernels that a command usually needs and that are not on disk, with the functions in them."""
    from codesign.core.compiler import manifest

    usual = manifest.usual(command)
    return {signature: usual[signature] for signature in usual if jit.lacks(signature)}


def tell_terminal(arguments: list[str]) -> None:
    """Show compiling where a person watches."""
    if sys.stderr.isatty():
        command = next((word for word in arguments if not word.startswith("-")), "")
        jit.on_compilation(CompilingLine(command, sys.stderr))


def echo_json(document: Mapping[str, Any], indent: int | None = None) -> None:
    """Print a result, with the seconds that compiling took and that its other seconds do not hold."""
    typer.echo(json.dumps({**document, "compile_seconds": round(jit.compiling_seconds(), 3)}, indent=indent))
