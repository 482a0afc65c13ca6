"""Cycle by cycle: wormhole routers of a 2-D mesh with virtual channels, credits and iSLIP allocators.

The rules (M1-M9 in docs/explanation/timing.md) are those of input-queued routers as the literature has them (W. Dally and B. Towles,
"Principles and Practices of Interconnection Networks", 2004; N. McKeown, "The iSLIP scheduling algorithm for input-queued
switches", 1999). A flit costs a few dozen machine operations; empty routers and empty stretches of time cost nothing.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit, njit_plain
from codesign.cost.mesh import LOCAL, PORTS, neighbour, route
from codesign.mapping.nest import IntArray

FINISHED, CUT_SHORT, STUCK = 0, 1, 2
_FLIGHT, _INJECTION, _CREDIT = 3, 2, 2
"""Cycles from a switch win to the next buffer, from the source to its router, from a freed slot to its sender."""

_RING = 8
_ARRIVE, _CREDIT_ROUTER, _CREDIT_SOURCE = 0, 1, 2
_EMPTY, _ROUTED, _ACTIVE = 0, 1, 2


class Traffic(NamedTuple):
    """Packets in the order in which a source with several ready ones sends them.

    Attributes:
        created: ``N`` cycle in which each packet is there.
        source: ``N`` node.
        target: ``N`` node.
        flits: ``N`` length.
    """

    created: IntArray
    source: IntArray
    target: IntArray
    flits: IntArray


class Delivery(NamedTuple):
    """What became of the packets.

    Attributes:
        inject: ``N`` cycle in which the head left the source queue; -1 if it did not.
        head_arrive: ``N`` cycle in which the head left the network.
        arrive: ``N`` cycle in which the tail left the network; -1 if it did not.
        flit_hops: Flits sent by routers, the ejection included.
        cycle: The cycle after the last one simulated.
        status: `FINISHED`, `CUT_SHORT` (limit reached) or `STUCK` (nothing can move).
    """

    inject: IntArray
    head_arrive: IntArray
    arrive: IntArray
    flit_hops: int
    cycle: int
    status: int


@njit_plain
def first_from(mask: int, start: int, size: int) -> int:
    """The first set bit at or after `start`, going round; the mask is not empty."""
    for i in range(start, size):
        if (mask >> i) & 1:
            return i
    for i in range(start):
        if (mask >> i) & 1:
            return i
    return -1


@njit
def queue_by_source(source: IntArray, nodes: int) -> tuple[IntArray, IntArray]:
    """Packets of each source, in order: those of node r are ``queue[first[r] : first[r + 1]]``."""
    first = np.zeros(nodes + 1, np.int64)
    for i in range(source.shape[0]):
        first[source[i] + 1] += 1
    for r in range(nodes):
        first[r + 1] += first[r]
    queue = np.zeros(source.shape[0], np.int64)
    fill = first[:-1].copy()
    for i in range(source.shape[0]):
        r = source[i]
        queue[fill[r]] = i
        fill[r] += 1
    return first, queue


@njit
def simulate_mesh(
    width: int,
    height: int,
    traffic: Traffic,
    channels: int,
    buffer_flits: int,
    routing_cycles: int,
    speculative: bool,
    credit_cycles: int,
    max_cycles: int,
) -> Delivery:
    """Run packets through a mesh.

    Args:
        width: Nodes along x.
        height: Nodes along y; node = y * width + x.
        traffic: The packets; those of one source in order of creation.
        channels: Virtual channels of each port (at most 12).
        buffer_flits: Flits each of them holds.
        routing_cycles: Cycles of route computation; 0 is look-ahead.
        speculative: Whether heads ask for the switch together with a channel.
        credit_cycles: Cycles a credit takes besides its link.
        max_cycles: Cycle at which to give up.
    """
    nodes = width * height
    n_packets = traffic.created.shape[0]
    created, target, flits = traffic.created, traffic.target, traffic.flits
    inject = np.full(n_packets, -1, np.int64)
    head_arrive = np.full(n_packets, -1, np.int64)
    arrive = np.full(n_packets, -1, np.int64)
    first, queue = queue_by_source(traffic.source, nodes)
    at = first[:-1].copy()
    sent = np.zeros(nodes, np.int64)
    source_vc = np.full(nodes, -1, np.int64)
    source_credit = np.full((nodes, channels), buffer_flits, np.int64)
    n_vc = PORTS * channels
    # input channels: a ring of flits (packet * 4 + head + 2 * tail)
    flit = np.zeros((nodes, n_vc, buffer_flits), np.int64)
    start = np.zeros((nodes, n_vc), np.int64)
    held = np.zeros((nodes, n_vc), np.int64)
    occupied = np.zeros(nodes, np.int64)
    state = np.zeros((nodes, n_vc), np.int64)
    since = np.zeros((nodes, n_vc), np.int64)
    out_port = np.zeros((nodes, n_vc), np.int64)
    out_vc = np.zeros((nodes, n_vc), np.int64)
    # output channels
    credit = np.full((nodes, n_vc), buffer_flits, np.int64)
    taken = np.zeros((nodes, n_vc), np.int64)
    va_grant = np.zeros((nodes, n_vc), np.int64)
    va_accept = np.zeros((nodes, n_vc), np.int64)
    sa_grant = np.zeros((nodes, PORTS), np.int64)
    sa_accept = np.zeros((nodes, PORTS), np.int64)
    sa_vc = np.zeros((nodes, PORTS), np.int64)
    # what comes later: events by cycle
    room = nodes * PORTS * 3
    ring = _RING + credit_cycles
    event = np.zeros((ring, room, 4), np.int64)
    events = np.zeros(ring, np.int64)
    pending = 0
    in_network = 0
    delivered = 0
    flit_hops = 0
    quiet = 0
    asks = np.zeros(PORTS, np.int64)
    granted = np.zeros(n_vc, np.int64)
    candidate = np.zeros((PORTS, PORTS), np.int64)
    won = np.full(n_vc, -1, np.int64)
    t = 0
    status = FINISHED
    while delivered < n_packets:
        if t >= max_cycles:
            status = CUT_SHORT
            break
        moved = False
        slot = t % ring
        # ---- arrivals and credits ------------------------------------------------------------------------------------
        for e in range(events[slot]):
            what, r, i, f = event[slot, e, 0], event[slot, e, 1], event[slot, e, 2], event[slot, e, 3]
            if what == _ARRIVE:
                flit[r, i, (start[r, i] + held[r, i]) % buffer_flits] = f
                held[r, i] += 1
                occupied[r] |= 1 << i
            elif what == _CREDIT_ROUTER:
                credit[r, i] += 1
            else:
                source_credit[r, i] += 1
        pending -= events[slot]
        moved = events[slot] > 0
        events[slot] = 0
        # ---- sources ---------------------------------------------------------------------------------------------------
        waiting = False
        for r in range(nodes):
            if at[r] == first[r + 1]:
                continue
            p = queue[at[r]]
            if created[p] > t:
                continue
            waiting = True
            if sent[r] == 0:
                chosen = -1
                for step in range(1, channels + 1):
                    v = (source_vc[r] + step) % channels
                    if source_credit[r, v] > 0:
                        chosen = v
                        break
                if chosen < 0:
                    continue
                source_vc[r] = chosen
                inject[p] = t
            v = source_vc[r]
            if source_credit[r, v] == 0:
                continue
            source_credit[r, v] -= 1
            tail = sent[r] + 1 == flits[p]
            later = (t + _INJECTION) % ring
            row = events[later]
            event[later, row, 0] = _ARRIVE
            event[later, row, 1] = r
            event[later, row, 2] = LOCAL * channels + v
            event[later, row, 3] = p * 4 + (1 if sent[r] == 0 else 0) + (2 if tail else 0)
            events[later] += 1
            pending += 1
            in_network += 1
            moved = True
            sent[r] += 1
            if tail:
                sent[r] = 0
                at[r] += 1
        # ---- routers ---------------------------------------------------------------------------------------------------
        for r in range(nodes):
            mask = occupied[r]
            if mask == 0:
                continue
            for o in range(PORTS):
                asks[o] = 0
                for p in range(PORTS):
                    candidate[p, o] = -1
            any_ask = False
            sending = 0  # bit p * 5 + o where a channel of input p may send to output o
            for i in range(n_vc):
                if (mask >> i) & 1 == 0:
                    continue
                if state[r, i] == _EMPTY:
                    f = flit[r, i, start[r, i]]
                    state[r, i] = _ROUTED
                    since[r, i] = t
                    out_port[r, i] = route(r, target[f // 4], width)
                if state[r, i] == _ROUTED and t >= since[r, i] + routing_cycles:
                    asks[out_port[r, i]] |= 1 << i
                    any_ask = True
            # ---- switch requests: first at or after the input's pointer, the certain before the speculative ----
            for p in range(PORTS):
                if (mask >> (p * channels)) & ((1 << channels) - 1) == 0:
                    continue
                for step in range(channels):
                    i = p * channels + (sa_vc[r, p] + step) % channels
                    if (mask >> i) & 1 == 0 or state[r, i] != _ACTIVE:
                        continue
                    o = out_port[r, i]
                    if candidate[p, o] < 0 and credit[r, out_vc[r, i]] > 0:
                        candidate[p, o] = i
                        sending |= 1 << (o * PORTS + p)
                if speculative and any_ask:
                    for step in range(channels):
                        i = p * channels + (sa_vc[r, p] + step) % channels
                        if (mask >> i) & 1 == 0 or state[r, i] != _ROUTED:
                            continue
                        o = out_port[r, i]
                        if (asks[o] >> i) & 1 == 0 or candidate[p, o] >= 0:
                            continue
                        for v in range(o * channels, (o + 1) * channels):
                            if taken[r, v] == 0 and credit[r, v] > 0:
                                candidate[p, o] = i
                                sending |= 1 << (o * PORTS + p)
                                break
            # ---- channels: iSLIP, one iteration, over output channels and input channels ----
            touched = 0
            if any_ask:
                for o in range(PORTS):
                    if asks[o] == 0:
                        continue
                    for v in range(o * channels, (o + 1) * channels):
                        if taken[r, v] == 0:
                            i = first_from(asks[o], va_grant[r, v], n_vc)
                            if (touched >> i) & 1 == 0:
                                granted[i] = 0
                                touched |= 1 << i
                            granted[i] |= 1 << v
                for i in range(n_vc):
                    if (touched >> i) & 1:
                        v = first_from(granted[i], va_accept[r, i], n_vc)
                        va_grant[r, v] = (i + 1) % n_vc
                        va_accept[r, i] = (v + 1) % n_vc
                        won[i] = v
            # ---- switch: iSLIP, one iteration, over ports ----
            if sending != 0:
                offers = 0  # bit p * 5 + o
                for o in range(PORTS):
                    those = (sending >> (o * PORTS)) & 31
                    if those:
                        p = first_from(those, sa_grant[r, o], PORTS)
                        offers |= 1 << (p * PORTS + o)
                for p in range(PORTS):
                    those = (offers >> (p * PORTS)) & 31
                    if those == 0:
                        continue
                    o = first_from(those, sa_accept[r, p], PORTS)
                    i = candidate[p, o]
                    sa_grant[r, o] = (p + 1) % PORTS
                    sa_accept[r, p] = (o + 1) % PORTS
                    sa_vc[r, p] = (i % channels + 1) % channels
                    if state[r, i] == _ACTIVE:
                        v = out_vc[r, i]
                    else:
                        if (touched >> i) & 1 == 0 or credit[r, won[i]] == 0:
                            continue
                        v = won[i]
                    f = flit[r, i, start[r, i]]
                    start[r, i] = (start[r, i] + 1) % buffer_flits
                    held[r, i] -= 1
                    if held[r, i] == 0:
                        occupied[r] &= ~(1 << i)
                    credit[r, v] -= 1
                    flit_hops += 1
                    moved = True
                    if f & 2:
                        # the tail: the input channel takes its next packet, the output channel is free from the next cycle on
                        state[r, i] = _EMPTY
                        taken[r, v] = 0
                        touched &= ~(1 << i)  # a speculative packet of one flit: channel won and given up at once
                    if o == LOCAL:
                        packet = f // 4
                        if f & 1:
                            head_arrive[packet] = t + _FLIGHT
                        if f & 2:
                            arrive[packet] = t + _FLIGHT
                            delivered += 1
                        in_network -= 1
                        later = (t + _FLIGHT + _CREDIT) % ring
                        row = events[later]
                        event[later, row, 0] = _CREDIT_ROUTER
                        event[later, row, 1] = r
                        event[later, row, 2] = v
                        events[later] += 1
                        pending += 1
                    else:
                        later = (t + _FLIGHT) % ring
                        row = events[later]
                        event[later, row, 0] = _ARRIVE
                        event[later, row, 1] = neighbour(r, o, width)
                        event[later, row, 2] = (o ^ 1) * channels + v % channels
                        event[later, row, 3] = f
                        events[later] += 1
                        pending += 1
                    if p == LOCAL:
                        later = (t + _CREDIT) % ring
                        row = events[later]
                        event[later, row, 0] = _CREDIT_SOURCE
                        event[later, row, 1] = r
                        event[later, row, 2] = i % channels
                    else:
                        later = (t + _CREDIT + credit_cycles) % ring
                        row = events[later]
                        event[later, row, 0] = _CREDIT_ROUTER
                        event[later, row, 1] = neighbour(r, p, width)
                        event[later, row, 2] = (p ^ 1) * channels + i % channels
                    events[later] += 1
                    pending += 1
            # ---- channels won take effect from the next cycle on ----
            if touched:
                moved = True
                for i in range(n_vc):
                    if (touched >> i) & 1:
                        state[r, i] = _ACTIVE
                        out_vc[r, i] = won[i]
                        taken[r, won[i]] = 1
        # ---- the next cycle ---------------------------------------------------------------------------------------------
        if in_network == 0 and pending == 0 and not waiting:
            upcoming = max_cycles
            for r in range(nodes):
                if at[r] < first[r + 1]:
                    upcoming = min(upcoming, created[queue[at[r]]])
            t = max(t + 1, upcoming)
            continue
        quiet = 0 if moved else quiet + 1
        if quiet > 16 + routing_cycles + credit_cycles:
            status = STUCK
            break
        t += 1
    return Delivery(inject, head_arrive, arrive, flit_hops, t, status)
