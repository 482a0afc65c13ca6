"""The band of Eyeriss' power: no zeros in conv1, the paper's least and most beside it."""

from experiments.validation.eyeriss_power import LEAST_ZEROS, MOST_ZEROS, power_bands

ROW = {
    "layer": "conv5",
    "groups": "2",
    "batch": "4",
    "C_per_group": "192",
    "K_per_group": "128",
    "output_side": "13",
    "filter_side": "3",
    "stride": "1",
    "power_mW": "236",
    "latency_ms": "10.0",
}


def test_zeros_lower_power_and_a_row_without_power_is_left_out() -> None:
    rows = [{**ROW, "layer": name} for name in ("conv1", "conv3", "conv5")]
    found = power_bands([*rows, {**ROW, "power_mW": ""}], "alexnet.csv")
    assert list(found) == ["conv1", "conv3", "conv5"]
    first, middle, last = found.values()
    assert isinstance(first, dict)
    assert isinstance(middle, dict)
    assert isinstance(last, dict)
    dense = float(str(first["dense_mw"]))
    assert first["least_mw"] == first["most_mw"] == first["dense_mw"]
    saved = dense - float(str(last["most_mw"]))
    assert saved > 0
    assert abs(dense - float(str(middle["most_mw"])) - saved * LEAST_ZEROS / MOST_ZEROS) < 1e-6 * dense
    assert abs(float(str(middle["least_mw"])) - float(str(last["most_mw"]))) < 1e-6 * dense
    assert -0.6 < float(str(last["error_most"])) < 0.0
