"""The annealing mapper against the best recorded mapping of every layer of the reference data."""

import pytest

from codesign.core.goals import Budget, Objective
from codesign.cost.cost import Cost, evaluate
from codesign.mappers.registry import create
from codesign.mapping.constraints import Constraints, LevelConstraints, MappingProblem
from tests.reference_data import needs_data
from tests.timeloop_reference import Case, cases


def best_cases() -> list[Case]:
    """Of every layer on every machine with the same tensors kept at every level, the mapping with the least recorded EDP."""
    best: dict[tuple[object, ...], Case] = {}
    for case in cases():
        kept = frozenset((node.level, node.tensor) for node in case.mapping.storage)
        key = (case.architecture, case.computation, kept)
        if key not in best or recorded_edp(case) < recorded_edp(best[key]):
            best[key] = case
    return list(best.values())


def recorded_edp(case: Case) -> float:
    return float(case.expected["cycles"] * case.expected["energy_pj"])


@pytest.mark.parametrize("case", best_cases(), ids=lambda case: case.name)
@pytest.mark.thinned(3)
def test_no_worse_than_the_best_recorded_mapping(case: Case) -> None:
    tensors = frozenset(t.name for t in case.computation.tensors)
    levels = []
    for level in case.architecture.levels:
        kept = frozenset(n.tensor for n in case.mapping.storage if n.level == level.name)
        levels.append(LevelConstraints(level.name, keep=kept, bypass=tensors - kept))
    problem = MappingProblem(case.computation, case.architecture, Constraints(tuple(levels)))
    recorded = evaluate(case.computation, case.architecture, case.mapping)
    assert isinstance(recorded, Cost)
    found = best_edp(problem, evaluations=120_000)
    if found > recorded.edp:  # a few seconds, where a third of a second does not do
        found = best_edp(problem, evaluations=2_000_000)
    assert found <= recorded.edp


def best_edp(problem: MappingProblem, evaluations: int) -> float:
    result = create("anneal").map(problem, Objective.EDP, budget=Budget(evaluations=evaluations), seed=0)
    assert result.cost is not None
    return result.cost.edp


def test_there_are_cases() -> None:
    needs_data("timeloop", best_cases())
