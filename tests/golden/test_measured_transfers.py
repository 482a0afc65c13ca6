"""Reads measured on a Wormhole chip beside flows on its torus; rules F1 to F4."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codesign.core.errors import UserError
from codesign.core.files import read_structured
from experiments.models.flows import run_flows
from experiments.validation.tt_npe import compare_tt_npe, flows_of, predict
from experiments.validation.tt_npe_traces import Read, Torus, Trace, read_traces

DATA = Path(__file__).parents[1] / "data" / "measured" / "tt_npe"
TORUS = Torus(read_structured(DATA / "topology.json"))


def test_the_error_is_the_stated_one() -> None:
    found = compare_tt_npe(DATA, False).summary()
    assert found["rows"] == 3
    assert found["median_error"] == pytest.approx(0.0322, abs=1e-3)
    assert found["worst_error"] == pytest.approx(0.130, abs=1e-3)
    assert found["issues_given_worst_error"] < 0.08


def test_routes_wrap_in_one_direction() -> None:
    def at(network: int, x: int, y: int, what: int) -> int:
        return TORUS.resource(network, x, y, what)

    east = TORUS.route(Read((1, 2), 0, (8, 1), 64, 0.0))
    assert east == [at(0, 8, 1, 2), at(0, 8, 1, 0), at(0, 9, 1, 0), at(0, 0, 1, 0), at(0, 1, 1, 1), at(0, 1, 2, 3)]
    north = TORUS.route(Read((8, 11), 1, (9, 1), 64, 0.0))
    assert north == [at(1, 9, 1, 2), at(1, 9, 1, 1), at(1, 9, 0, 1), at(1, 9, 11, 0), at(1, 8, 11, 3)]
    assert len(TORUS.route(Read((3, 3), 0, (3, 3), 64, 0.0))) == 2


def test_no_prediction_is_below_the_busiest_resource() -> None:
    for trace in read_traces(DATA):
        for replayed in (False, True):
            found = predict(trace, TORUS, replayed)
            assert found.cycles >= found.busiest


def test_one_read_alone_takes_its_latency_and_its_bytes() -> None:
    one = Trace("one", "dram_to_l1", [[Read((1, 1), 0, (0, 1), 2048, 100.0)]], [[]])
    arrived = run_flows(flows_of(one, TORUS, False)).arrived
    assert arrived.tolist() == pytest.approx([100.0 + 170 + 2048 / 23.2])


def test_order_alone_issues_reads_a_gap_apart_and_behind_barriers() -> None:
    (trace,) = [t for t in read_traces(DATA) if t.name == "DRAM_TO_1x8_BLOCK"]
    times = run_flows(flows_of(trace, TORUS, False))
    assert np.diff(times.issued[: len(trace.reads[0])]).tolist() == pytest.approx([124.0] * 15)
    start = trace.reads[0][0].issue
    held = replace(trace, barriers=[[replace(trace.barriers[0][0], start=start + 1)], *trace.barriers[1:]])
    later = run_flows(flows_of(held, TORUS, False))
    assert later.issued[1] >= later.arrived[0]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "topology.json").write_text((DATA / "topology.json").read_text())
    with pytest.raises(UserError, match="cannot read the recorded rows"):
        compare_tt_npe(tmp_path, False)
