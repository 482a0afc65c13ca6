"""The memory allocation of one loop order, or what does not fit, as readable values."""

from codesign.cost.cost import Infeasible
from codesign.cost.zigzag.arrays import Layer
from codesign.cost.zigzag.cost import AllocatedOrder, Loop, Workspace
from codesign.cost.zigzag.layer import UnrolledLayer
from codesign.mappers.loop_order.allocation import least_bits


def read_allocation(arrays: Layer, work: Workspace, loops: tuple[Loop, ...]) -> AllocatedOrder:
    """The allocation that stands in the workspace."""
    cuts = [tuple(int(c) for c in work.allocation.cut[t, : arrays.n_levels[t]]) for t in range(len(arrays.n_levels))]
    return AllocatedOrder(loops, tuple(cuts))


def does_not_fit(layer: UnrolledLayer, arrays: Layer, work: Workspace, memory: int) -> Infeasible:
    """What is short of which memory for the order that stands in the workspace."""
    item = layer.accelerator.memories[memory]
    bits = float(least_bits(arrays, work.order, work.allocation, memory))
    detail = "the smallest tiles that the unrolling allows do not fit"
    return Infeasible(f"capacity of memory {item.name!r}", bits, float(item.usable_bits), "bits", detail)
