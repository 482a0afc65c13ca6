"""The evaluator in reference mode against every recorded number of the published SoMa program."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codesign.scheduling.soma.evaluator import Invalid, Problem, Schedule, TensorKind, evaluate
from codesign.scheduling.soma.kernels.tile_cost import N_COST, tile_cost
from codesign.scheduling.soma.model.hardware import EDGE, PRESETS, SomaHardware, hardware_from_constants
from codesign.scheduling.soma.model.layer_graph import LayerGraph
from codesign.scheduling.soma.model.load import load_graph
from codesign.scheduling.soma.model.notation import DramScheme, Encoding, encoding_from_json
from codesign.scheduling.soma.model.rules import REFERENCE
from codesign.scheduling.soma.search.fusion_bound import fusion_bound
from tests.reference_data import REFERENCE as DATA_SET
from tests.reference_data import lacks, needs_data, supporting_files

DATA = DATA_SET / "soma"


def _read(path: Path) -> Any:
    return json.loads(path.read_text())


def _files(folder: str, pattern: str) -> list[Path]:
    return sorted((DATA / folder).glob(pattern))


@cache
def _graphs() -> dict[int, LayerGraph]:
    return {
        _read(path)["config"]["net_id"]: load_graph(str(path)).graph
        for path in supporting_files("soma/networks", "*.json")
    }


def _problem(document: dict[str, Any]) -> Problem:
    config = document["config"]
    hardware = hardware_from_constants(document["constants"], "recorded")
    return Problem(_graphs()[config["net_id"]], config["batch"], hardware, REFERENCE, config["gbuf_bytes"])


def _compare(problem: Problem, encoding: Encoding, want: dict[str, Any]) -> None:
    got = evaluate(problem, encoding)
    if isinstance(got, Invalid):
        assert got.status.value == want["status"], got.reason
        return
    assert want["status"] == "SUCCESS"
    assert got.latency_cycles == want["real"]["time_cycles"]
    assert got.energy_pj == pytest.approx(want["real"]["energy_pJ"], rel=1e-6)
    assert got.parsed.bound_cycles == want["ideal"]["time_cycles"]
    assert got.parsed.compute_cycles == want["ideal"]["breakdown"]["ideal_comp"]
    assert got.parsed.channel_cycles == want["ideal"]["breakdown"]["ideal_dram"]
    assert got.peak_buffer_bytes == want["max_buffer_usage"]
    assert got.parsed.dram_bytes == want["dram_bytes"]
    assert len(got.parsed.tile_layer) == want["num_tiles"]
    assert len(got.parsed.dram_ids) == want["num_dram_tensors"]
    if "utilization_pct" in want:
        assert 100 * got.utilisation == pytest.approx(want["utilization_pct"], rel=1e-9)
    _compare_layers(got, want.get("per_layer", []))
    if "tensors" in want:
        _compare_timeline(got, want)


def _compare_layers(got: Schedule, want: list[dict[str, Any]]) -> None:
    for entry, row in zip(got.parsed.layers, want, strict=False):
        mine = (
            entry.layer,
            entry.group,
            entry.fine_group,
            entry.tiles,
            list(entry.shape),
            entry.first,
            entry.last,
            entry.cycles,
        )
        theirs = tuple(
            row[k] for k in ("layer", "lg", "flg", "tiles", "tile_BCHW", "first_pos", "last_pos", "tile_time")
        )
        assert mine == theirs
        parts = (entry.energy_pj, entry.gbuf_pj, entry.local_pj, entry.bus_pj, entry.op_pj)
        assert parts == pytest.approx([row[k] for k in ("tile_energy", "e_gbuf", "e_l1", "e_bus", "e_mac")], rel=1e-6)


def _compare_timeline(got: Schedule, want: dict[str, Any]) -> None:
    rows = got.parsed.tensors
    mine = [
        [TensorKind(row[0]).name, *row[1:5].tolist(), start, end]
        for row, start, end in zip(rows, got.start.tolist(), got.end.tolist(), strict=True)
    ]
    keys = ("type", "layer", "tile", "source", "bytes", "start", "end")
    assert mine == [[tensor[k] for k in keys] for tensor in want["tensors"]]
    assert got.order.tolist() == want["dram_order"]
    tiles = np.stack([got.tile_start, got.parsed.tile_layer, got.parsed.tile_index, got.parsed.tile_cycles], axis=1)
    assert tiles.tolist() == want["comp_timeline_start_layer_tile_dur"]
    assert [[int(got.transfer_start[t]), int(t)] for t in got.order] == want["dram_timeline_start_tensor"]


@pytest.mark.parametrize("path", _files("eval", "tilecosts_*.json"), ids=lambda p: p.stem)
def test_every_tile_cost_is_reproduced(path: Path) -> None:
    document = _read(path)
    problem = _problem(document)
    ints, reals, out = problem.hardware.integers(), problem.hardware.reals(), np.zeros(N_COST)
    for row in document["tile_costs"]:
        tile_cost(problem.graph.table[row["layer"]], *row["tile_BCHW"], ints, reals, REFERENCE.flags, out)
        assert out[0] == row["time"], row
        assert out[1:6].tolist() == pytest.approx(
            [row[k] for k in ("energy", "e_gbuf", "e_l1", "e_bus", "e_mac")], rel=1e-6
        )


@pytest.mark.parametrize("path", _files("eval", "toy_*.json"), ids=lambda p: p.stem)
def test_every_hand_made_encoding_is_reproduced(path: Path) -> None:
    document = _read(path)
    problem = _problem(document)
    inputs = {item["name"]: item for item in document["results"]}
    edited = path.with_name("in_" + path.stem.removeprefix("toy_").replace("_b1_", "_").replace("_b4_", "_") + ".json")
    if edited.exists():
        inputs = {item["name"]: item for item in _read(edited)}
    for want in document["results"]:
        encoding = encoding_from_json(inputs[want["name"]], problem.graph, path.name)
        _compare(problem, encoding, want)


@pytest.mark.parametrize("path", _files("runs", "*.json"), ids=lambda p: p.stem)
def test_no_recorded_schedule_is_below_the_bound_of_all_fusions(path: Path) -> None:
    document = _read(path)
    bound = fusion_bound(_problem(document))
    stages = [document[s] for s in ("initial", "stage1", "stage2", "cocco_reconstruction") if s in document]
    found = [s for s in stages if "real" in s and s.get("status", "SUCCESS") == "SUCCESS"]
    assert found
    for want in found:
        assert want["real"]["time_cycles"] >= bound.latency_cycles
        assert want["real"]["energy_pJ"] >= bound.energy_pj * (1 - 1e-6)
        assert want["dram_bytes"]["total"] >= bound.dram_bytes


@pytest.mark.parametrize("path", _files("runs", "*.json"), ids=lambda p: p.stem)
def test_every_recorded_schedule_is_reproduced(path: Path) -> None:
    document = _read(path)
    problem = _problem(document)
    compared = 0
    for stage in ("initial", "stage1", "cocco_reconstruction"):
        if stage in document:
            _compare(problem, encoding_from_json(document[stage], problem.graph, path.name), document[stage])
            compared += 1
    want = document.get("stage2", {})
    if "tensors" in want:
        fusion = encoding_from_json(document["stage1"], problem.graph, path.name).fusion
        lives = tuple((t["tensor"], t["start"], t["end"]) for t in want["tensors"])
        _compare(problem, Encoding(fusion, DramScheme(tuple(want["dram_order"]), lives)), want)
        compared += 1
    assert compared


def _orig_hardware(config: dict[str, Any]) -> SomaHardware:
    row = config["Hardware"]
    preset = next(h for h in PRESETS.values() if h.vector_lanes * h.kernel_lanes == row["PE_MAC_NUM"])
    sized = preset.with_buffer(row["L2_BUFFER_SIZE"])
    return replace(sized, pe_dim=row["PE_ARRAY_X"], dram_bytes_per_cycle=row["DRAM_BW"])


@pytest.mark.parametrize("path", _files("orig", "*.json"), ids=lambda p: p.stem)
def test_every_complete_run_is_reproduced(path: Path) -> None:
    document = _read(path)
    graph = _graphs()[int(path.stem.split("_")[0])]
    config = document["Config"]
    problem = Problem(graph, config["Network"]["batch_size"], _orig_hardware(config), REFERENCE)
    for segment in document["Results"]:
        fusion = encoding_from_json(segment["stage1"]["enc"], graph, path.name).fusion
        stage2 = segment["stage2"]
        lives = tuple((t, start, end) for t, (start, end) in enumerate(stage2["enc"]["tensor_times"]))
        schemes = {"stage1": DramScheme(), "stage2": DramScheme(tuple(stage2["enc"]["tile_tensor_order"]), lives)}
        for stage, dram in schemes.items():
            got = evaluate(problem, Encoding(fusion, dram))
            assert isinstance(got, Schedule)
            assert got.latency_cycles == segment[stage]["real_cost"]["time"]
            assert got.energy_pj == pytest.approx(segment[stage]["real_cost"]["energy"], rel=1e-6)
            assert got.peak_buffer_bytes == segment[stage]["max_buffer_usage"]


@pytest.mark.parametrize("name", ["edge", "cloud"])
def test_presets_hold_the_published_constants(name: str) -> None:
    path = DATA / "constants.json"
    if not path.exists():
        lacks(str(path))
    want = hardware_from_constants(_read(path)[name], f"soma-{name}")
    assert PRESETS[f"soma-{name}"] == want
    assert EDGE.gbuf.read_pj_per_byte == pytest.approx(0.217125 * 8 * 0.6 * 1.1**4)


def test_there_are_recorded_numbers() -> None:
    needs_data("soma", [*_files("eval", "*.json"), *_files("runs", "*.json"), *_files("orig", "*.json")])
