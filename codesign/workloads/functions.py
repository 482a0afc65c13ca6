"""Functions that a file writes out operator by operator, as one: rule W5b.

Exporters write GELU as a division, erf, an addition and two multiplications, SiLU as a sigmoid and a multiplication. Element-wise
operators that all depend on one tensor, and whose one result the rest of the graph reads, are one function of that tensor: it
is read once, and what lies between is never in memory. Operations are those of the parts.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from codesign.workloads.network import Network, Operator, OperatorKind

_SMOOTH = {
    frozenset({"sigmoid", "mul"}): "swish",
    frozenset({"hard_sigmoid", "mul"}): "hard_swish",
    frozenset({"softplus", "tanh", "mul"}): "mish",
}
"""Function of the parts a file may write it with."""

LIMIT = 16
"""Operators that one function may consist of."""


def join_functions(network: Network) -> Network:
    """The network with every function that was written out as one operator.

    MACs, operations and the interface are unchanged; tensors inside a function are gone.
    """
    order = {o.name: i for i, o in enumerate(network.operators)}
    outside = frozenset(network.outputs)
    taken: set[str] = set()
    joined: dict[str, Operator] = {}  # by the name of the last part
    for name, readers in network.consumers.items():
        if len(readers) < 2 or network.tensor_by_name[name].is_parameter:
            continue  # a plain chain is fused operator by operator
        parts = _parts(network, name, order, outside)
        if len(parts) < 2 or not taken.isdisjoint(o.name for o in parts):
            continue
        taken.update(o.name for o in parts)
        joined[parts[-1].name] = _one(network, name, parts)
    if not joined:
        return network
    operators = tuple(joined.get(o.name, o) for o in network.operators if o.name in joined or o.name not in taken)
    return network.with_operators(operators, network.tensors, network.outputs)


def _parts(network: Network, source: str, order: dict[str, int], outside: frozenset[str]) -> list[Operator]:
    """The longest run of operators that depend on `source` alone and leave one result, in order; empty when there is none.

    It must read `source` more than once, so that reading it once is a gain.
    """
    shape = network.tensor_by_name[source].shape
    values = {source}
    found: list[Operator] = []
    best: list[Operator] = []
    while len(found) < LIMIT:
        ready = [
            o
            for value in values
            for o in network.consumers[value]
            if o not in found and _belongs(network, o, values, shape)
        ]
        if not ready:
            break
        found.append(min(ready, key=lambda o: order[o.name]))
        values.update(found[-1].outputs)
        names = {o.name for o in found}
        live = [v for v in values - {source} if v in outside or any(o.name not in names for o in network.consumers[v])]
        if len(live) == 1 and live[0] == found[-1].outputs[0] and sum(source in o.inputs for o in found) > 1:
            best = list(found)
    return best


def _belongs(network: Network, operator: Operator, values: Iterable[str], shape: tuple[int, ...]) -> bool:
    """Whether an operator computes each element of its result from the same element of the values."""
    if operator.kind not in (OperatorKind.ACTIVATION, OperatorKind.ELEMENTWISE) or len(operator.outputs) != 1:
        return False
    reads = [t.name for t in network.activation_inputs(operator)]
    return set(reads) <= set(values) and network.tensor_by_name[operator.outputs[0]].shape == shape


def _one(network: Network, source: str, parts: list[Operator]) -> Operator:
    parameters = dict.fromkeys(n for o in parts for n in o.inputs if network.tensor_by_name[n].is_parameter)
    last = parts[-1]
    return replace(
        last,
        kind=OperatorKind.ACTIVATION,
        inputs=(source, *parameters),
        operations=sum(o.operations for o in parts),
        function=function_name(f for o in parts for f in (o.function, *o.fused)),
        fused=(),
    )


def function_name(parts: Iterable[str]) -> str:
    """What a function is called that consists of these.

    >>> function_name(["sigmoid", "mul"]), function_name(["div", "erf", "add", "mul", "mul"])
    ('swish', 'gelu')
    >>> function_name(["pow", "mul", "add", "mul", "tanh", "add", "mul", "mul"]), function_name(["exp", "add", "mul"])
    ('gelu_tanh', 'exp+add+mul')
    """
    counted = Counter(parts)
    smooth = [f for f in counted if f not in ("add", "sub", "mul", "div", "pow")]
    if smooth == ["erf"] and counted["mul"]:
        return "gelu"
    if smooth == ["tanh"] and counted["mul"] >= 2 and counted["add"]:
        return "gelu_tanh"
    core = frozenset({*smooth, "mul"}) if counted["mul"] else frozenset(smooth)
    if core in _SMOOTH:
        return _SMOOTH[core]
    return "+".join(counted.elements())
