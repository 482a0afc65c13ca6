"""Whether buffers with addresses share memory."""

from collections.abc import Sequence

from codesign.scheduling.allocation.buffers import Buffer


def overlap(buffers: Sequence[Buffer], offsets: Sequence[int]) -> tuple[int, int] | None:
    """Positions of two buffers that share an address at some moment, or None."""
    active: list[int] = []
    for position in sorted(range(len(buffers)), key=lambda p: buffers[p].lower):
        buffer = buffers[position]
        active = [p for p in active if buffers[p].upper > buffer.lower]
        for other in active:
            if (
                offsets[position] < offsets[other] + buffers[other].size
                and offsets[other] < offsets[position] + buffer.size
            ):
                return other, position
        active.append(position)
    return None
