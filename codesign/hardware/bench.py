"""What stands around a machine in a simulation: a memory with a latency, and counters of what the machine does.

`codesign/hardware/data/testbench.cpp` is the same in C++; a test holds the two equal.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from codesign.core.errors import CodesignError
from codesign.hardware.image import Image

LATENCY_CYCLES = 14
"""From a request to its first beat: opening a row, H6 of docs/reference/hardware-space.md."""


class HardwareError(CodesignError):
    """A simulated machine did what no correct machine does."""


@dataclass
class Counts:
    """Events of a run.

    Args:
        feeds: (port code, whether into local memories, window or emission) -> lines read.
        multiplied: Multiplications of elements in use; `begun` those of them that began a sum.
        written: Words of results written to the scratchpad. summed: Those of them that read an old sum.
        loaded, stored: By tensor, bytes that crossed the DRAM port.
    """

    feeds: Counter[tuple[int, bool, int]] = field(default_factory=Counter)
    multiplied: int = 0
    begun: int = 0
    written: int = 0
    summed: int = 0
    loaded: Counter[str] = field(default_factory=Counter)
    stored: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Run:
    """What a simulation gave.

    Args:
        cycles: Cycles in which the machine was busy.
        memory: DRAM at the end.
        counts: What happened.
        seconds: Of the simulation alone.
        simulator: Which one.
        written_cycle: By byte of DRAM, the cycle in which it was last written, 0 for never.
    """

    cycles: int
    memory: bytes
    counts: Counts
    seconds: float
    simulator: str
    written_cycle: npt.NDArray[np.uint32]


class Dram:
    """A memory that answers one read and one write burst at a time, the first beat so many cycles after the request."""

    def __init__(self, image: Image, memory: bytes, latency: int, counts: Counts) -> None:
        self.memory, self.latency, self.counts = bytearray(memory), latency, counts
        self.beat_bytes = image.parameters.bus_bytes
        self.regions = [(x.base, x.base + x.size_bytes, x.tensor) for x in image.layouts.values()]
        self.read_at = self.read_beats = self.read_wait = 0
        self.write_at = self.write_beats = self.write_wait = 0
        self.cycles = 0
        self.written_cycle = np.zeros(len(memory), np.uint32)

    def owner(self, address: int) -> str:
        """The tensor that lies there."""
        for first, end, tensor in self.regions:
            if first <= address < end:
                return tensor
        raise HardwareError(f"a burst at DRAM address {address:#x}, where no tensor lies")

    def inputs(self) -> dict[str, int]:
        """What the machine sees in this cycle."""
        valid = self.read_beats > 0 and self.read_wait == 0
        data = int.from_bytes(self.memory[self.read_at : self.read_at + self.beat_bytes], "little") if valid else 0
        return {"r_valid": int(valid), "r_data": data, "w_ready": int(self.write_beats > 0 and self.write_wait == 0)}

    def cycle(self, seen: Mapping[str, int], given: Mapping[str, int]) -> None:
        """What the machine did in this cycle."""
        self.cycles += 1
        self.read_wait, self.write_wait = max(0, self.read_wait - 1), max(0, self.write_wait - 1)
        if given["r_valid"]:
            self.counts.loaded[self.owner(self.read_at)] += seen["ev_loaded"]
            if seen["r_ready"]:
                self.read_at += self.beat_bytes
                self.read_beats -= 1
        if given["w_ready"] and seen["w_valid"]:
            count = seen["w_strb"].bit_length()
            data = seen["w_data"].to_bytes(self.beat_bytes, "little")
            self.counts.stored[self.owner(self.write_at)] += count
            self.memory[self.write_at : self.write_at + count] = data[:count]
            self.written_cycle[self.write_at : self.write_at + count] = self.cycles
            self.write_at += self.beat_bytes
            self.write_beats -= 1
        if seen["ar_valid"]:
            self.read_at, self.read_beats, self.read_wait = seen["ar_addr"], seen["ar_beats"], self.latency - 1
        if seen["aw_valid"]:
            self.write_at, self.write_beats, self.write_wait = seen["aw_addr"], seen["aw_beats"], self.latency - 1


def count(counts: Counts, seen: Mapping[str, int]) -> None:
    """Add one cycle's events."""
    if seen["ev_feed"]:
        counts.feeds[seen["ev_feed"].bit_length() - 1, bool(seen["ev_fill"]), seen["ev_window"]] += 1
    if seen["ev_go"] and not seen["ev_drain"]:
        active = seen["ev_rows"] * seen["ev_cols"] + seen["ev_last"]
        counts.multiplied += active
        counts.begun += active if seen["ev_first"] else 0
    if seen["ev_write"]:
        words = seen["ev_write"].bit_count()
        counts.written += words
        counts.summed += words if seen["ev_read"] else 0
