"""Results of kernels as the named tuples that their annotations promise: machine code returns plain tuples."""

import typing
from collections.abc import Callable
from typing import Any

Converter = Callable[[Any], Any]


def converter(function: Callable[..., Any]) -> Converter | None:
    """What makes a kernel's result what its annotation says, or None where nothing is to be done."""
    annotation = function.__annotations__.get("return")
    if annotation in (None, int, float, bool):
        return None
    return _of(typing.get_type_hints(function).get("return"))


def _of(annotation: Any) -> Converter | None:
    if isinstance(annotation, type) and issubclass(annotation, tuple) and hasattr(annotation, "_make"):
        make: Converter = annotation._make  # a named tuple
        parts = [_of(kind) for kind in typing.get_type_hints(annotation).values()]
        return _each(parts, make) or make
    if typing.get_origin(annotation) is tuple:
        return _each([_of(kind) for kind in typing.get_args(annotation)], tuple)
    return None


def _each(parts: list[Converter | None], make: Converter) -> Converter | None:
    if not any(parts):
        return None

    def convert(values: tuple[Any, ...]) -> Any:
        return make([part(value) if part else value for part, value in zip(parts, values, strict=True)])

    return convert
