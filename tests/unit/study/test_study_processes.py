"""Studies under fire: kill -9, several processes, a full disk, another machine that falls silent."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from codesign.core.errors import UserError
from codesign.study.owner import owner_id, owner_is_dead
from codesign.study.storage import Database, design_key, sqlite_url
from codesign.study.study import Study
from tests.unit.study.study_process import SPACE, config, judge, work

ROOT = Path(__file__).resolve().parents[3]


@contextmanager
def worker(place: Path | str, trials: int, seconds: float, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.unit.study.study_process", str(place), str(trials), str(seconds)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def finished(process: subprocess.Popen[str]) -> list[int]:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return [int(line) for line in out.split()]


def designs(study: Study) -> list[str]:
    return [design_key(t.point) for t in study.trials]


def test_kill_9_loses_nothing_and_the_resumed_run_is_the_uninterrupted_one(tmp_path: Path) -> None:
    whole = work(str(tmp_path / "whole"), 14, 0.0)
    with worker(tmp_path / "parts", 14, 0.3, tmp_path) as process:
        assert process.stdout is not None
        for _ in range(4):
            assert process.stdout.readline()
        time.sleep(0.15)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    left = Study.open(tmp_path / "parts")
    assert len(left.trials) >= 4
    running = left.running_elsewhere  # the one that was being evaluated, unless the process died just before it took it
    assert [c.number for c in running] in ([], [len(left.trials)])
    assert all(owner_is_dead(c.owner or "") for c in running)
    resumed = work(str(tmp_path / "parts"), 14, 0.0)
    assert [t.point for t in resumed.trials] == [t.point for t in whole.trials]
    assert [t.metrics for t in Study.open(tmp_path / "parts").trials] == [t.metrics for t in whole.trials]
    assert [t.number for t in resumed.trials] == list(range(14))


def test_two_processes_share_a_study_and_no_trial_is_lost_or_done_twice(tmp_path: Path) -> None:
    with worker(tmp_path / "s", 24, 0.15, tmp_path) as one, worker(tmp_path / "s", 24, 0.15, tmp_path) as two:
        seen = [finished(one), finished(two)]
    study = Study.open(tmp_path / "s")
    assert sorted(t.number for t in study.trials) == list(range(24))
    assert len(set(designs(study))) == 24
    assert [len(set(s)) for s in seen] == [24, 24]  # each learned of all
    database = Database(sqlite_url(tmp_path / "s" / "study.db"), create=False)
    owners = {c.owner for c in database.claims(1)}
    assert len(owners) == 2  # both did some
    assert all(study.detail(t.number)["networks"][0]["note"] for t in study.trials if t.metrics)


def test_a_process_takes_up_what_another_left(tmp_path: Path) -> None:
    with worker(tmp_path / "s", 12, 0.4, tmp_path) as one:
        assert one.stdout is not None and one.stdout.readline()
        with worker(tmp_path / "s", 12, 0.1, tmp_path) as two:
            assert two.stdout is not None and two.stdout.readline()
            one.kill()
            finished(two)
    study = Study.open(tmp_path / "s")
    assert sorted(t.number for t in study.trials) == list(range(12))
    assert len(set(designs(study))) == 12


def test_a_trial_of_another_machine_is_taken_up_when_it_falls_silent_and_counts_once(tmp_path: Path) -> None:
    slow, quick = (Study.create_or_resume(tmp_path, config(), {}) for _ in range(2))
    point = SPACE.to_points(SPACE.enumerate()[:1])[0]
    slow._owner = "elsewhere/boot/7/1"
    number = slow.claim(point)
    assert number == 0
    quick.sync()
    assert quick.take_over() is None  # it was heard of a moment ago
    time.sleep(0.05)
    slow.beat()
    assert quick.take_over(grace_s=0.01) is None  # it gave a sign of life since it was looked at
    quick.sync()
    time.sleep(0.05)
    taken = quick.take_over(grace_s=0.01)
    assert taken is not None and taken.point == point
    from codesign.study.study import Trial

    metrics = judge(point).metrics
    assert metrics is not None
    trial = Trial(0, point, metrics.to_dict(), None, 0.1, 0.1)
    assert not slow.finish(trial, {"by": "slow"})  # it was not dead after all: its result does not count again
    assert quick.finish(trial, {"by": "quick"})
    assert quick.detail(0) == {"by": "quick"}
    assert len(Study.open(tmp_path).trials) == 1


def test_trials_that_were_given_back_are_not_more_than_are_wanted(tmp_path: Path) -> None:
    study = Study.create_or_resume(tmp_path, config(), {})
    for point in SPACE.to_points(SPACE.enumerate()[:5]):
        study.claim(point)
    study.release()
    study.close()
    assert len(work(str(tmp_path), 3, 0.0).trials) == 3
    assert len(work(str(tmp_path), 6, 0.0).trials) == 6


def test_a_process_that_is_gone_is_known_to_be(tmp_path: Path) -> None:
    me = owner_id()
    assert not owner_is_dead(me)
    place, pid, started = me.rsplit("/", 2)
    assert owner_is_dead(f"{place}/{pid}/{int(started) + 1}")  # its number was given to another process
    assert not owner_is_dead(f"other-host/x/{pid}/1")  # cannot be seen from here


def test_a_database_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match=r"cannot use the study database .*file/sub/study.db"):
        Study.create_or_resume(tmp_path / "file" / "sub", config(), {})
    (tmp_path / "study.db").write_text("this is no database at all, but long enough to be read as one" * 20)
    with pytest.raises(UserError, match="not a database, or is damaged"):
        Study.open(tmp_path)
    for url, message in (
        ("postgresql://nobody@127.0.0.1:9/none", "the server cannot be reached|needs the package"),
        ("nosuch://x", "unknown kind of database 'nosuch'"),
        ("nonsense", "is not the URL of a database"),
    ):
        with pytest.raises(UserError, match=message):
            Study.create_or_resume(tmp_path / "out", config(), {}, storage=url)


def test_a_full_disk_in_mid_run_is_said_and_earlier_trials_are_kept(tmp_path: Path) -> None:
    """A limit on file size stands for a full disk: SQLite gets an I/O error from a write."""
    work(str(tmp_path / "s"), 3, 0.0)
    size = (tmp_path / "s" / "study.db").stat().st_size
    code = (
        "import resource, sys; from tests.unit.study.study_process import work; "
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size + 8192}, {size + 8192}))\n"
        "from codesign.core.errors import UserError\n"
        f"try: work({str(tmp_path / 's')!r}, 90, 0.0)\n"
        "except UserError as error: print(error); sys.exit(2)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=300
    )
    assert run.returncode == 2, run.stderr
    assert "the disk is full or failing" in run.stdout and "finished trials are kept" in run.stdout
    kept = Study.open(tmp_path / "s")
    assert len(kept.trials) >= 3
    whole = work(str(tmp_path / "whole"), 20, 0.0)
    assert [t.point for t in work(str(tmp_path / "s"), 20, 0.0).trials][:20] == [t.point for t in whole.trials][:20]
