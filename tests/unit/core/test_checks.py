from dataclasses import dataclass, field

import pytest

from codesign.core.checks import check_least, check_numbers, check_positive, check_share, check_whole, repeated
from codesign.core.errors import UserError


@dataclass(frozen=True)
class Widths:
    bits: int = field(default=8, metadata={"minimum": 1})
    pj: float = 0.0
    name: str = "widths"


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: check_whole(n=True), "`n` must be an integer >= 1, got True"),
        (lambda: check_whole(0, n=2.0, where="here"), "`n` must be an integer >= 0, got 2.0 (here)"),
        (lambda: check_whole(n=None), "`n` must be an integer >= 1, got None"),
        (lambda: check_least(1, a=1, b=0.5), "`b` must be >= 1, got 0.5"),
        (lambda: check_least(0, seed=-1234567), "`seed` must be >= 0, got -1234567"),
        (lambda: check_least(0, share=float("nan")), "`share` must be >= 0, got nan"),
        (lambda: check_positive(a=1e-9, b=0, hint="leave it out"), "`b` must be > 0, got 0; leave it out"),
        (lambda: check_positive(a=float("nan"), where="here"), "`a` must be > 0, got nan (here)"),
        (lambda: check_share(a=1.0, b=1.5), "`b` must be between 0 and 1, got 1.5"),
        (lambda: check_numbers(Widths(bits=0), "there"), "`bits` must be >= 1, got 0 (there)"),
        (lambda: check_numbers(Widths(pj=-0.5), "there"), "`pj` must be >= 0, got -0.5 (there)"),
    ],
)
def test_a_number_out_of_range_is_named_with_what_was_expected(check, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UserError) as refused:
        check()
    assert str(refused.value) == message


def test_numbers_in_range_and_numbers_left_out_pass() -> None:
    check_whole(0, n=0)
    check_least(1, a=1, b=None)
    check_positive(a=0.1, b=None)
    check_share(a=0, b=1, c=None)
    check_numbers(Widths(), "there")


def test_the_first_value_that_stands_twice_is_told() -> None:
    assert repeated(["a", "b", "c", "b", "a"]) == "a"
    assert repeated(("a", "b")) is None and repeated([]) is None
