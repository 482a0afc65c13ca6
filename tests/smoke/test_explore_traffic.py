"""`codesign explore --scheduler cosma`: scratchpads judged by the off-chip traffic of the best order and spills."""

from pathlib import Path

from codesign.study.study import Study
from tests.command_line import run


def test_larger_scratchpads_spill_less(tmp_path: Path) -> None:
    options = ("--network", "densenet121", "--scheduler", "cosma", "--objectives", "energy", "area")
    ran = run("explore", *options, "--optimizer", "sobol", "--trials", "8", "--out", "s", cwd=tmp_path)
    assert ran.code == 0, ran.err
    study = Study.open(tmp_path / "s")
    details = [study.detail(t.number) for t in study.trials if study.is_valid(t)]
    assert details and all(s["proof"] == "optimal" for d in details for s in d["schedules"])
    by_size = sorted((d["scratchpad_bytes"], d["dram_bytes"]) for d in details)
    assert [traffic for _, traffic in by_size] == sorted((traffic for _, traffic in by_size), reverse=True)
    too_small = [t for t in study.trials if not study.is_valid(t)]
    assert all("alone needs more" in str(t.infeasible) for t in too_small)
    assert (tmp_path / "s" / "report.html").exists()


def test_options_of_other_schedulers_are_refused(tmp_path: Path) -> None:
    ran = run(
        "explore", "--network", "densenet121", "--scheduler", "cosma", "--mapper", "anneal", "--out", "s", cwd=tmp_path
    )
    assert ran.code == 2
    assert "--mapper is of --scheduler layers; --scheduler cosma decides it itself" in ran.err


def test_what_cosma_cannot_minimise_is_refused(tmp_path: Path) -> None:
    options = ("--network", "densenet121", "--scheduler", "cosma", "--out", "s")
    ran = run("explore", *options, "--map-objective", "edp", cwd=tmp_path)
    assert ran.code == 2
    text = " ".join(ran.err.split())
    assert "--map-objective edp is not one that --scheduler cosma minimises: bytes, energy, latency" in text
    assert "leave it out for bytes" in text


def test_the_record_says_what_cosma_minimised(tmp_path: Path) -> None:
    options = ("--network", "alexnet", "--scheduler", "cosma", "--optimizer", "random", "--trials", "1")
    for name, expected in ((None, "bytes"), ("energy", "energy")):
        given = () if name is None else ("--map-objective", name)
        ran = run("explore", *options, *given, "--out", expected, cwd=tmp_path)
        assert ran.code == 0, ran.err
        assert Study.open(tmp_path / expected).config["evaluation"]["objective"] == expected
