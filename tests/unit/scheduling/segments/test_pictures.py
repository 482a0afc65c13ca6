"""Timelines, link loads and energies of trees: what pages draw (rules M28 to M30, M91 to M93)."""

import re
from dataclasses import replace

import pytest

from codesign.arch.core_network import CoreNetwork
from codesign.arch.many_core import Dies
from codesign.arch.many_core_files import load_system
from codesign.core.goals import Budget, Objective
from codesign.scheduling.protocol import ScheduleProblem
from codesign.scheduling.segments.bound import bound_of
from codesign.scheduling.segments.contention import ContentionSimulator
from codesign.scheduling.segments.drawings import link_shares, mesh_svg
from codesign.scheduling.segments.energy_parts import energy_parts_pj
from codesign.scheduling.segments.evaluate import Evaluation, Evaluator
from codesign.scheduling.segments.kernels import fabric
from codesign.scheduling.segments.scheduler import SegmentsScheduler
from codesign.scheduling.segments.system_arrays import links_of
from codesign.scheduling.segments.system_page import page
from codesign.scheduling.segments.timeline import timeline_of
from codesign.scheduling.segments.tree_files import core_map
from codesign.workloads.load import load_network


@pytest.fixture(scope="module", params=["gemini-72t", "simba-36"])
def searched(request: pytest.FixtureRequest) -> tuple[Evaluator, Evaluation]:
    scheduler = SegmentsScheduler(request.param)
    problem = ScheduleProblem(load_network("squeezenet", fuse=False, batch=4), None)
    found = scheduler.schedule(problem, Objective.EDP, budget=Budget(evaluations=300), seed=1)
    return scheduler.pose(problem)[0], found.found


@pytest.mark.thinned(2)
def test_a_timeline_has_every_layer_once_within_its_segment(searched: tuple[Evaluator, Evaluation]) -> None:
    evaluator, found = searched
    runs = timeline_of(evaluator.network, found)
    assert sorted(run.layer for run in runs) == list(range(len(evaluator.network.layers)))
    time = float(found.rows[0].time)
    for run in runs:
        assert 0 <= run.start < run.end <= time * (1 + 1e-9)
        assert run.busy <= (run.end - run.start) * (1 + 1e-9)
    ends = [max(run.end for run in runs if run.segment == k) for k in range(1 + max(r.segment for r in runs))]
    starts = [min(run.start for run in runs if run.segment == k) for k in range(len(ends))]
    assert starts[0] == 0 and ends[-1] == pytest.approx(time)
    assert starts[1:] == pytest.approx(ends[:-1])


def test_layers_of_a_stage_start_after_those_before(searched: tuple[Evaluator, Evaluation]) -> None:
    evaluator, found = searched
    by_layer = {run.layer: run for run in timeline_of(evaluator.network, found)}
    for i, layer in enumerate(evaluator.network.layers):
        for producer in layer.inputs:
            assert by_layer[producer].start <= by_layer[i].start
            assert by_layer[producer].end <= by_layer[i].end * (1 + 1e-9)


def test_words_of_links_are_all_hops(searched: tuple[Evaluator, Evaluation]) -> None:
    evaluator, found = searched
    whole = found.rows[0]
    loads = link_shares(evaluator.system, whole.counter, float(whole.time))
    assert sum(words for words, _ in loads.values()) == int(whole.counter[fabric.LINKS :].sum())
    assert sum(words for words, _ in loads.values()) == whole.hops + whole.die_hops
    assert all(share > 0 for _, share in loads.values())


def test_energy_by_part_adds_up(searched: tuple[Evaluator, Evaluation]) -> None:
    evaluator, found = searched
    parts = energy_parts_pj(evaluator, found)
    assert sum(parts.values()) == pytest.approx(found.rows[0].energy_pj, rel=1e-9)
    assert all(value >= 0 for value in parts.values())
    expected = found.rows[0].die_hops * evaluator.system.dies.pj_per_word_hop
    assert parts["links between dies"] == pytest.approx(expected, rel=1e-6)


def test_places_are_those_of_the_map_as_text(searched: tuple[Evaluator, Evaluation]) -> None:
    evaluator, found = searched
    system = evaluator.system
    lines = core_map(found, evaluator.network, 0, system)
    cells = [line.split() for line in reversed(lines)]
    names: dict[int, list[str]] = {}
    for run in timeline_of(evaluator.network, found):
        for core in range(run.first_core, run.past_core) if run.segment == 0 else ():
            names.setdefault(core, []).append(run.name)
    for core, layers in names.items():
        x, y = system.core_places[core]
        assert cells[y][x].split("+")[0] == layers[0]


def test_the_page_draws_every_core_and_states_the_gap(searched: tuple[Evaluator, Evaluation]) -> None:
    evaluator, found = searched
    text = page(evaluator, found, bound_of(evaluator, found.root.batch))
    first = text.split('class="mesh"')[1]
    assert len(re.findall('class="core"', first)) == 36
    assert len(re.findall('class="die"', first)) == evaluator.system.dies.count
    assert "no tree is below" in text and "no tree is below" not in page(evaluator, found, None)


@pytest.mark.parametrize("name", ["torus", "ring", "crossbar"])
def test_every_link_is_drawn_within_the_picture(name: str) -> None:
    """On 3 x 3 cores the crossbar has a core in its place, beside which it is drawn."""
    base = load_system("gemini-72t")
    ports = replace(base.memories, ports=(((-1, 0), (3, 2)),))
    system = replace(base, width=3, height=3, stride=3, dies=Dies(), memories=ports, network=CoreNetwork(name))  # type: ignore[arg-type]
    table = links_of(system)
    drawing = mesh_svg(system, [], dict.fromkeys(range(len(table.start)), (1, 0.5)), 1.0)
    wide, high = map(float, re.findall(r'viewBox="0 0 (\S+) (\S+)"', drawing)[0])
    ways = re.findall(r'class="link" d="([^"]*)"', drawing)
    assert len(set(ways)) == len(table.start)
    for x, y in re.findall(r"(-?[\d.]+) (-?[\d.]+)", " ".join(ways)):
        assert 0 <= float(x) <= wide and 0 <= float(y) <= high


@pytest.mark.thinned(2)
def test_a_simulated_page_shares_the_simulated_time_among_its_links(searched: tuple[Evaluator, Evaluation]) -> None:
    evaluator, found = searched
    simulated = ContentionSimulator(evaluator).simulate(found)
    text = page(evaluator, found, None, simulated)
    assert "over the whole simulated run" in text and f"{simulated.time:,}" in text
    assert "on the mesh, simulated" not in page(evaluator, found, None)
    shares = link_shares(evaluator.system, found.rows[0].counter, float(simulated.time))
    words, share = max(shares.values(), key=lambda load: load[1])
    assert f"{words:,} words, busy {share:.0%} of the time" in text.split('class="mesh"')[1]
    shown = re.findall(r"simulated ([\d,]+) \(", text)
    times = {f"{segment.time:,}" for segment in simulated.segments}
    assert shown and set(shown) <= times
