"""What the parts of the translator need of each other."""

import ast
from dataclasses import dataclass
from typing import Any, Protocol

import numpy.typing as npt

from codesign.core.compiler.builder import Builder
from codesign.core.compiler.source import Source
from codesign.core.compiler.types import Array, Record, Type
from codesign.core.compiler.values import Block, Elementwise, Number, Stored, Value


def holds_array(kind: Type | None) -> bool:
    """Whether a value of a type refers to memory of an arena."""
    if isinstance(kind, Record):
        return any(holds_array(item) for item in kind.items)
    return isinstance(kind, Array)


@dataclass(frozen=True)
class Version:
    """A kernel for one list of argument types."""

    symbol: str
    result: Type
    text: str


class Versions(Protocol):
    """The module that a kernel is translated into."""

    def version(self, source: Source, kinds: tuple[Type, ...]) -> Version:
        """The version of a kernel for some types."""

    def reach(self, source: Source, kinds: tuple[Type, ...]) -> str:
        """The symbol of a function that gives the address of a kernel apart."""

    def constant_array(self, array: npt.NDArray[Any]) -> str:
        """The symbol of a global array."""


class Context(Protocol):
    """The kernel that is being translated.

    Attributes:
        b: Its instructions so far.
        unit: The module it goes into.
        takes_memory: Whether it takes memory of the arena.
    """

    b: Builder
    unit: Versions
    takes_memory: bool

    def value(self, node: ast.expr) -> Value:
        """Translate an expression into a typed value."""

    def stored(self, node: ast.expr, use: str) -> Stored:
        """Translate an expression into a value that can be kept."""

    def number(self, node: ast.expr) -> Number:
        """Translate an expression that gives a number."""

    def integer(self, node: ast.expr) -> Number:
        """Translate an expression that gives a whole number."""

    def number_of(self, value: Value) -> Number:
        """A value that has to be a number."""

    def made(self, value: Block | Elementwise) -> Block:
        """A new array with the elements of an expression."""
