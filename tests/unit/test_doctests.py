"""The examples in docstrings run: every module that has one, so that no example can rot."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("codesign", "spaces", "envs", "experiments")
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if "\n    >>> " in (text := path.read_text()) or "\n>>> " in text
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings(name: str) -> None:
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 0, "the examples of this module are not found by doctest"
    assert result.failed == 0


def test_examples_are_found() -> None:
    assert len(MODULES) > 40
