"""The examples of docs/explanation/hasco.md run, and its table of spaces is true."""

import re
from pathlib import Path
from typing import Any

import yaml

from spaces.cores import CORE_SPACES, core_space_from_json

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "hasco.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_python_of_the_page_runs() -> None:
    names: dict[str, Any] = {}
    for block in blocks("python"):
        exec(block, names)
    assert names["program"].trips == (16,)
    assert names["space"].space.cardinality_bound == 72
    assert names["found"].scored == 200


def test_the_file_of_the_page_is_the_python_beside_it() -> None:
    (text,) = blocks("yaml")
    assert core_space_from_json(yaml.safe_load(text), "page").space.cardinality_bound == 72


def test_the_table_of_spaces_is_true() -> None:
    for name, space in CORE_SPACES.items():
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |"))
        assert row.split("|")[-2].strip() == f"{space.space.cardinality_bound:,}"
