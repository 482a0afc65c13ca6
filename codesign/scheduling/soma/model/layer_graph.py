"""The layer graph a schedule is made for: dimensions, producers and external inputs of every layer.

The JSON form is that of the reference data: `layers` with `type`, dimensions (`H`, `W` are the *output* extents),
`ifm_prevs` / `wgt_prevs` (producers of the input and of on-chip weights), `ext_prevs` (external inputs). One element
is one byte.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np

from codesign.core.checks import check_whole
from codesign.core.errors import UserError, unknown_name
from codesign.core.kernel_library import IntArray
from codesign.core.runnable import runnable_order


class LayerType(IntEnum):
    """Operator kinds; the first three run on the matrix engine, the others on the vector unit."""

    CONV = 0
    GROUP_CONV = 1
    FC = 2
    POOL = 3
    ELTWISE = 4
    POINTWISE = 5
    TRANSPOSE = 6
    UPSAMPLE = 7


TYPE_NAMES = {
    "Conv": LayerType.CONV,
    "GroupConv": LayerType.GROUP_CONV,
    "FC": LayerType.FC,
    "Pooling": LayerType.POOL,
    "Eltwise": LayerType.ELTWISE,
    "PTP": LayerType.POINTWISE,
    "Transpose": LayerType.TRANSPOSE,
    "Upsample": LayerType.UPSAMPLE,
}

# Columns of `LayerGraph.table`, the form the compiled code reads.
(
    TYPE, K, H, W, C, R, S, SH, SW, GROUPS, N_IN, PAD_H, PAD_W, H_IN, W_IN, WEIGHT_BYTES, DYNAMIC, O0, O1, O2, CG, KG,
    SPAN_H, SPAN_W, N_COLUMNS,
) = range(25)  # fmt: skip

IFMAP_EDGE, WEIGHT_EDGE, WHOLE_EDGE = 0, 1, 2


@dataclass(frozen=True)
class Layer:
    """One layer, per sample.

    Args:
        name: For messages and tables.
        type: Operator kind.
        K: Output channels.
        H: Output height.
        W: Output width.
        C: Input channels (all groups).
        R: Kernel height.
        S: Kernel width.
        stride_h: Vertical stride.
        stride_w: Horizontal stride.
        groups: Groups of a grouped convolution (heads of an attention product).
        dilation_h: Rows from one tap to the next.
        dilation_w: Columns from one tap to the next.
        operands: Inputs of an element-wise layer.
        pad_h: Rows of padding above the first input row.
        pad_w: Columns of padding left of the first input column.
        in_h: Input height without padding.
        in_w: Input width without padding.
        order: Output axis j (C, H, W) is input axis ``order[j]``; only transposes differ from (0, 1, 2).
        ifm_prevs: Producers of the input, several when it is concatenated along channels or added.
        wgt_prevs: Producers of weights computed on chip (attention).
        ext_prevs: External inputs read.
        whole_prevs: Producers whose whole output (of the tile's samples) every tile needs.
        whole_ext_prevs: External inputs of which every tile needs all (of its samples).
        constant_bytes: What the layer loads once besides its weights, the same for every sample (constants of vector layers).
        on_chip_weights: Whether the weights are an operand made on chip or read from outside for each sample (attention products of converted networks).
    """

    name: str
    type: LayerType
    K: int
    H: int
    W: int
    C: int
    R: int = 1
    S: int = 1
    stride_h: int = 1
    stride_w: int = 1
    groups: int = 1
    dilation_h: int = 1
    dilation_w: int = 1
    operands: int = 1
    pad_h: int = 0
    pad_w: int = 0
    in_h: int = 1
    in_w: int = 1
    order: tuple[int, int, int] = (0, 1, 2)
    ifm_prevs: tuple[int, ...] = ()
    wgt_prevs: tuple[int, ...] = ()
    ext_prevs: tuple[int, ...] = ()
    whole_prevs: tuple[int, ...] = ()
    whole_ext_prevs: tuple[int, ...] = ()
    constant_bytes: int = 0
    on_chip_weights: bool = False

    @property
    def reads(self) -> tuple[tuple[int, int], ...]:
        """`prevs` with the kind of each edge."""
        kinds = ((self.ifm_prevs, IFMAP_EDGE), (self.wgt_prevs, WEIGHT_EDGE), (self.whole_prevs, WHOLE_EDGE))
        return tuple((producer, kind) for producers, kind in kinds for producer in producers)

    @property
    def prevs(self) -> tuple[int, ...]:
        """Every layer whose output this layer reads."""
        return (*self.ifm_prevs, *self.wgt_prevs, *self.whole_prevs)

    @property
    def span(self) -> tuple[int, int]:
        """Input rows and columns from the first tap of a window to its last; the holes of a dilation count."""
        return (self.R - 1) * self.dilation_h + 1, (self.S - 1) * self.dilation_w + 1

    @property
    def is_matrix(self) -> bool:
        """Whether the layer runs on the PE array."""
        return self.type <= LayerType.FC

    @property
    def weight_bytes(self) -> int:
        """Stored weights; none for vector layers and for weights computed on chip."""
        if not self.is_matrix or self.wgt_prevs or self.on_chip_weights:
            return 0
        return self.C // self.groups * self.K * self.R * self.S

    @property
    def ops(self) -> int:
        """Multiply-accumulates, or vector operations, per sample."""
        volume = self.K * self.H * self.W * self.R * self.S
        return volume * (self.C // self.groups if self.is_matrix else self.operands)

    def row(self) -> list[int]:
        """The layer as one row of `LayerGraph.table`."""
        group_in = max(self.C // self.groups, 1)
        group_out = max(self.K // self.groups, 1)
        return [
            int(self.type), self.K, self.H, self.W, self.C, self.R, self.S, self.stride_h, self.stride_w, self.groups, self.operands,
            self.pad_h, self.pad_w, self.in_h, self.in_w, self.weight_bytes + self.constant_bytes, int(bool(self.wgt_prevs) or self.on_chip_weights), *self.order,
            group_in, group_out, *self.span,
        ]  # fmt: skip


@dataclass(frozen=True)
class LayerGraph:
    """A network: layers in any order (a layer's index is its id), external inputs.

    Args:
        name: For messages.
        layers: The layers; producers are indices into this tuple.
        external_inputs: Shapes (C, H, W) of the external inputs.

    Raises:
        UserError: An edge leads nowhere or the graph has a cycle.
    """

    name: str
    layers: tuple[Layer, ...]
    external_inputs: tuple[tuple[int, int, int], ...]
    topological: tuple[int, ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        if not self.layers:
            raise UserError("a network needs at least one layer", where=self.name)
        for index, layer in enumerate(self.layers):
            for producer in layer.prevs:
                if not 0 <= producer < len(self.layers):
                    raise UserError(
                        f"producer {producer} does not exist (the network has layers 0..{len(self.layers) - 1})",
                        where=f"{self.name}: layer {index} {layer.name!r}",
                    )
            for source in (*layer.ext_prevs, *layer.whole_ext_prevs):
                if not 0 <= source < len(self.external_inputs):
                    raise UserError(
                        f"external input {source} does not exist (there are {len(self.external_inputs)})",
                        where=f"{self.name}: layer {index} {layer.name!r}",
                    )
            if not (layer.prevs or layer.ext_prevs or layer.whole_ext_prevs):
                raise UserError("a layer must read something", where=f"{self.name}: layer {index} {layer.name!r}")
        names = [layer.name for layer in self.layers]
        order = runnable_order([layer.prevs for layer in self.layers], names, self.name)
        object.__setattr__(self, "topological", order)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one sample."""
        return sum(layer.ops for layer in self.layers if layer.is_matrix)

    @property
    def weight_bytes(self) -> int:
        """Stored weights of all layers."""
        return sum(layer.weight_bytes for layer in self.layers)

    @cached_property
    def latest_order(self) -> tuple[int, ...]:
        """Layer ids, each as late as its consumers allow; of equals, the smaller output first.

        Large intermediate results are then made shortly before they are used, which a search reaches from
        `topological` only by many moves.
        """
        level = [0] * len(self.layers)
        for index in reversed(self.topological):
            for producer in self.layers[index].prevs:
                level[producer] = min(level[producer], level[index] - 1)
        volume = [layer.K * layer.H * layer.W for layer in self.layers]
        return tuple(sorted(range(len(self.layers)), key=lambda i: (level[i], volume[i], i)))

    @cached_property
    def table(self) -> IntArray:
        """``layers x N_COLUMNS``: dimensions of every layer."""
        return np.array([layer.row() for layer in self.layers], dtype=np.int64)

    @cached_property
    def kinds(self) -> IntArray:
        """Number of each layer's row of the table, equal for equal rows."""
        _, kinds = np.unique(self.table, axis=0, return_inverse=True)
        return kinds.astype(np.int64).reshape(-1)

    @cached_property
    def producers(self) -> tuple[IntArray, IntArray, IntArray]:
        """Edges into each layer, compressed rows: starts ``layers+1``, producer ids, edge kinds."""
        return _compress([layer.reads for layer in self.layers])

    @cached_property
    def readers(self) -> list[list[tuple[int, int]]]:
        """For each layer those that read its output, with the kind of the edge."""
        rows: list[list[tuple[int, int]]] = [[] for _ in self.layers]
        for index, layer in enumerate(self.layers):
            for producer, kind in layer.reads:
                rows[producer].append((index, kind))
        return rows

    @cached_property
    def consumers(self) -> tuple[IntArray, IntArray, IntArray]:
        """Edges out of each layer, compressed rows: starts ``layers+1``, consumer ids, edge kinds."""
        return _compress(self.readers)

    @cached_property
    def externals(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """External reads of each layer, compressed rows.

        Returns:
            Starts ``layers+1``, input ids, their channels, and 0 or, where every tile needs the whole input, its bytes per sample.
        """
        shapes = self.external_inputs
        rows = [
            [(e, shapes[e][0], 0) for e in layer.ext_prevs]
            + [(e, shapes[e][0], math.prod(shapes[e])) for e in layer.whole_ext_prevs]
            for layer in self.layers
        ]
        starts, ids, channels = _compress([[(e, c) for e, c, _ in row] for row in rows])
        return starts, ids, channels, np.array([size for row in rows for _, _, size in row], dtype=np.int64)


def _compress(rows: Sequence[Sequence[tuple[int, int]]]) -> tuple[IntArray, IntArray, IntArray]:
    starts = np.cumsum([0, *(len(row) for row in rows)], dtype=np.int64)
    flat = [pair for row in rows for pair in row]
    return starts, np.array([a for a, _ in flat], dtype=np.int64), np.array([b for _, b in flat], dtype=np.int64)


def _integer(raw: Mapping[str, Any], key: str, where: str, default: int | None = None, minimum: int = 1) -> int:
    value: int | None = raw.get(key, default)
    if value is None:
        raise UserError(f"`{key}` is missing", where=where)
    check_whole(minimum, where=where, **{key: value})
    return value


def _indices(raw: Mapping[str, Any], key: str, where: str) -> tuple[int, ...]:
    value = raw.get(key) or []
    if not isinstance(value, list) or not all(type(v) is int for v in value):
        raise UserError(f"`{key}` must be a list of indices, got {value!r}", where=where)
    return tuple(value)


def _input_extent(raw: Mapping[str, Any], axis: int, output: int, stride: int, kernel: int, where: str) -> int:
    real = raw.get("ifmap_real_CHW")
    if real is None:
        return max((output - 1) * stride + kernel, 1)
    if not isinstance(real, list) or len(real) != 3 or not all(type(v) is int and v >= 1 for v in real):
        raise UserError(f"`ifmap_real_CHW` must be three integers, got {real!r}", where=where)
    return int(real[axis])


def _layer(raw: Any, index: int, network: str) -> Layer:
    if not isinstance(raw, Mapping):
        raise UserError(f"a layer must be an object, got {raw!r}", where=f"{network}: layer {index}")
    name = str(raw.get("name", f"layer{index}"))
    where = f"{network}: layer {index} {name!r}"
    type_name = str(raw.get("type"))
    if type_name not in TYPE_NAMES:
        raise unknown_name("operator type", type_name, TYPE_NAMES, where=where)
    kind = TYPE_NAMES[type_name]
    K_, H_, W_ = (_integer(raw, key, where) for key in ("K", "H", "W"))
    R_, S_ = _integer(raw, "R", where, 1), _integer(raw, "S", where, 1)
    sH, sW = _integer(raw, "sH", where, 1), _integer(raw, "sW", where, 1)
    dH, dW = _integer(raw, "dH", where, 1), _integer(raw, "dW", where, 1)
    span_h, span_w = (R_ - 1) * dH + 1, (S_ - 1) * dW + 1
    matrix = kind <= LayerType.FC
    C_ = _integer(raw, "C", where, None if matrix else K_)
    groups = _integer(raw, "G", where, 1) if kind == LayerType.GROUP_CONV else 1
    if C_ % groups or K_ % groups:
        raise UserError(f"channels C={C_} and K={K_} must be multiples of the {groups} groups", where=where)
    order = raw.get("order_CHW", [0, 1, 2])
    if not isinstance(order, list) or order not in ([0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]):
        raise UserError(f"`order_CHW` must be a permutation of 0, 1, 2, got {order!r}", where=where)
    in_h = _input_extent(raw, 1, H_, sH, span_h, where)
    in_w = _input_extent(raw, 2, W_, sW, span_w, where)
    return Layer(
        name=name, type=kind, K=K_, H=H_, W=W_, C=C_, R=R_, S=S_, stride_h=sH, stride_w=sW, groups=groups,
        dilation_h=dH, dilation_w=dW,
        operands=_integer(raw, "N", where, 1),
        pad_h=_integer(raw, "pad_h", where, max((H_ - 1) * sH + span_h - in_h, 0) // 2, minimum=0),
        pad_w=_integer(raw, "pad_w", where, max((W_ - 1) * sW + span_w - in_w, 0) // 2, minimum=0),
        in_h=in_h, in_w=in_w, order=(order[0], order[1], order[2]),
        ifm_prevs=_indices(raw, "ifm_prevs", where), wgt_prevs=_indices(raw, "wgt_prevs", where),
        ext_prevs=_indices(raw, "ext_prevs", where), whole_prevs=_indices(raw, "whole_prevs", where),
        whole_ext_prevs=_indices(raw, "whole_ext_prevs", where),
    )  # fmt: skip


def _external(raw: Any, index: int, network: str) -> tuple[int, int, int]:
    shape = raw.get("shape_CHW") if isinstance(raw, Mapping) else raw
    if not isinstance(shape, list) or len(shape) != 3 or not all(isinstance(v, int) and v >= 1 for v in shape):
        raise UserError(f"an external input needs a shape [C, H, W], got {shape!r}", where=f"{network}: input {index}")
    return shape[0], shape[1], shape[2]


def graph_from_json(raw: Any, name: str) -> LayerGraph:
    """The network in a parsed JSON value: `{"network": {"layers": ...}}` or the inner object.

    Raises:
        UserError: A field is missing or wrong, an operator unknown, an edge dangling, the graph cyclic.
    """
    body = raw.get("network", raw) if isinstance(raw, Mapping) else raw
    if not isinstance(body, Mapping) or not isinstance(body.get("layers"), list):
        raise UserError('expected an object with "layers" (a list)', where=name)
    layers = body["layers"]
    for index, layer in enumerate(layers):
        if isinstance(layer, Mapping) and layer.get("id", index) != index:
            raise UserError(f"layer ids must count 0, 1, 2, ...; got {layer['id']!r}", where=f"{name}: layer {index}")
    externals = body.get("external_inputs") or []
    return LayerGraph(
        name,
        tuple(_layer(layer, index, name) for index, layer in enumerate(layers)),
        tuple(_external(shape, index, name) for index, shape in enumerate(externals)),
    )
