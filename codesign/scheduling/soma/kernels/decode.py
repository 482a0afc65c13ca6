"""Compiled: from the fusion attributes to tiles, DRAM tensors and lifetimes.

A fusion scheme is three arrays over the computing order: `order`, `cut` and `tiles` (`kernels.records.Scheme`). Reference data
`spec.md`, section 2.
"""

import math

from codesign.core.jit import njit, njit_apart, njit_inline
from codesign.core.kernel_library import IntArray, gcd
from codesign.scheduling.soma.kernels.records import Groups, Inputs, Net, Scheme
from codesign.scheduling.soma.model import layer_graph as nw
from codesign.scheduling.soma.model import rules as model

NO_CUT, FINE_CUT, DRAM_CUT = 0, 1, 2
LOAD_IFMAP, LOAD_WEIGHT, STORE, LOCAL = 0, 1, 2, 3


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
            cuts_w = columns_of(rest, table[layer, nw.H], table[layer, nw.W])
            cuts_h = rest // cuts_w
    if table[layer, nw.H] < cuts_h or table[layer, nw.W] < cuts_w:
        return 0, 0, 0, cuts_h, cuts_w
    return batch // samples, -(-table[layer, nw.H] // cuts_h), -(-table[layer, nw.W] // cuts_w), cuts_h, cuts_w


@njit
def window_extent(extent: int, full: int, span: int, stride: int, pad: int, limit: int, cuts: int, flags: int) -> int:
    """Input rows (columns) a tile of `extent` outputs needs; a window reaches over `span` of them, dilation included.

    The published rule takes the tile at the origin, which has padding on one side. With `INTERIOR_HALOS` the worst
    tile counts: an uncut map needs its whole input, three or more cuts have a tile without any padding.
    """
    need = (extent - 1) * stride + span
    if flags & model.INTERIOR_HALOS and cuts > 2 and extent < full:
        return min(need, limit)
    return min(need - pad, limit)


@njit
def requirement(
    table: IntArray, layer: int, edge: int, source: int, shape: IntArray, flags: int
) -> tuple[int, int, int, int]:
    """What a tile of a layer (a row of `Scheme.shape`) needs of one producer: ``(b, c, h, w)`` of the producer's output."""
    b, c, h, w = shape[0], shape[1], shape[2], shape[3]
    kind = table[layer, nw.TYPE]
    if edge == nw.WHOLE_EDGE:
        return b, table[source, nw.K], table[source, nw.H], table[source, nw.W]
    if edge == nw.WEIGHT_EDGE:
        return b, c, table[layer, nw.CG], table[layer, nw.R] * table[layer, nw.S]
    if kind == nw.LayerType.FC:
        return b, table[layer, nw.C], table[layer, nw.R], table[layer, nw.S]
    if kind in (nw.LayerType.CONV, nw.LayerType.GROUP_CONV, nw.LayerType.POOL):
        row = table[layer]
        h_in = window_extent(h, row[nw.H], row[nw.SPAN_H], row[nw.SH], row[nw.PAD_H], row[nw.H_IN], shape[4], flags)
        w_in = window_extent(w, row[nw.W], row[nw.SPAN_W], row[nw.SW], row[nw.PAD_W], row[nw.W_IN], shape[5], flags)
        if kind == nw.LayerType.POOL:
            return b, c, h_in, w_in
        if kind == nw.LayerType.CONV:
            return b, table[layer, nw.C], h_in, w_in
        return b, -(-c // table[layer, nw.KG]) * table[layer, nw.CG], h_in, w_in
    if kind == nw.LayerType.TRANSPOSE:
        out = (c, h, w)
        c_in, h_in, w_in = c, h, w
        for j in range(3):
            source = table[layer, nw.O0 + j]
            if source == 0:
                c_in = out[j]
            elif source == 1:
                h_in = out[j]
            else:
                w_in = out[j]
        return b, c_in, h_in, w_in
    if kind == nw.LayerType.UPSAMPLE:
        return (
            b,
            c,
            -(-h * table[layer, nw.H_IN] // table[layer, nw.H]),
            -(-w * table[layer, nw.W_IN] // table[layer, nw.W]),
        )
    return b, c, h, w


@njit
def forbidden_cuts(a: int, b: int, net: Net, scheme: Scheme) -> tuple[bool, bool]:
    """Whether transposes fed inside the group ``order[a:b]`` forbid cutting height or width."""
    table, place = net.table, scheme.place
    start, producer, _kind = net.producers
    keep_h, keep_w = False, False
    for i in range(a, b):
        layer = scheme.order[i]
        if table[layer, nw.TYPE] != nw.LayerType.TRANSPOSE:
            continue
        for e in range(start[layer], start[layer + 1]):
            if a <= place[producer[e]] < b:
                if table[layer, nw.O0] == 1 or table[layer, nw.O1] == 0:
                    keep_h = True
                if table[layer, nw.O0] == 2 or table[layer, nw.O2] == 0:
                    keep_w = True
    return keep_h, keep_w


@njit_apart
def shape_group(a: int, b: int, batch: int, flags: int, net: Net, scheme: Scheme) -> int:
    """Tile shapes of every layer of the fine-grained group ``order[a:b]`` into `Scheme.shape`.

    Output layers of the group are cut; every other layer's tile is the element-wise maximum of what its consumers
    inside the group need (halo backtracking, last layer first). With `WHOLE_OUTPUTS` a layer that is read outside the group too
    covers its whole output; the published rule leaves out what only those readers need.

    Returns:
        `OK` or `TOO_MANY_TILES`.
    """
    table, place, shape, tiles = net.table, scheme.place, scheme.shape, scheme.tiles[a]
    start, consumer, kind = net.consumers
    keep_h, keep_w = forbidden_cuts(a, b, net, scheme)
    for i in range(b - 1, a - 1, -1):
        layer = scheme.order[i]
        tb, tc, th, tw, ch, cw = 0, 0, 0, 0, 1, 1
        outside = False
        for e in range(start[layer], start[layer + 1]):
            user = consumer[e]
            if i < place[user] < b:
                nb, nc, nh, nw_ = requirement(table, user, kind[e], layer, shape[user], flags)
                tb, tc, th, tw = max(tb, nb), max(tc, nc), max(th, nh), max(tw, nw_)
                ch, cw = max(ch, shape[user, 4]), max(cw, shape[user, 5])
            else:
                outside = True
        if tb == 0 or (outside and flags & model.WHOLE_OUTPUTS):
            nb, nh, nw_, nch, ncw = split_output(table, layer, batch, tiles, keep_h, keep_w)
            if nb == 0:
                return TOO_MANY_TILES
            tb, tc, th, tw = max(tb, nb), max(tc, table[layer, nw.K]), max(th, nh), max(tw, nw_)
            ch, cw = max(ch, nch), max(cw, ncw)
        if flags & model.CHANNEL_CLAMP:
            tc, th, tw = min(tc, table[layer, nw.K]), min(th, table[layer, nw.H]), min(tw, table[layer, nw.W])
        shape[layer, 0] = tb
        shape[layer, 1] = tc
        shape[layer, 2] = th
        shape[layer, 3] = tw
        shape[layer, 4] = ch
        shape[layer, 5] = cw
    return OK


@njit
def order_is_legal(scheme: Scheme, net: Net) -> bool:
    """Whether every producer comes before its consumers."""
    start, producer, _kind = net.producers
    for i in range(scheme.order.shape[0]):
        layer = scheme.order[i]
        for e in range(start[layer], start[layer + 1]):
            if scheme.place[producer[e]] > i:
                return False
    return True


@njit
def locate_groups(cut: IntArray, tiles: IntArray, groups: Groups) -> int:
    """Find where the groups of a scheme lie.

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
            groups.flg_end[i] = b
            groups.lg_of[i] = group
            groups.n_tiles[i] = tiles[a]
            groups.step[i] = b - a
            groups.first[i] = position + i - a
        position += (b - a) * tiles[a]
        a = b
    last = n
    for i in range(n - 1, -1, -1):
        groups.lg_end[i] = last
        if cut[i] == DRAM_CUT:
            last = i
    return position


@njit
def lay_out(batch: int, flags: int, net: Net, scheme: Scheme, groups: Groups) -> tuple[int, int, int]:
    """Find the groups of a scheme and the tiles of its layers.

    Returns:
        Status, number of tiles, and the first place of the group that has none.
    """
    if not order_is_legal(scheme, net):
        return BAD_ORDER, 0, 0
    tiles = locate_groups(scheme.cut, scheme.tiles, groups)
    a = 0
    while a < scheme.cut.shape[0]:
        b = groups.flg_end[a]
        code = shape_group(a, b, batch, flags, net, scheme)
        if code != OK:
            return code, tiles, a
        a = b
    return OK, tiles, a


@njit
def ofmap_life(i: int, scheme: Scheme, groups: Groups, net: Net) -> tuple[bool, int, int]:
    """Who needs the output of the layer at place `i`.

    Returns:
        ``(stored, hold, gap)``: whether it goes to DRAM; last position + 1 of consumers in later fine-grained
        groups of the same group (0: none); largest distance + 1 to a consumer in the same fine-grained group (0: none).
    """
    start, consumer, _kind = net.consumers
    layer = scheme.order[i]
    stored = start[layer] == start[layer + 1]
    hold, gap = 0, 0
    for e in range(start[layer], start[layer + 1]):
        j = scheme.place[consumer[e]]
        if groups.lg_of[j] != groups.lg_of[i]:
            stored = True
        elif j < groups.flg_end[i]:
            gap = max(gap, j - i + 1)
        else:
            hold = max(hold, groups.first[j] + (groups.n_tiles[j] - 1) * groups.step[j] + 1)
    return stored, hold, gap


@njit_inline
def ofmap_end(p: int, stored: bool, hold: int, gap: int, ends: bool) -> int:
    """Where the living duration of the output tile of position `p` ends (`ofmap_life`); `ends`: it is the last of its group."""
    end = max(p + 1, hold, p + gap)
    return max(end, p + 2) if stored and not ends else end


@njit_apart
def list_inputs(net: Net, scheme: Scheme, flags: int, groups: Groups, inputs: Inputs) -> tuple[int, int]:
    """Find what every tile of each place reads from DRAM.

    Returns:
        Numbers of loads and of output tiles of the whole scheme.
    """
    table, place = net.table, scheme.place
    prod_start, producer, kind = net.producers
    ext_start, external, ext_channels, ext_whole = net.externals
    count, loads, outputs = 0, 0, 0
    for i in range(scheme.order.shape[0]):
        inputs.start[i] = count
        layer = scheme.order[i]
        shape = scheme.shape[layer]
        for e in range(prod_start[layer], prod_start[layer + 1]):
            j = place[producer[e]]
            if groups.lg_of[j] != groups.lg_of[i]:
                nb, _c, nh, nw_ = requirement(table, layer, kind[e], producer[e], shape, flags)
                inputs.size[count] = nb * table[producer[e], nw.K] * nh * nw_
                inputs.place[count] = j
                count += 1
        for e in range(ext_start[layer], ext_start[layer + 1]):
            nb, _c, nh, nw_ = requirement(table, layer, nw.IFMAP_EDGE, layer, shape, flags)
            inputs.size[count] = nb * (ext_whole[e] if ext_whole[e] > 0 else ext_channels[e] * nh * nw_)
            inputs.place[count] = -1 - external[e]
            count += 1
        loads += groups.n_tiles[i] * (count - inputs.start[i])
        if table[layer, nw.WEIGHT_BYTES] > 0:
            loads += 1
        outputs += groups.n_tiles[i]
    inputs.start[scheme.order.shape[0]] = count
    return loads, outputs


@njit
def list_tensors(net: Net, scheme: Scheme, groups: Groups, inputs: Inputs, out: IntArray) -> None:
    """All tensors of a scheme into `out` (``n x 8``: kind, layer, tile, source, bytes, start, end, position of use).

    Order and default living durations are those of the published program.
    """
    count = 0
    for i in range(scheme.order.shape[0]):
        layer = scheme.order[i]
        n, f, s = groups.n_tiles[i], groups.first[i], groups.step[i]
        for e in range(inputs.start[i], inputs.start[i + 1]):
            j = inputs.place[e]
            source = scheme.order[j] if j >= 0 else j
            for t in range(n):
                q = f + t * s
                put(out, count, LOAD_IFMAP, layer, t, source, inputs.size[e], q - 1, q + 1, q)
                count += 1
        weight = net.table[layer, nw.WEIGHT_BYTES]
        if weight > 0:
            put(out, count, LOAD_WEIGHT, layer, -1, 0, weight, f - 1, f + (n - 1) * s + 1, f)
            count += 1
        stored, hold, gap = ofmap_life(i, scheme, groups, net)
        u = scheme.shape[layer]
        for t in range(n):
            q = f + t * s
            end = ofmap_end(q, stored, hold, gap, t == n - 1 and i == groups.lg_end[i] - 1)
            put(out, count, STORE if stored else LOCAL, layer, t, 0, u[0] * u[1] * u[2] * u[3], q, end, q)
            count += 1


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
