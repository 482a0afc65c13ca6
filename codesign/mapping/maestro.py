"""MAESTRO's dataflow directives as a loop nest, as far as perfect factors and one fan-out can say them.

The directives before `Cluster` map the layer onto clusters, those after it a cluster's share onto its units. All
loops stand at the level with the fan-out (the shared buffer), what is left inside a unit at the levels further in. Loops in
time inside a cluster come before all loops in space, since clusters run in step.
"""

import math
from dataclasses import dataclass

from codesign.arch.architecture import Architecture, StorageLevel
from codesign.core.errors import UserError, unknown_name
from codesign.core.maestro import Directive, Layer, evaluate
from codesign.mapping.mapping import Mapping, Node, Spatial, Storage, Temporal
from codesign.workloads.computation import Computation

_OUTPUT_OF = {"Y": ("P", "R"), "X": ("Q", "S")}
_NAMES = {"Y'": "P", "X'": "Q"}


def mapping_from_maestro(
    layer: Layer, computation: Computation, architecture: Architecture, where: str = "dataflow"
) -> Mapping:
    """The nest of a dataflow.

    Args:
        layer: Its directives.
        computation: A convolution with dimensions named as in `codesign.workloads.operators.conv2d`.
        architecture: Has one level with a fan-out above 1.
        where: The file, for messages.

    Raises:
        UserError: Something cannot be expressed: tiles that overlap or do not divide, two spatial maps in one
            cluster level, nested clusters.
    """
    spread = [level for level in architecture.levels if level.fanout.size > 1]
    if len(spread) != 1:
        raise UserError(f"needs an architecture with one fan-out above 1, this has {len(spread)}", where=where)
    units = spread[0].fanout.size
    segments, cluster = _segments(layer, computation, units, where)
    state = _State(dict(computation.sizes), _strides(computation), where)
    temporal: list[Node] = []
    parallel: list[tuple[str, int]] = []
    for segment, available in zip(segments, (units // cluster, cluster), strict=False):
        loops, spatial = state.apply(segment, available)
        temporal.extend(loops)
        parallel.extend(spatial)
    inner = [Temporal(dim, state.tile[dim]) for dim in computation.dims]
    outer_levels = architecture.levels[: architecture.level_index[spread[0].name] + 1]
    inner_levels = architecture.levels[len(outer_levels) :]
    nodes = [*_stores(outer_levels, computation, architecture), *temporal, *_place(parallel, spread[0], where)]
    return Mapping((*nodes, *_stores(inner_levels, computation, architecture), *inner))


def _segments(layer: Layer, computation: Computation, units: int, where: str) -> tuple[list[list[Directive]], int]:
    """The directives of each cluster level, and the units of a cluster."""
    if not layer.dataflow:
        raise UserError("the layer has no Dataflow", where=where)
    segments: list[list[Directive]] = [[]]
    cluster = units
    for directive in layer.dataflow:
        if directive.kind == "Cluster":
            if len(segments) == 2:
                raise UserError("clusters within clusters cannot be expressed", where=where)
            cluster = evaluate(directive.size, _all_sizes(computation), where)
            if cluster < 1 or units % cluster:
                raise UserError(f"Cluster size must divide the {units} units, got {cluster}", where=where)
            segments.append([])
        else:
            segments[-1].append(directive)
    if len(segments) == 1:
        return segments, 1
    return segments, cluster


def _all_sizes(computation: Computation) -> dict[str, int]:
    """Bounds by MAESTRO's names, input extents included."""
    sizes = dict(computation.sizes)
    for outer, (out, tap) in _OUTPUT_OF.items():
        if out in sizes and tap in sizes:
            sizes[outer] = (sizes[out] - 1) * _strides(computation).get(out, 1) + sizes[tap]
            sizes[f"{outer}'"] = sizes[out]
    return sizes


def _strides(computation: Computation) -> dict[str, int]:
    return {
        dim: c for tensor in computation.inputs for axis in tensor.axes for dim, c in axis.terms if len(axis.terms) > 1
    }


@dataclass
class _State:
    """What one unit still has to do, by dimension, while directives are applied from outside in."""

    tile: dict[str, int]
    strides: dict[str, int]
    where: str

    def __post_init__(self) -> None:
        self.sizes = self._input_sizes(dict(self.tile))

    def _input_sizes(self, tile: dict[str, int]) -> dict[str, int]:
        for outer, (out, tap) in _OUTPUT_OF.items():
            if out in tile and tap in tile:
                tile[outer] = (tile[out] - 1) * self.strides.get(out, 1) + tile[tap]
                tile[f"{outer}'"] = tile[out]
        return tile

    def apply(self, segment: list[Directive], available: int) -> tuple[list[Node], list[tuple[str, int]]]:
        """The loops of one cluster level: those in time, and the one in space."""
        if sum(d.kind == "SpatialMap" for d in segment) > 1:
            raise UserError("two SpatialMaps in one cluster level cannot be expressed", where=self.where)
        inside = dict(self.tile)
        loops: list[Node] = []
        spatial: list[tuple[str, int]] = []
        for directive in sorted(segment, key=lambda d: d.dim in _OUTPUT_OF):  # taps before the windows they widen
            dim, size = self._tile_of(directive, inside)
            inside[dim] = size
        for directive in segment:
            dim = (
                _OUTPUT_OF[directive.dim][0]
                if directive.dim in _OUTPUT_OF
                else _NAMES.get(directive.dim, directive.dim)
            )
            steps = self.tile[dim] // inside[dim]
            if directive.kind == "SpatialMap":
                used = min(steps, available)
                if steps % used:
                    raise UserError(
                        f"{steps} steps of {dim} do not fold evenly onto {available} units", where=self.where
                    )
                spatial.append((dim, used))
                steps //= used
            loops.append(Temporal(dim, steps))
        self.tile = inside
        return loops, spatial

    def _tile_of(self, directive: Directive, inside: dict[str, int]) -> tuple[str, int]:
        """The dimension a directive cuts, and the extent of one piece."""
        size = evaluate(directive.size, self.sizes, self.where)
        offset = evaluate(directive.offset, self.sizes, self.where)
        place = f"{directive.kind} of {directive.dim}"
        step = 1
        if directive.dim in _OUTPUT_OF:
            dim, tap = _OUTPUT_OF[directive.dim]
            step = self.strides.get(dim, 1)
            if dim in self.tile:
                size = (size - inside[tap]) // step + 1
        else:
            dim = _NAMES.get(directive.dim, directive.dim)
        if dim not in self.tile:
            raise unknown_name("dimension", directive.dim, self.sizes, where=self.where)
        extent = self.tile[dim]
        if size >= extent:
            return dim, extent
        if size < 1 or extent % size:
            raise UserError(f"{place}: pieces of {size} do not divide {extent}", where=self.where)
        if offset not in (size, size * step):  # in steps of the output, or in input elements
            raise UserError(
                f"{place}: the offset must be {size * step} so that pieces touch without overlap, got {offset}",
                where=self.where,
            )
        return dim, size


def _place(parallel: list[tuple[str, int]], level: StorageLevel, where: str) -> list[Node]:
    """Spatial loops on a mesh: the inner one along X, the outer one along Y; a single one over both."""
    x, y = level.fanout.x, level.fanout.y
    loops = [(dim, factor) for dim, factor in parallel if factor > 1]
    if len(loops) == 1:
        dim, factor = loops[0]
        along_x = math.gcd(factor, x) if factor > x else factor
        if factor % along_x == 0 and factor // along_x <= y:
            return [Spatial(dim, along_x, "x", level.name), Spatial(dim, factor // along_x, "y", level.name)]
    elif not loops:
        return []
    else:
        (outer, m), (inner, n) = loops
        if n <= x and m <= y:
            return [Spatial(outer, m, "y", level.name), Spatial(inner, n, "x", level.name)]
        if m <= x and n <= y:
            return [Spatial(outer, m, "x", level.name), Spatial(inner, n, "y", level.name)]
    wanted = " x ".join(str(f) for _, f in loops)
    raise UserError(f"{wanted} units do not lie on the {x} x {y} mesh of level {level.name!r}", where=where)


def _stores(levels: tuple[StorageLevel, ...], computation: Computation, architecture: Architecture) -> list[Node]:
    nodes: list[Node] = []
    for level in levels:
        for tensor in computation.tensors:
            if level is architecture.levels[0] or tensor.name in level.keep or tensor.role.value in level.keep:
                nodes.append(Storage(tensor.name, level.name))
    return nodes
