"""MAESTRO's closed forms against every layer of every recorded run of the program."""

import json
from pathlib import Path
from typing import Any

import pytest

from codesign.core.errors import UserError
from experiments.models.maestro_forms import (
    HEAD,
    PINNED,
    MaestroDesign,
    maestro_area_um2,
    maestro_energy_macs,
    maestro_power_mw,
    maestro_table_energy_nj,
)
from tests.reference_data import REFERENCE, needs_data

FILES = sorted(p for p in (REFERENCE / "maestro").glob("*.json") if p.name.startswith(("head_", "pinned_")))
TENSORS = ("input", "filter", "output")
EXACT = 2e-5  # the program prints six digits


def accesses(row: dict[str, Any], level: str, without: tuple[str, ...] = ()) -> float:
    names = [f"{tensor} {level} {kind}" for tensor in TENSORS for kind in ("read", "write")]
    return float(sum(row[name] for name in names if name not in without))


def required_bytes(row: dict[str, Any], level: str) -> float:
    # the older version's heading lacks `Req`
    heading = f"{level} SRAM Size Req (Bytes)"
    return float(row[heading if heading in row else f"{level} SRAM Size (Bytes)"])


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_layer_has_the_programs_area_power_and_energy(path: Path) -> None:
    run = json.loads(path.read_text())
    constants = HEAD if path.name.startswith("head_") else PINNED
    previous_l1 = 0.0
    for row in run["layers"]:
        place = f"{path.stem} {row['Layer Number']}"
        design = MaestroDesign(
            pes=row["NumPEs"],
            noc_bandwidth=run["hw"]["noc"],
            l1_required_bytes=required_bytes(row, "L1"),
            l2_required_bytes=required_bytes(row, "L2"),
            lanes=row["Vector Width"],
        )
        area = maestro_area_um2(design, constants)
        power = maestro_power_mw(design, constants)
        assert area.total == pytest.approx(row["Area"], rel=EXACT), place
        assert power.total == pytest.approx(row["Power"], rel=EXACT), place
        for name in ("pes", "l1", "l2", "noc"):
            printed = row[{"pes": "PE power", "l1": "L1 power", "l2": "L2 power", "noc": "NOC power"}[name]]
            assert getattr(power, name) == pytest.approx(printed, rel=EXACT), f"{place} {name}"
        own_l1 = accesses(row, "l1")
        energy = maestro_energy_macs(row["Num MACs"], accesses(row, "l2"), own_l1, constants)
        assert energy == pytest.approx(row["_total_energy_in_MAC_units_printed"], rel=EXACT), place
        listed = row["Activity count-based Energy (nJ)"]
        l2 = accesses(row, "l2", without=("output l2 read",))
        either = [maestro_table_energy_nj(l2, l1, constants) for l1 in (own_l1, previous_l1)]
        assert any(e == pytest.approx(listed, rel=EXACT) for e in either), place
        previous_l1 = own_l1


def test_lanes_not_given_are_those_of_the_version() -> None:
    design = MaestroDesign(pes=64, noc_bandwidth=16, l1_required_bytes=64, l2_required_bytes=4096)
    assert maestro_area_um2(design, HEAD).pes == 64 * 283.0
    assert maestro_power_mw(design, PINNED).pes == pytest.approx(64 * 1.2223 * 9)


def test_a_design_without_elements_is_refused() -> None:
    with pytest.raises(UserError, match=r"`pes` must be > 0, got 0"):
        MaestroDesign(pes=0, noc_bandwidth=16, l1_required_bytes=64, l2_required_bytes=4096)


def test_there_are_layers() -> None:
    needs_data("maestro", FILES)
