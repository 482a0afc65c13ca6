"""The baselines: what each promises beyond the contract."""

import numpy as np
import pytest

from codesign.arch.architecture import AccessEnergy, Architecture, Arithmetic, Fanout, StorageLevel
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.cost.arrays import Reuse
from codesign.mappers.driver import Encoded
from codesign.mappers.genetic import GeneticMapper, decode_genome
from codesign.mappers.hybrid import HybridMapper, pruned_orders
from codesign.mappers.random_search import RandomMapper
from codesign.mapping.constraints import Constraints, LevelConstraints, MappingProblem
from codesign.mapping.space import outermost_state
from codesign.workloads.computation import Computation
from tests.unit.mappers.test_mapper_contract import check_constraints, machine

GEMM = Computation.parse("C[m,n] += A[m,k] * B[k,n]", m=48, n=36, k=30)


def problem(constraints: Constraints | None = None) -> MappingProblem:
    energies = [AccessEnergy(100, 100, 110), AccessEnergy(3, 3.5, 3.6), AccessEnergy(0.3, 0.4, 0.4)]
    architecture = Architecture(
        "small",
        (
            StorageLevel("DRAM", energy=energies[0], word_bits=8, read_bandwidth_words_per_cycle=4.0),
            StorageLevel("Buffer", capacity_bytes=1024, word_bits=8, energy=energies[1], fanout=Fanout(4, 4)),
            StorageLevel("Local", capacity_bytes=32, word_bits=8, energy=energies[2]),
        ),
        Arithmetic(energy_pj=0.2),
    )
    return MappingProblem(GEMM, architecture, constraints or Constraints())


@pytest.mark.parametrize("mapper", [HybridMapper(), GeneticMapper()], ids=lambda m: m.name)
@pytest.mark.parametrize("seed", range(6))
def test_every_kind_of_constraint_is_obeyed(mapper: HybridMapper | GeneticMapper, seed: int) -> None:
    """Each kind at once, so that none can be left out unseen: with none of them, mappings break every one (below)."""
    computation = Computation.parse("O[m,n] += I[m,k] * W[k,n]", m=8, n=12, k=6)
    everything = Constraints(
        (
            LevelConstraints("DRAM", order=("k", "n")),
            LevelConstraints(
                "Buffer",
                keep=frozenset("I"),
                bypass=frozenset("W"),
                spatial=(("n", 4), ("m", 2)),
                along_x=frozenset("n"),
                temporal=(("m", 2),),
            ),
            LevelConstraints("Local", temporal=(("k", 3),), order=("k",)),
        )
    )
    constrained = MappingProblem(computation, machine(), everything)
    result = mapper.map(constrained, Objective.EDP, budget=Budget(evaluations=200), seed=seed)
    assert result.mapping is not None
    check_constraints(constrained, result.mapping)
    free = mapper.map(MappingProblem(computation, machine()), Objective.EDP, budget=Budget(evaluations=200), seed=seed)
    assert free.mapping is not None
    with pytest.raises(AssertionError):
        check_constraints(constrained, free.mapping)


def test_hybrid_keeps_one_order_per_reuse_and_fixed_orders() -> None:
    orders = pruned_orders(Encoded.of(problem(), Reuse.TIMELOOP))
    assert orders.shape == (3, 3, 3)  # 3 of 6 permutations of (m, n, k) at each of 3 levels
    fixed = problem(Constraints((LevelConstraints("Buffer", order=("n", "k", "m")),)))
    for row in pruned_orders(Encoded.of(fixed, Reuse.TIMELOOP))[:, 1]:
        assert [GEMM.dims[d] for d in row] == ["m", "k", "n"]


def test_hybrid_threads_end_by_the_victory_condition() -> None:
    short = HybridMapper(victory=50, threads=1).map(problem(), Objective.EDP, budget=Budget(), seed=0)
    long = HybridMapper(victory=2000, threads=1).map(problem(), Objective.EDP, budget=Budget(), seed=0)
    assert short.cost is not None and long.cost is not None
    assert 51 <= short.evaluated < long.evaluated
    assert long.evaluated >= 2001
    assert long.cost.edp <= short.cost.edp


def test_hybrid_with_more_threads_is_at_least_as_good() -> None:
    one = HybridMapper(threads=1).map(problem(), Objective.EDP, budget=Budget(), seed=0)
    four = HybridMapper(threads=4).map(problem(), Objective.EDP, budget=Budget(), seed=0)
    assert one.cost is not None and four.cost is not None
    assert four.cost.edp <= one.cost.edp and four.evaluated > one.evaluated


def test_an_evaluation_budget_is_divided_among_threads_exactly() -> None:
    result = HybridMapper(threads=4, victory=10**6).map(
        problem(), Objective.EDP, budget=Budget(evaluations=1001), seed=0
    )
    assert result.evaluated == 1001


@pytest.mark.parametrize("mapper", [HybridMapper(), GeneticMapper()], ids=lambda m: m.name)
def test_the_papers_baselines_beat_random_sampling(mapper: HybridMapper | GeneticMapper) -> None:
    budget = Budget(evaluations=4000)
    random = RandomMapper().map(problem(), Objective.EDP, budget=Budget(evaluations=100), seed=0)
    result = mapper.map(problem(), Objective.EDP, budget=budget, seed=0)
    assert result.cost is not None and random.cost is not None
    assert result.cost.edp < random.cost.edp


def test_genomes_decode_to_choices_and_orders() -> None:
    space = Encoded.of(problem(), Reuse.TIMELOOP).space
    state = outermost_state(space)
    size = space.prime.shape[0] + space.order.size + space.free.shape[0]
    genome = np.zeros(size)
    decode_genome(space, genome, state)
    assert (state.slot == space.choices[:, 0]).all()
    genome[: space.prime.shape[0]] = 1.0
    genome[space.prime.shape[0] :] = np.tile([0.3, 0.1, 0.2], 3)
    decode_genome(space, genome, state)
    assert all(s == c[n - 1] for s, c, n in zip(state.slot, space.choices, space.n_choices, strict=True))
    assert state.order.tolist() == [[1, 2, 0]] * 3


def test_the_genetic_search_stops_at_its_own_size_without_a_budget() -> None:
    result = GeneticMapper(population=10, generations=7).map(problem(), Objective.ENERGY, budget=Budget(), seed=2)
    assert result.evaluated == 70


def test_bad_options_are_refused() -> None:
    with pytest.raises(UserError, match="`threads` must be an integer >= 1, got 0"):
        HybridMapper(threads=0)
    with pytest.raises(UserError, match="`population` must be >= 4"):
        GeneticMapper(population=2)
    with pytest.raises(UserError, match="`mutation` must be > 0, got 0"):
        GeneticMapper(mutation=0)


@pytest.mark.parametrize("mapper", [HybridMapper(), GeneticMapper()], ids=lambda m: m.name)
def test_fixed_factors_that_need_both_axes_are_found(mapper: HybridMapper | GeneticMapper) -> None:
    """12 = 4 x 3 does not fit one axis of 4, so the state with all loops outermost is no mapping."""
    rules = Constraints((LevelConstraints("Buffer", spatial=(("m", 12),)),))
    result = mapper.map(problem(rules), Objective.EDP, budget=Budget(evaluations=2000), seed=0)
    assert result.mapping is not None
