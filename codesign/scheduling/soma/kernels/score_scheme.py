"""Compiled: score a fusion scheme from its arrays, recomputing only the fine-grained groups that changed.

A scheme is a tuple ``(order, cut, tiles, place, shape, cycles, energy)``: the fusion attributes (see `kernels.decode`), the inverse of `order`,
and per layer the tile shape with its cycles and energy. The numbers are those of `evaluator`, computed without listing tensors.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from codesign.core.jit import njit, njit_apart, njit_inline
from codesign.scheduling.soma.kernels.decode import (
    NO_CUT,
    NO_MAPPING,
    OK,
    OVERFLOW,
    TOO_MANY_TILES,
    UNPRICED,
    locate_groups,
    ofmap_life,
    requirement,
    shape_group,
)
from codesign.scheduling.soma.kernels.prefetch import double_buffer, prefetch
from codesign.scheduling.soma.kernels.tile_cost import tile_cost
from codesign.scheduling.soma.model import hardware as hw
from codesign.scheduling.soma.model import layer_graph as nw
from codesign.scheduling.soma.model import rules as model
from codesign.scheduling.soma.model.layer_graph import IntArray

FloatArray = npt.NDArray[np.float64]
Scheme = tuple[IntArray, IntArray, IntArray, IntArray, IntArray, IntArray, FloatArray]
Arrays = tuple[Any, ...]

_WB, _K, _TYPE, _FC = nw.WEIGHT_BYTES, nw.K, nw.TYPE, int(nw.LayerType.FC)
_MAPPED = model.MAPPED_TILES
_IFMAP_EDGE = nw.IFMAP_EDGE
_DRAM_BW, _E_DRAM = hw.DRAM_BW, hw.E_DRAM

# Multiplier that spreads the bits of a tile's key, and the slots looked at before one is overwritten.
_SPREAD, _PROBES = -7046029254386353131, 32

# What a score holds.
LATENCY, COMPUTE, CHANNEL, TILES, DRAM_BYTES, LOADS, STORES, PEAK, N_SCORE = range(9)
DOUBLE_BUFFER, PREFETCH = 0, 1


@njit
def cached_tile_cost(
    net: Arrays, layer: int, flags: int, cache: Arrays, shape: IntArray, cycles: IntArray, energy: FloatArray
) -> int:
    """Cycles and energy of a layer's tile, from the hash table `keys` when it was met before.

    A tile that a mapper has to price is written to `asked` (slot, layer, key), and the answer is `UNPRICED`.
    """
    table, _producers, _consumers, _externals, kinds, ints, reals = net
    keys, found_cycles, found_energy, result, asked = cache
    code = kinds[layer]
    b, c, h, w = shape[layer, 0], shape[layer, 1], shape[layer, 2], shape[layer, 3]
    size = keys.shape[0]
    mixed = (((code * 1000003 + b) * 1000003 + c) * 1000003 + h) * 1000003 + w
    mixed *= _SPREAD
    home = ((mixed ^ (mixed >> 29)) >> 20) & (size - 1)
    slot = home
    free = False
    for _probe in range(_PROBES):
        if keys[slot, 0] < 0:
            free = True
            break
        if (
            keys[slot, 0] == code
            and keys[slot, 1] == b
            and keys[slot, 2] == c
            and keys[slot, 3] == h
            and keys[slot, 4] == w
        ):
            cycles[layer] = found_cycles[slot]
            energy[layer] = found_energy[slot]
            return OK if found_cycles[slot] >= 0 else NO_MAPPING
        slot = (slot + 1) & (size - 1)
    if not free:
        slot = home
    if flags & _MAPPED and table[layer, _TYPE] <= _FC:
        asked[0] = slot
        asked[1] = layer
        asked[2] = code
        asked[3] = b
        asked[4] = c
        asked[5] = h
        asked[6] = w
        return UNPRICED
    tile_cost(table[layer], b, c, h, w, ints, reals, flags, result)
    cycles[layer] = int(result[0])
    energy[layer] = result[1]
    keys[slot, 0] = code
    keys[slot, 1] = b
    keys[slot, 2] = c
    keys[slot, 3] = h
    keys[slot, 4] = w
    found_cycles[slot] = int(result[0])
    found_energy[slot] = result[1]
    return OK if result[0] >= 0 else NO_MAPPING


@njit
def same_group(
    a: int,
    b: int,
    order: IntArray,
    cut: IntArray,
    tiles: IntArray,
    o_order: IntArray,
    o_cut: IntArray,
    o_tiles: IntArray,
) -> bool:
    """Whether the fine-grained group ``order[a:b]`` stands unchanged, at the same places, in the old scheme."""
    if o_cut[a] == NO_CUT or o_tiles[a] != tiles[a] or o_order[a] != order[a]:
        return False
    for i in range(a + 1, b):
        if o_cut[i] != NO_CUT or o_order[i] != order[i]:
            return False
    return bool(b == cut.shape[0] or o_cut[b] != NO_CUT)


@njit
def refresh(net: Arrays, batch: int, flags: int, scheme: Scheme, old: Scheme, whole: bool, cache: Arrays) -> int:
    """Shapes and costs of the groups of `scheme` that differ from `old` (all when `whole`)."""
    table, producers, consumers = net[0], net[1], net[2]
    order, cut, tiles, place, shape, cycles, energy = scheme
    n = order.shape[0]
    a = 0
    while a < n:
        b = a + 1
        while b < n and cut[b] == NO_CUT:
            b += 1
        if whole or not same_group(a, b, order, cut, tiles, old[0], old[1], old[2]):
            code = shape_group(a, b, tiles[a], order, place, batch, flags, table, producers, consumers, shape)
            if code != OK:
                return code
            for i in range(a, b):
                layer = order[i]
                code = cached_tile_cost(net, layer, flags, cache, shape, cycles, energy)
                if code != OK:
                    return code
        a = b
    return OK


@njit
def list_loads(net: Arrays, scheme: Scheme, flags: int, lg_of: IntArray, lists: Arrays) -> None:
    """Per place: bytes and producing place (-1 external) of every input read from DRAM by each tile."""
    table, producers, _consumers, externals, _kinds, _ints, _reals = net
    order, _cut, _tiles, place, shape, _cycles, _energy = scheme
    prod_start, prod_id, prod_kind = producers
    ext_start, _ext_id, ext_channels, ext_whole = externals
    in_start, in_bytes, in_place = lists
    count = 0
    for i in range(order.shape[0]):
        in_start[i] = count
        layer = order[i]
        for e in range(prod_start[layer], prod_start[layer + 1]):
            j = place[prod_id[e]]
            if lg_of[j] != lg_of[i]:
                nb, _c, nh, nw_ = requirement(
                    table,
                    layer,
                    prod_kind[e],
                    prod_id[e],
                    shape[layer, 0],
                    shape[layer, 1],
                    shape[layer, 2],
                    shape[layer, 3],
                    shape[layer, 4],
                    shape[layer, 5],
                    flags,
                )
                in_bytes[count] = nb * table[prod_id[e], _K] * nh * nw_
                in_place[count] = j
                count += 1
        for e in range(ext_start[layer], ext_start[layer + 1]):
            nb, _c, nh, nw_ = requirement(
                table,
                layer,
                _IFMAP_EDGE,
                layer,
                shape[layer, 0],
                shape[layer, 1],
                shape[layer, 2],
                shape[layer, 3],
                shape[layer, 4],
                shape[layer, 5],
                flags,
            )
            in_bytes[count] = nb * (ext_whole[e] if ext_whole[e] > 0 else ext_channels[e] * nh * nw_)
            in_place[count] = -1
            count += 1
    in_start[order.shape[0]] = count


@njit
def count_transfers(net: Arrays, scheme: Scheme, groups: Arrays, lists: Arrays) -> tuple[int, int]:
    """Numbers of loads and (at most) stores of the whole scheme."""
    table = net[0]
    order = scheme[0]
    n_tiles = groups[3]
    in_start = lists[0]
    loads, stores = 0, 0
    for i in range(order.shape[0]):
        loads += n_tiles[i] * (in_start[i + 1] - in_start[i])
        if table[order[i], _WB] > 0:
            loads += 1
        stores += n_tiles[i]
    return loads, stores


@njit_inline
def put_load(
    score: IntArray,
    loads: Arrays,
    l_weight: IntArray,
    usage: IntArray,
    use: int,
    size: int,
    dep: int,
    weight: int,
    held: tuple[int, int],
    bandwidth: int,
) -> None:
    """Append a load that the buffer holds over the positions `held`; counts, bytes and cycles go into `score`."""
    l_use, l_size, l_cycles, l_dep = loads
    k = score[LOADS]
    l_use[k] = use
    l_size[k] = size
    l_cycles[k] = -(-size // bandwidth)
    l_dep[k] = dep
    l_weight[k] = weight
    usage[held[0] + 1] += size
    usage[held[1] + 1] -= size
    score[CHANNEL] += l_cycles[k]
    score[DRAM_BYTES] += size
    score[LOADS] += 1


@njit_inline
def put_ofmap(
    score: IntArray, stores: Arrays, usage: IntArray, life: IntArray, p: int, ends: bool, bandwidth: int
) -> None:
    """The output tile made at position `p`: how long the buffer holds it, and its store where it leaves the chip.

    Args:
        life: Row of `last_store`: last store, stored or not, hold and gap of `ofmap_life`, bytes; the last store is updated.
        ends: The tile is the last one of the last layer of its group.
    """
    s_at, s_size, s_cycles, s_end = stores
    size = life[4]
    end = max(p + 1, life[2])
    if life[3] > 0:
        end = max(end, p + life[3])
    if life[1]:
        if not ends:
            end = max(end, p + 2)
        k = score[STORES]
        s_at[k] = p
        s_size[k] = size
        s_cycles[k] = -(-size // bandwidth)
        s_end[k] = end
        score[CHANNEL] += s_cycles[k]
        score[DRAM_BYTES] += size
        life[0] = k
        score[STORES] += 1
    usage[p + 1] += size
    usage[end + 1] -= size


@njit_inline
def accumulate(usage: IntArray, T: int) -> int:
    """Turn changes of occupancy into occupancy, in place; returns the peak."""
    peak = 0
    for x in range(T + 1):
        if x > 0:
            usage[x] += usage[x - 1]
        peak = max(peak, usage[x])
    return peak


@njit
def build(
    net: Arrays,
    scheme: Scheme,
    groups: Arrays,
    lists: Arrays,
    ahead: int,
    T: int,
    work: Arrays,
    score: IntArray,
) -> float:
    """Loads, stores, tile times and buffer occupancy of a scheme into `work`; loads are held from `ahead` positions before use.

    Returns:
        Energy in pJ.
    """
    table, _producers, consumers, _externals, _kinds, ints, reals = net
    order, _cut, _tiles, place, shape, cycles, energy = scheme
    flg_end, lg_end, lg_of, n_tiles, step, first = groups
    in_start, in_bytes, in_place = lists
    tile_time, usage, loads, l_weight, stores, _ready, _must, _l_start, _sequence, last_store = work
    bandwidth = ints[_DRAM_BW]
    usage[: T + 2] = 0
    for part in (COMPUTE, CHANNEL, DRAM_BYTES, LOADS, STORES):
        score[part] = 0
    joules = 0.0
    a = 0
    while a < order.shape[0]:
        b = flg_end[a]
        count = n_tiles[a]
        for i in range(a, b):
            layer = order[i]
            score[COMPUTE] += count * cycles[layer]
            joules += count * energy[layer]
            stored, hold, gap = ofmap_life(i, order, place, flg_end, lg_of, n_tiles, step, first, consumers)
            last_store[i, 0] = -1
            last_store[i, 1] = 1 if stored else 0
            last_store[i, 2] = hold
            last_store[i, 3] = gap
            last_store[i, 4] = shape[layer, 0] * shape[layer, 1] * shape[layer, 2] * shape[layer, 3]
        p = first[a]
        for t in range(count):
            for i in range(a, b):
                layer = order[i]
                tile_time[p] = cycles[layer]
                weight = table[layer, _WB]
                if t == 0 and weight > 0:
                    held = (max(p - ahead, -1), min(first[i] + (count - 1) * step[i] + 1, T))
                    put_load(score, loads, l_weight, usage, p, weight, -1, 1, held, bandwidth)
                for e in range(in_start[i], in_start[i + 1]):
                    dep = last_store[in_place[e], 0] if in_place[e] >= 0 else -1
                    held = (max(p - ahead, -1), min(p + 1, T))
                    put_load(score, loads, l_weight, usage, p, in_bytes[e], dep, 0, held, bandwidth)
                ends = t == count - 1 and i == lg_end[i] - 1
                put_ofmap(score, stores, usage, last_store[i], p, ends, bandwidth)
                p += 1
        a = b
    score[PEAK] = accumulate(usage, T)
    return float(joules + score[DRAM_BYTES] * reals[_E_DRAM])


@njit_apart
def score_scheme(
    net: Arrays, setting: Arrays, scheme: Scheme, old: Scheme, whole: bool, cache: Arrays, groups: Arrays, lists: Arrays,
    work: Arrays, score: IntArray,
) -> tuple[int, float]:  # fmt: skip
    """Score a scheme whose order is legal.

    Args:
        net: `search.network_arrays`.
        setting: Samples; `ModelOptions.flags`; bytes the buffer may hold; `DOUBLE_BUFFER` or `PREFETCH`.
        scheme: The scheme; its shapes and costs are brought up to date.
        old: A scheme whose shapes and costs `scheme` holds where groups are the same.
        whole: Recompute everything.
        cache: Tile costs met so far.
        groups: Scratch, six arrays over places.
        lists: Scratch, inputs per place.
        work: Scratch, `search.Workspace`.
        score: Result, `N_SCORE` entries.

    Returns:
        ``(status, energy_pj)``.
    """
    batch, flags, limit, mode = setting
    code = refresh(net, batch, flags, scheme, old, whole, cache)
    if code != OK:
        return code, 0.0
    flg_end, lg_end, lg_of, n_tiles, step, first = groups
    T = locate_groups(scheme[1], scheme[2], flg_end, lg_end, lg_of, n_tiles, step, first)
    list_loads(net, scheme, flags, lg_of, lists)
    n_loads, n_stores = count_transfers(net, scheme, groups, lists)
    tile_time, usage, loads, l_weight, stores, ready, must, l_start, sequence, _last = work
    if tile_time.shape[0] < T + 2 or n_loads > l_weight.shape[0] or n_stores > stores[0].shape[0]:
        return TOO_MANY_TILES, 0.0
    energy = build(net, scheme, groups, lists, 1 if mode == DOUBLE_BUFFER else 0, T, work, score)
    score[TILES] = T
    if score[PEAK] > limit:
        return OVERFLOW, energy
    if mode == DOUBLE_BUFFER:
        score[LATENCY] = double_buffer(tile_time, T, loads, l_weight, score[LOADS], stores, score[STORES], ready)
    else:
        score[LATENCY] = prefetch(
            tile_time, T, limit, usage, loads, score[LOADS], stores, score[STORES], ready, must, l_start, sequence
        )
        if score[LATENCY] < 0:
            return OVERFLOW, energy
    return OK, energy
