"""Area of a routed mesh of 1,024 elements beside the netlist-fitted tables, from a node's own cells and scaled from 45 nm."""

from experiments.validation.areas import compare_areas
from tests.reference_data import REFERENCE, needs_data


def test_the_mesh_is_within_the_stated_errors() -> None:
    folder = REFERENCE / "measured" / "areas"
    needs_data("measured/areas", list(folder.glob("routed.csv")))
    found = compare_areas(folder, smoke=False)
    assert found.points
    for point in found.points:
        assert abs(point.error) <= (0.30 if point.group == "scaled" else 0.20), point
    assert all(abs(s["median_error"]) < 0.35 for s in found.more["scaling_of_logic"].values())
