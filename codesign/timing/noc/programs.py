"""Parts of work that send packets and compute, one after another and side by side, on one network of routers.

A part begins when its turn comes: its packets enter the queues of their sources, those from a memory in the order and at the
times in which the memory serves them. It ends when all its packets have arrived, its memories have served it and its cores
have computed (rules M101 to M105 of `codesign.scheduling.segments.contention`). Routers are those of `codesign.timing.noc.cycle`.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.core.kernel_library import IntArray
from codesign.timing.noc.hub import Hub, make_hub, run_hub_cycle
from codesign.timing.noc.rounds import Rounds
from codesign.timing.noc.state import (
    AT,
    CUT_SHORT,
    CYCLE,
    DELIVERED,
    FINISHED,
    FLIT_HOPS,
    IN_NETWORK,
    LINK_TICKS,
    MOVED,
    PENDING,
    PERIOD,
    QUIET,
    STUCK,
    WAITING,
    Network,
    Packets,
    Requests,
    Routers,
    TreeTraffic,
    empty_network,
    empty_requests,
)
from codesign.timing.noc.trees import run_cycle

PART, TOGETHER, IN_TURN = 0, 1, 2
"""Kinds of nodes: a part; children side by side in steps; children one after another."""

_QUIET_CYCLES = 64
"""Cycles in which nothing moves though flits are on the way, after which nothing can; those of the routers and links come on top."""

_FOREVER = 1 << 60


class Program(NamedTuple):
    """Nodes of a program in preorder; node 0 is the whole. Shapes: ``n`` nodes, ``M`` memories, ``N`` packets.

    Attributes:
        kind: ``n`` `PART`, `TOGETHER` or `IN_TURN`.
        parent: ``n`` node above, -1 for the whole.
        first: ``n`` first child, -1 for none.
        next: ``n`` next child of the same parent, -1 for the last.
        groups: ``n`` runs of the children in a run of the node.
        stage: ``n`` of a child of `TOGETHER`: it runs in steps ``stage`` to ``stage + groups - 1``.
        stages: ``n`` of `TOGETHER`: the largest stage of its children.
        compute: ``n`` cycles of the cores of a part.
        packet_first: ``n + 1`` where the packets of each part begin.
        memory: ``N`` that serves the packet, -1 for none.
        served: ``N`` cycles after the memory's turn begins at which it has served the packet; of writes as well.
        reads: ``N`` 1 where the packet comes from its memory and waits for it.
        busy: ``n x M`` cycles of each memory for a run of a part.
    """

    kind: IntArray
    parent: IntArray
    first: IntArray
    next: IntArray
    groups: IntArray
    stage: IntArray
    stages: IntArray
    compute: IntArray
    packet_first: IntArray
    memory: IntArray
    served: IntArray
    reads: IntArray
    busy: IntArray


class ProgramRun(NamedTuple):
    """What became of a program.

    Attributes:
        cycles: To its end.
        flit_hops: Flits sent by routers, ejections included.
        status: `FINISHED`, `CUT_SHORT` or `STUCK`.
        longest: ``n`` cycles of the longest run of each part.
    """

    cycles: int
    flit_hops: int
    status: int
    longest: IntArray


class _State(NamedTuple):
    """A program, its packets in the network, and where it is.

    Attributes:
        leaves: ``K`` targets of each tree.
        turn: ``n`` group or step that a node is in.
        left: ``n`` children that have not ended in this step; of a part 1 while it runs.
        began: ``n`` cycle.
        ends: ``n`` earliest end of a running part.
        longest: ``n`` see `ProgramRun`.
        free: ``M`` cycle from which each memory is free.
        base: ``R`` where the queue of each source begins.
        todo: ``2 x n`` nodes to begin or that have ended, as ``2 node + ended``.
    """

    program: Program
    traffic: TreeTraffic
    packets: Packets
    network: Network
    leaves: IntArray
    turn: IntArray
    left: IntArray
    began: IntArray
    ends: IntArray
    longest: IntArray
    free: IntArray
    base: IntArray
    todo: IntArray


def run_program(
    routers: Routers,
    source: IntArray,
    flits: IntArray,
    tree: IntArray,
    ports: IntArray,
    period: IntArray,
    program: Program,
    max_cycles: int,
    link: IntArray | None = None,
) -> ProgramRun:
    """Run a program on a network; gives up at cycle `max_cycles`.

    Args:
        routers: The mesh.
        source: ``N`` node of each packet.
        flits: ``N`` its length.
        tree: ``N`` its tree.
        ports: ``K x R`` output ports of each tree at each node, as bits.
        period: ``R x O`` ticks from one flit to the next of each link (`LINK_TICKS` is one a cycle).
        program: What runs.
        max_cycles: Limit.
        link: Links of a network that is no mesh (`state.Network.link`).
    """
    n, parts = len(source), len(program.kind)
    network = empty_network(routers, source, link)
    network.link[:, :, PERIOD] = np.maximum(period, LINK_TICKS)
    base = network.first[:-1].copy()
    network.first[1:] = base  # the queues are empty; each end is kept in the place behind its source's
    follower = np.repeat(np.arange(parts), np.diff(program.packet_first)) + n
    zeros = np.zeros(n, np.int64)
    traffic = TreeTraffic(zeros, source, flits, tree, ports, zeros, follower, 0, 0, 0)
    packets = Packets(*(np.zeros(n + parts, np.int64) for _ in range(5)))
    rounds = Rounds(np.zeros(routers.nodes, np.int64), np.array([-1, -1, 0, 0, 0]))
    turn, left, began, ends, longest = (np.zeros(parts, np.int64) for _ in range(5))
    free, todo = np.zeros(program.busy.shape[1], np.int64), np.zeros(2 * parts + 2, np.int64)
    leaves = (ports >> 4 & 1).sum(axis=1)
    state = _State(program, traffic, packets, network, leaves, turn, left, began, ends, longest, free, base, todo)
    quiet = _QUIET_CYCLES + routers.routing_cycles + routers.credit_cycles + int(period.max()) // LINK_TICKS
    status = _run(routers, state, empty_requests(routers), rounds, make_hub(routers, ports), quiet, max_cycles)
    return ProgramRun(int(network.totals[CYCLE]), int(network.totals[FLIT_HOPS]), status, state.longest)


@njit
def _run(
    routers: Routers, state: _State, requests: Requests, rounds: Rounds, hub: Hub, quiet: int, max_cycles: int
) -> int:
    """Cycle after cycle until the whole has ended, or nothing has moved for `quiet` cycles; returns how."""
    traffic, packets, network, totals = state.traffic, state.packets, state.network, state.network.totals
    state.todo[0] = 0
    count, seen, soon = 1, 0, 0
    while totals[CYCLE] < max_cycles:
        if count > 0 and _settle(state, count):
            return FINISHED
        if count > 0:
            soon = _next_end(state)
        if routers.hub == 1:
            run_hub_cycle(routers, traffic, packets, network, hub)
        else:
            run_cycle(routers, traffic, packets, network, requests, rounds)
        if totals[DELIVERED] != seen:
            seen, soon = totals[DELIVERED], _next_end(state)
        if not _go_on(state, soon, quiet):
            return STUCK
        count = _ended_parts(state, totals[CYCLE]) if totals[CYCLE] >= soon else 0
    return CUT_SHORT


@njit
def _next_end(state: _State) -> int:
    """The first cycle in which a part ends whose packets have all arrived."""
    program, packets, n_packets, soon = state.program, state.packets, state.traffic.flits.shape[0], _FOREVER
    for node in range(program.kind.shape[0]):
        if program.kind[node] == PART and state.left[node] == 1 and packets.waits[n_packets + node] == 0:
            soon = min(soon, max(state.ends[node], packets.created[n_packets + node]))
    return soon


@njit
def _go_on(state: _State, soon: int, quiet: int) -> bool:
    """Go to the next cycle in which something can happen; False where nothing can."""
    packets, network, totals = state.packets, state.network, state.network.totals
    if totals[IN_NETWORK] > 0 or totals[PENDING] > 0 or totals[WAITING] > 0:
        totals[QUIET] = 0 if totals[MOVED] == 1 else totals[QUIET] + 1
        totals[CYCLE] += 1
        return totals[QUIET] < quiet  # type: ignore[no-any-return]
    upcoming = soon
    for r in range(network.source.shape[0]):
        if network.source[r, AT] < network.first[r + 1]:
            upcoming = min(upcoming, packets.created[network.queue[network.source[r, AT]]])
    if upcoming == _FOREVER:
        return False
    totals[CYCLE] = max(totals[CYCLE] + 1, upcoming)
    totals[QUIET] = 0
    return True


@njit
def _ended_parts(state: _State, t: int) -> int:
    """Note the parts that have ended by cycle t; returns how many."""
    program, packets, n_packets, count = state.program, state.packets, state.traffic.flits.shape[0], 0
    for node in range(program.kind.shape[0]):
        if program.kind[node] != PART or state.left[node] == 0 or packets.waits[n_packets + node] > 0:
            continue
        if state.ends[node] <= t and packets.created[n_packets + node] <= t:
            state.left[node] = 0
            state.longest[node] = max(state.longest[node], t - state.began[node])
            state.todo[count] = 2 * node + 1
            count += 1
    return count


@njit
def _settle(state: _State, count: int) -> bool:
    """Begin and end nodes until only running parts are left; whether the whole has ended."""
    program = state.program
    while count > 0:
        count -= 1
        node, ended = state.todo[count] // 2, state.todo[count] % 2
        if ended == 0:
            count = _begin(state, node, count)
            continue
        above = program.parent[node]
        if above < 0:
            return True
        if program.kind[above] == IN_TURN:
            following = program.next[node]
            if following < 0:
                state.turn[above] += 1
                following = program.first[above]
                if state.turn[above] == program.groups[above]:
                    following = -1
            state.todo[count] = 2 * following if following >= 0 else 2 * above + 1
            count += 1
            continue
        state.left[above] -= 1
        if state.left[above] == 0:
            state.turn[above] += 1
            count = _step(state, above, count)
    return False


@njit
def _step(state: _State, node: int, count: int) -> int:
    """Begin the children of a step, or end the node; returns how many nodes are to be looked at."""
    program, step = state.program, state.turn[node]
    if step >= program.groups[node] + program.stages[node]:
        state.todo[count] = 2 * node + 1
        return count + 1
    child = program.first[node]
    while child >= 0:
        if program.stage[child] <= step < program.stage[child] + program.groups[node]:
            for i in range(state.left[node], 0, -1):  # the first child is to be looked at first
                state.todo[count + i] = state.todo[count + i - 1]
            state.todo[count] = 2 * child
            state.left[node] += 1
        child = program.next[child]
    return count + state.left[node]  # type: ignore[no-any-return]


@njit
def _begin(state: _State, node: int, count: int) -> int:
    """Begin a node; returns how many nodes are to be looked at."""
    state.turn[node], kind = 0, state.program.kind[node]
    if kind == IN_TURN:
        state.todo[count] = 2 * state.program.first[node]
        return count + 1
    state.left[node] = 0
    if kind == TOGETHER:
        return _step(state, node, count)
    _begin_part(state, node)
    return count


@njit
def _begin_part(state: _State, node: int) -> None:
    """Put the packets of a part into the queues of their sources, and reserve the memories."""
    program, traffic, packets = state.program, state.traffic, state.packets
    t, gate = state.network.totals[CYCLE], traffic.flits.shape[0] + node
    first, past = program.packet_first[node], program.packet_first[node + 1]
    state.left[node], state.began[node], state.ends[node] = 1, t, t + program.compute[node]
    packets.waits[gate], packets.created[gate] = past - first, 0
    for p in range(first, past):
        packets.created[p], packets.waits[p] = t, 0
        packets.remaining[p] = state.leaves[traffic.tree[p]]
        packets.arrive[p] = -1
        memory = program.memory[p]
        if memory >= 0 and program.reads[p] == 1:
            packets.created[p] = max(t, state.free[memory]) + program.served[p]
        _append(state, traffic.source[p], p)
    for memory in range(state.free.shape[0]):
        if program.busy[node, memory] > 0:
            state.free[memory] = max(t, state.free[memory]) + program.busy[node, memory]
            state.ends[node] = max(state.ends[node], state.free[memory])


@njit
def _append(state: _State, source: int, packet: int) -> None:
    """Put a packet behind those that wait at its source; packets that were sent leave their places."""
    network = state.network
    begin, at, end = state.base[source], network.source[source, AT], network.first[source + 1]
    if at > begin:
        for i in range(at, end):
            network.queue[begin + i - at] = network.queue[i]
        network.source[source, AT] = begin
        end = begin + end - at
    network.queue[end] = packet
    network.first[source + 1] = end + 1
