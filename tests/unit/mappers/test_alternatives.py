"""Annealing keeps the best mappings it met: different ones, in order, the search itself unchanged."""

import pytest

from codesign.arch.presets import load_preset
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.cost.cost import Cost, evaluate
from codesign.evaluation.timed import EventMapper
from codesign.mappers.annealing import AnnealingMapper
from codesign.mapping.constraints import MappingProblem
from codesign.timing.simulate import Run, simulate
from codesign.workloads.operators import conv2d

BUDGET = Budget(evaluations=3000)


def problem() -> MappingProblem:
    return MappingProblem(conv2d(N=1, K=32, C=16, P=14, Q=14, R=3, S=3, bits=8), load_preset("gemmini"))


@pytest.mark.parametrize("objective", [Objective.LATENCY, Objective.EDP])
def test_the_list_is_of_different_mappings_best_first(objective: Objective) -> None:
    plain = AnnealingMapper().map(problem(), objective, budget=BUDGET, seed=3)
    found = AnnealingMapper(alternatives=6).map(problem(), objective, budget=BUDGET, seed=3)
    assert found.mapping == plain.mapping
    assert plain.alternatives == ()
    assert len(set(found.alternatives) | {found.mapping}) == 7
    assert found.cost is not None
    values = []
    for mapping in found.alternatives:
        cost = evaluate(problem().computation, problem().architecture, mapping)
        assert isinstance(cost, Cost)
        values.append(objective.score(energy_pj=cost.energy_pj, latency_cycles=cost.latency_cycles))
    best = objective.score(energy_pj=found.cost.energy_pj, latency_cycles=found.cost.latency_cycles)
    assert [best, *values] == sorted([best, *values])


def test_ranking_the_list_again_is_never_slower_than_the_first() -> None:
    first = AnnealingMapper().map(problem(), Objective.LATENCY, budget=BUDGET, seed=3)
    ranked = EventMapper(AnnealingMapper(), candidates=6).map(problem(), Objective.LATENCY, budget=BUDGET, seed=3)
    assert first.mapping is not None
    assert ranked.mapping is not None
    runs = [simulate(problem().computation, problem().architecture, m) for m in (first.mapping, ranked.mapping)]
    assert all(isinstance(run, Run) for run in runs)
    assert runs[1].latency_cycles <= runs[0].latency_cycles  # type: ignore[union-attr]


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(UserError, match="`alternatives` must be >= 0, got -1"):
        AnnealingMapper(alternatives=-1)
