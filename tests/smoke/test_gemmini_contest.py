"""The contest beside Gemmini's recorded RTL, on four of its rows."""

import json
import sys
from pathlib import Path

import pytest

from codesign.core.errors import UserError
from experiments import gemmini_contest

DATA = Path(__file__).parents[1] / "data" / "dosa"


def line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, float]:
    """The last line of a run."""
    monkeypatch.setattr(sys, "argv", ["gemmini_contest", *options])
    gemmini_contest.main()
    found: dict[str, float] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return found


def test_the_line_says_who_takes_fewer_cycles(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = line(monkeypatch, capsys, "--data", str(DATA), "--out", str(tmp_path))
    assert found["rows"] == 4
    assert found["simulated_equal"] is None
    assert 0 < found["geomean_ratio_auto"] < 1 and 0 < found["geomean_ratio_given"] < 1
    assert found["analytic_ratio_median"] >= 1
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 5


def test_more_latency_and_one_burst_under_way_take_more_cycles(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ratios = [
        line(monkeypatch, capsys, "--data", str(DATA), "--rows", "2", *options)["geomean_ratio_auto"]
        for options in ((), ("--latency", "2000"), ("--outstanding", "1"))
    ]
    assert ratios[0] < min(ratios[1:])


def test_a_folder_without_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no file .*firesim_test\.json"):
        gemmini_contest.read_rows(tmp_path)


def test_rows_without_their_columns_are_refused(tmp_path: Path) -> None:
    (tmp_path / "firesim_test.json").write_text('[{"prob.N": "1"}]')
    with pytest.raises(UserError, match=r"not rows of RTL cycles: KeyError"):
        gemmini_contest.read_rows(tmp_path)
