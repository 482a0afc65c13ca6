"""What `evaluate`, `map` and `convert` share: arguments that are files, preset names or layers."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codesign.core.errors import UserError

if TYPE_CHECKING:
    from codesign.arch.architecture import Architecture
    from codesign.cost.arrays import Reuse
    from codesign.formats.load import Hardware, Inputs
    from codesign.workloads.computation import Computation


@dataclass(frozen=True)
class Sources:
    """Where the accelerator and the layer come from, besides the files that are given.

    Args:
        arch: Preset or file.
        layer: Text or file.
        clock_hz: Overrides the clock.
        technology: Fills in what the architecture leaves open.
    """

    arch: Annotated[str | None, typer.Option("--arch", help="Preset name, e.g. simba, or an architecture file.")] = None
    layer: Annotated[
        str | None,
        typer.Option(
            "--layer", help='E.g. "conv K=64 C=64 P=56 Q=56 R=3 S=3", "gemm M=128 N=768 K=768", or a problem file.'
        ),
    ] = None
    clock_hz: Annotated[
        float | None,
        typer.Option("--clock-hz", help="Cycles per second; overrides the architecture's (Timeloop's files: 1 GHz)."),
    ] = None
    technology: Annotated[
        str | None,
        typer.Option("--technology", help="Technology that fills in energies and areas the architecture leaves open."),
    ] = None

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


def resolve(
    arguments: Sequence[str],
    *,
    arch: str | None = None,
    layer: str | None = None,
    clock_hz: float | None = None,
    technology: str | None = None,
    imperfect: bool = False,
) -> "Inputs":
    """The values that the arguments name.

    Args:
        arguments: Files in any order; an argument that is no file and has no suffix is a preset, one with ``=`` a layer.
        arch: A preset name or an architecture file.
        layer: A layer string or a problem file.
        clock_hz: Overrides the clock.
        technology: Fills in what the architecture leaves open.
        imperfect: Whether the factors of a mapping may multiply to more than the bounds.

    Raises:
        UserError: A file, preset or layer is unknown or malformed, or something is given twice.
    """
    from codesign.formats.load import load_inputs

    named = split_arguments(arguments, arch=arch, layer=layer, clock_hz=clock_hz, technology=technology)
    return load_inputs(
        named.paths,
        architecture=named.preset(),
        computation=None if named.layer is None else _layer(named.layer),
        clock_hz=clock_hz,
        technology=named.left_technology(),
        imperfect=imperfect,
    )


@dataclass(frozen=True)
class Named:
    """What the arguments name, not yet read.

    Args:
        paths: The files.
        preset_name: Of the architecture, where no file gives it.
        layer: A layer string.
        technology: Fills in what the architecture leaves open.
    """

    paths: tuple[str, ...]
    preset_name: str | None
    layer: str | None
    technology: str | None

    def preset(self) -> "Architecture | None":
        """The built-in architecture.

        Raises:
            UserError: There is none of that name, nor such a technology.
        """
        return None if self.preset_name is None else _preset(self.preset_name, self.technology)

    def left_technology(self) -> str | None:
        """The technology for an architecture of the files; a preset has taken it already."""
        return None if self.preset_name is not None else self.technology


def split_arguments(
    arguments: Sequence[str],
    *,
    arch: str | None = None,
    layer: str | None = None,
    clock_hz: float | None = None,
    technology: str | None = None,
) -> Named:
    """Tell files, preset names and layers apart; the arguments are those of `resolve`.

    Raises:
        UserError: Two presets or two layers, or a clock that is not positive.
    """
    if clock_hz is not None and not clock_hz > 0:
        raise UserError(f"--clock-hz must be > 0, got {clock_hz:g}")
    paths: list[str] = []
    presets: list[str] = []
    layers: list[str] = []
    for text, kind in [*((a, "") for a in arguments), (arch or "", "arch"), (layer or "", "layer")]:
        if not text:
            continue
        if _is_file(text):
            paths.append(text)
        elif kind == "layer" or (kind == "" and "=" in text):
            layers.append(text)
        else:
            presets.append(text)
    for what, found in (("architecture", presets), ("layer", layers)):
        if len(found) > 1:
            raise UserError(f"two names for the {what}: {found[0]!r} and {found[1]!r}; give one")
    return Named(tuple(paths), presets[0] if presets else None, layers[0] if layers else None, technology)


def _is_file(text: str) -> bool:
    path = Path(text)
    if "=" in text and not path.exists():
        return False
    return path.exists() or bool(path.suffix) or "/" in text


def _preset(name: str, technology: str | None) -> "Architecture":
    from codesign.arch.presets import load_preset

    return load_preset(name, technology)


def _layer(text: str) -> "Computation":
    from codesign.workloads.layer_string import parse_layer

    return parse_layer(text)
