"""What typer leaves to say: flags without the `<bool>` that they do not take, and the value that was refused."""

from collections.abc import Iterator
from typing import Any

import typer


def said_plainly(root: Any) -> Any:
    """The command line with these two mended in every command; returns it.

    Args:
        root: As `typer.main.get_command` makes it.
    """
    for command in _commands(root):
        command.get_help_option = _without_value(command.get_help_option)
        for parameter in command.params:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
            elif hasattr(parameter, "process_value"):
                parameter.process_value = _naming_what_came(parameter)
    return root


def _commands(root: Any) -> Iterator[Any]:
    yield root
    for sub in getattr(root, "commands", {}).values():
        yield from _commands(sub)


def _without_value(make: Any) -> Any:
    """The maker of `--help`, which typer adds when it is asked for."""

    def get_help_option(context: Any) -> Any:
        option = make(context)
        if option is not None:
            option.metavar = ""
        return option

    return get_help_option


def _naming_what_came(parameter: Any) -> Any:
    """The reader of a parameter's value whose refusal ends with what was given."""
    read = parameter.process_value

    def process_value(context: Any, value: Any) -> Any:
        try:
            return read(context, value)
        except typer.BadParameter as error:
            if value is not None and value != [] and value != ():
                error.message = f"{error.message}, got {value!r}"
            raise

    return process_value
