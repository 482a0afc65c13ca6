"""Words that enter a buffer while the loops outside it run (rules R1-R4 of docs/reference/cost-model.md), without walking them."""

from codesign.core.jit import njit, njit_apart
from codesign.cost.columns import AXIS, BEFORE, NEAREST, STEP, STEP_SIZE
from codesign.mapping.nest import DIM, FACTOR, IntArray


@njit
def words_in(
    loops: IntArray,
    v: int,
    t: int,
    last: int,
    motion: IntArray,
    reuse: int,
    outside: IntArray,
    extent: IntArray,
    full: int,
) -> int:
    """Words that enter one instance over the whole run (rules R1-R3).

    The temporal loops outside the storage node are taken from inner (`last`) to outer. Loop i makes
    N_i = (f_i - 1) * prod_{j<i} f_j steps, each moving the tile by the vector
    T_i = v_i - (what the inner loops had moved it), v_i = coefficient * step.
    A step with the translation of the innermost loop keeps the overlap, any other fetches the whole tile.

    Here every dimension moves one axis. The inner loops' shift is >= 0 on every axis, so a later loop can
    repeat the innermost translation only while the shift lies on that loop's own axis.
    """
    d = loops[last, DIM]
    factor = loops[last, FACTOR]
    axis = motion[t, d, AXIS]
    step = motion[t, d, STEP] * outside[last, STEP_SIZE]
    delta = 0
    if axis >= 0:
        delta = full - full // extent[v, t, axis] * max(0, extent[v, t, axis] - step)
    total = full + (factor - 1) * outside[last, BEFORE] * delta
    shift = step if reuse == 0 else step * (factor - 1)
    i = outside[last, NEAREST]
    while i >= 0:
        d = loops[i, DIM]
        factor = loops[i, FACTOR]
        moved = motion[t, d, AXIS]
        travel = motion[t, d, STEP] * outside[i, STEP_SIZE]
        same = moved == axis and travel - shift == step
        if moved >= 0 and axis >= 0 and moved != axis:
            # a second axis has moved: from here outwards nothing repeats the innermost translation
            return total + (outside[i, BEFORE] * factor - 1) * full  # type: ignore[no-any-return]
        total += (factor - 1) * outside[i, BEFORE] * (delta if same else full)
        if moved >= 0:
            axis = moved
            shift += travel if reuse == 0 else travel * (factor - 1)
        i = outside[i, NEAREST]
    return total  # type: ignore[no-any-return]


@njit_apart
def words_in_general(
    loops: IntArray,
    v: int,
    t: int,
    last: int,
    axes: int,
    coef: IntArray,
    reuse: int,
    outside: IntArray,
    extent: IntArray,
    full: int,
    shift: IntArray,
) -> int:
    """`words_in` for tensors with a dimension on two axes, and for reuse of whatever is resident (rule R4)."""
    total = full
    delta = 0
    for a in range(axes):
        shift[a] = 0
    i = last
    while i >= 0:
        d = loops[i, DIM]
        factor = loops[i, FACTOR]
        overlap = 1
        same = True
        travels = False
        for a in range(axes):
            travel = coef[t, a, d] * outside[i, STEP_SIZE]
            translation = travel - shift[a]
            travels = travels or translation != 0
            same = same and translation == coef[t, a, loops[last, DIM]] * outside[last, STEP_SIZE]
            overlap *= max(0, extent[v, t, a] - abs(translation))
            shift[a] += travel if reuse == 0 else travel * (factor - 1)
        if i == last:
            delta = full - overlap
        moved = full - overlap if reuse == 2 else (delta if same else full)
        if reuse == 3:
            moved = full if travels else 0
        total += (factor - 1) * outside[i, BEFORE] * moved
        i = outside[i, NEAREST]
    return total
