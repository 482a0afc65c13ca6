"""Chains over a port on which loads are taken in step order: part of rule E12.

The load that changes most often on a port is issued one tile ahead of its use. What comes behind it in step order waits for
it, however early its own buffer is free. So when an outer loop advances, all that this advance brings in passes the port
within a tile or two of that load, and the array waits for what does not fit in between.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.mapping.nest import FloatArray
from codesign.timing.event_plan import LOAD, NOTHING, STORE, Plan
from codesign.timing.waits import NEVER, Turns, beside, first_store, held, span, times


class Pace(NamedTuple):
    """The load that sets the pace of a port.

    Attributes:
        port: The resource.
        q: Loads of old sums that run, from the innermost level outwards.
        load: Index of the process.
        loop: Innermost loop that changes its tile.
        tile: Cycles of the array's chain in one tile.
        stored: Cycles of the stores that take the port inside one tile.
    """

    port: int
    q: int
    load: int
    loop: int
    tile: float
    stored: float


@njit
def on_port(plan: Plan, turns: Turns, pace: Pace, k: int, way: int) -> bool:
    """Whether load k runs on the port on entering a step this way."""
    if plan.kind[k] != LOAD or plan.resource[k, 0] != pace.port or turns.rank[k] > pace.q:
        return False
    return bool(plan.active[k, 0, way] == 1 and turns.innermost[k] >= 0)


@njit
def stores_on_port(plan: Plan, port: int, way: int) -> float:
    """Cycles of the stores on the port on leaving a step this way."""
    cycles = 0.0
    for k in range(plan.kind.shape[0]):
        if plan.kind[k] == STORE and plan.resource[k, 0] == port and plan.active[k, 0, way] == 1:
            cycles += held(plan, k, way)
    return cycles


@njit
def find_pace(plan: Plan, turns: Turns, port: int, q: int) -> Pace:
    """The load that changes most often on a port, the first of them; `load` is `NOTHING` where it has not two buffers."""
    load, loop = NOTHING, -1
    for k in range(plan.kind.shape[0]):
        mine = plan.kind[k] == LOAD and plan.resource[k, 0] == port and turns.rank[k] <= q
        if mine and turns.innermost[k] > loop:
            load, loop = k, turns.innermost[k]
    if load == NOTHING or plan.depth[load] != 2:
        return Pace(port, q, NOTHING, loop, 0.0, 0.0)
    stored, outside = 0.0, 1.0
    for inner in range(loop + 1, len(turns.factors)):
        stored += (turns.factors[inner] - 1) * outside * stores_on_port(plan, port, inner + 1)
        outside *= turns.factors[inner]
    return Pace(port, q, load, loop, span(turns, loop), stored)


@njit
def is_blocked(plan: Plan, turns: Turns, pace: Pace, way: int) -> bool:
    """Whether some load of this way waits until its tile comes into force, so that none is issued ahead of it."""
    for k in range(plan.kind.shape[0]):
        if on_port(plan, turns, pace, k, way):
            j = k
            while j >= 0:
                if plan.kind[j] == LOAD and plan.depth[j] == 1 and plan.active[j, 0, way] == 1:
                    return True
                j = plan.source[j]
    return False


@njit
def to_the_array(plan: Plan, turns: Turns, pace: Pace, k: int, way: int) -> float:
    """From the end of load k to the earliest start of the array's step that uses it, over loads further in."""
    if plan.needs[turns.array, k] == 1:
        return plan.latency[k]  # type: ignore[no-any-return]
    found, cycles, j, moved = NEVER, plan.latency[k], k, True
    while moved:
        moved = False
        for m in range(plan.kind.shape[0]):
            runs = plan.kind[m] == LOAD and plan.active[m, 0, way] == 1 and turns.rank[m] <= pace.q
            if runs and plan.source[m] == j and not moved:
                cycles += plan.duration[m, 0, way] + plan.latency[m]
                j, moved = m, True
        if moved and plan.needs[turns.array, j] == 1:
            found, moved = cycles, False
    return found


class Passed(NamedTuple):
    """Chains over the loads of one advance.

    Attributes:
        used: Cycles until the step that uses them may start.
        begun: Cycles until the step before which they begin may start, for it shares a port with them.
        port: Cycles until the port is free.
    """

    used: float
    begun: float
    port: float


@njit
def over_loads(plan: Plan, turns: Turns, pace: Pace, way: int, since: float) -> Passed:
    """The loads from the one that sets the pace on, in their order, begun `since` cycles after the chain."""
    used, begun, port = NEVER, NEVER, since
    for k in range(pace.load, plan.kind.shape[0]):
        if on_port(plan, turns, pace, k, way):
            used = max(used, port + plan.duration[k, 0, way] + to_the_array(plan, turns, pace, k, way))
            begun = max(begun, port + beside(plan, turns, k, way))
            port += held(plan, k, way)
    return Passed(used, begun, port)


@njit
def before_pace(plan: Plan, turns: Turns, pace: Pace, way: int) -> float:
    """Cycles of the loads that are issued with the tile before: those in front of the one that sets the pace."""
    cycles = 0.0
    for k in range(pace.load):
        if on_port(plan, turns, pace, k, way):
            cycles += held(plan, k, way)
    return cycles


@njit
def store_chain(plan: Plan, port: int, way: int) -> float:
    """From the array's last step of a tile to the end of its stores on the port, inner stores first."""
    cycles = 0.0
    for k in range(plan.kind.shape[0]):
        if plan.kind[k] == STORE:
            if plan.resource[k, 0] == port:
                break
            if plan.active[k, 0, way] == 0:
                return NEVER
            cycles += plan.duration[k, 0, way] + plan.latency[k]
    stored = stores_on_port(plan, port, way)
    return cycles + stored if stored > 0.0 else NEVER


@njit
def outer_gain(plan: Plan, turns: Turns, pace: Pace, loop: int, each: float) -> float:
    """Cycles by which the best chain around an advance of an outer loop is longer than the array's own.

    The chain leaves the array one or two tiles before the advance, or at it, and returns at the advance or a tile after.

    Args:
        plan: What runs.
        turns: Its counts.
        pace: Of the port.
        loop: Further out than the one that sets the pace.
        each: What the array's chain already waits in each tile.
    """
    way, near = loop + 1, pace.loop + 1
    factor, most = turns.factors[pace.loop], turns.most
    into, outer = most[pace.loop], 0.0
    for other in range(pace.loop + 1):
        outer = max(outer, most[other])
    tile, best = pace.tile + into + each, 0.0
    usual = over_loads(plan, turns, pace, near, 0.0)
    early = -plan.early[pace.load]
    for m in range(1, 3 if plan.needs[turns.array, pace.load] == 1 else 1):
        recurs = pace.q > 0 and (turns.mask[pace.q] >> pace.loop) & 1 == 1
        if m > factor or (m == 2 and recurs and factor < 3):
            continue
        since = early
        if m == 2:
            since += (
                usual.port + before_pace(plan, turns, pace, way) + pace.stored + stores_on_port(plan, pace.port, near)
            )
        whole = m * tile + most[loop] + (outer - into if m == 2 and factor < 3 else 0.0)
        here = over_loads(plan, turns, pace, way, since)
        best = max(best, here.begun - (whole - pace.tile - most[loop]))
        if m + 1 > factor:
            continue
        best = max(best, here.used - whole)
        later = here.port + pace.stored + stores_on_port(plan, pace.port, way)
        after = over_loads(plan, turns, pace, near, later)
        best = max(best, after.begun - whole)
        if m + 2 <= factor:
            best = max(best, after.used - whole - tile)
    since = store_chain(plan, pace.port, way)
    after = over_loads(plan, turns, pace, near, since)
    return max(best, after.begun - most[loop] - each, after.used - most[loop] - tile)  # type: ignore[no-any-return]


@njit
def tile_gains(plan: Plan, turns: Turns, pace: Pace, others: float) -> tuple[float, float, float, float]:
    """Waits at advances of the loop that sets the pace.

    Args:
        plan: What runs.
        turns: Its counts.
        pace: Of the port.
        others: What chains of old sums already add to a tile.

    Returns:
        Largest wait of one tile, waits of all the tiles of one turn of the loop, and the same two where every second tile takes a
        chain over the port instead.
    """
    near, into = pace.loop + 1, turns.most[pace.loop]
    factor, outer = turns.factors[pace.loop], 0.0
    for other in range(pace.loop + 1):
        outer = max(outer, turns.most[other])
    gated = plan.needs[turns.array, pace.load] == 1
    here = over_loads(plan, turns, pace, near, -plan.early[pace.load])
    back = max(0.0, here.begun - into - others) if gated else 0.0
    first = max(0.0, here.begun - outer - others) if gated else 0.0
    after = over_loads(plan, turns, pace, near, store_chain(plan, pace.port, near))
    ahead = max(0.0, after.begun - into - others)
    all_back, all_ahead = (factor - 2) * back + first, (factor - 2) * ahead
    each, turn = (back, all_back) if all_back >= all_ahead else (ahead, all_ahead)
    whole = pace.tile + into + outer + each + others
    through = max(0.0, here.used - whole) if gated else 0.0
    along = max(0.0, after.used - whole)
    more = max(through * (factor // 2), along * ((factor - 1) // 2))
    return each, turn, each + max(through, along), turn + more


@njit
def behind_loads(plan: Plan, turns: Turns, pace: Pace, loop: int) -> float:
    """A store queues behind loads issued at the start of a tile, and the array waits for its buffer of output."""
    store = first_store(plan)
    if store == NOTHING or pace.q > 0 or plan.needs[turns.array, pace.load] == 0:
        return 0.0
    near = turns.innermost[store]
    alike = plan.resource[store, 0] == pace.port and plan.depth[store] == 2 and plan.by_step[store] == 0
    if not alike or near <= pace.loop:
        return 0.0
    room, outer, inner, left = 1, 0.0, 0.0, 1e30
    for other in range(near + 1):
        if other > pace.loop:
            room *= turns.factors[other]
        elif turns.factors[other] > 1:
            left = min(left, held(plan, store, other + 1) if plan.active[store, 0, other + 1] == 1 else 0.0)
    for other in range(len(turns.factors)):
        if other <= pace.loop:
            outer = max(outer, turns.most[other])
        else:
            inner = max(inner, turns.most[other])
    if room < 3:
        return 0.0
    port = over_loads(plan, turns, pace, loop + 1, left).port
    chain = port + plan.duration[store, 0, near + 1] + plan.latency[store]
    return max(0.0, chain - 2.0 * (span(turns, near) + inner) - outer)  # type: ignore[no-any-return]


@njit
def _others(turns: Turns, pace: Pace, gains: FloatArray) -> float:
    """The most that chains of more old sums add to one tile of the load that sets the pace."""
    found, outside = 0.0, 1.0
    for loop in range(pace.loop + 1):
        found = max(found, gains[loop])
    for loop in range(pace.loop + 1, len(turns.factors)):
        found += (turns.factors[loop] - 1) * outside * gains[loop]
        outside *= turns.factors[loop]
    return found


@njit
def _regime_waits(plan: Plan, turns: Turns, pace: Pace, all_of_them: bool, gains: FloatArray) -> float:
    """Cycles that chains over a port add while q loads of old sums run; `gains` receives the most at each loop's advance."""
    factor = turns.factors[pace.loop]
    others = _others(turns, pace, gains)
    each, turn, most, second = tile_gains(plan, turns, pace, others)
    count = turns.advances[pace.loop] if all_of_them else times(turns, pace.q, pace.loop, 1)
    runs = count / (factor - 1.0)
    ungated = 2.0 if pace.q > 0 or factor == 2 else 1.0
    behind = max(0.0, behind_loads(plan, turns, pace, pace.loop) - others)
    plain, queued = runs * turn, runs * (turn + (factor - 1.0) * behind)
    largest, longest = each, each + behind
    for loop in range(pace.loop):
        if turns.advances[loop] == 0.0 or plan.active[pace.load, 0, loop + 1] == 0:
            continue
        if is_blocked(plan, turns, pace, loop + 1):
            continue
        count = turns.advances[loop] if all_of_them else times(turns, pace.q, loop, 1)
        gain = outer_gain(plan, turns, pace, loop, each + others)
        late = outer_gain(plan, turns, pace, loop, each + others + behind)
        late = max(late, behind_loads(plan, turns, pace, loop) - others)
        plain, queued = plain + count * gain, queued + count * late
        largest, longest = max(largest, gain), max(longest, late)
        gains[loop] = max(gains[loop], gain, late)
    gains[pace.loop] = max(gains[pace.loop], most, each + behind)
    return max(0.0, runs * second - ungated * most, plain - ungated * largest, queued - ungated * longest)  # type: ignore[no-any-return]


@njit
def port_waits(plan: Plan, turns: Turns, port: int) -> float:
    """Cycles that chains over a port add to the array's own, over the whole run."""
    regimes, total, gains = 1, 0.0, np.zeros(len(turns.factors))
    for k in range(plan.kind.shape[0]):
        if plan.kind[k] == LOAD and plan.resource[k, 0] == port and turns.rank[k] > 0:
            regimes = len(turns.mask)
    for q in range(regimes - 1, -1, -1):
        pace = find_pace(plan, turns, port, q)
        if pace.load != NOTHING and not is_blocked(plan, turns, pace, pace.loop + 1):
            total += _regime_waits(plan, turns, pace, regimes == 1, gains)
    return total


@njit
def _has_host(plan: Plan) -> bool:
    """Whether the host issues steps: then loads are issued later than their buffers allow."""
    return bool((plan.resource[:, 0] == plan.resources - 1).any())


@njit
def most_port_waits(plan: Plan, turns: Turns) -> float:
    """The port whose chains add most; 0 where loads are not issued as early as their buffers allow."""
    most = 0.0
    if plan.in_flight > 0 or _has_host(plan):
        return most
    done = np.zeros(plan.resources, np.int64)
    for k in range(plan.kind.shape[0]):
        port = plan.resource[k, 0]
        if plan.kind[k] == LOAD and done[port] == 0:
            done[port] = 1
            most = max(most, port_waits(plan, turns, port))
    return most
