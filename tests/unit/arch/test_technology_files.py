import copy
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from codesign.arch.dram import dram_energy_pj_per_bit
from codesign.arch.scaling import area_factor, energy_factor, wire_energy_factor
from codesign.arch.sram import FittedSram, SramStep, SteppedSram
from codesign.arch.technology import apply_technology
from codesign.arch.technology_files import load_technology, read_technology, technology_from_json, technology_names
from codesign.core.errors import UserError
from tests.unit.arch.test_technology import machine

OWN: dict[str, Any] = {
    "name": "mine",
    "node_nm": 28,
    "arithmetic": {
        "node_nm": 28,
        "source": "measured",
        "add": [{"bits": 8, "energy_pj": 0.01, "area_um2": 20}],
        "multiply": [{"bits": 8, "energy_pj": 0.1, "area_um2": 150}],
        "leakage_nw_per_um2": 5,
    },
    "registers": {
        "node_nm": 28,
        "source": "measured",
        "energy_pj_per_bit": 0.004,
        "area_um2_per_bit": 3,
        "leakage_nw_per_um2": 5,
        "multiplexer_share": 0.4,
        "gate_area_um2": 0.6,
    },
    "wires": {"node_nm": 28, "source": "measured", "energy_pj_per_bit_mm": 0.1, "pitch_um": 0.15},
    "sram": {
        "node_nm": 28,
        "source": "memory compiler",
        "steps": [
            {"up_to_bytes": 8192, "read_pj_per_bit": 0.02, "write_pj_per_bit": 0.03, "area_um2_per_byte": 4},
            {"read_pj_per_bit": 0.1, "write_pj_per_bit": 0.12, "area_um2_per_byte": 3, "leakage_mw_per_byte": 1e-6},
        ],
    },
    "dram": [{"name": "lpddr5", "energy_pj_per_bit": 6, "row_pj": 500, "source": "data sheet"}],
}


def own(**changes: Any) -> dict[str, Any]:
    return copy.deepcopy(OWN) | changes


def test_built_in_tables_load_under_their_names() -> None:
    for name in technology_names():
        assert load_technology(name).name == name


def test_a_users_own_table_is_used_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({"technology": OWN}))
    table = load_technology(str(path))
    assert table == read_technology(path)
    filled = apply_technology(machine(), table)
    buffer, spad = filled.levels[1:]
    assert buffer.energy is not None and spad.energy is not None
    assert (buffer.energy.read_pj, buffer.energy.fill_pj) == pytest.approx((6.4, 7.68))
    assert buffer.leakage_mw == pytest.approx(0.131072)
    assert filled.levels[0].energy is not None
    assert filled.levels[0].energy.read_pj == pytest.approx(6 * 64)
    # one width is scaled: multipliers with the square, adders (40 bits) in proportion
    assert filled.mac.energy_pj == pytest.approx(0.1 * 4 + 0.01 * 5)


def test_steps_are_chosen_by_capacity() -> None:
    sram = technology_from_json(OWN).sram
    assert sram.read_pj(8192, 32, 1) == pytest.approx(0.64)
    assert sram.read_pj(8193, 32, 1) == pytest.approx(3.2)
    assert sram.write_pj(8192, 32, 1) == pytest.approx(0.96)
    assert sram.area_mm2(1000, 32, 4) == pytest.approx(4e-3)
    assert sram.leakage_mw(1000, 32, 1) == 0.0


def test_parts_of_another_node_are_scaled() -> None:
    base, scaled = load_technology("cmos-45nm"), load_technology("cmos-32nm")
    energy, area = energy_factor(45, 32), area_factor(45, 32)
    assert scaled.arithmetic.multiply[0].energy_pj == pytest.approx(0.2 * energy)
    assert scaled.arithmetic.multiply[0].area_um2 == pytest.approx(282 * area)
    assert scaled.arithmetic.leakage_nw_per_um2 == pytest.approx(12.6 * energy / area)
    assert scaled.registers.energy_pj_per_bit == pytest.approx(0.009 * energy_factor(40, 32))
    assert scaled.wires.energy_pj_per_bit_mm == pytest.approx(0.121 * wire_energy_factor(40, 32))
    assert scaled.wires.pitch_um == pytest.approx(0.28 * 32 / 45)
    assert scaled.dram == base.dram
    # 32 nm lies nearer to 45 than to 22 in the logarithm
    assert scaled.sram.read_pj(65536, 64, 1) == pytest.approx(base.sram.read_pj(65536, 64, 1) * energy)
    assert scaled.sram.area_mm2(65536, 64, 1) == pytest.approx(base.sram.area_mm2(65536, 64, 1) * area)
    expected_mw = base.sram.leakage_mw(65536, 64, 1) * energy_factor(45, 32)
    assert scaled.sram.leakage_mw(65536, 64, 1) == pytest.approx(expected_mw)


def test_the_sram_fit_nearest_to_the_node_is_taken() -> None:
    nodes = {name: load_technology(name).sram for name in ("cmos-65nm", "cmos-32nm", "cmos-28nm", "cmos-12nm")}
    assert {name: sram.node_nm for name, sram in nodes.items() if isinstance(sram, FittedSram)} == {
        "cmos-65nm": 45,
        "cmos-32nm": 45,
        "cmos-28nm": 22,
        "cmos-12nm": 22,
    }


def test_logic_of_22_nm_scales_as_the_two_sram_sweeps_do() -> None:
    # the scaling rule and the two sweeps are independent of each other; they differ by 3 %
    small, large = load_technology("cmos-22nm").sram, load_technology("cmos-45nm").sram
    assert energy_factor(45, 22) == pytest.approx(small.read_pj(65536, 64, 1) / large.read_pj(65536, 64, 1), rel=0.04)
    assert area_factor(45, 22) == pytest.approx(small.area_mm2(65536, 64, 1) / large.area_mm2(65536, 64, 1), rel=0.04)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nod_nm": 28}, r"unknown key 'nod_nm'.*did you mean 'node_nm'"),
        ({"node_nm": -1}, r"`node_nm` must be a number > 0, got -1"),
        ({"wires": None}, r"`node_nm` is missing .*`wires`"),
        ({"sram": []}, r"`sram` must hold at least one section"),
        ({"dram": []}, r"`dram` must hold at least one type"),
        ({"default_dram": "ddr9"}, r"unknown DRAM type 'ddr9'"),
        (
            {"registers": OWN["registers"] | {"area_um2_per_bit": "big"}},
            r"`area_um2_per_bit` must be a number >= 0, got 'big'",
        ),
        ({"registers": OWN["registers"] | {"node_nm": 0}}, r"`node_nm` must be a number > 0, got 0 \(.*`registers`"),
        ({"wires": OWN["wires"] | {"node_nm": 0}}, r"`node_nm` must be a number > 0, got 0 \(.*`wires`"),
        ({"wires": OWN["wires"] | {"pitch_um": -1}}, r"`pitch_um` must be a number >= 0, got -1 \(.*`wires`"),
        ({"arithmetic": OWN["arithmetic"] | {"add": [{"bits": 0}]}}, r"`bits` must be an integer >= 1, got 0"),
        ({"arithmetic": OWN["arithmetic"] | {"add": [{"bits": 8}]}}, r"`energy_pj` is missing"),
        ({"arithmetic": OWN["arithmetic"] | {"add": []}}, r"`add` must list one or more widths"),
        ({"sram": OWN["sram"] | {"steps": OWN["sram"]["steps"][:1]}}, r"last SRAM step must be for any capacity"),
        ({"sram": {"node_nm": 28, "source": "x"}}, r"`cell` is missing .*`area`"),
    ],
)
def test_a_malformed_table_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        technology_from_json(own(**changes), "mine.yaml")
    assert "mine.yaml" in str(error.value)


def test_an_unknown_table_is_refused_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"unknown technology 'maestro-28'; did you mean 'maestro-28nm'"):
        load_technology("maestro-28")
    with pytest.raises(UserError, match=r"`node_nm` must be between 7 and 130, got 3"):
        load_technology("cmos-3nm")
    with pytest.raises(UserError, match=r"no such file: nowhere\.yaml"):
        load_technology("nowhere.yaml")


def test_negative_coefficients_and_disordered_steps_are_refused() -> None:
    with pytest.raises(UserError, match=r"`read_pj_per_bit` must be >= 0, got -1"):
        SramStep(None, -1, 1, 1)
    with pytest.raises(UserError, match=r"growing `up_to_bytes`, got \[8192, 4096\]"):
        SteppedSram(28, "x", (SramStep(8192, 1, 1, 1), SramStep(4096, 1, 1, 1), SramStep(None, 1, 1, 1)))
    fitted = load_technology("cmos-45nm").sram
    assert isinstance(fitted, FittedSram)
    with pytest.raises(UserError, match=r"`cell` must be >= 0, got -1"):
        replace(fitted, area=replace(fitted.area, cell=-1.0))


def test_the_maestro_table_has_its_multiples_of_a_mac() -> None:
    table = load_technology("maestro-28nm")
    filled = apply_technology(machine(), table)
    mac = 0.23
    assert filled.level("Buffer").energy is not None
    assert filled.level("Buffer").energy.read_pj / 8 == pytest.approx(18.61 * mac)
    assert table.sram.read_pj(2048, 8, 1) == pytest.approx(1.68 * mac)
    assert table.sram.area_mm2(2048, 8, 1) == pytest.approx(0.104e-6 * 2048)
    assert filled.level("Buffer").fanout.hop_pj_per_bit == 0.0
    assert apply_technology(filled, table) == filled


def test_the_example_and_the_dram_figures_of_the_document_hold() -> None:
    document = (Path(__file__).parents[3] / "docs" / "reference" / "technology.md").read_text()
    (example,) = re.findall(r"```yaml\n(.*?)```", document, re.DOTALL)
    table = technology_from_json(yaml.safe_load(example)["technology"])
    assert (table.name, table.default_dram) == ("mine", "lpddr5")
    rows = re.findall(r"^\| (\w+)(?: \(default\))? \|((?: [\d.]+ \|){6})$", document, re.MULTILINE)
    types = load_technology("cmos-45nm").dram
    assert [name for name, _ in rows] == [d.name for d in types]
    for dram, (_, figures) in zip(types, rows, strict=True):
        at_64, row_pj, row_bytes, atom, at_256, at_1024 = (float(x) for x in figures.split("|")[:6])
        stated = (at_64, row_pj, row_bytes, atom)
        assert (dram.energy_pj_per_bit, dram.row_pj, dram.row_bytes, dram.atom_bytes) == stated
        assert dram_energy_pj_per_bit(dram, 256) == pytest.approx(at_256, rel=5e-3)
        assert dram_energy_pj_per_bit(dram, 1024) == pytest.approx(at_1024, rel=5e-3)
