"""The joint bound of imperfect factors: the lattice of ceilings, and the bound against all nests of small problems."""

import math
import random
from dataclasses import replace

import pytest

from codesign.core.goals import OBJECTIVES, Budget, Objective, Proof
from codesign.cost.arrays import Reuse
from codesign.mappers.driver import Encoded
from codesign.mappers.imperfect.joint.counts import at_least, ceilings
from codesign.mappers.imperfect.joint.joint_problem import fewest_steps_with
from codesign.mappers.imperfect.joint.joint_search import search_jointly
from codesign.mappers.registry import create
from codesign.mapping.constraints import MappingProblem
from codesign.workloads.computation import Computation
from experiments.attacks.imperfect_problems import draw
from tests.unit.mappers.imperfect.test_imperfect_mappers import every_value, machine


def test_few_numbers_of_tiles_and_loops_reach_no_other() -> None:
    for bound in (1, 7, 97, 196, 1500):
        row = ceilings(bound)
        assert len(row.number) <= 2 * math.isqrt(bound) + 1
        assert set(row.number.tolist()) == {-(-bound // k) for k in range(1, bound + 1)}
        assert [-(-bound // int(x)) for x in row.tile] == row.number.tolist()
    row = ceilings(97)
    for i, number in enumerate(row.number.tolist()):
        left = {int(row.number[j]) for j in row.next[row.first[i] : row.first[i + 1]]}
        assert left == {-(-number // f) for f in range(1, number + 1)} - {number}


def test_groups_that_are_full_but_the_last() -> None:
    for bound in range(1, 30):
        for factor in range(1, 7):
            groups = -(-bound // factor)
            if bound >= factor:
                assert at_least(groups, factor, factor) <= bound <= groups * factor


def test_steps_at_a_fan_out() -> None:
    """Against a walk over passes: one dimension, `inside` children, a loop of `tile`, `across` children, the rest."""
    for bound in (5, 23, 60):
        for inside in (1, 3):
            for across in (1, 2, 7):
                row = ceilings(-(-bound // inside))
                for tile in range(1, -(-bound // inside) + 1):
                    whole = -(-bound // inside)
                    place = int(row.place_of[-(-whole // tile)])
                    size = inside * tile * across
                    steps = sum(1 for start in range(0, bound, size) for i in range(tile) if start + i * inside < bound)
                    assert fewest_steps_with(bound, inside, across, place) <= steps


def _bound_and_least(problem: MappingProblem, objective: Objective) -> tuple[float, float]:
    least = every_value(problem, objective)
    search = Encoded.of(problem, Reuse.TIMELOOP)
    value = least * 1.3 if math.isfinite(least) else math.inf
    bound, state = search_jointly(search, objective, value, 1e8, math.inf)
    assert state is None or search.value(state, objective) >= least * (1 - 1e-9)
    return bound, least


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_no_nest_is_below_the_bound(objective: Objective) -> None:
    for bounds in ({"m": 5, "k": 7}, {"m": 9, "k": 2}):
        computation = Computation.parse("O[m] += I[m,k] * W[k]", bounds)
        problem = MappingProblem(computation, machine(7.0), imperfect=True)
        bound, least = _bound_and_least(problem, objective)
        assert bound <= least * (1 + 1e-9)
        assert bound >= least * 0.7


def attack_by_enumeration(rng: random.Random, largest: int) -> float:
    """A random small problem: the claimed bound against the least of all nests; their ratio, 0 where nothing fits."""
    drawn = draw(rng)
    notation = rng.choice(["O[m] += I[m,k] * W[k]", "O[p] += I[p+r] * W[r]", "O[p] += I[2*p+r] * W[r]"])
    computation = Computation.parse(notation, {d: rng.randint(2, largest) for d in "mkpr" if d in notation})
    architecture = replace(drawn.architecture, levels=drawn.architecture.levels[:2])
    problem = MappingProblem(computation, architecture, imperfect=True)
    objective = rng.choice(OBJECTIVES)
    least = every_value(problem, objective)
    found = create("exact").map(problem, objective, budget=Budget(), seed=0)
    if found.cost is None or found.gap is None:
        return 0.0
    bound = objective.of(found.cost) / (1.0 + found.gap)
    assert bound <= least * (1 + 1e-9), (problem, objective, bound, least)
    assert found.proof is not Proof.OPTIMAL or objective.of(found.cost) <= least * (1 + 1e-9)
    return bound / least


def test_claims_hold_against_all_nests() -> None:
    rng = random.Random(1)
    assert attack_by_enumeration(rng, 3) > 0.7
