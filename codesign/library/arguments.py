"""Arguments that are files, preset names or layers, in any order, as `evaluate`, `map`, `convert` and `build` take them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from codesign.core.errors import UserError

if TYPE_CHECKING:
    from codesign.arch.architecture import Architecture
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

    def resolve(self, files: Sequence[str] | None = None, *, imperfect: bool = False) -> "Inputs":
        """The values that files and options name.

        Args:
            files: In any order; an argument that is no file and has no suffix is a preset, one with ``=`` a layer.
            imperfect: Whether the factors of a mapping may multiply to more than the bounds.

        Raises:
            UserError: A file, preset or layer is unknown or malformed, or something is given twice.
        """
        from codesign.formats.load import load_inputs
        from codesign.workloads.layer_string import parse_layer

        paths, preset, layer = self._split(files or ())
        return load_inputs(
            paths,
            architecture=self._built_in(preset),
            computation=None if layer is None else parse_layer(layer),
            clock_hz=self.clock_hz,
            technology=self.technology if preset is None else None,
            imperfect=imperfect,
        )

    def hardware(self, files: Sequence[str] | None = None) -> "tuple[Hardware, Architecture]":
        """The accelerator alone.

        Raises:
            UserError: Nothing describes one, or something describes a layer.
        """
        from codesign.formats.load import load_hardware

        paths, preset, layer = self._split(files or ())
        if layer is not None:
            raise UserError(f"--network and the layer {layer!r}: give one of them")
        found = load_hardware(
            paths,
            architecture=self._built_in(preset),
            clock_hz=self.clock_hz,
            technology=self.technology if preset is None else None,
        )
        if found.architecture is None:
            raise UserError("no file describes an architecture", hint="give a file or a preset, e.g. --arch eyeriss")
        return found, found.architecture

    def _built_in(self, preset: str | None) -> "Architecture | None":
        """The preset of that name, which takes the technology.

        Raises:
            UserError: There is none of that name, nor such a technology.
        """
        from codesign.arch.presets import load_preset

        return None if preset is None else load_preset(preset, self.technology)

    def _split(self, files: Sequence[str]) -> tuple[list[str], str | None, str | None]:
        """The files, the name of a preset where no file gives the architecture, and a layer string.

        Raises:
            UserError: Two presets or two layers, or a clock that is not positive.
        """
        if self.clock_hz is not None and not self.clock_hz > 0:
            raise UserError(f"--clock-hz must be > 0, got {self.clock_hz:g}")
        paths: list[str] = []
        presets: list[str] = []
        layers: list[str] = []
        for text, kind in [*((f, "") for f in files), (self.arch or "", "arch"), (self.layer or "", "layer")]:
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
        return paths, presets[0] if presets else None, layers[0] if layers else None


def _is_file(text: str) -> bool:
    path = Path(text)
    if "=" in text and not path.exists():
        return False
    return path.exists() or bool(path.suffix) or "/" in text
