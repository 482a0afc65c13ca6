from pathlib import Path

import pytest

from codesign.core.errors import UserError
from codesign.formats.accelforge import text as accelforge_text
from codesign.formats.documents import Dialect, Kind, dump_yaml, parse_yaml, read_documents, recognise

FORMS = [
    ({"architecture": {"name": "a", "levels": []}}, Kind.ARCHITECTURE, Dialect.OWN),
    ({"architecture": {"arithmetic": {}, "storage": []}}, Kind.ARCHITECTURE, Dialect.TIMELOOP),
    ({"architecture": {"version": 0.3, "subtree": []}}, Kind.ARCHITECTURE, Dialect.TIMELOOP),
    ({"architecture": {"version": 0.4, "nodes": []}}, Kind.ARCHITECTURE, Dialect.TIMELOOP),
    ({"memories": {}, "operational_array": {}}, Kind.ARCHITECTURE, Dialect.ZIGZAG),
    ({"problem": {"notation": "O[k] += W[k]", "bounds": {"k": 1}}}, Kind.PROBLEM, Dialect.OWN),
    ({"problem": {"shape": {}, "K": 1}}, Kind.PROBLEM, Dialect.TIMELOOP),
    ([{"equation": "O[k]+=W[k]*I[k]", "loop_dims": ["K"]}], Kind.PROBLEM, Dialect.ZIGZAG),
    ({"mapping": [{"store": "DRAM", "tensors": []}]}, Kind.MAPPING, Dialect.OWN),
    ({"mapping": [{"target": "DRAM", "type": "temporal"}]}, Kind.MAPPING, Dialect.TIMELOOP),
    ([{"for": "K", "factor": 2}], Kind.MAPPING, Dialect.OWN),
    ({"status": "ok", "mapping": [{"store": "DRAM", "tensors": []}], "edp": 1.0}, Kind.MAPPING, Dialect.OWN),
    ({"mapspace_constraints": []}, Kind.CONSTRAINTS, Dialect.TIMELOOP),
    ({"architecture_constraints": {"targets": []}}, Kind.CONSTRAINTS, Dialect.TIMELOOP),
    ({"constraints": {"targets": []}}, Kind.CONSTRAINTS, Dialect.TIMELOOP),
    ({"constraints": {"levels": []}}, Kind.CONSTRAINTS, Dialect.OWN),
    ([{"name": "default", "spatial_mapping": {}}], Kind.CONSTRAINTS, Dialect.ZIGZAG),
    ({"ERT": {"tables": []}}, Kind.ENERGY, Dialect.TIMELOOP),
]


@pytest.mark.parametrize(("value", "kind", "dialect"), FORMS)
def test_a_document_is_known_by_its_content(value: object, kind: Kind, dialect: Dialect) -> None:
    (document,) = recognise(value, "f")
    assert (document.kind, document.dialect) == (kind, dialect)


def test_several_documents_may_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    path.write_text("problem: {shape: {}}\nmapping: [{target: A, type: bypass}]\n---\nERT: {tables: []}\n")
    assert [d.kind for d in read_documents(path)] == [Kind.PROBLEM, Kind.MAPPING, Kind.ENERGY]


def test_maestro_text_holds_a_problem_and_a_mapping(tmp_path: Path) -> None:
    path = tmp_path / "layer.m"
    path.write_text("Layer A { Type: CONV Dimensions { K: 2 } Dataflow { TemporalMap(1,1) K; } }")
    assert [(d.kind, d.dialect) for d in read_documents(path)] == [
        (Kind.PROBLEM, Dialect.MAESTRO),
        (Kind.MAPPING, Dialect.MAESTRO),
    ]


def test_sections_of_other_programs_are_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert recognise({"mapper": {"timeout": 3}, "ERT": {}}, "f.yaml")[0].kind is Kind.ENERGY
    assert "section `mapper` changes nothing here" in caplog.text


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"architectur": {}}, "unknown top-level key 'architectur'.*did you mean 'architecture'"),
        ({"status": "infeasible", "mapping": None}, "holds no mapping: its status is 'infeasible'"),
        ([1, 2], "expected one of the keys .* got a list of 2"),
        ("text", "expected keys and values, got 'text'"),
    ],
)
def test_what_is_nothing_known_is_refused(value: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        recognise(value, "f")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2\n", r"key 'a' stands twice \(f, line 2, column 1\)"),
        ("a: {b: 1,\n", r"not valid YAML or JSON: .*\(f, line 2"),
        ("a: \x00", "expected a text file, got binary data"),
        ("a: *b\n", "undefined alias"),
        ("? [1]\n: 2\n", "a key must be a name"),
    ],
)
def test_broken_yaml_is_located(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_yaml(text, "f")


def test_tags_of_timeloop_v4_are_kept() -> None:
    assert parse_yaml("nodes: [!Component {name: DRAM}, !Container {name: PE}]", "f") == [
        {"nodes": [{"!": "Component", "name": "DRAM"}, {"!": "Container", "name": "PE"}]}
    ]


def test_written_yaml_is_read_back_with_whole_numbers_tidied() -> None:
    value = {"a": [{"b": 2.0, "c": 0.5}], "d": "R1 S1"}
    text = dump_yaml(value, comment="made by a test")
    assert text.startswith("# made by a test\n") and "b: 2," in text
    assert parse_yaml(text, "f") == [value]


def test_a_template_of_accelforge_is_one_document() -> None:
    assert accelforge_text.load("a: 1\n") == {"a": 1}
    with pytest.raises(UserError, match="one document is read, got 2"):
        accelforge_text.load("a: 1\n---\nb: 2\n")
