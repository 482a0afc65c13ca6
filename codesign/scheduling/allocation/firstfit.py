"""First fit: buffers one by one, each at the lowest address that is free throughout its life."""

from collections.abc import Callable, Iterator, Sequence

from codesign.scheduling.allocation.buffers import Buffer


def neighbours(buffers: Sequence[Buffer]) -> list[list[int]]:
    """Per buffer the others that are alive at some moment of its life."""
    found: list[list[int]] = [[] for _ in buffers]
    active: list[int] = []
    for position in sorted(range(len(buffers)), key=lambda p: buffers[p].lower):
        active = [other for other in active if buffers[other].upper > buffers[position].lower]
        for other in active:
            found[other].append(position)
            found[position].append(other)
        active.append(position)
    return found


def first_fit(
    buffers: Sequence[Buffer], order: Sequence[int], beside: Sequence[Sequence[int]] | None = None
) -> list[int]:
    """The offsets when buffers are placed in `order`; never fails, for want of a capacity.

    Args:
        buffers: What to place.
        order: Positions, first to last.
        beside: Their `neighbours`, if known.
    """
    beside = neighbours(buffers) if beside is None else beside
    offsets = [-1] * len(buffers)
    for position in order:
        size = buffers[position].size
        address = 0
        taken = [(offsets[n], offsets[n] + buffers[n].size) for n in beside[position] if offsets[n] >= 0]
        for start, end in sorted(taken):
            if address + size <= start:
                break
            address = max(address, end)
        offsets[position] = address
    return offsets


def natural_orders(buffers: Sequence[Buffer]) -> Iterator[tuple[str, list[int]]]:
    """Orders that often work: largest, longest-lived, largest area first; and as they come alive."""

    def by(key: Callable[[Buffer], tuple[int, ...]]) -> list[int]:
        return sorted(range(len(buffers)), key=lambda p: (*key(buffers[p]), p))

    yield "largest first", by(lambda b: (-b.size, b.lower - b.upper))
    yield "largest area first", by(lambda b: (b.size * (b.lower - b.upper), -b.size))
    yield "longest first", by(lambda b: (b.lower - b.upper, -b.size))
    yield "in order of time", by(lambda b: (b.lower, -b.size))
