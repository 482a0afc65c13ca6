"""Programs of parts on a mesh: alone, one after another, in steps, side by side (rules M101 to M107)."""

from itertools import pairwise

import numpy as np
import pytest

from codesign.arch.mesh import MeshLinks
from codesign.timing.noc.network import path_ports, routers
from codesign.timing.noc.programs import IN_TURN, PART, TOGETHER, Program, ProgramRun, run_program
from codesign.timing.noc.state import FINISHED, LINK_TICKS, TreeTraffic
from tests.unit.timing.test_mesh_trees import run_trees, zero_load_cycles

MESH, NODES = MeshLinks(3, 2), 6
Packets = list[tuple[int, tuple[int, ...], int]]
"""Source, targets, flits."""


def program(
    nodes: list[tuple[int, int, int, int]], packets: list[Packets], compute: list[int], memory: int = -1, rate: int = 1
) -> Program:
    """A program from kind, parent, groups and stage of each node in preorder."""
    kind, parent, groups, stage = (np.array(column, np.int64) for column in zip(*nodes, strict=True))
    n = len(nodes)
    first, following, stages = np.full(n, -1), np.full(n, -1), np.zeros(n, np.int64)
    for i in range(n):
        children = [j for j in range(n) if parent[j] == i]
        if children:
            first[i], stages[i] = children[0], max(stage[j] for j in children)
        for a, b in pairwise(children):
            following[a] = b
    counts = [len(p) for p in packets]
    total = sum(counts)
    flits = np.array([f for p in packets for _, _, f in p], np.int64)
    served = np.concatenate([np.cumsum([f for _, _, f in p]) * rate for p in packets]).astype(np.int64)
    busy = np.zeros((n, 1), np.int64)
    if memory >= 0:
        busy[:, 0] = [sum(f for _, _, f in p) * rate for p in packets]
    packet_first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    column = np.full(total, memory, np.int64)
    assert len(flits) == total
    return Program(
        kind, parent, first, following, groups, stage, stages, np.array(compute, np.int64), packet_first, column, served,
        (column >= 0).astype(np.int64), busy,
    )  # fmt: skip


def run(made: Program, packets: list[Packets], period: np.ndarray | None = None) -> ProgramRun:
    flat = [p for part in packets for p in part]
    ports = np.stack([path_ports(MESH.width, NODES, s, targets) for s, targets, _ in flat])
    source, flits = np.array([s for s, _, _ in flat], np.int64), np.array([f for _, _, f in flat], np.int64)
    full = np.full((NODES, 5), LINK_TICKS, np.int64) if period is None else period
    return run_program(routers(MESH), source, flits, np.arange(len(flat), dtype=np.int64), ports, full, made, 100_000)


def alone(packets: Packets) -> int:
    """Last arrival of packets that are there from the first cycle, by the simulator of trees."""
    ports = np.stack([path_ports(MESH.width, NODES, s, targets) for s, targets, _ in packets])
    n = len(packets)
    zero, nobody = np.zeros(n, np.int64), np.full(n, -1, np.int64)
    source, flits = np.array([p[0] for p in packets], np.int64), np.array([p[2] for p in packets], np.int64)
    traffic = TreeTraffic(zero, source, flits, np.arange(n, dtype=np.int64), ports, zero, nobody, 0, 0, 0)
    return run_trees(MESH, traffic).last_arrival


CROWD: Packets = [(0, (2,), 8), (0, (5, 3), 8), (1, (5,), 4), (3, (2, 5), 6), (4, (0,), 8), (0, (1,), 1)]


def test_a_part_alone_takes_as_long_as_its_packets_on_trees() -> None:
    found = run(program([(TOGETHER, -1, 1, 0), (PART, 0, 1, 0)], [[], CROWD], [0, 0]), [[], CROWD])
    assert found.status == FINISHED
    assert found.cycles == alone(CROWD) + 1


def test_a_part_that_computes_longer_than_its_packets_travel() -> None:
    one: Packets = [(0, (1,), 3)]
    assert zero_load_cycles(MESH, 1, 3) == 14
    for compute, cycles in ((0, 15), (14, 15), (15, 15), (40, 40)):
        found = run(program([(TOGETHER, -1, 1, 0), (PART, 0, 1, 0)], [[], one], [0, compute]), [[], one])
        assert found.cycles == cycles


def test_steps_of_a_pipeline_wait_for_the_slowest_part() -> None:
    first: Packets = [(0, (2, 5), 4)]
    second: Packets = [(4, (1,), 4)]
    nodes = [(TOGETHER, -1, 3, 0), (PART, 0, 1, 0), (PART, 0, 1, 1)]
    found = run(program(nodes, [[], first, second], [0, 10, 100]), [[], first, second])
    # 7 + 5 hops + 3 more flits and the cycle after: the first step; three steps of 100 cycles
    assert found.cycles == (7 + 5 * 3 + 3 + 1) + 3 * 100
    assert found.flit_hops == 3 * 4 * (3 + 2) + 3 * 4 * 2


def test_children_in_turn_do_not_wait_for_those_beside_them() -> None:
    quick: Packets = [(0, (1,), 1)]
    nodes = [(TOGETHER, -1, 1, 0), (IN_TURN, 0, 2, 0), (PART, 1, 1, 0), (PART, 1, 1, 0), (PART, 0, 1, 0)]
    packets: list[Packets] = [[], [], quick, quick, quick]
    found = run(program(nodes, packets, [0, 0, 20, 30, 90]), packets)
    assert found.cycles == 2 * (20 + 30)
    assert found.longest.tolist() == [0, 0, 20, 30, 90]


@pytest.mark.parametrize("rate", [1, 3])
def test_a_memory_serves_one_part_after_another(rate: int) -> None:
    many: Packets = [(0, (1,), 8)] * 6
    nodes = [(TOGETHER, -1, 1, 0), (PART, 0, 1, 0), (PART, 0, 1, 0)]
    packets: list[Packets] = [[], many, many]
    found = run(program(nodes, packets, [0, 0, 0], memory=0, rate=rate), packets)
    served = 2 * 6 * 8 * rate
    assert found.cycles == served + zero_load_cycles(MESH, 1, 8) + 1


def test_a_slow_link_takes_a_flit_every_period() -> None:
    one: Packets = [(0, (2,), 8)]
    made = program([(TOGETHER, -1, 1, 0), (PART, 0, 1, 0)], [[], one], [0, 0])
    period = np.full((NODES, 5), LINK_TICKS, np.int64)
    full = run(made, [[], one], period).cycles
    # seven flits follow the head, which waits two cycles in the last router while they catch up
    cases = ((2 * LINK_TICKS, 7 - 2), (4 * LINK_TICKS, 21 - 2), (3 * LINK_TICKS // 2, 4 - 2), (999 * LINK_TICKS, 6984))
    for ticks, more in cases:
        period[1, 0] = ticks
        assert run(made, [[], one], period).cycles == full + more
    period[1, 0], period[3, 0] = LINK_TICKS, 4 * LINK_TICKS
    assert run(made, [[], one], period).cycles == full, "another link"
