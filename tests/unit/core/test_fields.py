import pytest

from codesign.core.errors import UserError
from codesign.core.fields import Fields


def test_an_unknown_key_is_refused_with_the_nearest_known_one() -> None:
    fields = Fields({"capacty": 3}, "arch.yaml: level 'pe'")
    fields.number("capacity", None)
    with pytest.raises(UserError, match=r"unknown key 'capacty' \(arch.yaml: level 'pe'\); did you mean 'capacity'\?"):
        fields.finish()


def test_a_missing_key_offers_the_one_that_was_probably_meant() -> None:
    with pytest.raises(UserError, match=r"`name` is missing \(f\); is 'nam' meant\?"):
        Fields({"nam": "x"}, "f").text("name")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("many", "`n` must be a number >= 0, got 'many'"),
        (True, "`n` must be a number >= 0, got true"),
        (-1, "`n` must be a number >= 0, got -1"),
        ([1, 2], "`n` must be a number >= 0, got a list of 2"),
        (float("nan"), "`n` must be a number >= 0, got nan"),
    ],
)
def test_a_wrong_number_is_named_with_what_was_expected(value: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Fields({"n": value}, "f").number("n", least=0)


def test_numbers_that_yaml_takes_for_text_are_numbers() -> None:
    fields = Fields({"clock": "1e9", "count": 16.0}, "f")
    assert fields.number("clock") == 1e9
    assert fields.integer("count") == 16


def test_an_integer_may_not_have_a_fraction() -> None:
    with pytest.raises(UserError, match=r"`n` must be an integer >= 1, got 2\.5"):
        Fields({"n": 2.5}, "f").integer("n", least=1)


def test_two_names_of_one_field_exclude_each_other() -> None:
    with pytest.raises(UserError, match="`a` and `b` say the same thing"):
        Fields({"a": 1, "b": 2}, "f").first_of("a", "b")


def test_loose_keys_take_hyphens_for_underscores_once() -> None:
    assert Fields({"word-bits": 8}, "f", loose=True).integer("word_bits") == 8
    with pytest.raises(UserError, match="`word_bits` is given twice"):
        Fields({"word-bits": 8, "word_bits": 8}, "f", loose=True)


def test_what_is_no_mapping_is_refused() -> None:
    with pytest.raises(UserError, match="expected keys and values, got a list of 1"):
        Fields([1], "f")
