"""An end that is asked for is never lost."""

import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Iterator

import pytest
from ortools.sat.python import cp_model

from codesign.core.interruption import interruptions, solved


class _Thing:
    pass


@pytest.fixture(autouse=True)
def _heard() -> Iterator[None]:
    """SIGINT as a terminal's program has it: jobs in the background start with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_at_once(number: signal.Signals) -> None:
    with interruptions() as interruption:
        interruption.check()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
            raise AssertionError("not reached")


def test_one_that_python_drops_ends_the_run_at_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    dropped: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: dropped.append(what.exc_type))
    with interruptions() as interruption:
        thing = _Thing()
        reference = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGINT))
        del thing
        assert KeyboardInterrupt in dropped and reference() is None
        with pytest.raises(KeyboardInterrupt):
            interruption.check()


def test_handlers_are_put_back_and_ignored_signals_stay_ignored() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        with interruptions() as interruption:
            os.kill(os.getpid(), signal.SIGTERM)
            interruption.check()
            assert signal.getsignal(signal.SIGINT) is not interrupt
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN and signal.getsignal(signal.SIGINT) is interrupt
    finally:
        signal.signal(signal.SIGTERM, before)


def _queens(n: int) -> cp_model.CpModel:
    """Queens that do not attack each other, weighted: found at once, not proven in the time of a test."""
    model = cp_model.CpModel()
    rows = [model.new_int_var(0, n - 1, "") for _ in range(n)]
    for slope in (-1, 0, 1):
        model.add_all_different([rows[i] + slope * i for i in range(n)])
    model.maximize(sum((i * i % 7) * rows[i] for i in range(n)))
    return model


def test_cp_sat_leaves_the_handler_of_interrupts() -> None:
    model = cp_model.CpModel()
    model.maximize(model.new_int_var(0, 3, ""))
    with interruptions() as interruption:
        assert solved(cp_model.CpSolver(), model) == cp_model.OPTIMAL
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        assert interruption.asked


def test_an_interrupt_ends_cp_sat() -> None:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers, solver.parameters.max_time_in_seconds = 1, 30.0
    begin = time.monotonic()
    with interruptions(), pytest.raises(KeyboardInterrupt):
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        solved(solver, _queens(40))
    assert time.monotonic() - begin < 10
