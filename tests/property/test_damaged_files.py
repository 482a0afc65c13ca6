"""Damaged files: whatever is cut off or replaced, the program has a result or says what is wrong; it never crashes."""

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codesign.core.errors import UserError
from codesign.cost.cost import evaluate
from codesign.formats.documents import dump_yaml, parse_yaml
from codesign.formats.load import load_inputs

DATA = Path(__file__).parents[1] / "data"
SETS = {
    "flat": sorted((DATA / "timeloop" / "inputs" / "simba_res2_3x3_CK").glob("*.yaml")),
    "zigzag": [DATA / "zigzag" / "inputs" / "eyeriss_like.yaml"],
}
OWN = {
    "own.yaml": """
architecture:
  name: edge
  levels:
  - {name: DRAM, kind: dram, word_bits: 64, bandwidth_bytes_per_cycle: 16, energy: {read_pj: 5, fill_pj: 5}}
  - {name: Buffer, capacity_bytes: 512, banks: 2, keep: [input, W], fanout: {x: 4, y: 2, links: none, hop_pj_per_bit: 0.1}}
  mac: {bits: 8, energy_pj: 0.25}
problem: {notation: "O[k] += I[c] * W[k,c]", bounds: {k: 8, c: 4}, bits: 8, tensors: {W: {bits: 4}}}
mapping: [{store: DRAM, tensors: [I, W, O]}, {for: k, factor: 2}, {parallel: k, factor: 4, axis: x, level: Buffer}, {for: c, factor: 4}]
constraints: {free_bypass: true, levels: [{level: Buffer, keep: [W], temporal: {k: 2}, spatial: {c: 2}, order: [k, c], along_x: [k]}]}
""",
    "tree.yaml": """
architecture:
  version: 0.4
  nodes:
  - !Component {name: DRAM, class: DRAM, attributes: {datawidth: 8, width: 16}}
  - !Container {name: PE, spatial: {meshX: 4}, constraints: {spatial: {factors: [K=4], split: 1, permutation: [K]}}}
  - !Component {name: Spad, class: regfile, attributes: {depth: 64, datawidth: 8}, constraints: {dataspace: {keep: [W]}}}
  - !Component {name: mac, class: intmac, attributes: {datawidth: 8}}
problem:
  shape:
    dimensions: [K, C]
    coefficients: [{name: step, default: 2}]
    data_spaces:
    - {name: W, projection: [[[K]], [[C]]]}
    - {name: I, projection: [[[C, step]]]}
    - {name: O, projection: [[[K]]], read_write: true}
  instance: {K: 4, C: 4, step: 3}
mapping:
- {target: PE, type: spatial, factors: [K=4], split: 1, permutation: [K]}
- {target: Spad, type: temporal, factors: C4, permutation: CK}
mapspace_constraints: {targets: [{target: Spad, type: temporal, factors: "C=4", permutation: "C"}]}
ERT: {tables: [{name: DRAM, actions: [{name: read, energy: 1}, {name: write, energy: 1}]}]}
""",
    "layer.m": """
Network n { Layer a { Type: CONV Stride { X: 1, Y: 1 } Dimensions { K: 8, C: 8, R: 3, S: 3, Y: 10, X: 10 }
  Dataflow { SpatialMap(1,1) K; TemporalMap(4,4) C; TemporalMap(Sz(R),1) Y; TemporalMap(4+Sz(S)-1,4) X; Cluster(4, P); SpatialMap(1,1) C; } } }
""",
}
SETTINGS = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
JUNK: tuple[Any, ...] = (
    None, True, 0, -1, 1, 2.5, "", "x", "K", "1e9", float("inf"), float("nan"), 10**30, [], {}, [None], [1], [[1]], ["K"], {"a": 1}, {"name": None},
)  # fmt: skip


def texts() -> dict[str, str]:
    found = {f"{name}-{path.name}": path.read_text() for name, paths in SETS.items() for path in paths}
    return found | OWN


TEXTS = texts()


def others_of(name: str) -> list[Path]:
    """The files that are read together with the damaged one, so that its references can be resolved."""
    return [p for p in SETS["flat"] if name.startswith("flat") and f"flat-{p.name}" != name]


def read(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(text)
    try:
        inputs = load_inputs([path, *others_of(name)])
        if inputs.architecture is not None and inputs.computation is not None and inputs.mapping is not None:
            evaluate(inputs.computation, inputs.architecture, inputs.mapping)
    except UserError as error:
        assert str(error)


@pytest.mark.parametrize("name", sorted(TEXTS))
@SETTINGS
@given(st.data())
def test_a_file_cut_off_anywhere(tmp_path: Path, name: str, data: st.DataObject) -> None:
    text = TEXTS[name]
    read(tmp_path, name, text[: data.draw(st.integers(0, len(text)))])


@pytest.mark.parametrize("name", sorted(TEXTS))
@SETTINGS
@given(st.data())
def test_a_character_replaced_anywhere(tmp_path: Path, name: str, data: st.DataObject) -> None:
    text = TEXTS[name]
    place = data.draw(st.integers(0, len(text) - 1))
    read(tmp_path, name, text[:place] + data.draw(st.sampled_from("{}[]:,-!&*#'\"\t\n09aKx.%@\\")) + text[place + 1 :])


@pytest.mark.parametrize("name", sorted(n for n in TEXTS if n.endswith(".yaml")))
@SETTINGS
@given(st.data())
def test_a_value_replaced_anywhere(tmp_path: Path, name: str, data: st.DataObject) -> None:
    (value,) = parse_yaml(TEXTS[name], name)
    value = copy.deepcopy(value)
    places = list(_places(value))
    holder, key = places[data.draw(st.integers(0, len(places) - 1))]
    holder[key] = data.draw(st.sampled_from(JUNK))
    read(tmp_path, name, dump_yaml(value))


def _places(value: Any) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield value, key
        yield from _places(item)
