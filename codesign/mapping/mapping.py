"""The software value: one loop nest with storage boundaries, from the outermost loop to the MACs.

A nest is a sequence of three kinds of node: a temporal loop, a spatial loop (iterations run side by
side on the fan-out of a level) and a storage node ("this tensor is kept at this level from here
inwards"). Every tensor has its own storage nodes, so one notation covers even mappings (Timeloop:
all tensors of a level at the same place), uneven ones (ZigZag, SALSA) and bypass (no node).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from codesign.core.errors import UserError
from codesign.mapping.layout import TensorLayout

Axis = Literal["x", "y"]


@dataclass(frozen=True)
class Temporal:
    """A loop whose iterations follow each other."""

    dim: str
    factor: int

    def __post_init__(self) -> None:
        _check_factor(self.dim, self.factor)


@dataclass(frozen=True)
class Spatial:
    """A loop whose iterations run on different children of one instance of `level`."""

    dim: str
    factor: int
    axis: Axis
    level: str

    def __post_init__(self) -> None:
        _check_factor(self.dim, self.factor)
        if self.axis not in ("x", "y"):
            raise UserError(f"axis of spatial loop {self.dim!r} must be 'x' or 'y', got {self.axis!r}")


@dataclass(frozen=True)
class Storage:
    """Each instance of `level` holds its tile of `tensor` from here inwards."""

    tensor: str
    level: str


Node = Temporal | Spatial | Storage


@dataclass(frozen=True)
class LevelMapping:
    """What one level does in an even mapping.

    Args:
        level: Its name.
        keep: Tensors held there.
        temporal: Pairs (dimension, factor), outermost first.
        spatial: Triples (dimension, factor, axis) on the fan-out below the level.
    """

    level: str
    keep: tuple[str, ...] = ()
    temporal: tuple[tuple[str, int], ...] = ()
    spatial: tuple[tuple[str, int, Axis], ...] = ()


@dataclass(frozen=True)
class Mapping:
    """A loop nest, outermost node first. Loops of factor 1 mean nothing and are dropped.

    Args:
        nodes: Storage and loops.
        layouts: How tensors lie in DRAM and in a banked scratchpad, where that is said; generated hardware alone knows layouts.
    """

    nodes: tuple[Node, ...]
    layouts: tuple[TensorLayout, ...] = ()

    def __post_init__(self) -> None:
        kept = tuple(n for n in self.nodes if isinstance(n, Storage) or n.factor > 1)
        object.__setattr__(self, "nodes", kept)

    @classmethod
    def from_levels(cls, levels: Iterable[LevelMapping]) -> "Mapping":
        """The nest of an even mapping: per level, outermost first, its storage, temporal loops, spatial loops."""
        nodes: list[Node] = []
        for item in levels:
            nodes.extend(Storage(tensor, item.level) for tensor in item.keep)
            nodes.extend(Temporal(dim, factor) for dim, factor in item.temporal)
            nodes.extend(Spatial(dim, factor, axis, item.level) for dim, factor, axis in item.spatial)
        return cls(tuple(nodes))

    @cached_property
    def loops(self) -> tuple[Temporal | Spatial, ...]:
        """The loops without the storage nodes."""
        return tuple(n for n in self.nodes if not isinstance(n, Storage))

    @cached_property
    def storage(self) -> tuple[Storage, ...]:
        """The storage nodes alone."""
        return tuple(n for n in self.nodes if isinstance(n, Storage))

    def iterations(self, dim: str) -> int:
        """Product of the factors of all loops over `dim`."""
        return math.prod(n.factor for n in self.loops if n.dim == dim)

    @cached_property
    def spatial_iterations(self) -> int:
        """MAC units in use: product of all spatial factors."""
        return math.prod(n.factor for n in self.loops if isinstance(n, Spatial))

    def levels_of(self, tensor: str) -> tuple[str, ...]:
        """Names of the levels that keep a tensor, outermost first."""
        return tuple(n.level for n in self.storage if n.tensor == tensor)


def last_iterations(mapping: Mapping, sizes: dict[str, int]) -> tuple[int, ...]:
    """Of every loop, its iterations in the last tile of its dimension: fewer than its factor where a remainder is left.

    >>> last_iterations(Mapping((Temporal("k", 8), Temporal("k", 16))), {"k": 127})
    (8, 15)
    """
    steps = {d: mapping.iterations(d) for d in sizes}
    rest = dict(sizes)
    found = []
    for loop in mapping.loops:
        steps[loop.dim] //= loop.factor
        step = steps[loop.dim]
        found.append(-(-rest[loop.dim] // step))
        rest[loop.dim] -= (found[-1] - 1) * step
    return tuple(found)


def format_nest(mapping: Mapping, order: Sequence[str] = (), sizes: dict[str, int] | None = None) -> str:
    """The loop nest as nested `for` and `parallel for` lines with storage marked.

    Args:
        mapping: The nest.
        order: Tensor names in the order storage lines list them.
        sizes: dict[str, int] of the dimensions: loops whose last pass is shorter then say so.
    """
    last = last_iterations(mapping, sizes) if sizes else tuple(loop.factor for loop in mapping.loops)
    seen = 0
    rank = {name: i for i, name in enumerate(order)}
    lines: list[str] = []
    depth = 0
    index = 0
    nodes = mapping.nodes
    while index < len(nodes):
        node = nodes[index]
        if isinstance(node, Storage):
            end = index
            while end < len(nodes) and isinstance(nodes[end], Storage) and nodes[end].level == node.level:  # type: ignore[union-attr]
                end += 1
            names = sorted((n.tensor for n in nodes[index:end]), key=lambda t: (rank.get(t, len(rank)), t))  # type: ignore[union-attr]
            lines.append(f"{'  ' * depth}[{node.level}: {', '.join(names)}]")
            index = end
            continue
        if isinstance(node, Spatial):
            text = f"parallel for {node.dim} in 0..{node.factor - 1} ({node.level}.{node.axis})"
        else:
            text = f"for {node.dim} in 0..{node.factor - 1}"
        lines.append(f"{'  ' * depth}{text}{f', last pass 0..{last[seen] - 1}' if last[seen] < node.factor else ''}")
        seen += 1
        depth += 1
        index += 1
    lines.append(f"{'  ' * depth}MAC")
    return "\n".join(lines)


def _check_factor(dim: str, factor: int) -> None:
    if isinstance(factor, bool) or not isinstance(factor, int) or factor < 1:
        raise UserError(f"factor of loop {dim!r} must be an integer >= 1, got {factor!r}")
