"""Words on the links of networks, counted by tables in compiled code and by sets of links in Python (rules M21, M22, M112, M115)."""

from dataclasses import replace

import numpy as np
import pytest

from codesign.arch.chiplet_cost import money
from codesign.arch.core_network import CoreNetwork, LinkTable, link_table
from codesign.arch.many_core import CoreKind
from codesign.core.errors import UserError
from codesign.core.kernel_library import IntArray
from codesign.scheduling.segments.bound import bound_of
from codesign.scheduling.segments.contention import ContentionSimulator
from codesign.scheduling.segments.evaluate import MESH_RULES, OWN_RULES, SEMANTICS, Evaluator
from codesign.scheduling.segments.kernels import fabric
from codesign.scheduling.segments.search import SearchSettings, TreeSearch
from codesign.scheduling.segments.system_arrays import fabric_arrays
from codesign.scheduling.segments.tree_files import tree_from_json, tree_to_json
from tests.oracle.test_segments_enumerated import CHAIN
from tests.unit.arch.test_core_network import EVERY, sixteen


def by_sets(table: LinkTable, source: int, targets: list[int], words: int) -> tuple[dict[int, int], int]:
    """Words of every link of the union of all ways, half of them each way where there are two; words x pitches."""
    found: dict[int, int] = {}
    for which in range(len(table.before)):
        part = words // 2 if len(table.before) == 2 and which == 0 else words - words // 2 * (len(table.before) - 1)
        for link in {link for target in targets for link in table.way(source, target, which)}:
            found[link] = found.get(link, 0) + part
    return found, sum(int(table.pitches[link]) * part for link, part in found.items())


TABLED = [network for network in EVERY if not network.is_plain]
CASES = [
    pytest.param(network, dies, id=f"{network.topology} {network.way} on {dies[0] * dies[1]}")
    for network in TABLED
    for dies in ((1, 1), (2, 2))
    if network.topology != "crossbar" or dies == (1, 1)
]


@pytest.mark.parametrize(("network", "dies"), CASES)
def test_words_of_links_are_those_of_the_union_of_ways(network: CoreNetwork, dies: tuple[int, int]) -> None:
    system = sixteen(network, dies)
    table, mesh = link_table(network, system.grid), fabric_arrays(system, fabric.OWN, False, False)
    cores = [system.grid.place(x, y) for x, y in system.core_places]
    places, rng = cores + [port for port, _ in system.grid.beside], np.random.default_rng(1)
    for _ in range(60):
        source, words = int(rng.choice(places)), int(rng.integers(1, 1000))
        targets = sorted(rng.choice(cores, int(rng.integers(1, 8)), replace=False).tolist())
        counter = np.zeros(fabric.counter_size(mesh), np.int64)
        if len(targets) == 1:
            hops = fabric.unicast(mesh, counter, source, targets[0], words)
        else:
            hops = fabric.multicast(mesh, counter, source, np.array(targets, np.int64), words)
        expected, pitches = by_sets(table, source, targets, words)
        assert {int(i): int(counter[fabric.LINKS + i]) for i in np.flatnonzero(counter[fabric.LINKS :])} == expected
        assert hops == pitches
        fabric.recount_hops(mesh, counter)
        between = sum(int(table.borders[link]) * part for link, part in expected.items())
        assert (counter[fabric.HOPS], counter[fabric.DIE_HOPS]) == (pitches - between, between)


def test_a_table_of_x_y_ways_counts_as_the_mesh_does_without() -> None:
    system = sixteen(CoreNetwork("mesh", "xy"))
    plain, table = fabric_arrays(system, fabric.OWN, False, False), link_table(system.network, system.grid)
    rows = np.stack([table.borders, table.pitches - table.borders, table.start])
    room = np.zeros(table.before.shape[1] + 1, np.int64)
    tabled = plain._replace(links=rows, before=table.before, mark=room)

    def loads(on: fabric.Fabric, start: IntArray, end: IntArray, source: int, targets: IntArray) -> dict[object, int]:
        counter = np.zeros(fabric.counter_size(on), np.int64)
        fabric.multicast(on, counter, source, targets, 7)
        used = np.flatnonzero(counter[fabric.LINKS :])
        return {(int(start[i]), int(end[i])): int(counter[fabric.LINKS + i]) for i in used}

    steps = {fabric.EAST: 4, fabric.WEST: -4, fabric.NORTH: 1, fabric.SOUTH: -1}
    numbers = np.arange(plain.links.shape[1])
    reached = numbers // 4 + np.array([steps[int(d)] for d in numbers % 4])
    cores, rng = np.array([system.grid.place(x, y) for x, y in system.core_places]), np.random.default_rng(0)
    for source in [*cores.tolist(), *(port for port, _ in system.grid.beside)]:
        targets = np.sort(rng.choice(cores, 5, replace=False))
        expected = loads(plain, numbers // 4, reached, source, targets)
        assert loads(tabled, table.start, table.end, source, targets) == expected


@pytest.mark.parametrize("network", TABLED, ids=lambda n: f"{n.topology} {n.way}")
def test_a_tree_is_searched_and_simulated_on_every_network(network: CoreNetwork) -> None:
    least = bound_of(Evaluator(sixteen(network), CHAIN, OWN_RULES), 2).time
    for rules in (OWN_RULES, MESH_RULES):
        evaluator = Evaluator(sixteen(network), CHAIN, rules)
        found = TreeSearch(evaluator, 2, SearchSettings(steps=100, least_use=0.0)).run().evaluation
        run = ContentionSimulator(evaluator).simulate(found)
        steps = sum(segment.steps for segment in run.segments)
        assert run.complete and least <= run.time < run.free + 120 * steps, "a step fills the way"


@pytest.mark.parametrize("network", EVERY, ids=lambda n: f"{n.topology} {n.way}")
def test_kinds_of_cores_stand_on_every_network(network: CoreNetwork) -> None:
    """No tree is below the bound, which files, simulation and costs know as well."""
    plain = sixteen(network)
    small = CoreKind("small", replace(plain.core, elements_a=1, vector=4))
    rows = tuple(tuple("small" if (x + y) % 3 == 0 else "core" for x in range(4)) for y in range(4))
    system = replace(plain, kinds=(small,), places=rows, clock_ghz=1.7)
    assert money(replace(system, kinds=(replace(small, core=plain.core),))).overall_usd == money(plain).overall_usd
    evaluator = Evaluator(system, CHAIN, OWN_RULES)
    least = bound_of(evaluator, 4)
    for energy, time in ((1.0, 1.0), (1.0, 1e-6), (1e-6, 1.0)):
        settings = SearchSettings(steps=100, least_use=0.0, energy_power=energy, time_power=time)
        found = TreeSearch(evaluator, 4, settings).run().evaluation
        whole = found.rows[0]
        assert least.time <= whole.time and least.energy_pj <= whole.energy_pj and least.edp <= found.edp
        assert least.dram_words <= whole.dram_words
    assert tree_from_json(tree_to_json(found.root, CHAIN), CHAIN, "tree") == found.root
    run = ContentionSimulator(evaluator, channels=1, buffer_flits=2).simulate(found)
    assert run.complete and least.time <= run.time + len(CHAIN.layers) * 4


def test_recorded_rules_are_for_the_mesh_alone() -> None:
    with pytest.raises(UserError, match="SET and Gemini know a mesh with X-Y routing alone, got a ring"):
        Evaluator(sixteen(CoreNetwork("ring")), CHAIN, SEMANTICS["set"])
    one = replace(sixteen(CoreNetwork("mesh", "xy")), name="same")
    assert Evaluator(one, CHAIN, SEMANTICS["set"]).system is one
