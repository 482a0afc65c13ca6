from functools import cached_property

from codesign.core.kept import kept, kept_by


class Counting:
    def __init__(self) -> None:
        self.worked: list[tuple[int, ...]] = []

    @kept
    def total(self, *numbers: int) -> int:
        self.worked.append(numbers)
        return sum(numbers)


class Halving(Counting):
    @cached_property
    def half(self) -> float:
        return self.total(6) / 2

    @kept
    def doubled(self, number: int) -> int:
        return 2 * number


def test_a_method_works_once_for_the_same_arguments_of_each_object() -> None:
    one, other = Counting(), Counting()
    assert [one.total(1, 2), one.total(1, 2), one.total(3), one.total()] == [3, 3, 3, 0]
    assert other.total(1, 2) == 3
    assert one.worked == [(1, 2), (3,), ()] and other.worked == [(1, 2)]


def test_what_a_class_itself_keeps_is_forgotten_apart_from_what_its_base_keeps() -> None:
    made = Halving()
    assert (made.half, made.doubled(4)) == (3.0, 8)
    for name in kept_by(Halving):
        vars(made).pop(name, None)
    assert "half" not in vars(made) and set(vars(made)) == {"worked", "_kept_total"}
    assert made.half == 3.0
    assert made.worked == [(6,)]
