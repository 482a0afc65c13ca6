"""Rounds of traffic that repeat are skipped: equal states at the ends of two rounds repeat until the traffic ends.

A state is everything that decides what happens next, packets counted from the round's first and times from now. It is kept
at rounds 1, 2, 4, 8 ... and compared at every later one (R. Brent, 1980), so a period of any length is found.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.mapping.nest import IntArray
from codesign.timing.noc.state import (
    ACTIVE,
    ARRIVE,
    AT,
    BRANCH_SENT,
    BRANCH_VC,
    CREDIT,
    CYCLE,
    DELIVERED,
    FLIT,
    FLIT_HOPS,
    GONE,
    HELD,
    HIGHEST,
    HOLDER,
    LAST_ARRIVAL,
    NODE,
    PACKET,
    PENDING,
    ROUTED,
    SENT,
    SINCE,
    SOURCE_VC,
    START,
    VC,
    VC_ACCEPT,
    VC_GRANT,
    WHAT,
    Network,
    Packets,
    Routers,
    TreeTraffic,
    lowest,
)

LEADER, SNAP_ROUND, SNAP_CYCLE, SNAP_HOPS, SKIPPED_HOPS = 0, 1, 2, 3, 4
_LEAST_ROUNDS = 4
_LOOK_BACK_ROUNDS = 64
_NOTHING = -(1 << 40)


class Rounds(NamedTuple):
    """What is known of the rounds.

    Attributes:
        of_source: ``R`` packets of each source in a round.
        number: ``5`` columns `LEADER` (the source whose last packet of a round ends it; -1: nothing to skip), `SNAP_ROUND`,
            `SNAP_CYCLE` and `SNAP_HOPS` (of the state that was kept), `SKIPPED_HOPS`.
    """

    of_source: IntArray
    number: IntArray


def rounds_of(traffic: TreeTraffic, nodes: int) -> Rounds:
    """The leader is the source with most packets of a round, the first of several."""
    of_source = np.bincount(traffic.source[: traffic.round_packets], minlength=nodes)
    repeats = traffic.rounds >= _LEAST_ROUNDS
    return Rounds(of_source, np.array([of_source.argmax() if repeats else -1, -1, 0, 0, 0]))


@njit
def skip_rounds(
    routers: Routers, traffic: TreeTraffic, packets: Packets, network: Network, rounds: Rounds, kept: IntArray
) -> IntArray:
    """At the end of a round: jump where its state is the one kept; returns the state to keep."""
    number, totals, leader = rounds.number, network.totals, rounds.number[LEADER]
    q = (network.source[leader, AT] - network.first[leader]) // rounds.of_source[leader]
    power = q & (q - 1) == 0
    if q >= traffic.rounds or not (power or number[SNAP_ROUND] > 0):
        return kept
    low = _oldest_left(traffic, packets, network, q)
    state = np.zeros(_state_size(routers, network, low), np.int64)
    size = _note_state(routers, traffic, packets, network, rounds, state, q, low)
    state = state[:size]
    if number[SNAP_ROUND] > 0 and _equal(state, kept):
        _jump(traffic, packets, network, rounds, q, low)
    if power:
        kept = state
        number[SNAP_ROUND], number[SNAP_CYCLE], number[SNAP_HOPS] = q, totals[CYCLE], totals[FLIT_HOPS]
    return kept


@njit
def _equal(a: IntArray, b: IntArray) -> bool:
    """Whether two states are the same."""
    if a.shape[0] != b.shape[0]:
        return False
    for k in range(a.shape[0]):
        if a[k] != b[k]:
            return False
    return True


@njit
def _oldest_left(traffic: TreeTraffic, packets: Packets, network: Network, q: int) -> int:
    """The first packet of the last rounds that has not arrived; the highest one touched if all have."""
    high = network.totals[HIGHEST]
    for p in range(max(0, (q - _LOOK_BACK_ROUNDS) * traffic.round_packets), high + 1):
        if packets.remaining[p] > 0:
            return p
    return high  # type: ignore[no-any-return]


@njit
def _jump(traffic: TreeTraffic, packets: Packets, network: Network, rounds: Rounds, q: int, low: int) -> None:
    """Move everything on by as many periods as end before the whole rounds do."""
    number, totals = rounds.number, network.totals
    period, delta = q - number[SNAP_ROUND], totals[CYCLE] - number[SNAP_CYCLE]
    furthest = max(q, totals[HIGHEST] // traffic.round_packets + 1)
    for r in range(rounds.of_source.shape[0]):
        if rounds.of_source[r] > 0:
            furthest = max(furthest, -(-(network.source[r, AT] - network.first[r] + 1) // rounds.of_source[r]))
    times = (traffic.rounds - furthest) // period
    if times <= 0:
        return
    shift = times * period * traffic.round_packets
    _shift_packets(packets, low, totals[HIGHEST], shift, times * delta)
    _shift_network(network, rounds, times * period, shift, times * delta)
    _turn_events(network.event, network.events, (times * delta) & (network.events.shape[0] - 1), shift)
    hops = times * (totals[FLIT_HOPS] - number[SNAP_HOPS])
    totals[FLIT_HOPS] += hops
    number[SKIPPED_HOPS] += hops
    totals[DELIVERED] += shift
    totals[HIGHEST] += shift
    totals[LAST_ARRIVAL] += times * delta
    totals[CYCLE] += times * delta
    number[LEADER] = -1


@njit
def _shift_packets(packets: Packets, low: int, high: int, shift: int, cycles: int) -> None:
    """The packets under way hand what they are to those of a later round; those between have arrived."""
    for p in range(high, low - 1, -1):
        packets.waits[p + shift] = packets.waits[p]
        packets.remaining[p + shift] = packets.remaining[p]
        packets.created[p + shift] = packets.created[p] + cycles
    for p in range(low, min(low + shift, high + 1)):
        packets.remaining[p] = 0


@njit
def _shift_network(network: Network, rounds: Rounds, count: int, shift: int, cycles: int) -> None:
    """Sources go on by `count` rounds, packet numbers by `shift`, times by `cycles`."""
    for r in range(rounds.of_source.shape[0]):
        network.source[r, AT] += count * rounds.of_source[r]
        for i in range(network.input.shape[1]):
            network.input[r, i, SINCE] += cycles
            if network.input[r, i, PACKET] >= 0:
                network.input[r, i, PACKET] += shift
            if network.output[r, i, HOLDER] >= 0:
                network.output[r, i, HOLDER] += shift
            for b in range(network.flit.shape[2]):
                network.flit[r, i, b] += shift


@njit
def _swap(event: IntArray, events: IntArray, a: int, b: int) -> None:
    """Exchange the events of two cycles."""
    for e in range(max(events[a], events[b])):
        for c in range(event.shape[2]):
            event[a, e, c], event[b, e, c] = event[b, e, c], event[a, e, c]
    events[a], events[b] = events[b], events[a]


@njit
def _turn_events(event: IntArray, events: IntArray, by: int, shift: int) -> None:
    """Move the events of every cycle on by `by` places of the ring, and their packets by `shift`."""
    ring = events.shape[0]
    for low, high in ((0, ring - 1), (0, by - 1), (by, ring - 1)):  # turned by three reversals
        while low < high:
            _swap(event, events, low, high)
            low, high = low + 1, high - 1
    for slot in range(ring):
        for e in range(events[slot]):
            if event[slot, e, WHAT] == ARRIVE:
                event[slot, e, FLIT] += shift


@njit
def _state_size(routers: Routers, network: Network, low: int) -> int:
    """Entries that a state has at most."""
    of_node = 3 + routers.channels + network.port.shape[1] * network.port.shape[2]
    of_channel = 9 + 2 * routers.ports + routers.buffer_flits
    of_events = network.events.shape[0] + 4 * network.totals[PENDING]
    of_packets = 2 + 3 * max(0, network.totals[HIGHEST] - low + 1)
    return routers.nodes * (of_node + routers.ports * routers.channels * of_channel) + of_events + of_packets  # type: ignore[no-any-return]


@njit
def _note_state(
    routers: Routers, traffic: TreeTraffic, packets: Packets, network: Network, rounds: Rounds, out: IntArray, q: int,
    low: int,
) -> int:  # fmt: skip
    """Everything that decides what happens next, packets counted from the round's first, times from now; its size."""
    t, base, high = network.totals[CYCLE], q * traffic.round_packets, network.totals[HIGHEST]
    k = _note_events(network, out, t, base)
    for r in range(routers.nodes):
        k = _note_node(network, rounds, out, k, r, q)
        for i in range(routers.ports * routers.channels):
            k = _note_channel(routers, network, out, k, r, i, t, base)
    out[k], out[k + 1] = low - base, high - base
    k += 2
    for p in range(low, high + 1):
        out[k], out[k + 1], out[k + 2] = packets.waits[p], packets.remaining[p], max(packets.created[p] - t, 0)
        k += 3
    return k


@njit
def _note_node(network: Network, rounds: Rounds, out: IntArray, k: int, r: int, q: int) -> int:
    """The source of a node and the pointers of its ports; returns the place behind them."""
    out[k] = network.source[r, AT] - network.first[r] - q * rounds.of_source[r]
    out[k + 1], out[k + 2] = network.source[r, SENT], network.source[r, SOURCE_VC]
    k += 3
    for v in range(network.source_credit.shape[1]):
        out[k] = network.source_credit[r, v]
        k += 1
    for o in range(network.port.shape[1]):
        for column in range(network.port.shape[2]):
            out[k] = network.port[r, o, column]
            k += 1
    return k


@njit
def _note_channel(routers: Routers, network: Network, out: IntArray, k: int, r: int, i: int, t: int, base: int) -> int:
    """An input channel and the output channel of that number; returns the place behind them."""
    held, packet, holder = network.input[r, i, HELD], network.input[r, i, PACKET], network.output[r, i, HOLDER]
    out[k] = held
    out[k + 1] = packet - base if packet >= 0 else _NOTHING
    out[k + 2] = holder - base if holder >= 0 else _NOTHING
    out[k + 3], out[k + 4] = network.output[r, i, CREDIT], network.output[r, i, VC_GRANT]
    out[k + 5] = network.input[r, i, VC_ACCEPT]
    k += 6
    if packet >= 0:
        ports = network.input[r, i, ACTIVE]
        out[k], out[k + 1] = network.input[r, i, ROUTED], ports
        out[k + 2] = network.input[r, i, GONE] + (min(t - network.input[r, i, SINCE], routers.routing_cycles + 2) << 32)
        k += 3
        while ports:
            o = lowest(ports)
            ports &= ports - 1
            out[k], out[k + 1] = network.branch[r, i, o, BRANCH_SENT], network.branch[r, i, o, BRANCH_VC]
            k += 2
    place = network.input[r, i, START]
    for _ in range(held):
        out[k] = network.flit[r, i, place] - base
        place = place + 1 if place + 1 < routers.buffer_flits else 0
        k += 1
    return k


@njit
def _note_events(network: Network, out: IntArray, t: int, base: int) -> int:
    """What is on the way, cycle by cycle from now, at the front; returns the place behind it."""
    k, ring = 0, network.events.shape[0]
    for s in range(ring):
        slot = (t + s) & (ring - 1)
        out[k] = network.events[slot]
        k += 1
        for e in range(network.events[slot]):
            what = network.event[slot, e, WHAT]
            out[k], out[k + 1], out[k + 2] = what, network.event[slot, e, NODE], network.event[slot, e, VC]
            out[k + 3] = network.event[slot, e, FLIT] - base if what == ARRIVE else 0
            k += 4
    return k
