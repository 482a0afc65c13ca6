"""Linear algebra on one thread: its matrices have tens of rows here, and threads that wait for each other only burn time."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside, BLAS and OpenMP of this process use one thread: quicker, and the same digits on every machine."""
    with _libraries(len(sys.modules)).limit(limits=1):
        yield


@lru_cache(maxsize=1)
def _libraries(modules: int) -> Any:
    """The libraries of this process that have threads, looked for again once more modules are imported."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
