"""The constants of the tables are those that the fit finds again."""

import json

import pytest

from experiments.fit_cores import main
from tests.reference_data import KEPT_HERE


def test_a_missing_folder_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", "nowhere"]) == 2
    assert "expected latency.csv" in capsys.readouterr().err


@pytest.mark.slow("oracle")
def test_the_fit_stays_where_the_table_is(capsys: pytest.CaptureFixture[str]) -> None:
    from codesign.timing.cores.system import load_system

    assert main(["--data", str(KEPT_HERE / "measured" / "llmcompass"), "--smoke"]) == 0
    fitted = json.loads(capsys.readouterr().out)["fitted"]
    for name in ("matrix_share", "gelu_lane_operations"):
        assert fitted["a100"][name] == pytest.approx(load_system("a100").constant(name), rel=0.05)
