"""Compiled: the least cycles and the least energy of a layer over all tile shapes that some scheme could give it (B3, docs/explanation/soma.md)."""

import numpy as np

from codesign.core.jit import njit
from codesign.core.kernel_library import FloatArray, IntArray
from codesign.scheduling.soma.kernels.tile_cost import ENERGY, N_COST, TIME, ceil_div, tile_cost


@njit
def least_tiles(
    row: IntArray,
    batch: int,
    channels: int,
    height: int,
    width: int,
    cover_h: int,
    cover_w: int,
    ints: IntArray,
    reals: FloatArray,
    flags: int,
) -> tuple[float, float]:
    """Least cycles and least pJ, each for itself, of tiles that cover ``batch x channels x cover_h x cover_w``; -1 where none fits.

    Args:
        row: The layer's row of `LayerGraph.table`.
        batch, channels, height, width: The largest tile.
        cover_h, cover_w: Rows and columns that are computed at least.
        ints, reals, flags: As in `tile_cost`.
    """
    cost = np.zeros(N_COST)
    cycles, energy = -1.0, -1.0
    for b in range(1, batch + 1):
        if batch % b:
            continue
        for h in range(1, height + 1):
            for w in range(1, width + 1):
                tile_cost(row, b, channels, h, w, ints, reals, flags, cost)
                if cost[TIME] < 0:
                    continue
                count = (batch // b) * ceil_div(cover_h, h) * ceil_div(cover_w, w)
                if cycles < 0 or count * cost[TIME] < cycles:
                    cycles = count * cost[TIME]
                if energy < 0 or count * cost[ENERGY] < energy:
                    energy = count * cost[ENERGY]
    return cycles, energy
