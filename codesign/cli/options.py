"""Options as values: a command takes groups of options, each a frozen dataclass whose fields declare them.

A field is ``Annotated[type, typer.Option(...)] = default``. `command` gives every field a parameter of its own, so that
`--help` lists it, and calls the function with the groups made.
"""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Annotated, Any, TypeVar, get_type_hints

import typer
from typer.models import OptionInfo

from codesign.core.errors import UserError

F = TypeVar("F", bound=Callable[..., None])

OutputFormat = Annotated[str, typer.Option("--format", help="text or json.")]


def command(app: typer.Typer, name: str | None = None) -> Callable[[F], F]:
    """Register a function as a command; parameters that are dataclasses are groups of options.

    Args:
        app: The application.
        name: Of the command; by default that of the function.
    """

    def register(function: F) -> F:
        app.command(name or function.__name__)(flattened(function))
        return function

    return register


def flattened(function: Callable[..., None]) -> Callable[..., None]:
    """The function with every field of its groups as a parameter, which is what typer reads."""
    groups: dict[str, type[Any]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        kind = parameter.annotation
        if isinstance(kind, type) and is_dataclass(kind):
            groups[parameter.name] = kind
            parameters += _declared(kind)
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    def run(**given: Any) -> None:
        made = {
            name: kind(**{item.name: given.pop(item.name) for item in fields(kind)}) for name, kind in groups.items()
        }
        function(**made, **given)

    run.__doc__, run.__name__ = function.__doc__, function.__name__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _declared(group: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            item.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if item.default is MISSING else item.default,
            annotation=hints[item.name],
        )
        for item in fields(group)
    ]


def option(panel: str, *names: str, **settings: Any) -> Any:
    """An option in a panel of `--help`."""
    return typer.Option(*names, rich_help_panel=panel, **settings)


def given_flags(group: Any) -> dict[str, bool]:
    """By flag, whether a field of a group differs from its default."""
    hints = get_type_hints(type(group), include_extras=True)
    return {
        _flag(item, hints[item.name]): getattr(group, item.name) not in (item.default, []) for item in fields(group)
    }


def _flag(item: Field[Any], hint: Any) -> str:
    declared = next((m for m in getattr(hint, "__metadata__", ()) if isinstance(m, OptionInfo)), None)
    names: list[str] = [str(declared.default), *(declared.param_decls or ())] if declared is not None else []
    return next((n for n in names if n.startswith("--")), "--" + item.name.replace("_", "-")).partition("/")[0]


def refuse(given: dict[str, bool], beside: str, hint: str | None = None) -> None:
    """Refuse options that play no part with another.

    Args:
        given: By option, whether it is there.
        beside: The other option.
        hint: How to mend it; by default one of the two is left out.

    Raises:
        UserError: One is.
    """
    for flag, present in given.items():
        if present:
            raise UserError(f"{flag} plays no part with {beside}", hint=hint or f"leave out {flag} or {beside}")


def check_format(output_format: str) -> None:
    """Refuse a `--format` other than text and json.

    Raises:
        UserError: It is another.
    """
    if output_format not in ("text", "json"):
        raise UserError(f"--format must be text or json, got {output_format!r}")
