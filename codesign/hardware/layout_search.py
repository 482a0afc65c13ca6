"""Layouts chosen with a mapping: those in which its generated machine takes the fewest cycles, tensor by tensor."""

from collections.abc import Iterator
from dataclasses import replace

from codesign.arch.architecture import Architecture
from codesign.core.errors import UserError
from codesign.hardware.cycles import NestTimes, best_timed_plan
from codesign.hardware.layout import LayoutKind
from codesign.hardware.line_uses import layout_of, line_uses
from codesign.hardware.memory_timing import PLAIN_MEMORY, MemoryTiming
from codesign.hardware.nest_plan import NestPlan
from codesign.hardware.parameters import PORTS, Parameters
from codesign.mapping.layout import TensorLayout
from codesign.mapping.mapping import Mapping
from codesign.workloads.computation import Computation

ROUNDS = 2
"""Times that every tensor's layout is looked at again."""

WORTH = 0.01
"""Share of the cycles that layouts must be able to save at most, before any is tried."""


def with_layouts(
    computation: Computation,
    architecture: Architecture,
    mapping: Mapping,
    p: Parameters,
    *,
    memory: MemoryTiming = PLAIN_MEMORY,
) -> Mapping:
    """The mapping with a layout of every tensor: no more cycles than with the best of the three kinds, by steps down.

    Raises:
        UserError: A mapping that the family does not run, with the rule.
    """
    plan, times = best_timed_plan(computation, architecture, mapping, p, memory=memory)
    start = tuple(layout_of(plan, port, plan.places[port]) for port in PORTS)
    best, fewest = replace(mapping, layouts=start), times.cycles
    for _ in range(ROUNDS if may_save(plan, times) >= WORTH * fewest else 0):
        before = best
        for number, port in enumerate(PORTS):
            for layout in candidates(computation, architecture, mapping, p, port):
                layouts = (*best.layouts[:number], layout, *best.layouts[number + 1 :])
                tried = replace(mapping, layouts=layouts)
                try:
                    cycles = best_timed_plan(computation, architecture, tried, p, memory=memory)[1].cycles
                except UserError:  # more loops around its runs than the machine walks
                    continue
                if cycles < fewest:
                    best, fewest = tried, cycles
        if best is before:
            break
    return best


def may_save(plan: NestPlan, times: NestTimes) -> int:
    """Cycles that other layouts can save at most: bank conflicts, and those in which the array is not at a command."""
    return sum(use.conflicts for use in line_uses(plan)) + times.cycles - times.array_busy


def candidates(
    computation: Computation, architecture: Architecture, mapping: Mapping, p: Parameters, port: str
) -> Iterator[TensorLayout]:
    """Layouts of one tensor: plain and blocked, each with every digit in turn as the innermost, and with the spread ones turned round."""
    seen = set()
    for kind in (LayoutKind.PLAIN, LayoutKind.BLOCKED):  # a grouped one has a blocked one's digits
        plan = NestPlan(computation, architecture, replace(mapping, layouts=()), p, kind)
        places = plan.places[port]
        spread = [x for x in places if x.spatial is not None]
        others = [x for x in places if x.spatial is None]
        orders = [places, (*others, *reversed(spread))]
        orders += [(*(x for x in places if x is not last), last) for last in places]
        for order in orders:
            layout = layout_of(plan, port, tuple(order))
            if layout not in seen:
                seen.add(layout)
                yield layout
