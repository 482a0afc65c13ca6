"""A quantised network on generated hardware: the host's integers are ONNX Runtime's, the machine's are `einsum`'s."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from codesign.core.errors import UserError
from codesign.core.goals import Budget, Objective
from codesign.hardware.execute import execute, nest_job
from codesign.hardware.nest_loops import parameters_of
from codesign.hardware.network import Quantisation, requantise, run_network
from codesign.hardware.verilator import VerilatedMachine, find_verilator
from codesign.mappers.registry import create
from codesign.mapping.constraints import MappingProblem
from codesign.tensorization.execute import affine_einsum
from codesign.workloads.computation import Computation
from spaces.scratchpad import SCRATCHPAD

MODEL = Path(__file__).parents[3] / "experiments" / "data" / "digits_int8.onnx"


def pictures(count: int) -> Any:
    return np.random.default_rng(0).random((count, 1, 16, 16)).astype(np.float32)


def runtime(picture: Any) -> Any:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(MODEL), providers=["CPUExecutionProvider"])
    return session.run(None, {"picture": picture})[0]


def by_einsum(name: str, computation: Computation, values: Any) -> Any:
    return affine_einsum(computation, values)


def test_the_integers_are_those_of_onnx_runtime() -> None:
    for picture in pictures(20):
        assert (run_network(MODEL, picture[None], by_einsum) == runtime(picture[None])).all()


def test_sums_are_rounded_to_even_and_saturated() -> None:
    result = Quantisation(np.float32(1), -128, -128, 127)
    sums = np.array([1, 3, 5, -7, 10_000])
    assert requantise(sums, np.float32(0.5), result).tolist() == [-128, -126, -126, -128, 127]


def test_another_operation_is_refused_by_name() -> None:
    model = onnx.load(str(MODEL))
    model.graph.node[1].CopyFrom(helper.make_node("Softmax", ["q"], ["c0"], name="last"))
    with pytest.raises(UserError, match="`Softmax` is not run on generated hardware"):
        run_network(model, pictures(1), by_einsum)


def test_a_grouped_convolution_is_refused() -> None:
    model = onnx.load(str(MODEL))
    model.graph.node[1].attribute.append(helper.make_attribute("group", 2))
    with pytest.raises(UserError, match="a grouped or dilated QLinearConv"):
        run_network(model, pictures(1), by_einsum)


@pytest.mark.slow("oracle")
@pytest.mark.skipif(find_verilator() is None, reason="needs Verilator and a C++ compiler")
def test_the_network_runs_on_a_machine_through_dram_images() -> None:
    design = SCRATCHPAD.space.presets[0] | {"pe_rows": 4, "pe_cols": 4, "scratchpad_kib": 32, "banks": 2}
    architecture = SCRATCHPAD.build(design)
    machines: dict[Any, VerilatedMachine] = {}

    def convolve(name: str, computation: Computation, values: Any) -> Any:
        problem, budget = MappingProblem(computation, architecture), Budget(evaluations=200)
        found = create("anneal").map(problem, Objective.EDP, budget=budget, seed=0)
        assert found.mapping is not None
        p = parameters_of(architecture, computation, 16, 256, "machine")
        if p not in machines:
            machines[p] = VerilatedMachine(p, quick=True)
        machine = machines[p]
        assert machine.netlist is not None
        job = nest_job(computation, architecture, found.mapping, p, machine.netlist.registers)
        verdict = execute(job, values, machine.run)
        assert verdict.wrong is None
        assert verdict.run.cycles == job.predicted_cycles
        return verdict.output

    picture = pictures(1)
    assert (run_network(MODEL, picture, convolve) == runtime(picture)).all()
