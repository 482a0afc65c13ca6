"""The bound over all fusions against every encoding's fusion attributes of small graphs (B1-B4 of `codesign.scheduling.soma.search.fusion_bound`)."""

import itertools
import random
from collections.abc import Iterator

import pytest

from codesign.core.goals import Objective
from codesign.scheduling.soma.evaluator import Invalid, Problem, parse
from codesign.scheduling.soma.model.hardware import EDGE
from codesign.scheduling.soma.model.layer_graph import Layer, LayerGraph, LayerType
from codesign.scheduling.soma.model.notation import FusionScheme
from codesign.scheduling.soma.model.rules import DEFAULT, REFERENCE
from codesign.scheduling.soma.search.dram_search import greedy
from codesign.scheduling.soma.search.fusion_bound import fusion_bound

TILINGS = (1, 2, 3, 4, 6, 8)


def graph(rng: random.Random, size: int) -> LayerGraph:
    """Convolutions with strides and padding, pooling, additions, products of two activations."""
    layers: list[Layer] = []
    for i in range(size):
        source = i - 1 if i < 2 or rng.random() < 0.6 else rng.randrange(i)
        made = layers[source] if i else None
        channels, side = (made.K, made.H) if made is not None else (rng.choice([8, 16]), 8)
        prevs = {"ifm_prevs": (source,)} if i else {"ext_prevs": (0,)}
        alike = [j for j, x in enumerate(layers) if j != source and channels == x.K and side == x.H]
        kind = rng.choice(["conv", "conv", "strided", "narrow", "pool", "add"]) if i else "conv"
        span = {"conv": 3, "strided": 3, "narrow": 1, "pool": 2, "add": 1}[kind]
        stride = 1 if kind in ("conv", "add") or side < 4 else 2
        out = side // stride
        window = {"R": span, "S": span, "stride_h": stride, "stride_w": stride, "in_h": side, "in_w": side}
        window |= {"pad_h": span // 2 if span == 3 else 0, "pad_w": span // 2 if span == 3 else 0}
        if kind == "add" and alike:
            both = {"ifm_prevs": (source, rng.choice(alike)), "operands": 2}
            layers.append(
                Layer(f"l{i}", LayerType.ELTWISE, channels, side, side, channels, in_h=side, in_w=side, **both)
            )  # type: ignore[arg-type]
        elif kind == "pool" and stride == 2:
            layers.append(Layer(f"l{i}", LayerType.POOL, channels, out, out, channels, **window, **prevs))  # type: ignore[arg-type]
        else:
            layers.append(
                Layer(f"l{i}", LayerType.CONV, rng.choice([8, 16, 64]), out, out, channels, **window, **prevs)  # type: ignore[arg-type]
            )
    first = layers[0]
    return LayerGraph("random", tuple(layers), ((first.C, first.in_h, first.in_w),))


def schemes(found: LayerGraph, rng: random.Random, most: int) -> Iterator[FusionScheme]:
    """All orders, cuts and tilings, or as many drawn from them."""
    n = len(found.layers)
    orders = [
        o
        for o in itertools.permutations(range(n))
        if all(o.index(p) < o.index(i) for i in o for p in found.layers[i].prevs)
    ]
    every = [
        (order, kinds, tiling)
        for order in orders
        for kinds in itertools.product("-fd", repeat=n - 1)
        for tiling in itertools.product(TILINGS, repeat=1 + sum(k != "-" for k in kinds))
    ]
    for order, kinds, tiling in every if len(every) <= most else rng.sample(every, most):
        cuts = (0, *(i + 1 for i, k in enumerate(kinds) if k == "d"))
        fine = tuple(i + 1 for i, k in enumerate(kinds) if k == "f")
        yield FusionScheme(order, cuts, fine, tiling)


def check(seed: int, size: int, most: int) -> tuple[int, float]:
    """No scheme is below the bound; returns how many ran and the least gap."""
    rng = random.Random(seed)
    found = graph(rng, size)
    ran, least = 0, float("inf")
    for options, batch, share in itertools.product((DEFAULT, REFERENCE), (1, 2), (1.0, 0.15)):
        weights = found.weight_bytes
        room = int(share * (weights + 40_000))
        problem = Problem(found, batch, EDGE, options, max(room, 9000))
        bound = fusion_bound(problem)
        for scheme in schemes(found, rng, most):
            parsed = parse(problem, scheme)
            if isinstance(parsed, Invalid):
                continue
            schedule = greedy(parsed)
            if isinstance(schedule, Invalid):
                continue
            ran += 1
            assert parsed.dram_bytes["total"] >= bound.dram_bytes
            assert parsed.compute_cycles >= bound.compute_cycles * (1 - 1e-12)
            assert parsed.energy_pj >= bound.energy_pj * (1 - 1e-12)
            assert schedule.latency_cycles >= bound.latency_cycles
            least = min(least, bound.gap(Objective.EDP, parsed.energy_pj, schedule.latency_cycles))
    return ran, least


@pytest.mark.parametrize("seed", range(3))
def test_no_scheme_of_a_small_graph_is_below_the_bound(seed: int) -> None:
    ran, _ = check(seed, 3, 60)
    assert ran > 20


@pytest.mark.slow("oracle")
@pytest.mark.parametrize("seed", range(100, 140))
def test_no_scheme_of_all_is_below_the_bound(seed: int) -> None:
    ran, _ = check(seed, 2 + seed % 3, 3000)
    assert ran > 20


def test_the_bound_is_reached_where_everything_fits() -> None:
    """One convolution: every scheme loads and computes it whole."""
    layer = Layer("l", LayerType.CONV, 16, 8, 8, 16, R=3, S=3, pad_h=1, pad_w=1, in_h=8, in_w=8, ext_prevs=(0,))
    problem = Problem(LayerGraph("one", (layer,), ((16, 8, 8),)), 1, EDGE, DEFAULT, None)
    bound = fusion_bound(problem)
    parsed = parse(problem, FusionScheme((0,), (0,), (), (1,)))
    assert not isinstance(parsed, Invalid)
    assert bound.dram_bytes == parsed.dram_bytes["total"] and bound.energy_pj == pytest.approx(parsed.energy_pj)


def test_data_that_fits_no_group_is_stored_and_loaded() -> None:
    """Both weights do not fit together, nor does the data beside one of them."""
    pair = tuple(
        Layer(
            f"l{i}", LayerType.CONV, 64, 16, 16, 64, R=3, S=3, pad_h=1, pad_w=1, in_h=16, in_w=16,
            ifm_prevs=(i - 1,) if i else (), ext_prevs=() if i else (0,),
        )
        for i in range(2)
    )  # fmt: skip
    graph_ = LayerGraph("two", pair, ((64, 16, 16),))
    data, weights = 64 * 16 * 16, 64 * 64 * 9
    room = fusion_bound(Problem(graph_, 1, EDGE, DEFAULT, weights + data))
    tight = fusion_bound(Problem(graph_, 1, EDGE, DEFAULT, weights + data - 1))
    assert room.dram_bytes == 2 * weights + 2 * data
    assert tight.dram_bytes == room.dram_bytes + 2 * data
