import json
from pathlib import Path

import pytest

from codesign.core.errors import UserError
from experiments.validation.__main__ import main
from experiments.validation.llmcompass import die_blocks
from tests.reference_data import KEPT_HERE


@pytest.mark.parametrize(
    ("name", "folder"), [("tileflow", "measured/tileflow"), ("noc", "noc"), ("llmcompass", "measured/llmcompass")]
)
def test_last_line_is_one_json_object(
    name: str, folder: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["--set", name, "--data", str(KEPT_HERE / folder), "--smoke", "--out", str(tmp_path)]) == 0
    line = capsys.readouterr().out.strip().splitlines()[-1]
    found = json.loads(line)
    assert found["set"] == name
    assert {"rows", "median_error", "mean_error", "p99_error", "worst_error", "constants"} <= set(found)
    assert (tmp_path / f"{name}.svg").read_text().startswith("<svg")
    assert len((tmp_path / f"{name}.csv").read_text().splitlines()) == found["rows"] + 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("row,M,N,K\n1,2,3,4\n", "column `tile_M` is missing"),
        (
            "row,M,N,K,tile_M,tile_N,tile_K,rtl_cycles\n0,64,64,64,16,16,much,99\n",
            "column `tile_K` must hold integers, got 'much'",
        ),
    ],
)
def test_bad_rows_are_refused(content: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "gemm_systolic16.csv").write_text(content)
    assert main(["--set", "tileflow", "--data", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err


def test_a_missing_folder_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--set", "noc", "--data", "nowhere"]) == 2
    assert "--data must be a folder, got 'nowhere'" in capsys.readouterr().err


def test_folders_of_other_sets_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "alexnet.csv").write_text(
        "layer,groups,batch,C_per_group,K_per_group,output_side,filter_side,stride,latency_ms\n"
        "conv3,2,4,256,192,13,3,1,21.8\n"
    )
    assert main(["--set", "eyeriss", "--data", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert found["rows"] == 1
    assert found["worst_error"] < 0.05


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (("matmul,A100", "matmul,A101"), "did you mean 'A100'"),
        (("matmul,A100", "matmull,A100"), "did you mean 'matmul'"),
        ((",64,12288,12288,,0.00019,", ",64,12288,12288,,soon,"), "column `measured_s` must hold numbers, got 'soon'"),
        ((",64,12288,12288,,0.00019,", ",64,12288,12288,,-1,"), "column `measured_s` must hold seconds > 0, got '-1'"),
        ((",64,12288,12288,", ",64,12288,0,"), "`k` must be >= 1, got 0 (matrix product"),
        ((",measured_s,", ",measured,"), "column `measured_s` is missing"),
    ],
)
def test_bad_latencies_are_refused(
    changed: tuple[str, str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = (KEPT_HERE / "measured" / "llmcompass" / "latency.csv").read_text()
    (tmp_path / "latency.csv").write_text(rows.replace(*changed, 1))
    assert main(["--set", "llmcompass", "--data", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err


def test_a_folder_without_latencies_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--set", "llmcompass", "--data", str(tmp_path)]) == 2
    assert "expected latency.csv or transformer_layer.csv" in capsys.readouterr().err


def test_blocks_of_measured_dies_are_compared(tmp_path: Path) -> None:
    path = tmp_path / "die_area.csv"
    rows = "GA100,Cores,400,440\nGA100,Memory PHY,58,60\nGA100,Global buffer,120,\nGA100,core: alu,,0.4\n"
    path.write_text("chip,block,measured_mm2,llmcompass_mm2\n" + rows)
    found = die_blocks(path)
    assert set(found) == {"GA100 Cores", "GA100 Global buffer"}
    cores = found["GA100 Cores"]
    assert cores["error"] == pytest.approx(cores["predicted_mm2"] / 400 - 1)
    assert cores["llmcompass_error"] == pytest.approx(0.1)
    assert found["GA100 Global buffer"]["llmcompass_error"] is None


def test_an_area_that_is_no_number_is_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "die_area.csv"
    path.write_text("chip,block,measured_mm2,llmcompass_mm2\nGA100,Cores,large,440\n")
    with pytest.raises(UserError, match="areas must be numbers, got 'large'"):
        die_blocks(path)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (("[", '{"chips": ['), "expected a list of chips"),
        (('"rows": 1024', '"rows": "many"'), "`rows` must be an integer, got 'many'"),
        (('"vdd": 0.8', '"vdd": -0.8'), "`volt` must be > 0, got -0.8"),
        (('"area_mm2": 1.9425', '"area_mm2": "big"'), "`area_mm2` must be a number > 0, got 'big'"),
    ],
)
def test_bad_chips_are_refused(
    changed: tuple[str, str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chips = json.loads((KEPT_HERE / "measured" / "imc" / "zigzag_imc_chips.json").read_text())
    text = json.dumps(chips[:1]).replace(*changed, 1)
    (tmp_path / "zigzag_imc_chips.json").write_text(text + ("}" if text.startswith("{") else ""))
    assert main(["--set", "imc", "--data", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err
