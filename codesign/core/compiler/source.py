"""A kernel as Python wrote it: its syntax tree and what its names mean."""

import ast
import inspect
import textwrap
import typing
from collections.abc import Callable
from functools import cached_property
from typing import Any

from codesign.core.compiler.types import BOOL, FLOAT, INT, NONE, CompileError, Record, Scalar, Type

_ANNOTATIONS = {"int": INT, "float": FLOAT, "bool": BOOL}


def _declared(annotation: Any, kernel: str) -> Type:
    if annotation in (None, type(None)):
        return NONE
    name = getattr(annotation, "__name__", "")
    if name in _ANNOTATIONS and typing.get_origin(annotation) is None:
        return _ANNOTATIONS[name]
    if typing.get_origin(annotation) is tuple:
        return Record(tuple(_declared(item, kernel) for item in typing.get_args(annotation)))
    raise CompileError(f"a kernel apart returns {annotation}", hint="declare numbers or a tuple of them", where=kernel)


class Source:
    """The function behind a kernel.

    Attributes:
        function: The Python function.
        inline: Whether its code goes into the place of every call.
        apart: Whether it is compiled on its own, when it is first called, for all kernels that call it.
    """

    def __init__(self, function: Callable[..., Any], inline: bool = False, apart: bool = False) -> None:
        self.function = function
        self.inline = inline
        self.apart = apart

    @property
    def name(self) -> str:
        """The name of module and function."""
        return f"{self.function.__module__}.{self.function.__qualname__}"

    @cached_property
    def tree(self) -> ast.FunctionDef:
        """The syntax tree of the definition."""
        lines, _ = inspect.getsourcelines(self.function)
        tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
        assert isinstance(tree, ast.FunctionDef)
        if tree.args.kwonlyargs or tree.args.vararg or tree.args.kwarg:
            raise CompileError("kernels take plain parameters only", where=self.name)
        return tree

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return tuple(inspect.signature(self.function).parameters)

    @cached_property
    def scalars(self) -> dict[str, Scalar]:
        """Parameters that their annotation says to be `int`, `float` or `bool`."""
        found = {}
        for name, annotation in self.function.__annotations__.items():
            text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
            if text in _ANNOTATIONS:
                found[name] = _ANNOTATIONS[text]
        return found

    @cached_property
    def declared(self) -> Type:
        """The result type that the annotation of a kernel apart promises: callers are translated without its body.

        Raises:
            CompileError: It is neither a number nor a tuple of numbers.
        """
        return _declared(typing.get_type_hints(self.function).get("return"), self.name)

    def line(self, node: ast.AST) -> str:
        """Where a part of the function stands."""
        first = self.function.__code__.co_firstlineno
        offset = getattr(node, "lineno", 1)
        return f"{self.function.__code__.co_filename}:{first + offset - 1}"

    def lookup(self, name: str) -> object:
        """What a name outside the function means.

        Raises:
            CompileError: Nothing.
        """
        space = self.function.__globals__
        if name in space:
            return space[name]
        builtins = space["__builtins__"]
        found = builtins.get(name) if isinstance(builtins, dict) else getattr(builtins, name, None)
        if found is None:
            raise CompileError(f"a kernel uses {name!r}, which it never sets", where=self.name)
        return found


def body_of(symbol: str) -> str:
    """The symbol of the machine code of a kernel apart, beside that of the function Python calls."""
    return f"{symbol}_body"
