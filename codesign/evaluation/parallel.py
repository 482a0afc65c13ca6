"""Evaluate designs in other processes; with one worker, in this one."""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

R = TypeVar("R")


class Pool(Protocol[R]):
    """Somewhere to evaluate designs."""

    @property
    def size(self) -> int:
        """How many designs it works on at once."""

    def submit(self, point: dict[str, Any]) -> None:
        """Start on a design."""

    def collect(self) -> list[tuple[dict[str, Any], R]]:
        """Wait until at least one design is done and return all that are."""


class SerialPool(Generic[R]):
    """One design after the other, in this process."""

    size = 1

    def __init__(self, evaluate: Callable[[dict[str, Any]], R]) -> None:
        self._evaluate = evaluate
        self._queue: list[dict[str, Any]] = []

    def submit(self, point: dict[str, Any]) -> None:
        """See `Pool`."""
        self._queue.append(point)

    def collect(self) -> list[tuple[dict[str, Any], R]]:
        """See `Pool`."""
        point = self._queue.pop(0)
        return [(point, self._evaluate(point))]


class ProcessPool(Generic[R]):
    """Worker processes that hold the evaluator; points go out, results come back in any order."""

    def __init__(self, executor: ProcessPoolExecutor, size: int) -> None:
        self._executor = executor
        self.size = size
        self._running: dict[Future[R], dict[str, Any]] = {}

    def submit(self, point: dict[str, Any]) -> None:
        """See `Pool`."""
        future: Future[R] = self._executor.submit(_evaluate_here, point)
        self._running[future] = point

    def collect(self) -> list[tuple[dict[str, Any], R]]:
        """See `Pool`."""
        done, _ = wait(self._running, return_when=FIRST_COMPLETED)
        return [(self._running.pop(future), future.result()) for future in sorted(done, key=id)]


_evaluator: Callable[[dict[str, Any]], Any] | None = None


def _start_worker(evaluate: Callable[[dict[str, Any]], Any]) -> None:
    import signal

    global _evaluator  # a worker process holds exactly one evaluator for its whole life
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    _evaluator = evaluate


def _evaluate_here(point: dict[str, Any]) -> Any:
    assert _evaluator is not None
    return _evaluator(point)


@contextmanager
def open_pool(evaluate: Callable[[dict[str, Any]], R], workers: int) -> Iterator[Pool[R]]:
    """A pool of `workers`; leaving it abandons what still runs."""
    if workers == 1:
        yield SerialPool(evaluate)
        return
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker, initargs=(evaluate,))
    try:
        yield ProcessPool(executor, workers)
    finally:
        processes = list((executor._processes or {}).values())
        executor.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
