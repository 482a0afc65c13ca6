"""All nodes joined by one switch: a crossbar, cycle by cycle.

Nodes, packets and sources are those of `codesign.timing.noc.cycle`; the rules M1, M2, M6, M7 and M11 to M13 hold for the one
router between all nodes. Besides:

* H1: A node has a few input channels at the switch, each for a packet as a whole. Every target of a packet is a branch.
* H2: A branch asks for its output from the cycle after the head has been routed. Free outputs take askers in turn.
* H3: An output that is held asks its input for the next flit; inputs and outputs choose in turn.
* H4: A link to or from the switch takes its delay more.

A packet waits for outputs alone, a held output for flits that are in its input channel. So no two packets block each other.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.core.kernel_library import IntArray
from codesign.cost.mesh import LOCAL
from codesign.timing.noc.cycle import next_packet, reach_leaf
from codesign.timing.noc.state import (
    AT,
    CYCLE,
    DELAY,
    FLIGHT,
    FLIT_HOPS,
    HIGHEST,
    IN_NETWORK,
    INJECTION,
    MOVED,
    NOBODY,
    WAITING,
    Network,
    Packets,
    Routers,
    TreeTraffic,
)


class Hub(NamedTuple):
    """The switch. Shapes: ``R`` nodes, ``C`` input channels of a node, ``K`` trees, ``T`` most targets of one.

    Attributes:
        packet: ``R x C`` packet of a channel, -1 for none.
        since: ``R x C`` cycle in which its head is at the switch.
        branches: ``R x C`` branches that have not sent all flits.
        sent: ``R x C x T`` flits that each branch has sent, -1 before it holds its output.
        holder: ``R x 2`` channel (``node C + channel``) and branch that hold each output; -1 for none.
        won: ``R`` cycle in which it was taken.
        turn: ``R x 2`` the channel that an output, and the output that an input, looks at first.
        free: ``R`` cycle from which a source may begin its next packet.
        first: ``K + 1`` where the targets of each tree begin.
        target: Nodes.
        busy: ``1`` packets at the switch.
    """

    packet: IntArray
    since: IntArray
    branches: IntArray
    sent: IntArray
    holder: IntArray
    won: IntArray
    turn: IntArray
    free: IntArray
    first: IntArray
    target: IntArray
    busy: IntArray


def make_hub(routers: Routers, ports: IntArray) -> Hub:
    """The empty switch; `ports` has the bit `LOCAL` at the targets of each tree. Without a hub it has no room."""
    n, c = (routers.nodes, routers.channels) if routers.hub else (0, 0)
    tree, target = np.nonzero(ports >> LOCAL & 1)
    counts = np.bincount(tree, minlength=len(ports))
    most = int(counts.max(initial=1))
    first = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]).astype(np.int64)
    return Hub(
        np.full((n, c), NOBODY, np.int64),
        np.zeros((n, c), np.int64),
        np.zeros((n, c), np.int64),
        np.zeros((n, c, most), np.int64),
        np.full((n, 2), NOBODY, np.int64),
        np.zeros(n, np.int64),
        np.zeros((n, 2), np.int64),
        np.zeros(n, np.int64),
        first,
        target.astype(np.int64),
        np.zeros(1, np.int64),
    )


@njit
def run_hub_cycle(routers: Routers, traffic: TreeTraffic, packets: Packets, network: Network, hub: Hub) -> None:
    """One cycle: sources, outputs that are free, flits that cross."""
    t = network.totals[CYCLE]
    network.totals[MOVED], network.totals[WAITING] = 0, 0
    _take_in(routers, traffic, packets, network, hub, t)
    if hub.busy[0] > 0:
        _grant_outputs(routers, traffic, network, hub, t)
        _cross(routers, traffic, packets, network, hub, t)
    network.totals[IN_NETWORK] = hub.busy[0]


@njit
def _take_in(routers: Routers, traffic: TreeTraffic, packets: Packets, network: Network, hub: Hub, t: int) -> None:
    """The next packet of every source into a free channel of its own (H1)."""
    for r in range(routers.nodes):
        packet = next_packet(packets, network, r, t)
        if packet < 0:
            continue
        network.totals[WAITING] = 1
        if hub.free[r] > t:
            network.totals[MOVED] = 1
            continue
        for c in range(routers.channels):
            if hub.packet[r, c] < 0:
                tree = traffic.tree[packet]
                hub.packet[r, c] = packet
                hub.since[r, c] = t + INJECTION + network.link[r, LOCAL, DELAY]
                hub.branches[r, c] = hub.first[tree + 1] - hub.first[tree]
                hub.sent[r, c] = NOBODY
                hub.free[r] = t + traffic.flits[packet]
                hub.busy[0] += 1
                packets.inject[packet] = t
                network.source[r, AT] += 1
                network.totals[HIGHEST] = max(network.totals[HIGHEST], packet)
                network.totals[MOVED] = 1
                break


@njit
def _grant_outputs(routers: Routers, traffic: TreeTraffic, network: Network, hub: Hub, t: int) -> None:
    """Outputs that nobody holds are taken by the next channel in turn whose packet has a branch there (H2)."""
    n = routers.nodes * routers.channels
    best = np.full(routers.nodes, n, np.int64)
    for r in range(routers.nodes):
        for c in range(routers.channels):
            packet = hub.packet[r, c]
            if packet < 0:
                continue
            if t < hub.since[r, c] + routers.routing_cycles:
                network.totals[MOVED] = 1
                continue
            begin = hub.first[traffic.tree[packet]]
            for b in range(hub.first[traffic.tree[packet] + 1] - begin):
                o = hub.target[begin + b]
                if hub.sent[r, c, b] >= 0 or hub.holder[o, 0] >= 0:
                    continue
                away = (r * routers.channels + c - hub.turn[o, 0]) % n
                if away < best[o]:
                    best[o] = away
                    hub.holder[o, 1] = b
    for o in range(routers.nodes):
        if best[o] < n:
            i = (hub.turn[o, 0] + best[o]) % n
            hub.holder[o, 0] = i
            hub.turn[o, 0] = (i + 1) % n
            r, c, b = i // routers.channels, i % routers.channels, hub.holder[o, 1]
            hub.sent[r, c, b] = 0
            hub.won[o] = t
            network.totals[MOVED] = 1


@njit
def _cross(routers: Routers, traffic: TreeTraffic, packets: Packets, network: Network, hub: Hub, t: int) -> None:
    """One flit of every input, to all outputs that it may go to (H3, M11)."""
    n = routers.nodes
    best, flit = np.full(n, n, np.int64), np.full(n, NOBODY, np.int64)
    for o in range(n):
        i = hub.holder[o, 0]
        if i >= 0 and _may_send(routers, hub, o, t):
            r = i // routers.channels
            best[r] = min(best[r], (o - hub.turn[r, 1]) % n)
    for r in range(n):
        if best[r] < n:
            o = (hub.turn[r, 1] + best[r]) % n
            best[r] = hub.holder[o, 0]
            flit[r] = hub.sent[r, best[r] % routers.channels, hub.holder[o, 1]]
            hub.turn[r, 1] = (o + 1) % n
    for o in range(n):
        i = hub.holder[o, 0]
        r = max(i, 0) // routers.channels
        same = i >= 0 and best[r] == i and hub.sent[r, i % routers.channels, hub.holder[o, 1]] == flit[r]
        if same and _may_send(routers, hub, o, t):
            _send(routers, traffic, packets, network, hub, o, t)


@njit
def _may_send(routers: Routers, hub: Hub, o: int, t: int) -> bool:
    """Whether the next flit for an output is at the switch, and the output was won in an earlier cycle."""
    r, c = hub.holder[o, 0] // routers.channels, hub.holder[o, 0] % routers.channels
    return t > hub.won[o] and t >= hub.since[r, c] + hub.sent[r, c, hub.holder[o, 1]]  # type: ignore[no-any-return]


@njit
def _send(routers: Routers, traffic: TreeTraffic, packets: Packets, network: Network, hub: Hub, o: int, t: int) -> None:
    """Send a flit to an output; the tail frees it, and with the last branch the channel."""
    r, c, branch = hub.holder[o, 0] // routers.channels, hub.holder[o, 0] % routers.channels, hub.holder[o, 1]
    packet = hub.packet[r, c]
    hub.sent[r, c, branch] += 1
    network.totals[FLIT_HOPS] += 1
    network.totals[MOVED] = 1
    arrival = t + FLIGHT + network.link[o, LOCAL, DELAY]
    if hub.sent[r, c, branch] == traffic.flits[packet]:
        hub.holder[o, 0] = NOBODY
        hub.branches[r, c] -= 1
        reach_leaf(traffic, packets, network, packet, arrival)
        if hub.branches[r, c] == 0:
            hub.packet[r, c] = NOBODY
            hub.busy[0] -= 1
