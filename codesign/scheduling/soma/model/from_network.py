"""A network of this project (from ONNX or the zoo) as the layer graph that is scheduled here.

Every tensor is seen as (channels, rows, columns) per sample. Where producer and consumer see a tensor differently (reshapes,
slices, attention operands) the edge is *whole*: each consumer tile needs all of the producer's output for its samples.
What becomes of each operator:

* S1: Convolutions have the weights, work and reads of their taps. Inputs of a tile reach over the window with its
  dilation; where outputs lie further apart, at most each output's own taps are read.
* S2: Weights are parameters, constants, and inputs that do not grow with the batch, loaded once. Other inputs in the
  place of weights are loaded in full for every tile that needs them. Biases are not counted.
* S3: Products are 1 x 1 convolutions with one group for each batch index of both operands. An index of the first
  operand alone is a row, so keys shared by several heads are held once.
* S4: Transposed convolutions are one layer for each number of taps, phases as channels (W2a).
* S5: A cache that grows is not copied: readers read cache and new part, and the new part is stored.
* S6: Lookups read as many elements of their table as they write.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any

from codesign.core.errors import UserError
from codesign.scheduling.soma.model.layer_graph import Layer, LayerGraph, LayerType
from codesign.workloads.computation import Computation, Role
from codesign.workloads.network import PHASES, Network, NetworkTensor, Operator, OperatorKind

Shape = tuple[int, int, int]
Read = tuple[str, Shape | None]
"""A tensor and the shape a layer wants it in; None: all of it."""

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


@dataclass(frozen=True)
class _Origin:
    """Where a tensor comes from: a layer, an external input, or (joined in place) several others; and how it is seen there."""

    shape: Shape
    layer: int | None = None
    external: int | None = None
    constant_bytes: int = 0
    parts: tuple["_Origin", ...] = ()


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
            tensor = self.network.tensor_by_name[name]
            shape = view(tensor)
            if self.is_stored(name):
                self.origin[name] = _Origin(shape, constant_bytes=tensor.elements)
            else:
                self.origin[name] = _Origin(shape, external=self.external(shape))
        return self.origin[name]

    def is_stored(self, name: str) -> bool:
        """Whether a tensor comes from outside and is the same for every sample: loaded once, as weights are (rule S2)."""
        tensor = self.network.tensor_by_name[name]
        given = name in self.network.inputs and tensor.batch_axis is None and not self.network.fixed_batch
        return tensor.is_parameter or given

    def attach(self, layer: Layer, reads: list[Read]) -> Layer:
        """The layer with its edges."""
        found = _Edges()
        for name, wanted in reads:
            found.add(self.source(name), wanted)
        if not (found.plain or found.whole or found.external or found.whole_external):
            found.external.append(self.external((layer.K, layer.in_h, layer.in_w)))  # it reads constants alone
        return replace(
            layer,
            ifm_prevs=tuple(found.plain),
            whole_prevs=tuple(dict.fromkeys(found.whole)),
            ext_prevs=tuple(found.external),
            whole_ext_prevs=tuple(dict.fromkeys(found.whole_external)),
            constant_bytes=layer.constant_bytes + found.constant_bytes,
        )

    def emit(self, layer: Layer, outputs: tuple[str, ...]) -> None:
        self.layers.append(layer)
        for name in outputs:
            self.origin[name] = _Origin((layer.K, layer.H, layer.W), layer=len(self.layers) - 1)


@dataclass
class _Edges:
    """The edges of one layer, by kind."""

    plain: list[int] = field(default_factory=list)
    whole: list[int] = field(default_factory=list)
    external: list[int] = field(default_factory=list)
    whole_external: list[int] = field(default_factory=list)
    constant_bytes: int = 0

    def add(self, origin: _Origin, wanted: Shape | None) -> None:
        """One more operand, wanted in a shape or (None) as a whole."""
        if origin.parts:
            for part in origin.parts:
                self.add(part, None)
        elif origin.layer is not None:
            (self.plain if wanted == origin.shape else self.whole).append(origin.layer)
        elif origin.external is not None:
            (self.external if wanted == origin.shape else self.whole_external).append(origin.external)
        else:
            self.constant_bytes += origin.constant_bytes


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
            _product(converter, operator)
        elif operator.kind is OperatorKind.APPEND:
            _append(converter, operator)
        elif operator.kind is OperatorKind.CONCAT and operator.function == PHASES:
            parts = tuple(converter.source(name) for name in activations)
            shape = view(network.tensor_by_name[operator.outputs[0]])
            converter.origin[operator.outputs[0]] = _Origin(shape, parts=parts)
        elif operator.kind is OperatorKind.GATHER:
            _gather(converter, operator, activations)
        else:
            _vector(converter, operator, activations)
    if not converter.layers:
        raise UserError("nothing to schedule: the network has no operator that computes", where=network.name)
    return LayerGraph(network.name, tuple(converter.layers), tuple(converter.inputs))


def _convolution(converter: _Converter, operator: Operator, activations: list[str]) -> None:
    """A convolution; weights and work are those of its taps, halos those of its window with the holes of a dilation (rule S1)."""
    network = converter.network
    out = view(network.tensor_by_name[operator.outputs[0]])
    image, filters = network.tensor_by_name[operator.operands[0]], network.tensor_by_name[operator.operands[1]]
    source = view(image)
    computation = operator.computation
    if computation is None or image.is_parameter:
        raise UserError("expected a convolution of an activation", where=f"operator {operator.name!r}")
    rank = 1 + ("Q" in computation.sizes) + ("D" in computation.sizes)
    if rank > 2:
        raise UserError(
            "convolutions over three axes have no place in this model",
            where=f"network {network.name!r}: operator {operator.name!r}",
            hint="judge the network layer by layer (codesign evaluate, explore --scheduler layers) or with --scheduler cosma",
        )
    if operator.function == "transposed":
        _phases(converter, operator, computation, activations)
        return
    window = operator.window
    kernel = window.kernel if window else filters.shape[2:]
    stride, dilation = (window.stride, window.dilation) if window else ((1,) * rank, (1,) * rank)
    padding = window.padding if window else ((0, 0),) * rank
    if rank == 1:
        kernel, stride, padding, dilation = (*kernel, 1), (*stride, 1), (*padding, (0, 0)), (*dilation, 1)
    groups, kernels, channels = _channels(computation)
    rows, columns = computation.sizes["P"], computation.sizes.get("Q", 1)
    source = _seen(source, channels, rows, columns, (kernel, stride, padding, dilation))
    layer = Layer(
        operator.name, LayerType.GROUP_CONV if groups > 1 else LayerType.CONV, kernels, rows, columns, channels,
        R=kernel[0], S=kernel[1], stride_h=stride[0], stride_w=stride[1], dilation_h=dilation[0], dilation_w=dilation[1],
        groups=groups, pad_h=padding[0][0], pad_w=padding[1][0],
        in_h=source[1], in_w=source[2], on_chip_weights=not converter.is_stored(filters.name),
    )  # fmt: skip
    extra: list[Read] = [(name, out) for name in activations if name not in operator.operands]
    weights: list[Read] = [(filters.name, None)] if layer.on_chip_weights else []
    converter.emit(converter.attach(layer, [(image.name, source), *weights, *extra]), operator.outputs)


def _channels(computation: Computation) -> tuple[int, int, int]:
    """(groups, output channels, input channels) of a convolution; one without K is depthwise."""
    sizes = computation.sizes
    if "K" not in sizes:
        return sizes["C"], sizes["C"], sizes["C"]
    groups = sizes.get("G", 1)
    return groups, groups * sizes["K"], groups * sizes["C"]


def _seen(source: Shape, channels: int, rows: int, columns: int, window: tuple[Any, Any, Any, Any]) -> Shape:
    """The image that a convolution reads: its source's, or, where a view lies between, what its windows reach over."""
    kernel, stride, padding, dilation = window
    reach = [
        (n - 1) * s + (k - 1) * d + 1 - sum(p)
        for n, k, s, p, d in zip((rows, columns), kernel, stride, padding, dilation, strict=True)
    ]
    left = [have - need for have, need in zip(source[1:], reach, strict=True)]  # rows that no stride reaches
    if source[0] == channels and all(0 <= more < s for more, s in zip(left, stride, strict=True)):
        return source
    return channels, max(reach[0], 1), max(reach[1], 1)


def _phases(converter: _Converter, operator: Operator, computation: Computation, activations: list[str]) -> None:
    """Phases of a transposed convolution with equally many taps: one convolution with as many channels as phases (rule S4)."""
    sizes = computation.sizes
    groups = sizes.get("G", 1)
    source = (groups * sizes["C"], sizes["P"], sizes.get("Q", 1))
    rows, columns = (
        (sizes[d], sizes[t], sizes[p]) if d in sizes else (1, 1, 1) for d, t, p in (("P", "R", "A"), ("Q", "S", "B"))
    )
    steps = [dict(axis.terms) for axis in computation.tensor("Inputs").axes]
    step_h, step_w = (next((axis[tap] for axis in steps if tap in axis), 1) for tap in ("R", "S"))
    layer = Layer(
        operator.name, LayerType.GROUP_CONV if groups > 1 else LayerType.CONV, groups * sizes["K"] * rows[2] * columns[2], rows[0], columns[0],
        source[0], R=rows[1], S=columns[1], dilation_h=step_h, dilation_w=step_w, groups=groups,
        pad_h=(rows[1] - 1) * step_h // 2, pad_w=(columns[1] - 1) * step_w // 2, in_h=source[1], in_w=source[2],
        on_chip_weights=not converter.is_stored(operator.operands[1]),
    )  # fmt: skip
    extra: list[Read] = [(name, None) for name in activations if name != operator.operands[0]]
    converter.emit(converter.attach(layer, [(operator.operands[0], source), *extra]), operator.outputs)


def _product(converter: _Converter, operator: Operator) -> None:
    """A matrix product: a 1x1 convolution over rows, one group for each batch index that both operands have (rule S3).

    Rows are the indices of the first operand alone, so that operands shared by several heads are read and held once.
    """
    network = converter.network
    computation = operator.computation
    if computation is None or len(operator.operands) != 3:
        raise UserError(
            f"expected a product of two operands, got {computation}",
            where=f"network {network.name!r}: operator {operator.name!r}",
        )
    groups, rows, columns, reduced = _product_sizes(computation)
    left, right = operator.operands[0], operator.operands[1]
    stored = converter.is_stored(right) or (
        right in network.inputs and network.tensor_by_name[right].batch_axis is None
    )
    kind = LayerType.CONV if groups == 1 and stored else LayerType.GROUP_CONV
    layer = Layer(
        operator.name,
        kind,
        groups * columns,
        rows,
        1,
        groups * reduced,
        groups=groups,
        in_h=rows,
        in_w=1,
        on_chip_weights=not stored,
    )
    out = view(network.tensor_by_name[operator.outputs[0]])
    source = converter.source(left).shape
    same = stored and source == (groups * reduced, rows, 1) and out[0] == groups * columns
    reads: list[Read] = [(left, source if same else None)]
    if not stored:
        reads.append((right, None))
    others = [t.name for t in network.activation_inputs(operator) if t.name not in operator.operands]
    reads.extend((name, (groups * columns, rows, 1)) for name in others)
    converter.emit(converter.attach(layer, reads), operator.outputs)


def _product_sizes(computation: Computation) -> tuple[int, int, int, int]:
    """(groups, rows, columns, summed) of a product per group: which operands an index belongs to says what it is."""
    first, second, output = ({d for axis in t.axes for d, _ in axis.terms} for t in computation.tensors)
    if computation.tensors[0].role is Role.WEIGHT:
        first, second = second, first
    sizes = computation.sizes

    def product(dims: set[str]) -> int:
        return math.prod(sizes[d] for d in dims)

    return (
        product(first & second & output),
        product((first & output) - second),
        product((second & output) - first),
        product((first | second) - output),
    )


def _append(converter: _Converter, operator: Operator) -> None:
    """A cache grown in place: its new part is stored; readers read the cache and the new part (rule S5)."""
    cache, new = operator.inputs[0], operator.inputs[-1]
    shape = view(converter.network.tensor_by_name[new])
    old, added = converter.source(cache), converter.source(new)
    layer = Layer(operator.name, LayerType.POINTWISE, *shape, shape[0], in_h=shape[1], in_w=shape[2])
    converter.emit(converter.attach(layer, [(new, shape)]), ())
    grown = _Origin(view(converter.network.tensor_by_name[operator.outputs[0]]), parts=(old, added))
    for name in operator.outputs:
        converter.origin[name] = grown


def _gather(converter: _Converter, operator: Operator, activations: list[str]) -> None:
    """Rows of a table: as many elements are read as are written (rule W7), and the indices."""
    network = converter.network
    out = view(network.tensor_by_name[operator.outputs[0]])
    layer = Layer(operator.name, LayerType.POINTWISE, *out, out[0], in_h=out[1], in_w=out[2])
    if network.parameters(operator):
        layer = converter.attach(layer, [(name, None) for name in activations]) if activations else layer
        layer = replace(layer, ext_prevs=(*layer.ext_prevs, converter.external(out)))
    else:
        layer = converter.attach(layer, [(name, out) for name in activations])
    converter.emit(layer, operator.outputs)


def _vector(converter: _Converter, operator: Operator, activations: list[str]) -> None:
    network = converter.network
    out = view(network.tensor_by_name[operator.outputs[0]])
    pooled = operator.kind is OperatorKind.POOL and operator.window is not None and len(operator.window.kernel) == 2
    if pooled and operator.window is not None and activations:
        source = converter.source(activations[0]).shape
        window = operator.window
        layer = Layer(
            operator.name, LayerType.POOL, out[0], out[1], out[2], out[0], R=window.kernel[0], S=window.kernel[1],
            stride_h=window.stride[0], stride_w=window.stride[1], dilation_h=window.dilation[0], dilation_w=window.dilation[1],
            pad_h=window.padding[0][0], pad_w=window.padding[1][0], in_h=source[1], in_w=source[2],
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
    constants = sum(t.elements for t in network.parameters(operator))
    layer = Layer(
        operator.name,
        kind,
        out[0],
        out[1],
        out[2],
        out[0],
        operands=operands,
        in_h=out[1],
        in_w=out[2],
        constant_bytes=constants,
    )
    reads: list[Read] = [(a, converter.source(a).shape if joins else out) for a in activations]
    attached = converter.attach(layer, reads)
    if not activations:
        attached = replace(attached, ext_prevs=(converter.external(out),), constant_bytes=0)
    converter.emit(attached, operator.outputs)
