"""What the report says: the recommended design, importance, breakdowns, infeasible trials, studies with less in them."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codesign.evaluation.replay import replay_layers
from codesign.report.design_data import layer_rows, roofline
from codesign.report.importance import effects
from codesign.report.recommend import knee_index, late_finds, recommendations
from codesign.report.study_page import report_data, write_report
from codesign.report.summary import point_text, time_shares
from codesign.study.mapping_front import Compromise, MappingFront, write_mapping_front
from codesign.study.study import Study
from codesign.testing.recomputed_cycles import busy_cycles, is_rounded_up
from spaces.scratchpad import SCRATCHPAD


def test_the_knee_is_the_point_nearest_to_the_ideal_one() -> None:
    values = np.array([[1.0, 1000.0], [3.0, 20.0], [10.0, 10.0], [1000.0, 1.0]])
    # decades above the best: (0, 3), (0.48, 1.30), (1, 1), (3, 0); the squares sum to 9, 1.92, 2, 9
    assert knee_index(values) == 1
    assert knee_index(values * np.array([1e-9, 1e6])) == 1  # units do not matter
    assert knee_index(np.array([[2.0, 5.0], [2.0, 5.0]])) == 0


def test_a_small_spread_weighs_little_beside_a_large_one() -> None:
    # 3 % of energy against a factor of 8 in latency: the fast design, whichever is in the middle
    assert knee_index(np.array([[1.0, 1.03], [3.0, 1.015], [8.0, 1.0]])) == 0
    # equal factors weigh the same, in whatever objective
    assert knee_index(np.array([[1.0, 8.0], [2.0, 2.0], [8.0, 1.0]])) == 1


def made_study(study_folder: Path, values: list[tuple[float, float, float]]) -> Study:
    """The study with these latencies, energies and areas, all within its constraint."""
    study = Study.open(study_folder)
    like = next(t for t in study.trials if study.is_valid(t))
    study.trials[:] = [
        replace(
            like,
            number=k,
            point={**like.point, "number": k},
            infeasible=None,
            metrics={**like.metrics, "latency_s": a, "energy_j": b, "area_mm2": c},
        )
        for k, (a, b, c) in enumerate(values)
    ]
    return study


def test_what_the_last_trials_found_is_said_in_ratios(study_folder: Path) -> None:
    early = [(8.0, 4.0, 1.0), (4.0, 8.0, 1.0), (9.0, 9.0, 2.0), (9.0, 9.0, 3.0), (9.0, 9.0, 4.0), (9.0, 9.0, 5.0)]
    none = late_finds(made_study(study_folder, [*early, (9.0, 9.0, 6.0), (9.0, 9.0, 7.0)]))
    assert none is not None and (none.trials, none.on_front, none.factor) == (2, 0, 1.0)
    # (4, 2, 1) halves the energy of (8, 4, 1), which is twice as slow too, and halves the latter's of (4, 8, 1) to a quarter
    late = late_finds(made_study(study_folder, [*early, (9.0, 9.0, 6.0), (4.0, 2.0, 1.0)]))
    assert late is not None and (late.on_front, late.factor) == (1, 2.0)
    assert late_finds(made_study(study_folder, early)) is None  # too few trials to tell


def test_a_few_designs_of_many_are_not_called_settled(study_folder: Path) -> None:
    study = Study.open(study_folder)
    text = report_data(study)["summary"][-1]["text"]
    size = SCRATCHPAD.space.cardinality_bound
    assert f"12 of at most {size:,} designs were tried" in text and "nothing is known of the others" in text
    assert "settled" not in text
    study.config["optimizer"] = "exact"
    assert "certificate that the search printed bounds the others" in report_data(study)["summary"][-1]["text"]


def test_other_mappings_of_designs_and_worst_cases_are_in_the_page(
    study_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = Study.open(study_folder)
    assert report_data(study)["compromises"] == []
    best = study.front()[0]
    slower = Compromise(best.number, best.point, {**best.metrics, "latency_s": 2 * best.metrics["latency_s"]})
    path = write_mapping_front(MappingFront((slower,), 3, 9, proven=True), study_folder)
    try:
        data = report_data(study)
    finally:
        path.unlink()
    assert data["compromises"] == [slower.to_json()]
    assert "Over all mappings: 1 compromises of 1 designs" in data["summary"][-1]["text"]
    scenarios = [{"name": "slow", "metrics": {"latency_s": 2.0}}, {"name": "hungry", "metrics": {"latency_s": 1.0}}]
    detail = study.detail
    monkeypatch.setattr(study, "detail", lambda number: {**detail(number), "scenarios": scenarios})
    assert "worst of 2 scenarios: latency in slow" in report_data(study)["summary"][-1]["text"]


def test_the_designs_to_look_at_first_are_the_balanced_one_and_the_best_by_each_objective(study_folder: Path) -> None:
    study = Study.open(study_folder)
    found = recommendations(study)
    front = study.front()
    assert found[0].roles[0] == "best balance" and found[0].trial.number == report_data(study)["knee"]
    by_role = {role: r.trial for r in found for role in r.roles}
    assert set(by_role) == {"best balance", "fastest", "most efficient", "smallest"}
    for role, objective in (("fastest", "latency_s"), ("most efficient", "energy_j"), ("smallest", "area_mm2")):
        assert by_role[role].metrics[objective] == min(t.metrics[objective] for t in front)
    assert len({r.trial.number for r in found}) == len(found)
    knee = found[0].trial
    for other in found[1:]:
        ratio = knee.metrics["latency_s"] / other.trial.metrics["latency_s"]
        if ratio > 1.005:
            assert f"latency {ratio:.3g} × lower" in other.why and other.why.endswith(f"than trial {knee.number}")
    study.trials[:] = [front[0]]
    (alone,) = recommendations(study)
    assert alone.roles == ("best balance", "fastest", "most efficient", "smallest")
    assert alone.why == "it beats every other design in every objective"
    study.trials[:] = []
    assert recommendations(study) == []


def test_an_objective_that_never_changes_is_said(study_folder: Path) -> None:
    study = Study.open(study_folder)
    assert "the same" not in report_data(study)["summary"][-1]["text"]
    study.trials[:] = [replace(t, metrics={**t.metrics, "area_mm2": 0.5}) for t in study.trials]
    data = report_data(study)
    feasible = sum(t["valid"] for t in data["trials"])
    said = f"All {feasible} feasible designs have the same area, 0.5 mm²: it tells none of them apart."
    assert said in data["summary"][-1]["text"]
    assert "smallest" not in {role for row in data["recommended"] for role in row["roles"]}


def test_a_design_in_words_has_its_units() -> None:
    point = {"pe_rows": 16, "scratchpad_kib": 256, "bus_bits": 64, "links": "systolic", "absent": None, "fast": True}
    assert point_text(point) == "pe rows 16, scratchpad 256 KiB, bus 64 bits, links systolic, fast true"


def test_importance_splits_the_variance_of_a_known_function() -> None:
    rng = np.random.default_rng(0)
    points = [
        {
            "a": int(2 ** rng.integers(0, 6)),
            "b": int(2 ** rng.integers(0, 6)),
            "kind": str(rng.choice(["x", "y"])),
            "idle": 3,
        }
        for _ in range(70)
    ]
    values = np.array([p["a"] ** 2 * p["b"] * (4.0 if p["kind"] == "y" else 1.0) for p in points], dtype=np.float64)
    found = effects(points, ["a", "b", "kind", "idle"], values)
    # log2 f = 2 log2 a + log2 b + 2 [y]: variances 4 v, v with v = 35/12 (uniform over 0..5), and 1
    variance = {"a": 4 * 35 / 12, "b": 35 / 12, "kind": 1.0, "idle": 0.0}
    for name, part in variance.items():
        share = part / sum(variance.values())
        assert found.first[name] == pytest.approx(share, abs=0.04)
        assert found.total[name] == pytest.approx(share, abs=0.06)  # there are no interactions
    assert found.q2 > 0.98
    factors = dict(found.main["kind"])
    assert factors["y"] / factors["x"] == pytest.approx(4.0, rel=0.05)
    assert [value for value, _ in found.main["a"]] == [1, 2, 4, 8, 16, 32]


def test_importance_sees_interactions_and_admits_noise() -> None:
    rng = np.random.default_rng(1)
    points = [
        {"a": int(rng.integers(0, 2)), "b": int(rng.integers(0, 2)), "c": int(rng.integers(0, 9))} for _ in range(60)
    ]
    crossed = np.array([10.0 if p["a"] == p["b"] else 1.0 for p in points])
    found = effects(points, ["a", "b", "c"], crossed)
    assert found.first["a"] < 0.1 and found.total["a"] > 0.8 and found.total["c"] < 0.1
    noise = effects(points, ["a", "b", "c"], 10 ** rng.normal(size=60))
    assert noise.q2 < 0.3
    constant = effects(points, ["a", "b", "c"], np.full(60, 7.0))
    assert math.isnan(constant.q2) and set(constant.total.values()) == {0.0}


def test_the_parts_of_a_design_add_up_to_its_metrics(study_folder: Path) -> None:
    study = Study.open(study_folder)
    data = report_data(study)
    trials = {t["number"]: t for t in data["trials"]}
    assert data["note"] == "" and data["designs"]
    for number, design in data["designs"].items():
        metrics = trials[int(number)]["metrics"]
        assert sum(v for _, v in design["energy"]) == pytest.approx(metrics["energy_j"], rel=1e-9)
        assert sum(v for _, v in design["area"]) == pytest.approx(metrics["area_mm2"], rel=1e-9)
        clock = design["architecture"]["clock_hz"]
        cycles = sum(v["latency_cycles"] * v["count"] for v in design["layers"]) + design["vector"]["latency_cycles"]
        assert cycles / clock == pytest.approx(metrics["latency_s"], rel=1e-12)
        for layer in design["layers"]:
            busy = layer["busy_cycles"]
            assert max(busy.values()) == layer["latency_cycles"]
            assert layer["bottlenecks"] == [name for name, cycles in busy.items() if cycles == layer["latency_cycles"]]
            roof = design["roofline"]
            bound = min(roof["macs_per_cycle"], layer["macs"] / layer["dram_bytes"] * roof["bytes_per_cycle"])
            assert layer["macs"] / layer["latency_cycles"] <= bound * (1 + 1e-9)
    assert data["knee"] in {t["number"] for t in data["trials"] if t["front"]}


def test_cycles_on_the_page_follow_from_the_accesses(study_folder: Path) -> None:
    study = Study.open(study_folder)
    data = report_data(study)
    for number, design in data["designs"].items():
        architecture = SCRATCHPAD.build(study.trials[int(number)].point)
        dram = architecture.levels[0]
        assert dram.read_bandwidth_words_per_cycle is not None
        # the roofline, the drawing and the table of cycles show one bandwidth
        read = dram.read_bandwidth_words_per_cycle * dram.word_bits / 8
        drawn = design["architecture"]["levels"][0]
        assert (drawn["read_bandwidth_bytes_per_cycle"], drawn["ports"]) == (read, "shared")
        assert design["roofline"]["bytes_per_cycle"] == read
        replayed = replay_layers(SCRATCHPAD, architecture, study.detail(int(number)))
        for row, layer in zip(design["layers"], replayed, strict=True):
            exact = busy_cycles(layer.computation, architecture, layer.cost)
            assert set(row["busy_cycles"]) == {"compute", *exact}
            assert all(is_rounded_up(row["busy_cycles"][name], cycles) for name, cycles in exact.items())


def test_layers_bound_by_two_resources_are_said_to_be(study_folder: Path) -> None:
    study = Study.open(study_folder)
    design = next(iter(report_data(study)["designs"].values()))
    for layer in design["layers"]:
        layer["bottlenecks"] = ["compute", "DRAM"]
    shares = time_shares(design)
    assert set(shares) <= {"both compute and the bandwidth of DRAM", "the vector operators"}
    assert sum(shares.values()) == pytest.approx(1.0)


def test_the_largest_parts_are_named_whatever_the_unit(study_folder: Path) -> None:
    """Joules are small numbers: parts are left out by their share, not by their value."""
    study = Study.open(study_folder)
    data = report_data(study)
    text = next(p["text"] for p in data["summary"] if p["title"] == "What bounds it")
    energy = sorted((v for _, v in data["designs"][str(data["knee"])]["energy"]), reverse=True)
    sentence = text.split("Of its energy, ")[1].split(". Of its")[0]
    assert sentence.count("%") == 3, sentence
    assert f"{100 * energy[0] / sum(energy):.0f} % in" in sentence


def test_a_record_that_names_one_bottleneck_is_still_shown(study_folder: Path) -> None:
    """Records made before a layer could have several, and before levels could have one port."""
    study = Study.open(study_folder)
    before = report_data(study)
    number = next(iter(before["designs"]))
    detail = study.detail(int(number))
    old = [{k: v for k, v in x.items() if k not in ("bottlenecks", "busy_cycles")} for x in detail["layers"]]
    rows = layer_rows(old, ())
    assert [r["bottlenecks"] for r in rows] == [[x["bottleneck"]] for x in detail["layers"]]
    assert [r["busy_cycles"] for r in rows] == [None] * len(rows)
    level = {
        k: v
        for k, v in detail["architecture"]["levels"][0].items()
        if k not in ("ports", "write_bandwidth_bytes_per_cycle")
    }
    machine = {**detail["architecture"], "levels": [level, *detail["architecture"]["levels"][1:]]}
    assert roofline(machine)["bytes_per_cycle"] == 2 * level["read_bandwidth_bytes_per_cycle"]


def test_the_page_needs_no_network_and_is_small(study_folder: Path, tmp_path: Path) -> None:
    text = write_report(Study.open(study_folder), path=tmp_path / "r.html").read_text(encoding="utf-8")
    assert "src=" not in text.split("<script>")[0] and "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert len(text) < 1_000_000


def test_reasons_of_infeasible_trials_and_broken_constraints_are_kept(study_folder: Path) -> None:
    study = Study.open(study_folder)
    reason = {
        "status": "infeasible",
        "resource": "capacity of level 'Local'",
        "demand": 3.0,
        "limit": 2.0,
        "unit": "bytes",
        "detail": "",
    }
    study.trials[2] = replace(study.trials[2], metrics={}, infeasible=reason)
    data = report_data(study)
    assert data["trials"][2]["infeasible"]["resource"] == "capacity of level 'Local'" and not data["trials"][2]["valid"]
    broken = [t for t in data["trials"] if t["broken"]]
    assert broken and all(t["broken"] == ["power_w<=0.6"] and t["metrics"]["power_w"] > 0.6 for t in broken)
    bad = sum(not t["valid"] for t in data["trials"])
    assert f"{bad} of 12 designs tried cannot be built or break a constraint" in data["summary"][-1]["text"]


def test_nothing_feasible_is_said(study_folder: Path, tmp_path: Path) -> None:
    study = Study.open(study_folder)
    study.config["constraints"] = ["power_w<=0.0000001"]
    data = report_data(study)
    assert data["knee"] is None and data["summary"][0]["title"] == "Build none of these"
    assert write_report(study, path=tmp_path / "none.html").exists()


def test_an_unknown_space_leaves_out_what_only_it_can_give(study_folder: Path) -> None:
    study = Study.open(study_folder)
    study.config["space"]["name"] = "somebody's own"
    data = report_data(study)
    assert "unknown space" in data["note"] and "--space, a file or module:attribute" in data["note"]
    layer = next(iter(data["designs"].values()))["layers"][0]
    assert "occupancy" not in layer and layer["bottlenecks"]
    assert report_data(study, "spaces.scratchpad:SCRATCHPAD")["note"] == ""


def test_whole_network_schedules_are_shown_with_what_they_have(
    study_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = Study.open(study_folder)
    full = Study.detail
    schedule = {
        "name": "alexnet", "weight": 1.0, "gap": 0.125, "latency_cycles": 1000, "energy_pj": 5.0, "edp": 5e3, "dram_bytes": 64,
        "dram_bytes_by_kind": {"weights": 64}, "peak_buffer_bytes": 32, "bound_cycles": 900, "compute_cycles": 800, "channel_cycles": 500,
        "utilisation": 0.5, "lgs": 1, "flgs": 2, "tiles": 3, "dram_tensors": 4, "encoding": {"big": []},
    }  # fmt: skip
    spent = {"DRAM": 3e9, "MAC": 1e9}
    monkeypatch.setattr(
        Study,
        "detail",
        lambda self, n: {
            "networks": [schedule],
            "energy_by_level_pj": spent,
            "architecture": full(self, n)["architecture"],
        },
    )
    data = report_data(study)
    design = data["designs"][str(data["knee"])]
    assert design["networks"][0]["bound_cycles"] == 900 and "encoding" not in design["networks"][0]
    assert "layers" not in design and design["area"]
    assert dict(design["energy"])["DRAM"] == pytest.approx(3e-3)
    words = " ".join(part["text"] for part in data["summary"])
    assert (
        "compute is busy for 80 % of the time, the DRAM channel for 50 %; 50 % of the MACs' cycles are used" in words
        and "within 12.5 % of a lower bound" in words
        and "in DRAM" in words
    )
    json.dumps(data, allow_nan=False)
