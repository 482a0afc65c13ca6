"""Values sorted as far as they are read, and tasks settled in the order in which they were given."""

import time

import numpy as np
import pytest

from codesign.core import ascending
from codesign.core.ascending import Ascending
from codesign.core.in_order import InOrder
from tests.seeds import seeds


@pytest.mark.parametrize("seed", seeds(20))
def test_values_are_read_in_stable_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ascending, "_FIRST", 3)
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 12, int(rng.integers(0, 60))).astype(float)
    values[rng.random(len(values)) < 0.1] = np.inf
    limit = float(rng.choice([7.0, np.inf]))
    wanted = [i for i in np.argsort(values, kind="stable").tolist() if values[i] < limit]
    reader, read = Ascending(values, limit), list[int]()
    while np.isfinite(reader.first):
        assert reader.first == values[wanted[len(read)]]
        bound = float(rng.choice([reader.first + 0.5, np.inf]))  # what is not below it stays for later
        taken = reader.take(int(rng.integers(1, 6)), bound).tolist()
        assert taken and all(values[i] < bound for i in taken)
        read += taken
    assert read == wanted


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_results_are_settled_in_the_order_of_their_tasks(threads: int) -> None:
    settled: list[int] = []

    def slow(n: int) -> int:
        time.sleep(0.003 * (n % 3 == 0))
        return n

    with InOrder(threads) as tasks:
        for n in range(12):
            while tasks.full:
                assert tasks.settle()
            tasks.give(lambda n=n: slow(n), settled.append)  # type: ignore[misc]
        while tasks.settle():
            pass
    assert settled == list(range(12))


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_of_a_task_is_raised_where_it_is_settled(threads: int) -> None:
    def fails() -> int:
        raise ValueError("no")

    with InOrder(threads) as tasks, pytest.raises(ValueError, match="no"):
        tasks.give(fails, lambda n: None)
        tasks.settle()


@pytest.mark.parametrize("threads", [1, 3])
def test_results_of_every_item_come_in_their_order(threads: int) -> None:
    with InOrder(threads) as tasks:
        assert tasks.each(lambda n: n * n, list(range(7))) == [n * n for n in range(7)]
