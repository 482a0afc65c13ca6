"""Parts of other packages that are registered wrongly, or fail: whose fault it is and what to do is said."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command_line import run

PART = """
from dataclasses import dataclass

from codesign.mappers.registry import create


@dataclass(frozen=True)
class Raises:
    name: str = "raises"

    def map(self, problem, objective, *, budget, seed, reuse=None):
        raise ValueError("a bug of its own")


@dataclass(frozen=True)
class Nothing:
    name: str = "nothing"

    def map(self, problem, objective, *, budget, seed, reuse=None):
        return None


@dataclass(frozen=True)
class Needs:
    steps: int
    name: str = "needs"

    def map(self, problem, objective, *, budget, seed, reuse=None):
        return create("random").map(problem, objective, budget=budget, seed=seed, reuse=reuse)


number = 3
"""
POINTS = """[codesign.mappers]
raises = parts_that_fail:Raises
nothing = parts_that_fail:Nothing
needs = parts_that_fail:Needs
number = parts_that_fail:number
gone = parts_that_fail:Gone
"""


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package that registers mappers, as `pip install` leaves it."""
    (tmp_path / "parts_that_fail.py").write_text(PART)
    info = tmp_path / "parts_that_fail-0.1.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text(POINTS)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: parts-that-fail\nVersion: 0.1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("CODESIGN_TRACEBACK", raising=False)
    yield


def mapped(mapper: str, *more: str) -> tuple[int, str]:
    outcome = run(
        "map", "--arch", "eyeriss", "--layer", "gemm M=8 N=8 K=8", "--mapper", mapper, "--evaluations", "20", *more
    )
    return outcome.code, outcome.err


@pytest.mark.parametrize(
    ("mapper", "message"),
    [
        (
            "nothing",
            "mapper 'nothing' returned NoneType, expected a MapResult; `codesign.testing.MapperContract` checks",
        ),
        ("needs", "mapper 'needs' needs its option 'steps'; e.g. --option steps=VALUE"),
        ("number", "mapper 'number' is registered as int 3; an entry point of codesign.mappers names a class"),
        ("gone", "cannot load mapper 'gone' from 'parts_that_fail:Gone'"),
        ("raise", "unknown mapper 'raise'; did you mean 'raises'?"),
    ],
)
def test_the_mend_is_said(mapper: str, message: str) -> None:
    code, said = mapped(mapper)
    assert code == 2 and message in said


def test_a_bug_of_a_part_is_told_from_one_of_ours() -> None:
    code, said = mapped("raises")
    assert code == 1 and "internal error: ValueError: a bug of its own" in said
    assert "It came out of the module 'parts_that_fail'" in said and "fault of codesign" not in said
    assert "with CODESIGN_TRACEBACK=1 before it." in said


def test_a_needed_option_is_taken() -> None:
    assert mapped("needs", "--option", "steps=3")[0] == 0
