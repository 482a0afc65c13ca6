"""Types of plain values, as JSON and YAML files hold them."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias, Union

Json: TypeAlias = Union[str, int, float, bool, Sequence["Json"], Mapping[str, object], None]  # noqa: UP007 - recursive
"""Any value of a JSON document; a typed record is a mapping too."""

JsonObject: TypeAlias = dict[str, Json]
"""A JSON object as it is built."""
