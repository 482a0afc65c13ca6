"""Cycle by cycle: wormhole routers of a 2-D mesh with virtual channels, credits, iSLIP allocators and packets that branch.

The rules (M1 to M14, `codesign.timing.noc.cycle`) are those of input-queued routers as the literature has them (W. Dally and B. Towles,
"Principles and Practices of Interconnection Networks", 2004; N. McKeown, "The iSLIP scheduling algorithm for input-queued
switches", 1999). A packet follows a tree: at every node a set of output ports. Each branch has a channel and a place in the
buffer of its own, so one that is blocked holds up no other (M10 to M13).

A flit costs a few dozen machine operations; empty routers and empty stretches of time cost nothing, and traffic that
repeats in rounds is skipped (`codesign.timing.noc.rounds`).
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.mapping.nest import IntArray
from codesign.timing.noc.cycle import (
    allocate_channels,
    ask_for_switch,
    cross_switch,
    deliver_events,
    inject,
    route_and_ask,
    take_channels,
)
from codesign.timing.noc.rounds import LEADER, SKIPPED_HOPS, Rounds, rounds_of, skip_rounds
from codesign.timing.noc.state import (
    AT,
    CUT_SHORT,
    CYCLE,
    DELIVERED,
    FINISHED,
    FLIT_HOPS,
    IN_NETWORK,
    LAST_ARRIVAL,
    MOVED,
    PENDING,
    QUIET,
    ROUND_DONE,
    STUCK,
    WAITING,
    Network,
    Packets,
    Requests,
    Routers,
    TreeTraffic,
    empty_network,
    empty_requests,
    waiting_packets,
)

_QUIET_CYCLES = 16
"""Cycles without any movement, besides those of the pipeline, after which nothing can move."""


class TreeDelivery(NamedTuple):
    """What became of the packets.

    Attributes:
        inject: ``N`` cycle in which the head left the source queue; -1 if it did not, or the packet was skipped.
        arrive: ``N`` cycle in which the last branch's tail left the network; -1 for packets that were skipped or are left.
        last_arrival: The latest of all, skipped ones included.
        flit_hops: Flits sent by routers, ejections included, skipped ones too.
        simulated_hops: Those simulated.
        cycle: The cycle after the last one.
        status: `FINISHED`, `CUT_SHORT` or `STUCK`.
    """

    inject: IntArray
    arrive: IntArray
    last_arrival: int
    flit_hops: int
    simulated_hops: int
    cycle: int
    status: int


def simulate_trees(routers: Routers, traffic: TreeTraffic, max_cycles: int) -> TreeDelivery:
    """Run packets on trees through a mesh; gives up at cycle `max_cycles`."""
    network, packets = empty_network(routers, traffic.source), waiting_packets(traffic)
    requests, rounds = empty_requests(routers), rounds_of(traffic, routers.nodes)
    status = _run(routers, traffic, packets, network, requests, rounds, max_cycles)
    hops = int(network.totals[FLIT_HOPS])
    return TreeDelivery(
        inject=packets.inject,
        arrive=packets.arrive,
        last_arrival=int(network.totals[LAST_ARRIVAL]),
        flit_hops=hops,
        simulated_hops=hops - int(rounds.number[SKIPPED_HOPS]),
        cycle=int(network.totals[CYCLE]),
        status=status,
    )


@njit
def _run(
    routers: Routers, traffic: TreeTraffic, packets: Packets, network: Network, requests: Requests, rounds: Rounds,
    max_cycles: int,
) -> int:  # fmt: skip
    """Cycle after cycle, until all packets have arrived; returns how it ended."""
    n_packets, totals = traffic.created.shape[0], network.totals
    kept = np.zeros(0, np.int64)
    while totals[DELIVERED] < n_packets:
        if totals[CYCLE] >= max_cycles:
            return CUT_SHORT
        run_cycle(routers, traffic, packets, network, requests, rounds)
        if totals[ROUND_DONE] == 1:
            kept = skip_rounds(routers, traffic, packets, network, rounds, kept)
        if not _next_cycle(routers, packets, network, max_cycles):
            return STUCK
    return FINISHED


@njit
def run_cycle(
    routers: Routers, traffic: TreeTraffic, packets: Packets, network: Network, requests: Requests, rounds: Rounds
) -> None:
    """One cycle: what arrives, the sources, every router that holds flits."""
    t, leader = network.totals[CYCLE], rounds.number[LEADER]
    deliver_events(routers, network, t)
    inject(routers, traffic, packets, network, t, leader, rounds.of_source[leader])
    for r in range(routers.nodes):
        if network.occupied[r] == 0:
            continue
        any_ask = route_and_ask(routers, traffic, network, requests, r, t)
        ask_for_switch(routers, network, requests, r, any_ask)
        if any_ask:
            allocate_channels(routers, network, requests, r)
        if requests.to_send[0] != 0:
            cross_switch(routers, traffic, packets, network, requests, r, t)
        if any_ask:
            take_channels(routers, network, requests, r)


@njit
def _next_cycle(routers: Routers, packets: Packets, network: Network, max_cycles: int) -> bool:
    """Go to the next cycle in which something can happen; False where nothing can."""
    totals = network.totals
    if totals[IN_NETWORK] == 0 and totals[PENDING] == 0 and totals[WAITING] == 0:
        upcoming, free = max_cycles, False
        for r in range(routers.nodes):
            if network.source[r, AT] < network.first[r + 1]:
                packet = network.queue[network.source[r, AT]]
                if packets.waits[packet] == 0:
                    upcoming, free = min(upcoming, packets.created[packet]), True
        if not free and totals[DELIVERED] < packets.created.shape[0]:
            return False
        totals[CYCLE] = max(totals[CYCLE] + 1, upcoming)
        return True
    totals[QUIET] = 0 if totals[MOVED] == 1 else totals[QUIET] + 1
    if totals[QUIET] > _QUIET_CYCLES + routers.routing_cycles + routers.credit_cycles:
        return False
    totals[CYCLE] += 1
    return True
