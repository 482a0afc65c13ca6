"""Whether a mapping is one of a space: even, and what the constraints allow (rule K1)."""

from collections.abc import Sequence

from codesign.arch.architecture import Architecture
from codesign.core.errors import UserError
from codesign.mapping.mapping import Axis, LevelMapping, Mapping, Spatial, Storage, Temporal
from codesign.verify.even.problem import Kept, Space
from codesign.verify.imperfect.spatial_factors import vectors_of


def levels_of(mapping: Mapping, architecture: Architecture) -> tuple[LevelMapping, ...]:
    """An even mapping level by level. Loops in time inside a fan-out count to the next level, which then keeps nothing.

    Raises:
        UserError: The mapping is uneven.
    """
    index = architecture.level_index
    keep: list[list[str]] = [[] for _ in index]
    temporal: list[list[tuple[str, int]]] = [[] for _ in index]
    spatial: list[list[tuple[str, int, Axis]]] = [[] for _ in index]
    here = 0
    for node in mapping.nodes:
        if isinstance(node, Temporal):
            inside = 1 if spatial[here] and here + 1 < len(index) else 0
            temporal[here + inside].append((node.dim, node.factor))
            continue
        level = index[node.level]
        if isinstance(node, Storage):
            if level < here or temporal[level] or spatial[level]:
                raise UserError(f"level {node.level!r} keeps tensors at several places: the mapping is uneven")
            keep[level].append(node.tensor)
        else:
            spatial[level].append((node.dim, node.factor, node.axis))
        here = max(here, level)
    names = sorted(index, key=lambda name: index[name])
    return tuple(
        LevelMapping(name, tuple(keep[v]), tuple(temporal[v]), tuple(spatial[v])) for v, name in enumerate(names)
    )


def fault(space: Space, levels: Sequence[LevelMapping], *, imperfect: bool = False) -> str | None:
    """Why a mapping is not one of the space; None if it is.

    Args:
        space: The space.
        levels: The mapping.
        imperfect: Whether factors may multiply to more than the bounds.
    """
    computation, architecture = space.source.computation, space.source.architecture
    names = [v.name for v in architecture.levels]
    if [item.level for item in levels] != names:
        return f"the nest must name the levels {names} in this order"
    kept = tuple(tuple(t.name in item.keep for t in computation.tensors) for item in levels)
    if not space.may_keep(kept):
        return "the nest keeps other tensors than it may"
    for v, item in enumerate(levels):
        reason = _fan_out_fault(space, v, item.spatial, imperfect=imperfect)
        if reason is not None:
            return reason
        reason = _order_fault(space, v, item.temporal, _together(kept, v), cut=imperfect)
        if reason is not None:
            return f"level {item.level!r}: {reason}"
    return None


def place_fault(space: Space, mapping: Mapping) -> str | None:
    """Why an uneven mapping is not one of the space; None if it is. What evaluation refuses is not looked at."""
    computation, architecture = space.source.computation, space.source.architecture
    levels = [v.name for v in architecture.levels]
    stored = {(node.level, node.tensor) for node in mapping.storage}
    if not space.may_keep(tuple(tuple((v, t.name) in stored for t in computation.tensors) for v in levels)):
        return "the nest keeps other tensors than it may"
    for v, name in enumerate(levels):
        loops = [(x.dim, x.factor, x.axis) for x in mapping.loops if isinstance(x, Spatial) and x.level == name]
        reason = _fan_out_fault(space, v, loops, imperfect=False)
        if reason is not None:
            return reason
    return None


def _fan_out_fault(space: Space, v: int, loops: Sequence[tuple[str, int, Axis]], *, imperfect: bool) -> str | None:
    """What is wrong with the spatial loops of a level: dimensions, factors and axes."""
    vector, along_x = [1] * len(space.dims), space.rules[v].along_x
    name = space.source.architecture.levels[v].name
    for dim, factor, axis in loops:
        vector[space.position[dim]] *= factor
        if along_x is not None and (axis == "x") != (dim in along_x):
            return f"level {name!r}: the loop over {dim!r} may not lie along {axis.upper()}"
    used = tuple(min(f, int(b)) for f, b in zip(vector, space.bounds, strict=True))
    if used not in (vectors_of(space, v) if imperfect else space.vectors(v)):
        return f"the fan-out of level {name!r} may not be used so"
    return None


def _together(kept: Kept, v: int) -> int:
    """A level and those directly inside that keep nothing: their loops count to it. More than one, if it keeps nothing itself."""
    own = 1 if v == 0 or any(kept[v]) else 2
    return own + next((u - v - 1 for u in range(v + 1, len(kept)) if any(kept[u])), len(kept) - v - 1)


def _order_fault(space: Space, v: int, loops: Sequence[tuple[str, int]], times: int, *, cut: bool) -> str | None:
    """What is wrong with the loops in time of a level, outermost first.

    Args:
        space: The space.
        v: The level.
        loops: Dimensions and iterations.
        times: Loops that a dimension may have; where several, fixed loops and orders are not told apart.
        cut: Whether fixed factors are cut to what is still needed (rule I1).
    """
    dims = [d for d, _ in loops]
    if any(dims.count(d) > times for d in dims):
        return "two loops over one dimension"
    rule = space.rules[v]
    for dim, factor in rule.temporal:
        used = dict(loops).get(dim, 1)
        if times == 1 and used != factor and not (cut and used < factor):
            return f"the loop over {dim!r} must have {factor} iterations"
    if any(not space.allowed[v, space.position[d]] for d in dims):
        return "a loop that the level may not have"
    ranks = [rule.order.index(d) if d in rule.order else len(rule.order) for d in reversed(dims)]
    return "the loops stand in another order than they must" if times == 1 and ranks != sorted(ranks) else None
