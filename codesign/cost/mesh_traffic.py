"""What a mapping sends over the mesh below a level: flits of its links, cycles and energy (rules N5-N9 of docs/reference/cost-model.md)."""

import numpy as np

from codesign.core.jit import njit, njit_apart
from codesign.cost.columns import (
    AXES,
    FILLS,
    HOP,
    INSTANCES,
    MESH,
    NEAREST,
    ROUNDED,
    SHARE,
    START,
    STEP_SIZE,
    STOP,
    TILE,
)
from codesign.cost.mesh import DOWN, NODES, PARENTS, UP, WIDTH, add_loads, busiest, clear, list_children, transfer_flits
from codesign.cost.sharing import distinct_children
from codesign.mapping.nest import BYPASSED, DIM, FloatArray, IntArray


@njit
def crossing(position: IntArray, m: int, t: int) -> tuple[int, int]:
    """The levels between which tensor t crosses the fan-out of level m: outer (-1: none), inner (``L``: the MACs)."""
    outer, inner = -1, position.shape[0]
    for v in range(position.shape[0]):
        if position[v, t] != BYPASSED:
            if v <= m:
                outer = v
            else:
                inner = v
                break
    return outer, inner


@njit_apart
def mesh_traffic(
    m: int, loops: IntArray, position: IntArray, compute_cycles: int, bounds: IntArray, terms: IntArray,
    first_term: IntArray, motion: IntArray, coef: IntArray, tensor: IntArray, pair: FloatArray, level_int: IntArray,
    outside: IntArray, use: IntArray, counts: IntArray, spent: FloatArray, offsets: IntArray, mesh: IntArray,
    bits: IntArray, unit: IntArray, load: FloatArray, mark: IntArray, child: IntArray, role: IntArray, turns: IntArray,
    extent: IntArray, reuse: int,
) -> float:  # fmt: skip
    """Count the flits of the mesh below level m, set `spent`'s cycles of it, and return its energy (rules N5-N9)."""
    n_tensors = position.shape[1]
    token, energy = 0, 0.0
    most_down, most_up = 0.0, 0.0
    for together in range(2):  # first tensors that take turns, then those that stream side by side
        clear(load, mark)
        for t in range(n_tensors):
            outer, inner = crossing(position, m, t)
            if outer < 0 or turns[inner] == together:
                continue
            is_output = t == n_tensors - 1
            down, up, tile = 1.0 * compute_cycles, 0.0, 0.0
            if inner < position.shape[0]:
                down = 1.0 * counts[inner, t, FILLS]
                if is_output:
                    up = down + use[inner, SHARE]
                if together == 0 and _moves_whole(loops, position, t, inner, coef, tensor, outside, extent, reuse):
                    tile = 1.0 * counts[inner, t, TILE]
            elif is_output:
                down, up = 0.0, 1.0 * compute_cycles
            for between in range(m + 1, inner):
                distinct = distinct_children(
                    loops, between, t, bounds, terms, first_term, motion, coef, tensor, level_int, outside, use, offsets
                )
                down *= distinct
                up *= distinct
                tile *= distinct
            total = list_children(loops, use[m, START], use[m, STOP], t, mesh[m, WIDTH], coef, unit, outside, child)
            flits_down = transfer_flits(mesh[m], down, tile, bits[m, t])
            flits_up = transfer_flits(mesh[m], up, tile, bits[m, t])
            token, links_down, links_up = add_loads(
                mesh[m], child, total, flits_down, flits_up, not is_output, load, mark, role, token
            )
            # pJ of a hop stand for an element; every parent moves its part of it
            energy += (links_down * down + links_up * up) / mesh[m, PARENTS] * pair[m, t, HOP] * use[m, INSTANCES]
            if together == 0:
                most_down += busiest(load[DOWN], mesh[m, NODES])
                most_up += busiest(load[UP], mesh[m, NODES])
                clear(load, mark)
        if together == 1:
            most_down += busiest(load[DOWN], mesh[m, NODES])
            most_up += busiest(load[UP], mesh[m, NODES])
    spent[m, MESH] = np.ceil(max(most_down, most_up) * ROUNDED)
    return energy


@njit
def _moves_whole(
    loops: IntArray, position: IntArray, t: int, v: int, coef: IntArray, tensor: IntArray, outside: IntArray,
    extent: IntArray, reuse: int,
) -> bool:  # fmt: skip
    """Whether every transfer to level v brings a whole tile (R1-R3).

    It does where the innermost loop outside the tile moves it beyond itself, or not at all: then every other step is another
    translation.
    """
    if reuse == 2:
        return False
    i = outside[position[v, t], NEAREST]
    if i < 0:
        return True
    overlap, full = 1, 1
    for a in range(tensor[t, AXES]):
        overlap *= max(0, extent[v, t, a] - abs(coef[t, a, loops[i, DIM]] * outside[i, STEP_SIZE]))
        full *= extent[v, t, a]
    return overlap in (0, full)
