"""What is known of an ONNX graph while it is walked."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from codesign.core.errors import UserError
from codesign.workloads.network import NetworkTensor, Operator
from codesign.workloads.onnx.element_types import stored_bits


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

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


Factors = tuple[tuple[int, int], ...]
"""One axis: (extent, stride in elements of the tensor behind) of each loop over it, outermost first; stride 0 repeats."""


@dataclass(frozen=True)
class Repeated:
    """A value whose elements are those of another, in another arrangement and some of them several times.

    Args:
        base: The tensor behind it.
        axes: Where each axis walks in it.
    """

    base: Value
    axes: tuple[Factors, ...]

    @property
    def repeats(self) -> bool:
        """Whether an element stands at more than one place."""
        return any(stride == 0 for axis in self.axes for _, stride in axis)


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
        self.widths: dict[str, int] = {}  # by tensor: bits of an element, where its type does not say
        self.scale_bits: dict[str, float] = {}  # by tensor: bits of scales per element
        self.repeated: dict[str, Repeated] = {}  # by tensor: values that repeat another's elements
        self._put_off: dict[str, Callable[[], None]] = {}  # by tensor: what makes it when somebody needs it
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

    def put_off(self, node: Any, view: Repeated, make: Callable[["GraphState", Any], None]) -> None:
        """Let `make` add the operators of a node only when its result is declared: until then it is a view of another tensor."""
        tensor = self.output(node).tensor
        self.repeated[tensor] = view
        self._put_off[tensor] = lambda: make(self, node)

    def declare(self, value: Value) -> str:
        """The network tensor of a value; what was put off is made."""
        make = self._put_off.pop(value.tensor, None)
        if make is not None:
            make()
        if value.tensor not in self.tensors:
            self.tensors[value.tensor] = NetworkTensor(
                value.tensor,
                value.shape,
                self.widths.get(value.tensor) or stored_bits(value.element_type, self.settings.bits),
                is_parameter=value.constant,
                scale_bits=self.scale_bits.get(value.tensor, 0.0),
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
