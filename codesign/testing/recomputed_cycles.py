"""Every level's busy cycles made again from the accesses that a cost shows: nothing but rules L2 and L4."""

import math
from fractions import Fraction

from codesign.arch.architecture import Architecture, Ports
from codesign.cost.cost import Cost
from codesign.workloads.computation import Computation

_ROUNDING = Fraction(1, 10**11)


def busy_cycles(
    computation: Computation, architecture: Architecture, cost: Cost, on_chip: frozenset[str] = frozenset()
) -> dict[str, Fraction]:
    """Cycles in which the busiest port of one instance is busy, by level, not rounded.

    Args:
        computation: What was mapped.
        architecture: On what.
        cost: With its accesses.
        on_chip: Tensors that do not cross the outermost port (rule E5).
    """
    found = {}
    for v, (level, counted) in enumerate(zip(architecture.levels, cost.levels, strict=True)):
        read = written = Fraction(0)
        for traffic in counted.tensors:
            tensor = computation.tensor(traffic.tensor)
            if v == 0 and tensor.name in on_chip:
                continue
            bits = level.element_bits(tensor.bits if v == 0 else tensor.partial_bits)
            words = Fraction(bits, level.word_bits * counted.instances)
            read += words * traffic.reads
            written += words * (traffic.fills + traffic.updates)
        sides = zip((read, written), level.words_per_cycle, strict=True)
        busy = [words / Fraction(rate) for words, rate in sides if rate is not None]
        found[level.name] = sum(busy, Fraction(0)) if level.ports is Ports.SHARED else max(busy, default=Fraction(0))
    return found


def is_rounded_up(cycles: float, exact: Fraction) -> bool:
    """Whether whole cycles are these, rounded up; sums in double precision may miss a whole number."""
    return cycles in {math.ceil(exact * (1 - _ROUNDING)), math.ceil(exact), math.ceil(exact * (1 + _ROUNDING))}
