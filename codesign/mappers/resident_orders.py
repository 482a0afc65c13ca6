"""Loop orders by what they reuse: which tensors stay put while the innermost loops of a level run.

Two orders of a level with the same nested sets of resident tensors cause the same traffic, sliding windows apart. So a level has
a handful of orders worth looking at, however many dimensions it has.
"""

from collections.abc import Iterable

import numpy as np

from codesign.core.jit import njit
from codesign.mapping.nest import IntArray
from codesign.mapping.space import MapSpace

Chain = tuple[frozenset[int], ...]
"""Nested sets of tensors, largest first; the tensors of set k stay put while the loops of phases 0 to k run."""


def make_chains(relevant: tuple[tuple[bool, ...], ...]) -> tuple[Chain, ...]:
    """All maximal nested sequences of sets of tensors that can stay put, largest first.

    While the innermost loops run, the tensors irrelevant to all of them stay put. Adding loops outwards shrinks that
    set: a loop order is a descending sequence of sets, each an intersection of irrelevant sets. There is always at least
    the empty sequence.
    """
    tensors = range(len(relevant[0]))
    irrelevant = {frozenset(t for t in tensors if not row[t]) for row in relevant}
    family = {s for s in irrelevant if s}
    while True:
        more = {a & b for a in family for b in family if a & b} - family
        if not more:
            break
        family |= more

    def extend(chain: Chain) -> Iterable[Chain]:
        smaller = [s for s in family if not chain or s < chain[-1]]
        tops = [s for s in smaller if not any(s < other for other in smaller)]
        if not tops:
            yield chain
        for top in sorted(tops, key=sorted):
            yield from extend((*chain, top))

    return tuple(extend(()))


def chain_phase(chain: Chain, relevant: tuple[bool, ...]) -> int:
    """Place of a dimension's loop in a chain's order, 0 innermost; the length of the chain if it interrupts all reuse."""
    for k, kept in enumerate(chain):
        if not any(relevant[t] for t in kept):
            return k
    return len(chain)


def chain_orders(space: MapSpace, chains: Iterable[Chain], relevant: tuple[tuple[bool, ...], ...]) -> IntArray:
    """Orders of every level under every chain: ``C x L x D``; arguments as in `chain_order`."""
    levels = range(space.order.shape[0])
    return np.array([[chain_order(space, v, chain, relevant) for v in levels] for chain in chains], np.int64)


def chain_order(space: MapSpace, v: int, chain: Chain, relevant: tuple[tuple[bool, ...], ...]) -> list[int]:
    """The order row of a level under a chain, outermost first; dimensions whose place is fixed keep it. `relevant` is ``D x T``."""
    free = [int(d) for d in space.order[v, : space.n_free[v]]]
    free.sort(key=lambda d: -chain_phase(chain, relevant[d]))
    return [*free, *(int(d) for d in space.order[v, space.n_free[v] :])]


@njit
def active_loops(table: IntArray, v: int) -> int:
    """Dimensions that have a loop at a level."""
    active = 0
    for d in range(table.shape[1]):
        active += table[v, d] > 1
    return active
