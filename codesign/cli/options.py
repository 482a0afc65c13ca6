"""Options as values: a command takes groups of options, each a frozen dataclass whose fields declare them.

A field is ``Annotated[type, typer.Option(...)] = default``. `command` gives every field a parameter of its own, so that
`--help` lists it, and calls the function with the groups made. A group may also be a dataclass of the library or of a
study's file, ``Annotated[kind, Fields(...)]``: its docstring is the help.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from functools import partial
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer
from typer.models import OptionInfo

from codesign.core.errors import UserError
from codesign.core.field_texts import field_texts

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


@dataclass(frozen=True)
class Flag:
    """How the command line writes a field, where its name and type do not say it.

    Args:
        name: Of the option, without dashes; by default that of the field.
        kind: What typer reads; by default as the field's type says, a list for a tuple.
        read: Makes the field's value; by default it is what typer read.
    """

    name: str | None = None
    kind: Any = None
    read: Callable[[Any], Any] | None = None

    def parameter(self, item: Field[Any]) -> str:
        """Of the command's function."""
        return (self.name or item.name).replace("-", "_")


@dataclass(frozen=True)
class Fields:
    """Options that are the fields of a dataclass and of those inside it; the docstrings are the help.

    Args:
        kind: The dataclass. The metadata of a field may have a `minimum`.
        panel: Of all of them in `--help`.
        flags: How fields are written, by field.
        left_out: Fields that are no options.
        sparse: Whether only what is given counts, as nested plain values of a file; else the dataclass is made.
    """

    kind: type[Any]
    panel: str | None = None
    flags: Mapping[str, Flag] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    sparse: bool = False

    def parameters(self) -> Iterator[inspect.Parameter]:
        """One for each field."""
        texts = field_texts(self.kind)
        for item, hint, flag in self._options():
            if is_dataclass(hint):
                yield from replace(self, kind=hint).parameters()
                continue
            kind = next((k for k in get_args(hint) if k is not NoneType), hint) if NoneType in get_args(hint) else hint
            read = flag.kind or (list[str] if get_origin(kind) is tuple else kind)
            default = None if self.sparse or item.default in (MISSING, ()) else item.default
            shown = item.default if self.sparse and item.default and isinstance(item.default, str) else True
            option = typer.Option(
                "--" + (flag.name or item.name).replace("_", "-"),
                help=_help(texts[item.name]),
                min=item.metadata.get("minimum"),
                show_default=shown,
                rich_help_panel=self.panel,
            )
            annotation = Annotated[read if default is not None else read | None, option]
            yield inspect.Parameter(
                flag.parameter(item), inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
            )

    def made(self, given: dict[str, Any]) -> Any:
        """The dataclass, or what was given of it; its parameters are taken out of all that are given."""
        found = {}
        for item, hint, flag in self._options():
            if is_dataclass(hint):
                found[item.name] = replace(self, kind=hint).made(given)
                continue
            value = given.pop(flag.parameter(item))
            found[item.name] = value if value is None or flag.read is None else flag.read(value)
        return found if self.sparse else self.kind(**found)

    def _options(self) -> Iterator[tuple[Field[Any], Any, Flag]]:
        hints = get_type_hints(self.kind)
        for item in fields(self.kind):
            if item.name not in self.left_out:
                yield item, hints[item.name], self.flags.get(item.name, Flag())


def _help(text: str) -> str:
    """What a docstring says of a field, as `--help` says it."""
    plain = text.replace("``", "").removeprefix("Whether ")
    return plain[0].upper() + plain[1:] if text.startswith("Whether ") else plain


def flattened(function: Callable[..., None]) -> Callable[..., None]:
    """The function with every field of its groups as a parameter, which is what typer reads."""
    groups: dict[str, Callable[[dict[str, Any]], Any]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        kind = parameter.annotation
        elsewhere = next((m for m in getattr(kind, "__metadata__", ()) if isinstance(m, Fields)), None)
        if elsewhere is not None:
            groups[parameter.name] = elsewhere.made
            parameters += elsewhere.parameters()
        elif isinstance(kind, type) and is_dataclass(kind):
            groups[parameter.name] = partial(_made, kind)
            parameters += _declared(kind)
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    def run(**given: Any) -> None:
        made = {name: make(given) for name, make in groups.items()}
        function(**made, **given)

    run.__doc__, run.__name__ = function.__doc__, function.__name__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _made(group: type[Any], given: dict[str, Any]) -> Any:
    return group(**{item.name: given.pop(item.name) for item in fields(group)})


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
