"""Work that several threads share, with a result that does not depend on which of them ends first."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self, TypeVar, final

S = TypeVar("S")
T = TypeVar("T")

_AHEAD = 2
"""Tasks that wait beside those that run, so that no thread is idle while results are settled."""


@final
class InOrder:
    """Tasks run side by side; what is done with their results happens here, in the order in which they were given.

    With one thread a task runs when its result is settled, and nothing runs ahead.

    Args:
        threads: Tasks that run at a time; compiled code runs beside compiled code.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._most = 1 if threads == 1 else threads + _AHEAD
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._given: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    @property
    def full(self) -> bool:
        """Whether as much is under way as is worth it."""
        return len(self._given) >= self._most

    def give(self, task: Callable[[], T], settle: Callable[[T], None]) -> None:
        """Run a task on one of the threads; `settle` gets its result."""
        if self._pool is None:
            self._given.append((task, settle))
        else:
            future: Future[T] = self._pool.submit(task)
            self._given.append((future.result, settle))

    def each(self, task: Callable[[S], T], items: list[S]) -> list[T]:
        """The results of a task for every item, run side by side now."""
        return [task(item) for item in items] if self._pool is None else list(self._pool.map(task, items))

    def settle(self) -> bool:
        """Wait for the first of the tasks given and settle it; False where none is left."""
        if not self._given:
            return False
        task, settle = self._given.popleft()
        settle(task())
        return True
