"""The suite cannot look away: slow tests have a kind, complete runs skip nothing, damaged data fail."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import KINDS

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "tests").rglob("*.py"))


def test_every_slow_test_says_its_kind() -> None:
    bare = [
        f"{p.relative_to(ROOT)}"
        for p in FILES
        if p.name != Path(__file__).name and re.search(r"mark\.slow\b(?!\()", p.read_text())
    ]
    assert bare == [], f"write pytest.mark.slow(KIND), KIND one of {', '.join(KINDS)}"


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        str(ROOT / "pyproject.toml"),
        "--rootdir",
        str(ROOT),
    ]
    return subprocess.run([*command, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def test_a_complete_run_fails_what_others_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "tests/unit/test_suite.py::test_that_is_skipped"
    monkeypatch.setenv("TRY_TO_SKIP", "1")
    assert "1 skipped" in run_pytest(ROOT, name).stdout
    complete = run_pytest(ROOT, name, "--complete")
    assert complete.returncode != 0
    assert (
        "may not be skipped in a complete run" in complete.stdout
        or "a complete run needs" in complete.stderr + complete.stdout
    )


def test_that_is_skipped() -> None:
    import os

    if os.environ.get("TRY_TO_SKIP"):
        pytest.skip("tried")


def test_kept_data_that_are_missing_fail(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from tests import reference_data

    monkeypatch.setattr(reference_data, "REFERENCE", tmp_path)
    with pytest.raises(pytest.skip.Exception):
        reference_data.needs_data("soma", ["a"])
    monkeypatch.setattr(reference_data, "KEPT_HERE", tmp_path)
    with pytest.raises(pytest.fail.Exception, match="the checkout is damaged"):
        reference_data.needs_data("soma", ["a"])
    (tmp_path / "soma").mkdir()
    with pytest.raises(AssertionError, match="nothing of soma was read"):
        reference_data.needs_data("soma", [])


def test_every_folder_of_kept_data_is_explained() -> None:
    described = (ROOT / "tests/data/README.md").read_text()
    folders = [p.name for p in (ROOT / "tests/data").iterdir() if p.is_dir()]
    assert [
        f for f in folders if f"`{f}`" not in described and not (ROOT / "tests/data" / f / "README.md").exists()
    ] == []
