"""The clock of searches: it stands still while kernels are compiled.

Compiling happens once on a machine, so what a search reports, and what it is allowed, is time without it.
"""

import time

from codesign.core import jit


def wall_seconds() -> float:
    """`time.perf_counter` without the seconds that this process has spent on compiling."""
    return time.perf_counter() - jit.compiling_seconds()


def cpu_seconds() -> float:
    """`time.process_time` without the CPU seconds that this process has spent on compiling."""
    return time.process_time() - jit.compiling_cpu_seconds()
