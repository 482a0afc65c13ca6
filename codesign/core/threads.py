"""Linear algebra on one thread: its matrices have tens of rows here, and threads that wait for each other only burn time."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside, BLAS and OpenMP of this process use one thread: quicker, and the same digits on every machine."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        yield
