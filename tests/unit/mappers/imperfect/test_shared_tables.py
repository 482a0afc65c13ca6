"""Profiles share the tables of the levels further in only where these depend on nothing that differs."""

import math
import random

import pytest

from codesign.arch.presets import load_preset
from codesign.core.goals import Objective
from codesign.cost.arrays import Reuse, encode_problem
from codesign.library.inputs import as_computation
from codesign.mappers.imperfect.bound import least_value
from codesign.mappers.imperfect.joint.joint_problem import JointProblem
from codesign.mappers.imperfect.joint.walk_tables import Cache
from codesign.mapping.constraints import MappingProblem
from codesign.mapping.space import kept_and_free


@pytest.mark.parametrize(
    ("layer", "most"), [("conv K=32 C=16 P=7 Q=7 stride=2", 1.6), ("conv K=16 C=12 P=7 Q=7 R=3 S=3", 1.2)]
)
def test_shared_tables_change_no_bound(layer: str, most: float) -> None:
    problem = MappingProblem(as_computation(layer), load_preset("eyeriss"), imperfect=True)
    joint = JointProblem(
        problem, encode_problem(problem.computation, problem.architecture, Reuse.TIMELOOP), kept_and_free(problem)[0]
    )
    limit = most * least_value(problem, Objective.EDP)
    listed = joint.profiles(math.inf, least_value(problem, Objective.LATENCY), limit, Objective.EDP, 5000)
    assert listed is not None
    chosen, cycles, _ = listed
    rows = random.Random(0).sample(range(len(chosen)), min(60, len(chosen)))
    shared = Cache()
    for row in rows:
        profile = joint.prepare(chosen[row], joint.energy, joint.constant)
        shared.expect(profile, joint.thresholds(profile, 4.0 * limit / cycles[row]))
    assert len(rows) == 60
    found = 0
    for row in rows:
        profile = joint.prepare(chosen[row], joint.energy, joint.constant)
        most_costs = joint.thresholds(profile, 4.0 * limit / cycles[row])
        alone = Cache()
        alone.expect(profile, most_costs)
        value = joint.least(profile, most_costs, alone)[0]
        found += math.isfinite(value)
        assert joint.least(profile, most_costs, shared)[0] == pytest.approx(value, rel=1e-12)
    assert found > 30
