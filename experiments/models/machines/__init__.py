"""The machines whose cycles were recorded, as architectures; their timing tables have the same names."""

from functools import cache
from pathlib import Path

import yaml

from codesign.arch.architecture import Architecture
from codesign.arch.files import architecture_from_json
from codesign.core.errors import unknown_name

_FOLDER = Path(__file__).parent


def machine_names() -> tuple[str, ...]:
    """Names of the machines."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))


@cache
def load_machine(name: str) -> Architecture:
    """A machine by name.

    Raises:
        UserError: There is none of that name.
    """
    path = _FOLDER / f"{name}.yaml"
    if not path.exists():
        raise unknown_name("machine", name, machine_names())
    return architecture_from_json(yaml.safe_load(path.read_text(encoding="utf-8"))["architecture"], path.name)
