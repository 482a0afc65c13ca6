"""One mapping or program on its generated machine, beside what it should give."""

import math
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from codesign.arch.architecture import Architecture
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Infeasible, evaluate
from codesign.hardware.agreement import Accesses, Difference, accesses_of, accesses_of_cost, differences
from codesign.hardware.analytical import array_least, core_least, least_cycles, side_of_machine
from codesign.hardware.bench import Run
from codesign.hardware.core_blocks import by_blocks
from codesign.hardware.core_plan import CorePlan
from codesign.hardware.cycles import best_timed_plan, queue_cycles
from codesign.hardware.image import Image
from codesign.hardware.memory_timing import PLAIN_MEMORY, MemoryTiming
from codesign.hardware.nest_image import nest_image
from codesign.hardware.parameters import Parameters
from codesign.hardware.port_counts import counts_of_cost, counts_of_program
from codesign.hardware.queue_image import core_image
from codesign.mapping.mapping import Mapping
from codesign.tensorization.execute import affine_einsum
from codesign.tensorization.intrinsic_core import Core
from codesign.tensorization.program import Program, Transfer
from codesign.workloads.computation import Computation

Array = npt.NDArray[np.int64]


class Simulator(Protocol):
    """Runs the image of a job on a machine and returns what came out."""

    def __call__(self, image: Image, memory: bytes, /) -> Run:
        """The run of one image on a memory."""


@dataclass(frozen=True)
class Job:
    """An image and what should come of it.

    Args:
        computation: What it computes.
        image: Registers, streams, layouts.
        predicted_cycles: By the pipeline depths of the machine (K1 to K6).
        analytic_cycles: By the cost model with the machine's ports (K7); no run takes fewer.
        counted_cycles: The same by the counts of words alone, without what steps and tiles need of the array.
        expected: The cost model's accesses under reuse rule `whole`; of DRAM alone, by the program's own transfers, where a program pads.
    """

    computation: Computation
    image: Image
    predicted_cycles: int
    analytic_cycles: float
    counted_cycles: float
    expected: Accesses


@dataclass(frozen=True)
class Verdict:
    """A run beside its job.

    Args:
        run: What the machine did.
        output: The result as it lies in DRAM.
        wrong: The first element that differs: (position, DRAM address, got, wanted), or None.
        wrong_cycle: The cycle in which that element was last written, 0 where it never was.
        wrong_elements: How many differ.
        differences: Accesses counted differently from the cost model; those of DRAM among them.
        cycles_error: Of the predicted cycles, as a share of the simulated ones.
    """

    run: Run
    output: Array
    wrong: tuple[tuple[int, ...], int, int, int] | None
    wrong_elements: int
    differences: tuple[Difference, ...]
    cycles_error: float
    wrong_cycle: int = 0

    @property
    def dram_differences(self) -> tuple[Difference, ...]:
        """Those of words that crossed the DRAM port."""
        return tuple(d for d in self.differences if d.memory == "DRAM")


def nest_job(
    computation: Computation,
    architecture: Architecture,
    mapping: Mapping,
    p: Parameters,
    registers: MappingABC[str, tuple[int, int]],
    *,
    memory: MemoryTiming = PLAIN_MEMORY,
) -> Job:
    """A mapping on a machine of loop nests, with the layout that suits it beside that memory.

    Raises:
        UserError: A mapping that the family does not run, with the rule.
    """
    plan, times = best_timed_plan(computation, architecture, mapping, p, memory=memory)
    cost = evaluate(computation, architecture, mapping, reuse=Reuse.WHOLE)
    assert not isinstance(cost, Infeasible)
    counts, side = counts_of_cost(cost, computation), side_of_machine(p, memory)
    analytic, counted = (least_cycles(counts, computation.output.name, p, side, a) for a in (array_least(plan), None))
    return Job(computation, nest_image(plan, registers), times.cycles, analytic, counted, accesses_of_cost(cost))


def core_job(
    program: Program,
    mapping: Mapping,
    core: Core,
    p: Parameters,
    registers: MappingABC[str, tuple[int, int]],
    *,
    memory: MemoryTiming = PLAIN_MEMORY,
) -> Job:
    """A program on a machine of instruction queues."""
    made = core_image(CorePlan(program, core, p), registers)
    padded, computation = program.schedule.padded, program.schedule.choice.computation
    cost = evaluate(padded, core.scored, mapping, reuse=Reuse.WHOLE)
    assert not isinstance(cost, Infeasible)
    if padded.sizes == computation.sizes:
        counts = counts_of_cost(cost, computation)
        expected = by_blocks(core, program.schedule, accesses_of_cost(cost))
    else:
        counts, expected = counts_of_program(made), program_traffic(program)
    output, side = computation.output.name, side_of_machine(p, memory)
    analytic, counted = (least_cycles(counts, output, p, side, a) for a in (core_least(made), None))
    return Job(computation, made.image, queue_cycles(made, memory=memory), analytic, counted, expected)


def program_traffic(program: Program) -> Accesses:
    """Elements that a program's loads and stores move, by tensor.

    It stands in for the cost model's counts where a program pads: the model counts calls of full size (Q1) and scales words (Q4).
    """
    tensor_of = {b.name: b.tensor for b in program.buffers}
    found = {("DRAM", t.name): (0, 0, 0) for t in program.schedule.choice.computation.tensors}
    for i in program.instructions(whole_tiles=True):
        if isinstance(i, Transfer):
            key, words = ("DRAM", tensor_of[i.buffer]), math.prod(i.shape)
            reads, _, updates = found[key]
            found[key] = (reads + words, 0, updates) if i.op == "load" else (reads, 0, updates + words)
    return found


def wanted_result(job: Job, values: MappingABC[str, Array]) -> Array:
    """The computation by `einsum`, wrapped to the width in which DRAM holds it."""
    exact = affine_einsum(job.computation, values)
    return exact.astype(f"int{8 * job.image.layouts['O'].element_bytes}").astype(np.int64)


def execute(job: Job, values: MappingABC[str, Array], simulator: Simulator) -> Verdict:
    """Run a job and compare."""
    image = job.image
    run = simulator(image, image.memory(values))
    layout = image.layouts["O"]
    output, wanted = layout.unpack(run.memory), wanted_result(job, values)
    bad = np.argwhere(output != wanted)
    wrong, cycle = None, 0
    if len(bad):
        at = tuple(int(i) for i in bad[0])
        address = layout.address(at)
        wrong, cycle = (at, address, int(output[at]), int(wanted[at])), int(run.written_cycle[address])
    found = {key: n for key, n in accesses_of(image, run).items() if key in job.expected}
    return Verdict(
        run,
        output,
        wrong,
        len(bad),
        differences(found, job.expected),
        job.predicted_cycles / run.cycles - 1,
        cycle,
    )


def random_values(computation: Computation, rng: np.random.Generator) -> dict[str, Array]:
    """Operands of 8 bits: uniform, or only the ends of the range."""
    found = {}
    for tensor in computation.inputs:
        shape = tensor.shape(computation.sizes)
        ends = rng.random() < 0.25
        found[tensor.name] = rng.choice([-128, 127], shape) if ends else rng.integers(-128, 128, shape)
    return found
