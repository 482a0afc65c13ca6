"""One loop order: its memory allocation and its cost, as readable values."""

from codesign.cost.cost import Infeasible
from codesign.cost.zigzag.arrays import Layer, encode
from codesign.cost.zigzag.cost import AllocatedOrder, Loop, Workspace, ZigzagCost, evaluate, load_order, make_workspace
from codesign.cost.zigzag.layer import UnrolledLayer
from codesign.mappers.loop_order.allocation import FITS, allocate, least_bits


def allocate_order(layer: UnrolledLayer, loops: tuple[Loop, ...], *, even: bool = False) -> AllocatedOrder | Infeasible:
    """The allocation that follows from an order (rules Z4, Z5), or the memory that is too small.

    Args:
        layer: The layer.
        loops: Innermost first.
        even: Whether tensors that share a memory must cut the order at the same place.

    Raises:
        UserError: The loops are not those that the unrolling leaves.
    """
    arrays = encode(layer)
    work = make_workspace(arrays, len(loops))
    load_order(layer, arrays, work, loops)
    memory = allocate(arrays, work.order, even, work.allocation)
    if memory != FITS:
        return does_not_fit(layer, arrays, work, memory)
    return read_allocation(arrays, work, loops)


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


def evaluate_order(
    layer: UnrolledLayer, loops: tuple[Loop, ...], *, even: bool = False
) -> tuple[AllocatedOrder, ZigzagCost] | Infeasible:
    """Allocation and cost of an order; see `allocate_order`."""
    mapping = allocate_order(layer, loops, even=even)
    if isinstance(mapping, Infeasible):
        return mapping
    return mapping, evaluate(layer, mapping)
