"""Layers of a network on many cores: shapes, and who reads whom (rules M1, M2)."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from codesign.core.errors import UserError, unknown_name
from codesign.core.kernel_library import IntArray
from codesign.scheduling.segments.kernels import layout
from codesign.scheduling.segments.kernels.tree import Edges


class LayerKind(IntEnum):
    """What a layer computes."""

    CONV = layout.CONV
    FC = layout.FC
    GROUP_CONV = layout.GROUP_CONV
    POOL = layout.POOL
    ELTWISE = layout.ELTWISE
    PTP = layout.PTP
    TRANSPOSE = layout.TRANSPOSE


@dataclass(frozen=True)
class SegmentLayer:
    """A layer of a network; sizes are those of one sample.

    Args:
        name: Of the layer.
        kind: What it computes.
        C: Input channels.
        K: Output channels.
        R: Rows of the kernel.
        S: Columns of the kernel.
        H: Output rows.
        W: Output columns.
        stride_h: Input rows from one output row to the next.
        stride_w: Input columns from one output column to the next.
        operands: Inputs of an elementwise layer.
        groups: Of a group convolution.
        pad_h: Rows of padding before the input.
        pad_w: Columns of padding.
        in_h: Input rows without padding.
        in_w: Input columns.
        weight_words: Weights, stored or from producers.
        external_c: Input channels from outside the network, before all others.
        axes: Where a transposition puts channels, rows and columns.
        inputs: Layers whose outputs are the input, concatenated along channels.
        weight_inputs: Layers whose outputs are the weights of each sample.
    """

    name: str
    kind: LayerKind
    C: int
    K: int
    R: int
    S: int
    H: int
    W: int
    stride_h: int = 1
    stride_w: int = 1
    operands: int = 1
    groups: int = 1
    pad_h: int = 0
    pad_w: int = 0
    in_h: int = 1
    in_w: int = 1
    weight_words: int = 0
    external_c: int = 0
    axes: tuple[int, int, int] = (0, 1, 2)
    inputs: tuple[int, ...] = ()
    weight_inputs: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for field in ("C", "K", "R", "S", "H", "W", "stride_h", "stride_w", "operands", "groups"):
            if getattr(self, field) < 1:
                raise UserError(f"`{field}` must be >= 1, got {getattr(self, field)}", where=f"layer {self.name!r}")

    @property
    def producers(self) -> list[int]:
        """Layers that it reads, each once."""
        return sorted({*self.inputs, *self.weight_inputs})

    @property
    def computes(self) -> bool:
        """Whether MACs do it rather than the vector unit."""
        return self.kind <= LayerKind.GROUP_CONV

    @property
    def macs(self) -> int:
        """MACs, or operations of the vector unit, of one sample."""
        if not self.computes:
            return self.K * self.H * self.W * self.operands * self.R * self.S
        per_group = self.C // self.groups if self.kind is LayerKind.GROUP_CONV else self.C
        return per_group * self.K * self.R * self.S * self.H * self.W

    def row(self) -> list[int]:
        """The row of the kernels' table."""
        return [
            *(int(self.kind), self.C, self.K, self.R, self.S, self.H, self.W, self.stride_h, self.stride_w),
            *(self.operands, self.groups, self.pad_h, self.pad_w, self.in_h, self.in_w, self.K, self.H, self.W),
            *(self.weight_words, self.external_c, int(bool(self.weight_inputs)), *self.axes),
        ]


def unit_time(layer: SegmentLayer, vector: int, lanes: int, macs: int, vector_macs: int) -> float:
    """Cycles of a sample on one core with all units in use (rule M4).

    Args:
        layer: The layer.
        vector: Input channels of a processing element.
        lanes: Output channels of one.
        macs: Of a core.
        vector_macs: Operations a cycle of the vector unit.
    """
    if not layer.computes:
        return layer.macs / vector_macs
    per_c, per_k, groups = layer.C, layer.K, 1
    if layer.kind is LayerKind.GROUP_CONV:
        per_c, per_k, groups = layer.C // layer.groups, layer.K // layer.groups, layer.groups
    padded = -(-per_c // vector) * vector * -(-per_k // lanes) * lanes * groups
    cycles = padded * layer.R * layer.S * layer.H * layer.W
    if groups > 1 and per_c < vector and per_k < lanes:
        return cycles / min(vector // per_c, lanes // per_k) / macs
    return cycles / macs


@dataclass(frozen=True)
class SegmentNetwork:
    """Layers in an order in which each comes after those it reads.

    Args:
        name: Of the network.
        layers: The layers.
    """

    name: str
    layers: tuple[SegmentLayer, ...]

    def __post_init__(self) -> None:
        for i, layer in enumerate(self.layers):
            for producer in (*layer.inputs, *layer.weight_inputs):
                if not 0 <= producer < i:
                    raise UserError(
                        f"layer {layer.name!r} reads layer number {producer}, which does not come before it",
                        where=f"network {self.name!r}",
                    )

    def readers(self) -> list[list[int]]:
        """Layers that read each layer."""
        found: list[list[int]] = [[] for _ in self.layers]
        for i, layer in enumerate(self.layers):
            for producer in layer.producers:
                found[producer].append(i)
        return found

    def table(self) -> IntArray:
        """All layers as rows of integers, layers x `layout.LAYER_COLUMNS`."""
        return np.array([layer.row() for layer in self.layers], np.int64)

    def edges(self) -> Edges:
        """Who reads whom."""
        start, weight_start = [0], list[int]()
        producer: list[int] = []
        for layer in self.layers:
            producer.extend(layer.inputs)
            weight_start.append(len(producer))
            producer.extend(layer.weight_inputs)
            start.append(len(producer))
        return Edges(np.array(start, np.int64), np.array(weight_start, np.int64), np.array([*producer, 0], np.int64))

    def index_of(self, name: str) -> int:
        """Number of the layer of a name.

        Raises:
            UserError: There is none.
        """
        for i, layer in enumerate(self.layers):
            if layer.name == name:
                return i
        raise unknown_name("layer", name, [layer.name for layer in self.layers], where=f"network {self.name!r}")
