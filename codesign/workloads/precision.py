"""Widths of weights, activations and caches: ``W4A8``, ``W4A16KV8``, ``fp8``, ``mxfp4`` (rules P1-P5 in docs/reference/workloads.md).

A name of a format is an integer width (``4``), a width with one 16-bit scale for every g elements (``4g128``), or one of `FORMATS`.
Microscaling formats share one 8-bit exponent among 32 elements (OCP Microscaling Formats specification 1.0, 2023).
"""

import fnmatch
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from codesign.core.errors import UserError, unknown_name
from codesign.workloads.computation import Computation, Role, Tensor
from codesign.workloads.network import Network, Operator, OperatorKind


@dataclass(frozen=True)
class ElementFormat:
    """How one element is written.

    Args:
        name: The name by which a specification says it, such as `4g128`.
        bits: Of an element.
        scale_bits: Of the scale that a block shares.
        block: Elements that share it.
        floating: Whether it is a float.
    """

    name: str
    bits: int
    scale_bits: int = 0
    block: int = 1
    floating: bool = False

    @property
    def extra_bits(self) -> float:
        """Share of the scale in bits per element (rule P2)."""
        return self.scale_bits / self.block


FORMATS = {
    f.name: f
    for f in (
        ElementFormat("fp32", 32, floating=True),
        ElementFormat("fp16", 16, floating=True),
        ElementFormat("bf16", 16, floating=True),
        ElementFormat("fp8", 8, floating=True),
        ElementFormat("fp4", 4, floating=True),
        ElementFormat("int8", 8),
        ElementFormat("int4", 4),
        ElementFormat("mxfp8", 8, 8, 32, floating=True),
        ElementFormat("mxfp6", 6, 8, 32, floating=True),
        ElementFormat("mxfp4", 4, 8, 32, floating=True),
        ElementFormat("mxint8", 8, 8, 32),
        ElementFormat("nvfp4", 4, 8, 16, floating=True),
    )
}
"""Formats by name. `mx`: OCP Microscaling 1.0; `nvfp4`: an FP8 scale for every 16 elements (NVIDIA Blackwell)."""

_GROUP_SCALE_BITS = 16
_WIDTH = re.compile(r"(\d+)(?:g(\d+))?")
_PART = re.compile(r"(KV|W|A)(\d+(?:g\d+)?|[a-z]+\d+)")


def element_format(name: str) -> ElementFormat:
    """The format of that name.

    Raises:
        UserError: There is none.

    >>> element_format("4g128").extra_bits
    0.125
    """
    match = _WIDTH.fullmatch(name)
    if match is None:
        if name not in FORMATS:
            raise unknown_name("element format", name, list(FORMATS))
        return FORMATS[name]
    bits, group = int(match[1]), match[2]
    if not 1 <= bits <= 64:
        raise UserError(f"an element must have 1 to 64 bits, got {name!r}")
    if group is None:
        return ElementFormat(name, bits)
    if int(group) < 1:
        raise UserError(f"a group must have at least one element, got {name!r}")
    return ElementFormat(name, bits, _GROUP_SCALE_BITS, int(group))


@dataclass(frozen=True)
class Precision:
    """Widths of one network or layer.

    Args:
        weights: Parameters that the MAC array reads.
        activations: Everything else.
        cache: Keys and values kept from earlier tokens; None is as activations.
        layers: Precision of operators whose name matches a pattern (``lm_head*``), the first that does.
    """

    weights: ElementFormat
    activations: ElementFormat
    cache: ElementFormat | None = None
    layers: Mapping[str, "Precision"] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> "Precision":
        """What ``W4A16KV8``, one format name, or a list with patterns (``W4A8,lm_head*=W8A16``) says.

        Raises:
            UserError: It says nothing that is known.

        >>> Precision.parse("W4A16KV8").cache.bits
        8
        """
        first, *rest = [part.strip() for part in text.split(",")]
        layers: dict[str, Precision] = {}
        for part in rest:
            pattern, _, spec = part.partition("=")
            if not pattern or not spec:
                raise UserError(f"--precision: a layer's is written PATTERN=PRECISION, got {part!r}")
            layers[pattern] = cls.parse(spec)
        if first in FORMATS:
            return cls(FORMATS[first], FORMATS[first], FORMATS[first], layers)
        found = {key: element_format(name) for key, name in _PART.findall(first)}
        if "".join(f"{key}{name}" for key, name in _PART.findall(first)) != first or not {"W", "A"} <= set(found):
            raise UserError(
                f"a precision is written like W4A8, W4A16KV8 or mxfp4, got {first!r}",
                hint=f"formats: a width, a width with a group (4g128), {', '.join(FORMATS)}",
            )
        return cls(found["W"], found["A"], found.get("KV"), layers)

    def of(self, operator: str) -> "Precision":
        """The precision of one operator: that of the first pattern its name matches, else the general one."""
        return next((p for pattern, p in self.layers.items() if fnmatch.fnmatchcase(operator, pattern)), self)


Widths = tuple[tuple[int, bool], tuple[int, bool]]
"""(bits, whether a float) of the two operands of a MAC, the wider first."""


def operand_widths(network: Network, precision: Precision) -> frozenset[Widths]:
    """The pairs of operands that the MACs of a network at a precision are given; computations of two operands alone."""
    kinds = _formats(network, precision)
    found: set[Widths] = set()
    for operator in network.operators:
        if operator.computation is None or len(operator.computation.inputs) != 2:
            continue
        pair = [kinds[name] for tensor, name in operator.operand_pairs if not tensor.is_output]
        wide, narrow = sorted(((k.bits, k.floating) for k in pair), reverse=True)
        found.add((wide, narrow))
    return frozenset(found)


def narrowed(computation: Computation, precision: Precision) -> Computation:
    """A layer alone: weights by role, inputs and the output as activations (rule P1).

    Partial sums keep their width, or become as wide as the output where that is wider.
    """

    def narrow(tensor: Tensor) -> Tensor:
        kind = precision.weights if tensor.role is Role.WEIGHT else precision.activations
        return tensor.stored(kind.bits, kind.extra_bits)

    return replace(computation, tensors=tuple(map(narrow, computation.tensors)))


def with_precision(network: Network, precision: Precision) -> Network:
    """The network with widths by what every tensor is (rules P1 and P3).

    Raises:
        UserError: A pattern matches no operator.
    """
    for pattern in precision.layers:
        if not any(fnmatch.fnmatchcase(o.name, pattern) for o in network.operators):
            raise UserError(f"--precision: no operator is called {pattern!r}", where=f"network {network.name!r}")
    kinds = _formats(network, precision)
    stored = ((t, kinds[t.name]) for t in network.tensors)
    tensors = tuple(replace(t, bits=kind.bits, scale_bits=kind.extra_bits) for t, kind in stored)
    operators = tuple(_narrowed_operator(o, precision.of(o.name), kinds) for o in network.operators)
    return replace(network, tensors=tensors, operators=operators)


def _formats(network: Network, precision: Precision) -> dict[str, ElementFormat]:
    """The format of every tensor: as its first reader wants it, else as its writer."""
    kinds = {t.name: precision.activations for t in network.tensors}
    parameters = {t.name for t in network.tensors if t.is_parameter}
    for operator in reversed(network.operators):
        own = precision.of(operator.name)
        for name in operator.outputs if not network.consumers.get(operator.outputs[0]) else ():
            kinds[name] = own.activations
        for name in operator.inputs:
            if name not in parameters:
                kinds[name] = own.activations
            elif operator.computation is not None and name in operator.operands:
                kinds[name] = own.weights
    for name in _cached(network):
        kinds[name] = precision.cache or precision.activations
    return kinds


def _cached(network: Network) -> set[str]:
    """Caches, and views of them (rule P3)."""
    found: set[str] = set()
    for operator in network.operators:
        grows = operator.kind is OperatorKind.APPEND
        view = operator.kind in (OperatorKind.RESHAPE, OperatorKind.TRANSPOSE, OperatorKind.SLICE)
        if grows:
            found.update((operator.inputs[0], *operator.outputs))
        elif view and operator.inputs[0] in found:
            found.update(operator.outputs)
    return found


def _narrowed_operator(operator: Operator, own: Precision, kinds: Mapping[str, ElementFormat]) -> Operator:
    def narrow(tensor: Tensor, name: str) -> Tensor:
        kind = own.activations if tensor.is_output else kinds[name]
        return tensor.stored(kind.bits, kind.extra_bits)

    return operator.with_tensors(narrow)
