"""Transfers as flows that share links fairly: max-min rates (D. Bertsekas and R. Gallager, Data Networks, 1992, 6.5.2).

Coarser than the routers of `codesign.timing.noc.cycle`, for networks whose routers are not known: a flow has a rate rather than
flits. The rules:

* F1: Rates hold until a flow begins to move or has arrived.
* F2: Rates are max-min fair: the tightest link or limit is filled first, then what is left. A flow is no faster than
  its own limit.
* F3: A processor issues its reads in order, a gap apart. Behind a fence a read waits for all earlier ones.
* F4: A flow moves after its latency, over all links of its way at once.
"""

from typing import NamedTuple

import numpy as np

from codesign.core.jit import njit
from codesign.core.kernel_library import FloatArray, IntArray

WAITS, LATENT, ACTIVE, DONE = 0, 1, 2, 3
"""States of a flow: not issued, issued, moving, arrived."""

_FOREVER = 1e300
_SLACK = 1e-9


class Flows(NamedTuple):
    """Reads of processors, in program order one processor after another. Shapes: ``F`` flows, ``P`` processors.

    Attributes:
        first: ``P + 1`` where each processor's flows begin.
        resource_first: ``F + 1`` where the resources of each flow begin.
        resource: The resources that each flow passes.
        size: ``F`` bytes.
        limit: ``F`` most bytes a cycle of each flow.
        latency: ``F`` cycles from issue to the first byte.
        not_before: ``F`` cycle before which each is not issued.
        gap: ``F`` cycles after the issue of the processor's flow before.
        fence: ``F`` 1 where all earlier flows of the processor must have arrived.
        capacity: Bytes a cycle of each resource.
    """

    first: IntArray
    resource_first: IntArray
    resource: IntArray
    size: FloatArray
    limit: FloatArray
    latency: FloatArray
    not_before: FloatArray
    gap: FloatArray
    fence: IntArray
    capacity: FloatArray


class FlowTimes(NamedTuple):
    """When flows were issued and had arrived, cycles.

    Attributes:
        issued: ``F``.
        arrived: ``F``.
    """

    issued: FloatArray
    arrived: FloatArray


def run_flows(flows: Flows) -> FlowTimes:
    """Run all flows to their end."""
    issued, arrived = np.full(len(flows.size), -1.0), np.full(len(flows.size), -1.0)
    _run(flows, issued, arrived)
    return FlowTimes(issued, arrived)


@njit
def fair_rates(flows: Flows, state: IntArray, rate: FloatArray) -> None:
    """Max-min fair rates of the active flows: the tightest resource or limit is filled first, then what is left (F2)."""
    n = flows.size.shape[0]
    left, users = flows.capacity.copy(), np.zeros(flows.capacity.shape[0], np.int64)
    open_flows = 0
    for f in range(n):
        rate[f] = 0.0
        if state[f] == ACTIVE:
            rate[f] = -1.0
            open_flows += 1
            for k in range(flows.resource_first[f], flows.resource_first[f + 1]):
                users[flows.resource[k]] += 1
    while open_flows > 0:
        least = _FOREVER
        for r in range(left.shape[0]):
            if users[r] > 0:
                least = min(least, left[r] / users[r])
        for f in range(n):
            if rate[f] < 0.0:
                least = min(least, flows.limit[f])
        open_flows -= _settle(flows, rate, left, users, least)


@njit
def _settle(flows: Flows, rate: FloatArray, left: FloatArray, users: IntArray, least: float) -> int:
    """Give `least` to every open flow that can have no more; returns how many."""
    tight = np.zeros(left.shape[0], np.int64)
    for r in range(left.shape[0]):
        if users[r] > 0 and left[r] / users[r] <= least * (1.0 + _SLACK):
            tight[r] = 1
    settled = 0
    for f in range(rate.shape[0]):
        if rate[f] >= 0.0:
            continue
        bound = flows.limit[f] <= least * (1.0 + _SLACK)
        for k in range(flows.resource_first[f], flows.resource_first[f + 1]):
            bound = bound or tight[flows.resource[k]] == 1
        if bound:
            rate[f] = least
            settled += 1
            for k in range(flows.resource_first[f], flows.resource_first[f + 1]):
                left[flows.resource[k]] = max(0.0, left[flows.resource[k]] - least)
                users[flows.resource[k]] -= 1
    return settled


@njit
def _next_issue(flows: Flows, p: int, f: int, issued: FloatArray, arrived: FloatArray) -> float:
    """Cycle from which a processor's flow f may be issued; `_FOREVER` while it waits for others (F3)."""
    when = float(flows.not_before[f])
    if f > flows.first[p]:
        when = max(when, issued[f - 1] + flows.gap[f])
    if flows.fence[f] == 1:
        for g in range(flows.first[p], f):
            if arrived[g] < 0.0:
                return _FOREVER
            when = max(when, arrived[g] + flows.gap[f])
    return when


@njit
def _run(flows: Flows, issued: FloatArray, arrived: FloatArray) -> None:
    """From event to event: a flow is issued, begins to move or has arrived (F1)."""
    n, processors = flows.size.shape[0], flows.first.shape[0] - 1
    state, left, rate = np.zeros(n, np.int64), flows.size.copy(), np.zeros(n, np.float64)
    at = flows.first[:-1].copy()
    now, done = 0.0, 0
    changed = False
    while done < n:
        if changed:
            fair_rates(flows, state, rate)
        upcoming = _FOREVER
        for p in range(processors):
            if at[p] < flows.first[p + 1]:
                upcoming = min(upcoming, _next_issue(flows, p, at[p], issued, arrived))
        for f in range(n):
            if state[f] == LATENT:
                upcoming = min(upcoming, issued[f] + flows.latency[f])
            elif state[f] == ACTIVE:
                upcoming = min(upcoming, now + left[f] / rate[f])
        step, now = upcoming - now, upcoming
        changed = False
        for p in range(processors):
            f = at[p]
            if f < flows.first[p + 1] and _next_issue(flows, p, f, issued, arrived) <= now + _SLACK:
                issued[f], state[f] = now, LATENT
                at[p] += 1
        for f in range(n):
            if state[f] == ACTIVE:
                left[f] -= rate[f] * step
                if left[f] <= _SLACK * flows.size[f]:
                    arrived[f], state[f], changed = now, DONE, True
                    done += 1
            elif state[f] == LATENT and issued[f] + flows.latency[f] <= now + _SLACK:
                state[f], changed = ACTIVE, True
