"""The error tree, one page.

`UserError` is a mistake of the person at the keyboard: the command line prints its message and
exits with code 2, never with a traceback. Anything else that escapes is a fault of ours (exit
code 1). An infeasible design or mapping is *not* an error: it is a value (see
`codesign.evaluation`).
"""

import difflib
from collections.abc import Iterable
from enum import Enum
from typing import TypeVar

E = TypeVar("E", bound=Enum)


class CodesignError(Exception):
    """Base of every error this package raises on purpose."""


class UserError(CodesignError, ValueError):
    """Input that cannot be used: a malformed file, an unknown name, a contradiction.

    The message says which field, what was expected, what came, where, and the mend.

    Args:
        message: One sentence naming the field, what was expected and what came.
        where: The file, level, layer or tensor the field belongs to; outermost first once
            several callers have added theirs with `within`.
        hint: How to mend it.
    """

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def within(self, where: str) -> "UserError":
        """The same error with the enclosing place put in front (`file.yaml: level 'pe'`), once.

        >>> UserError("no", where="a.yaml: problem").within("a.yaml").where
        'a.yaml: problem'
        """
        inner = self.where
        named = inner is not None and (inner == where or inner.startswith((f"{where}:", f"{where},")))
        place = inner if named else where if inner is None else f"{where}: {inner}"
        return type(self)(self.message, where=place, hint=self.hint)

    def __str__(self) -> str:
        text = self.message
        if self.where is not None:
            text += f" ({self.where})"
        if self.hint is not None:
            text += f"; {self.hint}"
        return text


class MissingDependencyError(UserError):
    """An optional package is needed for what was asked and is not installed."""


def closest(name: str, options: Iterable[str]) -> str | None:
    """The option most like `name`, or None when nothing is near.

    >>> closest("resnet5", ["resnet50", "vgg16"])
    'resnet50'
    """
    matches = difflib.get_close_matches(name, list(options), n=1, cutoff=0.6)
    return matches[0] if matches else None


def unknown_name(kind: str, name: str, options: Iterable[str], *, where: str | None = None) -> UserError:
    """The error for a name that is not among the known ones, with the nearest one offered."""
    known = sorted(options)
    near = closest(name, known)
    hint = f"did you mean {near!r}? " if near else ""
    return UserError(f"unknown {kind} {name!r}", where=where, hint=f"{hint}known: {', '.join(known)}")


def member_of(kind: type[E], name: str, what: str, where: str | None = None) -> E:
    """The member of an enumeration with that value.

    Args:
        kind: The enumeration.
        name: The value, as a user gave it.
        what: What a member is, for the message.
        where: The place of the name, for the message.

    Raises:
        UserError: There is none; the nearest is offered.
    """
    try:
        return kind(name)
    except ValueError:
        raise unknown_name(what, name, [str(member.value) for member in kind], where=where) from None
