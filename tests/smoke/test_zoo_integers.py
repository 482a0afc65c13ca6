"""Networks of the zoo in integers: ONNX Runtime and the host's steps agree on them."""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from codesign.core.errors import UserError
from codesign.hardware.host_steps import Addition, Convolution, convolve_exactly
from codesign.hardware.network import read_network
from experiments import zoo_integers


def written(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, object]:
    monkeypatch.setattr(sys, "argv", ["zoo_integers", *options])
    zoo_integers.main()
    found: dict[str, object] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return found


def test_the_first_layers_of_mobilenet_are_those_of_onnx_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "network.onnx"
    told = ["--network", "mobilenet_v2", "--operators", "10", "--seed", "3", "--out", str(path)]
    assert written(monkeypatch, capsys, *told)["network"] == "mobilenet_v2"
    network = read_network(path)
    kinds = [type(s) for s in network.steps]
    assert kinds.count(Convolution) == 9 and kinds.count(Addition) == 1
    picture = np.random.default_rng(0).standard_normal(network.given.shape).astype(np.float32)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    wanted = session.run(None, {"image": picture[None]})[0][0]
    assert (network.run(picture, convolve_exactly) == wanted).all()
    assert len(np.unique(wanted)) > 50


def test_a_network_with_other_operators_is_refused(tmp_path: Path) -> None:
    config = zoo_integers.Config("squeezenet", None, 0, tmp_path / "x.onnx")
    with pytest.raises(UserError, match="has no form in integers here"):
        zoo_integers.integers_of(config)
