"""Synthetic traffic of a mesh: Bernoulli sources and the usual destinations; loads of its links, and a bound below every run (M9)."""

from dataclasses import dataclass

import numpy as np

from codesign.core.errors import unknown_name
from codesign.core.jit import njit
from codesign.cost.mesh import LOCAL, PORTS, neighbour, route
from codesign.mapping.nest import IntArray
from codesign.timing.noc.mesh import Mesh
from codesign.timing.noc.router import Traffic

PATTERNS = ("uniform", "transpose", "neighbor", "hotspot", "one_to_many")


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


def sources(mesh: Mesh, pattern: str) -> IntArray:
    """The nodes that send: all, but for `one_to_many` the corner 0."""
    return np.arange(1 if pattern == "one_to_many" else mesh.nodes, dtype=np.int64)


def targets(mesh: Mesh, pattern: str, source: IntArray, rng: np.random.Generator) -> IntArray:
    """Where packets of these sources go.

    Raises:
        UserError: There is no such pattern.
    """
    x, y = source % mesh.width, source // mesh.width
    if pattern == "uniform":
        return rng.integers(0, mesh.nodes, len(source))
    if pattern == "transpose":
        return x * mesh.width + y
    if pattern == "neighbor":
        return (y + 1) % mesh.height * mesh.width + (x + 1) % mesh.width
    if pattern == "hotspot":
        return np.zeros(len(source), np.int64)
    if pattern == "one_to_many":
        drawn = rng.integers(1, mesh.nodes, len(source))
        return drawn
    raise unknown_name("traffic pattern", pattern, PATTERNS)


def bernoulli(mesh: Mesh, load: Load, rng: np.random.Generator) -> Traffic:
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


def makespan_bound(mesh: Mesh, traffic: Traffic) -> int:
    """A cycle before which the last packet cannot have arrived: zero load, or the busiest link or port."""
    if not len(traffic.source):
        return 0
    starved = max(0, 5 + mesh.credit_cycles - mesh.buffer_flits)
    latest, bound = _bound(mesh.width, mesh.nodes, traffic, mesh.hop_cycles, mesh.buffer_flits, starved)
    return max(latest, bound)


def multicast_tree(mesh: Mesh, source: int, targets: list[int]) -> set[tuple[int, int]]:
    """Links (from, to) of the X-Y multicast tree: the union of the unicast paths."""
    links = set()
    for target in targets:
        here = source
        while here != target:
            after = int(neighbour(here, route(here, target, mesh.width), mesh.width))
            links.add((here, after))
            here = after
    return links
