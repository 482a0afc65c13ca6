"""Random systems, networks and trees under all rules: no tree is below the bound in energy, time or their product."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from codesign.arch.core_network import CoreNetwork
from codesign.arch.many_core import Buffer, CoreKind, Dies, Links, ManyCore, Memories, VectorMacCore
from codesign.arch.many_core_scaling import edge_ports
from codesign.core.errors import UserError
from codesign.core.factors import divisors
from codesign.core.rng import make_state
from codesign.scheduling.segments.bound import bound_of
from codesign.scheduling.segments.evaluate import SEMANTICS, Evaluator
from codesign.scheduling.segments.kernels import moves
from codesign.scheduling.segments.kernels.segment_cost import number_nodes, tree_cost
from codesign.scheduling.segments.layers import LayerKind, SegmentLayer, SegmentNetwork
from codesign.scheduling.segments.search import NothingFitsError, SearchSettings, TreeSearch

Random = np.random.Generator

NETWORKS = [CoreNetwork("mesh", "yx"), CoreNetwork("mesh", "o1turn"), *map(CoreNetwork, ("torus", "ring", "crossbar"))]


def pick(rng: Random, *values: float) -> float:
    return values[int(rng.integers(len(values)))]


def random_core(rng: Random) -> VectorMacCore:
    def buffer(size: int) -> Buffer:
        return Buffer(size, pick(rng, 0.0, 0.3, 1.0), pick(rng, 0.0, 0.4, 1.2))

    sizes = {name: int(pick(rng, 1, 2, 4, 8)) for name in ("vector", "lanes")}
    return VectorMacCore(
        *(buffer(2048), buffer(2048), buffer(1024), buffer(8192)),
        Buffer(int(pick(rng, 1500, 4096, 16384, 65536, 2**20)), pick(rng, 0.5, 2.0), 2.2),
        elements_a=int(pick(rng, 1, 2)), elements_o=int(pick(rng, 1, 2)), mac_pj=pick(rng, 0.02, 0.5),
        vector_unit_macs=int(pick(rng, 1, 4, 64)), output_reserve_bytes=int(pick(rng, 0, 256)),
        buffer_words_per_cycle=int(pick(rng, 16, 256)), **sizes,
    )  # fmt: skip


def random_system(rng: Random, rules: str) -> ManyCore:
    """A mesh of at most 16 cores; several dies and other networks where the rules know them.

    Raises:
        UserError: What was drawn is no system.
    """
    width, height = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    ports: tuple[tuple[tuple[int, ...], ...], ...] = (tuple((0, y) for y in range(height)),)
    if rng.random() < 0.6:
        ports = edge_ports(width, height, int(pick(rng, 1, 2)))
    dies, network = Dies(), CoreNetwork()
    if rules != "set" and rng.random() < 0.5:
        x, y = (int(pick(rng, *divisors(n))) for n in (width, height))
        dies = Dies(x, y, int(pick(rng, 1, 8)), pick(rng, 1.0, 3.0, 19.2))
        if rng.random() < 0.3:
            dies = replace(dies, pj_per_word_hop=0.0, interface="XSR", lanes=int(pick(rng, 4, 60)), mw_per_lane=20.0)
    if rules in ("own", "mesh") and rng.random() < 0.35:
        network = NETWORKS[int(rng.integers(len(NETWORKS)))]
    links, memories = (
        Links(int(pick(rng, 1, 4, 32)), pick(rng, 0.0, 3.0)),
        Memories(ports, int(pick(rng, 1, 32)), pick(rng, 0.0, 60.0)),
    )
    clock, stride = pick(rng, 1.0, 1.0, 1.3, 0.7), int(pick(rng, *divisors(width)))
    system = ManyCore("random", width, height, stride, random_core(rng), links, memories, dies, clock, network=network)
    if rules == "own" and width * height > 1 and rng.random() < 0.25:
        names = [("core", "other")[(x + y) % 2] for y, x in product(range(height), range(width))]
        rows = tuple(tuple(names[y * width : (y + 1) * width]) for y in range(height))
        system = replace(system, kinds=(CoreKind("other", random_core(rng)),), places=rows)
    return system


def random_layer(rng: Random, layers: list[SegmentLayer]) -> SegmentLayer:
    """A layer that reads the outside, or one to three layers of one size."""
    side, external, producers = int(pick(rng, 1, 2, 4, 7, 8)), int(pick(rng, 1, 3, 8, 40)), tuple[int, ...]()
    if layers and rng.random() < 0.9:
        side, external = layers[int(rng.integers(max(0, len(layers) - 2), len(layers)))].H, 0
        alike = [i for i, other in enumerate(layers) if side == other.H]
        producers = tuple(sorted({int(i) for i in rng.choice(alike, int(pick(rng, 1, 1, 1, 2, 3)))}))
    c, k = external + sum(layers[i].K for i in producers), int(pick(rng, 1, 3, 4, 7, 8, 16, 64))
    kernel, stride = int(pick(rng, 1, 1, 3, 5)), int(pick(rng, 1, 1, 2))
    pad = kernel // 2
    out = max(1, (side + 2 * pad - kernel) // stride + 1)
    shape = SegmentLayer(
        str(len(layers)), LayerKind.CONV, c, k, kernel, kernel, out, out, stride, stride,
        pad_h=pad, pad_w=pad, in_h=side, in_w=side, weight_words=c * k * kernel**2, external_c=external, inputs=producers,
    )  # fmt: skip
    flat = replace(shape, R=1, S=1, H=side, W=side, stride_h=1, stride_w=1, pad_h=0, pad_w=0)
    kind = rng.choice(["conv", "conv", "conv", "fc", "group", "pool", "add", "copy", "product"])
    if kind == "fc":
        return replace(flat, kind=LayerKind.FC, R=side, S=side, H=1, W=1, weight_words=c * k * side**2)
    if kind == "group" and c > 1:
        groups = int(pick(rng, *divisors(c)[1:]))
        per = int(pick(rng, 1, 2))
        grouped = replace(shape, kind=LayerKind.GROUP_CONV, groups=groups, K=per * groups)
        return replace(grouped, weight_words=c // groups * per * groups * kernel**2)
    if kind == "pool":
        return replace(shape, kind=LayerKind.POOL, K=c, weight_words=0)
    if kind == "add" and len({layers[i].K for i in producers}) == 1 and len(producers) > 1:
        return replace(flat, kind=LayerKind.ELTWISE, K=layers[producers[0]].K, operands=len(producers), weight_words=0)
    if kind == "copy":
        return replace(flat, kind=LayerKind.PTP, K=c, weight_words=0)
    if kind == "product" and producers:
        return replace(flat, weight_words=c * k, weight_inputs=(int(rng.integers(len(layers))),))
    return shape


def trees_above_the_bound(seed: int, steps: int) -> int:
    """Change a tree at random, mostly for the better in some mean of energy and time; returns how many trees were schemes."""
    rng = np.random.default_rng(seed)
    rules = str(rng.choice(["set", "gemini", "own", "own", "mesh"]))
    try:
        system = random_system(rng, rules)
    except UserError:
        return 0
    layers: list[SegmentLayer] = []
    for _ in range(int(rng.integers(1, 8))):
        layers.append(random_layer(rng, layers))
    evaluator, batch = (
        Evaluator(system, SegmentNetwork("random", tuple(layers)), SEMANTICS[rules]),
        int(pick(rng, 1, 2, 4, 6, 16)),
    )
    bound = bound_of(evaluator, batch)
    search = TreeSearch(evaluator, batch, SearchSettings(steps=1, least_use=0.0))
    try:
        _ = search.flat() if rng.random() < 0.5 else search.start(8)
    except NothingFitsError:
        return 0
    state, current, least, share, found = make_state(seed), search.current, np.inf, rng.random(), 0
    for step in range(steps):
        number_nodes(search.work, current)
        moves.copy_tokens(current, search.trial)
        parts = search.work, search.trial, search.room, search.weights
        if step and not moves.mutate(*parts, state):
            continue
        good, energy, time = tree_cost(search.work, search.trial)
        if not good:
            continue
        found += 1
        assert energy >= bound.energy_pj * (1 - 1e-9) and time >= bound.time * (1 - 1e-9), (seed, rules)
        assert energy * time >= bound.edp * (1 - 1e-9), (seed, rules)
        value = share * np.log(max(energy, 1e-9)) + (1 - share) * np.log(max(time, 1.0))
        if value <= least or rng.random() < 0.1:
            least = value
            moves.copy_tokens(search.trial, current)
    return found


def test_random_trees_are_above_the_bound() -> None:
    assert sum(trees_above_the_bound(seed, 50) for seed in range(12)) > 60


@pytest.mark.slow("oracle")
def test_many_random_trees_are_above_the_bound() -> None:
    assert sum(trees_above_the_bound(seed, 250) for seed in range(1000, 3500)) > 80_000
