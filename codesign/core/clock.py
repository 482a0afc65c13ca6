"""The clock of searches: it stands still while kernels are compiled.

Compiling happens once on a machine, so what a search reports, and what it is allowed, is time without it.
"""

import time

from codesign.core import jit
from codesign.core.goals import Budget


def wall_seconds() -> float:
    """`time.perf_counter` without the seconds that this process has spent on compiling."""
    return time.perf_counter() - jit.compiling_seconds()


def cpu_seconds() -> float:
    """`time.process_time` without the CPU seconds that this process has spent on compiling."""
    return time.process_time() - jit.compiling_cpu_seconds()


def is_spent(budget: Budget, started: float, evaluated: int = 0) -> bool:
    """Whether a search that began at that wall time and has scored so many is to end."""
    if budget.evaluations is not None and evaluated >= budget.evaluations:
        return True
    return wall_seconds() >= budget.deadline(started)
