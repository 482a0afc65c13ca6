"""Where designs are evaluated: this process, worker processes, a Ray cluster. No failure of a worker loses a design.

All three are `codesign.evaluation.parallel.Pool`s. An evaluation that raises comes back as a `Fault` beside the results of the
others; a worker that dies has its design evaluated again.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, Generic, TypeVar, final

from codesign.core.errors import UserError, unknown_name
from codesign.core.point import Point
from codesign.evaluation.faults import DEATHS, Fault, Guarded
from codesign.evaluation.parallel import Pool, SerialPool
from codesign.evaluation.specification import EXECUTORS

R = TypeVar("R")


@final
class ProcessPool(Generic[R]):
    """Worker processes that hold the evaluator; when one dies they are started again and go on with what was running."""

    def __init__(self, evaluate: Callable[[Point], R], size: int) -> None:
        self.size = size
        self._evaluate = evaluate
        self._running: dict[Future[Any], Point] = {}
        self._deaths: dict[int, int] = {}
        self._executor = self._start()

    def _start(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self.size, mp_context=context, initializer=_start_worker, initargs=(self._evaluate,))

    def submit(self, point: Point) -> None:
        """See `Pool`."""
        self._running[self._executor.submit(_evaluate_here, point)] = point

    def collect(self) -> list[tuple[Point, R | Fault]]:
        """See `Pool`."""
        while True:
            done, _ = wait(self._running, return_when=FIRST_COMPLETED)
            found = self._take(done)
            if found:
                return found

    def ready(self) -> list[tuple[Point, R | Fault]]:
        """See `Pool`."""
        good = [f for f in self._running if f.done() and not f.cancelled() and f.exception() is None]
        return [(self._running.pop(future), future.result()) for future in good]

    def _take(self, done: set[Future[Any]]) -> list[tuple[Point, R | Fault]]:
        found: list[tuple[Point, R | Fault]] = []
        broken = False
        for future in sorted(done, key=list(self._running).index):
            error = future.exception()
            if isinstance(error, BrokenProcessPool):
                broken = True
                continue
            point = self._running.pop(future)
            found.append((point, future.result() if error is None else Fault(repr(error), 0.0, False)))
        if broken:
            found += self._restart()
        return found

    def _restart(self) -> list[tuple[Point, R | Fault]]:
        """New workers for all that was running; designs on which workers died too often are given up."""
        wait(self._running, timeout=10)
        found: list[tuple[Point, R | Fault]] = list(self.ready())
        points = list(self._running.values())
        self._running.clear()
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._executor = self._start()
        for point in points:
            self._deaths[id(point)] = self._deaths.get(id(point), 0) + 1
            if self._deaths[id(point)] >= DEATHS:
                found.append((point, Fault(f"{DEATHS} worker processes died during it (out of memory?)", 0.0, False)))
            else:
                self.submit(point)
        return found

    def stop(self) -> None:
        """End the workers, abandoning what still runs."""
        processes = list((self._executor._processes or {}).values())
        self._executor.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()  # nothing a worker holds needs to be given back


_evaluator: Callable[[Point], Any] | None = None


def _start_worker(evaluate: Callable[[Point], Any]) -> None:
    """Called once in every worker process, which ends itself when the process that started it is killed."""
    global _evaluator  # a worker process holds exactly one evaluator for its whole life
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    _evaluator = evaluate
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _evaluate_here(point: Point) -> Any:
    """Evaluate a design in a worker process."""
    assert _evaluator is not None
    return _evaluator(point)


@contextmanager
def open_executor(
    evaluate: Callable[[Point], R], executor: str, workers: int | None, address: str | None = None
) -> Iterator[Pool[R | Fault]]:
    """Somewhere to evaluate designs; leaving it abandons what still runs.

    Args:
        evaluate: Plain data that can be called, so it can be sent to other processes and machines.
        executor: ``process`` (this process for one worker) or ``ray``.
        workers: Designs evaluated at once; None for one, with Ray for as many as the cluster has cores.
        address: Of the Ray cluster; None starts one on this machine.

    Raises:
        UserError: Unknown executor, Ray not installed, no cluster at the address.
    """
    guarded = Guarded(evaluate)
    if executor not in EXECUTORS:
        raise unknown_name("executor", executor, EXECUTORS)
    if executor == "ray":
        from codesign.evaluation.executors_ray import open_ray

        with open_ray(guarded, workers, address) as cluster:
            yield cluster
        return
    if address is not None:
        raise UserError("--ray-address is used with --executor ray only")
    if workers in (None, 1):
        yield SerialPool(guarded)
        return
    pool = ProcessPool(guarded, int(workers or 1))
    try:
        yield pool
    finally:
        pool.stop()
