"""The nest of a mapping that the search found, as the cost model reads it."""

import math

from codesign.cost.looptree import Hold, Loop, Nest, Store
from codesign.mappers.uneven.levels import Case, Placed
from codesign.mapping.looptree import Machine


def nest_of(case: Case, placed: list[Placed] | tuple[Placed, ...], head: Nest = ()) -> Nest:
    """Loops and nodes, outermost first, inside those of `head`; nodes of one tile stand in the order in which they were placed."""
    space = case.space
    items: list[Loop | Store | Hold] = list(head)
    now = {**space.operator.bounds, **{x.dim: x.tile for x in head if isinstance(x, Loop)}}

    def temporal(target: dict[str, float], level: int, dims: list[str]) -> None:
        for d in dims:
            tile = _inside(case, target, d, level)
            if tile < now[d]:
                items.append(Loop(d, math.ceil(now[d] / tile), tile))
                now[d] = tile

    def spatial(above: int, below: int) -> None:
        for level in range(above + 1, below + 1):
            for axis, vector in zip(space.profile.axes[level], space.profile.along[level], strict=True):
                for d, factor in vector:
                    tile = max(math.ceil(now[d] / factor), 1)
                    items.append(Loop(d, math.ceil(now[d] / tile), tile, level, axis.name))
                    now[d] = tile

    at = max((x.level for x in head if isinstance(x, Store)), default=0)
    for p in placed:
        level = p.node.level
        if level > at:
            temporal(_edge(case, placed, level), at, space.dims)
            spatial(at, level)
            at = level
        fetch, hold = space.coordinates(p.fetch), space.coordinates(p.hold)
        temporal(fetch, level, space.dims)
        items.append(Store(level, p.node.operand.name, p.fetch == p.hold))
        if p.fetch != p.hold:
            temporal(hold, level, space.dims)
            items.append(Hold(level, p.node.operand.name))
    ones = dict.fromkeys(space.dims, 1.0)
    temporal(ones, at, space.dims)
    spatial(at, space.n)
    return tuple(items)


def _inside(case: Case, target: dict[str, float], dim: str, level: int) -> int:
    """Tile of `dim` at a level, spatial factors inside included."""
    return min(math.ceil(target[dim] * case.space.inside(dim, level) - 1e-9), case.space.operator.bounds[dim])


def _edge(case: Case, placed: list[Placed] | tuple[Placed, ...], below: int) -> dict[str, float]:
    """The tile at the fan-outs outside a level that keeps something: that of its first node."""
    first = next(p for p in placed if p.node.level == below)
    return case.space.coordinates(first.fetch)


def lines(nest: Nest, machine: Machine) -> list[str]:
    """The nest as text, one item a line."""
    found, depth = [], 0
    for x in nest:
        pad = "  " * depth
        if isinstance(x, Loop):
            where = f" on {x.axis}" if x.level is not None else ""
            found.append(f"{pad}for {x.dim} in {x.steps} steps of {x.tile}{where}")
            depth += 1
        elif isinstance(x, Store):
            found.append(f"{pad}[{machine.memories[x.level].name}: {x.tensor}{'' if x.held else ', held further in'}]")
        else:
            found.append(f"{pad}[{machine.memories[x.level].name}: {x.tensor} held]")
    return found
