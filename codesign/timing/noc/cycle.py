"""The phases of one cycle of a network of routers, in their order.

Events arrive, sources inject, then router by router: heads are routed and ask for channels, channels ask for the switch,
channels are allocated, flits cross the switch, channels that were won are taken. The rules:

* M1: A flit that leaves the source in cycle t is in its router in t + 2. One that wins the switch in s is in the next
  buffer, or ejected, in s + 3.
* M2: A head at the front in x is routed in x, asks for an output channel from x + ``routing_cycles``, and for the
  switch one cycle later. A speculative router asks for both at once.
* M3: A freed slot is a credit two cycles after the switch win; an ejected flit's slot two cycles after the ejection.
* M4: An output channel is taken when won and free in the cycle after the tail has won the switch. It needs no credit;
  the switch does.
* M5: Channels: iSLIP, one iteration, between input and output channels. Pointers move on acceptance.
* M6: Switch: iSLIP, one iteration, between ports. An input is represented by its first channel at or after its
  pointer, certain requests first. A speculative win counts only with a channel and a credit.
* M7: A source takes, for each packet, the first channel after its last one that has credit. It sends one flit a
  cycle.
* M8: Zero load: ``2 + (D + 1)(H + 1) + F - 1 + max(0, 5 + credit - B) floor((F - 1) / B)`` cycles for F flits over H
  links, D pipeline cycles, buffers of B flits.
* M9: No run ends before its latest zero-load arrival, nor before any link or port has passed its flits.
* M10: A packet asks at every node for all ports of its tree there. Each branch has an output channel, and a place in
  the buffer, of its own.
* M11: An input sends one flit a cycle, to every output that grants it that flit. A flit leaves its buffer with its
  last branch.
* M12: With trees, ``packet_flits`` is at most ``buffer_flits``.
* M13: A packet with one target is a tree with one branch at every node, with the recorded arrivals.
* M14: A link that is slower than the routers takes a flit when its period is over; periods count in 64ths of a cycle.
* M15: With two classes of channels, the lower half of a port's is for early packets and the upper half for late ones, but
  at the node's own port. A tree says at every port which it is.
* M16: A long link takes its delay more for a flit, and for a credit back.
"""

from codesign.core.jit import njit_inline
from codesign.cost.mesh import LOCAL
from codesign.timing.noc.state import (
    ACTIVE,
    ARRIVE,
    AT,
    BACK,
    BRANCH_SENT,
    BRANCH_VC,
    CREDIT,
    CREDIT_RETURN,
    CREDIT_ROUTER,
    CREDIT_SOURCE,
    DELAY,
    DELIVERED,
    FLIGHT,
    FLIT,
    FLIT_HOPS,
    FREE_AT,
    GONE,
    HELD,
    HIGHEST,
    HOLDER,
    IN_NETWORK,
    INJECTION,
    LAST_ARRIVAL,
    LATE,
    LATE_PORTS,
    LINK_TICKS,
    MOVED,
    NOBODY,
    NODE,
    PACKET,
    PENDING,
    PERIOD,
    ROUND_DONE,
    ROUTED,
    SENT,
    SINCE,
    SOURCE_VC,
    START,
    SWITCH_ACCEPT,
    SWITCH_GRANT,
    SWITCH_VC,
    TO,
    VC,
    VC_ACCEPT,
    VC_GRANT,
    WAITING,
    WHAT,
    Network,
    Packets,
    Requests,
    Routers,
    TreeTraffic,
    first_from,
    lowest,
)

_ROUTED_PORTS = (1 << LATE_PORTS) - 1


@njit_inline
def deliver_events(routers: Routers, network: Network, t: int) -> None:
    """Flits that reach a buffer in cycle t, credits that reach a router or a source."""
    slot = t & (network.events.shape[0] - 1)
    count = network.events[slot]
    for e in range(count):
        what, r, i = network.event[slot, e, WHAT], network.event[slot, e, NODE], network.event[slot, e, VC]
        if what == ARRIVE:
            end = network.input[r, i, START] + network.input[r, i, HELD]
            if end >= routers.buffer_flits:
                end -= routers.buffer_flits
            network.flit[r, i, end] = network.event[slot, e, FLIT]
            network.input[r, i, HELD] += 1
            network.occupied[r] |= 1 << i
        elif what == CREDIT_ROUTER:
            network.output[r, i, CREDIT] += 1
        else:
            network.source_credit[r, i] += 1
    network.totals[PENDING] -= count
    network.totals[MOVED] = 1 if count > 0 else 0
    network.events[slot] = 0


@njit_inline
def _post(network: Network, t: int, what: int, node: int, channel: int, packet: int) -> None:
    """Let something happen in cycle t."""
    slot = t & (network.events.shape[0] - 1)
    row = network.events[slot]
    network.event[slot, row, WHAT] = what
    network.event[slot, row, NODE] = node
    network.event[slot, row, VC] = channel
    network.event[slot, row, FLIT] = packet
    network.events[slot] = row + 1
    network.totals[PENDING] += 1


@njit_inline
def next_packet(packets: Packets, network: Network, r: int, t: int) -> int:
    """The packet that a source is to send in cycle t, -1 for none."""
    at = network.source[r, AT]
    if at == network.first[r + 1]:
        return NOBODY
    packet = network.queue[at]
    return NOBODY if packets.waits[packet] > 0 or packets.created[packet] > t else packet


@njit_inline
def inject(
    routers: Routers, traffic: TreeTraffic, packets: Packets, network: Network, t: int, leader: int, round_size: int
) -> None:
    """One flit from every source that has a packet and a credit (M1, M7).

    `leader` is the source whose every `round_size`-th packet ends a round.
    """
    totals = network.totals
    totals[WAITING], totals[ROUND_DONE] = 0, 0
    for r in range(routers.nodes):
        packet = next_packet(packets, network, r, t)
        if packet < 0:
            continue
        totals[WAITING] = 1
        sent = network.source[r, SENT]
        if sent == 0 and not _take_source_channel(routers, packets, network, r, packet, t):
            continue
        v = network.source[r, SOURCE_VC]
        if network.source_credit[r, v] == 0:
            continue
        network.source_credit[r, v] -= 1
        _post(network, t + INJECTION, ARRIVE, r, LOCAL * routers.channels + v, packet)
        totals[IN_NETWORK] += 1
        totals[MOVED] = 1
        network.source[r, SENT] = sent + 1
        if sent + 1 == traffic.flits[packet]:
            at = network.source[r, AT]
            network.source[r, SENT] = 0
            network.source[r, AT] = at + 1
            if r == leader and (at + 1 - network.first[r]) % round_size == 0:
                totals[ROUND_DONE] = 1


@njit_inline
def _take_source_channel(routers: Routers, packets: Packets, network: Network, r: int, packet: int, t: int) -> bool:
    """The first channel with credit after the last one, for the head of a packet; whether there is one (M7)."""
    v = network.source[r, SOURCE_VC]
    for _ in range(routers.channels):
        v = v + 1 if v + 1 < routers.channels else 0
        if network.source_credit[r, v] > 0:
            network.source[r, SOURCE_VC] = v
            packets.inject[packet] = t
            network.totals[HIGHEST] = max(network.totals[HIGHEST], packet)
            return True
    return False


@njit_inline
def route_and_ask(routers: Routers, traffic: TreeTraffic, network: Network, requests: Requests, r: int, t: int) -> bool:
    """Packets that come to the front get their ports; those that are routed ask for channels (M2, M10); whether any asks."""
    for o in range(routers.ports):
        requests.asks[o] = 0
        requests.winners[o] = 0
        for p in range(routers.ports):
            requests.candidate[p, o] = NOBODY
    requests.to_send[0] = 0
    any_ask = False
    mask = network.occupied[r]
    while mask:
        i = lowest(mask)
        mask &= mask - 1
        if network.input[r, i, PACKET] < 0:
            _come_to_front(routers, traffic, network, r, i, t)
        if t >= network.input[r, i, SINCE] + routers.routing_cycles:
            ports = network.input[r, i, ROUTED]
            while ports:
                requests.asks[lowest(ports)] |= 1 << i
                any_ask = True
                ports &= ports - 1
    return any_ask


@njit_inline
def _come_to_front(routers: Routers, traffic: TreeTraffic, network: Network, r: int, i: int, t: int) -> None:
    """The packet of the oldest flit of a channel is the one that is served from now on."""
    packet = network.flit[r, i, network.input[r, i, START]]
    network.input[r, i, PACKET] = packet
    network.input[r, i, SINCE] = t
    network.input[r, i, GONE] = 0
    network.input[r, i, ACTIVE] = 0
    ports = traffic.ports[traffic.tree[packet], r]
    network.input[r, i, ROUTED] = ports & _ROUTED_PORTS
    network.input[r, i, LATE] = ports >> LATE_PORTS
    for o in range(routers.ports):
        network.branch[r, i, o, BRANCH_SENT] = 0


@njit_inline
def ask_for_switch(routers: Routers, network: Network, requests: Requests, r: int, any_ask: bool) -> None:
    """The channel that represents each input at each output: the first at or after the input's pointer (M6).

    Channels that hold an output channel come before those that ask for one in this cycle.
    """
    mask = network.occupied[r]
    port_mask = (1 << routers.channels) - 1
    for p in range(routers.ports):
        those = (mask >> (p * routers.channels)) & port_mask
        if those == 0:
            continue
        begin = network.port[r, p, SWITCH_VC]
        turned = ((those | those << routers.channels) >> begin) & port_mask
        certain = turned
        while certain:
            c = begin + lowest(certain)
            certain &= certain - 1
            c = c - routers.channels if c >= routers.channels else c
            _ask_with_channel(routers, network, requests, r, p, p * routers.channels + c)
        if routers.speculative and any_ask:
            while turned:
                c = begin + lowest(turned)
                turned &= turned - 1
                c = c - routers.channels if c >= routers.channels else c
                _ask_on_speculation(routers, network, requests, r, p, p * routers.channels + c)


@njit_inline
def _ask_with_channel(routers: Routers, network: Network, requests: Requests, r: int, p: int, i: int) -> None:
    """Certain requests: a branch with an output channel, a credit of it and a flit that it has not sent."""
    ports = network.input[r, i, ACTIVE]
    there = network.input[r, i, GONE] + network.input[r, i, HELD]
    while ports:
        o = lowest(ports)
        ports &= ports - 1
        if requests.candidate[p, o] >= 0 or network.branch[r, i, o, BRANCH_SENT] >= there:
            continue
        if network.output[r, network.branch[r, i, o, BRANCH_VC], CREDIT] > 0:
            requests.candidate[p, o] = i
            requests.to_send[0] |= 1 << (o * routers.ports + p)


@njit_inline
def _ask_on_speculation(routers: Routers, network: Network, requests: Requests, r: int, p: int, i: int) -> None:
    """Speculative requests: a branch that asks for a channel now, where some channel is free and has credit."""
    ports = network.input[r, i, ROUTED]
    while ports:
        o = lowest(ports)
        ports &= ports - 1
        if (requests.asks[o] >> i) & 1 == 0 or requests.candidate[p, o] >= 0:
            continue
        for v in range(o * routers.channels, (o + 1) * routers.channels):
            if network.output[r, v, HOLDER] < 0 and network.output[r, v, CREDIT] > 0:
                requests.candidate[p, o] = i
                requests.to_send[0] |= 1 << (o * routers.ports + p)
                break


@njit_inline
def _late_ones(network: Network, r: int, o: int, asks: int) -> int:
    """The channels among those that ask for a port whose packets are to take the upper half of its channels (M15)."""
    found = 0
    while asks:
        i = lowest(asks)
        asks &= asks - 1
        found |= ((network.input[r, i, LATE] >> o) & 1) << i
    return found


@njit_inline
def allocate_channels(routers: Routers, network: Network, requests: Requests, r: int) -> None:
    """One iteration of iSLIP between free output channels and the branches that ask (M4, M5)."""
    n_vc = routers.ports * routers.channels
    some = 0
    for o in range(routers.ports):
        asks = requests.asks[o]
        if asks == 0:
            continue
        halves = routers.classes == 2 and o != LOCAL
        late = _late_ones(network, r, o, asks) if halves else 0
        for v in range(o * routers.channels, (o + 1) * routers.channels):
            if halves:
                upper = 2 * (v - o * routers.channels) >= routers.channels
                asks = late if upper else requests.asks[o] & ~late
                if asks == 0:
                    continue
            if network.output[r, v, HOLDER] < 0:
                i = first_from(asks, network.output[r, v, VC_GRANT])
                if (some >> i) & 1 == 0:
                    requests.granted[i] = 0
                    some |= 1 << i
                requests.granted[i] |= 1 << v
    of_port = (1 << routers.channels) - 1
    while some:
        i = lowest(some)
        some &= some - 1
        ports = network.input[r, i, ROUTED]
        while ports:
            o = lowest(ports)
            ports &= ports - 1
            those = requests.granted[i] & (of_port << (o * routers.channels))
            if those:
                v = first_from(those, network.input[r, i, VC_ACCEPT])
                network.output[r, v, VC_GRANT] = i + 1 if i + 1 < n_vc else 0
                network.input[r, i, VC_ACCEPT] = v + 1 if v + 1 < n_vc else 0
                requests.won[i, o] = v
                requests.winners[o] |= 1 << i


@njit_inline
def cross_switch(
    routers: Routers, traffic: TreeTraffic, packets: Packets, network: Network, requests: Requests, r: int, t: int
) -> None:
    """One iteration of iSLIP between ports (M6); an input sends one flit, to every output that grants it (M11).

    A link that is slower than the routers takes no flit before its period is over (M14).
    """
    offers, all_ports = 0, (1 << routers.ports) - 1  # bit p * ports + o
    for o in range(routers.ports):
        those = (requests.to_send[0] >> (o * routers.ports)) & all_ports
        if those and network.link[r, o, FREE_AT] <= t * LINK_TICKS:
            offers |= 1 << (first_from(those, network.port[r, o, SWITCH_GRANT]) * routers.ports + o)
    for p in range(routers.ports):
        those = (offers >> (p * routers.ports)) & all_ports
        if those == 0:
            continue
        o = first_from(those, network.port[r, p, SWITCH_ACCEPT])
        i = requests.candidate[p, o]
        after = i + 1 - p * routers.channels
        network.port[r, p, SWITCH_ACCEPT] = o + 1 if o + 1 < routers.ports else 0
        network.port[r, p, SWITCH_VC] = after if after < routers.channels else 0
        others = _same_flit(network, requests, r, p, i, o, those)
        _send(routers, traffic, packets, network, requests, r, p, i, o, t)
        while others:
            _send(routers, traffic, packets, network, requests, r, p, i, lowest(others), t)
            others &= others - 1
        _leave_buffer(routers, traffic, network, r, p, i, t)


@njit_inline
def _same_flit(network: Network, requests: Requests, r: int, p: int, i: int, o: int, offered: int) -> int:
    """The other outputs among those offered that the same flit of channel i goes to, as bits."""
    found = 0
    others = offered & ~(1 << o)
    while others:
        other = lowest(others)
        others &= others - 1
        same = network.branch[r, i, other, BRANCH_SENT] == network.branch[r, i, o, BRANCH_SENT]
        if same and requests.candidate[p, other] == i:
            found |= 1 << other
    return found


@njit_inline
def _send(
    routers: Routers, traffic: TreeTraffic, packets: Packets, network: Network, requests: Requests, r: int, p: int, i: int,
    o: int, t: int,
) -> None:  # fmt: skip
    """Send a flit of input channel i to output o; a speculative win counts only with a channel and a credit (M6)."""
    network.port[r, o, SWITCH_GRANT] = p + 1 if p + 1 < routers.ports else 0
    if (network.input[r, i, ACTIVE] >> o) & 1:
        v = network.branch[r, i, o, BRANCH_VC]
    else:
        v = requests.won[i, o]
        if (requests.winners[o] >> i) & 1 == 0 or network.output[r, v, CREDIT] == 0:
            return
    packet = network.input[r, i, PACKET]
    network.output[r, v, CREDIT] -= 1
    free = network.link[r, o, FREE_AT]  # what is left of a period within a cycle is kept
    network.link[r, o, FREE_AT] = (free if free > (t - 1) * LINK_TICKS else t * LINK_TICKS) + network.link[r, o, PERIOD]
    network.totals[FLIT_HOPS] += 1
    network.totals[MOVED] = 1
    sent = network.branch[r, i, o, BRANCH_SENT] + 1
    network.branch[r, i, o, BRANCH_SENT] = sent
    tail = sent == traffic.flits[packet]
    if tail:  # the output channel is free from the next cycle on (M4), even if it was won in this one
        network.input[r, i, ACTIVE] &= ~(1 << o)
        network.input[r, i, ROUTED] &= ~(1 << o)
        network.output[r, v, HOLDER] = NOBODY
        requests.winners[o] &= ~(1 << i)
    if o == LOCAL:
        if tail:
            reach_leaf(traffic, packets, network, packet, t + FLIGHT)
        _post(network, t + FLIGHT + CREDIT_RETURN, CREDIT_ROUTER, r, v, NOBODY)
    else:
        network.totals[IN_NETWORK] += 1
        channel = (network.link[r, o, BACK] - o) * routers.channels + v
        _post(network, t + FLIGHT + network.link[r, o, DELAY], ARRIVE, network.link[r, o, TO], channel, packet)


@njit_inline
def reach_leaf(traffic: TreeTraffic, packets: Packets, network: Network, packet: int, arrival: int) -> None:
    """A tail leaves the network; with the last one of its tree the packet has arrived, and its follower waits for one less."""
    totals = network.totals
    packets.remaining[packet] -= 1
    packets.arrive[packet] = max(packets.arrive[packet], arrival)
    totals[LAST_ARRIVAL] = max(totals[LAST_ARRIVAL], arrival)
    if packets.remaining[packet] > 0:
        return
    totals[DELIVERED] += 1
    after = traffic.follower[packet]
    if after >= 0:
        packets.waits[after] -= 1
        ready = packets.arrive[packet] + 1 + traffic.add_cycles
        packets.created[after] = max(packets.created[after], ready)
        totals[HIGHEST] = max(totals[HIGHEST], after)


@njit_inline
def _leave_buffer(routers: Routers, traffic: TreeTraffic, network: Network, r: int, p: int, i: int, t: int) -> None:
    """A flit that every branch has sent leaves its buffer, and its slot is a credit for the sender (M3, M11)."""
    least = traffic.flits[network.input[r, i, PACKET]]
    left = network.input[r, i, ROUTED] | network.input[r, i, ACTIVE]
    ports = left
    while ports:
        least = min(least, network.branch[r, i, lowest(ports), BRANCH_SENT])
        ports &= ports - 1
    while network.input[r, i, GONE] < least:
        network.input[r, i, GONE] += 1
        start = network.input[r, i, START] + 1
        network.input[r, i, START] = start if start < routers.buffer_flits else 0
        network.input[r, i, HELD] -= 1
        network.totals[IN_NETWORK] -= 1
        if p == LOCAL:
            _post(network, t + CREDIT_RETURN, CREDIT_SOURCE, r, i - p * routers.channels, NOBODY)
        else:
            channel = (network.link[r, p, BACK] - p) * routers.channels + i
            later = t + CREDIT_RETURN + routers.credit_cycles + network.link[r, p, DELAY]
            _post(network, later, CREDIT_ROUTER, network.link[r, p, TO], channel, NOBODY)
    if network.input[r, i, HELD] == 0:
        network.occupied[r] &= ~(1 << i)
    if left == 0:
        network.input[r, i, PACKET] = NOBODY


@njit_inline
def take_channels(routers: Routers, network: Network, requests: Requests, r: int) -> None:
    """Channels that were won take effect from the next cycle on (M4)."""
    for o in range(routers.ports):
        those = requests.winners[o]
        while those:
            i = lowest(those)
            those &= those - 1
            network.totals[MOVED] = 1
            network.input[r, i, ROUTED] &= ~(1 << o)
            network.input[r, i, ACTIVE] |= 1 << o
            network.branch[r, i, o, BRANCH_VC] = requests.won[i, o]
            network.output[r, requests.won[i, o], HOLDER] = network.input[r, i, PACKET]
