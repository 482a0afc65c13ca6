import json

import pytest
import typer
from typer.testing import CliRunner

from codesign.cli.app import register_commands
from codesign.core.errors import UserError

CONV = ["C[k,x,y] += A[c,x+r,y+s]*B[k,c,r,s]", "--bounds", "k=64,c=64,x=56,y=56,r=3,s=3"]
MTTKRP = ["D[i,j] += A[i,k,l]*B[l,j]*C[k,j]", "--bounds", "i=8,j=8,k=8,l=8"]


def run(*arguments: str) -> str:
    app = typer.Typer()
    app.callback()(lambda: None)
    register_commands(app, "tensorize")
    result = CliRunner().invoke(app, ["tensorize", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_text_lists_every_choice_with_nest_waste_and_reuse() -> None:
    text = run(*CONV, "--intrinsic", "gemm", "--size", "16x16x16")
    assert "8 sound (the rule as printed accepts 42)" in text
    assert "#8 " in text and "#9 " not in text
    assert "32256 calls, padding waste 12.5% (x 56 -> 64), 5.33 MACs per element in a call" in text
    assert text.count("equals einsum") == 8
    assert "C[(k:16),(x:16),y] += gemm(A[(c:16),(x:16)+r,y+s], B[(k:16),(c:16),r,s])" in text


def test_json_is_one_document() -> None:
    document = json.loads(run(*CONV, "--intrinsic", "gemm", "--size", "16x16x16", "--unsound", "--format", "json"))
    assert (document["status"], document["sound_choices"], document["printed_rule_choices"]) == ("ok", 8, 42)
    assert [c["equals_einsum"] for c in document["choices"]] == [True] * 8 + [False] * 34
    assert document["choices"][-1]["reason"]
    assert document["stages"] == []


def test_stages_are_listed_for_a_chain() -> None:
    document = json.loads(run(*MTTKRP, "--intrinsic", "gemm", "--size", "4x4x4", "--format", "json"))
    assert document["sound_choices"] == 0
    assert "coverage" in document["nearest_miss"]
    assert [s["sound_choices"] for s in document["stages"]] == [4, 0]


def test_partial_choices_and_trees() -> None:
    depthwise = ["C[c,x] += A[c,x+r]*B[c,r]", "--bounds", "c=4,x=8,r=3", "--intrinsic", "gemm", "--trees", "--no-prove"]
    text = run(*depthwise, "--partial")
    assert "tree of the intrinsic" in text and "multiply" in text
    assert "0 sound" in text and "einsum" not in text
    with pytest.raises(UserError, match="condition 3"):
        run(*depthwise)
    assert set(json.loads(run(*depthwise, "--partial", "--format", "json"))["trees"]) == {"intrinsic", "computation"}


def test_scaled_results_are_said() -> None:
    assert "scaled by one element of B" in run(*MTTKRP, "--intrinsic", "gemv", "--size", "4x4")


SMALL = [
    "C[k,x,y] += A[c,x+r,y+s]*B[k,c,r,s]",
    "--bounds",
    "k=8,c=8,x=6,y=5,r=3,s=3",
    "--intrinsic",
    "gemm",
    "--size",
    "4x4x4",
]
LOOPS = ["--choice", "2", "--tiles", "k=8,x=2,y=5,c=4,r=3,s=3", "--order", "c,k"]


def test_pseudo_code_of_a_choice() -> None:
    text = run(*SMALL, *LOOPS, "--emit", "pseudo", "--capacity", "8192", "--banks", "8")
    assert "memory scratchpad: 8192 bytes, 8 banks of 1024" in text
    assert "for c0 in range(0, 8, 4):  # host" in text


@pytest.mark.parametrize("form", ["pseudo", "instructions", "gemmini"])
def test_every_form_runs_and_equals_einsum(form: str) -> None:
    document = json.loads(run(*SMALL, *LOOPS, "--emit", form, "--run", "--seed", "5", "--format", "json"))
    assert (document["status"], document["form"]) == ("ok", form)
    assert document["simulation"]["equals_einsum"] is True
    assert document["simulation"]["calls"] == 2 * 2 * 5 * 2 * 9  # tiles of k, x; y; tiles of c; r and s
    assert document["simulation"]["seed"] == 5
    assert document["program"]


def test_a_program_can_be_written_to_a_file(tmp_path) -> None:
    target = tmp_path / "program.json"
    assert run(*SMALL, "--emit", "instructions", "--out", str(target)) == ""
    assert json.loads(target.read_text())["instructions"]


def test_a_program_that_does_not_fit_is_a_result() -> None:
    assert "status: infeasible" in run(*SMALL, *LOOPS, "--emit", "pseudo", "--capacity", "512")
    document = json.loads(run(*SMALL, *LOOPS, "--emit", "pseudo", "--capacity", "512", "--format", "json"))
    assert (document["status"], document["resource"], document["limit"]) == ("infeasible", "scratchpad capacity", 512)


def test_a_design_and_a_mapping_give_memories_and_loops(tmp_path) -> None:
    mapping = tmp_path / "mapping.yaml"
    mapping.write_text(
        """mapping:
- {store: DRAM, tensors: [A, B, C]}
- {for: c, factor: 2}
- {store: Scratchpad, tensors: [B]}
- {for: x, factor: 4}
- {store: Scratchpad, tensors: [A]}
- {store: Accumulator, tensors: [C]}
- {for: r, factor: 3}
- {for: s, factor: 3}
- {for: x, factor: 2}
- {for: y, factor: 5}
- {for: k, factor: 8}
- {parallel: c, factor: 4, axis: y, level: Accumulator}
"""
    )
    arguments = [*SMALL[:-1], "1x1x4", "--emit", "pseudo", "--arch", "gemmini", "--run", "--format", "json"]
    padded = [a.replace("x=6", "x=8") for a in arguments]
    listed = json.loads(run(*padded[:7], "--format", "json"))["choices"]
    number = 1 + next(i for i, c in enumerate(listed) if c["index_map"] == {"i": "k", "j": "x", "k": "c"})
    document = json.loads(run(*padded, "--mapping", str(mapping), "--choice", str(number), "--reuse", "walk"))
    assert "memory Accumulator: 65536 bytes, 2 banks of 32768" in document["program"]
    assert "load  sB <- B[0:+8, c0:+4, 0:+3, 0:+3]" in document["program"]
    assert document["simulation"]["equals_einsum"] is True
    with pytest.raises(UserError, match="factors of dimension 'x' must multiply to its bound 6, got 8"):
        run(*arguments, "--mapping", str(mapping), "--choice", str(number))
    with pytest.raises(UserError, match="come from the mapping"):
        run(*padded, "--mapping", str(mapping), "--choice", str(number), "--order", "c")


def test_a_stage_can_be_chosen() -> None:
    text = run(*MTTKRP, "--intrinsic", "gemm", "--size", "4x4x4", "--emit", "pseudo", "--stage", "1")
    assert "# E[i,k,j] += A[i,k,l] * B[l,j]" in text
    with pytest.raises(UserError, match=r"there is no choice .* 1 has 4, 2 has 0"):
        run(*MTTKRP, "--intrinsic", "gemm", "--size", "4x4x4", "--emit", "pseudo", "--stage", "2")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["C[k,x] += A[c;x]*B[k,c]", "--bounds", "k=1", "--intrinsic", "gemm"],
            "unexpected character ';' at character 14",
        ),
        (["C[k] += A[k]", "--bounds", "k=1,z=2", "--intrinsic", "gemm"], "'z', which indexes no tensor"),
        ([*CONV, "--intrinsic", "gemms"], "unknown intrinsic 'gemms'"),
        ([*CONV, "--intrinsic", "gemm", "--format", "yaml"], "--format must be text or json"),
        ([*SMALL, "--emit", "verilog"], "unknown program form 'verilog'"),
        ([*SMALL, "--emit", "pseudo", "--choice", "9"], "--choice must be in 1..8, got 9"),
        ([*SMALL, "--emit", "pseudo", "--stage", "1"], "--stage must be in 0..0, got 1"),
        ([*SMALL, "--emit", "pseudo", "--mapping", "m.yaml"], "--mapping needs the design"),
        (
            [*SMALL, "--emit", "pseudo", "--arch", "gemmini", "--banks", "2"],
            "--capacity and --banks come from the design",
        ),
        ([*SMALL, "--emit", "pseudo", "--reuse", "timeloop"], "reuse rule 'resident' or 'walk'"),
        ([*SMALL, "--partial-bits", "16"], "--partial-bits is about a program"),
        ([*SMALL, "--emit", "pseudo", "--trees"], "--trees and --prove are about the list"),
        ([*SMALL, "--emit", "instructions", "--bits", "12"], "elements of 'A' are 12 bits wide"),
        ([*SMALL, "--emit", "gemmini", "--bits", "16"], "Gemmini works on 8-bit operands"),
        ([*SMALL, "--tiles", "k=4"], "--tiles is about a program"),
        ([*CONV, "--intrinsic", "dot", "--size", "1", "--emit", "instructions"], "calls; it is unrolled up to"),
        (["C[k] += A[k,l]*B[l]", "--bounds", "k=4,l=4", "--intrinsic", "gemm"], "condition 1 (index matching)"),
    ],
)
def test_mistakes_are_explained(arguments: list[str], text: str) -> None:
    with pytest.raises(UserError) as caught:
        run(*arguments)
    assert text in str(caught.value)
