"""Report, comparison and sensitivity of studies that are named by the URL of their database."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from codesign.cli.app import register_commands
from codesign.core.errors import UserError
from codesign.study.exchange_files import export_study, import_study
from codesign.study.storage import sqlite_url
from codesign.study.study import Study


@pytest.fixture(scope="module")
def url(study_folders: list[Path], tmp_path_factory: pytest.TempPathFactory) -> str:
    """One database with the four studies."""
    place = tmp_path_factory.mktemp("shared")
    found = sqlite_url(place / "all.db")
    for folder in study_folders:
        export_study(Study.open(folder), place / "one.json")
        import_study(place / "one.json", place / "pages", storage=found, name=folder.name).close()
    return found


def run(*arguments: str) -> str:
    app = typer.Typer()
    register_commands(app, "compare", "report", "sensitivity", "study")
    done = CliRunner().invoke(app, list(arguments))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_report_goes_to_the_current_folder_or_to_out(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run("report", "--storage", url, "--study", "sobol1")
    assert (tmp_path / "report.html").stat().st_size > 10_000
    run("report", "--storage", url, "--study", "sobol1", "--out", "pages")
    run("report", url, "--study", "sobol1", "--out", "other/one.html")
    pages = [tmp_path / name for name in ("report.html", "pages/report.html", "other/one.html")]
    assert len({page.read_text() for page in pages}) == 1
    run("report", "--storage", url, "--study", "sobol1", "--export-design", "0", "--to", "design")
    assert json.loads((tmp_path / "design/design.json").read_text())["trial"] == 0


def test_studies_of_a_database_are_compared_by_name_pattern_or_all(
    url: str, study_folders: list[Path], tmp_path: Path
) -> None:
    def compared(*arguments: str) -> dict[str, list[int]]:
        found = json.loads(run("compare", *arguments, "--format", "json", "--out", str(tmp_path / "c.html")))
        return {group["optimizer"]: sorted(group["seeds"]) for group in found["groups"]}

    assert compared("--storage", url) == {"sobol": [0, 1], "random": [0, 1]}
    assert compared("--storage", url, "--study", "sobol*", "--study", "random0") == {"sobol": [0, 1], "random": [0]}
    mixed = compared(str(study_folders[3]), "--storage", url, "--study", "random0")
    assert mixed == {"random": [0, 1]}


def test_sensitivity_by_url_is_that_of_the_folder(url: str, study_folder: Path, tmp_path: Path) -> None:
    options = ("--constant", "dram", "--factor", "2", "--out", str(tmp_path), "--format", "json")
    by_url = json.loads(run("sensitivity", "--storage", url, "--study", "sobol0", *options))
    by_folder = json.loads(run("sensitivity", str(study_folder), *options))
    assert by_url["variations"] == by_folder["variations"] and by_url["variations"]


def test_show_and_export_take_the_same_options(url: str, tmp_path: Path) -> None:
    shown = json.loads(run("study", "show", "--storage", url, "--study", "random1", "--format", "json"))
    assert shown["study"] == "random1" and shown["finished"] == 12
    run("study", "export", "--storage", url, "--study", "random1", str(tmp_path / "a.csv"))
    run("study", "export", url, str(tmp_path / "b.csv"), "--study", "random1")
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("report",), "which study?; give its folder, a .db file, or --storage URL with --study NAME"),
        (("report", "URL", "--storage", "URL"), "two databases"),
        (("report", "URL"), "holds 4 studies: random0, random1, sobol0, sobol1; choose one with --study"),
        (("sensitivity", "URL", "--study", "sobol9"), "unknown study 'sobol9'"),
        (("compare",), "which studies?; give their folders, or --storage URL"),
        (("compare", "--study", "sobol0"), "--study names studies of --storage, which is not given"),
        (("compare", "--storage", "URL", "--study", "nsga*"), "unknown study 'nsga*'"),
        (("study", "export", "URL"), "expected a study and a file to write"),
    ],
)
def test_what_is_missing_is_named(arguments: tuple[str, ...], message: str, url: str) -> None:
    with pytest.raises(UserError) as error:
        run(*(url if part == "URL" else part for part in arguments))
    assert message in str(error.value)
