"""What an array waits for in closed form: cycles that no run of a plan falls below (rule E12).

A run is as long as the longest chain of operations in which each starts no earlier than the one before it ends. The analytical
latency is the longest of a few such chains: all steps of the array, or all transfers of one port. This module adds chains
that change sides: the array up to one step, then transfers of a port, then the array again. A loop nest repeats, so a chain
is written down once for each loop and counted as often as that loop advances. Every term is a chain that the event engine
keeps (E3 to E9), so the sum is a lower bound of its cycles; `tests/property/test_waits_bound.py` holds the two together.

The chains, summed over the advances of loops. With N advances of a loop, a step of c cycles, and n steps to a tile:

* One buffer: N times the stores of the old tile and the loads of the new one, one after another: none of them is
  issued before the step.
* In order: a port takes loads in step order. The load that changes most often is issued one tile ahead; what an outer
  advance brings in waits behind it. So of each such advance, what its loads and stores take on the port beyond ``m n
  c`` cycles is added, for chains that leave the array m = 0, 1 or 2 tiles before and return at the advance or a tile
  later.
* One port for both: where the array's step shares a port with these loads, as partial sums share the accumulator's,
  the step before the advance already waits for them.
* A slot of output: a store behind a long load, or behind the store of an outer level with one buffer, keeps the array
  from its second next tile.

Chains that could overlap are not added up; the best is taken. Where no wait is known, the bound is L3 with whole cycles,
first loads and last stores.

Shapes as in `codesign.timing.event_plan.Plan`. *Way* `1 + l` enters a step by an advance of loop l. A load with two buffers
is issued one tile of its own ahead, so its buffer is handed over when the tile before is taken up.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.mapping.nest import FloatArray, IntArray
from codesign.timing.event_plan import COMPUTE, LOAD, NOTHING, STORE, Plan

NEVER = -1e30
"""Of a chain that there is not."""


class Turns(NamedTuple):
    """How often the loops of a plan advance, and what the array does in between.

    Attributes:
        array: Index of the array's process.
        cycles: It holds the array, each step.
        factors: ``S``.
        advances: ``S``.
        innermost: ``K`` innermost loop whose advance makes a process run; -1 for none.
        rank: ``K`` 0, or of loads of old sums their number from the innermost level outwards, from 1.
        mask: ``Q`` loops of which one must be past its first iteration where the first q loads of old sums run; -1: always.
        wait: ``Q x S`` cycles from the array's step before an advance to the step after it, with q loads of old sums.
        most: ``S`` largest of them.
    """

    array: int
    cycles: float
    factors: IntArray
    advances: FloatArray
    innermost: IntArray
    rank: IntArray
    mask: IntArray
    wait: FloatArray
    most: FloatArray


@njit
def held(plan: Plan, k: int, way: int) -> float:
    """Cycles for which process k holds its own resource."""
    own = plan.share[k, 0, way, 0]
    return plan.duration[k, 0, way] if own < 0.0 else own  # type: ignore[no-any-return]


@njit
def beside(plan: Plan, turns: Turns, k: int, way: int) -> float:
    """Cycles for which process k keeps the array's step from a port that both use; `NEVER` where they share none."""
    found = NEVER
    for side in range(plan.resource.shape[1]):
        r = plan.resource[k, side]
        if r < 0:
            continue
        for other in range(plan.resource.shape[1]):
            if plan.resource[turns.array, other] == r:
                found = max(found, held(plan, k, way) if side == 0 else plan.share[k, 0, way, side])
    return found


@njit
def times(turns: Turns, q: int, loop: int, before: int) -> float:
    """How often a loop advances where q loads of old sums run, and no more of them.

    With `before` 1 they also ran for the tile before.
    """
    count = _past_first(turns, turns.mask[q], loop, before)
    if q + 1 < len(turns.mask):
        count -= _past_first(turns, turns.mask[q + 1], loop, 0)
    return max(0.0, count)


@njit
def _past_first(turns: Turns, mask: int, loop: int, before: int) -> float:
    """How often a loop advances to a step at which some loop of the mask is past its first iteration."""
    count = turns.advances[loop]
    if mask < 0 or count == 0.0:
        return count  # type: ignore[no-any-return]
    first = 1.0
    for m in range(loop):
        if (mask >> m) & 1 == 1:
            first /= turns.factors[m]
    found = count * (1.0 - first)
    if (mask >> loop) & 1 == 1:
        factor = turns.factors[loop]
        found += count * first * ((factor - 2.0) / (factor - 1.0) if before == 1 else 1.0)
    return found  # type: ignore[no-any-return]


@njit
def serial_wait(plan: Plan, turns: Turns, way: int, q: int) -> float:
    """From the end of the array's step before an advance to its next start: stores first, then loads of one buffer.

    Way 0 is the start of the run: all first loads, no store. A load of one buffer is issued when its tile comes into force,
    after what was stored before; loads behind it on its port, and those that read its tile, follow it.
    """
    n = plan.kind.shape[0]
    free, end = np.full(plan.resources, NEVER), np.full(n, NEVER)
    blocked = np.zeros(plan.resources, np.int64)
    start = 0.0
    for k in range(n):
        if plan.kind[k] != STORE or plan.active[k, 0, way] == 0 or way == 0:
            continue
        j, own = plan.source[k], plan.resource[k, 0]
        ready = 0.0 if j < 0 else end[j] + plan.latency[j]
        begin = max(ready, free[own])
        free[own], end[k] = begin + held(plan, k, way), begin + plan.duration[k, 0, way]
        start = max(start, begin + beside(plan, turns, k, way))
        if j < 0 and plan.depth[k] == 1 and plan.by_step[k] == 0:
            start = max(start, end[k] + plan.latency[k])
    for k in range(n):
        if plan.kind[k] != LOAD or plan.active[k, 0, way] == 0 or turns.rank[k] > q:
            continue
        j, own = plan.source[k], plan.resource[k, 0]
        follows = j >= 0 and end[j] > NEVER
        if way > 0 and plan.depth[k] > 1 and blocked[own] == 0 and not follows:
            continue
        blocked[own] = 1
        ready = 0.0 if way == 0 else NEVER
        if way > 0 and plan.depth[k] == 1 and plan.needs[turns.array, k] == 1:
            ready = -plan.early[k]
        begin = max(ready, free[own])
        if follows:
            begin = max(begin, end[j] + plan.latency[j])
        free[own], end[k] = begin + held(plan, k, way), begin + plan.duration[k, 0, way]
        start = max(start, begin + beside(plan, turns, k, way))
        if plan.needs[turns.array, k] == 1:
            start = max(start, end[k] + plan.latency[k])
    return start


@njit
def last_stores(plan: Plan) -> float:
    """From the array's last step to the end of the run."""
    n = plan.kind.shape[0]
    free, end = np.full(plan.resources, NEVER), np.full(n, NEVER)
    last = 0.0
    for k in range(n):
        if plan.kind[k] == STORE and plan.active[k, 0, 0] == 1:
            j, own = plan.source[k], plan.resource[k, 0]
            begin = max(0.0 if j < 0 else end[j] + plan.latency[j], free[own])
            free[own], end[k] = begin + held(plan, k, 0), begin + plan.duration[k, 0, 0]
            last = max(last, end[k] + plan.latency[k])
    return last


@njit
def make_turns(plan: Plan) -> Turns:
    """The counts of a plan of one phase."""
    n, loops = plan.kind.shape[0], plan.factors.shape[1]
    advances, innermost, rank = np.zeros(loops), np.full(n, -1, np.int64), np.zeros(n, np.int64)
    array, outside, sums = 0, 1.0, 0
    for loop in range(loops):
        advances[loop] = (plan.factors[0, loop] - 1) * outside
        outside *= plan.factors[0, loop]
    for k in range(n - 1, -1, -1):
        if plan.kind[k] == COMPUTE:
            array = k
        if plan.kind[k] == LOAD and plan.revisit[k] != 0:
            sums += 1
            rank[k] = sums
        for loop in range(loops):
            if plan.factors[0, loop] > 1 and plan.active[k, 0, loop + 1] == 1:
                innermost[k] = loop
    mask = np.full(sums + 1, -1, np.int64)
    for q in range(1, sums + 1):
        for k in range(n):
            if rank[k] == q:
                mask[q] = plan.revisit[k] & mask[q - 1]
    wait, most = np.zeros((sums + 1, loops)), np.zeros(loops)
    turns = Turns(array, held(plan, array, 0), plan.factors[0], advances, innermost, rank, mask, wait, most)
    for loop in range(loops):
        for q in range(sums + 1 if plan.factors[0, loop] > 1 else 0):
            wait[q, loop] = serial_wait(plan, turns, loop + 1, q)
            most[loop] = max(most[loop], wait[q, loop])
    return turns


@njit
def span(turns: Turns, loop: int) -> float:
    """Cycles of the array's chain from the first to the last step inside one iteration of a loop."""
    cycles, outside = 0.0, 1.0
    for inner in range(loop + 1, len(turns.factors)):
        cycles += (turns.factors[inner] - 1) * outside * turns.most[inner]
        outside *= turns.factors[inner]
    return cycles + outside * turns.cycles


@njit
def serial_cycles(plan: Plan, turns: Turns) -> float:
    """The array's chain: every step, with what it waits for one after another (the first old sums wait for nothing)."""
    loops = len(turns.factors)
    steps = 1.0
    for loop in range(loops):
        steps *= turns.factors[loop]
    total = steps * turns.cycles + serial_wait(plan, turns, 0, 0) + last_stores(plan)
    for q in range(len(turns.mask)):
        part, largest = 0.0, 0.0
        for loop in range(loops):
            part += times(turns, q, loop, 0) * turns.wait[q, loop]
            largest = max(largest, turns.wait[q, loop])
        total += max(0.0, part - (largest if q > 0 else 0.0))
    return total


@njit
def busiest(plan: Plan, turns: Turns) -> float:
    """The chain of the resource that is held longest: whole cycles of every transfer."""
    busy = np.zeros(plan.resources)
    for k in range(plan.kind.shape[0]):
        for way in range(plan.active.shape[2]):
            if plan.active[k, 0, way] == 0:
                continue
            runs = 1.0 if plan.revisit[k] == 0 else 0.0
            if way > 0:
                runs = _past_first(turns, plan.revisit[k] if plan.revisit[k] != 0 else -1, way - 1, 0)
            for side in range(plan.resource.shape[1]):
                r = plan.resource[k, side]
                if r >= 0:
                    busy[r] += runs * (held(plan, k, way) if side == 0 else plan.share[k, 0, way, side])
    most = 0.0
    for r in range(plan.resources):
        most = max(most, busy[r])
    return most


@njit
def slot_waits(plan: Plan, turns: Turns) -> float:
    """Waits for a slot of an outer level: its store of one buffer holds up the inner store, and that the array."""
    inner = first_store(plan)
    if inner == NOTHING or plan.by_step[inner] == 1 or turns.innermost[inner] < 0:
        return 0.0
    most, near = 0.0, turns.innermost[inner]
    for k in range(plan.kind.shape[0]):
        far = turns.innermost[k]
        if plan.kind[k] != STORE or plan.source[k] != inner or plan.depth[k] != 1 or far < 0 or far >= near:
            continue
        room = 1
        for loop in range(far + 1, near + 1):
            room *= turns.factors[loop]
        if room <= plan.depth[inner] or plan.active[inner, 0, near + 1] == 0:
            continue
        found = 0.0
        again = plan.duration[inner, 0, near + 1] + plan.latency[inner]
        for loop in range(far + 1):
            if turns.advances[loop] > 0 and plan.active[k, 0, loop + 1] == 1 and plan.active[inner, 0, loop + 1] == 1:
                chain = plan.duration[inner, 0, loop + 1] + plan.latency[inner]
                chain += plan.duration[k, 0, loop + 1] + plan.latency[k] + again
                instead = turns.most[loop] + plan.depth[inner] * (span(turns, near) + turns.most[near])
                found += turns.advances[loop] * max(0.0, chain - instead)
        most = max(most, found)
    return most


@njit
def first_store(plan: Plan) -> int:
    """The innermost store of outputs; `NOTHING` where none is stored."""
    for k in range(plan.kind.shape[0]):
        if plan.kind[k] == STORE and plan.source[k] == NOTHING:
            return k
    return NOTHING


@njit
def is_plain(plan: Plan) -> bool:
    """Whether the bound knows all that a plan has: one phase, no listed cycles, no streams."""
    if plan.factors.shape[0] != 1:
        return False
    for k in range(plan.kind.shape[0]):
        listed = plan.explicit[k] != NOTHING or plan.barrier[k] == 1 or plan.stream[k] == 1 or plan.ahead[k, 0] > 0.0
        if listed or (plan.kind[k] == LOAD and plan.revisit[k] == 0 and plan.active[k, 0, 0] == 0):
            return False
    return True
