"""An end that is asked for is never lost."""

import os
import signal
import sys
import weakref

import pytest

from codesign.core.interruption import interruptions


class _Thing:
    pass


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
