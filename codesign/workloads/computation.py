"""One tensor operator in the field's notation: dimensions, tensors, affine indices.

Convolution (strided, dilated, grouped, depthwise), GEMM, GEMV, batched matmul, dot product, TTM
and MTTKRP are all this one type; nothing below this module knows the word "convolution".
"""

import math
import re
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

from codesign.core.checks import repeated
from codesign.core.errors import UserError, unknown_name
from codesign.workloads.density import DENSE, Density


class Role(Enum):
    """What a tensor is to the hardware: storage levels say which roles they may keep."""

    INPUT = "input"
    WEIGHT = "weight"
    OUTPUT = "output"


_ROLE_BY_NAME = {
    **dict.fromkeys(("i", "x", "in", "input", "inputs", "ifmap", "act", "activations"), Role.INPUT),
    **dict.fromkeys(("w", "weight", "weights", "filter", "filters", "kernel"), Role.WEIGHT),
}


@dataclass(frozen=True)
class AffineIndex:
    """One axis of a tensor: a sum of coefficient * dimension, e.g. ``2*p + r``.

    Args:
        terms: Pairs (dimension, coefficient), each dimension once, coefficients >= 1.
    """

    terms: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        return "+".join(d if c == 1 else f"{c}*{d}" for d, c in self.terms)

    def extent(self, sizes: MappingABC[str, int]) -> int:
        """Length of the axis touched when each dimension runs over `sizes[dimension]` values, holes included."""
        return 1 + sum(c * (sizes[d] - 1) for d, c in self.terms)


@dataclass(frozen=True)
class Tensor:
    """A tensor of a computation.

    Args:
        name: Its name in the notation.
        axes: One affine index per axis.
        role: Input, weight or output.
        bits: Width of one element in memory.
        partial_bits: Width of a partial sum of an output; equals `bits` for inputs.
        density: Where its non-zeros are.
        scale_bits: Bits per element beside the element's own: its share of a scale that a block shares.
    """

    name: str
    axes: tuple[AffineIndex, ...]
    role: Role
    bits: int = 8
    partial_bits: int = 8
    density: Density = DENSE
    scale_bits: float = 0.0

    @property
    def is_output(self) -> bool:
        """Whether the computation accumulates into this tensor."""
        return self.role is Role.OUTPUT

    @cached_property
    def dims(self) -> frozenset[str]:
        """Names of the dimensions that index this tensor (the *relevant* ones)."""
        return frozenset(d for axis in self.axes for d, _ in axis.terms)

    def shape(self, sizes: MappingABC[str, int]) -> tuple[int, ...]:
        """Extent along each axis, for so many steps of each dimension."""
        return tuple([axis.extent(sizes) for axis in self.axes])

    def stored(self, bits: int, scale_bits: float) -> "Tensor":
        """The same tensor with elements so wide; partial sums keep their width, or become as wide where that is more."""
        partial = max(bits, self.partial_bits) if self.is_output else bits
        return replace(self, bits=bits, partial_bits=partial, scale_bits=scale_bits)

    def __str__(self) -> str:
        return f"{self.name}[{','.join(str(a) for a in self.axes)}]"


@dataclass(frozen=True)
class Computation:
    """A perfectly nested multiply-accumulate: ``out[...] += in1[...] * in2[...] * ...``.

    Args:
        dims: Dimension names, in the order of first appearance in the notation (output first).
        bounds: Iteration count of each dimension, all >= 1.
        tensors: Inputs in the order written, then the one output.
        name: A label for people.
    """

    dims: tuple[str, ...]
    bounds: tuple[int, ...]
    tensors: tuple[Tensor, ...]
    name: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        _check(self)

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Bound by dimension name."""
        return dict(zip(self.dims, self.bounds, strict=True))

    @cached_property
    def macs(self) -> int:
        """Number of multiply-accumulates, the product of all bounds."""
        return math.prod(self.bounds)

    @property
    def output(self) -> Tensor:
        """The tensor that is accumulated into."""
        return self.tensors[-1]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that are only read."""
        return self.tensors[:-1]

    @cached_property
    def reduced_dims(self) -> tuple[str, ...]:
        """Dimensions that are summed over: those that do not index the output."""
        return tuple(d for d in self.dims if d not in self.output.dims)

    def tensor(self, name: str) -> Tensor:
        """The tensor of that name.

        Raises:
            UserError: There is none.
        """
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        raise unknown_name("tensor", name, [t.name for t in self.tensors], where=str(self))

    def tensor_words(self, tensor: Tensor) -> int:
        """Elements of the bounding box of a tensor, holes of strides included (Timeloop's data-space size)."""
        return math.prod(tensor.shape(self.sizes))

    def with_bounds(self, **bounds: int) -> "Computation":
        """The same computation with some bounds replaced."""
        for dim in bounds:
            if dim not in self.dims:
                raise unknown_name("dimension", dim, self.dims, where=str(self))
        return replace(self, bounds=tuple(bounds.get(d, b) for d, b in self.sizes.items()))

    def check_densities(self) -> None:
        """Refuse densities that do not describe their tensor.

        Raises:
            UserError: E.g. blocks of n:m that do not divide an axis.
        """
        for tensor in self.tensors:
            try:
                tensor.density.check(tensor.shape(self.sizes))
            except UserError as error:
                raise error.within(f"density of {tensor.name!r}") from None

    def with_bits(self, bits: int, partial_bits: int | None = None) -> "Computation":
        """The same computation with all elements `bits` wide and partial sums `partial_bits` (default: `bits`)."""
        partial = bits if partial_bits is None else partial_bits
        tensors = tuple(replace(t, bits=bits, partial_bits=partial if t.is_output else bits) for t in self.tensors)
        return replace(self, tensors=tensors)

    def __str__(self) -> str:
        return f"{self.output} += {' * '.join(str(t) for t in self.inputs)}"

    @classmethod
    def parse(
        cls,
        notation: str,
        bounds: MappingABC[str, int] | None = None,
        *,
        name: str = "",
        bits: int = 8,
        partial_bits: int | None = None,
        roles: MappingABC[str, Role] | None = None,
        **more_bounds: int,
    ) -> "Computation":
        """Read the field's notation.

        Args:
            notation: ``"O[n,k,p,q] += I[n,c,2*p+r,2*q+s] * W[k,c,r,s]"``. One output, ``+=``, one or
                more inputs joined by ``*``; every index a sum of dimensions with positive integer
                coefficients. A tensor without axes (``S[]``) is a scalar.
            bounds: Iteration count of each dimension; further ones as keywords.
            name: A label for people.
            bits: Width of every element.
            partial_bits: Width of a partial sum; default `bits`.
            roles: Role by tensor name. By default a tensor called I, X, Input(s) is an input, one
                called W, Weight(s) a weight, else the first operand is the input and the others are weights.

        Raises:
            UserError: The notation does not parse (the message points at the character), a bound is
                missing, superfluous or not a positive integer, or a role names no input.

        >>> gemm = Computation.parse("C[m,n] += A[m,k] * B[k,n]", m=4, n=8, k=16)
        >>> gemm.macs, gemm.reduced_dims
        (512, ('k',))
        """
        parsed = _parse_notation(notation)
        known_roles = dict(roles or {})
        (out_name, out_axes), operands = parsed[0], [operand for operand, _ in parsed[1:]]
        for tensor_name in known_roles:
            if tensor_name not in operands:
                raise unknown_name("input", tensor_name, operands, where=notation)
        tensors = []
        for position, (tensor_name, axes) in enumerate(parsed[1:]):
            default = Role.INPUT if position == 0 else Role.WEIGHT
            role = known_roles.get(tensor_name, _ROLE_BY_NAME.get(tensor_name.lower(), default))
            tensors.append(Tensor(tensor_name, axes, role, bits, bits))
        tensors.append(Tensor(out_name, out_axes, Role.OUTPUT, bits, bits if partial_bits is None else partial_bits))
        given: dict[str, int] = {**(bounds or {}), **more_bounds}
        dims = tuple(dict.fromkeys(d for _, axes in parsed for axis in axes for d, _ in axis.terms))
        _check_bounds(dims, given, notation)
        return cls(dims, tuple(given[d] for d in dims), tuple(tensors), name)


def _check(computation: Computation) -> None:
    where = computation.name or str(computation)
    if len(computation.dims) != len(computation.bounds):
        raise UserError(f"{len(computation.dims)} dimensions but {len(computation.bounds)} bounds", where=where)
    for dim, bound in zip(computation.dims, computation.bounds, strict=True):
        if isinstance(bound, bool) or not isinstance(bound, int):
            raise UserError(f"bound of {dim!r} must be an integer, got {bound!r}", where=where)
        if bound < 1:
            raise UserError(f"bound of {dim!r} must be >= 1, got {bound}", where=where)
    if (twice := repeated([t.name for t in computation.tensors])) is not None:
        raise UserError(f"tensor {twice!r} is named twice; every operand needs its own name", where=where)
    outputs = [t for t in computation.tensors if t.is_output]
    if len(outputs) != 1 or not computation.tensors[-1].is_output or len(computation.tensors) < 2:
        raise UserError("expected one or more inputs followed by one output", where=where)
    if (twice := repeated(computation.dims)) is not None:
        raise UserError(f"dimension {twice!r} is named twice", where=where)
    used = {d for t in computation.tensors for d in t.dims}
    for dim in computation.dims:
        if dim not in used:
            raise UserError(f"dimension {dim!r} indexes no tensor", where=where)
    for tensor in computation.tensors:
        unknown = tensor.dims - set(computation.dims)
        if unknown:
            raise UserError(
                f"tensor {tensor.name!r} is indexed by unknown dimension {sorted(unknown)[0]!r}", where=where
            )
        widths = (tensor.bits, tensor.partial_bits)
        is_whole = all(isinstance(w, int) and not isinstance(w, bool) for w in widths)
        if not is_whole or not 1 <= tensor.bits <= tensor.partial_bits:
            raise UserError(
                f"tensor {tensor.name!r} needs integers 1 <= bits <= partial_bits, got {widths[0]!r} and {widths[1]!r}",
                where=where,
            )


_TOKEN = re.compile(r"\s*(?:(?P<name>[A-Za-z_]\w*)|(?P<int>\d+)|(?P<op>\+=|[\[\],+*]))")


class _Parser:
    """Recursive descent over the notation; keeps the position for messages."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str, int]] = []
        position = 0
        end = len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                while text[position].isspace():
                    position += 1
                raise self.error(f"unexpected character {text[position]!r}", position)
            kind = str(match.lastgroup)
            self.tokens.append((kind, match.group(kind), match.start(kind)))
            position = match.end()
        self.tokens.append(("end", "end of text", len(text)))
        self.at = 0

    def error(self, problem: str, position: int) -> UserError:
        pointer = " " * position + "^"
        return UserError(
            f"{problem} at character {position + 1}\n  {self.text}\n  {pointer}\n",
            hint='expected e.g. "O[m,n] += A[m,k] * B[k,n]"',
        )

    def peek(self) -> str:
        kind, text, _ = self.tokens[self.at]
        return text if kind == "op" else kind

    def take(self, what: str) -> str:
        kind, text, position = self.tokens[self.at]
        if (text if kind == "op" else kind) != what:
            wanted = {"name": "a name", "int": "an integer", "end": "the end"}.get(what, f"{what!r}")
            raise self.error(f"expected {wanted}, got {text!r}", position)
        self.at += 1
        return text

    def tensor(self) -> tuple[str, tuple[AffineIndex, ...]]:
        name = self.take("name")
        self.take("[")
        axes = []
        if self.peek() != "]":
            axes.append(self.index())
            while self.peek() == ",":
                self.take(",")
                axes.append(self.index())
        self.take("]")
        return name, tuple(axes)

    def index(self) -> AffineIndex:
        terms: dict[str, int] = {}
        while True:
            position = self.tokens[self.at][2]
            coefficient = 1
            if self.peek() == "int":
                coefficient = int(self.take("int"))
                if self.peek() != "*":
                    raise self.error("a constant in an index changes no count and is not allowed", position)
                self.take("*")
                if coefficient < 1:
                    raise self.error("coefficients must be >= 1", position)
            dim = self.take("name")
            if dim in terms:
                raise self.error(f"dimension {dim!r} stands twice in one index", position)
            terms[dim] = coefficient
            if self.peek() != "+":
                return AffineIndex(tuple(terms.items()))
            self.take("+")


def _check_bounds(dims: tuple[str, ...], given: MappingABC[str, int], notation: str) -> None:
    missing = [d for d in dims if d not in given]
    if missing:
        raise UserError(
            f"no bound given for dimension {missing[0]!r}", where=notation, hint=f"give {', '.join(missing)}"
        )
    extra = [d for d in given if d not in dims]
    if extra:
        raise UserError(
            f"bound given for {extra[0]!r}, which indexes no tensor",
            where=notation,
            hint=f"dimensions are {', '.join(dims)}",
        )


def _parse_notation(text: str) -> list[tuple[str, tuple[AffineIndex, ...]]]:
    parser = _Parser(text)
    tensors = [parser.tensor()]
    parser.take("+=")
    tensors.append(parser.tensor())
    while parser.peek() == "*":
        parser.take("*")
        tensors.append(parser.tensor())
    parser.take("end")
    return tensors
