"""A workload of an ONNX file with a free axis and a network of the zoo: each takes the options that are of its kind."""

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from codesign.core.errors import UserError
from codesign.evaluation.judges import load_workload
from codesign.evaluation.specification import WorkloadSpec
from spaces.scratchpad import SCRATCHPAD


@pytest.fixture
def free_axis(tmp_path: Path) -> str:
    """A matrix product whose rows are as many as `tokens`."""
    x, out = (
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", ("tokens", 16)), ("y", ("tokens", 8)))
    )
    weights = helper.make_tensor("w", TensorProto.FLOAT, (16, 8), [0.0] * 128)
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "free", [x], [out], [weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "free.onnx")
    return str(tmp_path / "free.onnx")


def test_free_axes_are_those_of_the_onnx_file(free_axis: str) -> None:
    mixed = load_workload(WorkloadSpec((free_axis, "alexnet"), dims={"tokens": 32}), SCRATCHPAD)
    assert [n.macs for n in mixed.networks] == [32 * 16 * 8, 724406816]


def test_tokens_in_the_cache_are_those_of_the_other(free_axis: str) -> None:
    spec = WorkloadSpec((free_axis, "gpt2-small-block"), dims={"tokens": 4}, phase="decode", past=64)
    apart = load_workload(WorkloadSpec(("gpt2-small-block",), phase="decode", past=64), SCRATCHPAD)
    assert load_workload(spec, SCRATCHPAD).networks[1].macs == apart.networks[0].macs


def test_options_that_no_network_takes_are_refused(free_axis: str) -> None:
    with pytest.raises(UserError, match="`dims` applies to ONNX files, not to a zoo network"):
        load_workload(WorkloadSpec(("alexnet", "vgg16"), dims={"tokens": 32}), SCRATCHPAD)
    with pytest.raises(UserError, match="`phase` applies to zoo networks"):
        load_workload(WorkloadSpec((free_axis,), phase="decode", dims={"tokens": 4}), SCRATCHPAD)
