"""Layers on the command line: ``conv K=64 C=64 P=56 Q=56 R=3 S=3 stride=2``, ``gemm M=128 N=768 K=768``."""

import inspect
import re
from collections.abc import Callable

from codesign.core.errors import UserError, unknown_name
from codesign.workloads import operators
from codesign.workloads.computation import Computation


def _depthwise(
    *,
    C: int,
    P: int,
    Q: int,
    R: int = 1,
    S: int = 1,
    N: int = 1,
    multiplier: int = 1,
    stride: operators.Pair = 1,
    dilation: operators.Pair = 1,
) -> Computation:
    return operators.conv2d(K=C * multiplier, C=C, P=P, Q=Q, R=R, S=S, N=N, G=C, stride=stride, dilation=dilation)


_FORMS: dict[str, Callable[..., Computation]] = {
    "conv": operators.conv2d,
    "dwconv": _depthwise,
    "gemm": operators.gemm,
    "gemv": operators.gemv,
    "bmm": operators.batched_matmul,
    "dot": operators.dot,
    "ttm": operators.ttm,
    "mttkrp": operators.mttkrp,
}
"""Operators by name; the parameters of each are the fields that may follow."""

_PAIRS = ("stride", "dilation")
"""Fields of one number or two (height, width)."""

_ALIASES = {"conv2d": "conv", "depthwise": "dwconv", "matmul": "gemm", "batched_matmul": "bmm"}
_WIDTHS = ("bits", "partial_bits")


def parse_layer(text: str) -> Computation:
    """The computation of a short layer string.

    The name of an operator, then ``FIELD=NUMBER`` in any order: conv (K C P Q, optional R S N G stride dilation; K and C
    of the whole layer), dwconv (C P Q, optional R S N multiplier stride dilation), gemm (M N K), gemv (M K), bmm
    (B M N K), dot (K), ttm and mttkrp (M N K L). Or any computation in the notation of `Computation.parse`, followed
    by its bounds. All take ``bits`` and ``partial_bits``.

    Raises:
        UserError: An unknown operator or field, a missing, repeated or malformed one.

    >>> parse_layer("gemm M=128 N=768 K=64").macs
    6291456
    >>> parse_layer("Y[i] += A[i,j] * X[j] i=4 j=8").macs
    32
    """
    try:
        return _parse_notation(text) if "+=" in text else _parse_form(text)
    except UserError as error:
        raise error.within(f"layer {text!r}") from None


def _parse_notation(text: str) -> Computation:
    end = text.rfind("]") + 1
    fields = _fields(text[end:].split())
    bits, partial_bits = _take_widths(fields)
    bounds = {name: _integer(name, value) for name, value in fields.items()}
    return Computation.parse(text[:end], bounds, bits=bits, partial_bits=partial_bits)


def _parse_form(text: str) -> Computation:
    words = text.split()
    if not words:
        raise UserError("expected a layer, got nothing", hint="e.g. conv K=64 C=64 P=56 Q=56 R=3 S=3")
    name = words[0].lower()
    name = _ALIASES.get(name, name)
    if name not in _FORMS:
        raise unknown_name("operator", words[0], [*_FORMS, *_ALIASES])
    parameters = inspect.signature(_FORMS[name]).parameters.values()
    form = {p.name: p.default is p.empty for p in parameters if p.kind is p.KEYWORD_ONLY}
    known = {f.lower(): f for f in (*form, *_WIDTHS)}
    fields: dict[str, str] = {}
    for given, value in _fields(words[1:]).items():
        field = known.get(given.lower())
        if field is None:
            raise unknown_name(f"field of {name}", given, known.values())
        if field in fields:
            raise UserError(f"`{field}` is given twice")
        fields[field] = value
    bits, partial_bits = _take_widths(fields)
    required = [f for f, needed in form.items() if needed]
    missing = [f for f in required if f not in fields]
    if missing:
        raise UserError(f"{name} needs {', '.join(required)}; missing: {', '.join(missing)}")
    sizes = {f: _pair(f, text) if f in _PAIRS else _integer(f, text) for f, text in fields.items()}
    return _FORMS[name](**sizes).with_bits(bits, partial_bits)


def _fields(words: list[str]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for word in words:
        field, equals, value = word.partition("=")
        if not equals or not field or not value:
            raise UserError(f"expected FIELD=NUMBER, got {word!r}")
        if field in fields:
            raise UserError(f"`{field}` is given twice")
        fields[field] = value
    return fields


def _take_widths(fields: dict[str, str]) -> tuple[int, int | None]:
    bits = _integer("bits", fields.pop("bits", "8"))
    partial = fields.pop("partial_bits", None)
    return bits, None if partial is None else _integer("partial_bits", partial)


def _integer(field: str, text: str) -> int:
    if not re.fullmatch(r"\d+", text) or int(text) < 1:
        raise UserError(f"`{field}` must be an integer >= 1, got {text!r}")
    return int(text)


def _pair(field: str, text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)(?:[x,](\d+))?", text)
    if match is None:
        raise UserError(f"`{field}` must be a number or HEIGHTxWIDTH, got {text!r}")
    height = _integer(field, match[1])
    return height, height if match[2] is None else _integer(field, match[2])
