"""`schedule --scheduler segments` and `explore --scheduler segments`: documents, pages, one message for each mistake."""

import contextlib
import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
import yaml

from codesign.arch.chiplet_cost import system_provenance
from codesign.arch.many_core_files import load_system
from codesign.arch.provenance import recorded_text
from codesign.core.specs import spec_to_json
from codesign.report.study_page import report_data
from codesign.study.study import Study
from tests.command_line import run


def segments(*arguments: object) -> Any:
    return run("schedule", "--scheduler", "segments", "--evaluations", "20", "--arch", "tpu-quad", *arguments)


def judge(tree: Any, folder: Path, *more: object) -> Any:
    path = folder / "tree.json"
    path.write_text(json.dumps(tree))
    place = () if "--arch" in more else ("--arch", "tpu-quad")
    return run("schedule", "--scheduler", "segments", "--network", NETWORK, *place, "--evaluate", path, *more)


NETWORK = "squeezenet"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("found") / "found.json"
    done = segments("--network", NETWORK, "--out", out, "--format", "json")
    assert done.code == 0, done.err
    document: dict[str, Any] = json.loads(out.read_text())
    return document


def test_a_found_tree_is_judged_as_it_was_found(found: dict[str, Any], tmp_path: Path) -> None:
    again = judge(found["tree"], tmp_path, "--format", "json").json
    for key in ("latency_cycles", "energy_pj", "edp", "dram_bytes", "hops", "gap"):
        assert again[key] == found[key]


def test_figures_of_a_system_name_where_they_come_from(found: dict[str, Any], tmp_path: Path) -> None:
    assert (found["provenance"]["energy"], found["provenance"]["area"]) == ("given", "published")
    text = judge(found["tree"], tmp_path).out
    assert "figures: energy as the file gives it; area of dies published" in text
    smaller = system_provenance(replace(load_system("tpu-quad"), technology_nm=7))
    assert recorded_text(smaller).endswith("area of dies scaled from 12 nm")


def test_the_page_shows_meshes_timeline_energy_and_cost(found: dict[str, Any], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert judge(found["tree"], tmp_path, "--html", page).code == 0
    text = page.read_text()
    for part in (
        "Who computes what when",
        "Energy by part",
        "Cost by part",
        "area of dies",
        'class="mesh"',
        'class="timeline"',
        "gap",
    ):
        assert part in text
    assert "http" not in text.replace("http://www.w3.org", "")
    every = [leaf["layer"] for leaf in leaves(found["tree"])]
    assert all(name in text for name in every)


def leaves(node: Any) -> list[Any]:
    return [node] if "layer" in node else [leaf for child in node["children"] for leaf in leaves(child)]


def flat(found: dict[str, Any], parts: dict[str, int]) -> dict[str, Any]:
    """Every layer on all four cores, one after another."""
    order = [leaf["layer"] for leaf in leaves(found["tree"])]
    children = [{"layer": name, "batch": 1, "parts": parts} for name in order]
    return {"cut": "time", "batch": 1, "children": children}


def test_a_missing_layer_is_named(found: dict[str, Any], tmp_path: Path) -> None:
    tree = flat(found, {"K": 4})
    lost = tree["children"].pop()["layer"]
    done = judge(tree, tmp_path)
    assert done.code == 2 and f"layer {lost!r} stands 0 times in the tree, expected once" in done.err


def test_an_unknown_layer_is_named(found: dict[str, Any], tmp_path: Path) -> None:
    tree = flat(found, {"K": 4})
    tree["children"][0]["layer"] = "nolayer"
    done = judge(tree, tmp_path)
    assert done.code == 2 and "nolayer" in done.err and done.err.count("\n") == 1


def test_a_core_named_twice_at_the_same_time_is_refused(found: dict[str, Any], tmp_path: Path) -> None:
    tree = flat(found, {"K": 4})
    first, second = tree["children"][:2]
    pair = [{**first, "parts": {"K": 2}, "cores": [0, 1]}, {**second, "parts": {"K": 2}, "cores": [1, 2]}]
    tree["children"][:2] = [{"cut": "space", "batch": 1, "children": pair}]
    done = judge(tree, tmp_path)
    assert done.code == 2
    assert f"core 1 is named twice at the same time, by layers {first['layer']!r} and {second['layer']!r}" in " ".join(
        done.err.split()
    )


def test_cores_that_are_not_the_trees_are_refused(found: dict[str, Any], tmp_path: Path) -> None:
    tree = flat(found, {"K": 4})
    tree["children"][0]["cores"] = [0, 1]
    done = judge(tree, tmp_path)
    assert done.code == 2 and "names cores [0, 1], the tree gives it 0 to 3" in " ".join(done.err.split())
    tree["children"][0]["cores"] = [0, 1, 2, 3]
    assert judge(tree, tmp_path).code == 0


def test_more_parts_than_cores_are_refused(found: dict[str, Any], tmp_path: Path) -> None:
    done = judge(flat(found, {"K": 8}), tmp_path)
    assert done.code == 2 and "is cut into 8 parts on 4 cores" in done.err


@pytest.mark.parametrize(
    ("drams", "message"),
    [([9, 0, 0], "names DRAM 9, system 'tpu-quad' has"), (["near", 0, 0], "`drams` must be three whole numbers")],
)
def test_memories_that_are_none_are_refused(
    drams: list[Any], message: str, found: dict[str, Any], tmp_path: Path
) -> None:
    tree = copy.deepcopy(found["tree"])
    leaves(tree)[0]["drams"] = drams
    done = judge(tree, tmp_path)
    assert done.code == 2 and message in " ".join(done.err.split()), done.err


def changed(folder: Path, **fields: Any) -> Path:
    """A file of tpu-quad with fields of its parts set."""
    value: dict[str, Any] = spec_to_json(load_system("tpu-quad"))
    for name, change in fields.items():
        if isinstance(change, dict):
            value[name] = {**value.get(name, {}), **change}
        else:
            value[name] = change
    path = folder / "system.yaml"
    path.write_text(yaml.safe_dump(value))
    return path


def test_a_buffer_that_overflows_is_a_result_with_core_segment_bytes_and_limit(
    found: dict[str, Any], tmp_path: Path
) -> None:
    big = {"bytes": 60_000, "read_pj": 1.0, "write_pj": 1.0}
    core = spec_to_json(load_system("tpu-quad").core)
    system = changed(tmp_path, core={**core, "big": big})
    done = judge(flat(found, {"K": 4}), tmp_path, "--arch", system, "--format", "json")
    assert done.code == 0
    document = done.json
    assert document["status"] == "infeasible" and document["unit"] == "bytes"
    assert document["demand"] > document["limit"] == 60_000
    assert "core (" in document["detail"] and "in segment" in document["detail"]


def test_a_search_without_room_is_infeasible(tmp_path: Path) -> None:
    core = spec_to_json(load_system("tpu-quad").core)
    system = changed(tmp_path, core={**core, "big": {"bytes": 16, "read_pj": 1.0, "write_pj": 1.0}})
    done = run("schedule", "--scheduler", "segments", "--network", NETWORK, "--arch", system, "--evaluations", "5")
    assert done.code == 0 and "infeasible" in done.out


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dies": {"x": 2, "words_per_cycle": 0}}, "the mesh is cut into 2 unconnected parts"),
        ({"memories": {"ports": []}}, "a system needs a DRAM controller, got none"),
        ({"memories": {"ports": [[[9, 9]]]}}, "a DRAM port at [9, 9] is nowhere on a mesh of 2 x 2"),
        ({"dies": {"x": 3}}, "3 x 1 dies do not cut a mesh of 2 x 2 evenly"),
        ({"stride": 3}, "`stride` must divide the width 2, got 3"),
    ],
)
def test_a_system_that_cannot_be_is_refused(fields: dict[str, Any], message: str, tmp_path: Path) -> None:
    done = run("schedule", "--scheduler", "segments", "--network", NETWORK, "--arch", changed(tmp_path, **fields))
    assert done.code == 2 and message in " ".join(done.err.split()), done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--arch", "set-8x9"),
            "unknown system 'set-8x9' (a file of one's own ends in .yaml); did you mean 'set-8x8'?",
        ),
        (("--objective", "area"), "area"),
        (("--mode", "mine"), "--mode must be one of set, gemini, own"),
    ],
)
def test_a_wrong_option_is_named(arguments: tuple[str, ...], message: str) -> None:
    done = run("schedule", "--scheduler", "segments", "--network", NETWORK, "--evaluations", "5", *arguments)
    assert done.code == 2 and message in " ".join(done.err.split()), done.err


# ---- simulated ------------------------------------------------------------------------------------


def test_a_tree_is_simulated_on_the_mesh(found: dict[str, Any], tmp_path: Path) -> None:
    plain = judge(found["tree"], tmp_path, "--timing", "event", "--format", "json").json
    assert plain["latency_cycles"] == found["latency_cycles"] and plain["simulated_complete"]
    assert plain["simulated_cycles"] >= plain["uncontended_cycles"] > 0 and plain["flit_hops"] > 0
    segments = plain["simulated_segments"]
    assert len(segments) == len(found["tree"]["children"])
    groups = found["tree"]["batch"] // found["tree"]["children"][0]["batch"]
    assert plain["simulated_cycles"] == groups * sum(s["cycles"] for s in segments)
    device = judge(found["tree"], tmp_path, "--timing", "event", "--dram-device", "gddr6_x16", "--format", "json").json
    assert device["simulated_cycles"] > plain["simulated_cycles"]
    text = judge(found["tree"], tmp_path, "--timing", "event")
    assert f"on the mesh: {plain['simulated_cycles']:,} cycles" in text.out


def test_slow_links_between_dies_are_simulated(found: dict[str, Any], tmp_path: Path) -> None:
    system = changed(tmp_path, dies={"x": 2, "words_per_cycle": 1})
    slow = judge(found["tree"], tmp_path, "--arch", system, "--timing", "event", "--format", "json")
    assert slow.code == 0, slow.err
    fast = judge(found["tree"], tmp_path, "--timing", "event", "--format", "json").json
    assert slow.json["simulated_cycles"] > fast["simulated_cycles"]


def test_a_tree_is_chosen_by_simulation() -> None:
    def simulated(*arguments: str) -> Any:
        return segments("--network", NETWORK, "--timing", "event", "--format", "json", *arguments).json

    chosen = simulated("--mode", "mesh")
    plain = simulated("--mode", "own", "--evaluations", "10")
    assert chosen["rules"] == "mesh" and chosen["evaluated"] == 20
    assert chosen["uncontended_cycles"] <= chosen["simulated_cycles"]
    assert chosen["simulated_edp"] <= plain["simulated_edp"] * (1 + 1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--timing", "events"), "unknown --timing 'events'; did you mean 'event'?"),
        (("--timing", "event", "--dram-device", "gddr6"), "unknown DRAM device 'gddr6'"),
        (("--dram-device", "gddr6_x16"), "--dram-device is an option of --timing event"),
        (("--timing", "event", "--trace", "t.json"), "--trace is not used by scheduler 'segments'"),
    ],
)
def test_a_wrong_option_of_the_simulation_is_named(arguments: tuple[str, ...], message: str) -> None:
    done = segments("--network", NETWORK, *arguments)
    assert done.code == 2 and message in " ".join(done.err.split()), done.err


# ---- explore --------------------------------------------------------------------------------------

SPACE = """
space:
  name: four-cores
  system: gemini-72t
  parameters:
    dies: [1, 2]
    buffer_kib: [512, 2048]
  set: {width: 2, height: 2, dies.x: dies, core.big.bytes: buffer_kib * 1024, memories.controllers: 2}
"""


def explore(folder: Path, *arguments: object) -> Any:
    space = folder / "space.yaml"
    if not space.exists():
        space.write_text(SPACE)
    return run("explore", "--network", NETWORK, "--scheduler", "segments", "--space", space, "--evaluations", "10",
               "--out", folder / "run", "--format", "json", *arguments)  # fmt: skip


def test_a_front_of_systems_is_searched_resumed_and_reported(tmp_path: Path) -> None:
    first = explore(tmp_path, "--optimizer", "random", "--trials", "2")
    assert first.code == 0, first.err
    assert first.json["trials"] == 2 and first.json["objectives"] == ["latency_s", "energy_j", "cost_usd"]
    second = explore(tmp_path, "--optimizer", "random", "--trials", "4")
    assert second.code == 0 and second.json["trials"] == 4
    page = (tmp_path / "run" / "report.html").read_text()
    assert "cost_usd" in page
    best = second.json["front"][0]
    folder = tmp_path / "run" / "schedules"
    name = f"trial-{best['trial']}"
    assert "Who computes what when" in (folder / f"{name}-{NETWORK}.html").read_text()
    again = run("schedule", "--scheduler", "segments", "--network", NETWORK, "--arch", folder / f"{name}.yaml",
                "--evaluate", folder / f"{name}-{NETWORK}.json", "--format", "json").json  # fmt: skip
    assert again["latency_cycles"] * 1e-9 == pytest.approx(best["metrics"]["latency_s"], rel=1e-12)
    assert again["energy_pj"] * 1e-12 == pytest.approx(best["metrics"]["energy_j"], rel=1e-12)
    assert again["cost_usd"] == pytest.approx(best["metrics"]["cost_usd"], rel=1e-12)


def test_an_exact_front_states_what_schedules_may_still_gain(tmp_path: Path) -> None:
    done = explore(tmp_path, "--optimizer", "exact", "--network", "resnet18")
    assert done.code == 0, done.err
    assert done.json["schedule_factor"] > 1.0
    assert {"cost_usd", "area_mm2"} <= set(done.json["front"][0]["metrics"])


def test_one_command_from_an_onnx_file_to_a_simulated_front_with_pictures(tmp_path: Path) -> None:
    network = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_squeezenet.onnx"
    (tmp_path / "space.yaml").write_text(SPACE)
    asked = ("explore", "--network", network, "--scheduler", "segments", "--space", tmp_path / "space.yaml", "--evaluations", "10",
             "--objectives", "latency", "energy", "cost_usd", "--timing", "event", "--optimizer", "random", "--seed", "1",
             "--out", tmp_path / "run", "--format", "json")  # fmt: skip
    assert run(*asked, "--trials", "1").json["trials"] == 1
    done = run(*asked, "--trials", "2")
    assert done.code == 0 and done.json["trials"] == 2, done.err
    folder = tmp_path / "run"
    simulated = done.json["front_event_timed"]
    assert simulated == json.loads((folder / "contention.json").read_text())["front"]
    assert [d["trial"] for d in simulated] == [t["trial"] for t in done.json["front"]]
    assert any(d["on_front"] for d in simulated)
    with contextlib.closing(Study.open(folder)) as study:
        shown = report_data(study)["designs"]
    for design, front in zip(simulated, done.json["front"], strict=True):
        assert design["latency_cycles"] * 1e-9 == pytest.approx(design["metrics"]["latency_s"], rel=1e-12)
        assert design["metrics"]["cost_usd"] == front["metrics"]["cost_usd"]
        in_report = shown[str(design["trial"])]
        assert in_report["simulated"] == design
        assert (folder / in_report["pages"]["light_squeezenet"]).is_file()
    design, name = simulated[0], f"trial-{simulated[0]['trial']}"
    again = run("schedule", "--scheduler", "segments", "--network", network,
                "--arch", folder / "schedules" / f"{name}.yaml", "--timing", "event", "--format", "json",
                "--evaluate", folder / "schedules" / f"{name}-light_squeezenet.json").json  # fmt: skip
    assert again["simulated_cycles"] == design["networks"][0]["latency_cycles"]
    assert again["uncontended_cycles"] == design["networks"][0]["uncontended_cycles"]
    page = (folder / "schedules" / f"{name}-light_squeezenet.html").read_text()
    assert f"{again['simulated_cycles']:,}" in page and "simulated run" in page
    refused = explore(tmp_path, "--timing", "event", "--timing-table", "none")
    assert refused.code == 2 and "--timing-table plays no part with --scheduler segments" in " ".join(
        refused.err.split()
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SPACE.replace("dies.x", "dies.z"), "unknown field of a system 'dies.z'"),
        (SPACE.replace("dies.x: dies,", ""), "parameter 'dies' changes nothing"),
        (SPACE.replace("gemini-72t", "gemini-73t"), "unknown system 'gemini-73t'"),
        (SPACE.replace("controllers: 2", "controllers: 3"), "`controllers` must be 1, 2 or 4, got 3"),
    ],
)
def test_a_space_with_a_mistake_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text(text)
    done = explore(tmp_path)
    assert done.code == 2 and message in " ".join(done.err.split()), done.err


def test_spaces_and_schedulers_that_do_not_go_together(tmp_path: Path) -> None:
    wrong = run("explore", "--network", NETWORK, "--scheduler", "segments", "--space", "gemmcore", "--out", tmp_path)
    assert wrong.code == 2 and "needs a space of systems of many cores, got 'gemmcore'" in wrong.err
    (tmp_path / "space.yaml").write_text(SPACE)
    wrong = run("explore", "--network", NETWORK, "--space", tmp_path / "space.yaml", "--out", tmp_path / "b")
    assert wrong.code == 2 and "--scheduler segments" in wrong.err
