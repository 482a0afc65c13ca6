"""`tensorize`: which part of a computation becomes one call of an intrinsic."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from codesign.core.checks import check_least
from codesign.core.errors import UserError
from codesign.core.json_types import JsonObject
from codesign.library.results import AbstractResult
from codesign.tensorization.choice import TensorizeChoice, choices
from codesign.tensorization.diagnosis import no_match_error
from codesign.tensorization.intrinsics import Intrinsic, parse_bounds
from codesign.tensorization.intrinsics import intrinsic as make_intrinsic
from codesign.workloads.computation import Computation
from codesign.workloads.layer_string import parse_layer

if TYPE_CHECKING:
    import plotly.graph_objects as go


@final
@dataclass(frozen=True)
class TensorizeOptions:
    """Which choices are listed.

    Args:
        partial: Whether the intrinsic may leave some of its indices unused.
        unsound: Whether choices that compute something else are listed too.
        bits: Width of operands; default 8, of a layer its own.
        partial_bits: Width of partial sums; default 32, or that of operands where it is more.
    """

    partial: bool = False
    unsound: bool = False
    bits: int | None = None
    partial_bits: int | None = None

    def __post_init__(self) -> None:
        check_least(1, bits=self.bits, partial_bits=self.partial_bits)


DEFAULT_OPTIONS = TensorizeOptions()


@final
@dataclass(frozen=True)
class TensorizedComputation(AbstractResult):
    """The choices of a computation for an intrinsic.

    Args:
        computation: What is computed.
        intrinsic: What one call computes.
        choices: Least padding first.
    """

    computation: Computation
    intrinsic: Intrinsic
    choices: tuple[TensorizeChoice, ...]

    def to_json(self) -> JsonObject:
        """See `AbstractResult`."""
        return {
            "status": "ok",
            "computation": str(self.computation),
            "bounds": dict(self.computation.sizes),
            "intrinsic": str(self.intrinsic.computation),
            "choices": [choice.to_json() for choice in self.choices],
        }

    def headline(self) -> JsonObject:
        """See `AbstractResult`."""
        return {
            "computation": str(self.computation),
            "intrinsic": f"{self.intrinsic.name}, size {self.intrinsic.size_text}",
            "choices": len(self.choices),
        }

    def rows(self) -> list[JsonObject]:
        """One row for every choice."""
        return [
            {
                "choice": number,
                "match": ", ".join(f"{index}={dim}" for index, dim in choice.match.index_map),
                "calls": choice.calls,
                "padding_waste": choice.padding_waste,
                "executed_macs": choice.executed_macs,
            }
            for number, choice in enumerate(self.choices)
        ]

    def plot(self) -> "go.Figure":
        """Multiply-accumulates that each choice executes."""
        from codesign.report.figures import parts_figure

        both = zip(self.rows(), self.choices, strict=True)
        parts = [(f"{row['choice']}: {row['match']}", float(choice.executed_macs)) for row, choice in both]
        return parts_figure(parts, "executed MACs", str(self.computation))


def tensorize(
    computation: Computation | str,
    intrinsic: str | Intrinsic,
    *,
    bounds: str | Mapping[str, int] | None = None,
    size: str | Mapping[str, int] | None = None,
    options: TensorizeOptions = DEFAULT_OPTIONS,
) -> TensorizedComputation:
    """Every way to run a computation by calls of an intrinsic.

    Args:
        computation: A value, notation such as ``C[m,n] += A[m,k]*B[k,n]`` with `bounds`, or a layer such as ``gemm M=64 N=64 K=64``.
        intrinsic: A name (``gemm``, ``gemv``, ``dot``, ``conv2d`` ...), or notation of its own.
        bounds: Of the dimensions of the notation, by name or as text such as ``m=64,n=64,k=64``.
        size: Of the intrinsic, e.g. ``16x16x16``.
        options: Which choices are listed.

    Raises:
        UserError: An input cannot be used, or nothing matches; the message says at which condition the nearest miss fails.

    >>> found = tensorize("C[m,n] += A[m,k]*B[k,n]", "gemm", bounds={"m": 64, "n": 64, "k": 64}, size="16x16x16")
    >>> found.choices[0].calls
    64
    """
    if isinstance(computation, str):
        computation = as_tensor_computation(computation, bounds, options.bits, options.partial_bits)
    unit = intrinsic if isinstance(intrinsic, Intrinsic) else make_intrinsic(intrinsic, size)
    found = choices(computation, unit, partial=options.partial, unsound=options.unsound)
    if not found:
        raise no_match_error(computation, unit)
    return TensorizedComputation(computation, unit, tuple(found))


def as_tensor_computation(
    text: str, bounds: str | Mapping[str, int] | None, bits: int | None, partial_bits: int | None
) -> Computation:
    """The computation of notation and bounds, or of a layer.

    Raises:
        UserError: It is neither, or its bounds or widths are given twice or not at all.
    """
    if bounds is not None:
        given = parse_bounds(bounds) if isinstance(bounds, str) else dict(bounds)
        return Computation.parse(text, given, bits=bits or 8, partial_bits=partial_bits or max(32, bits or 8))
    rest = text[text.rfind("]") + 1 :]
    if "[" in text and "=" not in rest:
        raise UserError("the dimensions have no bounds", where=text, hint="give --bounds, e.g. k=64,c=64,x=56")
    for name, value in (("bits", bits), ("partial_bits", partial_bits)):
        if value is None:
            continue
        if re.search(rf"\b{name}=", text):
            raise UserError(f"`{name}` stands in the layer and as --{name.replace('_', '-')}; give one", where=text)
        text = f"{text} {name}={value}"
    layer = parse_layer(text)
    width = max(t.bits for t in layer.tensors)
    return layer if "partial_bits=" in text else layer.with_bits(width, max(32, width))
