"""Tiny schedules against every possible DRAM order and living duration."""

import itertools

import numpy as np

from codesign.scheduling.soma import kernel_fusion as kf
from codesign.scheduling.soma.bounds import stage2_bound
from codesign.scheduling.soma.dram_search import DramChain, earliest_ends, greedy
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
from codesign.scheduling.soma.hardware import EDGE
from codesign.scheduling.soma.model import DEFAULT
from codesign.scheduling.soma.network import Layer, LayerGraph, LayerType
from codesign.scheduling.soma.notation import FusionScheme


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
