"""What a new user waits for: first and second runs of commands, `python -m experiments.first_touch [--wheel]`.

Every command runs in a process of its own with an empty cache of compiled kernels, then again. The last line is one
JSON object: for each command `cold_cpu_s`, `cold_wall_s`, `warm_cpu_s`, `functions_compiled` and `versions` (kernels
compiled, one for each list of argument types). `--wheel` installs a wheel made by `make wheel` into an empty folder
and runs it from there, with its dependencies from this environment. `--record` writes the list of kernels that
`codesign compile` and wheels make ahead.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codesign.core.compiler import manifest

ROOT = Path(__file__).parent.parent
LAYER = "conv K=64 C=64 P=56 Q=56 R=3 S=3"
SMALL = "conv K=16 C=16 P=14 Q=14 R=3 S=3"
INPUTS = ROOT / "tests" / "data" / "timeloop" / "inputs" / "eyeriss_gemm"
SERVING = "format: codesign-serving-1\nmodel: llama3-8b\nrequests:\n  - {prompt: 512, output: 128}\nbatch: 8\n"
CASES = ("arch.yaml", "problem.yaml", "mapping.yaml", "ert.yaml")

FIRST = {
    "map": ["map", "--mapper", "exact", "--arch", "simba", "--layer", LAYER, "--objective", "edp"],
    "schedule": ["schedule", "--scheduler", "soma", "--network", "resnet50", "--arch", "soma-edge"],
    "evaluate": ["evaluate", *(str(INPUTS / name) for name in CASES)],
    "explore": ["explore", "--network", "resnet18", "--space", "scratchpad", "--optimizer", "random", "--trials", "4", "--out", "study"],
    "serve": ["serve", "serving.yaml", "--arch", "soma-cloud"],
    "tensorize": [
        "tensorize", "C[m,n] += A[m,k]*B[k,n]", "--bounds", "m=64,n=64,k=64", "--intrinsic", "gemm", "--size", "16x16x16",
    ],
    "build": ["build", "--space", "gemmcore", "--design", "pe=8", "--layer", "gemm M=32 N=32 K=32"],
}  # fmt: skip
"""What is timed: the first request of each kind that a new user makes."""

_MAPPERS = ("exact", "anneal", "cosa", "salsa", "loma", "hybrid", "genetic", "random")
_ARCHITECTURES = ("eyeriss", "simba", "gemmini", "tpu", "soma-edge", "soma-cloud")

FURTHER: dict[str, list[list[str]]] = {
    "map": [
        *(["map", "--mapper", "exact", "--arch", arch, "--layer", SMALL] for arch in _ARCHITECTURES),
        *(["map", "--mapper", name, "--arch", "simba", "--layer", SMALL, "--evaluations", "200"] for name in _MAPPERS[1:]),
        ["map", "--mapper", "exact", "--arch", "simba", "--layer", SMALL, "--imperfect", "--time-limit", "2"],
        ["map", "--mapper", "exact", "--arch", "simba", "--layer", SMALL, "--uneven", "--time-limit", "2"],
        ["map", "--mapper", "anneal", "--arch", "simba", "--layer", SMALL, "--imperfect", "--evaluations", "200"],
        ["map", "--mapper", "exact", "--arch", "gemmini", "--layer", SMALL, "--timing", "event"],
    ],
    "schedule": [
        ["schedule", "--scheduler", "cosma", "--network", "resnet18", "--capacity", "8MiB", "--time-limit", "5"],
        ["schedule", "--scheduler", "fused", "--network", "resnet18", "--arch", "soma-edge", "--time-limit", "5"],
        ["schedule", "--scheduler", "segments", "--network", "resnet18", "--arch", "gemini-72t", "--evaluations", "500"],
    ],
    "evaluate": [["evaluate", *(str(INPUTS / name) for name in CASES), "--timing", "event"]],
    "explore": [
        ["explore", "--network", "resnet18", "--space", name, "--optimizer", "random", "--trials", "2", "--out", "study"]
        for name in ("eyeriss", "gemmcore", "gemvcore", "dotcore", "convcore", "soma-edge")
    ] + [
        ["explore", "--network", "resnet18", "--space", "scratchpad", "--optimizer", "exact", "--trials", "2", "--out", "study"],
        ["explore", "--network", "resnet50", "--space", "scratchpad", "--optimizer", "mobo", "--trials", "10", "--out", "study"],
    ],
    "tensorize": [
        ["tensorize", "C[m,n] += A[m,k]*B[k,n]", "--bounds", "m=64,n=64,k=64", "--core", "gemmcore", "--search", "learned"],
    ],
    "build": [["build", "--space", "scratchpad", "--layer", "gemm M=32 N=32 K=32"]],
}  # fmt: skip
"""Other usual requests, whose kernels are made ahead too."""


@dataclass(frozen=True)
class Config:
    """Options of the run.

    Args:
        wheel: Run an installed wheel instead of the clone.
        record: Write the list of kernels of each command.
        smoke: One command only, the cheapest.
    """

    wheel: bool
    record: bool
    smoke: bool


@dataclass(frozen=True)
class Run:
    """One run of a command.

    Args:
        wall_s: Seconds.
        cpu_s: CPU seconds of it and the processes it started.
        compiled: Functions in each version of a kernel that was compiled, by signature.
    """

    wall_s: float
    cpu_s: float
    compiled: dict[str, int]


def run(arguments: list[str], cache: Path, site: Path | None = None) -> Run:
    """Run a command with a cache folder, from a folder with an installed wheel where one is given.

    Raises:
        SystemExit: The command fails.
    """
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "serving.yaml").write_text(SERVING)
        log = Path(place) / "kernels.jsonl"
        paths = {"PYTHONPATH": str(site or ROOT), "CODESIGN_CACHE": str(cache), "CODESIGN_KERNEL_LOG": str(log)}
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}  # as users have it
        started = time.perf_counter()
        with subprocess.Popen(
            [sys.executable, "-m", "codesign.cli.app", *arguments], cwd=place, env=environment | paths,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            assert process.stderr is not None
            told = process.stderr.read()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit(f"{' '.join(arguments)} ended with {process.returncode}:\n{told.decode()}")
        seconds = time.perf_counter() - started
        lines = log.read_text().splitlines() if log.exists() else []
        compiled = {entry["kernel"]: int(entry["functions"]) for entry in map(json.loads, lines)}
        return Run(seconds, used.ru_utime + used.ru_stime, compiled)


def measure(name: str, site: Path | None) -> dict[str, Any]:
    """First and second run of a command."""
    with tempfile.TemporaryDirectory() as cache:
        cold = run(FIRST[name], Path(cache), site)
        warm = run(FIRST[name], Path(cache), site)
    return {
        "cold_cpu_s": round(cold.cpu_s, 2),
        "cold_wall_s": round(cold.wall_s, 2),
        "warm_cpu_s": round(warm.cpu_s, 2),
        "functions_compiled": sum(cold.compiled.values()),
        "versions": len(cold.compiled),
    }


def record(site: Path | None) -> None:
    """Compile everything anew and write which command needed what."""
    functions: dict[str, int] = {}
    commands: dict[str, tuple[str, ...]] = {}
    for name, first in FIRST.items():
        needed: dict[str, int] = {}
        for arguments in [first, *FURTHER.get(name, [])]:
            with tempfile.TemporaryDirectory() as cache:
                needed |= run(arguments, Path(cache), site).compiled
            print(f"{len(needed):4d} kernels after: {' '.join(arguments)[:100]}", flush=True)
        functions |= needed
        commands[name] = tuple(needed)
    manifest.write(manifest.Manifest(functions, commands))


def install_wheel(folder: Path) -> None:
    """Make a wheel and put it into a folder."""
    subprocess.run(["make", "-s", "wheel"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = (ROOT / "dist").glob("*.whl")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), str(wheel)]
    subprocess.run(pip, check=True)


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheel", action="store_true", help="run a wheel instead of the clone")
    parser.add_argument("--record", action="store_true", help="write the list of kernels that are made ahead")
    parser.add_argument("--smoke", action="store_true", help="one command only")
    config = Config(**vars(parser.parse_args()))
    if config.record:
        record(None)
        return
    folder = Path(tempfile.mkdtemp()) if config.wheel else None
    try:
        if folder is not None:
            install_wheel(folder)
        found = {}
        for name in ["evaluate"] if config.smoke else FIRST:
            found[name] = measure(name, folder)
            print(f"{name:10s} {found[name]}", flush=True)
    finally:
        if folder is not None:
            shutil.rmtree(folder)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
