"""What one core does with its tile of a layer: the mapper of the vector-MAC template (rules M11 to M16).

The core has a_len x o_len processing elements of `vector` x `lanes` MACs, a buffer of inputs and one of weights in front of
each, and one big buffer. Source of the rules: SET (ISCA 2023), whose counters are unsigned numbers of 32 and 64 bits;
where a count wraps there it wraps here.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.core.kernel_library import FloatArray, IntArray

LOW_32 = 0xFFFFFFFF

AXIS_C, AXIS_K, AXIS_H, AXIS_W, AXIS_B = 0, 1, 2, 3, 4
FIRST_AXIS = (AXIS_C, AXIS_C, AXIS_B, AXIS_C, AXIS_H, AXIS_H)
SECOND_AXIS = (AXIS_K, AXIS_B, AXIS_K, AXIS_W, AXIS_K, AXIS_W)
"""The six ways to give the two axes of processing elements to dimensions."""

ENERGY, CYCLES, BIG_BUFFER, SMALL_BUFFERS, BUS, MAC = 0, 1, 2, 3, 4, 5
FIGURES = 6
"""Entries of a core's figures: pJ, cycles, and the pJ of four parts."""

INPUTS, WEIGHTS, SUMS, OUTPUTS, BIG = 0, 1, 2, 3, 4
"""Rows of `Core.pj`: the buffers."""


class Core(NamedTuple):
    """A core of the template.

    Attributes:
        vector: Input channels of a processing element.
        lanes: Output channels of a processing element.
        a_len: Processing elements along the first axis.
        o_len: Along the second.
        input_bytes: Small buffer of inputs of one element.
        weight_bytes: Small buffer of weights.
        sum_bytes: Small buffer of partial sums.
        bus_words: Words a cycle of the bus between elements.
        bus_pj: Energy of a word on it.
        mac_pj: Energy of a MAC.
        vector_macs: Operations a cycle of the vector unit.
        vector_pj: Energy of one.
        big_words: Words a cycle of the big buffer.
        pj: Read and write energy a word of each buffer, 5 x 2.
    """

    vector: int
    lanes: int
    a_len: int
    o_len: int
    input_bytes: int
    weight_bytes: int
    sum_bytes: int
    bus_words: int
    bus_pj: float
    mac_pj: float
    vector_macs: int
    vector_pj: float
    big_words: int
    pj: FloatArray


class Cores(NamedTuple):
    """All kinds of cores of a system, a row each.

    Attributes:
        sizes: The whole numbers of `Core` in their order, kinds x 10.
        figures: Its energies of bus, MAC and vector unit, kinds x 3.
        pj: Its buffers, kinds x 5 x 2.
    """

    sizes: IntArray
    figures: FloatArray
    pj: FloatArray


@njit
def core_of(cores: Cores, kind: int) -> Core:
    """A kind of core by itself."""
    sizes, figures = cores.sizes[kind], cores.figures[kind]
    return Core(
        sizes[0],
        sizes[1],
        sizes[2],
        sizes[3],
        sizes[4],
        sizes[5],
        sizes[6],
        sizes[7],
        figures[0],
        figures[1],
        sizes[8],
        figures[2],
        sizes[9],
        cores.pj[kind],
    )


class Tile(NamedTuple):
    """A convolution of one core: sizes of one group, and how many groups."""

    C: int
    K: int
    R: int
    S: int
    H: int
    W: int
    stride_h: int
    stride_w: int
    B: int
    groups: int


class Split(NamedTuple):
    """One way to place a tile: units along each axis, and rounds of each dimension in time."""

    unit_c: int
    unit_k: int
    unit_h: int
    unit_w: int
    unit_b: int
    rounds_c: int
    rounds_k: int
    rounds_b: int
    together: int
    group_rounds: int
    compute: int


class Block(NamedTuple):
    """What the small buffers hold at a time, and the rounds that follow."""

    w1: int
    h1: int
    k1: int
    rounds_k: int
    rounds_w: int
    rounds_h: int
    share_k: int
    share_w: int
    tile: int


@njit
def ceil_div(a: int, b: int) -> int:
    """The integer ceiling of a / b for a >= 0."""
    return 0 if a == 0 else (a - 1) // b + 1


@njit
def _unsigned(count: int) -> float:
    """A 64 bit pattern as the unsigned number it stands for."""
    return float(count) if count >= 0 else float(count) + 18446744073709551616.0


@njit
def _height(tile: Tile, split: Split, pieces: int) -> int:
    return (tile.H + (tile.R - tile.stride_h) * (pieces * split.unit_h - 1)) & LOW_32


@njit
def _width(tile: Tile, split: Split, pieces: int) -> int:
    return (tile.W + (tile.S - tile.stride_w) * (pieces * split.unit_w - 1)) & LOW_32


@njit
def _input_words(tile: Tile, split: Split, block: Block, shared: bool, outer_w: int, fills: int) -> tuple[int, int]:
    """Words written into the small buffers of inputs, and those they read from each other's halos by sharing."""
    heights = _height(tile, split, 1 if block.rounds_w == 1 else block.rounds_h)
    rows = (heights * tile.C * tile.B) & LOW_32
    words = rows * _width(tile, split, outer_w if shared else 1) * fills * split.unit_k
    if not shared:
        return words, 0
    users = split.unit_k
    last = ((users - 1) * block.rounds_w) % users
    halo = rows * ((tile.S - tile.stride_w) & LOW_32) * split.unit_w * fills
    whole = block.w1 * (block.rounds_w - block.rounds_w % users)
    rest = (tile.W - (whole + tile.stride_w - tile.S) * split.unit_w) & LOW_32
    local = (rows * rest * fills + halo) * last
    return words + halo * outer_w * (users - 1), local


@njit
def _weight_local(core: Core, tile: Tile, split: Split, block: Block, weights: int, fills: int) -> int:
    """Weight words that the sharing elements have in their own buffers already."""
    users = split.unit_h * split.unit_w * split.unit_b
    whole = block.k1 * core.lanes * split.unit_k * (block.rounds_k - block.rounds_k % users)
    rest = (tile.K - whole) & LOW_32
    return (weights // tile.K) * rest * fills * (((users - 1) * block.rounds_k) % users)


@njit
def _bus_too_slow(core: Core, tile: Tile, split: Split, block: Block, share_k: bool, share_w: bool) -> bool:
    """Whether words on the bus would take longer than the work on them."""
    channels = ceil_div(tile.C, split.unit_c)
    kernels = min(ceil_div(tile.K, split.unit_k), block.k1 * core.lanes)
    if share_k and block.tile * core.bus_words < tile.R * tile.S * channels * kernels * split.together:
        return True
    if share_w:
        cycles = block.share_k * block.tile if share_k else block.tile
        height = (block.h1 + tile.R - tile.stride_h) & LOW_32
        return cycles * core.bus_words < (height * block.w1 * channels * split.together) & LOW_32
    return False


@njit
def _try(
    core: Core, tile: Tile, split: Split, block: Block, stream: bool, share_k: bool, share_w: bool, best: FloatArray
) -> None:
    """Price one choice of sharing; keep it in `best` when energy x cycles is less.

    Args:
        core: The core.
        tile: Its work.
        split: The placement on the elements.
        block: What the small buffers hold.
        stream: Weights pass once through a level between the buffers.
        share_k: Elements share weights over the bus.
        share_w: Elements share inputs over the bus.
        best: Figures of the best so far, and its energy x cycles in the last entry, negative for none.
    """
    if _bus_too_slow(core, tile, split, block, share_k, share_w):
        return
    weights = (tile.R * tile.S * tile.C * tile.K) & LOW_32
    outputs = (tile.H * tile.W * tile.K * tile.B) & LOW_32
    operations = tile.C * tile.K * tile.R * tile.S * tile.H * tile.W * tile.B
    users = split.unit_h * split.unit_w * split.unit_b
    over_k = ceil_div(block.rounds_k, block.share_k) if share_k else block.rounds_k
    over_w = ceil_div(block.rounds_w, block.share_w) if share_w else block.rounds_w
    inner_rounds = block.rounds_w * block.rounds_h * split.rounds_b
    outer_rounds = over_w * block.rounds_h * split.rounds_b
    in_writes, in_local = _input_words(tile, split, block, share_w, over_w, over_k)
    heights = _height(tile, split, 1 if over_w == 1 else block.rounds_h)
    big_inputs = (heights * _width(tile, split, 1) * tile.C * tile.B) & LOW_32
    big_inputs *= 1 if share_k and share_w and not stream else over_k
    big_weights = weights * (outer_rounds if share_w or stream else 1)
    refills = inner_rounds if share_k else outer_rounds if stream else 1
    in_reads = (operations // tile.K) * split.rounds_k * split.unit_k
    in_bus, weight_bus = 0, 0
    if share_w:
        in_bus = in_writes - big_inputs
        in_reads += in_bus - in_local
    weight_reads, weight_writes = weights * inner_rounds * users, weights * refills * users
    if share_k:
        weight_bus = weight_writes - big_weights
        weight_reads += weight_bus - _weight_local(core, tile, split, block, weights, refills)
    sum_writes = (operations // tile.C) * split.rounds_c * split.unit_c
    small = _unsigned(in_reads) * core.pj[INPUTS, 0] + _unsigned(in_writes) * core.pj[INPUTS, 1]
    small += _unsigned(weight_reads) * core.pj[WEIGHTS, 0]
    small += _unsigned(weight_writes) * core.pj[WEIGHTS, 1]
    small += (sum_writes + split.unit_c * outputs) * core.pj[SUMS, 0]
    small += sum_writes * core.pj[SUMS, 1]
    small += outputs * core.pj[OUTPUTS, 0]
    small += outputs * core.pj[OUTPUTS, 1]
    from_big = big_inputs + (weights if stream else big_weights)
    big = from_big * core.pj[BIG, 0] + outputs * core.pj[BIG, 1]
    bus = _unsigned(weight_bus) * core.bus_pj + _unsigned(in_bus) * core.bus_pj
    cycles = max(split.compute, ceil_div(from_big * split.together, core.big_words))
    if stream:
        cycles = max(cycles, ceil_div(max(big_weights, weights) * split.together, core.big_words))
    _keep_better(tile, split, cycles, big, small, bus, operations * core.mac_pj, best)


@njit
def _keep_better(
    tile: Tile, split: Split, cycles: int, big: float, small: float, bus: float, mac: float, best: FloatArray
) -> None:
    energy = big + small + bus + mac
    times = 1
    if tile.groups > 1:
        times = tile.groups
        cycles *= split.group_rounds
    energy *= times
    cost = energy * cycles
    if best[FIGURES] < 0.0 or cost < best[FIGURES]:
        best[ENERGY], best[CYCLES] = energy, float(cycles)
        best[BIG_BUFFER], best[SMALL_BUFFERS] = big * times, small * times
        best[BUS], best[MAC] = bus * times, mac * times
        best[FIGURES] = cost


@njit
def _try_sharing(core: Core, tile: Tile, split: Split, block: Block, best: FloatArray) -> None:
    """All choices of sharing that a block has (rule M14), in the order that decides ties."""
    again = split.rounds_b > 1 or block.rounds_h > 1
    k_shared = block.share_k > 1
    k_left = k_shared and ceil_div(block.rounds_k, block.share_k) > 1
    _try(core, tile, split, block, False, False, False, best)
    if again and block.rounds_w > 1 and k_shared:
        _try(core, tile, split, block, False, True, False, best)
    if block.share_w > 1:
        if k_left:
            _try(core, tile, split, block, False, True, True, best)
        if again and ceil_div(block.rounds_w, block.share_w) > 1:
            if block.rounds_k > 1:
                _try(core, tile, split, block, True, False, True, best)
            if k_left:
                _try(core, tile, split, block, True, True, True, best)


@njit
def _try_blocks(core: Core, tile: Tile, split: Split, high: int, wide: int, best: FloatArray) -> None:
    """All sizes of what the small buffers hold (rule M13)."""
    inputs = core.input_bytes // core.vector // split.rounds_c
    sums = core.sum_bytes // core.lanes
    most_k = core.weight_bytes // core.vector // (tile.R * tile.S * split.rounds_c)
    row = inputs // tile.R
    if sums == 0 or most_k == 0 or row < tile.S:
        return
    k1 = min(split.rounds_k, most_k)
    rounds_k = ceil_div(split.rounds_k, k1)
    share_k = min(rounds_k, split.unit_h * split.unit_w * split.unit_b)
    last = 0
    for w1 in range(min((row - tile.S) // tile.stride_w + 1, sums, wide), 0, -1):
        columns = (w1 - 1) * tile.stride_w + tile.S
        h1 = min(sums // w1, (inputs // columns - tile.R) // tile.stride_h + 1, high)
        if h1 == last:
            continue
        last = h1
        rounds_w = ceil_div(wide, w1)
        words = tile.R * tile.S * split.rounds_c * k1 * h1 * w1
        share_w = min(rounds_w, split.unit_k)
        block = Block(w1, h1, k1, rounds_k, rounds_w, ceil_div(high, h1), share_k, share_w, words)
        _try_sharing(core, tile, split, block, best)


@njit
def map_convolution(core: Core, tile: Tile, best: FloatArray) -> bool:
    """The mapping of least energy x cycles of a convolution on one core.

    Args:
        core: The core.
        tile: Its work.
        best: Receives the figures; `FIGURES` + 1 entries.

    Returns:
        Whether there is one.
    """
    best[FIGURES] = -1.0
    together, group_rounds = 1, tile.groups
    if tile.groups > 1:
        together = min(core.vector // tile.C, core.lanes // tile.K)
        if together > 1:
            together = min(together, tile.groups)
            group_rounds = ceil_div(tile.groups, together)
    units = np.ones(5, np.int64)
    for way in range(6):
        units[:] = 1
        units[FIRST_AXIS[way]] *= core.a_len
        units[SECOND_AXIS[way]] *= core.o_len
        rounds_c = ceil_div(tile.C, core.vector * units[AXIS_C])
        rounds_k = ceil_div(tile.K, core.lanes * units[AXIS_K])
        high, wide = ceil_div(tile.H, units[AXIS_H]), ceil_div(tile.W, units[AXIS_W])
        rounds_b = ceil_div(tile.B, units[AXIS_B])
        compute = (rounds_c * rounds_k * high * wide * rounds_b * tile.R * tile.S) & LOW_32
        split = Split(
            units[AXIS_C],
            units[AXIS_K],
            units[AXIS_H],
            units[AXIS_W],
            units[AXIS_B],
            rounds_c,
            rounds_k,
            rounds_b,
            together,
            group_rounds,
            compute,
        )
        _try_blocks(core, tile, split, high, wide, best)
    return best[FIGURES] >= 0.0  # type: ignore[no-any-return]


@njit
def map_vector_work(core: Core, operations: int, best: FloatArray) -> None:
    """Figures of a vector layer's tile: the operations at the vector unit's pace (rule M16)."""
    energy = operations * core.vector_pj
    cycles = float(ceil_div(operations, core.vector_macs))
    best[:] = 0.0
    best[ENERGY], best[MAC] = energy, energy
    best[CYCLES] = cycles
    best[FIGURES] = energy * cycles
