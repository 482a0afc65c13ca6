"""Score many mappings at once, on all cores or one."""

import numba
import numpy as np

from codesign.core.jit import njit, njit_parallel
from codesign.cost.arrays import Problem
from codesign.cost.kernel import Kernel, make_kernel, score
from codesign.mapping.nest import FloatArray, IntArray, Nest


@njit
def score_range(kernel: Kernel, nests: Nest, counts: IntArray, first: int, past: int, result: FloatArray) -> None:
    """Score nests ``first .. past - 1`` of a batch (see `score_batch`) on this thread."""
    for b in range(first, past):
        status, energy, cycles = score(kernel, Nest(nests.loops[b], nests.position[b]), counts[b])
        result[b, 0] = status
        result[b, 1] = energy
        result[b, 2] = cycles


@njit_parallel
def _score_parallel(kernels: list[Kernel], nests: Nest, counts: IntArray, result: FloatArray) -> None:
    parts = len(kernels)
    total = counts.shape[0]
    for part in numba.prange(parts):
        score_range(kernels[part], nests, counts, part * total // parts, (part + 1) * total // parts, result)


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
    result = np.empty((counts.shape[0], 3))
    parts = numba.get_num_threads() if threads is None else threads
    kernels = [make_kernel(problem, nests.loops.shape[1]) for _ in range(parts)]
    if parts == 1:
        score_range(kernels[0], nests, counts, 0, counts.shape[0], result)
    else:
        _score_parallel(numba.typed.List(kernels), nests, counts, result)
    return result
