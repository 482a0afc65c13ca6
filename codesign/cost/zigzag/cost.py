"""The readable cost of one allocated loop order under the zigzag semantics."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from codesign.core.errors import UserError
from codesign.cost.zigzag.arrays import FROM_HIGH, FROM_LOW, TO_HIGH, TO_LOW, Layer, encode
from codesign.cost.zigzag.kernel import (
    Allocation,
    Order,
    complete_order,
    count_words,
    make_allocation,
    make_order,
    tile_elements,
)
from codesign.cost.zigzag.latency import Transfers, count_cycles, make_transfers
from codesign.cost.zigzag.layer import UnrolledLayer
from codesign.mapping.nest import FloatArray

Loop = tuple[str, int]
"""A temporal loop: dimension and iterations."""


@dataclass(frozen=True)
class AllocatedOrder:
    """A loop order and the loops each tensor keeps at each of its levels: an uneven temporal mapping.

    Args:
        loops: Innermost first.
        cuts: By tensor (the computation's order) and level (innermost first), how many loops are kept there or below.
    """

    loops: tuple[Loop, ...]
    cuts: tuple[tuple[int, ...], ...]

    def kept(self, tensor: int) -> tuple[tuple[Loop, ...], ...]:
        """The loops of each level of a tensor."""
        cuts = self.cuts[tensor]
        return tuple(self.loops[a:b] for a, b in zip((0, *cuts[:-1]), cuts, strict=True))


@dataclass(frozen=True)
class LevelTraffic:
    """What one tensor does at one of its memories.

    Args:
        memory: Its name.
        tile_elements: Elements one instance holds.
        words: Word accesses to the level below, from it, to the level above, from it (rule Z7).
        energy_pj: Of these accesses, in the accelerator file's unit.
    """

    memory: str
    tile_elements: float
    words: tuple[int, int, int, int]
    energy_pj: float


@dataclass(frozen=True)
class ZigzagCost:
    """Word accesses, energy and latency of an allocated order.

    Args:
        energy_pj: MACs and accesses, in the accelerator file's unit.
        mac_energy_pj: The MACs' part.
        levels: By tensor name, innermost first.
        compute_cycles: Iterations of the temporal loops.
        stall_cycles: Waiting for the slowest port.
        loading_cycles: Before the first iteration.
        unloading_cycles: After the last one.
        macs: Multiply-accumulates.
        mac_units: Of the array.
    """

    energy_pj: float
    mac_energy_pj: float
    levels: dict[str, tuple[LevelTraffic, ...]]
    compute_cycles: int
    stall_cycles: float
    loading_cycles: float
    unloading_cycles: float
    macs: int
    mac_units: int

    @property
    def latency_cycles(self) -> float:
        """All cycles from the first word loaded to the last one stored; fractions come from shared bandwidth (rule Z14)."""
        return self.compute_cycles + self.stall_cycles + self.loading_cycles + self.unloading_cycles

    @property
    def edp(self) -> float:
        """Energy-delay product."""
        return self.energy_pj * self.latency_cycles

    @property
    def utilization(self) -> float:
        """MACs per unit and cycle."""
        return self.macs / (self.latency_cycles * self.mac_units)


class Workspace(NamedTuple):
    """Arrays to score orders of one layer in; `whole` is `order` counted with whole units, the same where all are whole."""

    order: Order
    whole: Order
    allocation: Allocation
    words: FloatArray
    transfers: Transfers


def make_workspace(layer: Layer, n_loops: int) -> Workspace:
    """Room to score orders of `n_loops` loops."""
    order = make_order(layer, n_loops)
    whole = make_order(layer, n_loops)._replace(dim=order.dim, factor=order.factor)
    return Workspace(
        order=order,
        whole=whole if layer.fractional else order,
        allocation=make_allocation(layer),
        words=np.zeros((*layer.memory.shape, 4)),
        transfers=make_transfers(layer),
    )


def load_order(layer: UnrolledLayer, arrays: Layer, work: Workspace, loops: tuple[Loop, ...]) -> None:
    """Write an order into the workspace.

    Raises:
        UserError: The loops are not those that the unrolling leaves.
    """
    _check_loops(layer, loops)
    work.order.dim[:] = [layer.computation.dims.index(dim) for dim, _ in loops]
    work.order.factor[:] = [factor for _, factor in loops]
    complete_order(arrays, arrays.fraction, work.order, 0)
    if arrays.fractional:
        complete_order(arrays, arrays.whole, work.whole, 0)


def evaluate(layer: UnrolledLayer, mapping: AllocatedOrder) -> ZigzagCost:
    """The cost of an allocated order. Whether its tiles fit is not asked: see `codesign.mappers.loop_order`.

    Raises:
        UserError: The loops are not those that the unrolling leaves, or the cuts are out of order.
    """
    arrays = encode(layer)
    work = make_workspace(arrays, len(mapping.loops))
    load_order(layer, arrays, work, mapping.loops)
    _load_cuts(layer, arrays, work, mapping)
    energy = count_words(arrays, work.order, work.allocation, work.words)
    stall, loading, unloading = count_cycles(arrays, work.order, work.whole, work.allocation, work.transfers)
    return ZigzagCost(
        energy_pj=energy,
        mac_energy_pj=arrays.mac_energy,
        levels={t.name: _traffic(layer, arrays, work, i) for i, t in enumerate(layer.computation.tensors)},
        compute_cycles=round(work.order.cycles[-1]),
        stall_cycles=stall,
        loading_cycles=loading,
        unloading_cycles=unloading,
        macs=layer.computation.macs,
        mac_units=math.prod(layer.accelerator.array_sizes.values()),
    )


def _traffic(layer: UnrolledLayer, arrays: Layer, work: Workspace, t: int) -> tuple[LevelTraffic, ...]:
    result = []
    for v in range(arrays.n_levels[t]):
        words = work.words[t, v]
        energy = 0.0
        for direction, count in enumerate(words):
            port = arrays.port[t, v, direction]
            energy += count * arrays.port_energy[port, 0 if direction in (TO_LOW, TO_HIGH) else 1] if port >= 0 else 0.0
        name = layer.accelerator.memories[arrays.memory[t, v]].name
        counts = (int(words[TO_LOW]), int(words[FROM_LOW]), int(words[TO_HIGH]), int(words[FROM_HIGH]))
        result.append(LevelTraffic(name, float(work.allocation.tile[t, v]), counts, float(energy)))
    return tuple(result)


def _check_loops(layer: UnrolledLayer, loops: tuple[Loop, ...]) -> None:
    left = dict(layer.passes)
    for dim, factor in loops:
        if dim not in left:
            raise UserError(f"loop over unknown dimension {dim!r}", where=str(layer.computation))
        if factor < 1 or left[dim] % factor:
            raise UserError(f"loop {dim} {factor} does not divide the {left[dim]} iterations that are left")
        left[dim] //= factor
    for dim, iterations in left.items():
        if iterations > 1:
            raise UserError(
                f"{iterations} iterations of dimension {dim!r} are in no loop", where=str(layer.computation)
            )


def _load_cuts(layer: UnrolledLayer, arrays: Layer, work: Workspace, mapping: AllocatedOrder) -> None:
    n = len(mapping.loops)
    if len(mapping.cuts) != len(layer.computation.tensors):
        raise UserError(
            f"{len(mapping.cuts)} tensors are allocated, the computation has {len(layer.computation.tensors)}"
        )
    for t, cuts in enumerate(mapping.cuts):
        if len(cuts) != arrays.n_levels[t] or list(cuts) != sorted(cuts) or cuts[-1] != n or cuts[0] < 0:
            raise UserError(
                f"the cuts of {layer.computation.tensors[t].name!r} must rise to {n} over {arrays.n_levels[t]} levels, got {cuts}"
            )
        for v, cut in enumerate(cuts):
            work.allocation.cut[t, v] = cut
            work.allocation.tile[t, v] = tile_elements(arrays, arrays.fraction, work.order, t, v, cut)
