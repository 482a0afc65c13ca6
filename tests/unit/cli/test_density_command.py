"""`codesign density`, and its file as `--zeros` of `map`, `evaluate` and `explore`: what is printed, written and refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.command_line import run

DIGITS = Path(__file__).parents[3] / "experiments" / "data" / "digits.onnx"
QUICK = ("--network", DIGITS, "--batch", 1, "--arch", "eyeriss", "--mapper", "anneal", "--evaluations", 60)


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    """Three pictures."""
    pictures = (np.random.default_rng(1).random((3, 1, 16, 16)) < 0.3).astype(np.float32)
    np.savez(tmp_path / "samples.npz", picture=pictures)
    return tmp_path / "samples.npz"


@pytest.fixture
def zeros(tmp_path: Path, samples: Path) -> Path:
    """What the command writes."""
    out = tmp_path / "zeros.json"
    assert run("density", "--network", DIGITS, "--data", samples, "--out", out, "--masks").code == 0
    return out


def test_density_prints_every_operand(samples: Path) -> None:
    found = run("density", "--network", DIGITS, "--data", samples, "--format", "json")
    assert found.code == 0, found.err
    assert found.json["samples"] == 3 and len(found.json["operands"]) == 12
    assert all(0 <= x["least"] <= x["density"] <= x["most"] <= 1 for x in found.json["operands"])


def test_map_costs_real_masks_beside_zeros_spread_evenly(zeros: Path) -> None:
    dense = run("map", *QUICK, "--format", "json").json
    found = run("map", *QUICK, "--zeros", zeros, "--zero-support", "skipping", "--format", "json")
    assert found.code == 0, found.err
    masks = found.json["real_masks"]
    assert {x["name"] for x in masks["layers"]} | set(masks["failed"]) == {"conv0", "conv1", "conv2", "conv3"}
    first = masks["layers"][0]
    assert first["macs_done"] < dense["layers"][0]["macs"]
    assert found.json["architecture"]["provenance"]["area"] == "scaled"
    text = run("map", *QUICK, "--zeros", zeros, "--zero-support", "skipping")
    assert "real masks" in text.out and "zeros spread evenly would be off by" in text.out


def test_evaluate_takes_the_same_file(zeros: Path, tmp_path: Path) -> None:
    out = tmp_path / "mapped"
    assert run("map", *QUICK, "--out", out).code == 0
    found = run(
        "evaluate", "--network", DIGITS, "--batch", 1, "--arch", "eyeriss", "--mappings", out / "mappings",
        "--zeros", zeros, "--format", "json",
    )  # fmt: skip
    assert found.code == 0, found.err
    assert found.json["real_masks"]["uniform_energy_error"] == 0  # this machine knows no zeros


def test_explore_takes_the_same_file(zeros: Path, tmp_path: Path) -> None:
    found = run(
        "explore", "--network", DIGITS, "--dims", "n=1", "--space", "scratchpad", "--optimizer", "random", "--trials", 2,
        "--mapper", "anneal", "--evaluations", 20, "--zeros", zeros, "--zero-support", "gating", "--out", tmp_path / "s",
        "--format", "json",
    )  # fmt: skip
    assert found.code == 0, found.err
    assert found.json["trials"] == 2
    shown = " ".join(found.err.split())
    assert shown.count("real masks") == len(found.json["front"]) and "zeros spread evenly would be off by" in shown


def test_explore_at_another_node_says_that_its_figures_are_scaled(tmp_path: Path) -> None:
    given = (
        "explore", "--network", DIGITS, "--batch", 1, "--space", "eyeriss", "--technology", "cmos-7nm", "--optimizer", "random",
        "--trials", 1, "--mapper", "anneal", "--evaluations", 20, "--certify", 0, "--out", tmp_path / "s",
    )  # fmt: skip
    text = run(*given)
    assert text.code == 0, text.err
    assert "figures: cmos-7nm; no figure is measured: arithmetic scaled from 45 nm" in " ".join(text.out.split())
    found = run(*given, "--format", "json")
    assert found.json["provenance"]["area"] == found.json["provenance"]["energy"] == "scaled"
    page = (tmp_path / "s" / "report.html").read_text("utf-8")
    assert "scaled" in page and "eyeriss@cmos-7nm" in page


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mask": "zeros.masks/77.npy"}, "cannot be read"),
        ({"mask": "zeros.masks/0.npy"}, "has shape"),
        ({"least": 0.99, "most": 1.0, "density": 0.5}, "must lie between"),
        ({"most": 1.5}, "a density must be a number from 0 to 1, got 1.5"),
    ],
)
def test_a_broken_file_is_refused_before_the_search(zeros: Path, change: dict[str, object], message: str) -> None:
    document = json.loads(zeros.read_text("utf-8"))
    document["zeros"]["operands"][4] |= change
    zeros.write_text(json.dumps(document), "utf-8")
    found = run("map", *QUICK, "--zeros", zeros, "--zero-support", "skipping")
    assert found.code == 2 and message in found.err and not found.out.strip(), found.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--masks",), "--masks are files beside --out"),
        (("--data", "nowhere.npz"), "no such file"),
        (("--network", "resnet50"), "must be an ONNX file"),
    ],
)
def test_density_refuses_in_one_message(samples: Path, arguments: tuple[str, ...], message: str) -> None:
    given = {"--network": str(DIGITS), "--data": str(samples)}
    flat = [x for k, v in given.items() if k not in arguments for x in (k, v)]
    found = run("density", *flat, *arguments)
    assert found.code == 2 and message in found.err, found.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--zero-support", "skipping"), "--zero-support needs --zeros"),
        (("--zeros", "weight=0.5", "--zero-support", "magic"), "support for zeros"),
        (("--zeros", "weight=0.5", "--zero-support", "skipping", "--timing", "event"), "plays no part"),
        (("--zeros", "missing.json"), "missing.json"),
    ],
)
def test_map_refuses_in_one_message(arguments: tuple[str, ...], message: str) -> None:
    found = run("map", *QUICK, *arguments)
    assert found.code == 2 and message in found.err, found.err
