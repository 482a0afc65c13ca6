"""The program that a search on a core found, as a `Program` of its scratchpad: instructions, text, Gemmini's instructions."""

from collections.abc import Sequence

import numpy as np

from codesign.cost.arrays import Reuse
from codesign.cost.cost import Infeasible
from codesign.tensorization.encoding import SoftwareProblem
from codesign.tensorization.intrinsic_core import SCRATCHPAD
from codesign.tensorization.program import Program, generate_program
from codesign.tensorization.program_cost import CallProgram
from codesign.tensorization.revisions import CHOICE, unfold
from codesign.tensorization.schedule import Schedule
from codesign.tensorization.scratchpad import scratchpad_of
from codesign.tensorization.search import SearchResult


def found_program(problem: SoftwareProblem, result: SearchResult) -> CallProgram:
    """The loops, the choice and the fused host loops of a candidate, as the program cost scores them."""
    rows = np.ones((problem.max_loops, 3), np.int64)
    count, host = unfold(problem.arrays, result.candidate, rows)
    return program_of_loops(problem, int(result.candidate[CHOICE]), rows[:count].tolist(), host)


def program_of_loops(problem: SoftwareProblem, choice: int, rows: Sequence[Sequence[int]], host: int) -> CallProgram:
    """The program of a tensorize choice by number with these loops.

    Args:
        problem: The computation on the core.
        choice: Number of the choice in the problem's list.
        rows: (dimension number, iterations, 1 if fused with the loop outside it), outermost first.
        host: How many of them run on the host.
    """
    loops = [(problem.computation.dims[dim], count) for dim, count, _ in rows]
    fused: list[int] = []
    for _, _, joined in rows[:host]:
        if joined:
            fused[-1] += 1
        else:
            fused.append(1)
    schedule = Schedule(problem.choices[choice], tuple(loops[:host]), tuple(loops[host:]))
    return CallProgram(problem.core, schedule, tuple(fused))


def program_on_core(found: CallProgram, *, reuse: Reuse = Reuse.RESIDENT) -> Program | Infeasible:
    """The instructions of a program on the scratchpad of its core.

    The host loops, fused or not, are those of the program; fusing changes when data are fetched ahead, not which. A part of every tensor
    lies in the scratchpad once: the second copies that the latency model overlaps (rule Q6) are not addressed.

    Args:
        found: What the search found.
        reuse: What of a sliding window stays on chip.

    Returns:
        The program, or what does not fit.

    Raises:
        UserError: Widths that bytes cannot address.
    """
    memory = scratchpad_of(found.core.architecture, found.core.architecture.levels[SCRATCHPAD].name)
    return generate_program(found.schedule, memory, reuse=reuse)
