"""Compiled code on disk: found by content, never loaded when damaged, and done without where it cannot be kept."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from codesign.core.compiler import manifest, store

PROGRAM = """
import logging
logging.basicConfig(format="%(message)s")
from codesign.core import jit
from codesign.core.kernel_library import gcd
print(gcd(12, 18), jit.compiled()[0])
"""


def run(cache: Path, program: str = PROGRAM, prelude: str = "") -> tuple[list[str], str]:
    """Words printed by a new process with a cache folder, and what it says on the side."""
    environment = {**os.environ, "CODESIGN_CACHE": str(cache), "XDG_CACHE_HOME": str(cache / "none")}
    done = subprocess.run(
        [sys.executable, "-c", prelude + program], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.split(), done.stderr


def test_the_second_process_loads_what_the_first_compiled(tmp_path: Path) -> None:
    assert run(tmp_path) == (["6", "1"], "")
    assert run(tmp_path) == (["6", "0"], "")


@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
def test_a_damaged_file_is_made_again(tmp_path: Path, damage: str) -> None:
    run(tmp_path)
    (file,) = (tmp_path / "kernels").glob("*.o")
    whole = file.read_bytes()
    parts = {"cut": whole[: len(whole) // 2], "flip": whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:], "empty": b""}
    file.write_bytes(parts[damage])
    assert run(tmp_path)[0] == ["6", "1"]
    assert run(tmp_path)[0] == ["6", "0"]


def test_what_a_killed_process_left_is_not_taken_for_code(tmp_path: Path) -> None:
    run(tmp_path)
    (file,) = (tmp_path / "kernels").glob("*.o")
    file.rename(file.with_name(f"{file.stem}.half"))
    assert run(tmp_path)[0] == ["6", "1"]


def test_a_folder_that_cannot_be_written_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")  # root may write everywhere, but not below a file
    (printed, said) = run(tmp_path / "file")
    assert printed == ["6", "1"]
    assert said.count("cannot be kept") == 1
    assert "CODESIGN_CACHE" in said


def test_a_full_disk_is_said_once_and_the_command_goes_on(tmp_path: Path) -> None:
    limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    limit += "from codesign.core.compiler import machine; machine._engine()\n"
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))\n"
    more = (
        PROGRAM
        + "import numpy as np\nfrom codesign.core.kernel_library import sort_unique\nsort_unique(np.arange(3))\n"
    )
    printed, said = run(tmp_path, more, limit)
    assert printed == ["6", "1"]
    assert said.count("cannot be kept") == 1
    assert not list((tmp_path / "kernels").glob("*.o*"))


def test_two_processes_that_compile_at_once_make_each_kernel_once(tmp_path: Path) -> None:
    environment = {**os.environ, "CODESIGN_CACHE": str(tmp_path)}
    several = [
        subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    words = [process.communicate()[0].split() for process in several]
    assert [w[0] for w in words] == ["6"] * 3
    assert sum(int(w[1]) for w in words) == 1
    assert len(list((tmp_path / "kernels").glob("*.o"))) == 1


def test_code_of_a_wheel_is_used_where_it_fits_and_not_elsewhere(tmp_path: Path) -> None:
    make = "from codesign.core.compiler import store; from pathlib import Path\n"
    make += f"store.PREBUILT = Path({str(tmp_path / 'wheel')!r})\n"
    build = "from codesign.core import jit; from codesign.core.kernel_library import gcd\n"
    build += "from codesign.core.compiler.types import INT\n"
    build += "store.PREBUILT.mkdir(); jit.build_portable(gcd, (INT, INT), store.PREBUILT)\n"
    run(tmp_path / "a", build, make)
    assert run(tmp_path / "b", PROGRAM, make)[0] == ["6", "0"]
    other = make + "from codesign.core.compiler import store; store._compiler_digest = lambda: b'another version'\n"
    assert run(tmp_path / "c", PROGRAM, other.replace("b'another", "'another"))[0] == ["6", "1"]


def test_a_change_of_the_source_changes_the_name() -> None:
    import codesign.core.kernel_library as library

    before = store.key(library.__name__, "gcd(int,int)", "here")
    assert before == store.key(library.__name__, "gcd(int,int)", "here")
    assert before != store.key(library.__name__, "gcd(int,int)", "there")
    assert before != store.key("codesign.core.compiler.store", "gcd(int,int)", "here")


def test_a_constant_changes_the_name_wherever_it_was_defined(monkeypatch: pytest.MonkeyPatch) -> None:
    import codesign.cost.mesh_traffic as user

    before = store.key(user.__name__, "crossing(int64[2],int,int)", "here")
    store._module_digest.cache_clear()
    monkeypatch.setattr(user, "SPATIAL_X", 17)  # defined in codesign.mapping.nest
    changed = store.key(user.__name__, "crossing(int64[2],int,int)", "here")
    store._module_digest.cache_clear()
    assert changed != before


def test_recorded_kernels_exist_and_their_signatures_are_read() -> None:
    from codesign.core.jit import signature_of

    known = manifest.read()
    assert {"map", "explore", "schedule", "evaluate", "serve", "build"} <= set(known.commands)
    for signature in known.functions:
        kernel, kinds = manifest.resolve(signature)
        assert signature_of(kernel, kinds) == signature
