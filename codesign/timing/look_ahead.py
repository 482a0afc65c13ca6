"""Positions in the step nest of a plan: their numbers and order, and the next one at which a LOAD runs."""

from codesign.core.jit import njit
from codesign.mapping.nest import IntArray
from codesign.timing.event_plan import Plan


@njit
def revisited(index: IntArray, mask: int) -> bool:
    """Whether one of the loops of a bit set is past its first iteration."""
    for loop in range(index.shape[0]):
        if (mask >> loop) & 1 == 1 and index[loop] > 0:
            return True
    return False


@njit
def compare(where: IntArray, a: int, b: int) -> int:
    """-1, 0 or 1 as position ``where[a]`` comes before, with or after ``where[b]``."""
    for loop in range(where.shape[1]):
        if where[a, loop] != where[b, loop]:
            return -1 if where[a, loop] < where[b, loop] else 1
    return 0


@njit
def step_of(factors: IntArray, phase_loop: int, where: IntArray, k: int) -> int:
    """Number of the step at position ``where[k]``."""
    n_phases, n_loops = factors.shape
    per_phase_total = 0
    mine = 0
    for p in range(n_phases):
        inner = 1
        for loop in range(phase_loop + 1, n_loops):
            inner *= factors[p, loop]
        if p < where[k, phase_loop]:
            mine += inner
        per_phase_total += inner
    inside = 0
    for loop in range(phase_loop + 1, n_loops):
        inside = inside * factors[where[k, phase_loop], loop] + where[k, loop]
    outside = 0
    for loop in range(phase_loop):
        outside = outside * factors[0, loop] + where[k, loop]
    return outside * per_phase_total + mine + inside


@njit
def advance(plan: Plan, where: IntArray, deepest: IntArray, k: int) -> tuple[int, int]:
    """Move position ``where[k]`` to the next one at which LOAD k runs.

    Returns:
        Tiles of its source that were passed, and the way in which the position is entered; 0 where there is none.
    """
    n_loops, j = plan.factors.shape[1], plan.source[k]
    position = where[k]
    passed = 0
    while True:
        phase = position[plan.phase_loop]
        # advances inside the deepest loop that matters change nothing for k, nor for the tile it reads
        loop = max(deepest[k, phase], plan.phase_loop)
        for inner in range(loop + 1, n_loops):
            position[inner] = 0
        while loop >= 0 and position[loop] + 1 >= plan.factors[phase, loop]:
            position[loop] = 0
            loop -= 1
        if loop < 0:
            return passed, 0
        position[loop] += 1
        for inner in range(loop + 1, n_loops):
            position[inner] = 0
        phase = position[plan.phase_loop]
        if j >= 0 and plan.active[j, phase, loop + 1] == 1:
            passed += plan.revisit[j] == 0 or revisited(position, plan.revisit[j])
        if plan.active[k, phase, loop + 1] == 1 and (plan.revisit[k] == 0 or revisited(position, plan.revisit[k])):
            return passed, loop + 1
