"""Systems derived from others (rules M71 to M74)."""

import math
from dataclasses import replace

import pytest

from codesign.arch.chiplet_cost import money
from codesign.arch.core_network import CoreNetwork
from codesign.arch.many_core import Buffer, Dies
from codesign.arch.many_core_files import load_system, system_names
from codesign.arch.many_core_scaling import (
    architecture_of,
    die_hop_pj,
    edge_ports,
    fitting_stride,
    scaled_buffer,
    with_sizes,
)
from codesign.core.errors import UserError
from codesign.evaluation.system_chips import chips_of, die_architecture, is_closed, one_die


@pytest.mark.parametrize("name", system_names())
def test_areas_of_levels_add_up_to_those_of_the_dies(name: str) -> None:
    system = load_system(name)
    assert architecture_of(system).area_mm2 == pytest.approx(money(system).total_mm2, rel=1e-12)
    assert architecture_of(system).mac_units == system.cores * system.core.macs


@pytest.mark.parametrize("controllers", [1, 2, 4])
def test_ports_are_beside_the_mesh_each_once(controllers: int) -> None:
    ports = edge_ports(4, 6, controllers)
    every = [place for places in ports for place in places]
    assert len(ports) == controllers and len(every) == len(set(every)) == 12
    assert {x for x, _ in every} == {-1, 4} and {y for _, y in every} == set(range(6))
    assert len({len(places) for places in ports}) == 1


def test_gemini_has_the_ports_of_its_file() -> None:
    assert edge_ports(6, 6, 4) == load_system("gemini-72t").memories.ports


def test_wrong_numbers_of_controllers_are_refused() -> None:
    with pytest.raises(UserError, match="must be 1, 2 or 4, got 3"):
        edge_ports(4, 4, 3)
    with pytest.raises(UserError, match="even number of rows, got 3"):
        edge_ports(4, 3, 4)


def test_energies_of_buffers_go_by_the_root_of_their_size() -> None:
    assert scaled_buffer(Buffer(1024, 1.0, 2.0), 4096) == Buffer(4096, 2.0, 4.0)
    assert with_sizes(load_system("gemini-72t"), {"big": 4096}).core.big.bytes == 4096


def test_energies_of_links_between_dies_are_the_tables() -> None:
    assert die_hop_pj("USR", "OS", 12) == load_system("gemini-72t").dies.pj_per_word_hop
    assert die_hop_pj("UCIe", "SI", 7) == pytest.approx(2.4)
    with pytest.raises(UserError, match="unknown interface and package 'XSR OS'"):
        die_hop_pj("XSR", "OS", 12)
    with pytest.raises(UserError, match="known for 12 and 7 nm"):
        die_hop_pj("USR", "OS", 5)


def test_stripes_are_as_wide_as_dies() -> None:
    assert [fitting_stride(6, 2), fitting_stride(6, 1), fitting_stride(5, 1), fitting_stride(6, 6)] == [3, 3, 5, 1]


# ---- dies as chips --------------------------------------------------------------------------------


def test_dies_share_cores_and_memories() -> None:
    system = load_system("gemini-72t")
    die = one_die(system)
    assert (die.width, die.height, die.cores * 2) == (3, 6, system.cores)
    assert die.memories.words_per_cycle_each == 2 * 36
    assert die_architecture(system).mac_units * 2 == system.cores * system.core.macs


def test_chips_have_the_links_between_two_dies() -> None:
    chips = chips_of(load_system("gemini-72t"))
    assert chips.count == 2
    assert chips.link_bytes_per_s == 6 * 16 * 1e9  # six rows of 16 words a cycle
    assert chips.link_latency_s == pytest.approx(6e-9)
    assert math.isclose(chips.link_pj_per_byte, 19.2 + 5 * 3.2)
    assert chips_of(load_system("set-8x8")).count == 1


def test_cores_on_a_ring_are_no_chips_of_a_language_model() -> None:
    with pytest.raises(UserError, match="joined by a mesh or a torus, got a ring of cores"):
        chips_of(replace(load_system("gemini-72t"), network=CoreNetwork("ring")))


@pytest.mark.parametrize(("x", "y", "closed"), [(2, 1, True), (4, 1, False), (2, 2, True), (3, 3, False), (6, 6, True)])
def test_rings_of_neighbours(x: int, y: int, closed: bool) -> None:
    assert is_closed(Dies(x, y)) is closed
    system = load_system("gemini-72t")
    cut = replace(system, width=12, height=12, stride=1, dies=replace(system.dies, x=x, y=y))
    latency = chips_of(cut).link_latency_s * 1e9
    assert latency == pytest.approx((1 if closed else x * y - 1) * max(12 // x, 12 // y))


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ("links", "pj_per_word_hop"),
        ("memories", "pj_per_word"),
        ("dies", "pj_per_word_hop"),
        ("core", "mac_pj"),
    ],
)
def test_energies_are_no_less_than_nothing(part: str, field: str) -> None:
    value = getattr(load_system("simba-36"), part)
    with pytest.raises(UserError, match=f"`{field}` must be >= 0, got -1"):
        replace(value, **{field: -1.0})
