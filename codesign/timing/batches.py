"""Controllers that run tiles of output in batches: the one rule of the tier that is found, not derived (rule E11)."""

import math

import numpy as np

from codesign.timing.event_plan import COMPUTE, LOAD, NOTHING, STORE, Plan

_PROLOGUE = 3
"""Loads of a run that overlap with nothing."""
_HIDDEN = 6
"""Loads of a batch that stores and the prologue of the next batch hide."""


def batch_bound(plan: Plan, batch: int) -> float:
    """Cycles that a controller of batches needs at least for a plan; 0 where the rule has nothing to say.

    The rule speaks of plans with equal tiles of a reduction: ``k > 1`` steps a tile of output, loads of ``l`` cycles a step
    on one port, an array step of ``c`` and a store of ``s`` cycles a tile, with ``s > l > c``. A batch of ``b`` tiles keeps
    ``(b k - 6) l + c + b s`` cycles in one chain; batches follow each other at the slowest of that chain, all loads
    (``b k l``), and stores with the steps between them (``b (s + (k - 1) c)``).

    Source: fitted in closed form to RTL cycles of TileFlow's array (MICRO 2023); no chain of waits is known that gives it.

    Args:
        plan: What runs.
        batch: Tiles of output a batch.
    """
    found = _uniform(plan)
    if found is None:
        return 0.0
    load, compute, store, steps, tiles = found
    if steps < 2 or tiles % batch or not store > load > compute:
        return 0.0
    chain = (batch * steps - _HIDDEN) * load + compute + batch * store
    slowest = max(chain, batch * steps * load, batch * (store + (steps - 1) * compute))
    return _PROLOGUE * load + chain + (tiles // batch - 1) * slowest


def _uniform(plan: Plan) -> tuple[float, float, float, int, int] | None:
    """Cycles of loads, array and store a step, steps of a tile of output, tiles of output; None where they differ."""
    if plan.factors.shape[0] != 1 or plan.in_flight or (plan.explicit != NOTHING).any():
        return None
    ways = [0, *(loop + 1 for loop in range(plan.factors.shape[1]) if plan.factors[0, loop] > 1)]
    cycles = {LOAD: 0.0, COMPUTE: 0.0, STORE: 0.0}
    seen = dict.fromkeys(cycles, 0)
    ports: set[int] = set()
    for k, kind in enumerate(plan.kind):
        active = plan.active[k, 0, ways].astype(bool)
        if not active.any():
            continue
        lasting = plan.duration[k, 0, ways][active]
        if np.ptp(lasting) or plan.revisit[k] or (kind != STORE and not active.all()):
            return None
        if kind == LOAD:
            ports.add(int(plan.resource[k, 0]))
        cycles[int(kind)] += float(lasting[0])
        seen[int(kind)] += 1
    if len(ports) != 1 or seen[COMPUTE] != 1 or seen[STORE] != 1:
        return None
    store = int(np.nonzero(plan.kind == STORE)[0][0])
    moving = [loop for loop in range(plan.factors.shape[1]) if plan.active[store, 0, loop + 1]]
    inside = math.prod(int(f) for f in plan.factors[0, max(moving, default=-1) + 1 :])
    total = math.prod(int(f) for f in plan.factors[0])
    return cycles[LOAD], cycles[COMPUTE], cycles[STORE], inside, total // inside
