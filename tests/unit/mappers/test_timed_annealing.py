"""Annealing by simulated cycles: what it finds fits, waits less than the analytical optimum, and says how far it may be off."""

import math

import pytest

from codesign.arch.presets import load_preset
from codesign.core.goals import Budget, Objective, Proof
from codesign.cost.arrays import Reuse
from codesign.cost.kernel import score
from codesign.evaluation.timed import EventMapper
from codesign.mappers.annealing import AnnealingMapper
from codesign.mappers.driver import Encoded
from codesign.mappers.exact.mapper import ExactMapper
from codesign.mappers.timed_annealing import search_timed, timed_value
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.mapping import Mapping
from codesign.mapping.nest import decode_nest
from codesign.mapping.space import build_nest, factor_table
from codesign.timing.simulate import Run, simulate
from codesign.timing.table import encode_timing, timing_for
from codesign.workloads.operators import conv2d


def problem() -> MappingProblem:
    return MappingProblem(conv2d(N=1, K=256, C=512, P=14, Q=14, R=1, S=1, bits=8), load_preset("gemmini"))


def cycles(mapping: Mapping | None) -> int:
    assert mapping is not None
    run = simulate(problem().computation, problem().architecture, mapping)
    assert isinstance(run, Run)
    return run.latency_cycles


@pytest.mark.parametrize("seed", range(3))
def test_the_state_of_a_mapping_stands_for_it(seed: int) -> None:
    posed = problem()
    found = AnnealingMapper().map(posed, Objective.LATENCY, budget=Budget(evaluations=500), seed=seed).mapping
    assert found is not None
    encoded = Encoded.of(posed, Reuse.TIMELOOP)
    count = build_nest(encoded.space, encoded.state_of(found), factor_table(encoded.space), encoded.nest)
    assert decode_nest(posed.computation, posed.architecture, encoded.nest, count) == found


def test_a_search_is_repeatable_and_never_worse_than_its_start() -> None:
    posed = problem()
    start = ExactMapper().map(posed, Objective.LATENCY, budget=Budget(), seed=0).mapping
    assert start is not None
    machine = encode_timing(timing_for(posed.architecture), posed.architecture)
    goal, budget = Objective.LATENCY, Budget(evaluations=1500)
    first, second = (
        search_timed(Encoded.of(posed, Reuse.TIMELOOP), [start], machine, goal, budget, 7, walks=3) for _ in range(2)
    )
    assert first == second
    assert first[1] == 1500
    assert cycles(first[0]) <= cycles(start)


def test_the_choice_is_within_three_per_cent_of_what_no_mapping_beats() -> None:
    plain = ExactMapper().map(problem(), Objective.LATENCY, budget=Budget(), seed=0)
    chosen = EventMapper(ExactMapper(), walks=3).map(problem(), Objective.LATENCY, budget=Budget(), seed=0)
    assert plain.proof is Proof.OPTIMAL and plain.cost is not None
    assert cycles(plain.mapping) > 1.05 * plain.cost.latency_cycles
    assert chosen.proof is Proof.GAP and chosen.gap is not None and 0 < chosen.gap < 0.03
    assert cycles(chosen.mapping) == pytest.approx(plain.cost.latency_cycles * (1 + chosen.gap))


def test_without_a_proven_bound_nothing_is_known() -> None:
    mapper = EventMapper(AnnealingMapper(), walks=1)
    found = mapper.map(problem(), Objective.EDP, budget=Budget(evaluations=300), seed=0)
    assert (found.proof, found.gap) == (Proof.NONE, None)


def test_only_what_may_be_the_best_is_simulated() -> None:
    posed = problem()
    encoded, machine = (
        Encoded.of(posed, Reuse.TIMELOOP),
        encode_timing(timing_for(posed.architecture), posed.architecture),
    )
    found = AnnealingMapper().map(posed, Objective.LATENCY, budget=Budget(evaluations=500), seed=0).mapping
    assert found is not None
    count = build_nest(encoded.space, encoded.state_of(found), factor_table(encoded.space), encoded.nest)
    _, energy, cycles_alone = score(encoded.kernel, encoded.nest, count)
    scorer = encoded.scorer(Objective.LATENCY)

    def value(most: float, best: float) -> tuple[float, int]:
        return timed_value(scorer, machine, count, energy, cycles_alone, most, best)

    (low, none), (simulated, operations) = value(math.inf, 0.0), value(math.inf, math.inf)
    assert none == 0 and operations > 0
    assert cycles_alone <= low <= simulated == pytest.approx(cycles(found))
    assert value(math.inf, low) == (low, 0) and value(low * 0.99, math.inf) == (low, 0)
