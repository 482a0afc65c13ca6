"""A mapping's plan with what it was derived from: DRAM and meshes ask which words move when, and from where."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from codesign.arch.architecture import Architecture
from codesign.cost.arrays import Reuse, encode_problem
from codesign.cost.columns import STEP_SIZE
from codesign.cost.kernel import score
from codesign.cost.packed import VALID, Kernel, make_kernel
from codesign.mapping.mapping import Mapping
from codesign.mapping.nest import DIM, FACTOR, KIND, LEVEL, SPATIAL_X, SPATIAL_Y, TEMPORAL, IntArray, Nest, encode_nest
from codesign.timing.derive import RETAIN, Machine, derive, moved_words
from codesign.timing.event_plan import Plan
from codesign.workloads.computation import Computation


@dataclass(frozen=True)
class MappedPlan:
    """A plan and its mapping.

    Args:
        computation: The operator.
        architecture: The hardware.
        kernel: After `score`.
        nest: The mapping.
        machine: Of the timing table.
        plan: What the engine runs.
        role: What each process of the plan is (`codesign.timing.derive.derive`).
    """

    computation: Computation
    architecture: Architecture
    kernel: Kernel
    nest: Nest
    machine: Machine
    plan: Plan
    role: IntArray

    @classmethod
    def of(
        cls, computation: Computation, architecture: Architecture, mapping: Mapping, machine: Machine, reuse: Reuse
    ) -> "MappedPlan":
        """The plan of a mapping that is valid."""
        nest = encode_nest(computation, architecture, mapping)
        count = nest.loops.shape[0]
        kernel = make_kernel(encode_problem(computation, architecture, reuse), count)
        status, _, _ = score(kernel, nest, count)
        assert status == VALID
        return cls(computation, architecture, kernel, nest, machine, *derive(kernel, nest, count, machine))

    @cached_property
    def shares(self) -> tuple[bool, ...]:
        """By level whether its fan-out sends equal words once."""
        return tuple(level.fanout.shares for level in self.architecture.levels)

    @cached_property
    def loops(self) -> dict[int, int]:
        """The loop of the nest behind each loop of the plan; loop 0 of the plan is its phase."""
        temporal = [i for i, loop in enumerate(self.nest.loops) if loop[KIND] == TEMPORAL]
        return {1 + j: i for j, i in enumerate(temporal[: self.plan.factors.shape[1] - 1])}

    def keeps_tiles(self, v: int) -> bool:
        """Whether tiles of a level that did not change stay (`codesign.timing.table.LevelTiming.retain`)."""
        return bool(self.machine.level_int[v, RETAIN] == 1)

    def moved(self, v: int, t: int) -> tuple[IntArray, IntArray]:
        """By loop of the nest the words that its advance brings into level v, and how far the tile has moved (rules R1-R4).

        Both are 0 for loops inside the tile.
        """
        count, axes = len(self.nest.loops), self.kernel.coef.shape[1]
        words, shift = np.zeros(count, np.int64), np.zeros((count, axes), np.int64)
        moved_words(self.kernel, self.nest, v, t, words, shift)
        return words, shift

    def travel(self, t: int, loop: int) -> IntArray:
        """How far one iteration of a loop of the nest moves the tile of tensor t, by axis."""
        step: IntArray = self.kernel.coef[t, :, self.nest.loops[loop, DIM]] * self.kernel.outside[loop, STEP_SIZE]
        return step

    def child_offsets(self, t: int, outer: int, v: int) -> IntArray:
        """``C x A`` offsets of the different tiles that instances of level v below one of `outer` hold (rules S1-S4)."""
        axes = self.kernel.coef.shape[1]
        found = np.zeros((1, axes), np.int64)
        for m in range(outer, v):
            here = np.zeros((1, axes), np.int64)
            for i, loop in enumerate(self.nest.loops):
                if loop[KIND] in (SPATIAL_X, SPATIAL_Y) and loop[LEVEL] == m:
                    steps = np.arange(loop[FACTOR], dtype=np.int64)[:, None] * self.travel(t, i)
                    here = (here[:, None, :] + steps[None]).reshape(-1, axes)
            if self.shares[m]:
                _, first = np.unique(here, axis=0, return_index=True)
                here = here[np.sort(first)]
            found = (found[:, None, :] + here[None]).reshape(-1, axes)
        return found
