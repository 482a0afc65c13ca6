"""Compiled: time and energy of one compute tile on the PE array or the vector unit (the intra-core cost).

A tile ``B x K x H x W`` of a layer is spread over the PE array along two of its dimensions (six ways are tried), and
cut into what one PE's buffers hold; weights and activations may be shared between PEs over the bus. The cheapest
choice (energy times time) is kept. Reference data `spec.md`, section 5.
"""

from typing import Any

import numpy as np

from codesign.core.jit import njit, njit_apart
from codesign.core.kernel_library import FloatArray, IntArray
from codesign.scheduling.soma.model import hardware as hw
from codesign.scheduling.soma.model import layer_graph as nw
from codesign.scheduling.soma.model import rules as model

# Entries of the result vector.
TIME, ENERGY, E_GBUF, E_L1, E_BUS, E_OP, N_COST = range(7)


@njit
def ceil_div(a: int, b: int) -> int:
    """Smallest integer >= a / b."""
    return -(-a // b)


@njit
def vector_tile(
    row: IntArray, b: int, k: int, h: int, w: int, ints: IntArray, reals: FloatArray, flags: int, out: FloatArray
) -> None:
    """Cost of a tile of the vector unit into `out`: one operation per lane and cycle."""
    ops = k * h * w * row[nw.N_IN] * row[nw.R] * row[nw.S] * b
    time = ceil_div(ops, ints[hw.VECTOR_UNIT])
    gbuf = 0.0
    if flags & model.VECTOR_TRAFFIC:
        written = b * k * h * w
        read = written * row[nw.N_IN]
        if row[nw.TYPE] == nw.LayerType.POOL:
            rows = min((h - 1) * row[nw.SH] + row[nw.SPAN_H], h * row[nw.R])
            read = b * k * rows * min((w - 1) * row[nw.SW] + row[nw.SPAN_W], w * row[nw.S])
        time = max(time, ceil_div(read, ints[hw.GBUF_BW]))
        gbuf = read * reals[hw.E_GBUF_R] + written * reals[hw.E_GBUF_W]
    out[:] = 0.0
    out[0] = time
    out[2] = gbuf
    out[5] = ops * reals[hw.E_VECTOR]
    out[1] = out[5] + gbuf


@njit
def halo_extent(out_extent: int, kernel: int, span: int, stride: int, pieces: int, strided: bool) -> int:
    """Input rows (columns) read when an output extent is produced in `pieces`, halos re-read.

    A window has `kernel` taps and reaches over `span` rows, which is more with a dilation: halos are those of the span, but no
    output reads more rows than it has taps. The published model starts from the *output* extent, which is wrong for strides;
    `strided` starts from the input extent.
    """
    if strided and span < stride:
        return out_extent * kernel
    rows = (out_extent * stride if strided else out_extent) + (span - stride) * (pieces - 1)
    return rows if span == kernel else min(rows, out_extent * kernel)


@njit
def block_width(room: int, kernel: int, span: int, stride: int) -> int:
    """Outputs in a row that `room` inputs suffice for: those of one window after the other, or (dilation) each its own taps."""
    width = (room - span) // stride + 1
    return width if span == kernel else max(width, room // kernel)


@njit
def block_accesses(
    shape: tuple[int, ...],
    split: tuple[Any, ...],
    block: tuple[Any, ...],
    kb_share: bool,
    wb_share: bool,
    wl2: bool,
    strided: bool,
) -> tuple[Any, ...]:
    """Bytes moved for one partition, block and sharing choice.

    `shape` = B, K, H, W, C, R, S, sH, sW, spans of the window in rows and columns; `split` = pC, pK, pH, pW, pB, lane; `block` = k1, w1, KB, WB, H3, TB, TC, TK, K3b, W3b.

    Returns:
        Activation and weight reads of the GBUF, reads and writes of AL1, of WL1, of OL1, and bus bytes.
    """
    B, K, H, W, C, R, S, sH, sW, eH, eW = shape
    pC, pK, pH, pW, pB, lane = split
    k1, w1, KB, WB, H3, TB, TC, TK, K3b, W3b = block
    copies_w = pH * pW * pB
    copies_a = pK
    ops = B * K * H * W * C * R * S
    F = R * S * C * K
    K3 = K3b if kb_share else KB
    W3 = W3b if wb_share else WB
    WBA = WB * H3 * TB
    W3A = W3 * H3 * TB
    rows = halo_extent(H, R, eH, sH, (1 if WB == 1 else H3) * pH, strided) * C * B
    act_once = rows * halo_extent(W, S, eW, sW, (W3 if wb_share else 1) * pW, strided)
    repeat = 1 if (kb_share and wb_share and not wl2) else K3
    gbuf_act = (
        halo_extent(H, R, eH, sH, (1 if W3 == 1 else H3) * pH, strided) * halo_extent(W, S, eW, sW, pW, strided) * C * B
    )
    gbuf_act *= repeat
    gbuf_weight = F * (W3A if (wb_share or wl2) else 1)
    shift = rows * (eW - sW) * pW * K3
    a_writes = act_once * K3 * copies_a
    if wb_share:
        a_writes += shift * W3 * (copies_a - 1)
    bus_act = a_writes - gbuf_act
    a_reads = ops // K * TK * pK
    if wb_share:
        step = sW if strided else 1
        kept = rows * (W - (w1 * step * (WB - WB % copies_a) + sW - eW) * pW) * K3 + shift
        a_reads += bus_act - kept * (((copies_a - 1) * WB) % copies_a)
    w_times = WBA if kb_share else (W3A if wl2 else 1)
    w_writes = F * copies_w * w_times
    bus_weight = w_writes - gbuf_weight
    w_reads = F * WBA * copies_w
    if kb_share:
        kept = F // K * (K - k1 * lane * pK * (KB - KB % copies_w)) * w_times
        w_reads += bus_weight - kept * (((copies_w - 1) * KB) % copies_w)
    o_writes = ops // C * TC * pC
    o_reads = o_writes + pC * B * K * H * W
    bus = (bus_act if wb_share else 0) + (bus_weight if kb_share else 0)
    return gbuf_act, gbuf_weight, a_reads, a_writes, w_reads, w_writes, o_reads, o_writes, bus


@njit
def score_block(
    shape: tuple[int, ...],
    split: tuple[Any, ...],
    block: tuple[Any, ...],
    share: tuple[Any, ...],
    comp: int,
    context: tuple[Any, ...],
    reals: FloatArray,
    best: FloatArray,
) -> None:
    """Score one choice and keep it in `best` when energy times time is smaller.

    `share` = kb_share, wb_share, wl2; `context` = groups, dup, GBUF bandwidth, strided.
    """
    kb_share, wb_share, wl2 = share
    groups, dup, bandwidth, strided = context
    act, weight, a_r, a_w, w_r, w_w, o_r, o_w, bus = block_accesses(
        shape, split, block, kb_share, wb_share, wl2, strided
    )
    B, K, H, W, C, R, S, _sH, _sW, _eH, _eW = shape
    F = R * S * C * K
    ofm = B * K * H * W
    time = comp
    if wl2:
        time = max(time, ceil_div(weight * dup, bandwidth), ceil_div(F * dup, bandwidth))
        weight = F
    time = max(time, ceil_div((act + weight) * dup, bandwidth))
    time *= ceil_div(groups, min(dup, groups)) if dup > 1 else groups
    gbuf = (act + weight) * reals[hw.E_GBUF_R] + ofm * reals[hw.E_GBUF_W]
    local = a_r * reals[hw.E_AL1_R] + a_w * reals[hw.E_AL1_W] + w_r * reals[hw.E_WL1_R] + w_w * reals[hw.E_WL1_W]
    local += o_r * reals[hw.E_OL1_R] + o_w * reals[hw.E_OL1_W] + ofm * (reals[hw.E_OL2_R] + reals[hw.E_OL2_W])
    moved = bus * reals[hw.E_BUS]
    op = ofm * C * R * S * reals[hw.E_MAC]
    energy = (gbuf + local + moved + op) * groups
    if best[0] < 0 or energy * time < best[0] * best[1]:
        best[0] = time
        best[1] = energy
        best[2] = gbuf * groups
        best[3] = local * groups
        best[4] = moved * groups
        best[5] = op * groups


@njit
def try_shares(
    shape: tuple[int, ...],
    split: tuple[Any, ...],
    block: tuple[Any, ...],
    sizes: tuple[Any, ...],
    comp: int,
    context: tuple[Any, ...],
    reals: FloatArray,
    best: FloatArray,
) -> None:
    """Score the sharing variants that apply to one block; `sizes` = h1, kb, wb, several row blocks."""
    _B, K, _H, _W, C, R, S, sH, _sW, eH, _eW = shape
    pC, pK, _pH, _pW, _pB, lane = split
    k1, w1, KB, WB, _H3, _TB, TC, _TK, K3b, W3b = block
    h1, kb, wb, several = sizes
    dup = context[1]
    OC = ceil_div(C, pC)
    OK = ceil_div(K, pK)
    tt = R * S * TC * k1 * h1 * w1
    kb_ok = tt * 64 >= R * S * OC * min(OK, k1 * lane) * dup
    act_need = (h1 + eH - sH) * w1 * OC * dup
    wb_ok = tt * 64 >= act_need
    wb_ok_shared = kb * tt * 64 >= act_need
    both = wb > 1 and kb > 1 and K3b > 1 and kb_ok and wb_ok_shared
    rows = several and wb > 1 and W3b > 1
    for variant in range(5):
        kb_share = variant in (1, 2, 4)
        wb_share = variant >= 2
        wl2 = variant >= 3
        applies = variant == 0
        if variant == 1:
            applies = several and WB > 1 and kb > 1 and kb_ok
        elif variant == 2:
            applies = both
        elif variant == 3:
            applies = rows and KB > 1 and wb_ok
        elif variant == 4:
            applies = rows and both
        if applies:
            score_block(shape, split, block, (kb_share, wb_share, wl2), comp, context, reals, best)


@njit
def try_partition(
    shape: tuple[int, ...],
    split: tuple[Any, ...],
    vec: int,
    capacity: tuple[Any, ...],
    context: tuple[Any, ...],
    reals: FloatArray,
    best: FloatArray,
) -> None:
    """Score every block size of one partition of the PE array; `capacity` = AL1, WL1, OL1 bytes."""
    B, K, H, W, C, R, S, sH, sW, eH, eW = shape
    pC, pK, pH, pW, pB, lane = split
    al1, wl1, ol1 = capacity
    TC = ceil_div(C, vec * pC)
    TK = ceil_div(K, lane * pK)
    TH = ceil_div(H, pH)
    TW = ceil_div(W, pW)
    TB = ceil_div(B, pB)
    comp = TC * TK * TH * TW * TB * R * S
    a_cap = al1 // vec // TC
    o_cap = ol1 // lane
    k1_max = wl1 // vec // (R * S * TC)
    if k1_max == 0 or a_cap // R < S:
        return
    k1 = min(TK, k1_max)
    KB = ceil_div(TK, k1)
    kb = min(KB, pH * pW * pB)
    last_h1 = -1
    for w1 in range(min(block_width(a_cap // R, S, eW, sW), o_cap, TW), 0, -1):
        columns = (w1 - 1) * sW + eW if eW == S else min((w1 - 1) * sW + eW, w1 * S)
        h1 = min(o_cap // w1, block_width(a_cap // columns, R, eH, sH), TH)
        if h1 == last_h1:
            continue
        last_h1 = h1
        H3 = ceil_div(TH, h1)
        WB = ceil_div(TW, w1)
        wb = min(WB, pK)
        block = (k1, w1, KB, WB, H3, TB, TC, TK, ceil_div(KB, kb), ceil_div(WB, wb))
        try_shares(shape, split, block, (h1, kb, wb, TB > 1 or H3 > 1), comp, context, reals, best)


@njit
def matrix_tile(
    row: IntArray, b: int, k: int, h: int, w: int, ints: IntArray, reals: FloatArray, flags: int, out: FloatArray
) -> None:
    """Cost of a tile of a matrix layer into `out`; time -1 when no choice fits the PE buffers."""
    groups = 1
    channels = row[nw.C]
    kernels = k
    vec, lane, p = ints[hw.VEC], ints[hw.LANE], ints[hw.PE_DIM]
    dup = 1
    if row[nw.TYPE] == nw.LayerType.GROUP_CONV:
        groups = ceil_div(k, row[nw.KG])
        channels = row[nw.CG]
        kernels = row[nw.KG]
        dup = min(vec // channels, lane // kernels)
        if flags & model.ATTENTION_BANDWIDTH:
            dup = max(dup, 1)
    if row[nw.DYNAMIC]:
        groups *= b
        b = 1
    shape = (b, kernels, h, w, channels, row[nw.R], row[nw.S], row[nw.SH], row[nw.SW], row[nw.SPAN_H], row[nw.SPAN_W])
    context = (groups, dup, ints[hw.GBUF_BW], (flags & model.STRIDED_READS) != 0)
    capacity = (ints[hw.AL1_BYTES], ints[hw.WL1_BYTES], ints[hw.OL1_BYTES])
    out[:] = 0.0
    out[0] = -1.0
    for index in range(6):
        split = (
            p if index in (0, 1, 3) else 1,
            p if index in (0, 2, 4) else 1,
            p if index >= 4 else 1,
            p if index in (3, 5) else 1,
            p if index in (1, 2) else 1,
            lane,
        )  # C and K, C and B, B and K, C and W, H and K, H and W
        try_partition(shape, split, vec, capacity, context, reals, out)


@njit_apart
def tile_cost(
    row: IntArray, b: int, k: int, h: int, w: int, ints: IntArray, reals: FloatArray, flags: int, out: FloatArray
) -> None:
    """Cost of one tile ``b x k x h x w`` of a layer.

    Args:
        row: The layer's row of `LayerGraph.table`.
        b: Samples.
        k: Output channels.
        h: Output rows.
        w: Output columns.
        ints: `SomaHardware.integers()`.
        reals: `SomaHardware.reals()`.
        flags: `ModelOptions.flags`.
        out: Result, `N_COST` entries: cycles (-1: does not fit), pJ and its parts.
    """
    if row[nw.TYPE] <= nw.LayerType.FC:
        matrix_tile(row, b, k, h, w, ints, reals, flags, out)
    else:
        vector_tile(row, b, k, h, w, ints, reals, flags, out)


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
    """Least cycles and least pJ (B3), each for itself, over all shapes of tiles that cover ``batch x channels x cover_h x cover_w``; -1 where none fits.

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
