"""What `evaluate`, `map` and `convert` share: arguments that are files, preset names or layers."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from codesign.core.errors import UserError
from codesign.library.arguments import resolve, split_arguments

if TYPE_CHECKING:
    from codesign.arch.architecture import Architecture
    from codesign.cost.arrays import Reuse
    from codesign.formats.load import Hardware, Inputs


@dataclass(frozen=True)
class Sources:
    """Where the accelerator and the layer come from, besides the files that are given.

    Args:
        arch: Preset name, e.g. simba, or an architecture file.
        layer: E.g. "conv K=64 C=64 P=56 Q=56 R=3 S=3", "gemm M=128 N=768 K=768", or a problem file.
        clock_hz: Cycles per second; overrides the architecture's (Timeloop's files: 1 GHz).
        technology: Technology that fills in energies and areas the architecture leaves open.
    """

    arch: str | None = None
    layer: str | None = None
    clock_hz: float | None = None
    technology: str | None = None

    def resolve(self, files: Sequence[str] | None, *, imperfect: bool = False) -> "Inputs":
        """The values that files and options name; see `resolve`.

        Args:
            files: Named without an option.
            imperfect: Whether the factors of a mapping may multiply to more than the bounds.

        Raises:
            UserError: One is unknown or malformed, or something is given twice.
        """
        return resolve(
            files or [],
            arch=self.arch,
            layer=self.layer,
            clock_hz=self.clock_hz,
            technology=self.technology,
            imperfect=imperfect,
        )

    def hardware(self, files: Sequence[str] | None) -> "tuple[Hardware, Architecture]":
        """The accelerator alone.

        Raises:
            UserError: Nothing describes one, or something describes a layer.
        """
        from codesign.formats.load import load_hardware

        named = split_arguments(files or [], arch=self.arch, clock_hz=self.clock_hz, technology=self.technology)
        if named.layer is not None:
            raise UserError(f"--network and the layer {named.layer!r}: give one of them")
        found = load_hardware(
            named.paths, architecture=named.preset(), clock_hz=self.clock_hz, technology=named.left_technology()
        )
        if found.architecture is None:
            raise UserError("no file describes an architecture", hint="give a file or a preset, e.g. --arch eyeriss")
        return found, found.architecture


def parse_dims(text: str | None) -> dict[str, int] | None:
    """Lengths of axes by name from ``batch=4 seq=128``; None where nothing was given.

    Raises:
        UserError: It is not a list of NAME=NUMBER, or a name is given twice.

    >>> parse_dims("batch=4 seq=128")
    {'batch': 4, 'seq': 128}
    """
    if text is None:
        return None
    dims: dict[str, int] = {}
    for part in text.replace(",", " ").split():
        name, _, number = part.rpartition("=")
        if not name or not number.isdigit():
            raise UserError(
                f"--dims must be NAME=NUMBER, separated by spaces, got {part!r}", hint="--dims batch=4 seq=128"
            )
        if name in dims:
            raise UserError(f"--dims gives {name!r} twice")
        dims[name] = int(number)
    return dims


def counted(count: int, noun: str) -> str:
    """A number of things in words.

    >>> counted(1, "trial"), counted(3, "trial")
    ('1 trial', '3 trials')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


class _StderrHandler(logging.Handler):
    """Writes to what is stderr at the moment, which progress bars replace."""

    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(self.format(record), err=True)


def warnings_to_stderr() -> None:
    """Show the warnings of file readers as plain lines on stderr, each once, so that stdout holds the result alone."""
    seen: set[str] = set()

    def is_new(record: logging.LogRecord) -> bool:
        message = record.getMessage()
        new = message not in seen
        seen.add(message)
        return new

    handler = _StderrHandler(logging.WARNING)
    handler.addFilter(is_new)
    handler.setFormatter(logging.Formatter("warning: %(message)s"))
    logging.getLogger("codesign").handlers[:] = [handler]


def parse_reuse(name: str) -> "Reuse":
    """The reuse rule of that name.

    Raises:
        UserError: There is none.
    """
    from codesign.core.errors import unknown_name
    from codesign.cost.arrays import Reuse

    try:
        return Reuse[name.upper()]
    except KeyError:
        raise unknown_name("reuse rule", name, [r.name.lower() for r in Reuse]) from None
