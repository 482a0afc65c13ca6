"""What the exact mapper claims of imperfect factors against every nest of small problems: windows of several tensors, constraints, small budgets."""

import math
import random
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from codesign.arch.architecture import Architecture, Arithmetic, Fanout, Links
from codesign.core.errors import UserError
from codesign.core.goals import OBJECTIVES, Budget, Objective, Proof
from codesign.cost.arrays import Reuse, encode_problem
from codesign.mappers.driver import Encoded
from codesign.mappers.imperfect.joint import joint_search
from codesign.mappers.imperfect.joint.joint_problem import JointProblem
from codesign.mappers.imperfect.joint.joint_search import search_jointly
from codesign.mappers.imperfect.joint.outer_walk import outer_costs
from codesign.mappers.registry import create
from codesign.mapping.constraints import Constraints, LevelConstraints, MappingProblem
from codesign.mapping.space import kept_and_free
from codesign.workloads.computation import Computation
from experiments.attacks.imperfect_nests import how_many, least_of_all
from experiments.attacks.imperfect_problems import MOST_CHOICES, draw, draw_small


def attack_by_enumeration(problem: MappingProblem, objective: Objective, budget: Budget) -> float:
    """The claimed bound over the least of all nests; 0 where nothing fits or nothing is claimed."""
    least, _ = least_of_all(problem, objective)
    found = create("exact").map(problem, objective, budget=budget, seed=0)
    if found.cost is None:
        assert found.proof is not Proof.OPTIMAL or math.isinf(least)
        return 0.0
    if found.gap is None:
        return 0.0
    value = objective.of(found.cost)
    bound = value / (1.0 + found.gap)
    assert bound <= least * (1 + 1e-9), (problem, objective, bound, least)
    assert found.proof is not Proof.OPTIMAL or value <= least * (1 + 1e-9)
    return bound / least


def draw_outer(rng: random.Random) -> MappingProblem:
    """A problem whose cost is nearly all words of the outermost level; one tensor goes past the level of the fan-out."""
    while True:
        base = draw(rng).architecture.levels
        if len(base) < 3:
            continue
        notation = rng.choice(("O[m,n] += I[m,k] * W[k,n]", "O[k,p] += I[2*p,c] * W[k,c]", "O[k,p] += I[p+r] * W[k,r]"))
        computation = Computation.parse(notation, {d: rng.randint(2, 5) for d in "cmnkpr" if d in notation})
        levels = []
        for v, level in enumerate(base):
            cheap = {} if v == 0 else {"read_pj": 0.01, "fill_pj": 0.01, "update_pj": 0.01}
            levels.append(
                replace(
                    level,
                    energy=replace(level.energy, **cheap),
                    fanout=Fanout(rng.choice([2, 3]), links=Links.MULTICAST) if v == 1 else Fanout(),
                    capacity_bytes=(None, float(rng.randint(2, 9)), float(rng.randint(3, 4)))[v],
                )
            )
        past = LevelConstraints(levels[1].name, bypass=frozenset({rng.choice(computation.tensors).name}))
        machine = Architecture("outer", tuple(levels), Arithmetic(energy_pj=0.01))
        problem = MappingProblem(computation, machine, Constraints((past,)), imperfect=True)
        if 500 <= how_many(problem) <= MOST_CHOICES:
            return problem


def attack_bound(problem: MappingProblem, objective: Objective, worse: float) -> float:
    """The bound of a search that knows only a mapping `worse` times the least, over the least; 0 where nothing fits.

    The search may not rest on a good mapping: what it leaves out wrongly shows in its bound.
    """
    least, _ = least_of_all(problem, objective)
    if not math.isfinite(least):
        return 0.0
    search = Encoded.of(problem, Reuse.TIMELOOP)
    bound, _ = search_jointly(search, objective, worse * least, 1e8, math.inf)
    if any(len(axis.terms) > 1 for tensor in problem.computation.tensors for axis in tensor.axes):
        with suppress(UserError):  # a fixed factor that divides no bound: there is no perfect mapping
            perfect = create("exact").map(replace(problem, imperfect=False), objective, budget=Budget(), seed=0)
            if perfect.cost is not None:  # perfect nests are bounded by their own search (rule IB14)
                bound = min(bound, objective.of(perfect.cost))
    assert bound <= least * (1 + 1e-9), (problem, objective, bound, least)
    return bound / least


def attack_outer(seed: int) -> float:
    """A random problem whose outer levels are bounded by themselves, however few its profiles are."""
    rng = random.Random(seed)
    problem = rng.choice([draw_small, draw_outer, draw_outer])(rng)
    return attack_bound(problem, rng.choice(OBJECTIVES), rng.choice([1.05, 1.5, 3.0]))


def test_least_cost_of_the_outer_levels_is_below_every_nest() -> None:
    """Rule IB16 by itself: words of the outermost level are nearly all that these machines pay for."""
    near = 0
    for seed in range(7010, 7026):
        problem = draw_outer(random.Random(seed))
        least, _ = least_of_all(problem, Objective.ENERGY)
        arrays = encode_problem(problem.computation, problem.architecture, Reuse.TIMELOOP)
        joint = JointProblem(problem, arrays, kept_and_free(problem)[0])
        outer, constant = outer_costs(joint, joint.energy), float(arrays.macs * arrays.mac_energy)
        if outer is None or math.isinf(least) or "p+r" in str(problem.computation):  # there perfect nests may cost less
            continue
        assert outer.least + constant <= least * (1 + 1e-9), seed
        near += outer.least + constant > 0.97 * least
    assert near > 1


def test_outer_levels_by_themselves_claim_no_more_than_all_nests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule IB16."""
    monkeypatch.setattr(joint_search, "FEW_OPENED", 0)
    for seed in range(1000, 1005):
        attack_outer(seed)


@pytest.mark.slow("oracle")
def test_outer_levels_by_themselves_on_many_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint_search, "FEW_OPENED", 0)
    assert np.median([r for r in map(attack_outer, range(2000, 2300)) if r > 0.0]) > 0.95


@pytest.mark.slow("oracle")
def test_claims_hold_against_all_nests_of_many_machines() -> None:
    ratios = []
    for seed in range(200):
        rng = random.Random(seed)
        problem = draw_small(rng)
        budget = rng.choice([Budget(), Budget(evaluations=rng.randint(5, 5000))])
        ratios.append(attack_by_enumeration(problem, rng.choice(OBJECTIVES), budget))
    assert np.median([r for r in ratios if r > 0.0]) > 0.95
