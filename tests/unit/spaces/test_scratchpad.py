"""The scratchpad space: every primitive against a hand calculation and in its physical direction."""

from typing import Any

import pytest

from codesign.arch.architecture import Links
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.cost.cost import Infeasible
from codesign.evaluation.design import describe_space, load_design_space, space_of_record
from codesign.evaluation.network import EvaluationOptions, evaluate_workload
from codesign.mappers.registry import create
from codesign.mapping.constraints import MappingProblem
from codesign.workloads.load import load_network
from codesign.workloads.operators import conv2d
from spaces.scratchpad import SCRATCHPAD

BASE: dict[str, Any] = dict(SCRATCHPAD.space.presets[0])


def design(**changes: Any) -> dict[str, Any]:
    return {**BASE, **changes}


def test_hand_calculated_architecture() -> None:
    architecture = SCRATCHPAD.build(design(bus_bits=128, burst_beats=16, banks=4))
    dram, scratchpad, local = architecture.levels
    # H6: 16 bytes x 16 beats in 16 + 14 cycles
    assert dram.read_bandwidth_words_per_cycle == pytest.approx(16 * 16 / 30)
    assert scratchpad.read_bandwidth_words_per_cycle == 4  # H5
    assert scratchpad.capacity_bytes == 256 * 1024 and local.capacity_bytes == 64
    assert (scratchpad.fanout.x, scratchpad.fanout.y, scratchpad.fanout.links) == (16, 16, Links.SYSTOLIC)
    assert architecture.mac_units == 256
    assert local.keep == frozenset({"weight"})


def area(**changes: Any) -> float:
    found = SCRATCHPAD.build(design(**changes)).area_mm2
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "small", "large"),
    [
        ("pe_rows", 8, 16),
        ("pe_cols", 8, 16),
        ("scratchpad_kib", 128, 256),
        ("local_bytes", 64, 256),
        ("banks", 4, 8),
        ("burst_beats", 8, 32),
        ("bus_bits", 64, 256),
    ],
)
def test_more_hardware_takes_more_area(name: str, small: int, large: int) -> None:
    assert area(**{name: small}) < area(**{name: large})


def metrics(**changes: Any) -> tuple[float, float]:
    """Latency and energy of one convolution, mapped for latency with a fixed number of evaluations."""
    computation = conv2d(K=32, C=32, P=14, Q=14, R=3, S=3, bits=8, partial_bits=24)
    problem = MappingProblem(computation, SCRATCHPAD.build(design(**changes)))
    result = create("anneal").map(problem, Objective.EDP, budget=Budget(evaluations=12_000), seed=0)
    assert result.cost is not None
    return result.cost.latency_cycles, result.cost.energy_pj


def level_energy(level: str, point: dict[str, Any]) -> float:
    computation = conv2d(K=32, C=32, P=14, Q=14, R=3, S=3, bits=8, partial_bits=24)
    problem = MappingProblem(computation, SCRATCHPAD.build(point))
    result = create("anneal").map(problem, Objective.EDP, budget=Budget(evaluations=12_000), seed=0)
    assert result.cost is not None
    return next(v.energy_pj for v in result.cost.levels if v.level == level)


def test_primitives_act_on_latency_and_energy() -> None:
    latency, energy = metrics()
    assert metrics(bus_bits=512, burst_beats=64)[0] <= latency
    assert metrics(bus_bits=32, burst_beats=4)[0] > latency
    assert metrics(burst_beats=4)[1] > metrics(burst_beats=64)[1]
    assert metrics(banks=1)[0] > metrics(banks=16)[0]
    assert metrics(pe_rows=4, pe_cols=4)[0] > latency
    unicast = metrics(links="none")
    assert unicast[0] > latency and unicast[1] > energy
    assert metrics(dataflow="output-stationary") != (latency, energy)
    assert metrics(scratchpad_kib=32)[1] != energy


def test_a_larger_local_memory_costs_more_per_access_and_saves_scratchpad_energy() -> None:
    small, large = (
        design(dataflow="row-stationary", local_bytes=64),
        design(dataflow="row-stationary", local_bytes=1024),
    )
    energies = [SCRATCHPAD.build(point).levels[2].energy for point in (small, large)]
    assert energies[0] is not None and energies[1] is not None
    assert energies[0].read_pj < energies[1].read_pj
    assert level_energy("Scratchpad", small) > level_energy("Scratchpad", large)


def test_infeasible_designs_say_why() -> None:
    architecture = SCRATCHPAD.build(design()).with_level("Scratchpad", capacity_bytes=2.0)
    network = load_network("alexnet", partial_bits=24)
    result = evaluate_workload(network, architecture, create("anneal"), EvaluationOptions())
    assert isinstance(result, Infeasible)
    assert "Scratchpad" in result.resource and result.demand > result.limit
    assert "layer" in result.detail


@pytest.mark.parametrize("node", [7, 45])
def test_another_technology_changes_figures_and_the_name_alone(node: int) -> None:
    space = load_design_space(f"scratchpad@cmos-{node}nm")
    assert (
        space.name == f"scratchpad@cmos-{node}nm"
        and space_of_record(describe_space(space, space.name)).name == space.name
    )
    plain, other = SCRATCHPAD.build(BASE), space.build(BASE)
    assert other.technology == f"cmos-{node}nm" and plain.technology == "cmos-22nm"
    assert [x.capacity_bytes for x in other.levels] == [x.capacity_bytes for x in plain.levels]
    assert plain.area_mm2 is not None and other.area_mm2 is not None
    assert (other.area_mm2 < plain.area_mm2) == (node < 22)


def test_a_space_that_fixes_its_technology_refuses_another() -> None:
    with pytest.raises(UserError, match=r"'wide' takes no other technology.*--constraint"):
        load_design_space("wide@cmos-7nm")
    with pytest.raises(UserError, match="unknown technology"):
        load_design_space("scratchpad@cmos-7n")
