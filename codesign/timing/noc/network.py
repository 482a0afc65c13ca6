"""Transfers of a mapping as packets: multicast trees from a level to its children, reduction trees back.

A transfer is simulated once for each shape: which nodes share a tile, and how
many flits each of them gets or gives.

* P1: Children with equal tiles of a tensor form a group: multicast of an input, reduction of an output.
* P2: A group's tile is cut into equal parts, one for each parent, and these into packets. Packets of all groups take
  turns.
* P3: Inwards a packet follows the X-Y tree to its group. Old partial sums go to the first member alone.
* P4: Outwards a packet leaves every member, and every node where two ways meet, towards the parent. Interfaces of
  nodes add; a sum leaves when all it waits for has arrived.
* P5: A transfer takes from its first flit to its last arrival, simulated once for each shape (groups and flits).
  Rounds that repeat a state of all routers are skipped.
* P7: A transfer holds the mesh, inwards or outwards, for its cycles less the filling of the pipeline. The two
  directions do not hold each other up.
* P8: A load from DRAM over a mesh takes the longer of both.
* P9: Words that stream over a mesh take at least as many cycles a step as their busiest link, counted as in N9.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from codesign.arch.mesh import MeshLinks
from codesign.core.errors import UserError
from codesign.cost.mesh import LOCAL, PORTS, neighbour, route
from codesign.mapping.nest import IntArray
from codesign.timing.noc.state import FINISHED, Routers, TreeTraffic
from codesign.timing.noc.trees import simulate_trees

CYCLE_LIMIT = 5_000_000
"""Cycles after which the simulation of one transfer is stopped and its run reported as partial."""

Groups = tuple[tuple[int, ...], ...]
"""The nodes that share each tile."""


@dataclass(frozen=True)
class TransferTime:
    """How long the routers take for one transfer.

    Args:
        cycles: From its first flit to its last arrival.
        hold: Cycles until the next transfer can follow without being slowed.
        busiest_flits: Of the busiest link or port.
        flit_hops: Flits sent by routers.
        simulated_hops: Those that were not skipped as repetitions.
        complete: Whether it ended before the limit of cycles.
    """

    cycles: int
    hold: int
    busiest_flits: int
    flit_hops: int
    simulated_hops: int
    complete: bool


def routers(links: MeshLinks) -> Routers:
    """The routers that an architecture's mesh is made of."""
    return Routers(
        links.width, links.width * links.height, links.virtual_channels, links.buffer_flits, links.routing_cycles,
        links.speculative, links.credit_cycles, PORTS, 1, 0, 0,
    )  # fmt: skip


def path_ports(width: int, nodes: int, source: int, targets: tuple[int, ...]) -> IntArray:
    """``nodes`` output ports, as bits, of the X-Y tree from a node to others."""
    ports = np.zeros(nodes, np.int64)
    for target in targets:
        here = source
        while here != target:
            port = int(route(here, target, width))
            ports[here] |= 1 << port
            here = int(neighbour(here, port, width))
        ports[here] |= 1 << LOCAL
    return ports


@dataclass(frozen=True)
class _Packet:
    """A packet of a round: source, tree, packets it waits for, place of the one that waits for it (-1: none)."""

    source: int
    ports: IntArray
    waits: int
    follower: int


def _round_down(links: MeshLinks, groups: Groups) -> list[_Packet]:
    nodes = links.width * links.height
    return [
        _Packet(parent, path_ports(links.width, nodes, parent, members), 0, -1)
        for members in groups
        for parent in links.parents
    ]


def reduction_steps(width: int, members: tuple[int, ...], parent: int) -> list[tuple[int, int]]:
    """The packets of one reduction as pairs (from, to), those that are waited for first.

    Packets leave members, and nodes where two ways meet; each goes to the next such node on the X-Y way to the parent.
    """
    after: dict[int, int] = {}
    incoming: dict[int, int] = {}
    for member in members:
        here = member
        while here != parent and here not in after:
            following = int(neighbour(here, int(route(here, parent, width)), width))
            after[here] = following
            incoming[following] = incoming.get(following, 0) + 1
            here = following
    stops = {n for n in after if n in members or incoming.get(n, 0) > 1}

    def following_stop(node: int) -> int:
        here = after[node]
        while here != parent and here not in stops:
            here = after[here]
        return here

    def distance(node: int) -> int:
        return abs(node % width - parent % width) + abs(node // width - parent // width)

    steps = [(node, following_stop(node)) for node in sorted(stops, key=lambda n: (-distance(n), n))]
    return steps + ([(parent, parent)] if parent in members else [])


def _round_up(links: MeshLinks, groups: Groups) -> list[_Packet]:
    nodes = links.width * links.height
    found: list[_Packet] = []
    for members in groups:
        for parent in links.parents:
            steps = reduction_steps(links.width, members, parent)
            base = len(found)
            place = {source: base + i for i, (source, _) in enumerate(steps)}
            for source, target in steps:
                waits = sum(1 for other, to in steps if to == source and other != source and source != parent)
                follower = place[target] if target != parent and target in place else -1
                found.append(_Packet(source, path_ports(links.width, nodes, source, (target,)), waits, follower))
    return found


def transfer_packets(links: MeshLinks, groups: Groups, flits: int, up: bool) -> TreeTraffic:
    """The packets of a transfer, round by round: in each, one packet for every group and parent.

    Args:
        links: The mesh.
        groups: The nodes that share each tile.
        flits: Of one group's part at one parent.
        up: From the children (their sums added on the way) instead of to them.

    Raises:
        UserError: A node is not in the mesh, or there is nothing to send.
    """
    nodes = links.width * links.height
    if flits < 1 or not groups:
        raise UserError(f"a transfer must have at least one flit, got {flits}", where="mesh")
    if max(max(g) for g in groups) >= nodes or min(min(g) for g in groups) < 0:
        raise UserError(
            f"children must sit at nodes below {nodes}",
            where=f"mesh of {links.width} x {links.height}",
            hint="the mesh is smaller than the fan-out it serves",
        )
    once = _round_up(links, groups) if up else _round_down(links, groups)
    whole, rest = divmod(flits, links.packet_flits)
    rounds = whole + (1 if rest else 0)
    size = len(once)
    tiled = np.tile(np.arange(size, dtype=np.int64), rounds)
    length = np.full(rounds * size, links.packet_flits, np.int64)
    if rest:
        length[whole * size :] = rest
    follower = np.array([p.follower for p in once], np.int64)[tiled]
    shift = np.repeat(np.arange(rounds, dtype=np.int64) * size, size)
    return TreeTraffic(
        created=np.zeros(rounds * size, np.int64),
        source=np.array([p.source for p in once], np.int64)[tiled],
        flits=length,
        tree=tiled,
        ports=np.stack([p.ports for p in once]),
        waits=np.array([p.waits for p in once], np.int64)[tiled],
        follower=np.where(follower >= 0, follower + shift, -1),
        add_cycles=links.add_cycles,
        round_packets=size,
        rounds=whole,
    )


def port_flits(nodes: int, traffic: TreeTraffic) -> IntArray:
    """``nodes x 6`` flits over each link and port, counted without simulation."""
    load = np.zeros((nodes, 6), np.int64)
    for k in range(len(traffic.ports)):
        mine = traffic.tree == k
        flits = int(traffic.flits[mine].sum())
        for r in range(nodes):
            for port in range(5):
                if (int(traffic.ports[k, r]) >> port) & 1:
                    load[r, port] += flits
        if mine.any():
            load[int(traffic.source[mine][0]), 5] += flits
    return load


@lru_cache(maxsize=4096)
def time_transfer(
    links: MeshLinks, groups: Groups, flits: int, up: bool, cycle_limit: int = CYCLE_LIMIT
) -> TransferTime:
    """Simulate a transfer alone.

    Args:
        links: The mesh.
        groups: The nodes that share each tile.
        flits: Of one group's part at one parent.
        up: From the children instead of to them.
        cycle_limit: Cycle at which to give up.

    Raises:
        UserError: A node is not in the mesh, or there is nothing to send.
    """
    mesh = routers(links)
    traffic = transfer_packets(links, groups, flits, up)
    done = simulate_trees(mesh, traffic, cycle_limit)
    busiest = int(port_flits(mesh.nodes, traffic).max())
    cycles = done.last_arrival + 1 if done.status == FINISHED else done.cycle
    ramp = 0
    if flits > links.packet_flits:
        alone = time_transfer(links, groups, links.packet_flits, up, cycle_limit)
        ramp = alone.cycles - alone.hold
        hold = max(busiest, cycles - ramp)
    else:
        hold = busiest
    return TransferTime(cycles, hold, busiest, done.flit_hops, done.simulated_hops, done.status == FINISHED)
