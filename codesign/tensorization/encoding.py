"""A computation on a core as arrays: what compiled code needs to score any program of intrinsic calls for it.

Shapes use the project's letters: C choices, T tensors, D dimensions, N loops.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from codesign.core.errors import UserError
from codesign.cost.arrays import Reuse, encode_problem
from codesign.cost.packed import Kernel, make_kernel
from codesign.mapping.nest import SPATIAL_X, SPATIAL_Y, FloatArray, IntArray
from codesign.tensorization.choice import TensorizeChoice, choices
from codesign.tensorization.diagnosis import no_match_error
from codesign.tensorization.intrinsic_core import LOCAL, Core
from codesign.tensorization.program_cost import dma_pj_per_bit
from codesign.workloads.computation import Computation

MAX_CHOICES = 24
"""Choices a problem keeps, least padded work first; more are dropped."""

# entries of `ProgramArrays.constants`
CALL_CYCLES, CALL_OVERHEAD, ARRAY_OVERHEAD = 0, 1, 2
HOST_LOOP, HOST_INDEX, HOST_CALL, HOST_TRANSFER = 3, 4, 5, 6
BUS_BYTES, BURST_BYTES, BURST_OVERHEAD = 7, 8, 9
TRANSFER_PJ, ROW_PJ, ROW_BYTES, ATOM_BYTES, DMA_PJ = 10, 11, 12, 13, 14
INTRINSIC_MACS = 15


class ProgramArrays(NamedTuple):
    """A computation on a core.

    Attributes:
        kernel: The cost model's arrays, packed for the padded computation of whatever is being scored.
        bounds: ``D``.
        tile: ``C x D`` iterations of each dimension in one call.
        side: ``C x S x 3`` loops that run side by side in a call: dimension, factor, kind.
        n_side: ``C`` how many.
        follow: ``C x F x 2`` loops that follow each other in a call: dimension, factor.
        n_follow: ``C`` how many.
        stationary: ``C`` tensor the local memories keep, -1 if none.
        bits: ``T`` of an element in DRAM.
        constants: Of the core, see the names above.
        loops: ``N x 4`` room for the nest.
        position: ``3 x T`` room for the places of storage.
        part: ``D`` room for sizes.
    """

    kernel: Kernel
    bounds: IntArray
    tile: IntArray
    side: IntArray
    n_side: IntArray
    follow: IntArray
    n_follow: IntArray
    stationary: IntArray
    bits: IntArray
    constants: FloatArray
    loops: IntArray
    position: IntArray
    part: IntArray


@dataclass(frozen=True)
class SoftwareProblem:
    """Find the program of intrinsic calls that computes this on that core.

    Args:
        computation: What is computed.
        core: The accelerator.
        choices: The tensorize choices a program may take.
    """

    computation: Computation
    core: Core
    choices: tuple[TensorizeChoice, ...]

    @classmethod
    def of(cls, computation: Computation, core: Core, *, partial: bool = False) -> "SoftwareProblem":
        """The problem with all sound choices that padding with zeros keeps sound.

        Args:
            computation: What is computed.
            core: The accelerator.
            partial: Fall back on choices that leave indices of the intrinsic unused where no full one exists.

        Raises:
            UserError: There is none; the message says which condition the nearest miss failed.
        """
        found = [c for c in choices(computation, core.intrinsic) if not c.unmaskable]
        if not found and partial:
            found = [c for c in choices(computation, core.intrinsic, partial=True) if not c.unmaskable]
        if not found:
            raise no_match_error(computation, core.intrinsic)
        return cls(computation, core, tuple(found[:MAX_CHOICES]))

    def __post_init__(self) -> None:
        if not self.choices:
            raise UserError("a software problem needs at least one tensorize choice")

    @cached_property
    def arrays(self) -> ProgramArrays:
        """The arrays for compiled code; they hold scratch space, so one thread at a time may use them."""
        return self.fresh_arrays()

    @cached_property
    def tiles(self) -> list[list[int]]:
        """Iterations of each dimension in one call, for every choice."""
        return [[c.tile[d] for d in self.computation.dims] for c in self.choices]

    @property
    def max_loops(self) -> int:
        """Loops that programs scored with `arrays` may have: a host and an inner one for each dimension."""
        return 2 * len(self.computation.dims)

    def fresh_arrays(self, max_loops: int | None = None) -> ProgramArrays:
        """New arrays, with room for programs of up to `max_loops` loops (default: two a dimension)."""
        n_dims, n_choices = len(self.computation.dims), len(self.choices)
        dims = {d: at for at, d in enumerate(self.computation.dims)}
        names = [t.name for t in self.computation.tensors]
        tails = [self.core.tail(choice) for choice in self.choices]
        side = np.ones((n_choices, max(1, *(len(s) for s, _ in tails)), 3), np.int64)
        follow = np.ones((n_choices, max(1, *(len(f) for _, f in tails)), 2), np.int64)
        n_side, n_follow = np.zeros(n_choices, np.int64), np.zeros(n_choices, np.int64)
        for c, (spatial, temporal) in enumerate(tails):
            for loop in (s for s in spatial if s.factor > 1):
                kind = SPATIAL_X if loop.axis == "x" else SPATIAL_Y
                side[c, n_side[c]] = (dims[loop.dim], loop.factor, kind)
                n_side[c] += 1
            for row in (t for t in temporal if t.factor > 1):
                follow[c, n_follow[c]] = (dims[row.dim], row.factor)
                n_follow[c] += 1
        kept = [self.core.stationary_tensor(choice) for choice in self.choices]
        width = (self.max_loops if max_loops is None else max_loops) + side.shape[1] + follow.shape[1]
        problem = encode_problem(self.computation, self.core.scored, Reuse.RESIDENT)
        return ProgramArrays(
            kernel=make_kernel(problem, width),
            bounds=np.array(self.computation.bounds, np.int64),
            tile=np.array(self.tiles, np.int64),
            side=side,
            n_side=n_side,
            follow=follow,
            n_follow=n_follow,
            stationary=np.array([-1 if k is None else names.index(k) for k in kept], np.int64),
            bits=np.array([t.bits for t in self.computation.tensors], np.int64),
            constants=_constants(self.core),
            loops=np.ones((width, 4), np.int64),
            position=np.full((LOCAL + 1, len(names)), -1, np.int64),
            part=np.ones(n_dims, np.int64),
        )


def _constants(core: Core) -> FloatArray:
    """In the order of their names above."""
    o, dma, dram = core.overheads, core.dma, core.dma.dram
    return np.array(
        [
            *(core.call_cycles, o.call, o.array, o.host_loop, o.host_index, o.host_call, o.host_transfer),
            *(dma.bus_bytes, dma.burst_bytes, dma.overhead_cycles),
            *(dram.transfer_pj_per_bit, dram.row_pj, dram.row_bytes, dram.atom_bytes, dma_pj_per_bit(core)),
            core.intrinsic.computation.macs,
        ],
        np.float64,
    )
