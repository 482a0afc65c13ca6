"""A whole network on a system of cores: every operator a kernel of its own, one after the other in a graph (rule G9)."""

import math
from collections.abc import Hashable

from codesign.timing.cores.matmul import Product, product_time
from codesign.timing.cores.streams import Stream, StreamKind, stream_time
from codesign.timing.cores.system import CoreSystem
from codesign.workloads.computation import Computation, Tensor
from codesign.workloads.network import Network, Operator, OperatorKind
from codesign.workloads.traffic import OperatorTraffic, operator_traffic

REDUCING = {OperatorKind.SOFTMAX: StreamKind.SOFTMAX, OperatorKind.NORMALIZATION: StreamKind.LAYERNORM}
"""Vector operators that reduce over their last axis."""

VECTOR = "vector operators"


def network_time(system: CoreSystem, network: Network) -> dict[str, float]:
    """Seconds of a network by what binds: ``compute``, ``DRAM`` (of products), ``vector operators``.

    Operators that move nothing cost nothing; fused functions ride on their producer.
    """
    known: dict[Hashable, tuple[str, float]] = {}
    bounds: dict[str, float] = {}
    for operator, traffic in zip(network.operators, operator_traffic(network), strict=True):
        if operator.computation is None and not traffic.total_bytes:
            continue
        key, length = _key(network, operator, traffic)
        if key not in known:
            known[key] = _operator_time(system, operator, traffic, length)
        bound, seconds = known[key]
        bounds[bound] = bounds.get(bound, 0.0) + seconds
    return bounds


def _key(network: Network, operator: Operator, traffic: OperatorTraffic) -> tuple[Hashable, int]:
    """What tells one operator's time from another's, and the length of its rows."""
    shape = network.tensor_by_name[operator.outputs[0]].shape
    length = shape[-1] if shape else 1
    moved = (traffic.input_bytes, traffic.parameter_bytes, traffic.output_bytes)
    return (operator.computation, operator.kind, shape, moved), length


def launched_s(system: CoreSystem, kernel_s: float) -> float:
    """A kernel with its launch in a graph of kernels, which follow each other without the host (rule G9)."""
    return system.constant("graph_gap_s") + (system.constant("start_s") + kernel_s)


def _operator_time(system: CoreSystem, operator: Operator, traffic: OperatorTraffic, length: int) -> tuple[str, float]:
    if operator.computation is not None:
        found = product_time(system, product_of(operator.computation))
        return found.bound_by, launched_s(system, found.seconds)
    kind = REDUCING.get(operator.kind, StreamKind.COPY)
    read, written = traffic.input_bytes + traffic.parameter_bytes, traffic.output_bytes
    elements = max(written // 2, length, 1)
    stream = Stream(kind, math.ceil(elements / length), length, read / elements, written / elements)
    return VECTOR, launched_s(system, stream_time(system, stream).seconds)


def product_of(computation: Computation) -> Product:
    """The matrix products that a computation is: dimensions of both operands and the result are a batch, those summed over are reduced."""
    left, right = [t for t in computation.tensors if not t.is_output][:2]
    output = next(t for t in computation.tensors if t.is_output)
    sizes = {"m": 1, "n": 1, "k": 1, "batch": 1}
    for dim, size in computation.sizes.items():
        if dim not in output.dims:
            sizes["k"] *= size
        elif dim in left.dims and dim in right.dims:
            sizes["batch"] *= size
        else:
            sizes["m" if dim in left.dims else "n"] *= size
    return Product(**sizes, left_bytes=_bytes(left), right_bytes=_bytes(right), output_bytes=_bytes(output))


def _bytes(tensor: Tensor) -> float:
    return (tensor.bits + tensor.scale_bits) / 8
