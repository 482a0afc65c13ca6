"""Compiling is told to who waits, counted, and kept apart from what a search takes."""

import pytest

from codesign.core import clock, jit
from codesign.core.compiler import store


@pytest.fixture
def no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "folder", lambda: None)


@pytest.mark.usefixtures("no_store")
def test_a_compilation_is_told_when_it_begins_and_when_it_has_ended() -> None:
    told: list[jit.Compilation] = []

    @jit.njit
    def plus(a: int, b: float) -> float:
        return a + b

    jit.on_compilation(told.append)
    try:
        before, clock_before = jit.compiled(), clock.wall_seconds()
        assert plus(1, 2.0) == 3.0
        assert plus(2, 2.0) == 4.0
    finally:
        jit.stop_telling(told.append)
    begun, ended = told
    assert begun.signature == ended.signature
    assert begun.signature.endswith("plus(int,float)")
    assert begun.seconds == 0.0 < ended.seconds
    assert jit.compiled() == (before[0] + 1, before[1] + 1)
    assert clock.wall_seconds() - clock_before < ended.seconds + 1.0
    assert jit.compiling_seconds() >= ended.seconds
    assert jit.compiling_cpu_seconds() > 0.0
