"""Who waits for the compiler sees one line with how much is left; `codesign compile` makes kernels ahead."""

import io
import json
from pathlib import Path

import pytest

from codesign.cli import compiling
from codesign.cli.app import main
from codesign.core.compiler import manifest
from codesign.core.jit import Compilation
from codesign.core.kernel_library import gcd, sort_unique

GCD = f"{gcd.__module__}.gcd(int,int)"
SORT = f"{sort_unique.__module__}.sort_unique(int64[1])"


@pytest.fixture
def two_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "read", lambda: manifest.Manifest({GCD: 1, SORT: 3}, {"map": (GCD, SORT)}))


@pytest.mark.usefixtures("two_kernels")
def test_the_line_counts_functions_and_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling.jit, "lacks", lambda signature: True)
    stream = io.StringIO()
    line = compiling.CompilingLine("map", stream)
    line(Compilation(SORT, 3))
    assert "compiling for this machine, once: 0 of at most 4 functions\x1b" in stream.getvalue()
    line(Compilation(SORT, 3, 6.0))
    assert stream.getvalue().endswith("\r\x1b[K")
    line(Compilation(GCD, 1))
    assert "3 of at most 4 functions, 2 s left" in stream.getvalue()
    line(Compilation(GCD, 1, 1.0))
    line(Compilation("another.kernel(int)", 4))
    assert "4 of at most 8 functions, 7 s left" in stream.getvalue()


@pytest.mark.usefixtures("two_kernels")
def test_kernels_are_made_ahead_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "made")
    monkeypatch.setattr("sys.argv", ["codesign", "compile", "map", "--jobs", "1", "--portable", folder])
    for made in (2, 0):
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        assert f"{made} of 2 kernels compiled" in capsys.readouterr().out
    assert len(list((tmp_path / "made").glob("*.o"))) == 2


def test_an_unknown_command_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["codesign", "compile", "mapp"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "'mapp'" in capsys.readouterr().err


def test_a_json_result_has_the_seconds_of_compiling_apart(capsys: pytest.CaptureFixture[str]) -> None:
    compiling.echo_json({"seconds": 0.5})
    document = json.loads(capsys.readouterr().out)
    assert document["seconds"] == 0.5
    assert document["compile_seconds"] >= 0.0
