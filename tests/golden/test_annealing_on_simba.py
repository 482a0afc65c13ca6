"""The annealing mapper at a fixed number of evaluations against hand-made mappings of the reference data."""

import pytest

from codesign.mappers.base import Budget, Objective
from codesign.mappers.registry import create
from codesign.mapping.constraints import Constraints, LevelConstraints, MappingProblem
from tests.timeloop_reference import cases

HAND_MADE = {"rn50_res2_3x3": 1.588e13, "rn50_conv1_7x7s2": 1.529e14, "rn50_res4_3x3": 1.824e13}
"""EDP in pJ x cycle; source: the reference data's own hand-made mappings."""


@pytest.mark.parametrize("layer", sorted(HAND_MADE))
def test_better_than_the_hand_made_mapping(layer: str) -> None:
    case = next(c for c in cases() if c.architecture.name == "simba" and c.computation.name == layer)
    tensors = frozenset(t.name for t in case.computation.tensors)
    levels = []
    for level in case.architecture.levels:
        kept = frozenset(n.tensor for n in case.mapping.storage if n.level == level.name)
        levels.append(LevelConstraints(level.name, keep=kept, bypass=tensors - kept))
    problem = MappingProblem(case.computation, case.architecture, Constraints(tuple(levels)))
    result = create("anneal").map(problem, Objective.EDP, budget=Budget(evaluations=120_000), seed=0)
    assert result.cost is not None
    assert result.cost.edp <= HAND_MADE[layer]
