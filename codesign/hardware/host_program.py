"""A host's program: a C header of registers, the steps of a network in C, and images of what launches need.

The machine's memory holds every launch's weights at places of their own. Operands and results of all launches share one place each. A launch
writes all its registers, so launches may follow each other in any order. `run_host` compiles the program around the simulated machine.
"""

import itertools
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from codesign.core.errors import UserError
from codesign.core.files import write_atomic
from codesign.hardware import words
from codesign.hardware.bench import HardwareError
from codesign.hardware.execute import Job
from codesign.hardware.host_steps import Addition, Convolution, FloatArray, HostNetwork, HostValue, Maximum, Quantise
from codesign.hardware.image import DRAM_ALIGNMENT_BYTES, Image
from codesign.hardware.layout import Layout
from codesign.hardware.parameters import PORTS, Control, Parameters
from codesign.hardware.verilator import VerilatedMachine
from codesign.hardware.verilog import Netlist, data_text
from codesign.workloads.computation import Computation

HOST_SOURCES = ("simulated.cpp", "network.c")
"""What is compiled around a simulated machine, beside the headers."""

Planner = Callable[[str, Computation], Job]
"""Name of a layer and what it computes -> its image on the machine."""


@dataclass(frozen=True)
class Launch:
    """One run of the machine in a host's program.

    Args:
        name: Of the layer.
        job: What runs, with addresses of its own.
        bases: By port, where its tensors lie in the machine's memory.
    """

    name: str
    job: Job
    bases: Mapping[str, int]


@dataclass(frozen=True)
class HostProgram:
    """What a host does, with the machine it does it on.

    Args:
        netlist: The machine.
        network: Steps; None for a single launch whose operands lie in the memory.
        launches: In the order of the network's convolutions.
        dram: The memory before the first launch.
        dram_bytes: Size of the machine's memory.
    """

    netlist: Netlist
    parameters: Parameters
    network: HostNetwork | None
    launches: tuple[Launch, ...]
    dram: bytes
    dram_bytes: int

    @property
    def predicted_cycles(self) -> int:
        """Predicted cycles of all launches together."""
        return sum(x.job.predicted_cycles for x in self.launches)


def program_of_job(netlist: Netlist, job: Job, memory: bytes) -> HostProgram:
    """A single launch on a memory that holds its operands."""
    bases = {port: x.base for port, x in job.image.layouts.items()}
    name = job.computation.name or "launch"
    p = job.image.parameters
    return HostProgram(netlist, p, None, (Launch(name, job, bases),), memory, job.image.dram_bytes)


def program_of_network(network: HostNetwork, netlist: Netlist, parameters: Parameters, plan: Planner) -> HostProgram:
    """A network's launches and the memory that they share.

    Raises:
        UserError: A layer that the machine does not run, or a network that its memory does not hold.
    """
    convolutions = [s for s in network.steps if isinstance(s, Convolution)]
    if not convolutions:
        raise UserError("the network has no convolution: there is nothing to launch")
    jobs = [_planned(s, plan) for s in convolutions]
    if any(job.image.parameters != parameters for job in jobs):
        raise UserError("the layers want machines that differ", hint="a program runs on one machine")
    ports = [{x.tensor: port for port, x in job.image.layouts.items()} for job in jobs]
    at, shared = 0, {}
    for tensor in ("I", "O"):
        shared[tensor] = at
        sizes = [job.image.layouts[of[tensor]].size_bytes for job, of in zip(jobs, ports, strict=True)]
        at = _aligned(at + max(sizes))
    first, weights, launches = at, [], []
    for step, job, of in zip(convolutions, jobs, ports, strict=True):
        layout = job.image.layouts[of["W"]]
        launches.append(Launch(step.name, job, {of["I"]: shared["I"], of["O"]: shared["O"], of["W"]: at}))
        packed = layout.pack(step.weights)
        weights.append(packed + bytes(_aligned(len(packed)) - len(packed)))
        at = _aligned(at + layout.size_bytes)
    if at >= 1 << 32:
        raise UserError(f"the network needs {at} bytes of memory, the machine's addresses reach 2^32")
    return HostProgram(netlist, parameters, network, tuple(launches), bytes(first) + b"".join(weights), at)


def _planned(step: Convolution, plan: Planner) -> Job:
    """A layer on the machine.

    Raises:
        UserError: The machine does not run it; the message names the layer.
    """
    try:
        return plan(step.name, step.computation)
    except UserError as error:
        raise error.within(f"layer {step.name!r}") from None


def _aligned(size: int) -> int:
    return -(-size // DRAM_ALIGNMENT_BYTES) * DRAM_ALIGNMENT_BYTES


def moved(image: Image, registers: Mapping[str, tuple[int, int]], bases: Mapping[str, int]) -> Image:
    """An image with its tensors elsewhere in the memory.

    Args:
        image: With addresses of its own.
        registers: (address, bits) by name.
        bases: By port, the new first byte.
    """
    layouts = {port: replace(x, base=bases[port]) for port, x in image.layouts.items()}
    if image.parameters.control is Control.NEST:
        of_port = {registers[f"load_base_{port}"][0]: base for port, base in bases.items()}
        pairs = tuple((a, of_port.get(a, d)) for a, d in image.registers)
        return replace(image, layouts=layouts, registers=pairs)
    register = registers["transfer_dram"][0]

    def place(address: int) -> int:
        for port, x in image.layouts.items():
            if x.base <= address < x.base + x.size_bytes:
                return address - x.base + bases[port]
        return address

    # A stream writes what differs from a machine just reset: every register is cleared, and the address register holds what 0 stood for.
    cleared = [(a, 0) for a, _ in registers.values() if a != register]
    words = tuple((register << 32 | place(w & 0xFFFFFFFF)) if w >> 32 == register else w for w in image.dma_words)
    return replace(
        image, layouts=layouts, registers=(*cleared, (register, place(0)), *image.registers), dma_words=words
    )


def offsets(layout: Layout) -> list[list[int]]:
    """By axis and position, bytes from the tensor's first: an element lies at the sum over its axes."""
    found = [np.zeros(n, np.int64) for n in layout.shape]
    for (axis, step, count), stride in zip(layout.parts, layout.strides, strict=True):
        found[axis] += np.arange(layout.shape[axis]) // step % count * stride
    return [[int(x) for x in axis] for axis in found]


class _Tables:
    """Words that the C program reads, and where each group begins."""

    def __init__(self) -> None:
        self.words: list[npt.NDArray[np.uint32]] = []
        self.size = 0

    def add(self, values: Sequence[int] | npt.NDArray[np.int64]) -> int:
        part = (np.asarray(values, np.int64) & 0xFFFFFFFF).astype("<u4")
        self.words.append(part)
        self.size += len(part)
        return self.size - len(part)

    def add_floats(self, values: FloatArray) -> int:
        return self.add(np.asarray(values, "<f4").view("<u4").astype(np.int64))

    def to_bytes(self) -> bytes:
        return b"".join(x.tobytes() for x in self.words)


class _Writer:
    """Images and the C tables of a program."""

    def __init__(self, program: HostProgram) -> None:
        self.program = program
        self.tables, self.settings = _Tables(), _Tables()
        self.words: list[int] = []
        self.rows: list[str] = []
        network = program.network
        steps = () if network is None else network.steps
        self.convolutions = [s for s in steps if isinstance(s, Convolution)]
        for number, launch in enumerate(program.launches):
            self.rows.append(self._launch(launch, self.convolutions[number] if network is not None else None))
        self.number = {s.made.name: i for i, s in enumerate(steps)}

    def _launch(self, launch: Launch, step: Convolution | None) -> str:
        image = moved(launch.job.image, self.program.netlist.registers, launch.bases)
        layouts = image.layouts
        regions = [x for port in PORTS for x in (layouts[port].base, layouts[port].base + layouts[port].size_bytes)]
        fields = {
            "settings_at": self.settings.size // 2,
            "settings": len(image.registers),
            "words_at": len(self.words),
            "array_words": len(image.array_words),
            "dma_words": len(image.dma_words),
            "regions_at": self.tables.add(regions),
            "cycles": launch.job.predicted_cycles,
        }
        self.settings.add(np.array(image.registers, np.int64).ravel())
        self.words += [*image.array_words, *image.dma_words]
        operand = "{0, 0, 0}"
        if step is not None:
            by_tensor = {x.tensor: x for x in layouts.values()}
            tables = {name: self._places(by_tensor[name]) for name in ("I", "O")}
            fields |= {"operand_at": tables["I"], "result_at": tables["O"], "bias_at": self.tables.add(step.bias)}
            fields["scale_at"] = self.tables.add_floats(step.scale)
            operand = "{" + ", ".join(map(str, step.operand_shape)) + "}"
        numbers = ", ".join(f".{k} = {v}" for k, v in fields.items())
        return f"  {{.name = {c_text(launch.name)}, .operand = {operand}, {numbers}}},\n"

    def _places(self, layout: Layout) -> int:
        """Where elements lie, axis by axis; the first axis counts from the memory's first byte."""
        by_axis = offsets(layout)
        by_axis[0] = [x + layout.base for x in by_axis[0]]
        return self.tables.add(list(itertools.chain.from_iterable(by_axis)))

    def steps(self) -> list[str]:
        """The rows of the table of steps."""
        network = self.program.network
        if network is None:
            return ["  {.kind = STEP_LAUNCH_ALONE, .launch = 0},\n"]
        found, launch = [], 0
        for i, step in enumerate(network.steps):
            given = self.number.get(step.given.name, 0)
            row = f".given = {given}, .made = {i}"
            match step:
                case Quantise():
                    kind = "QUANTISE"
                case Addition():
                    kind, row = "ADD", f"{row}, .other = {self.number[step.other.name]}"
                case Maximum():
                    kind = "MAXIMUM"
                    row += f", .kernel = {_list(step.kernel)}, .strides = {_list(step.strides)}, .pads = {_list(step.pads)}"
                case Convolution():
                    kind = "LAUNCH"
                    row += f", .launch = {launch}, .pads = {_list(step.pads)}, .shift = {step.shift}"
                    launch += 1
            found.append(f"  {{.kind = STEP_{kind}, {row}}},\n")
        return found

    def values(self) -> list[str]:
        """The rows of the table of pictures."""
        network = self.program.network
        return ["  {0, 0, 0, 0, 0, 0, 0}\n"] if network is None else [_value(s.made) for s in network.steps]

    @property
    def input_elements(self) -> int:
        """Numbers in the network's picture."""
        return 0 if self.program.network is None else int(np.prod(self.program.network.given.shape))

    def header(self) -> str:
        """`program.h`."""
        steps, values = self.steps(), self.values()
        return (
            "/* The steps of a network, made by codesign. Fields named *_at count 32-bit words of tables.bin, pairs of settings.bin, words of words.bin. */\n"
            "#ifndef PROGRAM_H\n#define PROGRAM_H\n#include <stdint.h>\n\n"
            f"#define DRAM_BYTES {self.program.dram_bytes}ull\n#define INPUT_ELEMENTS {self.input_elements}u\n"
            f"#define VALUES {len(values)}\n#define STEPS {len(steps)}\n\n"
            "struct value { int channels, rows, columns; int32_t zero, low, high; float scale; };\n"
            "enum step_kind { STEP_QUANTISE, STEP_ADD, STEP_MAXIMUM, STEP_LAUNCH, STEP_LAUNCH_ALONE };\n"
            "struct step { enum step_kind kind; int given, other, made, launch, shift, kernel[2], strides[2], pads[4]; };\n"
            "struct launch {\n  const char *name;\n  uint32_t operand[3], operand_at, result_at, bias_at, scale_at, settings_at, settings, words_at, array_words, dma_words, regions_at;\n"
            "  uint64_t cycles; /* predicted */\n};\n\n"
            f"static const struct value values[VALUES] = {{\n{''.join(values)}}};\n\n"
            f"static const struct launch launches[] = {{\n{''.join(self.rows)}}};\n\n"
            f"static const struct step steps[STEPS] = {{\n{''.join(steps)}}};\n#endif\n"
        )


def _list(values: Sequence[int]) -> str:
    return "{" + ", ".join(map(str, values)) + "}"


def c_text(name: str) -> str:
    """A name as a string of C; what might end it or begin an escape becomes an underscore."""
    plain = "".join(c if c.isprintable() and c.isascii() and c not in '"\\?' else "_" for c in name)
    return f'"{plain}"'


def _value(v: HostValue) -> str:
    q = v.integers
    scale = float(q.scale).hex()
    return f"  {{{', '.join(map(str, (*v.shape, q.zero, q.low, q.high)))}, {scale}f}}, /* {c_text(v.name)[1:-1].replace('*/', '')} */\n"


def register_header(name: str, netlist: Netlist) -> str:
    """A C header of the machine's registers, tables, faults and instruction words."""
    prefix = name.upper()
    lines = [f"#define {prefix}_{k.upper()} {a:#06x} /* {bits} bits */" for k, (a, bits) in netlist.registers.items()]
    tables = ("WINDOWS_A", "WINDOWS_B", "EMIT_AT", "EMIT_WHO", "PE_A", "PE_B", "PE_HEAD", "COLUMN", "ROW")
    lines += [f"#define {prefix}_TABLE_{k} {getattr(words, k):#06x}" for k in tables]
    lines.append(f"#define {prefix}_ELEMENT(row, column) ((row) << {words.PE_COLUMN_BITS} | (column))")
    lines += [f"#define {prefix}_FAULT_{f.name} {f.value}" for f in words.Fault]
    lines += [f"#define {prefix}_OPCODE_{o.name} {o.value}" for o in words.Opcode]
    return f"/* Registers of {name}, made by codesign. */\n#ifndef {prefix}_REGISTERS_H\n#define {prefix}_REGISTERS_H\n{chr(10).join(lines)}\n#endif\n"


def write_host(folder: Path, program: HostProgram) -> tuple[str, ...]:
    """Write the host's sources and images into a folder, which is made if it is not there; returns their names."""
    folder.mkdir(parents=True, exist_ok=True)
    made = _Writer(program)
    texts = {
        "program.h": made.header(),
        "registers.h": register_header(program.parameters.name, program.netlist),
        **{name: data_text(name) for name in ("bench.hpp", "machine.h", *HOST_SOURCES)},
    }
    for name, text in texts.items():
        write_atomic(folder / name, text)
    images = {
        "dram.bin": program.dram,
        "settings.bin": made.settings.to_bytes(),
        "words.bin": np.array(made.words, "<u8").tobytes(),
        "tables.bin": made.tables.to_bytes(),
    }
    for name, data in images.items():
        (folder / name).write_bytes(data)
    return (*texts, *images)


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
        folder: See `write_host`.
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
