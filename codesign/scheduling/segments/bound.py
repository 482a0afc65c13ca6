"""What no tree of segments of a network on a system can beat (docs/explanation/many-cores.md, rules M61 to M70)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import final

import numpy as np

from codesign.core.kernel_library import FloatArray
from codesign.scheduling.segments.evaluate import Evaluator
from codesign.scheduling.segments.kernels import bound_parts
from codesign.scheduling.segments.kernels.machine import LANE_PJ, Caches, Problem
from codesign.scheduling.segments.kinds_bound import kinds_lines
from codesign.scheduling.segments.layers import LayerKind, SegmentNetwork
from codesign.scheduling.segments.needed_words import (
    NeededWords,
    Prices,
    needed_words,
    port_cycles,
    prices_of,
    spread_of,
    words_of_channel,
)
from codesign.scheduling.segments.search import make_caches, problem_arrays

PRICES = np.logspace(-1.5, 1.5, 48)
"""Prices of time tried, of that at which energy and time count alike; each gives a line that no tree is below."""

SHARES = tuple(
    (cores, path) for cores in (1.0, 0.9, 0.75, 0.5, 0.0) for path in (0.0, 0.25, 0.5, 1.0) if cores or not path
)
"""Shares of a price that the time of cores has, the rest being the DRAM's; and the share of it that is along paths (rule M69)."""

FAVOUR = 4
"""Power of what lies behind a layer by which a path divides among those that read a layer."""


@final
@dataclass(frozen=True)
class SegmentBound:
    """A bound over all trees.

    Attributes:
        edp: No tree has less energy x time.
        energy_pj: No tree has less energy.
        time: No tree takes less time.
        dram_words: That must cross the DRAM interface.
    """

    edp: float
    energy_pj: float
    time: float
    dram_words: int

    def gap(self, edp: float) -> float:
        """(value - bound) / bound of a tree's energy x time; infinite over a bound of 0, which truncated times can have."""
        if self.edp == 0.0:
            return inf if edp else 0.0
        return edp / self.edp - 1.0


@final
@dataclass(frozen=True)
class Front:
    """The best options of layers that are alike.

    Attributes:
        options: Energy, core time and idle time, n x 3.
        alone: Energy and core time where a layer is a segment by itself and pays for no serial lanes, n x 2.
        paths: Share that each path has in the layer.
        layers: How many there are.
    """

    options: FloatArray
    alone: FloatArray
    paths: tuple[float, ...]
    layers: int


@final
@dataclass(frozen=True)
class Pricing:
    """Ways to price a unit of time, each a row.

    Attributes:
        price: Of time.
        cores: Share of it that core time and idle time have; the rest is the DRAM's.
        path: Share of the time of cores that one path has.
        which: Number of that path.
    """

    price: FloatArray
    cores: FloatArray
    path: FloatArray
    which: FloatArray

    @staticmethod
    def of(prices: FloatArray, paths: int) -> "Pricing":
        """All ways to divide some prices."""
        shares = [(c, p, w) for c, p in SHARES for w in range(paths if p else 1)]
        divided = np.array(shares).T
        each = len(shares)
        return Pricing(np.repeat(prices, each), *(np.tile(column, len(prices)) for column in divided))


def path_shares(network: SegmentNetwork, work: Sequence[float]) -> list[tuple[float, ...]]:
    """Shares of each layer in two mixtures of paths from producers to readers, layers x 2 (rule M69).

    The first is the path of most work. The second divides where a layer has several readers, in favour of more work behind them.

    Args:
        network: The layers.
        work: Of each layer.
    """
    readers: list[list[int]] = [[] for _ in network.layers]
    sources = []
    for i, layer in enumerate(network.layers):
        producers = {*layer.inputs, *layer.weight_inputs}
        for producer in producers:
            readers[producer].append(i)
        if not producers:
            sources.append(i)
    behind = np.array(work, dtype=np.float64)
    for i in range(len(readers) - 1, -1, -1):
        behind[i] += max((behind[reader] for reader in readers[i]), default=0.0)
    shares = np.zeros((len(readers), 2))
    for i in range(-1, len(readers)):
        given = np.ones(2) if i < 0 else shares[i]
        after = sources if i < 0 else readers[i]
        if not after or not given.any():
            continue
        weights = behind[after] / max(float(behind[after].max()), 1e-300)
        weights = weights**FAVOUR if weights.sum() > 0.0 else np.ones(len(after))
        shares[after[int(np.argmax(behind[after]))], 0] += given[0]
        shares[after, 1] += given[1] * weights / weights.sum()
    return [tuple(float(share) for share in row) for row in shares.round(12)]


def _front_of(problem: Problem, caches: Caches, layer: int, spread: bound_parts.Spread) -> FloatArray:
    """Energy, core time and idle time of a layer's best options, n x 3; where no core holds its tiles, of tiles of any size."""
    room = np.zeros((len(problem.batches) * len(problem.parts), 3))
    endless = problem._replace(limits=np.array([[2**62, 0]], np.int64))
    for limited in (problem, endless):
        n = bound_parts.layer_options(limited, caches, layer, spread, room)
        if n:
            found = room[:n][np.lexsort((room[:n, 2], room[:n, 1], room[:n, 0]))]
            return found[: bound_parts.keep_best(found, n)].copy()
    return np.full((1, 3), np.inf)


def _alone_pj(problem: Problem, evaluator: Evaluator, number: int, readers: bool) -> float:
    """Energy of DRAM words that a layer moves besides those counted elsewhere when it is a segment by itself, at least."""
    layer, batch, memories = evaluator.network.layers[number], int(problem.batches[-1]), evaluator.system.memories
    lost = evaluator.system.cores * (len(memories.ports) - 1)
    channels = sum(evaluator.network.layers[p].K for p in layer.inputs)
    if layer.kind in (LayerKind.POOL, LayerKind.PTP):
        channels = min(channels, layer.K)
    words = max(0, words_of_channel(problem, number, layer) * channels - lost * len(layer.inputs))
    words += max(0, layer.K * layer.H * layer.W - lost) if readers else 0
    return float(words * batch * memories.pj_per_word)


def _fronts_of(evaluator: Evaluator, problem: Problem, needed: NeededWords, prices: Prices) -> list[Front]:
    """Fronts of all layers; those of equal ones once, with how many there are."""
    network, caches, lanes = evaluator.network, make_caches(problem), problem.prices[LANE_PJ] > 0.0
    known: dict[tuple[object, ...], FloatArray] = {}
    options, alike = [], []
    for layer in range(len(problem.table)):
        spread = spread_of(evaluator, needed, prices, layer)
        key = (problem.table[layer].tobytes(), *spread[:6])
        if key not in known:
            known[key] = _front_of(problem, caches, layer, spread)
        options.append(known[key])
        alike.append(key)
    paths = path_shares(network, [min(1e300, float(front[:, 1].min())) for front in options])
    if all(share == (1.0, 1.0) for share in paths):
        paths = [share[:1] for share in paths]
    read = {p for layer in network.layers for p in (*layer.inputs, *layer.weight_inputs)}
    found: dict[tuple[object, ...], Front] = {}
    for i, (front, key) in enumerate(zip(options, alike, strict=True)):
        alone = np.zeros((0, 2))
        if lanes:
            alone = front[front[:, 2] == 0.0, :2] + np.array([_alone_pj(problem, evaluator, i, i in read), 0.0])
        whole = (*key, paths[i], alone[:1].tobytes())
        layers = found[whole].layers if whole in found else 0
        found[whole] = Front(front, alone, paths[i], layers + 1)
    return list(found.values())


def least_totals(fronts: list[Front], ways: Pricing, moving: float, lane_pj: float) -> FloatArray:
    """The least energy + price x time for every way to price time, energy that every tree spends apart (rules M64, M69).

    Args:
        fronts: Of all layers.
        ways: How time is priced.
        moving: Time that the DRAM needs.
        lane_pj: Energy of all serial lanes in a unit of time.
    """
    totals = ways.price * (1.0 - ways.cores) * moving
    of_cores = ways.price * ways.cores
    for front in fronts:
        share = np.array(front.paths)[ways.which.astype(np.int64)] * ways.path
        busy = 1.0 - ways.path + share
        energy, core, idle = front.options.T[:, :, None]
        price = of_cores + lane_pj
        least = (energy + core * (price * busy) + idle * (price * share)).min(axis=0)
        if len(front.alone):
            alone = front.alone[:, :1] + front.alone[:, 1:] * (of_cores * busy)
            least = np.minimum(least, alone.min(axis=0))
        totals = totals + front.layers * least
    return totals


def bound_of(evaluator: Evaluator, batch: int) -> SegmentBound:
    """The bound of a network on a system for a whole batch (rule M64).

    For any price m of time, energy + m time is at least the sum over layers of the least of each. Time is at least the core time
    of all layers over all cores, that of any path with what its layers leave idle, and the DRAM's; any mean of them counts. No
    point above all these lines has a lesser product.
    """
    problem = problem_arrays(evaluator, batch, 0.0)
    prices, system = prices_of(evaluator, problem), evaluator.system
    needed = needed_words(problem, evaluator, prices)
    fixed = needed.moved * system.memories.pj_per_word + needed.carried_pj
    moving = needed.moved / (system.memories.words_per_cycle_each * len(system.memories.ports))
    moving = max(moving, port_cycles(evaluator, needed))
    if system.clock_ghz != 1:  # times of segments are truncated
        moving = max(0.0, moving / system.clock_ghz - len(problem.table) * batch)
    if evaluator.kinds > 1:
        energy, least_time, lines = kinds_lines(problem, evaluator, fixed, moving)
        return SegmentBound(least_product(lines, energy, least_time), energy, least_time, needed.moved)
    fronts = _fronts_of(evaluator, problem, needed, prices)
    if any(np.isinf(front.options).any() for front in fronts):  # no core can do some layer
        return SegmentBound(inf, inf, inf, needed.moved)
    paths, lane_pj = len(fronts[0].paths), float(problem.prices[LANE_PJ])
    energy = fixed + float(least_totals(fronts, Pricing.of(np.zeros(1), paths), moving, lane_pj).max())
    least_time = _least_time(fronts, paths, moving)
    around = energy / max(least_time, 1e-9)
    totals = fixed + least_totals(fronts, Pricing.of(around * PRICES, paths), moving, lane_pj)
    lines = np.stack([around * PRICES, totals.reshape(len(PRICES), -1).max(axis=1)], axis=1)
    return SegmentBound(least_product(lines, energy, least_time), energy, least_time, needed.moved)


def _least_time(fronts: list[Front], paths: int, moving: float) -> float:
    """The least time of any tree: options at no price for energy."""
    free = [
        Front(front.options * np.array([0.0, 1.0, 1.0]), np.zeros((0, 2)), front.paths, front.layers)
        for front in fronts
    ]
    return float(least_totals(free, Pricing.of(np.ones(1), paths), moving, 0.0).max())


def least_product(lines: FloatArray, least_energy: float, least_time: float) -> float:
    """The least energy x time above all lines ``energy + m time = c`` and both limits.

    The least energy at a time is convex and linear in pieces, so that the product is least at a kink.

    Args:
        lines: m and c of each, n x 2.
        least_energy: No point has less.
        least_time: No point has less.
    """
    prices, totals = np.append(lines[:, 0], 0.0), np.append(lines[:, 1], least_energy)
    i, j = np.triu_indices(len(prices), 1)
    apart = prices[i] - prices[j]
    meet = (totals[i] - totals[j])[apart != 0] / apart[apart != 0]
    times = np.append(meet[meet > least_time], least_time)
    energies = (totals[:, None] - prices[:, None] * times).max(axis=0)
    return float((energies * times).min())
