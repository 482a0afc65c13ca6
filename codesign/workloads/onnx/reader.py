"""Networks from ONNX files, with or without their weights.

The graph is walked once per batch size with concrete shapes (`walk`), each node becomes operators of the network
(`operators`). Two walks with different batches tell which axes and loop bounds grow with the batch, whatever
reshapes lie between.
"""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from codesign.core.errors import UserError, unknown_name
from codesign.workloads.network import Network, NetworkTensor, Operator
from codesign.workloads.onnx.graph_state import Settings
from codesign.workloads.onnx.walk import GraphWalk

_log = logging.getLogger(__name__)

_PROBE_BATCHES = (5, 7)
"""Lengths that no other axis is likely to have, so that a broadcast by accident does not go unnoticed."""

_BATCH_NAME = re.compile(r"batch|^(n|b|bs|bsz)$", re.IGNORECASE)
"""How people name the batch: ``batch``, ``batch_size``, ``N`` ..."""

_LISTED_AXIS = re.compile(r".+_dynamic_axes_\d+")
"""How torch's older exporter names the free axes of each input that were listed without a name."""

_EXPORTERS_NAME = re.compile(rf"s\d+|unk__\d+|{_LISTED_AXIS.pattern}")
"""Names that exporters make up: torch's ``s77`` and ``x_dynamic_axes_1``, TensorFlow's ``unk__6``."""


@dataclass(frozen=True)
class _InputAxis:
    """An axis of an activation input: its length in the file, or the symbol that stands for it."""

    input: str
    axis: int
    length: int | None
    symbol: str

    @property
    def is_unnamed(self) -> bool:
        """Whether the file gives it neither a length nor a symbol."""
        return self.symbol == f"{self.input}.{self.axis}"


def load_onnx(
    path: str | Path,
    *,
    batch: int | None = None,
    seq: int | None = None,
    dims: Mapping[str, int] | None = None,
    bits: int = 8,
    partial_bits: int | None = None,
) -> Network:
    """The network of an ONNX file. Weights are not read: they may be absent or in external files.

    What is not understood is kept as a vector operator, named in `Network.warnings` and logged.

    Args:
        path: The file.
        batch: Length of the axes whose symbol has ``batch`` in it, or else of the first axis of every input; default: what
            the file says. Where it leaves open an axis that is called like a batch, 1, which is logged (rule W14).
        seq: Length of the one other free axis that `dims` does not name, or the only one with ``seq`` or ``len`` in its name.
        dims: Length by symbol; an axis without a symbol is called ``INPUT.AXIS``.
        bits: Width of every element.
        partial_bits: Width of partial sums; default `bits`.

    Raises:
        UserError: The file is missing, truncated or not ONNX, a symbolic axis has no length, or a shape
            contradicts an operator.
    """
    try:
        network, assumed = _load(Path(path), batch, seq, dict(dims or {}), bits, partial_bits)
    except UserError as error:
        raise error.within(str(path)) from None
    for warning in (*assumed, *network.warnings):
        _log.warning("%s: %s", path, warning)
    return network


def _load(
    path: Path, batch: int | None, seq: int | None, dims: dict[str, int], bits: int, partial_bits: int | None
) -> tuple[Network, list[str]]:
    """The network, and what was assumed of its axes."""
    for field, value in (("batch", batch), ("seq", seq), *dims.items()):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise UserError(f"`{field}` must be an integer >= 1, got {value!r}")
    model = _read_model(path)
    axes = _input_axes(model)
    batch_symbols, own_batch = _batch_axes(axes)
    assumed = _assumed(axes, batch_symbols) if batch is None and batch_symbols.isdisjoint(dims) else []
    batch = 1 if assumed else batch
    lengths = _resolve(axes, batch_symbols, batch, seq, dims)
    for symbol in batch_symbols & set(dims):
        if batch not in (None, dims[symbol]):
            raise UserError(f"`batch` is {batch}, but `dims` gives {symbol}={dims[symbol]}")
        batch = lengths.pop(symbol)  # the walks set it
    wanted = batch if batch is not None else own_batch or 1

    def walk(size: int) -> Network:
        shapes = _shapes(axes, lengths, size, own_batch)
        settings = Settings(path.stem, bits, partial_bits, size, own_batch)
        return GraphWalk(model, shapes, settings).network()

    try:
        probed = _mark_batch(*(walk(size) for size in _PROBE_BATCHES))
    except UserError as error:
        if wanted != (own_batch or wanted):
            raise UserError(
                f"the batch of this file is fixed at {own_batch}, asked for {wanted}", hint=str(error)
            ) from None
        return replace(walk(wanted), fixed_batch=True), assumed
    return probed.with_batch(wanted), assumed


def _read_model(path: Path) -> Any:
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        model = onnx.load(str(path), load_external_data=False)
    except FileNotFoundError:
        raise UserError("no such file") from None
    except IsADirectoryError:
        raise UserError("expected a file, got a folder") from None
    except OSError as error:
        raise UserError(f"cannot read the file: {error.strerror}") from None
    except DecodeError:
        raise UserError("the file is truncated or not ONNX: it does not parse as a model") from None
    if not model.opset_import or not model.graph.node:
        missing = "operators" if not model.graph.node else "operator set version"
        raise UserError(f"the file is truncated or not ONNX: it parses, but has no {missing}")
    if model.functions:
        from onnx import inliner

        model = inliner.inline_local_functions(model)
    return model


def _input_axes(model: Any) -> list[_InputAxis]:
    from codesign.workloads.onnx.parameters import parameter_names

    parameters = parameter_names(model)
    axes = []
    for value in model.graph.input:
        if value.name in parameters:
            continue
        if not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
            raise UserError(f"input {value.name!r} has no shape; only tensors of known rank can be read")
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            length = dim.dim_value if dim.HasField("dim_value") and dim.dim_value > 0 else None
            axes.append(_InputAxis(value.name, axis, length, dim.dim_param or f"{value.name}.{axis}"))
    return axes


def _batch_axes(axes: list[_InputAxis]) -> tuple[set[str], int | None]:
    """The symbols of the batch, and the batch the file itself fixes (None: it leaves it open).

    A symbol with ``batch`` in it is one wherever it stands; otherwise the first axis of the inputs is the batch.
    """
    named = {a.symbol for a in axes if a.length is None and not a.is_unnamed and "batch" in a.symbol.lower()}
    first = _first_axes(axes)
    unnamed = {
        a.symbol for a in first if a.length is None and (a.is_unnamed or _LISTED_AXIS.fullmatch(a.symbol) is not None)
    }
    if named:
        return named | unnamed, None
    if not first:
        return set(), 1
    lead = first[0]
    if lead.length is None and re.search("seq|len|token", lead.symbol.lower()):
        return unnamed, None if unnamed else 1
    return (set(), lead.length) if lead.length is not None else ({lead.symbol} | unnamed, None)


def _assumed(axes: list[_InputAxis], batch_symbols: set[str]) -> list[str]:
    """What is said where free axes are taken for a batch of 1: none where no name speaks for it."""
    spoken = [
        a
        for a in axes
        if a.symbol in batch_symbols
        and not a.is_unnamed
        and (_BATCH_NAME.search(a.symbol) or _EXPORTERS_NAME.fullmatch(a.symbol))
    ]
    if not spoken:
        return []
    first = spoken[0]
    return [
        f"axis {first.symbol!r} (axis {first.axis} of {first.input}) is taken for the batch, which is 1 unless --batch or "
        f"--dims {first.symbol}=NUMBER says otherwise"
    ]


def _first_axes(axes: list[_InputAxis]) -> list[_InputAxis]:
    """The first axes of the inputs that have more than one; a lone vector need not be a batch."""
    return [a for a in axes if a.axis == 0 and sum(b.input == a.input for b in axes) > 1]


def _resolve(
    axes: list[_InputAxis], batch_symbols: set[str], batch: int | None, seq: int | None, dims: dict[str, int]
) -> dict[str, int]:
    """Length of every free axis that has one by name; nothing is assumed of the others.

    Raises:
        UserError: A name that no free axis has, or free axes without a length; the message lists all of them.
    """
    symbols = list(dict.fromkeys(a.symbol for a in axes if a.length is None))
    for name in dims:
        if name not in symbols:
            raise (
                unknown_name("symbolic dimension", name, symbols)
                if symbols
                else UserError(f"`dims` names {name!r}, but all axes of the inputs are fixed in the file")
            )
    lengths = dict(dims)
    if seq is not None:
        lengths[_sequence_axis([s for s in symbols if s not in batch_symbols], dims, symbols)] = seq
    given = batch is not None or not batch_symbols.isdisjoint(dims)
    missing = [s for s in symbols if s not in lengths and not (given and s in batch_symbols)]
    if missing:
        fixed = "the free axes of this file are" if len(symbols) > 1 else "the free axis of this file is"
        raise UserError(
            f"{'axes' if len(missing) > 1 else 'axis'} {', '.join(map(repr, missing))} of the inputs "
            f"{'have' if len(missing) > 1 else 'has'} no length; {fixed} {', '.join(_with_place(s, axes) for s in symbols)}",
            hint=f"give it by name: --dims {' '.join(f'{s}=...' for s in missing)}",
        )
    return lengths


def _with_place(symbol: str, axes: list[_InputAxis]) -> str:
    """A free axis with the first input that has it: exporters give names such as ``s31``."""
    first = next(a for a in axes if a.symbol == symbol)
    return symbol if first.is_unnamed else f"{symbol} (axis {first.axis} of {first.input})"


def _sequence_axis(free: list[str], dims: dict[str, int], symbols: list[str]) -> str:
    """The one axis that `seq` can only mean: the only free one, or the only one named after a sequence or a length."""
    left = [s for s in free if s not in dims]
    chosen = left if len(left) == 1 else [s for s in left if "seq" in s.lower() or "len" in s.lower()]
    if len(chosen) == 1:
        return chosen[0]
    if not left:
        raise UserError("`seq` was given, but the file has no symbolic sequence axis", hint=f"open: {symbols}")
    raise UserError(
        f"`seq` could be any of the axes {', '.join(chosen or left)}",
        hint=f"give them by name: --dims {' '.join(f'{s}=...' for s in chosen or left)}",
    )


def _shapes(
    axes: list[_InputAxis], lengths: dict[str, int], batch: int, own_batch: int | None
) -> dict[str, tuple[int, ...]]:
    """Concrete shape of every activation input; first axes that hold the file's own batch get the one of the walk."""
    first = _first_axes(axes)
    shapes: dict[str, list[int]] = {}
    for axis in axes:
        if axis.length is None:
            length = lengths.get(axis.symbol, batch)
        else:
            length = batch if axis in first and axis.length == own_batch else axis.length
        shapes.setdefault(axis.input, []).append(length)
    return {name: tuple(shape) for name, shape in shapes.items()}


def _mark_batch(first: Network, second: Network) -> Network:
    """The first of two walks, with the axes and bounds marked that differ in the second."""
    if [o.name for o in first.operators] != [o.name for o in second.operators]:
        raise UserError("the graph itself changes with the batch")
    tensors = tuple(_mark_tensor(t, second.tensor_by_name[t.name], first.batch, second.batch) for t in first.tensors)
    operators = tuple(
        _mark_operator(o, second.operator_by_name[o.name], first.batch, second.batch) for o in first.operators
    )
    return replace(first, tensors=tensors, operators=operators)


def _mark_tensor(first: NetworkTensor, second: NetworkTensor, batch: int, other: int) -> NetworkTensor:
    changed = [i for i, (a, b) in enumerate(zip(first.shape, second.shape, strict=True)) if a != b]
    if not changed:
        return first
    axis = changed[0]
    if len(changed) > 1 or first.shape[axis] * other != second.shape[axis] * batch:
        raise UserError(f"tensor {first.name!r} does not grow in proportion to the batch")
    return replace(first, batch_axis=axis)


def _mark_operator(first: Operator, second: Operator, batch: int, other: int) -> Operator:
    if first.computation is None or second.computation is None:
        return first
    if first.computation.dims != second.computation.dims:
        raise UserError(f"the dimensions of {first.name!r} change with the batch")
    sizes = second.computation.sizes
    changed = [d for d, bound in first.computation.sizes.items() if sizes[d] != bound]
    if not changed:
        return first
    dim = changed[0]
    if len(changed) > 1 or first.computation.sizes[dim] * other != sizes[dim] * batch:
        raise UserError(f"{first.name!r} does not grow in proportion to the batch")
    return replace(first, batch_dim=dim)
