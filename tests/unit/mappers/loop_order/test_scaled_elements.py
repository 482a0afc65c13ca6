"""Loop orders where elements carry a share of a scale."""

from dataclasses import replace

import pytest

from codesign.arch.presets import load_preset
from codesign.core.goals import Budget, Objective
from codesign.mappers.registry import create
from codesign.mapping.constraints import MappingProblem
from codesign.workloads.computation import Computation


@pytest.mark.parametrize("name", ["loma", "salsa"])
def test_memories_are_filled_with_scaled_elements_as_with_plain_ones(name: str) -> None:
    plain = Computation.parse("C[m,n] += A[m,k] * B[k,n]", m=64, n=64, k=64)
    inputs = tuple(replace(t, scale_bits=0.25) for t in plain.inputs)
    scaled = replace(plain, tensors=(*inputs, plain.output))
    found = [
        create(name).map(
            MappingProblem(c, load_preset("gemmini")), Objective.EDP, budget=Budget(evaluations=300), seed=0
        )
        for c in (plain, scaled)
    ]
    least, cost = (result.cost for result in found)
    assert least is not None and cost is not None
    assert least.edp <= cost.edp < 1.5 * least.edp
