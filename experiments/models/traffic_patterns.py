"""Synthetic traffic of a mesh: Bernoulli sources and the usual destinations; loads of its links, and a bound below every run (M9)."""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from codesign.arch.mesh import MeshLinks
from codesign.core.errors import unknown_name
from codesign.core.jit import njit
from codesign.cost.mesh import LOCAL, PORTS, neighbour, route
from codesign.mapping.nest import IntArray
from codesign.timing.noc.network import path_ports, routers
from codesign.timing.noc.state import TreeTraffic
from codesign.timing.noc.trees import TreeDelivery, simulate_trees

PATTERNS = ("uniform", "transpose", "neighbor", "hotspot", "one_to_many")


CYCLE_LIMIT = 100_000_000


class Traffic(NamedTuple):
    """Packets with one target each, in the order in which a source with several ready ones sends them.

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


@cache
def _way(width: int, nodes: int, source: int, target: int) -> IntArray:
    return path_ports(width, nodes, source, (target,))


def on_trees(links: MeshLinks, traffic: Traffic) -> TreeTraffic:
    """Packets on their X-Y ways: trees without branches (M13 of `codesign.timing.noc.cycle`)."""
    nodes, count = links.width * links.height, len(traffic.source)
    pairs, tree = np.unique(traffic.source * nodes + traffic.target, return_inverse=True)
    ways = [_way(links.width, nodes, *divmod(pair, nodes)) for pair in pairs.tolist()]
    ports, none, nobody = np.array(ways, np.int64).reshape(-1, nodes), np.zeros(count, np.int64), np.full(count, -1)
    return TreeTraffic(traffic.created, traffic.source, traffic.flits, tree.ravel(), ports, none, nobody, 0, 0, 0)


def run(links: MeshLinks, traffic: Traffic, cycle_limit: int = CYCLE_LIMIT) -> TreeDelivery:
    """Simulate packets on their X-Y ways."""
    return simulate_trees(routers(links), on_trees(links, traffic), cycle_limit)


def hop_cycles(links: MeshLinks) -> int:
    """Cycles a head takes from router to router without contention: its pipeline and the link."""
    return links.routing_cycles + (1 if links.speculative else 2) + 2


@dataclass(frozen=True)
class Load:
    """Offered load.

    Args:
        pattern: One of `PATTERNS`.
        rate: Flits a node and cycle at each source.
        packet_flits: Flits of a packet.
        cycles: How long packets are created.
    """

    pattern: str
    rate: float
    packet_flits: int
    cycles: int


def sources(mesh: MeshLinks, pattern: str) -> IntArray:
    """The nodes that send: all, but for `one_to_many` the corner 0."""
    return np.arange(1 if pattern == "one_to_many" else mesh.width * mesh.height, dtype=np.int64)


def targets(mesh: MeshLinks, pattern: str, source: IntArray, rng: np.random.Generator) -> IntArray:
    """Where packets of these sources go.

    Raises:
        UserError: There is no such pattern.
    """
    x, y, nodes = source % mesh.width, source // mesh.width, mesh.width * mesh.height
    if pattern == "uniform":
        return rng.integers(0, nodes, len(source))
    if pattern == "transpose":
        return x * mesh.width + y
    if pattern == "neighbor":
        return (y + 1) % mesh.height * mesh.width + (x + 1) % mesh.width
    if pattern == "hotspot":
        return np.zeros(len(source), np.int64)
    if pattern == "one_to_many":
        drawn = rng.integers(1, nodes, len(source))
        return drawn
    raise unknown_name("traffic pattern", pattern, PATTERNS)


def bernoulli(mesh: MeshLinks, load: Load, rng: np.random.Generator) -> Traffic:
    """Packets of sources that each create one with probability rate / flits a cycle."""
    nodes = sources(mesh, load.pattern)
    made = rng.random((load.cycles, len(nodes))) < load.rate / load.packet_flits
    created, which = np.nonzero(made)
    source = nodes[which]
    target = targets(mesh, load.pattern, source, rng)
    flits = np.full(len(created), load.packet_flits, np.int64)
    return Traffic(created.astype(np.int64), source, target.astype(np.int64), flits)


def make_traffic(packets: "IntArray | list[tuple[int, int, int, int]]") -> Traffic:
    """Packets from rows (cycle, source, target, flits), sorted by cycle."""
    rows = np.asarray(packets, np.int64).reshape(-1, 4)
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    return Traffic(*(np.ascontiguousarray(rows[:, i]) for i in range(4)))


@njit
def link_flits(width: int, nodes: int, traffic: Traffic) -> IntArray:
    """Flits over each link, ``nodes x 6``: to x+1, x-1, y+1, y-1, out to the node, in from the node."""
    load = np.zeros((nodes, PORTS + 1), np.int64)
    for i in range(traffic.source.shape[0]):
        here, target, flits = traffic.source[i], traffic.target[i], traffic.flits[i]
        load[here, PORTS] += flits
        while here != target:
            port = route(here, target, width)
            load[here, port] += flits
            here = neighbour(here, port, width)
        load[here, LOCAL] += flits
    return load


@njit
def _bound(width: int, nodes: int, traffic: Traffic, hop: int, buffer_flits: int, starved: int) -> tuple[int, int]:
    """Latest zero-load arrival, and the latest time any link lets its last flit arrive (M9 of `codesign.timing.noc.cycle`)."""
    first = np.full((nodes, PORTS + 1), 1 << 60, np.int64)
    after = np.full((nodes, PORTS + 1), 1 << 60, np.int64)
    flits = np.zeros((nodes, PORTS + 1), np.int64)
    latest = 0
    for i in range(traffic.source.shape[0]):
        here, target, length = traffic.source[i], traffic.target[i], traffic.flits[i]
        hops = abs(here % width - target % width) + abs(here // width - target // width)
        created = traffic.created[i]
        arrival = created + 2 + hop * (hops + 1) + length - 1 + starved * ((length - 1) // buffer_flits)
        latest = max(latest, arrival)
        # injection: leaves at `created`; each switch one hop later; the rest of the way after crossing
        first[here, PORTS] = min(first[here, PORTS], created)
        after[here, PORTS] = min(after[here, PORTS], 2 + hop * (hops + 1))
        flits[here, PORTS] += length
        done = 0
        while True:
            port = route(here, target, width) if here != target else LOCAL
            crossing = created + 2 + hop * (done + 1) - 3  # the head wins the switch
            first[here, port] = min(first[here, port], crossing)
            after[here, port] = min(after[here, port], 3 + hop * (hops - done))
            flits[here, port] += length
            if here == target:
                break
            here = neighbour(here, port, width)
            done += 1
    bound = 0
    for r in range(nodes):
        for port in range(PORTS + 1):
            if flits[r, port] > 0:
                bound = max(bound, first[r, port] + flits[r, port] - 1 + after[r, port])
    return latest, bound


def makespan_bound(mesh: MeshLinks, traffic: Traffic) -> int:
    """A cycle before which the last packet cannot have arrived: zero load, or the busiest link or port."""
    if not len(traffic.source):
        return 0
    starved = max(0, 5 + mesh.credit_cycles - mesh.buffer_flits)
    nodes = mesh.width * mesh.height
    latest, bound = _bound(mesh.width, nodes, traffic, hop_cycles(mesh), mesh.buffer_flits, starved)
    return max(latest, bound)


def multicast_tree(mesh: MeshLinks, source: int, targets: list[int]) -> set[tuple[int, int]]:
    """Links (from, to) of the X-Y multicast tree: the union of the unicast paths."""
    links = set()
    for target in targets:
        here = source
        while here != target:
            after = int(neighbour(here, route(here, target, mesh.width), mesh.width))
            links.add((here, after))
            here = after
    return links
