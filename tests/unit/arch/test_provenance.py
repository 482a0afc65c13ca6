"""Where figures come from: a scaled figure never passes for another kind."""

import pytest

from codesign.arch.presets import load_preset
from codesign.arch.provenance import Origin, Provenance, provenance_json, provenance_text, recorded_text, weakest
from codesign.arch.technology_files import load_technology, technology_origins
from codesign.core.errors import UserError
from codesign.evaluation.design import describe_architecture
from experiments.models.cell_libraries import FITTED_LIBRARY, cell_libraries, cell_library, mesh_element


@pytest.mark.parametrize("node", [45, 32, 22, 16, 12, 7])
@pytest.mark.parametrize("family", ["cmos", "netlist-fitted"])
def test_every_part_of_another_node_is_scaled(family: str, node: int) -> None:
    table = load_technology(f"{family}-{node}nm")
    for origin in table.origins:
        if origin.from_nm is not None and origin.from_nm != node:
            assert origin.kind is Provenance.SCALED
    shown = provenance_json(table.name, table.origins)
    assert shown["area"] == shown["energy"] == "scaled"


def test_an_own_table_at_its_own_node_is_not_scaled() -> None:
    table = load_technology("maestro-28nm")
    assert provenance_json(table.name, table.origins)["area"] == "fitted"


def test_a_sum_is_as_sure_as_its_least_sure_part() -> None:
    origins = (Origin("sram", Provenance.MEASURED, "a"), Origin("wires", Provenance.SCALED, "b", 45.0))
    assert weakest(origins, ("sram",)) is Provenance.MEASURED
    assert weakest(origins, ("sram", "wires")) is Provenance.SCALED
    assert weakest(origins, ("dram",)) is None


def test_figures_of_a_file_are_given_and_a_lost_table_is_unknown() -> None:
    assert provenance_json(None, ())["energy"] == "given"
    assert technology_origins("no-such-table") == ()
    assert provenance_json("no-such-table", ())["area"] == "unknown"
    assert "from 40 nm" in provenance_text("cmos-22nm", technology_origins("cmos-22nm"))


@pytest.mark.parametrize("name", ["cmos-7nm", "cmos-45nm", "netlist-fitted-22nm", "maestro-28nm"])
def test_what_a_study_recorded_reads_like_the_table(name: str) -> None:
    origins = technology_origins(name)
    assert recorded_text(provenance_json(name, origins)) == provenance_text(name, origins)
    assert "no figure is measured" in provenance_text(name, origins)
    assert recorded_text(provenance_json(None, ())) == provenance_text(None, ())


def test_a_table_with_a_measured_part_is_not_said_to_have_none() -> None:
    text = provenance_text(
        "mine", (Origin("sram", Provenance.MEASURED, "a"), Origin("wires", Provenance.SCALED, "b", 45.0))
    )
    assert text == "mine: sram measured, wires scaled from 45 nm"


def test_a_design_record_names_its_provenance() -> None:
    record = describe_architecture(load_preset("eyeriss", "cmos-7nm"))
    assert record["provenance"]["area"] == "scaled"


def test_dram_of_a_device_names_the_device() -> None:
    origins = load_technology("cmos-22nm+hbm2-2000-x128@0.5").origins
    assert next(o.source for o in origins if o.part == "dram").startswith("hbm2-2000-x128@0.5")


def test_telling_cells_apart_does_not_change_the_area_in_the_fitted_library() -> None:
    areas = load_technology("netlist-fitted-22nm").netlists
    assert areas is not None
    library = cell_library(FITTED_LIBRARY)
    whole = areas.nand2["element"]["element"] + areas.nand2["element"]["handed sum"]
    assert mesh_element(areas, 32, 39.0).area_um2(library) == pytest.approx(whole * library.nand2_um2)


def test_scaled_cells_say_so() -> None:
    scaled = cell_libraries()["nangate45"].scaled(7)
    assert scaled.kind is Provenance.SCALED and "at 7 nm" in scaled.name
    assert scaled.nand2_um2 == pytest.approx(0.798 * 0.059)


def test_an_unknown_library_is_one_message() -> None:
    with pytest.raises(UserError, match="cell library"):
        cell_library("tsmc5")
