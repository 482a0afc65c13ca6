"""First fit: buffers one by one, each at the lowest address that is free throughout its life."""

import random
from collections.abc import Callable, Iterator, Sequence

from codesign.scheduling.allocation.buffers import Buffer, loads


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


def repaired_order(
    buffers: Sequence[Buffer],
    capacity: int,
    order: Sequence[int],
    beside: Sequence[Sequence[int]],
    seed: int,
    work: int,
) -> list[int] | None:
    """An order in which first fit stays within the capacity: buffers that end above it overtake one they meet.

    Args:
        buffers: What to place.
        capacity: Units of memory.
        order: Where to start; may leave buffers out.
        beside: The `neighbours`.
        seed: Of the choice of the one to overtake.
        work: Pairs of neighbours looked at before giving up.
    """
    rng = random.Random(seed)
    queue = list(order)
    pairs = sum(len(beside[p]) for p in order) + len(order) + 1
    for _ in range(work // pairs):
        offsets = first_fit(buffers, queue, beside)
        high = [p for p in queue if offsets[p] + buffers[p].size > capacity]
        if not high:
            return queue
        for position in high:
            place = queue.index(position)
            met = set(beside[position])
            ahead = [k for k in range(place) if queue[k] in met]
            if ahead:
                del queue[place]
                queue.insert(rng.choice(ahead), position)
    return None


def crowd(buffers: Sequence[Buffer], load: float) -> set[int]:
    """The buffers that are alive at some moment when at least `load` is."""
    moments = [time for time, total in loads(buffers) if total >= load]
    return {p for p, b in enumerate(buffers) if any(b.lower <= m < b.upper for m in moments)}
