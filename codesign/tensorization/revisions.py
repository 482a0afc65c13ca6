"""Candidates in normal form and the revise choices between them, compiled.

A candidate is one row of integers: the tensorize choice, how many of the innermost host loops are fused, for every dimension the
number of calls that work on one filling of the scratchpad, and two orders of the dimensions, of host and of inner loops, outermost
first. HASCO (ISCA 2021), Sec. VI-B: a revision changes one primitive's factor, the order, the fusion or the choice.
"""

import numpy as np

from codesign.core.jit import njit
from codesign.core.rng import RandomState, below, uniform
from codesign.mapping.nest import DIM, FACTOR, FloatArray, IntArray
from codesign.tensorization.encoding import MAX_CHOICES, ProgramArrays
from codesign.tensorization.intrinsic_core import SCRATCHPAD
from codesign.tensorization.scoring import FITS, JOINED, TOO_LARGE, part_bits, score_program

MAX_DIMS = 8
"""Dimensions of a computation that revise choices are numbered for."""

CHOICE, FUSED, FIRST_CALLS = 0, 1, 2

DOUBLE, HALVE, UP, DOWN, HOST_INNERMOST, HOST_OUTERMOST, INNER_INNERMOST, KINDS = 0, 1, 2, 3, 4, 5, 6, 7
"""What a revision may do to one dimension: calls on the scratchpad doubled, halved, next more, next fewer; its place in an order."""

FUSE_MORE, FUSE_LESS, FIRST_CHOICE = KINDS * MAX_DIMS, KINDS * MAX_DIMS + 1, KINDS * MAX_DIMS + 2
REVISIONS = FIRST_CHOICE + MAX_CHOICES
"""Number of revise choices: `KINDS` for every dimension, fusing one loop more or less, every tensorize choice."""


def candidate_width(dims: int) -> int:
    """Length of a candidate's row."""
    return FIRST_CALLS + 3 * dims


@njit
def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


@njit
def total_calls(problem: ProgramArrays, choice: int, d: int) -> int:
    """Calls along a dimension: its bound over its extent in one call, rounded up."""
    return _ceil_div(problem.bounds[d], problem.tile[choice, d])


@njit
def _even(total: int, calls: int) -> int:
    """The fewest calls at a time that need no more host iterations than `calls`: no padding for nothing."""
    return _ceil_div(total, _ceil_div(total, calls))


@njit
def fits(problem: ProgramArrays, candidate: IntArray) -> bool:
    """Whether a candidate's parts fit the scratchpad (Q6)."""
    n_dims = problem.bounds.shape[0]
    choice = candidate[CHOICE]
    host = False
    for d in range(n_dims):
        calls = candidate[FIRST_CALLS + d]
        problem.part[d] = problem.tile[choice, d] * calls
        host = host or calls < total_calls(problem, choice, d)
    return part_bits(problem, problem.part) * (2 if host else 1) <= problem.kernel.level_int[SCRATCHPAD, 0]  # type: ignore[no-any-return]


@njit
def unfold(problem: ProgramArrays, candidate: IntArray, loops: IntArray) -> tuple[int, int]:
    """Write a candidate's loops (``N x 3``, see `score_program`); returns how many there are, and how many on the host."""
    n_dims = problem.bounds.shape[0]
    choice = candidate[CHOICE]
    n = 0
    for at in range(n_dims):
        d = candidate[FIRST_CALLS + n_dims + at]
        trips = _ceil_div(total_calls(problem, choice, d), candidate[FIRST_CALLS + d])
        if trips > 1:
            loops[n, DIM] = d
            loops[n, FACTOR] = trips
            loops[n, JOINED] = 0
            n += 1
    host = n
    for i in range(max(1, host - candidate[FUSED] + 1), host):
        loops[i, JOINED] = 1
    for at in range(n_dims):
        d = candidate[FIRST_CALLS + 2 * n_dims + at]
        if candidate[FIRST_CALLS + d] > 1:
            loops[n, DIM] = d
            loops[n, FACTOR] = candidate[FIRST_CALLS + d]
            loops[n, JOINED] = 0
            n += 1
    return n, host


@njit
def score_candidate(problem: ProgramArrays, candidate: IntArray, loops: IntArray, result: FloatArray) -> int:
    """Score one candidate; see `codesign.tensorization.scoring.score_program`."""
    count, host = unfold(problem, candidate, loops)
    return score_program(problem, candidate[CHOICE], loops, count, host, result)


@njit
def _host_loops(problem: ProgramArrays, candidate: IntArray) -> int:
    n = 0
    for d in range(problem.bounds.shape[0]):
        n += candidate[FIRST_CALLS + d] < total_calls(problem, candidate[CHOICE], d)
    return n


@njit
def _moved(problem: ProgramArrays, candidate: IntArray, first: int, d: int, host: bool, to_end: bool) -> bool:
    """Move a dimension to one end of an order; whether the loops' order changes by it."""
    n_dims = problem.bounds.shape[0]
    place = 0
    while candidate[first + place] != d:
        place += 1
    step = 1 if to_end else -1
    past = n_dims if to_end else -1
    passed = False
    for at in range(place + step, past, step):
        other = candidate[first + at]
        calls = candidate[FIRST_CALLS + other]
        passed = passed or (calls < total_calls(problem, candidate[CHOICE], other) if host else calls > 1)
        candidate[first + at - step] = other
    candidate[first + past - step] = d
    return passed


@njit
def _recut(total: int, calls: int, kind: int) -> int:
    """The number of calls at a time after a revision of the split: always one that pads no more than it must."""
    trips = _ceil_div(total, calls)
    if kind == UP:
        return _ceil_div(total, max(1, trips - 1))
    if kind == DOWN:
        return _ceil_div(total, _ceil_div(total, max(1, calls - 1)))
    if kind == DOUBLE:
        return max(_even(total, min(total, 2 * calls)), _ceil_div(total, max(1, trips - 1)))
    return _even(total, max(1, calls // 2))


@njit
def revise(problem: ProgramArrays, candidate: IntArray, revision: int) -> bool:
    """Apply a revise choice in place; returns whether it exists here and changes the program. If not, the row is spoilt."""
    n_dims = problem.bounds.shape[0]
    choice = candidate[CHOICE]
    if revision >= FIRST_CHOICE:
        target = revision - FIRST_CHOICE
        if target >= problem.tile.shape[0] or target == choice:
            return False
        for d in range(n_dims):
            covered = candidate[FIRST_CALLS + d] * problem.tile[choice, d]
            total = total_calls(problem, target, d)
            calls = min(total, _ceil_div(covered, problem.tile[target, d]))
            candidate[FIRST_CALLS + d] = _even(total, calls)
        candidate[CHOICE] = target
        return True
    if revision >= FUSE_MORE:
        host = _host_loops(problem, candidate)
        fused = max(1, min(candidate[FUSED], host))
        candidate[FUSED] = fused + (1 if revision == FUSE_MORE else -1)
        return 1 <= candidate[FUSED] <= host  # type: ignore[no-any-return]
    d, kind = revision // KINDS, revision % KINDS
    if d >= n_dims:
        return False
    total, calls = total_calls(problem, choice, d), candidate[FIRST_CALLS + d]
    if kind in (HOST_INNERMOST, HOST_OUTERMOST):
        here = calls < total
        return _moved(problem, candidate, FIRST_CALLS + n_dims, d, True, kind == HOST_INNERMOST) and here
    if kind == INNER_INNERMOST:
        return _moved(problem, candidate, FIRST_CALLS + 2 * n_dims, d, False, True) and calls > 1
    candidate[FIRST_CALLS + d] = _recut(total, calls, kind)
    if kind in (DOUBLE, HALVE) and candidate[FIRST_CALLS + d] == _recut(total, calls, UP if kind == DOUBLE else DOWN):
        return False  # the same as the next cut; one revision is enough
    return candidate[FIRST_CALLS + d] != calls  # type: ignore[no-any-return]


@njit
def mask_revisions(problem: ProgramArrays, candidate: IntArray, room: IntArray, mask: IntArray) -> int:
    """Which revisions exist and leave a candidate that fits: 1 or 0 in `mask` (``R``); returns how many. `room` is a row."""
    n = 0
    for revision in range(mask.shape[0]):
        room[:] = candidate
        ok = revise(problem, room, revision)
        if ok and (revision >= FIRST_CHOICE or (revision < FUSE_MORE and revision % KINDS <= DOWN)):
            ok = fits(problem, room)
        mask[revision] = 1 if ok else 0
        n += mask[revision]
    return n


@njit
def _shuffle(order: IntArray, random: RandomState) -> None:
    for i in range(order.shape[0] - 1, 0, -1):
        j = below(random, i + 1)
        order[i], order[j] = order[j], order[i]


@njit
def draw(problem: ProgramArrays, candidate: IntArray, random: RandomState) -> int:
    """A random candidate that fits: a choice, log-uniform splits, orders, fusion; too large parts are halved at random.

    Returns:
        `FITS`, or `TOO_LARGE` when not even single calls of the choice drawn fit.
    """
    n_dims = problem.bounds.shape[0]
    choice = below(random, problem.tile.shape[0])
    candidate[CHOICE] = choice
    for d in range(n_dims):
        total = total_calls(problem, choice, d)
        calls = int(np.exp(uniform(random) * np.log(total + 0.999)))
        candidate[FIRST_CALLS + d] = _even(total, max(1, min(total, calls)))
        candidate[FIRST_CALLS + n_dims + d] = d
        candidate[FIRST_CALLS + 2 * n_dims + d] = d
    _shuffle(candidate[FIRST_CALLS + n_dims : FIRST_CALLS + 2 * n_dims], random)
    _shuffle(candidate[FIRST_CALLS + 2 * n_dims : FIRST_CALLS + 3 * n_dims], random)
    while not fits(problem, candidate):
        large = 0
        for d in range(n_dims):
            large += candidate[FIRST_CALLS + d] > 1
        if large == 0:
            return TOO_LARGE
        pick = below(random, large)
        for d in range(n_dims):
            if candidate[FIRST_CALLS + d] > 1:
                if pick == 0:
                    total = total_calls(problem, choice, d)
                    candidate[FIRST_CALLS + d] = _even(total, candidate[FIRST_CALLS + d] // 2)
                pick -= 1
    candidate[FUSED] = 1 + below(random, max(1, _host_loops(problem, candidate)))
    return FITS
