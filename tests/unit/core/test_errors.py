"""A place is said once, however many callers name it."""

import pytest

from codesign.core.errors import UserError


@pytest.mark.parametrize(
    ("inner", "outer", "place"),
    [
        (None, "a.yaml", "a.yaml"),
        ("level 'pe'", "a.yaml", "a.yaml: level 'pe'"),
        ("a.yaml", "a.yaml", "a.yaml"),
        ("a.yaml: problem", "a.yaml", "a.yaml: problem"),
        ("a.yaml, `search`", "a.yaml", "a.yaml, `search`"),
        ("a.yaml.bak", "a.yaml", "a.yaml: a.yaml.bak"),
    ],
)
def test_places_nest_and_do_not_repeat(inner: str | None, outer: str, place: str) -> None:
    assert UserError("no", where=inner).within(outer).where == place
