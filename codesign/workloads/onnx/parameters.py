"""Which inputs of an ONNX graph are parameters, also in a graph that ships without them (rule W2b)."""

from typing import Any

from codesign.workloads.onnx.operator_table import operator_entry

_MATRIX_SLOTS: dict[str, tuple[int, ...]] = {"MatMul": (1,), "MatMulInteger": (1,), "FusedMatMul": (1,), "Gather": (0,)}
"""Inputs that are weights when they are matrices of fixed size: the second operand of a product, the table of a lookup."""

_VECTOR_SLOTS = frozenset({"Add", "Sub", "Mul", "Div"})
"""Operators whose operand is a parameter when it is a vector of fixed size beside a result of the graph: bias, gain."""

_SAME_ELEMENTS = frozenset({"Transpose", "Cast", "Identity"})
"""What may stand between a parameter and the operator that reads it."""


def parameter_names(model: Any) -> set[str]:
    """Graph inputs and initialisers that are parameters, those without stored weights included (rule W2b)."""
    return stored_names(model) | set(weight_inputs(model))


def stored_names(model: Any) -> set[str]:
    """Names of the initialisers."""
    graph = model.graph
    return {i.name for i in graph.initializer} | {i.values.name for i in graph.sparse_initializer}


def weight_inputs(model: Any) -> dict[str, bool]:
    """Graph inputs without stored values that every reader takes for weights; False where the operator alone does not say so.

    Always: filters of convolutions, constants of normalisations. By their shape: a matrix of fixed size that is the second
    operand of products or the table of lookups, a vector of fixed size that is added to or multiplied with a result.
    """
    graph = model.graph
    stored = stored_names(model)
    readers: dict[str, list[tuple[Any, int]]] = {}
    for node in graph.node:
        for position, name in enumerate(node.input):
            readers.setdefault(name, []).append((node, position))
    given = {i.name for i in graph.input}
    found = {}
    for value in graph.input:
        if value.name in stored or not value.type.HasField("tensor_type"):
            continue
        dims = value.type.tensor_type.shape.dim
        rank = len(dims) if all(d.dim_value > 0 for d in dims) else None
        uses = _uses(value.name, readers)
        sure = [position in operator_entry(node.op_type).parameters for node, position in uses]
        if uses and all(a or _is_weight_slot(node, p, rank, given) for a, (node, p) in zip(sure, uses, strict=True)):
            found[value.name] = all(sure)
    return found


def _uses(name: str, readers: dict[str, list[tuple[Any, int]]]) -> list[tuple[Any, int]]:
    """Who reads a value, through nodes that keep its elements."""
    found = []
    for node, position in readers.get(name, []):
        if node.op_type in _SAME_ELEMENTS and position == 0:
            found.extend(_uses(node.output[0], readers) or [(node, position)])
        else:
            found.append((node, position))
    return found


def _is_weight_slot(node: Any, position: int, rank: int | None, given: set[str]) -> bool:
    """Whether an input of this rank (None: some axis is open) at this place of a node is a weight."""
    if rank == 2:
        return position in _MATRIX_SLOTS.get(node.op_type, ())
    if rank == 1 and node.op_type in _VECTOR_SLOTS:
        return all(name not in given for i, name in enumerate(node.input) if i != position)
    return False
