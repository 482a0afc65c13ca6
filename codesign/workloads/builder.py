"""Builds a network step by step: the zoo writes models with it, the ONNX importer its operators."""

import math
from collections.abc import Sequence

from codesign.core.checks import check_whole
from codesign.core.errors import UserError
from codesign.workloads import operators
from codesign.workloads.computation import Computation
from codesign.workloads.network import Network, NetworkTensor, Operator, OperatorKind, Window

Pair = int | tuple[int, int]
Ends = tuple[tuple[int, int], tuple[int, int]]
"""(before, after) of height and of width."""

OPERATIONS_PER_ELEMENT = {
    "identity": 0,
    "relu": 1,
    "relu6": 2,
    "clip": 2,
    "leaky_relu": 2,
    "prelu": 2,
    "elu": 4,
    "selu": 4,
    "softplus": 3,
    "sigmoid": 4,
    "hard_sigmoid": 4,
    "swish": 5,
    "hard_swish": 5,
    "mish": 5,
    "tanh": 1,
    "gelu": 5,
    "gelu_tanh": 8,
    "erf": 1,
    "rotary": 3,
    "softmax": 5,
    "log_softmax": 5,
    "layer_norm": 7,
    "rms_norm": 4,
    "group_norm": 7,
    "instance_norm": 7,
    "batch_norm": 2,
    "l2_norm": 4,
    "local_response_norm": 13,
}
"""Operations of the vector unit for one element (rule W6): an addition, a multiplication, a comparison or one
evaluation of exp, erf, tanh, division, square root counts one. `gelu` is x/2*(1+erf(x/sqrt 2)), `softmax`
max, subtract, exp, sum, divide, `local_response_norm` over 5 channels 5 squares, 5 sums, scale, power, division, `layer_norm` sum, subtract, square, sum, scale, gain, bias. Functions that are not listed count one."""


def conv_output(length: int, kernel: int, stride: int, padding: int, dilation: int = 1, ceil_mode: bool = False) -> int:
    """Length of an axis after a sliding window; `padding` is the sum of both ends."""
    free = length + padding - dilation * (kernel - 1) - 1
    return (-(-free // stride) if ceil_mode else free // stride) + 1


def same_padding(length: int, out: int, kernel: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """What stands before and after an axis so that a window gives so many results; the odd element comes after."""
    total = max(0, (out - 1) * stride + dilation * (kernel - 1) + 1 - length)
    return total // 2, total - total // 2


def _output_size(image: tuple[int, int], window: Window, ceil_mode: bool = False) -> tuple[int, int]:
    """Height and width of what a window gives of an image."""
    height, width = (
        conv_output(size, k, s, sum(p), d, ceil_mode)
        for size, k, s, p, d in zip(image, window.kernel, window.stride, window.padding, window.dilation, strict=True)
    )
    return height, width


class NetworkBuilder:
    """Collects operators and tensors; every method adds one operator and returns the name of its output.

    Args:
        name: Of the network.
        batch: Inferences that run together.
        bits: Width of every element.
        partial_bits: Width of partial sums; default `bits`.
    """

    def __init__(self, name: str, batch: int = 1, bits: int = 8, partial_bits: int | None = None) -> None:
        check_whole(batch=batch, where=f"network {name!r}")
        self.name = name
        self.batch = batch
        self.bits = bits
        self.partial_bits = partial_bits
        self.tensors: dict[str, NetworkTensor] = {}
        self.operators: list[Operator] = []
        self.inputs: list[str] = []
        self.fixed_batch = False
        self._counts: dict[str, int] = {}

    # ---- names and tensors -------------------------------------------------------------------

    def unique(self, stem: str) -> str:
        """`stem`, or `stem_1`, `stem_2`, ... when it was given out before."""
        count = self._counts.get(stem, 0)
        self._counts[stem] = count + 1
        return stem if count == 0 else f"{stem}_{count}"

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor declared before."""
        return self.tensors[name].shape

    def tensor(
        self, name: str, shape: Sequence[int], *, is_parameter: bool = False, batch_axis: int | None = None
    ) -> str:
        """Declare a tensor."""
        self.tensors[name] = NetworkTensor(name, tuple(shape), self.bits, is_parameter, batch_axis)
        return name

    def input(self, name: str, shape: Sequence[int], batch_axis: int | None = 0) -> str:
        """Declare an input of the network."""
        self.inputs.append(name)
        return self.tensor(name, shape, batch_axis=batch_axis)

    def parameter(self, name: str, shape: Sequence[int]) -> str:
        """Declare a parameter."""
        return self.tensor(name, shape, is_parameter=True)

    def add(self, operator: Operator) -> str:
        """Add a finished operator; its tensors are declared already."""
        self.operators.append(operator)
        return operator.outputs[0]

    # ---- matrix operators --------------------------------------------------------------------

    def conv(
        self,
        x: str,
        out_channels: int,
        kernel: Pair,
        *,
        stride: Pair = 1,
        padding: Pair | Ends | str = "same",
        dilation: Pair = 1,
        groups: int = 1,
        bias: bool = False,
        name: str = "conv",
    ) -> str:
        """A convolution of an image ``batch x C x H x W``.

        Args:
            x: The image.
            out_channels: Channels of the output.
            kernel: Height and width of the filter.
            stride: Of height and width.
            padding: At each end of both axes, apart for every end (``((1, 1), (0, 0))``), or ``"same"`` (output = input / stride, rounded up; the odd element at
                the end, as TensorFlow does; with stride 1 and odd filters everybody does) or ``"valid"`` (none).
            dilation: Of height and width.
            groups: Groups of channels.
            bias: Whether a bias is added.
            name: Of the operator.
        """
        n, channels, height, width = self.shape(x)
        window = self._window((height, width), kernel, stride, padding, dilation)
        out = _output_size((height, width), window)
        name = self.unique(name)
        computation = operators.conv_nd(
            N=n,
            K=out_channels,
            C=channels,
            output=out,
            kernel=window.kernel,
            G=groups,
            stride=window.stride,
            dilation=window.dilation,
            **self._label(name),
        )
        weight = self.parameter(f"{name}.weight", (out_channels, channels // groups, *window.kernel))
        axis, kind = self.tensors[x].batch_axis, OperatorKind.CONV
        shape, batch_dim = (n, out_channels, *out), "N" if axis == 0 else None
        return self._matrix(computation, (x, weight), shape, axis, batch_dim, bias * out_channels, kind, window)

    def linear(
        self, x: str, out_features: int, *, bias: bool = True, weight: str | None = None, name: str = "linear"
    ) -> str:
        """A fully connected layer over the last axis; all other axes are rows of the product.

        Args:
            x: ``... x features``.
            out_features: Length of the last axis of the result.
            bias: Whether a bias is added.
            weight: A parameter declared before, for layers that share it; default one of its own.
            name: Of the operator.
        """
        name = self.unique(name)
        *rows, features = self.shape(x)
        computation = operators.gemm(M=math.prod(rows), N=out_features, K=features, **self._label(name))
        weight = weight or self.parameter(f"{name}.weight", (features, out_features))
        axis = self.tensors[x].batch_axis
        batch_dim = "M" if axis is not None else None
        return self._matrix(computation, (x, weight), (*rows, out_features), axis, batch_dim, bias * out_features)

    def matmul(self, a: str, b: str, *, name: str = "matmul") -> str:
        """Product of two activations, broadcast over the leading axes as NumPy does."""
        computation, shape = matmul_computation(self.shape(a), self.shape(b), **self._label(self.unique(name)))
        axis = self.tensors[a].batch_axis
        batch_dim = None if axis is None else ("B" if "B" in computation.dims else "M")
        return self._matrix(computation, (a, b), shape, axis, batch_dim)

    def head_product(self, x: str, weight: str, *, name: str) -> str:
        """Product of every head with a matrix of its own: ``batch x heads x rows x K`` and a parameter ``heads x K x N``."""
        batch, heads, rows, summed = self.shape(x)
        columns = self.shape(weight)[2]
        label = self._label(self.unique(name))
        computation = operators.broadcast_matmul(M=batch * rows, N=columns, K=summed, shared=heads, **label)
        axis = self.tensors[x].batch_axis
        batch_dim = None if axis is None else "M"
        return self._matrix(computation, (x, weight), (batch, heads, rows, columns), axis, batch_dim)

    def _label(self, name: str) -> operators.Label:
        return {"bits": self.bits, "partial_bits": self.partial_bits, "name": name}

    def _matrix(
        self,
        computation: Computation,
        read: tuple[str, str],
        shape: Sequence[int],
        batch_axis: int | None,
        batch_dim: str | None,
        biases: int = 0,
        kind: OperatorKind = OperatorKind.MATMUL,
        window: Window | None = None,
    ) -> str:
        """The operator of a computation, called like it, with its result and so many biases."""
        name = computation.name
        extra = (self.parameter(f"{name}.bias", (biases,)),) if biases else ()
        y = self.tensor(name, shape, batch_axis=batch_axis)
        work = math.prod(shape) if biases else 0
        return self.add(Operator(name, kind, (*read, *extra), (y,), computation, (*read, y), batch_dim, work, window))

    # ---- experts -----------------------------------------------------------------------------

    def route(self, x: str, weights: str, shape: Sequence[int], *, name: str) -> str:
        """The rows of `x` that experts get, ``experts x rows x width``, by the weights of a router.

        How many experts a batch reaches does not grow in proportion to it: the network holds for this batch only.
        """
        self.fixed_batch = True
        return self.vector(OperatorKind.GATHER, (x, weights), shape, "route", 0, name=name, batch_axis=None)

    def expert_product(self, x: str, out_features: int, *, name: str) -> str:
        """Product of the rows of every expert, ``experts x rows x K``, with a matrix of its own."""
        name = self.unique(name)
        experts, rows, summed = self.shape(x)
        computation = operators.broadcast_matmul(M=rows, N=out_features, K=summed, shared=experts, **self._label(name))
        weight = self.parameter(f"{name}.weight", (experts, summed, out_features))
        return self._matrix(computation, (x, weight), (experts, rows, out_features), None, None)

    def combine(self, parts: Sequence[str], weights: str, shape: Sequence[int], choices: int, *, name: str) -> str:
        """The weighted sum of what the experts of every token give: a multiplication and an addition each."""
        work = 2 * choices * shape[-1]
        return self.vector(OperatorKind.ELEMENTWISE, (*parts, weights), shape, "combine", work, name=name)

    # ---- vector operators --------------------------------------------------------------------

    def pool(
        self,
        x: str,
        kernel: Pair,
        *,
        stride: Pair | None = None,
        padding: Pair | str = 0,
        function: str = "max",
        ceil_mode: bool = False,
        name: str = "pool",
    ) -> str:
        """A pooling of an image: one operation per tap."""
        n, channels, height, width = self.shape(x)
        window = self._window((height, width), kernel, kernel if stride is None else stride, padding, 1)
        shape = (n, channels, *_output_size((height, width), window, ceil_mode))
        work = math.prod(shape) * math.prod(window.kernel)
        return self.vector(OperatorKind.POOL, (x,), shape, function, work, name=name, window=window)

    def conv_norm(
        self,
        x: str,
        out_channels: int,
        kernel: Pair,
        name: str,
        *,
        stride: int = 1,
        padding: Pair | str | None = None,
        groups: int = 1,
        function: str | None = None,
    ) -> str:
        """A convolution, its batch norm and perhaps a function; padded by half the filter where nothing else is said."""
        half = kernel // 2 if isinstance(kernel, int) else (kernel[0] // 2, kernel[1] // 2)
        padding = half if padding is None else padding
        x = self.conv(x, out_channels, kernel, stride=stride, padding=padding, groups=groups, name=name)
        x = self.batch_norm(x, name=f"{name}.bn")
        return x if function is None else self.activation(x, function)

    def global_pool(self, x: str, *, name: str = "pool") -> str:
        """Average over the whole image: ``batch x C x 1 x 1``."""
        return self.pool(x, (self.shape(x)[2], self.shape(x)[3]), function="average", name=name)

    def activation(self, x: str, function: str, *, name: str | None = None) -> str:
        """A function of every element."""
        return self._elementwise_function(OperatorKind.ACTIVATION, x, function, (), name or function)

    def relu(self, x: str) -> str:
        """An element-wise operator: the larger of x and 0."""
        return self.activation(x, "relu")

    def batch_norm(self, x: str, *, name: str = "bn") -> str:
        """Inference form: scale and shift of every channel (axis 1), four parameters each."""
        return self._norm(x, "batch_norm", 1, ("scale", "shift", "mean", "variance"), name)

    def layer_norm(self, x: str, *, name: str = "layer_norm") -> str:
        """Normalisation over the last axis with gain and bias."""
        return self._norm(x, "layer_norm", -1, ("weight", "bias"), name)

    def rms_norm(self, x: str, *, name: str = "rms_norm") -> str:
        """Division by the root mean square over the last axis, with gain."""
        return self._norm(x, "rms_norm", -1, ("weight",), name)

    def group_norm(self, x: str, *, name: str = "group_norm") -> str:
        """Normalisation over groups of the channels of an image (axis 1) with gain and bias."""
        return self._norm(x, "group_norm", 1, ("weight", "bias"), name)

    def _norm(self, x: str, function: str, axis: int, parameters: tuple[str, ...], name: str) -> str:
        """A normalisation with so many parameters for every place of an axis."""
        name = self.unique(name)
        given = tuple(self.parameter(f"{name}.{p}", (self.shape(x)[axis],)) for p in parameters)
        return self._elementwise_function(OperatorKind.NORMALIZATION, x, function, given, name, named=True)

    def repeat(self, x: str, shape: Sequence[int], *, name: str = "repeat") -> str:
        """The same elements several times."""
        axis = self.tensors[x].batch_axis
        return self.vector(OperatorKind.RESIZE, (x,), shape, "expand", 0, name=name, batch_axis=axis)

    def local_response_norm(self, x: str) -> str:
        """Normalisation by the squares of 5 neighbouring channels (AlexNet)."""
        return self._elementwise_function(
            OperatorKind.NORMALIZATION, x, "local_response_norm", (), "local_response_norm"
        )

    def softmax(self, x: str, *, name: str = "softmax") -> str:
        """Softmax over the last axis."""
        return self._elementwise_function(OperatorKind.SOFTMAX, x, "softmax", (), name)

    def elementwise(self, function: str, *xs: str, name: str | None = None) -> str:
        """A function of several tensors, broadcast; one operation per element and operand after the first."""
        shape = broadcast_shape(*(self.shape(x) for x in xs))
        work = math.prod(shape) * (len(xs) - 1)
        return self.vector(OperatorKind.ELEMENTWISE, xs, shape, function, work, name=name or function)

    def residual(self, *xs: str, name: str = "add") -> str:
        """Sum of equally shaped tensors."""
        return self.elementwise("add", *xs, name=name)

    def concat(self, *xs: str, axis: int = 1, name: str = "concat") -> str:
        """Concatenation along one axis."""
        shape = list(self.shape(xs[0]))
        shape[axis] = sum(self.shape(x)[axis] for x in xs)
        return self.vector(OperatorKind.CONCAT, xs, shape, "concat", 0, name=name)

    def vector_concat(self, x: str, parameter: str, shape: Sequence[int], *, name: str) -> str:
        """A parameter joined to an activation, repeated over the batch; `shape` is that of the result."""
        axis = self.tensors[x].batch_axis
        return self.vector(OperatorKind.CONCAT, (parameter, x), shape, "concat", 0, name=name, batch_axis=axis)

    def append(self, cache: str, new: str, *, axis: int, name: str = "append") -> str:
        """A cache grown in place along one axis: only the new part moves."""
        shape = list(self.shape(cache))
        shape[axis] += self.shape(new)[axis]
        return self.vector(OperatorKind.APPEND, (cache, new), shape, "append", 0, name=name)

    def reshape(self, x: str, shape: Sequence[int], *, batch_axis: int | None = 0, name: str = "reshape") -> str:
        """The same elements in the same order under another shape: nothing moves."""
        if math.prod(shape) != self.tensors[x].elements:
            raise UserError(f"cannot reshape {list(self.shape(x))} to {list(shape)}", where=f"tensor {x!r}")
        return self.vector(OperatorKind.RESHAPE, (x,), shape, "reshape", 0, name=name, batch_axis=batch_axis)

    def flatten(self, x: str, *, name: str = "flatten") -> str:
        """``batch x (everything else)``."""
        n, *rest = self.shape(x)
        return self.reshape(x, (n, math.prod(rest)), name=name)

    def transpose(self, x: str, permutation: Sequence[int], *, name: str = "transpose") -> str:
        """Axes in another order: every element moves."""
        shape = tuple(self.shape(x)[axis] for axis in permutation)
        old_axis = self.tensors[x].batch_axis
        axis = None if old_axis is None else tuple(permutation).index(old_axis)
        return self.vector(
            OperatorKind.TRANSPOSE,
            (x,),
            shape,
            "transpose",
            0,
            name=name,
            batch_axis=axis,
            permutation=tuple(permutation),
        )

    def take(self, x: str, shape: Sequence[int], *, name: str = "slice") -> str:
        """A part of a tensor; the batch stays on its axis."""
        return self.vector(
            OperatorKind.SLICE, (x,), shape, "slice", 0, name=name, batch_axis=self.tensors[x].batch_axis
        )

    def embedding(self, ids: str, rows: int, features: int, *, name: str = "embedding") -> str:
        """Rows of a table chosen by index."""
        name = self.unique(name)
        table = self.parameter(f"{name}.table", (rows, features))
        shape = (*self.shape(ids), features)
        axis = self.tensors[ids].batch_axis
        return self.vector(
            OperatorKind.GATHER, (table, ids), shape, "gather", 0, name=name, named=True, batch_axis=axis
        )

    def vector(
        self,
        kind: OperatorKind,
        inputs: Sequence[str],
        shape: Sequence[int],
        function: str,
        operations: int,
        *,
        name: str,
        named: bool = False,
        window: Window | None = None,
        batch_axis: int | None = 0,
        permutation: tuple[int, ...] = (),
    ) -> str:
        """Any vector operator; `named` says that `name` is unique already."""
        name = name if named else self.unique(name)
        dependent = any(self.tensors[x].batch_axis is not None for x in inputs)
        y = self.tensor(name, shape, batch_axis=batch_axis if dependent else None)
        return self.add(
            Operator(
                name,
                kind,
                tuple(inputs),
                (y,),
                operations=operations,
                window=window,
                function=function,
                permutation=permutation,
            )
        )

    def build(self, *outputs: str) -> Network:
        """The finished network."""
        return Network.sorted(
            self.name, self.operators, self.tensors.values(), self.inputs, outputs, self.batch, self.fixed_batch
        )

    # ---- inside ------------------------------------------------------------------------------

    def _elementwise_function(
        self,
        kind: OperatorKind,
        x: str,
        function: str,
        parameters: tuple[str, ...],
        name: str,
        *,
        named: bool = False,
    ) -> str:
        work = self.tensors[x].elements * OPERATIONS_PER_ELEMENT.get(function, 1)
        axis = self.tensors[x].batch_axis
        return self.vector(
            kind, (x, *parameters), self.shape(x), function, work, name=name, named=named, batch_axis=axis
        )

    def _window(
        self, size: tuple[int, int], kernel: Pair, stride: Pair, padding: Pair | Ends | str, dilation: Pair
    ) -> Window:
        kernels, strides, dilations = _pair(kernel), _pair(stride), _pair(dilation)
        if padding == "same":
            axes = zip(size, kernels, strides, dilations, strict=True)
            ends = [same_padding(length, -(-length // s), k, s, d) for length, k, s, d in axes]
        elif padding == "valid":
            ends = [(0, 0), (0, 0)]
        elif isinstance(padding, str):
            raise UserError(f"`padding` must be 'same', 'valid' or numbers, got {padding!r}", where=self.name)
        elif isinstance(padding, int):
            ends = [(padding, padding)] * 2
        else:
            ends = [(p, p) if isinstance(p, int) else p for p in padding]
        return Window(kernels, strides, dilations, tuple(ends))


def broadcast_shape(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The common shape of tensors broadcast against each other, as NumPy does.

    Raises:
        UserError: They cannot be.
    """
    rank = max(len(s) for s in shapes)
    padded = [(1,) * (rank - len(s)) + tuple(s) for s in shapes]
    out = []
    for lengths in zip(*padded, strict=True):
        wide = {length for length in lengths if length != 1}
        if len(wide) > 1:
            raise UserError(f"shapes {' and '.join(str(list(s)) for s in shapes)} cannot be broadcast")
        out.append(wide.pop() if wide else 1)
    return tuple(out)


def matmul_computation(
    a: Sequence[int], b: Sequence[int], *, bits: int, partial_bits: int | None = None, name: str = ""
) -> tuple[Computation, tuple[int, ...]]:
    """The computation of a NumPy-style matrix product, and the shape of its result.

    Args:
        a: Shape of the first operand; a vector is a row.
        b: Shape of the second; a vector is a column.
        bits: Width of an element.
        partial_bits: Width of a partial sum; default `bits`.
        name: A label for people.

    Raises:
        UserError: The shapes do not fit.
    """
    rows, columns = tuple(a), tuple(b)
    if not rows or not columns:
        raise UserError("a matrix product needs operands of at least one axis", where=name)
    left = (1, *rows) if len(rows) == 1 else rows
    right = (*columns, 1) if len(columns) == 1 else columns
    if left[-1] != right[-2]:
        raise UserError(f"cannot multiply {list(a)} by {list(b)}: {left[-1]} is not {right[-2]}", where=name)
    batch = broadcast_shape(left[:-2], right[:-2])
    rank = len(batch)
    left_batch = (1,) * (rank - len(left) + 2) + left[:-2]
    right_batch = (1,) * (rank - len(right) + 2) + right[:-2]
    pairs = list(zip(left_batch, right_batch, strict=True))
    computation = operators.broadcast_matmul(
        M=left[-2],
        N=right[-1],
        K=left[-1],
        shared=math.prod(x for x, y in pairs if x == y),
        input_only=math.prod(x for x, y in pairs if x != y and y == 1),
        weight_only=math.prod(y for x, y in pairs if x != y and x == 1),
        bits=bits,
        partial_bits=partial_bits,
        name=name,
    )
    shape = (*batch, *left[-2:-1][: len(rows) > 1], *right[-1:][: len(columns) > 1])
    return computation, shape


def _pair(value: Pair) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else value
