"""Many keep sets bounded together: the same combinations as one by one; certificates of wide sets accepted, damaged ones refused."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from codesign.arch.presets import load_preset
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective, Proof
from codesign.library.certificates import check_certificate
from codesign.mappers.exact import ExactMapper
from codesign.mapping.constraints import Constraints, MappingProblem
from codesign.verify import certificate
from codesign.verify.even import wide_keep_sets
from codesign.verify.even.claims import certify
from codesign.verify.even.problem import make_space
from codesign.verify.even.screen import closed_bounds
from codesign.verify.even.wide_keep_sets import WIDE, open_together
from codesign.verify.seal import SEAL, seal
from codesign.workloads.layer_string import parse_layer
from experiments.attacks.problems import PLAIN, WINDOWS, random_problem

GOALS = (Objective.ENERGY, Objective.LATENCY, Objective.EDP)


@pytest.mark.parametrize("seed", range(12))
def test_the_same_is_left_as_set_by_set(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, PLAIN if seed % 2 else WINDOWS, size=12, free_bypass=True, busy=seed % 3 == 0)
    objective = GOALS[seed % 3]
    try:
        space = make_space(problem, objective)
    except UserError:
        return
    found = ExactMapper().map(problem, objective, budget=Budget(), seed=0)
    if found.cost is None:
        return
    limit = objective.of(found.cost) * 1.1
    n, m = objective.energy_exponent, objective.latency_exponent
    single = {kept: closed_bounds(space, kept, n, m, limit) for kept in space.keep_sets()}
    assert space.n_keep_sets == len(single)
    together = open_together(space, limit)
    assert {kept: sorted(v) for kept, v in single.items() if v} == {kept: sorted(v) for kept, v in together.items()}


def wide(layer: str) -> MappingProblem:
    """Every level of Eyeriss may keep every tensor: 4,096 keep sets."""
    computation, preset = parse_layer(layer), load_preset("eyeriss")
    roles = frozenset(t.role.value for t in computation.tensors)
    levels = tuple(v if i == 0 else replace(v, keep=roles) for i, v in enumerate(preset.levels))
    return MappingProblem(computation, replace(preset, levels=levels), Constraints(free_bypass=True))


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """A certificate over 4,096 keep sets."""
    problem = wide("gemm M=16 N=32 K=24")
    found = ExactMapper().map(problem, Objective.EDP, budget=Budget(), seed=0)
    assert found.mapping is not None and found.proof is Proof.OPTIMAL
    given = certify(problem, Objective.EDP, found.mapping)
    assert given.space.n_keep_sets >= WIDE and given.claims
    return json.loads(json.dumps(certificate(given)))  # type: ignore[no-any-return]


def test_a_whole_certificate_is_accepted(document: dict[str, Any]) -> None:
    verdict = check_certificate(document)
    assert verdict.accepted, verdict.reason
    assert verdict.claims == len(document["claims"])


def test_damage_is_refused(document: dict[str, Any]) -> None:
    for change, reason in (
        ({"claims": document["claims"][1:]}, "no claim covers"),
        ({"value": document["value"] * (1.0 + 1e-9)}, "`value`"),
    ):
        damaged = {**document, **change}
        assert not check_certificate(damaged).accepted
        damaged[SEAL] = seal({key: part for key, part in damaged.items() if key != SEAL})
        verdict = check_certificate(damaged)
        assert not verdict.accepted
        assert reason in verdict.reason


def test_too_many_claims_are_refused_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wide_keep_sets, "MOST_CLAIMS", 0)
    problem = wide("gemm M=16 N=32 K=24")
    found = ExactMapper().map(problem, Objective.EDP, budget=Budget(), seed=0)
    assert found.mapping is not None
    with pytest.raises(UserError, match="more than 0 claims"):
        certify(problem, Objective.EDP, found.mapping)
