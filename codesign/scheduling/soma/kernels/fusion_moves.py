"""Compiled: the moves of the fusion search. Each changes ``order``, ``cut`` and ``tiles`` in place and keeps the order legal.

The paper's operators (change order, change tiling number, add / delete a fine-grained cut, add / delete a DRAM cut), the moves
of cuts the published program uses, and combinations that let the search leave a basin in one step.
"""

from codesign.core.jit import njit
from codesign.core.kernel_library import IntArray
from codesign.core.rng import RandomState, below, uniform
from codesign.scheduling.soma.kernels.decode import DRAM_CUT, FINE_CUT, NO_CUT
from codesign.scheduling.soma.kernels.records import Net, Scheme

N_MOVES = 12
(
    MOVE_ORDER, MOVE_TILING, MERGE_FINE, SPLIT_FINE, SHIFT_FINE, MERGE_DRAM, SPLIT_DRAM, SHIFT_DRAM, DEMOTE_DRAM, RETILE_RUN, SPLIT_PLAIN,
    SHIFT_PLAIN,
) = range(N_MOVES)  # fmt: skip
MOVE_NAMES = (
    "order", "tiling", "merge_fine", "split_fine", "shift_fine", "merge_dram", "split_dram", "shift_dram", "demote_dram", "retile_run",
    "split_plain", "shift_plain",
)  # fmt: skip


@njit
def pick_place(cut: IntArray, kind: int, random: RandomState) -> int:
    """A random place with this cut (place 0 excluded); -1 when there is none."""
    count = 0
    chosen = -1
    for i in range(1, cut.shape[0]):
        if cut[i] == kind:
            count += 1
            if below(random, count) == 0:
                chosen = i
    return chosen


@njit
def group_start(cut: IntArray, i: int) -> int:
    """Where the fine-grained group of place `i` starts."""
    while cut[i] == NO_CUT:
        i -= 1
    return i


@njit
def group_end(cut: IntArray, i: int) -> int:
    """Where the fine-grained group of place `i` ends."""
    i += 1
    while i < cut.shape[0] and cut[i] == NO_CUT:
        i += 1
    return i


@njit
def scaled(tiles: int, random: RandomState) -> int:
    """A tiling number near `tiles`: mostly doubled or halved, sometimes by 3 or 7, which divide common maps."""
    draw = uniform(random)
    factor = 2
    if draw > 0.95:
        factor = 7
    elif draw > 0.88:
        factor = 3
    elif draw > 0.8:
        factor = 4
    if uniform(random) < 0.5:
        return tiles * factor
    return max(1, tiles // factor)


@njit
def move_order(scheme: Scheme, net: Net, random: RandomState) -> bool:
    """Move one layer to another legal place, into the group there (or to the head of the next one)."""
    order, cut, tiles, place = scheme.order, scheme.cut, scheme.tiles, scheme.place
    n = order.shape[0]
    prod_start, prod_id, _pk = net.producers
    cons_start, cons_id, _ck = net.consumers
    i = below(random, n)
    layer = order[i]
    lo, hi = -1, n
    for e in range(prod_start[layer], prod_start[layer + 1]):
        lo = max(lo, place[prod_id[e]])
    for e in range(cons_start[layer], cons_start[layer + 1]):
        hi = min(hi, place[cons_id[e]])
    if hi - lo <= 2:
        return False
    j = lo + 1 + below(random, hi - lo - 2)
    if j >= i:
        j += 1
    # Take the layer out: its cut passes to the follower unless it was alone in its group.
    if cut[i] != NO_CUT and i + 1 < n:
        if cut[i + 1] == NO_CUT:
            tiles[i + 1] = tiles[i]
            cut[i + 1] = cut[i]
        else:
            cut[i + 1] = max(cut[i + 1], cut[i])
    if i < j:
        for x in range(i, j):
            order[x], cut[x], tiles[x] = order[x + 1], cut[x + 1], tiles[x + 1]
    else:
        for x in range(i, j, -1):
            order[x], cut[x], tiles[x] = order[x - 1], cut[x - 1], tiles[x - 1]
    order[j] = layer
    cut[j] = NO_CUT
    tiles[j] = 1
    lead = j + 1 < n and cut[j + 1] != NO_CUT and uniform(random) < 0.5
    if j == 0 or lead:
        cut[j], tiles[j] = cut[j + 1], tiles[j + 1]
        cut[j + 1] = NO_CUT
    for x in range(min(i, j), max(i, j) + 1):
        place[order[x]] = x
    return True


@njit
def merge_at(cut: IntArray, tiles: IntArray, i: int, random: RandomState) -> None:
    """Remove the cut at `i`; the joint group keeps one side's tiling number, drawn by number of layers."""
    a = group_start(cut, i - 1)
    b = group_end(cut, i)
    if uniform(random) * (b - a) < b - i:
        tiles[a] = tiles[i]
    cut[i] = NO_CUT


@njit
def split_at(cut: IntArray, tiles: IntArray, i: int, kind: int, retile: bool, random: RandomState) -> None:
    """Put a cut at `i`; both sides keep the tiling number or, with `retile`, sometimes one side gets a new one."""
    if cut[i] == NO_CUT:
        a = group_start(cut, i)
        tiles[i] = tiles[a]
        draw = uniform(random) if retile else 1.0
        if draw < 0.25:
            tiles[i] = scaled(tiles[i], random)
        elif draw < 0.5:
            tiles[a] = scaled(tiles[a], random)
    cut[i] = kind


@njit
def shift_cut(cut: IntArray, tiles: IntArray, i: int, random: RandomState) -> bool:
    """Move the cut at `i` to another place between its neighbours, near ones more likely."""
    lo = group_start(cut, i - 1)
    hi = group_end(cut, i)
    if hi - lo <= 2:
        return False
    reach = 1 + below(random, 1 + below(random, hi - lo))
    j = i + reach if uniform(random) < 0.5 else i - reach
    if j <= lo or j >= hi:
        return False
    cut[j] = cut[i]
    tiles[j] = tiles[i]
    cut[i] = NO_CUT
    return True


@njit
def _published_shift(cut: IntArray, tiles: IntArray, i: int, random: RandomState) -> bool:
    """The published move: a DRAM cut elsewhere in the two groups, the old one at i stays as a fine-grained cut."""
    n = cut.shape[0]
    lo, hi = i - 1, i + 1
    while cut[lo] != DRAM_CUT:
        lo -= 1
    while hi < n and cut[hi] != DRAM_CUT:
        hi += 1
    if hi - lo <= 2:
        return False
    j = lo + 1 + below(random, hi - lo - 1)
    if j == i:
        return False
    split_at(cut, tiles, j, DRAM_CUT, True, random)
    cut[i] = FINE_CUT
    return True


@njit
def change(kind: int, scheme: Scheme, net: Net, random: RandomState) -> bool:
    """Apply one move of this kind; False when it does not apply."""
    cut, tiles = scheme.cut, scheme.tiles
    n = cut.shape[0]
    if kind == MOVE_ORDER:
        return move_order(scheme, net, random)
    if kind == MOVE_TILING:
        a = group_start(cut, below(random, n))
        tiles[a] = scaled(tiles[a], random)
        return True
    if kind == RETILE_RUN:
        a = group_start(cut, below(random, n))
        b = group_end(cut, a)
        if b >= n:
            return False
        if uniform(random) < 0.5:
            tiles[a] = tiles[b]
        else:
            tiles[b] = tiles[a]
        return True
    if kind in (SPLIT_FINE, SPLIT_DRAM, SPLIT_PLAIN):
        if n < 2:
            return False
        i = 1 + below(random, n - 1)
        if kind == SPLIT_FINE:
            if cut[i] != NO_CUT:
                return False
            split_at(cut, tiles, i, FINE_CUT, True, random)
        else:
            if cut[i] == DRAM_CUT:
                return False
            split_at(cut, tiles, i, DRAM_CUT, kind == SPLIT_DRAM, random)
        return True
    i = pick_place(cut, FINE_CUT if kind in (MERGE_FINE, SHIFT_FINE) else DRAM_CUT, random)
    if i < 0:
        return False
    if kind in (MERGE_FINE, MERGE_DRAM):
        merge_at(cut, tiles, i, random)
        return True
    if kind == DEMOTE_DRAM:
        cut[i] = FINE_CUT
        return True
    if kind == SHIFT_DRAM and uniform(random) < 0.4:
        return _published_shift(cut, tiles, i, random)
    return shift_cut(cut, tiles, i, random)
