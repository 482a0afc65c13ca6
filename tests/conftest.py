"""Settings of all tests: repeatable properties, kinds of slow tests, and runs in which nothing may be skipped.

``pytest --complete`` fails a test that would be skipped, and names what is missing before the first one runs.
"""

import gc
import os
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the tests run in as many processes as there are cores
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # processes that tests start keep what Python compiled

import pytest
from hypothesis import HealthCheck, settings

from tests.needed import missing

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,  # a busy machine must not fail a property
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True, scope="session")
def searches_end_without_bounding_what_was_not_tried() -> Iterator[None]:
    """Studies of tests take no CPU seconds after the search, unless they ask for them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("codesign.study.specification.DEFAULT_CERTIFY_S", 0.0)
        yield


KINDS = ("oracle", "service", "speed")
"""Kinds of slow tests: many cases of an oracle or of recorded runs; servers, clusters, processes; long searches and timings."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--complete", action="store_true", help="fail where a test would be skipped; say first what is missing"
    )


def pytest_sessionstart(session: pytest.Session) -> None:
    gc.disable()  # thousands of tests are collected, none of which is garbage
    if session.config.getoption("--complete") and (absent := missing()):
        raise pytest.UsageError("a complete run needs:\n  " + "\n  ".join(absent))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Make tests slow that are tried in some cases only, and give every slow test the marker of its kind, so that ``-m oracle`` finds it."""
    cases: Counter[str] = Counter()
    for item in items:
        if (thinned := item.get_closest_marker("thinned")) is not None:
            law = item.nodeid.partition("[")[0]
            if not stays(cases[law], thinned.args[0]):
                item.add_marker(pytest.mark.slow("oracle"))
            cases[law] += 1
        for mark in item.iter_markers("slow"):
            kind = mark.args[0] if mark.args else "oracle"
            if kind not in KINDS:
                raise pytest.UsageError(
                    f"{item.nodeid}: a slow test is of a kind, one of {', '.join(KINDS)}, got {kind!r}"
                )
            item.add_marker(kind)


def stays(case: int, n: int) -> bool:
    """Whether a case is the one of its n that every run tries: its digits to the base n add up to a multiple of n, so that no parameter's value is passed over."""
    total = 0
    while case:
        case, digit = divmod(case, n)
        total += digit
    return total % n == 0


TOGETHER = ("tests/unit/report/",)
"""Folders whose files share what takes long to make."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With several workers a file goes to one of them, so that what its tests share is made once."""
    if config.getvalue("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.split("::", 1)[0]
            return next((folder for folder in TOGETHER if path.startswith(folder)), path)

    config.option.loadscopereorder = False  # files with many tests are not those that take long
    return ByFile(config, log)


def pytest_collection_finish() -> None:
    """Later collections of garbage pass over what lives as long as the run."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


def pytest_runtest_setup() -> None:
    """Migrations that Optuna brings are read from their files once, not three times for every database."""
    files = sys.modules.get("alembic.util.pyfiles")
    if files is not None and not hasattr(files.load_module_py, "cache_info"):
        files.load_module_py = cache(files.load_module_py)  # type: ignore[attr-defined]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A skipped test fails in a complete run."""
    outcome: Any = yield
    report = outcome.get_result()
    if item.config.getoption("--complete") and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} may not be skipped in a complete run. {reason}"
