"""One walk over an ONNX graph with concrete shapes: constants folded, shapes inferred, nodes handed to their rules."""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from codesign.core.errors import UserError
from codesign.workloads.network import Network, NetworkTensor, Operator

_log = logging.getLogger(__name__)

_FOLD_ELEMENTS = 1 << 16
"""Constants above this size are known by shape alone; those that shapes are computed from are far smaller."""

_PARAMETER_SLOTS: dict[str, tuple[int, ...]] = {
    "Conv": (1, 2),
    "ConvTranspose": (1, 2),
    "Gemm": (1, 2),
    "BatchNormalization": (1, 2, 3, 4),
    "LayerNormalization": (1, 2),
    "InstanceNormalization": (1, 2),
    "PRelu": (1,),
}
"""Inputs that are weights even in a graph that ships without them, by operator."""


@dataclass(frozen=True)
class Settings:
    """What the caller of a walk decides.

    Args:
        name: Of the network.
        bits: Width of every element.
        partial_bits: Width of partial sums.
        batch: Batch of this walk.
        own_batch: Batch that the file fixes in its shapes; None when it leaves it open.
    """

    name: str
    bits: int
    partial_bits: int | None
    batch: int
    own_batch: int | None


@dataclass(frozen=True)
class Value:
    """What is known of one ONNX value.

    Args:
        tensor: Name of the network tensor behind it (values share one when a node does nothing).
        shape: Its shape.
        element_type: ONNX element type.
        constant: Whether it is the same in every inference.
        data: Its elements, for small constants.
    """

    tensor: str
    shape: tuple[int, ...]
    element_type: int
    constant: bool = False
    data: Any = None


def parameter_names(model: Any) -> set[str]:
    """Graph inputs and initialisers that are parameters, those without stored weights included."""
    graph = model.graph
    names = {i.name for i in graph.initializer} | {i.values.name for i in graph.sparse_initializer}
    slots: dict[str, bool] = {}
    for node in graph.node:
        for position, name in enumerate(node.input):
            is_slot = position in _PARAMETER_SLOTS.get(node.op_type, ())
            slots[name] = is_slot and slots.get(name, True)
    return names | {i.name for i in graph.input if slots.get(i.name, False)}


class GraphWalk:
    """The state of one walk.

    Args:
        model: An ONNX model.
        input_shapes: Shape of every graph input that is an activation.
        settings: What the caller decides.
    """

    def __init__(self, model: Any, input_shapes: dict[str, tuple[int, ...]], settings: Settings) -> None:
        self.model = model
        self.settings = settings
        self.opsets = {o.domain: o.version for o in model.opset_import}
        self.values: dict[str, Value] = {}
        self.tensors: dict[str, NetworkTensor] = {}
        self.operators: list[Operator] = []
        self.warnings: list[str] = []
        self.guessed = False
        self.used = {n for node in model.graph.node for n in node.input} | {o.name for o in model.graph.output}
        self._operator_names: set[str] = set()
        self._input_shapes = input_shapes

    def network(self) -> Network:
        """Walk the graph and collect the network."""
        from codesign.workloads.onnx.emit import emit_opaque
        from codesign.workloads.onnx.operators import convert

        inputs = self._enter()
        for index, node in enumerate(self.model.graph.node):
            label = node.name or f"{node.op_type} {index}"
            try:
                if not self._fold(node):
                    self._infer(node)
                    convert(self, node)
            except UserError as error:
                if not self.guessed:
                    raise error.within(f"node {label!r}") from None
                emit_opaque(self, node)  # a shape guessed before may be what contradicts it
            except (IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
                if not self.guessed:  # rules take a node to fit its operator, which a damaged file does not see to
                    reason = _misfit(node, self.opsets, self.model.ir_version, error)
                    if reason is None:
                        raise  # the node is as ONNX wants it: a rule here is at fault
                    raise UserError(
                        f"inputs, outputs or attributes do not fit the operator {node.op_type!r}",
                        where=f"node {label!r}",
                        hint=f"the graph is not valid ONNX ({reason})",
                    ) from None
                emit_opaque(self, node)  # the same, for a rank
        outputs = [self.values[o.name] for o in self.model.graph.output if o.name in self.values]
        if not self.operators:
            raise UserError("every result of this graph is constant: there is nothing to run")
        names = dict.fromkeys(v.tensor for v in outputs if not v.constant)
        used = {n for o in self.operators for n in (*o.inputs, *o.outputs)} | set(names)
        return Network.sorted(
            self.settings.name,
            self.operators,
            [t for n, t in self.tensors.items() if n in used],
            [n for n in inputs if n in used],
            names,
            self.settings.batch,
            warnings=self.warnings,
        )

    # ---- used by the rules of the operators --------------------------------------------------

    def value(self, name: str) -> Value:
        """What is known of a value of the graph."""
        if name not in self.values:
            raise UserError(f"value {name!r} is read before any node produces it", hint="the graph is not valid ONNX")
        return self.values[name]

    def inputs(self, node: Any) -> list[Value | None]:
        """The inputs of a node; None where an optional one is left out."""
        return [self.value(n) if n else None for n in node.input]

    def output(self, node: Any, index: int = 0) -> Value:
        """What is known of an output of a node."""
        name = node.output[index]
        if name not in self.values:
            raise UserError(
                f"nothing is known of {name!r}, a result of {node.op_type!r}", hint="the graph is not valid ONNX"
            )
        return self.values[name]

    def warn(self, message: str) -> None:
        """Keep a warning with the network."""
        if message not in self.warnings:
            self.warnings.append(message)

    def alias(self, node: Any, source: Value) -> None:
        """The first output of the node is its input: nothing runs."""
        self.values[node.output[0]] = replace(source, element_type=self.output(node).element_type)

    def declare(self, value: Value) -> str:
        """The network tensor of a value."""
        if value.tensor not in self.tensors:
            self.tensors[value.tensor] = NetworkTensor(
                value.tensor, value.shape, self.settings.bits, is_parameter=value.constant
            )
        return value.tensor

    def emit(self, node: Any, make: Operator) -> None:
        """Add an operator under a name of its own."""
        name = make.name
        count = 1
        while name in self._operator_names:
            name = f"{make.name}_{count}"
            count += 1
        self._operator_names.add(name)
        computation = make.computation
        if computation is not None:
            computation = replace(computation, name=name)
        self.operators.append(replace(make, name=name, computation=computation))

    # ---- inside ------------------------------------------------------------------------------

    def _enter(self) -> list[str]:
        """Record initialisers and inputs; returns the names of the activations."""
        parameters = parameter_names(self.model)
        for init in self.model.graph.initializer:
            shape = tuple(init.dims)
            self.values[init.name] = Value(init.name, shape, init.data_type, True, _stored_data(init))
        for sparse in self.model.graph.sparse_initializer:
            self.values[sparse.values.name] = Value(
                sparse.values.name, tuple(sparse.dims), sparse.values.data_type, True
            )
        inputs = []
        for value in self.model.graph.input:
            if value.name in self.values:
                continue
            element_type = value.type.tensor_type.elem_type
            if value.name in parameters:
                shape = tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
                if not all(shape):
                    raise UserError(f"parameter {value.name!r} has an axis of unknown length: {list(shape)}")
                self.values[value.name] = Value(value.name, shape, element_type, True)
                continue
            shape = self._input_shapes.get(value.name, ())
            self.values[value.name] = Value(value.name, shape, element_type)
            self.declare(self.values[value.name])
            inputs.append(value.name)
        return inputs

    def _fold(self, node: Any) -> bool:
        """Compute a node whose inputs are constant, and `Shape` and `Size` of anything; says whether it was one."""
        inputs = self.inputs(node)
        if node.op_type in ("Shape", "Size") and inputs[0] is not None:
            self._fold_shape(node, inputs[0])
            return True
        if any(v is not None and not v.constant for v in inputs) or _has_subgraph(node):
            return False
        known = all(v is None or v.data is not None for v in inputs)
        self._infer(node, constant=True)
        small = all(math.prod(self.output(node, i).shape) <= _FOLD_ELEMENTS for i, n in enumerate(node.output) if n)
        if known and small and not node.op_type.startswith(("Random", "Multinomial", "Bernoulli")):
            self._evaluate(node, inputs)
        return True

    def _fold_shape(self, node: Any, source: Value) -> None:
        import onnx

        shape = np.array(source.shape, dtype=np.int64)
        if node.op_type == "Size":
            data = np.array(math.prod(source.shape), dtype=np.int64)
        else:
            bounds = {a.name: a.i for a in node.attribute}
            data = shape[bounds.get("start", 0) : bounds.get("end", len(shape))]
        self.values[node.output[0]] = Value(node.output[0], data.shape, onnx.TensorProto.INT64, True, data)

    def _evaluate(self, node: Any, inputs: Sequence[Value | None]) -> None:
        """The data of a constant node by ONNX's reference implementation; without one the shape alone is known."""
        from onnx.reference import ReferenceEvaluator

        feeds = {n: v.data for n, v in zip(node.input, inputs, strict=True) if v is not None}
        try:
            results = ReferenceEvaluator(_single_node_model(node, self.opsets, feeds)).run(None, feeds)
        except Exception as error:  # the reference implementation raises whatever its operator raises
            _log.debug("cannot fold %s: %s", node.op_type, error)
            return
        for name, data in zip(node.output, results, strict=False):
            if name:
                array = np.asarray(data)
                self.values[name] = replace(self.values[name], shape=array.shape, data=array)

    def _infer(self, node: Any, *, constant: bool = False) -> None:
        """Set shape and type of every output of a node."""
        from codesign.workloads.onnx.shapes import infer_outputs

        for name, shape, element_type in infer_outputs(self, node):
            self.values[name] = Value(name, shape, element_type, constant)


def _misfit(node: Any, opsets: dict[str, int], ir_version: int, error: Exception) -> str | None:
    """Why a node is not what its operator wants by ONNX's own checker; None where it is.

    Operators outside ONNX's domains have no checker: there an input or an attribute that is missing counts.
    """
    import onnx

    if node.domain not in ("", "ai.onnx", "ai.onnx.ml"):
        return f"it lacks {error}" if isinstance(error, (IndexError, KeyError)) else None
    context = onnx.checker.C.CheckerContext()
    context.ir_version = ir_version
    context.opset_imports = opsets
    try:
        onnx.checker.check_node(node, context)
    except onnx.checker.ValidationError as refusal:
        return str(refusal).strip().partition("\n")[0]
    return None


def _stored_data(init: Any) -> Any:
    """The elements of a small initialiser; None when they are in another file or were stripped."""
    import onnx

    if math.prod(init.dims) > _FOLD_ELEMENTS or init.data_location == onnx.TensorProto.EXTERNAL:
        return None
    try:
        return onnx.numpy_helper.to_array(init)
    except (ValueError, TypeError):
        return None


def _has_subgraph(node: Any) -> bool:
    return any(a.HasField("g") or a.graphs for a in node.attribute)


def _single_node_model(node: Any, opsets: dict[str, int], feeds: dict[str, Any]) -> Any:
    import onnx
    from onnx import helper

    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(data.dtype), data.shape)
        for name, data in feeds.items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "fold", inputs, outputs)
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    return helper.make_model(graph, opset_imports=imports)
