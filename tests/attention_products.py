"""Which products of a network have activations for weights."""

from codesign.workloads.computation import Role
from codesign.workloads.network import Network, Operator


def has_activation_weights(network: Network, operator: Operator) -> bool:
    """Whether what the computation calls weights are activations (both operands of an attention product)."""
    if operator.computation is None:
        return False
    weights = (n for t, n in zip(operator.computation.tensors, operator.operands, strict=True) if t.role is Role.WEIGHT)
    return any(not network.tensor_by_name[n].is_parameter for n in weights)
