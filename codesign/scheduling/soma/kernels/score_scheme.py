"""Compiled: score a fusion scheme from its arrays, recomputing only the fine-grained groups that changed.

The numbers are those of `evaluator`, computed without listing tensors.
"""

from codesign.core.jit import njit, njit_apart, njit_inline
from codesign.core.kernel_library import IntArray
from codesign.scheduling.soma.kernels.decode import (
    NO_CUT,
    NO_MAPPING,
    OK,
    OVERFLOW,
    TOO_MANY_TILES,
    UNPRICED,
    list_inputs,
    locate_groups,
    ofmap_end,
    ofmap_life,
    shape_group,
)
from codesign.scheduling.soma.kernels.prefetch import double_buffer, prefetch
from codesign.scheduling.soma.kernels.records import Cache, Channel, Extent, Net, Scheme, Scratch
from codesign.scheduling.soma.kernels.tile_cost import tile_cost
from codesign.scheduling.soma.model import hardware as hw
from codesign.scheduling.soma.model import layer_graph as nw
from codesign.scheduling.soma.model import rules as model

# Multiplier that spreads the bits of a tile's key, and the slots looked at before one is overwritten.
_SPREAD, _PROBES = -7046029254386353131, 32

# What a score holds.
LATENCY, COMPUTE, CHANNEL, TILES, DRAM_BYTES, LOADS, STORES, PEAK, N_SCORE = range(9)
DOUBLE_BUFFER, PREFETCH = 0, 1


@njit
def cached_tile_cost(net: Net, layer: int, flags: int, cache: Cache, scheme: Scheme) -> int:
    """Cycles and energy of a layer's tile, from the hash table when it was met before.

    A tile that a mapper has to price is written to `Cache.asked`, and the answer is `UNPRICED`.
    """
    keys, asked, result = cache.keys, cache.asked, cache.cost
    code = net.kinds[layer]
    b, c, h, w = scheme.shape[layer, 0], scheme.shape[layer, 1], scheme.shape[layer, 2], scheme.shape[layer, 3]
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
            scheme.cycles[layer] = cache.cycles[slot]
            scheme.energy[layer] = cache.energy[slot]
            return OK if cache.cycles[slot] >= 0 else NO_MAPPING
        slot = (slot + 1) & (size - 1)
    if not free:
        slot = home
    if flags & model.MAPPED_TILES and net.table[layer, nw.TYPE] <= nw.LayerType.FC:
        asked[0] = slot
        asked[1] = layer
        asked[2] = code
        asked[3] = b
        asked[4] = c
        asked[5] = h
        asked[6] = w
        return UNPRICED
    tile_cost(net.table[layer], b, c, h, w, net.ints, net.reals, flags, result)
    scheme.cycles[layer] = cache.cycles[slot] = int(result[0])
    scheme.energy[layer] = cache.energy[slot] = result[1]
    keys[slot, 0] = code
    keys[slot, 1] = b
    keys[slot, 2] = c
    keys[slot, 3] = h
    keys[slot, 4] = w
    return OK if result[0] >= 0 else NO_MAPPING


@njit
def same_group(a: int, b: int, scheme: Scheme, old: Scheme) -> bool:
    """Whether the fine-grained group ``order[a:b]`` stands unchanged, at the same places, in the old scheme."""
    if old.cut[a] == NO_CUT or old.tiles[a] != scheme.tiles[a] or old.order[a] != scheme.order[a]:
        return False
    for i in range(a + 1, b):
        if old.cut[i] != NO_CUT or old.order[i] != scheme.order[i]:
            return False
    return bool(b == scheme.cut.shape[0] or old.cut[b] != NO_CUT)


@njit
def refresh(net: Net, batch: int, flags: int, scheme: Scheme, old: Scheme, whole: bool, cache: Cache) -> int:
    """Shapes and costs of the groups of `scheme` that differ from `old` (all when `whole`)."""
    n = scheme.order.shape[0]
    a = 0
    while a < n:
        b = a + 1
        while b < n and scheme.cut[b] == NO_CUT:
            b += 1
        if whole or not same_group(a, b, scheme, old):
            code = shape_group(a, b, batch, flags, net, scheme)
            if code != OK:
                return code
            for i in range(a, b):
                code = cached_tile_cost(net, scheme.order[i], flags, cache, scheme)
                if code != OK:
                    return code
        a = b
    return OK


@njit_inline
def put_load(
    score: IntArray,
    channel: Channel,
    use: int,
    size: int,
    dep: int,
    weight: int,
    first: int,
    end: int,
    bandwidth: int,
) -> None:
    """Append a load that the buffer holds over the positions first..end-1; counts, bytes and cycles go into `score`."""
    loads = channel.loads
    k = score[LOADS]
    loads.use[k] = use
    loads.size[k] = size
    loads.cycles[k] = -(-size // bandwidth)
    loads.dep[k] = dep
    loads.weight[k] = weight
    channel.usage[first + 1] += size
    channel.usage[end + 1] -= size
    score[CHANNEL] += loads.cycles[k]
    score[DRAM_BYTES] += size
    score[LOADS] += 1


@njit_inline
def put_ofmap(score: IntArray, channel: Channel, life: IntArray, p: int, ends: bool, bandwidth: int) -> None:
    """The output tile made at position `p`: how long the buffer holds it, and its store where it leaves the chip.

    Args:
        life: Row of `Scratch.outputs`; the last store is updated.
        ends: The tile is the last one of the last layer of its group.
    """
    stores, size = channel.stores, life[4]
    end = ofmap_end(p, life[1] > 0, life[2], life[3], ends)
    if life[1]:
        k = score[STORES]
        stores.at[k] = p
        stores.size[k] = size
        stores.cycles[k] = -(-size // bandwidth)
        stores.end[k] = end
        score[CHANNEL] += stores.cycles[k]
        score[DRAM_BYTES] += size
        life[0] = k
        score[STORES] += 1
    channel.usage[p + 1] += size
    channel.usage[end + 1] -= size


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
def build(net: Net, scheme: Scheme, scratch: Scratch, ahead: int, T: int) -> float:
    """Loads, stores, tile times and buffer occupancy of a scheme into `scratch`; loads are held from `ahead` positions before use.

    Returns:
        Energy in pJ.
    """
    order, cycles = scheme.order, scheme.cycles
    groups, inputs, outputs, channel, score = (
        scratch.groups,
        scratch.inputs,
        scratch.outputs,
        scratch.channel,
        scratch.score,
    )
    bandwidth = net.ints[hw.DRAM_BW]
    channel.usage[: T + 2] = 0
    for part in (COMPUTE, CHANNEL, DRAM_BYTES, LOADS, STORES):
        score[part] = 0
    joules = 0.0
    a = 0
    while a < order.shape[0]:
        b = groups.flg_end[a]
        count = groups.n_tiles[a]
        for i in range(a, b):
            layer = order[i]
            u = scheme.shape[layer]
            score[COMPUTE] += count * cycles[layer]
            joules += count * scheme.energy[layer]
            stored, hold, gap = ofmap_life(i, scheme, groups, net)
            outputs[i, 0] = -1
            outputs[i, 1] = 1 if stored else 0
            outputs[i, 2] = hold
            outputs[i, 3] = gap
            outputs[i, 4] = u[0] * u[1] * u[2] * u[3]
        p = groups.first[a]
        for t in range(count):
            for i in range(a, b):
                layer = order[i]
                channel.tile_time[p] = cycles[layer]
                weight = net.table[layer, nw.WEIGHT_BYTES]
                begin = max(p - ahead, -1)
                if t == 0 and weight > 0:
                    end = min(groups.first[i] + (count - 1) * groups.step[i] + 1, T)
                    put_load(score, channel, p, weight, -1, 1, begin, end, bandwidth)
                for e in range(inputs.start[i], inputs.start[i + 1]):
                    dep = outputs[inputs.place[e], 0] if inputs.place[e] >= 0 else -1
                    put_load(score, channel, p, inputs.size[e], dep, 0, begin, min(p + 1, T), bandwidth)
                put_ofmap(score, channel, outputs[i], p, t == count - 1 and i == groups.lg_end[i] - 1, bandwidth)
                p += 1
        a = b
    score[PEAK] = accumulate(channel.usage, T)
    return float(joules + score[DRAM_BYTES] * net.reals[hw.E_DRAM])


@njit_apart
def score_scheme(
    net: Net, setting: tuple[int, int, int, int], scheme: Scheme, old: Scheme, whole: bool, scratch: Scratch
) -> tuple[int, float]:
    """Score a scheme whose order is legal.

    Args:
        net: The network on its accelerator.
        setting: Samples; `ModelOptions.flags`; bytes the buffer may hold; `DOUBLE_BUFFER` or `PREFETCH`.
        scheme: The scheme; its shapes and costs are brought up to date.
        old: A scheme whose shapes and costs `scheme` holds where groups are the same.
        whole: Recompute everything.
        scratch: Tile costs met so far, and memory; its score is the result.

    Returns:
        ``(status, energy_pj)``.
    """
    batch, flags, limit, mode = setting
    channel, score = scratch.channel, scratch.score
    code = refresh(net, batch, flags, scheme, old, whole, scratch.cache)
    if code != OK:
        return code, 0.0
    T = locate_groups(scheme.cut, scheme.tiles, scratch.groups)
    loads, outputs = list_inputs(net, scheme, flags, scratch.groups, scratch.inputs)
    room = channel.tile_time.shape[0] >= T + 2 and channel.stores.at.shape[0] >= outputs
    if not room or channel.loads.use.shape[0] < loads:
        return TOO_MANY_TILES, 0.0
    energy = build(net, scheme, scratch, 1 if mode == DOUBLE_BUFFER else 0, T)
    score[TILES] = T
    if score[PEAK] > limit:
        return OVERFLOW, energy
    extent = Extent(T, score[LOADS], score[STORES], limit)
    score[LATENCY] = double_buffer(extent, channel) if mode == DOUBLE_BUFFER else prefetch(extent, channel)
    return (OK if score[LATENCY] >= 0 else OVERFLOW), energy
