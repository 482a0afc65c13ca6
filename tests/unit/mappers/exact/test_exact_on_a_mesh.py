"""The exact mapper on a mesh: a bound that no mapping beats, `optimal` only where the mesh costs nothing."""

from dataclasses import replace

import pytest

from codesign.arch.architecture import Architecture, Links
from codesign.arch.mesh import MeshLinks
from codesign.arch.presets import load_preset
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective, Proof
from codesign.cost.cost import Cost, evaluate
from codesign.mappers.annealing import AnnealingMapper
from codesign.mappers.exact.latency_energy_front import pareto
from codesign.mappers.exact.mapper import ExactMapper
from codesign.mappers.exact.mesh import with_buses
from codesign.mappers.random_search import RandomMapper
from codesign.mapping.constraints import MappingProblem
from codesign.workloads.computation import Computation

LAYER = Computation.parse(
    "O[k,p,q] += I[c,p+r,q+s] * W[k,c,r,s]",
    {"k": 64, "c": 32, "p": 14, "q": 14, "r": 3, "s": 3},
    bits=8,
    partial_bits=24,
)


def simba(flit_bits: int) -> Architecture:
    plain = load_preset("simba")
    fanout = plain.level("GlobalBuffer").fanout
    links = MeshLinks(4, 4, flit_bits=flit_bits)
    return plain.with_level("GlobalBuffer", fanout=replace(fanout, links=Links.MESH, mesh=links, hop_pj_per_bit=0.0))


def test_a_mesh_that_costs_nothing_keeps_the_proof() -> None:
    wide = MappingProblem(LAYER, simba(1 << 20))
    buses = MappingProblem(LAYER, with_buses(wide.architecture))
    on_mesh = ExactMapper().map(wide, Objective.LATENCY, budget=Budget(), seed=0)
    on_bus = ExactMapper().map(buses, Objective.LATENCY, budget=Budget(), seed=0)
    assert on_mesh.cost is not None
    assert on_bus.cost is not None
    assert on_mesh.proof is Proof.OPTIMAL
    assert on_mesh.cost.latency_cycles == on_bus.cost.latency_cycles


def test_a_narrow_mesh_leaves_a_gap_that_no_mapping_closes() -> None:
    problem = MappingProblem(LAYER, simba(8))
    found = ExactMapper().map(problem, Objective.LATENCY, budget=Budget(), seed=0)
    assert found.cost is not None
    assert found.gap is not None
    assert found.proof is (Proof.OPTIMAL if found.gap == 0.0 else Proof.GAP)
    bound = found.cost.latency_cycles / (1.0 + found.gap)
    for mapper in (RandomMapper(), AnnealingMapper()):
        other = mapper.map(problem, Objective.LATENCY, budget=Budget(evaluations=5000), seed=1)
        assert other.cost is not None
        assert other.cost.latency_cycles >= bound * (1 - 1e-9)
    assert found.cost.levels[1].mesh_cycles is not None


def test_search_avoids_contention() -> None:
    """What was mapped for buses is slower on the mesh than what was mapped for the mesh."""
    problem = MappingProblem(LAYER, simba(8))
    buses = MappingProblem(LAYER, with_buses(problem.architecture))
    aware = AnnealingMapper().map(problem, Objective.LATENCY, budget=Budget(evaluations=20_000), seed=0)
    blind = AnnealingMapper().map(buses, Objective.LATENCY, budget=Budget(evaluations=20_000), seed=0)
    assert aware.cost is not None
    assert blind.mapping is not None
    judged = evaluate(LAYER, problem.architecture, blind.mapping)
    assert isinstance(judged, Cost)
    assert aware.cost.latency_cycles < judged.latency_cycles


def test_the_front_is_refused() -> None:
    with pytest.raises(UserError, match="does not search architectures with `links: mesh`"):
        pareto(MappingProblem(LAYER, simba(64)), budget=Budget())
