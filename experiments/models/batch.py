"""Score many mappings at once, on all cores or one."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from codesign.core.jit import njit
from codesign.cost.arrays import Problem
from codesign.cost.kernel import score
from codesign.cost.packed import Kernel, make_kernel
from codesign.mapping.nest import FloatArray, IntArray, Nest


@njit
def score_range(kernel: Kernel, nests: Nest, counts: IntArray, first: int, past: int, result: FloatArray) -> None:
    """Score nests ``first .. past - 1`` of a batch (see `score_batch`) on this thread."""
    for b in range(first, past):
        status, energy, cycles = score(kernel, Nest(nests.loops[b], nests.position[b]), counts[b])
        result[b, 0] = status
        result[b, 1] = energy
        result[b, 2] = cycles


def stack_nests(nests: list[tuple[Nest, int]]) -> tuple[Nest, IntArray]:
    """Nests of one problem with their numbers of loops as one batch: every array gains a leading axis ``B``."""
    width = max(1, max(count for _, count in nests))
    loops = np.zeros((len(nests), width, 4), np.int64)
    for row, (nest, count) in zip(loops, nests, strict=True):
        row[:count] = nest.loops[:count]
    return Nest(loops, np.stack([nest.position for nest, _ in nests])), np.array([c for _, c in nests], np.int64)


def score_batch(problem: Problem, nests: Nest, counts: IntArray, threads: int | None = None) -> FloatArray:
    """Score a batch of mappings.

    Args:
        problem: Computation and architecture.
        nests: Arrays of `Nest` with a leading batch axis ``B`` (see `stack_nests`).
        counts: ``B`` numbers of loops.
        threads: Threads to use; default all.

    Returns:
        ``B x 3``: status, energy_pj, latency_cycles, as `codesign.cost.kernel.score` gives them.
    """
    total = counts.shape[0]
    result = np.empty((total, 3))
    parts = threads or os.cpu_count() or 1
    bounds = [part * total // parts for part in range(parts + 1)]

    def score_part(part: int) -> None:
        kernel = make_kernel(problem, nests.loops.shape[1])
        score_range(kernel, nests, counts, bounds[part], bounds[part + 1], result)

    if parts == 1:
        score_part(0)
        return result
    with ThreadPoolExecutor(parts) as pool:
        list(pool.map(score_part, range(parts)))
    return result
