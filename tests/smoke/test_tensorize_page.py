"""The commands and the Python of docs/how-to/tensorize.md run as printed."""

import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from codesign.cli.app import register_commands

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "tensorize.md").read_text()
COMMANDS = [
    shlex.split(line)[1:]
    for block in re.findall(r"```\n(codesign .*?)```", PAGE, re.S)
    for line in block.replace("\\\n", " ").splitlines()
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=range(len(COMMANDS)))
def test_commands(arguments: list[str]) -> None:
    app = typer.Typer()
    app.callback()(lambda: None)
    register_commands(app, "tensorize")
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "DIFFERS" not in result.output
    assert result.stdout


def test_python() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert len(blocks) == 1
    names: dict[str, object] = {}
    exec(compile(blocks[0], "docs/how-to/tensorize.md", "exec"), names)
    assert names["mapping"].loops  # type: ignore[attr-defined]
