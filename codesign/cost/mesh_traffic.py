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
from codesign.cost.mesh import DOWN, KEY, NODE, PARENTS, UP, WIDTH, add_loads, busiest, clear, transfer_flits
from codesign.cost.packed import Kernel
from codesign.cost.sharing import distinct_children
from codesign.mapping.nest import BYPASSED, DIM, FACTOR, KIND, SPATIAL_X, IntArray, Nest


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


@njit
def list_children(kernel: Kernel, nest: Nest, m: int, t: int) -> int:
    """Offset (as one number) and node of every child that the spatial loops of level m use, into `MeshArrays.child`; returns how many."""
    loops, coef, mesh = nest.loops, kernel.coef, kernel.mesh
    start, stop, total = kernel.use[m, START], kernel.use[m, STOP], 1
    for i in range(start, stop):
        total *= loops[i, FACTOR]
    for c in range(total):
        rest, x, y, span_x, span_y, key = c, 0, 0, 1, 1, 0
        for i in range(stop - 1, start - 1, -1):
            factor = loops[i, FACTOR]
            digit = rest % factor
            rest //= factor
            if loops[i, KIND] == SPATIAL_X:
                x += digit * span_x
                span_x *= factor
            else:
                y += digit * span_y
                span_y *= factor
            for a in range(coef.shape[1]):
                key += mesh.unit[t, a] * coef[t, a, loops[i, DIM]] * kernel.outside[i, STEP_SIZE] * digit
        mesh.child[KEY, c] = key
        mesh.child[NODE, c] = y * mesh.level[m, WIDTH] + x
    return total


@njit
def _parts(kernel: Kernel, nest: Nest, t: int, inner: int, compute_cycles: int) -> tuple[float, float]:
    """Words of tensor t that go down to, and up from, one instance of level `inner` over the run."""
    is_output = t == nest.position.shape[1] - 1
    down, up = 1.0 * compute_cycles, 0.0
    if inner < nest.position.shape[0]:
        down = 1.0 * kernel.counts[inner, t, FILLS]
        if is_output:
            up = down + kernel.use[inner, SHARE]
    elif is_output:
        down, up = 0.0, 1.0 * compute_cycles
    return down, up


@njit
def _add_tensor(
    kernel: Kernel, nest: Nest, m: int, t: int, compute_cycles: int, together: int, token: int
) -> tuple[int, float]:
    """Add the flits of one tensor to the links of the mesh below level m; the next token, and the energy."""
    mesh = kernel.mesh
    inner = crossing(nest.position, m, t)[1]
    is_output = t == nest.position.shape[1] - 1
    down, up = _parts(kernel, nest, t, inner, compute_cycles)
    tile = 0.0
    if inner < nest.position.shape[0] and together == 0 and _moves_whole(kernel, nest, t, inner):
        tile = 1.0 * kernel.counts[inner, t, TILE]
    for between in range(m + 1, inner):
        distinct = distinct_children(kernel, nest.loops, between, t)
        down *= distinct
        up *= distinct
        tile *= distinct
    total = list_children(kernel, nest, m, t)
    flits_down, flits_up = transfer_flits(mesh, m, t, down, tile), transfer_flits(mesh, m, t, up, tile)
    token, links_down, links_up = add_loads(mesh, m, total, flits_down, flits_up, not is_output, token)
    # pJ of a hop stand for an element; every parent moves its part of it
    shares = (links_down * down + links_up * up) / mesh.level[m, PARENTS]
    return token, shares * kernel.pair[m, t, HOP] * kernel.use[m, INSTANCES]


@njit_apart
def mesh_traffic(kernel: Kernel, nest: Nest, m: int, compute_cycles: int) -> float:
    """Count the flits of the mesh below level m, set `spent`'s cycles of it, and return its energy (rules N5-N9)."""
    mesh, token, energy = kernel.mesh, 0, 0.0
    most_down, most_up = 0.0, 0.0
    for together in range(2):  # first tensors that take turns, then those that stream side by side
        clear(mesh)
        for t in range(nest.position.shape[1]):
            outer, inner = crossing(nest.position, m, t)
            if outer < 0 or mesh.turns[inner] == together:
                continue
            token, spent = _add_tensor(kernel, nest, m, t, compute_cycles, together, token)
            energy += spent
            if together == 0:
                most_down += busiest(mesh, m, DOWN)
                most_up += busiest(mesh, m, UP)
                clear(mesh)
        if together == 1:
            most_down += busiest(mesh, m, DOWN)
            most_up += busiest(mesh, m, UP)
    kernel.spent[m, MESH] = np.ceil(max(most_down, most_up) * ROUNDED)
    return energy


@njit
def _moves_whole(kernel: Kernel, nest: Nest, t: int, v: int) -> bool:
    """Whether every transfer to level v brings a whole tile (R1-R3).

    It does where the innermost loop outside the tile moves it beyond itself, or not at all: then every other step is another
    translation.
    """
    if kernel.reuse == 2:
        return False
    outside, extent = kernel.outside, kernel.extent
    i = outside[nest.position[v, t], NEAREST]
    if i < 0:
        return True
    overlap, full = 1, 1
    for a in range(kernel.tensor[t, AXES]):
        travel = kernel.coef[t, a, nest.loops[i, DIM]] * outside[i, STEP_SIZE]
        overlap *= max(0, extent[v, t, a] - abs(travel))
        full *= extent[v, t, a]
    return overlap in (0, full)
