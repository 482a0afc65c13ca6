"""Access streams of studies: runs of bytes, strided loops, interleaved streams, pseudo-random bursts."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from codesign.core.errors import UserError
from codesign.mapping.nest import IntArray

_MULTIPLIER, _INCREMENT, _MASK = 6364136223846793005, 1442695040888963407, (1 << 64) - 1


@dataclass(frozen=True)
class Stream:
    """Bursts in order.

    Args:
        address: ``N`` bytes, multiples of the burst.
        write: ``N`` 1 for writes.
    """

    address: IntArray
    write: IntArray

    def __len__(self) -> int:
        return len(self.address)


@dataclass(frozen=True)
class Strided:
    """Runs of bytes at the points of a loop nest.

    Args:
        base: First byte.
        run: Bytes of each run; every burst it touches is one access.
        loops: Pairs (count, stride in bytes), outermost first.
        write: Whether the runs are written.
    """

    base: int
    run: int
    loops: tuple[tuple[int, int], ...] = field(default=())
    write: bool = False

    def expand(self, burst_bytes: int) -> Stream:
        """The stream of bursts that the runs of bytes touch."""
        if self.run < 1 or burst_bytes < 1:
            raise UserError(f"a run must have at least one byte, got {self.run}")
        starts = np.array([self.base], np.int64)
        for count, stride in self.loops:
            starts = (starts[:, None] + np.arange(count, dtype=np.int64) * stride).ravel()
        first, last = starts // burst_bytes, (starts + self.run - 1) // burst_bytes
        counts = last - first + 1
        ends = np.cumsum(counts)
        inside = np.arange(int(ends[-1]) if len(ends) else 0, dtype=np.int64) - np.repeat(ends - counts, counts)
        address = (np.repeat(first, counts) + inside) * burst_bytes
        return Stream(address, np.full(len(address), int(self.write), np.int64))


def interleave(streams: Sequence[Stream], turn: int) -> Stream:
    """Round robin: `turn` bursts of each stream at a time, until all are spent."""
    order = [np.arange(len(s), dtype=np.int64) for s in streams]
    which = np.concatenate([np.full(len(s), i, np.int64) for i, s in enumerate(streams)])
    place = np.concatenate(order)
    rank = np.lexsort((place, which, place // turn))
    address = np.concatenate([s.address for s in streams])
    write = np.concatenate([s.write for s in streams])
    return Stream(address[rank], write[rank])


def random_bursts(
    seed: int, count: int, base: int, span: int, align: int, write_every: int, burst_bytes: int
) -> Stream:
    """Bursts at pseudo-random places: a 64-bit linear congruential generator, its upper 31 bits."""
    address = np.zeros(count, np.int64)
    state = seed
    for i in range(count):
        state = (state * _MULTIPLIER + _INCREMENT) & _MASK
        address[i] = (base + ((state >> 33) % (span // align)) * align) // burst_bytes * burst_bytes
    write = np.zeros(count, np.int64)
    if write_every:
        write[write_every - 1 :: write_every] = 1
    return Stream(address, write)
