"""A network of this project (from ONNX or the zoo) as the layer graph that is scheduled here.

Every tensor is seen as (channels, rows, columns) per sample. Where producer and consumer see a tensor differently (reshapes,
slices, attention operands) the edge is *whole*: each consumer tile needs all of the producer's output for its samples.
"""

import math
from dataclasses import dataclass, field, replace

from codesign.core.errors import UserError
from codesign.scheduling.soma.model.layer_graph import Layer, LayerGraph, LayerType
from codesign.workloads.network import Network, NetworkTensor, Operator, OperatorKind

Shape = tuple[int, int, int]

# Operators that move no data of their own: readers read the source.
_ALIASES = {OperatorKind.RESHAPE}


def view(tensor: NetworkTensor) -> Shape:
    """(channels, rows, columns) of one sample: images keep their axes, sequences put features in the channels."""
    axes = [s for i, s in enumerate(tensor.shape) if i != tensor.batch_axis] or [1]
    if len(axes) == 1:
        return axes[0], 1, 1
    if len(axes) == 2:
        return axes[1], axes[0], 1
    return axes[0], axes[1], math.prod(axes[2:])


@dataclass
class _Origin:
    """Where a tensor comes from: a layer or an external input, and how it is seen there."""

    shape: Shape
    layer: int | None = None
    external: int | None = None


@dataclass
class _Converter:
    network: Network
    layers: list[Layer] = field(default_factory=list)
    inputs: list[Shape] = field(default_factory=list)
    origin: dict[str, _Origin] = field(default_factory=dict)

    def external(self, shape: Shape) -> int:
        self.inputs.append(shape)
        return len(self.inputs) - 1

    def source(self, name: str) -> _Origin:
        if name not in self.origin:
            shape = view(self.network.tensor_by_name[name])
            self.origin[name] = _Origin(shape, external=self.external(shape))
        return self.origin[name]

    def attach(self, layer: Layer, reads: list[tuple[str, Shape | None]]) -> Layer:
        """The layer with its edges; `reads` = tensor and the shape the layer wants it in (None: all of it)."""
        plain: list[int] = []
        whole: list[int] = []
        external: list[int] = []
        for name, wanted in reads:
            origin = self.source(name)
            if origin.layer is None:
                external.append(origin.external if origin.external is not None else 0)
            elif wanted == origin.shape:
                plain.append(origin.layer)
            else:
                whole.append(origin.layer)
        return replace(
            layer, ifm_prevs=tuple(plain), whole_prevs=tuple(dict.fromkeys(whole)), ext_prevs=tuple(external)
        )

    def emit(self, layer: Layer, outputs: tuple[str, ...]) -> None:
        self.layers.append(layer)
        for name in outputs:
            self.origin[name] = _Origin((layer.K, layer.H, layer.W), layer=len(self.layers) - 1)


def graph_from_network(network: Network) -> LayerGraph:
    """The layer graph of a network at batch 1 (the batch is the schedule's).

    Raises:
        UserError: The network holds for another batch only, or nothing is left to schedule.
    """
    network = network.with_batch(1)
    converter = _Converter(network)
    for operator in network.operators:
        activations = [t.name for t in network.activation_inputs(operator)]
        if operator.kind in _ALIASES and activations:
            for name in operator.outputs:
                converter.origin[name] = converter.source(activations[0])
        elif operator.kind is OperatorKind.CONV:
            _convolution(converter, operator, activations)
        elif operator.kind is OperatorKind.MATMUL:
            _product(converter, operator, activations)
        else:
            _vector(converter, operator, activations)
    if not converter.layers:
        raise UserError("nothing to schedule: the network has no operator that computes", where=network.name)
    return LayerGraph(network.name, tuple(converter.layers), tuple(converter.inputs))


def _convolution(converter: _Converter, operator: Operator, activations: list[str]) -> None:
    network = converter.network
    out = view(network.tensor_by_name[operator.outputs[0]])
    read = network.tensor_by_name[activations[0]]
    source = view(read)
    window = operator.window
    kernel = window.kernel if window else (1, 1)
    stride = window.stride if window else (1, 1)
    padding = window.padding if window else ((0, 0), (0, 0))
    dilation = window.dilation if window else (1, 1)
    if len(kernel) == 1:
        kernel, stride, padding, dilation = (*kernel, 1), (*stride, 1), (*padding, (0, 0)), (*dilation, 1)
    weights = next((t for t in network.parameters(operator) if len(t.shape) >= 3), None)
    per_group = weights.shape[1] if weights else source[0]
    groups = max(source[0] // max(per_group, 1), 1)
    extent = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    layer = Layer(
        operator.name, LayerType.GROUP_CONV if groups > 1 else LayerType.CONV, out[0], out[1], out[2], source[0],
        R=extent[0], S=extent[1], stride_h=stride[0], stride_w=stride[1], groups=groups, pad_h=padding[0][0], pad_w=padding[1][0],
        in_h=source[1], in_w=source[2],
    )  # fmt: skip
    extra = [(name, out) for name in activations[1:]]
    converter.emit(converter.attach(layer, [(activations[0], source), *extra]), operator.outputs)


def _product(converter: _Converter, operator: Operator, activations: list[str]) -> None:
    """A matrix product: a 1x1 convolution over rows; with two activations a grouped one with weights made on chip."""
    network = converter.network
    computation = operator.computation
    if computation is None:
        raise UserError("a product without a computation", where=f"operator {operator.name!r}")
    out_elements = network.tensor_by_name[operator.outputs[0]].elements
    if not network.has_activation_weights(operator):
        out = view(network.tensor_by_name[operator.outputs[0]])
        reduced = max(computation.macs // max(out_elements, 1), 1)
        read = network.tensor_by_name[activations[0]]
        rows = max(read.elements // reduced, 1)
        columns = max(out_elements // rows, 1)
        source = converter.source(activations[0]).shape
        same = source == (reduced, rows, 1) and out[0] == columns
        layer = Layer(operator.name, LayerType.CONV, columns, rows, 1, reduced, in_h=rows, in_w=1)
        extra: list[tuple[str, Shape | None]] = [(name, (columns, rows, 1)) for name in activations[1:]]
        reads: list[tuple[str, Shape | None]] = [(activations[0], source if same else None), *extra]
        converter.emit(converter.attach(layer, reads), operator.outputs)
        return
    left, right = operator.operands[0], operator.operands[1]
    shape = [s for i, s in enumerate(network.tensor_by_name[operator.outputs[0]].shape)
             if i != network.tensor_by_name[operator.outputs[0]].batch_axis]  # fmt: skip
    rows, columns = (shape[-2], shape[-1]) if len(shape) > 1 else (1, shape[-1])
    groups = max(math.prod(shape[:-2]), 1)
    reduced = max(computation.macs // max(out_elements, 1), 1)
    layer = Layer(
        operator.name, LayerType.GROUP_CONV, groups * columns, rows, 1, groups * reduced, groups=groups, in_h=rows, in_w=1, on_chip_weights=True,
    )  # fmt: skip
    converter.emit(converter.attach(layer, [(left, None), (right, None)]), operator.outputs)


def _vector(converter: _Converter, operator: Operator, activations: list[str]) -> None:
    network = converter.network
    out = view(network.tensor_by_name[operator.outputs[0]])
    pooled = operator.kind is OperatorKind.POOL and operator.window is not None and len(operator.window.kernel) == 2
    if pooled and operator.window is not None and activations:
        source = converter.source(activations[0]).shape
        window = operator.window
        layer = Layer(
            operator.name, LayerType.POOL, out[0], out[1], out[2], out[0], R=window.kernel[0], S=window.kernel[1],
            stride_h=window.stride[0], stride_w=window.stride[1], pad_h=window.padding[0][0], pad_w=window.padding[1][0],
            in_h=source[1], in_w=source[2],
        )  # fmt: skip
        converter.emit(converter.attach(layer, [(activations[0], source)]), operator.outputs)
        return
    same = all(
        network.tensor_by_name[a].shape == network.tensor_by_name[operator.outputs[0]].shape for a in activations
    )
    if same and activations:
        out = converter.source(activations[0]).shape
    joins = operator.kind is OperatorKind.CONCAT and all(converter.source(a).shape[1:] == out[1:] for a in activations)
    operands = max(len(activations), 1) if operator.kind is OperatorKind.ELEMENTWISE else 1
    kind = LayerType.ELTWISE if operator.kind is OperatorKind.ELEMENTWISE else LayerType.POINTWISE
    layer = Layer(operator.name, kind, out[0], out[1], out[2], out[0], operands=operands, in_h=out[1], in_w=out[2])
    reads: list[tuple[str, Shape | None]] = [(a, converter.source(a).shape if joins else out) for a in activations]
    attached = converter.attach(layer, reads)
    if not activations:
        attached = replace(attached, ext_prevs=(converter.external(out),))
    converter.emit(attached, operator.outputs)
