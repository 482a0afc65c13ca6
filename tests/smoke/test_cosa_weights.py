"""The micro-benchmark runs and writes what it printed."""

from experiments.cosa_weights import Config, run


def test_weights_are_fitted_for_a_preset() -> None:
    result = run(Config(smoke=True))
    assert set(result["weights"]) == {"utilization", "compute", "traffic"}  # type: ignore[call-overload]
    assert result["samples"] >= 6  # type: ignore[operator]
