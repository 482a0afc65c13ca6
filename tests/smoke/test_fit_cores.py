"""The constants of the tables are those that the fit finds again."""

import json
from pathlib import Path

import pytest

from experiments.fit_cores import main
from experiments.measure_gpu import main as measure
from tests.reference_data import KEPT_HERE


def test_a_missing_folder_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", "nowhere"]) == 2
    assert "expected latency.csv" in capsys.readouterr().err


def test_without_a_processor_nothing_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert measure(["--device", "H100", "--out", str(tmp_path)]) == 2
    assert "sees no graphics processor" in capsys.readouterr().err


@pytest.mark.slow("oracle")
def test_the_fit_stays_where_the_table_is(capsys: pytest.CaptureFixture[str]) -> None:
    from codesign.timing.cores.system import load_system

    assert main(["--data", str(KEPT_HERE / "measured" / "llmcompass"), "--smoke"]) == 0
    fitted = json.loads(capsys.readouterr().out)["fitted"]
    for name in ("matrix_share", "gelu_lane_operations"):
        assert fitted["a100"][name] == pytest.approx(load_system("a100").constant(name), rel=0.05)
