"""Built-in accelerators by name. Each is a file in `architectures/`, its sources in comments, read as any other."""

from pathlib import Path

from codesign.arch.architecture import Architecture
from codesign.arch.files import architecture_from_json
from codesign.arch.technology import apply_technology
from codesign.arch.technology_files import load_technology
from codesign.core.errors import UserError, unknown_name
from codesign.core.files import read_structured

_FOLDER = Path(__file__).parent / "architectures"


def preset_names() -> tuple[str, ...]:
    """Names `load_preset` knows."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))


def preset_path(name: str) -> Path:
    """The file of a preset, to copy and change.

    Raises:
        UserError: There is no such preset.
    """
    if name not in preset_names():
        raise unknown_name("architecture", name, preset_names())
    return _FOLDER / f"{name}.yaml"


def load_preset(name: str, technology: str | None = None) -> Architecture:
    """A built-in accelerator with all energies, areas and leakages.

    Args:
        name: One of `preset_names`.
        technology: Name or file of a technology table; the one the preset names if not given.

    Raises:
        UserError: There is no such preset or technology.
    """
    return fill_figures(preset_outline(name), technology)


def preset_outline(name: str) -> Architecture:
    """A built-in accelerator without the figures that its technology fills in: change it first, then `fill_figures`.

    A change of `load_preset`'s value keeps the energies and areas of the sizes before.

    >>> small, large = (preset_outline("eyeriss").with_level("GlobalBuffer", capacity_bytes=n * 1024.0) for n in (64, 200))
    >>> fill_figures(small).area_mm2 < fill_figures(large).area_mm2
    True

    Raises:
        UserError: There is no such preset.
    """
    path = preset_path(name)
    return architecture_from_json(read_structured(path)["architecture"], str(path))


def fill_figures(architecture: Architecture, technology: str | None = None) -> Architecture:
    """The architecture with what it leaves open taken from a technology: the one given, else the one it names.

    Raises:
        UserError: Neither names a technology, or an unknown one.
    """
    name = architecture.technology if technology is None else technology
    if name is None:
        raise UserError(
            "no technology to take energies and areas from",
            where=f"architecture {architecture.name!r}",
            hint="give `technology: cmos-45nm`, or `energy` and `area_mm2` of every level and the MAC",
        )
    try:
        table = load_technology(name)
    except UserError as error:
        raise error.within(f"technology of architecture {architecture.name!r}") from None
    return apply_technology(architecture, table)
