"""Certificates of uneven mappings: bounds against enumeration, true ones accepted, damaged ones refused with their line."""

import copy
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codesign.arch.presets import load_preset
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective, Proof
from codesign.cost.arrays import Reuse
from codesign.library.certificates import check_certificate
from codesign.mappers.exact import ExactMapper
from codesign.mappers.exact.uneven.place_search import refuse_uncovered
from codesign.mapping.constraints import Constraints, LevelConstraints, MappingProblem
from codesign.verify import certificate, restored, verify
from codesign.verify.even.claims import EvenCertificate, certify, place_bound
from codesign.verify.even.problem import make_space
from codesign.verify.network import NetworkCertificate
from codesign.verify.seal import SEAL, seal
from codesign.workloads.layer_string import parse_layer
from experiments.attacks.problems import PLAIN, WINDOWS, random_problem
from experiments.attacks.uneven_places import enumerate_uneven
from tests.command_line import run

GOALS = (Objective.ENERGY, Objective.LATENCY, Objective.EDP)


def check_bounds(seed: int) -> None:
    """No bound is above the least uneven mapping; the certificate of the search is accepted."""
    rng = np.random.default_rng(seed)
    problem = random_problem(
        rng,
        PLAIN if seed % 2 else WINDOWS,
        size=int(rng.choice([6, 8, 12])),
        constrained=seed % 4 == 3,
        busy=seed % 3 == 0,
    )
    try:
        refuse_uncovered(problem, Reuse.TIMELOOP)
        make_space(problem, Objective.EDP)
        best, valid = enumerate_uneven(problem, 60_000)
    except (UserError, OverflowError):
        return
    for objective, least in zip(GOALS, best, strict=True):
        if not valid:
            continue
        assert place_bound(make_space(problem, objective), least * 1.3) <= least * (1.0 + 1e-9)
        found = ExactMapper(uneven=True).map(problem, objective, budget=Budget(), seed=0)
        if found.mapping is None or found.proof is Proof.NONE:
            continue
        given = certify(problem, objective, found.mapping, found.shown(objective), uneven=True)
        assert given.bound <= least * (1.0 + 1e-9)
        verdict = verify(restored(json.loads(json.dumps(certificate(given)))))
        assert verdict.accepted, verdict.reason


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.thinned(3)
def test_bounds_against_enumeration(seed: int) -> None:
    check_bounds(seed)


@pytest.mark.slow("oracle")
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_bounds_of_many_more(seed: int) -> None:
    check_bounds(seed)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """A certificate with claims."""
    problem = MappingProblem(parse_layer("conv K=8 C=8 P=7 Q=7 R=3 S=3"), load_preset("simba"))
    found = ExactMapper(uneven=True).map(problem, Objective.EDP, budget=Budget(), seed=0)
    assert found.mapping is not None and found.proof is Proof.OPTIMAL
    given = certify(problem, Objective.EDP, found.mapping, uneven=True)
    assert given.shown is None and given.places
    return json.loads(json.dumps(certificate(given)))  # type: ignore[no-any-return]


def test_a_whole_certificate_is_accepted(document: dict[str, Any]) -> None:
    verdict = check_certificate(document)
    assert verdict.accepted, verdict.reason
    assert verdict.claims == len(document["places"])


DAMAGE = [
    (lambda d: d.update(value=d["value"] * (1.0 + 1e-9)), "`value`"),
    (lambda d: d["places"].pop(), "no claim covers"),
    (lambda d: d["places"].append(d["places"][0]), "stands twice"),
    (lambda d: d["places"][0].update(bound=d["places"][0]["bound"] * (1.0 + 1e-9)), "`places[0].bound`"),
    (lambda d: d["architecture"]["levels"][0]["energy"].update(read_pj=1.0), "the nest"),
    (lambda d: d["problem"]["bounds"].update(C=16), "the nest"),
    (lambda d: d["mapping"].pop(), "the nest"),
    (lambda d: d["constraints"]["levels"].append({"level": "DRAM", "spatial": {"K": 2}}), "may not be used so"),
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


@pytest.mark.slow("oracle")
def test_an_even_mapping_is_not_the_best_uneven_one() -> None:
    problem = MappingProblem(parse_layer("conv K=64 C=64 P=56 Q=56 R=3 S=3"), load_preset("eyeriss"))
    found = ExactMapper().map(problem, Objective.EDP, budget=Budget(), seed=0)
    assert found.mapping is not None and found.proof is Proof.OPTIMAL
    honest = certify(problem, Objective.EDP, found.mapping, uneven=True)
    assert honest.shown is not None and math.isclose(honest.value / honest.shown, 1.003, rel_tol=1e-3)


def test_command_and_network(tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    made = run("map", "--arch", "eyeriss", "--layer", "gemm M=16 N=32 K=24", "--mapper", "exact", "--uneven", "--certificate", path)  # fmt: skip
    assert made.code == 0, made.err
    given = restored(json.loads(path.read_text()))
    assert isinstance(given, EvenCertificate) and given.places is not None
    told = run("verify", path)
    assert told.code == 0 and "accepted" in told.out
    text = path.read_text()
    path.write_text(text[: len(text) // 2])
    assert run("verify", path).code == 2
    path.write_text(text.replace("codesign certificate 3", "codesign certificate 2"))
    assert "line 2" in run("verify", path).err
    whole = run(
        "map", "--arch", "gemmini", "--network", "alexnet", "--uneven", "--objective", "latency", "--certificate", path
    )
    assert whole.code == 0, whole.err
    network = restored(json.loads(path.read_text()))
    assert isinstance(network, NetworkCertificate)
    assert all(layer.proof.places is not None for layer in network.layers)
    assert run("verify", path).code == 0


def test_orders_are_refused_by_name() -> None:
    rule = Constraints((LevelConstraints("Scratchpad", order=("K", "M", "N")),))
    problem = MappingProblem(parse_layer("gemm M=4 N=4 K=4"), load_preset("gemmini"), rule)
    found = ExactMapper().map(problem, Objective.ENERGY, budget=Budget(), seed=0)
    assert found.mapping is not None
    with pytest.raises(UserError, match="orders of uneven mappings"):
        certify(problem, Objective.ENERGY, found.mapping, uneven=True)
