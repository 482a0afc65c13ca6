"""One walk over an ONNX graph with concrete shapes: constants folded, shapes inferred, nodes handed to their rules."""

import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from codesign.core.errors import UserError
from codesign.workloads.network import Network
from codesign.workloads.onnx.emit import emit_opaque
from codesign.workloads.onnx.graph_state import GraphState, Settings, Value
from codesign.workloads.onnx.operators import convert
from codesign.workloads.onnx.parameters import parameter_names, weight_inputs
from codesign.workloads.onnx.quantization import dequantize, refuse_unknown, with_stored_widths
from codesign.workloads.onnx.shapes import infer_outputs
from codesign.workloads.onnx.views import put_off

_log = logging.getLogger(__name__)

_FOLD_ELEMENTS = 1 << 16
"""Constants above this size are known by shape alone; those that shapes are computed from are far smaller."""


class GraphWalk(GraphState):
    """One walk over a graph.

    Args:
        model: An ONNX model.
        input_shapes: Shape of every graph input that is an activation.
        settings: What the caller decides.
    """

    def __init__(self, model: Any, input_shapes: dict[str, tuple[int, ...]], settings: Settings) -> None:
        super().__init__(model, settings)
        self._input_shapes = input_shapes

    def network(self) -> Network:
        """Walk the graph and collect the network."""
        inputs = self._enter()
        for index, node in enumerate(self.model.graph.node):
            label = node.name or f"{node.op_type} {index}"
            refuse_unknown(node, f"node {label!r}")
            try:
                if not self._fold(node):
                    self._infer(node)
                    view = put_off(self, node)
                    if view is None:
                        convert(self, node)
                    else:
                        self.put_off(node, view, convert)
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
        names = dict.fromkeys(self.declare(v) for v in outputs if not v.constant)
        used = {n for o in self.operators for n in (*o.inputs, *o.outputs)} | set(names)
        return Network.sorted(
            self.settings.name,
            [with_stored_widths(o, self.tensors) for o in self.operators],
            [t for n, t in self.tensors.items() if n in used],
            [n for n in inputs if n in used],
            names,
            self.settings.batch,
            warnings=self.warnings,
        )

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
        guessed = [name for name, sure in weight_inputs(self.model).items() if not sure]
        if guessed:
            shown = ", ".join(guessed[:4]) + (", ..." if len(guessed) > 4 else "")
            self.warn(
                f"inputs without values that only weights' places read are taken as parameters ({len(guessed)}): {shown}"
            )
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
        if node.op_type == "DequantizeLinear":
            dequantize(self, node)
            return True
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


def _single_node_model(node: Any, opsets: dict[str, int], feeds: dict[str, npt.NDArray[Any]]) -> Any:
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
