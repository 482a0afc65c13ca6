"""Evaluate designs on a Ray cluster: nodes may come, go and die."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar, final

from codesign.core.errors import MissingDependencyError, UserError
from codesign.core.point import Point
from codesign.evaluation.faults import DEATHS, Fault

R = TypeVar("R")


@final
class RayPool(Generic[R]):
    """Designs as tasks of Ray. Results are recorded by this process alone, so a task that runs twice counts once.

    A task whose node dies is started again by Ray on another node; where Ray gives up, it is submitted again here.

    Args:
        ray: The module, connected.
        evaluate: From a design to its evaluation.
        workers: Tasks at once; None for as many as the cluster has cores at the moment.
    """

    def __init__(self, ray: Any, evaluate: Callable[[Point], R], workers: int | None) -> None:
        self._ray = ray
        self._workers = workers
        self._evaluator = ray.put(evaluate)
        self._task = ray.remote(max_retries=-1, num_cpus=1)(_evaluate)
        self._running: dict[Any, Point] = {}
        self._deaths: dict[int, int] = {}

    @property
    def size(self) -> int:
        """How many designs it works on at once."""
        if self._workers is not None:
            return self._workers
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def submit(self, point: Point) -> None:
        """See `Pool`."""
        self._running[self._task.remote(self._evaluator, point)] = point

    def collect(self) -> list[tuple[Point, R | Fault]]:
        """See `Pool`."""
        while True:
            found = self._take(None)
            if found:
                return found

    def ready(self) -> list[tuple[Point, R | Fault]]:
        """See `Pool`."""
        return self._take(0.0)

    def _take(self, timeout_s: float | None) -> list[tuple[Point, R | Fault]]:
        if not self._running:
            return []
        references = list(self._running)
        count = 1 if timeout_s is None else len(references)
        done, _ = self._ray.wait(references, num_returns=count, timeout=timeout_s)
        found: list[tuple[Point, R | Fault]] = []
        for reference in done:
            point = self._running.pop(reference)
            try:
                found.append((point, self._ray.get(reference)))
            except self._ray.exceptions.RayError as error:
                deaths = self._deaths[id(point)] = self._deaths.get(id(point), 0) + 1
                if deaths < DEATHS:
                    self.submit(point)
                else:
                    found.append((point, Fault(f"Ray gave up {DEATHS} times: {type(error).__name__}", 0.0, False)))
        return found


def _evaluate(evaluator: Callable[[Point], Any], point: Point) -> Any:
    return evaluator(point)


@contextmanager
def open_ray(evaluate: Callable[[Point], R], workers: int | None, address: str | None) -> Iterator[RayPool[R]]:
    """Connect to a cluster, or start one on this machine; leaving it disconnects.

    Raises:
        MissingDependencyError: Ray is not installed.
        UserError: There is no cluster at the address.
    """
    # Ray would give each worker an empty environment when started under some launchers; ours needs none of that.
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    try:
        import ray
    except ImportError:
        raise MissingDependencyError(
            "--executor ray needs the package 'ray'", hint="pip install 'accel-codesign[ray]'"
        ) from None
    mine = not ray.is_initialized()
    if mine:
        _check_reachable(address)
        options: dict[str, str | int | bool | None] = (
            {"address": address} if address else {"num_cpus": workers, "include_dashboard": False}
        )
        try:
            ray.init(log_to_driver=False, configure_logging=False, **options)
        except (ConnectionError, RuntimeError, ValueError, AssertionError) as error:
            reason = " ".join(str(error).split())[:200]
            raise UserError(f"--ray-address: no cluster at {address!r}: {reason}") from None
    try:
        yield RayPool(ray, evaluate, workers)
    finally:
        if mine:
            ray.shutdown()


def _check_reachable(address: str | None) -> None:
    """Refuse an address where nobody listens; Ray itself would try for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError as error:
        raise UserError(f"--ray-address: no cluster at {address!r}: {error.strerror or error}") from None
