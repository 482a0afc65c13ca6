"""Packets on trees: equal to the recorded unicast routers, trees by hand, rounds skipped exactly, packets that block each other."""

import json
from dataclasses import replace

import numpy as np
import pytest

from codesign.arch.mesh import MeshLinks
from codesign.core.errors import UserError
from codesign.timing.noc.network import (
    CYCLE_LIMIT,
    path_ports,
    port_flits,
    reduction_steps,
    routers,
    time_transfer,
    transfer_packets,
)
from codesign.timing.noc.state import FINISHED, STUCK, TreeTraffic
from codesign.timing.noc.trees import TreeDelivery, simulate_trees
from experiments.models.traffic_patterns import hop_cycles, make_traffic, makespan_bound
from experiments.models.traffic_patterns import run as run_unicast
from tests.reference_data import supporting_files

FOUR = MeshLinks(4, 4)


def zero_load_cycles(mesh: MeshLinks, hops: int | np.ndarray, flits: int | np.ndarray) -> int | np.ndarray:
    """Cycles from creation to the arrival of the tail in an empty mesh (M8 of `codesign.timing.noc.cycle`)."""
    starved = max(0, 5 + mesh.credit_cycles - mesh.buffer_flits) * ((flits - 1) // mesh.buffer_flits)
    return 2 + hop_cycles(mesh) * (hops + 1) + flits - 1 + starved


def run_trees(mesh: MeshLinks, traffic: TreeTraffic) -> TreeDelivery:
    """Packets on trees through the routers of a mesh."""
    return simulate_trees(routers(mesh), traffic, CYCLE_LIMIT)


def plain(
    width: int, height: int, channels: int, buffer_flits: int, routing_cycles: int, speculative: bool = False
) -> MeshLinks:
    """A mesh whose packets may be longer than a buffer."""
    return MeshLinks(
        width, height, trees=False, virtual_channels=channels, buffer_flits=buffer_flits,
        routing_cycles=routing_cycles, speculative=speculative,
    )  # fmt: skip


@pytest.mark.parametrize("path", supporting_files("noc/traces", "*.json")[:6], ids=lambda p: p.stem)
def test_unicast_packets_arrive_as_in_the_record(path) -> None:  # type: ignore[no-untyped-def]
    trace = json.loads(path.read_text())
    traffic = make_traffic(trace["packets"])
    for run in trace["runs"].values():
        look_ahead = run["pipeline"] == "S2"
        mesh = plain(trace["k"], trace["k"], run["num_vcs"], run["vc_buf_size"], 0 if look_ahead else 1, look_ahead)
        done = run_unicast(mesh, traffic)
        assert done.status == FINISHED
        assert done.arrive.tolist() == run["arrive"]


def test_random_unicast_traffic_arrives_no_earlier_than_in_an_empty_mesh() -> None:
    """Rules M8 and M9."""
    rng = np.random.default_rng(3)
    for case in range(20):
        mesh = plain(4, 3, int(rng.integers(1, 5)), int(rng.integers(4, 9)), int(case % 2), bool(case % 3 == 0))
        count = 200
        rows = np.stack(
            [
                np.sort(rng.integers(0, 300, count)),
                rng.integers(0, 12, count),
                rng.integers(0, 12, count),
                rng.integers(1, 9, count),
            ],
            axis=1,
        )
        traffic = make_traffic(rows)
        done = run_unicast(mesh, traffic)
        assert done.status == FINISHED
        ways = np.abs(traffic.source % 4 - traffic.target % 4) + np.abs(traffic.source // 4 - traffic.target // 4)
        assert (done.arrive >= traffic.created + zero_load_cycles(mesh, ways, traffic.flits)).all()
        assert done.last_arrival >= makespan_bound(mesh, traffic)


def test_a_tree_in_an_empty_mesh_arrives_with_its_farthest_leaf() -> None:
    for speculative in (False, True):
        mesh = plain(4, 4, 4, 8, 0 if speculative else 1, speculative)
        everyone = tuple(range(16))
        traffic = TreeTraffic(
            np.zeros(1, np.int64),
            np.zeros(1, np.int64),
            np.full(1, 5, np.int64),
            np.zeros(1, np.int64),
            path_ports(4, 16, 0, everyone)[None],
            np.zeros(1, np.int64),
            np.full(1, -1, np.int64),
            0,
            0,
            0,
        )
        assert run_trees(mesh, traffic).arrive[0] == zero_load_cycles(mesh, 6, 5)


def test_a_multicast_stream_fills_the_busiest_port() -> None:
    found = time_transfer(FOUR, (tuple(range(16)),), 4096, False)
    assert found.busiest_flits == 4096
    assert 4096 <= found.hold <= 4096 * 1.02
    assert found.flit_hops == 4096 * (15 + 16)  # links of the tree and ejections


def test_reduction_of_a_row_and_of_a_square() -> None:
    assert reduction_steps(4, (0, 1, 2, 3), 0) == [(3, 2), (2, 1), (1, 0), (0, 0)]
    assert reduction_steps(4, (4, 5, 6, 7), 0) == [(7, 6), (6, 5), (5, 4), (4, 0)]
    # 5 and 9 meet at node 4: a node of neither
    assert reduction_steps(4, (5, 8), 0) == [(5, 4), (8, 4), (4, 0)]


def test_sums_wait_for_what_they_add_up() -> None:
    done = run_trees(FOUR, transfer_packets(FOUR, ((0, 1, 2, 3),), 1, True))
    one = zero_load_cycles(FOUR, 1, 1)
    adds = one + 1 + FOUR.add_cycles
    # packets 3 -> 2 -> 1 -> 0, each created when the one before has been added; node 0's own passes its router
    assert list(done.arrive) == [one, adds + one, 2 * adds + one, zero_load_cycles(FOUR, 0, 1)]


@pytest.mark.parametrize("up", [False, True])
@pytest.mark.parametrize("speculative", [False, True])
@pytest.mark.parametrize(
    "groups",
    [
        tuple((n,) for n in range(16)),
        (tuple(range(16)),),
        tuple(tuple(range(4 * y, 4 * y + 4)) for y in range(4)),
        tuple(tuple(range(x, 16, 4)) for x in range(4)),
        ((0, 3, 5), (1, 2), (15, 9, 8, 4)),
    ],
)
@pytest.mark.parametrize("parents", [(0,), (0, 4, 8, 12)])
@pytest.mark.thinned(3)
def test_skipped_rounds_change_nothing(
    up: bool, speculative: bool, groups: tuple[tuple[int, ...], ...], parents: tuple[int, ...]
) -> None:
    links = replace(FOUR, speculative=speculative, routing_cycles=0 if speculative else 1, parents=parents)
    for flits in (333, 640):
        traffic = transfer_packets(links, groups, flits, up)
        skipped = run_trees(links, traffic)
        walked = run_trees(links, traffic._replace(rounds=0))
        assert skipped.status == walked.status == FINISHED
        assert skipped.last_arrival == walked.last_arrival
        assert skipped.flit_hops == walked.flit_hops
        found = time_transfer(links, groups, flits, up)
        assert found.cycles >= found.hold >= found.busiest_flits
        assert port_flits(16, traffic)[:, :5].sum() == walked.flit_hops


def test_long_streams_are_mostly_skipped() -> None:
    found = time_transfer(FOUR, tuple((n,) for n in range(16)), 8 * 4000, False)
    assert found.simulated_hops < 0.1 * found.flit_hops


def test_random_trees_never_get_stuck() -> None:
    """Legal packets fit into a buffer (rule M12): whatever trees cross, all arrive."""
    rng = np.random.default_rng(11)
    for case in range(150):
        mesh = plain(4, 4, int(rng.integers(1, 3)), int(rng.integers(1, 9)), case % 2)
        count = 60
        sources = rng.integers(0, 16, count)
        ports = np.stack(
            [path_ports(4, 16, int(s), tuple(rng.choice(16, int(rng.integers(1, 9)), replace=False))) for s in sources]
        )
        flits = rng.integers(1, mesh.buffer_flits + 1, count)
        traffic = TreeTraffic(
            np.zeros(count, np.int64),
            sources,
            flits,
            np.arange(count),
            ports,
            np.zeros(count, np.int64),
            np.full(count, -1, np.int64),
            0,
            0,
            0,
        )
        done = run_trees(mesh, traffic)
        assert done.status == FINISHED
        assert (done.arrive >= 0).all()


def test_trees_longer_than_a_buffer_can_block_each_other() -> None:
    """What rule M12 forbids: two trees, each with one branch held by the other."""
    rng = np.random.default_rng(0)
    mesh = plain(4, 4, 1, 1, 0)
    stuck = 0
    for _ in range(200):
        count = 12
        sources = rng.integers(0, 16, count)
        ports = np.stack([path_ports(4, 16, int(s), tuple(rng.choice(16, 8, replace=False))) for s in sources])
        traffic = TreeTraffic(
            np.zeros(count, np.int64),
            sources,
            np.full(count, 12, np.int64),
            np.arange(count),
            ports,
            np.zeros(count, np.int64),
            np.full(count, -1, np.int64),
            0,
            0,
            0,
        )
        done = run_trees(mesh, traffic)
        if done.status == STUCK:
            stuck += 1
            assert (done.arrive < 0).sum() >= 2
    assert stuck > 0


def test_packets_that_wait_for_each_other_are_stuck() -> None:
    ports = np.stack([path_ports(2, 4, 0, (1,)), path_ports(2, 4, 1, (0,))])
    traffic = TreeTraffic(
        np.zeros(2, np.int64),
        np.array([0, 1]),
        np.ones(2, np.int64),
        np.array([0, 1]),
        ports,
        np.ones(2, np.int64),
        np.array([1, 0]),
        1,
        0,
        0,
    )
    done = run_trees(MeshLinks(2, 2), traffic)
    assert done.status == STUCK
    assert (done.arrive < 0).all()


def test_bad_meshes() -> None:
    with pytest.raises(UserError, match="packet_flits` must be <= `buffer_flits`"):
        MeshLinks(4, 4, packet_flits=9)
    with pytest.raises(UserError, match="`parents` must be nodes from 0 to 15, got 16"):
        MeshLinks(4, 4, parents=(16,))
    with pytest.raises(UserError, match="`virtual_channels` must be <= 12"):
        MeshLinks(4, 4, virtual_channels=13)
    with pytest.raises(UserError, match="children must sit at nodes below 16"):
        transfer_packets(FOUR, ((3, 16),), 8, False)
    with pytest.raises(UserError, match="at least one flit"):
        transfer_packets(FOUR, ((3,),), 0, False)
