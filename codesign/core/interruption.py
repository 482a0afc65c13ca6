"""Ctrl-C and SIGTERM, which batch systems send before they kill, as an exception that is never lost."""

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


@final
class Interruption:
    """Whether an end was asked for.

    A signal raises KeyboardInterrupt where the program happens to be. Python drops an exception that comes inside the callback of a
    weak reference or a finaliser, so a loop calls `check` where it can end.
    """

    def __init__(self) -> None:
        self.asked = False

    def check(self) -> None:
        """Raise what a signal should have raised.

        Raises:
            KeyboardInterrupt: An end was asked for.
        """
        if self.asked:
            raise KeyboardInterrupt

    def signalled(self, number: int, frame: FrameType | None) -> None:
        """The handler of the signals."""
        self.asked = True
        raise KeyboardInterrupt


@contextmanager
def interruptions() -> Iterator[Interruption]:
    """Both signals, unless ignored, raise KeyboardInterrupt inside; in another thread than the main one nothing is changed."""
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    heard = [s for s in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(s) is not signal.SIG_IGN]
    before = {s: signal.signal(s, interruption.signalled) for s in heard}
    try:
        yield interruption
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)


def solved(solver: "cp_model.CpSolver", model: "cp_model.CpModel") -> "cp_model.CpSolverStatus":
    """What CP-SAT makes of a model; an interrupt ends the search and is raised.

    CP-SAT's own handler of SIGINT is not used: it leaves none, so that the next Ctrl-C would end the process at once.
    """
    solver.parameters.catch_sigint_signal = False
    if threading.current_thread() is not threading.main_thread():
        return solver.solve(model)
    with ThreadPoolExecutor(1) as pool:  # the main thread stays free for signals
        answer = pool.submit(solver.solve, model)
        try:
            return answer.result()
        except KeyboardInterrupt:
            solver.stop_search()
            raise
