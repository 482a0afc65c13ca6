"""What every technology keeps: it fills in all figures, positive ones; more memory costs more."""

from abc import ABC, abstractmethod

from codesign.arch.architecture import Architecture, Arithmetic, Fanout, LevelKind, StorageLevel
from codesign.arch.technology import Technology, apply_technology

SMALL_BYTES, LARGE_BYTES = 4096.0, 262144.0


def bare(buffer_bytes: float) -> Architecture:
    """DRAM, a buffer and 16 MACs, no figure given."""
    return Architecture(
        "contract",
        (
            StorageLevel("DRAM", kind=LevelKind.DRAM, word_bits=64, read_bandwidth_words_per_cycle=1.0),
            StorageLevel("Buffer", capacity_bytes=buffer_bytes, word_bits=64, fanout=Fanout(4, 4)),
        ),
        Arithmetic(),
    )


class TechnologyContract(ABC):
    """Laws of `codesign.arch.technology.Technology`."""

    @abstractmethod
    def make(self) -> Technology:
        """The technology under test."""

    def _filled(self, buffer_bytes: float) -> Architecture:
        return apply_technology(bare(buffer_bytes), self.make())

    def test_every_figure_is_filled_in_and_positive(self) -> None:
        """Energies of every level and of the MAC, areas on chip."""
        filled = self._filled(SMALL_BYTES)
        for level in filled.levels:
            assert level.energy is not None and min(level.energy.read_pj, level.energy.update_pj) > 0, level.name
        assert filled.mac.energy_pj is not None and filled.mac.energy_pj > 0
        assert filled.area_mm2 is not None and filled.area_mm2 > 0 and filled.leakage_w >= 0

    def test_more_memory_costs_more(self) -> None:
        """A buffer of 64 times the size takes more area and more energy an access; DRAM costs more than both."""
        small, large = self._filled(SMALL_BYTES), self._filled(LARGE_BYTES)
        assert large.area_mm2 is not None and small.area_mm2 is not None and large.area_mm2 > small.area_mm2
        reads = []
        for level in (small.levels[1], large.levels[1], large.levels[0]):
            assert level.energy is not None
            reads.append(level.energy.read_pj / level.word_bits)
        assert reads == sorted(reads)

    def test_it_has_a_name_and_a_node(self) -> None:
        """What a record says of it."""
        made = self.make()
        assert made.name and made.node_nm > 0
