"""Networks of this project as layers of trees of segments (rule M2)."""

from codesign.core.errors import UserError
from codesign.scheduling.segments.layers import LayerKind, SegmentLayer, SegmentNetwork
from codesign.scheduling.soma.model.layer_graph import Layer, LayerGraph, LayerType

KINDS = {
    LayerType.CONV: LayerKind.CONV,
    LayerType.GROUP_CONV: LayerKind.GROUP_CONV,
    LayerType.FC: LayerKind.CONV,
    LayerType.POOL: LayerKind.POOL,
    LayerType.ELTWISE: LayerKind.ELTWISE,
    LayerType.POINTWISE: LayerKind.PTP,
    LayerType.TRANSPOSE: LayerKind.TRANSPOSE,
}
"""Fully connected layers are convolutions whose kernel is 1 x 1 or the whole input."""


def segment_network(graph: LayerGraph) -> SegmentNetwork:
    """The layers of a graph, producers first. Constants of vector layers are not counted.

    Raises:
        UserError: A layer has a dilated kernel, needs all of another layer's output for every tile, or is none of the kinds.
    """
    number = {old: new for new, old in enumerate(graph.topological)}
    layers = tuple(_layer(graph, graph.layers[old], number) for old in graph.topological)
    return SegmentNetwork(graph.name, layers)


def _layer(graph: LayerGraph, layer: Layer, number: dict[int, int]) -> SegmentLayer:
    where = f"network {graph.name!r}, layer {layer.name!r}"
    if layer.type not in KINDS:
        raise UserError(f"layers of kind {layer.type.name.lower()} are not scheduled in trees of segments", where=where)
    if (layer.dilation_h, layer.dilation_w) != (1, 1):
        raise UserError("dilated kernels are not scheduled in trees of segments", where=where)
    if layer.whole_prevs or layer.whole_ext_prevs:
        raise UserError(
            "a layer of which every tile needs a whole input is not scheduled in trees of segments", where=where
        )
    if layer.on_chip_weights and not layer.wgt_prevs:
        raise UserError("weights that come from outside for each sample are not scheduled", where=where)
    made = layer.wgt_prevs or layer.is_matrix
    return SegmentLayer(
        layer.name,
        KINDS[layer.type],
        layer.C,
        layer.K,
        layer.R,
        layer.S,
        layer.H,
        layer.W,
        layer.stride_h,
        layer.stride_w,
        max(layer.operands, 1),
        layer.groups if layer.type is LayerType.GROUP_CONV else 1,
        layer.pad_h,
        layer.pad_w,
        layer.in_h,
        layer.in_w,
        layer.C // layer.groups * layer.K * layer.R * layer.S if made else 0,
        sum(graph.external_inputs[e][0] for e in layer.ext_prevs),
        layer.order,  # output axis j is input axis ``order[j]`` in both forms
        tuple(sorted(number[p] for p in layer.ifm_prevs)),
        tuple(sorted(number[p] for p in layer.wgt_prevs)),
    )
