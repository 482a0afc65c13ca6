"""Packets on tori, rings, meshes with other routings, and crossbars (rules M102, M116, M117 of many cores)."""

from dataclasses import replace

import numpy as np
import pytest

from codesign.arch.core_network import CoreNetwork
from codesign.arch.many_core_scaling import edge_ports
from codesign.core.errors import UserError
from codesign.scheduling.segments.network_routers import MeshRouters, TableRouters
from codesign.timing.noc.programs import PART, TOGETHER, ProgramRun, run_program
from codesign.timing.noc.state import FINISHED, PERIOD, STUCK, Routers
from tests.unit.arch.test_core_network import EVERY, sixteen
from tests.unit.timing.test_noc_programs import program

Packet = tuple[int, int, tuple[int, ...], int]
"""Which way, source, targets, flits."""

TABLES = [network for network in EVERY if not network.is_plain]
HOP, ENDS = 5, 2
"""Cycles of a router with its link, and of injection (rule M8)."""


def send(on: TableRouters, packets: list[Packet], routers: Routers | None = None) -> ProgramRun:
    made = program([(TOGETHER, -1, 1, 0), (PART, 0, 1, 0)], [[], [p[1:] for p in packets]], [0, 0])
    source, flits = (np.array([p[i] for p in packets], np.int64) for i in (1, 3))
    ports = on.output_ports([p[:3] for p in packets])
    tree = np.arange(len(packets), dtype=np.int64)
    period = on.link[:, :, PERIOD]
    return run_program(routers or on.routers, source, flits, tree, ports, period, made, 1_000_000, on.link)


def random_packets(on: TableRouters, count: int, seed: int) -> list[Packet]:
    """Unicasts and multicasts between cores and ports, of one to eight flits."""
    rng = np.random.default_rng(seed)
    system_nodes = [x * 4 + y for x in range(1, 5) for y in range(4)]
    ports = [port for ports in on.ports for port in ports]
    found: list[Packet] = []
    for _ in range(count):
        source = int(rng.choice(system_nodes + ports))
        others = [n for n in system_nodes if n != source]
        targets = sorted(rng.choice(others, int(rng.integers(1, 5)), replace=False).tolist())
        if source in system_nodes and rng.random() < 0.2:
            targets = [int(rng.choice(ports))]
        found.append((int(rng.integers(on.ways)), source, tuple(targets), int(rng.integers(1, 9))))
    return found


@pytest.mark.parametrize("network", TABLES, ids=lambda n: f"{n.topology} {n.way}")
def test_a_packet_alone_takes_its_hops_and_its_long_links(network: CoreNetwork) -> None:
    on = TableRouters(sixteen(network), 4, 8)
    ports = on.ports[0][0], on.ports[1][-1]
    for source, target in [(4, 5), (4, 19), (11, 6), (ports[0], 10), (16, ports[1]), (4, 16)]:
        way = on.table.way(source, target)
        longer = int((on.table.pitches[way] - 1).sum())
        switches = 1 if on.hub else len(way) + 1
        for flits in (1, 8):
            expected = ENDS + HOP * switches + flits - 1 + longer
            found = send(on, [(0, source, (target,), flits)])
            assert found.status == FINISHED and found.cycles == expected + 1


@pytest.mark.parametrize("network", TABLES, ids=lambda n: f"{n.topology} {n.way}")
def test_random_packets_all_arrive_and_no_flit_is_lost(network: CoreNetwork) -> None:
    """The least buffers that hold a packet and the least channels: a cycle of waiting packets would show."""
    on = TableRouters(sixteen(network), 1, 8)
    for seed in range(2):
        packets = random_packets(on, 700, seed)
        found = send(on, packets)
        assert found.status == FINISHED
        trees = on.output_ports([p[:3] for p in packets])
        branches = sum(((trees >> bit) & 1).sum(axis=1) for bit in range(on.routers.ports))
        assert found.flit_hops == int((branches * np.array([p[3] for p in packets])).sum())


@pytest.mark.parametrize("name", ["ring", "torus"])
def test_without_two_classes_of_channels_packets_block_each_other(name: str) -> None:
    """Six cores in a row that all send two places on, around the end."""
    base = sixteen(CoreNetwork(name))  # type: ignore[arg-type]
    memories = replace(base.memories, ports=edge_ports(6, 1, 2))
    on = TableRouters(replace(base, width=6, height=1, stride=1, memories=memories), 1, 8)
    assert (on.routers.classes, on.routers.channels) == (2, 2)
    packets: list[Packet] = [(0, 1 + i, (1 + (i + 2) % 6,), 8) for _ in range(20) for i in range(6)]
    one = on.routers._replace(classes=1, channels=1)
    assert send(on, packets, one).status == STUCK
    assert send(on, packets).status == FINISHED


def test_a_crossbar_gives_an_output_to_one_packet_after_another() -> None:
    on = TableRouters(sixteen(CoreNetwork("crossbar")), 4, 8)
    near = [9, 10, 13, 14]  # all a pitch from the switch
    alone = ENDS + HOP + 8 - 1 + 1
    apart = [(0, near[i], (near[(i + 1) % 4],), 8) for i in range(4)]
    assert send(on, apart).cycles == alone, "every output has a packet of its own"
    same = [(0, source, (14,), 8) for source in near[:3]]
    assert alone + 16 <= send(on, same).cycles <= alone + 16 + 2 * HOP, "one output, 24 flits"
    assert send(on, [(0, 9, (10, 13, 14), 8)]).cycles == alone, "a flit goes to all targets at once"


@pytest.mark.parametrize(
    ("channels", "buffer_flits", "field"),
    [(0, 8, "virtual_channels"), (13, 8, "virtual_channels"), (4, 0, "buffer_flits")],
)
def test_a_mesh_that_routers_cannot_be_is_refused(channels: int, buffer_flits: int, field: str) -> None:
    plain = next(network for network in EVERY if network.is_plain)
    with pytest.raises(UserError, match=f"`{field}` must be"):
        MeshRouters(sixteen(plain), channels, buffer_flits)
