"""Systems of many cores as YAML files, and those that come with the package."""

from dataclasses import replace
from pathlib import Path

from codesign.arch.core_kinds import with_architecture
from codesign.arch.many_core import ManyCore
from codesign.core.errors import UserError, unknown_name
from codesign.core.files import read_structured
from codesign.core.specs import spec_from_json

_FOLDER = Path(__file__).parent / "systems"


def system_names() -> tuple[str, ...]:
    """Names of the systems that come with the package."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))


def load_system(name: str) -> ManyCore:
    """A system by its name, or from a file.

    >>> load_system("simba-36").dies.count
    36

    Raises:
        UserError: There is no such system, or the file does not describe one.
    """
    path = Path(name) if name.endswith((".yaml", ".yml", ".json")) else _FOLDER / f"{name}.yaml"
    if path.parent == _FOLDER and not path.is_file():
        raise unknown_name("system", name, system_names(), where="a file of one's own ends in .yaml")
    raw = read_structured(path)
    try:
        system = spec_from_json(ManyCore, raw, str(path))
    except UserError as error:
        raise error.within(str(path)) from None
    return replace(system, kinds=tuple(with_architecture(kind, path.parent) for kind in system.kinds))
