"""Layers whose weights do not fit the buffer, cut along their output channels (rule S7 of docs/explanation/soma.md).

A schedule cuts batch, rows and columns, never channels, so that a layer with more weights than the buffer could not run at all.
Cut into parts, each with its share of the output channels, it can: parts are layers of their own, and readers read all of them.
"""

from dataclasses import replace

from codesign.scheduling.soma.model.layer_graph import Layer, LayerGraph, LayerType


def cut_wide_layers(graph: LayerGraph, buffer_bytes: int) -> LayerGraph:
    """The graph with every layer cut whose weights take more than half of the buffer; others are as they were.

    A part holds at most a quarter of the buffer, so that the weights of the next one load while it runs.

    Args:
        graph: Any layer graph.
        buffer_bytes: What the global buffer may hold.

    >>> from codesign.scheduling.soma.model.layer_graph import Layer, LayerGraph, LayerType
    >>> wide = LayerGraph("n", (Layer("fc", LayerType.CONV, 64, 1, 1, 64, ext_prevs=(0,)),), ((64, 1, 1),))
    >>> [(layer.name, layer.K) for layer in cut_wide_layers(wide, 4096).layers]
    [('fc[0]', 16), ('fc[1]', 16), ('fc[2]', 16), ('fc[3]', 16)]
    """
    parts = [_parts(layer, buffer_bytes) for layer in graph.layers]
    if all(len(p) == 1 for p in parts):
        return graph
    first = [0]
    for p in parts:
        first.append(first[-1] + len(p))
    places = [tuple(range(first[i], first[i + 1])) for i in range(len(parts))]

    def moved(ids: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(place for i in ids for place in places[i])

    layers = tuple(
        replace(
            part,
            ifm_prevs=moved(part.ifm_prevs),
            wgt_prevs=moved(part.wgt_prevs),
            whole_prevs=moved(part.whole_prevs),
        )
        for p in parts
        for part in p
    )
    return LayerGraph(graph.name, layers, graph.external_inputs)


def _parts(layer: Layer, buffer_bytes: int) -> tuple[Layer, ...]:
    """The layer as parts of nearly equal numbers of output channels; itself where it fits or cannot be cut."""
    plain = layer.type in (LayerType.CONV, LayerType.FC) and layer.groups == 1
    if not plain or 2 * layer.weight_bytes <= buffer_bytes:
        return (layer,)
    count = min(-(-4 * layer.weight_bytes // buffer_bytes), layer.K)
    bounds = [layer.K * i // count for i in range(count + 1)]
    return tuple(
        replace(layer, name=f"{layer.name}[{i}]", K=bounds[i + 1] - bounds[i], constant_bytes=layer.constant_bytes)
        for i in range(count)
    )
