"""A network run on samples: densities and masks are those of NumPy, whatever the layout; wrong samples are one message."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from codesign.arch.presets import load_preset
from codesign.core.errors import UserError
from codesign.core.goals import Budget
from codesign.evaluation.network import EvaluationOptions
from codesign.evaluation.real_masks import compare_masks
from codesign.evaluation.whole_network import NetworkResult, map_network
from codesign.mappers.registry import create
from codesign.workloads.density import Actual
from codesign.workloads.load import load_network
from codesign.workloads.network_zeros import NetworkZeros, with_zeros
from codesign.workloads.onnx.observed import ObservedTensor, observe
from codesign.workloads.zero_file import read_zeros, write_zeros

DIGITS = Path(__file__).parents[4] / "experiments" / "data"
RNG = np.random.default_rng(0)


def save(
    path: Path, nodes: list[onnx.NodeProto], given: list[int | str], constants: dict[str, npt.NDArray[np.float32]]
) -> Path:
    out = helper.make_empty_tensor_value_info(nodes[-1].output[0])
    picture = helper.make_tensor_value_info("x", TensorProto.FLOAT, given)
    kept = [numpy_helper.from_array(a, name) for name, a in constants.items()]
    graph = helper.make_graph(nodes, "g", [picture], [out], kept)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def sparse(*shape: int) -> npt.NDArray[np.float32]:
    values = RNG.normal(size=shape).astype(np.float32)
    return np.where(RNG.random(shape) < 0.4, values, 0).astype(np.float32)


def seen_of(path: Path, samples: npt.NDArray[np.float32]) -> dict[str, ObservedTensor]:
    network = load_network(path, batch=1)
    return {s.kind: s for s in observe(path, network, {"x": samples}, masks=True)}


def test_padding_counts_as_zeros_at_its_place(tmp_path: Path) -> None:
    weights, pictures = sparse(2, 3, 3, 3), sparse(4, 3, 5, 5)
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 0, 1, 2]), helper.make_node("Relu", ["c"], ["y"])]
    seen = seen_of(save(tmp_path / "m.onnx", nodes, ["n", 3, 5, 5], {"w": weights}), pictures)
    assert seen["input"].density == pytest.approx((pictures != 0).mean())
    assert seen["weight"].mask is not None and np.array_equal(seen["weight"].mask, weights != 0)
    mask = seen["input"].mask
    assert mask is not None and mask.shape == (1, 3, 7, 7)
    assert np.array_equal(mask[:, :, 1:6, :5], pictures[:1] != 0) and not mask[:, :, 0].any()
    assert seen["output"].density < 1  # after the rectifier


def test_groups_are_split_as_the_computation_splits_them(tmp_path: Path) -> None:
    weights, pictures = sparse(4, 2, 1, 1), sparse(1, 4, 3, 3)
    node = helper.make_node("Conv", ["x", "w"], ["y"], group=2)
    path = save(tmp_path / "m.onnx", [node], [1, 4, 3, 3], {"w": weights})
    seen = seen_of(path, pictures)
    for kind, values in (("input", pictures), ("weight", weights)):
        mask = seen[kind].mask
        assert mask is not None and np.array_equal(mask.ravel(), values.ravel() != 0)


@pytest.mark.parametrize("transposed", [0, 1])
def test_a_product_of_matrices_has_the_mask_of_its_own_axes(tmp_path: Path, transposed: int) -> None:
    weights, rows = sparse(*((3, 4) if transposed else (4, 3))), sparse(2, 4)
    node = helper.make_node("Gemm", ["x", "w"], ["y"], transB=transposed)
    path = save(tmp_path / "m.onnx", [node], ["n", 4], {"w": weights})
    seen = seen_of(path, rows)
    network = load_network(path, batch=1)
    computation = network.operators[0].computation
    assert computation is not None
    tensor = computation.tensors[1]
    extents = tensor.shape(computation.sizes)
    mask = seen["weight"].mask
    assert mask is not None and mask.shape == extents
    assert mask.sum() == (weights != 0).sum()


def test_the_zero_of_a_quantised_tensor_is_its_zero_point() -> None:
    pictures = np.zeros((2, 1, 16, 16), np.float32)
    pictures[:, :, :4] = 1.0
    path = DIGITS / "digits_int8.onnx"
    found = observe(path, load_network(path, batch=1), {"picture": pictures}, masks=False)
    assert found[0].kind == "input" and found[0].density == pytest.approx(0.25)


def test_samples_run_in_the_batches_that_a_file_fixes(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [helper.make_node("Gemm", ["x", "w"], ["y"])], [1, 4], {"w": sparse(4, 3)})
    rows = np.zeros((4, 4), np.float32)
    rows[:2] = 1.0
    seen = seen_of(path, rows)
    assert (seen["input"].density, seen["input"].least, seen["input"].most) == (0.5, 0.0, 1.0)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ({"picture": np.zeros((2, 1, 8, 8), np.float32)}, "takes samples of n x 1 x 16 x 16, got 2 x 1 x 8 x 8"),
        ({"picture": np.zeros((0, 1, 16, 16), np.float32)}, "got 0 x 1 x 16 x 16"),
        ({"a": np.zeros(2), "b": np.zeros(2)}, "unknown input"),
        ({}, "no samples for input 'picture'"),
        ({"picture": np.full((1, 1, 16, 16), np.nan, np.float32)}, "has 256 values that are no finite numbers"),
        ({"picture": np.full((1, 1, 16, 16), "a")}, "takes numbers, got <U1"),
    ],
)
def test_samples_that_do_not_fit_are_one_message(samples: dict[str, npt.NDArray[Any]], message: str) -> None:
    path = DIGITS / "digits.onnx"
    with pytest.raises(UserError, match=message):
        observe(path, load_network(path, batch=1), samples, masks=False)


def recorded(tmp_path: Path) -> Path:
    pictures = (RNG.random((3, 1, 16, 16)) < 0.3).astype(np.float32)
    path = DIGITS / "digits.onnx"
    seen = observe(path, load_network(path, batch=1), {"picture": pictures}, masks=True)
    write_zeros(tmp_path / "zeros.json", "digits", 3, seen)
    return tmp_path / "zeros.json"


def test_a_file_gives_densities_and_masks_to_a_network(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    zeros, network = NetworkZeros.parse(str(path)), load_network(DIGITS / "digits.onnx", batch=1)
    assert zeros.has_masks and zeros.kinds == ("weight", "input", "output")
    entry = read_zeros(path)[0]
    computation = with_zeros(network, zeros).operator_by_name["conv0"].computation
    assert computation is not None
    shape = computation.tensors[0].shape(computation.sizes)
    assert computation.tensors[0].density.fraction(shape) == pytest.approx(entry.density, abs=1 / 256)
    masked = with_zeros(network, zeros, masks=True).operator_by_name["conv0"].computation
    assert masked is not None and isinstance(masked.tensors[0].density, Actual)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"density": 1.2}, "a density must be a number from 0 to 1, got 1.2"),
        ({"tensor": "nothing"}, "named 'nothing'"),
        ({"operator": "conv9"}, "no matrix operator called 'conv9'"),
        ({"kind": "bias"}, "`kind` must be weight, input, output, got 'bias'"),
        ({"mask": "zeros.masks/none.npy"}, "cannot be read"),
        ({"mask": "zeros.masks/1.npy"}, "has shape"),
        ({"densty": 1}, "densty"),
    ],
)
def test_a_wrong_file_is_one_message(tmp_path: Path, change: dict[str, object], message: str) -> None:
    path = recorded(tmp_path)
    document = json.loads(path.read_text("utf-8"))
    document["zeros"]["operands"][0] |= change
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(UserError, match=message):
        with_zeros(load_network(DIGITS / "digits.onnx", batch=1), NetworkZeros.parse(str(path)), masks=True)


def test_real_masks_are_costed_beside_zeros_spread_evenly(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    zeros = NetworkZeros.parse(str(path))
    network = with_zeros(load_network(DIGITS / "digits.onnx", batch=1, bits=16), zeros)
    options = EvaluationOptions(budget=Budget(evaluations=50))
    result = map_network(network, load_preset("eyeriss"), create("anneal"), options)
    assert isinstance(result, NetworkResult)
    report = compare_masks(result, zeros)
    assert [x.name for x in report.layers] == ["conv0", "conv1", "conv2", "conv3"] and not report.failed
    for layer in report.layers:  # this machine knows no zeros, so it does not matter where they are
        assert layer.energy_error == 0
    assert report.to_json()["uniform_energy_error"] == 0
