"""Certificates of whole networks: sums and bounds against enumeration, anything damaged refused with its line."""

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codesign
from codesign.arch.architecture import Architecture
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.cost.arrays import Reuse
from codesign.cost.cost import Infeasible
from codesign.evaluation.network import EvaluationOptions
from codesign.evaluation.network_certificate import network_certificate
from codesign.evaluation.whole_network import NetworkResult, map_network
from codesign.library.certificates import check_certificate
from codesign.mappers.exact import ExactMapper
from codesign.mappers.random_search import RandomMapper
from codesign.mapping.constraints import Constraints, MappingProblem
from codesign.verify import restored, verify
from codesign.verify.network import NetworkCertificate, vector_cost
from codesign.verify.seal import SEAL, seal
from codesign.workloads.builder import NetworkBuilder
from codesign.workloads.network import Network
from experiments.attacks.even_mappings import enumerate_all
from experiments.attacks.hardware_spaces import random_space
from tests.command_line import run

OBJECTIVES = (Objective.ENERGY, Objective.LATENCY, Objective.EDP)


def chain(seed: int, widths: tuple[int, ...] = ()) -> Network:
    """Products one after the other, the second twice, with vector operators between them."""
    rng = np.random.default_rng([seed, 2])
    first, inner = widths or (int(rng.choice([2, 3, 4])), int(rng.choice([2, 4, 6])))
    net = NetworkBuilder("chain", bits=8, partial_bits=24)
    x = net.relu(net.linear(net.input("x", (2, first)), inner, name="first"))
    for _ in range(2):
        x = net.relu(net.linear(x, inner, name="again"))
    return net.build(net.softmax(net.linear(x, 3, name="last")))


def drawn(seed: int) -> tuple[Network, Architecture]:
    """A network and a machine on which it can run."""
    for k in range(20):
        space, network = random_space(100 * seed + k), chain(100 * seed + k)
        architecture = space.build(space.space.to_points(space.space.enumerate())[-1])
        found = map_network(network, architecture, RandomMapper(), EvaluationOptions(budget=Budget(evaluations=20)))
        if not isinstance(found, Infeasible):
            return network, architecture
    pytest.fail("no network of 20 can be mapped")


def searched(network: Network, architecture: Architecture, objective: Objective) -> NetworkResult:
    found = map_network(network, architecture, ExactMapper(), EvaluationOptions(objective))
    assert isinstance(found, NetworkResult)
    return found


def unconstrained(computation: Any) -> Constraints:
    return Constraints()


def certified(network: Network, architecture: Architecture, objective: Objective) -> dict[str, Any]:
    document = network_certificate(searched(network, architecture, objective), unconstrained)
    return json.loads(json.dumps(document))  # type: ignore[no-any-return]


@pytest.mark.parametrize("seed", range(4))
def test_sums_and_bounds_against_enumeration(seed: int) -> None:
    network, architecture = drawn(seed)
    more_pj, more_cycles = vector_cost(network, architecture)
    least = [
        (group.count, enumerate_all(MappingProblem(group.computation, architecture), Reuse.TIMELOOP)[0])
        for group in network.distinct_layers()
    ]
    assert sum(count for count, _ in least) == 4
    for column, objective in enumerate(OBJECTIVES):
        given = restored(certified(network, architecture, objective))
        assert isinstance(given, NetworkCertificate)
        verdict = verify(given)
        assert verdict.accepted, verdict.reason
        assert verdict.reason.startswith(f"all of {len(least)} distinct layers are optimal")
        if objective == Objective.EDP:
            root = math.sqrt(more_pj * more_cycles) + sum(count * math.sqrt(best[column]) for count, best in least)
            assert given.bound == pytest.approx(root**2, rel=1e-9)
            assert given.bound <= given.value
        else:
            total = (more_pj, more_cycles)[column] + sum(count * best[column] for count, best in least)
            assert given.value == pytest.approx(total, rel=1e-9)
            assert given.bound == pytest.approx(total, rel=1e-9)
            assert "no mappings of the layers give less" in verdict.reason


@pytest.mark.parametrize("seed", range(3))
def test_no_mappings_of_a_network_are_below_its_bound(seed: int) -> None:
    network, architecture = drawn(10 + seed)
    bounds = [restored(certified(network, architecture, o)) for o in OBJECTIVES]
    for draw in range(40):
        options = EvaluationOptions(OBJECTIVES[draw % 3], Budget(evaluations=1 + draw // 3 * 10), seed=draw)
        found = map_network(network, architecture, RandomMapper(), options)
        if isinstance(found, Infeasible):
            continue
        for given in bounds:
            assert isinstance(given, NetworkCertificate)
            value = given.objective.score(found.energy_pj, found.latency_cycles)
            assert value >= given.bound * (1.0 - 1e-9)


def test_vector_operators_cost_what_evaluation_says() -> None:
    for seed in range(6):
        network, architecture = drawn(20 + seed)
        found = searched(network, architecture, Objective.EDP)
        energy_pj, cycles = vector_cost(network, architecture)
        assert energy_pj == pytest.approx(found.vector.energy_pj, rel=1e-12)
        assert cycles == found.vector.latency_cycles


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """The certificate of a chain of layers on Simba, which has claims."""
    made = codesign.map_network(chain(0, (24, 36)), "simba").certificate()
    assert made["layers"][0]["claims"]
    return json.loads(json.dumps(made))  # type: ignore[no-any-return]


DAMAGE: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
    (lambda d: d["layers"].pop(), "`layers` lacks the layer of operator 'last'"),
    (lambda d: d["layers"].append(d["layers"][0]), r"`layers[3].operator`: the layer of 'first' stands twice"),
    (lambda d: d.update(energy_pj=d["energy_pj"] * (1.0 + 1e-9)), "`energy_pj` is"),
    (lambda d: d.update(latency_cycles=d["latency_cycles"] - 1), "`latency_cycles` is"),
    (lambda d: d.update(bound=d["bound"] * (1.0 + 1e-9)), "`bound` is"),
    (lambda d: d["layers"][0]["claims"][0].update(bound=d["layers"][0]["value"] * (1.0 + 1e-9)), "`layers[0].claims[0].bound`"),
    (lambda d: d["layers"][0]["claims"].pop(), "no claim covers"),
    (lambda d: d["layers"][0]["claims"].append(d["layers"][0]["claims"][0]), "`layers[0].claims[0]` is of no profile"),
    (lambda d: d["layers"][2].update(value=d["layers"][2]["value"] * (1.0 + 1e-9)), "`layers[2].value`"),
    (lambda d: d["layers"][1]["nest"].pop(), "`layers[1]`, 'again': the nest"),
    (lambda d: d["architecture"]["levels"][0].update(word_bits=d["architecture"]["levels"][0]["word_bits"] * 2), "`layers[0].value`"),
    (lambda d: d["architecture"]["levels"][0]["energy"].update(read_pj=3.0), "the certificate says"),
    (lambda d: d.update(objective="energy"), "the certificate says"),
    (lambda d: d["network"]["operators"][1].update(operations=7), "`energy_pj` is"),
    (lambda d: d["layers"][0].update(shown=d["layers"][0]["value"] * 2.0), "`layers[0].shown`"),
    (lambda d: d["layers"][0].update(shown=d["layers"][0]["value"] * 0.5), "`layers[0].claims[0]` is of no profile"),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "reason"), DAMAGE)
@pytest.mark.parametrize("sealed", [False, True])
def test_damage_is_refused_with_its_place(
    document: dict[str, Any], damage: Callable[[dict[str, Any]], Any], reason: str, sealed: bool, tmp_path: Path
) -> None:
    damaged = copy.deepcopy(document)
    damage(damaged)
    if sealed:
        damaged[SEAL] = seal(damaged)
    path = tmp_path / "net.json"
    path.write_text(json.dumps(damaged, indent=1))
    verdict = codesign.check_certificate(path)
    assert not verdict.accepted
    assert reason in verdict.reason
    assert "`" not in reason or verdict.reason.startswith("line ")
    assert sealed or verdict.reason.startswith("line ")


def test_random_damage_is_refused(document: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    from experiments.attacks.other_modes import damage

    for _ in range(60):
        damaged = copy.deepcopy(document)
        where = damage(damaged, rng)
        if where.startswith("/seal"):
            continue
        try:
            verdict = codesign.check_certificate(damaged)
        except UserError:
            continue
        assert not verdict.accepted, where


def test_other_versions_and_cut_files_are_no_certificates(document: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_text(json.dumps({**document, "format": "codesign certificate 2"}, indent=1))
    with pytest.raises(UserError, match="line 2: not a certificate of this version: `format` must be"):
        codesign.check_certificate(path)
    path.write_text(json.dumps(document, indent=1)[:-900])
    with pytest.raises(UserError, match=r"no JSON at line \d+"):
        codesign.check_certificate(path)
    path.write_text(json.dumps({k: v for k, v in document.items() if k != "layers"}, indent=1))
    with pytest.raises(UserError, match="`layers` is missing"):
        codesign.check_certificate(path)
    other = copy.deepcopy(document)
    other["layers"][1]["operator"] = "none"
    path.write_text(json.dumps(other, indent=1))
    with pytest.raises(UserError, match=r"line \d+: `layers\[1\]\.operator` is no operator"):
        codesign.check_certificate(path)


def test_a_search_that_stopped_is_certified_with_its_gap() -> None:
    gemm = NetworkBuilder("one", bits=8)
    network = gemm.build(gemm.linear(gemm.input("x", (512, 640)), 960, name="only"))
    hardware = codesign.load_architecture("gemmini")
    found = map_network(network, hardware, ExactMapper(), EvaluationOptions(budget=Budget(evaluations=1)))
    assert isinstance(found, NetworkResult)
    gap = found.layers[0].result.gap
    assert gap is not None and gap > 0.0
    document = network_certificate(found, unconstrained)
    assert document["layers"][0]["shown"] < document["layers"][0]["value"]
    verdict = codesign.check_certificate(json.loads(json.dumps(document)))
    assert verdict.accepted, verdict.reason
    assert verdict.reason.startswith("0 of 1 distinct layers are optimal")
    assert "above what any mappings give" in verdict.reason
    document["layers"][0]["shown"] = document["layers"][0]["value"] * (1.0 - 1e-12)  # more than is true
    for claim in document["layers"][0]["claims"]:
        claim["bound"] = document["layers"][0]["shown"]
    assert not codesign.check_certificate(json.loads(json.dumps(document))).accepted


def test_the_library_certifies_uneven_mappings_too() -> None:
    net = NetworkBuilder("one", bits=8, partial_bits=24)
    network = net.build(net.linear(net.input("x", (6, 4)), 8, name="only"))
    mapped = codesign.map_network(network, "gemmini", options=codesign.MapOptions(uneven=True))
    proof = json.loads(json.dumps(mapped.certificate()))
    assert proof["layers"][0]["places"] is not None
    given = restored(proof)
    assert isinstance(given, NetworkCertificate) and given.layers[0].proof.uneven is not None
    assert verify(given).accepted
    proof["layers"][0]["value"] *= 1.0 - 1e-9
    proof[SEAL] = seal({key: part for key, part in proof.items() if key != SEAL})
    assert not check_certificate(proof).accepted


def test_command_writes_and_verifies(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    made = run("map", "--network", "alexnet", "--arch", "gemmini", "--objective", "energy", "--certificate", path)
    assert made.code == 0, made.err
    accepted = run("verify", path)
    assert accepted.code == 0, accepted.out
    assert "energy of the network: no mappings of the layers give less" in accepted.out
    late = run("verify", path, "--time-limit", "1e-9")
    assert late.code == 1 and "the time limit ended the check" in late.out
    path.write_text(path.read_text().replace('"capacity_bytes": 262144', '"capacity_bytes": 262145', 1))
    refused = run("verify", path)
    assert refused.code == 1
    assert refused.out.startswith("refused: line ")


def test_what_it_does_not_cover_is_named_before_the_search(tmp_path: Path) -> None:
    whole = ("map", "--network", "alexnet", "--arch", "eyeriss", "--certificate", tmp_path / "net.json")
    for option, said in (
        ("--resident-weights", "activations and weights that stay on the chip"),
        ("--mapper=random", "needs --mapper exact"),
        ("--reuse=walk", "--reuse walk"),
        ("--zeros=weight=0.5 --zero-support=skipping", "zeros"),
    ):
        refused = run(*whole, *option.split())
        assert refused.code == 2 and said in refused.err, (option, refused.err)
    assert not (tmp_path / "net.json").exists()
