import pytest

from codesign.core.errors import UserError
from codesign.scheduling.allocation.buffers import AllocationStatus, Buffer, parse_buffers, peak_load
from codesign.scheduling.allocation.solve import _search, allocate
from tests.buffer_overlap import overlap

EXAMPLE = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n"


def test_the_published_example() -> None:
    buffers = parse_buffers(EXAMPLE, "example")
    assert peak_load(buffers) == (12, 0)
    found = allocate(buffers, 12)
    assert found.offsets is not None and overlap(buffers, found.offsets) is None
    assert allocate(buffers, 11).status is AllocationStatus.INFEASIBLE


def test_columns_in_any_order_and_extra_ones() -> None:
    assert parse_buffers("size, name,upper,id,lower\n4,x,3,a,1\n", "f") == (Buffer("a", 1, 3, 4),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,lower,size\na,0,1\n", r"missing column upper \(f\); the first line must name id,lower,upper,size"),
        ("", "missing columns id, lower, upper, size"),
        ("id,lower,upper,size\n", "the file lists no buffers"),
        ("id,lower,upper,size\na,0,3,x\n", r"size must be a whole number, got 'x' \(f, line 2\)"),
        ("id,lower,upper,size\na,0,3\n", r"size must be a whole number, got nothing \(f, line 2\)"),
        ("id,lower,upper,size\na,0,3,0\n", r"`size` must be >= 1, got 0 \(f, line 2: buffer 'a'\)"),
        ("id,lower,upper,size\na,3,3,1\n", "upper must be above lower, got lower 3 and upper 3"),
        ("id,lower,upper,size\na,0,3,1\na,0,3,1\n", r"two buffers are named 'a' \(f, line 3\)"),
    ],
)
def test_bad_files_are_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_buffers(text, "f")


def test_a_buffer_larger_than_the_capacity_is_a_mistake() -> None:
    with pytest.raises(UserError, match="buffer 'a' of size 9 is larger than the capacity 8"):
        allocate([Buffer("a", 0, 1, 9)], 8)
    with pytest.raises(UserError, match="`capacity` must be >= 1, got 0"):
        allocate([Buffer("a", 0, 1, 9)], 0)


def test_infeasible_though_the_load_fits_is_proven() -> None:
    """At most 12 alive at once, and yet these lifetimes have no addresses within 12."""
    stays = [
        (0, 1, 4),
        (1, 4, 4),
        (2, 10, 2),
        (3, 7, 1),
        (4, 8, 4),
        (5, 11, 3),
        (6, 6, 2),
        (7, 9, 1),
        (8, 10, 2),
        (9, 10, 2),
    ]
    stays += [(10, 10, 3), (11, 11, 1)]
    buffers = [Buffer(str(i), a, b + 1, s) for i, (a, b, s) in enumerate(stays)]
    assert peak_load(buffers)[0] == 12
    assert allocate(buffers, 12).status is AllocationStatus.INFEASIBLE
    assert allocate(buffers, 13).status is AllocationStatus.FEASIBLE


def test_the_search_stops_at_its_time_limit_and_repeats_itself() -> None:
    buffers = [Buffer(str(i), i % 7, i % 7 + 1 + i % 5, 3 + i * 7 % 11) for i in range(60)]
    capacity = peak_load(buffers)[0]
    assert _search(buffers, capacity, 1e-9, 0).status is AllocationStatus.UNKNOWN
    assert allocate(buffers, capacity + 6, seed=3) == allocate(buffers, capacity + 6, seed=3)
