"""What knowing zeros costs and where it is written (law A8)."""

import pytest

from codesign.arch.architecture import Architecture, Arithmetic, LevelKind, StorageLevel
from codesign.arch.sparsity import RankFormat, ZeroAction, ZeroKind
from codesign.arch.technology import apply_technology
from codesign.arch.technology_files import load_technology
from codesign.arch.zero_support import compressed, zero_unit
from codesign.core.errors import UserError

PLAIN = Architecture(
    "plain",
    (
        StorageLevel("DRAM", LevelKind.DRAM, word_bits=64),
        StorageLevel(
            "Register", LevelKind.REGISTERS, capacity_bytes=64, word_bits=16, keep=frozenset({"input", "output"})
        ),
    ),
    Arithmetic(bits=16),
)


def test_a_skipping_unit_costs_area_and_energy() -> None:
    technology = load_technology("cmos-22nm")
    filled = apply_technology(PLAIN, technology)
    unit = zero_unit(
        filled, technology.arithmetic, ZeroKind.SKIP, leaders=("weight",), followers=("input",), metadata_bits=8
    )
    adder = technology.arithmetic.add[0]
    assert adder.bits == 8
    assert filled.mac.area_mm2 is not None
    assert filled.mac.energy_pj is not None
    assert unit.mac.area_mm2 == pytest.approx(filled.mac.area_mm2 + 2e-6 * adder.area_um2)
    assert unit.mac.energy_pj == pytest.approx(filled.mac.energy_pj + 2 * adder.energy_pj)
    assert unit.mac.zeros is ZeroKind.SKIP
    assert unit.levels[-1].sparsity.actions == (ZeroAction(ZeroKind.SKIP, "input", ("weight",)),)
    assert unit.area_mm2 is not None
    assert filled.area_mm2 is not None
    assert unit.area_mm2 > filled.area_mm2
    with pytest.raises(UserError, match="added to MACs with energy and area"):
        zero_unit(
            PLAIN, technology.arithmetic, ZeroKind.SKIP, leaders=("weight",), followers=("input",), metadata_bits=8
        )


def test_formats_go_where_the_tensor_may_be() -> None:
    coded = compressed(PLAIN, "weight", RankFormat.COORDINATES, 2)
    assert [len(v.sparsity.formats) for v in coded.levels] == [1, 0]
    assert coded.levels[0].sparsity.formats[0].flat
