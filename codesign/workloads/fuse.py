"""Networks as accelerators run them: views removed, normalisation folded, cheap functions applied on the way out.

Rules W3 to W5 in `docs/reference/workloads.md`.
"""

from dataclasses import replace

from codesign.workloads.functions import join_functions
from codesign.workloads.network import MATRIX_KINDS, PHASES, Network, NetworkTensor, Operator, OperatorKind

FUSED_FUNCTIONS = frozenset(
    {
        *("relu", "relu6", "clip", "leaky_relu", "prelu", "elu", "selu", "softplus", "tanh"),
        *("sigmoid", "hard_sigmoid", "swish", "hard_swish", "mish", "gelu", "gelu_tanh"),
    }
)
"""Functions of one element, which an accelerator applies to a result before it is written."""

_AFFINE = frozenset({"batch_norm", "add", "sub", "mul", "div"})
_HOSTS = MATRIX_KINDS | {OperatorKind.ELEMENTWISE}


def remove_views(network: Network) -> Network:
    """The network without reshapes and transpositions that cost nothing, and with functions written out as one; nothing folded."""
    return _Fuser(join_functions(network), frozenset(), frozenset()).result()


def fuse(network: Network, functions: frozenset[str] = FUSED_FUNCTIONS) -> Network:
    """The network without views, with batch normalisation folded and `functions` fused into their producers.

    - A RESHAPE moves nothing: its consumers read its input. So does a TRANSPOSE that only matrix products read: they
      address their operands with strides.
    - A scale and shift by parameters (batch normalisation, `mul` and `add` with one activation operand) directly after a
      convolution or product with parameter weights is folded into weights and bias: one bias remains.
    - Element-wise operators that depend on one tensor alone and read it more than once are one function (`join_functions`).
    - A function in `functions`, or a scale and shift that cannot be folded, is applied by the producer before it writes.

    The producer must be a matrix or element-wise operator whose result nobody else reads; of a transposed convolution, all the
    operators that make its phases.
    MACs and the elements of all results are unchanged.

    Args:
        network: Any network.
        functions: Element functions that the producer can apply.
    """
    return _Fuser(join_functions(network), functions, _AFFINE).result()


class _Fuser:
    """The state of one pass over the operators in order."""

    def __init__(self, network: Network, functions: frozenset[str], affine: frozenset[str]) -> None:
        self.network = network
        self.functions = functions
        self.affine = affine
        self.tensors = dict(network.tensor_by_name)
        self.alias: dict[str, str] = {}
        self.done: dict[str, Operator] = {}  # by the name of the operator
        self.producer: dict[str, str] = {}  # tensor -> name of the operator in `done`
        outside = set(network.outputs)  # whoever takes the results reads them too
        self.readers = {name: len(ops) + (name in outside) for name, ops in network.consumers.items()}

    def result(self) -> Network:
        """The network after the pass."""
        for original in self.network.operators:
            operator = self._rename(original)
            if operator.kind is OperatorKind.RESHAPE or self._is_strided_read(original):
                source = operator.inputs[0]
                self.readers[source] += self.readers[operator.outputs[0]] - 1
                self.alias[operator.outputs[0]] = source
                continue
            host = self._host(operator)
            self._place(operator if host is None else self._merge(host, operator))
        outputs = tuple(dict.fromkeys(self.alias.get(name, name) for name in self.network.outputs))
        operators = tuple(self.done.values())
        if not operators:  # nothing but views: there is no smaller network to return
            return self.network
        return self.network.with_operators(operators, self.tensors.values(), outputs)

    def _is_strided_read(self, operator: Operator) -> bool:
        """Whether a transposition, through views and others of its kind, is read by matrix products alone."""
        if operator.kind is not OperatorKind.TRANSPOSE or operator.function != "transpose":
            return False
        pending = list(operator.outputs)
        while pending:
            name = pending.pop()
            readers = self.network.consumers[name]
            if name in self.network.outputs or not readers:
                return False
            for reader in readers:
                if reader.function in ("reshape", "transpose"):
                    pending.extend(reader.outputs)
                elif reader.kind is not OperatorKind.MATMUL:
                    return False
        return True

    def _rename(self, operator: Operator) -> Operator:
        def current(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(self.alias.get(n, n) for n in names)

        return replace(operator, inputs=current(operator.inputs), operands=current(operator.operands))

    def _place(self, operator: Operator) -> None:
        self.done[operator.name] = operator
        for name in operator.outputs:
            self.producer[name] = operator.name

    def _host(self, operator: Operator) -> Operator | None:
        """The producer that can absorb `operator`, if any."""
        source = self._single_activation(operator)
        if source is None or operator.window is not None:
            return None
        if operator.function not in self.functions and operator.function not in self.affine:
            return None
        host_name = self.producer.get(source)
        if host_name is None or self.readers[source] != 1:
            return None
        host = self.done[host_name]
        shapes_agree = self.tensors[source].elements == self.tensors[operator.outputs[0]].elements
        hosts = host.kind in _HOSTS or host.function == PHASES
        return host if hosts and len(host.outputs) == 1 and shapes_agree else None

    def _single_activation(self, operator: Operator) -> str | None:
        activations = [n for n in operator.inputs if not self.tensors[n].is_parameter]
        return activations[0] if len(activations) == 1 else None

    def _merge(self, host: Operator, operator: Operator, bias_name: str = "") -> Operator:
        if host.function == PHASES:
            return self._merge_phases(host, operator)
        output = operator.outputs
        fused = (*host.fused, operator.function)
        operands = (*host.operands[:-1], output[0]) if host.computation is not None else ()
        merged = replace(host, outputs=output, operands=operands, fused=fused)
        if not self._is_foldable(host, operator):
            parameters = tuple(n for n in operator.inputs if self.tensors[n].is_parameter)
            return replace(merged, inputs=(*host.inputs, *parameters), operations=host.operations + operator.operations)
        if len([n for n in host.inputs if self.tensors[n].is_parameter]) > 1:
            return merged  # there is a bias already, it takes the shift
        bias = self._bias(host, bias_name)
        return replace(
            merged, inputs=(*host.inputs, bias.name), operations=host.operations + self.tensors[output[0]].elements
        )

    def _is_foldable(self, host: Operator, operator: Operator) -> bool:
        """Whether `operator` scales and shifts whole channels of a product with parameter weights, and nothing came between."""
        if operator.function not in _AFFINE or host.kind not in MATRIX_KINDS or not set(host.fused) <= _AFFINE:
            return False
        weights = [n for n in host.operands[:-1] if self.tensors[n].is_parameter]
        if not weights or len(self.network.consumers[weights[0]]) > 1:
            return False  # none to fold into, or others use them unscaled
        rank = len(self.tensors[operator.outputs[0]].shape)
        channel_axis = 1 if host.kind is OperatorKind.CONV else rank - 1
        if operator.function == "batch_norm":
            return channel_axis == 1
        for name in operator.inputs:
            if self.tensors[name].is_parameter:
                shape = self.tensors[name].shape
                aligned = (1,) * (rank - len(shape)) + shape
                if any(length != 1 for axis, length in enumerate(aligned) if axis != channel_axis):
                    return False
        return True

    def _merge_phases(self, join: Operator, operator: Operator) -> Operator:
        """The join of a transposed convolution whose parts apply `operator` to their share of the result."""
        total = max(self.tensors[operator.outputs[0]].elements, 1)
        for name in join.inputs:
            part = self.done[self.producer[name]]
            share = operator.operations * self.tensors[name].elements // total
            each = replace(operator, outputs=(name,), operations=share)
            self.done[part.name] = self._merge(part, each, f"{join.name}.bias")
        return replace(join, outputs=operator.outputs)

    def _bias(self, host: Operator, name: str) -> NetworkTensor:
        if name in self.tensors:
            return self.tensors[name]
        shape = self.tensors[host.outputs[0]].shape
        channels = shape[1] if host.kind is OperatorKind.CONV else shape[-1]
        weight = next(self.tensors[n] for n in host.operands[:-1] if self.tensors[n].is_parameter)
        name = name or f"{host.name}.bias"
        while name in self.tensors:
            name += "_"
        self.tensors[name] = NetworkTensor(name, (channels,), weight.bits, True)
        return self.tensors[name]
