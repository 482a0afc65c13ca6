"""MAESTRO's dataflow directives as a loop nest, as far as perfect factors and one fan-out can say them.

The directives before `Cluster` map the layer onto clusters, those after it a cluster's share onto its units. All
loops stand at the level with the fan-out (the shared buffer), what is left inside a unit at the levels further in. Loops in
time inside a cluster come before all loops in space, since clusters run in step.
"""

import math

from codesign.arch.architecture import Architecture, StorageLevel
from codesign.core.errors import UserError, unknown_name
from codesign.formats.maestro.syntax import Directive, Layer, evaluate
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
    strides = _strides(computation)
    layer_sizes = _with_inputs(computation.sizes, strides)
    tile = computation.sizes
    temporal: list[Node] = []
    parallel: list[tuple[str, int]] = []
    for segment, available in zip(segments, (units // cluster, cluster), strict=False):
        inside = _tiles(segment, tile, layer_sizes, strides, where)
        loops, spatial = _loops(segment, tile, inside, available, where)
        temporal.extend(loops)
        parallel.extend(spatial)
        tile = inside
    inner = [Temporal(dim, tile[dim]) for dim in computation.dims]
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
            cluster = evaluate(directive.size, _with_inputs(computation.sizes, _strides(computation)), where)
            if cluster < 1 or units % cluster:
                raise UserError(f"Cluster size must divide the {units} units, got {cluster}", where=where)
            segments.append([])
        else:
            segments[-1].append(directive)
    if len(segments) == 1:
        return segments, 1
    return segments, cluster


def _with_inputs(sizes: dict[str, int], strides: dict[str, int]) -> dict[str, int]:
    """Sizes by MAESTRO's names too: input extents Y and X, output extents Y' and X'."""
    named = dict(sizes)
    for outer, (out, tap) in _OUTPUT_OF.items():
        if out in sizes and tap in sizes:
            named[outer] = (sizes[out] - 1) * strides.get(out, 1) + sizes[tap]
            named[f"{outer}'"] = sizes[out]
    return named


def _strides(computation: Computation) -> dict[str, int]:
    """Step of a window by dimension: the coefficients in the indices that are sums."""
    windows = [axis for tensor in computation.inputs for axis in tensor.axes if len(axis.terms) > 1]
    return {dim: coefficient for axis in windows for dim, coefficient in axis.terms}


def _own_name(dim: str) -> str:
    """Y and X are the inputs of P and Q; Y' and X' their other names."""
    return _OUTPUT_OF[dim][0] if dim in _OUTPUT_OF else _NAMES.get(dim, dim)


def _tiles(
    segment: list[Directive], tile: dict[str, int], layer_sizes: dict[str, int], strides: dict[str, int], where: str
) -> dict[str, int]:
    """What of `tile` is left inside one piece of a cluster level, by dimension."""
    inside = dict(tile)
    seen: set[str] = set()
    for directive in sorted(segment, key=lambda d: d.dim in _OUTPUT_OF):  # taps before the windows they widen
        dim = _own_name(directive.dim)
        if dim not in tile:
            raise unknown_name("dimension", directive.dim, layer_sizes, where=where)
        if dim in seen:
            raise UserError(f"two maps of {directive.dim} in one cluster level cannot be expressed", where=where)
        seen.add(dim)
        inside[dim] = _piece(directive, tile[dim], inside, layer_sizes, strides, where)
    return inside


def _piece(
    directive: Directive,
    extent: int,
    inside: dict[str, int],
    layer_sizes: dict[str, int],
    strides: dict[str, int],
    where: str,
) -> int:
    """Extent of one piece of a dimension; of Y and X in output elements."""
    size = evaluate(directive.size, layer_sizes, where)
    offset = evaluate(directive.offset, layer_sizes, where)
    place = f"{directive.kind} of {directive.dim}"
    step = 1
    if directive.dim in _OUTPUT_OF:
        dim, tap = _OUTPUT_OF[directive.dim]
        step = strides.get(dim, 1)
        size = (size - inside.get(tap, 1)) // step + 1
    if size >= extent:
        return extent
    if size < 1 or extent % size:
        raise UserError(f"{place}: pieces of {size} do not divide {extent}", where=where)
    if offset not in (size, size * step):  # in steps of the output, or in input elements
        raise UserError(
            f"{place}: the offset must be {size * step} so that pieces touch without overlap, got {offset}", where=where
        )
    return size


def _loops(
    segment: list[Directive], tile: dict[str, int], inside: dict[str, int], available: int, where: str
) -> tuple[list[Node], list[tuple[str, int]]]:
    """The loops of one cluster level: those in time, and the one in space."""
    if sum(d.kind == "SpatialMap" for d in segment) > 1:
        raise UserError("two SpatialMaps in one cluster level cannot be expressed", where=where)
    loops: list[Node] = []
    spatial: list[tuple[str, int]] = []
    for directive in segment:
        dim = _own_name(directive.dim)
        steps = tile[dim] // inside[dim]
        if directive.kind == "SpatialMap":
            used = min(steps, available)
            if steps % used:
                raise UserError(f"{steps} steps of {dim} do not fold evenly onto {available} units", where=where)
            spatial.append((dim, used))
            steps //= used
        loops.append(Temporal(dim, steps))
    return loops, spatial


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
