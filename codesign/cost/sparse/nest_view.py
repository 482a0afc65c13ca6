"""What the laws ask of a mapping: which loops stand where, and which part of a tensor some loops touch."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from codesign.arch.architecture import Architecture
from codesign.mapping.mapping import Mapping, Spatial, Storage, Temporal
from codesign.workloads.computation import Computation, Tensor
from codesign.workloads.density import Extents

Loop = Temporal | Spatial


@dataclass(frozen=True)
class Place:
    """A tensor kept at a level.

    Args:
        level: Index of the level, 0 outermost.
        tensor: The tensor.
        start: Loops outside its storage node.
        stop: Loops outside its child's storage node; all loops where the child is the MAC.
        child: Level index of the child; None is the MAC.
    """

    level: int
    tensor: Tensor
    start: int
    stop: int
    child: int | None


class NestView:
    """A mapping seen from the tensors.

    Args:
        computation: The operator.
        architecture: The hardware.
        mapping: A valid nest for the two.
    """

    def __init__(self, computation: Computation, architecture: Architecture, mapping: Mapping) -> None:
        self.computation = computation
        self.architecture = architecture
        self.loops: tuple[Loop, ...] = mapping.loops
        self.places: dict[tuple[int, str], Place] = {}
        position: dict[tuple[int, str], int] = {}
        outside = 0
        for node in mapping.nodes:
            if isinstance(node, Storage):
                position[architecture.level_index[node.level], node.tensor] = outside
            else:
                outside += 1
        for tensor in computation.tensors:
            chain = sorted(level for level, name in position if name == tensor.name)
            for level, child in zip(chain, [*chain[1:], None], strict=True):
                stop = len(self.loops) if child is None else position[child, tensor.name]
                self.places[level, tensor.name] = Place(level, tensor, position[level, tensor.name], stop, child)

    def at(self, level: int, tensor: Tensor) -> Place:
        """Where a tensor is kept at a level or, if not there, at the nearest one further out."""
        return self.places[max(v for v, name in self.places if name == tensor.name and v <= level), tensor.name]

    def inner(self, place: Place) -> tuple[Loop, ...]:
        """All loops inside the storage node."""
        return self.loops[place.start :]

    def own(self, place: Place) -> tuple[Loop, ...]:
        """The loops between the storage node and the child's."""
        return self.loops[place.start : place.stop]

    def tile(self, place: Place) -> Extents:
        """Extents of the tile kept there."""
        return region(place.tensor, self.inner(place))

    def whole(self, tensor: Tensor) -> Extents:
        """Extents of a whole tensor along its axes."""
        return tensor.shape(self.computation.sizes)

    def virtual_instances(self, level: int) -> int:
        """Instances the mapping gives work to, before spatial skipping (law A5)."""
        index = self.architecture.level_index
        return math.prod(x.factor for x in self.loops if isinstance(x, Spatial) and index[x.level] < level)


def region(tensor: Tensor, loops: Iterable[Loop]) -> Extents:
    """Extents of what some loops touch of a tensor (rule C1)."""
    sizes = dict.fromkeys(tensor.dims, 1)
    for loop in loops:
        if loop.dim in sizes:
            sizes[loop.dim] *= loop.factor
    return tensor.shape(sizes)
