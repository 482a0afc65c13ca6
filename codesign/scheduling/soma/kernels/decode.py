"""Compiled: from the fusion attributes to tiles, DRAM tensors and lifetimes.

A fusion scheme is three arrays over the computing order: `order` (layer ids), `cut` (0 none, 1 fine-grained cut, 2 DRAM cut *before*
this place; place 0 always holds 2) and `tiles` (tiling number, read where `cut > 0`). Reference data `spec.md`, section 2.
"""

import math
from typing import Any

from codesign.core.jit import njit
from codesign.core.kernel_library import gcd
from codesign.scheduling.soma.model import layer_graph as nw
from codesign.scheduling.soma.model import rules as model
from codesign.scheduling.soma.model.layer_graph import IntArray

NO_CUT, FINE_CUT, DRAM_CUT = 0, 1, 2
LOAD_IFMAP, LOAD_WEIGHT, STORE, LOCAL = 0, 1, 2, 3

_TYPE, _K, _H, _W, _C, _R, _S, _SH, _SW, _PH, _PW, _HIN, _WIN, _CG, _KG, _O0, _O1, _O2, _WB, _DYN, _SPAN_H, _SPAN_W = (
    nw.TYPE, nw.K, nw.H, nw.W, nw.C, nw.R, nw.S, nw.SH, nw.SW, nw.PAD_H, nw.PAD_W, nw.H_IN, nw.W_IN, nw.CG, nw.KG, nw.O0, nw.O1,
    nw.O2, nw.WEIGHT_BYTES, nw.DYNAMIC, nw.SPAN_H, nw.SPAN_W,
)  # fmt: skip
_CONV, _GROUP_CONV, _FC, _POOL, _TRANSPOSE, _UPSAMPLE = (
    int(nw.LayerType.CONV),
    int(nw.LayerType.GROUP_CONV),
    int(nw.LayerType.FC),
    int(nw.LayerType.POOL),
    int(nw.LayerType.TRANSPOSE),
    int(nw.LayerType.UPSAMPLE),
)
_HALOS, _CLAMP, _WHOLE_OUTPUTS = model.INTERIOR_HALOS, model.CHANNEL_CLAMP, model.WHOLE_OUTPUTS
_IFMAP_EDGE, _WEIGHT_EDGE, _WHOLE_EDGE = nw.IFMAP_EDGE, nw.WEIGHT_EDGE, nw.WHOLE_EDGE

# Status codes shared by the compiled code; `notation.Status` names them. UNPRICED: a tile cost has to be asked for first.
OK, BAD_ORDER, TOO_MANY_TILES, NO_MAPPING, OVERFLOW, BAD_TENSOR_ORDER, LOAD_BEFORE_STORE, UNPRICED = range(8)


@njit
def columns_of(pieces: int, h: int, w: int) -> int:
    """Into how many columns a map of ``h x w`` is cut when cut into `pieces` nearly square tiles.

    The divisor of `pieces` nearest to the ideal ``sqrt(pieces * w / h)``; ties cut the width more.
    """
    ideal = int(math.sqrt(pieces / (h / w)))
    low = 0
    for d in range(min(ideal, pieces), 0, -1):
        if pieces % d == 0:
            low = d
            break
    high = 0
    for d in range(ideal + 1, pieces + 1):
        if pieces % d == 0:
            high = d
            break
    if low == 0:
        return high
    if high == 0:
        return low
    ratio = h / w
    if abs(pieces // high - ratio * high) <= abs(pieces // low - ratio * low):
        return high
    return low


@njit
def split_output(
    table: IntArray, layer: int, batch: int, tiles: int, keep_h: bool, keep_w: bool
) -> tuple[int, int, int, int, int]:
    """Tile of an output layer of a fine-grained group.

    Batch is cut first (by the greatest common divisor), then height and width; `keep_h`, `keep_w` forbid one.

    Returns:
        ``(b, h, w, cuts_h, cuts_w)``; b = 0 when the map has too few rows or columns.
    """
    samples = gcd(batch, tiles)
    rest = tiles // samples
    cuts_h, cuts_w = 1, 1
    if rest > 1 and not (keep_h and keep_w):
        if keep_h:
            cuts_w = rest
        elif keep_w:
            cuts_h = rest
        else:
            cuts_w = columns_of(rest, table[layer, _H], table[layer, _W])
            cuts_h = rest // cuts_w
    if table[layer, _H] < cuts_h or table[layer, _W] < cuts_w:
        return 0, 0, 0, cuts_h, cuts_w
    return batch // samples, -(-table[layer, _H] // cuts_h), -(-table[layer, _W] // cuts_w), cuts_h, cuts_w


@njit
def window_extent(extent: int, full: int, span: int, stride: int, pad: int, limit: int, cuts: int, flags: int) -> int:
    """Input rows (columns) a tile of `extent` outputs needs; a window reaches over `span` of them, dilation included.

    The published rule takes the tile at the origin, which has padding on one side. With `INTERIOR_HALOS` the worst
    tile counts: an uncut map needs its whole input, three or more cuts have a tile without any padding.
    """
    need = (extent - 1) * stride + span
    if flags & _HALOS and cuts > 2 and extent < full:
        return min(need, limit)
    return min(need - pad, limit)


@njit
def requirement(
    table: IntArray,
    layer: int,
    edge: int,
    source: int,
    b: int,
    c: int,
    h: int,
    w: int,
    cuts_h: int,
    cuts_w: int,
    flags: int,
) -> tuple[int, int, int, int]:
    """What a tile ``b x c x h x w`` of a layer needs of one producer: ``(b, c, h, w)`` of the producer's output."""
    kind = table[layer, _TYPE]
    if edge == _WHOLE_EDGE:
        return b, table[source, _K], table[source, _H], table[source, _W]
    if edge == _WEIGHT_EDGE:
        return b, c, table[layer, _CG], table[layer, _R] * table[layer, _S]
    if kind == _FC:
        return b, table[layer, _C], table[layer, _R], table[layer, _S]
    if kind in (_CONV, _GROUP_CONV, _POOL):
        row = table[layer]
        h_in = window_extent(h, row[_H], row[_SPAN_H], row[_SH], row[_PH], row[_HIN], cuts_h, flags)
        w_in = window_extent(w, row[_W], row[_SPAN_W], row[_SW], row[_PW], row[_WIN], cuts_w, flags)
        if kind == _POOL:
            return b, c, h_in, w_in
        if kind == _CONV:
            return b, table[layer, _C], h_in, w_in
        return b, -(-c // table[layer, _KG]) * table[layer, _CG], h_in, w_in
    if kind == _TRANSPOSE:
        out = (c, h, w)
        c_in, h_in, w_in = c, h, w
        for j in range(3):
            source = table[layer, _O0 + j]
            if source == 0:
                c_in = out[j]
            elif source == 1:
                h_in = out[j]
            else:
                w_in = out[j]
        return b, c_in, h_in, w_in
    if kind == _UPSAMPLE:
        return b, c, -(-h * table[layer, _HIN] // table[layer, _H]), -(-w * table[layer, _WIN] // table[layer, _W])
    return b, c, h, w


@njit
def forbidden_cuts(
    a: int, b: int, order: IntArray, place: IntArray, table: IntArray, prod_start: IntArray, prod_id: IntArray
) -> tuple[bool, bool]:
    """Whether transposes fed inside the group ``order[a:b]`` forbid cutting height or width."""
    keep_h, keep_w = False, False
    for i in range(a, b):
        layer = order[i]
        if table[layer, _TYPE] != _TRANSPOSE:
            continue
        for e in range(prod_start[layer], prod_start[layer + 1]):
            if a <= place[prod_id[e]] < b:
                if table[layer, _O0] == 1 or table[layer, _O1] == 0:
                    keep_h = True
                if table[layer, _O0] == 2 or table[layer, _O2] == 0:
                    keep_w = True
    return keep_h, keep_w


@njit
def shape_group(
    a: int,
    b: int,
    tiles: int,
    order: IntArray,
    place: IntArray,
    batch: int,
    flags: int,
    table: IntArray,
    producers: tuple[Any, ...],
    consumers: tuple[Any, ...],
    shape: IntArray,
) -> int:
    """Tile shapes of every layer of the fine-grained group ``order[a:b]`` into ``shape[layer] = (b, c, h, w, cuts_h, cuts_w)``.

    Output layers of the group are cut; every other layer's tile is the element-wise maximum of what its consumers
    inside the group need (halo backtracking, last layer first). With `WHOLE_OUTPUTS` a layer that is read outside the group too
    covers its whole output; the published rule leaves out what only those readers need.

    Returns:
        `OK` or `TOO_MANY_TILES`.
    """
    prod_start, prod_id, _prod_kind = producers
    cons_start, cons_id, cons_kind = consumers
    keep_h, keep_w = forbidden_cuts(a, b, order, place, table, prod_start, prod_id)
    for i in range(b - 1, a - 1, -1):
        layer = order[i]
        tb, tc, th, tw, ch, cw = 0, 0, 0, 0, 1, 1
        outside = False
        for e in range(cons_start[layer], cons_start[layer + 1]):
            user = cons_id[e]
            if i < place[user] < b:
                at = shape[user]
                nb, nc, nh, nw_ = requirement(
                    table, user, cons_kind[e], layer, at[0], at[1], at[2], at[3], at[4], at[5], flags
                )
                tb, tc, th, tw = max(tb, nb), max(tc, nc), max(th, nh), max(tw, nw_)
                ch, cw = max(ch, shape[user, 4]), max(cw, shape[user, 5])
            else:
                outside = True
        if tb > 0 and outside and flags & _WHOLE_OUTPUTS:
            nb, nh, nw_, nch, ncw = split_output(table, layer, batch, tiles, keep_h, keep_w)
            if nb == 0:
                return TOO_MANY_TILES
            tb, tc, th, tw = max(tb, nb), max(tc, table[layer, _K]), max(th, nh), max(tw, nw_)
            ch, cw = max(ch, nch), max(cw, ncw)
        if tb == 0:
            tb, th, tw, ch, cw = split_output(table, layer, batch, tiles, keep_h, keep_w)
            tc = table[layer, _K]
            if tb == 0:
                return TOO_MANY_TILES
        elif flags & _CLAMP:
            tc, th, tw = min(tc, table[layer, _K]), min(th, table[layer, _H]), min(tw, table[layer, _W])
        shape[layer, 0] = tb
        shape[layer, 1] = tc
        shape[layer, 2] = th
        shape[layer, 3] = tw
        shape[layer, 4] = ch
        shape[layer, 5] = cw
    return OK


@njit
def order_is_legal(order: IntArray, place: IntArray, producers: tuple[Any, ...]) -> bool:
    """Whether every producer comes before its consumers."""
    prod_start, prod_id, _kind = producers
    for i in range(order.shape[0]):
        layer = order[i]
        for e in range(prod_start[layer], prod_start[layer + 1]):
            if place[prod_id[e]] > i:
                return False
    return True


@njit
def locate_groups(
    cut: IntArray,
    tiles: IntArray,
    flg_end: IntArray,
    lg_end: IntArray,
    lg_of: IntArray,
    n_tiles: IntArray,
    step: IntArray,
    first: IntArray,
) -> int:
    """Per place: end of its fine-grained group and of its group, group number, tiles, FLG length and first position.

    Returns:
        Number of tiles of the whole network.
    """
    n = cut.shape[0]
    group = -1
    a = 0
    position = 0
    while a < n:
        b = a + 1
        while b < n and cut[b] == NO_CUT:
            b += 1
        if cut[a] == DRAM_CUT:
            group += 1
        for i in range(a, b):
            flg_end[i] = b
            lg_of[i] = group
            n_tiles[i] = tiles[a]
            step[i] = b - a
            first[i] = position + i - a
        position += (b - a) * tiles[a]
        a = b
    last = n
    for i in range(n - 1, -1, -1):
        lg_end[i] = last
        if cut[i] == DRAM_CUT:
            last = i
    return position


@njit
def ofmap_life(
    i: int,
    order: IntArray,
    place: IntArray,
    flg_end: IntArray,
    lg_of: IntArray,
    n_tiles: IntArray,
    step: IntArray,
    first: IntArray,
    consumers: tuple[Any, ...],
) -> tuple[bool, int, int]:
    """Who needs the output of the layer at place `i`.

    Returns:
        ``(stored, hold, gap)``: whether it goes to DRAM; last position + 1 of consumers in later fine-grained
        groups of the same group (0: none); largest distance + 1 to a consumer in the same fine-grained group (0: none).
    """
    cons_start, cons_id, _kind = consumers
    layer = order[i]
    stored = cons_start[layer] == cons_start[layer + 1]
    hold, gap = 0, 0
    for e in range(cons_start[layer], cons_start[layer + 1]):
        j = place[cons_id[e]]
        if lg_of[j] != lg_of[i]:
            stored = True
        elif j < flg_end[i]:
            gap = max(gap, j - i + 1)
        else:
            hold = max(hold, first[j] + (n_tiles[j] - 1) * step[j] + 1)
    return stored, hold, gap


@njit
def _put_loads(out: IntArray, count: int, layer: int, source: int, size: int, n: int, first: int, step: int) -> None:
    """The parts of an input feature map, one for each tile of a layer."""
    for t in range(n):
        q = first + t * step
        put(out, count + t, LOAD_IFMAP, layer, t, source, size, q - 1, q + 1, q)


@njit
def list_tensors(
    order: IntArray,
    place: IntArray,
    groups: tuple[Any, ...],
    batch_shape: IntArray,
    table: IntArray,
    producers: tuple[Any, ...],
    consumers: tuple[Any, ...],
    externals: tuple[Any, ...],
    flags: int,
    out: IntArray,
) -> int:
    """All tensors of a scheme into `out` (``n x 8``: kind, layer, tile, source, bytes, start, end, position of use).

    Order and default living durations are those of the published program. With ``out.shape[0] == 0`` only counts.

    Returns:
        Number of tensors.
    """
    flg_end, lg_end, lg_of, n_tiles, step, first = groups
    prod_start, prod_id, prod_kind = producers
    ext_start, ext_id, ext_channels, ext_whole = externals
    write = out.shape[0] > 0
    count = 0
    for i in range(order.shape[0]):
        layer = order[i]
        u = batch_shape[layer]
        n, f, s = n_tiles[i], first[i], step[i]
        for e in range(prod_start[layer], prod_start[layer + 1]):
            source = prod_id[e]
            if lg_of[place[source]] != lg_of[i]:
                nb, _c, nh, nw_ = requirement(
                    table, layer, prod_kind[e], source, u[0], u[1], u[2], u[3], u[4], u[5], flags
                )
                size = nb * table[source, _K] * nh * nw_
                if write:
                    _put_loads(out, count, layer, source, size, n, f, s)
                count += n
        for e in range(ext_start[layer], ext_start[layer + 1]):
            nb, _c, nh, nw_ = requirement(table, layer, _IFMAP_EDGE, layer, u[0], u[1], u[2], u[3], u[4], u[5], flags)
            size = nb * (ext_whole[e] if ext_whole[e] > 0 else ext_channels[e] * nh * nw_)
            if write:
                _put_loads(out, count, layer, -1 - ext_id[e], size, n, f, s)
            count += n
        if table[layer, _WB] > 0:
            if write:
                put(out, count, LOAD_WEIGHT, layer, -1, 0, table[layer, _WB], f - 1, f + (n - 1) * s + 1, f)
            count += 1
        if write:
            stored, hold, gap = ofmap_life(i, order, place, flg_end, lg_of, n_tiles, step, first, consumers)
            size = u[0] * u[1] * u[2] * u[3]
            for t in range(n):
                q = f + t * s
                end = max(q + 1, hold, q + gap)
                if stored and not (t == n - 1 and i == lg_end[i] - 1):
                    end = max(end, q + 2)
                put(out, count + t, STORE if stored else LOCAL, layer, t, 0, size, q, end, q)
        count += n
    return count


@njit
def put(
    out: IntArray, i: int, kind: int, layer: int, tile: int, source: int, size: int, start: int, end: int, use: int
) -> None:
    """Write one tensor row."""
    out[i, 0] = kind
    out[i, 1] = layer
    out[i, 2] = tile
    out[i, 3] = source
    out[i, 4] = size
    out[i, 5] = start
    out[i, 6] = end
    out[i, 7] = use
