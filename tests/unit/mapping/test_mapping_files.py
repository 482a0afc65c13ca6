from pathlib import Path
from typing import Any

import pytest

from codesign.core.errors import UserError
from codesign.formats.load import load_inputs, merge_constraints
from codesign.mapping.constraints import Constraints, LevelConstraints
from codesign.mapping.files import constraints_from_json, constraints_to_json, mapping_from_json, mapping_to_json
from codesign.mapping.mapping import Mapping, Spatial, Storage, Temporal

NEST = Mapping(
    (Storage("I", "DRAM"), Storage("O", "DRAM"), Temporal("k", 2), Storage("I", "Buf"), Spatial("k", 4, "y", "Buf"))
)
LIMITS = Constraints(
    (
        LevelConstraints("Buf", frozenset("I"), frozenset("O"), (("k", 2),), (("p", 4),), ("k", "p"), frozenset("p")),
        LevelConstraints("Regs"),
    ),
    free_bypass=True,
)


def test_a_nest_is_written_and_read_back_equal() -> None:
    assert mapping_from_json(mapping_to_json(NEST)) == NEST


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ({"for": "k"}, "expected a list of nodes, got dict"),
        ([{"loop": "k"}], "expected a node with `store`, `for`, `parallel` or `layout`"),
        ([{"for": "k"}], r"`factor` is missing \(f, node 1\)"),
        ([{"for": "k", "factor": 0}], "factor of loop 'k' must be an integer >= 1, got 0"),
        ([{"for": "k", "factor": "two"}], "factor of loop 'k' must be an integer >= 1, got 'two'"),
        ([{"for": "k", "factor": 2, "facter": 2}], "unknown key 'facter'"),
        ([{"store": "DRAM", "tensors": "I"}], "`tensors` must be a list of names, got 'I'"),
        (
            [{"parallel": "k", "factor": 2, "axis": "z", "level": "B"}],
            "axis of spatial loop 'k' must be 'x' or 'y', got 'z'",
        ),
    ],
)
def test_a_wrong_node_is_refused(nodes: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        mapping_from_json(nodes, "f")


def test_constraints_are_written_and_read_back_equal() -> None:
    assert constraints_from_json(constraints_to_json(LIMITS)) == LIMITS
    assert constraints_from_json([{"level": "Buf", "keep": ["I"]}]).free_bypass is False


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([{"keep": ["I"]}], r"`level` is missing \(f: constraints, entry 1\)"),
        ([{"level": "Buf", "kep": ["I"]}], "unknown key 'kep'.*did you mean 'keep'"),
        ([{"level": "Buf", "temporal": {"k": 0}}], "`k` must be an integer >= 1, got 0"),
        ([{"level": "Buf", "keep": ["I"], "bypass": ["I"]}], "'I' must be both kept and bypassed"),
        ([{"level": "Buf", "order": ["k", "p", "k"]}], "'k' is named twice in one rule"),
        ([{"level": "Buf"}, {"level": "Buf"}], "two entries for level 'Buf'"),
        ({"free_bypas": True}, "unknown key 'free_bypas'.*did you mean 'free_bypass'"),
    ],
)
def test_wrong_constraints_are_refused(value: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        constraints_from_json(value, "f")


def one(**fields: Any) -> Constraints:
    return Constraints((LevelConstraints("Buf", **fields),))


def test_constraints_of_several_files_hold_together() -> None:
    merged = merge_constraints(
        one(keep=frozenset("I"), temporal=(("k", 2),), order=("k",)),
        one(bypass=frozenset("O"), temporal=(("p", 3),), order=("k", "p"), along_x=frozenset("k")),
    )
    assert merged.levels == (
        LevelConstraints("Buf", frozenset("I"), frozenset("O"), (("k", 2), ("p", 3)), (), ("k", "p"), frozenset("k")),
    )


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ({"keep": frozenset("I")}, {"bypass": frozenset("I")}, "'I' must be both kept and bypassed"),
        ({"spatial": (("k", 2),)}, {"spatial": (("k", 4),)}, "spatial factor of 'k' must be both 2 and 4"),
        ({"order": ("k",)}, {"order": ("p", "k")}, "loop orders k and p k contradict each other"),
        ({"along_x": frozenset("k")}, {"along_x": frozenset("p")}, "two different sets of dimensions lie along X"),
    ],
)
def test_contradicting_constraints_are_refused(a: dict[str, Any], b: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        merge_constraints(one(**a), one(**b))


TIMELOOP = """
architecture:
  arithmetic: {name: MAC, instances: 4, word-bits: 8}
  storage: [{name: Buf, entries: 64, word-bits: 8}, {name: DRAM, technology: DRAM, word-bits: 8}]
problem:
  shape:
    dimensions: [K, C]
    data-spaces:
    - {name: W, projection: [[[K]], [[C]]]}
    - {name: I, projection: [[[C]]]}
    - {name: O, projection: [[[K]]], read-write: true}
  K: 8
  C: 4
"""


def test_undecided_bypass_is_free_on_timeloop_architectures_unless_an_own_file_says_otherwise(tmp_path: Path) -> None:
    files = [tmp_path / "a.yaml"]
    files[0].write_text(TIMELOOP)
    assert load_inputs(files).constraints.free_bypass
    own = tmp_path / "own.yaml"
    own.write_text("constraints: {levels: [{level: Buf, keep: [W]}]}")
    constraints = load_inputs([own, *files]).constraints
    assert not constraints.free_bypass and constraints.by_level["Buf"].keep == {"W"}
    theirs = tmp_path / "theirs.yaml"
    theirs.write_text("architecture_constraints: {targets: [{target: Buf, type: bypass, bypass: [I]}]}")
    assert load_inputs([own, theirs, *files]).constraints.by_level["Buf"].bypass == {"I"}


def test_constraints_name_their_file_when_they_do_not_fit(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(TIMELOOP)
    (tmp_path / "c.yaml").write_text("constraints: {levels: [{level: Buff, keep: [W]}]}")
    with pytest.raises(UserError, match=r"unknown level 'Buff' \(.*c.yaml: constraints\); did you mean 'Buf'"):
        load_inputs([tmp_path / "a.yaml", tmp_path / "c.yaml"])
