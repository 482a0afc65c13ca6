"""Laws of the SoMa scheduler on random networks and schemes: every fast path equals the evaluator, the simulator agrees."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign.core.goals import Objective
from codesign.scheduling.soma.evaluator import (
    END,
    KIND,
    LAYER,
    SOURCE,
    START,
    USE,
    Invalid,
    Problem,
    Schedule,
    evaluate,
    parse,
    schedule,
)
from codesign.scheduling.soma.instructions import make_instructions
from codesign.scheduling.soma.kernels import decode as kf
from codesign.scheduling.soma.kernels import score_scheme as ks
from codesign.scheduling.soma.model.hardware import EDGE
from codesign.scheduling.soma.model.layer_graph import Layer, LayerGraph, LayerType
from codesign.scheduling.soma.model.notation import Encoding, FusionScheme, Status
from codesign.scheduling.soma.model.rules import DEFAULT, REFERENCE
from codesign.scheduling.soma.search.dram_search import DramChain, greedy
from codesign.scheduling.soma.search.fusion_search import FusionChain, Workspace, score
from codesign.scheduling.soma.search.latency_bound import stage2_bound
from codesign.scheduling.timed import time_fused
from codesign.timing.table import Timing
from tests.examples import examples
from tests.soma_buffer_run import simulate_program
from tests.soma_timing_rule import simulate

NO_LATENCIES = Timing("none")


@st.composite
def graphs(draw: st.DrawFn) -> LayerGraph:
    """Small networks of convolutions, poolings and sums on 16 x 16 maps."""
    count = draw(st.integers(2, 6))
    layers: list[Layer] = []
    for i in range(count):
        previous = draw(st.integers(-1, i - 1)) if i else -1
        channels = layers[previous].K if previous >= 0 else 8
        kernel = draw(st.sampled_from([1, 3]))
        kind = draw(st.sampled_from([LayerType.CONV, LayerType.CONV, LayerType.POOL, LayerType.ELTWISE]))
        if kind is LayerType.ELTWISE:
            same = [j for j in range(i) if channels == layers[j].K]
            sources = (
                tuple(
                    dict.fromkeys(
                        [*([previous] if previous >= 0 else []), *draw(st.sets(st.sampled_from(same), max_size=1))]
                    )
                )
                if same
                else ()
            )
            if len(sources) < 2:
                kind = LayerType.CONV
            else:
                layers.append(
                    Layer(f"l{i}", kind, channels, 16, 16, channels, operands=2, in_h=16, in_w=16, ifm_prevs=sources)
                )
                continue
        out = channels if kind is LayerType.POOL else draw(st.sampled_from([8, 16, 40]))
        layers.append(
            Layer(
                f"l{i}", kind, out, 16, 16, channels, R=kernel, S=kernel, pad_h=kernel // 2, pad_w=kernel // 2, in_h=16, in_w=16,
                ifm_prevs=(previous,) if previous >= 0 else (), ext_prevs=() if previous >= 0 else (0,),
            )
        )  # fmt: skip
    return LayerGraph("random", tuple(layers), ((8, 16, 16),))


@st.composite
def schemes(draw: st.DrawFn) -> tuple[Problem, FusionScheme]:
    graph = draw(graphs())
    n = len(graph.layers)
    cuts = [2] + [draw(st.sampled_from([0, 0, 1, 2])) for _ in range(n - 1)]
    tiling = tuple(draw(st.sampled_from([1, 2, 3, 4, 8])) for c in cuts if c)
    options = draw(st.sampled_from([REFERENCE, DEFAULT]))
    limit = draw(st.sampled_from([None, 60_000, 25_000]))
    problem = Problem(graph, draw(st.sampled_from([1, 2, 4])), EDGE, options, limit)
    fusion = FusionScheme(
        graph.topological,
        tuple(i for i, c in enumerate(cuts) if c == 2),
        tuple(i for i, c in enumerate(cuts) if c == 1),
        tiling,
    )
    return problem, fusion


@examples(60)
@given(schemes())
def test_compiled_scores_equal_the_evaluator(case: tuple[Problem, FusionScheme]) -> None:
    problem, fusion = case
    space = Workspace(problem, 4096, 8192)
    plain = evaluate(problem, Encoding(fusion))
    fast = score(problem, fusion, ks.DOUBLE_BUFFER, space)
    assert fast.status is (plain.status if isinstance(plain, Invalid) else Status.SUCCESS)
    if isinstance(plain, Schedule):
        assert fast.latency_cycles == plain.latency_cycles
        assert fast.energy_pj == pytest.approx(plain.energy_pj, rel=1e-12)
        assert fast.peak_buffer_bytes == plain.peak_buffer_bytes
    early = score(problem, fusion, ks.PREFETCH, space)
    if early.status is Status.SUCCESS:
        parsed = parse(problem, fusion)
        assert not isinstance(parsed, Invalid)
        ahead = greedy(parsed)
        assert isinstance(ahead, Schedule), ahead.reason
        assert ahead.latency_cycles == early.latency_cycles


@examples(60)
@given(schemes(), st.integers(0, 1000))
def test_simulator_and_bound_agree_with_every_schedule(case: tuple[Problem, FusionScheme], seed: int) -> None:
    problem, fusion = case
    parsed = parse(problem, fusion)
    if isinstance(parsed, Invalid):
        return
    found = [s for s in (evaluate(problem, Encoding(fusion)), greedy(parsed)) if isinstance(s, Schedule)]
    if found:
        chain = DramChain(found[-1], seed=seed)
        chain.advance(0.0, 1.0, 500)
        found.append(chain.result().schedule)
        assert found[-1].latency_cycles <= found[-2].latency_cycles
    for one in found:
        run = simulate_program(make_instructions(one))
        assert run.latency_cycles == one.latency_cycles == time_fused(one, NO_LATENCIES).latency_cycles
        assert run.peak_buffer_bytes == one.peak_buffer_bytes <= problem.limit_bytes
        assert stage2_bound(parsed) <= one.latency_cycles
        assert parsed.bound_cycles <= one.latency_cycles
        again = evaluate(problem, one.encoding())
        assert isinstance(again, Schedule) and again.latency_cycles == one.latency_cycles


@examples(80)
@given(schemes(), st.randoms(use_true_random=False))
def test_one_pass_timing_equals_the_reference_rule(case: tuple[Problem, FusionScheme], random: object) -> None:
    """Random orders and durations, most of them invalid: both rules give the same verdict and the same latency."""
    problem, fusion = case
    mended = problem.options.store_before_load
    parsed = parse(Problem(problem.graph, problem.batch, EDGE, problem.options), fusion)
    if isinstance(parsed, Invalid):
        return
    rng = np.random.default_rng(random.getrandbits(32))  # type: ignore[attr-defined]
    rows, ids, total = parsed.tensors, parsed.dram_ids, len(parsed.tile_layer)
    for _ in range(20):
        start, end, order = rows[:, START].copy(), rows[:, END].copy(), parsed.default_order.copy()
        for t in rng.choice(ids, size=min(3, len(ids))):
            if rng.random() < 0.1:  # lives that no schedule has
                start[t], end[t] = rng.integers(-1, total), rng.integers(0, total + 1)
            elif rows[t, KIND] == kf.STORE:
                end[t] = rng.integers(rows[t, USE] + 1, total + 1)
            else:
                start[t] = rng.integers(-1, rows[t, USE] + 1)
        a, b = rng.integers(0, len(order), 2)
        order[a], order[b] = order[b], order[a]
        want = schedule(parsed, start, end, order)
        kinds, layers, uses = (rows[:, column].copy() for column in (KIND, LAYER, USE))
        waits_for = (
            np.where(kinds == kf.LOAD_IFMAP, np.maximum(rows[:, SOURCE], -1), -1) if mended else np.full_like(kinds, -1)
        )
        tiles, transfers = np.zeros(total, np.int64), np.zeros(len(rows), np.int64)
        code, latency = simulate(
            parsed.tile_cycles,
            kinds,
            layers,
            waits_for,
            uses,
            start,
            end,
            parsed.transfer_cycles,
            order,
            tiles,
            transfers,
        )
        if isinstance(want, Schedule):
            assert (code, latency) == (kf.OK, want.latency_cycles)
            assert (tiles == want.tile_start).all() and (transfers == want.transfer_start).all()
        elif want.status is Status.TENSOR_ORDER_DEPENDENCY:
            assert code == kf.BAD_TENSOR_ORDER
        else:
            assert want.status is Status.LOAD_BEFORE_STORE and mended and code == kf.OK


@examples(15)
@given(schemes(), st.integers(0, 100), st.sampled_from([ks.DOUBLE_BUFFER, ks.PREFETCH]))
def test_incremental_search_returns_what_the_evaluator_computes(
    case: tuple[Problem, FusionScheme], seed: int, timing: int
) -> None:
    problem, fusion = case
    chain = FusionChain(
        problem, fusion, Objective(), seed=seed, timing=timing, workspace=Workspace(problem, 4096, 8192)
    )
    if chain.status is not Status.SUCCESS:
        return
    before = chain.cost
    chain.advance(0.0, 1.0, 400)
    result = chain.result()
    parsed = parse(problem, result.fusion)
    assert not isinstance(parsed, Invalid)
    final = greedy(parsed) if timing == ks.PREFETCH else evaluate(problem, Encoding(result.fusion))
    assert isinstance(final, Schedule)
    assert (final.latency_cycles, final.energy_pj) == (
        result.latency_cycles,
        pytest.approx(result.energy_pj, rel=1e-12),
    )
    assert final.edp <= before * (1 + 1e-12)
