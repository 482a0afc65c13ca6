"""Packets with one target each through the routers of a mesh: trees without branches (rule M13)."""

from typing import NamedTuple

import numpy as np

from codesign.mapping.nest import IntArray
from codesign.timing.noc.state import Routers, TreeTraffic
from codesign.timing.noc.trees import simulate_trees


class Traffic(NamedTuple):
    """Packets in the order in which a source with several ready ones sends them.

    Attributes:
        created: ``N`` cycle in which each packet is there.
        source: ``N`` node.
        target: ``N`` node.
        flits: ``N`` length.
    """

    created: IntArray
    source: IntArray
    target: IntArray
    flits: IntArray


class Delivery(NamedTuple):
    """What became of the packets.

    Attributes:
        inject: ``N`` cycle in which the head left the source queue; -1 if it did not.
        head_arrive: ``N`` cycle in which the head left the network.
        arrive: ``N`` cycle in which the tail left the network; -1 if it did not.
        flit_hops: Flits sent by routers, the ejection included.
        cycle: The cycle after the last one simulated.
        status: `FINISHED`, `CUT_SHORT` (limit reached) or `STUCK` (nothing can move).
    """

    inject: IntArray
    head_arrive: IntArray
    arrive: IntArray
    flit_hops: int
    cycle: int
    status: int


def simulate_mesh(routers: Routers, traffic: Traffic, max_cycles: int) -> Delivery:
    """Run packets, those of one source in order of creation, on their X-Y ways; gives up at cycle `max_cycles`."""
    count = len(traffic.created)
    trees = TreeTraffic(
        created=traffic.created,
        source=traffic.source,
        flits=traffic.flits,
        tree=traffic.target,
        ports=np.zeros((0, routers.nodes), np.int64),
        waits=np.zeros(count, np.int64),
        follower=np.full(count, -1, np.int64),
        add_cycles=0,
        round_packets=0,
        rounds=0,
    )
    done = simulate_trees(routers, trees, max_cycles)
    return Delivery(done.inject, done.head_arrive, done.arrive, done.flit_hops, done.cycle, done.status)
