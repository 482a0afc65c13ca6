"""`layout` nodes of a mapping file: read, written, checked."""

import pytest

from codesign.core.errors import UserError
from codesign.mapping.files import mapping_from_json, mapping_to_json
from codesign.mapping.layout import Digit, TensorLayout, check_layouts
from codesign.workloads.computation import Computation

CONV = Computation.parse("O[k,p] += I[c,p+r] * W[k,c,r]", k=32, c=4, p=8, r=3, bits=8, partial_bits=32)
NODES = [{"store": "DRAM", "tensors": ["I", "W", "O"]}, {"for": "k", "factor": 32}]


def read(*orders: tuple[str, list[str]]) -> tuple[TensorLayout, ...]:
    return mapping_from_json([*NODES, *({"layout": t, "order": order} for t, order in orders)]).layouts


def test_layouts_are_read_and_written() -> None:
    value = [
        *NODES,
        {"layout": "W", "order": ["k/16", "c", "r", "k/4%4", "k%4"]},
        {"layout": "I", "order": ["p+r", "c"]},
    ]
    mapping = mapping_from_json(value)
    assert mapping_to_json(mapping) == value
    assert mapping.layouts[0].order[3] == Digit("k", 4, 4)
    check_layouts(CONV, mapping.layouts)
    assert mapping.layouts[0].parts(CONV.tensors[1], CONV.sizes) == (
        *((0, 16, 2), (1, 1, 4), (2, 1, 3)),
        *((0, 4, 4), (0, 1, 4)),
    )
    assert mapping.layouts[1].parts(CONV.tensors[0], CONV.sizes) == ((1, 1, 10), (0, 1, 4))


@pytest.mark.parametrize(
    ("orders", "message"),
    [
        ((("V", ["k"]),), "tensor"),
        ((("W", ["k", "c", "x"]),), "axis"),
        ((("W", ["k", "c"]),), "'r' must say its 3 positions, they say 0"),
        ((("W", ["k/16", "c", "r", "k%8"]),), "one steps by 16, those below it end at 8"),
        ((("W", ["k%16", "c", "r"]),), "must say its 32 positions, they say 16"),
        ((("W", ["k", "c", "r"]), ("W", ["c", "k", "r"])), "'W' has two layouts"),
    ],
)
def test_what_is_no_layout_is_refused(orders: tuple[tuple[str, list[str]], ...], message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_layouts(CONV, read(*orders))


@pytest.mark.parametrize("order", ["k", [3], ["/4"], ["k%0"], ["k/0"], ["k%%2"]])
def test_what_is_no_digit_is_refused(order: object) -> None:
    with pytest.raises(UserError, match="K/16"):
        mapping_from_json([*NODES, {"layout": "W", "order": order}])


def test_a_misspelt_key_is_refused() -> None:
    with pytest.raises(UserError, match="unknown key 'ordr'"):
        mapping_from_json([*NODES, {"layout": "W", "ordr": ["k"]}])
