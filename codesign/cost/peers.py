"""Neighbour-to-neighbour forwarding (rule N4 in docs/reference/cost-model.md), counted by boxes instead of words.

All children move together, so one step looks the same to every child up to where its neighbours' tiles lie
relative to its own. Those relative places cut the new tile into boxes, and each box is judged once.
"""

import numpy as np

from codesign.core.jit import njit, njit_apart
from codesign.core.kernel_library import sort_in_place
from codesign.cost.columns import BEFORE, NEAREST, STEP_SIZE
from codesign.mapping.nest import DIM, FACTOR, SPATIAL_X, IntArray


@njit
def _axis_offsets(
    loops: IntArray, start: int, stop: int, t: int, kind: int, coef: IntArray, outside: IntArray
) -> IntArray:
    """Offset of the tile at each coordinate along one axis of the array: ``extent x A``."""
    width = 1
    for i in range(start, stop):
        if loops[i, 2] == kind:
            width *= loops[i, FACTOR]
    offsets = np.zeros((width, coef.shape[1]), np.int64)
    for place in range(width):
        rest = place
        for i in range(stop - 1, start - 1, -1):
            if loops[i, 2] != kind:
                continue
            k = rest % loops[i, FACTOR]
            rest //= loops[i, FACTOR]
            for a in range(coef.shape[1]):
                offsets[place, a] += k * coef[t, a, loops[i, DIM]] * outside[i, STEP_SIZE]
    return offsets


@njit
def _neighbour_shifts(along_x: IntArray, along_y: IntArray, x: int, y: int, shifts: IntArray) -> int:
    """Offsets of the neighbours' tiles relative to the tile of child (x, y); returns how many there are."""
    n = 0
    for step in (-1, 1):
        if 0 <= x + step < along_x.shape[0]:
            for a in range(along_x.shape[1]):
                shifts[n, a] = along_x[x + step, a] - along_x[x, a]
            n += 1
        if 0 <= y + step < along_y.shape[0]:
            for a in range(along_y.shape[1]):
                shifts[n, a] = along_y[y + step, a] - along_y[y, a]
            n += 1
    return n


@njit
def _cut_axis(marks: IntArray, extent: int) -> int:
    """Sort the cuts of one axis, drop those outside 0..extent and repeats; returns how many remain."""
    sort_in_place(marks)
    n = 0
    for i in range(marks.shape[0]):
        if 0 <= marks[i] <= extent and (n == 0 or marks[i] != marks[n - 1]):
            marks[n] = marks[i]
            n += 1
    return n


@njit
def _judge_group(
    shifts: IntArray, counts: IntArray, members: int, translation: IntArray, extent: IntArray, axes: int, keeps: bool
) -> tuple[int, int]:
    """One step of children with equal tiles: (words asked of the parent once, words given by neighbours in all).

    `shifts` is ``members x 4 x A``. A child's old tile lies at ``-translation`` relative to its new one, a
    neighbour's old tile at ``shift - translation``. With `keeps` the own overlap is not fetched.
    """
    n_shifts = 0
    for m in range(members):
        n_shifts += counts[m]
    marks = np.zeros((max(1, axes), 4 + 2 * n_shifts), np.int64)
    n_marks = np.ones(max(1, axes), np.int64)
    cells = 1
    for a in range(axes):
        marks[a, 1] = extent[a]
        marks[a, 2] = -translation[a]
        marks[a, 3] = extent[a] - translation[a]
        n = 4
        for m in range(members):
            for j in range(counts[m]):
                marks[a, n] = shifts[m, j, a] - translation[a]
                marks[a, n + 1] = marks[a, n] + extent[a]
                n += 2
        n_marks[a] = _cut_axis(marks[a], extent[a])
        cells *= n_marks[a] - 1
    asked, given = 0, 0
    low = np.zeros(max(1, axes), np.int64)
    for cell in range(cells):
        rest = cell
        size = 1
        own = keeps
        for a in range(axes):
            k = rest % (n_marks[a] - 1)
            rest //= n_marks[a] - 1
            low[a] = marks[a, k]
            size *= marks[a, k + 1] - marks[a, k]
            own = own and 0 <= low[a] + translation[a] < extent[a]
        if own:
            continue
        lacking = False
        for m in range(members):
            covered = False
            for j in range(counts[m]):
                inside = True
                for a in range(axes):
                    inside = inside and 0 <= low[a] + translation[a] - shifts[m, j, a] < extent[a]
                covered = covered or inside
            if covered:
                given += size
            else:
                lacking = True
        if lacking:
            asked += size
    return asked, given


@njit_apart
def peer_words(
    loops: IntArray,
    start: int,
    stop: int,
    t: int,
    last: int,
    axes: int,
    coef: IntArray,
    reuse: int,
    outside: IntArray,
    extent: IntArray,
    level: int,
    full: int,
) -> tuple[int, int]:
    """Words that the children of one parent ask of it and give each other over the whole run.

    Args:
        loops: The nest.
        start: First spatial loop of the parent's fan-out.
        stop: Past its last.
        t: The tensor.
        last: Innermost temporal loop outside the children's storage, -1 if none.
        axes: Of the tensor.
        coef: ``T x A x D``.
        reuse: Value of `Reuse`.
        outside: As in `Kernel`.
        extent: ``L x T x A`` tile extents.
        level: Of the children.
        full: Words of a child's tile.
    """
    along_x = _axis_offsets(loops, start, stop, t, SPATIAL_X, coef, outside)
    along_y = _axis_offsets(loops, start, stop, t, SPATIAL_X + 1, coef, outside)
    n_x, n_y = along_x.shape[0], along_y.shape[0]
    children = n_x * n_y
    group = np.full(children, -1, np.int64)
    groups = 0
    for c in range(children):
        for b in range(c):
            same = True
            for a in range(axes):
                here = along_x[c % n_x, a] + along_y[c // n_x, a]
                same = same and here == along_x[b % n_x, a] + along_y[b // n_x, a]
            if same:
                group[c] = group[b]
                break
        if group[c] < 0:
            group[c] = groups
            groups += 1
    asked, given = full * groups, 0
    shifts = np.zeros((children, 4, coef.shape[1]), np.int64)
    counts = np.zeros(children, np.int64)
    translation = np.zeros(coef.shape[1], np.int64)
    travelled = np.zeros(coef.shape[1], np.int64)
    for g in range(groups):
        members = 0
        for c in range(children):
            if group[c] == g:
                counts[members] = _neighbour_shifts(along_x, along_y, c % n_x, c // n_x, shifts[members])
                members += 1
        travelled[:] = 0
        i = last
        while i >= 0:
            d, factor = loops[i, DIM], loops[i, FACTOR]
            same = True
            for a in range(axes):
                v = coef[t, a, d] * outside[i, STEP_SIZE]
                translation[a] = v - travelled[a]
                first = coef[t, a, loops[last, DIM]] * outside[last, STEP_SIZE]
                same = same and translation[a] == first
                travelled[a] += v if reuse == 0 else v * (factor - 1)
            one_asked, one_given = _judge_group(
                shifts, counts, members, translation, extent[level, t], axes, same or reuse == 2
            )
            steps = (factor - 1) * outside[i, BEFORE]
            asked += steps * one_asked
            given += steps * one_given
            i = outside[i, NEAREST]
    return asked, given
