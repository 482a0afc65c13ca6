import json
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import run

DATA = Path(__file__).parents[2] / "data"
RESNET = DATA / "cosma" / "graphs" / "resnet50.json"
INSTANCE = DATA / "minimalloc" / "examples" / "input.12.csv"


def cosma(*arguments: object) -> Any:
    return run("schedule", "--scheduler", "cosma", *arguments)


def test_json_document() -> None:
    done = cosma("--network", RESNET, "--parameters", "--capacity", "M_R", "--format", "json")
    assert done.code == 0
    document = done.json
    assert {
        "status",
        "noncompulsory_bytes",
        "dram_bytes",
        "proof",
        "bound",
        "capacity_bytes",
        "peak_buffer_bytes",
        "order",
        "addresses",
        "spills",
        "seconds",
    } <= set(document)
    assert (document["status"], document["proof"], document["capacity_bytes"]) == ("feasible", "optimal", 2486784)
    assert document["noncompulsory_bytes"] == document["bound"] == 602112
    assert len(document["order"]) == 73


def test_capacity_defaults_to_the_largest_working_set() -> None:
    assert cosma("--network", RESNET, "--format", "json").json["capacity_bytes"] == 2408448


@pytest.mark.parametrize("route", ["decomposed", "joint", "monolithic"])
def test_routes_agree(route: str) -> None:
    document = cosma("--network", RESNET, "--parameters", "--route", route, "--format", "json").json
    assert (document["noncompulsory_bytes"], document["proof"]) == (602112, "optimal")


def test_text_table_and_files(tmp_path: Path) -> None:
    page, document = tmp_path / "map.html", tmp_path / "schedule.json"
    done = cosma("--network", "resnet50", "--parameters", "--capacity", "M_H", "--html", page, "--out", document)
    assert done.code == 0
    for text in ("non-compulsory 200704 bytes", "proof: optimal", "belady", "greedy", "minimum-peak", "spill "):
        assert text in done.out
    assert json.loads(document.read_text())["noncompulsory_bytes"] == 200704
    assert "<svg" in page.read_text()


@pytest.mark.parametrize("name", ["belady", "lru", "greedy", "belady-mpmf"])
def test_baselines_are_schedulers(name: str) -> None:
    done = run("schedule", "--scheduler", name, "--network", RESNET, "--parameters", "--format", "json")
    assert done.json["proof"] == "none"
    assert done.json["noncompulsory_bytes"] > 602112


def test_weights_of_an_architecture() -> None:
    done = cosma(
        "--network",
        RESNET,
        "--parameters",
        "--objective",
        "energy",
        "--arch",
        "soma-edge",
        "--capacity",
        "M_R",
        "--format",
        "json",
    )
    assert (done.json["unit"], done.json["noncompulsory_bytes"]) == ("fJ", 602112)
    assert done.json["value"] == done.json["bound"]
    assert done.json["provenance"]["energy"] == "scaled"


def test_a_capacity_below_the_working_set_is_infeasible() -> None:
    done = cosma("--network", RESNET, "--capacity", "2408447B", "--format", "json")
    assert done.code == 0
    assert (done.json["status"], done.json["demand"], done.json["limit"]) == ("infeasible", 2408448, 2408447)
    text = cosma("--network", RESNET, "--capacity", "1MiB")
    assert "infeasible: operator " in text.out and "alone needs 2408448 bytes" in text.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "needs --network"),
        (
            ("--network", RESNET, "--capacity", "lots"),
            "`capacity` must be a whole number of bytes such as 65536 or 64KiB, got 'lots'",
        ),
        (("--network", RESNET, "--route", "shortcut"), "unknown route 'shortcut'"),
        (("--network", RESNET, "--objective", "beauty"), "unknown objective 'beauty'"),
        (("--network", RESNET, "--objective", "energy"), "--objective energy needs an architecture; --arch"),
        (("--network", RESNET, "--arch", "soma-egde"), "soma-edge"),
        (("--network", RESNET, "--time-limit", 0), "the time limit must be > 0 seconds, got 0"),
        (("--network", RESNET, "--chains", 3), "--chains is not used by scheduler 'cosma'"),
        (("--network", "resnet5"), "resnet50"),
        (("--network", "missing.json"), "no such file"),
    ],
)
def test_mistakes_are_told(arguments: tuple[object, ...], message: str) -> None:
    done = cosma(*arguments)
    assert done.code == 2
    assert message in done.err.replace("\n", " ")
    assert "Traceback" not in done.err


def test_a_cyclic_graph_is_a_mistake(tmp_path: Path) -> None:
    value = json.loads(RESNET.read_text())
    value["ops"][0]["ins"] = [value["ops"][-1]["out"]]
    path = tmp_path / "cycle.json"
    path.write_text(json.dumps(value))
    done = cosma("--network", path)
    assert (done.code, "the graph has a cycle" in done.err) == (2, True)


def test_allocate(tmp_path: Path) -> None:
    arguments = ("schedule", "--scheduler", "allocate", "--buffers", INSTANCE, "--capacity", 12)
    done = run(*arguments, "--format", "json")
    assert (done.json["status"], done.json["height"]) == ("feasible", 12)
    text = run(*arguments)
    assert text.out.splitlines()[0] == "id,lower,upper,size,offset"
    path = tmp_path / "placed.csv"
    assert "feasible" in run(*arguments, "--out", path).out
    assert path.read_text() == text.out


def test_allocate_says_what_does_not_fit(tmp_path: Path) -> None:
    short = run("schedule", "--scheduler", "allocate", "--buffers", INSTANCE, "--capacity", 11, "--format", "json")
    assert (short.code, short.json["status"], short.json["demand"], short.json["limit"]) == (0, "infeasible", 12, 11)
    for capacity, message in (("3", "larger than the capacity 3"), (None, "needs --buffers FILE.csv and --capacity")):
        extra = () if capacity is None else ("--capacity", capacity)
        done = run("schedule", "--scheduler", "allocate", "--buffers", INSTANCE, *extra)
        assert (done.code, message in done.err) == (2, True)
    path = tmp_path / "bad.csv"
    path.write_text("id,lower,upper\na,0,1\n")
    done = run("schedule", "--scheduler", "allocate", "--buffers", path, "--capacity", 3)
    assert (done.code, "missing column size" in done.err) == (2, True)


def test_the_scheduler_is_implied_by_what_only_this_family_reads(tmp_path: Path) -> None:
    bare = run("schedule", "--network", RESNET, "--format", "json")
    assert bare.json == {**cosma("--network", RESNET, "--format", "json").json, "seconds": bare.json["seconds"]}
    weights = run("schedule", "--network", "resnet50", "--parameters", "--format", "json")
    assert weights.json["noncompulsory_bytes"] == 602112
    assert run("schedule", "--buffers", INSTANCE, "--capacity", 12, "--format", "json").json["height"] == 12
    network = tmp_path / "network.json"
    network.write_text(json.dumps({"operators": [], "tensors": []}))
    # A network rather than a graph in bytes: another scheduler reads it, and says what it lacks.
    assert "network, `tensors`" in run("schedule", "--network", network).err


def test_a_saved_torch_export(tmp_path: Path) -> None:
    import torch

    path = tmp_path / "small.pt2"
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU())
    torch.export.save(torch.export.export(module.eval(), (torch.zeros(1, 3, 8, 8),)), path)
    document = run("schedule", "--network", path, "--parameters", "--format", "json").json
    assert (document["network"], document["proof"]) == ("small", "optimal")
    assert document["dram_bytes"] == 3 * 64 + 8 * 64 + (8 * 27 + 8) + 4 * 8
    path.write_bytes(b"nothing")
    done = run("schedule", "--network", path)
    assert (done.code, "the file holds no exported program" in done.err) == (2, True)
    sized = run("schedule", "--network", path, "--batch", 2)
    assert (sized.code, "--batch does not apply to a program" in sized.err) == (2, True)
    assert "no such file" in run("schedule", "--network", tmp_path / "none.pt2").err
