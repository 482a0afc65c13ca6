"""The nest that a walk of the program stands for, as a state of the imperfect space."""

from collections.abc import Iterator

import numpy as np

from codesign.mappers.imperfect.joint.counts import ceilings
from codesign.mappers.imperfect.joint.joint_problem import Cut, JointProblem, Walk
from codesign.mapping.axes import allowed_axes
from codesign.mapping.nest import IntArray
from codesign.mapping.space import MapSpace, MapState, outermost_state


def state_of_walk(joint: JointProblem, space: MapSpace, chosen: IntArray, walk: Walk) -> MapState | None:
    """The state whose loops leave the numbers of tiles of a walk; None where its fan-outs cannot be split along x and y."""
    factor, _ = joint.factors(chosen)
    levels, n_dims = len(walk), len(joint.data.bounds)
    table = np.ones((3 * levels, n_dims), np.int64)
    inner_first: list[list[int]] = [[] for _ in range(levels)]
    for v, _, loops in _levels(joint, walk):
        for d, f in loops:
            table[v, d] *= f
            if d not in inner_first[v]:
                inner_first[v].append(d)
    for v in range(levels):
        sides = _split(joint, v, factor[v])
        if sides is None:
            return None
        table[levels + 2 * v], table[levels + 2 * v + 1] = sides
    return _as_state(joint, space, table, inner_first)


def cut_of_walk(joint: JointProblem, chosen: IntArray, walk: Walk, cuts: tuple[Cut, ...]) -> Cut | None:
    """The tile by which the nest of a walk exceeds most what the walk took it for (rule IB15); None where no tile does."""
    factor, _ = joint.factors(chosen)
    levels, bounds = len(walk), joint.data.bounds
    ends = np.zeros((levels, len(bounds)), np.int64)
    temporal = np.ones((levels, len(bounds)), np.int64)
    for v, end, loops in _levels(joint, walk):
        ends[v] = walk[v].cells.numbers(end)
        for d, f in loops:
            temporal[v, d] *= f
    decided = {(cut.level, cut.dim) for cut in cuts if cut.equal}
    best, found = 1.0, None
    for v in range(1, levels):
        for d, bound in enumerate(bounds):
            across, inner = int(factor[v:, d].prod()), int(temporal[v:, d].prod())
            row = ceilings(-(-int(bound) // across))
            excess = inner / float(row.tile[row.place_of[ends[v, d]]])
            inside = [w for w in range(v + 1, levels) if temporal[w, d] > 1 and (w, d) not in decided]
            if excess > best and inside:
                best, found = excess, Cut(inside[0], d, int(ends[inside[0], d]), True)
    return found


def _levels(joint: JointProblem, walk: Walk) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
    """Every level from the outside in: its number, the cell where its loops end, and its loops, innermost first."""
    cell, s = int(walk[0].cells.cell[-1]), 0
    for v, (cells, source, entry) in enumerate(walk):
        end, loops = cell, list[tuple[int, int]]()
        while source[s, cell] >= 0:
            before, s_before = divmod(int(source[s, cell]), len(source))
            many, left = cells.numbers(before), cells.numbers(cell)
            loops += [(int(d), -(-int(many[d]) // int(left[d]))) for d in np.flatnonzero(many != left)]
            cell, s = before, s_before
        yield v, end, loops[::-1]
        cell = int(entry[s, cell])
        if v < len(walk) - 1:
            s = int(np.flatnonzero(joint.arriving(v) == s)[0])


def _split(joint: JointProblem, v: int, factor: IntArray) -> tuple[list[int], list[int]] | None:
    """Factors along x and y of a fan-out."""
    level = joint.problem.architecture.levels[v]
    computation, constraints = joint.problem.computation, joint.problem.constraints
    rows: list[tuple[list[int], int, list[int], int]] = [([], 1, [], 1)]
    for i, d in enumerate(joint.dims):
        wanted, dim = int(factor[i]), computation.dims[d]
        axes = allowed_axes(constraints, level.name, dim, level.fanout.x, level.fanout.y)
        pairs = []
        for x in range(1, min(wanted, level.fanout.x) + 1):
            y = -(-wanted // x)
            exact = x * y == wanted or wanted == computation.bounds[d]
            if exact and y <= level.fanout.y and (x == 1 or 0 in axes) and (y == 1 or 1 in axes):
                pairs.append((x, y))
        rows = [
            ([*xs, x], px * x, [*ys, y], py * y)
            for xs, px, ys, py in rows
            for x, y in pairs
            if px * x <= level.fanout.x and py * y <= level.fanout.y
        ][:5000]
    return (rows[0][0], rows[0][2]) if rows else None


def _as_state(joint: JointProblem, space: MapSpace, table: IntArray, inner_first: list[list[int]]) -> MapState:
    state = outermost_state(space)
    place = {d: i for i, d in enumerate(joint.dims)}
    factors = space.factors
    for i, (slot, d) in enumerate(factors.open):
        wanted = table[slot, place[int(d)]] if int(d) in place else 1
        state.slot[i] = min(factors.most[i], max(factors.least[i], wanted))
    for v, row in enumerate(inner_first):
        pinned = [int(d) for d in space.order[v, space.n_free[v] :]]
        inner = [joint.dims[d] for d in row[::-1] if joint.dims[d] not in pinned]
        outer = [int(d) for d in space.order[v] if int(d) not in inner and int(d) not in pinned]
        state.order[v] = [*outer, *inner, *pinned]
    state.keep[:] = joint.keep
    return state
