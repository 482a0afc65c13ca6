"""The code of README and docs runs: Python blocks are executed, commands are parsed with all their options."""

import doctest
import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from codesign.cli.app import app, join_lists, register_commands

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_PYTHON = ("python", "py")
_COMMAND = re.compile(r"^(?:\$ )?(codesign|make|python -m) (?! )")


def blocks(page: Path, *languages: str) -> list[tuple[int, str]]:
    """(line, code) of the blocks of a page in one of the languages."""
    text = page.read_text()
    return [(text[: m.start()].count("\n") + 2, m[2]) for m in _BLOCK.finditer(text) if m[1] in languages]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


LONG = {"docs/explanation/hasco.md"}
"""Pages whose blocks search for half a minute."""


def pages_with_python() -> list[Any]:
    found = [page for page in PAGES if blocks(page, *_PYTHON)]
    assert {name_of(p) for p in found} >= LONG
    slow = [pytest.mark.slow("speed")]
    return [pytest.param(p, id=name_of(p), marks=slow if name_of(p) in LONG else []) for p in found]


@pytest.mark.parametrize("page", pages_with_python())
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the page, in one namespace, in an empty folder: a reader types them so."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    for line, code in blocks(page, *_PYTHON):
        if ">>> " in code:
            example = doctest.DocTestParser().get_doctest(code, names, name_of(page), name_of(page), line)
            runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
            assert runner.run(example, clear_globs=False).failed == 0
            names.update(example.globs)
        else:
            exec(compile("\n" * (line - 1) + code, name_of(page), "exec"), names)


def commands() -> Iterator[Any]:
    """Every command of a block without a language or of a shell, continued lines joined, comments cut."""
    for page in PAGES:
        for line, code in blocks(page, "", "sh", "bash", "console"):
            for text in re.sub(r"\\\n\s*", "", code).splitlines():
                plain = re.sub(r"\s+#\s.*$", "", text.strip())
                if _COMMAND.match(plain) and "..." not in plain and "[" not in re.sub(r'"[^"]*"', "", plain):
                    yield pytest.param(plain.removeprefix("$ "), id=f"{name_of(page)}:{line}:{plain[:40]}")


COMMANDS = list(commands())


@pytest.fixture(scope="module")
def root() -> Any:
    app.registered_commands.clear()
    app.registered_groups.clear()
    register_commands()
    return get_command(app)


@pytest.mark.parametrize("text", COMMANDS)
def test_commands_have_these_options(text: str, root: Any) -> None:
    """The command exists and reads every option with a value of its kind; it is not run."""
    program, *arguments = shlex.split(text)
    if program == "make":
        targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert arguments[0] in targets
        return
    if program == "python":
        assert importlib.util.find_spec(arguments[1]) is not None
        return
    for part in " ".join(shlex.quote(a) for a in arguments).split(" '&&' "):
        words = join_lists(shlex.split(part))
        if words[:1] == ["codesign"]:
            words = words[1:]
        if words[0] == "--help":
            continue
        command = root.get_command(typer.Context(root), words[0])
        assert command is not None, f"no command {words[0]!r}"
        words = words[1:]
        while hasattr(command, "get_command"):
            inner = command.get_command(typer.Context(command), words[0])
            assert inner is not None, f"no subcommand {words[0]!r}"
            command, words = inner, words[1:]
        if "--help" not in words:
            command.make_context("codesign", list(words))


def test_blocks_and_commands_are_found() -> None:
    assert len(COMMANDS) > 25
    assert sum(len(blocks(p, *_PYTHON)) for p in PAGES) > 10
