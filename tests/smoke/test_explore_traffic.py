"""`codesign explore --scheduler cosma`: scratchpads judged by the off-chip traffic of the best order and spills."""

import subprocess
import sys
from pathlib import Path

from codesign.study.study import Study


def explore(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", "-m", "codesign.cli.app", "explore", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


def test_larger_scratchpads_spill_less(tmp_path: Path) -> None:
    options = ("--network", "densenet121", "--scheduler", "cosma", "--objectives", "energy", "area")
    run = explore(*options, "--optimizer", "sobol", "--trials", "8", "--out", "s", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    study = Study.open(tmp_path / "s")
    details = [study.detail(t.number) for t in study.trials if study.is_valid(t)]
    assert details and all(s["proof"] == "optimal" for d in details for s in d["schedules"])
    by_size = sorted((d["scratchpad_bytes"], d["dram_bytes"]) for d in details)
    assert [traffic for _, traffic in by_size] == sorted((traffic for _, traffic in by_size), reverse=True)
    too_small = [t for t in study.trials if not study.is_valid(t)]
    assert all("alone needs more" in str(t.infeasible) for t in too_small)
    assert (tmp_path / "s" / "report.html").exists()


def test_options_of_other_schedulers_are_refused(tmp_path: Path) -> None:
    run = explore("--network", "densenet121", "--scheduler", "cosma", "--mapper", "anneal", "--out", "s", cwd=tmp_path)
    assert run.returncode == 2
    assert "--mapper is of --scheduler layers; --scheduler cosma decides it itself" in run.stderr


def test_what_cosma_cannot_minimise_is_refused(tmp_path: Path) -> None:
    options = ("--network", "densenet121", "--scheduler", "cosma", "--out", "s")
    run = explore(*options, "--map-objective", "edp", cwd=tmp_path)
    assert run.returncode == 2
    text = " ".join(run.stderr.split())
    assert "--map-objective edp is not one that --scheduler cosma minimises: bytes, energy, latency" in text
    assert "leave it out for bytes" in text


def test_the_record_says_what_cosma_minimised(tmp_path: Path) -> None:
    options = ("--network", "alexnet", "--scheduler", "cosma", "--optimizer", "random", "--trials", "1")
    for name, expected in ((None, "bytes"), ("energy", "energy")):
        given = () if name is None else ("--map-objective", name)
        run = explore(*options, *given, "--out", expected, cwd=tmp_path)
        assert run.returncode == 0, run.stderr
        assert Study.open(tmp_path / expected).config["evaluation"]["objective"] == expected
