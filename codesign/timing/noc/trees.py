"""The routers of `codesign.timing.noc.router` with packets that branch, and packets that wait for others.

A packet follows a tree: at every node a set of output ports. Each branch has a channel and a place in the buffer of its own, so
one that is blocked holds up no other (rules M10-M13 in docs/explanation/dram-and-mesh.md); a flit leaves its buffer with
its last branch. One input sends one flit a cycle, to as many outputs as grant it. On unicast traffic every arrival equals
the other function's, which equals the recorded ones (tests/unit/timing/test_mesh_trees.py).

Traffic that repeats in rounds is skipped: when the whole state, packets renumbered, equals that of an earlier round, the
rounds between repeat until the traffic ends.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.cost.mesh import LOCAL, PORTS, neighbour
from codesign.mapping.nest import IntArray
from codesign.timing.noc.router import CUT_SHORT, FINISHED, STUCK, first_from, queue_by_source

_FLIGHT, _INJECTION, _CREDIT, _RING = 3, 2, 2, 8
_ARRIVE, _CREDIT_ROUTER, _CREDIT_SOURCE = 0, 1, 2
_NO_BRANCH, _ROUTED, _ACTIVE, _SENT = 0, 1, 2, 3


class TreeTraffic(NamedTuple):
    """Packets on trees; those of one source are sent in the order of the list.

    Attributes:
        created: ``N`` cycle before which each is not there.
        source: ``N`` node.
        flits: ``N`` length.
        tree: ``N`` its tree.
        ports: ``K x nodes`` output ports of each tree at each node, as bits.
        waits: ``N`` packets that must have arrived before.
        follower: ``N`` the packet that waits for it; -1 is none.
        add_cycles: From the arrival of the last packet waited for to the follower's creation.
        round_packets: Packets of a round; packet i of every round is like packet i of the first. 0: nothing repeats.
        rounds: Whole rounds at the front of the list.
    """

    created: IntArray
    source: IntArray
    flits: IntArray
    tree: IntArray
    ports: IntArray
    waits: IntArray
    follower: IntArray
    add_cycles: int
    round_packets: int
    rounds: int


class TreeDelivery(NamedTuple):
    """What became of the packets.

    Attributes:
        arrive: ``N`` cycle in which the last branch's tail left the network; -1 for packets that were skipped or are left.
        last_arrival: The latest of all, skipped ones included.
        flit_hops: Flits sent by routers, ejections included, skipped ones too.
        simulated_hops: Those simulated.
        cycle: The cycle after the last one.
        status: `FINISHED`, `CUT_SHORT` or `STUCK`.
        blocked: ``B x 4`` of a stuck network: packet, node, port it asks for (-1: it waits for other packets at its
            source), packet that holds the way (-1: none).
    """

    arrive: IntArray
    last_arrival: int
    flit_hops: int
    simulated_hops: int
    cycle: int
    status: int
    blocked: IntArray


@njit
def simulate_trees(
    width: int,
    nodes: int,
    traffic: TreeTraffic,
    channels: int,
    buffer_flits: int,
    routing_cycles: int,
    speculative: bool,
    credit_cycles: int,
    max_cycles: int,
) -> TreeDelivery:
    """Run packets on trees through a mesh; parameters as in `codesign.timing.noc.router.simulate_mesh`."""
    n_packets = traffic.created.shape[0]
    created, flits, waits = traffic.created.copy(), traffic.flits, traffic.waits.copy()
    arrive = np.full(n_packets, -1, np.int64)
    leaves = np.zeros(traffic.ports.shape[0], np.int64)
    for k in range(traffic.ports.shape[0]):
        for r in range(nodes):
            leaves[k] += (traffic.ports[k, r] >> LOCAL) & 1
    remaining = np.zeros(n_packets, np.int64)
    for i in range(n_packets):
        remaining[i] = leaves[traffic.tree[i]]
    a_round = np.zeros(nodes, np.int64)
    for i in range(min(n_packets, traffic.round_packets)):
        a_round[traffic.source[i]] += 1
    first, queue = queue_by_source(traffic.source, nodes)
    at = first[:-1].copy()
    sent = np.zeros(nodes, np.int64)
    source_vc = np.full(nodes, -1, np.int64)
    source_credit = np.full((nodes, channels), buffer_flits, np.int64)
    n_vc = PORTS * channels
    flit = np.zeros((nodes, n_vc, buffer_flits), np.int64)
    start = np.zeros((nodes, n_vc), np.int64)
    held = np.zeros((nodes, n_vc), np.int64)
    occupied = np.zeros(nodes, np.int64)
    front = np.full((nodes, n_vc), -1, np.int64)
    gone = np.zeros((nodes, n_vc), np.int64)
    since = np.zeros((nodes, n_vc), np.int64)
    branch = np.zeros((nodes, n_vc, PORTS), np.int64)
    branch_vc = np.zeros((nodes, n_vc, PORTS), np.int64)
    branch_sent = np.zeros((nodes, n_vc, PORTS), np.int64)
    credit = np.full((nodes, n_vc), buffer_flits, np.int64)
    taken = np.full((nodes, n_vc), -1, np.int64)
    va_grant = np.zeros((nodes, n_vc), np.int64)
    va_accept = np.zeros((nodes, n_vc), np.int64)
    sa_grant = np.zeros((nodes, PORTS), np.int64)
    sa_accept = np.zeros((nodes, PORTS), np.int64)
    sa_vc = np.zeros((nodes, PORTS), np.int64)
    room = nodes * PORTS * 4
    ring = _RING + credit_cycles
    event = np.zeros((ring, room, 4), np.int64)
    events = np.zeros(ring, np.int64)
    pending, in_network, delivered, flit_hops, skipped_hops, quiet = 0, 0, 0, 0, 0, 0
    last_arrival, touched_high = 0, 0
    asks = np.zeros(PORTS, np.int64)
    granted = np.zeros((n_vc, PORTS), np.int64)
    touched = np.zeros(PORTS, np.int64)
    candidate = np.zeros((PORTS, PORTS), np.int64)
    won = np.full((n_vc, PORTS), -1, np.int64)
    accepted = np.zeros(PORTS, np.int64)
    # ---- rounds ----------------------------------------------------------------------------------------------------------
    leader = -1
    if traffic.rounds >= 4:
        for r in range(nodes):
            if a_round[r] > 0 and (leader < 0 or a_round[r] > a_round[leader]):
                leader = r
    snap_round, snap_time, snap_hops = -1, 0, 0
    snap = np.zeros(0, np.int64)
    t = 0
    status = FINISHED
    while delivered < n_packets:
        if t >= max_cycles:
            status = CUT_SHORT
            break
        slot = t % ring
        moved = events[slot] > 0
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
        events[slot] = 0
        # ---- sources -------------------------------------------------------------------------------------------------------
        waiting, round_done = False, False
        for r in range(nodes):
            if at[r] == first[r + 1]:
                continue
            p = queue[at[r]]
            if waits[p] > 0 or created[p] > t:
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
                touched_high = max(touched_high, p)
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
            event[later, row, 3] = p
            events[later] += 1
            pending += 1
            in_network += 1
            moved = True
            sent[r] += 1
            if tail:
                sent[r] = 0
                at[r] += 1
                if r == leader and (at[r] - first[r]) % a_round[r] == 0:
                    round_done = True
        # ---- routers -------------------------------------------------------------------------------------------------------
        for r in range(nodes):
            mask = occupied[r]
            if mask == 0:
                continue
            for o in range(PORTS):
                asks[o] = 0
                touched[o] = 0
                for p in range(PORTS):
                    candidate[p, o] = -1
            any_ask = False
            sending = 0
            for i in range(n_vc):
                if (mask >> i) & 1 == 0:
                    continue
                if front[r, i] < 0:
                    front[r, i] = flit[r, i, start[r, i]]
                    since[r, i] = t
                    gone[r, i] = 0
                    those = traffic.ports[traffic.tree[front[r, i]], r]
                    for o in range(PORTS):
                        branch[r, i, o] = _ROUTED if (those >> o) & 1 else _NO_BRANCH
                        branch_sent[r, i, o] = 0
                if t >= since[r, i] + routing_cycles:
                    for o in range(PORTS):
                        if branch[r, i, o] == _ROUTED:
                            asks[o] |= 1 << i
                            any_ask = True
            for p in range(PORTS):
                if (mask >> (p * channels)) & ((1 << channels) - 1) == 0:
                    continue
                for step in range(channels):
                    i = p * channels + (sa_vc[r, p] + step) % channels
                    if (mask >> i) & 1 == 0:
                        continue
                    for o in range(PORTS):
                        if branch[r, i, o] != _ACTIVE or candidate[p, o] >= 0:
                            continue
                        if branch_sent[r, i, o] - gone[r, i] < held[r, i] and credit[r, branch_vc[r, i, o]] > 0:
                            candidate[p, o] = i
                            sending |= 1 << (o * PORTS + p)
                if speculative and any_ask:
                    for step in range(channels):
                        i = p * channels + (sa_vc[r, p] + step) % channels
                        if (mask >> i) & 1 == 0:
                            continue
                        for o in range(PORTS):
                            if branch[r, i, o] != _ROUTED or (asks[o] >> i) & 1 == 0 or candidate[p, o] >= 0:
                                continue
                            for v in range(o * channels, (o + 1) * channels):
                                if taken[r, v] < 0 and credit[r, v] > 0:
                                    candidate[p, o] = i
                                    sending |= 1 << (o * PORTS + p)
                                    break
            # ---- channels: as in the unicast router, branch by branch ----
            if any_ask:
                for o in range(PORTS):
                    if asks[o] == 0:
                        continue
                    for v in range(o * channels, (o + 1) * channels):
                        if taken[r, v] < 0:
                            i = first_from(asks[o], va_grant[r, v], n_vc)
                            if (touched[o] >> i) & 1 == 0:
                                granted[i, o] = 0
                                touched[o] |= 1 << i
                            granted[i, o] |= 1 << v
                for i in range(n_vc):
                    for o in range(PORTS):
                        if (touched[o] >> i) & 1:
                            v = first_from(granted[i, o], va_accept[r, i], n_vc)
                            va_grant[r, v] = (i + 1) % n_vc
                            va_accept[r, i] = (v + 1) % n_vc
                            won[i, o] = v
            # ---- switch: an input sends one flit, to every output that grants it that flit ----
            if sending != 0:
                offers = 0
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
                    count = 1
                    accepted[0] = o
                    for other in range(PORTS):
                        offered = other != o and (those >> other) & 1 == 1 and candidate[p, other] == i
                        if offered and branch_sent[r, i, other] == branch_sent[r, i, o]:
                            accepted[count] = other
                            count += 1
                    sa_accept[r, p] = (o + 1) % PORTS
                    sa_vc[r, p] = (i % channels + 1) % channels
                    packet = front[r, i]
                    for a in range(count):
                        o = accepted[a]
                        sa_grant[r, o] = (p + 1) % PORTS
                        if branch[r, i, o] == _ACTIVE:
                            v = branch_vc[r, i, o]
                        else:
                            if (touched[o] >> i) & 1 == 0 or credit[r, won[i, o]] == 0:
                                continue
                            v = won[i, o]
                        credit[r, v] -= 1
                        flit_hops += 1
                        moved = True
                        branch_sent[r, i, o] += 1
                        tail = branch_sent[r, i, o] == flits[packet]
                        if tail:
                            branch[r, i, o] = _SENT
                            taken[r, v] = -1
                            touched[o] &= ~(1 << i)
                        if o == LOCAL:
                            if tail:
                                remaining[packet] -= 1
                                arrive[packet] = max(arrive[packet], t + _FLIGHT)
                                last_arrival = max(last_arrival, t + _FLIGHT)
                                if remaining[packet] == 0:
                                    delivered += 1
                                    after = traffic.follower[packet]
                                    if after >= 0:
                                        waits[after] -= 1
                                        created[after] = max(created[after], arrive[packet] + 1 + traffic.add_cycles)
                                        touched_high = max(touched_high, after)
                            later = (t + _FLIGHT + _CREDIT) % ring
                            row = events[later]
                            event[later, row, 0] = _CREDIT_ROUTER
                            event[later, row, 1] = r
                            event[later, row, 2] = v
                        else:
                            in_network += 1
                            later = (t + _FLIGHT) % ring
                            row = events[later]
                            event[later, row, 0] = _ARRIVE
                            event[later, row, 1] = neighbour(r, o, width)
                            event[later, row, 2] = (o ^ 1) * channels + v % channels
                            event[later, row, 3] = packet
                        events[later] += 1
                        pending += 1
                    # ---- a flit that every branch has sent leaves its buffer ----
                    least, finished = flits[packet], True
                    for o in range(PORTS):
                        if branch[r, i, o] != _NO_BRANCH:
                            least = min(least, branch_sent[r, i, o])
                            finished = finished and branch[r, i, o] == _SENT
                    while gone[r, i] < least:
                        gone[r, i] += 1
                        start[r, i] = (start[r, i] + 1) % buffer_flits
                        held[r, i] -= 1
                        in_network -= 1
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
                    if held[r, i] == 0:
                        occupied[r] &= ~(1 << i)
                    if finished:
                        front[r, i] = -1
            for o in range(PORTS):
                if touched[o]:
                    moved = True
                    for i in range(n_vc):
                        if (touched[o] >> i) & 1:
                            branch[r, i, o] = _ACTIVE
                            branch_vc[r, i, o] = won[i, o]
                            taken[r, won[i, o]] = front[r, i]
        # ---- has this state been seen at the end of an earlier round? -------------------------------------------------------
        if round_done:
            q = (at[leader] - first[leader]) // a_round[leader]
            base = q * traffic.round_packets
            power = q & (q - 1) == 0
            if q < traffic.rounds and (power or snap_round > 0):
                low = touched_high
                for p in range(max(0, base - 64 * traffic.round_packets), touched_high + 1):
                    if remaining[p] > 0:
                        low = p
                        break
                state = _state(
                    t, ring, base, q, low, touched_high, a_round, first, at, sent, source_vc, source_credit, flit, start,
                    held, front, gone, since, branch, branch_vc, branch_sent, credit, taken, va_grant, va_accept, sa_grant,
                    sa_accept, sa_vc, event, events, waits, remaining, created, routing_cycles, buffer_flits,
                )  # fmt: skip
                if snap_round > 0 and state.shape[0] == snap.shape[0] and (state == snap).all():
                    period, delta = q - snap_round, t - snap_time
                    furthest = q
                    for r in range(nodes):
                        if a_round[r] > 0:
                            furthest = max(furthest, -(-(at[r] - first[r] + 1) // a_round[r]))
                    furthest = max(furthest, touched_high // traffic.round_packets + 1)
                    times = (traffic.rounds - furthest) // period
                    if times > 0:
                        shift = times * period * traffic.round_packets
                        for p in range(touched_high, low - 1, -1):
                            waits[p + shift] = waits[p]
                            remaining[p + shift] = remaining[p]
                            created[p + shift] = created[p] + times * delta
                        for p in range(low, min(low + shift, touched_high + 1)):
                            remaining[p] = 0
                        for r in range(nodes):
                            at[r] += times * period * a_round[r]
                            for i in range(n_vc):
                                since[r, i] += times * delta
                                if front[r, i] >= 0:
                                    front[r, i] += shift
                                if taken[r, i] >= 0:
                                    taken[r, i] += shift
                                for b in range(buffer_flits):
                                    flit[r, i, b] += shift
                        _turn(event, events, ring, (times * delta) % ring, shift)
                        hops = times * (flit_hops - snap_hops)
                        flit_hops += hops
                        skipped_hops += hops
                        delivered += shift
                        touched_high += shift
                        last_arrival += times * delta
                        t += times * delta
                        leader = -1
                        moved = True
                if power:
                    snap = state
                    snap_round, snap_time, snap_hops = q, t, flit_hops
        # ---- the next cycle ---------------------------------------------------------------------------------------------------
        if in_network == 0 and pending == 0 and not waiting:
            upcoming = max_cycles
            for r in range(nodes):
                if at[r] < first[r + 1] and waits[queue[at[r]]] == 0:
                    upcoming = min(upcoming, created[queue[at[r]]])
            if upcoming == max_cycles and delivered < n_packets:
                status = STUCK
                break
            t = max(t + 1, upcoming)
            continue
        quiet = 0 if moved else quiet + 1
        if quiet > 16 + routing_cycles + credit_cycles:
            status = STUCK
            break
        t += 1
    blocked = np.zeros((0, 4), np.int64)
    if status == STUCK:
        blocked = _blocked(
            nodes, channels, traffic, first, at, queue, sent, waits, remaining, front, branch, taken, source_vc
        )
    return TreeDelivery(arrive, last_arrival, flit_hops, flit_hops - skipped_hops, t, status, blocked)


@njit
def _state(
    t: int, ring: int, base: int, q: int, low: int, high: int, a_round: IntArray, first: IntArray, at: IntArray,
    sent: IntArray, source_vc: IntArray, source_credit: IntArray, flit: IntArray, start: IntArray, held: IntArray,
    front: IntArray, gone: IntArray, since: IntArray, branch: IntArray, branch_vc: IntArray, branch_sent: IntArray,
    credit: IntArray, taken: IntArray, va_grant: IntArray, va_accept: IntArray, sa_grant: IntArray, sa_accept: IntArray,
    sa_vc: IntArray, event: IntArray, events: IntArray, waits: IntArray, remaining: IntArray, created: IntArray,
    routing_cycles: int, buffer_flits: int,
) -> IntArray:  # fmt: skip
    """Everything that decides what happens next, packets counted from the round's first, times from now."""
    nodes, n_vc = start.shape
    ports = branch.shape[2]
    n_events = 0
    for s in range(ring):
        n_events += events[s]
    cells = 0
    for r in range(nodes):
        for i in range(n_vc):
            cells += held[r, i]
    channels = source_credit.shape[1]
    size = nodes * (3 + channels + 2 * ports + ports) + nodes * n_vc * (7 + 3 * ports) + cells
    size += ring + 4 * n_events + 3 * max(0, high - low + 1) + 2
    out = np.zeros(size, np.int64)
    k = 0
    for r in range(nodes):
        out[k] = at[r] - first[r] - q * a_round[r]
        out[k + 1] = sent[r]
        out[k + 2] = source_vc[r]
        k += 3
        for v in range(channels):
            out[k] = source_credit[r, v]
            k += 1
        for o in range(ports):
            out[k] = sa_grant[r, o]
            out[k + 1] = sa_accept[r, o]
            out[k + 2] = sa_vc[r, o]
            k += 3
        for i in range(n_vc):
            out[k] = held[r, i]
            out[k + 1] = front[r, i] - base if front[r, i] >= 0 else -(1 << 40)
            out[k + 2] = taken[r, i] - base if taken[r, i] >= 0 else -(1 << 40)
            out[k + 3] = credit[r, i]
            out[k + 4] = va_grant[r, i]
            out[k + 5] = va_accept[r, i]
            k += 6
            if front[r, i] >= 0:
                out[k] = (
                    gone[r, i] + 100 * max(t - since[r, i] - routing_cycles - 2, -routing_cycles - 3)
                    if (t - since[r, i] <= routing_cycles + 2)
                    else gone[r, i]
                )
                for o in range(ports):
                    out[k + 1 + 3 * o] = branch[r, i, o]
                    if branch[r, i, o] != _NO_BRANCH:
                        out[k + 2 + 3 * o] = branch_sent[r, i, o]
                    if branch[r, i, o] == _ACTIVE:
                        out[k + 3 + 3 * o] = branch_vc[r, i, o]
            k += 1 + 3 * ports
            for b in range(held[r, i]):
                out[k] = flit[r, i, (start[r, i] + b) % buffer_flits] - base
                k += 1
    for s in range(ring):
        slot = (t + s) % ring
        out[k] = events[slot]
        k += 1
        for e in range(events[slot]):
            what = event[slot, e, 0]
            out[k], out[k + 1], out[k + 2] = what, event[slot, e, 1], event[slot, e, 2]
            out[k + 3] = event[slot, e, 3] - base if what == _ARRIVE else 0
            k += 4
    out[k], out[k + 1] = low - base, high - base
    k += 2
    for p in range(low, high + 1):
        out[k], out[k + 1] = waits[p], remaining[p]
        out[k + 2] = max(created[p] - t, 0)
        k += 3
    return out[:k]


@njit
def _turn(event: IntArray, events: IntArray, ring: int, by: int, shift: int) -> None:
    """Move the events of every slot on by `by` slots, and their packets by `shift`."""
    old, old_counts = event.copy(), events.copy()
    for s in range(ring):
        to = (s + by) % ring
        events[to] = old_counts[s]
        for e in range(old_counts[s]):
            for c in range(4):
                event[to, e, c] = old[s, e, c]
            if old[s, e, 0] == _ARRIVE:
                event[to, e, 3] += shift


@njit
def _blocked(
    nodes: int, channels: int, traffic: TreeTraffic, first: IntArray, at: IntArray, queue: IntArray, sent: IntArray,
    waits: IntArray, remaining: IntArray, front: IntArray, branch: IntArray, taken: IntArray, source_vc: IntArray,
) -> IntArray:  # fmt: skip
    """Who waits for whom when nothing moves."""
    n_vc = front.shape[1]
    out = np.zeros((nodes * n_vc * PORTS * channels + traffic.created.shape[0], 4), np.int64)
    k = 0
    for r in range(nodes):
        for i in range(n_vc):
            if front[r, i] < 0:
                continue
            for o in range(PORTS):
                if branch[r, i, o] == _ROUTED:
                    for v in range(o * channels, (o + 1) * channels):
                        out[k, 0], out[k, 1], out[k, 2], out[k, 3] = front[r, i], r, o, taken[r, v]
                        k += 1
    for p in range(traffic.created.shape[0]):
        after = traffic.follower[p]
        if remaining[p] > 0 and after >= 0 and k < out.shape[0]:
            out[k, 0], out[k, 1], out[k, 2], out[k, 3] = after, traffic.source[after], -1, p
            k += 1
    return out[:k]
