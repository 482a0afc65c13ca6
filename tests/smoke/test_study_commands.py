"""Studies from the command line: two fidelities, whole-network scheduling, several processes, Ctrl-C, what is said to mistakes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest
import typer
from typer.testing import CliRunner

from codesign.cli.app import join_lists, register_commands
from codesign.core.errors import UserError
from codesign.study.storage import Database, sqlite_url
from codesign.study.study import Study
from tests.command_line import run as codesign

NETWORK = str(Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_squeezenet.onnx")

COMMAND = [sys.executable, "-W", "ignore", "-m", "codesign.cli.app"]

SMALL = (
    "--certify",
    "0",
    "--network",
    NETWORK,
    "--evaluations",
    "30",
    "--optimizer",
    "random",
    "--objectives",
    "latency",
    "energy",
    "area",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study of three trials in `a`."""
    place = tmp_path_factory.mktemp("studies")
    run = codesign("explore", *SMALL, "--trials", "3", "--out", "a", cwd=place)
    assert run.code == 0, run.err
    return place


def test_list_show_export_import(folder: Path, tmp_path: Path) -> None:
    (listed,) = json.loads(codesign("study", "list", str(folder), "--format", "json", cwd=folder).out)
    assert (listed["study"], listed["finished"], listed["space"]) == ("study", 3, "scratchpad")
    shown = json.loads(codesign("study", "show", "a", "--format", "json", cwd=folder).out)
    assert shown["finished"] == 3 and shown["front"] and shown["config"]["workload"]["hashes"]
    assert "light_squeezenet" in codesign("study", "show", "a", cwd=folder).said
    whole = codesign("study", "list", str(folder), cwd=folder).out.splitlines()
    assert whole[0] == str(folder / "a") and whole[1].startswith("  study: 3 trials, started ")
    assert whole[2] == "    light_squeezenet on scratchpad, random, seed 0"
    assert codesign("study", "export", "a", str(tmp_path / "a.json"), cwd=folder).code == 0
    assert codesign("study", "import", "a.json", "--out", "b", cwd=tmp_path).code == 0
    again = codesign("explore", *SMALL, "--trials", "3", "--out", "b", "--format", "json", cwd=tmp_path)
    assert again.code == 0 and "has 3 trials: --trials 3 asks for no more" in again.said, again.err
    assert json.loads(again.out)["front"] == shown["front"]


def test_bounds_take_the_names_of_objectives_and_may_be_written_otherwise_on_resume(tmp_path: Path) -> None:
    run = codesign("explore", *SMALL, "--trials", "1", "--constraint", "power <= 4.0", "--out", "c", cwd=tmp_path)
    assert run.code == 0 and "random, 1 trial, 1 worker" in run.said, run.err
    assert Study.open(tmp_path / "c").config["constraints"] == ["power_w<=4"]
    run = codesign("explore", *SMALL, "--trials", "2", "--constraint", "power_w<=4", "--out", "c", cwd=tmp_path)
    assert run.code == 0 and "going on after 1 finished trial" in run.said, run.err


def test_two_fidelities_keep_low_fidelity_evaluations_beside_the_study(tmp_path: Path) -> None:
    """The high fidelity is simulated, the low one is analytical."""
    options = (
        "--timing",
        "event",
        "--network",
        NETWORK,
        "--evaluations",
        "60",
        "--fidelity",
        "two",
        "--low-fidelity-evaluations",
        "20",
        "--out",
        "f",
    )
    run = codesign("explore", "--certify", "0", *options, "--trials", "3", cwd=tmp_path)
    assert run.code == 0, run.err
    assert "low-fidelity evaluations; one took" in run.said
    names = {s.name: s.finished for s in Database(sqlite_url(tmp_path / "f" / "study.db"), create=False).studies()}
    assert names["study"] == 3 and names["study-low-fidelity"] >= 3
    study = Study.open(tmp_path / "f")
    assert study.config["optimizer"] == "mobo, two fidelities"
    assert study.config["evaluation"]["low_fidelity"]["evaluations"] == 20
    assert study.config["evaluation"]["timing"] == "event"
    timed = {row["trial"]: row for row in json.loads((tmp_path / "f" / "timing.json").read_text())["front"]}
    for trial in study.front():
        row, layers = timed[trial.number], study.detail(trial.number)["layers"]
        assert row["latency_cycles"] > row["analytic_cycles"]
        assert sum(x["event_cycles"] * x["count"] for x in layers) <= row["latency_cycles"]
        assert trial.metrics == row["metrics"]  # the search saw the simulated cycles: nothing changes after it


def test_whole_networks_are_scheduled_inside_the_search(tmp_path: Path) -> None:
    options = (
        "--network",
        "gpt2-small-block",
        "--space",
        "soma-edge",
        "--scheduler",
        "soma",
        "--optimizer",
        "random",
        "--seed",
        "1",
    )
    run = codesign(
        "explore", "--certify", "0", *options, "--evaluations", "60", "--trials", "2", "--out", "s", cwd=tmp_path
    )
    assert run.code == 0, run.err
    study = Study.open(tmp_path / "s")
    assert study.config["mapper"]["name"] == "soma" and len(study.trials) == 2
    assert study.front() and study.detail(study.front()[0].number)["networks"][0]["latency_cycles"] > 0
    assert (tmp_path / "s" / "report.html").stat().st_size > 10_000


def test_interrupted_runs_keep_finished_trials_and_go_on(tmp_path: Path) -> None:
    arguments = ["explore", *SMALL, "--workers", "2", "--out", "i"]
    process = subprocess.Popen(
        [*COMMAND, *arguments, "--trials", "400"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not _finished(tmp_path / "i"):
        time.sleep(0.3)
    process.send_signal(signal.SIGTERM if os.environ.get("CI") else signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert " kept; run the same command to go on" in " ".join(errors.split())
    kept = Study.open(tmp_path / "i")
    assert len(kept.trials) >= 1
    assert all(c.owner is None for c in kept.running_elsewhere)  # given back, so nobody has to wait for them
    total = len(kept.trials) + 2
    run = codesign(*arguments, "--workers", "1", "--trials", str(total), cwd=tmp_path)
    assert run.code == 0, run.err
    assert f"going on after {len(kept.trials)} finished trial" in run.said
    assert sorted(t.number for t in Study.open(tmp_path / "i").trials) == list(range(total))


def _finished(place: Path) -> int:
    try:
        return len(Study.open(place).trials)
    except Exception:  # it is being made at this moment
        return 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--executor", "dask"), "unknown executor 'dask'"),
        (("--ray-address", "auto"), "--ray-address is used with --executor ray only"),
        (("--scheduler", "some"), "unknown scheduler 'some'; did you mean 'soma'"),
        (("--scheduler", "soma"), "--scheduler soma needs a space of its accelerator template, got 'scratchpad'"),
        (("--scheduler", "soma", "--space", "soma-edge", "--mapper", "exact"), "--mapper is of --scheduler layers"),
        (("--fidelity", "many"), "unknown fidelity 'many'"),
        (("--fidelity", "two"), "--fidelity two is a way of --optimizer mobo, got 'random'"),
        (("--low-fidelity-cost", "0.5"), "--low-fidelity-cost is used with --fidelity two only"),
        (
            ("--constraint", "power_w<=1", "--constraint", "power_w>=2"),
            "contradict each other: no value satisfies both",
        ),
        (("--constraint", "power<=1", "--constraint", "power_w>=2"), "power_w>=2 and power_w<=1 contradict each other"),
        (("--constraint", "speed<=2"), "unknown metric or parameter 'speed'"),
        (
            ("--constraint", "area<=3", "--out", "a"),
            "holds a study with other constraints: [], asked for ['area_mm2<=3']",
        ),
        (("--storage", "postgres//x"), "is not the URL of a database"),
        (("--storage", "sqlite:////proc/none/x.db"), "cannot use the study database /proc/none/x.db"),
        (("--seed", "9", "--out", "a"), "holds a study with another seed: 0, asked for 9"),
        (("--network", "alexnet", "--out", "a"), "holds a study with another workload: networks:"),
        (
            ("--space", "gemmcore", "--out", "a"),
            "holds a study with another space: name: 'scratchpad', asked for 'gemmcore'",
        ),
    ],
)
def test_a_mistake_is_named_and_nothing_is_lost(
    options: tuple[str, ...], message: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process; that the command line turns such errors into a message and exit code 2 is tested below."""
    monkeypatch.chdir(folder)
    application = typer.Typer()
    register_commands(application, "explore")
    base = [*SMALL] if "--network" not in options else [*SMALL[2:]]
    out = () if "--out" in options else ("--out", "new")
    arguments = join_lists([*base, *options, *out, "--trials", "1"])
    found = CliRunner().invoke(application, arguments).exception
    assert isinstance(found, UserError) and message in str(found)
    assert len(Study.open(folder / "a").trials) == 3


def test_a_read_only_database_is_named_and_can_be_read(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "a"
    copy.mkdir()
    (copy / "study.db").write_bytes((folder / "a" / "study.db").read_bytes())
    url = f"sqlite:///file:{copy / 'study.db'}?mode=ro&uri=true"  # read-only for root too, whom no file mode stops
    run = codesign("explore", *SMALL, "--trials", "5", "--out", "b", "--storage", url, "--study", "study", cwd=tmp_path)
    assert run.code == 2 and "read-only" in run.said, run.said
    assert codesign("study", "show", "--storage", url, "--study", "study", cwd=tmp_path).code == 0


def test_a_place_without_a_study_is_named(tmp_path: Path) -> None:
    for arguments, message in (
        (("explore", *SMALL, "--out", "z", "--executor", "dask"), "unknown executor 'dask'"),
        (("study", "show", "."), "no study in ."),
        (("study", "show", "x.db"), "no study database at"),
        (("study", "list", "nowhere"), "no such folder or file: nowhere"),
        (("study", "import", "x.csv", "--out", "y"), "no such file: x.csv"),
    ):
        run = codesign(*arguments, cwd=tmp_path)
        assert run.code == 2 and message in run.said, run.err
        assert "Traceback" not in run.err
