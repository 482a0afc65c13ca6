"""An accelerator that performs one intrinsic per call, and the mapping that a schedule becomes on it.

DRAM, a DMA engine that moves bursts, one scratchpad, an array of PEs with a multiplier and a local memory each. A host issues
transfers and calls. Formulas Q1-Q9 of `codesign.tensorization.program_cost`.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property

from codesign.arch.architecture import Architecture
from codesign.arch.dram import DramType
from codesign.core.checks import check_numbers
from codesign.core.errors import UserError, unknown_name
from codesign.mapping.mapping import Axis, Mapping, Node, Spatial, Storage, Temporal
from codesign.tensorization.choice import TensorizeChoice
from codesign.tensorization.intrinsics import Intrinsic
from codesign.tensorization.schedule import Loop, Schedule

DRAM, SCRATCHPAD, LOCAL = 0, 1, 2
"""Positions of the three levels."""

_ALL_ROLES = frozenset({"input", "weight", "output"})


@dataclass(frozen=True)
class Dma:
    """The engine between DRAM and scratchpad.

    Args:
        bus_bytes: Bytes a beat moves, one beat a cycle.
        burst_bytes: Bytes of the longest burst.
        overhead_cycles: Cycles of each burst before its first beat.
        dram: The memory behind it, for the energy of short bursts.
    """

    bus_bytes: int
    burst_bytes: int
    overhead_cycles: float
    dram: DramType

    def __post_init__(self) -> None:
        if self.bus_bytes < 1 or self.burst_bytes < self.bus_bytes:
            raise UserError(
                f"a burst must hold at least one beat, got bursts of {self.burst_bytes} and a bus of {self.bus_bytes} bytes"
            )


@dataclass(frozen=True)
class Overheads:
    """Cycles that are neither arithmetic nor data. Assumed values for an in-order host; every one is an argument.

    Args:
        call: The array stands still at the start of a call: decoding, addresses.
        array: From the first operand to the last result, once for every sub-workload on the scratchpad.
        host_loop: One iteration of a host loop: count, compare, branch.
        host_index: Recovering one more index in an iteration of a fused loop (a division).
        host_call: The host issues one call.
        host_transfer: The host writes one DMA descriptor.
    """

    call: int = 2
    array: int = 0
    host_loop: int = 2
    host_index: int = 4
    host_call: int = 1
    host_transfer: int = 8

    def __post_init__(self) -> None:
        check_numbers(self, "overheads")


@dataclass(frozen=True)
class Core:
    """An accelerator for one intrinsic.

    Args:
        architecture: Three levels: DRAM, scratchpad (its fan-out is the array), local memory of a PE. Energies filled in.
        intrinsic: What one call computes.
        unrolled: (index of the intrinsic, PEs, axis of the array) for what runs side by side; the rest of the
            intrinsic's iterations follow each other, one a cycle.
        stationary: Operand of the intrinsic that the local memories keep; the others pass by.
        dma: Moves data between DRAM and scratchpad.
        overheads: Of calls and of the host.
    """

    architecture: Architecture
    intrinsic: Intrinsic
    unrolled: tuple[tuple[str, int, Axis], ...]
    stationary: str
    dma: Dma
    overheads: Overheads = field(default_factory=Overheads)

    def __post_init__(self) -> None:
        where = f"core {self.architecture.name!r}"
        if len(self.architecture.levels) != 3:
            raise UserError(f"a core has DRAM, scratchpad and local memory, got {len(self.architecture.levels)} levels")
        operation = self.intrinsic.computation
        names = [t.name for t in operation.tensors]
        if self.stationary not in names:
            raise unknown_name("operand", self.stationary, names, where=where)
        for index, size in operation.sizes.items():
            if size % self._side_by_side(index):
                raise UserError(
                    f"{self._side_by_side(index)} PEs do not divide the intrinsic's {index} = {size}", where=where
                )
        for index, _, _ in self.unrolled:
            if index not in operation.sizes:
                raise unknown_name("index", index, operation.sizes, where=where)
        fanout = self.architecture.levels[SCRATCHPAD].fanout
        for axis, limit in (("x", fanout.x), ("y", fanout.y)):
            used = math.prod(n for _, n, a in self.unrolled if a == axis)
            if used > limit:
                raise UserError(f"the intrinsic needs {used} PEs along {axis}, the array has {limit}", where=where)

    def _side_by_side(self, index: str) -> int:
        return math.prod(n for i, n, _ in self.unrolled if i == index)

    @cached_property
    def follow(self) -> dict[str, int]:
        """Iterations of each index that follow each other in a call."""
        return {i: n // self._side_by_side(i) for i, n in self.intrinsic.computation.sizes.items()}

    @property
    def call_cycles(self) -> int:
        """Cycles in which a call computes."""
        return math.prod(self.follow.values())

    @cached_property
    def scored(self) -> Architecture:
        """The architecture as the cost model sees it: DRAM's time is modelled here (Q5), and the mapping says what is kept."""
        dram, _, local = self.architecture.levels
        open_dram = self.architecture.with_level(
            dram.name, read_bandwidth_words_per_cycle=None, write_bandwidth_words_per_cycle=None
        )
        return open_dram.with_level(local.name, keep=_ALL_ROLES)

    def stationary_tensor(self, choice: TensorizeChoice) -> str | None:
        """The tensor of the computation that the local memories keep; None if the choice leaves that operand out."""
        for operand in choice.match.operands:
            if operand.intrinsic_tensor == self.stationary:
                return operand.tensor
        return None

    def tail(self, choice: TensorizeChoice) -> tuple[list[Spatial], list[Temporal]]:
        """The loops of one call: side by side, then one after the other."""
        level = self.architecture.levels[SCRATCHPAD].name
        dims = choice.index_map
        spatial = [Spatial(dims[i], n, axis, level) for i, n, axis in self.unrolled if i in dims]
        return spatial, [Temporal(dims[i], n) for i, n in self.follow.items() if i in dims]

    def local_start(self, choice: TensorizeChoice, inner: tuple[Loop, ...]) -> int:
        """Number of inner loops outside the local memory's part: as few as its capacity allows (Q3)."""
        name = self.stationary_tensor(choice)
        if name is None:
            return len(inner)
        tensor = choice.computation.tensor(name)
        level = self.architecture.levels[LOCAL]
        element_bits = level.element_bits(tensor.partial_bits)
        sizes = dict.fromkeys(choice.computation.dims, 1)
        for loop in self.tail(choice)[1]:
            sizes[loop.dim] *= loop.factor
        start = len(inner)
        while start > 0 and level.capacity_bits is not None:
            dim, count = inner[start - 1]
            sizes[dim] *= count
            if math.prod(tensor.shape(sizes)) * element_bits > level.capacity_bits:
                break
            start -= 1
        return start

    def mapping(self, schedule: Schedule) -> Mapping:
        """The loop nest of `schedule.padded` on `scored`: the schedule's loops around those of one call."""
        choice = schedule.choice
        dram, scratchpad, local = (level.name for level in self.architecture.levels)
        around = schedule.to_mapping(dram, scratchpad)
        outside = len(choice.computation.tensors) * 2 + sum(n > 1 for _, n in schedule.host)
        nodes: list[Node] = list(around.nodes[:outside])
        start = self.local_start(choice, schedule.inner)
        nodes.extend(Temporal(dim, count) for dim, count in schedule.inner[:start])
        spatial, temporal = self.tail(choice)
        nodes.extend(spatial)
        kept = self.stationary_tensor(choice)
        if kept is not None:
            nodes.append(Storage(kept, local))
        nodes.extend(Temporal(dim, count) for dim, count in schedule.inner[start:])
        nodes.extend(temporal)
        return Mapping(tuple(nodes))
