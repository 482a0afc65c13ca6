"""ResNet-50 beside Gemmini on equal area: two recorded layers on a named design, and a search of four designs."""

import csv
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from codesign.core.errors import UserError
from codesign.workloads.load import load_network
from experiments import equal_area
from spaces.parameters import Categorical, Ordinal
from spaces.space import Space

DATA = Path(__file__).parents[1] / "data" / "dosa"
DESIGN = "pe_rows=16,pe_cols=16,links=multicast,scratchpad_kib=64,local_bytes=4,banks=8,burst_beats=16,bus_bits=128,dataflow=weight-stationary"
HARDWARE = ["--data", str(DATA), "--accumulator-bytes", "32768", "--scratchpad-bytes", "130048"]


def test_every_layer_of_the_network_counts_as_often_as_it_stands_there() -> None:
    counts = equal_area.counts_of(load_network("resnet50"))
    assert len(counts) == 24 and sum(counts.values()) == 54


@pytest.mark.slow("oracle")
def test_the_line_adds_up_the_layers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["equal_area", *HARDWARE, "--design", DESIGN, "--candidates", "1", "--out", str(tmp_path)])  # fmt: skip
    equal_area.main()
    line = json.loads(capsys.readouterr().out.splitlines()[-1])
    rows = list(csv.DictReader((tmp_path / "layers.csv").read_text().splitlines()))
    assert [int(r["count"]) for r in rows] == [1, 4]
    assert line["cycles"] == sum(int(r["cycles"]) * int(r["count"]) for r in rows) < line["given"]
    assert line["area_mm2"] != line["limit_mm2"] > 0


@pytest.mark.slow("oracle")
def test_the_search_keeps_the_area_and_says_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    fixed = {
        "links": "multicast",
        "scratchpad_kib": 64,
        "local_bytes": 16,
        "banks": 4,
        "burst_beats": 16,
        "bus_bits": 128,
    }
    sides = [Ordinal("pe_rows", [4, 8]), Ordinal("pe_cols", [4, 8])]
    others = [Categorical("links", ["multicast"]), *(Ordinal(n, [v]) for n, v in fixed.items() if n != "links")]
    small = Space([*sides, *others, Categorical("dataflow", ["weight-stationary"])])
    monkeypatch.setattr(equal_area, "SPACE", replace(equal_area.SPACE, space=small))
    config = equal_area.Config(DATA, 32768, 130048, None, 60.0, 1, False, 0, DATA)
    areas = [equal_area.SPACE.build(p).area_mm2 for p in small.to_points(small.enumerate())]
    limit = sorted(areas)[-2]  # all but the largest fit
    found = equal_area.search(load_network("alexnet").with_bits(8, 32), limit, config)
    assert found.fitting == 3 and 1 <= found.judged <= 3 and 0 <= found.gap < 1
    assert equal_area.SPACE.build(found.point).area_mm2 <= limit


def test_hardware_that_is_not_among_the_data_is_refused() -> None:
    config = equal_area.Config(DATA, 1, 1, None, 60.0, 1, False, 0, DATA)
    with pytest.raises(UserError, match="no rows with 1 and 1 bytes"):
        equal_area.rows_of(config)
