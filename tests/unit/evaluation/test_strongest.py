"""`explore --scheduler strongest`: which judge is taken, and why not those before it."""

from pathlib import Path

import pytest

from codesign.core.errors import UserError
from codesign.evaluation.design import load_design_space
from codesign.evaluation.judges import make_judge
from codesign.evaluation.specification import JudgeSpec, WorkloadSpec
from tests.command_line import run

BLOCK = WorkloadSpec(networks=("gpt2-small-block",), seq=16)


def taken(space: str, **options: object) -> tuple[str, list[str]]:
    judge = make_judge(BLOCK, JudgeSpec(scheduler="strongest", **options), load_design_space(space))  # type: ignore[arg-type]
    assert judge.evaluation["asked"] == "strongest"
    return str(judge.evaluation.get("scheduler", "layers")), judge.evaluation["passed_over"]


def test_fused_is_taken_where_its_rules_hold() -> None:
    assert taken("soma-edge") == ("fused", [])


def test_a_budget_of_schemes_leaves_soma_and_a_space_without_template_leaves_layers() -> None:
    name, passed = taken("soma-edge", evaluations=50)
    assert name == "soma" and len(passed) == 1 and "--evaluations does not apply to --scheduler fused" in passed[0]
    name, passed = taken("scratchpad", evaluations=50)
    assert name == "layers" and [p.split(":")[0] for p in passed] == ["fused", "soma"]


def test_what_no_judge_takes_is_refused_with_the_last_reason() -> None:
    with pytest.raises(UserError, match="no-such-network"):
        make_judge(
            WorkloadSpec(networks=("no-such-network",)),
            JudgeSpec(scheduler="strongest"),
            load_design_space("scratchpad"),
        )


def test_the_command_says_which(tmp_path: Path) -> None:
    shown = run(
        "explore", "--network", "gpt2-small-block", "--seq", 16, "--space", "soma-edge", "--scheduler", "strongest",
        "--time-limit", 1, "--trials", 1, "--optimizer", "random", "--seed", 0, "--out", tmp_path / "run",
    )  # fmt: skip
    assert shown.code == 0, shown.err
    assert "strongest scheduler: fused" in shown.out + shown.err
    assert "No fused schedule of the recommended design is better" in (tmp_path / "run" / "report.html").read_text()
