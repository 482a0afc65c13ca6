"""Studies out to files and back; other people's tables of trials."""

import importlib.util
from pathlib import Path

import pytest

from codesign.core.errors import UserError
from codesign.study.exchange_files import export_study, import_study
from codesign.study.study import Study
from tests.unit.study.study_process import work

HAS_PARQUET = importlib.util.find_spec("pyarrow") is not None


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("study")
    work(str(folder), 16, 0.0, seed=2)
    found = Study.open(folder)
    assert any(t.infeasible for t in found.trials)
    return found


@pytest.mark.parametrize(
    "suffix",
    [
        ".json",
        ".csv",
        pytest.param(".parquet", marks=pytest.mark.skipif(not HAS_PARQUET, reason="pyarrow is not installed")),
    ],
)
def test_what_goes_out_comes_back_and_the_search_goes_on(study: Study, suffix: str, tmp_path: Path) -> None:
    export_study(study, tmp_path / f"s{suffix}")
    back = import_study(tmp_path / f"s{suffix}", tmp_path / "back")
    assert back.trials == study.trials
    assert back.config == study.config
    assert [t.number for t in back.front()] == [t.number for t in study.front()]
    if suffix == ".json":
        assert all(back.detail(t.number) == study.detail(t.number) for t in study.trials)
    back.close()
    more = work(str(tmp_path / "back"), 20, 0.0, seed=2)
    assert [t.point for t in more.trials] == [t.point for t in work(str(tmp_path / "whole"), 20, 0.0, seed=2).trials]


def test_a_second_import_adds_nothing(study: Study, tmp_path: Path) -> None:
    export_study(study, tmp_path / "s.json")
    import_study(tmp_path / "s.json", tmp_path / "back").close()
    assert len(import_study(tmp_path / "s.json", tmp_path / "back").trials) == 16


def test_a_table_of_ones_own_needs_a_study_like_it(study: Study, tmp_path: Path) -> None:
    table = tmp_path / "mine.csv"
    table.write_text(
        "number,parameter:pes,parameter:banks,parameter:flow,metric:latency_s,metric:area_mm2,metric:power_w\n"
        "0,8,2,ws,0.125,9.5,10\n"
    )
    with pytest.raises(UserError, match="does not say what was searched; give --like"):
        import_study(table, tmp_path / "a")
    made = import_study(table, tmp_path / "b", like=study)
    assert made.trials[0].point == {"pes": 8, "banks": 2, "flow": "ws"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("number,parameter:pe,metric:latency_s\n0,8,1\n", "the space has no parameter 'pe'"),
        ("number,parameter:flow\n0,xs\n", "'xs' is not one of"),
        ("number,parameter:pes,parameter:banks,metric:latency_s\n0,8,1,1\n", "missing metric 'area_mm2'"),
        ("number,metric:latency_s\n0,fast\n", "not a trial: ValueError"),
        ("parameter:pes\n8\n", "not a trial: KeyError 'number'"),
    ],
)
def test_a_table_that_does_not_fit_is_named(study: Study, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(UserError, match=message):
        import_study(tmp_path / "t.csv", tmp_path / "out", like=study)
    assert not (tmp_path / "out" / "study.db").exists()


def test_the_plain_files_of_an_earlier_version_are_brought_in(study: Study, tmp_path: Path) -> None:
    import json

    old = tmp_path / "old"
    (old / "details").mkdir(parents=True)
    (old / "study.json").write_text(json.dumps({"config": study.config, "versions": {"python": "3"}}))
    (old / "trials.jsonl").write_text("".join(json.dumps(t.to_json()) + "\n" for t in study.trials))
    (old / "details" / "0.json").write_text('{"note": "kept"}')
    with pytest.raises(UserError, match="files of an earlier version; bring it in with"):
        Study.open(old)
    back = import_study(old, tmp_path / "new")
    assert back.trials == study.trials and back.detail(0) == {"note": "kept"}


def test_endings_and_missing_files(study: Study, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot tell the form of .*\.xlsx"):
        export_study(study, tmp_path / "s.xlsx")
    with pytest.raises(UserError, match="no such file"):
        import_study(tmp_path / "none.csv", tmp_path / "out")
