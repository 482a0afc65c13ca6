"""Mistakes that people make in files of their own: what, where, expected, got, and the mend, in one line and exit code 2."""

from pathlib import Path

import pytest

from tests.command_line import run

LAYER = "gemm M=16 N=16 K=16"
OWN = """architecture:
  name: mine
  clock_hz: 1e9
  mac: {bits: 8, energy_pj: 0.2}
  levels:
  - {name: DRAM, kind: dram, bandwidth_bytes_per_cycle: 16}
  - {name: Buf, capacity_bytes: 32KiB, fanout: {x: 16}}
  - {name: Reg, capacity_bytes: 64, keep: [output]}
"""


def mapped(tmp_path: Path, text: str) -> tuple[int, str]:
    path = tmp_path / "own.yaml"
    path.write_text(text)
    outcome = run("map", "--arch", path, "--layer", LAYER, "--technology", "cmos-22nm", "--evaluations", "50")
    return outcome.code, outcome.err.replace(str(path), "own.yaml")


def test_an_accelerator_of_ones_own_is_mapped(tmp_path: Path) -> None:
    assert mapped(tmp_path, OWN) == (0, "")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("{x: 16}", "16"), "`fanout` must say how many children stand along x and y, got 16 (own.yaml: level 'Buf'); e.g. fanout: {x: 16}"),
        (("{x: 16}", "{x: 0}"), "`x` must be an integer >= 1, got 0 (own.yaml: level 'Buf', `fanout`)"),
        (("{x: 16}", "{x: 1.5}"), "`x` must be an integer >= 1, got 1.5"),
        (("{x: 16}", "{z: 16}"), "unknown key 'z' (own.yaml: level 'Buf', `fanout`)"),
        (("fanout", "fanuot"), "did you mean 'fanout'?"),
        (("32KiB", "32 parsecs"), "unknown unit 'parsecs' in '32 parsecs' (own.yaml: level 'Buf')"),
        (("32KiB", "-5"), "`capacity_bytes` must be a number > 0, got -5"),
        (("capacity_bytes: 64", "capacity_bytes: 0"), "`capacity_bytes` must be a number > 0, got 0 (own.yaml: level 'Reg')"),
        (("[output]", "[outputs]"), "'outputs'"),
        (("name: Reg", "name: Buf"), "'Buf'"),
        (("1e9", "-1"), "`clock_hz` must be a number > 0, got -1"),
        (("clock_hz", "clock_ghz"), "did you mean 'clock_hz'?"),
        (("architecture:", "arch:"), "`arch` is Timeloop's key; levels of your own stand under `architecture` (own.yaml)"),
        (("architecture:", "architecure:"), "did you mean 'architecture'?"),
        (("levels:", "level:"), "`levels` is missing (own.yaml: architecture); is 'level' meant?"),
        (("bits: 8", "bits: 4"), "the MACs take operands of 4 bits"),
        (("bandwidth_bytes_per_cycle: 16", "bandwidth_gbps: 16"), "did you mean 'bandwidth_bytes_per_cycle'?"),
    ],
)  # fmt: skip
def test_a_mistake_in_it_is_named(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    code, said = mapped(tmp_path, OWN.replace(*change, 1))
    assert code == 2 and message in said, said
    assert said.startswith("error: ") and said.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workload: {netwrks: [alexnet]}", "unknown key 'netwrks' (study.yaml, `workload`); did you mean 'networks'?"),
        ("workloads: {networks: [alexnet]}", "unknown key 'workloads' (study.yaml); did you mean 'workload'?"),
        ("workload: {networks: [alexnet]}\nsearch: {trails: 3}", "did you mean 'trials'?"),
        ("workload: {networks: [alexnet]}\nsearch: {trials: many}", "`trials` must be an integer >= 1, got 'many'"),
        ("search: {trials: 3}", "which network?"),
    ],
)
def test_a_mistake_in_a_study_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(text)
    outcome = run("explore", path, "--out", tmp_path / "study")
    assert outcome.code == 2 and message in outcome.err.replace(str(path), "study.yaml"), outcome.err


def test_a_database_without_a_study_is_told_apart_from_a_damaged_one(tmp_path: Path) -> None:
    database = tmp_path / "study.db"
    database.write_bytes(b"")
    empty = run("study", "show", tmp_path)
    assert (
        empty.code == 2
        and "the file holds no study" in empty.err
        and "no such table: version" not in empty.err.split("(")[0]
    )
    database.write_bytes(b"junk")
    assert "not a database, or is damaged" in run("study", "show", tmp_path).err


def test_an_empty_cell_of_buffers_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "buffers.csv").write_text("id,lower,upper,size\na,0,10,64\nb,5,20\n")
    outcome = run("schedule", "--buffers", tmp_path / "buffers.csv", "--capacity", "128")
    assert outcome.code == 2 and "size must be a whole number, got nothing" in outcome.err and "line 3" in outcome.err


def test_a_folder_that_cannot_be_made_is_said() -> None:
    outcome = run("explore", "--network", "alexnet", "--out", "/proc/nowhere/study")
    assert outcome.code == 2 and "its folder cannot be made" in outcome.err and "choose another --out" in outcome.err
