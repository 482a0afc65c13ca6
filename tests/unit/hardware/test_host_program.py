"""A host's program in C runs networks on the simulated machine: its integers are ONNX Runtime's, its cycles the predicted ones."""

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from codesign.core.errors import UserError
from codesign.hardware.bench import HardwareError
from codesign.hardware.build import makefile
from codesign.hardware.constraints import clock_period_ns, sdc_text
from codesign.hardware.execute import wanted_result
from codesign.hardware.host_program import (
    HostProgram,
    c_text,
    moved,
    offsets,
    program_of_network,
    register_header,
    run_host,
    write_host,
)
from codesign.hardware.host_steps import convolve_exactly
from codesign.hardware.network import read_network
from codesign.hardware.parameters import Parameters
from codesign.hardware.rtl.machine import register_map
from codesign.hardware.simulate import simulate_in_python
from codesign.hardware.synthesis import ModuleArea, Synthesis
from codesign.hardware.verilator import find_verilator
from codesign.library.build_jobs import target_of
from codesign.library.build_options import BuildOptions, Request
from tests.unit.cli.test_build import run
from tests.unit.hardware.test_machines import CONV, GEMM, nest_case

needs_verilator = pytest.mark.skipif(find_verilator() is None, reason="no Verilator or no C++ compiler")
SMALL = "pe_rows=4,pe_cols=4,links=systolic,scratchpad_kib=32,local_bytes=64,banks=2,burst_beats=4,bus_bits=64,dataflow=weight-stationary"


class Net:
    """A small network of every step: strides, padding, channels apart, scales by channel, maxima, a residual."""

    def __init__(self, seed: int, unsigned: bool = False) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.kind = np.uint8 if unsigned else np.int8
        self.tensor = TensorProto.UINT8 if unsigned else TensorProto.INT8

    def constant(self, name: str, value: Any, kind: type) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    def range(self, name: str) -> list[str]:
        zero = self.rng.integers(100, 140) - (0 if self.kind is np.uint8 else 128)
        scale = np.float32(self.rng.uniform(0.02, 0.05))
        return [self.constant(f"{name}.scale", scale, np.float32), self.constant(f"{name}.zero", zero, self.kind)]

    def conv(self, given: str, made: str, shape: tuple[int, ...], **more: Any) -> None:
        told = [given, f"{given}.scale", f"{given}.zero"]
        told += [
            self.constant(f"{made}.w", self.rng.integers(-63, 64, shape), np.int8),
            self.constant(f"{made}.ws", self.rng.uniform(0.001, 0.01, shape[0]), np.float32),
            self.constant(f"{made}.wz", np.zeros(shape[0]), np.int8),
        ]
        told += [*self.range(made), self.constant(f"{made}.b", self.rng.integers(-500, 500, shape[0]), np.int32)]
        self.nodes.append(helper.make_node("QLinearConv", told, [made], name=made, **more))

    def model(self) -> onnx.ModelProto:
        self.nodes.append(helper.make_node("QuantizeLinear", ["x", *self.range("q")], ["q"]))
        self.conv("q", "a", (6, 3, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1])
        self.nodes.append(helper.make_node("MaxPool", ["a"], ["m"], kernel_shape=[3, 3], pads=[1, 0, 1, 0], strides=[1, 1]))  # fmt: skip
        for part in ("scale", "zero"):
            known = next(numpy_helper.to_array(c) for c in self.constants if c.name == f"a.{part}")
            self.constant(f"m.{part}", known, known.dtype.type)
        self.conv("m", "d", (6, 1, 3, 3), group=6, pads=[1, 1, 1, 1])
        self.conv("m", "e", (6, 6, 1, 1))
        for x in ("d", "e"):
            self.nodes.append(helper.make_node("DequantizeLinear", [x, f"{x}.scale", f"{x}.zero"], [f"{x}f"]))
        self.nodes.append(helper.make_node("Add", ["df", "ef"], ["sum"], name="add"))
        self.nodes.append(helper.make_node("QuantizeLinear", ["sum", *self.range("s")], ["s"]))
        self.conv("s", "y", (5, 6, 2, 2))
        given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 11, 13])
        result = helper.make_tensor_value_info("y", self.tensor, None)
        graph = helper.make_graph(self.nodes, "small", [given], [result], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def runtime(model: onnx.ModelProto, picture: Any) -> Any:
    """ONNX Runtime's integers, node by node."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": picture[None]})[0][0]


@pytest.mark.parametrize(("seed", "unsigned"), [(0, False), (1, True), (2, False)])
def test_every_step_gives_the_integers_of_onnx_runtime(seed: int, unsigned: bool) -> None:
    model = Net(seed, unsigned).model()
    network = read_network(model)
    for picture in np.random.default_rng(seed).standard_normal((5, 3, 11, 13)).astype(np.float32):
        assert (network.run(picture, convolve_exactly) == runtime(model, picture)).all()


def test_offsets_by_axis_add_up_to_addresses() -> None:
    for layout in nest_case(CONV, 5).image.layouts.values():
        by_axis = offsets(layout)
        for at in np.ndindex(*layout.shape):
            assert layout.base + sum(by_axis[a][i] for a, i in enumerate(at)) == layout.address(at)


def test_a_launch_elsewhere_in_the_memory_gives_the_same_result() -> None:
    job = nest_case(GEMM, 3)
    registers = register_map(job.image.parameters)
    bases = {"A": 8192, "B": 512, "O": 4096}
    image = replace(moved(job.image, registers, bases), dram_bytes=16384)
    values = {t.name: np.random.default_rng(1).integers(-128, 128, t.shape(GEMM.sizes)) for t in GEMM.inputs}  # fmt: skip
    found = simulate_in_python(image, image.memory(values))
    assert (image.layouts["O"].unpack(found.memory) == wanted_result(job, values)).all()
    assert found.cycles == job.predicted_cycles


def program(tmp_path: Path, space: str, design: str, model: onnx.ModelProto) -> HostProgram:
    """A network on a machine, written."""
    network = read_network(model)
    request = Request((), BuildOptions(space=space, design=design, network="small", evaluations=20))
    target = target_of(request, next(s.computation for s in network.steps if hasattr(s, "computation")))
    found = program_of_network(network, target.netlist, target.parameters, target.plan)
    write_host(tmp_path, found)
    return found


def test_the_program_is_c(tmp_path: Path) -> None:
    made = program(tmp_path, "scratchpad", SMALL, Net(0).model())
    assert len(made.launches) == 4
    header = (tmp_path / "registers.h").read_text()
    address, bits = made.netlist.registers["read_patience"]
    assert f"#define ACCELERATOR_READ_PATIENCE {address:#06x} /* {bits} bits */" in header
    assert "#define ACCELERATOR_FAULT_SILENCE 3" in header
    weights = replace(made.launches[0].job.image.layouts["B"], base=made.launches[0].bases["B"])
    assert made.dram[weights.base : weights.base + weights.size_bytes] == weights.pack(made.network.steps[1].weights)  # type: ignore[union-attr]
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    told = [compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers", "-fsyntax-only", "network.c"]  # fmt: skip
    done = subprocess.run(told, cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr == "" and done.returncode == 0


def test_a_name_cannot_leave_its_text() -> None:
    assert c_text('a"\n?/ b') == '"a___/ b"'


@pytest.mark.slow("oracle")
@needs_verilator
@pytest.mark.parametrize(("space", "design"), [("scratchpad", SMALL), ("dotcore", "pe_rows=4,pe_cols=4")])
def test_a_network_runs_end_to_end(tmp_path: Path, space: str, design: str) -> None:
    model = Net(3).model()
    made = program(tmp_path, space, design, model)
    for picture in np.random.default_rng(4).standard_normal((2, 3, 11, 13)).astype(np.float32):
        found = run_host(tmp_path, made, picture, quick=True)
        assert (np.frombuffer(found.output, "<i4") == runtime(model, picture).ravel()).all()
        assert list(found.cycles) == [x.job.predicted_cycles for x in made.launches]


@pytest.mark.slow("oracle")
@needs_verilator
def test_a_launch_whose_memory_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = program(tmp_path, "scratchpad", SMALL, Net(0).model())
    picture = np.zeros((3, 11, 13), np.float32)
    for timing, message in (
        (
            "14 1 0 1 1 0",
            r"launch a: the machine stopped: read request 1 \(DRAM address 0x[0-9a-f]+\) was answered with",
        ),
        (
            "14 1 0 3 1 1",
            r"launch a: the machine stopped: write request 1 \(DRAM address 0x[0-9a-f]+\) was not answered",
        ),
        ("0 1 0 0 0 0", "MEMORY_TIMING wants six, nine or twelve numbers"),
    ):
        monkeypatch.setenv("MEMORY_TIMING", timing)
        with pytest.raises(HardwareError, match=message):
            run_host(tmp_path, made, picture, quick=True)


@pytest.mark.slow("oracle")
@needs_verilator
def test_a_layer_and_its_makefile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ["--space", "scratchpad", "--design", SMALL, "--layer", "gemm M=6 N=4 K=8", "--evaluations", "20", "--axi"]
    assert run(monkeypatch, *told, "--simulate", "--host-driver", "--format", "json", "--out", str(tmp_path)) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["host"]["integers_equal"] and document["simulation"]["bit_equal"]
    assert document["host"]["cycles"] == document["simulation"]["cycles"]
    assert "accelerator.sdc" in document["files"]
    from codesign.hardware.verilator import environment, find_linter

    command = find_linter()
    assert command is not None
    output = tmp_path / "host" / "output.bin"
    wanted = output.read_bytes()
    output.unlink()
    for once, target in (("1", "run-host"), ("1", "run"), ("0", "run")):
        make = ["make", f"ROWS_ONCE={once}", f"VERILATOR={command[0]}", target]
        done = subprocess.run(make, cwd=tmp_path, env=environment(), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
    assert output.read_bytes() == wanted


def test_rows_are_compiled_once_for_large_arrays() -> None:
    small = nest_case(GEMM, 3).image.parameters
    assert "ROWS_ONCE ?= 0" in makefile(small)
    assert "ROWS_ONCE ?= 1" in makefile(replace(small, rows=32, cols=32))


def parameters() -> Parameters:
    return nest_case(GEMM, 3).image.parameters


def test_the_clock_follows_from_the_longest_path() -> None:
    modules = (ModuleArea("machine_dma", 1, 90, 9, 900.0, 40), ModuleArea("machine_row", 4, 90, 9, 900.0, 12))
    text = sdc_text(parameters(), Synthesis(modules, 24.0, "yosys"))
    assert f"create_clock -name clk -period {clock_period_ns(40):.3f} [get_ports clk]" in text
    assert "40 cells on the longest path within one module (machine_dma)" in text and "osu018_stdcells.lib" in text
    assert clock_period_ns(40) == pytest.approx(0.368 + 40 * 0.1039, abs=1e-3)


def test_without_a_netlist_the_clock_is_the_spaces() -> None:
    assert "-period 1.000" in sdc_text(parameters(), None)
    assert "No netlist was made" in sdc_text(parameters(), None)


def test_queues_have_their_opcodes_in_the_header() -> None:
    job = nest_case(GEMM, 3)
    netlist = type("Registers", (), {"registers": register_map(job.image.parameters)})()
    assert "#define CORE_OPCODE_WAIT_STORES 4" in register_header("core", netlist)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda m: m.graph.node[-1].attribute.append(helper.make_attribute("dilations", [2, 2])),
            "a grouped or dilated",
        ),
        (
            lambda m: next(n for n in m.graph.node if n.op_type == "QLinearConv").attribute.append(
                helper.make_attribute("auto_pad", "SAME_UPPER")
            ),
            "QLinearConv must say its padding in numbers",
        ),
        (
            lambda m: m.graph.node[2].attribute.append(helper.make_attribute("ceil_mode", 1)),
            "MaxPool of other than plain",
        ),
        (lambda m: m.graph.node[7].input.__setitem__(0, "q"), "only dequantised pictures are added"),
        (lambda m: m.graph.node[1].input.__setitem__(0, "df"), "'df' is no picture of integers"),
        (lambda m: m.graph.output[0].__setattr__("name", "s"), "the last node must make the network's result"),
    ],
)
def test_what_is_not_handled_is_refused(change: Any, message: str) -> None:
    model = Net(0).model()
    change(model)
    with pytest.raises(UserError, match=message):
        read_network(model)


def test_a_layer_that_the_machine_does_not_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="matches nothing") as refused:
        program(tmp_path, "convcore", "", Net(0).model())
    assert str(refused.value.where).startswith("layer 'a'")


def test_what_is_no_network_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("hello")
    for name in ("text.onnx", "missing.onnx"):
        with pytest.raises(UserError, match="not an ONNX network"):
            read_network(tmp_path / name)
