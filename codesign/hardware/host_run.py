"""A host's program compiled around the simulated machine, and run."""

import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from codesign.hardware.bench import HardwareError
from codesign.hardware.host_program import HOST_SOURCES, HostProgram
from codesign.hardware.verilator import VerilatedMachine


@dataclass(frozen=True)
class HostRun:
    """What a host's program gave.

    Args:
        output: Its file.
        cycles: By launch, in which the machine was busy.
        seconds: Of the whole program.
    """

    output: bytes
    cycles: tuple[int, ...]
    seconds: float


def run_host(
    folder: Path, program: HostProgram, picture: npt.NDArray[np.float32] | None, *, quick: bool = False
) -> HostRun:
    """Compile the program that lies in a folder around the machine's simulation and run it.

    Args:
        folder: See `host_program.write_host`.
        program: The same program.
        picture: The network's input; None for a single launch.
        quick: Compile the machine without optimisation.

    Raises:
        HardwareError: The program does not compile, or the machine stopped; the message names the launch.
        MissingDependencyError: Verilator or a C++ compiler is missing.
    """
    machine = VerilatedMachine(program.parameters, program.netlist, quick=quick)
    compiled = machine.link(folder.absolute(), HOST_SOURCES)
    values = np.zeros(0, np.float32) if picture is None else np.ascontiguousarray(picture, "<f4")
    (folder / "picture.bin").write_bytes(values.tobytes())
    started = time.perf_counter()
    done = subprocess.run([str(compiled), ".", "picture.bin", "output.bin"], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise HardwareError(done.stderr.strip() or f"the program ended with code {done.returncode}")
    cycles = tuple(int(n) for n in re.findall(r"^launch .* cycles (\d+) predicted \d+$", done.stdout, flags=re.M))
    return HostRun((folder / "output.bin").read_bytes(), cycles, time.perf_counter() - started)
