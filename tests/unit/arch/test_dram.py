import pytest

from codesign.arch.dram import DramType, dram_energy_pj_per_bit, effective_bandwidth
from codesign.arch.technology_files import load_technology
from codesign.core.errors import UserError

# 10 pJ/bit at 64 bytes, of which the row takes 1024 pJ / 512 bits = 2 pJ/bit
EXAMPLE = DramType("example", energy_pj_per_bit=10, row_pj=1024, row_bytes=1024, atom_bytes=32, source="made up")


@pytest.mark.parametrize(
    ("burst_bytes", "expected_pj_per_bit"),
    [
        (64, 8 + 2),  # the published figure comes back
        (32, 8 + 1024 / 256),  # half the bits share the row
        (16, 8 * 2 + 1024 / 128),  # and half the atom is thrown away
        (1024, 8 + 1024 / 8192),
        (2048, 8 + 2 * 1024 / 16384),  # two rows
        (48, 8 * 64 / 48 + 1024 / 384),  # a whole number of atoms is moved
    ],
)
def test_energy_per_bit_by_hand(burst_bytes: int, expected_pj_per_bit: float) -> None:
    assert dram_energy_pj_per_bit(EXAMPLE, burst_bytes) == pytest.approx(expected_pj_per_bit, rel=1e-12)


def test_built_in_types_give_their_published_figure_at_a_cache_line() -> None:
    published = {"lpddr4": 8, "lpddr": 40, "ddr3": 70, "ddr4": 20.3, "hbm2": 6.25, "hbm3": 4.05}
    types = {d.name: d for d in load_technology("cmos-45nm").dram}
    assert set(types) == set(published)
    for name, figure in published.items():
        assert dram_energy_pj_per_bit(types[name], 64) == pytest.approx(figure, rel=1e-12)


def test_row_energies_follow_from_the_currents_quoted_with_them() -> None:
    def row_pj(volts: float, idd0: float, idd3n: float, idd2n: float, tras_ns: float, trp_ns: float) -> float:
        return volts * (idd0 * (tras_ns + trp_ns) - idd3n * tras_ns - idd2n * trp_ns)  # V mA ns = pJ

    types = {d.name: d for d in load_technology("cmos-45nm").dram}
    lpddr3 = row_pj(1.2, 40, 21, 20.5, 34 * 1.25, 15 * 1.25)
    assert types["lpddr"].row_pj == pytest.approx(2 * lpddr3, rel=2e-3)
    assert types["lpddr4"].row_pj == pytest.approx(lpddr3 / 2 * (1.1 / 1.2) ** 2, rel=2e-3)
    assert types["ddr3"].row_pj == pytest.approx(8 * row_pj(1.35, 67, 51, 36, 28 * 1.25, 11 * 1.25), rel=2e-3)
    assert types["ddr4"].row_pj == pytest.approx(8 * row_pj(1.2, 48, 43, 34, 39 * 0.833, 16 * 0.833), rel=2e-3)
    hbm2 = row_pj(1.2, 65, 55, 40, 34, 14)
    assert types["hbm2"].row_pj == pytest.approx(hbm2, rel=2e-3)
    assert types["hbm3"].row_pj == pytest.approx(hbm2 * (1.1 / 1.2) ** 2, rel=2e-3)


@pytest.mark.parametrize(
    ("bus", "beats", "overhead", "expected"),
    [(8, 8, 8, 4.0), (16, 4, 12, 4.0), (16, 8, 0, 16.0), (8, 1, 7, 1.0), (32, 64, 16, 25.6)],
)
def test_effective_bandwidth_by_hand(bus: float, beats: int, overhead: float, expected: float) -> None:
    assert effective_bandwidth(bus, beats, overhead) == pytest.approx(expected, rel=1e-12)


def test_bad_values_are_refused() -> None:
    with pytest.raises(UserError, match="`burst_bytes` must be >= 1, got 0"):
        dram_energy_pj_per_bit(EXAMPLE, 0)
    with pytest.raises(UserError, match="`burst_length` must be >= 1, got 0"):
        effective_bandwidth(8, 0, 4)
    with pytest.raises(UserError, match="`bus_bytes_per_cycle` must be > 0, got 0"):
        effective_bandwidth(0, 4, 4)
    with pytest.raises(UserError, match="`overhead_cycles` must be >= 0, got -1"):
        effective_bandwidth(8, 4, -1)
    with pytest.raises(UserError, match="`row_pj` 99999 exceeds the whole energy of a 64-byte burst"):
        DramType("wrong", 10, 99999, 1024, 32, "made up")
    with pytest.raises(UserError, match="`energy_pj_per_bit` must be >= 0, got -1"):
        DramType("wrong", -1, 0, 1024, 32, "made up")
    with pytest.raises(UserError, match="`atom_bytes` must be >= 1, got 0"):
        DramType("wrong", 10, 0, 1024, 0, "made up")
