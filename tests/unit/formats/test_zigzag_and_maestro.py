"""ZigZag's and MAESTRO's files."""

import copy
from typing import Any

import pytest

from codesign.arch.architecture import Architecture, Fanout, LevelKind, StorageLevel
from codesign.core.errors import UserError
from codesign.formats.maestro.mapping import mapping_from_maestro
from codesign.formats.maestro.problem import computation_from_maestro
from codesign.formats.maestro.syntax import Layer, only_layer, parse_maestro
from codesign.formats.zigzag.architecture import architecture_from_zigzag
from codesign.formats.zigzag.mapping import constraints_from_zigzag
from codesign.mapping.constraints import LevelConstraints
from codesign.mapping.mapping import Spatial, Temporal
from codesign.mapping.validate import check_mapping
from codesign.workloads.computation import Computation


def memory(size: int, operands: list[str], served: list[str], bits: int = 64, **more: Any) -> dict[str, Any]:
    ports = [
        {"name": "r", "type": "read", "bandwidth_min": bits, "bandwidth_max": bits, "allocation": ["I1, tl"]},
        {"name": "w", "type": "write", "bandwidth_min": bits, "bandwidth_max": bits // 2, "allocation": ["I1, fh"]},
    ]
    ports[1]["bandwidth_min"] = bits // 2
    fields = {"size": size, "r_cost": 2.0, "w_cost": 3.0, "area": 1, "latency": 1}
    return fields | {"operands": operands, "ports": ports, "served_dimensions": served} | more


ACCELERATOR: dict[str, Any] = {
    "name": "small",
    "memories": {
        "rf_W": memory(512, ["I2"], []),
        "rf_O": memory(128, ["O"], []),
        "column": memory(1024, ["I1"], ["D1"]),
        "sram": memory(65536, ["I1", "O"], ["D1", "D2"]),
        "dram": memory(10**10, ["I1", "I2", "O"], ["D1", "D2"]),
    },
    "operational_array": {"unit_energy": 0.5, "unit_area": 0.1, "dimensions": ["D1", "D2"], "sizes": [4, 3]},
}
LAYER = Computation.parse("O[K,OX] += W[K,C] * I[C,OX]", K=4, C=6, OX=8)
MAPPING = {
    "name": "default",
    "spatial_mapping": {"D1": ["OX, 4"], "D2": ["C, 3"]},
    "memory_operand_links": {"O": "O", "W": "I2", "I": "I1"},
}


def test_memories_become_a_chain_of_levels() -> None:
    architecture = architecture_from_zigzag(ACCELERATOR)
    assert [(v.name, v.fanout.x, v.fanout.y) for v in architecture.levels] == [
        ("dram", 1, 1),
        ("sram", 1, 3),
        ("column", 4, 1),
        ("rf_O", 1, 1),
        ("rf_W", 1, 1),
    ]
    sram = architecture.level("sram")
    assert sram.keep == {"input", "output"}
    assert (sram.capacity_bytes, sram.word_bits) == (8192, 64)
    # half as wide a write port: half a word a cycle, twice the cost for a whole word
    assert sram.write_bandwidth_words_per_cycle == 0.5
    assert sram.energy is not None and (sram.energy.read_pj, sram.energy.fill_pj) == (2.0, 6.0)
    assert architecture.level("dram").kind is LevelKind.DRAM
    assert architecture.mac.energy_pj == 0.5


def changed(*path: Any, value: Any) -> dict[str, Any]:
    result = copy.deepcopy(ACCELERATOR)
    place: Any = result
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return result


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (changed("memories", "column", "served_dimensions", value=["D3"]), "unknown array dimension 'D3'"),
        (changed("memories", "rf_O", "served_dimensions", value=["D2"]), "shared along another dimension"),
        (
            changed("memories", "dram", "operands", value=["I1", "O"]),
            "the outermost memory 'dram' must hold all operands",
        ),
        (changed("memories", "sram", "operands", value=["I3"]), "unknown operand 'I3'"),
        (changed("memories", "sram", "size", value=-3), r"`size` must be an integer >= 1, got -3 \(f: memory 'sram'\)"),
        (changed("memories", "sram", "auto_cost_extraction", value=True), "`auto_cost_extraction` cannot be expressed"),
        (changed("memories", "sram", "ports", value=[]), "needs a port that reads"),
        (changed("memories", value={}), "`memories` must hold named memories"),
        (changed("operational_array", "sizes", value=[4]), "2 dimensions but 1 sizes"),
        (changed("operational_array", "dimensions", value=["D1", "D1"]), "`dimensions` must differ, got D1, D1"),
        (changed("operational_array", "is_imc", value=True), "unknown key 'is_imc'"),
    ],
)
def test_an_accelerator_that_is_no_chain_is_refused(value: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        architecture_from_zigzag(value, "f")


def test_unrolling_becomes_constraints_on_the_fan_outs() -> None:
    constraints = constraints_from_zigzag([MAPPING], LAYER, architecture_from_zigzag(ACCELERATOR))
    assert constraints.levels == (
        LevelConstraints("column", spatial=(("OX", 4),), along_x=frozenset({"OX"})),
        LevelConstraints("sram", spatial=(("C", 3),), along_x=frozenset()),
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"spatial_mapping": {"D1": ["OX, 3"]}}, "unrolling of 'OX' must divide its bound 8, got 3"),
        ({"spatial_mapping": {"D1": ["FX, 3"]}}, "unknown dimension 'FX'"),
        ({"spatial_mapping": {"D1": ["OX"]}}, "an unrolling must be like"),
        ({"temporal_ordering": [["K", 2]]}, "`temporal_ordering` cannot be expressed"),
        ({"memory_operand_links": {"I": "I2"}}, "operand 'I' must be linked to I1, got 'I2'"),
        ({"name": "other"}, "unknown layer 'default'"),
        ({"spatial_maping": {}}, "unknown key 'spatial_maping'"),
    ],
)
def test_a_zigzag_mapping_that_cannot_be_expressed_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        constraints_from_zigzag([MAPPING | change], LAYER, architecture_from_zigzag(ACCELERATOR))


KCP = """
Network small {
  Layer CONV2 {
    Type: CONV
    Stride { X: 1, Y: 1 }     // weight-stationary over input and output channels
    Dimensions { K: 8, C: 8, R: 3, S: 3, Y: 10, X: 10 }
    Dataflow {
      SpatialMap(1,1) K;
      TemporalMap(4,4) C;
      TemporalMap(Sz(R),Sz(R)) R;
      TemporalMap(Sz(S),Sz(S)) S;
      TemporalMap(Sz(R),1) Y;
      TemporalMap(4+Sz(S)-1,4) X;
      Cluster(4, P);
      SpatialMap(1,1) C;
    }
  }
}
"""
ARRAY = Architecture("a", (StorageLevel("L2", fanout=Fanout(4, 4)), StorageLevel("L1")))


def test_a_layer_of_maestro() -> None:
    layer = computation_from_maestro(only_layer(KCP, "f"))
    assert layer.sizes == {"N": 1, "K": 8, "P": 8, "Q": 8, "C": 8, "R": 3, "S": 3}
    strided = only_layer(KCP.replace("X: 1, Y: 1", "X: 2, Y: 1"), "f")
    assert computation_from_maestro(strided).sizes["Q"] == 4
    depthwise = only_layer(KCP.replace("Type: CONV", "Type: DSCONV"), "f")
    assert "K" not in computation_from_maestro(depthwise).sizes


def test_a_dataflow_with_clusters_becomes_a_nest() -> None:
    layer = only_layer(KCP, "f")
    computation = computation_from_maestro(layer)
    mapping = mapping_from_maestro(layer, computation, ARRAY)
    check_mapping(computation, ARRAY, mapping)
    at_l2 = [
        Temporal("K", 2),  # eight channels on four clusters: two rounds
        Temporal("C", 2),
        Temporal("P", 8),
        Temporal("Q", 2),
        Spatial("K", 4, "y", "L2"),
        Spatial("C", 4, "x", "L2"),
    ]
    in_a_unit = [Temporal("Q", 4), Temporal("R", 3), Temporal("S", 3)]
    assert list(mapping.loops) == at_l2 + in_a_unit


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("TemporalMap(Sz(R),1) Y", "TemporalMap(Sz(R),2) Y", "the offset must be 1 so that pieces touch"),
        ("TemporalMap(4,4) C", "TemporalMap(3,3) C", "pieces of 3 do not divide 8"),
        ("Cluster(4, P)", "Cluster(5, P)", "Cluster size must divide the 16 units, got 5"),
        ("SpatialMap(1,1) C;", "SpatialMap(1,1) C; SpatialMap(1,1) R;", "two SpatialMaps in one cluster level"),
        ("SpatialMap(1,1) C;", "SpatialMap(1,1) C; Cluster(2, P);", "clusters within clusters"),
        ("SpatialMap(1,1) C;", "SpatialMap(1,1) C; TemporalMap(1,1) C;", "two maps of C in one cluster level"),
        ("SpatialMap(1,1) C;", "SpatialMap(1,1) Z;", "unknown dimension 'Z'"),
        ("Sz(S),Sz(S)", "Sz(V),Sz(S)", "unknown dimension 'V'"),
    ],
)
def test_a_dataflow_that_cannot_be_expressed_is_refused(old: str, new: str, message: str) -> None:
    layer = only_layer(KCP.replace(old, new), "f")
    with pytest.raises(UserError, match=message):
        mapping_from_maestro(layer, computation_from_maestro(layer), ARRAY)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (KCP.replace("TemporalMap(4,4) C;", "TemporalMap(4,4) C"), r"expected ';', got 'TemporalMap' \(f, line 10\)"),
        (KCP.replace("Cluster(4", "Clutser(4"), "expected TemporalMap, SpatialMap or Cluster, got 'Clutser'"),
        (KCP.replace("Type:", "Typ:"), "expected Type, Stride, Dimensions or Dataflow, got 'Typ'"),
        (KCP.replace("K: 8", "K: 8.5"), r"unexpected character '\.' \(f, line 6\)"),
        (KCP.rstrip()[:-6], "end of file"),
        (KCP + KCP, r"expected one layer, got 2"),
    ],
)
def test_broken_maestro_text_is_located(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        only_layer(text, "f")


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (Layer("a", "LSTM"), "unknown layer type 'LSTM'"),
        (Layer("a", "CONV", {"K": 1}), "`Dimensions` lacks C"),
        (Layer("a", "CONV", {"Z": 1}), "unknown dimension 'Z'"),
        (Layer("a", "CONV", {"K": 1, "C": 1, "R": 5, "S": 1, "Y": 3, "X": 3}), "Y = 3 must be at least R = 5"),
    ],
)
def test_a_wrong_maestro_layer_is_refused(layer: Layer, message: str) -> None:
    with pytest.raises(UserError, match=message):
        computation_from_maestro(layer)


def test_a_bare_dataflow_needs_a_problem_of_its_own() -> None:
    (layer,) = parse_maestro("Dataflow { SpatialMap(1,1) K; }", "f")
    computation = Computation.parse("O[N,K,P,Q] += I[N,C,P+R,Q+S] * W[K,C,R,S]", N=1, K=16, C=2, P=2, Q=2, R=1, S=1)
    mapping = mapping_from_maestro(layer, computation, ARRAY)
    assert [n for n in mapping.loops if isinstance(n, Spatial)] == [
        Spatial("K", 4, "x", "L2"),
        Spatial("K", 4, "y", "L2"),
    ]


def test_one_fan_out_is_needed() -> None:
    layer = only_layer(KCP, "f")
    with pytest.raises(UserError, match="one fan-out above 1, this has 0"):
        mapping_from_maestro(layer, computation_from_maestro(layer), Architecture("a", (StorageLevel("L2"),)))
