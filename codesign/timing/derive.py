"""The plan of a mapping: which tiles move when, between which ports, and what the array does in between.

Compiled, because a search asks for thousands of them. It reads what `codesign.cost.kernel.score` left in the kernel
(tiles, counts, instances), so words are counted in one place; `moved_words` says how many of them each loop moves.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.cost.columns import (
    CAPACITY,
    FILLS,
    GIVEN,
    INSTANCES,
    NEAREST,
    READ_BANDWIDTH,
    READS,
    SHARE,
    STEP_SIZE,
    TILE,
    UPDATES,
    WORD_WIDTH,
    WRITE_BANDWIDTH,
)
from codesign.cost.packed import Kernel
from codesign.mapping.nest import BYPASSED, DIM, FACTOR, KIND, TEMPORAL, FloatArray, IntArray, Nest
from codesign.timing.event_plan import COMPUTE, LOAD, NOTHING, STORE, Plan

EVENTS, BUFFERS, BY_STEP, RETAIN, SHARED_PORT = 0, 1, 2, 3, 4
READ_START, WRITE_START, LATENCY, EARLY = 0, 1, 2, 3
FILL_DRAIN, ISSUE = 0, 1
PARTIAL, ISSUER, ARRAY = -2, -3, -4
_EPSILON = 1e-9


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
def moved_words(kernel: Kernel, nest: Nest, v: int, t: int, moved: IntArray, travelled: IntArray) -> int:
    """Words that enter one instance of level v when each loop advances, and how far its tile moves then; returns the whole tile.

    The rules are R1-R4 of docs/reference/cost-model.md, loop by loop: their sum over all advances is what the kernel counts.

    Args:
        kernel: After `score`.
        nest: The mapping.
        v: The level.
        t: The tensor.
        moved: By loop of the nest; changed in place.
        travelled: Likewise, by axis.
    """
    loops, outside, coef = nest.loops, kernel.outside, kernel.coef
    full = kernel.counts[v, t, TILE]
    axes = kernel.tensor[t, 0]
    shift = np.zeros(coef.shape[1], np.int64)
    moved[:] = 0
    last = outside[nest.position[v, t], NEAREST]
    delta = 0
    i = last
    while i >= 0:
        d = loops[i, DIM]
        overlap = 1
        same = True
        for a in range(axes):
            travel = coef[t, a, d] * outside[i, STEP_SIZE]
            translation = travel - shift[a]
            same = same and translation == coef[t, a, loops[last, DIM]] * outside[last, STEP_SIZE]
            overlap *= max(0, kernel.extent[v, t, a] - abs(translation))
            travelled[i, a] = translation
            shift[a] += travel if kernel.reuse == 0 else travel * (loops[i, FACTOR] - 1)
        if i == last:
            delta = full - overlap
        moved[i] = full - overlap if kernel.reuse == 2 else (delta if same else full)
        i = outside[i, NEAREST]
    return full  # type: ignore[no-any-return]


@njit
def _cycles(words: float, bandwidth: float, round_up: int) -> float:
    if bandwidth <= 0.0:
        return 0.0
    cycles = words / bandwidth
    return np.ceil(cycles - _EPSILON) if round_up == 1 else cycles


class _Steps(NamedTuple):
    """The loops of a plan: loop 0 is the (single) phase, the others are temporal loops whose tiles are events.

    Attributes:
        of_loop: Loop of the plan that each loop of the nest is, -1 for none.
        factors: ``1 x S`` iterations of the loops of the plan.
        granule: Iterations of the temporal loops inside a step.
        steps: How many there are.
        ways: ``S + 1`` ways to enter a step: 0 the start, ``1 + l`` an advance of loop l of the plan.
    """

    of_loop: IntArray
    factors: IntArray
    granule: int
    steps: int
    ways: int


@njit
def _steps(nest: Nest, count: int, machine: Machine) -> _Steps:
    place = 0
    for v in range(nest.position.shape[0]):
        for t in range(nest.position.shape[1]):
            if machine.level_int[v, EVENTS] == 1 and nest.position[v, t] != BYPASSED:
                place = max(place, nest.position[v, t])
    of_loop = np.full(count + 1, -1, np.int64)
    n_loops = 1
    granule, steps = 1, 1
    for i in range(count):
        if nest.loops[i, KIND] == TEMPORAL:
            if i < place:
                of_loop[i] = n_loops
                n_loops += 1
                steps *= nest.loops[i, FACTOR]
            else:
                granule *= nest.loops[i, FACTOR]
    factors = np.ones((1, n_loops), np.int64)
    for i in range(count):
        if of_loop[i] >= 0:
            factors[0, of_loop[i]] = nest.loops[i, FACTOR]
    return _Steps(of_loop, factors, granule, steps, n_loops + 1)


@njit
def _room(steps: _Steps, n_levels: int, n_tensors: int, in_flight: int) -> Plan:
    """A plan of one phase with room for all processes, none put down; what no mapping asks for has no room."""
    room, sides = 2 * n_levels * n_tensors + 2, 2 + 2 * n_levels
    none, no_table = np.zeros(0, np.int64), np.zeros((0, 0))
    return Plan(
        steps.factors, 0, np.zeros(room, np.int64), np.full((room, sides), NOTHING, np.int64),
        np.full(room, 2, np.int64), np.zeros(room, np.int64), np.full(room, NOTHING, np.int64), np.zeros(room),
        np.zeros(room), none, np.zeros(room, np.int64), np.zeros((room, 1, steps.ways), np.int64),
        np.zeros((room, 1, steps.ways)), np.zeros((room, 1, steps.ways, sides)), no_table,
        np.zeros((room, room), np.int64), none, np.zeros(0), np.zeros(0), no_table, in_flight, none, 2 * n_levels + 2,
    )  # fmt: skip


@njit
def _put_down(p: Plan, n: int) -> Plan:
    """The plan of the first n processes."""
    return Plan(
        p.factors, 0, p.kind[:n].copy(), p.resource[:n].copy(), p.depth[:n].copy(), p.by_step[:n].copy(),
        p.source[:n].copy(), p.early[:n].copy(), p.latency[:n].copy(), np.zeros(n, np.int64), p.revisit[:n].copy(),
        p.active[:n].copy(), p.duration[:n].copy(), p.share[:n].copy(), np.zeros((n, 1)), p.needs[:n, :n].copy(),
        np.full(n, NOTHING, np.int64), np.zeros(0), np.zeros(0), np.zeros((n, n)), p.in_flight, np.zeros(n, np.int64),
        p.resources,
    )  # fmt: skip


class _Words(NamedTuple):
    """What the ports of the levels carry.

    Attributes:
        buffers: ``L`` tiles a level holds: two where they fit, unless the table says how many.
        streamed: ``L x 2`` words read and written (by width) that stream while the array works: all but those of events.
        moved: Room for `moved_words`, as is `travelled`.
    """

    buffers: IntArray
    streamed: FloatArray
    moved: IntArray
    travelled: IntArray


class _Given(NamedTuple):
    """What processes are derived from, and what each is: ``role`` as `derive` returns it, with room for all."""

    kernel: Kernel
    nest: Nest
    machine: Machine
    steps: _Steps
    words: _Words
    role: IntArray


@njit
def _words(kernel: Kernel, nest: Nest, count: int, machine: Machine) -> _Words:
    n_levels, n_tensors = nest.position.shape
    counts = kernel.counts
    buffers = np.ones(n_levels, np.int64)
    streamed = np.zeros((n_levels, 2))
    for v in range(n_levels):
        bits = 0
        for t in range(n_tensors):
            if nest.position[v, t] != BYPASSED:
                bits += counts[v, t, TILE] * kernel.element_bits[v, t]
                given = counts[v, t, GIVEN] / kernel.use[v, INSTANCES]
                streamed[v, 0] += kernel.pair[v, t, WORD_WIDTH] * (counts[v, t, READS] + given)
                streamed[v, 1] += kernel.pair[v, t, WORD_WIDTH] * (counts[v, t, UPDATES] + counts[v, t, FILLS])
        fits = 2 * bits <= kernel.level_int[v, CAPACITY]
        asked = machine.level_int[v, BUFFERS]
        buffers[v] = asked if asked > 0 else (2 if fits else 1)
    room = max(count, 1)
    return _Words(buffers, streamed, np.zeros(room, np.int64), np.zeros((room, kernel.coef.shape[1]), np.int64))


@njit
def _on_entering(way: int, full: int, moved: IntArray, steps: _Steps, retained: bool) -> int:
    """Words of a tile that move when a step is entered this way; all of them where nothing is `retained`."""
    if way == 0:
        return full
    words = 0
    for i in range(len(moved)):
        if steps.of_loop[i] == way - 1:
            words = moved[i] if retained else full
    return words


@njit
def _every_step(p: Plan, k: int, ways: int, cycles: float, held: float) -> None:
    """Process k runs on entering every step, `cycles` long, and holds its own resource for `held`."""
    for way in range(ways):
        if way != 1:
            p.active[k, 0, way] = 1
            p.duration[k, 0, way] = cycles
            p.share[k, 0, way, 0] = held


@njit
def _revisited(kernel: Kernel, nest: Nest, v: int, t: int, steps: _Steps) -> int:
    """Bit set of the loops past whose first iteration level v meets sums again.

    Only tiles that were here before bring partial sums: a reduction loop outside a loop that moves the tile.
    """
    i = kernel.outside[nest.position[v, t], NEAREST]
    while i >= 0 and kernel.motion[t, nest.loops[i, DIM], 0] < 0:
        i = kernel.outside[i, NEAREST]
    found = 0
    while i >= 0:
        if kernel.motion[t, nest.loops[i, DIM], 0] < 0:
            found |= 1 << steps.of_loop[i]
        i = kernel.outside[i, NEAREST]
    return found


@njit
def _load(p: Plan, k: int, given: _Given, t: int, outer: int, v: int) -> None:
    """Put down process k: tiles of tensor t move from level `outer` to level v."""
    kernel, nest, machine, steps, words = given.kernel, given.nest, given.machine, given.steps, given.words
    is_output = t == nest.position.shape[1] - 1
    pair, counts = kernel.pair, kernel.counts
    full = moved_words(kernel, nest, v, t, words.moved, words.travelled)
    sent = 1.0 * counts[outer, t, READS]
    arrives = 1.0 * counts[v, t, FILLS]
    lent = counts[v, t, GIVEN] / kernel.use[v, INSTANCES]
    p.kind[k], p.depth[k] = LOAD, words.buffers[v]
    given.role[k, 0], given.role[k, 1], given.role[k, 2] = t, v, 1 if is_output else 0
    p.early[k], p.latency[k] = machine.level[v, EARLY], machine.level[outer, LATENCY]
    p.resource[k, 0], p.resource[k, 1] = 2 * outer, 2 * v + 1
    if lent > 0.0:
        p.resource[k, 2] = 2 * v
    if is_output:
        p.revisit[k] = _revisited(kernel, nest, v, t, steps)
    retained = machine.level_int[v, RETAIN] == 1 or is_output
    start = machine.level[outer, READ_START] + machine.level[v, WRITE_START]
    for way in range(steps.ways):
        n = _on_entering(way, full, words.moved, steps, retained)
        if n == 0:
            continue
        p.active[k, 0, way] = 1
        per_child = sent / arrives if retained else max(1.0, sent / arrives)
        read = _cycles(
            n * pair[outer, t, WORD_WIDTH] * per_child, kernel.level[outer, READ_BANDWIDTH], machine.round_up
        )
        write = _cycles(n * pair[v, t, WORD_WIDTH], kernel.level[v, WRITE_BANDWIDTH], machine.round_up)
        p.duration[k, 0, way] = max(read, write) + start
        p.share[k, 0, way, 0] = read + start
        p.share[k, 0, way, 1] = write
        if lent > 0.0:
            out = n * pair[v, t, WORD_WIDTH] * lent / arrives
            p.share[k, 0, way, 2] = _cycles(out, kernel.level[v, READ_BANDWIDTH], machine.round_up)
    words.streamed[outer, 0] -= sent * pair[outer, t, WORD_WIDTH]
    words.streamed[v, 0] -= lent * pair[v, t, WORD_WIDTH]
    words.streamed[v, 1] -= arrives * pair[v, t, WORD_WIDTH]


@njit
def _loads(p: Plan, n: int, given: _Given, innermost: IntArray) -> int:
    """Put down the loads of every tensor, outer levels first; returns how many processes there are then.

    `innermost` receives each tensor's last load.
    """
    kernel, nest, machine = given.kernel, given.nest, given.machine
    n_levels, n_tensors = nest.position.shape
    issuer = n - 1 if n > 0 else NOTHING
    for t in range(n_tensors):
        outer = NOTHING
        before = issuer
        for v in range(n_levels):
            if nest.position[v, t] == BYPASSED:
                continue
            if outer == NOTHING:
                outer = v
                continue
            if machine.level_int[v, EVENTS] == 0:
                break
            if t < n_tensors - 1 or kernel.counts[v, t, FILLS] > 0:
                _load(p, n, given, t, outer, v)
                p.source[n] = before
                before = innermost[t] = n
                n += 1
            outer = v
    return n


@njit
def _store(p: Plan, k: int, given: _Given, inner: int, v: int) -> None:
    """Put down process k: tiles of the output move from level `inner` to level v."""
    kernel, nest, machine, steps, words = given.kernel, given.nest, given.machine, given.steps, given.words
    output = nest.position.shape[1] - 1
    pair, counts = kernel.pair, kernel.counts
    full = moved_words(kernel, nest, inner, output, words.moved, words.travelled)
    p.kind[k], p.depth[k] = STORE, words.buffers[inner]
    p.by_step[k] = machine.level_int[inner, BY_STEP]
    given.role[k, 0], given.role[k, 1] = output, inner
    p.latency[k] = machine.level[v, LATENCY]
    p.resource[k, 0] = 2 * v + 1
    old = 0.0
    if counts[inner, output, FILLS] == 0 and counts[v, output, READS] > 0:
        p.resource[k, 1] = 2 * v  # sums of several children are added up here: the old value is read
        old = 1.0 * counts[v, output, READS]
    start = machine.level[v, WRITE_START] + machine.level[inner, READ_START]
    for way in range(steps.ways):
        n = _on_entering(way, full, words.moved, steps, True)
        if n == 0:
            continue
        p.active[k, 0, way] = 1
        wide = n * pair[v, output, WORD_WIDTH] / (counts[inner, output, FILLS] + kernel.use[inner, SHARE])
        write = _cycles(wide * counts[v, output, UPDATES], kernel.level[v, WRITE_BANDWIDTH], machine.round_up)
        p.duration[k, 0, way] = write + start
        p.share[k, 0, way, 0] = write + start
        if old > 0.0:
            read = _cycles(wide * old, kernel.level[v, READ_BANDWIDTH], machine.round_up)
            p.share[k, 0, way, 1] = read
            p.duration[k, 0, way] = max(p.duration[k, 0, way], read + start)
    words.streamed[v, 1] -= counts[v, output, UPDATES] * pair[v, output, WORD_WIDTH]
    if old > 0.0:
        words.streamed[v, 0] -= old * pair[v, output, WORD_WIDTH]


@njit
def _stores(p: Plan, n: int, given: _Given) -> int:
    """Put down the stores of the output, inner boundaries first; returns how many processes there are then."""
    nest, machine = given.nest, given.machine
    n_levels, n_tensors = nest.position.shape
    output = n_tensors - 1
    limit = n_levels
    for v in range(n_levels):  # words stream from the first level on whose tiles are no events
        if nest.position[v, output] != BYPASSED and machine.level_int[v, EVENTS] == 0:
            limit = min(limit, v)
    inner, below = NOTHING, NOTHING
    for v in range(limit - 1, -1, -1):
        if nest.position[v, output] == BYPASSED:
            continue
        if inner != NOTHING:
            _store(p, n, given, inner, v)
            p.source[n] = below
            below = n
            n += 1
        inner = v
    return n


@njit
def _array(p: Plan, c: int, given: _Given) -> None:
    """Put down process c, the array's step: its own cycles, or those of the ports it streams through."""
    machine, steps, streamed = given.machine, given.steps, given.words.streamed
    n_levels = len(streamed)
    p.kind[c], p.resource[c, 0] = COMPUTE, 2 * n_levels
    given.role[c, 0] = ARRAY
    cycles = 1.0 * steps.granule
    side = 1
    for v in range(n_levels):
        for way in range(2):
            words = streamed[v, way] / steps.steps
            bandwidth = given.kernel.level[v, way]
            if words < _EPSILON or bandwidth <= 0.0:
                continue
            busy = _cycles(words, bandwidth, machine.round_up)
            cycles = max(cycles, busy)
            p.resource[c, side] = 2 * v + way
            p.share[c, 0, :, side] = busy
            side += 1
    fill = machine.whole[FILL_DRAIN]
    whole = machine.round_up == 1 or fill > 0.0
    _every_step(p, c, steps.ways, cycles + fill, (cycles if whole else 1.0 * steps.granule) + fill)


@njit
def _share_ports(p: Plan, n: int, machine: Machine) -> None:
    """Reads and writes of a shared port follow each other."""
    n_levels = len(machine.level_int)
    sides = p.resource.shape[1]
    for k in range(n):
        for s in range(sides):
            r = p.resource[k, s]
            if r >= 0 and r < 2 * n_levels and r % 2 == 1 and machine.level_int[r // 2, SHARED_PORT] == 1:
                p.resource[k, s] = r - 1
        for s in range(1, sides):
            for earlier in range(s):
                if p.resource[k, s] >= 0 and p.resource[k, s] == p.resource[k, earlier]:
                    for way in range(p.share.shape[2]):
                        p.share[k, 0, way, earlier] += p.share[k, 0, way, s]
                        p.duration[k, 0, way] = max(p.duration[k, 0, way], p.share[k, 0, way, earlier])
                    p.resource[k, s] = NOTHING


@njit
def derive(kernel: Kernel, nest: Nest, count: int, machine: Machine) -> tuple[Plan, IntArray]:
    """The plan of a mapping that `score` has just found valid on `kernel`.

    Returns:
        The plan, and ``K x 3`` what each process is: tensor (or `ISSUER`, `ARRAY`), level it moves to (load) or from
        (store), 1 for old partial sums. Loop 0 of the plan is the (single) phase, the others are the temporal loops
        outside the innermost buffer whose tiles are events. Resources: ``2 v`` and ``2 v + 1`` the read and write port
        of level v (equal where shared), ``2 L`` the array, ``2 L + 1`` the host.
    """
    n_levels, n_tensors = nest.position.shape
    steps = _steps(nest, count, machine)
    p = _room(steps, n_levels, n_tensors, machine.in_flight)
    role = np.zeros((p.kind.shape[0], 3), np.int64)
    given = _Given(kernel, nest, machine, steps, _words(kernel, nest, count, machine), role)
    n = 0
    if machine.whole[ISSUE] > 0.0:
        p.kind[0], p.resource[0, 0], p.depth[0] = LOAD, 2 * n_levels + 1, machine.queue
        role[0, 0] = ISSUER
        _every_step(p, 0, steps.ways, machine.whole[ISSUE], -1.0)
        n = 1
    issuers = n
    innermost = np.full(n_tensors, NOTHING, np.int64)
    c = _loads(p, n, given, innermost)
    n = _stores(p, c + 1, given)
    _array(p, c, given)
    for t in range(n_tensors):
        if innermost[t] >= 0:
            p.needs[c, innermost[t]] = 1
    if n > c + 1:
        p.needs[c, c + 1] = 1
    if issuers > 0:
        p.needs[c, 0] = 1
    _share_ports(p, n, machine)
    return _put_down(p, n), given.role[:n].copy()
