"""What is known of an ONNX graph while it is walked."""

from dataclasses import dataclass, replace
from typing import Any

from codesign.core.errors import UserError
from codesign.workloads.network import NetworkTensor, Operator


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


class GraphState:
    """What a walk over a graph has found so far, and what the rules of the operators do with it.

    Args:
        model: An ONNX model.
        settings: What the caller decides.
    """

    def __init__(self, model: Any, settings: Settings) -> None:
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
