"""Packets of the layers of a tree: their trees on the mesh, their order, when DRAMs serve them (rules M102 to M104)."""

from dataclasses import dataclass
from typing import Protocol, final

import numpy as np

from codesign.core.kernel_library import FloatArray, IntArray
from codesign.scheduling.segments.kernels import transfer_list
from codesign.scheduling.segments.network_routers import MeshRouters, TableRouters, TreeKey
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
class PacketLists:
    """Makes the packets of layers.

    Args:
        routers: The network.
        flit_words: Words of a flit.
        memory: When its DRAMs serve packets.
        packet_flits: Most flits of a packet.

    Attributes:
        trees: Numbers of all trees of packets met so far, by way, source and targets.
    """

    def __init__(
        self, routers: MeshRouters | TableRouters, flit_words: int, memory: MemoryClock, packet_flits: int
    ) -> None:
        self.routers, self.memory, self.packet_flits = routers, memory, packet_flits
        self.flit_words, self.drams = flit_words, len(routers.ports)
        self.trees: dict[TreeKey, int] = {}

    def packets(self, transfers: list[Transfer], compute: int) -> Packets:
        """The packets of one run of a layer (rules M103, M104).

        Args:
            transfers: All of the run's.
            compute: Cycles of its cores.
        """
        busy = np.zeros(self.drams, np.int64)
        (source, flits, tree, memory, written), words = self._ways(transfers)
        room = int((-(-flits // self.packet_flits)).sum())
        way, length = np.zeros(room, np.int64), np.zeros(room, np.int64)
        transfer_list.take_turns(flits, self.packet_flits, way, length)
        memory, served = memory[way], np.zeros(room, np.int64)
        for dram in range(len(busy)):
            mine = np.flatnonzero(memory == dram)
            if len(mine):
                of = way[mine]
                served[mine] = self.memory.serve(words[of] * length[mine], written[of], of)
                busy[dram] = served[mine].max()
        reads = ((memory >= 0) & (written[way] == 0)).astype(np.int64)
        return Packets(source[way], length, tree[way], memory, served, reads, busy, compute)

    def _ways(self, transfers: list[Transfer]) -> tuple[IntArray, FloatArray]:
        """Ways of flits, one for each source, group and DRAM, and words of a flit of each.

        The rows are source node, flits, number of the tree, DRAM or `ON_CHIP`, and 1 where words go to DRAM.
        """
        rows: list[tuple[int, int, int, int, int]] = []
        words: list[float] = []
        cursor = [0] * self.drams
        for transfer in transfers:
            nodes = tuple(self.routers.node(site) for site in transfer.cores)
            whole = -(-transfer.words // self.flit_words)
            ways = [(self.routers.node(transfer.sender), nodes, whole)]
            if transfer.dram != ON_CHIP:
                ways = self._port_ways(transfer, nodes, whole, cursor)
            for source, targets, flits in ways:
                for which in range(self.routers.ways):
                    part = (flits + self.routers.ways - 1 - which) // self.routers.ways
                    if part:
                        tree = self.trees.setdefault((which, source, targets), len(self.trees))
                        rows.append((source, part, tree, transfer.dram, int(transfer.written)))
                        words.append(transfer.words / whole)
        return np.array(rows, np.int64).reshape(-1, 5).T.copy(), np.array(words)

    def _port_ways(
        self, transfer: Transfer, nodes: tuple[int, ...], whole: int, cursor: list[int]
    ) -> list[tuple[int, tuple[int, ...], int]]:
        """Source, targets and flits through every port of a DRAM: flits take the ports in turn."""
        ports = self.routers.ports[transfer.dram]
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

    source, flits, tree, memory, served, reads = map(column, ("source", "flits", "tree", "memory", "served", "reads"))
    busy = np.sum([part.busy for part in parts], axis=0)
    return Packets(source, flits, tree, memory, served, reads, busy, max(part.compute for part in parts))
