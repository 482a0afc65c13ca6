"""Blind enumeration of every uneven mapping of a small problem: all loops, orders, keep sets and places.

Shares nothing with the exact mapper but the cost kernel.
"""

from collections.abc import Iterator
from itertools import combinations_with_replacement, product

import numpy as np
import numpy.typing as npt

from codesign.core.jit import njit
from codesign.cost.arrays import Reuse, encode_problem
from codesign.cost.kernel import score
from codesign.cost.packed import Kernel, make_kernel
from codesign.mapping.constraints import Keep, LevelConstraints, MappingProblem
from codesign.mapping.nest import BYPASSED, IntArray, Nest

Loop = tuple[int, int, int, int]
"""Dimension, factor, kind and level of `Nest`."""


def enumerate_uneven(
    source: MappingProblem, limit: int, reuse: Reuse = Reuse.TIMELOOP
) -> tuple[npt.NDArray[np.float64], int]:
    """Least energy, latency and energy-delay product over all uneven mappings, and how many of them fit.

    Args:
        source: The problem.
        limit: Most mappings to score.
        reuse: Rule of reuse.

    Raises:
        OverflowError: There are more.
    """
    problem = encode_problem(source.computation, source.architecture, reuse)
    bits = sum(int(b).bit_length() for b in problem.bounds)
    kernel = make_kernel(problem, 8 + 2 * bits)
    best = np.full(3, np.inf)
    nests = set()
    for nest in _nests(source, 0, tuple(source.computation.bounds)):
        nests.add(nest)
        if len(nests) > limit:
            raise OverflowError("too many nests")
    cases = []
    scored = 0
    for loops in nests:
        places = [_places(source, t, loops) for t in range(len(source.computation.tensors))]
        scored += int(np.prod([float(len(p)) for p in places]))
        if scored > limit:
            raise OverflowError("too many mappings")
        cases.append((loops, places))
    valid = 0
    for loops, places in cases:
        if not all(len(p) for p in places):
            continue
        table = np.full((len(places), max(map(len, places)), len(source.architecture.levels)), BYPASSED, np.int64)
        for t, rows in enumerate(places):
            table[t, : len(rows)] = rows
        encoded = np.array(loops, np.int64).reshape(-1, 4)
        valid += _score_all(kernel, encoded, len(loops), table, np.array([len(p) for p in places]), best)
    return best, valid


def _nests(source: MappingProblem, v: int, left: tuple[int, ...]) -> Iterator[tuple[Loop, ...]]:
    """Every list of loops from level v inwards, for what is left of the bounds."""
    levels = source.architecture.levels
    if v == len(levels):
        if all(n == 1 for n in left):
            yield ()
        return
    usable = v == 0 or any(
        source.constraints.decision(source.architecture, levels[v].name, t) is not Keep.NO
        for t in source.computation.tensors
    )
    for temporal, rest in _temporal(left, usable):
        for spatial, after in _spatial(source, v, rest):
            for inner in _nests(source, v + 1, after):
                yield (*temporal, *spatial, *inner)


def _temporal(left: tuple[int, ...], usable: bool) -> Iterator[tuple[tuple[Loop, ...], tuple[int, ...]]]:
    yield (), left
    if not usable:
        return
    for d, n in enumerate(left):
        for f in range(2, n + 1):
            if n % f == 0:
                for more, rest in _temporal((*left[:d], n // f, *left[d + 1 :]), usable):
                    yield ((d, f, 0, -1), *more), rest


def _spatial(
    source: MappingProblem, v: int, left: tuple[int, ...]
) -> Iterator[tuple[tuple[Loop, ...], tuple[int, ...]]]:
    level = source.architecture.levels[v]
    item = source.constraints.by_level.get(level.name, LevelConstraints(level.name))
    dims = source.computation.dims
    factors = [[f for f in range(1, n + 1) if n % f == 0] for n in left]
    for x in product(*factors):
        if np.prod(x) > level.fanout.x:
            continue
        rest = tuple(n // f for n, f in zip(left, x, strict=True))
        for y in product(*[[f for f in range(1, n + 1) if n % f == 0] for n in rest]):
            if np.prod(y) > level.fanout.y:
                continue
            fixed = dict(item.spatial)
            if any(x[d] * y[d] != fixed.get(dim, x[d] * y[d]) for d, dim in enumerate(dims)):
                continue
            loops = [(d, f, 1, v) for d, f in enumerate(x) if f > 1] + [(d, f, 2, v) for d, f in enumerate(y) if f > 1]
            yield tuple(loops), tuple(n // f for n, f in zip(rest, y, strict=True))


def _places(source: MappingProblem, t: int, loops: tuple[Loop, ...]) -> list[list[int]]:
    """Every choice of keeping levels and places of one tensor: a position for each level, or `BYPASSED`."""
    levels, tensor = source.architecture.levels, source.computation.tensors[t]
    choices = []
    for level in levels:
        decision = source.constraints.decision(source.architecture, level.name, tensor)
        choices.append({Keep.YES: (True,), Keep.NO: (False,), Keep.FREE: (True, False)}[decision])
    found = []
    for keep in product(*choices):
        kept = [v for v, k in enumerate(keep) if k]
        for places in combinations_with_replacement(range(len(loops) + 1), len(kept)):
            if places[0] == 0 and all(_stands(loops, v, at) for v, at in zip(kept, places, strict=True)):
                row = [BYPASSED] * len(levels)
                for v, at in zip(kept, places, strict=True):
                    row[v] = at
                found.append(row)
    return found


def _stands(loops: tuple[Loop, ...], v: int, at: int) -> bool:
    """Whether a node of level v may stand there: inside the fan-outs of the levels outside, outside its own (M4)."""
    return all((m < v) == (i < at) for i, (_, _, kind, m) in enumerate(loops) if kind)


@njit
def _score_all(
    kernel: Kernel, loops: IntArray, count: int, table: IntArray, sizes: IntArray, best: npt.NDArray[np.float64]
) -> int:
    n_tensors, n_levels = table.shape[0], table.shape[2]
    digit = np.zeros(n_tensors, np.int64)
    position = np.empty((n_levels, n_tensors), np.int64)
    valid = 0
    while True:
        for t in range(n_tensors):
            for v in range(n_levels):
                position[v, t] = table[t, digit[t], v]
        status, energy, cycles = score(kernel, Nest(loops, position), count)
        if status == 0:
            valid += 1
            best[0] = min(best[0], energy)
            best[1] = min(best[1], cycles)
            best[2] = min(best[2], energy * cycles)
        t = 0
        while t < n_tensors:
            digit[t] += 1
            if digit[t] < sizes[t]:
                break
            digit[t] = 0
            t += 1
        if t == n_tensors:
            return valid
