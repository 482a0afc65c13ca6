"""A network: a directed acyclic graph of operators and the tensors between them.

The rules that give an operator its bytes and operations are numbered W1, W2, ... in `docs/reference/workloads.md`.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

from codesign.core.checks import check_whole, repeated
from codesign.core.errors import UserError, unknown_name
from codesign.workloads.computation import Computation, Tensor


class OperatorKind(Enum):
    """What an operator does; CONV and MATMUL have a computation, all others are vector operators."""

    CONV = "conv"
    MATMUL = "matmul"
    POOL = "pool"
    ACTIVATION = "activation"
    ELEMENTWISE = "elementwise"
    SOFTMAX = "softmax"
    NORMALIZATION = "normalization"
    REDUCE = "reduce"
    CONCAT = "concat"
    APPEND = "append"
    SLICE = "slice"
    TRANSPOSE = "transpose"
    RESHAPE = "reshape"
    GATHER = "gather"
    RESIZE = "resize"
    OPAQUE = "opaque"


PHASES = "phases"
"""Function of the concatenation that interleaves the phases of a transposed convolution."""

MATRIX_KINDS = frozenset({OperatorKind.CONV, OperatorKind.MATMUL})


@dataclass(frozen=True)
class NetworkTensor:
    """An activation or a parameter.

    Args:
        name: Unique in its network.
        shape: Elements along each axis; ``()`` is a scalar.
        bits: Width of one element in memory.
        is_parameter: Whether it is the same in every inference (weights, biases, embedding tables).
        batch_axis: The axis whose length is a multiple of the batch; None when no axis is.
        scale_bits: Bits per element beside the element's own: its share of a scale that a block shares.
    """

    name: str
    shape: tuple[int, ...]
    bits: int = 8
    is_parameter: bool = False
    batch_axis: int | None = None
    scale_bits: float = 0.0

    def __post_init__(self) -> None:
        if any(isinstance(s, bool) or not isinstance(s, int) or s < 0 for s in self.shape):
            raise UserError(f"shape of tensor {self.name!r} must be integers >= 0, got {list(self.shape)}")
        check_whole(bits=self.bits, where=f"tensor {self.name!r}")
        if self.batch_axis is not None and not 0 <= self.batch_axis < len(self.shape):
            raise UserError(f"`batch_axis` of tensor {self.name!r} must be an axis of {list(self.shape)}")
        if self.is_parameter and self.batch_axis is not None:
            raise UserError(f"tensor {self.name!r} is a parameter and cannot depend on the batch")

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes in memory, elements packed, rounded up."""
        return self.bytes_of(self.elements)

    def bytes_of(self, elements: int) -> int:
        """Bytes of so many elements, packed, with their share of scales, rounded up."""
        if not self.scale_bits:
            return -(-elements * self.bits // 8)
        return math.ceil(elements * (self.bits + self.scale_bits) / 8)


@dataclass(frozen=True)
class Window:
    """The sliding window of a convolution or a pooling, one entry per spatial axis (height, width).

    Args:
        kernel: Taps.
        stride: Step between windows.
        dilation: Step between taps.
        padding: (before, after); virtual elements at each end, never in memory.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Operator:
    """One node of a network.

    Args:
        name: Unique in its network.
        kind: What it does.
        inputs: Tensors it reads, parameters included.
        outputs: Tensors it writes.
        computation: What the MAC array does; only for CONV and MATMUL.
        operands: The tensor behind each tensor of the computation, in its order (output last).
        batch_dim: The dimension of the computation whose bound is a multiple of the batch.
        operations: Work of the vector unit (rule W6), functions fused into a matrix operator included.
        window: The sliding window of a convolution or a pooling.
        function: The function of a vector operator (``relu``, ``max``, ``add``; the ONNX name when opaque).
        fused: Functions applied to the output before it is written.
        permutation: Of a transposition: output axis -> input axis.
    """

    name: str
    kind: OperatorKind
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    computation: Computation | None = None
    operands: tuple[str, ...] = ()
    batch_dim: str | None = None
    operations: int = 0
    window: Window | None = None
    function: str = ""
    fused: tuple[str, ...] = ()
    permutation: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        where = f"operator {self.name!r}"
        if (self.computation is not None) != (self.kind in MATRIX_KINDS):
            raise UserError(f"kind {self.kind.value!r} and its computation contradict each other", where=where)
        if not self.outputs:
            raise UserError("an operator needs an output", where=where)
        check_whole(0, operations=self.operations, where=where)
        if self.computation is None:
            if self.operands or self.batch_dim is not None:
                raise UserError("`operands` and `batch_dim` belong to a computation, and there is none", where=where)
            return
        if len(self.operands) != len(self.computation.tensors):
            raise UserError(
                f"expected {len(self.computation.tensors)} operands for {self.computation}, got {list(self.operands)}",
                where=where,
            )
        if self.operands[-1] not in self.outputs or not set(self.operands[:-1]) <= set(self.inputs):
            raise UserError("every operand must be an input, the last one the output", where=where)
        if self.batch_dim is not None and self.batch_dim not in self.computation.dims:
            raise unknown_name("dimension", self.batch_dim, self.computation.dims, where=where)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the operator; 0 for vector operators."""
        return 0 if self.computation is None else self.computation.macs

    @property
    def operand_pairs(self) -> tuple[tuple[Tensor, str], ...]:
        """The tensors of the computation, each with the name of the one behind it; none of a vector operator."""
        return () if self.computation is None else tuple(zip(self.computation.tensors, self.operands, strict=True))

    def with_tensors(self, change: Callable[[Tensor, str], Tensor]) -> "Operator":
        """The operator with every tensor of its computation changed; `change` is also given the name of the one behind it."""
        if self.computation is None:
            return self
        tensors = tuple(change(tensor, name) for tensor, name in self.operand_pairs)
        return replace(self, computation=replace(self.computation, tensors=tensors))

    @property
    def is_vector(self) -> bool:
        """Whether it runs on the vector unit (or, for a RESHAPE, nowhere)."""
        return self.computation is None


@dataclass(frozen=True)
class LayerGroup:
    """Operators with equal computations: evaluated once, counted `count` times.

    Args:
        computation: The common computation.
        operators: Names of the operators.
        count: How many they are; in a `Workload`, summed with the weights of their networks.
    """

    computation: Computation
    operators: tuple[str, ...]
    count: float


@dataclass(frozen=True)
class Network:
    """A directed acyclic graph of operators, in topological order.

    Args:
        name: A label for people.
        operators: Every operator after the producers of its inputs. `Network.sorted` puts them so.
        tensors: Every tensor that an operator names.
        inputs: Activations that no operator produces.
        outputs: Activations that leave the network.
        batch: Inferences that run together; every `batch_axis` and `batch_dim` is a multiple of it.
        fixed_batch: Whether the shapes hold for this batch only.
        warnings: What could not be understood on the way in.

    Raises:
        UserError: Names that clash or are unknown, a tensor with two producers or none, a cycle,
            shapes that contradict a computation.
    """

    name: str
    operators: tuple[Operator, ...]
    tensors: tuple[NetworkTensor, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    batch: int = 1
    fixed_batch: bool = False
    warnings: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        try:
            _check_network(self)
        except UserError as error:
            raise error.within(f"network {self.name!r}") from None

    @classmethod
    def sorted(
        cls,
        name: str,
        operators: Iterable[Operator],
        tensors: Iterable[NetworkTensor],
        inputs: Iterable[str],
        outputs: Iterable[str],
        batch: int = 1,
        fixed_batch: bool = False,
        warnings: Iterable[str] = (),
    ) -> "Network":
        """A network whose operators were given in any order.

        Raises:
            UserError: As the class; a cycle is named operator by operator.
        """
        where = f"network {name!r}"
        given = tuple(operators)
        try:
            _check_unique("operator", [o.name for o in given])
        except UserError as error:
            raise error.within(where) from None
        ordered = topological_order(given, where)
        return cls(name, ordered, tuple(tensors), tuple(inputs), tuple(outputs), batch, fixed_batch, tuple(warnings))

    @cached_property
    def tensor_by_name(self) -> dict[str, NetworkTensor]:
        """Every tensor of the network by its name."""
        return {t.name: t for t in self.tensors}

    @cached_property
    def operator_by_name(self) -> dict[str, Operator]:
        """Every operator of the network by its name."""
        return {o.name: o for o in self.operators}

    @cached_property
    def producers(self) -> dict[str, Operator]:
        """Tensor name -> the operator that writes it; network inputs and parameters have none."""
        return {name: operator for operator in self.operators for name in operator.outputs}

    @cached_property
    def consumers(self) -> dict[str, tuple[Operator, ...]]:
        """Tensor name -> the operators that read it, in order, each once."""
        found: dict[str, list[Operator]] = {t.name: [] for t in self.tensors}
        for operator in self.operators:
            for name in dict.fromkeys(operator.inputs):
                found[name].append(operator)
        return {name: tuple(operators) for name, operators in found.items()}

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one run of the whole batch."""
        return sum(o.macs for o in self.operators)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the parameters that matrix operators multiply with, each once; biases and normalisation constants are none."""
        operands = {n for o in self.operators for n in o.operands[:-1]}
        return sum(t.size_bytes for t in self.tensors if t.is_parameter and t.name in operands)

    @property
    def parameter_bytes(self) -> int:
        """Bytes of all parameters: weights, biases, normalisation constants, tables."""
        return sum(t.size_bytes for t in self.tensors if t.is_parameter)

    @property
    def parameter_elements(self) -> int:
        """Number of parameters."""
        return sum(t.elements for t in self.tensors if t.is_parameter)

    def activation_inputs(self, operator: Operator) -> tuple[NetworkTensor, ...]:
        """The tensors an operator reads that are not parameters, each once."""
        found = (self.tensor_by_name[n] for n in dict.fromkeys(operator.inputs))
        return tuple(t for t in found if not t.is_parameter)

    def parameters(self, operator: Operator) -> tuple[NetworkTensor, ...]:
        """The parameters an operator reads, each once."""
        found = (self.tensor_by_name[n] for n in dict.fromkeys(operator.inputs))
        return tuple(t for t in found if t.is_parameter)

    def operand_kind(self, tensor: Tensor, name: str) -> str:
        """``weight``, ``input`` or ``output``: parameters are weights, whatever else is read an input, caches included (rule Z1)."""
        if tensor.is_output:
            return "output"
        return "weight" if self.tensor_by_name[name].is_parameter else "input"

    def distinct_layers(self) -> tuple[LayerGroup, ...]:
        """The computations without repetition, in order of first appearance, each with its operators."""
        groups: dict[Computation, list[str]] = {}
        for operator in self.operators:
            if operator.computation is not None:
                groups.setdefault(operator.computation, []).append(operator.name)
        return tuple(LayerGroup(c, tuple(names), len(names)) for c, names in groups.items())

    def with_operators(
        self, operators: tuple[Operator, ...], tensors: Iterable[NetworkTensor], outputs: tuple[str, ...]
    ) -> "Network":
        """The network of other operators. Tensors that none of them names are dropped, parameters that nobody read before are not."""
        used = {n for o in operators for n in (*o.inputs, *o.outputs)} | {*self.inputs, *outputs}
        used |= {
            t.name for t in self.tensors if t.is_parameter and not self.consumers[t.name]
        }  # experts nobody reaches
        kept = tuple(t for t in tensors if t.name in used)
        return replace(self, operators=operators, tensors=kept, outputs=outputs)

    def with_batch(self, batch: int) -> "Network":
        """The same network running `batch` inferences at once.

        Raises:
            UserError: `batch` is below 1, or the shapes hold for one batch only.
        """
        check_whole(batch=batch, where=f"network {self.name!r}")
        if batch == self.batch:
            return self
        if self.fixed_batch:
            raise UserError(f"the shapes hold for batch {self.batch} only, asked for {batch}", where=self.name)
        tensors = tuple(_scale_tensor(t, self.batch, batch) for t in self.tensors)
        dependent = {t.name for t in tensors if t.batch_axis is not None}
        operators = tuple(_scale_operator(o, self.batch, batch, dependent) for o in self.operators)
        return replace(self, tensors=tensors, operators=operators, batch=batch)

    def with_bits(self, bits: int, partial_bits: int | None = None) -> "Network":
        """The same network with all elements `bits` wide and partial sums `partial_bits` (default: `bits`)."""
        tensors = tuple(replace(t, bits=bits) for t in self.tensors)
        operators = tuple(
            o if o.computation is None else replace(o, computation=o.computation.with_bits(bits, partial_bits))
            for o in self.operators
        )
        return replace(self, tensors=tensors, operators=operators)


def topological_order(operators: tuple[Operator, ...], where: str) -> tuple[Operator, ...]:
    """The operators with every producer before its consumers; otherwise in the order given.

    Raises:
        UserError: There is a cycle; the message walks it.
    """
    producer = {name: o for o in operators for name in o.outputs}
    state: dict[str, bool] = {}  # False while an operator is on the path, True once placed
    ordered: list[Operator] = []
    for root in operators:
        if root.name in state:
            continue
        state[root.name] = False
        path = [(root, iter(root.inputs))]
        while path:
            operator, pending = path[-1]
            for name in pending:
                before = producer.get(name)
                if before is None or state.get(before.name) is True:
                    continue
                if state.get(before.name) is False:
                    names = [o.name for o, _ in path]
                    cycle = [*names[names.index(before.name) :], before.name]
                    raise UserError(f"the graph has a cycle: {' <- '.join(cycle)}", where=where)
                state[before.name] = False
                path.append((before, iter(before.inputs)))
                break
            else:
                state[operator.name] = True
                ordered.append(operator)
                path.pop()
    return tuple(ordered)


def _scale_tensor(tensor: NetworkTensor, old: int, new: int) -> NetworkTensor:
    if tensor.batch_axis is None:
        return tensor
    shape = tuple(s // old * new if i == tensor.batch_axis else s for i, s in enumerate(tensor.shape))
    return replace(tensor, shape=shape)


def _scale_operator(operator: Operator, old: int, new: int, dependent: set[str]) -> Operator:
    computation = operator.computation
    if computation is not None and operator.batch_dim is not None:
        bound = computation.sizes[operator.batch_dim] // old * new
        computation = computation.with_bounds(**{operator.batch_dim: bound})
    scales = not dependent.isdisjoint(operator.outputs)
    operations = operator.operations * new // old if scales else operator.operations
    return replace(operator, computation=computation, operations=operations)


def _check_network(network: Network) -> None:
    check_whole(batch=network.batch)
    if not network.operators:
        raise UserError("expected at least one operator, got none")
    _check_unique("operator", [o.name for o in network.operators])
    _check_unique("tensor", [t.name for t in network.tensors])
    _check_names(network)
    _check_order(network)
    for tensor in network.tensors:
        if tensor.batch_axis is not None and tensor.shape[tensor.batch_axis] % network.batch:
            raise UserError(
                f"axis {tensor.batch_axis} of {list(tensor.shape)} must be a multiple of the batch {network.batch}",
                where=f"tensor {tensor.name!r}",
            )
    for operator in network.operators:
        _check_operands(network, operator)


def _check_unique(kind: str, names: list[str]) -> None:
    if (twice := repeated(names)) is not None:
        raise UserError(f"{kind} {twice!r} is defined twice")


def _check_names(network: Network) -> None:
    known = network.tensor_by_name
    written: dict[str, str] = {}
    for operator in network.operators:
        where = f"operator {operator.name!r}"
        for name in (*operator.inputs, *operator.outputs):
            if name not in known:
                raise unknown_name("tensor", name, known, where=where)
        for name in operator.outputs:
            if name in written:
                raise UserError(f"tensor {name!r} has two producers, {written[name]!r} and this one", where=where)
            if known[name].is_parameter or name in network.inputs:
                raise UserError(f"tensor {name!r} is an input or a parameter and cannot be produced", where=where)
            written[name] = operator.name
    for name in (*network.inputs, *network.outputs):
        if name not in known:
            raise unknown_name("tensor", name, known, where="inputs and outputs of the network")
    for tensor in network.tensors:
        if not tensor.is_parameter and tensor.name not in written and tensor.name not in network.inputs:
            raise UserError(
                f"tensor {tensor.name!r} has no producer",
                hint="name it among the inputs of the network or mark it as a parameter",
            )


def _check_order(network: Network) -> None:
    seen = {*network.inputs, *(t.name for t in network.tensors if t.is_parameter)}
    for operator in network.operators:
        for name in operator.inputs:
            if name not in seen:
                topological_order(network.operators, "operators")  # a cycle gets its own message
                raise UserError(
                    f"operator {operator.name!r} stands before the producer of {name!r}",
                    hint="make the network with `Network.sorted`",
                )
        seen.update(operator.outputs)


def _check_operands(network: Network, operator: Operator) -> None:
    """Element counts of operands whose axes are plain dimensions must be those of the computation."""
    if operator.computation is None:
        return
    where = f"operator {operator.name!r}"
    if operator.batch_dim is not None and operator.computation.sizes[operator.batch_dim] % network.batch:
        bound = operator.computation.sizes[operator.batch_dim]
        raise UserError(
            f"dimension {operator.batch_dim!r} must be a multiple of the batch {network.batch}, got {bound}",
            where=where,
        )
    if operator.function == "transposed":
        return  # whole phases of every input, where the result may be cropped or have pixels without a tap
    for tensor, name in operator.operand_pairs:
        if any(len(axis.terms) != 1 or axis.terms[0][1] != 1 for axis in tensor.axes):
            continue  # a sliding window: padding and stride decouple the extents
        words = operator.computation.tensor_words(tensor)
        actual = network.tensor_by_name[name]
        if words != actual.elements:
            raise UserError(
                f"tensor {name!r} has {actual.elements} elements {list(actual.shape)}, "
                f"but {tensor} of the computation has {words}",
                where=where,
            )
