"""A job as a folder: Verilog, images, test bench, Makefile, README, block diagram."""

import json
from pathlib import Path

import numpy as np

from codesign.core.files import write_atomic
from codesign.hardware.constraints import sdc_text
from codesign.hardware.execute import Job, random_values
from codesign.hardware.memory_timing import LATENCY_CYCLES, MemoryTiming
from codesign.hardware.parameters import Control, Parameters
from codesign.hardware.synthesis import Synthesis
from codesign.hardware.verilator import LIMIT_CYCLES, ROWS_APART, bench_files, bench_flags, input_bytes
from codesign.hardware.verilog import Netlist, bench_top

PORT_TEXT = {
    "clk": "clock", "rst": "synchronous reset, high", "start": "one cycle high: begin", "busy": "high while at work",
    "cfg_we": "write a register", "cfg_addr": "its address, see registers.json", "cfg_data": "its value",
    "ar_valid": "read request", "ar_ready": "it is taken", "ar_addr": "first byte", "ar_beats": "beats of the burst",
    "r_valid": "a beat is there", "r_ready": "it is taken", "r_data": "the beat",
    "aw_valid": "write request", "aw_ready": "it is taken", "aw_addr": "first byte", "aw_beats": "beats of the burst",
    "w_valid": "a beat is there", "w_ready": "it is taken", "w_data": "the beat", "w_strb": "its valid bytes", "w_last": "it ends its burst",
    "ar_tag": "tag of the read request", "r_tag": "tag of the request that the beat answers", "r_error, w_error": "the memory failed (not with --axi)",
    "b_valid, b_ready": "response to a burst written (--axi only)", "aw_tag, b_tag": "tags of the write request and of the response (--axi --answers by_tag only)", "r_resp, b_resp": "RRESP and BRESP (--axi only)",
    "read_fault, write_fault": "why the machine stopped: 0 it did not, 1 an error, 2 an answer that no request awaits, 3 no answer in time, 4 DECERR (--axi only)",
    "reads_done, writes_done": "requests that are over; after a fault, the number of the one that failed (all ones: none had the answer's tag)",
    "aq_valid, aq_word, aq_ready": "instruction words of the array (queues only)",
    "dq_valid, dq_word, dq_ready": "instruction words of the DMA engines (queues only)", "ev_*": "events that the test bench counts",
}  # fmt: skip


def write_build(folder: Path, netlist: Netlist, job: Job, seed: int) -> tuple[str, ...]:
    """Write all files of a build; returns their names.

    Args:
        folder: Made if it is not there.
        netlist: Of the job's machine.
        job: What it runs.
        seed: Of the operands in the memory image.
    """
    image = job.image
    memory = image.memory(random_values(job.computation, np.random.default_rng(seed)))
    does = (
        f"It computes `{job.computation}` with bounds {job.computation.sizes}. "
        f"Expected: {job.predicted_cycles} cycles with a DRAM that answers after {LATENCY_CYCLES}.\n\n"
        "`make run` builds the simulation with Verilator and runs it on `input.bin`; `output.bin` is DRAM afterwards.\n"
        "`expected.json` says where tensors lie and what the cost model counts. A run begins with writes to all registers that `input.bin` lists, then `start`."
    )
    files = write_machine(folder, netlist, image.parameters, does)
    write_atomic(folder / "expected.json", json.dumps(_expected(job), indent=1) + "\n")
    (folder / "input.bin").write_bytes(input_bytes(image, memory, MemoryTiming(), LIMIT_CYCLES))
    (folder / "dram.bin").write_bytes(memory)
    return (*files, "expected.json", "input.bin", "dram.bin")


def write_machine(folder: Path, netlist: Netlist, p: Parameters, does: str) -> tuple[str, ...]:
    """Write what belongs to a machine whatever it runs; returns the names.

    Args:
        folder: Made if it is not there.
        netlist: Of the machine.
        p: Its parameters.
        does: What it is going to do, for the README.
    """
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        f"{p.name}.v": netlist.simulation,
        "bench.v": netlist.bench,
        "row.v": netlist.row,
        "around.v": netlist.around,
        "black_boxes.v": netlist.black_boxes,
        **bench_files(),
        "Makefile": makefile(p),
        "registers.json": json.dumps(netlist.registers, indent=1) + "\n",
        "README.md": _readme(p, netlist, does),
        "diagram.svg": diagram(p),
    }
    for name, text in texts.items():
        write_atomic(folder / name, text)
    return tuple(texts)


def write_constraints(folder: Path, p: Parameters, synthesis: Synthesis | None) -> str:
    """Write the SDC file; returns its name."""
    name = f"{p.name}.sdc"
    write_atomic(folder / name, sdc_text(p, synthesis))
    return name


def _expected(job: Job) -> dict[str, object]:
    return {
        "computation": f"{job.computation}",
        "bounds": job.computation.sizes,
        "cycles": job.predicted_cycles,
        "analytic_cycles": job.analytic_cycles,
        "layouts": {k: vars(v) for k, v in job.image.layouts.items()},
        "accesses": {f"{m} {t}": list(n) for (m, t), n in job.expected.items()},
    }


def makefile(p: Parameters) -> str:
    """A Makefile for Verilator: the machine, its rows once or all, with the test bench or with a host's program."""
    row, top = f"{p.name}_row", bench_top(p.name)
    flags = "--cc -O3 --x-assign fast --x-initial fast --no-assert -Wno-fatal -Wno-lint"
    once = int(p.pes >= ROWS_APART)
    return f"""# make run: build the simulation and run it; make host, make run-host: a host's program; make lint: check the Verilog.
VERILATOR ?= verilator
ROWS_ONCE ?= {once}

FLAGS = {flags}
PRECOMPILED = CFG_CXXFLAGS_PCH_I=-include CFG_LDLIBS_THREADS=-pthread
DEFINES = {" ".join(bench_flags(p))}
TOP = $(FLAGS) --exe --build --prefix Vtop --top-module {top} -CFLAGS "-std=c++17 -O2 $(DEFINES)" -MAKEFLAGS "$(PRECOMPILED)"

ifeq ($(ROWS_ONCE),1)
SOURCES = around.v bench.v row/{row}.sv
OBJECTS = row/lib{row}.a
else
SOURCES = {p.name}.v bench.v
endif

simulation: $(SOURCES) $(OBJECTS) testbench.cpp bench.hpp
	$(VERILATOR) $(TOP) -Mdir obj_dir -o ../simulation $(SOURCES) testbench.cpp $(addprefix ../,$(OBJECTS))

row/{row}.sv row/lib{row}.a: row.v
	$(VERILATOR) $(FLAGS) --build --prefix Vrow --top-module {row} --lib-create {row} -CFLAGS "-std=c++17 -O2" -MAKEFLAGS "$(PRECOMPILED)" -Mdir row row.v

host/network: $(SOURCES) $(OBJECTS) host/network.c host/simulated.cpp host/bench.hpp host/machine.h host/program.h
	$(CC) -std=c11 -O2 -ffp-contract=off -c host/network.c -o host/network.o
	$(VERILATOR) $(TOP) -Mdir host/obj_dir -o ../network $(SOURCES) host/simulated.cpp $(addprefix ../../,host/network.o $(OBJECTS))

host: host/network

run-host: host/network
	cd host && ./network . picture.bin output.bin

run: simulation
	./simulation input.bin output.bin

lint:
	$(VERILATOR) --lint-only -Wall --top-module {p.name} {p.name}.v

clean:
	rm -rf obj_dir row host/obj_dir host/network host/network.o simulation output.bin

.PHONY: run run-host host lint clean
.DEFAULT_GOAL := simulation
"""


def _readme(p: Parameters, netlist: Netlist, does: str) -> str:
    ports = "\n".join(f"| `{name}` | {text} |" for name, text in PORT_TEXT.items())
    memories = "\n".join(f"| `{k}` | {n} | {words} x {bits} bits |" for k, (words, bits, n) in netlist.shapes.items())
    registers = "\n".join(f"| `{k}` | {a} | {b} |" for k, (a, b) in netlist.registers.items())
    return f"""# {p.name}

{p.rows} x {p.cols} elements, links {p.links.value}, scratchpad of {p.lines * p.line_bytes} bytes in {p.banks} banks, {p.local_bytes} bytes in each element
for {", ".join(sorted(p.local)) or "nothing"}, bus of {p.bus_bytes} bytes, bursts of {p.burst_bytes}. Control: {p.control.value}.

{does}

`make lint` checks the Verilog. `make ROWS_ONCE=1` compiles one row of elements for all rows (`row.v`, `around.v`): large arrays compile sooner and run slower.
`make host` compiles the host's program in `host`, where there is one, and `make run-host` runs it on `host/picture.bin`.

| port | meaning |
|---|---|
{ports}

| memory | instances | shape |
|---|---|---|
{memories}

Addresses from 0x4000 on are tables: windows of A and B, emissions, elements (row << 6 | column), columns, rows.

| register | address | bits |
|---|---|---|
{registers}
"""


def diagram(p: Parameters) -> str:
    """Block diagram of a machine as SVG."""
    control = "loader and sequencer" if p.control is Control.NEST else "instruction queues"
    kept = f"{p.local_bytes} B for {', '.join(sorted(p.local))}" if p.local else "no local memory in use"
    boxes = [
        (20, 30, 150, 60, "DRAM", f"{p.bus_bytes} B a beat"),
        (210, 30, 150, 60, "DMA", f"bursts of {p.burst_bytes} B"),
        (400, 30, 190, 60, "scratchpad", f"{p.banks} banks, {p.lines * p.line_bytes // 1024} KiB"),
        (400, 140, 190, 60, "array controller", f"{p.run_loops} loops, {p.windows} windows"),
        (210, 140, 150, 60, "control", control),
        (400, 250, 190, 70, f"array {p.rows} x {p.cols}", f"links {p.links.value}; {kept}"),
        (630, 140, 150, 60, "collector", f"{p.slots} sums a line"),
    ]
    arrows = [(170, 60, 210, 60), (360, 60, 400, 60), (495, 90, 495, 140), (360, 170, 400, 170), (285, 140, 285, 90), (495, 200, 495, 250),
              (590, 285, 705, 200), (705, 140, 590, 75)]  # fmt: skip
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 340" font-family="sans-serif" font-size="13">',
        '<defs><marker id="a" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto-start-reverse"><path d="M0 0 8 4 0 8z"/></marker></defs>',
    ]
    for x, y, w, h, title, text in boxes:
        parts.append(f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="6" fill="#eef3f8" stroke="#345"/>')
        parts.append(f'<text x="{x + w / 2}" y="{y + 26}" text-anchor="middle" font-weight="bold">{title}</text>')
        parts.append(f'<text x="{x + w / 2}" y="{y + 45}" text-anchor="middle" font-size="10">{text}</text>')
    for k, (a, b, c, d) in enumerate(arrows):
        both = ' marker-start="url(#a)"' if k < 2 else ""  # data go both ways between DRAM and the scratchpad
        parts.append(f'<line x1="{a}" y1="{b}" x2="{c}" y2="{d}" stroke="#345"{both} marker-end="url(#a)"/>')
    return "\n".join([*parts, "</svg>", ""])
