"""A study in PostgreSQL, on a server started for the test: two processes, kill -9, export."""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from codesign.core.errors import UserError
from codesign.study.storage import Database
from codesign.study.study import Study
from tests.needed import find_program
from tests.unit.study.study_process import config, work

ROOT = Path(__file__).resolve().parents[3]

PORT = 54329


pytestmark = [
    pytest.mark.slow("service"),
    pytest.mark.skipif(find_program("initdb") is None, reason="no PostgreSQL server on this machine"),
    pytest.mark.skipif(importlib.util.find_spec("psycopg") is None, reason="psycopg is not installed"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="codesign-postgres-", ignore_cleanup_errors=True) as parent:
        yield from _serve(Path(parent) / "cluster")


def _serve(folder: Path) -> Iterator[str]:
    prefix = []
    if os.geteuid() == 0:  # the server refuses to run as root
        if shutil.which("runuser") is None:
            pytest.fail("the server refuses to run as root, and runuser is missing: apt-get install util-linux")
        prefix = ["runuser", "-u", "nobody", "--"]
        folder.parent.chmod(0o777)
    initdb, postgres = find_program("initdb"), find_program("postgres")
    assert initdb is not None and postgres is not None
    made = subprocess.run(
        [*prefix, initdb, "-D", str(folder), "-A", "trust", "-U", "tester", "--no-sync"], capture_output=True, text=True
    )
    if made.returncode != 0:
        pytest.fail(f"initdb failed: {made.stderr.strip()[-500:]}")
    options = ["-D", str(folder), "-p", str(PORT), "-k", str(folder), "-c", "listen_addresses=127.0.0.1"]
    process = subprocess.Popen([*prefix, postgres, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"postgresql://tester@127.0.0.1:{PORT}/postgres"
    try:
        for _ in range(100):
            try:
                with socket.create_connection(("127.0.0.1", PORT), timeout=1):
                    break
            except OSError:
                time.sleep(0.1)
        else:
            pytest.fail(f"the PostgreSQL server did not start: exit code {process.poll()}")
        time.sleep(0.5)  # it listens a moment before it accepts
        yield url
    finally:
        os.kill(int((folder / "postmaster.pid").read_text().split()[0]), signal.SIGINT)  # fast shutdown
        process.wait(timeout=30)


def _worker(url: str, trials: int, seconds: float, cwd: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.unit.study.study_process", url, str(trials), str(seconds)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def test_two_processes_and_a_killed_one_share_a_study(server: str, tmp_path: Path) -> None:
    workers = [_worker(server, 30, 0.1, tmp_path) for _ in range(3)]
    assert workers[0].stdout is not None
    for _ in range(3):
        assert workers[0].stdout.readline()
    workers[0].kill()
    workers[0].communicate()
    for worker in workers[1:]:
        _, errors = worker.communicate(timeout=120)
        assert worker.returncode == 0, errors
    study = Study.open(tmp_path / "unused")  # the folder says where the study is
    assert study.name == "toy-toy-random-seed0"
    assert sorted(t.number for t in study.trials) == list(range(30))
    assert len({tuple(sorted(t.point.items())) for t in study.trials}) == 30
    assert "127.0.0.1" in study.storage
    listed = {s.name: s.finished for s in Database(server, create=False).studies()}
    assert listed == {"toy-toy-random-seed0": 30}


def test_same_seed_same_trials_as_in_a_file(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    there = work(server, 10, 0.0, seed=5)
    here = work(str(tmp_path / "here"), 10, 0.0, seed=5)
    assert [t.point for t in there.trials] == [t.point for t in here.trials]
    assert [t.metrics for t in there.trials] == [t.metrics for t in here.trials]


def test_a_server_that_refuses_is_named(server: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such database or user"):
        Study.create_or_resume(tmp_path, config(), {}, storage=server.replace("/postgres", "/nosuch"))
    with pytest.raises(UserError, match="the server cannot be reached"):
        Study.create_or_resume(tmp_path, config(), {}, storage=server.replace(str(PORT), "9"))
