"""Options as values: a command takes groups of options, each a frozen dataclass whose docstring says what its fields are.

`command` gives every field a parameter of its own, so that `--help` lists it, and calls the function with the groups made.
A group may be a dataclass of the library or of a study's file: ``Annotated[kind, Fields(...)]``. A field may say itself how
it is read, as `asked` or as ``Annotated[type, typer.Option(...)]``.
"""

import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from types import NoneType
from typing import Annotated, Any, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

import typer
from typer.models import OptionInfo

from codesign.core.errors import UserError
from codesign.core.field_texts import field_texts

F = TypeVar("F", bound=Callable[..., None])
Given: TypeAlias = dict[str, object]
"""Values of a command's parameters, by name."""


def check_format(output_format: str) -> str:
    """Refuse a `--format` other than text and json.

    Raises:
        UserError: It is another.
    """
    if output_format not in ("text", "json"):
        raise UserError(f"--format must be text or json, got {output_format!r}")
    return output_format


OutputFormat = Annotated[str, typer.Option("--format", help="text or json.", callback=check_format)]


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
        panel: In `--help`; by default that of all fields.
    """

    name: str | None = None
    kind: Any = None
    read: Callable[[Any], Any] | None = None
    panel: str | None = None

    def parameter(self, item: Field[Any]) -> str:
        """Of the command's function."""
        return (self.name or item.name).replace("-", "_")


@dataclass(frozen=True)
class Fields:
    """Options that are the fields of a dataclass and of those inside it; the docstrings are the help.

    Args:
        kind: The dataclass; metadata of a field are those of `asked`.
        panel: Of all of them in `--help`; by default the attribute `panel` of the dataclass.
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
            if isinstance(hint, type) and is_dataclass(hint):
                yield from replace(self, kind=hint).parameters()
                continue
            default = None if self.sparse or item.default == () else item.default
            declared = hint if hasattr(hint, "__metadata__") else self._declared(item, hint, flag, texts)
            yield inspect.Parameter(
                flag.parameter(item),
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if default is MISSING else default,
                annotation=declared,
            )

    def _declared(self, item: Field[Any], hint: Any, flag: Flag, texts: dict[str, str]) -> Any:
        """The field as typer reads it."""
        told, optional = item.metadata, NoneType in get_args(hint)
        kind = next(k for k in get_args(hint) if k is not NoneType) if optional else hint
        read = flag.kind or (list[str] if get_origin(kind) is tuple else kind)
        shown = item.default if self.sparse and item.default and isinstance(item.default, str) else True
        option = typer.Option(
            told.get("flag", "--" + (flag.name or item.name).replace("_", "-")),
            help=_help(texts.get(item.name, ""), read),  # python -OO has no docstrings
            min=told.get("minimum"),
            show_default=told.get("shown", shown),
            rich_help_panel=flag.panel or told.get("panel", self.panel or getattr(self.kind, "panel", None)),
        )
        return Annotated[read | None if optional or self.sparse or item.default == () else read, option]

    def made(self, given: Given) -> Any:
        """The dataclass, or what was given of it; its parameters are taken out of all that are given."""
        found = {}
        for item, hint, flag in self._options():
            if isinstance(hint, type) and is_dataclass(hint):
                found[item.name] = replace(self, kind=hint).made(given)
                continue
            value = given.pop(flag.parameter(item))
            found[item.name] = value if value is None or flag.read is None else flag.read(value)
        if self.sparse:
            return found
        with self.spelt():
            return self.kind(**found)

    @contextmanager
    def spelt(self, **more: str) -> Iterator[None]:
        """Errors of the dataclass with its fields, and `more` by name, spelt as options: ``--time-limit`` for ```time_limit_s```."""
        names = {item.name: (flag.name or item.name) for item, _, flag in self._options()}
        names |= {name: name for name in self.left_out} | more

        def option(found: re.Match[str]) -> str:
            name = names.get(found[1])
            return found[0] if name is None else "--" + name.replace("_", "-")

        try:
            yield
        except UserError as error:
            hint = None if error.hint is None else re.sub(r"`(\w+)`", option, error.hint)
            raise type(error)(re.sub(r"`(\w+)`", option, error.message), where=error.where, hint=hint) from None

    def _options(self) -> Iterator[tuple[Field[Any], Any, Flag]]:
        items = [item for item in fields(self.kind) if item.name not in self.left_out]
        read = type("Read", (), {"__annotations__": {item.name: item.type for item in items}})
        hints = get_type_hints(read, vars(sys.modules[self.kind.__module__]), include_extras=True)
        for item in items:
            yield item, hints[item.name], self.flags.get(item.name, Flag())


def _help(text: str, read: Any) -> str:
    """What a docstring says of a field, as `--help` says it."""
    plain = text.replace("``", "").removeprefix("Whether ")
    if get_origin(read) is list and "repeated" not in plain:
        plain += " May be repeated."
    return plain[0].upper() + plain[1:] if text.startswith("Whether ") else plain


def flattened(function: Callable[..., None]) -> Callable[..., None]:
    """The function with every field of its groups as a parameter, which is what typer reads."""
    groups: dict[str, Callable[[Given], Any]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        kind = parameter.annotation
        elsewhere = next((m for m in getattr(kind, "__metadata__", ()) if isinstance(m, Fields)), None)
        if elsewhere is not None:
            groups[parameter.name] = elsewhere.made
            parameters += elsewhere.parameters()
        elif isinstance(kind, type) and is_dataclass(kind):
            groups[parameter.name] = Fields(kind).made
            parameters += Fields(kind).parameters()
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    def run(**given: Any) -> None:
        made = {name: make(given) for name, make in groups.items()}
        function(**made, **given)

    run.__doc__, run.__name__ = function.__doc__, function.__name__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def asked(default: Any = MISSING, **told: Any) -> Any:
    """A field of a group of options, and what its type and docstring do not say.

    Args:
        default: Its value where the option is not given.
        told: `minimum` of a number; `panel` of `--help`; `flag`, its names; `shown`, the default as `--help` says it.
    """
    return field(default=default, metadata=told)


def given_flags(group: Any, besides: Collection[str] = ()) -> dict[str, bool]:
    """By flag, whether a field of a group differs from its default; those `besides` are left out."""
    hints = get_type_hints(type(group), include_extras=True)
    asked_for = [item for item in fields(group) if item.name not in besides]
    return {_flag(item, hints[item.name]): getattr(group, item.name) not in (item.default, []) for item in asked_for}


def first_given(group: Any, besides: Collection[str] = ()) -> str | None:
    """The flag of the first field of a group that differs from its default, those `besides` left out."""
    return next((flag for flag, present in given_flags(group, besides).items() if present), None)


def _flag(item: Field[Any], hint: Any) -> str:
    declared = next((m for m in getattr(hint, "__metadata__", ()) if isinstance(m, OptionInfo)), None)
    names = [item.metadata.get("flag", "")]
    names += [str(declared.default), *(declared.param_decls or ())] if declared is not None else []
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
