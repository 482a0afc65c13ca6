"""Whatever is changed in the file of a certificate is refused, and its line is named."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import codesign
from codesign.core.errors import UserError
from codesign.verify import restored, verify
from codesign.verify.seal import SEAL, broken_at, line_of, seal


@pytest.fixture(scope="module")
def proof() -> dict[str, Any]:
    """A whole certificate with claims."""
    return json.loads(json.dumps(codesign.map_layer("gemm M=24 N=20 K=36", "simba").certificate()))  # type: ignore[no-any-return]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if inside is None:
        return [path]
    return [leaf for key, item in inside for leaf in leaves(item, (*path, key))]


def changed(proof: dict[str, Any], path: tuple[Any, ...], change: Callable[[Any], Any]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(proof))
    part: Any = document
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = change(part[path[-1]])
    return document


def place_of(path: tuple[Any, ...]) -> str:
    return "".join(f"[{k}]" if isinstance(k, int) else f".{k}" for k in path).lstrip(".")


def other(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return not value
    return value * (1 + 1e-9) + 1e-9 if isinstance(value, int | float) else value + "x"


def test_every_figure_that_changes_is_named(proof: dict[str, Any]) -> None:
    assert broken_at(proof) is None
    for path in leaves({k: v for k, v in proof.items() if k != SEAL}):
        assert broken_at(changed(proof, path, other)) == place_of(path)


def test_what_is_removed_or_added_is_noticed(proof: dict[str, Any]) -> None:
    assert broken_at({k: v for k, v in proof.items() if k != SEAL}) == SEAL
    assert broken_at({k: v for k, v in proof.items() if k != "constraints"}) == SEAL
    assert broken_at({**proof, "more": 1}) == "more"
    assert broken_at(changed(proof, ("nest",), lambda nest: nest[:-1])) is not None
    assert broken_at(changed(proof, ("nest",), lambda nest: [*nest, nest[-1]])) is not None


@pytest.mark.parametrize("indent", [1, None])
def test_lines_are_those_of_the_file(proof: dict[str, Any], indent: int | None) -> None:
    text = json.dumps(proof, indent=indent)
    for path in leaves(proof):
        line = text.splitlines()[line_of(text, place_of(path)) - 1]
        value: Any = proof
        for key in path:
            value = value[key]
        assert json.dumps(value) in line
        if indent and isinstance(path[-1], str):
            assert json.dumps(path[-1]) in line


def test_a_missing_place_has_the_line_of_the_part_around_it() -> None:
    assert line_of('{\n "nest": [\n  {\n   "keep": []}]}', "nest[0].level") == 3


def field(proof: dict[str, Any]) -> tuple[Any, ...]:
    """A figure of the architecture that no mapping's value depends on."""
    return next(path for path in leaves(proof["architecture"]) if "area_mm2" in path)


def test_a_field_of_the_architecture_that_no_value_depends_on(proof: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    where = ("architecture", *field(proof))
    text = json.dumps(changed(proof, where, other), indent=1)
    path.write_text(text)
    verdict = codesign.check_certificate(path)
    assert not verdict.accepted
    assert verdict.reason.startswith(f"line {line_of(text, place_of(where))}: `{place_of(where)}` is not what")


@pytest.mark.parametrize("where", [("claims", 0, "bound"), ("value",)])
def test_a_bound_raised_by_one_part_in_a_billion(proof: dict[str, Any], where: tuple[Any, ...], tmp_path: Path) -> None:
    document = changed(proof, where, lambda v: v * (1 + 1e-9))
    assert not verify(restored({**document, SEAL: seal(document)})).accepted  # by arithmetic: the seal is made anew
    path = tmp_path / "proof.json"
    path.write_text(json.dumps(document, indent=1))
    assert f": `{place_of(where)}`" in codesign.check_certificate(path).reason


def test_another_version_and_a_file_cut_short_name_their_line(proof: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    path.write_text(json.dumps({**proof, "format": "codesign certificate 2"}, indent=1))
    with pytest.raises(UserError, match="line 2: not a certificate of this version: `format` must be"):
        codesign.check_certificate(path)
    path.write_text(json.dumps(proof, indent=1)[:-40])
    with pytest.raises(UserError, match=r"the file is no JSON at line \d+"):
        codesign.check_certificate(path)
