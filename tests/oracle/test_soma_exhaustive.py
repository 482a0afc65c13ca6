"""Tiny schedules against every possible DRAM order and living duration."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from codesign.scheduling.soma.evaluator import (
    END,
    KIND,
    START,
    USE,
    Invalid,
    Parsed,
    Problem,
    Schedule,
    parse,
    schedule,
)
from codesign.scheduling.soma.kernels import decode as kf
from codesign.scheduling.soma.model.hardware import EDGE
from codesign.scheduling.soma.model.layer_graph import Layer, LayerGraph, LayerType
from codesign.scheduling.soma.model.notation import FusionScheme
from codesign.scheduling.soma.model.rules import DEFAULT
from codesign.scheduling.soma.search.dram_exact import solve_dram
from codesign.scheduling.soma.search.dram_search import DramChain, earliest_ends, greedy
from codesign.scheduling.soma.search.latency_bound import stage2_bound


def _chain(limit: int | None, cuts: tuple[int, ...]) -> Parsed:
    layers = tuple(
        Layer(
            f"l{i}", LayerType.CONV, k, 8, 8, c, R=3, S=3, pad_h=1, pad_w=1, in_h=8, in_w=8, ifm_prevs=(i - 1,) if i else (),
            ext_prevs=() if i else (0,),
        )
        for i, (c, k) in enumerate([(16, 64), (64, 64), (64, 48)])
    )  # fmt: skip
    graph = LayerGraph("chain", layers, ((16, 8, 8),))
    fine = tuple(i for i in (1, 2) if i not in cuts)
    fusion = FusionScheme((0, 1, 2), (0, *cuts), fine, (1, 1, 1))
    parsed = parse(Problem(graph, 1, EDGE, DEFAULT, limit), fusion)
    assert not isinstance(parsed, Invalid)
    return parsed


def _best_of_all(parsed: Parsed) -> int:
    rows, ids = parsed.tensors, parsed.dram_ids.tolist()
    total = len(parsed.tile_layer)
    lowest = earliest_ends(parsed)
    choices = []
    for t in ids:
        if rows[t, KIND] == kf.STORE:
            choices.append(list(range(int(lowest[t]), total + 1)))
        else:
            choices.append(list(range(-1, int(rows[t, USE]) + 1)))
    best = 1 << 60
    for order in itertools.permutations(ids):
        for lives in itertools.product(*choices):
            start, end = rows[:, START].copy(), rows[:, END].copy()
            for t, value in zip(ids, lives, strict=True):
                (end if rows[t, KIND] == kf.STORE else start)[t] = value
            found = schedule(parsed, start, end, np.array(order, np.int64))
            if isinstance(found, Schedule):
                best = min(best, found.latency_cycles)
    return best


def test_search_finds_the_optimum_and_the_bound_never_passes_it() -> None:
    """With room to spare, with just enough, and between, where prefetching competes for the buffer."""
    roomy = greedy(_chain(None, ()))
    assert isinstance(roomy, Schedule)
    peak = roomy.peak_buffer_bytes
    latencies = []
    for limit in (peak, peak - 3000, peak - 12_000, peak - 20_000, peak - 27_000):
        parsed = _chain(limit, ())
        begin = greedy(parsed)
        if isinstance(begin, Invalid):
            continue
        optimum = _best_of_all(parsed)
        chain = DramChain(begin, seed=1)
        chain.advance(0.0, 1.0, 3000)
        assert chain.latency_cycles == optimum
        assert stage2_bound(parsed) <= optimum <= begin.latency_cycles
        latencies.append(optimum)
    assert len(set(latencies)) >= 2, "the buffer limit should matter in this test"


def _two_groups(limit: int | None) -> Parsed:
    """Two layers, each in a group of its own: the data between them is stored and loaded again."""
    layers = tuple(
        Layer(
            f"l{i}", LayerType.CONV, k, 8, 8, c, R=3, S=3, pad_h=1, pad_w=1, in_h=8, in_w=8, ifm_prevs=(i - 1,) if i else (),
            ext_prevs=() if i else (0,),
        )
        for i, (c, k) in enumerate([(16, 64), (64, 48)])
    )  # fmt: skip
    parsed = parse(
        Problem(LayerGraph("two", layers, ((16, 8, 8),)), 1, EDGE, DEFAULT, limit),
        FusionScheme((0, 1), (0, 1), (), (1, 1)),
    )
    assert not isinstance(parsed, Invalid)
    return parsed


@pytest.mark.parametrize("make", [lambda limit: _chain(limit, ()), _two_groups], ids=["one-group", "two-groups"])
def test_constraint_programming_finds_and_proves_the_optimum(make: Callable[[int | None], Parsed]) -> None:
    """From the double-buffered schedule, which is not the best one."""
    roomy = greedy(make(None))
    assert isinstance(roomy, Schedule)
    statuses = set()
    for less in (0, 3000, 20_000):
        parsed = make(roomy.peak_buffer_bytes - less)
        begin = schedule(parsed, parsed.tensors[:, START].copy(), parsed.tensors[:, END].copy(), parsed.default_order)
        if isinstance(begin, Invalid):
            begin = greedy(parsed)
        if isinstance(begin, Invalid):
            continue
        optimum = _best_of_all(parsed)
        found = solve_dram(begin, 10.0)
        assert found.schedule.latency_cycles == optimum
        assert stage2_bound(parsed) <= found.bound_cycles == optimum
        statuses.add(found.status)
    assert statuses == {"BOUND" if make is not _two_groups else "OPTIMAL"}


def test_the_bound_sees_that_transfers_are_whole_and_that_data_is_stored_before_it_is_loaded() -> None:
    parsed = _two_groups(None)
    optimum = _best_of_all(parsed)
    assert parsed.bound_cycles < stage2_bound(parsed) <= optimum
    tight = _chain(roomy_peak(_chain(None, ())) - 27_000, ())
    assert stage2_bound(tight) == _best_of_all(tight)


def roomy_peak(parsed: Parsed) -> int:
    found = greedy(parsed)
    assert isinstance(found, Schedule)
    return found.peak_buffer_bytes
