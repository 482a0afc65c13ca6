"""Arguments that are files, preset names or layers, in any order, as `evaluate`, `map`, `convert` and `build` take them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from codesign.core.errors import UserError

if TYPE_CHECKING:
    from codesign.arch.architecture import Architecture
    from codesign.formats.load import Inputs
    from codesign.workloads.computation import Computation


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
