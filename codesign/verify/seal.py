"""The seal of a certificate: a short digest of every figure in it, so that a change is named by its place and line.

A seal shows damage. It proves nothing: what a certificate says is checked by arithmetic, whether the seal holds or not.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

SEAL = "seal"
"""The key of a certificate under which its seal stands."""

DIGITS = 4
"""Hexadecimal digits of the digest of one figure."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def seal(document: Mapping[str, object]) -> dict[str, str]:
    """Of every part of a document the digests of its figures one after the other, and under an empty name that of the whole.

    >>> sorted(seal({"value": 2.5}))
    ['', 'value']
    """
    parts = {key: part for key, part in document.items() if key != SEAL}
    found = {key: "".join(_digest(*leaf)[:DIGITS] for leaf in _leaves(part, key)) for key, part in parts.items()}
    return {**found, "": _digest("", parts)}


def broken_at(document: Mapping[str, object]) -> str | None:
    """The first place where a document is not what its seal was made of; None where it is.

    >>> whole = {"value": 2.5, "nest": [{"factor": 3}]}
    >>> broken_at({**whole, "nest": [{"factor": 4}], "seal": seal(whole)})
    'nest[0].factor'
    """
    given = document.get(SEAL)
    if not isinstance(given, dict):
        return SEAL
    for key in (k for k in document if k != SEAL):
        digests = given.get(key)
        if not isinstance(digests, str):
            return key
        leaves = list(_leaves(document[key], key))
        for n, (place, value) in enumerate(leaves):
            if digests[DIGITS * n : DIGITS * (n + 1)] != _digest(place, value)[:DIGITS]:
                return place
        if len(digests) != DIGITS * len(leaves):
            return key
    return None if given == seal(document) else SEAL


def line_of(text: str, place: str) -> int:
    r"""The line, from 1, on which a place of a JSON document begins; that of the innermost part around it where there is none.

    >>> line_of('{\n "nest": [\n  {"factor": 3}\n ]\n}', "nest[0].factor")
    3
    """
    found = 1
    for at, line in _places(text):
        if at == place:
            return line
        if place.startswith(at) and place[len(at) : len(at) + 1] in (".", "["):
            found = line
    return found


def _leaves(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Places and figures, keys in alphabetical order; what is empty is a figure itself."""
    if isinstance(value, dict) and value:
        for key in sorted(value):
            yield from _leaves(value[key], f"{place}.{key}")
    elif isinstance(value, list | tuple) and value:
        for n, item in enumerate(value):
            yield from _leaves(item, f"{place}[{n}]")
    else:
        yield place, value


def _digest(place: str, value: Any) -> str:
    return hashlib.sha256(json.dumps([place, value], sort_keys=True).encode()).hexdigest()


def _places(text: str) -> Iterator[tuple[str, int]]:
    """Every place of a well-formed JSON document with its line: of a key, or of an element."""
    around: list[tuple[str, int | None]] = []  # the place of a container, and of a list how many elements were seen
    place, key, line, last = "", False, 1, 0
    for token in _TOKEN.finditer(text):
        line, last = line + text.count("\n", last, token.start()), token.start()
        word = token.group()
        if word in "}]":
            around.pop()
            continue
        if word in ",:":
            key = word == "," and around[-1][1] is None
            continue
        if key:
            place, key = f"{around[-1][0]}.{json.loads(word)}".lstrip("."), False
            yield place, line
            continue
        if around and around[-1][1] is not None:
            outer, count = around[-1][0], around[-1][1]
            around[-1] = (outer, count + 1)
            place = f"{outer}[{count}]"
            yield place, line
        if word in "{[":
            around.append((place, None if word == "{" else 0))
            key = word == "{"
