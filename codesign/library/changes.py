"""Changes to the preset of a space, as text."""

from typing import Any

from codesign.core.errors import UserError
from codesign.core.point import Point


def changed_preset(space: Any, text: str) -> Point:
    """The first preset of a design space with changes, such as ``pe=8,banks=2``.

    Raises:
        UserError: A part is not NAME=VALUE, or no value of the space.
    """
    point = dict(next(iter(space.space.presets), {})) | changes(text)
    found: Point = space.space.to_points(space.space.to_indices([point], "--design"))[0]
    return found


def changes(text: str) -> dict[str, int | str]:
    """Parameters by name from ``pe=8,scratchpad_kib=128``.

    Raises:
        UserError: A part is not NAME=VALUE.

    >>> changes("pe=8, dataflow=os")
    {'pe': 8, 'dataflow': 'os'}
    """
    found: dict[str, int | str] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise UserError(f"--design: expected name=value, got {part!r}", hint="e.g. pe=8,scratchpad_kib=128")
        found[name.strip()] = int(value) if value.strip().isdigit() else value.strip()
    return found
