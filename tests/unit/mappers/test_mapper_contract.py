"""What every registered mapper keeps: valid mappings only, the same for a seed, infeasible as a value."""

import numpy as np
import pytest

from codesign.arch.architecture import AccessEnergy, Architecture, Arithmetic, Fanout, Ports, StorageLevel
from codesign.core.errors import UserError
from codesign.core.goals import OBJECTIVES, Budget, Objective, Proof
from codesign.cost.cost import Cost, evaluate
from codesign.mappers.registry import MAPPERS, create
from codesign.mapping.constraints import Constraints, Keep, LevelConstraints, MappingProblem
from codesign.mapping.mapping import Mapping, Spatial, Storage, Temporal
from codesign.testing.recomputed_cycles import busy_cycles, is_rounded_up
from codesign.workloads.computation import Computation
from experiments.attacks.problems import random_problem
from tests.seeds import seeds

BUDGET = Budget(evaluations=300)


def machine(buffer_bytes: float = 4096, local_bytes: float = 64) -> Architecture:
    energies = [AccessEnergy(100, 100, 110), AccessEnergy(3, 3.5, 3.6), AccessEnergy(0.3, 0.4, 0.4)]
    return Architecture(
        "small",
        (
            StorageLevel("DRAM", energy=energies[0], word_bits=8, read_bandwidth_words_per_cycle=4.0),
            StorageLevel("Buffer", capacity_bytes=buffer_bytes, word_bits=8, energy=energies[1], fanout=Fanout(4, 2)),
            StorageLevel("Local", capacity_bytes=local_bytes, word_bits=8, energy=energies[2]),
        ),
        Arithmetic(energy_pj=0.2),
    )


COMPUTATIONS = [
    Computation.parse("O[m,n] += I[m,k] * W[k,n]", m=8, n=12, k=6),
    Computation.parse("O[c,p] += I[c,2*p+r] * W[c,r]", c=4, p=6, r=3),
    Computation.parse("O[k,p,q] += I[c,p+r,q+s] * W[k,c,r,s]", k=4, c=2, p=4, q=4, r=3, s=3),
    Computation.parse("O[i,j] += A[i,k,l] * B[k,j] * C[l,j]", i=4, j=4, k=3, l=2),
    Computation.parse("O[] += A[i] * B[i]", i=7),
    Computation.parse("O[m] += A[m] * B[m]", m=1),
]


@pytest.mark.parametrize("name", sorted(MAPPERS))
@pytest.mark.parametrize("objective", list(OBJECTIVES))
@pytest.mark.parametrize("computation", COMPUTATIONS, ids=str)
def test_the_mapping_is_valid_and_costs_what_is_said(name: str, objective: Objective, computation: Computation) -> None:
    problem = MappingProblem(computation, machine())
    result = create(name).map(problem, objective, budget=BUDGET, seed=1)
    assert result.mapping is not None and result.cost is not None
    again = evaluate(computation, problem.architecture, result.mapping)
    assert isinstance(again, Cost)
    assert (again.latency_cycles, again.energy_pj) == (result.cost.latency_cycles, result.cost.energy_pj)
    assert result.evaluated >= 1
    assert (result.gap == 0.0) == (result.proof is Proof.OPTIMAL)


@pytest.mark.parametrize("seed", [1, 12, 30])
@pytest.mark.parametrize("objective", list(OBJECTIVES))
@pytest.mark.thinned(4)
def test_behind_windows_and_limited_ports_nothing_beats_the_optimum(objective: Objective, seed: int) -> None:
    """Every level's ports limited, some half duplex, keep sets free: cycles follow from accesses, `optimal` is optimal."""
    forms = ("conv1d", "conv2d", "conv1d_strided", "conv1d_dilated")
    rng = np.random.default_rng(77_000 + seed)
    problem = random_problem(rng, forms, free_bypass=True, size=130, levels=4, busy=True)
    assert {v.ports for v in problem.architecture.levels} == set(Ports)
    best = create("exact").map(problem, objective, budget=Budget(), seed=0)
    assert best.proof is Proof.OPTIMAL and best.cost is not None
    for name in sorted(MAPPERS):
        found = create(name).map(problem, objective, budget=BUDGET, seed=1)
        if found.cost is None:
            continue  # so few mappings may all be too large
        assert objective.of(found.cost) >= objective.of(best.cost) * (1 - 1e-11), name
        busy = busy_cycles(problem.computation, problem.architecture, found.cost)
        assert all(is_rounded_up(v.busy_cycles, busy[v.level]) for v in found.cost.levels), name
        slowest = max(found.cost.compute_cycles, *(v.busy_cycles for v in found.cost.levels))
        assert found.cost.latency_cycles == slowest, name


@pytest.mark.parametrize("name", sorted(MAPPERS))
def test_the_same_seed_gives_the_same_mapping(name: str) -> None:
    problem = MappingProblem(COMPUTATIONS[2], machine())
    first, second = (create(name).map(problem, Objective.EDP, budget=BUDGET, seed=3) for _ in range(2))
    assert first.mapping == second.mapping
    assert first.evaluated == second.evaluated


@pytest.mark.parametrize("name", sorted(MAPPERS))
def test_tiles_that_never_fit_are_infeasible_with_their_reason(name: str) -> None:
    problem = MappingProblem(COMPUTATIONS[0], machine(local_bytes=2))
    result = create(name).map(problem, Objective.ENERGY, budget=BUDGET, seed=0)
    assert result.mapping is None and result.infeasible is not None
    assert "Local" in result.infeasible.resource
    assert result.infeasible.demand > result.infeasible.limit == 2
    assert result.to_json()["status"] == "infeasible"


@pytest.mark.parametrize("name", sorted(MAPPERS))
def test_constraints_are_obeyed(name: str) -> None:
    constraints = Constraints(
        (
            LevelConstraints("Buffer", keep=frozenset({"I", "O"}), bypass=frozenset({"W"}), spatial=(("n", 4),)),
            LevelConstraints("Local", temporal=(("k", 3),)),
        )
    )
    problem = MappingProblem(COMPUTATIONS[0], machine(), constraints)
    result = create(name).map(problem, Objective.EDP, budget=BUDGET, seed=0)
    assert result.mapping is not None
    nodes = result.mapping.nodes
    assert Storage("W", "Buffer") not in nodes and Storage("I", "Buffer") in nodes
    inside = nodes[max(i for i, n in enumerate(nodes) if isinstance(n, Storage) and n.level == "Local") :]
    assert [n.factor for n in inside if isinstance(n, Temporal) and n.dim == "k"] == [3]


@pytest.mark.parametrize("name", sorted(MAPPERS))
def test_the_budget_is_kept(name: str) -> None:
    problem = MappingProblem(COMPUTATIONS[2], machine())
    result = create(name).map(problem, Objective.EDP, budget=Budget(evaluations=50), seed=0)
    assert result.evaluated <= 50 or result.proof is Proof.OPTIMAL


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"unknown mapper 'aneal'.*did you mean 'anneal'"):
        create("aneal")
    with pytest.raises(UserError, match=r"has no option 'move'.*'moves'"):
        create("anneal", move=3)
    with pytest.raises(UserError, match="unknown objective 'power'"):
        Objective.parse("power")
    with pytest.raises(UserError, match="time limit must be > 0"):
        Budget(time_limit_s=0)
    with pytest.raises(UserError, match="0 < cold <= hot"):
        create("anneal", hot=0.1, cold=0.2)


@pytest.mark.parametrize("name", sorted(MAPPERS))
def test_more_work_than_can_be_counted_is_refused(name: str) -> None:
    problem = MappingProblem(Computation.parse("O[m,n] += I[m,k] * W[k,n]", m=2**21, n=2**21, k=2**21), machine())
    with pytest.raises(UserError, match="9,223,372,036,854,775,808 multiply-accumulates are too many to count"):
        create(name).map(problem, Objective.ENERGY, budget=BUDGET, seed=1)


def test_contradicting_constraints_are_refused() -> None:
    with pytest.raises(UserError, match="both kept and bypassed"):
        LevelConstraints("Buffer", keep=frozenset({"I"}), bypass=frozenset({"I"}))
    with pytest.raises(UserError, match=r"unknown level 'Bufer'.*'Buffer'"):
        MappingProblem(COMPUTATIONS[0], machine(), Constraints((LevelConstraints("Bufer"),)))
    problem = MappingProblem(
        COMPUTATIONS[0], machine(), Constraints((LevelConstraints("Buffer", spatial=(("m", 3),)),))
    )
    with pytest.raises(UserError, match="factor 3 of dimension 'm' does not divide"):
        create("anneal").map(problem, Objective.EDP, budget=BUDGET, seed=0)


def check_constraints(problem: MappingProblem, mapping: Mapping) -> None:
    """Fail unless an even mapping obeys every constraint of its problem."""
    for v, level in enumerate(problem.architecture.levels):
        item = problem.constraints.by_level.get(level.name, LevelConstraints(level.name))
        kept = {n.tensor for n in mapping.storage if n.level == level.name}
        for tensor in problem.computation.tensors:
            decision = problem.constraints.decision(problem.architecture, level.name, tensor)
            assert decision is Keep.FREE or (tensor.name in kept) == (decision is Keep.YES)
        spatial = [n for n in mapping.loops if isinstance(n, Spatial) and n.level == level.name]
        for dim, factor in item.spatial:
            assert np.prod([n.factor for n in spatial if n.dim == dim], dtype=int) == factor
        if item.along_x is not None:
            assert all((n.dim in item.along_x) == (n.axis == "x") for n in spatial)
        if kept or v == 0:
            temporal = loops_of_level(mapping, level.name)
            for dim, factor in item.temporal:
                assert np.prod([n.factor for n in temporal if n.dim == dim], dtype=int) == factor
            present = [n.dim for n in reversed(temporal)]
            wanted = [d for d in item.order if d in present]
            assert present[: len(wanted)] == wanted


def loops_of_level(mapping: Mapping, level: str) -> list[Temporal]:
    """Temporal loops between a level's storage nodes and the next node that is no temporal loop, outermost first."""
    last = max(i for i, n in enumerate(mapping.nodes) if isinstance(n, Storage) and n.level == level)
    found = []
    for node in mapping.nodes[last + 1 :]:
        if not isinstance(node, Temporal):
            break
        found.append(node)
    return found


@pytest.mark.parametrize("seed", seeds(12))
@pytest.mark.parametrize("name", sorted(MAPPERS))
def test_random_architectures_never_give_an_invalid_mapping(name: str, seed: int) -> None:
    problem = random_problem(np.random.default_rng(500 + seed), constrained=seed % 2 == 1, free_bypass=seed % 3 == 2)
    result = create(name).map(problem, Objective.EDP, budget=Budget(evaluations=120, time_limit_s=1.5), seed=seed)
    if result.mapping is None:
        assert result.infeasible is not None
        return
    again = evaluate(problem.computation, problem.architecture, result.mapping)
    assert isinstance(again, Cost)
    assert result.cost is not None
    assert (again.latency_cycles, again.energy_pj) == (result.cost.latency_cycles, result.cost.energy_pj)
    check_constraints(problem, result.mapping)


def test_the_exact_mapper_proves_nothing_of_an_objective_it_does_not_know() -> None:
    with pytest.raises(UserError, match="the exact mapper minimises energy, latency, edp, got ed2p"):
        create("exact").map(MappingProblem(COMPUTATIONS[0], machine()), Objective(1.0, 2.0), budget=Budget(), seed=0)
