"""The effort of a search with imperfect factors is the user's."""

from codesign.arch.presets import load_preset
from codesign.core.goals import Budget, Objective
from codesign.library.inputs import as_computation
from codesign.mappers.exact import ExactMapper
from codesign.mapping.constraints import MappingProblem


def test_more_effort_proves_more() -> None:
    problem = MappingProblem(as_computation("conv K=16 C=16 P=13 Q=13 R=3 S=3"), load_preset("eyeriss"), imperfect=True)
    few, many = (
        ExactMapper(effort=effort).map(problem, Objective.EDP, budget=Budget(), seed=0) for effort in (1e4, 1e7)
    )
    assert few.gap is not None and many.gap is not None
    assert many.gap < few.gap
