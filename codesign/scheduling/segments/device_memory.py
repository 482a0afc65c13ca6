"""DRAMs of a system of many cores as devices with banks and rows (rule M109 of `codesign.scheduling.segments.contention`)."""

from dataclasses import dataclass
from typing import final

import numpy as np

from codesign.core.kernel_library import FloatArray, IntArray
from codesign.timing.dram.device import DramDevice
from codesign.timing.dram.memory import serve_stream


@final
@dataclass(frozen=True)
class DeviceMemory:
    """A DRAM whose peak is the system's rate and whose commands take turns as a device's do (rule M109).

    Transfers lie one after another, each from the start of a burst. A packet asks for the bursts that no earlier packet of its
    transfer has touched, and has been served with the last burst that it touches.

    Args:
        words_per_cycle: Peak, words (bytes) a cycle of the cores.
        device: The device.
    """

    words_per_cycle: int
    device: DramDevice

    @property
    def cycles_per_clock(self) -> float:
        """Cycles of the cores in which the device has one clock, so that its columns one after another move words at the peak."""
        return self.device.burst_bytes / self.words_per_cycle / self.device.column_cycles

    def serve(self, words: FloatArray, written: IntArray, transfer: IntArray) -> IntArray:
        """See `contention.MemoryClock`."""
        order = np.argsort(transfer, kind="stable")
        sums = np.cumsum(words[order])
        begins = np.flatnonzero(np.diff(transfer[order], prepend=-1))
        before = np.concatenate([np.zeros(1), sums])[begins]
        inside = sums - np.repeat(before, np.diff(np.append(begins, len(order))))
        burst = self.device.burst_bytes
        through = np.maximum(1, np.ceil(inside / burst - 1e-9)).astype(np.int64)
        of_transfer = np.maximum.reduceat(through, begins)
        base = np.concatenate([np.zeros(1, np.int64), np.cumsum(of_transfer)[:-1]])
        lengths = np.diff(np.append(begins, len(order)))
        past = np.empty(len(order), np.int64)
        past[order] = through + np.repeat(base, lengths)
        first = np.empty(len(order), np.int64)
        starts = np.concatenate([np.zeros(1, np.int64), through[:-1]])
        starts[begins] = 0
        first[order] = starts + np.repeat(base, lengths)
        return self._done(first, past, written)

    def _done(self, first: IntArray, past: IntArray, written: IntArray) -> IntArray:
        """Cycles at which packets have been served that ask for bursts `first` to `past` - 1 and end with `past` - 1."""
        counts = past - first
        offsets = np.cumsum(counts) - counts
        inside = np.arange(int(counts.sum())) - np.repeat(offsets, counts)
        number = np.repeat(first, counts) + inside
        _, served = serve_stream(self.device, number * self.device.burst_bytes, np.repeat(written, counts))
        done = np.zeros(int(past.max()), np.int64)
        done[number] = served.done
        cycles: FloatArray = np.ceil(done[past - 1] * self.cycles_per_clock - 1e-9)
        return cycles.astype(np.int64)
