"""Steps on the lattice that the programs share: tiles grown by a factor, the best loop over a dimension; compiled."""

from codesign.core.jit import njit
from codesign.mappers.exact.problem.lattice import Grid
from codesign.mapping.nest import FloatArray


@njit
def grown(x: int, d: int, j: int, grid: Grid) -> int:
    """Tile x with dimension d grown by its divisor at position j; -1 if there is none."""
    i = x // grid.stride[d] % grid.n_divisors[d]
    k = grid.grow[d, j, i]
    return -1 if k < 0 else x + (k - i) * grid.stride[d]


@njit
def suffix_minima(array: FloatArray, size: int, inner: int) -> None:
    """Suffix minima along one prime axis, in place."""
    block = size * inner
    for start in range(0, array.shape[0], block):
        for i in range(size - 2, -1, -1):
            here = start + i * inner
            for x in range(here, here + inner):
                array[x] = min(array[x], array[x + inner])


@njit
def minima_along(array: FloatArray, d: int, grid: Grid) -> None:
    """Least over all loops over d, and none, in place."""
    for a in range(grid.axis_dim.shape[0]):
        if grid.axis_dim[a] == d:
            suffix_minima(array, grid.axis_size[a], grid.axis_stride[a])


@njit
def offer_window_loop(
    target: FloatArray, source: FloatArray, whole: FloatArray, shared: FloatArray, d: int, j: int, grid: Grid
) -> None:
    """Offer first loops over d with the factor at position j.

    Args:
        target: ``N`` lowered.
        source: ``N`` costs after the loop.
        whole: ``N`` cost of whole tiles.
        shared: ``N`` the part that a window keeps at each step.
    """
    inner, n = grid.stride[d], grid.n_divisors[d]
    keep_share = 1.0 - 1.0 / grid.divisor[d, j]
    for start in range(0, target.shape[0], n * inner):
        for i in range(n):
            if grid.grow[d, j, i] < 0:
                continue
            move = (grid.grow[d, j, i] - i) * inner
            first = start + i * inner
            for x in range(first, first + inner):
                target[x] = min(target[x], source[x + move] + whole[x] - shared[x] * keep_share)
