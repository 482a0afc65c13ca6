"""What a mesh of routers remembers from one cycle to the next: arrays whose last axis has named columns.

Shapes: ``R`` nodes, ``O`` ports, ``C`` virtual channels of a port, ``V = O C`` channels of a node (channel ``p C + c`` is number c of
port p), ``B`` flits of a buffer, ``N`` packets, ``K`` trees.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit_inline
from codesign.cost.mesh import EAST, LOCAL, NORTH, PORTS, SOUTH, WEST
from codesign.mapping.nest import IntArray

FINISHED, CUT_SHORT, STUCK = 0, 1, 2
"""How a run ends: all packets arrived, the limit of cycles was reached, nothing can move."""

FLIGHT, INJECTION, CREDIT_RETURN = 3, 2, 2
"""Cycles from a switch win to the next buffer, from the source to its router, from a freed slot to its sender (M1, M3)."""

NOBODY = -1
_RING = 8

START, HELD, PACKET, GONE, SINCE, ROUTED, ACTIVE, VC_ACCEPT, LATE = 0, 1, 2, 3, 4, 5, 6, 7, 8
"""Input channels: first place and number of the flits held, packet in front, its flits that have left the buffer, cycle in
which it came to the front, ports (as bits) it still needs a channel to, ports it has one to, pointer of M5, ports where it is late."""

LATE_PORTS = 8
"""Output ports of a tree are bits from 0, those where it is late from here (M15)."""

CREDIT, HOLDER, VC_GRANT = 0, 1, 2
"""Output channels: free slots behind it, packet that holds it, pointer of M5."""

BRANCH_VC, BRANCH_SENT = 0, 1
"""Branches: the output channel won, flits sent."""

SWITCH_GRANT, SWITCH_ACCEPT, SWITCH_VC = 0, 1, 2
"""Ports: pointers of M6 of the output, of the input, and the channel at which the input looks first."""

PERIOD, FREE_AT, TO, BACK, DELAY = 0, 1, 2, 3, 4
"""Links: ticks from one flit to the next, the tick from which the next may go, the node behind, the port there that leads back,
cycles besides those of a short link (M16)."""

LINK_TICKS = 64
"""Ticks of a cycle."""

AT, SENT, SOURCE_VC = 0, 1, 2
"""Sources: place in the queue, flits sent of the packet there, the channel it goes to."""

WHAT, NODE, VC, FLIT = 0, 1, 2, 3
ARRIVE, CREDIT_ROUTER, CREDIT_SOURCE = 0, 1, 2
"""Events: what happens, where, in which channel, with which packet's flit."""

PENDING, IN_NETWORK, DELIVERED, FLIT_HOPS, QUIET = 0, 1, 2, 3, 4
LAST_ARRIVAL, HIGHEST, MOVED, WAITING, ROUND_DONE, CYCLE = 5, 6, 7, 8, 9, 10
_TOTALS = 11
"""Totals: events to come, flits in buffers and on links, packets delivered, flits sent, cycles since anything moved; latest
arrival, highest packet touched; of this cycle: anything moved, a source has a packet, the leader ended a round; its number."""


class Routers(NamedTuple):
    """A network of equal routers.

    Attributes:
        width: Nodes along x; node = y * width + x.
        nodes: Nodes.
        channels: Virtual channels of each port (at most 12).
        buffer_flits: Flits each of them holds.
        routing_cycles: Cycles of route computation; 0 is look-ahead.
        speculative: Whether heads ask for the switch together with a channel.
        credit_cycles: Cycles a credit takes besides its link.
        ports: Of a router; number `LOCAL` is the node's own.
        classes: 2 where late packets take the upper half of a port's channels (M15), else 1.
        delay: The longest of all links (M16).
        hub: 1 where all nodes are joined by one switch instead (`codesign.timing.noc.hub`).
    """

    width: int
    nodes: int
    channels: int
    buffer_flits: int
    routing_cycles: int
    speculative: bool
    credit_cycles: int
    ports: int
    classes: int
    delay: int
    hub: int


class TreeTraffic(NamedTuple):
    """Packets on trees; those of one source are sent in the order of the list.

    Attributes:
        created: ``N`` cycle before which each is not there.
        source: ``N`` node.
        flits: ``N`` length.
        tree: ``N`` its tree.
        ports: ``K x R`` output ports of each tree at each node, as bits.
        waits: ``N`` packets that must have arrived before.
        follower: ``N`` the packet that waits for it; -1 is none.
        add_cycles: From the arrival of the last packet waited for to the follower's creation.
        round_packets: Packets of a round; packet i of every round is like packet i of the first. 0: nothing repeats.
        rounds: Whole rounds at the front of the list.
    """

    created: IntArray
    source: IntArray
    flits: IntArray
    tree: IntArray
    ports: IntArray
    waits: IntArray
    follower: IntArray
    add_cycles: int
    round_packets: int
    rounds: int


class Packets(NamedTuple):
    """What becomes of the packets.

    Attributes:
        created: ``N`` cycle before which each is not there; followers come later.
        waits: ``N`` packets that must arrive before.
        remaining: ``N`` leaves of its tree that it has not reached.
        inject: ``N`` cycle in which the head left the source queue; -1 if it did not.
        arrive: ``N`` cycle in which the tail left the network, of a tree at its last leaf.
    """

    created: IntArray
    waits: IntArray
    remaining: IntArray
    inject: IntArray
    arrive: IntArray


class Network(NamedTuple):
    """Buffers, channels, sources and what is on the way.

    Attributes:
        input: ``R x V x 9`` columns `START` to `LATE`.
        flit: ``R x V x B`` packets of the flits held, a ring.
        occupied: ``R`` input channels that hold flits, as bits.
        branch: ``R x V x O x 2`` columns `BRANCH_VC`, `BRANCH_SENT`.
        output: ``R x V x 3`` columns `CREDIT`, `HOLDER`, `VC_GRANT`.
        port: ``R x O x 3`` columns `SWITCH_GRANT`, `SWITCH_ACCEPT`, `SWITCH_VC`.
        link: ``R x O x 5`` columns `PERIOD` to `DELAY` of the link behind each output.
        first: ``R + 1`` packets of node r are ``queue[first[r] : first[r + 1]]``.
        queue: ``N`` packets by source, in order.
        source: ``R x 3`` columns `AT`, `SENT`, `SOURCE_VC`.
        source_credit: ``R x C`` free slots of each channel from the source.
        event: ``ring x room x 4`` columns `WHAT` to `FLIT`; cycle t is row ``t & (ring - 1)``.
        events: ``ring`` events of each cycle.
        totals: ``11`` columns `PENDING` to `CYCLE`.
    """

    input: IntArray
    flit: IntArray
    occupied: IntArray
    branch: IntArray
    output: IntArray
    port: IntArray
    link: IntArray
    first: IntArray
    queue: IntArray
    source: IntArray
    source_credit: IntArray
    event: IntArray
    events: IntArray
    totals: IntArray


class Requests(NamedTuple):
    """What the channels of one router ask for in one cycle.

    Attributes:
        asks: ``O`` input channels that ask for a channel of each port, as bits.
        winners: ``O`` those that have won one, as bits.
        granted: ``V`` output channels granted to each input channel, as bits.
        won: ``V x O`` the output channel won at each port.
        candidate: ``O x O`` the channel that represents input p at output o.
        to_send: ``1`` bit ``o O + p`` where input p asks for the switch to output o.
    """

    asks: IntArray
    winners: IntArray
    granted: IntArray
    won: IntArray
    candidate: IntArray
    to_send: IntArray


def mesh_links(width: int, nodes: int) -> IntArray:
    """``nodes x PORTS x 5`` links of a mesh that take a flit every cycle."""
    link = np.zeros((nodes, PORTS, 5), np.int64)
    link[:, :, PERIOD] = LINK_TICKS
    for port, step in ((EAST, 1), (WEST, -1), (SOUTH, width), (NORTH, -width)):
        link[:, port, TO] = np.arange(nodes) + step
        link[:, port, BACK] = port ^ 1
    return link


def empty_network(routers: Routers, source: IntArray, link: IntArray | None = None) -> Network:
    """The network before its first cycle; `source` are the packets' nodes, `link` its links where it is no mesh."""
    nodes, channels, n_vc = routers.nodes, routers.channels, routers.ports * routers.channels
    first = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(source, minlength=nodes))])
    sources = np.zeros((nodes, 3), np.int64)
    sources[:, AT] = first[:-1]
    sources[:, SOURCE_VC] = NOBODY
    inputs = np.zeros((nodes, n_vc, 9), np.int64)
    inputs[:, :, PACKET] = NOBODY
    output = np.zeros((nodes, n_vc, 3), np.int64)
    output[:, :, CREDIT] = routers.buffer_flits
    output[:, :, HOLDER] = NOBODY
    ring = _RING
    while ring < _RING + routers.credit_cycles + routers.delay:
        ring *= 2
    return Network(
        input=inputs,
        flit=np.zeros((nodes, n_vc, routers.buffer_flits), np.int64),
        occupied=np.zeros(nodes, np.int64),
        branch=np.zeros((nodes, n_vc, routers.ports, 2), np.int64),
        output=output,
        port=np.zeros((nodes, routers.ports, 3), np.int64),
        link=mesh_links(routers.width, nodes) if link is None else link.copy(),
        first=first,
        queue=np.argsort(source, kind="stable"),
        source=sources,
        source_credit=np.full((nodes, channels), routers.buffer_flits, np.int64),
        event=np.zeros((ring, nodes * routers.ports * 4, 4), np.int64),
        events=np.zeros(ring, np.int64),
        totals=np.zeros(_TOTALS, np.int64),
    )


def waiting_packets(traffic: TreeTraffic) -> Packets:
    """The packets before the first cycle."""
    n = len(traffic.created)
    return Packets(
        created=traffic.created.copy(),
        waits=traffic.waits.copy(),
        remaining=(traffic.ports >> LOCAL & 1).sum(axis=1)[traffic.tree],
        inject=np.full(n, -1, np.int64),
        arrive=np.full(n, -1, np.int64),
    )


def empty_requests(routers: Routers) -> Requests:
    """Room for the requests of one router."""
    ports, n_vc = routers.ports, routers.ports * routers.channels
    return Requests(
        asks=np.zeros(ports, np.int64),
        winners=np.zeros(ports, np.int64),
        granted=np.zeros(n_vc, np.int64),
        won=np.zeros((n_vc, ports), np.int64),
        candidate=np.zeros((ports, ports), np.int64),
        to_send=np.zeros(1, np.int64),
    )


_SEQUENCE = 0x0218A392CD3D5DBF
"""A cyclic sequence of 64 bits that holds every word of six bits once (N. de Bruijn, 1946)."""

_PLACE = np.argsort([_SEQUENCE << bit >> 58 & 63 for bit in range(64)])
"""The bit whose number, times the sequence, has each word in front."""


@njit_inline
def lowest(mask: int) -> int:
    """Number of the lowest bit that is set; the mask is not empty."""
    return _PLACE[(((mask & -mask) * _SEQUENCE) >> 58) & 63]  # type: ignore[no-any-return]


@njit_inline
def first_from(mask: int, start: int) -> int:
    """The first set bit at or after `start`, going round; the mask is not empty."""
    after = (mask >> start) << start
    return lowest(after if after != 0 else mask)
