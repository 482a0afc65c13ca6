from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codesign.tensorize.encoding import SoftwareProblem
from codesign.tensorize.observation import OBSERVATION
from codesign.tensorize.policy import ENVIRONMENT, Network, Policy, save_policy
from codesign.tensorize.revisions import REVISIONS
from codesign.tensorize.search import HeuristicPrograms
from codesign.workloads.computation import Computation
from spaces.cores import GEMM_CORE, core_of
from tests.command_line import run

GEMM = ["tensorize", "L[i,j] += M[i,k] * N[k,j]", "--bounds", "i=64,j=48,k=96"]


def run_json(*arguments: str) -> Any:
    result = run(*arguments, "--format", "json")
    assert result.code == 0, result.err
    return result.json


def test_the_search_is_that_of_the_library() -> None:
    printed = run_json(*GEMM, "--core", "gemmcore", "--design", "pe=8,banks=2", "--evaluations", "40", "--seed", "3")
    core = core_of(GEMM_CORE, {**GEMM_CORE.space.presets[0], "pe": 8, "banks": 2})
    computation = Computation.parse("L[i,j] += M[i,k] * N[k,j]", i=64, j=48, k=96, partial_bits=32)
    found = HeuristicPrograms().search(SoftwareProblem.of(computation, core), evaluations=40, seed=3)
    assert printed["latency_cycles"] == pytest.approx(found.latency_cycles, rel=1e-12)
    assert printed["stages"][0]["scored"] == 40
    assert printed["search"] == "heuristic"


def test_a_trained_policy_is_a_search_like_the_others(tmp_path: Path) -> None:
    network = Network((np.zeros((REVISIONS, OBSERVATION), np.float32),), (np.zeros(REVISIONS, np.float32),))
    save_policy(tmp_path / "policy.npz", Policy(network, ENVIRONMENT, "dqn", 1, 0))
    printed = run_json(*GEMM, "--core", "gemmcore", "--search", f"policy:{tmp_path}/policy.npz", "--evaluations", "20")
    assert printed["search"] == "dqn" and printed["latency_cycles"] > 0


def test_stages_are_searched_where_the_whole_matches_nothing() -> None:
    chain = ["tensorize", "D[i,j] += A[i,k] * B[k,l] * C[l,j]", "--bounds", "i=16,j=16,k=16,l=16"]
    printed = run_json(*chain, "--core", "gemmcore", "--evaluations", "5")
    assert len(printed["stages"]) == 2
    assert printed["latency_cycles"] == sum(s["latency_cycles"] for s in printed["stages"])
    refused = run(
        "tensorize", "D[i,j] += A[i,k,l] * B[l,j] * C[k,j]", "--bounds", "i=8,j=8,k=8,l=8", "--core", "gemmcore"
    )
    assert refused.code == 2 and "condition 4 (coverage) fails" in refused.err


def test_text_names_loops_and_times() -> None:
    text = run(*GEMM, "--core", "gemmcore", "--evaluations", "5")
    assert text.code == 0
    for word in ("core ", "choice ", "loops of calls", "latency ", "scored "):
        assert word in text.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--core", "gemmcor"], "unknown space 'gemmcor'; did you mean 'gemmcore'"),
        (["--core", "eyeriss"], "has no intrinsic"),
        (["--core", "gemmcore", "--design", "pe=9"], "parameter 'pe': expected one of 8, 16, 32, got 9"),
        (["--core", "gemmcore", "--design", "pe"], "expected name=value, got 'pe'"),
        (["--core", "gemmcore", "--tiles", "i=3"], "--tiles does not go with --core"),
        (["--core", "gemmcore", "--intrinsic", "gemm"], "--intrinsic does not go with --core"),
        (["--core", "gemmcore", "--partial"], "--partial does not go with --core"),
        (["--core", "gemmcore", "--search", "heuristics"], "did you mean 'heuristic'"),
        (["--core", "gemmcore", "--evaluations", "0"], "evaluations must be >= 1, got 0"),
        (["--search", "random", "--intrinsic", "gemm"], "--search is about a search"),
        ([], "give --intrinsic, or --core"),
    ],
)
def test_mistakes_are_refused(arguments: list[str], message: str) -> None:
    result = run(*GEMM, *arguments)
    assert result.code == 2
    assert message in result.err
