"""What a command offers the library offers, and the other way round: every option is compared with the parameters that stand for it.

An option stands for a parameter of the same name (units apart: ``--time-limit`` and ``time_limit_s``), for one that `RENAMED` or
`ELSEWHERE` names, or it is of the terminal alone and `TERMINAL` says why. Every parameter of what `import codesign` offers is
reached by an option, is a group of others, or `PYTHON_ONLY` says why not.
"""

import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from typer.main import get_command

import codesign
from codesign.cli.app import app, register_commands
from codesign.scheduling.registry import REGISTRY as SCHEDULERS
from tests.same_options import DOORS, ELSEWHERE, OTHER_DEFAULTS, PYTHON_ONLY, RENAMED, TERMINAL, TERMINAL_HERE

UNITS = ("", "_s", "_bytes", "_hz")


def commands() -> dict[str, Any]:
    """Every command by name, subcommands by both names."""
    app.registered_commands.clear()
    app.registered_groups.clear()
    register_commands()

    def walk(command: Any, name: str) -> Iterator[tuple[str, Any]]:
        below = getattr(command, "commands", None)
        if below is None:
            yield name, command
        for word, sub in (below or {}).items():
            yield from walk(sub, f"{name} {word}".strip())

    return dict(walk(get_command(app), ""))


COMMANDS = commands()


def options_of(name: str) -> dict[str, Any]:
    """Options and arguments of a command, as they are spelt."""
    return {p.opts[0]: p for p in COMMANDS[name].params if p.name != "help"}


def resolved(text: str) -> Any:
    """What a dotted name offered by `codesign`, or ``module:object``, stands for."""
    module, colon, path = text.partition(":")
    value: Any = importlib.import_module(module) if colon else codesign
    for part in (path if colon else text).split("."):
        value = getattr(value, part)
    return value


def parameters(owner: Any) -> dict[str, inspect.Parameter]:
    """Of a function, or the fields of a dataclass."""
    return dict(inspect.signature(owner).parameters)


def named(text: str) -> tuple[str, str]:
    """``owner.parameter`` split, checked to be there; an attribute or method is its own parameter."""
    owner, _, name = text.rpartition(".")
    if inspect.isroutine(resolved(owner)) or name in parameters(resolved(owner)):
        assert name in parameters(resolved(owner)), f"{owner} has no parameter {name!r}"
    else:
        assert hasattr(resolved(owner), name), f"{owner} has no {name!r}"
    return owner, name


def reached(command: str, option: str) -> list[tuple[str, str]]:
    """The parameters that stand for an option."""
    if (given := RENAMED.get(command, {}).get(option)) is not None:
        return [named(text) for text in ((given,) if isinstance(given, str) else given)]
    plain = option.lstrip("-").replace("-", "_")
    return [
        (door, name)
        for door in DOORS.get(command, ())
        for name in parameters(resolved(door))
        if name in [plain + unit for unit in UNITS]
    ]


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_option_has_its_name_in_the_library(command: str) -> None:
    for option in options_of(command):
        elsewhere = ELSEWHERE.get(command, {}).get(option)
        reason = TERMINAL.get(option) or TERMINAL_HERE.get(command, {}).get(option)
        ways = [bool(reached(command, option)), elsewhere is not None, reason is not None]
        assert sum(ways) == 1, f"{command} {option}: by name, elsewhere, terminal only: {ways}"
        if elsewhere is not None:
            named_elsewhere(elsewhere)


def named_elsewhere(text: str) -> None:
    """``module:object`` is there; ``module:object(parameter)`` has the parameter."""
    where, bracket, parameter = text.rstrip(")").partition("(")
    found = resolved(where)
    if bracket:
        assert parameter in parameters(found), f"{where} has no parameter {parameter!r}"


def test_no_entry_is_of_an_option_that_is_gone() -> None:
    for table in (RENAMED, ELSEWHERE, TERMINAL_HERE):
        for command, entries in table.items():
            assert set(entries) <= set(options_of(command)), (command, set(entries) - set(options_of(command)))
    every = {option for command in COMMANDS for option in options_of(command)}
    assert set(TERMINAL) <= every
    assert set(DOORS) <= set(COMMANDS)


def offered() -> dict[str, Callable[..., Any]]:
    """Functions and records of options that `import codesign` offers."""
    found = {name: getattr(codesign, name) for name in codesign.offered()}
    return {
        name: value for name, value in found.items() if not (inspect.isclass(value) and issubclass(value, Exception))
    }


def is_group(owner: Any, parameter: str) -> bool:
    """Whether a parameter holds a record of further options that is compared itself."""
    hint = str(parameters(owner)[parameter].annotation)
    return any(name in hint for name, value in offered().items() if inspect.isclass(value))


def test_every_parameter_of_the_library_is_an_option() -> None:
    seen = {pair for command in COMMANDS for option in options_of(command) for pair in reached(command, option)}
    for owner, value in offered().items():
        for name in parameters(value):
            ways = [(owner, name) in seen, is_group(value, name), f"{owner}.{name}" in PYTHON_ONLY]
            assert any(ways), f"{owner}.{name} is no option of any command"
            assert not (ways[2] and (ways[0] or ways[1])), f"{owner}.{name} is reached and in PYTHON_ONLY"
    for entry in PYTHON_ONLY:
        named(entry)


@pytest.mark.parametrize("command", sorted(DOORS))
def test_defaults_are_the_same(command: str) -> None:
    for option, parameter in options_of(command).items():
        for owner, name in reached(command, option):
            theirs = parameters(resolved(owner))[name].default if name in parameters(resolved(owner)) else None
            plain = theirs is None or isinstance(theirs, str | int | float | bool)
            if not plain or parameter.default is None or f"{command} {option}" in OTHER_DEFAULTS:
                continue
            assert str(parameter.default) == str(theirs), (
                f"{command} {option}: {parameter.default!r}, {owner}.{name}: {theirs!r}"
            )


def test_options_of_schedulers_are_fields_of_theirs() -> None:
    for command, entries in ELSEWHERE.items():
        for option, text in entries.items():
            if text.startswith("codesign.scheduling") and "Scheduler(" in text:
                where, _, field = text.rstrip(")").partition("(")
                made = [SCHEDULERS.load(name) for name in SCHEDULERS.own]
                assert any(m is resolved(where) and field in parameters(m) for m in made), (command, option)
