"""Timeloop's own input files, evaluated by the command line, against what that program printed for them."""

from pathlib import Path

import pytest

from codesign.formats.convert import to_files
from codesign.formats.documents import Dialect
from codesign.formats.load import Inputs, load_inputs
from tests.command_line import run
from tests.reference_data import REFERENCE, lacks
from tests.timeloop_reference import Case, cases

INPUTS = REFERENCE / "timeloop" / "inputs"
CASES = [case for case in cases() if (INPUTS / case.name).is_dir()]
CONSTRAINTS = [
    path
    for path in sorted(INPUTS.glob("*_constraints.yaml"))
    if any(case.name.startswith(path.stem.removesuffix("constraints")) for case in CASES)
]


def files_of(case: Case) -> list[Path]:
    return sorted((INPUTS / case.name).glob("*.yaml"))


def test_every_folder_of_inputs_has_a_recorded_case() -> None:
    if not INPUTS.is_dir():
        lacks("input files")
    assert CASES
    assert {path.name for path in INPUTS.iterdir() if path.is_dir()} == {case.name for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.thinned(3)
def test_the_command_line_prints_the_recorded_counts(case: Case) -> None:
    outcome = run("evaluate", *files_of(case), "--format", "json")
    assert (outcome.code, outcome.err) == (0, "")
    got, expected = outcome.json, case.expected
    assert got["latency_cycles"] == expected["cycles"]
    assert got["utilization"] == pytest.approx(expected["utilization"], rel=1e-9)
    printed_parts = 1 + sum(len(level["tensors"]) for level in expected["levels"].values())
    assert got["energy_pj"] == pytest.approx(expected["energy_pj"], rel=1e-6, abs=0.005 * printed_parts)
    assert got["compute"]["macs"] == expected["macs"]
    for name, level in expected["levels"].items():
        assert set(got["levels"][name]["tensors"]) == set(level["tensors"]), name
        for tensor, counts in level["tensors"].items():
            used, entry = counts["utilized_instances_max"], got["levels"][name]["tensors"][tensor]
            totals = {
                "tile_words": counts["utilized_capacity"],
                "reads": counts["scalar_reads_per_instance"] * used,
                "fills": counts["scalar_fills_per_instance"] * used,
                "updates": counts["scalar_updates_per_instance"] * used,
            }
            assert {key: entry[key] for key in totals} == totals, f"{name} {tensor}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_yaml_and_json_forms_of_a_case_are_the_same_values(case: Case) -> None:
    inputs = load_inputs(files_of(case))
    assert inputs.need_architecture().levels == case.architecture.levels
    assert inputs.need_architecture().mac == case.architecture.mac
    assert inputs.computation == case.computation
    assert inputs.mapping == case.mapping


@pytest.mark.parametrize("dialect", [Dialect.OWN, Dialect.TIMELOOP])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.thinned(5)
def test_a_case_written_and_read_again_is_unchanged(case: Case, dialect: Dialect, tmp_path: Path) -> None:
    before = load_inputs(files_of(case))
    for name, text in to_files(before, dialect).items():
        (tmp_path / name).write_text(text)
    after = load_inputs(sorted(tmp_path.iterdir()))
    assert after.need_architecture().levels == before.need_architecture().levels
    assert after.need_architecture().mac == before.need_architecture().mac
    assert after.computation == before.computation
    assert after.mapping == before.mapping


@pytest.mark.parametrize("path", CONSTRAINTS, ids=lambda path: path.stem)
def test_reference_constraints_are_read_and_survive_both_forms(path: Path, tmp_path: Path) -> None:
    case = next(c for c in CASES if c.name.startswith(path.stem.removesuffix("constraints")))
    files = [path, *(f for f in files_of(case) if f.stem != "mapping")]
    before = load_inputs(files)
    assert {item.level for item in before.constraints.levels} <= {v.name for v in case.architecture.levels}
    decided = _decisions(before)
    for dialect in (Dialect.OWN, Dialect.TIMELOOP):
        folder = tmp_path / dialect.value
        folder.mkdir()
        for name, text in to_files(before, dialect).items():
            (folder / name).write_text(text)
        assert _decisions(load_inputs(sorted(folder.iterdir()))) == decided


def _decisions(inputs: Inputs) -> dict[tuple[str, str], str]:
    architecture, computation = inputs.need_architecture(), inputs.need_computation()
    return {
        (level.name, tensor.name): inputs.constraints.decision(architecture, level.name, tensor).value
        for level in architecture.levels
        for tensor in computation.tensors
    }
