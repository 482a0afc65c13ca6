"""A system's network as routers: nodes, ports, links, and trees of packets (rules M102, M105, M116, M117 of many cores)."""

from math import ceil
from typing import final

import numpy as np

from codesign.arch.core_network import LinkTable
from codesign.arch.many_core import ManyCore
from codesign.arch.mesh import MeshLinks
from codesign.core.kernel_library import IntArray
from codesign.cost.mesh import LOCAL
from codesign.cost.mesh import PORTS as LEAST_PORTS
from codesign.scheduling.segments.kernels import transfer_list
from codesign.scheduling.segments.system_arrays import links_of
from codesign.timing.noc.network import routers
from codesign.timing.noc.state import BACK, DELAY, LINK_TICKS, PERIOD, TO, Routers, mesh_links

TreeKey = tuple[int, int, tuple[int, ...]]
"""Which of two ways, source, targets."""


def _slow_ticks(system: ManyCore) -> int:
    """Ticks between flits of a link between dies (rule M105)."""
    return max(LINK_TICKS, ceil(LINK_TICKS * system.links.words_per_cycle / system.dies.words_per_cycle))


def _node_beside(x: int, width: int) -> int:
    """Columns from a DRAM port to its node: beside the core at the edge that it is joined to, or none (rule M102)."""
    return -1 if x == 0 else 1 if x == width - 1 else 0


@final
class MeshRouters:
    """A mesh with X-Y routing, wider by the columns of DRAM ports.

    Args:
        system: The machine.
        channels: Virtual channels of a port.
        buffer_flits: Flits of each.
    """

    ways = 1

    def __init__(self, system: ManyCore, channels: int, buffer_flits: int) -> None:
        self.width, self.height = system.width + 2, system.height
        links = MeshLinks(self.width, self.height, trees=False, virtual_channels=channels, buffer_flits=buffer_flits)
        self.routers = routers(links)
        self.router: dict[int, int] = {}
        self.ports = [[self._port(x, y, system.width) for x, y in ports] for ports in system.memories.ports]
        self.link = mesh_links(self.width, self.width * self.height)
        table = links_of(system)
        for link in np.flatnonzero(table.borders).tolist():
            self.link[self.node(link // 4), link % 4, PERIOD] = _slow_ticks(system)

    def node(self, site: int) -> int:
        """Node of a site."""
        x, y = divmod(site, self.height)
        return y * self.width + x

    def _port(self, x: int, y: int, width: int) -> int:
        router = y * self.width + x + 1
        node = router + _node_beside(x, width)
        self.router[node] = router
        return node

    def output_ports(self, trees: list[TreeKey]) -> IntArray:
        """Trees x nodes, output ports as bits."""
        found = np.zeros((len(trees), self.width * self.height), np.int64)
        source, first, target, _ = tree_columns(trees)
        beside = np.arange(self.width * self.height)
        for node, router in self.router.items():
            beside[node] = router
        transfer_list.fill_trees(self.width, source, beside[source], first, target, beside[target], found)
        return found


@final
class TableRouters:
    """Routers of a network that has a table of ways; nodes have the numbers of sites.

    Args:
        system: The machine.
        channels: Virtual channels of a port; at least two, for tori, rings and two ways have two classes of them.
        buffer_flits: Flits of each.
    """

    def __init__(self, system: ManyCore, channels: int, buffer_flits: int) -> None:
        self.grid, self.table = system.grid, links_of(system)
        self.ways, self.hub = len(self.table.before), system.network.topology == "crossbar"
        n = self.grid.places
        self.router = np.arange(n)
        self.ports = [[self._port(x, y) for x, y in ports] for ports in system.memories.ports]
        sides = [(node, int(self.router[node])) for node in range(n) if self.router[node] != node]
        joined = self._joined(sides)
        self.out = np.full((n, n), -1, np.int64)
        used = [0] * n
        for a, b, _, _ in joined:
            self.out[a, b] = used[a] + (used[a] >= LOCAL)
            used[a] += 1
        most = max(LEAST_PORTS, int(self.out.max(initial=0)) + 1)
        self.link = np.zeros((n, most, 5), np.int64)
        self.link[:, :, PERIOD] = LINK_TICKS
        for a, b, pitches, borders in joined:
            row = self.link[a, self.out[a, b]]
            row[TO], row[BACK], row[DELAY] = b, self.out[b, a], pitches - 1
            row[PERIOD] = _slow_ticks(system) if borders else LINK_TICKS
        if self.hub:
            self._join_hub(self.table)
        classes = 1 + int(self.table.late.max(initial=0))
        delay = int(self.link[:, :, DELAY].max())
        channels = max(channels, classes)
        self.routers = Routers(
            n, n, channels, buffer_flits, 1, False, 0, most, classes, delay, int(self.hub)
        )  # fmt: skip

    def _port(self, x: int, y: int) -> int:
        """Node of a DRAM port; one at the place of a core at the edge stands beside it."""
        node = self.grid.place(x, y)
        beside = self.grid.place(x + _node_beside(x, self.grid.width), y)
        self.router[beside] = node
        return beside

    def _joined(self, sides: list[tuple[int, int]]) -> list[tuple[int, int, int, int]]:
        """Nodes that a link joins, its pitches, its borders of dies; ports beside cores come last."""
        table, grid, n = self.table, self.grid, self.grid.places
        found = [
            (int(a), int(b), int(p), int(c))
            for a, b, p, c in zip(table.start, table.end, table.pitches, table.borders, strict=True)
            if max(a, b) < n
        ]
        for node, core in sides:
            borders = grid.borders(grid.where(node), grid.where(core))
            found += [(node, core, 1, borders), (core, node, 1, borders)]
        return found

    def _join_hub(self, table: LinkTable) -> None:
        """Delays of the links to and from a crossbar stand at the nodes' own ports."""
        for a, pitches in zip(table.start, table.pitches, strict=True):
            if a < len(self.link):
                self.link[a, LOCAL, DELAY] = pitches - 1

    def node(self, site: int) -> int:
        """Node of a site."""
        return site

    def output_ports(self, trees: list[TreeKey]) -> IntArray:
        """Trees x nodes, output ports as bits, and where a packet is late (rule M116)."""
        found = np.zeros((len(trees), len(self.link)), np.int64)
        source, first, target, which = tree_columns(trees)
        if self.hub:
            found[np.repeat(np.arange(len(trees)), np.diff(first)), target] = 1 << LOCAL
            return found
        transfer_list.fill_table_trees(
            self.table.start,
            self.table.before,
            self.table.late,
            self.out,
            which,
            source,
            self.router[source],
            first,
            target,
            self.router[target],
            found,
        )
        return found


def tree_columns(trees: list[TreeKey]) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Source of each tree, where its targets begin, targets, which way."""
    first = np.cumsum([0, *(len(targets) for _, _, targets in trees)]).astype(np.int64)
    target = np.array([node for _, _, targets in trees for node in targets], np.int64)
    source, which = (np.array([key[i] for key in trees], np.int64) for i in (1, 0))
    return source, first, target, which


def routers_of(system: ManyCore, channels: int, buffer_flits: int) -> MeshRouters | TableRouters:
    """The routers of a system's network."""
    kind = MeshRouters if system.network.is_plain else TableRouters
    return kind(system, channels, buffer_flits)
