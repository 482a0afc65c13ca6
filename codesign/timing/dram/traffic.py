"""Access streams of a DRAM channel."""

from dataclasses import dataclass

from codesign.mapping.nest import IntArray


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
