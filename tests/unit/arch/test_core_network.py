"""Networks between cores: links, ways, what is refused (rules M111 to M116 of many cores)."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codesign.arch.chiplet_cost import die_edges, money, router_ports, shared_network_um2
from codesign.arch.core_network import ROUTINGS, CoreNetwork, Grid, LinkTable, link_table, ring_order
from codesign.arch.many_core import ManyCore
from codesign.arch.many_core_files import load_system
from codesign.arch.many_core_scaling import edge_ports
from codesign.core.errors import UserError
from codesign.core.specs import spec_from_json, spec_to_json

EVERY = [CoreNetwork(name, way) for name, ways in ROUTINGS.items() for way in ways]  # type: ignore[arg-type]
PORTS = ((-1, 0), (-1, 2), (5, 1))


def sixteen(network: CoreNetwork, dies: tuple[int, int] = (1, 1)) -> ManyCore:
    """4 x 4 of Gemini's cores with one controller a side."""
    base = load_system("gemini-72t")
    memories = replace(base.memories, ports=edge_ports(4, 4, 2))
    dies_of = replace(base.dies, x=dies[0], y=dies[1])
    return replace(base, name="sixteen", width=4, height=4, stride=2, dies=dies_of, memories=memories, network=network)


def ends(table: LinkTable) -> set[tuple[int, int]]:
    return {(int(a), int(b)) for a, b in zip(table.start, table.end, strict=True)}


@pytest.mark.parametrize("network", EVERY, ids=lambda n: f"{n.topology} {n.way}")
def test_ways_follow_links_and_begin_alike(network: CoreNetwork) -> None:
    """Every way to the last place but one is the way to that place, so that ways from a place are a tree."""
    grid = Grid(5, 3, 1, 1, PORTS)
    table = link_table(network, grid)
    assert all((b, a) in ends(table) for a, b in ends(table)), "both directions"
    real = [grid.place(x, y) for x in range(5) for y in range(3)] + [port for port, _ in grid.beside]
    for source in real:
        for target in real:
            for which in range(len(table.before)):
                way = table.way(source, target, which)
                at = source
                for link in way:
                    assert table.start[link] == at
                    at = int(table.end[link])
                assert at == target
                assert not way or table.way(source, int(table.start[way[-1]]), which) == way[:-1]


def test_links_and_longest_ways_of_each_topology() -> None:
    grid = Grid(4, 4, 1, 1, ())
    counts = {"mesh": (48, 6), "torus": (64, 4), "ring": (32, 8), "crossbar": (32, 2)}
    cores = [grid.place(x, y) for x in range(4) for y in range(4)]
    for topology, (links, longest) in counts.items():
        table = link_table(CoreNetwork(topology), grid)  # type: ignore[arg-type]
        assert len(table.start) == links
        assert max(len(table.way(a, b)) for a in cores for b in cores) == longest


def test_wraparound_links_are_as_long_as_the_way_that_they_spare() -> None:
    table = link_table(CoreNetwork("torus"), Grid(4, 3, 2, 1, ()))
    long = np.flatnonzero(table.pitches > 1)
    assert sorted(zip(table.pitches[long].tolist(), table.borders[long].tolist(), strict=True)) == (
        [(2, 0)] * 8 + [(3, 1)] * 6
    )
    small = link_table(CoreNetwork("torus"), Grid(2, 2, 1, 1, ()))
    assert ends(small) == ends(link_table(CoreNetwork("mesh"), Grid(2, 2, 1, 1, ())))


@pytest.mark.parametrize(("width", "height"), [(2, 2), (4, 4), (5, 4), (4, 3), (3, 3), (6, 1), (1, 1)])
def test_a_ring_follows_neighbours_where_there_is_such_a_ring(width: int, height: int) -> None:
    order = ring_order(width, height)
    assert sorted(order) == [(x, y) for x in range(width) for y in range(height)]
    steps = [abs(a[0] - b[0]) + abs(a[1] - b[1]) for a, b in zip(order, [*order[1:], order[0]], strict=True) if a != b]
    closed = min(width, height) > 1 and width * height % 2 == 0
    assert sorted(steps)[:-1] == [1] * (len(steps) - 1 if steps else 0)
    assert not steps or (max(steps) == 1) is closed


def test_costs_follow_ports_switches_and_long_wires() -> None:
    mesh, torus, ring, crossbar = (sixteen(CoreNetwork(name)) for name in ("mesh", "torus", "ring", "crossbar"))  # type: ignore[arg-type]
    assert [router_ports(system) for system in (mesh, torus, ring, crossbar)] == [5, 6, 4, 0]
    assert shared_network_um2(mesh) == shared_network_um2(ring) == 0.0 < shared_network_um2(torus)
    assert money(ring).overall_usd < money(mesh).overall_usd < money(torus).overall_usd < money(crossbar).overall_usd
    on_two = [die_edges(sixteen(CoreNetwork(name), (2, 1))) for name in ("mesh", "torus", "ring")]  # type: ignore[arg-type]
    assert on_two == [8, 12, 8], "of a torus, links that wrap around cross the border too"


# ---- files and bad input ---------------------------------------------------------------------------


def test_a_network_is_a_field_of_a_file(tmp_path: Path) -> None:
    system = sixteen(CoreNetwork("torus", "yx"))
    assert spec_from_json(ManyCore, spec_to_json(system), "file") == system
    assert load_system("set-8x8").network == CoreNetwork("mesh", "auto")
    with pytest.raises(UserError, match="unknown `topology` 'tours'"):
        spec_from_json(ManyCore, {**spec_to_json(system), "network": {"topology": "tours"}}, "file")


@pytest.mark.parametrize(("topology", "routing"), [("ring", "xy"), ("torus", "o1turn"), ("crossbar", "shortest")])
def test_a_routing_that_a_topology_has_not_is_refused(topology: str, routing: str) -> None:
    with pytest.raises(UserError, match=f"a {topology} is routed by .*, got '{routing}'"):
        CoreNetwork(topology, routing)  # type: ignore[arg-type]


def test_networks_that_several_dies_have_not_are_refused() -> None:
    with pytest.raises(UserError, match="a crossbar is one switch on one die, got 2 x 1 dies"):
        sixteen(CoreNetwork("crossbar"), (2, 1))
    base = load_system("gemini-72t")
    with pytest.raises(UserError, match="3 x 3 cores have no such ring"):
        replace(
            base, width=3, height=3, stride=1, dies=replace(base.dies, x=3), network=CoreNetwork("ring"),
            memories=replace(base.memories, ports=edge_ports(3, 3, 2)),
        )  # fmt: skip
