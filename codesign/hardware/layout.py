"""How a tensor lies in DRAM and in the scratchpad: its places, from the outermost to the innermost.

A place is an axis, or a loop of the mapping that cuts an axis. A *plain* layout has whole axes alone: the tensor as a program would write it, with
the axis that is spread widest over the array innermost. A *blocked* layout cuts every axis that one dimension alone makes up:
outside stand the loops outside the tile in the scratchpad, inside those within it, innermost those that are spread over the array. So a
tile is one contiguous run, and what the elements of the array want in one cycle lies side by side. Axes of sliding windows stay whole.
A *grouped* layout is a blocked one in which words that a local memory takes at once lie side by side, in bytes of their own in the scratchpad.
A *partly* grouped layout takes up to four words at once where a loop or an axis of a window has any number of them, so the last ones may be fewer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.int64]

NO_PADS: Mapping[int, int] = MappingProxyType({})
"""No bytes are left free."""


class LayoutKind(Enum):
    """Which layout a mapping runs with."""

    PLAIN = "plain"
    BLOCKED = "blocked"
    GROUPED = "grouped"
    PARTLY = "partly"


@dataclass(frozen=True)
class Place:
    """One digit of an element's position.

    Args:
        axis: Of the tensor.
        step: Positions on the axis that one step moves.
        count: Steps in the whole tensor.
        inside: Steps within a tile in the scratchpad.
        temporal: The mapping's temporal loop it is, or None.
        spatial: The spatial loop it is, or None. A whole axis is neither.
    """

    axis: int
    step: int
    count: int
    inside: int
    temporal: int | None = None
    spatial: int | None = None

    @property
    def whole(self) -> bool:
        """Whether it is a whole axis."""
        return self.temporal is None and self.spatial is None


def strides_by_place(counts: Sequence[int], element_bytes: int, padded: Mapping[int, int] = NO_PADS) -> tuple[int, ...]:
    """Bytes that a step of each place moves; the last place is the innermost.

    Args:
        counts: Steps of each place.
        element_bytes: Of an element.
        padded: By place, what its whole extent takes a multiple of, in bytes.

    >>> strides_by_place([4, 3, 5], 1), strides_by_place([4, 3, 5], 1, {2: 8})
    ((15, 5, 1), (24, 8, 1))
    """
    found, step = [], element_bytes
    for i in range(len(counts) - 1, -1, -1):
        found.append(step)
        step *= counts[i]
        if i in padded:
            step = -(-step // padded[i]) * padded[i]
    return tuple(reversed(found))


def along_axis(loops: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """By element along an axis of the array, how far its loops move it.

    Args:
        loops: Iterations of each loop, the outermost first, and what one of them moves.

    >>> along_axis([(2, 10), (3, 1)])
    (0, 1, 2, 10, 11, 12)
    """
    found: list[int] = [0]
    for count, step in loops:
        found = [at + k * step for at in found for k in range(count)]
    return tuple(found)


def distance(places: Sequence[Place], strides: Sequence[int], moves: Sequence[int], loop: int, temporal: bool) -> int:
    """Bytes that one iteration of a loop moves.

    Args:
        places: Of the tensor.
        strides: Bytes by place.
        moves: Positions by axis that the loop moves.
        loop: Its number among the temporal or the spatial loops.
        temporal: Which of the two it is.
    """
    total = 0
    for place, stride in zip(places, strides, strict=True):
        if place.whole:
            total += moves[place.axis] * stride
        elif loop == (place.temporal if temporal else place.spatial):
            total += stride
    return total


@dataclass(frozen=True)
class Box:
    """A tile as runs that are contiguous in DRAM and on chip: bytes of a run in DRAM, then (bound, DRAM, chip) strides, innermost first."""

    run_bytes: int
    loops: tuple[tuple[int, int, int], ...]


def box_of_places(
    places: Sequence[Place], element_bytes: int, chip_bytes: int, padded: Mapping[int, int] = NO_PADS
) -> Box:
    """The transfers of a tile; loops that continue each other are one.

    Args:
        places: Of the tensor.
        element_bytes, chip_bytes: Of an element in DRAM and on chip.
        padded: Places after which the scratchpad leaves bytes free, see `strides_by_place`.
    """
    dram = strides_by_place([x.count for x in places], element_bytes)
    chip = strides_by_place([x.inside for x in places], chip_bytes, padded)
    run, rest = element_bytes, list(range(len(places)))
    while rest:
        place = places[rest[-1]]
        if place.inside > 1 and chip[rest[-1]] * element_bytes != run * chip_bytes:
            break
        run *= place.inside
        rest.pop()
        if place.inside != place.count:
            break
    loops: list[tuple[int, int, int]] = []
    for i in reversed(rest):
        bound = places[i].inside
        if bound == 1:
            continue
        if loops and (dram[i], chip[i]) == (loops[-1][0] * loops[-1][1], loops[-1][0] * loops[-1][2]):
            loops[-1] = (loops[-1][0] * bound, *loops[-1][1:])
        else:
            loops.append((bound, dram[i], chip[i]))
    return Box(run, tuple(loops))


@dataclass(frozen=True)
class Layout:
    """Where a tensor lies in DRAM.

    Args:
        tensor: Its name.
        base: First byte.
        shape: Extent of each axis, in the computation's order.
        parts: (axis, step, count) from the outermost to the innermost, see `Place`.
        element_bytes: Width of an element.
    """

    tensor: str
    base: int
    shape: tuple[int, ...]
    parts: tuple[tuple[int, int, int], ...]
    element_bytes: int

    @property
    def size_bytes(self) -> int:
        """Bytes it takes."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.element_bytes

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes that a step of each part moves."""
        return strides_by_place([count for _, _, count in self.parts], self.element_bytes)

    def address(self, at: Sequence[int]) -> int:
        """First byte of an element."""
        moved = zip(self.parts, self.strides, strict=True)
        return self.base + sum(at[axis] // step % count * stride for (axis, step, count), stride in moved)

    def _split(self) -> tuple[list[int], list[int]]:
        """Counts of the parts axis by axis, coarse before fine, and where each part of the layout stands among them."""
        by_axis = sorted(range(len(self.parts)), key=lambda i: (self.parts[i][0], -self.parts[i][1]))
        position = {part: k for k, part in enumerate(by_axis)}
        return [self.parts[i][2] for i in by_axis], [position[i] for i in range(len(self.parts))]

    def pack(self, values: Array) -> bytes:
        """The tensor's bytes; integers wrap to the element's width."""
        counts, order = self._split()
        return np.ascontiguousarray(values.reshape(counts).transpose(order)).astype(f"<i{self.element_bytes}").tobytes()

    def unpack(self, memory: bytes) -> Array:
        """The tensor out of a whole memory."""
        counts, order = self._split()
        part = np.frombuffer(memory[self.base : self.base + self.size_bytes], f"<i{self.element_bytes}")
        apart = part.reshape([counts[i] for i in order]).transpose(np.argsort(order))
        return np.ascontiguousarray(apart.reshape(self.shape)).astype(np.int64)
