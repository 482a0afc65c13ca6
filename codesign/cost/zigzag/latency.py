"""Cycles of an allocation, compiled: stalls per port, loading before and storing after (rules Z11-Z16).

The uniform latency model of Mei et al., DATE 2022, in ZigZag's form. Rules stand in docs/explanation/loop-order.md.
"""

import math
from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit, njit_inline
from codesign.cost.zigzag.arrays import FROM_HIGH, FROM_LOW, TO_HIGH, TO_LOW, Layer
from codesign.cost.zigzag.kernel import (
    Allocation,
    Order,
    boost,
    is_partial,
    moves,
    round_half_up,
    skip_irrelevant,
    tile_elements,
)
from codesign.mapping.nest import FloatArray, IntArray


class Transfers(NamedTuple):
    """What moves between levels. The boundary v of a tensor lies between its level v - 1 (the MACs for 0) and level v.

    Attributes:
        period: ``T x V`` cycles between two transfers across a boundary.
        times: ``T x V`` how many there are.
        window: ``T x V`` cycles of a period in which the transfer may go on without a stall (rule Z12).
        partial: ``T x V`` 1 where partial sums go both ways.
        cycles: ``T x V x 4`` a level's port needs for one transfer, by direction; 0 where there is none.
        exact: ``T x V x 4`` the same, not rounded up to whole cycles.
        buffered: ``T x V`` 1 where a level can be refilled while it is used (rule Z11).
        edge: ``T x V x 4`` cycles of a move before the first or after the last iteration (rule Z14).
        first: ``T`` bits of the tile of the innermost level.
        stall: ``P`` of each port; negative where there is slack.
        use: ``T x V x 2`` scratch space.
        scratch: ``2 x (K + 1)`` scratch space: the periods and windows of one port.
    """

    period: FloatArray
    times: FloatArray
    window: FloatArray
    partial: IntArray
    cycles: FloatArray
    exact: FloatArray
    buffered: IntArray
    edge: FloatArray
    first: FloatArray
    stall: FloatArray
    use: FloatArray
    scratch: FloatArray


def make_transfers(layer: Layer) -> Transfers:
    """Room for the transfers of a layer."""
    shape = layer.memory.shape
    return Transfers(
        period=np.ones(shape),
        times=np.ones(shape),
        window=np.ones(shape),
        partial=np.zeros(shape, np.int64),
        cycles=np.zeros((*shape, 4)),
        exact=np.zeros((*shape, 4)),
        buffered=np.zeros(shape, np.int64),
        edge=np.zeros((*shape, 4)),
        first=np.zeros(shape[0]),
        stall=np.zeros(layer.port_min.shape[0]),
        use=np.zeros((*shape, 2)),
        scratch=np.zeros((2, layer.served.shape[1] + 1)),
    )


@njit
def _buffering(layer: Layer, order: Order, allocation: Allocation, transfers: Transfers) -> None:
    """Which levels can be refilled while they are used (rule Z11)."""
    use = transfers.use  # bits of a tile: all of it, and what of it is used at a time
    for t in range(layer.relevant.shape[0]):
        inner = 0
        for v in range(layer.n_levels[t]):
            outer = skip_irrelevant(layer, order, t, allocation.cut[t, v])
            partial = t == layer.relevant.shape[0] - 1 and order.reduces[outer] == 1
            bits = round_half_up(allocation.tile[t, v]) * (layer.partial_bits if partial else layer.bits[t])
            use[t, v, 0] = use[t, v, 1] = bits
            while outer > inner and layer.relevant[t, order.dim[outer - 1]] == 1:
                use[t, v, 1] /= order.factor[outer - 1]
                outer -= 1
            inner = skip_irrelevant(layer, order, t, allocation.cut[t, v])
    _grant_buffers(layer, transfers)


@njit
def _grant_buffers(layer: Layer, transfers: Transfers) -> None:
    """Room for a second tile: for all if half is free, else one tensor after the other, the output first (rule Z11)."""
    n_tensors = layer.relevant.shape[0]
    for m in range(layer.capacity.shape[0]):
        used = 0.0
        for i in range(layer.n_members[m]):
            used += transfers.use[layer.members[m, i], layer.member_level[m, i], 1]
        half_free = 2 * used <= layer.capacity[m]
        for turn in range(n_tensors):
            t = n_tensors - 1 if turn == 0 else turn - 1
            for v in range(layer.n_levels[t]):
                if layer.memory[t, v] == m:
                    fits = half_free or used + transfers.use[t, v, 1] <= layer.capacity[m]
                    transfers.buffered[t, v] = 1 if fits else 0
                    used += transfers.use[t, v, 1] if fits else 0.0


@njit
def _fill_transfers(layer: Layer, order: Order, whole: Order, allocation: Allocation, transfers: Transfers) -> None:
    """Periods, windows and port cycles of every transfer (rules Z12, Z13)."""
    n = order.dim.shape[0]
    n_tensors = layer.relevant.shape[0]
    transfers.cycles[:] = 0.0
    transfers.exact[:] = 0.0
    for t in range(n_tensors):
        is_output = t == n_tensors - 1
        inside = 0 if is_output else skip_irrelevant(layer, order, t, 0)
        elements, idle = 1.0, 1.0
        for v in range(layer.n_levels[t]):
            period = order.cycles[inside]
            partial = is_partial(layer, order, t, v, inside)
            bits = layer.partial_bits if partial else layer.bits[t]
            transfers.period[t, v] = period
            transfers.times[t, v] = order.cycles[n] / period
            transfers.partial[t, v] = 1 if partial else 0
            transfers.window[t, v] = period if v == 0 or transfers.buffered[t, v - 1] == 1 else period / idle
            for side in range(2):
                level = v - side
                moved = elements * boost(layer, layer.whole, t, v) if side == 0 else elements
                for direction in range(4):
                    if level < 0 or not moves(is_output, partial, side, direction):
                        continue
                    width = layer.port_max[layer.port[t, level, direction]]
                    transfers.exact[t, level, direction] = moved * bits / width
                    transfers.cycles[t, level, direction] = math.ceil(moved * bits / width)
            if v == 1:
                transfers.first[t] = elements * bits
            outer = skip_irrelevant(layer, order, t, allocation.cut[t, v])
            idle, p = 1.0, outer
            while p > inside and layer.relevant[t, order.dim[p - 1]] == 0:
                idle *= order.factor[p - 1]
                p -= 1
            elements = round_half_up(tile_elements(layer, layer.whole, whole, t, v, allocation.cut[t, v]))
            inside = outer


@njit
def _covered(periods: FloatArray, windows: FloatArray, count: int, length: float) -> float:
    """Cycles of the first `length` that lie in at least one of the windows at the starts of nested periods (rule Z13).

    Periods ascend and each divides the next.
    """
    if count == 0 or length <= 0:
        return 0.0
    period, window = periods[count - 1], windows[count - 1]
    whole = math.floor(length / period)
    rest = length - whole * period
    below_window = _covered(periods, windows, count - 1, window)
    covered = 0.0
    if whole > 0:
        covered = whole * (window + _covered(periods, windows, count - 1, period) - below_window)
    if rest <= window:
        return covered + rest  # type: ignore[no-any-return]
    return covered + window + _covered(periods, windows, count - 1, rest) - below_window  # type: ignore[no-any-return]


@njit_inline
def boundary(v: int, direction: int) -> int:
    """The boundary that a move of level v in a direction crosses."""
    return v if direction in (TO_LOW, FROM_LOW) else v + 1


@njit
def _stall_of_port(layer: Layer, transfers: Transfers, port: int, total: float, scratch: FloatArray) -> float:
    """Cycles by which one port delays the array; negative when it has slack (rule Z13)."""
    used = 0
    stall = slack = windows = last = 0.0
    for i in range(layer.n_served[port]):
        t, v, direction = layer.served[port, i, 0], layer.served[port, i, 1], layer.served[port, i, 2]
        if transfers.cycles[t, v, direction] == 0:
            continue
        b = boundary(v, direction)
        window, repeats = transfers.window[t, b], transfers.times[t, b] - 1
        last = (transfers.cycles[t, v, direction] - window) * repeats
        stall += max(last, 0.0)
        slack += min(last, 0.0)
        windows += window * repeats
        at = used
        while at > 0 and scratch[0, at - 1] > transfers.period[t, b]:
            scratch[0, at], scratch[1, at] = scratch[0, at - 1], scratch[1, at - 1]
            at -= 1
        scratch[0, at], scratch[1, at] = transfers.period[t, b], window
        used += 1
    if used == 0:
        return 0.0
    if used == 1:
        return last
    union = _covered(scratch[0], scratch[1], used, total)
    return stall + max(0.0, slack + windows - union)


@njit_inline
def stall_cycles(layer: Layer, order: Order, whole: Order, allocation: Allocation, transfers: Transfers) -> float:
    """Cycles by which the ports delay the array: the slowest port counts (rules Z11-Z13)."""
    _buffering(layer, order, allocation, transfers)
    _fill_transfers(layer, order, whole, allocation, transfers)
    worst = 0.0
    for port in range(layer.port_min.shape[0]):
        transfers.stall[port] = _stall_of_port(layer, transfers, port, order.cycles[-1], transfers.scratch)
        worst = max(worst, transfers.stall[port])
    return worst


@njit_inline
def _comes_back(layer: Layer, t: int, direction: int) -> bool:
    """Whether a move brings partial sums back inwards: none does so before the first or after the last iteration."""
    return t == layer.relevant.shape[0] - 1 and direction in (TO_LOW, FROM_HIGH)


@njit
def _fill_edges(layer: Layer, transfers: Transfers, busy: float) -> None:
    """Cycles of every move before the first and after the last iteration (rule Z14).

    What moves only once may do so while the array runs, as far as its port has time: that left by the repeated moves,
    given out to the longest move first. One innermost tile must still be moved. `busy` is the time the array takes.
    """
    for t in range(layer.relevant.shape[0]):
        for v in range(layer.n_levels[t]):
            for direction in range(4):
                transfers.edge[t, v, direction] = transfers.cycles[t, v, direction]
    for port in range(layer.n_served.shape[0]):
        width = layer.port_max[port]
        load = 0.0  # bits a cycle
        for i in range(layer.n_served[port]):
            t, v, direction = layer.served[port, i, 0], layer.served[port, i, 1], layer.served[port, i, 2]
            b = boundary(v, direction)
            if not _comes_back(layer, t, direction) and transfers.times[t, b] > 1:
                load += math.floor(transfers.exact[t, v, direction] * width / transfers.period[t, b])
        free = max(0.0, width - load) / width * busy
        limit, limit_at = np.inf, -1
        while True:  # the longest move not seen yet; equal ones in the port's order
            chosen, longest = -1, 0.0
            for i in range(layer.n_served[port]):
                t, v, direction = layer.served[port, i, 0], layer.served[port, i, 1], layer.served[port, i, 2]
                cycles = transfers.exact[t, v, direction]
                seen = cycles > limit or (cycles == limit and i <= limit_at)
                single = transfers.times[t, boundary(v, direction)] == 1 and not _comes_back(layer, t, direction)
                if single and not seen and cycles > longest:
                    chosen, longest = i, cycles
            if chosen < 0:
                break
            limit, limit_at = longest, chosen
            t, v, direction = (
                layer.served[port, chosen, 0],
                layer.served[port, chosen, 1],
                layer.served[port, chosen, 2],
            )
            if boundary(v, direction) == 0:
                continue
            cycles = transfers.cycles[t, v, direction]
            left = max(math.ceil(transfers.first[t] / width), cycles - free)
            transfers.edge[t, v, direction] = min(cycles, left)
            free = max(0.0, free - (cycles - transfers.edge[t, v, direction]))


@njit_inline
def loading_cycles(layer: Layer, transfers: Transfers) -> float:
    """Cycles before the first iteration: the inputs load side by side, but not through a port that serves both (rule Z15)."""
    n_inputs = layer.relevant.shape[0] - 1
    longest = through_shared = 0.0
    rest = np.inf
    for t in range(n_inputs):
        shared = apart = 0.0
        for b in range(1, layer.n_levels[t]):
            cycles = max(transfers.edge[t, b, TO_LOW], transfers.edge[t, b - 1, FROM_HIGH])
            low, high = layer.port[t, b - 1, FROM_HIGH], layer.port[t, b, TO_LOW]
            if layer.shared[low] == 1 and layer.shared[high] == 1:
                shared += cycles
            else:
                apart += cycles
        longest = max(longest, shared + apart)
        through_shared += shared
        rest = min(rest, apart)
    return max(longest, through_shared + rest)


@njit_inline
def unloading_cycles(layer: Layer, transfers: Transfers) -> float:
    """Cycles after the last iteration: the output passes outwards level by level (rule Z16)."""
    t = layer.relevant.shape[0] - 1
    total = 0.0
    for b in range(1, layer.n_levels[t]):
        total += max(transfers.edge[t, b, FROM_LOW], transfers.edge[t, b - 1, TO_HIGH])
    return total


@njit
def count_cycles(
    layer: Layer, order: Order, whole: Order, allocation: Allocation, transfers: Transfers
) -> tuple[float, float, float]:
    """Stall, loading and unloading cycles of an allocation; the array itself takes ``order.cycles[-1]``."""
    stall = stall_cycles(layer, order, whole, allocation, transfers)
    _fill_edges(layer, transfers, order.cycles[-1] + stall)
    return stall, loading_cycles(layer, transfers), unloading_cycles(layer, transfers)
