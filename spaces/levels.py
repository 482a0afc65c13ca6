"""Memory levels that several spaces have: DRAM behind one port, and a banked scratchpad."""

from codesign.arch.architecture import AccessEnergy, Fanout, LevelKind, Ports, StorageLevel


def dram_level(word_bits: int, words_per_cycle: float, energy: AccessEnergy | None = None) -> StorageLevel:
    """DRAM whose port reads or writes so many words a cycle."""
    return StorageLevel(
        "DRAM",
        LevelKind.DRAM,
        word_bits=word_bits,
        read_bandwidth_words_per_cycle=words_per_cycle,
        write_bandwidth_words_per_cycle=words_per_cycle,
        ports=Ports.SHARED,
        energy=energy,
    )


def scratchpad_level(kib: int, banks: int, word_bits: int, fanout: Fanout | None = None) -> StorageLevel:
    """A scratchpad each of whose banks serves a read and a write port (H5)."""
    return StorageLevel(
        "Scratchpad",
        capacity_bytes=kib * 1024.0,
        word_bits=word_bits,
        banks=banks,
        read_bandwidth_words_per_cycle=float(banks),
        write_bandwidth_words_per_cycle=float(banks),
        fanout=fanout or Fanout(),
    )
