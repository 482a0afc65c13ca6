"""Which children of a fan-out have tiles that differ (rules S1-S4 of docs/reference/cost-model.md), in closed form where it can be."""

from codesign.core.jit import njit, njit_apart
from codesign.core.kernel_library import gcd, sort_unique
from codesign.cost.columns import AXIS, CHILDREN, ENTANGLED, SHARES, START, STEP, STEP_SIZE, STOP
from codesign.cost.packed import Kernel
from codesign.mapping.nest import DIM, FACTOR, IntArray


@njit_apart
def _enumerate_distinct(kernel: Kernel, loops: IntArray, m: int, t: int) -> int:
    """Different offset vectors among a level's children by listing them (rule S2)."""
    bounds, terms, first_term, motion = kernel.bounds, kernel.terms, kernel.first_term, kernel.motion
    coef, outside, offsets = kernel.coef, kernel.outside, kernel.offsets
    count = 1
    offsets[0] = 0
    for i in range(kernel.use[m, START], kernel.use[m, STOP]):
        d = loops[i, DIM]
        if motion[t, d, AXIS] < 0:
            continue
        # a vector as one number: axis a counts in units of the product of the inner axes' extents in the tensor
        step = 0
        unit = 1
        for a in range(coef.shape[1]):
            step += unit * coef[t, a, d] * outside[i, STEP_SIZE]
            reach = 1
            for k in range(first_term[t, a], first_term[t, a + 1]):
                reach += terms[k, 1] * (bounds[terms[k, 0]] - 1)
            unit *= reach
        factor = loops[i, FACTOR]
        for f in range(1, factor):
            for c in range(count):
                offsets[f * count + c] = offsets[c] + f * step
        count *= factor
    return sort_unique(offsets[:count])


@njit
def distinct_along(kernel: Kernel, loops: IntArray, m: int, t: int, i: int) -> int:
    """Different offsets along the axis that loop i moves, 1 when an earlier loop stands for it, 0 when not in closed form.

    Loops over one dimension act as one: the outer steps by as much as the inner covers. Two dimensions make the row-stationary
    diagonal: different sums of one of f1 multiples of s1 and one of f2 multiples of s2 (rule S3).
    """
    motion, outside = kernel.motion, kernel.outside
    d1, d2 = loops[i, DIM], -1
    axis = motion[t, d1, AXIS]
    for j in range(kernel.use[m, START], i):
        if motion[t, loops[j, DIM], AXIS] == axis:
            return 1
    f1, step1, f2, step2 = loops[i, FACTOR], outside[i, STEP_SIZE], 1, 1
    for j in range(i + 1, kernel.use[m, STOP]):
        d = loops[j, DIM]
        if d == d1:
            f1 *= loops[j, FACTOR]
            step1 = outside[j, STEP_SIZE]
        elif motion[t, d, AXIS] == axis:
            if d2 >= 0 and d != d2:
                return 0
            d2 = d
            f2 *= loops[j, FACTOR]
            step2 = outside[j, STEP_SIZE]
    if d2 < 0:
        return f1  # type: ignore[no-any-return]
    s1, s2 = motion[t, d1, STEP] * step1, motion[t, d2, STEP] * step2
    g = gcd(s1, s2)
    return f1 * f2 - max(0, f1 - s2 // g) * max(0, f2 - s1 // g)  # type: ignore[no-any-return]


@njit
def distinct_children(kernel: Kernel, loops: IntArray, m: int, t: int) -> int:
    """Children in use of one instance of level m whose tiles of a tensor differ (rules S1-S4)."""
    use = kernel.use
    distinct = use[m, CHILDREN]
    if distinct == 1 or kernel.level_int[m, SHARES] == 0:
        return distinct  # type: ignore[no-any-return]
    distinct = 0 if kernel.tensor[t, ENTANGLED] == 1 else 1
    for i in range(use[m, START], use[m, STOP]):
        if kernel.motion[t, loops[i, DIM], AXIS] >= 0:
            distinct *= distinct_along(kernel, loops, m, t, i)
    if distinct == 0:
        return _enumerate_distinct(kernel, loops, m, t)
    return distinct
