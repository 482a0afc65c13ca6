"""Trees of segments on the routers of the mesh and the memories' queues.

* M101: Every transfer is one sender's words (M17 to M25, mended) to one group of cores, or a core's words to DRAM.
* M102: A packet follows the tree of ways to its group. A DRAM port is a node beside its core. No two packets
  block each other for good.
* M103: A flit is the words of a link in a cycle; a packet has eight at most. Transfers of a layer take turns, a
  packet each. The flits of a DRAM take its ports in turn.
* M104: A DRAM serves one layer after another at a steady rate. A packet enters the mesh when it has been served.
* M105: A link between dies takes a flit in as many cycles as its words need. None is faster than the links on a die.
* M106: A layer's cores compute while its words move. It ends when its cores have computed, its packets have arrived
  and its DRAMs have served it.
* M107: Children of a cut in space run side by side in steps, which begin when all children of the one before have
  ended.
* M108: A step begins with an empty mesh, so equal steps are simulated once.
* M109: A DRAM may be a device with banks and rows. Transfers lie one after another, each from the start of a burst.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from codesign.core.errors import UserError
from codesign.core.kernel_library import FloatArray
from codesign.scheduling.segments.evaluate import Evaluation, Evaluator
from codesign.scheduling.segments.kernels import core_mapper
from codesign.scheduling.segments.kernels.fabric import dram_cycles, link_cycles
from codesign.scheduling.segments.kernels.tree import LEAF, SPACE, TIME
from codesign.scheduling.segments.network_routers import routers_of
from codesign.scheduling.segments.packet_lists import MemoryClock, PacketLists, Packets, SteadyMemory, joined
from codesign.scheduling.segments.segment_tree import children_of, leaf_nodes
from codesign.scheduling.segments.transfers import TransferLists
from codesign.timing.noc import programs
from codesign.timing.noc.programs import Program
from codesign.timing.noc.state import FINISHED, PERIOD, STUCK

CYCLE_LIMIT = 200_000_000
"""Cycles of one step after which its simulation is given up."""

PACKET_FLITS = 8
KINDS = {SPACE: programs.TOGETHER, TIME: programs.IN_TURN}


@final
@dataclass(frozen=True)
class SegmentTime:
    """A segment as it was simulated.

    Attributes:
        time: Of one run, in the unit of the tree's rows.
        free: The same steps without contention: of each the longest running child, by the analytical figures.
        steps: Steps of which no two have the same running parts.
    """

    time: int
    free: int
    steps: int


@final
@dataclass(frozen=True)
class Simulated:
    """A tree as it was simulated.

    Attributes:
        time: Of the whole batch.
        free: The same steps without contention.
        energy_pj: That of the evaluation, serial links drawing power for as long as the tree takes.
        segments: Of one run of each.
        flit_hops: Flits that routers sent in the steps simulated.
        complete: Whether no step was given up.
    """

    time: int
    free: int
    energy_pj: float
    segments: tuple[SegmentTime, ...]
    flit_hops: int
    complete: bool

    @property
    def edp(self) -> float:
        """Energy x time."""
        return self.energy_pj * self.time


@final
class ContentionSimulator:
    """Simulates the trees of one evaluator.

    Args:
        evaluator: Network, system and rules.
        memory: When a DRAM serves packets; None for a steady rate.
        channels: Virtual channels of a port.
        buffer_flits: Flits of each; a packet has as many at most, and eight at most.
    """

    def __init__(
        self, evaluator: Evaluator, memory: MemoryClock | None = None, channels: int = 4, buffer_flits: int = 8
    ) -> None:
        system = evaluator.system
        self.of = evaluator
        steady = memory or SteadyMemory(system.memories.words_per_cycle_each)
        self.routers = routers_of(system, channels, buffer_flits)
        self.lists = PacketLists(self.routers, system.links.words_per_cycle, steady, min(PACKET_FLITS, buffer_flits))

    def simulate(self, found: Evaluation) -> Simulated:
        """Time of a tree on routers and DRAM queues (rules M106 to M108).

        Raises:
            UserError: Packets block each other for good; rule M102 excludes it.
        """
        run = _Run(self, found)
        segments = [run.segment(node) for node in children_of(found.arrays, 0)]
        groups = int(found.arrays.groups[0])
        time, free = (groups * sum(getattr(s, name) for s in segments) for name in ("time", "free"))
        energy = stretched_pj(self.of, found, time)
        return Simulated(time, free, energy, tuple(segments), run.flit_hops, run.complete)


def stretched_pj(evaluator: Evaluator, found: Evaluation, time: int) -> float:
    """Energy of a tree that takes another time: serial links between dies draw power for as long as it takes."""
    return float(found.rows[0].energy_pj + evaluator.system.dies.lane_pj * (time - found.rows[0].time))


@final
class _Run:
    """The simulation of one tree: parts of its leaves, times of its nodes."""

    def __init__(self, simulator: ContentionSimulator, found: Evaluation) -> None:
        self.by, self.found, self.shape = simulator, found, found.arrays
        lists = TransferLists(simulator.of, found)
        self.parts = {
            i: simulator.lists.packets(lists.of_leaf(leaf), _core_cycles(found.rows[i].core))
            for i, leaf in leaf_nodes(found.root)
        }
        self.ports = simulator.routers.output_ports(list(simulator.lists.trees))
        self.flit_hops, self.complete, self.steps = 0, True, 0

    def segment(self, node: int) -> SegmentTime:
        """Time of one run of a child of the root."""
        self.steps = 0
        cycles = self._alone(node)
        ghz = self.by.of.system.clock_ghz
        return SegmentTime(int(cycles / ghz), max(self._free(node), int(self._moved(node) / ghz)), self.steps)

    def _moved(self, node: int) -> int:
        """Cycles of the busiest DRAM or link of a segment."""
        mesh, counter = self.by.of.fabric, self.found.rows[node].counter
        return max(dram_cycles(mesh, counter), link_cycles(mesh, counter))

    def _free(self, node: int) -> int:
        """Time of a node's steps without contention."""
        if self.shape.kind[node] == LEAF:
            return self.found.rows[node].time
        total = 0
        for running, times in self._steps(node):
            total += times * max(self._free(child) for child in running)
        return total

    def _steps(self, node: int) -> list[tuple[tuple[int, ...], int]]:
        """Which children run together, and in how many steps of one run of a cut."""
        shape, groups = self.shape, int(self.shape.groups[node])
        children = children_of(shape, node)
        if shape.kind[node] != SPACE:
            return [((child,), groups) for child in children]
        found: dict[tuple[int, ...], int] = {}
        for step in range(groups + int(shape.stages[node])):
            running = tuple(c for c in children if shape.stage[c] <= step < shape.stage[c] + groups)
            found[running] = found.get(running, 0) + 1
        return list(found.items())

    def _alone(self, node: int) -> int:
        """Cycles of a node while nothing else runs: equal steps are simulated once (rule M108)."""
        if self.shape.kind[node] == LEAF:
            return self._together((node,))
        total = 0
        for running, times in self._steps(node):
            total += times * (self._alone(running[0]) if len(running) == 1 else self._together(running))
        return total

    def _together(self, running: tuple[int, ...]) -> int:
        """Cycles of one step in which some children of a cut run side by side, from an empty mesh."""
        program, whole = self._program(running)
        network = self.by.routers
        kept, tree = np.unique(whole.tree, return_inverse=True)
        run = programs.run_program(
            network.routers,
            whole.source,
            whole.flits,
            tree.astype(np.int64),
            self.ports[kept],
            network.link[:, :, PERIOD],
            program,
            CYCLE_LIMIT,
            network.link,
        )
        if run.status == STUCK:
            raise UserError("packets block each other", where=f"system {self.by.of.system.name!r}")
        self.flit_hops += run.flit_hops
        self.complete = self.complete and run.status == FINISHED
        self.steps += 1
        return run.cycles

    def _program(self, running: tuple[int, ...]) -> tuple[Program, Packets]:
        """Nodes of a step: a whole of one group and one stage over the children that run."""
        shape = self.shape
        nodes = [-1]
        for child in running:
            last = child
            while last + 1 < len(shape.kind) and shape.leaf_first[last + 1] < shape.leaf_past[child]:
                last += 1
            nodes += range(child, last + 1)
        place = {node: i for i, node in enumerate(nodes)}
        n = len(nodes)
        kind, parent, first, following = (np.full(n, -1, np.int64) for _ in range(4))
        groups, stage, stages, compute, counts = (np.zeros(n, np.int64) for _ in range(5))
        kind[0], first[0], groups[0] = programs.TOGETHER, 1, 1
        parts = [self.parts[node] for node in nodes if node in self.parts]
        busy = np.zeros((n, self.by.lists.drams), np.int64)
        for i, node in enumerate(nodes[1:], 1):
            inside, leaf = node not in running, shape.kind[node] == LEAF
            kind[i] = programs.PART if leaf else KINDS[int(shape.kind[node])]
            parent[i] = place[int(shape.parent[node])] if inside else 0
            after = int(shape.next[node]) if inside else _after(running, node)
            following[i] = place[after] if after >= 0 else -1
            first[i] = -1 if leaf else place[int(shape.first[node])]
            groups[i], stages[i] = shape.groups[node], shape.stages[node]
            stage[i] = shape.stage[node] if inside else 0
            if leaf:
                part = self.parts[node]
                counts[i], compute[i], busy[i] = len(part.source), part.compute, part.busy
        whole = joined(parts)
        begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        found = Program(
            kind,
            parent,
            first,
            following,
            groups,
            stage,
            stages,
            compute,
            begins,
            whole.memory,
            whole.served,
            whole.reads,
            busy,
        )
        return found, whole


def _after(running: tuple[int, ...], node: int) -> int:
    at = running.index(node)
    return running[at + 1] if at + 1 < len(running) else -1


def _core_cycles(core: FloatArray | None) -> int:
    return 0 if core is None else int(core[core_mapper.CYCLES])
