import copy
from typing import Any

import pytest

from codesign.arch.architecture import AccessEnergy, Architecture, LevelKind
from codesign.core.errors import UserError
from codesign.formats.documents import parse_yaml
from codesign.formats.timeloop.architecture import architecture_from_timeloop, embedded_constraints, spatial_aliases
from codesign.formats.timeloop.energy_table import apply_area_table, apply_energy_table

FLAT: dict[str, Any] = {
    "arithmetic": {"name": "MAC", "instances": 8, "meshX": 4, "word-bits": 16},
    "storage": [
        {"name": "Spad", "instances": 8, "meshX": 4, "meshY": 2, "word-bits": 16, "entries": 64},
        {"name": "Buffer", "sizeKB": 2, "word-bits": 16, "read_bandwidth": 8, "write_bandwidth": 4},
        {"name": "DRAM", "technology": "DRAM", "word-bits": 16},
    ],
}
HIERARCHY = """
version: 0.3
subtree:
- name: system
  attributes: {technology: 45nm}
  local:
  - {name: DRAM, class: DRAM, attributes: {width: 64, block-size: 4, word-bits: 16}}
  subtree:
  - name: chip
    local:
    - {name: Buffer, class: SRAM, attributes: {depth: 1024, datawidth: 16, read_bandwidth: 8}}
    subtree:
    - name: PE[0..7]
      attributes: {meshX: 4}
      local:
      - {name: Spad, class: regfile, attributes: {memory_depth: 64, datawidth: 16}}
      - {name: mac, class: intmac, attributes: {datawidth: 16}}
"""
NODES = """
version: 0.4
nodes:
- !Component {name: DRAM, class: DRAM, attributes: {datawidth: 16}}
- !Container {name: chip, attributes: {technology: 45nm}}
- !Component
  name: Buffer
  class: SRAM
  attributes: {depth: 1024, datawidth: 16}
  constraints: {dataspace: {keep: [Inputs], bypass: [Weights]}, temporal: {permutation: [P, Q]}}
- !Container {name: PE, spatial: {meshX: 4, meshY: 2}, constraints: {spatial: {factors: [K=4], split: 1, permutation: [K]}}}
- !Component {name: Spad, class: regfile, attributes: {depth: 64, datawidth: 16}}
- !Component {name: mac, class: intmac, attributes: {datawidth: 16}}
"""


def shape(architecture: Architecture) -> list[tuple[str, float | None, int, int]]:
    return [(v.name, v.capacity_bytes, v.fanout.x, v.fanout.y) for v in architecture.levels]


@pytest.mark.parametrize("text", [None, HIERARCHY, NODES])
def test_all_three_forms_say_the_same_machine(text: str | None) -> None:
    architecture = architecture_from_timeloop(FLAT if text is None else parse_yaml(text, "f")[0])
    assert shape(architecture) == [("DRAM", None, 1, 1), ("Buffer", 2048, 4, 2), ("Spad", 128, 1, 1)]
    assert architecture.levels[0].kind is LevelKind.DRAM
    assert architecture.mac.bits == 16 and architecture.mac_units == 8
    assert all(v.one_element_per_word and v.word_bits == 16 for v in architecture.levels)
    assert architecture.clock_hz == 1e9


def test_bandwidths() -> None:
    architecture = architecture_from_timeloop(FLAT)
    buffer = architecture.level("Buffer")
    assert (buffer.read_bandwidth_words_per_cycle, buffer.write_bandwidth_words_per_cycle) == (8, 4)


def changed(index: int, **fields: Any) -> dict[str, Any]:
    value = copy.deepcopy(FLAT)
    value["storage"][index] |= fields
    return value


@pytest.mark.parametrize(
    ("fields", "attribute", "expected", "warning"),
    [
        (
            {"shared_bandwidth": 3},
            "read_bandwidth_words_per_cycle",
            3.0,
            "shared_bandwidth limits reads and writes each",
        ),
        ({"multiple-buffering": 2}, "capacity_bytes", 1024.0, "multiple-buffering 2 leaves 512 words"),
        (
            {"block-size": 2, "vector-access-energy": 6.0},
            "energy",
            AccessEnergy(3, 3, 3),
            "Timeloop rounds accesses up",
        ),
        ({"min-utilization": 0.5}, "banks", 1, "min-utilization is not enforced"),
    ],
)
def test_what_is_said_only_nearly_is_warned_about(
    fields: dict[str, Any], attribute: str, expected: Any, warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    architecture = architecture_from_timeloop(changed(1, **fields))
    assert getattr(architecture.level("Buffer"), attribute) == expected
    assert warning in caplog.text


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (changed(1, entries=-4, sizeKB=None), "`entries` must be an integer >= 1, got -4"),
        (changed(1, entires=4), r"unknown key 'entires' \(f: 'Buffer'\); did you mean 'entries'"),
        (changed(1, **{"cluster-size": 2}), "`cluster-size` > 1"),
        (changed(1, network_read="noc"), "networks of one's own cannot be expressed"),
        (changed(1, instances=3), "`meshX` must be a multiple of that of the level outside"),
        (changed(2, instances=2), "the outermost level must have one instance, got 2 x 1"),
        (changed(0, meshX=3), "`meshX` x `meshY` must equal the 8 instances, got 3 x 2"),
        (changed(0, name=None), "a storage level has no `name`"),
        ({"arithmetic": FLAT["arithmetic"]}, "`storage` is missing"),
        ({**FLAT, "storag": []}, "unknown key 'storag'"),
        ({**FLAT, "arithmetic": [FLAT["arithmetic"]] * 2}, "expected one kind of arithmetic, got 2"),
        (
            {**FLAT, "arithmetic": {"name": "MAC", "instances": 8, "entries": 3}},
            "the innermost component must be the arithmetic",
        ),
        ("text", "`architecture` must hold keys and values, got 'text'"),
        (parse_yaml(HIERARCHY.replace("PE[0..7]", "PE[0-7]"), "f")[0], "expected a range such as"),
        (parse_yaml(HIERARCHY.replace("depth: 1024", "depth: width*4"), "f")[0], "`depth` must be an integer"),
    ],
)
def test_a_wrong_architecture_is_refused(value: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        architecture_from_timeloop(value, "f")


def test_a_tree_is_no_chain() -> None:
    value = parse_yaml(HIERARCHY, "f")[0]
    value["subtree"][0]["subtree"].append({"name": "other", "local": []})
    with pytest.raises(UserError, match=r"several subtrees side by side \(chip, other\)"):
        architecture_from_timeloop(value, "f")


def test_constraints_written_into_v4_nodes() -> None:
    value = parse_yaml(NODES, "f")[0]
    assert spatial_aliases(value) == {"chip": "DRAM", "PE": "Buffer"}
    assert embedded_constraints(value) == [
        {"target": "Buffer", "type": "dataspace", "keep": ["Inputs"], "bypass": ["Weights"]},
        {"target": "Buffer", "type": "temporal", "permutation": ["P", "Q"]},
        {"target": "Buffer", "type": "spatial", "factors": ["K=4"], "split": 1, "permutation": ["K"]},
    ]


def table(**components: dict[str, float]) -> dict[str, Any]:
    tables = [
        {"name": f"system.chip.{name}[1..8]", "actions": [{"name": a, "energy": e} for a, e in actions.items()]}
        for name, actions in components.items()
    ]
    return {"version": 0.4, "tables": tables}


FULL = {
    "DRAM": {"read": 9.0, "write": 8.0},
    "Buffer": {"random_read": 3.0, "random_fill": 4.0, "read": 99.0, "write": 99.0},
    "Spad": {"random_read": 1.0, "random_fill": 2.0, "random_update": 3.0},
    "MAC": {"mac_random": 0.5, "mac_gated": 0.1},
}


def test_actions_are_taken_in_their_order_of_priority() -> None:
    architecture = apply_energy_table(architecture_from_timeloop(FLAT), table(**FULL))
    assert architecture.level("DRAM").energy == AccessEnergy(9, 8, 8)
    assert architecture.level("Buffer").energy == AccessEnergy(3, 4, 4)
    assert architecture.level("Spad").energy == AccessEnergy(1, 2, 3)
    assert architecture.mac.energy_pj == 0.5


def test_of_an_action_with_arguments_the_largest_energy_counts() -> None:
    value = table(**FULL)
    value["tables"][0]["actions"] = [
        {"name": "read", "arguments": {"data_delta": i}, "energy": float(i)} for i in range(3)
    ] + [{"name": "write", "energy": 1.0}]
    architecture = apply_energy_table(architecture_from_timeloop(FLAT), value)
    assert architecture.level("DRAM").energy == AccessEnergy(2, 1, 1)


def test_a_table_of_nothing_known_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    apply_energy_table(architecture_from_timeloop(FLAT), table(**FULL, Wires={"transfer": 2.0}))
    assert "table of 'Wires' belongs to no storage level" in caplog.text


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (table(**{k: v for k, v in FULL.items() if k != "Spad"}), "no table for level 'Spad'"),
        (table(**{k: v for k, v in FULL.items() if k != "MAC"}), "no table for the arithmetic 'MAC'"),
        (table(**{**FULL, "Spad": {"leak": 1.0}}), "needs one of the actions random_read, read, has leak"),
        (table(**{**FULL, "Spad": {"read": -1.0}}), r"`energy` must be a number >= 0, got -1.0 \(e: table of 'Spad'\)"),
        ({"tables": table(**FULL)["tables"] * 2}, "two tables for 'DRAM'"),
        ({"table": []}, "`tables` is missing"),
    ],
)
def test_a_wrong_energy_table_is_refused(value: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        apply_energy_table(architecture_from_timeloop(FLAT), value, "e")


def test_attributes_of_an_estimator_are_named_and_misspelt_ones_refused(caplog: pytest.LogCaptureFixture) -> None:
    text = HIERARCHY.replace("read_bandwidth: 8", "read_bandwidth: 8, adder_style: ripple")
    architecture_from_timeloop(parse_yaml(text, "f")[0])
    assert "'Buffer': attributes adder_style are not read" in caplog.text
    text = HIERARCHY.replace("read_bandwidth: 8", "read_bandwith: 8")
    with pytest.raises(UserError, match=r"unknown key 'read_bandwith'.*did you mean 'read_bandwidth'"):
        architecture_from_timeloop(parse_yaml(text, "f")[0])


def test_areas_are_square_micrometres_of_one_instance(caplog: pytest.LogCaptureFixture) -> None:
    tables = [
        {"name": "system.Buffer", "area": 2e5},
        {"name": "system.PE.Spad[1..8]", "area": 1e3},
        {"name": "system.PE.MAC[1..8]", "area": 500},
        {"name": "system.router", "area": 7},
    ]
    architecture = apply_area_table(architecture_from_timeloop(FLAT), {"version": 0.4, "tables": tables})
    assert architecture.area_mm2 == pytest.approx(0.2 + 8 * 0.001 + 8 * 0.0005)
    assert "the area of 'router' belongs to no storage level" in caplog.text
    with pytest.raises(UserError, match=r"`area` must be a number >= 0, got -1 \(a: ART table\)"):
        apply_area_table(architecture, {"tables": [{"name": "Buffer", "area": -1}]}, "a")
