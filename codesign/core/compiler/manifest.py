"""Which versions of kernels each command needs: so that they can be made ahead, and waiting can be measured.

`manifest.json` beside this file maps a command to the signatures that its usual requests compile. It is recorded by
`python -m experiments.first_touch --record`. A request may need others; they are made when they are called.
"""

import json
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from codesign.core.compiler.types import BOOL, FLOAT, INT, ITEMS, UINT, Array, Record, Type
from codesign.core.errors import CodesignError

FILE = Path(__file__).with_name("manifest.json")

_SCALARS = {kind.name: kind for kind in (BOOL, INT, UINT, FLOAT)}
_TOKEN = re.compile(r"[\w.]*\(|\w+\[\d+s?\]|\w+|[),]")


@cache
def signatures() -> dict[str, tuple[str, ...]]:
    """Signatures by command."""
    if not FILE.is_file():
        return {}
    return {command: tuple(found) for command, found in json.loads(FILE.read_text()).items()}


def resolve(signature: str) -> tuple[Any, tuple[Type, ...]]:
    """The kernel and the argument types of a signature.

    Raises:
        CodesignError: It names a kernel or a tuple that does not exist.
    """
    name, _, arguments = signature.partition("(")
    kernel = _attribute(name)
    tokens = iter(_TOKEN.findall(arguments))
    return kernel, tuple(_types(tokens))


def _attribute(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise CodesignError(f"the list of kernels names {name!r}, which does not exist: record it again") from error


def _types(tokens: Iterator[str]) -> Iterator[Type]:
    """The types up to the closing parenthesis."""
    for token in tokens:
        if token == ")":
            return
        if token == ",":
            continue
        if token.endswith("("):
            cls = _attribute(token[:-1]) if token != "(" else None
            yield Record(tuple(_types(tokens)), cls)
        elif token in _SCALARS:
            yield _SCALARS[token]
        else:
            item, _, rest = token.partition("[")
            if item not in ITEMS:
                raise CodesignError(f"the list of kernels has an unknown type {token!r}: record it again")
            yield Array(item, int(rest.rstrip("]s")), not rest.endswith("s]"))
