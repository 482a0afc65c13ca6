"""`--help` of every command teaches with examples, and every example names what is there."""

import re
import shlex
from typing import Any

import pytest
from typer.main import get_command

from codesign.cli import app as application


def commands() -> dict[str, Any]:
    """Every command by name, subcommands by both names."""
    application.app.registered_commands.clear()
    application.app.registered_groups.clear()
    application.register_commands()
    found: dict[str, Any] = {}

    def walk(command: Any, name: str) -> None:
        below = getattr(command, "commands", None)
        if below is None:
            found[name] = command
        for word, sub in (below or {}).items():
            walk(sub, f"{name} {word}".strip())

    walk(get_command(application.app), "")
    return found


COMMANDS = commands()


def examples(command: Any) -> list[list[str]]:
    """The example lines of a command's help, split as a shell does."""
    return [
        shlex.split(line.strip()) for line in (command.help or "").splitlines() if line.strip().startswith("codesign ")
    ]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_has_an_example_of_the_command(name: str) -> None:
    assert "For example" in (COMMANDS[name].help or ""), f"`codesign {name} --help` teaches nothing"
    assert any(e[1 : 1 + len(name.split())] == name.split() for e in examples(COMMANDS[name]))


def test_the_first_help_has_examples_too() -> None:
    first = examples(get_command(application.app))
    assert {e[1] for e in first} >= {"map", "explore"}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_examples_name_options_that_are_there(name: str) -> None:
    for example in examples(COMMANDS[name]):
        command = next(
            (c for c in sorted(COMMANDS, key=len, reverse=True) if example[1:][: len(c.split())] == c.split()), None
        )
        assert command is not None, example
        known = {o for p in COMMANDS[command].params for o in (*p.opts, *p.secondary_opts)}
        assert {word.partition("=")[0] for word in example if word.startswith("--")} <= known, example


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_says_what_it_is(name: str) -> None:
    for parameter in COMMANDS[name].params:
        assert parameter.name == "help" or len((parameter.help or "").split()) >= 2, f"{name} {parameter.opts[0]}"
        assert not re.search(r"see (the )?docs", parameter.help or ""), (
            f"{name} {parameter.opts[0]} sends the reader away"
        )
