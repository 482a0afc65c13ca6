"""Every operator test model that the onnx package generates loads, or is refused with one clear message."""

import logging
import warnings
from pathlib import Path

import onnx
import pytest

from codesign.core.errors import UserError
from codesign.workloads.load import load_network


@pytest.mark.slow("oracle")
def test_no_operator_model_is_a_fault_of_ours(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        cases = [c for c in collect_testcases(None) if c.model is not None]
    caplog.set_level(logging.ERROR)
    loaded = 0
    for case in cases:
        file = tmp_path / "case.onnx"
        onnx.save(case.model, file)
        try:
            load_network(file)
            loaded += 1
        except UserError as error:
            assert "case.onnx" in str(error)
    assert len(cases) > 1000
    assert loaded > 0.8 * len(cases)
