"""Graphs of PyTorch modules, through `torch.export`.

Views move nothing: whoever reads one reads what it views. An operator with several results (`split`, `chunk`) makes
them all at once; taking one of them is no operator. Parameters count where they are read; buffers of normalisation too.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codesign.core.checks import check_least
from codesign.core.errors import UserError
from codesign.scheduling.cosma.fusion import fuse_operators
from codesign.scheduling.cosma.graph import GraphTensor, Operator, OperatorGraph

_VIEWS = frozenset(
    [
        "view",
        "reshape",
        "flatten",
        "unflatten",
        "unsqueeze",
        "squeeze",
        "alias",
        "detach",
        "detach_",
        "contiguous",
        "expand",
        "expand_as",
        "lift_fresh_copy",
        "_unsafe_view",
        "dropout",
        "dropout_",
        "identity",
        "to",
        "_to_copy",
        "type_as",
        "clone",
    ]
)
"""Names of functions whose result is their operand, as far as memory goes (dropout and conversion: in inference)."""


@dataclass
class _Builder:
    """The graph being collected; `source` maps a node to the tensors that hold its value."""

    bits: int
    operators: list[Operator] = field(default_factory=list)
    tensors: list[GraphTensor] = field(default_factory=list)
    source: dict[Any, tuple[str, ...]] = field(default_factory=dict)
    parameters: dict[Any, int] = field(default_factory=dict)

    def add(
        self, node: Any, kind: str, operands: Iterable[Any], values: Sequence[Any], parameter_elements: int
    ) -> None:
        """An operator that makes the tensors `values` (anything with a shape)."""
        names = (node.name,) if len(values) == 1 else tuple(f"{node.name}.{i}" for i in range(len(values)))
        made = []
        for name, value in zip(names, values, strict=True):
            shape = tuple(int(n) for n in value.shape)
            if math.prod(shape):  # normalisation in inference returns empty statistics beside its result
                self.tensors.append(GraphTensor(name, -(-math.prod(shape) * self.bits // 8), shape))
                made.append(name)
        reads = dict.fromkeys(t for n in operands for t in self.source.get(n, ()))
        size = -(-parameter_elements * self.bits // 8)
        self.operators.append(Operator(node.name, kind, tuple(reads), tuple(made), size))
        self.source[node] = names


def graph_from_module(
    module: Any,
    example_inputs: Sequence[Any],
    *,
    name: str | None = None,
    fused: bool = True,
    bits: int = 8,
) -> OperatorGraph:
    """The operators of a PyTorch module, in the order in which it runs them.

    Args:
        module: A `torch.nn.Module`; switched to inference for the tracing.
        example_inputs: Tensors to trace with; only their shapes matter.
        name: Default: the class of the module.
        fused: Whether normalisation, activations and padding run within their neighbours.
        bits: Width of an element in the scratchpad.

    Raises:
        UserError: The module cannot be exported.
    """
    check_least(1, bits=bits)
    import torch

    label = name or type(module).__name__
    training = module.training
    module.eval()
    try:
        program = torch.export.export(module, tuple(example_inputs))
    except Exception as error:  # whatever the exporter raises, it is the module it could not take
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(
            f"module {label} cannot be traced with torch.export: {reason}",
            hint="control flow must not depend on values; or export it to ONNX",
        ) from error
    finally:
        module.train(training)
    return _finished(label, program, bits, fused)


def graph_from_exported_file(path: str | Path, *, fused: bool = True, bits: int = 8) -> OperatorGraph:
    """The operators of a module that was exported and saved before (`torch.export.save`, a ``.pt2`` file).

    Args:
        path: The file; its stem names the graph.
        fused: Whether normalisation, activations and padding run within their neighbours.
        bits: Width of an element in the scratchpad.

    Raises:
        UserError: There is no such file, or it holds no exported program.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError("no such file", where=str(path))
    import torch

    try:
        program = torch.export.load(path)
    except Exception as error:  # the loader raises whatever its unpacking meets
        raise UserError(
            "the file holds no exported program", where=str(path), hint="write it with torch.export.save"
        ) from error
    return _finished(path.stem, program, bits, fused)


def _finished(name: str, program: Any, bits: int, fused: bool) -> OperatorGraph:
    builder, results = _from_program(program, bits)
    outputs = tuple(dict.fromkeys(t for node in results for t in builder.source.get(node, ())))
    graph = _without_dead(OperatorGraph(name, tuple(builder.operators), tuple(builder.tensors), outputs))
    return fuse_operators(graph) if fused else graph


def _from_program(program: Any, bits: int) -> tuple[_Builder, list[Any]]:
    """The graph of an exported program."""
    import torch

    signature = program.graph_signature
    held = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    held |= getattr(signature, "inputs_to_lifted_tensor_constants", {})
    builder = _Builder(bits)
    results: list[Any] = []
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder" and node.name in held:
            builder.parameters[node] = int(value.numel())
        elif node.op == "placeholder" and isinstance(value, torch.Tensor):
            builder.add(node, "input", (), [value], 0)
        elif node.op == "call_function":
            _call(builder, node, value)
        elif node.op == "output":
            results = list(node.all_input_nodes)
    return builder, results


def _call(builder: _Builder, node: Any, value: Any) -> None:
    """One call: a view, the taking of one of several results, or an operator."""
    import torch

    kind = str(getattr(node.target, "__name__", node.target)).removeprefix("aten.").split(".")[0]
    operands = list(node.all_input_nodes)
    activations = [n for n in operands if n in builder.source]
    values = [v for v in value if isinstance(v, torch.Tensor)] if isinstance(value, list | tuple) else [value]
    if kind == "getitem" and activations and len(builder.source[activations[0]]) > 1:
        builder.source[node] = (builder.source[activations[0]][node.args[1]],)
    elif not values or not all(isinstance(v, torch.Tensor) for v in values):
        return  # a number or a shape
    elif kind in _VIEWS and len(activations) == 1:
        builder.source[node] = builder.source[activations[0]]
    elif not activations and all(n in builder.parameters for n in operands):
        # Computed from parameters alone, or a constant: a parameter of whoever reads it.
        builder.parameters[node] = sum(math.prod(v.shape) for v in values)
    else:
        parameters = sum(builder.parameters.get(n, 0) for n in operands)
        builder.add(node, _kind_name(kind), operands, values, parameters)


def _kind_name(kind: str) -> str:
    """`_native_batch_norm_legit_no_training` and the like under the name people know."""
    return "batch_norm" if "batch_norm" in kind else kind.lstrip("_")


def _without_dead(graph: OperatorGraph) -> OperatorGraph:
    """The graph without operators that no output needs."""
    maker = {t: o for o in graph.operators for t in o.outputs}
    needed: set[str] = set()
    pending = [*graph.outputs, *(t for o in graph.operators if not o.inputs for t in o.outputs)]
    while pending:
        operator = maker[pending.pop()]
        if operator.name not in needed:
            needed.add(operator.name)
            pending.extend(operator.inputs)
    kept = tuple(o for o in graph.operators if o.name in needed)
    made = {t for o in kept for t in o.outputs}
    return OperatorGraph(graph.name, kept, tuple(t for t in graph.tensors if t.name in made), graph.outputs)
