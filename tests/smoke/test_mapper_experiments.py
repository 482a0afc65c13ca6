"""Every experiment on mappers runs, small, and its results hang together."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from codesign.core.errors import UserError
from experiments import (
    cosa_fig1,
    cosa_fig3,
    cosa_fig6,
    cosa_fig8,
    mappers,
    salsa_fig3,
    salsa_fig4,
    salsa_fig5,
    salsa_resnet34,
    zigzag_optimum,
)


def results(folder: Path) -> Any:
    assert (folder / "figure.svg").read_text().count("<svg") == 1
    document = json.loads((folder / "results.json").read_text())
    assert document["config"]["seed"] == 1 and document["versions"]
    return document


def arguments(folder: Path) -> list[str]:
    return ["--smoke", "--seed", "1", "--out", str(folder)]


def test_all_mappers_are_compared_with_the_proven_optimum(tmp_path: Path) -> None:
    mappers.main(mappers.parse_args(arguments(tmp_path)))
    document = results(tmp_path)
    assert {r["method"] for r in document["rows"]} == set(mappers.METHODS)
    for row in document["rows"]:
        assert row["proof"] == "optimal" or row["method"] != "exact"
        assert row["gap"] >= -1e-9 and row["cpu_seconds"] > 0 and row["scored"] >= 1
    assert "| simba | alexnet | exact |" in (tmp_path / "table.md").read_text()
    with (tmp_path / "layers.csv").open() as stream:
        by_layer = list(csv.DictReader(stream))
    assert {(r["network"], r["proof"]) for r in by_layer} == {("alexnet", "optimal")}
    assert all(float(r["random gap"]) >= -1e-9 for r in by_layer)

    lines = (tmp_path / "rows.jsonl").read_text()
    (tmp_path / "rows.jsonl").write_text(lines + '[{"architecture": "sim')  # as a crash would leave it
    again = mappers.main(mappers.parse_args(arguments(tmp_path)))
    assert again == document["rows"]
    with pytest.raises(UserError, match=r"unknown method 'cosa2'.*did you mean 'cosa'"):
        mappers.Config(methods=("cosa2",))


def test_latencies_of_random_valid_schedules(tmp_path: Path) -> None:
    cosa_fig1.main(cosa_fig1.parse_args(arguments(tmp_path)))
    found = results(tmp_path)
    assert found["valid"] == 500 < found["drawn"]
    assert found["least_cycles"] <= found["fastest_cycles"] <= found["median_cycles"] <= found["slowest_cycles"]
    assert found["percentiles_cycles"] == sorted(found["percentiles_cycles"])


def test_orders_and_spatial_mappings_change_the_latency(tmp_path: Path) -> None:
    cosa_fig3.main(cosa_fig3.parse_args(arguments(tmp_path)))
    found = results(tmp_path)
    assert len(found["fig3"]) == 6 and len(found["fig4"]) == 6
    assert found["fig3_slowest_over_fastest"] > 1 and found["fig4_slowest_over_fastest"] > 1
    macs = 1024 * 32 * 64 * 9
    assert min(bar["latency_cycles"] for bar in found["fig3"].values()) >= macs / 1024


def test_random_hybrid_and_cosa_are_compared(tmp_path: Path) -> None:
    cosa_fig6.main(cosa_fig6.parse_args(arguments(tmp_path)))
    found = results(tmp_path / "simba-latency")
    for row in found["networks"]["deepbench"]:
        methods = row["methods"]
        assert methods["cosa"]["value"] <= methods["cosa one-shot"]["value"]
        assert methods["random x5"]["scored"] == 5 <= methods["random x5"]["drawn"]
        assert methods["hybrid"]["scored"] >= 2 * 500


def test_the_program_prices_every_method(tmp_path: Path) -> None:
    cosa_fig8.main(cosa_fig8.parse_args(arguments(tmp_path)))
    methods = results(tmp_path)["methods"]
    assert min(methods, key=lambda m: methods[m]["total"]) == "cosa one-shot"  # it minimises just this
    assert min(methods, key=lambda m: methods[m]["latency_cycles"]) in ("optimum", "cosa")
    assert methods["optimum"]["latency_cycles"] == min(m["latency_cycles"] for m in methods.values())


def test_loma_grows_and_salsa_does_not(tmp_path: Path) -> None:
    salsa_fig3.main(
        salsa_fig3.parse_args([*arguments(tmp_path), "--network", "resnet34", "--layer", "12", "--orders", "9"])
    )
    found = results(tmp_path / "resnet34-12")
    assert found["tau_s"] > 0
    assert [row["limit"] for row in found["loma"]] == list(range(4, 12))
    best = min(row["energy_pj"] for row in found["loma"] if "energy_pj" in row)
    assert found["salsa"]["SALSA, defaults here"]["energy_pj"] == pytest.approx(best, rel=1e-9)


def test_visited_orders_are_better_than_random_ones(tmp_path: Path) -> None:
    salsa_fig4.main(salsa_fig4.parse_args(arguments(tmp_path)))
    energies = results(tmp_path)["energies_pj"]
    assert energies["SALSA"]["orders"] == energies["random orders"]["orders"] == 2_000
    assert energies["SALSA"]["median"] < energies["random orders"]["median"]


def test_salsa_against_the_optimum_of_a_layer(tmp_path: Path) -> None:
    salsa_resnet34.main(salsa_resnet34.parse_args(arguments(tmp_path)))
    (row,) = results(tmp_path)["layers"]
    assert set(row["settings"]) == set(salsa_resnet34.SETTINGS)
    for setting in row["settings"].values():
        assert 0 <= setting["hits"] <= 1 and 0 <= setting["mean_excess"] <= setting["worst_excess"]


def test_searches_of_orders_against_the_optimum_of_all_orders_and_cuts(tmp_path: Path) -> None:
    rows = zigzag_optimum.main(zigzag_optimum.parse_args(arguments(tmp_path)))
    assert json.loads((tmp_path / "results.json").read_text())["layers"] == rows
    assert rows and {row["proof"] for row in rows} == {"optimal"}
    assert all(gap >= -1e-9 for row in rows for gap in row["gaps"].values())
    assert zigzag_optimum.summary(rows)["at_optimum"]["salsa"] == len(rows)


def test_searches_of_orders_on_networks(tmp_path: Path) -> None:
    salsa_fig5.main(salsa_fig5.parse_args(arguments(tmp_path)))
    found = results(tmp_path)
    for row in found["networks"]["resnet34"]:
        energies = {name: m["energy_pj"] for name, m in row["methods"].items()}
        assert energies["SALSA"] == pytest.approx(min(energies.values()), rel=2e-3)
    assert found["summary"]["resnet34"]["SALSA"] == {"energy": 1.0, "seconds": 1.0}
