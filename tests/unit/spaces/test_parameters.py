import numpy as np
import pytest

from codesign.core.errors import UserError
from spaces import AbstractParameter, Categorical, Condition, Integer, Ordinal, PowerOfTwo, Space
from spaces.parameters import parameter_from_json


def test_sizes_are_placed_by_ratio() -> None:
    assert np.allclose(PowerOfTwo("kib", 32, 512).coordinates(), [0, 0.25, 0.5, 0.75, 1])
    assert np.allclose(Ordinal("rows", [1, 4, 16]).coordinates(), [0, 0.5, 1])


def test_zero_and_negative_values_have_places() -> None:
    with_zero = Ordinal("cache", [0, 1, 3]).coordinates()
    assert np.allclose(with_zero, [0, 0.5, 1])  # log2(x + 1)
    assert np.allclose(Integer("offset", -2, 2).coordinates(), [0, 0.25, 0.5, 0.75, 1])


def test_labels_with_an_order_are_placed_by_rank() -> None:
    assert np.allclose(Ordinal("effort", ["low", "mid", "high"]).coordinates(), [0, 0.5, 1])


def test_a_single_choice_is_in_the_middle() -> None:
    assert Integer("n", 3, 3).coordinates().tolist() == [0.5]


def test_numbers_are_sorted_and_labels_kept() -> None:
    assert Ordinal("rows", [16, 4, 8.0]).choices == (4, 8.0, 16)
    assert Ordinal("effort", ["low", "high"]).choices == ("low", "high")


def test_numpy_values_are_accepted() -> None:
    assert Ordinal("rows", np.array([4, 8])).choices == (4, 8)
    assert Integer("banks", 1, 8).index(np.int64(3)) == 2
    assert Integer("banks", 1, 8).index(3.0) == 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Integer("banks", 8, 1), "`low` must be at most `high`, got 8 > 1"),
        (lambda: Integer("banks", 1.5, 3), "`low` must be an integer, got 1.5"),
        (lambda: Integer("a b", 1, 3), "expected an identifier, got 'a b'"),
        (lambda: Integer("big", 0, 1 << 21), "expected at most 1048576 values"),
        (lambda: PowerOfTwo("kib", 3, 8), "`low` must be a power of two, got 3"),
        (lambda: PowerOfTwo("kib", 8, 4), "`low` must be at most `high`"),
        (lambda: Ordinal("rows", []), "expected at least one value"),
        (lambda: Ordinal("rows", "abc"), "`values` must be a list, got 'abc'"),
        (lambda: Ordinal("rows", [4, 4.0]), "values must differ, got 4.0 twice"),
        (lambda: Categorical("flow", [None]), "expected a number, a truth value or a string, got None"),
        (lambda: Ordinal("rows", [1.0, float("nan")]), "expected a finite number, got nan"),
        (lambda: Condition("flow", ()), "expected at least one value"),
    ],
)
def test_bad_parameters_are_refused(make: object, message: str) -> None:
    with pytest.raises(UserError) as caught:
        make()  # type: ignore[operator]
    assert message in str(caught.value)


@pytest.mark.parametrize("value", [0, 9, 2.5, True, "3", None, float("inf")])
def test_values_outside_the_domain_are_refused(value: object) -> None:
    with pytest.raises(UserError, match="banks"):
        Integer("banks", 1, 8).index(value)


def test_json_of_every_type() -> None:
    parameters: list[AbstractParameter] = [
        Integer("banks", 1, 8),
        PowerOfTwo("kib", 32, 64, when=Condition("banks", (1, 2))),
        Ordinal("rows", [4, 8.5]),
        Categorical("flow", ["ws", True]),
    ]
    for parameter in parameters:
        assert parameter_from_json(parameter.to_json()) == parameter


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"type": "integre", "name": "n"}, "did you mean 'integer'"),
        ({"type": "integer", "name": "n", "low": 1}, "missing field 'high'"),
        ({"type": "integer", "name": "n", "low": 1, "high": 2, "hihg": 3}, "unknown field 'hihg'"),
        ([1], "expected an object with a `type`"),
    ],
)
def test_bad_json_is_refused(value: object, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parameter_from_json(value)
    assert message in str(caught.value)


def test_different_types_with_equal_choices_are_different() -> None:
    assert Integer("n", 1, 2) != Ordinal("n", [1, 2])
    assert Space([Ordinal("n", [1, 2])]) != Space([Categorical("n", [1, 2])])
