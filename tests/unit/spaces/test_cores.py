"""Core spaces: sizes of the reference, Listing 2, and that every parameter changes what is reported."""

import json
from pathlib import Path

import numpy as np
import pytest

from codesign.core.errors import UserError
from codesign.cost.cost import Infeasible
from codesign.evaluation.design import load_design_space
from codesign.tensorization.encoding import SoftwareProblem
from codesign.tensorization.program_cost import ProgramCost, program_cost
from codesign.tensorization.search import HeuristicPrograms
from codesign.workloads.computation import Computation
from spaces.cores import (
    CONV_CORE,
    CORE_SPACES,
    DOT_CORE,
    GEMM_CORE,
    GEMV_CORE,
    add_cache,
    burst_transfer,
    core_of,
    core_space_from_json,
    distribute_cache,
    link_pes,
    partition_banks,
    read_core_space,
    reshape_array,
    restrict,
)
from spaces.design import DesignSpace
from spaces.scratchpad import SCRATCHPAD
from spaces.software import SoftwareSpace

SIZES = {"gemmcore": 1728, "gemvcore": 864, "convcore": 968832, "dotcore": 968832}
"""Designs of HASCO's released explorer, which does not vary the links."""

CONVOLUTION = Computation.parse(
    "C[k,x,y] += A[c,x+r,y+s] * B[k,c,r,s]", k=64, x=28, y=28, c=64, r=3, s=3, partial_bits=32
)
GEMM = Computation.parse("L[i,j] += M[i,k] * N[k,j]", i=256, j=192, k=320, partial_bits=32)
WORKLOAD = {"gemmcore": GEMM, "gemvcore": GEMM, "dotcore": GEMM, "convcore": CONVOLUTION}


@pytest.mark.parametrize("name", sorted(SIZES))
def test_spaces_are_as_large_as_the_released_ones(name: str) -> None:
    assert link_pes(CORE_SPACES[name], "systolic").space.cardinality_bound == SIZES[name]


@pytest.mark.parametrize("name", sorted(CORE_SPACES))
def test_spaces_are_known_to_the_command_line_by_name(name: str) -> None:
    assert load_design_space(name) == CORE_SPACES[name]


@pytest.mark.parametrize("name", sorted(CORE_SPACES))
def test_every_design_of_a_sample_builds(name: str) -> None:
    space = CORE_SPACES[name]
    for point in space.space.to_points(space.space.sample(25, np.random.default_rng(0))):
        core = core_of(space, point)
        assert core.architecture == space.build(point)
        assert core.architecture.area_mm2 is not None
        assert core.intrinsic.computation.macs == core.call_cycles * core.architecture.mac_units


def figures(space: DesignSpace, point: dict[str, object]) -> tuple[float, ...]:
    """Latency and energy of the best of a fixed search, area and leakage."""
    core = core_of(space, point)
    problem = SoftwareProblem.of(WORKLOAD[space.name], core)
    found = HeuristicPrograms().search(problem, evaluations=150, seed=0)
    cost = program_cost(SoftwareSpace(problem).program(found.candidate))
    assert isinstance(cost, ProgramCost)
    area = core.architecture.area_mm2
    assert area is not None
    return cost.latency_cycles, cost.energy_pj, area, core.architecture.leakage_w


@pytest.mark.parametrize(
    ("name", "parameter"), [(s.name, p) for s in CORE_SPACES.values() for p in s.space.names], ids=lambda v: str(v)
)
def test_every_parameter_is_effective(name: str, parameter: str) -> None:
    """Changing one parameter changes latency or energy of the program found, not only area."""
    space = CORE_SPACES[name]
    base = {**space.space.presets[0], "banks": 2}
    domain = next(p for p in space.space.parameters if p.name == parameter).choices
    other = next(v for v in (domain[0], domain[-1]) if v != base[parameter])
    changed = {**base, parameter: other}
    before, after = figures(space, base), figures(space, changed)
    assert before[:2] != after[:2]
    if parameter != "dataflow":
        assert before[2:] != after[2:]


def test_a_wider_bus_and_longer_bursts_shorten_transfers() -> None:
    def dram_cycles(**changes: int) -> float:
        core = core_of(GEMM_CORE, {**GEMM_CORE.space.presets[0], **changes})
        space = SoftwareSpace(SoftwareProblem.of(GEMM, core))
        cost = program_cost(space.program(np.array([0, 1, 4, 4, 4, 0, 1, 2, 0, 1, 2], np.int64)))
        assert not isinstance(cost, Infeasible)
        return cost.dram_cycles

    assert dram_cycles(bus_bits=128) < dram_cycles(bus_bits=64)
    assert dram_cycles(burst_bytes=128) <= dram_cycles(burst_bytes=64)


def test_pruning_as_in_listing_2() -> None:
    space = partition_banks(add_cache(reshape_array(GEMM_CORE, 16, 16), 256), 4)
    points = space.space.to_points(space.space.enumerate())
    assert {(p["pe"], p["scratchpad_kib"], p["banks"]) for p in points} == {(16, 256, 4)}
    assert {p["local_bytes"] for p in points} == {64, 128, 256}
    smaller = burst_transfer(distribute_cache(space, 64, 128), bus_bits=[128], burst_bytes=[64, 128])
    assert smaller.space.cardinality_bound == 3 * 2 * 2 * 2
    assert reshape_array(CONV_CORE, 4, 32).space.cardinality_bound == 3 * SIZES["convcore"] // 29**2
    assert len(reshape_array(DOT_CORE, 4, 32).space.presets) == 0


def test_pruning_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text(
        "core: gemmcore\nreshapeArray: [16, 16]\nlinkPEs: systolic\naddCache: 256\npartitionBanks: [4, 8]\n"
        "distributeCache: 64\nburstTransfer: {bus_bits: 128, burst_bytes: [64, 128]}\n"
    )
    space = read_core_space(path)
    assert space.space.cardinality_bound == 2 * 2 * 2
    assert json.loads(json.dumps(space.to_json()))["name"] == "gemmcore"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"core": "gemmcore", "addcache": 256}, "unknown primitive 'addcache'.*did you mean 'addCache'"),
        ({"core": "gemmcor"}, "unknown core 'gemmcor'.*did you mean 'gemmcore'"),
        ({"core": "gemmcore", "reshapeArray": 16}, "takes rows and columns, got 16"),
        ({"core": "gemmcore", "reshapeArray": [16, 8]}, "has square arrays, got 16x8"),
        ({"core": "gemmcore", "addCache": 300}, "300"),
        ({"core": "gemmcore", "partitionBanks": []}, "no value is left for 'banks': the space is empty"),
        ({"core": "gemmcore", "burstTransfer": 64}, "takes `bus_bits` and `burst_bytes`"),
        ([1], "expected `core` and primitives"),
    ],
)
def test_bad_pruning_is_one_message(value: object, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        core_space_from_json(value, "space.yaml")
    assert "space.yaml" in str(caught.value)


def test_other_spaces_have_no_core() -> None:
    with pytest.raises(UserError, match="space 'scratchpad' has no intrinsic"):
        core_of(SCRATCHPAD, SCRATCHPAD.space.presets[0])
    with pytest.raises(UserError, match="unknown parameter 'pe_rows'"):
        restrict(GEMV_CORE, "pe_rows", [8])
