"""A second bound: the tensors of one level cannot all be moved as little as possible at once.

Whatever loop stands directly outside a level, every tensor it indexes is fetched anew for each of its steps: whole, or
what is new if its window slides. So at least those tensors move (words) x (iterations left), for a tile that fits the
level, and only the others can be left at their fewest words. Minimised over the dimension of that loop and over the
tiles that fit (bound B2 in docs/explanation/exact-mapper.md).
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.mappers.exact.problem.boundary_costs import Coefficients, Hardware, Options, Running, profile_coefficients
from codesign.mapping.nest import FloatArray, IntArray


@njit
def tile_points(tiles: IntArray, value: FloatArray, bounds: FloatArray, moved: FloatArray, of: IntArray) -> FloatArray:
    """``P x T`` the undominated (words moved) / (tile volume) over tiles and the dimension of the loop outside.

    Args:
        tiles: Tiles that fit, largest volume first (later ones are then mostly dominated).
        value: ``D x N`` tile sizes.
        bounds: ``D``.
        moved: ``K x N`` words moved over tile volume.
        of: ``(D + 1) x T`` row of `moved` for tensor t when the loop is over d, -1 if the loop need not move it. The last
            row is for the whole problem as one tile, with no loop outside.
    """
    n_dims, n_tensors = of.shape[0] - 1, of.shape[1]
    front = np.empty((64, n_tensors))
    row = np.empty(n_tensors)
    size, hit = 0, 0
    for x in tiles:
        whole = True
        for d in range(n_dims):
            whole = whole and value[d, x] == bounds[d]
        for d in range(n_dims + 1):
            if not whole if d == n_dims else value[d, x] == bounds[d]:
                continue
            for t in range(n_tensors):
                row[t] = moved[of[d, t], x] if of[d, t] >= 0 else 0.0
            if size > 0 and _covers(front[hit], row):
                continue
            covered = False
            for k in range(size):
                if _covers(front[k], row):
                    covered, hit = True, k
                    break
            if covered:
                continue
            kept = 0
            for k in range(size):
                if not _covers(row, front[k]):
                    front[kept] = front[k]
                    kept += 1
            if kept == front.shape[0]:
                front = np.concatenate((front, np.empty_like(front)))
            front[kept] = row
            size, hit = kept + 1, kept
    return front[:size].copy()


@njit
def _covers(a: FloatArray, b: FloatArray) -> bool:
    """Whether a is at most b in every column."""
    covers = True
    for t in range(a.shape[0]):
        covers = covers and a[t] <= b[t]
    return covers


@njit
def add_tension(
    points: FloatArray,
    first: IntArray,
    macs: float,
    children: FloatArray,
    kept: IntArray,
    price: FloatArray,
    demand: FloatArray,
    fewest: FloatArray,
    excess: FloatArray,
) -> None:
    """Add what words beyond the fewest cost at least: energy, and cycles of every port.

    Args:
        points: Rows of T, see `tile_points`, of all levels.
        first: ``L + 1`` where each level's begin.
        macs: Multiply-accumulates.
        children: ``L`` children of every fan-out in use.
        kept: ``L x T`` boundary of a tensor at a level, -1 none.
        price: ``B`` energy per word.
        demand: ``J x B`` cycles of a port per word, never negative.
        fewest: ``B`` fewest words.
        excess: ``1 + J``, added to.
    """
    n_tensors, n_sums = kept.shape[1], excess.shape[0]
    weight, least = np.zeros((n_sums, n_tensors)), np.zeros(n_sums)
    beyond = np.zeros(n_tensors)
    iterations = macs
    for v in range(1, kept.shape[0]):
        iterations /= children[v - 1]
        if first[v] == first[v + 1]:
            continue
        for t in range(n_tensors):
            b = kept[v, t]
            for w in range(n_sums):
                weight[w, t] = 0.0 if b < 0 else price[b] if w == 0 else demand[w - 1, b]
        least[:] = np.inf
        for k in range(first[v], first[v + 1]):
            for t in range(n_tensors):
                beyond[t] = 0.0 if kept[v, t] < 0 else max(0.0, iterations * points[k, t] - fewest[kept[v, t]])
            for w in range(n_sums):
                total = 0.0
                for t in range(n_tensors):
                    total += weight[w, t] * beyond[t]
                least[w] = min(least[w], total)
        for w in range(n_sums):
            excess[w] += least[w]


@njit
def sharpen_choices(
    choices: IntArray,
    hardware: Hardware,
    options: Options,
    running: Running,
    result: Coefficients,
    points: FloatArray,
    first: IntArray,
    energy: FloatArray,
    cycles: FloatArray,
) -> None:
    """Bounds of the profiles listed in ``choices`` (``P x L``), the tension of every level added."""
    children, excess = np.empty(choices.shape[1]), np.empty(1 + hardware.n_ports)
    for i in range(choices.shape[0]):
        energy[i], cycles[i] = profile_coefficients(choices[i], hardware, options, running, result)
        for m in range(choices.shape[1]):
            children[m] = options.children[choices[i, m]]
        excess[:] = 0.0
        add_tension(
            points,
            first,
            hardware.macs,
            children,
            hardware.kept,
            result.price,
            result.demand,
            result.fewest,
            excess,
        )
        energy[i] += excess[0]
        for j in range(hardware.n_ports):
            port = result.constant_cycles[j] + excess[1 + j]
            for b in range(result.fewest.shape[0]):
                port += result.demand[j, b] * result.fewest[b]
            cycles[i] = max(cycles[i], port)


class Fitting(NamedTuple):
    """Tiles that fit the levels of an instance, and what they move.

    Attributes:
        tiles: Of all levels.
        first: ``L + 1`` where each level's begin.
        value: ``D x N`` tile sizes.
        by_kind: ``C x N`` product of the sizes of each kind of dimension.
        kind_of: ``D`` kind of each dimension.
        moved: See `tile_points`.
        of: ``L x (D + 1) x T``, see `tile_points`.
    """

    tiles: IntArray
    first: IntArray
    value: FloatArray
    by_kind: FloatArray
    kind_of: IntArray
    moved: FloatArray
    of: IntArray


@njit
def _is_possible(fitting: Fitting, running: Running, v: int, x: int) -> bool:
    """Whether the spatial factors of a profile leave tile x possible at level v."""
    rest, kinds = running.rest, running.kinds
    n_levels = rest.shape[0] - 1
    for d in range(fitting.value.shape[0]):
        size = fitting.value[d, x]
        if rest[v, d] % size != 0.0 or size * rest[n_levels, d] % rest[v, d] != 0.0:
            return False
    possible = True
    for c in range(fitting.by_kind.shape[0]):
        size = fitting.by_kind[c, x]
        possible = possible and kinds[v, c] % size == 0.0 and size * kinds[n_levels, c] % kinds[v, c] == 0.0
    return possible


@njit
def profile_tension(
    fitting: Fitting,
    hardware: Hardware,
    running: Running,
    result: Coefficients,
    children: FloatArray,
    excess: FloatArray,
) -> None:
    """`add_tension` over the tiles that the profile's spatial factors leave possible, for one profile.

    Args:
        fitting: The tiles.
        hardware: Of the keep sets.
        running: Of the profile, as for `result`.
        result: Its coefficients.
        children: ``L`` children of every fan-out in use.
        excess: ``1 + J``, added to.
    """
    n_levels, n_tensors = hardware.kept.shape
    least, beyond, total = np.zeros(excess.shape[0]), np.zeros(n_tensors), np.zeros(excess.shape[0])
    iterations = hardware.macs
    for v in range(1, n_levels):
        iterations /= children[v - 1]
        if fitting.first[v] == fitting.first[v + 1]:
            continue
        least[:] = np.inf
        for i in range(fitting.first[v], fitting.first[v + 1]):
            x = fitting.tiles[i]
            if _is_possible(fitting, running, v, x):
                _lower_to_tile(fitting, hardware, running, result, v, x, iterations, beyond, total, least)
        for w in range(excess.shape[0]):
            excess[w] += least[w]


@njit
def _lower_to_tile(
    fitting: Fitting, hardware: Hardware, running: Running, result: Coefficients, v: int, x: int, iterations: float,
    beyond: FloatArray, total: FloatArray, least: FloatArray,
) -> None:  # fmt: skip
    """Lower `least` to what tile x at level v costs beyond the fewest words, over the loop directly outside it."""
    n_dims, n_tensors, n_sums = fitting.value.shape[0], beyond.shape[0], least.shape[0]
    looped = False
    for d in range(n_dims + 1):
        if d == n_dims:
            if looped:
                continue
        else:
            kind = fitting.kind_of[d]
            if fitting.value[d, x] == running.rest[v, d] or fitting.by_kind[kind, x] == running.kinds[v, kind]:
                continue
        looped = True
        total[:] = 0.0
        for t in range(n_tensors):
            b = hardware.kept[v, t]
            if b < 0 or fitting.of[v, d, t] < 0:
                continue
            beyond[t] = max(0.0, iterations * fitting.moved[fitting.of[v, d, t], x] - result.fewest[b])
            total[0] += result.price[b] * beyond[t]
            for j in range(n_sums - 1):
                total[1 + j] += result.demand[j, b] * beyond[t]
        for w in range(n_sums):
            least[w] = min(least[w], total[w])
