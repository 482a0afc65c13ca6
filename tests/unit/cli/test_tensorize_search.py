import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codesign.tensorization.encoding import SoftwareProblem
from codesign.tensorization.execute import affine_einsum, random_inputs
from codesign.tensorization.observation import OBSERVATION
from codesign.tensorization.policy import ENVIRONMENT, Network, Policy, save_policy
from codesign.tensorization.revisions import REVISIONS
from codesign.tensorization.search import HeuristicPrograms
from codesign.tensorization.simulator import simulate, wrapped
from codesign.workloads.computation import Computation
from spaces.cores import GEMM_CORE, core_of
from tests.command_line import run

GEMM = ["tensorize", "L[i,j] += M[i,k] * N[k,j]", "--bounds", "i=64,j=48,k=96"]


def run_json(*arguments: str) -> Any:
    result = run(*arguments, "--format", "json")
    assert result.code == 0, result.err
    return result.json


def test_a_search_that_proves_nothing_takes_no_prove() -> None:
    plain, found = (run_json(*GEMM, "--core", "gemmcore", *more) for more in ((), ("--no-prove",)))
    assert found == plain


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
        (["--core", "gemmcore", "--evaluations", "0"], "`evaluations` must be >= 1, got 0"),
        (["--search", "random", "--intrinsic", "gemm"], "--search is about a search"),
        ([], "give --intrinsic, or --core"),
    ],
)
def test_mistakes_are_refused(arguments: list[str], message: str) -> None:
    result = run(*GEMM, *arguments)
    assert result.code == 2
    assert message in result.err


ON_CORE = ("--core", "gemmcore", "--evaluations", "20")


@pytest.mark.parametrize("form", ["text", "json", "gemmini"])
def test_the_program_found_is_printed_and_run(form: str) -> None:
    printed = run_json(*GEMM, *ON_CORE, "--emit", form, "--run", "--seed", "2")
    assert printed["simulation"]["equals_einsum"] is True
    choice = printed["stages"][0]["choice"]
    assert set(choice.values()) == {"i", "j", "k"} and printed["program"]
    assert printed["simulation"]["calls"] == 64 * 48 * 96 / 16**3
    assert printed["latency_cycles"] > 0 and printed["search"] == "heuristic"


@pytest.mark.parametrize(
    ("core", "layer"),
    [
        ("gemmcore", "conv K=16 C=8 P=6 Q=6 R=3 S=3"),
        ("gemvcore", "gemm M=24 N=5 K=40"),
        ("dotcore", "gemm M=6 N=5 K=70"),
        ("convcore", "conv K=16 C=8 P=8 Q=8 R=3 S=3"),
    ],
)
def test_instructions_on_every_core_compute_what_einsum_computes(core: str, layer: str) -> None:
    printed = run_json("tensorize", layer, "--core", core, "--evaluations", "10", "--emit", "json", "--run")
    assert printed["simulation"]["equals_einsum"] is True
    counts: dict[str, int] = {}
    for instruction in printed["program"]["instructions"]:
        counts[instruction["op"]] = counts.get(instruction["op"], 0) + 1
    assert counts["call"] == printed["simulation"]["calls"] > 0


def test_a_program_of_a_core_is_written_to_a_file(tmp_path: Path) -> None:
    file = tmp_path / "program.json"
    done = run(*GEMM, *ON_CORE, "--emit", "json", "--out", file)
    assert done.code == 0 and "written to" in done.err and "heuristic on gemmcore" in done.err
    program = json.loads(file.read_text())
    computation = Computation.parse("L[i,j] += M[i,k] * N[k,j]", i=64, j=48, k=96, partial_bits=32)
    inputs = random_inputs(computation, 5)
    assert np.array_equal(simulate(program, inputs).output, wrapped(affine_einsum(computation, inputs), 1))


def test_each_stage_of_a_chain_has_its_program() -> None:
    chain = ["tensorize", "D[i,j] += A[i,k] * B[k,l] * C[l,j]", "--bounds", "i=16,j=16,k=16,l=16", *ON_CORE]
    refused = run(*chain, "--emit", "text")
    assert refused.code == 2 and "--emit needs the --stage" in refused.err and "2 is D" in refused.err
    first = run_json(*chain, "--emit", "json", "--run", "--stage", "1")
    assert first["simulation"]["equals_einsum"] is True and first["program"]["computation"]["notation"].startswith("E")
    assert run(*chain, "--emit", "text", "--stage", "3").code == 2


def test_a_stage_is_searched_alone_where_another_matches_nothing() -> None:
    """A matrix unit takes the first stage of MTTKRP and nothing of the second."""
    asked = ["tensorize", "mttkrp M=8 N=8 K=8 L=8", *ON_CORE, "--emit", "json"]
    refused = run(*asked)
    assert refused.code == 2
    assert "stage 2: Outputs[M,N]" in refused.err and "--stage searches one of the others alone" in refused.err
    first = run_json(*asked, "--run", "--stage", "1")
    assert first["simulation"]["equals_einsum"] is True and len(first["stages"]) == 1
    assert "--stage must be in 1..2, got 3" in run(*asked, "--stage", "3").err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--emit", "jsn"), "did you mean 'json'"),
        (("--out", "x.json"), "--out is about a program"),
        (("--run",), "--run is about a program"),
        (("--emit", "json", "--stage", "1"), "--stage must be in 0..0, got 1"),
        (("--emit", "json", "--choice", "1"), "--choice does not go with --core"),
    ],
)
def test_mistakes_about_programs_of_a_core(arguments: tuple[str, ...], message: str) -> None:
    refused = run(*GEMM, *ON_CORE, *arguments)
    assert refused.code == 2 and message in refused.err


def test_layer_strings_stand_for_notation_and_bounds() -> None:
    layer = run_json("tensorize", "gemm M=8 N=8 K=8", "--intrinsic", "gemm", "--size", "4x4x4")
    notation = run_json(
        "tensorize", layer["computation"], "--bounds", "M=8,N=8,K=8", "--intrinsic", "gemm", "--size", "4x4x4"
    )
    assert layer == notation and layer["sound_choices"] > 0
    inline = run_json("tensorize", "C[m,n] += A[m,k]*B[k,n] m=8 n=8 k=8", "--intrinsic", "gemm", "--size", "4x4x4")
    assert inline["bounds"] == {"m": 8, "n": 8, "k": 8}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("C[m,n] += A[m,k]*B[k,n]",), "the dimensions have no bounds"),
        (("gemm M=8 N=8",), "missing: K"),
        (("gemmm M=8 N=8 K=8",), "did you mean 'gemm'"),
        (("gemm M=8 N=8 K=8 bits=16", "--emit", "text", "--bits", "16"), "`bits` stands in the layer and as --bits"),
    ],
)
def test_layers_that_cannot_be_read_are_refused(arguments: tuple[str, ...], message: str) -> None:
    refused = run("tensorize", *arguments, "--intrinsic", "gemm")
    assert refused.code == 2 and message in refused.err
