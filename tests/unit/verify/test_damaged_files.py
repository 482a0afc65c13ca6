"""A damaged certificate is named by its place, in words: no name of a Python class, no traceback."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import codesign
from codesign.core.errors import UserError
from codesign.verify import restored
from tests.command_line import run


@pytest.fixture(scope="module")
def proof() -> dict[str, Any]:
    """A whole certificate."""
    return json.loads(json.dumps(codesign.map_layer("gemm M=16 N=16 K=16", "eyeriss").certificate()))  # type: ignore[no-any-return]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a document, problem and architecture apart, which their own readers check."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [path] if path else []
    for key, item in inside:
        if key not in ("problem", "architecture", "constraints", "format", "rules"):
            found += places(item, (*path, key))
    return found


DAMAGES: tuple[Any, ...] = (None, "x", -1.5, [], {}, [[["K"]]], {"a": {"b": 1}}, True, 10**400)


def test_no_damage_is_told_in_names_of_classes(proof: dict[str, Any]) -> None:
    for path in places(proof):
        for damage in (*DAMAGES, "gone"):
            document = json.loads(json.dumps(proof))
            part = document
            for key in path[:-1]:
                part = part[key]
            if damage == "gone":
                del part[path[-1]]
            else:
                part[path[-1]] = damage
            try:
                restored(document)
            except UserError as error:
                assert not re.search(r"[A-Z][a-z]+Error|Traceback|object has no|NoneType|not iterable", str(error)), (
                    error
                )


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"value": "many"}, "`value` must be a number, got 'many'"),
        ({"claims": [{"keep": {}, "spatial": {}}]}, r"`claims\[0\]\.bound` is missing"),
        ({"nest": 3}, "`nest` must be a list, got 3"),
        ({"nest": [{"level": "DRAM", "keep": [], "temporal": [["K", 1.5]], "spatial": []}]}, r"`nest\[0\]\.temporal\[0\]\[1\]` must be an integer, got 1\.5"),
        ({"value": 10**400}, r"`value` must be a number below 2\*\*62"),
    ],
)  # fmt: skip
def test_the_place_is_named(proof: dict[str, Any], damage: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        restored({**proof, **damage})


def test_a_misspelt_key_is_offered(proof: dict[str, Any]) -> None:
    document = {("vaule" if key == "value" else key): item for key, item in proof.items()}
    with pytest.raises(UserError, match="`value` is missing; it has 'vaule' instead"):
        restored(document)


def test_the_command_names_file_place_and_mend(proof: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    path.write_text(json.dumps(proof)[:-30])
    cut = run("verify", path)
    assert (
        cut.code == 2
        and "is no JSON at line 1, column" in cut.err
        and str(path) in cut.err
        and "make it again" in cut.err
    )
    del proof["nest"]
    path.write_text(json.dumps(proof))
    damaged = run("verify", path)
    assert damaged.code == 2
    assert f"`nest` is missing ({path}); make it again with `codesign map --certificate`" in damaged.err
    assert run("verify", path, "--time-limit", "0").code == 2
