"""Kernels apart: compiled when first called, shared by their callers, with the result they declare."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from codesign.core import jit
from codesign.core.compiler.types import CompileError
from codesign.core.jit import njit, njit_apart


class Sums(NamedTuple):
    values: np.ndarray
    most: int


@njit_apart
def total(sums: Sums, scale: float) -> tuple[float, int]:
    found = 0.0
    for value in sums.values:
        found += value * scale
    return found, sums.most


@njit_apart
def store_twice(values: np.ndarray, value: float) -> None:
    values[:] = 2.0 * value


@njit
def rarely(values: np.ndarray, often: bool) -> float:
    if often:
        return 1.0
    store_twice(values, 3.0)
    first, most = total(Sums(values, 4), 0.5)
    return first + most


@njit
def also(values: np.ndarray) -> float:
    return total(Sums(values, 1), 1.0)[0]


def test_a_kernel_apart_is_made_when_first_reached_and_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codesign.core.compiler.store.folder", lambda: None)
    values = np.ones(3)
    before = jit.compiled()[0]
    assert rarely(values, True) == 1.0
    assert jit.compiled()[0] == before + 1
    assert rarely(values, False) == 3 * 6.0 * 0.5 + 4
    assert jit.compiled()[0] == before + 3
    assert also(values) == 18.0
    assert total(Sums(values, 2), 1.0) == (18.0, 2)
    assert jit.compiled()[0] == before + 4


def test_another_type_is_another_version() -> None:
    assert also(np.arange(3)) == 3.0
    assert also(np.arange(6.0)[::2]) == 6.0


@njit_apart
def promises_an_array(values: np.ndarray) -> np.ndarray:
    return values


@njit_apart
def breaks_its_promise(value: float) -> int:
    return value  # type: ignore[return-value]


def test_the_declared_result_is_held() -> None:
    with pytest.raises(CompileError, match=r"a kernel apart returns .*ndarray.*declare numbers"):
        promises_an_array(np.ones(1))
    with pytest.raises(CompileError, match="declares int and returns float"):
        breaks_its_promise(1.5)


PROGRAM = """
import signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background starts with it ignored
from codesign.core.compiler import manifest
from tests.unit.core.compiler.test_apart import np, rarely
given = manifest.resolve
def slow(signature):
    print("resolving", flush=True)
    time.sleep(0.3)
    return given(signature)
manifest.resolve = slow
try:
    print(rarely(np.ones(3), False))
    for _ in range(50):
        time.sleep(0.1)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_waits_until_the_kernel_returns(tmp_path: Path) -> None:
    environment = {**os.environ, "CODESIGN_CACHE": str(tmp_path)}
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "resolving\n"
    time.sleep(0.1)
    process.send_signal(2)
    words = process.communicate()[0].split()
    assert process.returncode == 0
    assert words[-2:] == ["13.0", "interrupted"]
