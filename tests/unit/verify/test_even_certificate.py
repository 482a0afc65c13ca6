"""Certificates of even mappings: true ones accepted, false and damaged ones refused; bounds never above what enumeration finds."""

import copy
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codesign.arch.presets import load_preset
from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective, Proof
from codesign.cost.arrays import Reuse
from codesign.mappers.exact import ExactMapper
from codesign.mappers.random_search import RandomMapper
from codesign.mapping.constraints import MappingProblem
from codesign.verify import certificate, restored, verify
from codesign.verify.even.bounds import Bounded
from codesign.verify.even.claims import certify
from codesign.verify.even.prices import Profile
from codesign.verify.even.problem import Kept, Space, Vector, make_space
from codesign.verify.even.profiles import exact
from codesign.verify.even.screen import closed_bounds, left_open
from codesign.verify.even.tiles import Program
from codesign.workloads.computation import Computation
from codesign.workloads.layer_string import parse_layer
from experiments.attacks.even_mappings import enumerate_all
from experiments.attacks.problems import PLAIN, WINDOWS, random_problem
from tests.command_line import run

OBJECTIVES = (Objective.ENERGY, Objective.LATENCY, Objective.EDP)


def drawn(seed: int, size: int, constrained: bool) -> tuple[MappingProblem, list[float]]:
    """A random problem that can be enumerated, and its least energy, latency and product."""
    rng = np.random.default_rng(seed)
    for _ in range(40):
        problem = random_problem(
            rng, PLAIN if seed % 2 else WINDOWS, size=size, constrained=constrained, busy=seed % 3 == 0
        )
        try:
            best, valid = enumerate_all(problem, Reuse.TIMELOOP, 20_000)
        except (OverflowError, UserError):
            continue
        if valid:
            return problem, list(best)
    pytest.fail("no problem of 40 can be enumerated and mapped")


def combinations(space: Space) -> Iterator[tuple[Vector, ...]]:
    """Vectors of all fan-outs whose products divide the bounds."""
    choices = [space.vectors(v) for v in range(space.n_levels)]

    def extend(chosen: tuple[Vector, ...], left: tuple[int, ...]) -> Iterator[tuple[Vector, ...]]:
        if len(chosen) == len(choices):
            yield chosen
            return
        for vector in choices[len(chosen)]:
            if all(rest % f == 0 for rest, f in zip(left, vector, strict=True)):
                yield from extend((*chosen, vector), tuple(r // f for r, f in zip(left, vector, strict=True)))

    yield from extend((), tuple(int(b) for b in space.bounds))


def loose(space: Space, kept: Kept, vectors: tuple[Vector, ...]) -> Profile:
    """A profile whose children share as much as any tile lets them."""
    table = []
    for m, vector in enumerate(vectors):
        f = np.array(vector)
        if space.arrays.shares[m] == 0:
            table.append((float(f.prod()),) * space.n_tensors)
        else:
            table.append(tuple(float(np.prod(1 + (row > 0) @ (f - 1))) for row in space.coef))
    return Profile(space, kept, vectors, tuple(table))


def check_bounds(seed: int, size: int, constrained: bool) -> None:
    """Closed bounds and tables against enumeration, the compiled bounds against the plain ones, walks against both."""
    problem, best = drawn(seed, size, constrained)
    for objective, least in zip(OBJECTIVES, best, strict=True):
        space = make_space(problem, objective)
        tables, reached = math.inf, False
        for kept in space.keep_sets():
            plain, bounds = [], dict[tuple[Vector, ...], float]()
            for vectors in combinations(space):
                bounds[vectors] = math.inf
                wide = loose(space, kept, vectors)
                closed = objective.score(wide.closed_energy(), wide.closed_cycles())
                if closed < least * 1.01:
                    plain.append(vectors)
                for profile, diagonals in exact(space, kept, vectors):
                    bounded = Bounded(Program(profile, diagonals), objective)
                    if not bounded.program.starts:
                        continue
                    bound = bounded.least(math.inf)
                    assert bound >= closed * (1.0 - 1e-8)
                    assert (bounded.least(least) >= least) == (bound >= least) or bound == pytest.approx(least)
                    tables, bounds[vectors] = min(tables, bound), min(bounds[vectors], bound)
                    reached |= bounded.below(least * (1.0 + 1e-9), math.inf) is not None
                    assert bounded.below(least * (1.0 - 1e-9), math.inf) is None
            n, m = objective.energy_exponent, objective.latency_exponent
            found = closed_bounds(space, kept, n, m, least * 1.01)
            assert sorted(found) == sorted(plain)
            left = set(left_open(space, kept, found, least * 1.01))
            assert all(vectors in left for vectors, bound in bounds.items() if bound < least * (1.01 - 1e-6))
        assert tables <= least * (1.0 + 1e-9)
        assert reached


@pytest.mark.parametrize("seed", range(12))
def test_bounds_and_walks_agree_with_enumeration(seed: int) -> None:
    check_bounds(seed, 12, constrained=seed % 4 == 3)


@pytest.mark.slow("oracle")
@pytest.mark.parametrize("seed", range(100, 300))
def test_bounds_and_walks_of_many_more(seed: int) -> None:
    check_bounds(seed, 20, constrained=seed % 3 == 2)


@pytest.mark.parametrize(("p", "r", "stride", "dilation"), [(5, 3, 2, 1), (4, 3, 1, 3), (3, 2, 4, 1), (6, 4, 3, 2)])
def test_every_offset_of_an_axis_is_counted_once(p: int, r: int, stride: int, dilation: int) -> None:
    computation = Computation.parse(f"O[k,p] += I[{stride}*p+{dilation}*r] * W[k,r]", k=2, p=p, r=r)
    space = make_space(MappingProblem(computation, load_preset("gemmini")), Objective.EDP)
    offsets = {stride * i + dilation * j for i in range(p) for j in range(r)}
    assert float(space.offsets[0].prod()) == len(offsets)


def test_a_strided_layer_needs_few_claims() -> None:
    computation = Computation.parse("O[c,p,q] += I[c,2*p+r,2*q+s] * W[c,r,s]", c=16, p=14, q=14, r=3, s=3)
    problem = MappingProblem(computation, load_preset("simba"))
    found = ExactMapper().map(problem, Objective.EDP, budget=Budget(), seed=0)
    assert found.mapping is not None
    given = certify(problem, Objective.EDP, found.mapping)
    assert len(given.claims) < 20 and verify(given).accepted


@pytest.mark.parametrize("seed", range(6))
def test_optimum_is_accepted_and_anything_worse_refused(seed: int) -> None:
    problem, best = drawn(500 + seed, 30, constrained=seed % 2 == 1)
    for objective, least in zip(OBJECTIVES, best, strict=True):
        found = ExactMapper().map(problem, objective, budget=Budget(), seed=0)
        assert found.mapping is not None and found.proof is Proof.OPTIMAL
        verdict = verify(restored(json.loads(json.dumps(certificate(certify(problem, objective, found.mapping))))))
        assert verdict.accepted, verdict.reason
        other = RandomMapper().map(problem, objective, budget=Budget(evaluations=3), seed=seed)
        if other.mapping is None or other.cost is None or objective.of(other.cost) < least * (1.0 + 1e-6):
            continue
        verdict = verify(certify(problem, objective, other.mapping))
        assert not verdict.accepted
        assert "exists" in verdict.reason


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """The certificate of a small convolution on Simba, which has claims."""
    problem = MappingProblem(parse_layer("conv K=8 C=8 P=7 Q=7 R=3 S=3"), load_preset("simba"))
    found = ExactMapper().map(problem, Objective.EDP, budget=Budget(), seed=0)
    assert found.mapping is not None
    made: dict[str, Any] = json.loads(json.dumps(certificate(certify(problem, Objective.EDP, found.mapping))))
    assert made["claims"]
    return made


def _first_loops(document: dict[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = next(x for x in document["nest"] if len(x["temporal"]) > 1)
    return entry


DAMAGE = [
    (lambda d: d.update(value=d["value"] * 0.999), "the certificate says"),
    (lambda d: d["claims"].pop(), "no claim covers"),
    (lambda d: d["claims"][0].update(bound=d["value"] * 0.9), "a claim says only"),
    (lambda d: d["claims"][0]["spatial"].clear(), "no claim covers"),
    (lambda d: d["claims"][0]["keep"].update(DRAM=[]), "no claim covers"),
    (lambda d: d["architecture"]["levels"][0]["energy"].update(read_pj=1.0), "the certificate says"),
    (lambda d: d["problem"]["bounds"].update(K=16), "the nest"),
    (lambda d: d["nest"].pop(), "the nest"),
    (lambda d: d["nest"][1]["keep"].pop(), "the nest"),
    (lambda d: _first_loops(d)["temporal"].pop(), "the nest"),
    (lambda d: _first_loops(d)["temporal"].append(["K", 2]), "the nest"),
    (lambda d: d.update(objective="energy"), "the certificate says"),
    (
        lambda d: d["constraints"]["levels"].append({"level": "DRAM", "spatial": {"K": 2}}),
        "the nest: the fan-out of level 'DRAM' may not be used so",
    ),
]


@pytest.mark.parametrize(("damage", "reason"), DAMAGE)
def test_damaged_certificate_is_refused(document: dict[str, Any], damage: Any, reason: str) -> None:
    damaged = copy.deepcopy(document)
    damage(damaged)
    try:
        verdict = verify(restored(damaged))
    except UserError as error:
        pytest.fail(f"a damaged certificate is to be read and refused, got {error}")
    assert not verdict.accepted
    assert reason in verdict.reason


def test_loops_along_the_wrong_side_are_refused(document: dict[str, Any]) -> None:
    turned = copy.deepcopy(document)
    entry = next(x for x in turned["nest"] if x["spatial"])
    along_x = [dim for dim, _, axis in entry["spatial"] if axis == "y"]
    turned["constraints"]["levels"].append({"level": entry["level"], "along_x": along_x})
    verdict = verify(restored(turned))
    assert not verdict.accepted
    assert "may not lie along" in verdict.reason


@pytest.mark.parametrize(
    ("path", "number"),
    [
        (("problem", "bounds", "K"), 10**30),
        (("architecture", "levels", 0, "word_bits"), 10**400),
        (("nest", 0, "temporal"), [["K", math.inf]]),
        (("value",), 10**400),
    ],
)
def test_numbers_beyond_all_measure_break_a_certificate(document: dict[str, Any], path: Any, number: Any) -> None:
    broken = copy.deepcopy(document)
    part: Any = broken
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = number
    with pytest.raises(UserError, match=r"the certificate is damaged: .*(below 2|must be a|beyond all measure)"):
        restored(broken)


def test_what_is_too_large_to_score_is_refused(document: dict[str, Any]) -> None:
    slow = copy.deepcopy(document)
    slow["architecture"]["levels"][0].update(
        read_bandwidth_words_per_cycle=1e-320, write_bandwidth_words_per_cycle=1e-320
    )
    verdict = verify(restored(slow))
    assert not verdict.accepted
    assert "too large to be scored" in verdict.reason


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[" * 100_000, b'{"value": ' + b"9" * 5000 + b"}"])
def test_files_that_cannot_be_read_are_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "proof.json"
    path.write_bytes(content)
    refused = run("verify", path)
    assert refused.code == 2
    assert "is no JSON" in refused.err


def test_whole_certificate_is_accepted(document: dict[str, Any]) -> None:
    verdict = verify(restored(document))
    assert verdict.accepted, verdict.reason
    assert f"{len(document['claims'])} claims checked" in verdict.reason


def test_time_limit_refuses_instead_of_believing(document: dict[str, Any]) -> None:
    verdict = verify(restored(document), time_limit=0.0)
    assert not verdict.accepted
    assert "the time limit ended the check after 0 claims" in verdict.reason


def test_what_it_does_not_cover_is_named() -> None:
    problem = MappingProblem(parse_layer("gemm M=5 N=4 K=4"), load_preset("gemmini"), imperfect=True)
    with pytest.raises(UserError, match="--certificate does not cover imperfect factors"):
        make_space(problem, Objective.EDP)


def test_command_writes_what_verify_accepts(tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    layer = ["--arch", "gemmini", "--layer", "gemm M=32 N=48 K=16"]
    made = run("map", *layer, "--mapper", "exact", "--certificate", path)
    assert made.code == 0, made.err
    accepted = run("verify", path)
    assert accepted.code == 0
    assert accepted.out.startswith("accepted: ")
    path.write_text(path.read_text().replace('"capacity_bytes": 262144', '"capacity_bytes": 600', 1))
    refused = run("verify", path)
    assert refused.code == 1
    assert refused.out.startswith("refused: ")


def test_only_a_proof_gets_a_certificate(tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    layer = ["--arch", "gemmini", "--layer", "gemm M=512 N=960 K=640"]
    made = run("map", *layer, "--mapper", "exact", "--evaluations", "1", "--certificate", path)
    assert made.code == 2
    assert "the mapping is not proven (gap)" in made.err
    assert not path.exists()
    assert "needs --mapper exact" in run("map", *layer, "--certificate", path).err
    for option in ("--pad",):
        assert option in run("map", *layer, "--mapper", "exact", option, "--certificate", path).err
