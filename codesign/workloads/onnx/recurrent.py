"""Recurrent ONNX operators (RNN, GRU, LSTM): one product for all inputs, then one small product and one cell a step."""

from typing import Any

from codesign.workloads import operators
from codesign.workloads.network import Operator, OperatorKind
from codesign.workloads.onnx.emit import Attributes, declare_new, emit_opaque, emit_part, needed
from codesign.workloads.onnx.graph_state import GraphState

_CELL_OPERATIONS = {"RNN": 2, "GRU": 16, "LSTM": 24}
"""Operations per hidden element of one step (rule W6): the sum of both products for each gate, the functions of the gates
(sigmoid 4, tanh 1), and the products and sums that make the new state."""


def convert_recurrent(walk: GraphState, node: Any) -> None:
    """Unroll a recurrent operator: ``T x batch x features`` inputs, both directions side by side.

    The input product of all steps is one operator. The steps depend on each other and stay apart; they are equal layers. The
    first step has no product when no initial state is given, which means zeros.
    """
    inputs = walk.inputs(node)
    x, weights, recurrent = (needed(inputs, i) for i in range(3))
    if Attributes(node).integer("layout", 0) or not (weights.constant and recurrent.constant):
        emit_opaque(walk, node)
        return
    steps, batch, features = x.shape
    directions, wide, hidden = recurrent.shape[0], recurrent.shape[1], recurrent.shape[2]
    stem = node.name or next(n for n in node.output if n)
    bits, partial_bits = walk.settings.bits, walk.settings.partial_bits
    projection = declare_new(walk, f"{stem}.projection", (directions, steps, batch, wide), x)
    operands = (walk.declare(x), walk.declare(weights), projection)
    product = operators.broadcast_matmul(
        M=steps * batch, N=wide, K=features, weight_only=directions, bits=bits, partial_bits=partial_bits
    )
    bias = inputs[3] if len(inputs) > 3 else None
    emit_part(walk, node, f"{stem}.input", product, operands, bias=bias)
    step_product = operators.broadcast_matmul(
        M=batch, N=wide, K=hidden, shared=directions, bits=bits, partial_bits=partial_bits
    )
    initial = inputs[5] if len(inputs) > 5 else None
    state = None if initial is None else walk.declare(initial)
    states = []
    for step in range(steps):
        read = [projection]
        if state is not None:
            sums = declare_new(walk, f"{stem}.gates{step}", (directions, batch, wide), x)
            operands = (state, walk.declare(recurrent), sums)
            emit_part(walk, node, f"{stem}.step{step}", step_product, operands)
            read.append(sums)
        state = declare_new(walk, f"{stem}.state{step}", (directions, batch, hidden), x)
        work = directions * batch * hidden * _CELL_OPERATIONS[node.op_type]
        cell = Operator(
            f"{stem}.cell{step}",
            OperatorKind.ELEMENTWISE,
            tuple(read),
            (state,),
            operations=work,
            function=node.op_type.lower(),
        )
        walk.emit(node, cell)
        states.append(state)
    _results(walk, node, stem, states)


def _results(walk: GraphState, node: Any, stem: str, states: list[str]) -> None:
    """All states joined, and the last one for both final states (the cell's has the same size)."""
    if node.output[0]:
        joined = walk.declare(walk.output(node))
        walk.emit(node, Operator(f"{stem}.join", OperatorKind.CONCAT, tuple(states), (joined,), function="concat"))
    for name in node.output[1:]:
        if name:
            walk.values[name] = walk.values[states[-1]]
