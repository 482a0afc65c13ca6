import json
from pathlib import Path
from typing import Any

import pytest

from codesign.core.errors import UserError
from codesign.scheduling.cosma.capacity import parse_bytes, resolve_capacity
from codesign.scheduling.cosma.graph import OperatorGraph, graph_from_dict
from codesign.scheduling.cosma.load import load_graph
from codesign.scheduling.cosma.segments import exact_segments, narrow_segments, window_segments


def value(*edges: tuple[str, list[str]], size: int = 4) -> dict[str, Any]:
    return {
        "name": "test",
        "ops": [{"name": name, "type": "any", "ins": ins, "out": name, "param_bytes": 0} for name, ins in edges],
        "tensors": {name: {"bytes": size, "shape": [size]} for name, _ in edges},
    }


def diamond() -> dict[str, Any]:
    return value(("x", []), ("a", ["x"]), ("b", ["x"]), ("c", ["a", "b"]), ("d", ["c"]))


def graph(given: dict[str, Any]) -> OperatorGraph:
    return graph_from_dict(given, "file.json")


def test_operators_out_of_order_are_sorted() -> None:
    given = diamond()
    given["ops"].reverse()
    assert [o.name for o in graph(given).operators] == ["x", "b", "a", "c", "d"]


def test_an_operator_may_make_several_tensors() -> None:
    given = value(("x", []), ("y", ["x"]))
    given["ops"][1]["out"] = ["y", "z"]
    given["tensors"]["z"] = {"bytes": 7}
    found = graph(given)
    assert found.minimum_bytes == 4 + 4 + 7
    assert found.outputs == ("y", "z")


def test_segments_meet_in_single_tensors() -> None:
    index = graph(diamond()).index
    assert [s.operators for s in exact_segments(index)] == [(0,), (1, 2, 3), (4,)]
    assert [s.live_out for s in exact_segments(index)] == [(0,), (3,), ()]
    assert [s.operators for s in narrow_segments(index, range(5), 2)] == [(0,), (1,), (2,), (3,), (4,)]
    assert [s.operators for s in window_segments(index, range(5), 2, 3, 1)] == [(0,), (1, 2, 3), (4,)]


def broken(change: str, given: dict[str, Any]) -> dict[str, Any]:
    if change == "cycle":
        given["ops"][0]["ins"] = ["d"]
    elif change == "empty":
        given["ops"] = []
    elif change == "zero":
        given["tensors"]["a"]["bytes"] = 0
    elif change == "negative":
        given["tensors"]["a"]["bytes"] = -5
    elif change == "fraction":
        given["tensors"]["a"]["bytes"] = 1.5
    elif change == "parameters":
        given["ops"][1]["param_bytes"] = -1
    elif change == "unknown":
        given["ops"][3]["ins"] = ["a", "bb"]
    elif change == "twice":
        given["ops"][2]["out"] = "a"
    elif change == "orphan":
        given["tensors"]["w"] = {"bytes": 1}
    elif change == "no tensors":
        del given["tensors"]
    elif change == "no out":
        del given["ops"][2]["out"]
    elif change == "ins":
        given["ops"][2]["ins"] = "x"
    elif change == "shape":
        given["tensors"]["a"]["shape"] = 3
    elif change == "output":
        given["outputs"] = ["nothing"]
    return given


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("cycle", "the graph has a cycle: .*x -> "),
        ("empty", "the graph has no operators"),
        ("zero", r"`size_bytes` must be an integer >= 1, got 0 \(.*tensor 'a'\)"),
        ("negative", "`size_bytes` must be an integer >= 1, got -5"),
        ("fraction", "`size_bytes` must be an integer >= 1, got 1.5"),
        ("parameters", "`parameter_bytes` must be an integer >= 0, got -1"),
        ("unknown", "unknown tensor 'bb'"),
        ("twice", "tensor 'a' is made by two operators"),
        ("orphan", "no operator makes tensor 'w'"),
        ("no tensors", "missing 'tensors'"),
        ("no out", r"missing 'out' \(file.json: ops\[2\]\)"),
        ("ins", "'ins' must be a list of tensor names, got str"),
        ("shape", "shape must be a list of whole numbers"),
        ("output", "unknown output tensor 'nothing'"),
    ],
)
def test_broken_graphs_are_refused(change: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        graph(broken(change, diamond()))


def test_a_list_is_no_graph() -> None:
    with pytest.raises(UserError, match="expected an object with 'ops' and 'tensors', got list"):
        graph_from_dict([], "file.json")


def test_capacities() -> None:
    found = graph(diamond())
    assert [parse_bytes(t) for t in ("12", "12B", "2KiB", "1.5 KiB", "3kB")] == [12, 12, 2048, 1536, 3000]
    assert [resolve_capacity(t, found) for t in ("M_R", "mh", "M_P", "99")] == [12, 12, 12, 99]


@pytest.mark.parametrize("text", ["", "many", "12 apples", "-3", "0", "0.3B"])
def test_bad_capacities_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="`capacity`"):
        parse_bytes(text)


def test_zoo_networks_and_files(tmp_path: Path) -> None:
    fused = load_graph("resnet50")
    assert (len(fused.operators), fused.minimum_bytes, fused.without_parameters().minimum_bytes) == (
        73,
        2486784,
        2408448,
    )
    wide = load_graph("resnet50", bits=16)
    assert wide.without_parameters().minimum_bytes == 2 * 2408448
    assert len(load_graph("resnet50", fused=False).operators) > 150
    path = tmp_path / "g.json"
    path.write_text(json.dumps(diamond()))
    assert load_graph(path).name == "test"
    with pytest.raises(UserError, match="--batch does not apply"):
        load_graph(path, batch=2)
    with pytest.raises(UserError, match="a graph file is fused or not"):
        load_graph(path, fused=False)
