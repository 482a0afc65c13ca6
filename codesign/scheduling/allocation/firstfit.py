"""First fit: buffers one by one, each at the lowest address that is free throughout its life."""

from collections.abc import Callable, Iterator, Sequence

from codesign.scheduling.allocation.buffers import Buffer


def first_fit(buffers: Sequence[Buffer], order: Sequence[int]) -> list[int]:
    """The offsets when buffers are placed in `order`; never fails, for want of a capacity."""
    offsets = [0] * len(buffers)
    placed: list[int] = []
    for position in order:
        buffer = buffers[position]
        taken = sorted(
            (offsets[other], offsets[other] + buffers[other].size)
            for other in placed
            if buffers[other].lower < buffer.upper and buffer.lower < buffers[other].upper
        )
        address = 0
        for start, end in taken:
            if address + buffer.size <= start:
                break
            address = max(address, end)
        offsets[position] = address
        placed.append(position)
    return offsets


def natural_orders(buffers: Sequence[Buffer]) -> Iterator[tuple[str, list[int]]]:
    """Orders that often work: largest, longest-lived, largest area first; and as they come alive."""

    def by(key: Callable[[Buffer], tuple[int, ...]]) -> list[int]:
        return sorted(range(len(buffers)), key=lambda p: (*key(buffers[p]), p))

    yield "largest first", by(lambda b: (-b.size, b.lower - b.upper))
    yield "largest area first", by(lambda b: (b.size * (b.lower - b.upper), -b.size))
    yield "longest first", by(lambda b: (b.lower - b.upper, -b.size))
    yield "in order of time", by(lambda b: (b.lower, -b.size))
