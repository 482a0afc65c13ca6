"""A 2-D mesh: its parameters, zero-load latency, loads of its links, bounds that no simulation undercuts."""

from dataclasses import dataclass

import numpy as np

from codesign.core.errors import UserError
from codesign.core.jit import njit
from codesign.cost.mesh import LOCAL, PORTS, neighbour, route
from codesign.mapping.nest import IntArray
from codesign.timing.noc.router import Delivery, Traffic, simulate_mesh
from codesign.timing.noc.state import Routers

CYCLE_LIMIT = 100_000_000
_MOST_CHANNELS = 12


@dataclass(frozen=True)
class Mesh:
    """A mesh of wormhole routers with X-Y routing.

    Args:
        width: Nodes along x.
        height: Nodes along y; node = y * width + x.
        channels: Virtual channels of a port.
        buffer_flits: Flits of each.
        routing_cycles: Cycles of route computation; 0 is look-ahead.
        speculative: Whether a head asks for switch and channel in one cycle.
        credit_cycles: Cycles of a credit besides its link.
    """

    width: int
    height: int
    channels: int = 4
    buffer_flits: int = 8
    routing_cycles: int = 1
    speculative: bool = False
    credit_cycles: int = 0

    def __post_init__(self) -> None:
        for name, least in (("width", 1), ("height", 1), ("channels", 1), ("buffer_flits", 1), ("routing_cycles", 0)):
            if getattr(self, name) < least:
                raise UserError(f"`{name}` must be >= {least}, got {getattr(self, name)}", where="mesh")
        if self.channels > _MOST_CHANNELS:
            raise UserError(f"`channels` must be <= {_MOST_CHANNELS}, got {self.channels}", where="mesh")
        if self.credit_cycles < 0:
            raise UserError(f"`credit_cycles` must be >= 0, got {self.credit_cycles}", where="mesh")

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.width * self.height

    @property
    def routers(self) -> Routers:
        """The parameters as the compiled routers take them."""
        return Routers(
            self.width, self.nodes, self.channels, self.buffer_flits, self.routing_cycles, self.speculative,
            self.credit_cycles, PORTS, 1, 0, 0,
        )  # fmt: skip

    @property
    def hop_cycles(self) -> int:
        """Cycles a head takes from router to router without contention: its pipeline and the link."""
        return self.routing_cycles + (1 if self.speculative else 2) + 2

    def hops(self, source: int, target: int) -> int:
        """Links between two nodes."""
        x, y = source % self.width - target % self.width, source // self.width - target // self.width
        return abs(x) + abs(y)

    def run(self, traffic: Traffic, *, cycle_limit: int = CYCLE_LIMIT) -> Delivery:
        """Simulate packets.

        Raises:
            UserError: A packet names a node that is not there, or has no flits.
        """
        for name, nodes in (("source", traffic.source), ("target", traffic.target)):
            if len(nodes) and (nodes.min() < 0 or nodes.max() >= self.nodes):
                raise UserError(
                    f"packet `{name}` must be a node below {self.nodes}, got {int(nodes.max())}",
                    where=f"mesh of {self.width} x {self.height}",
                    hint="the mesh is smaller than the fan-out it serves",
                )
        if len(traffic.flits) and traffic.flits.min() < 1:
            raise UserError("a packet must have at least one flit", where="traffic")
        return simulate_mesh(self.routers, traffic, cycle_limit)


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
