"""A hardware space of two knobs: the size of the array and of the buffer."""

from collections.abc import Mapping

from codesign.arch.architecture import Architecture, Arithmetic, Fanout, LevelKind, StorageLevel
from codesign.arch.technology import apply_technology
from codesign.arch.technology_files import load_technology
from spaces import PowerOfTwo, Space
from spaces.design import DesignSpace
from spaces.parameters import Value


def build(point: Mapping[str, Value]) -> Architecture:
    """DRAM, one buffer, a square array of MACs."""
    side, buffer_bytes = int(point["side"]), float(point["buffer_bytes"])
    levels = (
        StorageLevel(
            "DRAM",
            kind=LevelKind.DRAM,
            word_bits=64,
            read_bandwidth_words_per_cycle=1.0,
            write_bandwidth_words_per_cycle=1.0,
        ),
        StorageLevel("Buffer", capacity_bytes=buffer_bytes, word_bits=64, fanout=Fanout(side, side)),
    )
    return apply_technology(Architecture("two-knobs", levels, Arithmetic()), load_technology("cmos-45nm"))


TWO_KNOBS = DesignSpace(
    "two-knobs", Space([PowerOfTwo("side", 2, 16), PowerOfTwo("buffer_bytes", 16384, 262144)]), build
)
