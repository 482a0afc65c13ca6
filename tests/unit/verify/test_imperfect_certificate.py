"""Certificates of imperfect factors: bounds against enumeration, true ones accepted, damaged ones refused with their line."""

import copy
import json
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codesign
from codesign.arch.presets import load_preset
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.cost.arrays import Reuse
from codesign.evaluation.network import EvaluationOptions
from codesign.evaluation.network_certificate import network_certificate
from codesign.evaluation.whole_network import NetworkResult, map_network
from codesign.library.certificates import check_certificate
from codesign.library.map_options import MapOptions
from codesign.mappers.exact import ExactMapper
from codesign.mappers.random_search import RandomMapper
from codesign.mapping.constraints import Constraints, MappingProblem
from codesign.verify import certificate, restored, verify
from codesign.verify.even.claims import certify, with_claims
from codesign.verify.even.problem import make_space
from codesign.verify.imperfect.imperfect_bounds import imperfect_bound
from codesign.verify.imperfect.spatial_factors import refuse_uncovered
from codesign.verify.network import NetworkCertificate
from codesign.verify.seal import SEAL, seal
from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.layer_string import parse_layer
from experiments.attacks.even_mappings import enumerate_all
from experiments.attacks.imperfect_nests import least_of_all
from experiments.attacks.imperfect_problems import draw_small
from tests.command_line import run

GOALS = (Objective.ENERGY, Objective.LATENCY, Objective.EDP)


def check_bounds(seed: int) -> None:
    """No bound of the rules J is above the least imperfect mapping; the certificate of the search is accepted."""
    problem = draw_small(random.Random(seed))
    try:
        refuse_uncovered(make_space(replace(problem, imperfect=False), Objective.EDP))
    except UserError:
        return
    for column, objective in enumerate(GOALS):
        least, _ = least_of_all(problem, objective)
        if math.isinf(least):
            continue
        space = make_space(replace(problem, imperfect=False), objective)
        if imperfect_bound(space, least * 1.5) > least * (1.0 + 1e-9):  # then a perfect one is the best
            assert any(space.sliding)
            best, _ = enumerate_all(space.source, Reuse.TIMELOOP, 3_000_000)
            assert best[column] <= least * (1.0 + 1e-9)
        found = ExactMapper().map(problem, objective, budget=Budget(), seed=0)
        assert found.mapping is not None
        given = certify(problem, objective, found.mapping, found.shown(objective) if found.gap is not None else least)
        assert given.bound <= least * (1.0 + 1e-9)
        verdict = verify(given)
        assert verdict.accepted, verdict.reason


@pytest.mark.parametrize(
    "seed", [*range(12), 1391]
)  # the last has loops in time inside a fan-out, over a level that keeps nothing
@pytest.mark.thinned(4)
def test_bounds_against_enumeration(seed: int) -> None:
    check_bounds(seed)


@pytest.mark.slow("oracle")
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_bounds_of_many_more(seed: int) -> None:
    check_bounds(seed)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """A certificate with claims on imperfect and on perfect profiles."""
    problem = MappingProblem(parse_layer("conv K=13 C=5 P=7 Q=1 R=3 S=3"), load_preset("eyeriss"), imperfect=True)
    found = ExactMapper().map(problem, Objective.EDP, budget=Budget(), seed=0)
    assert found.mapping is not None
    given = certify(problem, Objective.EDP, found.mapping, found.shown(Objective.EDP))
    assert given.imperfect and given.claims
    return json.loads(json.dumps(certificate(given)))  # type: ignore[no-any-return]


def test_a_whole_certificate_is_accepted(document: dict[str, Any]) -> None:
    verdict = check_certificate(document)
    assert verdict.accepted, verdict.reason
    assert verdict.claims >= len(document["imperfect"])


def raised(key: str, by: float) -> Any:
    return lambda d: d.update({key: d[key] * by})


DAMAGE = [
    (raised("value", 1.0 + 1e-9), "`value`"),
    (lambda d: d["imperfect"].pop(), "no claim covers"),
    (lambda d: d["imperfect"].append(d["imperfect"][0]), "stands twice"),
    (lambda d: d["imperfect"][0].update(bound=d["imperfect"][0]["bound"] * (1.0 + 1e-9)), "`imperfect[0].bound`"),
    (lambda d: d["imperfect"][0].update(bound=d["imperfect"][0]["bound"] * 0.9), "`imperfect[0].bound`"),
    (lambda d: d["architecture"]["levels"][0]["energy"].update(read_pj=1.0), "the nest"),
    (lambda d: d["problem"]["bounds"].update(C=6), "the nest"),
    (lambda d: d["nest"][0]["temporal"].append(["K", 2]), "the nest"),
]


@pytest.mark.parametrize(("damage", "reason"), DAMAGE)
def test_damage_is_refused_even_with_a_new_seal(
    document: dict[str, Any], damage: Any, reason: str, tmp_path: Path
) -> None:
    changed = copy.deepcopy(document)
    damage(changed)
    old = tmp_path / "old.json"
    old.write_text(json.dumps(changed, indent=1))
    verdict = check_certificate(old)
    assert not verdict.accepted and verdict.reason.startswith("line ")
    changed[SEAL] = seal({key: part for key, part in changed.items() if key != SEAL})
    verdict = check_certificate(changed)
    assert not verdict.accepted
    assert reason in verdict.reason


def test_a_mapping_above_the_optimum_is_refused() -> None:
    problem = MappingProblem(parse_layer("gemm M=7 N=13 K=11"), load_preset("gemmini"), imperfect=True)
    found = RandomMapper().map(problem, Objective.ENERGY, budget=Budget(evaluations=20), seed=0)
    least = ExactMapper().map(problem, Objective.ENERGY, budget=Budget(), seed=0)
    assert found.mapping is not None and found.cost is not None and least.cost is not None
    assert found.cost.energy_pj > least.cost.energy_pj * 1.001
    honest = certify(problem, Objective.ENERGY, found.mapping)
    assert honest.bound <= least.cost.energy_pj and verify(honest).accepted
    for shown in (None, (least.cost.energy_pj + found.cost.energy_pj) / 2.0):  # optimal, or a gap too small
        forged = with_claims(replace(honest, shown=shown))
        written = json.loads(json.dumps(certificate(forged)))
        verdict = check_certificate(written)
        assert not verdict.accepted
        assert "is not ruled out" in verdict.reason


def test_command_and_library(tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    layer = ("--arch", "gemmini", "--layer", "gemm M=16 N=31 K=31", "--imperfect")
    made = run("map", *layer, "--mapper", "exact", "--certificate", path)
    assert made.code == 0, made.err
    told = run("verify", path)
    assert told.code == 0 and "accepted" in told.out
    text = path.read_text()
    path.write_text(text[: len(text) // 2])
    assert run("verify", path).code == 2
    path.write_text(text.replace("codesign certificate 3", "codesign certificate 2"))
    assert "line 2" in run("verify", path).err
    proof = codesign.map_layer("gemm M=16 N=31 K=31", "gemmini", MapOptions(imperfect=True)).certificate()
    assert check_certificate(proof).accepted


def test_whole_network() -> None:
    net = NetworkBuilder("chain", bits=8, partial_bits=24)
    x = net.relu(net.linear(net.input("x", (3, 7)), 13, name="first"))
    network, architecture = net.build(net.linear(x, 5, name="last")), load_preset("gemmini")
    options = EvaluationOptions(Objective.EDP, imperfect=True)
    found = map_network(network, architecture, ExactMapper(), options)
    assert isinstance(found, NetworkResult)
    proof = json.loads(json.dumps(network_certificate(found, lambda _: Constraints())))
    given = restored(proof)
    assert isinstance(given, NetworkCertificate)
    assert all(layer.proof.imperfect is not None for layer in given.layers)
    verdict = check_certificate(proof)
    assert verdict.accepted, verdict.reason
    assert np.isclose(given.value, Objective.EDP.score(found.energy_pj, found.latency_cycles))
    proof["layers"][0]["value"] *= 1.0 + 1e-9
    assert "layers[0].value" in check_certificate(proof).reason
