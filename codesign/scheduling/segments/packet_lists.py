"""Packets of the layers of a tree: their trees on the mesh, their order, when DRAMs serve them (rules M102 to M104)."""

from dataclasses import dataclass
from typing import Protocol, final

import numpy as np

from codesign.arch.many_core import ManyCore
from codesign.core.kernel_library import FloatArray, IntArray
from codesign.scheduling.segments.kernels import transfer_list
from codesign.scheduling.segments.transfers import ON_CHIP, Transfer


class MemoryClock(Protocol):
    """When a DRAM serves the packets of a part."""

    def serve(self, words: FloatArray, written: IntArray, transfer: IntArray) -> IntArray:
        """Cycles after its turn begins at which each packet has been served.

        Args:
            words: Of each packet, in the order in which they are served.
            written: 1 for packets that are written.
            transfer: Number of the transfer that each belongs to.
        """


@final
@dataclass(frozen=True)
class SteadyMemory:
    """A DRAM that moves its words at one rate (rule M104).

    Args:
        words_per_cycle: The rate.
    """

    words_per_cycle: int

    def serve(self, words: FloatArray, written: IntArray, transfer: IntArray) -> IntArray:
        """See `MemoryClock`."""
        del written, transfer
        return np.ceil(np.cumsum(words) / self.words_per_cycle - 1e-9).astype(np.int64)


@final
@dataclass(frozen=True)
class Packets:
    """Packets of one run of a layer, in the order in which they are sent.

    Attributes:
        source: Node of each.
        flits: Its length.
        tree: Its tree.
        memory: DRAM that serves it, -1 for none.
        served: Cycles after the DRAM's turn begins.
        reads: 1 where it comes from DRAM.
        busy: Cycles of each DRAM.
        compute: Cycles of the cores.
    """

    source: IntArray
    flits: IntArray
    tree: IntArray
    memory: IntArray
    served: IntArray
    reads: IntArray
    busy: IntArray
    compute: int


@final
class PacketTrees:
    """All trees of packets met so far, by source and targets."""

    def __init__(self, system: ManyCore) -> None:
        self.width, self.height = system.width + 2, system.height
        self.known: dict[tuple[int, ...], int] = {}
        self.router: dict[int, int] = {}
        self.ports = [[self._port(x, y, system.width) for x, y in ports] for ports in system.memories.ports]

    def node(self, site: int) -> int:
        """Node of a site: the mesh of routers is wider by the columns of DRAM ports."""
        x, y = divmod(site, self.height)
        return y * self.width + x

    def _port(self, x: int, y: int, width: int) -> int:
        """Node of a DRAM port: a column beside the mesh, or beside the core at the edge that it is joined to (rule M102)."""
        router = y * self.width + x + 1
        node = router - 1 if x == 0 else router + 1 if x == width - 1 else router
        self.router[node] = router
        return node

    def number(self, source: int, targets: tuple[int, ...]) -> int:
        """Number of a tree of nodes."""
        return self.known.setdefault((source, *targets), len(self.known))

    def output_ports(self) -> IntArray:
        """Trees x nodes, output ports as bits."""
        found = np.zeros((len(self.known), self.width * self.height), np.int64)
        keys = list(self.known)
        source = np.array([key[0] for key in keys], np.int64)
        first = np.cumsum([0, *(len(key) - 1 for key in keys)]).astype(np.int64)
        target = np.array([node for key in keys for node in key[1:]], np.int64)
        beside = np.arange(self.width * self.height)
        for node, router in self.router.items():
            beside[node] = router
        transfer_list.fill_trees(self.width, source, beside[source], first, target, beside[target], found)
        return found


@final
@dataclass(frozen=True)
class _Ways:
    """Packets' ways: one row for each source, group and DRAM of a layer.

    Attributes:
        source: Node.
        flits: All of the way's.
        tree: Number of its tree.
        memory: DRAM, or `ON_CHIP`.
        written: 1 where words go to DRAM.
        words: Of a flit.
    """

    source: IntArray
    flits: IntArray
    tree: IntArray
    memory: IntArray
    written: IntArray
    words: FloatArray


@final
class PacketLists:
    """Makes the packets of layers.

    Args:
        system: The machine.
        memory: When its DRAMs serve packets.
        packet_flits: Most flits of a packet.
    """

    def __init__(self, system: ManyCore, memory: MemoryClock, packet_flits: int) -> None:
        self.trees, self.memory, self.packet_flits = PacketTrees(system), memory, packet_flits
        self.flit_words = system.links.words_per_cycle

    def packets(self, transfers: list[Transfer], compute: int) -> Packets:
        """The packets of one run of a layer (rules M103, M104).

        Args:
            transfers: All of the run's.
            compute: Cycles of its cores.
        """
        busy = np.zeros(len(self.trees.ports), np.int64)
        ways = self._ways(transfers)
        if ways is None:
            none = np.zeros(0, np.int64)
            return Packets(none, none, none, none, none, none, busy, compute)
        room = int((-(-ways.flits // self.packet_flits)).sum())
        way, length = np.zeros(room, np.int64), np.zeros(room, np.int64)
        transfer_list.take_turns(ways.flits, self.packet_flits, way, length)
        memory, served = ways.memory[way], np.zeros(room, np.int64)
        for dram in range(len(busy)):
            mine = np.flatnonzero(memory == dram)
            if len(mine):
                of = way[mine]
                served[mine] = self.memory.serve(ways.words[of] * length[mine], ways.written[of], of)
                busy[dram] = served[mine].max()
        reads = ((memory >= 0) & (ways.written[way] == 0)).astype(np.int64)
        return Packets(ways.source[way], length, ways.tree[way], memory, served, reads, busy, compute)

    def _ways(self, transfers: list[Transfer]) -> _Ways | None:
        """Where flits come from and go to; None where nothing moves."""
        rows: list[tuple[int, int, int, int, int]] = []
        words: list[float] = []
        cursor = [0] * len(self.trees.ports)
        for transfer in transfers:
            nodes = tuple(self.trees.node(site) for site in transfer.cores)
            whole = -(-transfer.words // self.flit_words)
            ways = [(self.trees.node(transfer.sender), nodes, whole)]
            if transfer.dram != ON_CHIP:
                ways = self._port_ways(transfer, nodes, whole, cursor)
            for source, targets, flits in ways:
                tree = self.trees.number(source, targets)
                rows.append((source, flits, tree, transfer.dram, int(transfer.written)))
                words.append(transfer.words / whole)
        if not rows:
            return None
        columns = np.array(rows, np.int64).T.copy()
        return _Ways(columns[0], columns[1], columns[2], columns[3], columns[4], np.array(words))

    def _port_ways(
        self, transfer: Transfer, nodes: tuple[int, ...], whole: int, cursor: list[int]
    ) -> list[tuple[int, tuple[int, ...], int]]:
        """Source, targets and flits through every port of a DRAM: flits take the ports in turn."""
        ports = self.trees.ports[transfer.dram]
        begin, n = cursor[transfer.dram], len(ports)
        cursor[transfer.dram] += whole
        ways = []
        for j, port in enumerate(ports):
            flits = (begin + whole - j + n - 1) // n - (begin - j + n - 1) // n
            if flits:
                ways.append((nodes[0], (port,), flits) if transfer.written else (port, nodes, flits))
        return ways


def joined(parts: list[Packets]) -> Packets:
    """All packets of some parts, one part after another."""

    def column(name: str) -> IntArray:
        return np.concatenate([getattr(part, name) for part in parts]).astype(np.int64)

    busy = np.sum([part.busy for part in parts], axis=0)
    compute = max(part.compute for part in parts)
    source, flits, tree, memory, served, reads = map(column, ("source", "flits", "tree", "memory", "served", "reads"))
    return Packets(source, flits, tree, memory, served, reads, busy, compute)
