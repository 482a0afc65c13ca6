"""What the search keeps of placed layers: equal places are kept once, and words of edges are those found anew (rules M6 to M20)."""

import numpy as np

from codesign.core.rng import make_state
from codesign.scheduling.segments.kernels import moves
from codesign.scheduling.segments.kernels.machine import ORDERS, PLACED, SHAPED
from codesign.scheduling.segments.kernels.placed_leaf import order_of
from tests.unit.scheduling.segments.test_starts import HEADS, a_search


def test_orders_that_place_alike_are_placed_once() -> None:
    search, most = a_search(HEADS), 0
    search.flat()
    problem, caches, tokens = search.work.problem, search.work.caches, search.current
    groups = int(tokens.groups[0])
    batch_at = list(problem.batches).index(search.batch // groups)
    ranked = caches.ranked[int(problem.kin[0, SHAPED]), batch_at, 4]
    for rank in range(int((ranked >= 0).sum())):
        caches.leaf_keys[:], caches.segment_keys[:] = 0, 0
        distinct, before = set(), 0
        for order in range(ORDERS):
            parts = problem.parts[ranked[rank]]
            distinct.add(tuple(int(d) for d in order_of(parts, problem.orders[order]) if parts[d] > 1))
            tokens.choice[1] = rank * ORDERS + order
            search.value(tokens)
            before = before if order else int(caches.counts[PLACED])
        assert caches.counts[PLACED] - before == len(distinct) - 1
        most = max(most, len(distinct))
    assert most == 2, "two parts along two dimensions stand in two orders"


def test_words_of_edges_that_are_kept_are_those_found_anew() -> None:
    search, state, tried = a_search(HEADS), make_state(3), 0
    value = search.flat()
    moves.copy_tokens(search.current, search.best)
    schedule = np.array([value, value, 0.5, 0.5])
    for _ in range(200):
        search._anneal(schedule, 5, state)
        kept = search.value(search.current)
        for held in (search.work.caches.leaf_keys, search.work.caches.segment_keys, search.work.scratch.edge_keys):
            held[:] = 0
        assert search.value(search.current) == kept
        tried += int(np.count_nonzero(search.work.scratch.edge_keys) > 0)
    assert tried > 50, "words stay on chip in many trees"
