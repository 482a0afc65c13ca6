"""What the uneven search finds on small machines, and what it refuses by name."""

import pytest

from codesign.arch.architecture import AccessEnergy, Architecture, Arithmetic, Fanout, LevelKind, StorageLevel
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective, Proof
from codesign.cost.arrays import Reuse
from codesign.mappers.exact import ExactMapper
from codesign.mappers.protocol import MapResult
from codesign.mapping.constraints import Constraints, LevelConstraints, MappingProblem
from codesign.mapping.validate import check_mapping
from codesign.workloads.computation import Computation

GEMM = Computation.parse("O[m,n] += I[m,k] * W[k,n]", {"m": 12, "n": 12, "k": 16})


def machine(words: int, fanout: Fanout | None = None) -> Architecture:
    """DRAM and one buffer of so many words."""
    dram, buffer = AccessEnergy(100.0, 100.0, 100.0), AccessEnergy(1.0, 1.0, 1.0)
    levels = (
        StorageLevel(name="DRAM", kind=LevelKind.DRAM, word_bits=8, energy=dram, keep=frozenset("IWO")),
        StorageLevel(
            name="Buffer", kind=LevelKind.SRAM, word_bits=8, energy=buffer, keep=frozenset("IWO"), capacity_bytes=words,
            fanout=fanout or Fanout(),
        ),
    )  # fmt: skip
    return Architecture("small", levels, Arithmetic(energy_pj=0.1))


def find(problem: MappingProblem, objective: Objective = Objective.ENERGY, reuse: Reuse = Reuse.TIMELOOP) -> MapResult:
    """The uneven optimum."""
    return ExactMapper(uneven=True).map(problem, objective, budget=Budget(), seed=0, reuse=reuse)


def test_an_uneven_mapping_beats_every_even_one() -> None:
    """44 words hold 6 x 6 outputs, 6 words of one input and one word of the other; at one place they would be 48."""
    problem = MappingProblem(GEMM, machine(44))
    even = ExactMapper().map(problem, Objective.ENERGY, budget=Budget(), seed=0)
    found = find(problem)
    assert even.cost is not None and found.cost is not None and found.mapping is not None
    assert found.proof is Proof.OPTIMAL and found.cost.energy_pj < even.cost.energy_pj * 0.9
    check_mapping(GEMM, problem.architecture, found.mapping)


def test_a_stopped_search_says_how_far_it_may_be() -> None:
    problem = MappingProblem(GEMM, machine(40, Fanout(4, 4)))
    stopped = ExactMapper(uneven=True, effort=1.0).map(problem, Objective.EDP, budget=Budget(), seed=0)
    best = find(problem, Objective.EDP)
    assert stopped.cost is not None and best.cost is not None and stopped.gap is not None
    assert stopped.cost.edp / (1 + stopped.gap) <= best.cost.edp * (1 + 1e-9)


def test_what_is_not_covered_is_refused_by_name() -> None:
    fixed = Constraints((LevelConstraints("Buffer", temporal=(("m", 3),)),))
    ordered = Constraints((LevelConstraints("Buffer", order=("m", "k")),))
    twice = Computation.parse("O[p] += I[p+r] * W[p+2*r]", {"p": 4, "r": 3})
    entangled = Computation.parse("O[m,n] += I[m,m+n] * W[n]", {"m": 4, "n": 4})
    plain = MappingProblem(GEMM, machine(40))
    for problem, reuse, said in (
        (MappingProblem(GEMM, machine(40), fixed), Reuse.TIMELOOP, "fixed factors of temporal loops"),
        (MappingProblem(GEMM, machine(40), ordered), Reuse.TIMELOOP, "fixed orders of loops"),
        (MappingProblem(GEMM, machine(40), imperfect=True), Reuse.TIMELOOP, "imperfect factors"),
        (MappingProblem(twice, machine(40)), Reuse.TIMELOOP, "one tensor with sliding windows, got I, W"),
        (MappingProblem(entangled, machine(40)), Reuse.TIMELOOP, "a dimension on two axes of a tensor"),
        (plain, Reuse.RESIDENT, "reuse rule 'resident'"),
    ):
        with pytest.raises(UserError, match=said):
            find(problem, reuse=reuse)
