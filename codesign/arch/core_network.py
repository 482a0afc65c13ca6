"""Networks between cores: links, and the way from every place to every other.

Places are those of the mesh with a column of DRAM ports on either side: ``(x, y)`` is number ``(x + 1) * height + y`` for x from
-1 to width. A crossbar is one more place, behind all others. Rules of docs/explanation/many-cores.md:

* M111: A torus is a mesh with a link around every side of three cores at least. A ring follows neighbours where it can;
  else one long link closes it. A crossbar is one switch in the middle, joined to every core and to ports beside them.
* M112: A link is as long as its ends are apart, in pitches of the cores. A word pays for every pitch, and for every
  border of dies in the place of a pitch. A link over a border has the bandwidth of links between dies.
* M113: Ways on a torus take the shorter way along each side, those on a ring the shorter way. Of two equal ones it is
  the one that does not wrap around. With ``o1turn`` half of the words go along x first, half along y first.
* M114: A crossbar is on one die. A ring over several dies follows neighbours.
* M115: The ways from a place form a tree, so that the last link of every way says all. A multicast takes the union of
  its ways. The way to a DRAM port leads over the core beside it. A mesh with X-Y routing is counted without a table.
* M116: A packet is late after it has wrapped around in a dimension, and on the second of two ways. Late packets have
  channels of their own, so that no packets wait for each other in a circle.
* M117: In the simulation a link of n pitches takes n - 1 cycles more. A crossbar is one router (`codesign.timing.noc.hub`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Literal

import numpy as np

from codesign.core.errors import UserError, unknown_name
from codesign.core.kernel_library import IntArray

TopologyName = Literal["mesh", "torus", "ring", "crossbar"]
RoutingName = Literal["auto", "xy", "yx", "o1turn", "shortest", "direct"]

ROUTINGS: dict[str, tuple[str, ...]] = {
    "mesh": ("xy", "yx", "o1turn"),
    "torus": ("xy", "yx"),
    "ring": ("shortest",),
    "crossbar": ("direct",),
}
"""What a topology can be routed by; the first is taken for ``auto``."""

LEAST_LOOP = 3
"""Places along a side of a torus from which links wrap around: with two they would double those between neighbours."""


@dataclass(frozen=True)
class CoreNetwork:
    """What joins the cores.

    Args:
        topology: ``mesh``, ``torus``, ``ring`` or ``crossbar``.
        routing: ``xy`` or ``yx`` (mesh, torus), ``o1turn`` (mesh: half of the words each way), ``shortest`` (ring), ``direct``
            (crossbar); ``auto`` is the first that the topology has.
    """

    topology: TopologyName = "mesh"
    routing: RoutingName = "auto"

    def __post_init__(self) -> None:
        if self.topology not in ROUTINGS:
            raise unknown_name("topology", self.topology, ROUTINGS, where="network")
        if self.way not in ROUTINGS[self.topology]:
            known = ", ".join(ROUTINGS[self.topology])
            raise UserError(
                f"a {self.topology} is routed by {known}, got {self.routing!r}", where="network", hint="`routing: auto`"
            )

    @property
    def way(self) -> str:
        """The routing, ``auto`` resolved."""
        return ROUTINGS[self.topology][0] if self.routing == "auto" else self.routing

    @property
    def is_plain(self) -> bool:
        """Whether it is a mesh with X-Y routing, whose ways need no table."""
        return self.topology == "mesh" and self.way == "xy"


@dataclass(frozen=True)
class Grid:
    """Where the places of a system are.

    Args:
        width: Cores along x.
        height: Along y.
        dies_x: Dies along x.
        dies_y: Along y.
        ports: Places ``(x, y)`` of all DRAM ports.
    """

    width: int
    height: int
    dies_x: int
    dies_y: int
    ports: tuple[tuple[int, ...], ...]

    @property
    def places(self) -> int:
        """Places of the mesh and its DRAM columns."""
        return (self.width + 2) * self.height

    def place(self, x: int, y: int) -> int:
        """Number of a place."""
        return (x + 1) * self.height + y

    def where(self, place: int) -> tuple[int, int]:
        """Column and row of a place."""
        return place // self.height - 1, place % self.height

    @property
    def beside(self) -> list[tuple[int, int]]:
        """Ports in the columns beside the cores: place, and that of the core each is joined to."""
        found = dict.fromkeys((x, y) for x, y in self.ports if not 0 <= x < self.width)
        return [(self.place(x, y), self.place(0 if x < 0 else self.width - 1, y)) for x, y in found]

    def borders(self, a: tuple[float, float], b: tuple[float, float]) -> int:
        """Borders of dies between two points, memories being on dies of their own beside several dies (rule M112)."""
        if self.dies_x * self.dies_y == 1:
            return 0
        wide, high = self.width // self.dies_x, self.height // self.dies_y
        return int(abs(a[0] // wide - b[0] // wide) + abs(a[1] // high - b[1] // high))


@dataclass(frozen=True, eq=False)
class LinkTable:
    """All links of a network, and its ways.

    Attributes:
        start: Place that each link leaves.
        end: Place it leads to; -1 for numbers that are no link.
        pitches: Its length: distances of neighbouring cores (rule M112).
        borders: Borders of dies that it crosses.
        before: Last link on the way from a place to another, ways x places x places; -1 for none.
        late: 1 where that link comes after a wrap-around in its dimension, or belongs to the second way (rule M116).
    """

    start: IntArray
    end: IntArray
    pitches: IntArray
    borders: IntArray
    before: IntArray
    late: IntArray

    def way(self, source: int, target: int, which: int = 0) -> list[int]:
        """Links from a place to another, in order."""
        found: list[int] = []
        while target != source:
            found.append(int(self.before[which, source, target]))
            target = int(self.start[found[-1]])
        return found[::-1]

    def pitches_between(self) -> IntArray:
        """Pitches of the way from every place to every other, places x places; of two ways both have as many."""
        last, source = self.before[0], np.arange(self.before.shape[1])[:, None]
        known = last >= 0
        link = np.where(known, last, 0)
        found: IntArray = np.zeros_like(last)
        while known.any():  # one more link of every way
            before, found = found, np.where(known, found[source, self.start[link]] + self.pitches[link], 0)
            if (found == before).all():
                break
        return found


def ring_order(width: int, height: int) -> list[tuple[int, int]]:
    """Cores along a ring (rule M111): of neighbours only where an even number of them stands in two rows and columns at least.

    Rows to and fro without the first column, which leads back; columns where the rows are odd. Else rows to and fro, and one
    long link back.

    >>> ring_order(2, 2)
    [(0, 0), (1, 0), (1, 1), (0, 1)]
    """
    if min(width, height) > 1 and height % 2 == 0:
        found = [(0, 0)]
        for y in range(height):
            row = range(1, width) if y % 2 == 0 else range(width - 1, 0, -1)
            found += [(x, y) for x in row]
        return found + [(0, y) for y in range(height - 1, 0, -1)]
    if min(width, height) > 1 and width % 2 == 0:
        return [(x, y) for y, x in ring_order(height, width)]
    return [(x if y % 2 == 0 else width - 1 - x, y) for y in range(height) for x in range(width)]


def _step(source: int, target: int, size: int, loop: bool) -> int:
    """Direction of the shorter way along a side; of two equal ones that which does not wrap around (rule M113)."""
    ahead = (target - source) % size
    if loop and 2 * ahead != size:
        return 1 if 2 * ahead < size else -1
    return 1 if target > source else -1


class _Builder:
    """Collects links, in pairs of both directions, and ways."""

    def __init__(self, grid: Grid, ways: int, hub: int) -> None:
        self.grid, n = grid, grid.places + hub
        self.number: dict[tuple[int, int], int] = {}
        self.pitches: list[int] = []
        self.borders: list[int] = []
        self.before, self.late = (np.full((ways, n, n), fill, np.int64) for fill in (-1, 0))

    def join(self, a: int, b: int, pitches: int, borders: int) -> None:
        """A link each way."""
        if (a, b) not in self.number:
            for pair in ((a, b), (b, a)):
                self.number[pair] = len(self.number)
                self.pitches.append(pitches)
                self.borders.append(borders)

    def join_places(self, a: tuple[int, int], b: tuple[int, int]) -> None:
        """A straight link between two places."""
        length = abs(a[0] - b[0]) + abs(a[1] - b[1])
        self.join(self.grid.place(*a), self.grid.place(*b), length, self.grid.borders(a, b))

    def ways(self, which: int, cores: list[int], previous: Callable[[int, int], tuple[int, int]]) -> None:
        """Ways between all cores; `previous` gives the place before a target, and whether the link to it is late."""
        for source in cores:
            for target in cores:
                if target != source:
                    place, late = previous(source, target)
                    self.before[which, source, target] = self.number[place, target]
                    self.late[which, source, target] = late

    def attach_ports(self) -> None:
        """Ports beside the cores: the way leads over the core that each is joined to."""
        for port, core in self.grid.beside:
            self.join_places(self.grid.where(port), self.grid.where(core))
        for port, core in self.grid.beside:
            for which in range(len(self.before)):
                self.before[which, port], self.late[which, port] = self.before[which, core], self.late[which, core]
                self.before[which, port, core], self.late[which, port, core] = self.number[port, core], which
        real = sorted({core for pair in self.number for core in pair})
        for port, core in self.grid.beside:
            self.before[:, real, port] = self.number[core, port]
            self.before[:, port, port] = -1
            self.late[:, :, port] = np.arange(len(self.before))[:, None]

    def table(self) -> LinkTable:
        """What was collected."""
        ends = np.array(list(self.number), np.int64).reshape(-1, 2)
        pitches, borders = np.array(self.pitches, np.int64), np.array(self.borders, np.int64)
        return LinkTable(ends[:, 0].copy(), ends[:, 1].copy(), pitches, borders, self.before, self.late)


def _grid_links(grid: Grid, network: CoreNetwork) -> LinkTable:
    """Meshes and tori, dimension by dimension (rules M111, M113)."""
    loops = [network.topology == "torus" and size >= LEAST_LOOP for size in (grid.width, grid.height)]
    orders = {"xy": [0], "yx": [1], "o1turn": [0, 1]}[network.way]
    sizes = (grid.width, grid.height)
    made = _Builder(grid, len(orders), 0)
    for x in range(grid.width):
        for y in range(grid.height):
            for at in ((x + 1, y), (x, y + 1)):
                if at[0] < grid.width and at[1] < grid.height:
                    made.join_places((x, y), at)
    if loops[0]:
        for y in range(grid.height):
            made.join_places((grid.width - 1, y), (0, y))
    if loops[1]:
        for x in range(grid.width):
            made.join_places((x, grid.height - 1), (x, 0))
    cores = [grid.place(x, y) for x in range(grid.width) for y in range(grid.height)]
    for which, first in enumerate(orders):

        def previous(source: int, target: int, first: int = first, which: int = which) -> tuple[int, int]:
            a, b = grid.where(source), list(grid.where(target))
            axis = 1 - first if a[1 - first] != b[1 - first] else first
            step = _step(a[axis], b[axis], sizes[axis], loops[axis])
            late = (b[axis] - a[axis]) * step < 0
            b[axis] = (b[axis] - step) % sizes[axis]
            return grid.place(b[0], b[1]), max(int(late), which)

        made.ways(which, cores, previous)
    made.attach_ports()
    return made.table()


def _ring_links(grid: Grid) -> LinkTable:
    """A ring, the shorter way (rules M111, M113)."""
    order = ring_order(grid.width, grid.height)
    n = len(order)
    made = _Builder(grid, 1, 0)
    for i in range(n if n >= LEAST_LOOP else n - 1):
        made.join_places(order[i], order[(i + 1) % n])
    cores = [grid.place(x, y) for x, y in order]
    at = {core: i for i, core in enumerate(cores)}

    def previous(source: int, target: int) -> tuple[int, int]:
        a, b = at[source], at[target]
        step = _step(a, b, n, n >= LEAST_LOOP)
        return cores[(b - step) % n], int((b - a) * step < 0)

    made.ways(0, cores, previous)
    made.attach_ports()
    return made.table()


def _crossbar_links(grid: Grid) -> LinkTable:
    """One switch in the middle, with a link to and from every core and every port beside them (rule M111)."""
    hub = grid.places
    made = _Builder(grid, 1, 1)
    joined = [grid.place(x, y) for x in range(grid.width) for y in range(grid.height)]
    joined += [port for port, _ in grid.beside]
    for place in joined:
        x, y = grid.where(place)
        made.join(place, hub, max(1, ceil(abs(x - (grid.width - 1) / 2) + abs(y - (grid.height - 1) / 2))), 0)
    made.ways(0, [hub, *joined], lambda source, target: (source if hub in (source, target) else hub, 0))
    return made.table()


@lru_cache(maxsize=64)
def link_table(network: CoreNetwork, grid: Grid) -> LinkTable:
    """Links and ways of a network.

    >>> ring = link_table(CoreNetwork("ring"), Grid(2, 2, 1, 1, ()))
    >>> len(ring.start), len(ring.way(2, 5))
    (8, 2)
    """
    if network.topology == "ring":
        return _ring_links(grid)
    return _crossbar_links(grid) if network.topology == "crossbar" else _grid_links(grid, network)


def check_network(network: CoreNetwork, grid: Grid, where: str) -> None:
    """Refuse networks that several dies do not have (rule M114).

    Raises:
        UserError: A crossbar on several dies, or a ring that would not follow neighbours.
    """
    if grid.dies_x * grid.dies_y == 1:
        return
    if network.topology == "crossbar":
        raise UserError(
            f"a crossbar is one switch on one die, got {grid.dies_x} x {grid.dies_y} dies",
            where=where,
            hint="`dies: {x: 1, y: 1}`, or a mesh, torus or ring",
        )
    odd = grid.width * grid.height % 2 or min(grid.width, grid.height) == 1
    if network.topology == "ring" and odd and grid.width * grid.height >= LEAST_LOOP:
        raise UserError(
            f"a ring over several dies follows neighbours, and {grid.width} x {grid.height} cores have no such ring",
            where=where,
            hint="an even number of cores in two rows and columns at least, or one die",
        )
