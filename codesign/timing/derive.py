"""The plan of a mapping: which tiles move when, between which ports, and what the array does in between.

Compiled, because a search asks for thousands of them. It reads what `codesign.cost.kernel.score` left in the kernel
(tiles, counts, instances), so words are counted in one place; `moved_words` says how many of them each loop moves.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.cost.kernel import FILLS, GIVEN, INSTANCES, READS, SHARE, TILE, UPDATES, Kernel
from codesign.mapping.nest import BYPASSED, DIM, FACTOR, KIND, TEMPORAL, FloatArray, IntArray, Nest
from codesign.timing.event_plan import COMPUTE, LOAD, NOTHING, STORE, Plan

EVENTS, BUFFERS, BY_STEP, RETAIN, SHARED_PORT = 0, 1, 2, 3, 4
READ_START, WRITE_START, LATENCY, EARLY = 0, 1, 2, 3
FILL_DRAIN, ISSUE = 0, 1
PARTIAL, ISSUER, ARRAY = -2, -3, -4
_EPSILON = 1e-9
_BEFORE, _NEAREST, _STEP_SIZE = 0, 1, 3
_WIDTH = 3
_CAPACITY = 0
_READ_BANDWIDTH, _WRITE_BANDWIDTH = 0, 1


class Machine(NamedTuple):
    """A `codesign.timing.table.Timing` as arrays.

    Attributes:
        level_int: ``L x 5`` columns `EVENTS` (tiles are events; else words stream through), `BUFFERS` (0: two where they
            fit, else one), `BY_STEP`, `RETAIN`, `SHARED_PORT`.
        level: ``L x 4`` cycles, columns `READ_START`, `WRITE_START`, `LATENCY`, `EARLY`.
        whole: ``2`` cycles, `FILL_DRAIN` of the array a step, `ISSUE` of the host a step.
        queue: Commands the host may issue ahead.
        in_flight: Steps unfinished at a time; 0 is no limit.
        round_up: 1 where a transfer takes whole cycles.
    """

    level_int: IntArray
    level: FloatArray
    whole: FloatArray
    queue: int
    in_flight: int
    round_up: int


@njit
def moved_words(kernel: Kernel, nest: Nest, v: int, t: int, moved: IntArray) -> int:
    """Words that enter one instance of level v when each loop advances, in `moved` by loop; returns the whole tile.

    The rules are R1-R4 of docs/reference/cost-model.md, loop by loop: their sum over all advances is what the kernel counts.
    """
    loops, outside, coef = nest.loops, kernel.outside, kernel.coef
    full = kernel.counts[v, t, TILE]
    axes = kernel.tensor[t, 0]
    shift = np.zeros(coef.shape[1], np.int64)
    moved[:] = 0
    last = outside[nest.position[v, t], _NEAREST]
    delta = 0
    i = last
    while i >= 0:
        d = loops[i, DIM]
        overlap = 1
        same = True
        for a in range(axes):
            travel = coef[t, a, d] * outside[i, _STEP_SIZE]
            translation = travel - shift[a]
            same = same and translation == coef[t, a, loops[last, DIM]] * outside[last, _STEP_SIZE]
            overlap *= max(0, kernel.extent[v, t, a] - abs(translation))
            shift[a] += travel if kernel.reuse == 0 else travel * (loops[i, FACTOR] - 1)
        if i == last:
            delta = full - overlap
        moved[i] = full - overlap if kernel.reuse == 2 else (delta if same else full)
        i = outside[i, _NEAREST]
    return full  # type: ignore[no-any-return]


@njit
def _cycles(words: float, bandwidth: float, round_up: int) -> float:
    if bandwidth <= 0.0:
        return 0.0
    cycles = words / bandwidth
    return np.ceil(cycles - _EPSILON) if round_up == 1 else cycles


@njit
def derive(kernel: Kernel, nest: Nest, count: int, machine: Machine) -> tuple[Plan, IntArray]:
    """The plan of a mapping that `score` has just found valid on `kernel`.

    Returns:
        The plan, and ``K x 3`` what each process is: tensor (or `ISSUER`, `ARRAY`), level it moves to (load) or from
        (store), 1 for old partial sums. Loop 0 of the plan is the (single) phase, the others are the temporal loops
        outside the innermost buffer whose tiles are events. Resources: ``2 v`` and ``2 v + 1`` the read and write port
        of level v (equal where shared), ``2 L`` the array, ``2 L + 1`` the host.
    """
    loops, position, outside, counts = nest.loops, nest.position, kernel.outside, kernel.counts
    n_levels, n_tensors = position.shape
    output = n_tensors - 1
    level_int, level, pair = machine.level_int, machine.level, kernel.pair
    # ---- which loops are steps ----------------------------------------------------------------------------------------
    place = 0
    for v in range(n_levels):
        for t in range(n_tensors):
            if level_int[v, EVENTS] == 1 and position[v, t] != BYPASSED:
                place = max(place, position[v, t])
    step_loop = np.full(count + 1, -1, np.int64)  # loop of the plan that a loop of the nest is
    n_loops = 1
    granule, steps = 1, 1
    for i in range(count):
        if loops[i, KIND] == TEMPORAL:
            if i < place:
                step_loop[i] = n_loops
                n_loops += 1
                steps *= loops[i, FACTOR]
            else:
                granule *= loops[i, FACTOR]
    factors = np.ones((1, n_loops), np.int64)
    for i in range(count):
        if step_loop[i] >= 0:
            factors[0, step_loop[i]] = loops[i, FACTOR]
    # ---- arrays of the plan --------------------------------------------------------------------------------------------
    room = 2 * n_levels * n_tensors + 2
    sides = 2 + 2 * n_levels
    ways = n_loops + 1
    kind = np.zeros(room, np.int64)
    resource = np.full((room, sides), NOTHING, np.int64)
    depth = np.full(room, 2, np.int64)
    by_step = np.zeros(room, np.int64)
    source = np.full(room, NOTHING, np.int64)
    early, latency = np.zeros(room), np.zeros(room)
    stream, revisit = np.zeros(room, np.int64), np.zeros(room, np.int64)
    active = np.zeros((room, 1, ways), np.int64)
    duration = np.zeros((room, 1, ways))
    share = np.zeros((room, 1, ways, sides))
    needs = np.zeros((room, room), np.int64)
    role = np.zeros((room, 3), np.int64)
    array, host = 2 * n_levels, 2 * n_levels + 1
    n = 0
    issuer = NOTHING
    if machine.whole[ISSUE] > 0.0:
        issuer = n
        kind[n], resource[n, 0], depth[n] = LOAD, host, machine.queue
        role[n, 0] = ISSUER
        for way in range(ways):
            if way != 1:
                active[n, 0, way] = 1
                duration[n, 0, way] = machine.whole[ISSUE]
                share[n, 0, way, 0] = -1.0
        n += 1
    # buffers: two where they fit, unless the table says how many
    buffers = np.ones(n_levels, np.int64)
    for v in range(n_levels):
        bits = 0
        for t in range(n_tensors):
            if position[v, t] != BYPASSED:
                bits += counts[v, t, TILE] * kernel.element_bits[v, t]
        fits = 2 * bits <= kernel.level_int[v, _CAPACITY]
        buffers[v] = level_int[v, BUFFERS] if level_int[v, BUFFERS] > 0 else (2 if fits else 1)
    # words that are not moved by events stream while the array works
    streamed = np.zeros((n_levels, 2))
    for v in range(n_levels):
        for t in range(n_tensors):
            if position[v, t] != BYPASSED:
                given = counts[v, t, GIVEN] / kernel.use[v, INSTANCES]
                streamed[v, 0] += pair[v, t, _WIDTH] * (counts[v, t, READS] + given)
                streamed[v, 1] += pair[v, t, _WIDTH] * (counts[v, t, UPDATES] + counts[v, t, FILLS])
    moved = np.zeros(max(count, 1), np.int64)
    innermost = np.full(n_tensors, NOTHING, np.int64)
    # ---- loads ----------------------------------------------------------------------------------------------------------
    for t in range(n_tensors):
        outer = NOTHING
        before = issuer
        for v in range(n_levels):
            if position[v, t] == BYPASSED:
                continue
            if outer == NOTHING:
                outer = v
                continue
            if level_int[v, EVENTS] == 0:
                break
            full = moved_words(kernel, nest, v, t, moved)
            sent = 1.0 * counts[outer, t, READS]
            arrives = 1.0 * counts[v, t, FILLS]
            if t == output and arrives == 0.0:
                outer = v
                continue
            given = counts[v, t, GIVEN] / kernel.use[v, INSTANCES]
            k = n
            n += 1
            kind[k], depth[k], source[k] = LOAD, buffers[v], before
            role[k, 0], role[k, 1], role[k, 2] = t, v, 1 if t == output else 0
            early[k], latency[k] = level[v, EARLY], level[outer, LATENCY]
            resource[k, 0], resource[k, 1] = 2 * outer, 2 * v + 1
            if given > 0.0:
                resource[k, 2] = 2 * v
            if t == output:
                # only tiles that were here before bring partial sums: a reduction loop outside a loop that moves the tile
                i = outside[position[v, t], _NEAREST]
                while i >= 0 and kernel.motion[t, loops[i, DIM], 0] < 0:
                    i = outside[i, _NEAREST]
                while i >= 0:
                    if kernel.motion[t, loops[i, DIM], 0] < 0:
                        revisit[k] |= 1 << step_loop[i]
                    i = outside[i, _NEAREST]
            for way in range(ways):
                words = 0
                if way == 0:
                    words = full
                elif way > 1:
                    for i in range(count):
                        if step_loop[i] == way - 1:
                            words = moved[i]
                            if level_int[v, RETAIN] == 0 and t != output:
                                words = full
                if words == 0:
                    continue
                active[k, 0, way] = 1
                if level_int[v, RETAIN] == 0 and t != output:
                    read = words * pair[outer, t, _WIDTH] * max(1.0, sent / arrives)
                    write = words * pair[v, t, _WIDTH]
                else:
                    read = words * pair[outer, t, _WIDTH] * sent / arrives
                    write = words * pair[v, t, _WIDTH]
                lent = words * pair[v, t, _WIDTH] * given / arrives
                read_cycles = _cycles(read, kernel.level[outer, _READ_BANDWIDTH], machine.round_up)
                write_cycles = _cycles(write, kernel.level[v, _WRITE_BANDWIDTH], machine.round_up)
                start = level[outer, READ_START] + level[v, WRITE_START]
                duration[k, 0, way] = max(read_cycles, write_cycles) + start
                share[k, 0, way, 0] = read_cycles + start
                share[k, 0, way, 1] = write_cycles
                if given > 0.0:
                    share[k, 0, way, 2] = _cycles(lent, kernel.level[v, _READ_BANDWIDTH], machine.round_up)
            streamed[outer, 0] -= sent * pair[outer, t, _WIDTH]
            streamed[v, 0] -= given * pair[v, t, _WIDTH]
            streamed[v, 1] -= arrives * pair[v, t, _WIDTH]
            before = k
            innermost[t] = k
            outer = v
    # ---- the array -------------------------------------------------------------------------------------------------------
    c = n
    n += 1
    kind[c], resource[c, 0] = COMPUTE, array
    role[c, 0] = ARRAY
    # ---- stores, inner boundaries first ----------------------------------------------------------------------------------
    inner = NOTHING
    below = NOTHING
    first_store = NOTHING
    limit = n_levels
    for v in range(n_levels):  # words stream from the first level on whose tiles are no events
        if position[v, output] != BYPASSED and level_int[v, EVENTS] == 0:
            limit = min(limit, v)
    for v in range(n_levels - 1, -1, -1):
        if position[v, output] == BYPASSED or v >= limit:
            continue
        if inner == NOTHING:
            inner = v
            continue
        words_total = counts[inner, output, FILLS] + kernel.use[inner, SHARE]
        moved_words(kernel, nest, inner, output, moved)
        k = n
        n += 1
        kind[k], depth[k], source[k] = STORE, buffers[inner], below
        by_step[k] = level_int[inner, BY_STEP]
        role[k, 0], role[k, 1] = output, inner
        latency[k] = level[v, LATENCY]
        resource[k, 0] = 2 * v + 1
        old = 0.0
        if counts[inner, output, FILLS] == 0 and counts[v, output, READS] > 0:
            resource[k, 1] = 2 * v  # sums of several children are added up here: the old value is read
            old = 1.0 * counts[v, output, READS]
        for way in range(ways):
            words = 0
            if way == 0:
                words = counts[inner, output, TILE]
            elif way > 1:
                for i in range(count):
                    if step_loop[i] == way - 1:
                        words = moved[i]
            if words == 0:
                continue
            active[k, 0, way] = 1
            wide = words * pair[v, output, _WIDTH] / words_total
            write_cycles = _cycles(
                wide * counts[v, output, UPDATES], kernel.level[v, _WRITE_BANDWIDTH], machine.round_up
            )
            start = level[v, WRITE_START] + level[inner, READ_START]
            duration[k, 0, way] = write_cycles + start
            share[k, 0, way, 0] = write_cycles + start
            if old > 0.0:
                read_cycles = _cycles(wide * old, kernel.level[v, _READ_BANDWIDTH], machine.round_up)
                share[k, 0, way, 1] = read_cycles
                duration[k, 0, way] = max(duration[k, 0, way], read_cycles + start)
        streamed[v, 1] -= counts[v, output, UPDATES] * pair[v, output, _WIDTH]
        if old > 0.0:
            streamed[v, 0] -= old * pair[v, output, _WIDTH]
        if first_store == NOTHING:
            first_store = k
        below = k
        inner = v
    # ---- the array's step: its own cycles, or those of the ports it streams through ------------------------------------------
    cycles = 1.0 * granule
    side = 1
    for v in range(n_levels):
        for way in range(2):
            words = streamed[v, way] / steps
            bandwidth = kernel.level[v, way]
            if words < _EPSILON or bandwidth <= 0.0:
                continue
            busy = _cycles(words, bandwidth, machine.round_up)
            cycles = max(cycles, busy)
            resource[c, side] = 2 * v + way
            for w in range(ways):
                share[c, 0, w, side] = busy
            side += 1
    for way in range(ways):
        if way != 1:
            active[c, 0, way] = 1
            duration[c, 0, way] = cycles + machine.whole[FILL_DRAIN]
            share[c, 0, way, 0] = granule + machine.whole[FILL_DRAIN]
    if machine.round_up == 1 or machine.whole[FILL_DRAIN] > 0.0:
        for way in range(ways):
            share[c, 0, way, 0] = duration[c, 0, way]
    for t in range(n_tensors):
        if innermost[t] >= 0:
            needs[c, innermost[t]] = 1
    if first_store >= 0:
        needs[c, first_store] = 1
    if issuer >= 0:
        needs[c, issuer] = 1
    for k in range(n):
        for s in range(sides):
            r = resource[k, s]
            if r >= 0 and r < array and r % 2 == 1 and level_int[r // 2, SHARED_PORT] == 1:
                resource[k, s] = r - 1
        for s in range(1, sides):  # reads and writes of a shared port follow each other
            for earlier in range(s):
                if resource[k, s] >= 0 and resource[k, s] == resource[k, earlier]:
                    for way in range(ways):
                        share[k, 0, way, earlier] += share[k, 0, way, s]
                        duration[k, 0, way] = max(duration[k, 0, way], share[k, 0, way, earlier])
                    resource[k, s] = NOTHING
    plan = Plan(
        factors, 0, kind[:n].copy(), resource[:n].copy(), depth[:n].copy(), by_step[:n].copy(), source[:n].copy(),
        early[:n].copy(), latency[:n].copy(), stream[:n].copy(), revisit[:n].copy(), active[:n].copy(),
        duration[:n].copy(), share[:n].copy(), np.zeros((n, 1)), needs[:n, :n].copy(), np.full(n, NOTHING, np.int64),
        np.zeros(0), np.zeros(0), np.zeros((n, n)), machine.in_flight, np.zeros(n, np.int64), 2 * n_levels + 2,
    )  # fmt: skip
    return plan, role[:n].copy()
