"""A study as a file: equal to the flags, checked by a schema, and every mistake named with the nearest key."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import codesign
from codesign.cli.explore import given_only, specification
from codesign.core.errors import UserError
from codesign.core.specs import merged
from codesign.study.run import SPECIFICATION_FILE, prepare
from codesign.study.specification import SCHEMA_FILE, StudySpec, read_study_spec, write_study_spec
from experiments.study_schema import study_schema
from tests.command_line import run

SMALL = {"workload": {"networks": ["alexnet"]}, "place": {"out": "runs/a"}}

EXAMPLES: dict[str, dict[str, Any]] = {
    "small": SMALL,
    "one network without brackets": {"workload": {"networks": "alexnet"}, "place": {"out": "r"}},
    "everything": {
        "workload": {"networks": ["a.onnx", "vgg16"], "weights": [2, 1.5], "batch": 4, "dims": {"seq": 128}},
        "place": {"out": "r", "storage": "sqlite:///x.db", "study": "mine"},
        "space": "mine.yaml",
        "search": {
            "optimizer": "mobo",
            "trials": 100,
            "objectives": ["latency", "area"],
            "constraints": ["power_w<=2"],
            "seed": 7,
        },
        "judge": {
            "scheduler": "layers",
            "mapper": "anneal",
            "objective": "energy",
            "time_limit_s": 0.5,
            "evaluations": 200,
            "between_layers": {"activations": "kept", "activation_bytes": 65536, "resident_weights": True},
        },
        "fidelity": {"fidelities": "two", "low_mapper": "random", "low_evaluations": 50, "low_cost": 0.2},
        "workers": {"count": 2, "executor": "process"},
    },
}

MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"serch": {"trials": 4}}, "unknown key 'serch' (file); did you mean 'search'"),
    ({"search": {"trails": 4}}, "unknown key 'trails' (file, `search`); did you mean 'trials'"),
    ({"search": {"trials": "many"}}, "`trials` must be an integer >= 1, got 'many'"),
    ({"search": {"trials": 4.5}}, "`trials` must be an integer >= 1, got 4.5"),
    ({"search": {"seed": True}}, "`seed` must be an integer >= 0, got true"),
    ({"judge": {"between_layers": {"resident_weights": "yes"}}}, "`resident_weights` must be true or false, got 'yes'"),
    ({"workload": {"networks": [True]}}, "`networks` must be a list of names, got a list of 1"),
    ({"workload": ["alexnet"]}, "expected keys and values, got a list of 1 (file, `workload`)"),
    ({"workload": {"networks": ["a"], "dims": {"seq": "long"}}}, "`dims.seq` must be an integer, got 'long'"),
    ({"judge": {"time_limit_s": "soon"}}, "`time_limit_s` must be a number, got 'soon'"),
    ({"place": {}}, "`out` is missing (file, `place`)"),
]

REFUSED_VALUES: list[tuple[dict[str, Any], str]] = [
    ({"search": {"trials": 0}}, "`trials` must be an integer >= 1, got 0"),
    ({"judge": {"scheduler": "layer"}}, "did you mean 'layers'"),
    ({"judge": {"time_limit_s": -1}}, "the time limit must be > 0 seconds, got -1"),
    ({"search": {"epsilon": 0.1}}, "--epsilon is used with --optimizer exact only, got 'mobo'"),
    ({"fidelity": {"low_cost": 0.1}}, "--low-fidelity-cost is used with --fidelity two only"),
    (
        {"fidelity": {"fidelities": "two"}, "search": {"optimizer": "random"}},
        "--fidelity two is a way of --optimizer mobo",
    ),
    ({"workers": {"executor": "thread"}}, "unknown executor 'thread'"),
    ({"workload": {"networks": []}}, "at least one network, got none"),
]


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_files_and_values_are_each_other(example: dict[str, Any], tmp_path: Path) -> None:
    spec = StudySpec.from_json(example)
    assert StudySpec.from_json(spec.to_json()) == spec
    assert StudySpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    assert read_study_spec(write_study_spec(spec, tmp_path / "study.yaml")) == spec


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_the_schema_accepts_what_the_program_accepts(example: dict[str, Any]) -> None:
    jsonschema.validate(example, study_schema())
    jsonschema.validate(StudySpec.from_json(example).to_json(), study_schema())


@pytest.mark.parametrize(("change", "message"), MISTAKES)
def test_mistakes_are_named_and_the_schema_refuses_them(change: dict[str, Any], message: str) -> None:
    wrong = {**SMALL, **change}
    with pytest.raises(UserError) as caught:
        StudySpec.from_json(wrong, "file")
    assert message in str(caught.value)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, study_schema())


@pytest.mark.parametrize(("change", "message"), REFUSED_VALUES)
def test_values_out_of_range_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        StudySpec.from_json({**SMALL, **change}, "file")
    assert message in str(caught.value)


def test_the_schema_that_ships_is_the_one_of_the_types() -> None:
    assert json.loads(SCHEMA_FILE.read_text()) == study_schema(), "write it again: python -m experiments.study_schema"


def test_every_field_has_a_description_in_the_schema() -> None:
    def check(schema: dict[str, Any], path: str) -> None:
        for name, part in schema.get("properties", {}).items():
            assert part.get("description", "").strip(), f"{path}{name} is not described"
            check(part, f"{path}{name}.")

    check(study_schema(), "")


def test_flags_count_above_the_file(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(yaml.safe_dump(EXAMPLES["everything"]))
    flags = {"search": {"trials": 3, "seed": None}, "place": {"out": "elsewhere", "storage": None}}
    spec = specification(file, flags)
    assert (spec.search.trials, spec.search.seed, spec.place.out, spec.place.study) == (3, 7, "elsewhere", "mine")
    assert merged({"a": {"b": 1}}, {"a": 2}) == {"a": 2}
    assert given_only({"a": {"b": None}, "c": 0}) == {"c": 0}


def test_a_file_that_is_no_table_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text("- alexnet\n")
    with pytest.raises(UserError, match="expected keys and values, got a list of 1"):
        specification(file, {})


def test_a_study_by_flags_by_file_and_in_python_is_the_same(tmp_path: Path) -> None:
    flags = (
        "--network",
        "alexnet",
        "--trials",
        "3",
        "--optimizer",
        "random",
        "--mapper",
        "random",
        "--evaluations",
        "30",
        "--certify",
        "0",
    )
    as_json = ("--format", "json")
    first = run("explore", *flags, "--seed", "4", "--out", "a", "--save-config", "mine.yaml", *as_json, cwd=tmp_path)
    assert first.code == 0, first.err
    second = run("explore", "mine.yaml", "--out", "b", *as_json, cwd=tmp_path)
    assert second.code == 0, second.err
    found, again = first.json, second.json
    assert found.pop("compile_seconds") >= 0.0 and again.pop("compile_seconds") >= 0.0
    assert again == found
    spec = read_study_spec(tmp_path / "a" / SPECIFICATION_FILE)
    assert spec == read_study_spec(tmp_path / "mine.yaml")
    spec = StudySpec.from_json(merged(spec.to_json(), {"place": {"out": str(tmp_path / "c")}}))
    explored = codesign.explore(spec)
    assert explored.to_json() == found
    assert len(explored.to_frame()) == 3 and explored.plot().data
    assert codesign.open_study(tmp_path / "c").to_json() == found
    assert explored.write_report().is_file()
    compared = codesign.compare([tmp_path / "a", explored])
    assert compared.rows()[0]["runs"] == 2 and compared.plot().data
    assert json.loads(json.dumps(compared.to_json()))
    explored.close()


def test_nothing_is_written_before_all_names_are_found(tmp_path: Path) -> None:
    spec = StudySpec.from_json({**SMALL, "place": {"out": str(tmp_path / "r")}, "space": "scratchpd"})
    with pytest.raises(UserError, match="did you mean 'scratchpad'"):
        prepare(spec)
    assert not (tmp_path / "r").exists()


def test_a_study_without_network_or_place_is_told_what_to_give(tmp_path: Path) -> None:
    assert "give --network" in run("explore", "--out", "r", cwd=tmp_path).err
    assert "give --out FOLDER" in run("explore", "--network", "alexnet", cwd=tmp_path).err
