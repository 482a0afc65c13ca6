"""The loops around the intrinsic calls of one choice, and where each tensor enters the scratchpad."""

import math
from collections.abc import Mapping as MappingABC
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from codesign.core.errors import UserError, unknown_name
from codesign.mapping.mapping import Axis, Mapping, Node, Spatial, Storage, Temporal
from codesign.tensorization.choice import TensorizeChoice
from codesign.workloads.computation import Computation, Tensor

Loop = tuple[str, int]


@dataclass(frozen=True)
class Schedule:
    """How the host walks over the calls of a choice.

    The loops of a dimension, host and inner together, times its tile in the intrinsic cover its bound; a dimension may
    be split several times. Iterations wholly beyond the bound make no call.

    Args:
        choice: The calls.
        host: Loops (dimension, count) that run on the host, outermost first.
        inner: Loops over the calls that work on data already in the scratchpad, outermost first.
        depth: For a tensor, the number of host loops outside the place where it is kept in the scratchpad; by default
            all of them. A smaller number keeps a larger part of the tensor for longer.
    """

    choice: TensorizeChoice
    host: tuple[Loop, ...]
    inner: tuple[Loop, ...] = ()
    depth: MappingABC[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        where = f"schedule of {self.choice.computation}"
        sizes = self.choice.computation.sizes
        for dim, count in (*self.host, *self.inner):
            if dim not in sizes:
                raise unknown_name("dimension", dim, sizes, where=where)
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise UserError(f"count of loop {dim!r} must be an integer >= 1, got {count!r}", where=where)
        for dim, bound in sizes.items():
            if self.covered[dim] < bound:
                raise UserError(
                    f"loops over {dim!r} cover {self.covered[dim]} of {bound} iterations",
                    where=where,
                    hint=f"loop counts of {dim!r} times its tile {self.choice.tile[dim]} must reach the bound",
                )
        names = {t.name for t in self.choice.computation.tensors}
        for name, depth in self.depth.items():
            if name not in names:
                raise unknown_name("tensor", name, names, where=where)
            if not 0 <= depth <= len(self.host):
                raise UserError(f"depth of {name!r} must be in 0..{len(self.host)}, got {depth}", where=where)

    @cached_property
    def covered(self) -> dict[str, int]:
        """Iterations of each dimension that all its loops cover: its bound, padded."""
        return {d: self.tile_from(d, 0) for d in self.choice.computation.dims}

    def tile_from(self, dim: str, depth: int) -> int:
        """Iterations of a dimension inside the first `depth` host loops."""
        loops = (*self.host[depth:], *self.inner)
        return self.choice.tile[dim] * math.prod(count for d, count in loops if d == dim)

    def depth_of(self, tensor: Tensor) -> int:
        """Number of host loops outside the tensor's place in the scratchpad."""
        return self.depth.get(tensor.name, len(self.host))

    def tile_shape(self, tensor: Tensor) -> tuple[int, ...]:
        """Extent of each axis of the tensor's part in the scratchpad, clipped to the tensor."""
        bounds = self.choice.computation.sizes
        depth = self.depth_of(tensor)
        sizes = {d: min(bounds[d], self.tile_from(d, depth)) for d in self.choice.computation.dims}
        return tensor.shape(sizes)

    @cached_property
    def padded(self) -> Computation:
        """The computation with the bounds that the loops cover."""
        return self.choice.computation.with_bounds(**self.covered)

    def to_mapping(
        self,
        outer_level: str,
        on_chip: str | MappingABC[str, str],
        spatial: MappingABC[str, tuple[Axis, str]] | None = None,
    ) -> Mapping:
        """The loop nest of `padded` that the cost model scores.

        Args:
            outer_level: Name of the level that holds everything (DRAM).
            on_chip: Name of the level that the buffers are in, or one for each tensor.
            spatial: For indices of the intrinsic that run side by side: (axis, level whose fan-out they use); the
                others follow each other inside.
        """
        beside = spatial or {}
        tensors = self.choice.computation.tensors
        level = {t.name: on_chip if isinstance(on_chip, str) else on_chip[t.name] for t in tensors}
        nodes: list[Node] = [Storage(t.name, outer_level) for t in tensors]
        for at in range(len(self.host) + 1):
            nodes.extend(Storage(t, level[t]) for t in level if self.depth_of(self.choice.computation.tensor(t)) == at)
            if at < len(self.host):
                nodes.append(Temporal(*self.host[at]))
        nodes.extend(Temporal(dim, count) for dim, count in self.inner)
        sizes, dim_of = self.choice.intrinsic.computation.sizes, self.choice.index_map
        nodes.extend(Spatial(dim_of[i], sizes[i], axis, level) for i, (axis, level) in beside.items() if i in dim_of)
        nodes.extend(Temporal(dim, sizes[i]) for i, dim in dim_of.items() if i not in beside)
        return Mapping(tuple(nodes))


def schedule_from_tiles(
    choice: TensorizeChoice, tiles: MappingABC[str, int] | None = None, order: Sequence[str] | None = None
) -> Schedule:
    """A schedule from scratchpad tile sizes and a host loop order.

    Args:
        choice: The calls.
        tiles: Iterations of each dimension that are in the scratchpad together, rounded up to whole calls and at most
            the padded bound. Dimensions that are left out get one call's worth.
        order: Dimensions from the outermost host loop inwards; those left out follow in the order of the notation.

    Raises:
        UserError: Unknown or repeated dimension, tile below 1.
    """
    sizes = choice.computation.sizes
    given = dict(tiles or {})
    for dim in (*given, *(order or ())):
        if dim not in sizes:
            raise unknown_name("dimension", dim, sizes, where=f"schedule of {choice.computation}")
    if order is not None and len(set(order)) != len(order):
        raise UserError(f"loop order names a dimension twice: {', '.join(order)}")
    in_order = [*(order or ()), *(d for d in choice.computation.dims if d not in (order or ()))]
    host, inner = [], []
    for dim in in_order:
        if given.get(dim, 1) < 1:
            raise UserError(f"tile of {dim!r} must be >= 1, got {given[dim]}")
        calls = -(-sizes[dim] // choice.tile[dim])
        together = min(calls, -(-given.get(dim, 1) // choice.tile[dim]))
        host.append((dim, -(-calls // together)))
        inner.append((dim, together))
    return Schedule(choice, _without_ones(host), _without_ones(inner))


def _without_ones(loops: list[Loop]) -> tuple[Loop, ...]:
    return tuple(loop for loop in loops if loop[1] > 1)


def schedule_from_mapping(choice: TensorizeChoice, mapping: Mapping) -> Schedule:
    """The schedule that a mapping describes, its innermost loops being those of the intrinsic.

    Loops outside a tensor's first storage after the outermost level run on the host; of the others each dimension's
    innermost iterations, as many as the choice gives it, are one call.

    Raises:
        UserError: A tensor is not kept on chip, a spatial loop stands outside, or the inner loops of a dimension do not
            contain the intrinsic's tile.
    """
    depth: dict[str, int] = {}
    loops: list[Temporal | Spatial] = []
    for node in mapping.nodes:
        if not isinstance(node, Storage):
            loops.append(node)
        elif mapping.levels_of(node.tensor)[1:2] == (node.level,):
            depth[node.tensor] = len(loops)
    for tensor in choice.computation.tensors:
        if tensor.name not in depth:
            raise UserError(f"{tensor.name!r} is not kept on chip", where="mapping")
    outside = max(depth.values())
    host = loops[:outside]
    for loop in host:
        if isinstance(loop, Spatial):
            raise UserError(
                f"spatial loop over {loop.dim!r} stands outside the on-chip memory",
                where="mapping",
                hint="a program drives one memory",
            )
    inner = _peel(choice, [(loop.dim, loop.factor) for loop in loops[outside:]])
    return Schedule(choice, tuple((loop.dim, loop.factor) for loop in host), inner, depth)


def _peel(choice: TensorizeChoice, loops: list[Loop]) -> tuple[Loop, ...]:
    """The loops with each dimension's innermost iterations, those of one call, taken away."""
    left = dict(choice.tile)
    kept: list[Loop] = []
    for dim, count in reversed(loops):
        common = math.gcd(count, left[dim])
        if common not in (count, left[dim]):
            break
        left[dim] //= common
        if count > common:
            kept.append((dim, count // common))
    for dim, rest in left.items():
        if rest > 1:
            raise UserError(
                f"the inner loops over {dim!r} do not contain the intrinsic's tile of {choice.tile[dim]}",
                where="mapping",
            )
    return tuple(reversed(kept))
