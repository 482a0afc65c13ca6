"""Someone who waits for the compiler is told so, once."""

import pytest

from codesign.core import jit


def test_a_long_compilation_is_told_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    told: list[str] = []
    monkeypatch.setattr(jit, "LONG_COMPILATION_S", -1.0)
    monkeypatch.setattr(jit, "_cache_root", lambda: tmp_path_factory.mktemp("empty"))
    jit.on_long_compilation(lambda: told.append("compiling"))

    @jit.njit
    def plus(a: int, b: int) -> int:
        return a + b

    assert not told
    assert plus(1, 2) == 3
    assert plus(1.0, 2.0) == 3.0  # type: ignore[arg-type]
    assert told == ["compiling"]


def test_nobody_is_told_of_a_short_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    told: list[str] = []
    monkeypatch.setattr(jit, "LONG_COMPILATION_S", 1e9)
    monkeypatch.setattr(jit, "_cache_root", lambda: tmp_path_factory.mktemp("empty"))
    jit.on_long_compilation(lambda: told.append("compiling"))

    @jit.njit
    def minus(a: int, b: int) -> int:
        return a - b

    assert minus(3, 2) == 1
    assert not told
    jit._to_be_told.clear()
