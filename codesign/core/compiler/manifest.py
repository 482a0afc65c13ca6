"""Which versions of kernels each command needs: so that they can be made ahead, and waiting can be measured.

`manifest.json` beside this file has the signatures that the usual requests of each command compile, and the functions
in each. `python -m experiments.first_touch --record` writes it. A request may need others; they are made when called.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from codesign.core.compiler.types import BOOL, FLOAT, INT, ITEMS, UINT, Array, Record, Type
from codesign.core.errors import CodesignError

FILE = Path(__file__).with_name("manifest.json")

_SCALARS = {kind.name: kind for kind in (BOOL, INT, UINT, FLOAT)}
_TOKEN = re.compile(r"[\w.]*\(|\w+\[\d+s?\]|\w+|[),]")


@dataclass(frozen=True)
class Manifest:
    """What commands compile.

    Attributes:
        functions: Functions in each version of a kernel, by its signature.
        commands: Signatures by command.
    """

    functions: dict[str, int]
    commands: dict[str, tuple[str, ...]]


@cache
def read() -> Manifest:
    """The recorded signatures; none where there is no record."""
    if not FILE.is_file():
        return Manifest({}, {})
    document = json.loads(FILE.read_text("utf-8"))
    names = list(document["kernels"])
    return Manifest(document["kernels"], {k: tuple(names[i] for i in v) for k, v in document["commands"].items()})


def write(manifest: Manifest) -> None:
    """Record signatures, in an order that does not depend on the run."""
    kernels = dict(sorted(manifest.functions.items()))
    places = {signature: i for i, signature in enumerate(kernels)}
    commands = {name: sorted(places[s] for s in found) for name, found in sorted(manifest.commands.items())}
    lines = ",\n".join(f"{json.dumps(name)}: {functions}" for name, functions in kernels.items())
    FILE.write_text(f'{{"kernels": {{\n{lines}\n}},\n"commands": {json.dumps(commands)}}}\n', "utf-8")


def usual(command: str) -> dict[str, int]:
    """What a command usually compiles: functions by signature."""
    known = read()
    return {signature: known.functions[signature] for signature in known.commands.get(command, ())}


def resolve(signature: str) -> tuple[Any, tuple[Type, ...]]:
    """The kernel and the argument types of a signature.

    Raises:
        CodesignError: It names a kernel or a tuple that does not exist, or that has other parameters or fields.
    """
    name, _, arguments = signature.partition("(")
    kernel = _attribute(name)
    kinds = tuple(_types(iter(_TOKEN.findall(arguments))))
    if len(kinds) != len(kernel.source.parameters):
        raise CodesignError(f"the list of kernels knows other parameters of {name!r}: record it again")
    return kernel, kinds


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
            items = tuple(_types(tokens))
            if cls is not None and len(cls._fields) != len(items):
                raise CodesignError(f"the list of kernels knows other fields of {token[:-1]!r}: record it again")
            yield Record(items, cls)
        elif token in _SCALARS:
            yield _SCALARS[token]
        else:
            item, _, rest = token.partition("[")
            if item not in ITEMS:
                raise CodesignError(f"the list of kernels has an unknown type {token!r}: record it again")
            yield Array(item, int(rest.rstrip("]s")), not rest.endswith("s]"))
