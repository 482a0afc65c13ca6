"""`python -m experiments.manycore_dies --smoke`: the last line is JSON."""

import json

import pytest

from experiments import manycore_dies


def test_dies_are_compared_both_ways(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["manycore_dies", "--smoke"])
    manycore_dies.main()
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    for way in ("gemini", "own"):
        points = found[way]["points"]
        assert [p["dies"] for p in points] == [1, 2, 36]
        assert min(p["product_over_best"] for p in points) == 1.0
        costs = [p["cost_usd"] for p in points]
        assert costs == sorted(costs)
    assert found["published_best_dies"] == 2
    mended, free = found["own"]["points"][0]["cost_usd"], found["gemini"]["points"][0]["cost_usd"]
    assert mended > free  # a single die that pays for its input and output
