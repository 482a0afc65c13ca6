import copy
from typing import Any

import pytest

from codesign.core.errors import UserError
from codesign.formats.timeloop.problem import computation_from_timeloop, computation_to_timeloop
from codesign.formats.zigzag.problem import computation_from_zigzag
from codesign.workloads.computation import Computation, Role
from codesign.workloads.files import computation_from_json, computation_to_json

OWN: dict[str, Any] = {
    "name": "layer",
    "notation": "O[k,p] += I[c,2*p+r] * W[k,c,r]",
    "bounds": {"k": 8, "p": 16, "c": 4, "r": 3},
    "bits": 8,
    "partial_bits": 24,
    "tensors": {"W": {"bits": 4}},
}
TIMELOOP: dict[str, Any] = {
    "version": 0.4,
    "shape": {
        "name": "conv",
        "dimensions": ["K", "P", "C", "R"],
        "coefficients": [{"name": "Stride", "default": 1}],
        "data_spaces": [
            {"name": "Weights", "projection": [[["K"]], [["C"]], [["R"]]]},
            {"name": "Inputs", "projection": [[["C"]], [["R"], ["P", "Stride"]]]},
            {"name": "Outputs", "projection": [[["K"]], [["P"]]], "read_write": True},
        ],
    },
    "instance": {"K": 8, "P": 16, "C": 4, "R": 3, "Stride": 2},
}
ZIGZAG: dict[str, Any] = {
    "id": 0,
    "operator_type": "conv",
    "equation": "O[b][k][oy]+=W[k][c][fy]*I[b][c][iy]",
    "dimension_relations": ["iy=2*oy+1*fy"],
    "loop_dims": ["B", "K", "C", "OY", "FY"],
    "loop_sizes": [1, 8, 4, 16, 3],
    "operand_precision": {"W": 4, "I": 8, "O": 24, "O_final": 8},
    "operand_source": {"I": 0, "W": 0},
}


def test_an_own_problem_file() -> None:
    layer = computation_from_json(OWN)
    assert (layer.name, layer.sizes, layer.macs) == ("layer", OWN["bounds"], 8 * 16 * 4 * 3)
    assert [(t.name, t.bits, t.partial_bits, t.role) for t in layer.tensors] == [
        ("I", 8, 8, Role.INPUT),
        ("W", 4, 4, Role.WEIGHT),
        ("O", 8, 24, Role.OUTPUT),
    ]


def test_the_order_of_the_bounds_is_the_order_of_the_dimensions() -> None:
    value = OWN | {"bounds": {"r": 3, "c": 4, "k": 8, "p": 16}}
    assert computation_from_json(value).dims == ("r", "c", "k", "p")


@pytest.mark.parametrize("change", [{}, {"tensors": {"W": {"role": "input", "bits": 2}, "I": {"role": "weight"}}}])
def test_an_own_problem_is_written_and_read_back_equal(change: dict[str, Any]) -> None:
    layer = computation_from_json(OWN | change)
    assert computation_from_json(computation_to_json(layer)) == layer


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bounds": {"k": 8, "p": 16, "c": 4}}, "no bound given for dimension 'r'"),
        ({"bounds": {**OWN["bounds"], "z": 2}}, "bound given for 'z', which indexes no tensor"),
        ({"bounds": {**OWN["bounds"], "k": 0}}, r"`k` must be an integer >= 1, got 0 \(f: problem, `bounds`\)"),
        ({"bounds": 3}, "expected keys and values, got 3"),
        ({"notation": "O[k] = I[k]"}, "unexpected character '='"),
        ({"bist": 8}, "unknown key 'bist'.*did you mean 'bits'"),
        ({"tensors": {"X": {"bits": 4}}}, r"unknown tensor 'X' \(f\); known: I, O, W"),
        ({"tensors": {"W": {"role": "wait"}}}, "unknown `role` 'wait'"),
        ({"tensors": {"W": {"role": "output"}}}, "`role` of 'W' must be input or weight, got 'output'"),
        ({"partial_bits": 4}, "1 <= bits <= partial_bits, got 8 and 4"),
    ],
)
def test_a_wrong_own_problem_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        computation_from_json(OWN | change, "f")


def test_timeloop_and_notation_say_the_same() -> None:
    layer = computation_from_timeloop(TIMELOOP)
    assert str(layer) == "Outputs[K,P] += Weights[K,C,R] * Inputs[C,R+2*P]"
    assert layer.dims == ("K", "P", "C", "R")
    assert layer.bounds == (8, 16, 4, 3)
    assert [t.role for t in layer.tensors] == [Role.WEIGHT, Role.INPUT, Role.OUTPUT]


def test_bounds_may_stand_beside_the_shape_and_coefficients_have_defaults() -> None:
    value = {"shape": TIMELOOP["shape"], "K": 8, "P": 16, "C": 4, "R": 3}
    assert str(computation_from_timeloop(value).tensor("Inputs")) == "Inputs[C,R+P]"


def test_the_built_in_shape() -> None:
    value = {"shape": "cnn-layer", **dict.fromkeys("RSPQCKN", 2), "Wstride": 2}
    assert str(computation_from_timeloop(value).tensor("Inputs")) == "Inputs[N,C,R+2*P,S+Q]"


@pytest.mark.parametrize(
    "notation",
    ["O[m,n] += A[m,k] * B[k,n]", "O[p,q] += I[2*p+3*r,2*q+2*s,p+r] * W[r,s]", "D[i,j] += A[i,k,l] * B[k,j] * C[l,j]"],
)
def test_a_problem_written_for_timeloop_is_read_back(notation: str) -> None:
    dims = {c for c in notation if c.islower()}
    layer = Computation.parse(notation, dict.fromkeys(sorted(dims), 3))
    again = computation_from_timeloop(computation_to_timeloop(layer))
    assert str(again) == str(layer) and again.sizes == layer.sizes


def edited(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    result = copy.deepcopy(TIMELOOP)
    place: Any = result
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return result


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (edited(("instance", "K"), None), r"`K` is missing \(f: problem, `instance`\)"),
        (edited(("instance", "Z"), 2), "unknown key 'Z'"),
        (edited(("instance", "densities"), {"X": 0.5}), "unknown tensor 'X'"),
        (edited(("instance", "K"), -1), "`K` must be an integer >= 1, got -1"),
        (
            edited(("shape", "data_spaces", 2, "read_write"), False),
            "needs one data-space with `read-write: true`, got 0",
        ),
        (edited(("shape", "data_spaces", 0, "projection"), [[["Z"]]]), "unknown dimension 'Z'.*data-space 'Weights'"),
        (
            edited(("shape", "data_spaces", 1, "projection"), [[["P", "Strid"]]]),
            "unknown coefficient 'Strid'.*mean 'Stride'",
        ),
        (edited(("shape", "data_spaces", 1, "projection"), [[["P"], ["P"]]]), "'P' stands twice"),
        (edited(("shape", "data_spaces", 1, "projection"), [[["P", 1, 2]]]), "a term must be"),
        (edited(("shape",), "rnn-layer"), "unknown shape 'rnn-layer'"),
        (edited(("shape", "dimension"), []), "unknown key 'dimension'"),
    ],
)
def test_a_wrong_timeloop_problem_is_refused(value: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        computation_from_timeloop(value, "f")


def test_a_zigzag_layer() -> None:
    layer = computation_from_zigzag([ZIGZAG])
    assert str(layer) == "O[B,K,OY] += W[K,C,FY] * I[B,C,2*OY+FY]"
    assert layer.sizes == {"B": 1, "K": 8, "OY": 16, "C": 4, "FY": 3}
    assert [(t.name, t.bits, t.partial_bits) for t in layer.tensors] == [("W", 4, 4), ("I", 8, 8), ("O", 8, 24)]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([ZIGZAG, ZIGZAG], "expected one layer, got a list of 2"),
        ([ZIGZAG | {"loop_sizes": [1]}], "5 loop dimensions but 1 sizes"),
        ([ZIGZAG | {"equation": "O[b]"}], r"expected \+=|expected '\+='"),
        ([ZIGZAG | {"dimension_relations": ["iy=oy-fy"]}], "a dimension relation must be like"),
        ([ZIGZAG | {"operand_precision": {"V": 8}}], "unknown operand 'V'"),
        ([ZIGZAG | {"loop_dim": []}], "unknown key 'loop_dim'"),
    ],
)
def test_a_wrong_zigzag_layer_is_refused(value: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        computation_from_zigzag(value, "f")
