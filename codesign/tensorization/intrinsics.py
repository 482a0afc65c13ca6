"""Intrinsics: the fixed-size tensor operation that one call of an accelerator performs, given as notation."""

import re
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass

from codesign.core.errors import UserError, unknown_name
from codesign.workloads.computation import Computation

_BUILT_IN: dict[str, tuple[str, tuple[int, ...]]] = {
    "dot": ("S[] += A[i] * B[i]", (16,)),
    "gemv": ("C[i] += A[i,j] * B[j]", (16, 16)),
    "gemm": ("L[i,j] += M[i,k] * N[k,j]", (16, 16, 16)),
    "conv2d": ("C[k,x,y] += A[c,x+r,y+s] * B[k,c,r,s]", (4, 16, 4, 4, 3, 3)),
}
"""Notation (HASCO Sec. VII-A) and a default size, in the order of first appearance of the indices."""

BUILT_IN_INTRINSICS = tuple(_BUILT_IN)


@dataclass(frozen=True)
class Intrinsic:
    """What one call computes.

    Args:
        name: Its name in programs.
        computation: The operation; the bounds are its size.
    """

    name: str
    computation: Computation

    def __post_init__(self) -> None:
        in_inputs = {d for t in self.computation.inputs for d in t.dims}
        for dim in self.computation.dims:
            if dim not in in_inputs:
                raise UserError(
                    f"index {dim!r} occurs in no input of the intrinsic", where=str(self.computation), hint="drop it"
                )

    @property
    def size_text(self) -> str:
        """The size as it is given on the command line, e.g. ``16x16x16``."""
        return "x".join(str(b) for b in self.computation.bounds)


def intrinsic(name_or_notation: str, size: str | MappingABC[str, int] | None = None) -> Intrinsic:
    """An intrinsic by name or by notation.

    Args:
        name_or_notation: One of `BUILT_IN_INTRINSICS`, or notation such as ``"Y[i] += X[i,j] * W[j]"``.
        size: ``"16x16x16"`` in the order in which the indices first appear (output first), ``"i=16,j=16,k=16"``, or
            a mapping. May be left out for a built-in one.

    Raises:
        UserError: Unknown name, malformed notation or size.

    >>> intrinsic("gemm", "16x8x4").computation.sizes
    {'i': 16, 'j': 8, 'k': 4}
    """
    if "[" in name_or_notation:
        name, notation, default = "intrinsic", name_or_notation, None
    elif name_or_notation.lower() in _BUILT_IN:
        name = name_or_notation.lower()
        notation, default = _BUILT_IN[name]
    else:
        raise unknown_name("intrinsic", name_or_notation, _BUILT_IN, where="give a name or notation with [ ]")
    dims = _dims_of(notation)
    if size is None:
        if default is None:
            raise UserError(
                "an intrinsic given as notation needs a size",
                where=notation,
                hint=f"e.g. {'x'.join(['16'] * len(dims))}",
            )
        sizes = dict(zip(dims, default, strict=True))
    else:
        sizes = _sizes(size, dims, notation)
    return Intrinsic(name, Computation.parse(notation, sizes, name=name))


def _dims_of(notation: str) -> tuple[str, ...]:
    """Dimensions in the order of the notation; parsing it with the bounds it asks for makes its own messages."""
    named = dict.fromkeys(
        d for brackets in re.findall(r"\[([^\]]*)\]", notation) for d in re.findall(r"[A-Za-z_]\w*", brackets)
    )
    return Computation.parse(notation, dict.fromkeys(named, 1)).dims


def _sizes(size: str | MappingABC[str, int], dims: tuple[str, ...], notation: str) -> dict[str, int]:
    if not isinstance(size, str):
        return dict(size)
    if "=" in size:
        return parse_bounds(size, "--size")
    parts = size.lower().split("x")
    if not all(p.strip().isdigit() for p in parts):
        raise UserError(f"size must be integers joined by x, got {size!r}", where=notation, hint="e.g. 16x16x16")
    if len(parts) != len(dims):
        raise UserError(
            f"size {size!r} has {len(parts)} numbers, the intrinsic has {len(dims)} indices",
            where=notation,
            hint=f"give one number for each of {', '.join(dims)}",
        )
    return {dim: int(part) for dim, part in zip(dims, parts, strict=True)}


def parse_bounds(text: str, option: str = "--bounds") -> dict[str, int]:
    """Bounds from ``"k=64,c=64,x=56"``.

    Raises:
        UserError: A part is not ``name=integer``, or a name stands twice.
    """
    bounds: dict[str, int] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        match = re.fullmatch(r"([A-Za-z_]\w*)\s*=\s*(-?\d+)", part)
        if match is None:
            raise UserError(f"{option}: expected name=integer, got {part!r}", where=text, hint="e.g. k=64,c=64,x=56")
        name, value = match.group(1), int(match.group(2))
        if name in bounds:
            raise UserError(f"{option}: {name!r} is given twice", where=text)
        bounds[name] = value
    return bounds
